"""The perspective relaxation of a node, and a lower bound that is safe at any moment.

A node fixes monomials in (set O) or out, and may choose at most L of the free ones.  With a
diagonal d >= 0 such that G - diag(d) >= 0 on the monomials still alive, write Q = G - diag(d)
and ridge_j = lam + d_j: on binary points nothing changes, but the relaxation

    min_w,s  1/2 yy - q'w + 1/2 w'Q w + 1/2 sum_O ridge_j w_j^2 + 1/2 sum_free ridge_j w_j^2/s_j
    s.t.     0 <= s <= 1,  sum_free s_j <= L

is tighter the larger d is.  For ANY w, with rho = q - Q w, Z_j = rho_j^2 / (2 ridge_j), weak
duality gives the lower bound (the smooth part is convex, so it lies above its tangent at w)

    yy/2 - 1/2 w'Q w - sum_O Z_j - top_L(Z),

which equals y'a - |a|^2/2 - ... with y'a = yy - q'w and |a|^2 = yy - 2 q'w + w'Q w.  While d = 0
the residual may also be scaled by its best factor t, which gives 1/2 (y'a)^2 / (|a|^2 + 2 sum_O Z
+ 2 top_L Z); with d > 0 the matrix of (y, M) less d need not be semidefinite, and t = 1.  So a
node may stop whenever its bound passes the incumbent, however well the relaxation was solved.

For a fixed price nu of the budget the s_j leave a separable penalty (the reverse Huber function,
an absolute value that turns into ridge_j w^2/2 + nu), which coordinate descent handles in closed
form; nu is steered until sum s_j = L.  Sweeps run on a small working set; passes over all
monomials are made only to bound and to extend that set.

Rounding: every product that enters rho is counted.  If k products of total weight
B = sum |dw_j| sqrt(G_jj) were added, |error of rho_j| <= k eps sqrt(G_jj) (sqrt(yy) + B), and
the bound is lowered by what such errors could have added to it (``_margin``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polysharp.basis import Array

States = NDArray[np.int8]  # per monomial: 1 in, 0 free, -1 out
IN, FREE, OUT = 1, 0, -1

PRUNED, SOLVED, UNFINISHED = 1, 0, 2
EPS = float(np.finfo(np.float64).eps)


@dataclass(eq=False)
class Warm:
    """Where a relaxation starts and where it ended; rho is kept in step with w."""

    w: Array
    rho: Array
    nu: float
    products: float = 0.0  # products added into rho since it was q
    mass: float = 0.0  # B of the rounding bound

    def copy(self) -> Warm:
        """Return an independent copy."""
        return Warm(self.w.copy(), self.rho.copy(), self.nu, self.products, self.mass)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Outcome of a relaxation: a safe bound, the dual point that proves it, the last iterate."""

    code: int
    bound: float
    primal: float  # value of a feasible point of the relaxation: an upper bound on its optimum
    w: Array  # the dual point, as the w whose tangent proves the bound
    Z: Array  # prices of all monomials at that point, scaled as the bound was
    warm: Warm


def solve_relaxation(
    Q: Array,
    q: Array,
    ridge: Array,
    norms: Array,
    yy: float,
    state: States,
    budget: int,
    warm: Warm,
    threshold: float,
    *,
    scalable: bool = False,
    max_passes: int = 30,
    tol: float = 1e-4,
    slack: float = 0.1,
) -> Relaxed:
    """Solve until the bound reaches ``threshold``, or the relaxation is solved well enough.

    Well enough: to relative accuracy ``tol``, or, when the threshold is out of reach, to
    ``slack`` times the distance to it.  ``scalable`` says that d = 0.
     ``warm`` is updated in place.
    """
    size = len(q)
    # Any w proves a bound, so the dual starts where the parent ended; only the iterate must drop
    # what is out by now.
    best_w, best_rho, Z, info = warm.w.copy(), warm.rho.copy(), np.zeros(size), np.zeros(6)
    drop = np.flatnonzero((state == OUT) & (warm.w != 0.0))
    for j in drop:
        warm.rho += Q[j] * warm.w[j]
        warm.products += 1
        warm.mass += abs(warm.w[j]) * norms[j]
        warm.w[j] = 0.0
    info[2], info[3], info[4] = warm.nu, warm.products, warm.mass
    code = _solve(
        Q, q, ridge, norms, yy, scalable, state, budget, warm.w, warm.rho,
        threshold, max_passes, tol, slack, best_w, best_rho, Z, info,
    )  # fmt: skip
    warm.nu, warm.products, warm.mass = float(info[2]), float(info[3]), float(info[4])
    return Relaxed(int(code), float(info[0]), float(info[1]), best_w, Z, warm)


def fresh_warm(Q: Array, q: Array, w: Array, norms: Array, nu: float) -> Warm:
    """Build a starting point from coefficients alone."""
    support = np.flatnonzero(w)
    rho = q - w[support] @ Q[support] if len(support) else q.copy()
    mass = float(np.abs(w[support]) @ norms[support])
    return Warm(w.copy(), rho, nu, float(len(support)), mass)


