"""Decides which bounder is applied next to a node: one place, one cost model.

First what the rules force is fixed, and nodes with one support or one monomial left are closed.
Otherwise leaf enumeration closes a node if that takes no longer than a few relaxations.  Else the
relaxation is solved: by coordinate descent, and once that is affordable together with its best
diagonal.  If what its dual point fixes changes the relaxation, all of that is done again.

Before a node is branched on, its bound is strengthened by a pairwise shift if the policy says that
this saves time (``cost_model``), and once all open nodes could be enumerated in a
share of the time spent, they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

import numpy as np

from polysharp.engines.tree.bounder import Relaxation
from polysharp.engines.tree.cost_model import eigenvalue_seconds
from polysharp.engines.tree.input_sets import InputSets
from polysharp.engines.tree.leaf_bounder import LeafEnumeration
from polysharp.engines.tree.search_state import ListedNode, SearchState
from polysharp.engines.tree.shifts import DiagonalShift, PairwiseShift

MAX_SCREENINGS = 6
MOST_SECONDS = 1e9  # of enumeration that are added up: sums of such can be taken apart again

A = TypeVar("A")
B = TypeVar("B")


class Scheduler:
    """Applies bounders to the nodes of one search."""

    def __init__(self, state: SearchState, pool: ThreadPoolExecutor) -> None:
        self.state, self.pool = state, pool
        self.relaxation, self.device = _relaxation(state)
        self.diagonal = DiagonalShift(state)
        self.pairwise = PairwiseShift(state, self.diagonal)
        self.leaves = LeafEnumeration(state)
        self.input_sets = InputSets(state)
        self.waiting = 0.0  # seconds to enumerate the supports of all open nodes

    def bound(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Bound nodes side by side; at the time limit they are left as they are."""

        def bounded(batch: list[ListedNode]) -> list[ListedNode]:
            return batch if self.state.expired() else self._bound(batch)

        done = self.each(bounded, self.relaxation.batches(nodes))
        by_number = {node.number: node for batch in done for node in batch}
        return [by_number[node.number] for node in nodes]

    def strengthen(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Look for pairwise shifts of the nodes for which that pays; return these nodes."""
        chosen = [node for node in nodes if self.pairwise.pays(node)]
        if not chosen:
            return chosen
        began = perf_counter()
        parts = self.each(lambda node: self.pairwise.apply([node]), chosen)
        strengthened = [self._finished(node) for part in parts for node in part]
        self.pairwise.note(chosen, strengthened, perf_counter() - began)
        return strengthened

    def enumerate_late(self, node: ListedNode) -> ListedNode:
        """Enumerate the supports of a node if that can be afforded for all that is open."""
        state = self.state
        allowed = min(state.settings.late_share * state.run.seconds, 0.8 * state.left)
        return self.leaves.apply([node])[0] if self.waiting <= allowed else node

    def enumerate_outright(self, node: ListedNode) -> ListedNode:
        """Enumerate the supports of a node that nothing else would close."""
        allowed = self.state.settings.outright_share * self.state.left
        return self.leaves.apply([node])[0] if self.leaves.estimate([node]) <= allowed else node

    def leaves_pay(self, free: int, budget: int) -> bool:
        """Whether leaf enumeration is cheaper than relaxations.

        If no best diagonal would be made, coordinate descent is what it must compete with.
        """
        state, leaves = self.state, self.leaves
        worth = state.settings.leaf_worth
        if self._by_diagonal(free):
            allowed = worth * self.diagonal.seconds(free)
        else:
            allowed = max(leaves.always, worth * self.relaxation.rate.seconds * free**2)
        return leaves.seconds(free, budget) <= min(allowed, 0.3 * state.left)

    def eigenvalue_pays(self, size: int) -> bool:
        """Whether the smallest eigenvalue of ``size`` monomials is worth looking for."""
        return eigenvalue_seconds(size) <= 0.2 * self.state.left

    def wait(self, node: ListedNode) -> None:
        """Count what enumerating a node that waits would take."""
        start = self.state.starts[node.number]
        start.compress()
        start.leaf_seconds = min(self.leaves.estimate([node]), MOST_SECONDS)
        self.waiting += start.leaf_seconds

    def resume(self, node: ListedNode) -> None:
        """Take a node out of those that wait."""
        start = self.state.starts[node.number]
        self.waiting -= start.leaf_seconds
        start.leaf_seconds = 0.0

    def note_branching(
        self, families: list[tuple[ListedNode, list[ListedNode]]], seconds: float
    ) -> None:
        """Learn what branching has taken, from nodes and their children."""
        short = self.pairwise.short
        for node, children in families:
            after = [0.0 if child.closed else short(child.bound) for child in children]
            self.pairwise.policy.note_branching(short(node.bound), after, seconds / len(families))

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Apply a function side by side."""

        def quiet(item: A) -> B:
            with np.errstate(all="ignore"):  # which threads do not inherit
                return function(item)

        several = self.state.run.threads > 1 and len(items) > 1
        return list((self.pool.map if several else map)(quiet, items))

    def _bound(self, nodes: list[ListedNode]) -> list[ListedNode]:
        """Bound nodes until they are closed, or open with their relaxations solved.

        When the time is up a relaxation is left as it stands, with the bound that it has proved.
        """
        nodes, left = list(nodes), list(range(len(nodes)))
        for _ in range(MAX_SCREENINGS):
            for i in left:
                nodes[i] = self._settled(nodes[i])
            left = [i for i in left if not (nodes[i].closed or self.leaves.holds_one(nodes[i]))]
            relaxed = self._relaxed([nodes[i] for i in left])
            again = list[int]()
            for i, (node, changed) in zip(left, relaxed, strict=True):
                nodes[i] = node
                if changed and not node.closed:
                    again.append(i)
            left = again
            if not left:
                break
        return [self._finished(node) for node in nodes]

    def _settled(self, node: ListedNode) -> ListedNode:
        """Close a node that needs no relaxation: by the rules, or by its few supports."""
        node = self._finished(node)
        if node.closed or self.leaves.holds_one(node):
            return node
        if self.leaves_pay(len(node.free), node.budget):
            return self.leaves.apply([node])[0]
        return node

    def _finished(self, node: ListedNode) -> ListedNode:
        """Take what follows from what was fixed last."""
        if node.closed:
            return node
        node = node.propagated()
        return node if node.closed else self.leaves.settled(node)

    def _relaxed(self, nodes: list[ListedNode]) -> list[tuple[ListedNode, bool]]:
        """Relax nodes, and say for each whether that is worth doing again."""
        starts = self.state.starts
        first = [node for node in nodes if starts[node.number].diagonal is None]
        relaxed = {node.number: node for node in self.relaxation.apply(first)}
        return [self._shifted(node, relaxed.get(node.number)) for node in nodes]

    def _shifted(self, node: ListedNode, relaxed: ListedNode | None) -> tuple[ListedNode, bool]:
        """Follow a relaxation by the best diagonal, if there is one or it is affordable now."""
        if relaxed is not None:
            again = self.relaxation.again(node, relaxed)
            if again or relaxed.closed or not self._by_diagonal(len(node.free)):
                return relaxed, again
        (after,) = self.diagonal.apply([relaxed or node])
        return after, self.diagonal.again(node, after)

    def _by_diagonal(self, free: int) -> bool:
        """Whether a relaxation of ``free`` monomials is solved with its best diagonal."""
        device = self.device and free >= self.state.settings.device_from
        return not device and self.diagonal.first_pays(free)


def _relaxation(state: SearchState) -> tuple[Relaxation, bool]:
    """Return the relaxation bounder, and whether a device is a part of it."""
    settings, run = state.settings, state.run
    able = run.device is not None and run.device.type in settings.device_types
    if able and run.problem.size >= settings.device_from and run.problem.n_responses == 1:
        from polysharp.engines.tree.descents import DeviceRelaxation

        return DeviceRelaxation(state), True
    return Relaxation(state), False
