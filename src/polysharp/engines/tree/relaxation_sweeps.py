"""The compiled sweeps of a relaxation over its working set, for a price nu that is steered.

Coordinate descent solves the relaxation for one nu in closed form, a coefficient at a time.  It
needs rho_a = q_a - Q_a w of the monomial at hand, and keeps an image of w for that:

    Q formed          rho itself: each step takes a row of Q over the working set from it
    Q = FF'           -F'w: rho_a = q_a + F_a image, and each step takes a row of F from it

The second reads about as many numbers as the first while F has no more columns than the working set
has members, and nobody has to form the products of all of them first.  Bounds over the working set
only steer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import b1, f8, i8, types

from polysharp.engines.compiling import Compiler
from polysharp.problem import bounds
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array

SWEEPS, TURNS = 5, 30  # sweeps before an extrapolation, and how often that is done at most
FIRST = 3  # sweeps before the first look: many a node can be closed by then
STILL = 1e-12  # a sweep that moves less, as a share of the bound, will lead nowhere
HALVINGS = 7  # points between the best dual point and the last iterate, at most

# Vectors of the array that is the same for all responses: the last three are room to work in.
RIDGE, STATE, SIZES, CURVATURE, BEST, PRICES, SELECTED, CUTS = range(8)
BUDGET, SCALABLE, BOXED, FORMED = range(4)  # what is said of a relaxation, or of its working set


class Vectors(NamedTuple):
    """A point and its quadratics, a row per response, and the rows that all responses share."""

    w: Array
    rho: Array
    q: Array
    low: Array
    high: Array


kernel = Compiler(__file__, bounds.__file__, later=True)
VEC, MAT = f8[::1], f8[:, ::1]
PAIR = types.UniTuple(f8, 2)
SYSTEM = types.NamedUniTuple(MAT, 5, Vectors)
KIND = types.Tuple((i8, b1, b1, b1))


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


_safe_sums = kernel(PAIR(f8, f8, f8, f8, f8, f8))(bounds.safe_sums)
_price = kernel(f8(f8, f8, f8, f8, f8))(bounds.price)
_free_price = kernel(f8(f8, f8, f8))(bounds.free_price)
_total = kernel(f8(f8, f8))(bounds.total)
_tangent_value = kernel(f8(f8, f8, f8))(bounds.tangent_value)
_scaled_value = kernel(PAIR(f8, f8, f8))(bounds.scaled_value)
_admitted = kernel(f8(f8, f8))(bounds.admitted)
_scaled_cost = kernel(f8(f8, f8, f8, PAIR, f8))(scaled_cost)
_steered = kernel(types.Tuple((f8, b1, f8))(f8, f8, b1, f8))(steered)


@kernel(types.void(VEC, VEC, i8))
def _copy(source, target, count):  # type: ignore[no-untyped-def]
    """Copy numbers: slices would compile what to say of slices that do not fit, a sixth of all."""
    for a in range(count):
        target[a] = source[a]


@kernel(f8(VEC, i8, i8))
def _sum_of_largest(v, count, k):  # type: ignore[no-untyped-def]
    """Return the sum of the k largest of v[:count], which is reordered (quickselect)."""
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
    total = 0.0
    for a in range(min(k, count)):
        total += v[a]
    return total


@kernel(types.UniTuple(f8, 3)(SYSTEM, MAT, MAT, PAIR, KIND))
def _dual_value(point, shared, known, rounding, kind):  # type: ignore[no-untyped-def]
    """Return (bound, t, aa) at a point, rounded as (delta over reach, mass) ask for.

    ``known`` has yy and the size of y in a row for each response; prices are left in row PRICES.
    """
    Z, free, ridge, sizes = shared[PRICES], shared[SELECTED], shared[RIDGE], shared[SIZES]
    several, low, high, whole, parts = len(known), 0.0, 0.0, 0.0, 0.0
    for j in range(len(Z)):
        Z[j] = 0.0
    for t in range(several):
        w, rho, q = point.w[t], point.rho[t], point.q[t]
        reach = known[t, 1] + rounding[1]
        delta, qw, wrho = rounding[0] * reach, 0.0, 0.0
        for j in range(len(Z)):
            qw += q[j] * w[j]
            wrho += w[j] * rho[j]
        if kind[BOXED]:
            for j in range(len(Z)):
                least, most = point.low[t, j], point.high[t, j]
                Z[j] += _price(rho[j], sizes[j] * delta, ridge[j], least, most)
        else:
            for j in range(len(Z)):  # this loop is vectorised
                Z[j] += _free_price(rho[j], sizes[j] * delta, ridge[j])
        ya, aa = _safe_sums(known[t, 0], qw, wrho, known[t, 1], reach, delta)
        low, high, whole = low + ya, high + aa, whole + known[t, 0]
        parts += abs(ya) + abs(aa)
    # Sums over responses are rounded too (``bounds.joint_values``).
    margin = 2.0 * (several + 2.0) * UNIT * (several > 1)
    low, high, spent, count, terms = low - margin * parts, high + margin * parts, 0.0, 0, 0.0
    for j in range(len(Z)):
        Z[j] *= 1.0 + margin
        if shared[STATE, j] == 0.0:
            free[count] = Z[j]
            count += 1
        elif shared[STATE, j] == 1.0:
            spent += Z[j]
            terms += 1.0
    spent += _sum_of_largest(free, count, kind[BUDGET])
    spent = _total(spent, terms + kind[BUDGET])
    if kind[SCALABLE]:
        bound, t = _scaled_value(low, high, spent)
        return _admitted(bound, whole), t, high
    return _admitted(_tangent_value(low, high, spent), whole), 1.0, high


@kernel(f8(SYSTEM, SYSTEM, SYSTEM, MAT, MAT, PAIR, KIND, PAIR), entry=True)
def ascend(point, best, between, shared, known, rounding, kind, goal):  # type: ignore[no-untyped-def]
    """Move the best dual point towards the iterate while that raises its bound; return the bound.

    The bound is concave along the segment.  ``goal`` has the threshold and the bound so far; if
    that is infinite, the best point itself is bounded first.  Row BEST keeps its prices.
    """
    so_far, moved, last, far = goal[1], 0.0, -np.inf, 0.0 if goal[1] == -np.inf else 1.0
    for _ in range(HALVINGS):
        for t in range(len(known)):
            for j in range(shared.shape[1]):
                between.w[t, j] = best.w[t, j] + far * (point.w[t, j] - best.w[t, j])
                between.rho[t, j] = best.rho[t, j] + far * (point.rho[t, j] - best.rho[t, j])
        bound, multiple, _ = _dual_value(between, shared, known, rounding, kind)
        if bound > so_far:
            so_far, moved = bound, far
            for j in range(shared.shape[1]):
                shared[BEST, j] = multiple * multiple * shared[PRICES, j]
        # At first the iterate is the best point without what has left the node: no way uphill.
        if so_far >= goal[0] or (far > 0.0 and bound < (so_far if goal[1] == -np.inf else last)):
            break
        if far > 0.0:
            last = bound
        far = 0.5 * far if far > 0.0 else 1.0
    for t in range(len(known)):
        for j in range(shared.shape[1]):
            best.w[t, j] += moved * (point.w[t, j] - best.w[t, j])
            best.rho[t, j] += moved * (point.rho[t, j] - best.rho[t, j])
    return so_far


@kernel(PAIR(SYSTEM, MAT, f8, i8, f8, f8))
def _primal(point, shared, yy, budget, nu, aa):  # type: ignore[no-untyped-def]
    """Return (sum s_j, value of the feasible point that is scaled down to the budget)."""
    chosen, fixed, rest, qw, w = 0.0, 0.0, 0.0, 0.0, point.w[0]
    for a in range(len(w)):
        term = 0.5 * shared[RIDGE, a] * w[a] * w[a]
        qw += point.q[0, a] * w[a]
        if shared[STATE, a] == 1.0:
            fixed += term
        elif term > 0.0:
            end = point.high[0, a] if w[a] > 0.0 else -point.low[0, a]
            s = min(1.0, max(np.sqrt(term / nu), abs(w[a]) / end))
            chosen += s
            rest += term / s
    t = min(1.0, budget / chosen) if chosen > 0.0 else 1.0
    return chosen, _scaled_cost(yy, qw, aa, (fixed, rest), t)


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


@kernel(f8(VEC, VEC), contracting=True)
def _dot(u, v):  # type: ignore[no-untyped-def]
    """Return u'v, summed in any order: calls of BLAS would cost more than short sums do."""
    total = 0.0
    for t in range(len(u)):
        total += u[t] * v[t]
    return total


