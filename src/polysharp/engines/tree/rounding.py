"""Incumbents of the tree search: relaxations rounded, supports improved, walks to new basins.

The relaxation of a node gives every monomial a share s_j in [0, 1].  Taking monomials in the
order of their shares while the budgets allow is a support at once, and a start for the local
search.  Only the first rounding and now and then a later one is improved: a walk costs as much as
many nodes.  Where a proof turns out not to be easy, relaxations with other budgets and ridges are
rounded too, since each may lie in another basin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from polysharp.engines import local_search
from polysharp.engines.base import Run
from polysharp.engines.tree.listed import ListedNode
from polysharp.engines.tree.relaxation import Aim, Descent, Warm, fresh_warm, solve_relaxation
from polysharp.problem.propagation import IN, States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

WALK_EVERY = 48  # roundings between two walks
WALKING = 0.1  # share of the time that walks may take however few roundings there are
WALK = 0.2  # seconds of one, about
# Relaxations rounded when a proof is not easy: (share of the budget, of the ridge).
EXPLORATIONS = ((1.0, 1.0), (0.5, 1.0), (1.0, 10.0), (1.0, 0.1), (2.0, 1.0))
EXPLORING = 0.05  # share of the time spent that each of them may take: they only point somewhere


@dataclass(eq=False)
class Rounding:
    """Offers supports to a run; remembers the roundings it has tried."""

    state: Run
    walks: int  # idle walks of the local search from each exploration
    tried: set[bytes] = field(default_factory=set)
    walked: float = 0.0  # seconds
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.state.seed)

    def first(self) -> None:
        """Improve what the run starts from."""
        self.improve(self.state.best.support)

    def start(self, core: Subproblem, factor: float = 1.0) -> Warm:
        """Return the incumbent as the starting point of a relaxation over a whole core."""
        best = self.state.best
        W = np.zeros_like(core.q)
        W[:, best.support] = best.w
        warm = fresh_warm(core.systems, W, 1.0)
        prices = np.square(warm.rho).sum(axis=0) / (2.0 * factor * core.system.ridge)
        warm.nu = _first_price(prices, core.structure.max_terms)
        return warm

    def explore(self, descents: Any = None) -> None:
        """Round relaxations with other budgets and ridges, and walk from each: new basins.

        Where a device relaxes thousands of monomials (``descents``), only the budgets differ.
        """
        core = Subproblem.of(self.state.problem)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        if descents is not None:
            self._explore_there(core, terms, descents)
            return
        for share, factor in EXPLORATIONS:
            if self.state.expired:
                return
            budget = max(1, round(share * (core.structure.max_terms - int(terms.sum()))))
            systems = [own._replace(ridge=factor * own.ridge) for own in core.systems]
            seconds = min(EXPLORING * self.state.seconds, self.state.time_left)
            aim = Aim(tol=1e-3, slack=0.0, seconds=seconds)
            start = self.start(core, factor)
            relaxed = solve_relaxation(systems, terms, min(budget, core.size), start, aim)
            order = np.argsort(-np.abs(relaxed.warm.w).max(axis=0), kind="stable")
            self.walk(np.sort(core.structure.greedy(order)))

    def _explore_there(self, core: Subproblem, terms: States, descents: Any) -> None:
        left = core.structure.max_terms - int(terms.sum())
        budgets = {max(1, round(share * left)) for share, factor in EXPLORATIONS if factor == 1.0}
        nodes = [
            Descent(terms, min(budget, core.size), np.zeros(core.size), self.state.objective)
            for budget in sorted(budgets)
        ]
        for w, _, _ in descents.solved(nodes, expired=self.expired):
            order = np.argsort(-np.abs(w), kind="stable")
            self.walk(np.sort(core.structure.greedy(order)))

    def round(self, node: ListedNode) -> None:
        """Offer the support a node's relaxation points at; now and then walk on from it."""
        structure = node.core.structure
        share = node.shares()
        share[node.terms == IN] = np.inf
        order = np.argsort(-share, kind="stable")
        support = node.core.index[structure.greedy(order[share[order] > 0.0])]
        support = np.sort(support)
        key = support.tobytes()
        if key in self.tried or not self.state.problem.structure.allows(support):
            return
        self.tried.add(key)
        self.state.offer(support)
        # Where nodes are few and take long, walks may have their share of the time.
        spare = WALKING * self.state.seconds - self.walked
        if len(self.tried) % WALK_EVERY == 0 or spare >= WALK:
            began = perf_counter()
            self.walk(support)
            self.walked += perf_counter() - began
        elif len(self.tried) == 1:
            self.improve(support)

    def improve(self, support: Indices) -> None:
        """Offer what swaps make of a support."""
        improve = local_search.improve
        self.state.offer_fit(improve(self.state.problem, support, out_of_time=self.expired))

    def walk(self, support: Indices) -> None:
        """Improve a support and walk on from it."""
        problem = self.state.problem
        if not problem.structure.allows(support):
            return
        fit = local_search.improve(problem, support, out_of_time=self.expired)
        self.state.offer_fit(
            local_search.restarts(
                problem, fit.support, self.rng, self.walks, out_of_time=self.expired
            )
        )

    def expired(self) -> bool:
        """Whether the time is up."""
        return self.state.expired


def _first_price(Z: Array, budget: int) -> float:
    """A first guess of nu: the budget-th largest price."""
    return max(float(np.sort(Z)[-min(budget, len(Z))]), 1e-300)
