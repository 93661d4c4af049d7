"""The formula as a Python function that imports nothing, but for NumPy's log, exp, sin and cos.

It takes the inputs that the formula uses, in the order of the columns, as numbers or as arrays.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from polysharp.polynomial.exports.expression import (
    arguments,
    clamped,
    comment,
    signed_terms,
    used_functions,
)

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

NUMPY = ("log", "exp", "sin", "cos")
CALLS = {
    "inverse": "(1.0 / {})",
    "square-root": "{} ** 0.5",
    **{name: f"{name}({{}})" for name in NUMPY},
}
RESERVED = frozenset({*keyword.kwlist, "__debug__", *NUMPY})


def to_python(polynomial: Polynomial, name: str = "predict") -> str:
    """Return the source of a function of that name."""
    variables = arguments(polynomial, name, RESERVED)
    lines = [f"def {name}({', '.join(variables.values())}):"]
    needed = {applied.function.name for applied in used_functions(polynomial).values()}
    if imported := [name for name in NUMPY if name in needed]:
        lines[:0] = [f"from numpy import {', '.join(imported)}", "", ""]
    lines += [f"    # returns {comment(polynomial.response)}"]
    lines += [
        f"    # {argument}: {comment(polynomial.names[i])}" for i, argument in variables.items()
    ]
    for x, low, high in clamped(polynomial, variables):
        # For numbers and for arrays, without a library; NaN stays NaN.
        within = f"(({x} >= {low!r}) & ({x} <= {high!r})) * {x}"
        lines.append(
            f"    {x} = ({x} < {low!r}) * {low!r} + ({x} > {high!r}) * {high!r} + {within}"
        )
    lines += ["    return ("]
    lines += [f"        {term}" for term in signed_terms(polynomial, variables, calls=CALLS)]
    return "\n".join([*lines, "    )", ""])
