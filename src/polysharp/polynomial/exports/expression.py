"""A polynomial as an expression in any language that has ``+ - * ( )``, and names for it.

Terms begin with their coefficient, so that columns of integers are turned into floats by the
first product and no power of an integer can overflow.  An orthogonal polynomial is written out in
powers of its argument, one factor in parentheses.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.data.functions import Applied
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

Number = Callable[[float], str]


def signed_terms(
    polynomial: Polynomial,
    variables: Mapping[int, str],
    number: Number = repr,
    calls: Mapping[str, str] | None = None,
) -> list[str]:
    """Return ``["0.5", "+ 2.0 * x0 * x0", ...]``, to be joined by blanks or line breaks.

    ``variables`` holds the name of every input in use, as the language writes it, and ``calls``
    how it writes functions of them, with {} for the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import Polynomial
    >>> law = Polynomial(((0, 0), (1,)), np.array([2.0, -3.0]), 0.5, ("a", "b"))
    >>> signed_terms(law, {0: "x0", 1: "x1"})
    ['0.5', '+ 2.0 * x0 * x0', '- 3.0 * x1']
    """
    check_finite(polynomial)
    factors = {i: _shifted(polynomial, i, name, number) for i, name in variables.items()}
    for c, applied in used_functions(polynomial).items():
        call = (calls or {}).get(applied.function.name)
        if call is None:
            raise InputError(
                f"functions must be known to be exported, got {applied.function.name!r}"
            )
        factors[c] = call.format(variables[applied.input])
    first = number(abs(polynomial.intercept))
    terms = [f"-{first}" if polynomial.intercept < 0 else first]
    for m, c in zip(polynomial.monomials, polynomial.coefficients.tolist(), strict=True):
        powers = [_power(polynomial, factors[i], order, number) for i, order in Counter(m).items()]
        product = " * ".join([number(abs(c)), *powers])
        terms.append(f"{'-' if c < 0 else '+'} {product}")
    return terms


def squares(
    half: HalfWidth,
    variables: Mapping[int, str],
    number: Number = repr,
    calls: Mapping[str, str] | None = None,
) -> list[str]:
    """Return c and the squares of the rows of a half-width, as terms of a sum."""
    rows = [" ".join(signed_terms(row, variables, number, calls)) for row in half.rows]
    return [number(half.constant), *(f"+ ({row}) * ({row})" for row in rows)]


def used_functions(polynomial: Polynomial) -> dict[int, Applied]:
    """Return the functions of inputs that some term uses, by their columns."""
    columns, p = {c for m in polynomial.monomials for c in m}, len(polynomial.names)
    return {p + t: a for t, a in enumerate(polynomial.functions) if p + t in columns}


def _shifted(polynomial: Polynomial, i: int, name: str, number: Number) -> str:
    shift = 0.0 if polynomial.shifts is None else float(polynomial.shifts[i])
    if shift:
        name = f"({name} {'-' if shift > 0 else '+'} {number(abs(shift))})"
    if polynomial.scales is None:
        return name
    return f"({name} / {number(float(polynomial.scales[i]))})"


def _power(polynomial: Polynomial, base: str, order: int, number: Number) -> str:
    """Return a product of equal factors, or P_d of one by Horner's rule in its square."""
    if not polynomial.family.orthogonal or order == 1:
        return " * ".join([base] * order)
    first, *others = polynomial.family.coefficients(order)[::-2]  # of t^d, t^(d-2), ...
    text = number(first)
    for c in others:
        text = f"({text} * {base} * {base} {'-' if c < 0 else '+'} {number(abs(c))})"
    return f"{text} * {base}" if order % 2 else text


def check_finite(polynomial: Polynomial) -> None:
    """Refuse coefficients that no language can write down."""
    numbers = [polynomial.intercept, *polynomial.coefficients.tolist()]
    for mapping in (polynomial.shifts, polynomial.scales):
        numbers += [] if mapping is None else mapping.tolist()
    numbers += [] if polynomial.ranges is None else polynomial.ranges.ravel().tolist()
    for value in numbers:
        if not np.isfinite(value):
            raise InputError(f"coefficients and shifts must be finite to be exported, got {value}")


def check_distinct(polynomial: Polynomial) -> None:
    """Refuse names that would make two inputs one, where a target knows inputs by name."""
    seen: set[str] = set()
    for i in polynomial.inputs:
        name = polynomial.names[i]
        if name in seen:
            raise InputError(f"names must be distinct to be exported, got {name!r} twice")
        seen.add(name)


def identifiers(
    names: Iterable[str], reserved: Collection[str], *, ascii_only: bool = False
) -> list[str]:
    """Turn names into distinct identifiers that are none of the reserved words.

    What no identifier may hold becomes ``_``; a name that was taken gets a number.

    Examples
    --------
    >>> identifiers(["air gap", "air_gap", "2nd", "for"], {"for"})
    ['air_gap', 'air_gap_2', 'x_2nd', 'for_']
    """
    taken: set[str] = set(reserved)
    found = []
    for name in names:
        base = _identifier(name, ascii_only)
        if base in reserved:
            base += "_"
        candidate, number = base, 2
        while candidate in taken:
            candidate, number = f"{base}_{number}", number + 1
        taken.add(candidate)
        found.append(candidate)
    return found


def arguments(
    polynomial: Polynomial, name: str, reserved: Collection[str], *, ascii_only: bool = False
) -> dict[int, str]:
    """Return an argument for every input that the formula uses, for a function of that name."""
    if not (name.isascii() and name.isidentifier()) or name in reserved:
        raise InputError(f"name must be an ASCII identifier that is no keyword, got {name!r}")
    used = polynomial.inputs
    names = [polynomial.names[i] for i in used]
    return dict(
        zip(used, identifiers(names, {*reserved, name}, ascii_only=ascii_only), strict=True)
    )


def clamped(polynomial: Polynomial, variables: Mapping[int, str]) -> list[tuple[str, float, float]]:
    """Return name, least and largest value of every input in use that is clamped to its range."""
    if polynomial.ranges is None:
        return []
    low, high = polynomial.ranges.tolist()
    return [(name, low[i], high[i]) for i, name in variables.items()]


def _identifier(name: str, ascii_only: bool) -> str:
    # Python compares identifiers in this normal form, so two names are told apart in it.
    text = unicodedata.normalize("NFKC", name)
    text = "".join(
        ch if f"x{ch}".isidentifier() and (ch.isascii() or not ascii_only) else "_" for ch in text
    )
    # A leading underscore is reserved in C and private in Python.
    return text if text[:1].isidentifier() and text[0] != "_" else f"x_{text.lstrip('_')}"


def comment(name: str) -> str:
    """Return a name as it may stand in a comment: on one line, in ASCII, between quotes."""
    return json.dumps(name)
