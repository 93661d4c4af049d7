"""The compiled solver of a relaxation (``relaxation``): sweeps, prices and a safe bound.

``solve`` alternates passes over all monomials, which bound and choose a working set, and sweeps of
coordinate descent over that set, for a price nu of the budget that is steered in between:

    all monomials    rho, prices ---> bound, working set
                        ^                   |
                        |                   v
    working set      steps of w <--- sweeps, extrapolated; nu steered

Every product that enters rho is counted, with its weight: that is what the rounding of the bound
depends on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import b1, f8, i8, types
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic
from polysharp.typing import Array

SWEEPS, TURNS = 5, 30  # sweeps before an extrapolation, and how often that is done at most
FIRST = 3  # sweeps before the first look: many a node can be closed by then
STILL = 1e-12  # a sweep that moves less, as a share of the bound, will lead nowhere
SOLVED, PRUNED, UNFINISHED, STOPPED = 0, 1, 2, 3  # stopped: no work left


def scaled_cost(yy: Any, qw: Any, aa: Any, penalties: Any, t: Any) -> Any:
    """Return the value of the relaxation at t times a point: coefficients and shares of it.

    aa is |y - M w|^2; ``penalties`` are the ridge terms of what is in and of what is free.  Shares
    that exceed the budget must shrink, and so must coefficients, or they leave their boxes.
    """
    fixed, rest = penalties
    squares = yy - 2.0 * t * qw + t * t * (2.0 * qw - yy + aa)
    return 0.5 * squares + t * t * fixed + t * rest


def steered(nu: Any, ratio: Any, rising: Any, power: Any) -> Any:
    """Return the next price of the budget, given how many times over its shares fill it.

    Where shares hang on nu by a thread, whole steps would swing from side to side: each change of
    direction halves the power of the ratio by which nu is multiplied.
    """
    power = 0.5 * power if (ratio > 1.0) != rising else min(1.0, 1.5 * power)
    return nu * min(2.0, max(0.5, ratio)) ** power, ratio > 1.0, power


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


class Tally(NamedTuple):
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


# The kernels are compiled once and cached.  Explicit types, one array allocated and each call made
# in one place keep that compilation short.  States are floats.
kernel = Compiler(__file__, bounds.__file__, later=True)
VEC, MAT, INTS2 = f8[::1], f8[:, ::1], i8[:, ::1]
SYSTEM = types.NamedTuple((MAT, *(VEC,) * 5, f8, f8, f8, b1), Quadratic)
PART = types.NamedTuple((VEC, i8, b1), Part)
GOAL = types.NamedTuple((f8, i8, f8, f8), Goal)
ITERATE = types.NamedUniTuple(VEC, 2, Iterate)
TALLY = types.NamedUniTuple(f8, 6, Tally)
SCRATCH = types.NamedTuple((VEC, MAT, INTS2), Scratch)
VALUE = types.UniTuple(f8, 4)
PAIR = types.UniTuple(f8, 2)

_spread = kernel(f8(f8, f8, f8))(bounds.spread)
_safe_sums = kernel(PAIR(f8, f8, f8, f8, f8, f8))(bounds.safe_sums)
_price = kernel(f8(f8, f8, f8, f8, f8))(bounds.price)
_free_price = kernel(f8(f8, f8, f8))(bounds.free_price)
_total = kernel(f8(f8, i8))(bounds.total)
_tangent_value = kernel(f8(f8, f8, f8))(bounds.tangent_value)
_scaled_value = kernel(PAIR(f8, f8, f8))(bounds.scaled_value)
_admitted = kernel(f8(f8, f8))(bounds.admitted)
_scaled_cost = kernel(f8(f8, f8, f8, PAIR, f8))(scaled_cost)
_steered = kernel(types.Tuple((f8, b1, f8))(f8, f8, b1, f8))(steered)


@kernel(types.void(SYSTEM, PART, VEC, f8, VEC))
def _write_prices(system, part, rho, delta, Z):  # type: ignore[no-untyped-def]
    """Write the prices of all monomials; without boxes the loop is vectorised."""
    if part.boxed:
        for j in range(len(rho)):
            error = system.sizes[j] * delta
            Z[j] = _price(rho[j], error, system.ridge[j], system.low[j], system.high[j])
    else:
        for j in range(len(rho)):
            Z[j] = _free_price(rho[j], system.sizes[j] * delta, system.ridge[j])


@kernel(f8(VEC, i8, i8))
def _kth_largest(v, count, k):  # type: ignore[no-untyped-def]
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
def _dual(system, part, point, reach, delta, Z):  # type: ignore[no-untyped-def]
    """Return (bound, t, aa, spent) at a point, rounded as delta asks for."""
    qw, wrho, spent, rest = 0.0, 0.0, 0.0, 0.0
    free, terms = 0, part.budget
    _write_prices(system, part, point.rho, delta, Z)
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
        _kth_largest(Z, free, part.budget)
        for a in range(part.budget):
            spent += Z[a]
    spent = _total(spent, terms)
    ya, aa = _safe_sums(system.yy, qw, wrho, system.response, reach, delta)
    if system.scalable:
        bound, t = _scaled_value(ya, aa, spent)
    else:
        bound, t = _tangent_value(ya, aa, spent), 1.0
    return _admitted(bound, system.yy), t, aa, spent


@kernel(f8(SYSTEM, PART, ITERATE, f8, VEC))
def _sweep(system, part, point, nu, cuts):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent over the working set; return the largest move."""
    largest = 0.0
    for a in range(len(point.w)):
        cuts[a] = np.sqrt(2.0 * nu * system.ridge[a]) if part.state[a] == 0 else 0.0
    for a in range(len(point.w)):
        curvature, ridge, old, cut = system.Q[a, a], system.ridge[a], point.w[a], cuts[a]
        c = point.rho[a] + curvature * old
        size, end, early = abs(c), np.inf, False
        if part.boxed:
            end = system.high[a] if c > 0.0 else -system.low[a]
            early = ridge * end < cut  # the box ends before the penalty turns into a ridge
            if early and end > 0.0:
                cut = 0.5 * ridge * end + nu / end
        new = 0.0
        if size > cut:
            # Absolute-value piece first; past its end the penalty is a ridge.
            if early or (part.state[a] == 0 and (size - cut) * ridge <= cut * curvature):
                new = (size - cut) / curvature
            else:
                new = size / (curvature + ridge)
            new = min(new, end)
            if c < 0.0:
                new = -new
        step = new - old
        if step != 0.0:
            point.w[a] = new
            for b in range(len(point.w)):
                point.rho[b] -= system.Q[a, b] * step
            largest = max(largest, step * step * (curvature + ridge))
    return largest


