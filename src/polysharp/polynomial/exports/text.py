r"""The formula for readers: plain text, and LaTeX for papers, MathJax and KaTeX.

A formula is a left-hand side, signed numbers and products of powers; plain text and LaTeX write
numbers and powers differently.  LaTeX names stand in ``\mathrm`` with every character that TeX
interprets replaced, so that TeX prints a column called ``\input{x}`` and does not execute it.
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
CALLS = {
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
    power = plain_power(digits)
    terms = signed(
        polynomial, lambda c: f"{c:.{digits}g}", lambda m: product(polynomial, m, power, " ")
    )
    return f"{polynomial.response} = {_joined(terms)}"


def names_of(polynomial: Polynomial, monomials: Iterable[Monomial]) -> tuple[str, ...]:
    """Return the names of any terms in the same inputs, as this formula would show them.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import Polynomial
    >>> Polynomial((), np.zeros(0), 0.0, ("a", "b")).names_of([(0, 0), (0, 1)])
    ('a^2', 'a b')
    """
    power = plain_power()
    return tuple(product(polynomial, m, power, " ") or "1" for m in monomials)


def signed(
    polynomial: Polynomial,
    number: Callable[[float], str],
    term: Callable[[Monomial], str],
    glue: str = " ",
) -> list[tuple[str, str]]:
    """Return sign and text of every term, a nonzero intercept first."""
    parts: list[tuple[float, str]] = []
    if polynomial.intercept != 0.0 or not polynomial.monomials:
        parts.append((polynomial.intercept, number(abs(polynomial.intercept))))
    for m, c in zip(polynomial.monomials, polynomial.coefficients.tolist(), strict=True):
        parts.append((c, (number(abs(c)) + glue + term(m)).rstrip()))
    return [("-" if c < 0 else "+", text) for c, text in parts]


def product(polynomial: Polynomial, m: Monomial, power: Power, glue: str) -> str:
    """Return the powers of one monomial, each column once."""
    return glue.join(power(_factor(polynomial, c, m.count(c))) for c in dict.fromkeys(m))


def _factor(polynomial: Polynomial, c: int, exponent: int) -> Factor:
    names = polynomial.names
    if c < len(names):
        return Factor(names[c], polynomial.shift(c), None, exponent)
    applied = polynomial.functions[c - len(names)]
    return Factor(names[applied.input], 0.0, applied, exponent)


def plain_power(digits: int = 4) -> Power:
    """Return the function that writes a power as text; shifts get at least six digits."""

    def power(factor: Factor) -> str:
        base, applied = _shifted(_quoted(factor.name), factor.shift, digits), factor.applied
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
            own = rf"\operatorname{{{_escaped(applied.function.name)}}}({base})"
            call = CALLS.get(applied.function.name)
            base = own if call is None else call.format(base)
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    def term(m: Monomial) -> str:
        return (r"\, " if m else "") + product(polynomial, m, power, r"\, ")

    response, terms = _latex_name(polynomial.response), signed(polynomial, number, term, glue="")
    if wrap is None or len(polynomial) <= wrap:
        return f"{response} = {_joined(terms)}"
    pieces = [f"{sign} {text}" for sign, text in terms]
    pieces[0] = pieces[0].removeprefix("+ ")
    lines = [" ".join(pieces[a : a + wrap]) for a in range(0, len(pieces), wrap)]
    body = r" \\ & {} ".join(lines)
    return rf"\begin{{aligned}} {response} = {{}} & {body} \end{{aligned}}"


def _joined(terms: list[tuple[str, str]]) -> str:
    (sign, first), *others = terms
    return f"{sign if sign == '-' else ''}{first}" + "".join(f" {s} {text}" for s, text in others)


def _shifted(base: str, shift: float, digits: int) -> str:
    if not shift:
        return base
    return f"({base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g})"


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else f"`{name}`"


def _escaped(name: str) -> str:
    return "".join(SPECIAL.get(ch, ch) for ch in name)


def _latex_name(name: str) -> str:
    # Blanks vanish in mathematics, and an empty line would end it.
    text = re.sub(r"\s", r"\\ ", _escaped(name))
    return rf"\mathrm{{{text}}}"
