"""Nodes over listed monomials: how they are made, split and written into the proof.

A node is split along a chain c_1, ..., c_m of its most promising monomials: child a has
c_1..c_{a-1} in and c_a out, the last child has all of them in.  Where the incumbent lies in the
node the chain is the incumbent, strongest terms first, so that every child asks "can the model do
without this term?" and is closed as soon as its dual bound says no: a proof by probing.  Children
are independent and are evaluated side by side.

Where a relaxation uses more than k inputs, inputs come first: all sets of inputs that fill the
budget are bounded one by one where that is affordable (``input_sets``), else the node is split
along a chain of inputs.  When most monomials of a node have been screened out, the node moves to a
subproblem of its own: smaller matrices, and curvature of the surviving Gram matrix moved into the
ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter
from typing import TypeVar

import numpy as np

from polysharp.certificate.proof import Proof, ProofWriter
from polysharp.checker.evidence import Diagonal, ProofNode, Screening, Vector
from polysharp.engines.base import Run
from polysharp.engines.tree.bounding import descended, evaluate, finish, large
from polysharp.engines.tree.effort import BEYOND_HOPE, Settings, Spending
from polysharp.engines.tree.few_supports import try_all
from polysharp.engines.tree.input_sets import MOST_LEFT, MOST_SETS, InputSet, InputSets
from polysharp.engines.tree.listed import ListedNode
from polysharp.engines.tree.loop import NodeKind
from polysharp.engines.tree.rounding import Rounding
from polysharp.engines.tree.sharpening import couple_further, drop_chain
from polysharp.engines.tree.support_sink import SupportSink
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Indices

LONG = 6  # terms that one split decides where many nodes are bounded at once
MOST_ROUNDED = 8  # of the nodes that are split together

T = TypeVar("T")


@dataclass(eq=False)
class ListedKind(NodeKind[ListedNode]):
    """Makes, splits and records the nodes of one search."""

    settings: Settings
    run: Run
    pool: ThreadPoolExecutor
    sink: SupportSink
    taken: int = 0  # nodes, to be split or coupled
    explored: bool = False
    numbering: Lock = field(default_factory=Lock)  # of diagonals in the proof
    most_sets: int = MOST_SETS
    writer: ProofWriter = field(init=False)
    rounding: Rounding = field(init=False)
    effort: Spending = field(init=False)

    def __post_init__(self) -> None:
        problem = self.run.problem
        self.writer = ProofWriter(self.settings.max_proof)
        self.rounding = Rounding(self.run, self.settings.walks)
        largest = float(problem.gram.diagonal.max(initial=0.0)) + problem.lam
        self.effort = Spending(self.settings, self.run, self.sink, problem.lam / largest)
        if problem.n_responses > 1:  # sets of inputs are bounded for one response only
            self.most_sets = 0

    def root(self) -> ListedNode:
        """Evaluate the whole problem, round its relaxation and strengthen it."""
        self.rounding.first()
        core = Subproblem.of(self.run.problem)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        inputs = np.zeros(core.structure.n_inputs, dtype=np.int8)
        start, number = self.rounding.start(core), self.writer.reserve()
        root = ListedNode(0.0, core, terms, inputs, start, record=number)
        if self.effort.diagonal_pays(core.size):
            self.effort.level = core.least_eigenvalue()
        self._evaluated([root])
        self.run.nodes += 1
        if not (root.closed or self.run.expired):
            self.rounding.round(root)
            root = self._move(root, force=True)
        # Beyond the size for best diagonals nothing else would close it.
        if root.warm is not None and self.effort.outright_pays(len(root.free), root.budget):
            try_all(root, self.effort)
        return self._offered(root)

    def divide(self, node: ListedNode) -> Iterator[ListedNode]:
        """Split a node and evaluate its children."""
        return self.divide_together([node])

    def divide_together(self, nodes: list[ListedNode]) -> Iterator[ListedNode]:
        """Couple nodes where that pays; split the others and evaluate all children together."""
        if self.taken >= self.effort.settings.explore_after and not self.explored:
            self.explored = True
            self.rounding.explore(self.effort.descents)
        left = list[tuple[ListedNode, ListedNode]]()
        for node, moved in zip(nodes, self._each(self._readied, nodes), strict=True):
            self._forget(node)
            if moved.closed:
                yield self._offered(moved)
            else:
                left.append((node, moved))
        self.taken += len(left)
        coupled = self._coupled([moved for _, moved in left])
        for _, moved in left[:MOST_ROUNDED]:
            if not moved.closed:
                self.rounding.round(moved)
        split = list[tuple[ListedNode, ListedNode]]()
        for node, moved in left:
            if moved in coupled:
                node.set_aside = moved.set_aside
                yield self._offered(moved)
            else:
                split.append((node, moved))
        families = list[tuple[float, list[ListedNode]]]()  # the parent's bound, and its children
        for node, moved in split:
            on_inputs = self._inputs_matter(moved)
            sifted = self._sift(moved) if on_inputs else None
            if sifted is None:
                families.append((moved.bound, self._chain(moved, on_inputs)))
            else:
                yield from map(self._offered, sifted)
            node.set_aside = moved.set_aside
        began = perf_counter()
        children = self._evaluated([child for _, family in families for child in family])
        self.effort.note_splits(families, perf_counter() - began)
        yield from map(self._offered, children)

    def _coupled(self, nodes: list[ListedNode]) -> list[ListedNode]:
        """Couple nodes where that pays, and return these: they wait for their turn again."""
        able = [node for node in nodes if node.point is not None and not node.coupled]
        pays = self.effort.coupling_pays
        chosen = [node for node in able if pays(len(node.free), node.budget, node.bound)]
        if not chosen:
            return chosen
        before = [(len(node.free), node.budget, node.bound) for node in chosen]
        began = perf_counter()
        self._each(lambda node: couple_further(node, self.effort), chosen)
        for node in chosen:
            node.coupled = True
            finish(node, self.effort)
        after = [np.inf if node.closed else node.bound for node in chosen]
        self.effort.note_couplings(before, after, perf_counter() - began)
        return chosen

    def _readied(self, node: ListedNode) -> ListedNode:
        """Return a node as it is to be split, or closed by now."""
        node.expand()
        moved = self._move(node)
        if not (moved.closed or self.run.expired) and self.effort.late_ends_pay():
            try_all(moved, self.effort)
        return moved

    def close(self, node: ListedNode) -> None:
        """Write a closed node into the proof."""
        self._forget(node)
        if not node.closed:
            node.close("dual", node.bound)
        self._write(node, kind=node.kind)

    def wait(self, node: ListedNode) -> None:
        """Keep only the nonzero coefficients while the node waits."""
        node.compress()
        node.ends = min(self.effort.ends(len(node.free), node.budget), BEYOND_HOPE)
        self.effort.ends_left += node.ends

    def _forget(self, node: ListedNode) -> None:
        """Take a node's supports off those that are open."""
        self.effort.ends_left -= node.ends
        node.ends = 0.0

    def proof(self, left: list[ListedNode]) -> Proof | None:
        """Return the proof, with nodes that are left open as they stand."""
        for node in left:
            self._write(node, kind="dual")
        return self.writer.proof(self.run.bound) if self.writer.nodes else None

    def _offered(self, node: ListedNode) -> ListedNode:
        """Take the supports that were found."""
        self.sink.drain()
        return node

    def _write(self, node: ListedNode, **rest: object) -> None:
        record = ProofNode(
            screenings=self._screenings(node),
            vector=None if node.vector is None else self._numbered(node.vector, node.moved),
            **rest,  # type: ignore[arg-type]
        )
        self.writer.write(node.record, record)

    def _screenings(self, node: ListedNode) -> tuple[Screening, ...]:
        """Return what was fixed on the way, as the proof lists it."""
        return tuple(
            replace(screening, vector=self._numbered(screening.vector, moved))
            for screening, moved in node.screenings
        )

    def _numbered(self, vector: Vector, moved: Diagonal | None) -> Vector:
        """Return a vector with the number of its diagonal in the proof."""
        return vector if moved is None else replace(vector, diagonal=self.writer.listed(moved))

    def _each(self, function: Callable[[ListedNode], T], nodes: list[ListedNode]) -> list[T]:
        """Apply a function to nodes side by side."""

        def quiet(node: ListedNode) -> T:
            with np.errstate(all="ignore"):  # which threads do not inherit
                return function(node)

        several = self.run.threads > 1 and len(nodes) > 1
        return list((self.pool.map if several else map)(quiet, nodes))

    def _evaluated(self, children: list[ListedNode]) -> list[ListedNode]:
        """Bound children side by side; at the time limit they are left as they are."""

        def evaluated(node: ListedNode) -> ListedNode:
            over = self.effort.cancelled or self.run.expired
            return node if over else evaluate(node, self.effort)

        if self.effort.descents is not None:
            descended(children, self.effort, self._each)
        self._each(evaluated, [node for node in children if not large(node, self.effort)])
        return children

    def _chain(self, node: ListedNode, on_inputs: bool) -> list[ListedNode]:
        """Split a node along a chain of inputs or of monomials, into children not yet bounded."""
        chain = self._input_chain(node) if on_inputs else self._term_chain(node)
        cuts = [(chain[:a], chain[a : a + 1]) for a in range(len(chain))] + [(chain, chain[:0])]
        children = [self._child(node, inn, out, on_inputs) for inn, out in cuts]
        names = chain if on_inputs else node.core.index[chain]
        node.vector = node.moved = None
        self._write(
            node,
            kind="split",
            chain=tuple(names.tolist()),
            on_inputs=on_inputs,
            children=tuple(child.record for child in children),
        )
        self.run.nodes += len(children)
        return children

    def _child(self, node: ListedNode, inn: Indices, out: Indices, on_inputs: bool) -> ListedNode:
        terms, inputs = node.terms.copy(), node.inputs.copy()
        fixed = inputs if on_inputs else terms
        fixed[inn] = IN
        fixed[out] = OUT
        return ListedNode(
            node.bound, node.core, terms, inputs, node.warm.copy() if node.warm else None,
            vector=node.vector, moved=node.moved, point=node.point, coupling=node.coupling,
            record=self.writer.reserve(),
        )  # fmt: skip

    def _sift(self, node: ListedNode) -> list[ListedNode] | None:
        """Split a node into the sets of inputs that may hold a better model, if that pays."""
        sets = InputSets(node)
        if sets.count > self.most_sets or not sets.affordable:
            return None
        sifted = sets.sift(self.run.threshold, lambda: self.run.expired)
        if sifted is None:
            self.most_sets = MOST_LEFT  # next time only where no more than that can be left
            return None
        node.set_aside = min(node.set_aside, sifted.closed)
        children = [self._set_child(node, sets.undecided, left) for left in sifted.left]
        node.vector = node.moved = None
        self.writer.write_input_sets(
            node.record,
            self._screenings(node),
            [tuple(left.inputs.tolist()) for left in sifted.left],
            [child.record for child in children],
        )
        self.run.nodes += len(children)
        return [child if self.run.expired else self._move(child, force=True) for child in children]

    def _set_child(self, node: ListedNode, undecided: Indices, left: InputSet) -> ListedNode:
        """The part of a node that lies in one set of inputs, on a subproblem of its own."""
        core = node.core.restrict(left.terms)
        inputs = node.inputs.copy()
        inputs[np.setdiff1d(undecided, left.inputs)] = OUT
        child = ListedNode(
            node.bound, core, node.terms[left.terms], inputs, None,
            vector=node.vector, moved=node.moved, record=self.writer.reserve(),
        )  # fmt: skip
        child.start_at(left.w[None], node.warm.nu if node.warm else 1.0)
        child.raise_bound(left.bound, Vector(core.index, left.w))
        return child

    def _inputs_matter(self, node: ListedNode) -> bool:
        """Whether the strongest monomials of the relaxation together use too many inputs.

        Where they do not, the input budget is met by itself, and monomials decide the node.
        """
        structure = node.core.structure
        undecided = node.inputs == FREE
        if not structure.inputs_bind or not undecided.any():
            return False
        share = node.shares()
        strongest = np.argsort(-share, kind="stable")[: structure.max_terms]
        used = structure.inputs_of(strongest[share[strongest] > 0.0]) | (node.inputs == IN)
        if int(used.sum()) > structure.max_inputs:
            return True
        return not len(node.free)

    def _input_chain(self, node: ListedNode) -> Indices:
        """The undecided inputs with the largest shares, as many as the budget has room for."""
        structure = node.core.structure
        undecided = np.flatnonzero(node.inputs == FREE)
        weight = node.shares() @ structure.uses[:, undecided]
        room = structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
        return undecided[np.argsort(-weight, kind="stable")[:room]]

    def _term_chain(self, node: ListedNode) -> Indices:
        """The incumbent's terms where it lies in the node, else those with the largest shares.

        Where the best diagonal is known, those that the relaxation could least do without, as many
        as it takes until the rest can be tried one by one.
        """
        share = node.shares()
        free = node.free
        if node.point is not None:
            longest = min(node.budget, self.settings.longest_chain)
            length = next(
                (
                    k
                    for k in range(1, longest)
                    if self.effort.ends_pay(len(free) - k, node.budget - k)
                ),
                longest,
            )
            chain = drop_chain(node, length)
            if chain is not None:
                return chain
        wide = 2 * max(1, self.run.threads)
        length = min(node.budget, wide if self.effort.descents is None else max(wide, LONG))
        mine = np.flatnonzero(np.isin(node.core.index, self.run.best.support, assume_unique=True))
        if self._holds_incumbent(node, mine):
            free = np.intersect1d(free, mine)
            length = len(free)
        return free[np.argsort(-share[free], kind="stable")[:length]]

    def _holds_incumbent(self, node: ListedNode, mine: Indices) -> bool:
        """Whether the incumbent is one of the node's supports, with a term left to decide."""
        return (
            len(mine) == len(self.run.best.support)
            and bool(np.all(node.terms[mine] != OUT))
            and len(node.held) < len(mine)
            and bool(np.isin(node.held, mine).all())
        )

    def _large(self, alive: Indices) -> bool:
        """Whether a device relaxes them as they are: a copy of G costs more than it saves."""
        return self.effort.descents is not None and len(alive) >= self.settings.descents_from

    def _move(self, node: ListedNode, *, force: bool = False) -> ListedNode:
        """Give a node its own subproblem when few monomials are left.

        Where they are too many for their best diagonal, the smallest eigenvalue of their Gram
        matrix moves into the ridge.
        """
        core, alive = node.core, node.alive
        few = core.size > self.settings.smallest and len(alive) <= self.settings.shrink * core.size
        if not (few or (force and node.point is None)) or self._large(alive):
            return node
        if len(alive) < core.size:
            core = core.restrict(alive)
        moved = replace(
            node, core=core, terms=node.terms[alive],
            point=None if node.point is None else node.point.among(alive),
            ends=0.0,  # which are counted once, those of the node that was open
        )  # fmt: skip
        if node.point is not None:
            return moved
        assert node.warm is not None
        w = node.warm.w[:, alive]
        if not self.effort.sharpens(core.size):
            with self.numbering:
                pays = self.effort.strengthening_pays(core.size)
                stronger = core.strengthened(len(self.writer.diagonals)) if pays else None
                if stronger is not None:
                    core = moved.core = stronger
                    self.writer.listed(Diagonal(core.index, core.d))
        moved.start_at(w, node.warm.nu)
        return evaluate(moved, self.effort)
