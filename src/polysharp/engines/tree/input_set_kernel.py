"""The compiled bound of many sets of inputs (``input_sets``), one small ridge problem for each.

A set is a mask of inputs, and its monomials are those whose mask lies in it.  For each set the
ridge regression on its monomials is solved by a Cholesky factorisation; any coefficients prove a
bound (``bounds``), so that zeros take their place where the factorisation fails.
"""

from __future__ import annotations

import numpy as np
from numba import f8, i8, types

from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.relaxation_pricing import (
    MAT,
    PART,
    SYSTEM,
    VEC,
    Iterate,
    Part,
    dual_value,
)
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic

kernel = Compiler(__file__, bounds.__file__, later=True)
_spread = kernel(f8(f8, f8, f8))(bounds.spread)


@kernel(types.void(MAT, VEC, VEC, VEC), contracting=True)
def _solve(A, diagonal, q, w):  # type: ignore[no-untyped-def]
    """Solve for w with the upper half of A and this diagonal; the lower half is overwritten."""
    size = len(q)
    for i in range(size):
        for j in range(i + 1):
            total = diagonal[i] if i == j else A[j, i]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            if i != j:
                A[i, j] = total / A[j, j]
            elif total > 0.0:
                A[i, i] = np.sqrt(total)
            else:
                for k in range(size):
                    w[k] = 0.0
                return
        total = q[i]
        for k in range(i):
            total -= A[i, k] * w[k]
        w[i] = total / A[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            w[i] -= A[k, i] * w[k]
        w[i] /= A[i, i]


@kernel(types.void(SYSTEM, PART, i8[::1], i8[::1], VEC), entry=True)
def bound_sets(system, part, masks, sets, found):  # type: ignore[no-untyped-def]
    """Write the bounds of sets of inputs, each with all of its monomials.

    Monomials whose mask is negative belong to no set.
    """
    terms, size = np.empty(len(masks), dtype=np.int64), 0
    A, L = np.empty((0, 0)), np.empty((10, len(masks)))
    for s in range(len(sets)):
        size = 0
        for j in range(len(masks)):
            if masks[j] >= 0 and masks[j] & ~sets[s] == 0:
                terms[size] = j
                size += 1
        if len(A) != size:
            A = np.empty((size, size))
        q, ridge, sizes, low, high = L[0, :size], L[1, :size], L[2, :size], L[3, :size], L[4, :size]
        state, diagonal, w, rho, Z = L[5, :size], L[6, :size], L[7, :size], L[8, :size], L[9, :size]
        for a in range(size):
            j = terms[a]
            q[a], ridge[a], sizes[a] = system.q[j], system.ridge[j], system.sizes[j]
            low[a], high[a], state[a] = system.low[j], system.high[j], part.state[j]
            diagonal[a] = system.Q[j, j] + ridge[a]
            for b in range(a + 1, size):
                A[a, b] = system.Q[j, terms[b]]
        _solve(A, diagonal, q, w)
        reach = system.response
        for a in range(size):
            reach += abs(w[a]) * sizes[a]
            rho[a] = q[a]
            for b in range(size):
                rho[a] -= system.Q[terms[a], terms[b]] * w[b]
        small = Quadratic(
            A, q, ridge, sizes, low, high, system.yy, system.response, system.unit, False, A
        )
        delta = _spread(system.unit, float(size), reach)
        among = Part(state, part.budget, part.boxed)
        found[s] = dual_value(small, among, Iterate(w, rho), reach, delta, Z)[0]