@kernel(PAIR(SYSTEM, PART, ITERATE, f8, f8))
def _primal(system, part, point, nu, aa):  # type: ignore[no-untyped-def]
    """Return (sum s_j, value of the feasible point that is scaled down to the budget)."""
    chosen, fixed, rest, qw = 0.0, 0.0, 0.0, 0.0
    for a in range(len(point.w)):
        term = 0.5 * system.ridge[a] * point.w[a] * point.w[a]
        qw += system.q[a] * point.w[a]
        if part.state[a] == 1:
            fixed += term
        elif term > 0.0:
            s = np.sqrt(term / nu)
            if part.boxed:
                end = system.high[a] if point.w[a] > 0.0 else -system.low[a]
                s = max(s, abs(point.w[a]) / end)
            s = min(1.0, s)
            chosen += s
            rest += term / s
    t = min(1.0, part.budget / chosen) if chosen > 0.0 else 1.0
    return chosen, _scaled_cost(system.yy, qw, aa, (fixed, rest), t)


@kernel(f8(f8, f8, f8, f8))
def _penalty(w, ridge, end, nu):  # type: ignore[no-untyped-def]
    """Return what a coefficient costs with the share that is best for this price of the budget."""
    if abs(w) > end:
        return np.inf
    term = 0.5 * ridge * w * w
    if term == 0.0 or nu == 0.0:  # nothing, or in
        return term
    s = np.sqrt(term / nu)
    if s * end < abs(w):
        s = abs(w) / end
    return term / s + nu * s if s < 1.0 else term + nu


