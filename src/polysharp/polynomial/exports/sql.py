"""The formula as a SQL expression over the columns of a table.

Only ``+ - *`` and parentheses are used, so that it runs where there is no POWER; functions of
inputs are those of standard SQL (LN, which SQL Server calls LOG).  Numbers are
written with an exponent, which standard SQL reads as floats and not as decimals.  NULL in a
column that the formula uses gives NULL.  A query can have two more columns, the ends of prediction
intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polysharp.errors import InputError
from polysharp.polynomial.exports.expression import (
    check_distinct,
    clamped,
    signed_terms,
    squares,
)

if TYPE_CHECKING:
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

CALLS = {
    "inverse": "(1.0e0 / {})",
    "square-root": "SQRT({})",
    "log": "LN({})",
    **{name: f"{name.upper()}({{}})" for name in ("exp", "sin", "cos")},
}
QUOTES = {'"': '"', "`": "`", "[": "]"}  # standard, MySQL, SQL Server: what opens, what closes


def to_sql(
    polynomial: Polynomial,
    table: str | None = None,
    quote: str = '"',
    interval: HalfWidth | None = None,
) -> str:
    """Return the expression, or with ``table`` the query that computes it for every row."""
    if interval is not None and table is None:
        raise InputError("interval must come with a table, whose query has a column for each end")
    if quote not in QUOTES:
        raise InputError(f"quote must be one of {', '.join(QUOTES)}, got {quote!r}")
    check_distinct(polynomial)
    variables = {i: _quoted(polynomial.names[i], quote) for i in polynomial.inputs}
    terms = signed_terms(polynomial, _clamping(polynomial, variables), _float, CALLS)
    if table is None:
        return " ".join(terms)
    body = "\n       ".join(terms)
    columns = [f"{body}\n    AS {_quoted(polynomial.response, quote)}"]
    if interval is not None:
        for row in interval.rows[:1]:
            variables = _clamping(row, variables)
        inside = "\n       ".join(squares(interval, variables, _float, CALLS))
        half = f"{_float(interval.factor)} * SQRT({inside})"
        for sign, end in (("-", "lower"), ("+", "upper")):
            name = _quoted(f"{polynomial.response} {end}", quote)
            columns.append(f"{body}\n       {sign} {half}\n    AS {name}")
    listed = ",\n       ".join(columns)
    return f"SELECT {listed}\nFROM {_quoted(table, quote)}"


def _clamping(polynomial: Polynomial, variables: Mapping[int, str]) -> dict[int, str]:
    """Return the inputs, those that are clamped as expressions."""
    within = {
        name: f"CASE WHEN {name} < {_float(a)} THEN {_float(a)} WHEN {name} > {_float(b)} "
        f"THEN {_float(b)} ELSE {name} END"
        for name, a, b in clamped(polynomial, variables)
    }
    return {i: within.get(name, name) for i, name in variables.items()}


def _quoted(name: str, quote: str) -> str:
    """Quote a name; inside quotes only the closing one has a meaning, and doubled it has none."""
    if not name or "\0" in name:
        raise InputError(f"names must be neither empty nor hold a NUL for SQL, got {name!r}")
    closing = QUOTES[quote]
    return f"{quote}{name.replace(closing, closing * 2)}{closing}"


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"
