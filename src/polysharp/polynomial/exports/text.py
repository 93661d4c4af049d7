"""The formula as people read it, and the two steps that plain text and LaTeX share.

A formula is a left-hand side, signed numbers and products of powers; what a number and a power
look like is the target's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from polysharp.data.functions import Applied
from polysharp.monomials.terms import write_power
from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

PLAIN_NAME = re.compile(r"[^\W\d]\w*")

# Of a name, its shift, a function of it (or None) and an exponent.
Power = Callable[[str, float, Applied | None, int], str]


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
    """Return the powers of one monomial, each column once."""
    shifts, names = polynomial.shifts, polynomial.names
    powers = []
    for c in dict.fromkeys(m):
        applied = polynomial.functions[c - len(names)] if c >= len(names) else None
        i = c if applied is None else applied.input
        shift = 0.0 if shifts is None or applied is not None else float(shifts[i])
        powers.append(power(names[i], shift, applied, m.count(c)))
    return glue.join(powers)


def plain_power(digits: int = 4) -> Power:
    """Return the way text shows a power; shifts get at least six digits."""

    def power(name: str, shift: float, applied: Applied | None, exponent: int) -> str:
        base = name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
        if shift:
            base = f"({base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g})"
        return write_power(base if applied is None else applied.written(base), exponent)

    return power