@kernel(types.void(SYSTEM, PART, ITERATE, f8, MAT))
def _extrapolate(system, part, point, nu, trail):  # type: ignore[no-untyped-def]
    """Replace the iterate by a combination of the last ones, where that costs less.

    Sweeps shrink errors by about the same matrix each time, so that the combination of iterates
    whose moves cancel best is far ahead of them (Anderson).  ``trail`` has the w before and after
    each sweep and then their rho, which combine alike, and room for the equations.
    """
    size, M = len(point.w), trail[2 * SWEEPS + 2 :]
    for i in range(SWEEPS):
        for j in range(i + 1):
            total = 0.0
            for a in range(size):
                total += (trail[i + 1, a] - trail[i, a]) * (trail[j + 1, a] - trail[j, a])
            M[i, j] = M[j, i] = total
        M[i, i] = M[i, i] * (1.0 + 1e-10) + 1e-300
        M[i, SWEEPS] = 1.0
    for i in range(SWEEPS):
        for j in range(SWEEPS):
            if j != i:
                factor = M[j, i] / M[i, i]
                for k in range(i, SWEEPS + 1):
                    M[j, k] -= factor * M[i, k]
    weight = 0.0
    for i in range(SWEEPS):
        M[i, SWEEPS] /= M[i, i]
        weight += M[i, SWEEPS]
    change = 0.0
    for a in range(size):
        w, rho = 0.0, 0.0
        for i in range(SWEEPS):
            share = M[i, SWEEPS] / weight
            w += share * trail[i + 1, a]
            rho += share * trail[SWEEPS + 2 + i, a]
        trail[0, a], trail[SWEEPS + 1, a] = w, rho
        change += 0.5 * (point.w[a] * (system.q[a] + point.rho[a]) - w * (system.q[a] + rho))
        price = nu if part.state[a] == 0 else 0.0
        end = system.high[a] if w > 0.0 else -system.low[a]
        change += _penalty(w, system.ridge[a], end, price)
        end = system.high[a] if point.w[a] > 0.0 else -system.low[a]
        change -= _penalty(point.w[a], system.ridge[a], end, price)
    if change < 0.0:
        for a in range(size):
            point.w[a], point.rho[a] = trail[0, a], trail[SWEEPS + 1, a]


