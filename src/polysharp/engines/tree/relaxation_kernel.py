"""The compiled solver of a relaxation (``relaxation``): passes over all monomials, and the loop.

``solve`` alternates passes over all monomials, which bound and choose a working set, and sweeps of
coordinate descent over that set, for a price nu of the budget that is steered in between:

    all monomials    rho, prices ---> bound, working set
                        ^                   |
                        |                   v
    working set      steps of w <--- sweeps, extrapolated; nu steered

Every product that enters rho is counted, with its weight: that is what the rounding of the bound
depends on.  Where Q = FF' is not formed the steps d of w enter as F(F'd), which is rounded no more
than the sum of as many products Q_ij d_j with a Q that was summed over the rows.
"""

from __future__ import annotations

import numpy as np
from numba import b1, f8, i8, types

from polysharp.engines.tree.relaxation_pricing import (
    GOAL,
    ITERATE,
    MAT,
    PART,
    SCRATCH,
    STATE,
    SYSTEM,
    VEC,
    Iterate,
    RelaxationState,
    dual_value,
    kernel,
    kth_largest,
    write_prices,
)
from polysharp.engines.tree.relaxation_sweeps import solve_working_set
from polysharp.problem import bounds

SOLVED, PRUNED, UNFINISHED, STOPPED = 0, 1, 2, 3  # stopped: no work left

_spread = kernel(f8(f8, f8, f8))(bounds.spread)


@kernel(f8(SYSTEM, PART, GOAL, ITERATE, ITERATE, STATE, SCRATCH, b1))
def _ascend(system, part, goal, point, best, at, scratch, first):  # type: ignore[no-untyped-def]
    """Move the best dual point towards the iterate while that raises its bound; return the bound.

    The bound is concave along the segment.  ``first`` evaluates the best point itself.
    """
    size, F = len(point.w), scratch.rows
    between = Iterate(F[0], F[1])
    reach = system.response + at.mass
    delta = _spread(system.unit, at.products, reach)
    so_far, moved, multiple, last = at.bound, 0.0, -1.0, -1e300
    far = 0.0 if first else 1.0
    for _ in range(7):
        for j in range(size):
            F[0, j] = best.w[j] + far * (point.w[j] - best.w[j])
            F[1, j] = best.rho[j] + far * (point.rho[j] - best.rho[j])
        bound, t, _, _ = dual_value(system, part, between, reach, delta, F[2])
        if bound > so_far:
            so_far, moved, multiple = bound, far, t
        if so_far >= goal.threshold or (far > 0.0 and bound < last):
            break
        if far > 0.0:
            last = bound
        far = 0.5 * far if far > 0.0 else 1.0
    for j in range(size):
        best.w[j] += moved * (point.w[j] - best.w[j])
        best.rho[j] += moved * (point.rho[j] - best.rho[j])
    if multiple >= 0.0:
        write_prices(system, part, best.rho, delta, scratch.Z)
        for j in range(size):
            scratch.Z[j] *= multiple * multiple
    return so_far


@kernel(types.Tuple((i8, f8))(SYSTEM, PART, ITERATE, f8, SCRATCH))
def _choose_work(system, part, point, nu, scratch):  # type: ignore[no-untyped-def]
    """List the working set; return its size, and how many newcomers are dearer than nu.

    Monomials priced above nu enter, dearest first, so that the set grows by half at most.
    """
    prices, Z, work, seen = scratch.rows[0], scratch.rows[1], scratch.places[0], scratch.places[1]
    write_prices(system, part, point.rho, 0.0, Z)
    active, candidates, cut = 0, 0, nu
    for j in range(len(point.w)):
        if point.w[j] != 0.0:
            active += 1
        elif part.state[j] == 0 and Z[j] > cut:
            prices[candidates] = Z[j]
            candidates += 1
    room = 50 + active // 2
    if candidates > room:
        cut = kth_largest(prices, candidates, room)
    count, news = 0, 0.0
    for j in range(len(point.w)):
        if part.state[j] == 1 or point.w[j] != 0.0 or (part.state[j] == 0 and Z[j] > cut):
            work[count] = j
            count += 1
            if seen[j] == 0 and Z[j] > nu * (1.0 + 1e-3):
                news += 1.0
            seen[j] = 1
        else:
            seen[j] = 0
    return count, news


