"""The same polynomial in factors of other inputs: less other shifts, or of another family.

A factor P_d((x - s) / u) is a polynomial of degree d in t' = (x - s') / u', so that

    P_d((x - s) / u) = sum_{e <= d} a_e P'_e(t'),

with a_d, a_{d-1}, ... from the highest powers down; a product of factors is multiplied out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import Polynomial as Powers

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial
    from polysharp.typing import Monomial


def in_basis_of(other: Polynomial, given: Polynomial) -> Polynomial:
    """Return the polynomial given in shifts, scales and family of another one."""
    total: dict[Monomial, float] = {}
    for m, c in zip(given.monomials, given.coefficients.tolist(), strict=True):
        powers = Counter(m)
        shares = [enumerate(_shares(given, other, i, order)) for i, order in powers.items()]
        for chosen in product(*shares):
            pairs = zip(powers, chosen, strict=True)
            own = tuple(sorted(i for i, (order, _) in pairs for _ in range(order)))
            total[own] = total.get(own, 0.0) + c * prod(share for _, share in chosen)
    intercept = given.intercept + total.pop((), 0.0)
    terms = sorted((m for m, c in total.items() if c), key=lambda m: (len(m), m))
    coefficients = np.array([total[m] for m in terms])
    return replace(other, monomials=tuple(terms), coefficients=coefficients, intercept=intercept)


def _shares(given: Polynomial, other: Polynomial, c: int, order: int) -> list[float]:
    """Return a_0, ..., a_d of one factor of the polynomial given."""
    if c >= len(given.names):  # functions of inputs are the same in both
        return [*[0.0] * order, 1.0]
    (shift, scale), (new_shift, new_scale) = given.mapping(c), other.mapping(c)
    t = Powers([(new_shift - shift) / scale, new_scale / scale])
    rest = [*given.family.values(t, order)[-1].coef.tolist(), *[0.0] * order][: order + 1]
    shares = [0.0] * (order + 1)
    for d in range(order, -1, -1):
        own = other.family.coefficients(d)
        shares[d] = share = rest[d] / own[d]
        rest = [r - share * a for r, a in zip(rest, own, strict=False)]
    return shares
