"""Branch and bound on the perspective relaxation: polysharp's own engine.

Best-first search over nodes that fix monomials (and inputs) in or out.  A node is split along a
chain c_1, ..., c_m of its most promising monomials: child a has c_1..c_{a-1} in and c_a out, the
last child has all of them in.  Where the incumbent lies in the node the chain is the incumbent,
strongest terms first, so that every child asks "can the model do without this term?" and is
closed as soon as its dual bound says no: a proof by probing.  Children are independent and are
evaluated side by side.

Where a relaxation uses more than k inputs, inputs come first: all sets of inputs that fill the
budget are bounded one by one where that is affordable (``input_sets``), else the node is split
along a chain of inputs.  When most monomials of a node have been screened out, the node moves to a
core of its own: smaller matrices, and curvature of the surviving Gram matrix moved into the ridge.

An open node holds a byte per monomial and a sparse vector; beyond ``max_open`` of them the search
turns depth-first, which adds at most one chain per level.  The proof is kept up to ``max_proof``
stored numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import ClassVar

import numpy as np

from polysharp.certificate.proof import ProofNode, ProofWriter, Vector
from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.input_sets import MOST_LEFT, MOST_SETS, InputSet, InputSets
from polysharp.engines.node import Node, evaluate, shares
from polysharp.engines.relaxation import FREE, IN, OUT, RATE, Effort, fresh_warm
from polysharp.engines.rounding import Rounding
from polysharp.errors import TooLargeError
from polysharp.problem.problem import Problem
from polysharp.problem.subproblem import Subproblem
from polysharp.threads import one_blas_thread
from polysharp.typing import Indices

SMALLEST_CORE = 40
LARGEST = 25_000  # monomials; their Gram matrix takes 5 GB
SHRINK = 0.5  # a node moves to its own core when this share of the monomials is left
EXPLORE_AFTER = 4  # splits: an easy proof is done by then
STRENGTHEN = 3  # rounds of curvature at the root


@dataclass(frozen=True)
class Tree(Engine):
    """Settings of the branch and bound."""

    name: ClassVar[str] = "tree"
    max_open: int = 100_000
    max_proof: int = 5_000_000
    relaxation_rate: float = RATE  # multiplications per second left that a relaxation may make
    walks: int = 2  # idle walks of the local search from each exploration

    def check(self, problem: Problem) -> None:
        """Refuse problems whose Gram matrix would not fit in memory."""
        if problem.size > LARGEST:
            raise TooLargeError(
                f"engine='tree' holds the Gram matrix of at most {LARGEST:,} monomials, and this "
                f"problem has {problem.size:,}; lower degree or n_candidates"
            )

    def search(self, run: Run) -> Stop:
        """Prove the incumbent or improve it until the gap is closed."""
        with one_blas_thread(), ThreadPoolExecutor(max(1, run.threads)) as pool:
            search = _TreeSearch(self, run, pool, ProofWriter(self.max_proof))
            stop = Stop.INTERRUPTED
            try:
                stop = search.run()
            finally:
                search.finish()
        return stop


@dataclass(eq=False)
class _TreeSearch:
    """State of one search: the open nodes and the least bound of the closed ones."""

    settings: Tree
    state: Run
    pool: ThreadPoolExecutor
    writer: ProofWriter
    open: list[tuple[float, int, Node]] = field(default_factory=list)
    closed_bound: float = np.inf
    tickets: count[int] = field(default_factory=count)
    in_hand: bool = True  # a node is neither open nor closed; at first the root
    most_sets: int = MOST_SETS
    rounding: Rounding = field(init=False)

    def __post_init__(self) -> None:
        self.rounding = Rounding(self.state, self.settings.walks)

    def run(self) -> Stop:
        self.rounding.first()
        self._settle(self._root())
        self.in_hand = False
        self.state.raise_bound(min(self.bound, self.state.best.objective))
        self.state.report("root", force=True)
        splits = 0
        while self.open:
            self.state.raise_bound(self.bound)
            self.state.report("branching")
            if self.state.proved:
                return Stop.PROVED
            if self.state.expired:
                return Stop.TIME
            self.in_hand = True
            node = self._next()
            if node.bound >= self.threshold:
                self._close(node)
                self.in_hand = False
                continue
            self._split(node)
            self.in_hand = False
            splits += 1
            if splits == EXPLORE_AFTER and self.open:
                self.rounding.explore()
        self.state.raise_bound(min(self.bound, self.state.best.objective))
        return Stop.PROVED if self.state.proved else Stop.EXHAUSTED

    @property
    def bound(self) -> float:
        """Least bound over all nodes, open and closed."""
        return min(self.open[0][0] if self.open else np.inf, self.closed_bound)

    @property
    def threshold(self) -> float:
        """A node with this bound needs no further search."""
        return self.state.threshold

    def finish(self) -> None:
        """Write the open nodes into the proof as they stand.

        A search interrupted with a node in hand leaves it without an end: no proof then.
        """
        if self.in_hand:
            return
        for _, _, node in self.open:
            self._write(node, kind="dual")
        if self.writer.nodes:
            self.state.proof = self.writer.proof(self.state.bound)

    def _next(self) -> Node:
        if len(self.open) > self.settings.max_open:
            return self.open.pop()[2]  # the tail of a heap: deep nodes, and the heap stays a heap
        return heappop(self.open)[2]

    def _root(self) -> Node:
        """Evaluate the whole problem, round its relaxation and strengthen it."""
        problem = self.state.problem
        core = Subproblem.of(problem)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        inputs = np.zeros(core.structure.n_inputs, dtype=np.int8)
        root = Node(
            core, terms, inputs, 0.0, self.rounding.start(core), record=self.writer.reserve()
        )
        evaluate(root, self._effort())
        self.state.nodes += 1
        for _ in range(STRENGTHEN):
            if root.closed:
                break
            self.rounding.round(root)
            before = root.bound
            root = self._move(root, force=True)
            if root.bound <= before * (1.0 + 1e-3):
                break
        return root

    def _settle(self, node: Node) -> None:
        """Take the supports a node has seen, then close it or keep it open."""
        for support in node.candidates:
            self.state.offer(support)
        node.candidates = []
        self.closed_bound = min(self.closed_bound, node.screened)
        if node.closed or node.bound >= self.threshold:
            self._close(node)
        else:
            node.compress()
            heappush(self.open, (node.bound, next(self.tickets), node))

    def _close(self, node: Node) -> None:
        if node.kind == "split":
            node.close("dual", node.bound)
        if node.kind != "void":
            self.closed_bound = min(self.closed_bound, node.bound)
        self._write(node, kind=node.kind)

    def _write(self, node: Node, **rest: object) -> None:
        record = ProofNode(
            screenings=tuple(node.screenings),
            vector=node.vector,
            **rest,  # type: ignore[arg-type]
        )
        self.writer.write(node.record, record)

    def _split(self, node: Node) -> None:
        """Split a node, evaluate the children and settle them."""
        node.expand()
        node = self._move(node)
        self.closed_bound = min(self.closed_bound, node.screened)
        if node.closed:
            self._settle(node)
            return
        self.rounding.round(node)
        on_inputs = self._inputs_matter(node)
        if not (on_inputs and self._sift(node)):
            self._divide(node, on_inputs)

    def _divide(self, node: Node, on_inputs: bool) -> None:
        """Split a node along a chain of inputs or of monomials."""
        chain = self._input_chain(node) if on_inputs else self._term_chain(node)
        cuts = [(chain[:a], chain[a : a + 1]) for a in range(len(chain))] + [(chain, chain[:0])]
        children = [self._child(node, inn, out, on_inputs) for inn, out in cuts]
        names = chain if on_inputs else node.core.index[chain]
        node.vector = None
        self._write(
            node,
            kind="split",
            chain=tuple(names.tolist()),
            on_inputs=on_inputs,
            children=tuple(child.record for child in children),
        )
        self.state.nodes += len(children)
        evaluated = self.pool.map if self.state.threads > 1 else map
        for child in list(evaluated(self._evaluator(), children)):
            self._settle(child)

    def _evaluator(self) -> Callable[[Node], Node]:
        """Bound nodes against the threshold of now; at the time limit leave them as they are."""
        effort = self._effort()

        def evaluated(node: Node) -> Node:
            with np.errstate(all="ignore"):  # which threads do not inherit
                return node if self.state.expired else evaluate(node, effort)

        return evaluated

    def _effort(self) -> Callable[[], Effort]:
        """How far to go with a relaxation: to the threshold of now, within the time left."""
        threshold, rate = self.threshold, self.settings.relaxation_rate
        return lambda: Effort(threshold, seconds=self.state.time_left, rate=rate)

    def _sift(self, node: Node) -> bool:
        """Split a node into the sets of inputs that may hold a better model, if that pays."""
        sets = InputSets(node)
        if sets.count > self.most_sets or not sets.affordable:
            return False
        sifted = sets.sift(self.threshold, lambda: self.state.expired)
        if sifted is None:
            self.most_sets = MOST_LEFT  # from here on, only where none can be too many
            return False
        self.closed_bound = min(self.closed_bound, sifted.closed)
        children = [self._set_child(node, sets.undecided, kept) for kept in sifted.left]
        self._write(
            node,
            kind="sets",
            chain=tuple(i for kept in sifted.left for i in kept.inputs.tolist()),
            on_inputs=True,
            children=tuple(child.record for child in children),
        )
        self.state.nodes += len(children)
        for child in children:
            self._settle(child if self.state.expired else self._move(child, force=True))
        return True

    def _set_child(self, node: Node, undecided: Indices, kept: InputSet) -> Node:
        """The part of a node that lies in one set of inputs, on a core of its own."""
        assert node.warm is not None
        core = node.core.restrict(kept.terms)
        inputs = node.inputs.copy()
        inputs[np.setdiff1d(undecided, kept.inputs)] = OUT
        child = Node(
            core, node.terms[kept.terms], inputs, node.bound,
            fresh_warm(core.system, kept.w, node.warm.nu),
            vector=node.vector, record=self.writer.reserve(),
        )  # fmt: skip
        if kept.bound > node.bound:
            child.bound, child.vector = kept.bound, Vector(core.index, kept.w)
        return child

    def _child(self, node: Node, inn: Indices, out: Indices, on_inputs: bool) -> Node:
        assert node.warm is not None
        terms, inputs = node.terms.copy(), node.inputs.copy()
        fixed = inputs if on_inputs else terms
        fixed[inn] = IN
        fixed[out] = OUT
        return Node(
            node.core, terms, inputs, node.bound, node.warm.copy(),
            vector=node.vector, record=self.writer.reserve(),
        )  # fmt: skip

    def _inputs_matter(self, node: Node) -> bool:
        """Whether the strongest monomials of the relaxation together use too many inputs.

        Where they do not, the input budget is met by itself, and monomials decide the node.
        """
        structure = node.core.structure
        undecided = node.inputs == FREE
        if not structure.inputs_bind or not undecided.any():
            return False
        share = shares(node)
        strongest = np.argsort(-share, kind="stable")[: structure.max_terms]
        used = structure.inputs_of(strongest[share[strongest] > 0.0]) | (node.inputs == IN)
        if int(used.sum()) > structure.max_inputs:
            return True
        return not np.any(node.terms == FREE)

    def _input_chain(self, node: Node) -> Indices:
        """The undecided inputs with the largest shares, as many as the budget has room for."""
        structure = node.core.structure
        undecided = np.flatnonzero(node.inputs == FREE)
        weight = shares(node) @ structure.uses[:, undecided]
        room = structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
        return undecided[np.argsort(-weight, kind="stable")[:room]]

    def _term_chain(self, node: Node) -> Indices:
        """The incumbent's terms where it lies in the node, else those with the largest shares."""
        share = shares(node)
        free = np.flatnonzero(node.terms == FREE)
        length = min(node.budget, 2 * max(1, self.state.threads))
        if self._holds_incumbent(node):
            free = np.intersect1d(free, self._incumbent_in(node.core))
            length = len(free)
        return free[np.argsort(-share[free], kind="stable")[:length]]

    def _incumbent_in(self, core: Subproblem) -> Indices:
        """Positions in a core of the incumbent's monomials."""
        return np.flatnonzero(np.isin(core.index, self.state.best.support, assume_unique=True))

    def _holds_incumbent(self, node: Node) -> bool:
        """Whether the incumbent is one of the node's supports, with a term left to decide."""
        mine = self._incumbent_in(node.core)
        fixed_in = np.flatnonzero(node.terms == IN)
        return (
            len(mine) == len(self.state.best.support)
            and bool(np.all(node.terms[mine] != OUT))
            and len(fixed_in) < len(mine)
            and bool(np.isin(fixed_in, mine).all())
        )

    def _move(self, node: Node, *, force: bool = False) -> Node:
        """Give a node a core of its own, with fresh curvature, when few monomials are left."""
        core = node.core
        alive = np.flatnonzero(node.terms != OUT)
        few = core.size > SMALLEST_CORE and len(alive) <= SHRINK * core.size
        if not (few or force):
            return node
        assert node.warm is not None
        rates, w = node.rates()[alive], node.warm.w[alive]
        if len(alive) < core.size:
            core = core.restrict(alive)
        stronger = core.strengthened(rates, len(self.writer.diagonals))
        if stronger is not None:
            core = stronger
            self.writer.diagonal(core.index, core.d)
        moved = Node(
            core, node.terms[alive], node.inputs, node.bound,
            fresh_warm(core.system, w, node.warm.nu),
            vector=node.vector, screenings=node.screenings, screened=node.screened,
            record=node.record,
        )  # fmt: skip
        return evaluate(moved, self._effort())
