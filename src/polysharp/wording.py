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
    """Write a number that is proved as a lower bound: never more than is proved.

    Examples
    --------
    >>> rounded_down(36.16988), rounded_down(0.25)
    ('36.1698', '0.25')
    """
    down = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal_from_float(value)
    return f"{float(down):.{digits}g}"


def rounded_up(value: float, decimals: int | None = None) -> str:
    """Write a number that is proved as an upper bound: never less than is proved.

    Examples
    --------
    >>> rounded_up(0.81234), rounded_up(0.25), rounded_up(0.99991234)
    ('0.8124', '0.2500', '0.999913')
    """
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
    """Write a lower bound for reading.

    Examples
    --------
    >>> number(36.16988), at_most(36.16988), at_most(0.25)
    ('36.1699', '36.1698', '0.25')
    """
    return rounded_down(value, digits).replace("-", MINUS)


def share(value: float, decimals: int = 1) -> str:
    """Write a share in percent."""
    return f"{100.0 * float(value):.{decimals}f}{NBSP}%"


def percent(share: float) -> str:
    r"""Write a share in percent, two digits, rounded up in size.

    Examples
    --------
    >>> percent(0.03141), percent(0.0), percent(1e-9), percent(0.5)
    ('3.2\xa0%', '0\xa0%', '<\xa00.0001\xa0%', '50\xa0%')
    """
    value = 100.0 * share
    if value <= 0.0:
        return f"0{NBSP}%"
    if value < 1e-4:
        return f"<{NBSP}0.0001{NBSP}%"
    unit = 10.0 ** (floor(log10(value)) - 1)
    # A round number stays itself: its last bit must not lift it to the next one.
    return f"{ceil(value / unit - 1e-9) * unit:.12g}{NBSP}%"


def r_squared(value: float | None) -> str:
    """Write R^2 with as many digits as tell it from 1, rounded down.

    Examples
    --------
    >>> r_squared(0.87654), r_squared(0.999871), r_squared(None)
    ('0.8765', '0.99987', '\N{EN DASH}')
    """
    if value is None:
        return DASH
    digits = 4 if value < 0.999 or value >= 1.0 else min(6, 1 + ceil(-log10(1.0 - value) - 1e-9))
    return f"{floor(value * 10**digits) / 10**digits:.{digits}f}".replace("-", MINUS)
