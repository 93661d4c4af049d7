"""Search over every monomial of every input, with columns generated on demand.

    find     price the residual, take the best monomials into the pool, improve the model on the
             pool, and again with its residual, until neither brings anything new;
    prove    branch and price: every bound comes from a vector that was priced against all f
             monomials, so it holds over all of them at any moment.

Neither forms the n x f matrix: a pass over all monomials is a sequence of matrix products
(``pricing``), and only the pool's monomials ever become columns.

A node fixes monomials and inputs in or out.  As in the tree engine it is split along a chain
c_1, ..., c_m, child a having c_1..c_{a-1} in and c_a out, the last child all of them in; if the
incumbent lies in the node the chain is the incumbent: its inputs while k is undecided, then its
monomials.  Leaving out an input of the law takes all its monomials away, which a bound shows at
once.  With k inputs in, or when the dual point of a node leaves few monomials that matter
(``dual_point``), the rest is a problem of ordinary size, and an engine takes over.

Children begin with what their parent's dual point proves of them, which costs nothing, and are
priced when it is their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from polysharp.certificate.proof import Proof, ProofWriter
from polysharp.certificate.solution import Solution, Stop, certify
from polysharp.checker.evidence import ProofNode, Screening, Vector
from polysharp.engines import local_search
from polysharp.engines.columns.dual_point import DualPoint, Survivors
from polysharp.engines.columns.few_terms import FewTerms, readable
from polysharp.engines.columns.priced_nodes import (
    NOTHING,
    PricedNode,
    Promising,
    SubproblemResult,
    raise_bound,
)
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.engines.tree.loop import BranchAndBound, NodeKind
from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.monomials.basis import Basis
from polysharp.pricing.design import Pool
from polysharp.problem.assemble import Assembled
from polysharp.problem.bounds import UNIT
from polysharp.problem.problem import Fit, Problem
from polysharp.problem.subproblem import least_cost
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Monomial

MAX_PROOF = 5_000_000  # numbers stored
CHAIN = 4  # length of a chain where the incumbent lies elsewhere
VAIN_SHARE = 0.1  # of the time spent that points may take in vain, but for those of the root
SUBPROBLEM_SHARE = 0.5  # of the time left, for an engine on what is left of a node
UNDECIDED_SHARE, UNDECIDED_SECONDS = 0.5, 0.5  # of the time spent, if a chain of inputs is left


@dataclass(frozen=True, eq=False)
class PricedProblem:
    """A problem over few monomials, with what was taken from their columns and from y."""

    assembled: Assembled
    basis: Basis

    @classmethod
    def of(cls, search: PricedRun, monomials: Iterable[Monomial], terms: int) -> PricedProblem:
        """Return the problem over some monomials."""
        pool = Pool(search.design, list(monomials))
        problem, basis = search.problem_on(pool, replace(search.rules, max_terms=terms))
        mean = np.array([search.design.means[m] for m in basis.monomials])
        return cls(Assembled(problem, mean, np.array([search.design.y_mean])), basis)


@dataclass(frozen=True, eq=False)
class Found(PricedProblem):
    """The answer: a certified solution over a basis of the monomials it uses."""

    solution: Solution


def search_all_inputs(search: PricedRun) -> Found:
    """Find a model and prove as much about it as the limits allow."""
    stop = Stop.LOCAL
    with np.errstate(all="ignore"):  # see ``Engine.solve``
        try:
            try:
                search.find()
            except OutOfTime:
                stop = Stop.TIME
            if search.engine.proves and search.dual is not None:
                stop = prove(search, search.dual)  # which says at once that time is up
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        monomials = sorted(search.best.monomials, key=lambda m: (len(m), m))
        last = PricedProblem.of(search, monomials, max(1, len(monomials)))
        search.report("done", force=True)
        solution = certify(
            last.assembled.problem,
            np.arange(len(monomials)),
            search.bound,
            engine=search.engine.name,
            proof=search.proof,
            whole=False,
            stop=Stop.PROVED if search.proved else stop,
            max_terms=search.rules.max_terms,
            max_inputs=search.rules.max_inputs,
            **search.facts,
        )
        return Found(last.assembled, last.basis, solution)


def prove(search: PricedRun, dual: DualPoint) -> Stop:
    """Close the gap, least bound first; ``dual`` is any point that has been priced."""
    kind = PricedKind(search, dual)
    tree = BranchAndBound(search, kind)
    stop = tree.run()
    search.proof = kind.proof([*tree.hand, *(node for _, _, node in tree.open)])
    return stop


def near_optimal_pool(
    search: PricedRun, start: Iterable[Monomial], factor: float
) -> tuple[PricedProblem, float]:
    """Find the monomials that supports within a factor of the best one may have.

    Also returns what supports with any other monomial cost at least.

    With T = ``factor`` times the best cost known, a dual point that was priced against all
    monomials shows of all but a few that no support with them costs less than T.  If it leaves
    too many, the pool takes their place, and the point's own bound is all that is proved of the
    others.
    """
    search.factor, search.gap_tol = factor, 0.0
    start, others = list(start), 0.0
    kept: Iterable[Monomial] = ()
    with suppress(OutOfTime), np.errstate(all="ignore"):
        search.improve(start)
        node, _ = raise_bound(search, PricedKind(search, search.find()).root())
        search.check_time()
        left = node.survivors(search)
        kept, others = search.pool.monomials, node.bound
        if left is not None:
            kept, others = [*node.terms_in, *left.monomials], left.others
    few = search.rules.with_parents([*start, *kept])
    return PricedProblem.of(search, few, search.rules.max_terms), others


@dataclass(eq=False)
class PricedKind(NodeKind[PricedNode]):
    """Makes, evaluates and splits the nodes of one search."""

    search: PricedRun
    dual: DualPoint
    writer: ProofWriter = field(default_factory=lambda: ProofWriter(MAX_PROOF, names={}))
    promising: dict[int, Promising] = field(default_factory=dict)  # of nodes, by number
    claim: float = np.inf  # least value that the nodes written prove
    in_vain: float = 0.0  # seconds spent on points of nodes that stayed open
    unproved: bool = False  # whether a node rests on an engine that writes no proof
    _vectors: dict[int, tuple[DualPoint, Vector]] = field(default_factory=dict)

    def root(self) -> PricedNode:
        """Return the whole search space, with what the first dual point proves of it."""
        rules = self.search.rules
        inside, inputs = list(rules.include_terms), list(rules.required_inputs)
        blank = PricedNode(-1, rules, self.dual, self.search.bound)
        return blank.child(self.writer.reserve(), (inside, []), (inputs, []))

    def close(self, node: PricedNode) -> None:
        """Write the end of a node."""
        self.promising.pop(node.record, None)
        if node.bound == np.inf:
            self.writer.write(node.record, ProofNode("dual"))
            return
        value, solved, used = node.proved_by(node.dual).bound, node.solved, node.dual
        if solved is None or value >= solved.value:
            vector = self._vector(node.dual)
            self.writer.write(node.record, ProofNode("dual", vector=vector))
        elif solved.proof is not None:
            value, used, along = solved.value, solved.dual, solved.survivors.along
            self.writer.places(solved.named)
            places = self.writer.places(solved.monomials)
            columns = None if along is None else self.writer.places(along)
            only = Screening(self._vector(used), places[:0], places[:0], places, columns)
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
            written = Vector(self.writer.places(dual.w), values, multiple=dual.multiple)
            self._vectors[id(dual)] = dual, written
        return self._vectors[id(dual)][1]

    def divide(self, nodes: list[PricedNode]) -> Iterator[PricedNode]:
        """Yield nodes evaluated, if they have not been, and their children otherwise."""
        for node in nodes:
            if node.evaluated:
                yield from self._split(node)
            else:
                self.search.nodes += 1
                yield self._evaluated(replace(node, evaluated=True))

    def _evaluated(self, node: PricedNode) -> PricedNode:
        """Bound a node by an engine where few monomials are left, or else by pricing."""
        search, rules = self.search, self.search.rules
        if node.room == 0:
            return self._solved(node, Survivors([], np.inf))
        if node.full and rules.count(len(node.inputs_in)) <= search.sizes.subproblem:
            return self._solved(node, Survivors(rules.monomials_of(node.inputs_in), np.inf))
        node = self._by_few_terms(node)
        if node.bound < search.threshold:
            node, self.promising[node.record] = raise_bound(search, node)
        if node.bound < search.threshold and not (search.expired or search.interrupted):
            if node.is_root and rules.heredity is None:
                self._round(node)
            left = node.survivors(search)
            node = node if left is None else self._solved(node, left)
        return node

    def _by_few_terms(self, node: PricedNode) -> PricedNode:
        """Hand over a node that one or two of few monomials may join, at more and more cost."""
        search, few, began = self.search, FewTerms(self.search, node), self.search.seconds
        seconds = np.inf if node.is_root else VAIN_SHARE * began - self.in_vain
        if seconds <= 0.0:
            return node
        with search.keeping():
            for cost, most_pairs in few.steps(seconds):
                if node.bound >= search.threshold:
                    break
                left = few.below(cost, most_pairs) if cost > node.bound else None
                node = node if left is None else self._solved(node, left)
        if node.bound < search.threshold:
            self.in_vain += search.seconds - began
        return node

    def _round(self, node: PricedNode) -> None:
        """Improve the support that the relaxation points at."""
        search, share = self.search, self.promising[node.record].share
        named = dict.fromkeys((*node.terms_in, *share))
        # A share may belong to a monomial that the pool has not taken, such as the constant.
        order = [search.basis.index[m] for m in named if m in search.basis.index]
        support = search.problem.structure.greedy(np.array(order, dtype=np.intp))
        search.improve(search.basis.select(support).monomials)

    def _solved(self, node: PricedNode, survivors: Survivors) -> PricedNode:
        """Let an engine solve a node over its survivors, beside what the others cost."""
        search = self.search
        family = search.rules.with_parents([*node.terms_in, *survivors.monomials])
        pool = Pool(search.design, [m for m in family if node.allows(m)])
        rules = replace(search.rules, include_terms=())
        _, basis = search.problem_on(pool, rules)
        if not node.terms_in <= basis.index.keys():
            return replace(node, bound=np.inf)  # a monomial that is in has lost its parents
        rules = replace(rules, include_terms=tuple(sorted(node.terms_in)))
        problem, basis = search.problem_on(pool, rules)
        proof: Proof | None
        if single := node.room == 0 or len(basis) == len(node.terms_in):
            support = problem.structure.required_terms
            fit = problem.refit(support)
            allowed = problem.structure.allows(support)
            # Heredity may have dropped all survivors: supports beyond them still cost others.
            cost = least_cost(problem, fit) if allowed else np.inf
            proof = Proof(cost, (ProofNode("enumeration"),))
            if allowed:
                search.offer_on(fit, basis)
        else:
            solution = self._solution(node, problem)
            if solution is None:
                return node
            fit = Fit(
                np.array(solution.support, dtype=np.intp),
                np.atleast_2d(solution.coefficients),
                solution.objective,
            )
            search.offer_on(fit, basis)
            cost, proof = solution.bound, solution.proof
            proof = None if proof is None else self._over_inputs(proof, basis)
        if survivors.along is not None and not readable(search):
            proof = None
        value = min(cost, survivors.others)
        result = SubproblemResult(node.dual, survivors, basis.monomials, family, proof, value)
        return node.with_solved(result, closed=single and survivors.others == np.inf)

    def _solution(self, node: PricedNode, problem: Problem) -> Solution | None:
        """Solve a problem with the engine; None where a split must do instead.

        If its supports cost more than the threshold, a bound that says so is enough.
        """
        search = self.search
        seconds = SUBPROBLEM_SHARE * search.time_left
        if self._input_chain(node):  # which often divides it into parts that bounds close at once
            seconds = min(seconds, max(UNDECIDED_SECONDS, UNDECIDED_SHARE * search.seconds))
        time, enough = TimeBudget(seconds), search.threshold * (1.0 + 1e-9)
        try:
            first = local_search.forward(problem).support
            fit = local_search.improve(problem, first, out_of_time=lambda: time.expired)
            start, cost = fit.support, fit.objective
            while True:
                solution = search.engine.solve(
                    problem,
                    start=start,
                    time=time,
                    gap_tol=max(search.gap_tol, 1.0 - enough / max(cost, enough)),
                    listener=search.inner_listener,
                    seed=search.seed,
                    threads=search.threads,
                    device=search.design.rows.place.device,
                )
                search.nodes += solution.counters.nodes
                start, before, cost = np.array(solution.support), cost, solution.objective
                short = solution.stop is Stop.PROVED and solution.bound < search.threshold
                if not (short and enough < before and cost < before):
                    break
        except (InfeasibleError, TooLargeError):
            return None  # infeasible by a heuristic search, so no proof, or beyond the engine
        search.interrupted = solution.stop is Stop.INTERRUPTED
        return solution

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
            return [replace(node, closed=True)]
        children = [
            node.child(
                self.writer.reserve(),
                (terms[:a], terms[a : a + 1]),
                (inputs[:a], inputs[a : a + 1]),
            )
            for a in range(len(inputs or terms) + 1)
        ]
        self.promising.pop(node.record, None)
        on = np.searchsorted(self.search.inputs, inputs) if inputs else self.writer.places(terms)
        places, records = tuple(on.tolist()), tuple(child.record for child in children)
        split = ProofNode("split", chain=places, on_inputs=bool(inputs), children=records)
        self.writer.write(node.record, split)
        return children

    def _input_chain(self, node: PricedNode) -> list[int]:
        """Return inputs to split along: the incumbent's, or those of the largest shares."""
        k, inputs_of = self.search.rules.max_inputs, self.search.rules.library.inputs_of
        if k is None or node.full or self.search.n_inputs <= k:
            return []
        best = self.search.best
        here = node.holds(best.monomials)
        weights = self.promising.get(node.record, NOTHING).share
        if here:
            weights = {m: w * w for m, w in best.coefficients.items()}
        totals: dict[int, float] = {}
        for m, weight in weights.items():
            for i in inputs_of(m) - node.inputs_in - node.inputs_out:
                totals[i] = totals.get(i, 0.0) + weight
        chain = sorted(totals, key=lambda i: -totals[i])
        return chain if here else chain[: min(CHAIN, k - len(node.inputs_in))]

    def _term_chain(self, node: PricedNode) -> list[Monomial]:
        """Return monomials to split along: the incumbent's, or the most promising."""
        best = self.search.best
        if node.holds(best.monomials):
            weights = best.coefficients
            chain = sorted(set(best.monomials) - node.terms_in, key=lambda m: -abs(weights[m]))
            if chain:
                return chain
        share, listed = self.promising.get(node.record, NOTHING)
        free = filter(node.is_free, dict.fromkeys([*share, *listed, *node.dual.prices]))
        return list(islice(free, min(CHAIN, node.room)))
