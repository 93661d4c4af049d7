"""Diagonal and pairwise shifts of nodes: a relaxation solved together with its best diagonal.

The diagonal is looked for once the terms fixed in are eliminated (``problem.diagonal``), by
second-order steps; if it falls short, a pairwise shift (``problem.pairwise_shift``) takes it
further before a node is branched on, and serves the nodes below.  What a shift proves is a bound
like any other; its solution is where children start, and says which monomials to branch on.
Both are methods for one response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from polysharp.checker.evidence import Diagonal, Vector
from polysharp.engines.tree.bounder import Bounder
from polysharp.engines.tree.cost_model import (
    LEAST_MEASURED,
    Rate,
    StrengtheningPolicy,
    diagonal_step,
    pairwise_search,
)
from polysharp.engines.tree.relaxation import fresh_warm, solve_relaxation
from polysharp.engines.tree.search_state import Evidence, ListedNode, PricedPoint, SearchState
from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import Quadratic, priced_bound
from polysharp.problem.diagonal import (
    FIXED_RIDGE,
    INWARDS,
    LIKELY,
    BestDiagonal,
    DiagonalStart,
    best_diagonal,
    first_start,
)
from polysharp.problem.pairwise_shift import PairwiseMatrix, find_pairwise_shift
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.typing import Array, Indices

DIAGONAL_SHARE = 0.05  # share of the time spent that a first best diagonal may always take
RETREATS = (0.7, 0.4)  # multiples of a pairwise shift that are tried if it is too much as it is
BYTES_PER_PAIR, MOST_BYTES = 240.0, 1e9  # of the method that finds a pairwise shift
KEPT_BYTES = 4e9  # of all pairwise shifts that were made, whether they are still in use or not
TINY = 1e-300  # in place of a threshold of zero
BEYOND = 1.0 + 1e-7  # times the threshold: what a diagonal aims at, since rounding takes a little

ShiftStart = tuple[
    PairwiseMatrix | None, DiagonalStart
]  # a pairwise shift, and a diagonal to start from


class Shifted(NamedTuple):
    """A relaxation with its best diagonal, the pairwise shift it goes with, one well inside."""

    result: BestDiagonal
    pairs: PairwiseMatrix | None
    inside: Array


class DiagonalShift(Bounder):
    """Solves relaxations together with their best diagonals."""

    def __init__(self, state: SearchState) -> None:
        super().__init__(state)
        self.rate = Rate(1.0)  # seconds of a step over the guess
        self.steps = 8.0  # of one relaxation
        self.able = state.settings.diagonal_shifts and state.run.problem.n_responses == 1

    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that it takes."""
        return sum(self.seconds(len(node.free)) for node in nodes)

    def seconds(self, free: int) -> float:
        """Return the seconds of one relaxation with its best diagonal."""
        return self._guess(free) if self.able else np.inf

    def first_pays(self, free: int) -> bool:
        """Whether to look for a first best diagonal."""
        return self.able and self.affordable(free)

    def affordable(self, free: int) -> bool:
        """Whether there is time for a first best diagonal: from nothing it takes more steps."""
        state, settings = self.state, self.state.settings
        allowed = max(settings.diagonal_seconds, DIAGONAL_SHARE * state.run.seconds)
        return 2.0 * self._guess(free) <= min(allowed, 0.5 * state.left)

    def _guess(self, free: int) -> float:
        return self.steps * self.rate.seconds * diagonal_step(free)

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Go on from what the nodes above have left; return nodes as they are if that fails."""
        return [self._shifted(node) for node in nodes]

    def _shifted(self, node: ListedNode) -> ListedNode:
        began, left = perf_counter(), node.core.eliminated(node.fixed_in, node.free)
        if left is None or not np.any(left[1]):
            return node
        H, (b,), cost = left
        aim = cost - self.state.threshold * BEYOND
        found = self.best(node, H, b, self._inherited(node), aim)
        start = self.state.starts[node.number]
        if found is None and (start.diagonal is None or start.pairs is not None):
            # A diagonal that goes with a pairwise shift may be too much: begin from nothing.
            first = first_start(H, node.budget)
            if first is not None:
                s = 0.5 * (first.shares + start.shares(node)[node.free])
                found = self.best(node, H, b, [(None, first._replace(shares=s))], aim)
        if found is None:
            return node
        steps, seconds = found.result.steps, perf_counter() - began
        if steps and seconds > LEAST_MEASURED:
            self.rate.note(steps * diagonal_step(len(node.free)), seconds)
            self.steps = self.rate.memory * self.steps + (1.0 - self.rate.memory) * steps
        return self.proved(node, found)

    def _inherited(self, node: ListedNode) -> Iterator[ShiftStart]:
        """Yield what the node above has left, to be tried until one will do.

        With a monomial taken in, less of the curvature among the others is left.
        """
        start = self.state.starts[node.number]
        if start.diagonal is None or (start.pairs is not None and node.budget == 1):
            return
        own = start.diagonal.among(node.free)
        if start.pairs is None:
            yield None, own
            return
        for factor in (1.0, *RETREATS):
            less = own._replace(delta=factor * own.delta, inside=factor * own.inside)
            yield start.pairs if factor == 1.0 else start.pairs.times(factor), less

    def best(
        self, node: ListedNode, H: Array, b: Array, candidates: Iterable[ShiftStart], aim: float
    ) -> Shifted | None:
        """Return the best diagonal from the first candidate that will do."""
        tol: Any = {"tol": self.state.settings.diagonal_tol, "expired": self.state.expired}
        for pairs, start in candidates:
            K = None if pairs is None else pairs.matrix(node.listed_free, True, node.budget)
            result = best_diagonal(H if K is None else H - K, b, node.budget, start, aim=aim, **tol)
            if result is not None:
                return Shifted(result, pairs, start.inside)
        return None

    def proved(self, node: ListedNode, shifted: Shifted) -> ListedNode:
        """Keep a solution as the start of children, and bound the node if it can be proved."""
        core, free, fixed_in, among = node.core, node.free, node.fixed_in, node.alive
        result, pairs, inside = shifted
        kept = DiagonalStart(*np.zeros((3, core.size)))
        kept.delta[free], kept.inside[free], kept.shares[free] = result.delta, inside, result.shares
        self.state.starts[node.number].keep(kept, pairs)
        w, K = np.zeros(core.size), None
        w[free] = result.w
        if len(fixed_in):
            rest = core.system.q[fixed_in] - core.system.block(fixed_in, free) @ result.w
            w[fixed_in] = solve_spd(core.problem.hessian(core.index[fixed_in]), rest)
        if pairs is not None:
            K = pairs.matrix(core.index[among], node.terms[among] == FREE, node.budget)
        ridge = np.full(core.size, FIXED_RIDGE * core.problem.lam)
        # A diagonal that is not proved as it stands is moved inwards.
        for inwards in INWARDS:
            ridge[free] = (1.0 - inwards) * result.delta + inwards * inside
            system = core.curved(among, ridge[among], K)
            if system is not None:
                return self._screened(node, system, w[among], pairs)
        return node

    def _screened(
        self, node: ListedNode, system: Quadratic, w: Array, pairs: PairwiseMatrix | None
    ) -> ListedNode:
        """Bound and screen a node with a quadratic that is proved over its alive monomials."""
        core, among, Z = node.core, node.alive, np.zeros(node.core.size)
        bound, at, Z[among] = self._priced(node, system, w)
        shift = Diagonal(core.index[among], system.ridge - core.problem.lam)
        if pairs is not None:
            own = np.intersect1d(node.listed_free, pairs.index, assume_unique=True)
            shift = replace(shift, pairs=pairs, free=own, terms=node.budget)
        evidence = Evidence(Vector(core.index[among], at), shift)
        return node.screened(PricedPoint(bound, Z, evidence), self.state.threshold)

    def _priced(self, node: ListedNode, system: Quadratic, w: Array) -> tuple[float, Array, Array]:
        """Return a bound, the point that proves it and its prices: at w, or better within boxes.

        w is best if nothing is bounded; with this diagonal the boxes ask for another point.
        """
        terms, budget = node.terms[node.terms != OUT], node.budget
        bound, Z = priced_bound(system, w, terms == IN, budget)
        if not system.boxed:
            return bound, w, Z
        nu = float(np.sort(Z[terms == FREE])[-budget])
        warm = fresh_warm([system], w[None], max(nu, 1e-300))
        relaxed = solve_relaxation([system], terms, budget, warm, self.state.aim())
        if relaxed.bound > bound:
            return relaxed.bound, relaxed.w[0], relaxed.Z
        return bound, w, Z


class PairwiseShift(Bounder):
    """Looks for pairwise shifts of nodes that are to be branched on."""

    def __init__(self, state: SearchState, diagonal: DiagonalShift) -> None:
        super().__init__(state)
        self.diagonal = diagonal
        self.policy = StrengtheningPolicy(state.settings.pairwise_worth)
        self.rate = Rate(1.0, memory=0.8, least=0.0)  # seconds over the guess
        self.bytes = 0.0  # of all shifts so far

    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that it takes; infinite without a best diagonal to start from."""
        return sum(self._seconds(node) for node in nodes)

    def pays(self, node: ListedNode) -> bool:
        """Whether to look for a shift before branching on a node."""
        seconds, left = self.estimate([node]), self.state.left
        short = self.short(node.bound)
        return seconds <= 0.3 * left and self.policy.begins(node.budget, short, seconds, left)

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Look for shifts, from those that the nodes above have left."""
        return [self._paired(node) for node in nodes]

    def note(self, before: list[ListedNode], after: list[ListedNode], seconds: float) -> None:
        """Learn what shifts have brought and taken."""
        guess = sum(pairwise_search(len(node.free)) for node in before)
        self.rate.note(guess, seconds)
        for old, new in zip(before, after, strict=True):
            reached = 0.0 if new.closed else self.short(new.bound)
            self.policy.note_shift(old.budget, self.short(old.bound), reached)
            self.bytes += 2.0 * len(old.free) ** 2

    def short(self, bound: float) -> float:
        """Return by which share of the threshold a bound falls short of it."""
        threshold = self.state.threshold
        return max(threshold - bound, 0.0) / max(threshold, TINY)

    def _seconds(self, node: ListedNode) -> float:
        free, start = len(node.free), self.state.starts[node.number]
        able = (
            self.state.settings.pairwise_shifts
            and start.diagonal is not None
            and not start.paired
            and 1 < node.budget < free
            and BYTES_PER_PAIR * free * free <= MOST_BYTES
            and self.bytes + 2.0 * free * free <= KEPT_BYTES
        )
        return self.rate.seconds * pairwise_search(free) if able else np.inf

    def _paired(self, node: ListedNode) -> ListedNode:
        start, budget = self.state.starts[node.number], node.budget
        left = node.core.eliminated(node.fixed_in, node.free)
        start.paired = True
        if left is None or not np.any(left[1]) or start.diagonal is None:
            return node
        H, (b,), cost = left
        K = None
        if start.pairs is not None:
            K = start.pairs.matrix(node.listed_free, True, budget)
        aim = cost - self.state.threshold * BEYOND
        found = find_pairwise_shift(
            H, b, budget, start.diagonal.among(node.free), K=K, aim=aim,
            worthwhile=self._continues, expired=self.state.expired,
        )  # fmt: skip
        if found is None or not cost - found.gain > node.bound:
            return node
        near = DiagonalStart(0.98 * found.delta, 0.5 * found.delta, found.shares)
        candidate = found.matrix_over(node.listed_free), near
        shifted = self.diagonal.best(node, H, b, [candidate], aim)
        if shifted is None or not cost - shifted.result.gain > node.bound:
            return node
        return self.diagonal.proved(node, shifted)

    def _continues(self, gain: float, aim: float, brought: float, seconds: float) -> bool:
        """Whether to go on, these seconds having lowered the gain by so much."""
        short, more = (own / max(self.state.threshold, TINY) for own in (gain - aim, brought))
        return self.policy.continues(short, more, seconds, self.state.left)


def drop_chain(
    node: ListedNode, point: DiagonalStart, K: Array | None, length: int
) -> Indices | None:
    """Return monomials whose loss would hurt most, each with those before it taken in.

    With A = H + diag(delta (1/s - 1)) and omega = A^-1 b, leaving j out lowers the gain of the
    relaxation by omega_j^2 / (2 (A^-1)_jj) while the shares stay; taking it in makes its share 1.
    """
    free = node.free
    left = node.core.eliminated(node.fixed_in, free)
    if left is None:
        return None
    H, (b,), _ = left
    if K is not None:
        H -= K
    delta, _, s = point.among(free)
    s = np.clip(s, 1e-6, 1.0)
    H.ravel()[:: len(free) + 1] += delta * (1.0 / s - 1.0)
    try:
        inverse, chain = np.linalg.inv(H), list[int]()
    except np.linalg.LinAlgError:  # singular to rounding
        return None
    for _ in range(length):
        omega = inverse @ b
        drop = omega**2 / np.diagonal(inverse)
        likely = s > LIKELY
        likely[chain] = False
        order = (
            np.where(likely, drop, -1.0)
            if likely.any()
            else np.where(np.isin(np.arange(len(free)), chain), -1.0, s)
        )
        j = int(np.argmax(np.nan_to_num(order, nan=-0.5)))  # none of those chosen before
        chain.append(j)
        change, s[j] = -delta[j] * (1.0 / s[j] - 1.0), 1.0
        column = inverse[:, j].copy()
        inverse -= np.multiply.outer(column, column) * (change / (1.0 + change * column[j]))
    return free[chain]
