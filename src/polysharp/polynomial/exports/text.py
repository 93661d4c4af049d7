"""The formula as people read it, and the two steps that plain text and LaTeX share.

A formula is a left-hand side, signed numbers and products of powers; what a number and a power
look like is the target's business.  Orthogonal polynomials stand by their names, P2(x), and what
their inputs are mapped from stands behind the formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from polysharp.data.families import Family
from polysharp.data.functions import Applied
from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

PLAIN_NAME = re.compile(r"[^\W\d]\w*")


class Factor(NamedTuple):
    """A column of a term with its exponent, or an orthogonal polynomial of an input."""

    name: str  # of the input
    shift: float
    scale: float
    applied: Applied | None  # a function of it
    order: int
    family: Family


Power = Callable[[Factor], str]


def formula(polynomial: Polynomial, digits: int = 4) -> str:
    """Return the formula as text, coefficients with so many significant digits."""
    power = plain_power(digits)
    written = write(
        polynomial,
        number=lambda c: f"{c:.{digits}g}",
        term=lambda m: product(polynomial, m, power, " "),
        response=polynomial.response,
    )
    return ", ".join([written, *mapped(polynomial, digits)])


def mapped(polynomial: Polynomial, digits: int = 4) -> list[str]:
    """Say for every input of orthogonal polynomials what it is mapped from."""
    if not polynomial.family.orthogonal:
        return []
    factors = [_factor(polynomial, i, 1) for i in polynomial.inputs]
    more = max(digits, 6)
    return [polynomial.family.mapped(_quoted(f.name), f.shift, f.scale, more) for f in factors]


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
    return glue.join(power(_factor(polynomial, c, m.count(c))) for c in dict.fromkeys(m))


def _factor(polynomial: Polynomial, c: int, order: int) -> Factor:
    shifts, scales, p = polynomial.shifts, polynomial.scales, len(polynomial.names)
    applied = polynomial.functions[c - p] if c >= p else None
    i = c if applied is None else applied.input
    shift = 0.0 if shifts is None or applied is not None else float(shifts[i])
    scale = 1.0 if scales is None else float(scales[i])
    return Factor(polynomial.names[i], shift, scale, applied, order, polynomial.family)


def plain_power(digits: int = 4) -> Power:
    """Return the way text shows a power; shifts get at least six digits."""

    def power(factor: Factor) -> str:
        base, shift, applied = _quoted(factor.name), factor.shift, factor.applied
        if shift and not factor.family.orthogonal:
            base = f"({base} {'-' if shift > 0 else '+'} {abs(shift):.{max(digits, 6)}g})"
        return factor.family.written(
            base if applied is None else applied.written(base), factor.order
        )

    return power


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
