"""The perspective relaxation of a node, and a lower bound that is safe at any moment.

A node fixes monomials in (set O) or out, and may choose at most L of the free ones.  With ridges
such that Q = G + lam I - diag(ridge) >= 0 on the monomials still alive (``bounds``), the relaxation

    min_w,s  1/2 yy - q'w + 1/2 w'Q w + 1/2 sum_O ridge_j w_j^2 + 1/2 sum_free ridge_j w_j^2/s_j
    s.t.     0 <= s <= 1,  sum_free s_j <= L,  low_j s_j <= w_j <= high_j s_j

is exact on binary points, and the tighter the more of G has moved into the ridge.  Any w proves a
lower bound (``bounds``), so a node may stop whenever its bound passes the incumbent, however well
the relaxation was solved.

For a fixed price nu of the budget the s_j leave a separable penalty (the reverse Huber function,
an absolute value that turns into ridge_j w^2/2 + nu; if the box ends before it turns, an absolute
value of slope ridge_j end/2 + nu/end), which coordinate descent handles in closed form; nu is
steered until sum s_j = L.  Sweeps run on a small working set (``relaxation_sweeps``); passes over
all monomials are made only to bound and to extend that set:

    all monomials    rho, prices ---> bound, working set
                        ^                   |
                        |                   v
    working set      steps of w <--- sweeps, extrapolated; nu steered

Every product that enters rho is counted, with its weight: the rounding of the bound depends on
that.  If Q = FF' is not formed, the steps d of w enter as F(F'd), which is rounded no more than the
sum of as many products Q_ij d_j with a Q that was summed over the rows.

Several responses with one support have a row of coefficients each: all arrays have a row for each
response, and there is one quadratic for each, with the same Q and ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polysharp.engines.tree.relaxation_sweeps import (
    BEST,
    CUTS,
    FORMED,
    RIDGE,
    SIZES,
    STATE,
    SWEEPS,
    Vectors,
    ascend,
    solve_working_set,
    subtract,
)
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem.bounds import Quadratic
from polysharp.problem.propagation import FREE, IN, OUT, States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

SOLVED, PRUNED, UNFINISHED, STOPPED = range(4)  # stopped: no work left, or cancelled

# Compiled sweeps see neither the clock nor Ctrl-C, and with thousands of monomials and hardly any
# ridge they may run for ten seconds.  They get so many multiplications per second left, fewer than
# most machines make, and enough for a bound of small problems when no time is left; those of half a
# second at a time, with a look around in between.
RATE, LEAST_SECONDS, SLICE_SECONDS = 5e8, 0.2, 0.5
SLOW = 12  # times that sweeps read as many numbers as F has: a fast relaxation is solved by then
FORMING = 5e-11  # seconds to form Q, over the monomials and the size of F
LEAST_NEW = 50  # monomials that may join the working set at a time, beside half of its size


@dataclass(eq=False)
class Warm:
    """Where a relaxation starts and where it ended, a row per response; rho is in step with w."""

    w: Array
    rho: Array
    nu: float
    products: float = 0.0  # products added into rho since it was q
    mass: float = 0.0  # sum of |dw_j| size_j over them

    def copy(self) -> Warm:
        """Return an independent copy."""
        return Warm(self.w.copy(), self.rho.copy(), self.nu, self.products, self.mass)

    def count(self, steps: Array, sizes: Array) -> None:
        """Count the products that steps of some monomials add to rho."""
        self.products += float(len(sizes))
        self.mass += float((np.abs(steps) @ sizes).max(initial=0.0))


@dataclass(frozen=True)
class Aim:
    """How far to go: until ``threshold`` is proved, or the relaxation is solved well enough.

    Well enough: to relative accuracy ``tol``, or, when the threshold is out of reach, to
    ``slack`` times the distance to it; or until about ``seconds`` have passed.
    """

    threshold: float = np.inf
    max_passes: int = 30
    tol: float = 1e-4
    slack: float = 0.1
    seconds: float = np.inf
    rate: float = RATE
    least_seconds: float = LEAST_SECONDS
    cancelled: Callable[[], bool] = lambda: False

    def reached(self, value: float, bound: float) -> bool:
        """Whether a relaxation of this value is solved well enough by this bound."""
        far, within = value - bound, self.slack * (self.threshold - bound)
        return far <= self.tol * value < np.inf or (value < self.threshold and far <= within)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Outcome of a relaxation: a safe bound, the dual point that proves it, the last iterate."""

    code: int
    bound: float
    primal: float  # value of a feasible point of the relaxation: an upper bound on its optimum
    w: Array  # the dual point, as the w whose tangent proves the bound; a row per response
    Z: Array  # prices of all monomials at that point, scaled as the bound was
    warm: Warm


