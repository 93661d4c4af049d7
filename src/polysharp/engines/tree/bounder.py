"""One interface for whatever raises the bound of nodes, and its simplest case, the relaxation.

A bounder says what it would take for some nodes, and applies itself to them: it returns nodes that
cover them with more proved, most often the same ones.  What it cannot do takes for ever, so that
the scheduler never asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from polysharp.engines.tree.cost_model import Rate
from polysharp.engines.tree.relaxation import Aim, Warm, fresh_warm, solve_relaxation
from polysharp.engines.tree.search_state import Evidence, ListedNode, PricedPoint, SearchState
from polysharp.problem.propagation import IN, OUT, States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array

WORTH_SOLVING_AGAIN = 0.85  # if no more than this share of the monomials is left
# Relaxations rounded when a proof is not easy: (share of the budget, of the ridge).
EXPLORATIONS = ((1.0, 1.0), (0.5, 1.0), (1.0, 10.0), (1.0, 0.1), (2.0, 1.0))
EXPLORING = 0.05  # share of the time spent that each of them may take: they only point somewhere


class Bounder(ABC):
    """Raises the bound of nodes."""

    def __init__(self, state: SearchState) -> None:
        self.state = state

    @abstractmethod
    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that ``apply`` takes; infinite if it cannot be applied."""

    @abstractmethod
    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Return nodes that cover these, with more proved if that was possible."""

    def again(self, before: ListedNode, after: ListedNode) -> bool:
        """Whether what it has fixed makes it worth applying once more."""
        return len(after.free) <= WORTH_SOLVING_AGAIN * len(before.free)


class Relaxation(Bounder):
    """Coordinate descent on the perspective relaxation, one node at a time."""

    def __init__(self, state: SearchState) -> None:
        super().__init__(state)
        self.rate = Rate(2e-9, memory=0.5, least=0.0)  # of the square of the free monomials

    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that relaxations take."""
        return self.rate.seconds * sum(len(node.free) ** 2 for node in nodes)

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Solve relaxations from where they stand, and screen."""
        return [self._relaxed(node) for node in nodes]

    def again(self, before: ListedNode, after: ListedNode) -> bool:
        """Whether the relaxation changes: fixing out what it leaves at zero does not move it."""
        if len(after.fixed_in) > len(before.fixed_in):
            return True
        out, start = (after.terms == OUT) & (before.terms != OUT), self.state.starts[after.number]
        return start.warm is not None and bool(np.any(start.warm.w[:, out] != 0.0))

    def batches(self, nodes: Sequence[ListedNode]) -> list[list[ListedNode]]:
        """Return the nodes in groups, each of which is best bounded at once."""
        return [[node] for node in nodes]

    def points(self, core: Subproblem, terms: States, start: Callable[[], Warm]) -> Iterator[Array]:
        """Yield the shares of relaxations with other budgets and ridges: they lie elsewhere."""
        run = self.state.run
        for share, factor in EXPLORATIONS:
            if run.expired:
                return
            systems = [own._replace(ridge=factor * own.ridge) for own in core.systems]
            seconds = min(EXPLORING * run.seconds, run.time_left)
            aim, warm = Aim(tol=1e-3, slack=0.0, seconds=seconds), start()
            warm.nu /= factor
            budget = explored_budget(core, terms, share)
            yield np.abs(solve_relaxation(systems, terms, budget, warm, aim).warm.w).max(axis=0)

    def _relaxed(self, node: ListedNode) -> ListedNode:
        state, core, began = self.state, node.core.read_once_more(), perf_counter()
        start, aim = state.starts[node.number], state.aim()
        if start.warm is None:
            start.warm = fresh_warm(core.systems, np.zeros_like(core.q), 1.0)
        relaxed = solve_relaxation(core.systems, node.terms, node.budget, start.warm, aim, core)
        self.rate.note(len(node.free) ** 2, perf_counter() - began)
        evidence = Evidence(node.written(relaxed.w))
        point = PricedPoint(relaxed.bound, relaxed.Z, evidence)
        return replace(node, core=core).screened(point, aim.threshold)


def explored_budget(core: Subproblem, terms: States, share: float) -> int:
    """Return a share of the terms that are left, at least one."""
    left = core.structure.max_terms - int(np.count_nonzero(terms == IN))
    return min(max(1, round(share * left)), core.size)
