"""Incumbents of the tree search: relaxations rounded, supports improved, walks to new basins.

The relaxation of a node gives every monomial a share s_j in [0, 1].  Taking monomials in the
order of their shares while the budgets allow is a support at once, and a start for the local
search.  Only the first rounding and now and then a later one is improved: a walk costs as much as
many nodes.  If a proof turns out not to be easy, relaxations with other budgets and ridges are
rounded too, since each may lie in another basin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from polysharp.engines import local_search
from polysharp.engines.base import Run
from polysharp.engines.tree.bounder import Relaxation
from polysharp.engines.tree.relaxation import Warm, fresh_warm
from polysharp.engines.tree.search_state import ListedNode, StartingPoint
from polysharp.problem.propagation import IN
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Indices

WALK_EVERY = 48  # roundings between two walks
WALKING = 0.1  # share of the time that walks may take however few roundings there are
WALKS = 2  # idle walks of the local search from each exploration
WALK = 0.2  # seconds of one, about


@dataclass(eq=False)
class Rounding:
    """Offers supports to a run; remembers the roundings it has tried."""

    run: Run
    tried: set[bytes] = field(default_factory=set)
    walked: float = 0.0  # seconds
    started: float = 0.0  # seconds before the first relaxation
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.run.seed)

    def first(self) -> None:
        """Improve what the run starts from."""
        self.improve(self.run.best.support)
        self.started = self.run.seconds  # which may have compiled

    def start(self, core: Subproblem) -> Warm:
        """Return the incumbent as the starting point of a relaxation over a whole core."""
        best = self.run.best
        W = np.zeros_like(core.q)
        W[:, best.support] = best.w
        warm = fresh_warm(core.systems, W, 1.0)
        prices = np.square(warm.rho).sum(axis=0) / (2.0 * core.system.ridge)
        last = min(core.structure.max_terms, len(prices))  # nu is about the last price that pays
        warm.nu = max(float(np.sort(prices)[-last]), 1e-300)
        return warm

    def explore(self, relaxation: Relaxation) -> None:
        """Round relaxations with other budgets and ridges, and walk from each: new basins."""
        core = Subproblem.of(self.run.problem)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        for shares in relaxation.points(core, terms, lambda: self.start(core)):
            support = core.structure.greedy(np.argsort(-shares, kind="stable"))
            self.improve(np.sort(support), walk=True)

    def round(self, node: ListedNode, start: StartingPoint) -> None:
        """Offer the support a node's relaxation points at; now and then walk on from it."""
        structure = node.core.structure
        share = start.shares(node)
        share[node.terms == IN] = np.inf
        order = np.argsort(-share, kind="stable")
        support = node.core.index[structure.greedy(order[share[order] > 0.0])]
        support = np.sort(support)
        key = support.tobytes()
        if key in self.tried or not self.run.problem.structure.allows(support):
            return
        self.tried.add(key)
        self.run.offer(support)
        # If nodes are few and take long, walks get their share of the time.
        spare = WALKING * (self.run.seconds - self.started) - self.walked
        if len(self.tried) % WALK_EVERY == 0 or spare >= WALK:
            began = perf_counter()
            self.improve(support, walk=True)
            self.walked += perf_counter() - began
        elif len(self.tried) == 1:
            self.improve(support)

    def improve(self, support: Indices, *, walk: bool = False) -> None:
        """Offer what swaps make of a support; walk on from it if asked to."""
        run = self.run
        if not run.problem.structure.allows(support):
            return
        fit = local_search.improve(run.problem, support, out_of_time=self.expired)
        run.offer_fit(fit)
        if walk:
            run.offer_fit(
                local_search.restarts(
                    run.problem, fit.support, self.rng, WALKS, out_of_time=self.expired
                )
            )

    def expired(self) -> bool:
        """Whether the time is up."""
        return self.run.expired
