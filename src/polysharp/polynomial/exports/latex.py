r"""The formula in LaTeX mathematics, for papers and for MathJax and KaTeX.

Names stand in ``\mathrm`` with every character that TeX would act on replaced, so that a column
called ``\input{x}`` is shown and not obeyed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from polysharp.data.functions import INVERSE
from polysharp.polynomial.exports.text import Factor, product, signed, write
from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

SPECIAL = {
    "\\": r"\backslash{}",
    "^": r"\hat{\ }",
    "~": r"\sim{}",
    **{ch: f"\\{ch}" for ch in "_%&#${}"},
}


CALLS = {
    "square-root": r"\sqrt{{{}}}",
    "log": r"\ln({})",
    **{name: rf"\{name}({{}})" for name in ("exp", "sin", "cos")},
}


def to_latex(polynomial: Polynomial, digits: int = 4, *, wrap: int | None = None) -> str:
    """Return the formula, coefficients with so many significant digits.

    With ``wrap`` it is broken into lines of so many terms.
    """

    def number(c: float) -> str:
        mantissa, _, exponent = f"{c:.{digits}g}".partition("e")
        return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else mantissa

    def power(factor: Factor) -> str:
        base, shift, applied, exponent = (
            _name(factor.name),
            factor.shift,
            factor.applied,
            factor.order,
        )
        if shift:
            base = rf"{base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g}"
        if factor.family.orthogonal:
            within = rf"\tfrac{{{base}}}{{{factor.scale:.{max(digits, 6)}g}}}"
            return rf"\mathit{{{factor.family.letter}}}_{{{exponent}}}\bigl({within}\bigr)"
        base = f"({base})" if shift else base
        if applied is not None and applied.function.name == INVERSE:
            exponent = -exponent
        elif applied is not None:
            base = CALLS.get(applied.function.name, _operator(applied.function.name)).format(base)
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    def term(m: Monomial) -> str:
        return (r"\, " if m else "") + product(polynomial, m, power, r"\, ")

    response = _name(polynomial.response)
    if wrap is None or len(polynomial) <= wrap:
        return write(polynomial, number, term, response, glue="")
    pieces = [f"{sign} {text}" for sign, text in signed(polynomial, number, term, glue="")]
    pieces[0] = pieces[0].removeprefix("+ ")
    lines = [" ".join(pieces[a : a + wrap]) for a in range(0, len(pieces), wrap)]
    body = r" \\ & {} ".join(lines)
    return rf"\begin{{aligned}} {response} = {{}} & {body} \end{{aligned}}"


def _operator(name: str) -> str:
    text = "".join(SPECIAL.get(ch, ch) for ch in name).replace("{", "{{").replace("}", "}}")
    return rf"\operatorname{{{{{text}}}}}({{}})"


def _name(name: str) -> str:
    text = "".join(SPECIAL.get(ch, ch) for ch in name)
    # Blanks vanish in mathematics, and an empty line would end it.
    text = re.sub(r"\s", r"\\ ", text)
    return rf"\mathrm{{{text}}}"
