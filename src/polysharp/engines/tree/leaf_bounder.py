"""Bounds nodes with few supports left one support at a time: leaf enumeration.

With all monomials fixed, or one to choose, that takes no search.  Otherwise all supports are
enumerated (``leaf_enumeration``); those that may cost less than the threshold are refitted, and
what the others cost at least is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from polysharp.engines.tree.bounder import Bounder
from polysharp.engines.tree.cost_model import Rate
from polysharp.engines.tree.leaf_enumeration import (
    LeafQuery,
    LeafResult,
    count_tests,
    enumerate_leaf,
    rounding_slack,
    slack_of_all,
    support_rules,
)
from polysharp.engines.tree.search_state import Evidence, ListedNode, SearchState
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Indices

MOST_BOXED, BLOCK = 50_000, 4096  # supports below one node that are fitted within boxes; at a time
PAIR_TEST = 0.3e-9  # seconds
ROW_TEST = 0.4e-9  # seconds of a test of several responses, times their number and two
# Seconds of several responses that enumeration may always take: their relaxations are slow.
ROWS_ALWAYS = 0.02
TRIED = 0.4  # share of the supports that is tried, for every term beyond three, as a first guess
ELIMINATION = 5e-8  # seconds to eliminate what is in, over the square of the free monomials
PATIENCE = 2.0  # times the seconds foreseen after which enumeration is given up
LEAST_WORK = 1e-2  # seconds of enumeration that are never given up
MOST_CHOICES = 1e13  # below one node: more, and whoever checks the proof refuses
MOST_TERMS = 64
MOST_BYTES = 2e9


class LeafEnumeration(Bounder):
    """Closes nodes by enumerating their supports.

    ``level`` is below the eigenvalues of G + lam I scaled to unit diagonal.
    """

    def __init__(self, state: SearchState) -> None:
        super().__init__(state)
        problem = state.run.problem
        largest = float(problem.gram.diagonal.max(initial=0.0)) + problem.lam
        self.level = problem.lam / largest
        self.rate, self.always = Rate(PAIR_TEST), 0.0
        self.tried = dict[int, float]()  # share of the supports that is tried, by terms left
        if problem.n_responses > 1:  # none is passed over
            self.rate, self.always = Rate(ROW_TEST * (problem.n_responses + 2.0)), ROWS_ALWAYS
            self.tried = dict.fromkeys(range(MOST_TERMS), 1.0)

    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that enumeration takes."""
        return sum(self.seconds(len(node.free), node.budget) for node in nodes)

    def seconds(self, free: int, budget: int) -> float:
        """Return the seconds of one node with these numbers of monomials and terms left."""
        return self._search_seconds(free, budget) + ELIMINATION * free * free

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Close nodes; those of which too many supports come close are returned as they are."""
        return [self._enumerated(node) for node in nodes]

    def holds_one(self, node: ListedNode) -> bool:
        """Whether the best support of a node is everything that is left, if the rules allow it."""
        return len(node.free) <= node.budget or node.budget == 0

    def settled(self, node: ListedNode) -> ListedNode:
        """Return a node closed if it has one support or one monomial to choose.

        A node stays open if input or heredity rules forbid its only support.
        """
        structure = node.core.structure
        if self.holds_one(node):
            return self._single_support(node)
        if node.budget == 1 and structure.plain and not structure.inputs_bind:
            return self._single_monomial(node)
        return node

    def note(self, free: int, budget: int, result: LeafResult | None) -> None:
        """Learn what an enumeration has taken; None: it was given up.

        Start-up dominates short runs, whose seconds are ignored; operations can be counted.
        """
        if result is None:
            self.tried[budget] = 2.0 * self._tried(budget)
        elif result.work > 0.0:
            share, memory = result.work / count_tests(free, budget), self.rate.memory
            known = self.tried.get(budget, share)
            self.tried[budget] = memory * known + (1.0 - memory) * share
            self.rate.note(result.work, result.seconds)

    def _search_seconds(self, free: int, budget: int) -> float:
        memory = 16.0 * free * free * max(budget - 2, 1)  # H and U of the levels
        if budget >= MOST_TERMS or memory > MOST_BYTES or comb(free, budget) > MOST_CHOICES:
            return np.inf
        return self.rate.seconds * self._tried(budget) * count_tests(free, budget)

    def _tried(self, budget: int) -> float:
        """Share of supports that is tried; if that is not known, from that of fewer terms."""
        known = max((L for L in self.tried if budget >= L), default=min(budget, 3))
        share = self.tried.get(known, 1.0)
        each = min(share, 1.0) ** (1.0 / (known - 3)) if known > 3 else TRIED
        return float(share * each ** (budget - known))

    def _single_support(self, node: ListedNode) -> ListedNode:
        """Bound a node whose best support is everything that is left, if the rules allow it."""
        core = node.core
        support = node.alive if node.budget > 0 else node.fixed_in
        bound, W = core.refitted(support)
        evidence = Evidence(node.written(W, support))
        if core.structure.allows(support):
            if self.state.sink.take(core.index[support], bound):
                return node.ended("enumeration", np.inf)
            return node.ended("dual", bound, evidence)
        if len(node.free) == 0 or node.budget == 0:
            return node.ended("dual", np.inf)
        return node.bounded(bound, evidence)

    def _single_monomial(self, node: ListedNode) -> ListedNode:
        """Bound every choice of the one monomial left."""
        core, fixed, free, sink = node.core, node.fixed_in, node.free, self.state.sink
        bounds = np.nan_to_num(core.with_each(fixed, free), nan=-np.inf)  # NaN proves nothing
        boxed, left, threshold = core.structure.boxes is not None, np.inf, self.state.threshold
        for j in np.argsort(bounds, kind="stable"):
            if bounds[j] >= left:
                break
            support = np.sort(np.append(fixed, free[j]))
            # What keeps to the boxes may cost more.
            cost = core.refitted(support)[0] if boxed else float(bounds[j])
            if not sink.take(core.index[support], cost):
                left = min(left, cost, threshold if boxed else cost)
        if not core.structure.exact_size:
            left = min(left, core.refitted(fixed)[0])
        return node.ended("enumeration", left)

    def _enumerated(self, node: ListedNode) -> ListedNode:
        """Enumerate all supports of a node."""
        core, fixed, free, sink = node.core, node.fixed_in, node.free, self.state.sink
        left = core.eliminated(fixed, free) if len(free) else None  # else the node is settled
        if left is None:
            return node
        (H, b, cost), budget = left, min(node.budget, len(free))
        order = np.argsort(-(b * b).sum(axis=0) / np.diagonal(H), kind="stable")
        H, b, free = H[order[:, None], order], b[:, order], free[order]
        slack = rounding_slack(core.summed, self.level, core.structure.max_terms)
        if not slack < np.inf:
            return node  # rounding may hide any gain
        rules = support_rules(core.structure, node.terms, node.inputs, free)
        query, most = self._query(node, cost, slack, budget)
        result = enumerate_leaf(H, b, budget, query, rules, most, self.state.expired)
        chosen = [] if result is None else [free[hit[hit >= 0]] for hit in result.hits]
        supports = [np.sort(np.append(fixed, some)) for some in chosen]
        if not (rules.plain or all(map(core.structure.allows, supports))):
            result = None  # a part of such a support may be allowed
        self.note(len(free), budget, result)
        if result is None:
            return node
        bound = cost - result.need - slack
        if not rules.plain and core.structure.allows(fixed):
            supports.append(fixed)  # alone it may be all that the rules allow
        if core.structure.boxes is not None:
            supports, least = _within_boxes(core, supports, self.state.threshold)
            bound = min(bound, least)
        for support in supports:
            cost = core.refitted(support)[0]
            if not sink.take(core.index[support], cost):
                bound = min(bound, cost)
        return node.ended("enumeration", bound)

    def _query(
        self, node: ListedNode, cost: float, slack: float, budget: int
    ) -> tuple[LeafQuery, int]:
        """Return what to look for, and how many supports may come close.

        Once one is found, only better ones matter, unless all are wanted.  Within boxes no support
        gains what it would gain without, so that finding one settles nothing.
        """
        core, sink = node.core, self.state.sink
        structure, boxed = core.structure, core.structure.boxes is not None
        seconds = max(PATIENCE * self._search_seconds(len(node.free), budget), LEAST_WORK)
        query = LeafQuery(
            need=cost - self.state.threshold - 2.0 * slack,
            cost=cost,
            share=0.98 * self.state.run.gap_tol,  # a little less than the threshold asks for
            room=np.inf if sink.wants_all or boxed else 2.0 * slack,
            fewest=float(node.budget if structure.exact_size else 0),
            doubt=slack_of_all(core.summed, self.level, core.size, structure.max_terms),
            work=seconds / self.rate.seconds,
        )
        return query, MOST_BOXED if boxed and not sink.wants_all else sink.most_listed


def _within_boxes(
    core: Subproblem, supports: list[Indices], threshold: float
) -> tuple[list[Indices], float]:
    """Return the supports that may stay below a threshold within boxes, and what others cost."""
    left, least = list[Indices](), np.inf
    for size in sorted(set(map(len, supports))):
        own = [support for support in supports if len(support) == size]
        for start in range(0, len(own), BLOCK):
            sets = np.array(own[start : start + BLOCK], dtype=np.intp)
            costs = core.support_bounds(sets)
            low = costs < threshold
            left += list(sets[low])
            least = min(least, float(costs[~low].min(initial=np.inf)))
    return left, least
