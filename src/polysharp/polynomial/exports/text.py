"""The formula as people read it, and the two steps that plain text and LaTeX share.

A formula is a left-hand side, signed numbers and products of powers; what a number and a power
look like is the target's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

PLAIN_NAME = re.compile(r"[^\W\d]\w*")

Power = Callable[[str, float, int], str]  # of a name, its shift and an exponent


def formula(polynomial: Polynomial, digits: int = 4) -> str:
    """Return the formula as text, coefficients with so many significant digits."""
    power = plain_power(digits)
    return write(
        polynomial,
        number=lambda c: f"{c:.{digits}g}",
        term=lambda m: product(polynomial, m, power, " "),
        response=polynomial.response,
    )


def term_names(polynomial: Polynomial) -> tuple[str, ...]:
    """Return the readable name of every term, as the formula shows it."""
    power = plain_power()
    return tuple(product(polynomial, m, power, " ") or "1" for m in polynomial.monomials)


def write(
    polynomial: Polynomial,
    number: Callable[[float], str],
    term: Callable[[Monomial], str],
    response: str,
    glue: str = " ",
) -> str:
    """Join response, signs and terms."""
    (sign, first), *others = signed(polynomial, number, term, glue)
    rest = "".join(f" {sign} {text}" for sign, text in others)
    return f"{response} = {sign if sign == '-' else ''}{first}{rest}"


def signed(
    polynomial: Polynomial,
    number: Callable[[float], str],
    term: Callable[[Monomial], str],
    glue: str = " ",
) -> list[tuple[str, str]]:
    """Return sign and text of every term; the intercept stands first, unless it is zero."""
    parts: list[tuple[float, str]] = []
    if polynomial.intercept != 0.0 or not polynomial.monomials:
        parts.append((polynomial.intercept, number(abs(polynomial.intercept))))
    for m, c in zip(polynomial.monomials, polynomial.coefficients.tolist(), strict=True):
        parts.append((c, (number(abs(c)) + glue + term(m)).rstrip()))
    return [("-" if c < 0 else "+", text) for c, text in parts]


def product(polynomial: Polynomial, m: Monomial, power: Power, glue: str) -> str:
    """Return the powers of one monomial, each input once."""
    shifts = polynomial.shifts
    return glue.join(
        power(polynomial.names[i], 0.0 if shifts is None else float(shifts[i]), m.count(i))
        for i in dict.fromkeys(m)
    )


def plain_power(digits: int = 4) -> Power:
    """Return the way text shows a power; shifts get at least six digits."""

    def power(name: str, shift: float, exponent: int) -> str:
        base = name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
        if shift:
            base = f"({base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g})"
        return base if exponent == 1 else f"{base}^{exponent}"

    return power
