"""What the compiled relaxation is made of: its records, prices of all monomials, the safe bound.

Q is a matrix, or it is not formed: then Q = FF' with a row of F for each monomial, which the design
has, and F is read in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import b1, f8, i8, types
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic
from polysharp.typing import Array


class Part(NamedTuple):
    """Which monomials are in (1), free (0) and out (-1), and how many free ones may be chosen."""

    state: Array
    budget: int
    boxed: bool  # whether any coefficient is bounded; where none is, prices are cheaper


class Goal(NamedTuple):
    """See ``relaxation.Aim``."""

    threshold: float
    max_passes: int
    tol: float
    slack: float


class Iterate(NamedTuple):
    """Coefficients and rho = q - Q w, both changed in place."""

    w: Array
    rho: Array


class RelaxationState(NamedTuple):
    """How far a relaxation is."""

    bound: float
    primal: float
    nu: float
    products: float
    mass: float
    work: float  # multiplications that may still be made


class Scratch(NamedTuple):
    """Where the kernels write: prices at the best point, rows of numbers, rows of positions."""

    Z: Array
    rows: Array
    places: NDArray[np.int64]


# The kernels are compiled once and cached.  Explicit types and each call made in one place keep
# that compilation short.  States are floats.
HERE = Path(__file__)
kernel = Compiler(
    *(str(HERE.with_name(f"relaxation_{name}.py")) for name in ("pricing", "sweeps", "kernel")),
    bounds.__file__,
    later=True,
)
VEC, MAT, INTS2 = f8[::1], f8[:, ::1], i8[:, ::1]
SYSTEM = types.NamedTuple((MAT, *(VEC,) * 5, f8, f8, f8, b1, MAT), Quadratic)
PART = types.NamedTuple((VEC, i8, b1), Part)
GOAL = types.NamedTuple((f8, i8, f8, f8), Goal)
ITERATE = types.NamedUniTuple(VEC, 2, Iterate)
STATE = types.NamedUniTuple(f8, 6, RelaxationState)
SCRATCH = types.NamedTuple((VEC, MAT, INTS2), Scratch)
VALUE = types.UniTuple(f8, 4)
PAIR = types.UniTuple(f8, 2)

_safe_sums = kernel(PAIR(f8, f8, f8, f8, f8, f8))(bounds.safe_sums)
_price = kernel(f8(f8, f8, f8, f8, f8))(bounds.price)
_free_price = kernel(f8(f8, f8, f8))(bounds.free_price)
_total = kernel(f8(f8, i8))(bounds.total)
_tangent_value = kernel(f8(f8, f8, f8))(bounds.tangent_value)
_scaled_value = kernel(PAIR(f8, f8, f8))(bounds.scaled_value)
_admitted = kernel(f8(f8, f8))(bounds.admitted)


@kernel(types.void(SYSTEM, PART, VEC, f8, VEC))
def write_prices(system, part, rho, delta, Z):  # type: ignore[no-untyped-def]
    """Write the prices of all monomials; without boxes the loop is vectorised."""
    if part.boxed:
        for j in range(len(rho)):
            error = system.sizes[j] * delta
            Z[j] = _price(rho[j], error, system.ridge[j], system.low[j], system.high[j])
    else:
        for j in range(len(rho)):
            Z[j] = _free_price(rho[j], system.sizes[j] * delta, system.ridge[j])


@kernel(f8(VEC, i8, i8))
def kth_largest(v, count, k):  # type: ignore[no-untyped-def]
    """Return the k-th largest of v[:count], which is reordered (quickselect)."""
    low, high, target = 0, count - 1, k - 1
    while low < high:
        pivot = v[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while v[i] > pivot:
                i += 1
            while v[j] < pivot:
                j -= 1
            if i <= j:
                v[i], v[j] = v[j], v[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return v[target]


@kernel(VALUE(SYSTEM, PART, ITERATE, f8, f8, VEC))
def dual_value(system, part, point, reach, delta, Z):  # type: ignore[no-untyped-def]
    """Return (bound, t, aa, spent) at a point, rounded as delta asks for."""
    qw, wrho, spent, rest = 0.0, 0.0, 0.0, 0.0
    free, terms = 0, part.budget
    write_prices(system, part, point.rho, delta, Z)
    for j in range(len(point.w)):
        qw += system.q[j] * point.w[j]
        wrho += point.w[j] * point.rho[j]
        if part.state[j] == 0:
            rest += Z[j]
            Z[free] = Z[j]
            free += 1
        elif part.state[j] == 1:
            spent += Z[j]
            terms += 1
    if free <= part.budget:
        spent += rest
    elif part.budget > 0:
        # After the selection the budget largest stand first.
        kth_largest(Z, free, part.budget)
        for a in range(part.budget):
            spent += Z[a]
    spent = _total(spent, terms)
    ya, aa = _safe_sums(system.yy, qw, wrho, system.response, reach, delta)
    if system.scalable:
        bound, t = _scaled_value(ya, aa, spent)
    else:
        bound, t = _tangent_value(ya, aa, spent), 1.0
    return _admitted(bound, system.yy), t, aa, spent
