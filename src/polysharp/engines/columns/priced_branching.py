"""Proof over all monomials: branch and bound in which every bound is priced.

A node fixes monomials and inputs in or out.  As in the tree engine it is split along a chain
c_1, ..., c_m, child a having c_1..c_{a-1} in and c_a out, the last child all of them in; where
the incumbent lies in the node the chain is the incumbent: its inputs while k is undecided, then
its monomials.  Leaving out an input of the law takes all its monomials away, which a bound shows
at once.  With k inputs in, or when the dual point of a node leaves few monomials that matter
(``dual_point``), what is left is a problem of ordinary size, and an engine takes over.

Children begin with what their parent's dual point proves of them, which costs nothing, and are
priced when it is their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from polysharp.certificate.proof import Proof, ProofWriter
from polysharp.certificate.solution import Stop
from polysharp.checker.evidence import ProofNode, Screening, Vector
from polysharp.engines.columns.dual_point import DualPoint
from polysharp.engines.columns.last_terms import FewTerms, readable
from polysharp.engines.columns.priced_nodes import (
    PricedNode,
    SubproblemResult,
    few_survivors,
    raise_bound,
)
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.engines.tree.loop import BranchAndBound, NodeKind
from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.monomials.basis import Basis
from polysharp.pricing.design import Pool
from polysharp.problem.bounds import UNIT
from polysharp.problem.problem import Fit, Problem
from polysharp.problem.subproblem import least_cost
from polysharp.time_budget import TimeBudget
from polysharp.typing import Monomial

MAX_PROOF = 5_000_000  # numbers stored
CHAIN = 4  # length of a chain where the incumbent lies elsewhere
VAIN_SHARE = 0.1  # of the time spent that points may take in vain, but for those of the root
SUBPROBLEM_SHARE = 0.5  # of the time left, for an engine on what is left of a node


def prove(search: PricedRun, dual: DualPoint) -> Stop:
    """Close the gap, least bound first; ``dual`` is any point that has been priced."""
    kind = PricedKind(search, dual)
    tree = BranchAndBound(search, kind)
    stop = tree.run()
    search.proof = kind.proof([*tree.hand, *(node for _, _, node in tree.open)])
    return stop


@dataclass(eq=False)
class PricedKind(NodeKind[PricedNode]):
    """Makes, evaluates and splits the nodes of one search."""

    search: PricedRun
    dual: DualPoint
    writer: ProofWriter = field(default_factory=lambda: ProofWriter(MAX_PROOF, names={}))
    claim: float = np.inf  # least value that the nodes written prove
    in_vain: float = 0.0  # seconds spent on points of nodes that stayed open
    unproved: bool = False  # whether a node rests on an engine that writes no proof
    _vectors: dict[int, tuple[DualPoint, Vector]] = field(default_factory=dict)

    def root(self) -> PricedNode:
        """Return the whole search space, with what the first dual point proves of it."""
        rules, none = self.search.rules, frozenset[Any]()
        inside, inputs = frozenset(rules.include_terms), frozenset(rules.required_inputs)
        fixed = inside, none, inputs, none
        blank = PricedNode(
            self.search.bound, *fixed, full=False, room=0, dual=self.dual, library=rules.library
        )
        return self._child(blank)

    def close(self, node: PricedNode) -> None:
        """Write the end of a node."""
        if node.bound == np.inf:
            self.writer.write(node.record, ProofNode("dual"))
            return
        value, solved, used = node.proved_by(node.dual).bound, node.solved, node.dual
        if solved is None or value >= solved.value:
            vector = self._vector(node.dual)
            self.writer.write(node.record, ProofNode("dual", vector=vector))
        elif solved.proof is not None:
            value, used = solved.value, solved.dual
            self.writer.places(solved.named)
            places = self.writer.places(solved.monomials)
            none = places[:0]
            along = None if solved.along is None else self.writer.places(solved.along)
            only = Screening(self._vector(solved.dual), none, none, places, along)
            self.writer.continue_with(node.record, only, solved.proof, places)
        else:
            self.unproved = True
        # A reader forms the residual y - Mw afresh, with roundings of its own.
        t = max(1.0, used.multiple, used.multiple * node.proved_by(used).t)
        doubt = 16.0 * (len(used.w) + 8.0) * UNIT * (t * used.reach) ** 2
        self.claim = min(self.claim, value - doubt)

    def proof(self, unfinished: list[PricedNode]) -> Proof | None:
        """Return the proof of what the search has proved, open nodes included."""
        for node in unfinished:
            if not self.writer.nodes[node.record].children:
                self.close(node)
        terms = [*self.search.best.monomials, *self.search.rules.include_terms]
        self.writer.places(self.search.rules.with_parents([*(self.writer.names or ()), *terms]))
        if self.unproved:
            return None
        return self.writer.proof(min(self.search.bound, self.claim))

    def _vector(self, dual: DualPoint) -> Vector:
        """Return a dual point as the proof names it, the same one each time."""
        if id(dual) not in self._vectors:
            values = np.array(list(dual.w.values()), dtype=np.float64)
            named = Vector(self.writer.places(dual.w), values, multiple=dual.multiple)
            self._vectors[id(dual)] = dual, named
        return self._vectors[id(dual)][1]

    def divide(self, nodes: list[PricedNode]) -> Iterator[PricedNode]:
        """Return nodes evaluated, if they have not been, and their children otherwise."""
        for node in nodes:
            if not node.evaluated:
                self._evaluate(node)
                yield node
            else:
                yield from self._split(node)

    def _child(self, node: PricedNode, **fixed: frozenset[Monomial] | frozenset[int]) -> PricedNode:
        """Return a node with more fixed, and what the node's dual point proves about it."""
        rules = self.search.rules
        child = replace(node, evaluated=False, share={}, listed=[], solved=None, **fixed)  # type: ignore[arg-type]
        child.record = self.writer.reserve()
        if rules.heredity == "strong":
            child.terms_in = frozenset(rules.with_parents(child.terms_in))
        child.inputs_in |= rules.library.inputs_of(chain.from_iterable(child.terms_in))
        count, k = len(child.inputs_in), rules.max_inputs
        child.full = k is not None and count >= k
        child.room = self.search.rules.max_terms - len(child.terms_in)
        contradiction = child.inputs_in & child.inputs_out or child.terms_in & child.terms_out
        if contradiction or child.room < 0 or (k is not None and count > k):
            child.bound = np.inf  # no support lies in it
        else:
            child.bound = max(node.bound, child.proved_by(node.dual).bound)
        return child

    def _evaluate(self, node: PricedNode) -> None:
        """Bound a node by an engine where few monomials are left, or else by pricing."""
        search, rules = self.search, self.search.rules
        search.nodes += 1
        node.evaluated = True
        if node.room == 0:
            self._solve_survivors(node, [], np.inf)
        elif node.full and rules.count(len(node.inputs_in)) <= search.sizes.subproblem:
            self._solve_survivors(node, rules.monomials_of(node.inputs_in), np.inf)
        else:
            self._end_few(node)
            if node.bound < search.threshold:
                self._end_by_prices(node)

    def _end_few(self, node: PricedNode) -> None:
        """Hand over a node that one or two of few monomials may join, at more and more cost."""
        search, few, began = self.search, FewTerms(self.search, node), self.search.seconds
        seconds = np.inf if node.is_root else VAIN_SHARE * began - self.in_vain
        if seconds <= 0.0:
            return
        for cost, most_pairs in few.steps(seconds):
            if node.bound >= search.threshold:
                break
            left = few.below(cost, most_pairs) if cost > node.bound else None
            if left is not None:
                self._solve_survivors(node, left.monomials, cost, left.along)
        if node.bound < search.threshold:
            self.in_vain += search.seconds - began

    def _end_by_prices(self, node: PricedNode) -> None:
        """Raise the bound of a node by pricing, and hand it over once few monomials are left."""
        search = self.search
        raise_bound(search, node)
        if node.bound < search.threshold:
            if node.is_root:
                self._round(node)
            left = few_survivors(search, node)
            if left is not None:
                self._solve_survivors(node, *left)

    def _round(self, node: PricedNode) -> None:
        """Improve the support that the relaxation points at."""
        if self.search.rules.heredity is None:
            problem, basis = self.search.problem_on(self.search.pool, self.search.rules)
            order = [basis.index[m] for m in dict.fromkeys((*node.terms_in, *node.share))]
            support = problem.structure.greedy(np.array(order, dtype=np.intp))
            self.search.improve(basis.select(support).monomials)

    def _solve_survivors(
        self,
        node: PricedNode,
        monomials: list[Monomial],
        others: float,
        along: list[Monomial] | None = None,
    ) -> None:
        """Let an engine solve a node over some monomials; supports beyond them cost ``others``.

        That is shown by the columns of the monomials ``along``, or else by the node's dual point.
        """
        search = self.search
        family = search.rules.with_parents([*node.terms_in, *monomials])
        pool = Pool(search.design, [m for m in family if node.allows(m)])
        rules = replace(search.rules, include_terms=())
        _, basis = search.problem_on(pool, rules)
        if not node.terms_in <= basis.index.keys():
            node.bound = np.inf  # a monomial that is in has lost its parents
            return
        rules = replace(rules, include_terms=tuple(sorted(node.terms_in)))
        problem, basis = search.problem_on(pool, rules)
        rest = SubproblemResult(node.dual, basis.monomials, family, None, others, along)
        if node.room == 0 or len(basis) == len(node.terms_in):
            support = problem.structure.required_terms
            fit = problem.refit(support)
            allowed = problem.structure.allows(support)
            # Heredity may have dropped all survivors: what lies beyond them still costs others.
            cost = least_cost(problem, fit) if allowed else np.inf
            node.single = others == np.inf
            end = Proof(cost, (ProofNode("enumeration"),))
            self._keep(node, replace(rest, proof=end, value=min(cost, others)))
            if allowed:
                search.offer_on(fit, basis)
        else:
            self._solve(node, problem, basis, rest)

    def _keep(self, node: PricedNode, solved: SubproblemResult) -> None:
        """Keep what has been proved of a node, where that is more than before."""
        if solved.along is not None and not readable(self.search):
            solved = replace(solved, proof=None)
        node.bound = max(node.bound, solved.value)
        if node.solved is None or solved.value > node.solved.value:
            node.solved = solved

    def _solve(
        self, node: PricedNode, problem: Problem, basis: Basis, rest: SubproblemResult
    ) -> None:
        """Solve what is left of a node, beside what the rest of it costs, with the engine."""
        search = self.search
        seconds = SUBPROBLEM_SHARE * search.time_left
        try:
            solution = search.engine.solve(
                problem,
                time=TimeBudget(seconds),
                gap_tol=search.gap_tol,
                listener=search.inner_listener,
                seed=search.seed,
                threads=search.threads,
                device=search.design.rows.place.device,
            )
        except (InfeasibleError, TooLargeError):
            # Infeasible by a heuristic search, so no proof, or beyond the engine: split instead.
            return
        search.nodes += solution.counters.nodes
        support = np.array(solution.support, dtype=np.intp)
        fit = Fit(support, np.atleast_2d(solution.coefficients), solution.objective)
        search.offer_on(fit, basis)
        proof = None if solution.proof is None else self._over_inputs(solution.proof, basis)
        self._keep(node, replace(rest, proof=proof, value=min(solution.bound, rest.value)))
        if solution.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt

    def _over_inputs(self, proof: Proof, basis: Basis) -> Proof:
        """Return a proof over some inputs with chains of inputs as positions among all."""
        place = np.searchsorted(self.search.inputs, np.asarray(basis.inputs, dtype=np.intp))
        nodes = tuple(
            replace(node, chain=tuple(place[list(node.chain)].tolist())) if node.on_inputs else node
            for node in proof.nodes
        )
        return replace(proof, nodes=nodes)

    def _split(self, node: PricedNode) -> list[PricedNode]:
        """Split along a chain of inputs while k is undecided, of monomials otherwise."""
        inputs = self._input_chain(node)
        terms = [] if inputs else self._term_chain(node)
        if not inputs and not terms:  # nothing to decide, and an engine could not end it
            node.single = True
            return [node]
        children = [
            self._child(
                node,
                terms_in=node.terms_in | set(terms[:a]),
                terms_out=node.terms_out | set(terms[a : a + 1]),
                inputs_in=node.inputs_in | set(inputs[:a]),
                inputs_out=node.inputs_out | set(inputs[a : a + 1]),
            )
            for a in range(len(inputs or terms) + 1)
        ]
        on = np.searchsorted(self.search.inputs, inputs) if inputs else self.writer.places(terms)
        places, records = tuple(on.tolist()), tuple(child.record for child in children)
        split = ProofNode("split", chain=places, on_inputs=bool(inputs), children=records)
        self.writer.write(node.record, split)
        return children

    def _input_chain(self, node: PricedNode) -> list[int]:
        k = self.search.rules.max_inputs
        inputs_of = self.search.rules.library.inputs_of
        if k is None or node.full or self.search.n_inputs <= k:
            return []
        best = self.search.best
        here = node.holds(best.monomials)
        weights = {m: w * w for m, w in best.coefficients.items()} if here else node.share
        totals: dict[int, float] = {}
        for m, weight in weights.items():
            for i in inputs_of(m) - node.inputs_in - node.inputs_out:
                totals[i] = totals.get(i, 0.0) + weight
        chain = sorted(totals, key=lambda i: -totals[i])
        return chain if here else chain[: min(CHAIN, k - len(node.inputs_in))]

    def _term_chain(self, node: PricedNode) -> list[Monomial]:
        best = self.search.best
        if node.holds(best.monomials):
            weights = best.coefficients
            chain = sorted(set(best.monomials) - node.terms_in, key=lambda m: -abs(weights[m]))
            if chain:
                return chain
        candidates = [*node.share, *node.listed, *node.dual.prices]
        free = (m for m in dict.fromkeys(candidates) if m not in node.terms_in and node.allows(m))
        return list(islice(free, min(CHAIN, node.room)))
