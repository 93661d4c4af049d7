"""Proof over all monomials: branch and bound in which every bound is priced.

A node fixes monomials and inputs in or out.  As in the tree engine it is split along a chain
c_1, ..., c_m, child a having c_1..c_{a-1} in and c_a out, the last child all of them in; where
the incumbent lies in the node the chain is the incumbent: its inputs while k is undecided, then
its monomials.  Leaving out an input of the law takes all its monomials away, which a bound shows
at once.  With k inputs in, or when the dual point of a node leaves few monomials that matter
(``dual_point``), what is left is a problem of ordinary size, and an engine takes over.

Nodes are taken least bound first; children begin with what their parent's dual point proves of
them, which costs nothing, and are priced when it is their turn.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import count, islice

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Limits
from polysharp.engines.columns.dual_point import DualPoint
from polysharp.engines.columns.generation import Search
from polysharp.engines.columns.priced_bound import Node, few_survivors, raise_bound
from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.monomials.basis import Basis
from polysharp.pricing.pool import Pool
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Monomial

CHAIN = 4  # length of a chain where the incumbent lies elsewhere
HANDED_SHARE = 0.5  # of the time left, for an engine on what is left of a node


def prove(search: Search, dual: DualPoint) -> Stop:
    """Close the gap, least bound first; ``dual`` is any point that has been priced."""
    return _Proof(search).run(dual)


class _Proof:
    """Open nodes, and the least bound of the closed ones."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.open: list[tuple[float, int, Node]] = []
        self.tickets = count()
        self.closed_bound = np.inf

    def run(self, dual: DualPoint) -> Stop:
        search = self.search
        self._push(self._root(dual))
        while self.open:
            self._tell()
            if search.proved:
                return Stop.PROVED
            search.check_time()
            node = heappop(self.open)[2]
            if node.bound >= search.threshold or node.single:
                self.closed_bound = min(self.closed_bound, node.bound)
            elif node.evaluated:
                for child in self._split(node):
                    self._push(child)
            else:
                try:
                    self._evaluate(node)
                finally:
                    # Whatever ends the evaluation, what it has proved stays proved.
                    self._push(node)
                    self._tell()
        search.raise_bound(self.closed_bound)
        return Stop.EXHAUSTED

    def _push(self, node: Node) -> None:
        heappush(self.open, (node.bound, next(self.tickets), node))

    def _tell(self) -> None:
        self.search.raise_bound(min(self.open[0][0], self.closed_bound))
        self.search.report("branching")

    def _root(self, dual: DualPoint) -> Node:
        rules, none = self.search.rules, frozenset[Monomial]()
        inside, inputs = frozenset(rules.include_terms), frozenset(rules.required_inputs)
        return self._node(inside, none, inputs, frozenset(), self.search.bound, dual)

    def _node(
        self,
        terms_in: frozenset[Monomial],
        terms_out: frozenset[Monomial],
        inputs_in: frozenset[int],
        inputs_out: frozenset[int],
        bound: float,
        dual: DualPoint,
    ) -> Node:
        """Make a node, with what a dual point proves about it."""
        if self.search.rules.heredity == "strong":
            terms_in = frozenset(self.search.rules.with_parents(terms_in))
        inputs_in |= {i for m in terms_in for i in m}
        k, room = self.search.rules.max_inputs, self.search.max_terms - len(terms_in)
        full = k is not None and len(inputs_in) >= k
        node = Node(terms_in, terms_out, inputs_in, inputs_out, full, room, bound, dual)
        overfull = k is not None and len(inputs_in) > k
        if overfull or room < 0 or inputs_in & inputs_out or terms_in & terms_out:
            node.bound = np.inf  # no support lies in it
        else:
            node.bound = max(bound, node.proved_by(dual).bound)
        return node

    def _evaluate(self, node: Node) -> None:
        """Bound a node by pricing, or by an engine once few monomials are left."""
        search, rules = self.search, self.search.rules
        search.nodes += 1
        node.evaluated = True
        if node.room == 0:
            self._hand_over(node, [], np.inf)
        elif node.full and rules.count(len(node.inputs_in)) <= search.sizes.handed:
            self._hand_over(node, rules.monomials_of(node.inputs_in), np.inf)
        else:
            raise_bound(search, node)
            if node.bound < search.threshold:
                if node.is_root:
                    self._round(node)
                left = few_survivors(search, node)
                if left is not None:
                    self._hand_over(node, *left)

    def _round(self, node: Node) -> None:
        """Improve the support that the relaxation points at."""
        k, chosen = self.search.rules.max_inputs, list(node.terms_in)
        for m in node.share:
            inputs = {i for other in (*chosen, m) for i in other}
            if len(chosen) < self.search.max_terms and (k is None or len(inputs) <= k):
                chosen += [m] if m not in node.terms_in else []
        if self.search.rules.heredity is None:
            self.search.improve(chosen)

    def _hand_over(self, node: Node, monomials: list[Monomial], others: float) -> None:
        """Let an engine solve a node over some monomials; supports beyond them cost ``others``."""
        search = self.search
        family = search.rules.with_parents([*node.terms_in, *monomials])
        pool = Pool.of(search.design, [m for m in family if node.allows(m)])
        rules = replace(search.rules, include_terms=())
        _, basis = search.problem(pool, rules)
        if not node.terms_in <= basis.index.keys():
            node.bound = np.inf  # a monomial that is in has lost its parents
            return
        rules = replace(rules, include_terms=tuple(sorted(node.terms_in)))
        problem, basis = search.problem(pool, rules)
        if node.room == 0 or len(basis) == len(node.terms_in):
            support = problem.structure.required_terms
            fit = problem.refit(support)
            allowed = problem.structure.allows(support)
            # Heredity may have dropped all survivors: what lies beyond them still costs others.
            cost = problem.least_cost(fit) if allowed else np.inf
            node.bound = max(node.bound, min(cost, others))
            node.single = others == np.inf
            if allowed:
                search.offer(fit, problem, basis)
        else:
            self._solve(node, problem, basis, others)

    def _solve(self, node: Node, problem: Problem, basis: Basis, others: float) -> None:
        """Solve what is left of a node with the engine."""
        search = self.search
        left = search.time_left
        limit = HANDED_SHARE * max(0.0, left) if np.isfinite(left) else None
        try:
            solution = search.engine.solve(
                problem,
                limits=Limits(limit, search.limits.gap_tol),
                listener=search.inner_listener,
                seed=search.seed,
                threads=search.threads,
            )
        except (InfeasibleError, TooLargeError):
            # Infeasible by a heuristic search, so no proof, or beyond the engine: split instead.
            return
        search.nodes += solution.counters.nodes
        support = np.array(solution.support, dtype=np.intp)
        fit = Fit(support, solution.coefficients, solution.objective)
        search.offer(fit, problem, basis)
        node.bound = max(node.bound, min(solution.bound, others))
        if solution.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt

    def _split(self, node: Node) -> list[Node]:
        """Split along a chain of inputs while k is undecided, of monomials otherwise."""
        inputs = self._input_chain(node)
        if inputs:
            parts = [(inputs[:a], inputs[a : a + 1]) for a in range(len(inputs) + 1)]
            return [
                self._node(
                    node.terms_in,
                    node.terms_out,
                    node.inputs_in | set(inn),
                    node.inputs_out | set(out),
                    node.bound,
                    node.dual,
                )
                for inn, out in parts
            ]
        terms = self._term_chain(node)
        return [
            self._node(
                node.terms_in | set(terms[:a]),
                node.terms_out | set(terms[a : a + 1]),
                node.inputs_in,
                node.inputs_out,
                node.bound,
                node.dual,
            )
            for a in range(len(terms) + 1)
        ]

    def _input_chain(self, node: Node) -> list[int]:
        k = self.search.rules.max_inputs
        if k is None or node.full or len(self.search.pricer.inputs) <= k:
            return []
        best = self.search.best
        here = node.holds(best.monomials)
        weights = {m: w * w for m, w in best.coefficients.items()} if here else node.share
        totals: dict[int, float] = {}
        for m, weight in weights.items():
            for i in set(m) - node.inputs_in - node.inputs_out:
                totals[i] = totals.get(i, 0.0) + weight
        chain = sorted(totals, key=lambda i: -totals[i])
        return chain if here else chain[: min(CHAIN, k - len(node.inputs_in))]

    def _term_chain(self, node: Node) -> list[Monomial]:
        best = self.search.best
        if node.holds(best.monomials):
            weights = best.coefficients
            chain = sorted(set(best.monomials) - node.terms_in, key=lambda m: -abs(weights[m]))
            if chain:
                return chain
        candidates = [*node.share, *node.listed, *node.dual.prices]
        free = (m for m in dict.fromkeys(candidates) if m not in node.terms_in and node.allows(m))
        return list(islice(free, min(CHAIN, node.room)))
