"""The formula as a SymPy expression, with a symbol for every input that it uses.

Symbols are made from the names as they are; nothing is parsed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.errors import load_optional
from polysharp.polynomial.exports.expression import check_distinct

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial


def to_sympy(polynomial: Polynomial) -> Any:
    """Return the right-hand side."""
    sympy = load_optional("sympy", "to_sympy", "sympy")
    check_distinct(polynomial)
    symbols = [sympy.Symbol(name) for name in polynomial.names]
    shifts = np.zeros(len(symbols)) if polynomial.shifts is None else polynomial.shifts
    factors = [x - float(s) if s else x for x, s in zip(symbols, shifts, strict=True)]
    if polynomial.scales is not None:
        factors = [x / float(u) for x, u in zip(factors, polynomial.scales, strict=True)]
    for applied in polynomial.functions:
        x, name = symbols[applied.input], applied.function.name
        known = {"inverse": lambda x: 1 / x, "square-root": sympy.sqrt}
        call = known.get(name) or getattr(sympy, name, None) or sympy.Function(name)
        factors.append(call(x))
    expression = sympy.Float(polynomial.intercept)
    for m, c in zip(polynomial.monomials, polynomial.coefficients, strict=True):
        powers = [_power(polynomial, factors[i], order) for i, order in Counter(m).items()]
        expression += float(c) * sympy.Mul(*powers)
    return expression


def _power(polynomial: Polynomial, t: Any, order: int) -> Any:
    if not polynomial.family.orthogonal or order == 1:
        return t**order
    return sum(c * t**k for k, c in enumerate(polynomial.family.coefficients(order)) if c)