def solve_relaxation(
    systems: Sequence[Quadratic],
    state: States,
    budget: int,
    warm: Warm,
    aim: Aim,
    core: Subproblem | None = None,
) -> Relaxed:
    """Solve the relaxation of a node, one quadratic per response; ``warm`` is updated in place.

    ``core`` is what the quadratics are of: it keeps products that were made before.
    """
    # Any w proves a bound, so the dual starts where the parent ended; only the iterate must drop
    # what is out by now.
    node = _Relaxation(systems, state, budget, warm)
    dropped = np.flatnonzero((state == OUT) & warm.w.any(axis=0))
    if len(dropped):
        steps = warm.w[:, dropped]
        warm.rho += (core or systems[0]).times(dropped, steps)
        warm.w[:, dropped] = 0.0
        warm.count(steps, systems[0].sizes[dropped])
    left = aim.rate * max(aim.seconds, aim.least_seconds)
    code, value, settled = UNFINISHED, np.inf, False
    # Slow sweeps are better made over Q, if there is time to form it.
    F = systems[0].F
    forms = len(systems) == 1 and len(F) and FORMING * len(F) * F.size < aim.seconds
    fast = SLOW * F.size if forms and core is not None else np.inf
    for _ in range(aim.max_passes):
        node.ascend(warm, aim.threshold)
        if node.bound >= aim.threshold:
            code = PRUNED
            break
        news = node.choose_work(warm)
        if (settled and not news) or (len(systems) > 1 and aim.reached(value, node.bound)):
            code = SOLVED
            break
        if left <= 0.0 or aim.cancelled():
            code = STOPPED
            break
        slice_of = min(left, aim.rate * SLICE_SECONDS, fast)
        settled, value, after = node.solve_working_set(warm, aim, slice_of)
        used = slice_of - max(after, 0.0)
        left, fast = left - used, fast - used
        if fast <= 0.0 and core is not None:
            node.read(core.read_once_more(slow=True).system)
            fast = np.inf
    return Relaxed(code, node.bound, value, node.best.w, node.shared[BEST], warm)


