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
the bound is lowered by what such errors could have added to it (``_ascend``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import b1, f8, i8, njit, void
from numba.types import UniTuple
from numpy.typing import NDArray

from polysharp.typing import Array

States = NDArray[np.int8]  # per monomial: 1 in, 0 free, -1 out
IN, FREE, OUT = 1, 0, -1

PRUNED, SOLVED, UNFINISHED = 1, 0, 2
BOUND, PRIMAL, NU, PRODUCTS, MASS, WORK = range(6)  # places in the kernel's record

# A compiled relaxation cannot look at the clock: with thousands of monomials and hardly any ridge
# it may sweep for ten seconds.  It gets so many multiplications per second left, fewer than most
# machines make, and enough for a bound of small problems when no time is left.
RATE, LEAST_SECONDS = 5e8, 0.2
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
    seconds: float = np.inf,
) -> Relaxed:
    """Solve until the bound reaches ``threshold``, or the relaxation is solved well enough.

    Well enough: to relative accuracy ``tol``, or, when the threshold is out of reach, to
    ``slack`` times the distance to it; or until about ``seconds`` have passed.  ``scalable`` says
    that d = 0.
    ``warm`` is updated in place.
    """
    # Any w proves a bound, so the dual starts where the parent ended; only the iterate must drop
    # what is out by now.
    size = len(q)
    best_w, best_rho, Z, info = warm.w.copy(), warm.rho.copy(), np.zeros(size), np.zeros(6)
    for j in np.flatnonzero((state == OUT) & (warm.w != 0.0)):
        warm.rho += Q[j] * warm.w[j]
        warm.products += 1
        warm.mass += abs(warm.w[j]) * norms[j]
        warm.w[j] = 0.0
    info[BOUND], info[PRIMAL] = -np.inf, np.inf
    info[NU], info[PRODUCTS], info[MASS] = warm.nu, warm.products, warm.mass
    info[WORK] = RATE * max(seconds, LEAST_SECONDS)
    code = _solve(
        Q, q, ridge, norms, yy, scalable, state.astype(np.float64), budget, warm.w, warm.rho,
        threshold, max_passes, tol, slack, best_w, best_rho, Z, info,
        np.empty((6, size)), np.empty((2, size), dtype=np.int64),
    )  # fmt: skip
    warm.nu, warm.products, warm.mass = float(info[NU]), float(info[PRODUCTS]), float(info[MASS])
    return Relaxed(int(code), float(info[BOUND]), float(info[PRIMAL]), best_w, Z, warm)


def fresh_warm(Q: Array, q: Array, w: Array, norms: Array, nu: float) -> Warm:
    """Build a starting point from coefficients alone."""
    support = np.flatnonzero(w)
    rho = q - w[support] @ Q[support] if len(support) else q.copy()
    mass = float(np.abs(w[support]) @ norms[support])
    return Warm(w.copy(), rho, nu, float(len(support)), mass)


# The kernels are compiled once, when this file is first imported, and cached.  Explicit types, one
# array allocated and each call made in one place keep that compilation short.  States are floats.
COMPILED = {"cache": True, "nogil": True, "error_model": "numpy"}
VEC, MAT, INTS, INTS2 = f8[::1], f8[:, ::1], i8[::1], i8[:, ::1]


@njit(f8(VEC, i8, i8), **COMPILED)
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


@njit(UniTuple(f8, 4)(VEC, VEC, b1, VEC, VEC, VEC, i8, f8, i8, VEC), **COMPILED)
def _dual(q, ridge, scalable, state, w, rho, size, yy, budget, Z):  # type: ignore[no-untyped-def]
    """Return (bound, t, |a|^2, sum_in Z + top_L Z) at (w, rho)."""
    qw, wrho, spent, rest = 0.0, 0.0, 0.0, 0.0
    free = 0
    for j in range(size):
        qw += q[j] * w[j]
        wrho += w[j] * rho[j]
        if state[j] >= 0:
            value = 0.5 * rho[j] * rho[j] / ridge[j]
            if state[j] == 1:
                spent += value
            else:
                Z[free] = value
                rest += value
                free += 1
    if free <= budget:
        spent += rest
    elif budget > 0:
        # After the selection the budget largest stand first.
        _kth_largest(Z, free, budget)
        for a in range(budget):
            spent += Z[a]
    ya = yy - qw
    aa = ya - wrho
    whole = aa + 2.0 * spent
    if not scalable:
        return ya - 0.5 * whole, 1.0, aa, spent
    if ya <= 0.0 or whole <= 0.0:
        return 0.0, 0.0, aa, spent  # the best multiple of the residual is none of it
    return 0.5 * ya * ya / whole, ya / whole, aa, spent


