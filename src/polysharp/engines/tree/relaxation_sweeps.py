"""The compiled sweeps of a relaxation over its working set, for a price nu that is steered.

Coordinate descent solves the relaxation for one nu in closed form, a coefficient at a time.  It
needs rho_a = q_a - Q_a w of the monomial at hand, and keeps an image of w for that:

    Q formed          rho itself: each step adds a row of Q over the working set to it
    Q = FF'           z = F'w: rho_a = q_a - F_a z, and each step adds a row of F to z

The second reads about as many numbers as the first while F has no more columns than the working set
has members, and nobody has to form the products of all of them first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import b1, f8, i8, types

from polysharp.engines.tree.relaxation_pricing import (
    GOAL,
    ITERATE,
    MAT,
    PAIR,
    PART,
    SCRATCH,
    STATE,
    SYSTEM,
    VEC,
    Iterate,
    Part,
    RelaxationState,
    dual_value,
    kernel,
)
from polysharp.problem.bounds import Quadratic

SWEEPS, TURNS = 5, 30  # sweeps before an extrapolation, and how often that is done at most
FIRST = 3  # sweeps before the first look: many a node can be closed by then
STILL = 1e-12  # a sweep that moves less, as a share of the bound, will lead nowhere


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


_scaled_cost = kernel(f8(f8, f8, f8, PAIR, f8))(scaled_cost)
_steered = kernel(types.Tuple((f8, b1, f8))(f8, f8, b1, f8))(steered)


@kernel(types.void(VEC, VEC, i8))
def _copy(source, target, count):  # type: ignore[no-untyped-def]
    """Copy numbers: slices would compile what to say of slices that do not fit, a sixth of all."""
    for a in range(count):
        target[a] = source[a]


@kernel(f8(VEC, VEC), contracting=True)
def _dot(u, v):  # type: ignore[no-untyped-def]
    """Return u'v, summed in any order: calls of BLAS would cost more than short sums do."""
    total = 0.0
    for t in range(len(u)):
        total += u[t] * v[t]
    return total


@kernel(f8(f8, f8, f8, f8, f8, f8))
def _best(c, curvature, ridge, end, nu, cut):  # type: ignore[no-untyped-def]
    """Return the best coefficient, whose absolute value may not exceed ``end``; cut is 0 when in.

    c is the correlation that the other coefficients leave.
    """
    early = ridge * end < cut  # the box ends before the penalty turns into a ridge
    if early and end > 0.0:
        cut = 0.5 * ridge * end + nu / end
    size, new = abs(c), 0.0
    if size > cut:
        # Absolute-value piece first; past its end the penalty is a ridge.
        if early or (cut > 0.0 and (size - cut) * ridge <= cut * curvature):
            new = (size - cut) / curvature
        else:
            new = size / (curvature + ridge)
        new = min(new, end)
    return -new if c < 0.0 else new