class _Relaxation:
    """The relaxation of one node: its best dual point so far, and its working set."""

    def __init__(
        self, systems: Sequence[Quadratic], state: States, budget: int, warm: Warm
    ) -> None:
        self.system, self.state = systems[0], state
        self.fixed, self.free = state == IN, state == FREE
        each = [(own.q, own.low, own.high) for own in systems]
        self.q, *boxes = (np.array(rows) for rows in zip(*each, strict=True))
        self.boxes, self.boxed = Boxes(*boxes), any(own.boxed for own in systems)
        self.known = np.array([(own.yy, own.response) for own in systems])
        self.best = Vectors(warm.w.copy(), warm.rho.copy(), self.q, *self.boxes)
        self.between = self.best._replace(w=np.empty_like(warm.w), rho=np.empty_like(warm.w))
        self.bound, self.shared = -np.inf, self._shared(slice(None))
        self.shared[BEST] = 0.0
        self.budget, self.kind = budget, (0, False, False, False)
        self.read(self.system)
        self.inside = np.zeros(len(state), dtype=bool)  # the working set

    def read(self, system: Quadratic) -> None:
        """Go on with the same quadratic, of which Q may be formed now."""
        self.system = system
        self.kind = (self.budget, system.scalable, self.boxed, not len(system.F))

    def _shared(self, among: Indices | slice) -> Array:
        shared = np.empty((CUTS + 1, len(self.state[among])))
        for row, values in (
            (RIDGE, self.system.ridge), (SIZES, self.system.sizes), (STATE, self.state)
        ):  # fmt: skip
            shared[row] = values[among]
        return shared

    def ascend(self, warm: Warm, threshold: float) -> None:
        """Move the best dual point towards the iterate while that raises its bound."""
        rounding = self.system.rounding(warm.products), warm.mass
        self.bound = ascend(
            self.best._replace(w=warm.w, rho=warm.rho), self.best, self.between,
            self.shared, self.known, rounding, self.kind, (threshold, self.bound),
        )  # fmt: skip
        # A point between two others is rounded once more, which counts as eight products.
        warm.products += 8.0

    def choose_work(self, warm: Warm) -> bool:
        """List the working set; return whether a newcomer is dearer than nu.

        Monomials priced above nu enter, dearest first, so that the set grows by half at most.
        """
        Z = self.system.prices(warm.rho, *self.boxes, boxed=self.boxed).sum(axis=0)
        active = warm.w.any(axis=0)
        new = np.flatnonzero(~active & self.free & (warm.nu < Z))
        room = LEAST_NEW + int(np.count_nonzero(active)) // 2
        if len(new) > room:
            new = new[Z[new] > np.partition(Z[new], -room)[-room]]
        before, self.inside = self.inside, active | self.fixed
        self.inside[new] = True
        return bool(np.any(self.inside & ~before & (warm.nu * (1.0 + 1e-3) < Z)))

    def solve_working_set(self, warm: Warm, aim: Aim, work: float) -> tuple[bool, float, float]:
        """Solve the relaxation over the working set; return (settled, value, work left).

        For several responses it is seen from the bound over all monomials whether it is settled.
        """
        system, chosen = self.system, np.flatnonzero(self.inside)
        vectors = (warm.w, warm.rho, self.q, *self.boxes)
        point = Vectors(*(np.ascontiguousarray(own[:, chosen]) for own in vectors))
        formed, shared, settled = self.kind[FORMED], self._shared(chosen), False
        A = system.block(chosen, chosen) if formed else system.F[chosen]
        if len(self.known) > 1:
            from polysharp.engines.tree.relaxation_rows import solve_rows  # compiled when needed

            Q, yy = A if formed else A @ A.T, float(self.known[:, 0].sum())
            value, warm.nu, left = solve_rows(
                Q, point, shared, self.kind[0], yy, aim.tol, warm.nu, work
            )
        else:
            image = point.rho[0].copy() if formed else -(point.w[0] @ A)
            trail = np.empty((3 * SWEEPS + 2, max(*A.shape, SWEEPS + 1)))
            settled, value, warm.nu, left = solve_working_set(
                A, image, point, shared, self.known, trail, self.kind,
                (aim.threshold, aim.tol, aim.slack, self.bound, warm.nu, work),
            )  # fmt: skip
        self._move(warm, chosen, point.w, A)
        return settled, value, left

    def _move(self, warm: Warm, chosen: Indices, W: Array, A: Array) -> None:
        """Move the coefficients of a working set, and rho with them; A is F over it, or Q."""
        steps = W - warm.w[:, chosen]
        warm.w[:, chosen] = W
        if len(self.system.F):
            warm.rho -= (steps @ A) @ self.system.F.T
        moved = np.flatnonzero(steps.any(axis=0))
        steps, chosen = np.ascontiguousarray(steps[:, moved]), chosen[moved]
        if not len(self.system.F):
            for own, rho in zip(steps, warm.rho, strict=True):
                subtract(self.system.Q, chosen, own, rho)
        warm.count(steps, self.system.sizes[chosen])


def fresh_warm(systems: Sequence[Quadratic], W: Array, nu: float) -> Warm:
    """Build a starting point from coefficients alone, a row per response."""
    support = np.flatnonzero(W.any(axis=0))
    rho = np.array([own.q for own in systems])
    if len(support):
        rho -= systems[0].times(support, W[:, support])
    mass = float((np.abs(W[:, support]) @ systems[0].sizes[support]).max(initial=0.0))
    return Warm(W.copy(), rho, nu, float(len(support)), mass)


def shares(W: Array, ridge: Array, boxes: Boxes, nu: float) -> Array:
    """Return s_j of the relaxation at coefficients W, a row per response."""
    slope = np.sqrt(0.5 * ridge / max(nu, 1e-300))
    limits = np.where(W > 0.0, boxes.high, np.where(W < 0.0, -boxes.low, 1.0))
    norms = np.sqrt(np.einsum("tj,tj->j", W, W))
    s: Array = np.maximum(norms * slope, (np.abs(W) / limits).max(axis=0))
    return np.minimum(s, 1.0)
