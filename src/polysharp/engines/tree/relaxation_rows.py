"""The perspective relaxation of several responses with one support.

As for one response (``relaxation``), with the row of coefficients (w_1j, w_2j, ...) of a
monomial in place of one coefficient: the penalty of a monomial depends on the norm of its row, and
coordinate descent moves a row at a time, along (c_1, c_2, ...) where c_t is what the others leave.

Where that leads out of the boxes, low_t s <= w_t <= high_t s for a share s of the monomial, and

    w_t(s) = c_t s / (Q_jj s + ridge)   brought between   low_t s and high_t s

is best for a given s.  The prices sum_t Z_t of c_t - Q_jj w_t(s) fall as s grows, and the best s is
where they meet nu: 0 where they lie below from the start, 1 where they stay above.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numba import f8, i8

from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.relaxation import Aim, Relaxed, Warm, shares
from polysharp.engines.tree.relaxation_kernel import PRUNED, SOLVED
from polysharp.engines.tree.relaxation_sweeps import scaled_cost, steered
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic, price
from polysharp.problem.propagation import FREE, IN, OUT, States
from polysharp.typing import Array, Indices

STEERINGS, SWEEPS = 15, 5
HALVINGS = 40  # of an interval of shares
LEAST_NEW = 8  # monomials that may join the working set at a time; else half of its size

kernel = Compiler(__file__)
VEC, MAT = f8[::1], f8[:, ::1]


def solve_rows(
    systems: Sequence[Quadratic], terms: States, budget: int, start: Warm, aim: Aim
) -> Relaxed:
    """Solve the relaxation of a node until the threshold is proved or it is solved well enough."""
    rows = _Rows(systems, terms, budget)
    W, nu, until = start.w.copy(), start.nu, perf_counter() + aim.seconds
    W[:, terms == OUT] = 0.0
    ridge, boxes = systems[0].ridge, rows.boxes
    best, best_Z, best_W, value = -np.inf, np.zeros(len(ridge)), W, np.inf
    rho = rows.correlations(W)
    for _ in range(aim.max_passes):
        bound, Z, aa = rows.bound(W, rho)
        if bound > best:
            best, best_Z, best_W = bound, Z, W
        prices = price(rho, 0.0, ridge, *boxes).sum(axis=0)
        if nu <= 0.0:
            free = prices[terms == FREE]
            nu = max(float(np.partition(free, -budget)[-budget]), 1e-300)
        chosen, penalties = _penalties(W, ridge, boxes, terms, nu)
        t = min(1.0, budget / chosen) if chosen > 0.0 else 1.0
        value = scaled_cost(rows.yy, float(np.vdot(rows.q, W)), aa, penalties, t)
        far, gap = value - best, aim.threshold - best
        solved = far <= aim.tol * value or (value < aim.threshold and far <= aim.slack * gap)
        if best >= aim.threshold or solved or aim.cancelled() or perf_counter() >= until:
            break
        work = _working_set(W, prices, terms, nu)
        W, nu = rows.inner(work, Warm(W, rho, nu), aim.tol)
        rho = rows.correlations(W)
    code = PRUNED if best >= aim.threshold else SOLVED
    return Relaxed(code, best, value, best_W, best_Z, Warm(W, rho, nu))


class _Rows:
    """The quadratics of the responses at one node, which share Q and ridge."""

    def __init__(self, systems: Sequence[Quadratic], terms: States, budget: int) -> None:
        self.systems, self.terms, self.budget = systems, terms, budget
        self.ridge = systems[0].ridge
        self.q = np.array([own.q for own in systems])
        self.yy = sum(own.yy for own in systems)
        self.boxes = Boxes(
            np.array([own.low for own in systems]), np.array([own.high for own in systems])
        )

    def correlations(self, W: Array) -> Array:
        """Return rho = q - W Q."""
        A = np.flatnonzero(W.any(axis=0))
        return np.asarray(self.q - self.systems[0].times(A, W[:, A]))

    def bound(self, W: Array, rho: Array) -> tuple[float, Array, float]:
        """Return the bound that W proves, the prices it counts, and aa."""
        A = np.flatnonzero(W.any(axis=0))
        ya, aa, Z = bounds.joint_values(
            bounds.dual_values(own, own_rho, A, w[A])
            for own, own_rho, w in zip(self.systems, rho, W, strict=True)
        )
        fixed = Z[self.terms == IN]
        spent = bounds.top_sum(fixed, len(fixed))
        spent += bounds.top_sum(Z[self.terms == FREE], self.budget)
        if self.systems[0].scalable:
            value, t = bounds.scaled_value(ya, aa, spent)
        else:
            value, t = bounds.tangent_value(ya, aa, spent), 1.0
        return bounds.admitted(float(value), self.yy), t * (t * Z), aa

    def inner(self, work: Indices, at: Warm, tol: float) -> tuple[Array, float]:
        """Sweep the working set, steering nu until the shares fill the budget."""
        Q = np.ascontiguousarray(self.systems[0].block(work, work))
        ridge, state = self.ridge[work], self.terms[work].astype(np.float64)
        boxes, budget = self.boxes.among(work), self.budget
        here, R, nu = at.w[:, work].copy(order="C"), at.rho[:, work].copy(order="C"), at.nu
        rising, power = False, 1.0
        for _ in range(STEERINGS):
            for _ in range(SWEEPS):
                moved = _sweep(Q, ridge, state, *boxes, here, R, nu)
                if moved < 1e-8 * self.yy * tol:
                    break
            chosen, _ = _penalties(here, ridge, boxes, self.terms[work], nu)
            if abs(chosen - budget) <= 1e-3 * budget or (chosen < budget and nu <= 1e-300):
                break
            nu, rising, power = steered(nu, chosen / budget, rising, power)
            nu = max(nu, 1e-300)
        W = np.zeros_like(at.w)
        W[:, work] = here
        return W, nu


def _penalties(
    W: Array, ridge: Array, boxes: Boxes, terms: States, nu: float
) -> tuple[float, tuple[float, float]]:
    """Return the sum of the shares, and the ridge terms of what is in and of what is free."""
    term = 0.5 * ridge * np.einsum("tj,tj->j", W, W)
    fixed = float(term[terms == IN].sum())
    some = (terms == FREE) & (term > 0.0)
    s = shares(W[:, some], ridge[some], boxes.among(some), nu)
    return float(s.sum()), (fixed, float((term[some] / s).sum()))


def _working_set(W: Array, prices: Array, terms: States, nu: float) -> Indices:
    """List what is not zero or is in, and the dearest of what is priced above nu."""
    active = W.any(axis=0) | (terms == IN)
    new = np.flatnonzero(~active & (terms == FREE) & (prices > nu))
    room = max(LEAST_NEW, int(active.sum()) // 2)
    if len(new) > room:
        new = new[np.argpartition(-prices[new], room)[:room]]
    return np.concatenate([np.flatnonzero(active), new])


@kernel(f8(f8, f8, f8, f8, f8, f8))
def _within(c, own, ridge, low, high, s):  # type: ignore[no-untyped-def]
    """Return the best coefficient for a share of the monomial."""
    return min(max(c * s / (own * s + ridge), low * s), high * s)


@kernel(f8(VEC, f8, f8, MAT, MAT, i8, f8))
def _priced(c, own, ridge, low, high, a, s):  # type: ignore[no-untyped-def]
    """Return the price of a monomial where its coefficients are the best for a share of it."""
    total = 0.0
    for t in range(len(c)):
        rho = c[t] - own * _within(c[t], own, ridge, low[t, a], high[t, a], s)
        at = min(max(rho / ridge, low[t, a]), high[t, a])
        total += at * (rho - 0.5 * ridge * at)
    return total


@kernel(f8(VEC, f8, f8, MAT, MAT, i8, f8))
def _share(c, own, ridge, low, high, a, nu):  # type: ignore[no-untyped-def]
    """Return the share of a monomial at which its price is nu."""
    if _priced(c, own, ridge, low, high, a, 1.0) >= nu:
        return 1.0
    least, most = 0.0, 1.0
    for _ in range(HALVINGS):
        s = 0.5 * (least + most)
        if _priced(c, own, ridge, low, high, a, s) > nu:
            least = s
        else:
            most = s
    return least


@kernel(f8(MAT, VEC, VEC, MAT, MAT, MAT, MAT, f8), entry=True)
def _sweep(Q, ridge, state, low, high, W, R, nu):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent, a row of coefficients at a time; return the largest move."""
    largest, c = 0.0, np.empty(len(W))
    for a in range(len(ridge)):
        own, squares = Q[a, a], 0.0
        for t in range(len(W)):
            c[t] = R[t, a] + own * W[t, a]
            squares += c[t] * c[t]
        size = np.sqrt(squares)
        cut = np.sqrt(2.0 * nu * ridge[a]) if state[a] == 0.0 else 0.0
        s = 0.0
        if size > cut:
            # The norm's piece first; past its end the penalty is a ridge.
            s = 1.0
            if state[a] == 0.0 and (size - cut) * ridge[a] <= cut * own:
                s = ridge[a] * (size - cut) / (own * cut)
            outside = False
            for t in range(len(W)):
                w = c[t] * s / (own * s + ridge[a])
                outside |= w < low[t, a] * s or w > high[t, a] * s
            if outside and state[a] == 0.0:
                s = _share(c, own, ridge[a], low, high, a, nu)
        moved = 0.0
        for t in range(len(W)):
            w = _within(c[t], own, ridge[a], low[t, a], high[t, a], s) if s > 0.0 else 0.0
            step = w - W[t, a]
            if step != 0.0:
                W[t, a] = w
                for b in range(len(ridge)):
                    R[t, b] -= Q[a, b] * step
                moved += step * step
        largest = max(largest, moved * (own + ridge[a]))
    return largest
