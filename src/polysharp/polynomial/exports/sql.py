"""The formula as a SQL expression over the columns of a table.

Only ``+ - *`` and parentheses are used, so that it runs where there is no POWER; functions of
inputs are those of standard SQL (LN, which SQL Server calls LOG).  Numbers are
written with an exponent, which standard SQL reads as floats and not as decimals.  NULL in a
column that the formula uses gives NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polysharp.errors import InputError
from polysharp.polynomial.exports.expression import check_distinct, clamped, signed_terms

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

CALLS = {
    "inverse": "(1.0e0 / {})",
    "square-root": "SQRT({})",
    "log": "LN({})",
    **{name: f"{name.upper()}({{}})" for name in ("exp", "sin", "cos")},
}
QUOTES = {'"': '"', "`": "`", "[": "]"}  # standard, MySQL, SQL Server: what opens, what closes


def to_sql(polynomial: Polynomial, table: str | None = None, quote: str = '"') -> str:
    """Return the expression, or with ``table`` the query that computes it for every row."""
    if quote not in QUOTES:
        raise InputError(f"quote must be one of {', '.join(QUOTES)}, got {quote!r}")
    check_distinct(polynomial)
    variables = {i: _quoted(polynomial.names[i], quote) for i in polynomial.inputs}
    within = {
        name: f"CASE WHEN {name} < {_float(a)} THEN {_float(a)} WHEN {name} > {_float(b)} "
        f"THEN {_float(b)} ELSE {name} END"
        for name, a, b in clamped(polynomial, variables)
    }
    variables = {i: within.get(name, name) for i, name in variables.items()}
    terms = signed_terms(polynomial, variables, _float, CALLS)
    if table is None:
        return " ".join(terms)
    response = _quoted(polynomial.response, quote)
    body = "\n       ".join(terms)
    return f"SELECT {body}\n    AS {response}\nFROM {_quoted(table, quote)}"


def _quoted(name: str, quote: str) -> str:
    """Quote a name; inside quotes only the closing one has a meaning, and doubled it has none."""
    if not name or "\0" in name:
        raise InputError(f"names must be neither empty nor hold a NUL for SQL, got {name!r}")
    closing = QUOTES[quote]
    return f"{quote}{name.replace(closing, closing * 2)}{closing}"


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"