@kernel(f8(MAT, b1, SYSTEM, MAT, VEC, f8))
def _sweep(A, formed, point, shared, image, nu):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent over the working set; return the largest move."""
    largest, w, q, cuts = 0.0, point.w[0], point.q[0], shared[CUTS]
    for a in range(len(w)):
        cuts[a] = np.sqrt(2.0 * nu * shared[RIDGE, a]) if shared[STATE, a] == 0.0 else 0.0
    for a in range(len(w)):
        curvature, ridge, old = shared[CURVATURE, a], shared[RIDGE, a], w[a]
        c = curvature * old + (image[a] if formed else q[a] + _dot(A[a], image))
        end = point.high[0, a] if c > 0.0 else -point.low[0, a]
        new = _best(c, curvature, ridge, end, nu, cuts[a])
        step = new - old
        if step != 0.0:
            w[a] = new
            for b in range(len(image)):
                image[b] -= step * A[a, b]
            largest = max(largest, step * step * (curvature + ridge))
    return largest


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


@kernel(types.void(b1, SYSTEM, MAT, VEC, f8, MAT))
def _extrapolate(formed, point, shared, image, nu, trail):  # type: ignore[no-untyped-def]
    """Replace the iterate by a combination of the last ones if that costs less.

    ``trail`` has the w before and after each sweep and then their images, which combine alike, and
    room for the equations.
    """
    here, combined, change = point.w[0], trail[2 * SWEEPS + 2 :], 0.0
    _weigh(trail, len(here), combined)
    for t in range(len(image)):
        own = 0.0
        for i in range(SWEEPS):
            own += combined[i, SWEEPS] * trail[SWEEPS + 2 + i, t]
        trail[SWEEPS + 1, t] = own
        if not formed:  # w'Qw is the square of the image
            change += 0.5 * (own * own - image[t] * image[t])
    for a in range(len(here)):
        w, old, q, ridge = 0.0, here[a], point.q[0, a], shared[RIDGE, a]
        for i in range(SWEEPS):
            w += combined[i, SWEEPS] * trail[i + 1, a]
        trail[0, a] = w
        change += (old - w) * q
        if formed:
            change += 0.5 * (old * (image[a] - q) - w * (trail[SWEEPS + 1, a] - q))
        price = nu if shared[STATE, a] == 0.0 else 0.0
        change += _penalty(w, ridge, point.high[0, a] if w > 0.0 else -point.low[0, a], price)
        change -= _penalty(old, ridge, point.high[0, a] if old > 0.0 else -point.low[0, a], price)
    if change < 0.0:
        _copy(trail[0], here, len(here))
        _copy(trail[SWEEPS + 1], image, len(image))


@kernel(types.void(MAT, i8[::1], VEC, VEC), entry=True)
def subtract(Q, chosen, steps, rho):  # type: ignore[no-untyped-def]
    """Take rows times their steps from rho, four at a time: memory is what limits this."""
    last = len(chosen) - 1
    for a in range(0, len(chosen), 4):
        b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
        A, B, C, D = Q[chosen[a]], Q[chosen[b]], Q[chosen[c]], Q[chosen[d]]
        s, t, u, v = steps[a], steps[b] * (b > a), steps[c] * (c > b), steps[d] * (d > c)
        for i in range(len(rho)):
            rho[i] -= (A[i] * s + B[i] * t) + (C[i] * u + D[i] * v)


# Plain numbers come back: Numba makes a named tuple by calling Python, and a Ctrl-C that arrives in
# that moment ends in a crash.
@kernel(
    types.Tuple((b1, f8, f8, f8))(MAT, VEC, SYSTEM, MAT, MAT, MAT, KIND, types.UniTuple(f8, 6)),
    entry=True,
)
def solve_working_set(A, image, point, shared, known, trail, kind, goal):  # type: ignore[no-untyped-def]
    """Sweep the working set, steering nu, until settled; return (settled, value, nu, work left).

    A is Q or F over the working set; ``goal`` has the threshold, tol and slack of ``Aim``, the
    bound so far, nu and the multiplications that may be made.
    """
    budget, formed = kind[BUDGET], kind[FORMED]
    threshold, tol, slack, so_far, nu, left = goal
    w, rho, used, value, settled = point.w[0], point.rho[0], nu, np.inf, False
    size, width, rising, power = len(w), len(image), False, 1.0
    for a in range(size):
        shared[CURVATURE, a] = A[a, a] if formed else _dot(A[a], A[a])
    for look in range(TURNS):
        for turn in range(SWEEPS + 1):
            _copy(w, trail[turn], size)
            _copy(image, trail[SWEEPS + 1 + turn], width)
            if turn == SWEEPS:
                _extrapolate(formed, point, shared, image, nu, trail)
            if turn == SWEEPS or (turn == FIRST and look == 0):
                break
            left -= size * width
            if _sweep(A, formed, point, shared, image, nu) < STILL * abs(so_far):
                break
        for a in range(size):
            rho[a] = image[a] if formed else point.q[0, a] + _dot(A[a], image)
        # The bound on the working set only steers: nothing is rounded.
        bound, _, aa = _dual_value(point, shared, known, (0.0, 0.0), kind)
        chosen, value = _primal(point, shared, known[0, 0], budget, nu, aa)
        used = nu
        if bound >= threshold * (1.0 + 1e-3) or left <= 0.0:
            break
        if value - bound <= tol * value or (
            value < threshold and value - bound <= slack * (threshold - bound)
        ):
            settled = True
            break
        if budget > 0:
            nu, rising, power = _steered(nu, chosen / budget, rising, power)
    return settled, value, used, left
