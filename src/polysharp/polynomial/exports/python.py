"""The formula as a Python function that imports nothing, but for NumPy's log, exp, sin and cos.

It takes the inputs that the formula uses, in the order of the columns, as numbers or as arrays.  A
second function returns the ends of prediction intervals, where they are wanted.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import TYPE_CHECKING

from polysharp.polynomial.exports.expression import (
    arguments,
    clamped,
    comment,
    signed_terms,
    squares,
    used_functions,
)

if TYPE_CHECKING:
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

NUMPY = ("log", "exp", "sin", "cos")
CALLS = {
    "inverse": "(1.0 / {})",
    "square-root": "{} ** 0.5",
    **{name: f"{name}({{}})" for name in NUMPY},
}
RESERVED = frozenset({*keyword.kwlist, "__debug__", *NUMPY})


def to_python(
    polynomial: Polynomial, name: str = "predict", interval: HalfWidth | None = None
) -> str:
    """Return the source of a function of that name, and of one for intervals."""
    own = () if interval is None else (f"{name}_interval", "middle", "half")
    variables = arguments(polynomial, name, {*RESERVED, *own})
    lines = [f"def {name}({', '.join(variables.values())}):"]
    needed = {applied.function.name for applied in used_functions(polynomial).values()}
    if imported := [name for name in NUMPY if name in needed]:
        lines[:0] = [f"from numpy import {', '.join(imported)}", "", ""]
    lines += [f"    # returns {comment(polynomial.response)}"]
    lines += [
        f"    # {argument}: {comment(polynomial.names[i])}" for i, argument in variables.items()
    ]
    lines += [*_clamping(polynomial, variables), "    return ("]
    lines += [f"        {term}" for term in signed_terms(polynomial, variables, calls=CALLS)]
    lines += ["    )", ""]
    if interval is not None:
        given = ", ".join(variables.values())
        lines += ["", f"def {name}_interval({given}):"]
        lines += [f"    # ends of intervals that hold {100 * interval.coverage:g} % of new rows"]
        lines += [f"    middle = {name}({given})"]
        lines += [line for row in interval.rows[:1] for line in _clamping(row, variables)]
        lines += [f"    half = {interval.factor!r} * ("]
        lines += [f"        {term}" for term in squares(interval, variables, calls=CALLS)]
        lines += ["    ) ** 0.5", "    return middle - half, middle + half", ""]
    return "\n".join(lines)


def _clamping(polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
    """Return the lines that clamp inputs, for numbers and for arrays; NaN stays NaN."""
    return [
        f"    {x} = ({x} < {low!r}) * {low!r} + ({x} > {high!r}) * {high!r}"
        f" + (({x} >= {low!r}) & ({x} <= {high!r})) * {x}"
        for x, low, high in clamped(polynomial, variables)
    ]
