"""Nodes over listed monomials: how they are made, divided and written into the proof.

A node is divided along a chain c_1, ..., c_m of its most promising monomials: child a has
c_1..c_{a-1} in and c_a out, the last child has all of them in.  If the incumbent lies in the node
the chain is the incumbent, strongest terms first, so that every child asks "can the model do
without this term?" and is closed as soon as its dual bound says no: a proof by probing.  Children
are independent and are bounded side by side.

If a relaxation uses more than k inputs, inputs come first: all sets of inputs that fill the budget
are bounded one by one if that is affordable (``input_sets``), else the node is divided along a
chain of inputs.  When most monomials of a node have been screened out, the node moves to a
subproblem of its own: smaller matrices, and curvature of the surviving Gram matrix moved into the
ridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from polysharp.certificate.proof import Proof
from polysharp.checker.evidence import Diagonal
from polysharp.engines.tree.loop import NodeKind
from polysharp.engines.tree.relaxation import fresh_warm
from polysharp.engines.tree.rounding import Rounding
from polysharp.engines.tree.scheduler import Scheduler
from polysharp.engines.tree.search_state import ListedNode, SearchState, StartingPoint
from polysharp.engines.tree.shifts import drop_chain
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Indices

MOST_ROUNDED = 8  # of the nodes that are divided at a time
LONG = 6  # terms that one branching decides if a device bounds many nodes at a time


@dataclass(eq=False)
class ListedKind(NodeKind[ListedNode]):
    """Makes, divides and records the nodes of one search."""

    state: SearchState
    pool: ThreadPoolExecutor
    taken: int = 0  # nodes, to be branched on or strengthened
    explored: bool = False
    rounding: Rounding = field(init=False)
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.rounding = Rounding(self.state.run)
        self.scheduler = Scheduler(self.state, self.pool)

    def root(self) -> ListedNode:
        """Bound the whole problem, round its relaxation and strengthen it."""
        state, scheduler = self.state, self.scheduler
        self.rounding.first()
        core = Subproblem.of(state.run.problem)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        inputs = np.zeros(core.structure.n_inputs, dtype=np.int8)
        start = StartingPoint(self.rounding.start(core))
        root = state.new_node(start, core=core, terms=terms, inputs=inputs)
        if scheduler.diagonal.affordable(core.size):
            scheduler.leaves.level = core.least_eigenvalue()
        (root,) = scheduler.bound([root])
        state.run.nodes += 1
        if not (root.closed or state.run.expired):
            self.rounding.round(root, state.starts[root.number])
            root = self._compacted(root, force=True)
        # Beyond the size for best diagonals nothing else would close it.
        if scheduler.diagonal.able and state.starts[root.number].diagonal is None:
            root = root if root.closed else scheduler.enumerate_outright(root)
        state.sink.drain()
        return root

    def divide(self, nodes: list[ListedNode]) -> Iterator[ListedNode]:
        """Strengthen nodes if that pays; branch on the others and bound all children."""
        for part in self._parts(nodes):
            self.state.sink.drain()  # the supports that were found on the way to it
            yield part

    def _parts(self, nodes: list[ListedNode]) -> Iterator[ListedNode]:
        state, scheduler = self.state, self.scheduler
        if self.taken >= state.settings.explore_after and not self.explored:
            self.explored = True
            self.rounding.explore(scheduler.relaxation)
        ready = scheduler.each(self._ready, nodes)
        for node in ready:
            scheduler.resume(node)
        yield from (node for node in ready if node.closed)
        left = [node for node in ready if not node.closed]
        self.taken += len(left)
        stronger = {node.number: node for node in scheduler.strengthen(left)}
        for node in (stronger.get(node.number, node) for node in left[:MOST_ROUNDED]):
            if not node.closed:
                self.rounding.round(node, state.starts[node.number])
        yield from stronger.values()
        families = list[tuple[ListedNode, list[ListedNode]]]()
        for node in left:
            if node.number not in stronger:
                parts = self._by_input_sets(node)
                yield from parts
                if not parts:
                    families.append((node, self._children(node)))
        began = perf_counter()
        every = scheduler.bound([child for _, children in families for child in children])
        bounded = iter(every)
        families = [(node, [next(bounded) for _ in own]) for node, own in families]
        scheduler.note_branching(families, perf_counter() - began)
        yield from every

    def close(self, node: ListedNode) -> None:
        """Write a closed node into the proof."""
        self.scheduler.resume(node)
        del self.state.starts[node.number]
        self.state.write(node, node.ending if node.closed else "dual", on_inputs=node.by_inputs)

    def wait(self, node: ListedNode) -> None:
        """Keep only what is needed while the node waits."""
        self.scheduler.wait(node)

    def proof(self, left: list[ListedNode]) -> Proof | None:
        """Return the proof, with nodes that are left open as they stand."""
        for node in left:
            self.state.write(node, "dual")
        writer = self.state.writer
        return writer.proof(self.state.run.bound) if writer.nodes else None

    def _ready(self, node: ListedNode) -> ListedNode:
        """Return a node as it is to be branched on, or closed by now."""
        self.state.starts[node.number].expand(node.core)
        node = self._compacted(node)
        if node.closed or self.state.run.expired:
            return node
        return self.scheduler.enumerate_late(node)

    def _by_input_sets(self, node: ListedNode) -> list[ListedNode]:
        """Return the parts of a node by its sets of inputs; none if that does not pay."""
        state, sets = self.state, self.scheduler.input_sets
        start = state.starts[node.number]
        if not inputs_decide(node, start) or sets.estimate([node]) == np.inf:
            return []
        parts = sets.apply([node])
        if parts == [node]:
            return []
        if all(part.number != node.number for part in parts):
            del state.starts[node.number]
        state.run.nodes += sum(not part.closed for part in parts)
        return [
            part if part.closed or state.run.expired else self._compacted(part, force=True)
            for part in parts
        ]

    def _children(self, node: ListedNode) -> list[ListedNode]:
        """Divide a node along a chain of inputs or of monomials, into children not yet bounded."""
        state, start = self.state, self.state.starts[node.number]
        on_inputs = inputs_decide(node, start)
        if on_inputs:
            chain = input_chain(node, start)
            names = chain
        else:
            chain = term_chain(node, start, self.scheduler)
            names = node.core.index[chain]
        cuts = [(chain[:a], chain[a : a + 1]) for a in range(len(chain))] + [(chain, chain[:0])]
        children = [self._child(node, inn, out, on_inputs) for inn, out in cuts]
        state.write(
            node,
            "split",
            chain=tuple(names.tolist()),
            on_inputs=on_inputs,
            children=tuple(child.record for child in children),
        )
        del state.starts[node.number]
        state.run.nodes += len(children)
        return children

    def _child(self, node: ListedNode, inn: Indices, out: Indices, on_inputs: bool) -> ListedNode:
        terms, inputs = node.terms.copy(), node.inputs.copy()
        fixed = inputs if on_inputs else terms
        fixed[inn] = IN
        fixed[out] = OUT
        start = self.state.starts[node.number].child()
        return self.state.child(node, start, terms=terms, inputs=inputs)

    def _compacted(self, node: ListedNode, *, force: bool = False) -> ListedNode:
        """Give a node its own subproblem when few monomials are left.

        If they are too many for their best diagonal, the smallest eigenvalue of their Gram matrix
        moves into the ridge.
        """
        state, core, alive = self.state, node.core, node.alive
        settings, start = state.settings, state.starts[node.number]
        few = core.size > settings.smallest and len(alive) <= settings.shrink * core.size
        if not (few or (force and start.diagonal is None)):
            return node
        if self.scheduler.device and len(alive) >= settings.device_from:
            return node  # a copy of G costs the device more than it saves
        if len(alive) < core.size:
            core = core.restrict(alive)
        own = state.starts[node.number] = start.among(alive)
        node = replace(node, core=core, terms=node.terms[alive])
        if own.diagonal is not None:
            return node
        assert start.warm is not None
        if not self.scheduler.diagonal.first_pays(core.size):
            with state.numbering:
                pays = self.scheduler.eigenvalue_pays(core.size)
                stronger = core.strengthened(len(state.writer.diagonals)) if pays else None
                if stronger is not None:
                    node = replace(node, core=stronger)
                    state.writer.listed(Diagonal(stronger.index, stronger.d))
        own.warm = fresh_warm(node.core.systems, start.warm.w[:, alive], start.warm.nu)
        return self.scheduler.bound([node])[0]


def inputs_decide(node: ListedNode, start: StartingPoint) -> bool:
    """Whether the strongest monomials of the relaxation together use too many inputs.

    If they do not, the input budget is met by itself, and monomials decide the node.
    """
    structure = node.core.structure
    undecided = node.inputs == FREE
    if not structure.inputs_bind or not undecided.any():
        return False
    share = start.shares(node)
    strongest = np.argsort(-share, kind="stable")[: structure.max_terms]
    used = structure.inputs_of(strongest[share[strongest] > 0.0]) | (node.inputs == IN)
    return int(used.sum()) > structure.max_inputs or not len(node.free)


def input_chain(node: ListedNode, start: StartingPoint) -> Indices:
    """Return the undecided inputs with the largest shares, as many as the budget has room for."""
    structure = node.core.structure
    undecided = np.flatnonzero(node.inputs == FREE)
    weight = start.shares(node) @ structure.uses[:, undecided]
    room = structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
    return undecided[np.argsort(-weight, kind="stable")[:room]]


def term_chain(node: ListedNode, start: StartingPoint, scheduler: Scheduler) -> Indices:
    """Return the incumbent's terms if it lies in the node, else those with the largest shares.

    If the best diagonal is known, return the terms that the relaxation could least do without, as
    many as it takes until leaf enumeration closes the last child.
    """
    state, free, share = scheduler.state, node.free, start.shares(node)
    if start.diagonal is not None:
        longest = min(node.budget, state.settings.longest_chain)
        pays = scheduler.leaves_pay
        enough = (k for k in range(1, longest) if pays(len(free) - k, node.budget - k))
        K = None
        if start.pairs is not None:
            K = start.pairs.matrix(node.listed_free, True, node.budget)
        chain = drop_chain(node, start.diagonal, K, next(enough, longest))
        if chain is not None:
            return chain
    best = state.run.best.support
    wide = max(2 * max(1, state.run.threads), LONG if scheduler.device else 0)
    length = min(node.budget, wide)
    mine = np.flatnonzero(np.isin(node.core.index, best, assume_unique=True))
    if _holds(node, mine, len(best)):
        free = np.intersect1d(free, mine)
        length = len(free)
    return free[np.argsort(-share[free], kind="stable")[:length]]


def _holds(node: ListedNode, terms: Indices, count: int) -> bool:
    """Whether ``count`` terms are one of the node's supports, with a term left to decide."""
    return (
        len(terms) == count
        and bool(np.all(node.terms[terms] != OUT))
        and len(node.fixed_in) < count
        and bool(np.isin(node.fixed_in, terms).all())
    )