@njit(cache=True, nogil=True, error_model="numpy")
def _kth_largest(v, count, k, buffer):  # type: ignore[no-untyped-def]
    """Return the k-th largest of v[:count] (quickselect)."""
    for a in range(count):
        buffer[a] = v[a]
    low, high, target = 0, count - 1, k - 1
    while low < high:
        pivot = buffer[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while buffer[i] > pivot:
                i += 1
            while buffer[j] < pivot:
                j -= 1
            if i <= j:
                swap = buffer[i]
                buffer[i] = buffer[j]
                buffer[j] = swap
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return buffer[target]


@njit(cache=True, nogil=True, error_model="numpy")
def _top_sum(v, count, k, buffer):  # type: ignore[no-untyped-def]
    """Return the sum of the k largest of v[:count]; values are non-negative."""
    total = 0.0
    if k <= 0 or count == 0:
        return total
    if count <= k:
        for a in range(count):
            total += v[a]
        return total
    cut = _kth_largest(v, count, k, buffer)
    above = 0
    for a in range(count):
        if v[a] > cut:
            total += v[a]
            above += 1
    return total + cut * (k - above)


@njit(cache=True, nogil=True, error_model="numpy")
def _dual(q, ridge, scalable, state, w, rho, yy, budget, Z, buffer):  # type: ignore[no-untyped-def]
    """Return (bound, t, |a|^2, sum_O Z + top_L Z) at (w, rho)."""
    qw, wrho, fixed = 0.0, 0.0, 0.0
    free = 0
    for j in range(q.shape[0]):
        if w[j] != 0.0:
            qw += q[j] * w[j]
            wrho += w[j] * rho[j]
        if state[j] == 0:
            Z[free] = 0.5 * rho[j] * rho[j] / ridge[j]
            free += 1
        elif state[j] == 1:
            fixed += 0.5 * rho[j] * rho[j] / ridge[j]
    spent = fixed + _top_sum(Z, free, budget, buffer)
    ya = yy - qw
    aa = ya - wrho
    if not scalable:
        return ya - 0.5 * aa - spent, 1.0, aa, spent
    whole = aa + 2.0 * spent
    if ya <= 0.0 or whole <= 0.0:
        return 0.0, 1.0, aa, spent
    return 0.5 * ya * ya / whole, ya / whole, aa, spent


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(A, ridge, cut, fixed, w, rho):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent over the working set; return the largest move."""
    largest = 0.0
    for a in range(w.shape[0]):
        curvature, old = A[a, a], w[a]
        c = rho[a] + curvature * old
        if fixed[a]:
            new = c / (curvature + ridge[a])
        elif abs(c) <= cut[a]:
            new = 0.0
        else:
            size = abs(c)
            # Absolute-value piece first; past its end the penalty is a ridge.
            if curvature > 0.0 and (size - cut[a]) * ridge[a] <= cut[a] * curvature:
                new = (size - cut[a]) / curvature
            else:
                new = size / (curvature + ridge[a])
            if c < 0.0:
                new = -new
        if new != old:
            step = new - old
            w[a] = new
            for b in range(w.shape[0]):
                rho[b] -= A[a, b] * step
            largest = max(largest, step * step * (curvature + ridge[a]))
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def _chosen(w, ridge, fixed, nu):  # type: ignore[no-untyped-def]
    """Return sum s_j over the free members of the working set at price nu."""
    total = 0.0
    for a in range(w.shape[0]):
        if not fixed[a] and w[a] != 0.0:
            total += min(1.0, abs(w[a]) * np.sqrt(0.5 * ridge[a] / nu))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _primal(w, ridge, fixed, nu, aa, chosen, budget):  # type: ignore[no-untyped-def]
    """Return the value of the feasible point with s scaled down to the budget."""
    value = 0.5 * aa
    shrink = min(1.0, budget / chosen) if chosen > 0.0 else 1.0
    for a in range(w.shape[0]):
        if w[a] != 0.0:
            s = 1.0
            if not fixed[a]:
                s = shrink * min(1.0, abs(w[a]) * np.sqrt(0.5 * ridge[a] / nu))
            value += 0.5 * ridge[a] * w[a] * w[a] / s
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _margin(yy, products, mass, spent, terms, ratio):  # type: ignore[no-untyped-def]
    """What rounding may have added to the bound: see the head of the file."""
    reach = np.sqrt(yy) + mass
    linear = np.sqrt(2.0 * max(spent, 0.0) * terms) * ratio
    return 4.0 * (products + 16.0) * 2.3e-16 * reach * (reach + linear)


@njit(cache=True, nogil=True, error_model="numpy")
def _price(rho, ridge, t, Z):  # type: ignore[no-untyped-def]
    """Write Z_j at the residual scaled by t."""
    for j in range(rho.shape[0]):
        Z[j] = 0.5 * t * t * rho[j] * rho[j] / ridge[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _entry(ridge, state, w, rho, least, Z, buffer):  # type: ignore[no-untyped-def]
    """Price above which a monomial enters the working set, so that it at most doubles."""
    active, candidates = 0, 0
    for j in range(w.shape[0]):
        if w[j] != 0.0:
            active += 1
        elif state[j] == 0:
            price = 0.5 * rho[j] * rho[j] / ridge[j]
            if price > least:
                Z[candidates] = price
                candidates += 1
    room = 50 + active // 2
    return least if candidates <= room else _kth_largest(Z, candidates, room, buffer)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(  # type: ignore[no-untyped-def]
    Q, q, ridge, norms, yy, scalable, state, budget, w, rho,
    threshold, max_passes, tol, slack, best_w, best_rho, best_Z, info,
):  # fmt: skip
    """Alternate full passes (bound, working set) and sweeps on the working set."""
    size = q.shape[0]
    nu = info[2]
    Z, buffer = np.empty(size), np.empty(size)
    work, seen = np.empty(size, np.int64), np.zeros(size, np.int8)
    terms, ratio = budget, 0.0
    for j in range(size):
        if state[j] >= 0:
            ratio = max(ratio, norms[j] / np.sqrt(ridge[j]))
        if state[j] == 1:
            terms += 1
    trial_w, trial_rho = np.empty(size), np.empty(size)
    best, t, _, spent = _dual(q, ridge, scalable, state, best_w, best_rho, yy, budget, Z, buffer)
    best -= _margin(yy, info[3], info[4], spent, terms, ratio)
    _price(best_rho, ridge, t, best_Z)
    settled = False
    for step in range(max_passes):
        # The bound is concave along the segment from the best dual point to the iterate.
        reach, far, last = 0.0, 1.0, -1e300
        for _ in range(6):
            for j in range(size):
                trial_w[j] = best_w[j] + far * (w[j] - best_w[j])
                trial_rho[j] = best_rho[j] + far * (rho[j] - best_rho[j])
            bound, t, _, spent = _dual(
                q, ridge, scalable, state, trial_w, trial_rho, yy, budget, Z, buffer
            )
            bound -= _margin(yy, info[3], info[4], spent, terms, ratio)
            if bound > best:
                best, reach = bound, far
                _price(trial_rho, ridge, t, best_Z)
            if bound < last or best >= threshold:
                break
            last = bound
            far *= 0.5
        if reach > 0.0:
            for j in range(size):
                best_w[j] += reach * (w[j] - best_w[j])
                best_rho[j] += reach * (rho[j] - best_rho[j])
        info[0], info[2], info[5] = best, nu, step
        if best >= threshold:
            return 1
        cut = _entry(ridge, state, w, rho, nu, Z, buffer)
        count, news = 0, 0
        for j in range(size):
            if state[j] < 0:
                continue
            price = 0.5 * rho[j] * rho[j] / ridge[j]
            if state[j] == 1 or w[j] != 0.0 or price > cut:
                work[count] = j
                count += 1
                if seen[j] == 0 and price > nu * (1.0 + 1e-3):
                    news += 1
                seen[j] = 1
            else:
                seen[j] = 0
        if settled and news == 0:
            return 0
        settled, nu, value = _inner(
            Q, q, ridge, norms, yy, scalable, state, budget, w, rho, work[:count],
            nu, threshold, tol, slack, best, Z, buffer, info,
        )  # fmt: skip
        info[1] = value
    return 2


@njit(cache=True, nogil=True, error_model="numpy")
def _inner(  # type: ignore[no-untyped-def]
    Q, q, ridge, norms, yy, scalable, state, budget, w, rho, work,
    nu, threshold, tol, slack, best, Z, buffer, info,
):  # fmt: skip
    """Sweep the working set, steering nu, until settled; then update rho everywhere."""
    count = work.shape[0]
    A = np.empty((count, count))
    lw, lrho, lq, lridge = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    cut = np.empty(count)
    lstate = np.empty(count, np.int8)
    fixed = np.empty(count, np.bool_)
    for a in range(count):
        j = work[a]
        for b in range(count):
            A[a, b] = Q[j, work[b]]
        lw[a], lrho[a], lq[a], lridge[a] = w[j], rho[j], q[j], ridge[j]
        lstate[a] = state[j]
        fixed[a] = state[j] == 1
    settled, value = False, 1e300
    for _ in range(40):
        for a in range(count):
            cut[a] = np.sqrt(2.0 * nu * lridge[a])
        for _ in range(5):
            if _sweep(A, lridge, cut, fixed, lw, lrho) < 1e-8 * abs(best):
                break
        bound, _, aa, _ = _dual(lq, lridge, scalable, lstate, lw, lrho, yy, budget, Z, buffer)
        chosen = _chosen(lw, lridge, fixed, nu)
        value = _primal(lw, lridge, fixed, nu, aa, chosen, budget)
        if bound >= threshold * (1.0 + 1e-3):
            break
        if value - bound <= tol * value or (
            value < threshold and value - bound <= slack * (threshold - bound)
        ):
            settled = True
            break
        if budget > 0:
            nu *= min(2.0, max(0.5, chosen / budget))
    for a in range(count):
        j = work[a]
        step = lw[a] - w[j]
        if step != 0.0:
            w[j] = lw[a]
            for i in range(rho.shape[0]):
                rho[i] -= Q[j, i] * step
            info[3] += 1.0
            info[4] += abs(step) * norms[j]
    return settled, nu, value
