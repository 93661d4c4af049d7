r"""The formula for readers: plain text, and LaTeX for papers, MathJax and KaTeX.

A formula is a left-hand side, signed numbers and products of powers; plain text, LaTeX, HTML and
code write numbers and powers differently.  LaTeX names stand in ``\mathrm`` with every character
that TeX interprets replaced, so that TeX prints a column called ``\input{x}`` and does not execute
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from polysharp.data.functions import INVERSE, Applied, power_of
from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

PLAIN_NAME = re.compile(r"[^\W\d]\w*")
SPECIAL = {
    "\\": r"\backslash{}",
    "^": r"\hat{\ }",
    "~": r"\sim{}",
    **{ch: f"\\{ch}" for ch in "_%&#${}"},
}
LATEX_CALLS = {
    "square-root": r"\sqrt{{{}}}",
    "log": r"\ln({})",
    **{name: rf"\{name}({{}})" for name in ("exp", "sin", "cos")},
}


class Factor(NamedTuple):
    """A power of a column of a term: of an input less its shift, or of a function of an input."""

    name: str  # of the input
    shift: float
    applied: Applied | None  # the function, None for the input itself
    exponent: int


Power = Callable[[Factor], str]


def formula(polynomial: Polynomial, digits: int = 4) -> str:
    """Return the formula as text; ``digits`` are the significant digits of coefficients."""
    power = _plain_power(digits)
    terms = signed(
        polynomial, lambda c: f"{c:.{digits}g}", lambda m: powers(polynomial, m, power), " "
    )
    return f"{polynomial.response} = {' '.join(map(''.join, terms))}"


def names_of(polynomial: Polynomial, monomials: Iterable[Monomial]) -> tuple[str, ...]:
    """Return the names of any terms in the same inputs, as this formula would show them.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import Polynomial
    >>> Polynomial((), np.zeros(0), 0.0, ("a", "b")).names_of([(0, 0), (0, 1)])
    ('a^2', 'a b')
    """
    return tuple(" ".join(powers(polynomial, m, _plain_power())) or "1" for m in monomials)


def signed(
    polynomial: Polynomial,
    number: Callable[[float], str],
    factors: Callable[[Monomial], Iterable[str]],
    glue: str,
    *,
    zero: bool = False,
) -> list[tuple[str, str]]:
    """Return sign and text of every term, ``[("", "2"), ("+ ", "3 x"), ("- ", "4 x^2")]``.

    An intercept of 0 is written with ``zero``, or if there are no terms.
    """
    constant = zero or polynomial.intercept != 0.0 or not polynomial.monomials
    sizes = [polynomial.intercept] * constant + polynomial.coefficients.tolist()
    products = [()] * constant + [tuple(factors(m)) for m in polynomial.monomials]
    signs = ["- " if c < 0 else "+ " for c in sizes]
    signs[0] = signs[0].strip("+ ")
    return [
        (sign, glue.join([number(abs(c)), *product]))
        for sign, c, product in zip(signs, sizes, products, strict=True)
    ]


def powers(polynomial: Polynomial, m: Monomial, power: Power) -> list[str]:
    """Return the powers of one monomial, each column once."""
    names, found = polynomial.names, []
    for c in dict.fromkeys(m):
        applied = polynomial.functions[c - len(names)] if c >= len(names) else None
        name = names[c if applied is None else applied.input]
        found.append(power(Factor(name, polynomial.shift(c), applied, m.count(c))))
    return found


def _plain_power(digits: int = 4) -> Power:
    """Return the function that writes a power as text; shifts get at least six digits."""

    def power(factor: Factor) -> str:
        name, applied = factor.name, factor.applied
        quoted = name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
        base = _shifted(quoted, factor.shift, digits)
        return power_of(base if applied is None else applied.written(base), factor.exponent)

    return power


def to_latex(polynomial: Polynomial, digits: int = 4, *, wrap: int | None = None) -> str:
    r"""Return the formula in LaTeX; ``wrap`` breaks it into lines of that number of terms.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import Polynomial
    >>> Polynomial(((0, 0),), np.array([2.0]), 1e-6, ("x0",)).to_latex()
    '\\mathrm{y} = 1 \\times 10^{-6} + 2\\, \\mathrm{x0}^{2}'
    """

    def number(c: float) -> str:
        mantissa, _, exponent = f"{c:.{digits}g}".partition("e")
        return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else mantissa

    def power(factor: Factor) -> str:
        base = _shifted(_latex_name(factor.name), factor.shift, digits)
        applied, exponent = factor.applied, factor.exponent
        if applied is not None and applied.function.name == INVERSE:
            exponent = -exponent
        elif applied is not None:
            name = applied.function.name
            own = rf"\operatorname{{{_escaped(name)}}}({base})"
            base = LATEX_CALLS[name].format(base) if name in LATEX_CALLS else own
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    response = _latex_name(polynomial.response)
    signs = signed(polynomial, number, lambda m: powers(polynomial, m, power), r"\, ")
    terms = list(map("".join, signs))
    if wrap is None or len(polynomial) <= wrap:
        return f"{response} = {' '.join(terms)}"
    lines = [" ".join(terms[a : a + wrap]) for a in range(0, len(terms), wrap)]
    body = r" \\ & {} ".join(lines)
    return rf"\begin{{aligned}} {response} = {{}} & {body} \end{{aligned}}"


def _shifted(base: str, shift: float, digits: int) -> str:
    if not shift:
        return base
    return f"({base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g})"


def _escaped(name: str) -> str:
    return "".join(SPECIAL.get(ch, ch) for ch in name)


def _latex_name(name: str) -> str:
    # Blanks vanish in mathematics, and an empty line would end it.
    text = re.sub(r"\s", r"\\ ", _escaped(name))
    return rf"\mathrm{{{text}}}"
