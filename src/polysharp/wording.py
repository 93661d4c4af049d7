"""Numbers as text, rounded so that no sentence says more than is proved.

Lower bounds are rounded down, upper bounds and gaps up.  Texts for pages (``number``, ``share``,
``percent``, ``r_squared``) have a true minus sign and blanks that do not break.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context
from math import ceil, floor, log10

DASH, MINUS, NBSP = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rounded_down(value: float, digits: int = 6) -> str:
    """Write a number that is proved as a lower bound: never more than is proved."""
    down = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal_from_float(value)
    return f"{float(down):.{digits}g}"


def rounded_up(value: float, decimals: int | None = None) -> str:
    """Write a number that is proved as an upper bound: never less than is proved."""
    decimals = r2_decimals(value) if decimals is None else decimals
    unit = 10.0**decimals
    return f"{ceil(value * unit) / unit:.{decimals}f}"


def r2_decimals(r2: float) -> int:
    """Return how many decimals of an R2 tell something."""
    return 4 if r2 < 0.999 else 6


def number(value: float, digits: int = 6) -> str:
    """Write a number for reading."""
    return f"{value:.{digits}g}".replace("-", MINUS)


def plus_minus(value: float, error: float) -> str:
    """Write a number with its standard error."""
    return f"{number(value, 4)} \N{PLUS-MINUS SIGN} {number(error, 2)}"


def at_most(value: float, digits: int = 6) -> str:
    """Write a lower bound for reading."""
    return rounded_down(value, digits).replace("-", MINUS)


def share(value: float, decimals: int = 1) -> str:
    """Write a share in percent."""
    return f"{100.0 * float(value):.{decimals}f}{NBSP}%"


def percent(share: float) -> str:
    """Write a share in percent, two digits, rounded up in size."""
    value = 100.0 * share
    if value <= 0.0:
        return f"0{NBSP}%"
    if value < 1e-4:
        return f"<{NBSP}0.0001{NBSP}%"
    unit = 10.0 ** (floor(log10(value)) - 1)
    # A round number stays itself: its last bit must not lift it to the next one.
    return f"{ceil(value / unit - 1e-9) * unit:.12g}{NBSP}%"


def r_squared(value: float | None) -> str:
    """Write R^2 with as many digits as tell it from 1, rounded down."""
    if value is None:
        return DASH
    digits = 4 if value < 0.999 or value >= 1.0 else min(6, 1 + ceil(-log10(1.0 - value) - 1e-9))
    return f"{floor(value * 10**digits) / 10**digits:.{digits}f}".replace("-", MINUS)