@kernel(types.Tuple((b1, TALLY))(SYSTEM, PART, GOAL, ITERATE, TALLY, SCRATCH, i8))
def _inner(system, part, goal, point, at, scratch, count):  # type: ignore[no-untyped-def]
    """Sweep the working set, steering nu, until settled; row 0 ends as its w."""
    A, work = np.empty((count, count)), scratch.places[0]
    L, trail = np.empty((10, count)), np.empty((3 * SWEEPS + 2, max(count, SWEEPS + 1)))
    w, rho, state, q, ridge, sizes = L[0], L[1], L[2], L[3], L[4], L[5]
    low, high, Z, cuts = L[6], L[7], L[8], L[9]
    for a in range(count):
        j = work[a]
        for b in range(a, count):  # half of a row of Q is read, which costs more than to write
            A[a, b] = A[b, a] = system.Q[j, work[b]]
        w[a], rho[a], state[a] = point.w[j], point.rho[j], part.state[j]
        q[a], ridge[a], sizes[a] = system.q[j], system.ridge[j], system.sizes[j]
        low[a], high[a] = system.low[j], system.high[j]
    small = Quadratic(
        A, q, ridge, sizes, low, high, system.yy, system.response, system.unit, system.scalable
    )
    here, among = Iterate(w, rho), Part(state, part.budget, part.boxed)
    value, nu, used, left, settled = at.primal, at.nu, at.nu, at.work, False
    rising, power = False, 1.0
    for look in range(TURNS):
        for turn in range(SWEEPS + 1):
            for a in range(count):
                trail[turn, a], trail[SWEEPS + 1 + turn, a] = w[a], rho[a]
            if turn == SWEEPS:
                _extrapolate(small, among, here, nu, trail)
            if turn == SWEEPS or (turn == FIRST and look == 0):
                break
            left -= count * count
            if _sweep(small, among, here, nu, cuts) < STILL * abs(at.bound):
                break
        # The bound on the working set only steers: nothing is rounded.
        bound, _, aa, _ = _dual(small, among, here, 0.0, 0.0, Z)
        chosen, value = _primal(small, among, here, nu, aa)
        used = nu
        if bound >= goal.threshold * (1.0 + 1e-3) or left <= 0.0:
            break
        if value - bound <= goal.tol * value or (
            value < goal.threshold and value - bound <= goal.slack * (goal.threshold - bound)
        ):
            settled = True
            break
        if part.budget > 0:
            nu, rising, power = _steered(nu, chosen / part.budget, rising, power)
    for a in range(count):
        scratch.rows[0, a] = w[a]
    return settled, Tally(at.bound, value, used, at.products, at.mass, left)


@kernel(f8(SYSTEM, PART, GOAL, ITERATE, ITERATE, TALLY, SCRATCH, b1))
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
        bound, t, _, _ = _dual(system, part, between, reach, delta, F[2])
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
        _write_prices(system, part, best.rho, delta, scratch.Z)
        for j in range(size):
            scratch.Z[j] *= multiple * multiple
    return so_far


@kernel(types.Tuple((i8, f8))(SYSTEM, PART, ITERATE, f8, SCRATCH))
def _choose_work(system, part, point, nu, scratch):  # type: ignore[no-untyped-def]
    """List the working set; return its size, and how many newcomers are dearer than nu.

    Monomials priced above nu enter, dearest first, so that the set grows by half at most.
    """
    prices, Z, work, seen = scratch.rows[0], scratch.rows[1], scratch.places[0], scratch.places[1]
    _write_prices(system, part, point.rho, 0.0, Z)
    active, candidates, cut = 0, 0, nu
    for j in range(len(point.w)):
        if point.w[j] != 0.0:
            active += 1
        elif part.state[j] == 0 and Z[j] > cut:
            prices[candidates] = Z[j]
            candidates += 1
    room = 50 + active // 2
    if candidates > room:
        cut = _kth_largest(prices, candidates, room)
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


# Plain numbers come back: Numba makes a named tuple by calling Python, and a Ctrl-C that arrives in
# that moment ends in a crash.
@kernel(
    types.Tuple((i8, types.UniTuple(f8, 6)))(SYSTEM, PART, GOAL, ITERATE, ITERATE, TALLY, SCRATCH),
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
        at = Tally(bound, at.primal, at.nu, products, mass, at.work)
        if code == UNFINISHED and at.work <= 0.0:
            code = STOPPED
        if code != UNFINISHED:
            break
        settled, at = _inner(system, part, goal, point, at, scratch, count)
        moved = 0
        for a in range(count):
            j = work[a]
            step = scratch.rows[0, a] - point.w[j]
            if step != 0.0:
                point.w[j], changed[moved], steps[moved] = scratch.rows[0, a], j, step
                products += 1.0
                mass += abs(step) * system.sizes[j]
                moved += 1
        _subtract(system.Q, changed, steps, moved, point.rho)
        at = Tally(at.bound, at.primal, at.nu, products, mass, at.work)
    return code, (at.bound, at.primal, at.nu, at.products, at.mass, at.work)