@njit(f8(MAT, VEC, f8, VEC, VEC, VEC, i8), **COMPILED)
def _sweep(A, ridge, nu, state, w, rho, count):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent over the working set; return the largest move."""
    largest = 0.0
    for a in range(count):
        curvature, old = A[a, a], w[a]
        c = rho[a] + curvature * old
        size = abs(c)
        cut = np.sqrt(2.0 * nu * ridge[a]) if state[a] == 0 else 0.0
        new = 0.0
        if size > cut:
            # Absolute-value piece first; past its end the penalty is a ridge.
            if state[a] == 0 and (size - cut) * ridge[a] <= cut * curvature:
                new = (size - cut) / curvature
            else:
                new = size / (curvature + ridge[a])
            if c < 0.0:
                new = -new
        step = new - old
        if step != 0.0:
            w[a] = new
            for b in range(count):
                rho[b] -= A[a, b] * step
            largest = max(largest, step * step * (curvature + ridge[a]))
    return largest


@njit(UniTuple(f8, 2)(VEC, VEC, VEC, f8, i8, i8), **COMPILED)
def _primal(w, ridge, state, nu, count, budget):  # type: ignore[no-untyped-def]
    """Return (sum s_j, ridge term of the feasible point with s scaled down to the budget)."""
    chosen, fixed, rest = 0.0, 0.0, 0.0
    for a in range(count):
        term = 0.5 * ridge[a] * w[a] * w[a]
        if state[a] == 1:
            fixed += term
        elif term > 0.0:
            s = min(1.0, np.sqrt(term / nu))
            chosen += s
            rest += term / s
    return chosen, fixed + rest * max(1.0, chosen / max(budget, 1))


@njit(b1(MAT, VEC, VEC, f8, b1, VEC, i8, VEC, VEC, INTS, i8, f8, f8, f8, VEC, MAT), **COMPILED)
def _inner(  # type: ignore[no-untyped-def]
    Q, q, ridge, yy, scalable, state, budget, w, rho, work, count,
    threshold, tol, slack, info, F,
):  # fmt: skip
    """Sweep the working set, steering nu, until settled; F[0], F[1] end as its w and rho."""
    A = np.empty((count, count))
    lw, lrho, lq, lridge, lstate, Z = F[0], F[1], F[2], F[3], F[4], F[5]
    for a in range(count):
        j = work[a]
        for b in range(count):
            A[a, b] = Q[j, work[b]]
        lw[a], lrho[a], lq[a], lridge[a], lstate[a] = w[j], rho[j], q[j], ridge[j], state[j]
    nu = info[2]
    for _ in range(15):
        for _ in range(5):
            info[5] -= count * count
            if _sweep(A, lridge, nu, lstate, lw, lrho, count) < 1e-8 * abs(info[0]):
                break
        bound, _, aa, _ = _dual(lq, lridge, scalable, lstate, lw, lrho, count, yy, budget, Z)
        chosen, value = _primal(lw, lridge, lstate, nu, count, budget)
        value += 0.5 * aa
        info[1], info[2] = value, nu
        if bound >= threshold * (1.0 + 1e-3) or info[5] <= 0.0:
            return False
        if value - bound <= tol * value or (
            value < threshold and value - bound <= slack * (threshold - bound)
        ):
            return True
        if budget > 0:
            nu *= min(2.0, max(0.5, chosen / budget))
    return False


@njit(void(VEC, VEC, f8, b1, VEC, i8, VEC, VEC, b1, f8, f8, VEC, VEC, VEC, VEC, MAT), **COMPILED)
def _ascend(  # type: ignore[no-untyped-def]
    q, ridge, yy, scalable, state, budget, w, rho, first, threshold, scale,
    best_w, best_rho, best_Z, info, F,
):  # fmt: skip
    """Move the best dual point towards the iterate, as far as that raises the bound.

    The bound is concave along the segment.  ``first`` evaluates the best point itself.
    """
    size = q.shape[0]
    reach, last = 0.0, -1e300
    far = 0.0 if first else 1.0
    for _ in range(7):
        for j in range(size):
            F[0, j] = best_w[j] + far * (w[j] - best_w[j])
            F[1, j] = best_rho[j] + far * (rho[j] - best_rho[j])
        bound, t, _, spent = _dual(q, ridge, scalable, state, F[0], F[1], size, yy, budget, F[2])
        # What rounding may have added: see the head of the file.
        extent = np.sqrt(yy) + info[4]
        linear = scale * np.sqrt(max(spent, 0.0))
        bound -= 4.0 * (info[3] + 16.0) * 2.3e-16 * extent * (extent + linear)
        if bound > info[0]:
            info[0], reach = bound, far
            for j in range(size):
                best_Z[j] = 0.5 * t * t * F[1, j] * F[1, j] / ridge[j]
        if info[0] >= threshold or (far > 0.0 and bound < last):
            break
        if far > 0.0:
            last = bound
        far = 0.5 * far if far > 0.0 else 1.0
    for j in range(size):
        best_w[j] += reach * (w[j] - best_w[j])
        best_rho[j] += reach * (rho[j] - best_rho[j])


@njit(
    i8(
        MAT,
        VEC,
        VEC,
        VEC,
        f8,
        b1,
        VEC,
        i8,
        VEC,
        VEC,
        f8,
        i8,
        f8,
        f8,
        VEC,
        VEC,
        VEC,
        VEC,
        MAT,
        INTS2,
    ),
    **COMPILED,
)
def _solve(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    Q, q, ridge, norms, yy, scalable, state, budget, w, rho,
    threshold, max_passes, tol, slack, best_w, best_rho, best_Z, info, F, places,
):  # fmt: skip
    """Alternate full passes (bound, working set) and sweeps on the working set."""
    size = q.shape[0]
    work, seen = places[0], places[1]
    count, news, active, candidates = 0, 0, 0, 0
    terms, ratio = budget, 0.0
    for j in range(size):
        seen[j] = 0
        if state[j] >= 0:
            ratio = max(ratio, norms[j] / np.sqrt(ridge[j]))
        if state[j] == 1:
            terms += 1
    scale = ratio * np.sqrt(2.0 * terms)
    settled = False
    for turn in range(max_passes):
        _ascend(
            q, ridge, yy, scalable, state, budget, w, rho, turn == 0, threshold, scale,
            best_w, best_rho, best_Z, info, F,
        )  # fmt: skip
        if info[0] >= threshold:
            return 1
        # Monomials priced above nu enter, dearest first, so that the set grows by half at most.
        active, candidates, cut = 0, 0, info[2]
        for j in range(size):
            if w[j] != 0.0:
                active += 1
            elif state[j] == 0:
                price = 0.5 * rho[j] * rho[j] / ridge[j]
                if price > cut:
                    F[0, candidates] = price
                    candidates += 1
        room = 50 + active // 2
        if candidates > room:
            cut = _kth_largest(F[0], candidates, room)
        count, news = 0, 0
        for j in range(size):
            price = 0.5 * rho[j] * rho[j] / ridge[j]
            if state[j] == 1 or w[j] != 0.0 or (state[j] == 0 and price > cut):
                work[count] = j
                count += 1
                if seen[j] == 0 and price > info[2] * (1.0 + 1e-3):
                    news += 1
                seen[j] = 1
            else:
                seen[j] = 0
        if settled and news == 0:
            return 0
        if info[5] <= 0.0:
            return 2
        settled = _inner(
            Q, q, ridge, yy, scalable, state, budget, w, rho, work, count,
            threshold, tol, slack, info, F,
        )  # fmt: skip
        for a in range(count):
            j = work[a]
            step = F[0, a] - w[j]
            if step != 0.0:
                w[j] = F[0, a]
                info[3] += 1.0
                info[4] += abs(step) * norms[j]
                for i in range(size):
                    rho[i] -= Q[j, i] * step
    return 2