@kernel(types.void(MAT, i8[::1], VEC, i8, VEC))
def _subtract(Q, rows, steps, count, rho):  # type: ignore[no-untyped-def]
    """Take so many rows times their steps from rho, four at a time: memory is what limits this."""
    for a in range(0, count, 4):
        b, c, d = min(a + 1, count - 1), min(a + 2, count - 1), min(a + 3, count - 1)
        A, B, C, D = Q[rows[a]], Q[rows[b]], Q[rows[c]], Q[rows[d]]
        s, t, u, v = steps[a], steps[b] * (b > a), steps[c] * (c > b), steps[d] * (d > c)
        for i in range(len(rho)):
            rho[i] -= (A[i] * s + B[i] * t) + (C[i] * u + D[i] * v)


@kernel(types.void(MAT, i8[::1], VEC, i8, VEC))
def _subtract_images(F, rows, steps, count, rho):  # type: ignore[no-untyped-def]
    """Take F(F'd) from rho, d being so many steps of the monomials in ``rows``."""
    z, by_rows = np.zeros(F.shape[1]), np.empty(len(rho))
    for a in range(count):
        for t in range(len(z)):
            z[t] += steps[a] * F[rows[a], t]
    np.dot(F, z, by_rows)
    for j in range(len(rho)):
        rho[j] -= by_rows[j]


# Plain numbers come back: Numba makes a named tuple by calling Python, and a Ctrl-C that arrives in
# that moment ends in a crash.
@kernel(
    types.Tuple((i8, types.UniTuple(f8, 6)))(SYSTEM, PART, GOAL, ITERATE, ITERATE, STATE, SCRATCH),
    entry=True,
)
def solve(system, part, goal, point, best, at, scratch):  # type: ignore[no-untyped-def]
    """Alternate full passes (bound, working set) and sweeps on the working set."""
    work, seen, changed = scratch.places[0], scratch.places[1], scratch.places[2]
    steps, code = scratch.rows[1], UNFINISHED
    for j in range(len(point.w)):
        seen[j] = 0
    settled, count, news = False, 0, 0.0
    for turn in range(goal.max_passes):
        bound = _ascend(system, part, goal, point, best, at, scratch, turn == 0)
        # A point between two others is rounded once more, which counts as eight products.
        products, mass = at.products + 8.0, at.mass
        if bound >= goal.threshold:
            code = PRUNED
        else:
            count, news = _choose_work(system, part, point, at.nu, scratch)
            if settled and news == 0.0:
                code = SOLVED
        at = RelaxationState(bound, at.primal, at.nu, products, mass, at.work)
        if code == UNFINISHED and at.work <= 0.0:
            code = STOPPED
        if code != UNFINISHED:
            break
        settled, at = solve_working_set(system, part, goal, point, at, scratch, count)
        moved = 0
        for a in range(count):
            j = work[a]
            step = scratch.rows[0, a] - point.w[j]
            if step != 0.0:
                point.w[j], changed[moved], steps[moved] = scratch.rows[0, a], j, step
                products += 1.0
                mass += abs(step) * system.sizes[j]
                moved += 1
        if len(system.F) > 0:
            _subtract_images(system.F, changed, steps, moved, point.rho)
        else:
            _subtract(system.Q, changed, steps, moved, point.rho)
        at = RelaxationState(at.bound, at.primal, at.nu, products, mass, at.work)
    return code, (at.bound, at.primal, at.nu, at.products, at.mass, at.work)
