"""The perspective relaxation of several responses with one support.

As for one response (``tree.relaxation``), with the row of coefficients (w_1j, w_2j, ...) of a
monomial in place of one coefficient: the penalty of a monomial depends on the norm of its row, and
coordinate descent moves a row at a time, along (c_1, c_2, ...) where c_t is what the others leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import f8

from polysharp.engines.compiling import Compiler
from polysharp.problem.joint import JointCore
from polysharp.problem.propagation import FREE, IN, OUT, States
from polysharp.typing import Array, Indices

PASSES, STEERINGS, SWEEPS = 30, 15, 5
TOL, SLACK = 1e-4, 0.1  # as for one response: relative, or as a share of the way to the threshold
LEAST_NEW = 8  # monomials that may join the working set at a time; else half of its size

kernel = Compiler(__file__)
VEC, MAT = f8[::1], f8[:, ::1]


@dataclass(eq=False)
class JointIterate:
    """Coefficients, one row per response, and the price of the budget."""

    W: Array
    nu: float

    def among(self, keep: Indices) -> JointIterate:
        """Return the iterate over some monomials."""
        return JointIterate(np.ascontiguousarray(self.W[:, keep]), self.nu)


@dataclass(frozen=True, eq=False)
class JointRelaxed:
    """A bound, the prices that it counted, the coefficients behind it, and the last iterate."""

    bound: float
    Z: Array
    W: Array
    last: JointIterate


def relax(
    core: JointCore,
    terms: States,
    budget: int,
    start: JointIterate,
    threshold: float,
    expired: Callable[[], bool],
) -> JointRelaxed:
    """Solve the relaxation of a node until the threshold is proved or it is solved well enough."""
    W, nu = start.W.copy(), start.nu
    W[:, terms == OUT] = 0.0
    ridge, best, best_Z, best_W = core.system.ridge, -np.inf, np.zeros(core.size), W
    for _ in range(PASSES):
        bound, Z, rho, aa = core.bound(W, terms, budget)
        if bound > best:
            best, best_Z, best_W = bound, Z, W
        prices = 0.5 * np.einsum("tj,tj->j", rho, rho) / ridge
        if nu <= 0.0:
            free = prices[terms == FREE]
            nu = max(float(np.partition(free, -budget)[-budget]), 1e-300)
        value = 0.5 * aa + _penalty(W, ridge, terms, nu, budget)[1]
        far = value - best
        solved = far <= TOL * value or (value < threshold and far <= SLACK * (threshold - best))
        if best >= threshold or solved or expired():
            break
        work = _working_set(W, prices, terms, nu)
        W, nu = _inner(core, terms, budget, work, JointIterate(W, nu), rho)
    return JointRelaxed(best, best_Z, best_W, JointIterate(W, nu))


def shares(W: Array, ridge: Array, terms: States, nu: float) -> Array:
    """s_j of the relaxation: 1 for monomials in, 0 for those out."""
    s: Array = np.minimum(1.0, np.sqrt(0.5 * ridge * np.einsum("tj,tj->j", W, W) / max(nu, 1e-300)))
    s[terms == OUT] = 0.0
    s[terms == IN] = 1.0
    return s


def _penalty(W: Array, ridge: Array, terms: States, nu: float, budget: int) -> tuple[float, float]:
    """Return (sum of the shares, ridge term of the point with shares scaled to the budget)."""
    term = 0.5 * ridge * np.einsum("tj,tj->j", W, W)
    fixed = float(term[terms == IN].sum())
    rest = term[(terms == FREE) & (term > 0.0)]
    s = np.minimum(1.0, np.sqrt(rest / nu))
    chosen = float(s.sum())
    return chosen, fixed + float((rest / s).sum()) * max(1.0, chosen / max(budget, 1))


def _working_set(W: Array, prices: Array, terms: States, nu: float) -> Indices:
    """List what is not zero or is in, and the dearest of what is priced above nu."""
    active = W.any(axis=0) | (terms == IN)
    new = np.flatnonzero(~active & (terms == FREE) & (prices > nu))
    room = max(LEAST_NEW, int(active.sum()) // 2)
    if len(new) > room:
        new = new[np.argpartition(-prices[new], room)[:room]]
    return np.concatenate([np.flatnonzero(active), new])


def _inner(
    core: JointCore,
    terms: States,
    budget: int,
    work: Indices,
    at: JointIterate,
    rho: Array,
) -> tuple[Array, float]:
    """Sweep the working set, steering nu until the shares fill the budget."""
    Q = np.ascontiguousarray(core.system.Q[work[:, None], work])
    ridge, state = core.system.ridge[work], terms[work].astype(np.float64)
    here, R, nu = at.W[:, work].copy(order="C"), rho[:, work].copy(order="C"), at.nu
    for _ in range(STEERINGS):
        for _ in range(SWEEPS):
            if _sweep(Q, ridge, state, here, R, nu) < 1e-8 * core.problem.yy * TOL:
                break
        chosen, _ = _penalty(here, ridge, terms[work], nu, budget)
        if abs(chosen - budget) <= 1e-3 * budget or (chosen < budget and nu <= 1e-300):
            break
        nu = max(nu * min(2.0, max(0.5, chosen / budget)), 1e-300)
    W = np.zeros_like(at.W)
    W[:, work] = here
    return W, nu


@kernel(f8(MAT, VEC, VEC, MAT, MAT, f8), entry=True)
def _sweep(Q, ridge, state, W, R, nu):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent, a row of coefficients at a time; return the largest move."""
    largest = 0.0
    for a in range(len(ridge)):
        squares = 0.0
        for t in range(len(W)):
            c = R[t, a] + Q[a, a] * W[t, a]
            squares += c * c
        size = np.sqrt(squares)
        cut = np.sqrt(2.0 * nu * ridge[a]) if state[a] == 0.0 else 0.0
        factor = 0.0
        if size > cut:
            # The norm's piece first; past its end the penalty is a ridge.
            if state[a] == 0.0 and (size - cut) * ridge[a] <= cut * Q[a, a]:
                factor = (size - cut) / (Q[a, a] * size)
            else:
                factor = 1.0 / (Q[a, a] + ridge[a])
        moved = 0.0
        for t in range(len(W)):
            step = factor * (R[t, a] + Q[a, a] * W[t, a]) - W[t, a]
            if step != 0.0:
                W[t, a] += step
                for b in range(len(ridge)):
                    R[t, b] -= Q[a, b] * step
                moved += step * step
        largest = max(largest, moved * (Q[a, a] + ridge[a]))
    return largest