@kernel(f8(SYSTEM, PART, ITERATE, f8, VEC, VEC))
def _sweep(system, part, point, nu, squares, cuts):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent over the working set; return the largest move."""
    largest, by_rows, image = 0.0, len(system.F) > 0, point.rho
    for a in range(len(point.w)):
        cuts[a] = np.sqrt(2.0 * nu * system.ridge[a]) if part.state[a] == 0 else 0.0
    for a in range(len(point.w)):
        curvature, ridge, old = squares[a], system.ridge[a], point.w[a]
        rho = system.q[a] - _dot(system.F[a], image) if by_rows else image[a]
        c = rho + curvature * old
        end = system.high[a] if c > 0.0 else -system.low[a]
        new = _best(c, curvature, ridge, end, nu, cuts[a])
        step = new - old
        if step != 0.0:
            point.w[a] = new
            if by_rows:
                for t in range(len(image)):
                    image[t] += step * system.F[a, t]
            else:
                for b in range(len(image)):
                    image[b] -= step * system.Q[a, b]
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


@kernel(types.void(MAT, i8, MAT))
def _weigh(trail, size, M):  # type: ignore[no-untyped-def]
    """Write the shares of the last iterates in their combination into column SWEEPS of M.

    Sweeps shrink errors by about the same matrix each time, so that the combination of iterates
    whose moves cancel best is far ahead of them (Anderson).
    """
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
    total = 0.0
    for i in range(SWEEPS):
        M[i, SWEEPS] /= M[i, i]
        total += M[i, SWEEPS]
    for i in range(SWEEPS):
        M[i, SWEEPS] /= total


@kernel(types.void(SYSTEM, b1, PART, ITERATE, f8, MAT))
def _extrapolate(system, by_rows, part, point, nu, trail):  # type: ignore[no-untyped-def]
    """Replace the iterate by a combination of the last ones, where that costs less.

    ``trail`` has the w before and after each sweep and then their images, which combine alike, and
    room for the equations.
    """
    size, image, shares = len(point.w), point.rho, trail[2 * SWEEPS + 2 :]
    _weigh(trail, size, shares)
    change = 0.0
    for t in range(len(image)):
        combined = 0.0
        for i in range(SWEEPS):
            combined += shares[i, SWEEPS] * trail[SWEEPS + 2 + i, t]
        trail[SWEEPS + 1, t] = combined
        if by_rows:  # w'Qw is the square of the image
            change += 0.5 * (combined * combined - image[t] * image[t])
    for a in range(size):
        w, old = 0.0, point.w[a]
        for i in range(SWEEPS):
            w += shares[i, SWEEPS] * trail[i + 1, a]
        trail[0, a] = w
        if by_rows:
            change += (old - w) * system.q[a]
        else:
            rho = trail[SWEEPS + 1, a]
            change += 0.5 * (old * (system.q[a] + image[a]) - w * (system.q[a] + rho))
        price = nu if part.state[a] == 0 else 0.0
        end = system.high[a] if w > 0.0 else -system.low[a]
        change += _penalty(w, system.ridge[a], end, price)
        end = system.high[a] if old > 0.0 else -system.low[a]
        change -= _penalty(old, system.ridge[a], end, price)
    if change < 0.0:
        _copy(trail[0], point.w, size)
        _copy(trail[SWEEPS + 1], image, len(image))


@kernel(types.void(SYSTEM, i8[::1], SYSTEM, VEC, VEC, VEC))
def _gather(system, work, small, w, z, squares):  # type: ignore[no-untyped-def]
    """Copy Q or F of the working set; add F'w to z, and note the diagonal of Q."""
    for a in range(len(w)):
        j = work[a]
        if len(small.F) > 0:
            for t in range(len(z)):
                small.F[a, t] = system.F[j, t]
                z[t] += w[a] * small.F[a, t]
            squares[a] = _dot(small.F[a], small.F[a])
        else:
            for b in range(a, len(w)):  # half of a row is read, which costs more than to write
                small.Q[a, b] = small.Q[b, a] = system.Q[j, work[b]]
            squares[a] = small.Q[a, a]


@kernel(types.Tuple((b1, STATE))(SYSTEM, PART, GOAL, ITERATE, STATE, SCRATCH, i8))
def solve_working_set(system, part, goal, point, at, scratch, count):  # type: ignore[no-untyped-def]
    """Sweep the working set, steering nu, until settled; row 0 of the scratch ends as its w."""
    by_rows, columns = len(system.F) > 0, system.F.shape[1]
    width, work = columns if by_rows else count, scratch.places[0]
    A, F = np.empty((0 if by_rows else count, count)), np.empty((count * by_rows, columns))
    L, trail = np.empty((11, count)), np.empty((3 * SWEEPS + 2, max(count, width, SWEEPS + 1)))
    w, rho, state, q, ridge, sizes = L[0], L[1], L[2], L[3], L[4], L[5]
    low, high, Z, cuts, squares, z = L[6], L[7], L[8], L[9], L[10], np.zeros(columns)
    for a in range(count):
        j = work[a]
        w[a], rho[a], state[a] = point.w[j], point.rho[j], part.state[j]
        q[a], ridge[a], sizes[a] = system.q[j], system.ridge[j], system.sizes[j]
        low[a], high[a] = system.low[j], system.high[j]
    small = Quadratic(
        A, q, ridge, sizes, low, high, system.yy, system.response, system.unit,
        system.scalable, F,
    )  # fmt: skip
    _gather(system, work, small, w, z, squares)
    here, among = Iterate(w, rho), Part(state, part.budget, part.boxed)
    moving = Iterate(w, z if by_rows else rho)
    value, nu, used, left, settled = at.primal, at.nu, at.nu, at.work, False
    rising, power = False, 1.0
    for look in range(TURNS):
        for turn in range(SWEEPS + 1):
            _copy(w, trail[turn], count)
            _copy(moving.rho, trail[SWEEPS + 1 + turn], width)
            if turn == SWEEPS:
                _extrapolate(small, by_rows, among, moving, nu, trail)
            if turn == SWEEPS or (turn == FIRST and look == 0):
                break
            left -= count * width
            if _sweep(small, among, moving, nu, squares, cuts) < STILL * abs(at.bound):
                break
        if by_rows:
            for a in range(count):
                rho[a] = q[a] - _dot(F[a], z)
        # The bound on the working set only steers: nothing is rounded.
        bound, _, aa, _ = dual_value(small, among, here, 0.0, 0.0, Z)
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
    _copy(w, scratch.rows[0], count)
    return settled, RelaxationState(at.bound, value, used, at.products, at.mass, left)
