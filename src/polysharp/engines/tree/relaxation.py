"""The perspective relaxation of a node, and a lower bound that is safe at any moment.

A node fixes monomials in (set O) or out, and may choose at most L of the free ones.  With ridges
such that Q = G + lam I - diag(ridge) >= 0 on the monomials still alive (``bounds``), the relaxation

    min_w,s  1/2 yy - q'w + 1/2 w'Q w + 1/2 sum_O ridge_j w_j^2 + 1/2 sum_free ridge_j w_j^2/s_j
    s.t.     0 <= s <= 1,  sum_free s_j <= L,  low_j s_j <= w_j <= high_j s_j

is exact on binary points, and the tighter the more of G has moved into the ridge.  Any w proves a
lower bound (``bounds``), so a node may stop whenever its bound passes the incumbent, however well
the relaxation was solved.

For a fixed price nu of the budget the s_j leave a separable penalty (the reverse Huber function,
an absolute value that turns into ridge_j w^2/2 + nu; where the box ends before it turns, an
absolute value of slope ridge_j end/2 + nu/end), which coordinate descent handles in closed form; nu
is steered until sum s_j = L.  Sweeps run on a small working set, and where they creep, as with
correlated monomials and little ridge, they are extrapolated; passes over all monomials are made
only to bound and to extend that set.

Several responses with one support have a row of coefficients each (``relaxation_rows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polysharp.engines.tree.relaxation_kernel import STOPPED, solve
from polysharp.engines.tree.relaxation_pricing import Goal, Iterate, Part, RelaxationState, Scratch
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem.bounds import Quadratic
from polysharp.problem.propagation import OUT, States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array

# A compiled relaxation sees neither the clock nor Ctrl-C, and with thousands of monomials and
# hardly any ridge it may sweep for ten seconds.  It gets so many multiplications per second left,
# fewer than most machines make, and enough for a bound of small problems when no time is left;
# those of half a second at a time, with a look around in between.
RATE, LEAST_SECONDS, SLICE_SECONDS = 5e8, 0.2, 0.5
FORMED = 5e-11  # seconds, about, for each product that Q is made of where it is not formed
SLOW = 12  # times that sweeps read as many numbers as F has: a fast relaxation is solved by then


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


class Descent(NamedTuple):
    """A node to relax elsewhere (``descents``): states of all monomials, and where to start."""

    terms: States
    budget: int
    w: Array
    threshold: float


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

    def slices(self) -> Iterator[float]:
        """Yield the multiplications that may be made before each look around."""
        left = max(self.seconds, self.least_seconds)
        while left >= 0.0 and not self.cancelled():
            yield self.rate * min(left, SLICE_SECONDS)
            left = left - SLICE_SECONDS if left > SLICE_SECONDS else -1.0


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

    ``core`` is what the quadratics are of, where Q may yet have to be formed.
    """
    if len(systems) > 1:
        # Here and not above: this kernel is compiled when it is needed.
        from polysharp.engines.tree.relaxation_rows import solve_rows

        return solve_rows(systems, state, budget, warm, aim)
    (system,), (w,), (rho,) = systems, warm.w, warm.rho
    # Any w proves a bound, so the dual starts where the parent ended; only the iterate must drop
    # what is out by now.
    size = len(system.q)
    best, Z = Iterate(w.copy(), rho.copy()), np.zeros(size)
    dropped = np.flatnonzero((state == OUT) & (w != 0.0))
    if len(dropped):
        rho += (core or system).times(dropped, w[dropped])
        warm.products += len(dropped)
        warm.mass += float(np.abs(w[dropped]) @ system.sizes[dropped])
        w[dropped] = 0.0
    part = Part(state.astype(np.float64), budget, system.boxed)
    point = Iterate(w, rho)
    goal = Goal(aim.threshold, aim.max_passes, aim.tol, aim.slack)
    scratch = Scratch(Z, np.empty((3, size)), np.empty((3, size), dtype=np.int64))
    code, at = STOPPED, RelaxationState(-np.inf, np.inf, warm.nu, warm.products, warm.mass, 0.0)
    fast = SLOW * system.F.size if len(system.F) else np.inf
    for work in aim.slices():
        at = at._replace(work=float(min(work, fast)))
        code, values = solve(system, part, goal, point, best, at, scratch)
        at = RelaxationState(*values)
        if code != STOPPED:
            break
        if fast < np.inf and core is not None and FORMED * size * system.F.size < aim.seconds:
            system = core.read_once_more(slow=True).system  # slow sweeps are better made over Q
        fast = np.inf
    warm.nu, warm.products, warm.mass = at.nu, at.products, at.mass
    return Relaxed(int(code), at.bound, at.primal, best.w[None], Z, warm)


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
