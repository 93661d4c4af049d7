"""Branch and bound: one loop for every kind of node.

A node is a part of the search space with a bound that is proved.  Open nodes are taken least bound
first and divided: into children that cover it, or, if a kind of node is bounded late, into itself
with more proved.  A node whose bound passes the threshold is closed.  At every moment

    min(bounds of the open nodes, of those in hand, of the closed ones)

is a bound of the whole, so that a search may be ended at any moment by time or by Ctrl-C.  What
screening discards on the way to a node counts when the node is closed or kept open.  Three rules
stop a search: the gap is closed, the time is over, or the bound has stopped moving; that a wide gap
is hopeless is a rule of the time budget.

A kind of node (``NodeKind``) knows how to make the root, to divide a node and what else closing it
takes, such as writing it into a proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Run
from polysharp.time_budget import OutOfTime

LEAST_PROGRESS = 0.01  # share of the gap
LEAST_DIVIDED = 16  # times as many nodes as are taken at once: fewer tell nothing


class Node(Protocol):
    """A part of the search space with a proved bound."""

    @property
    def bound(self) -> float:
        """What its supports cost at least."""

    @property
    def discarded(self) -> float:
        """Least cost of the supports that were discarded on the way here, by screening say."""

    @property
    def closed(self) -> bool:
        """Whether no division can raise the bound."""


N = TypeVar("N", bound=Node)


class NodeKind(ABC, Generic[N]):
    """How nodes are made, divided and closed."""

    @abstractmethod
    def root(self) -> N:
        """Return the whole search space, bounded as far as that is done at once."""

    @abstractmethod
    def divide(self, nodes: list[N]) -> Iterator[N]:
        """Yield nodes that cover these: their children, or themselves with more proved."""

    def close(self, node: N) -> None:
        """Do what closing a node takes beyond counting its bound; by default nothing."""
        del node

    def wait(self, node: N) -> None:
        """Prepare a node for a long time among the open ones; by default nothing."""
        del node


@dataclass(eq=False)
class BranchAndBound(Generic[N]):
    """The open nodes and the least bound of the closed ones.

    Beyond ``max_open`` open nodes the search turns depth-first, which adds at most the children of
    one node per level.  After ``patience`` seconds the search ends when nodes were divided since a
    third of the time spent, and the gap has hardly moved: at that rate ten times the time would not
    close it.  ``width`` nodes are taken at a time.
    """

    record: Run
    kind: NodeKind[N]
    max_open: int = 100_000
    patience: float = np.inf
    width: int = 1
    open: list[tuple[float, int, N]] = field(default_factory=list)
    closed_bound: float = np.inf
    hand: list[N] = field(default_factory=list)
    whole: bool = False  # whether the nodes cover everything: not before the root is made
    _tickets: count[int] = field(default_factory=count)
    _divided: int = 0  # nodes so far
    _gaps: list[tuple[float, float, int]] = field(default_factory=list)  # seconds, gap, divided

    def run(self) -> Stop:
        """Search until the gap is closed, nothing is open or the time is over."""
        try:
            self._settle(self.kind.root())
            self.whole = True
            self._tell("root", force=True)
            while self.open:
                self._tell("branching")
                if self.record.proved:
                    return Stop.PROVED
                self.record.check_time()
                if self._steady():
                    return Stop.STEADY
                self.hand = self._next()
                self._divide(self.hand)
                self.hand = []
        except OutOfTime:
            return Stop.TIME
        finally:
            # Whatever ends the search, what has been proved stays proved.
            self._tell("branching")
        return Stop.PROVED if self.record.proved else Stop.EXHAUSTED

    @property
    def bound(self) -> float:
        """Least bound over all nodes; 0 before there are any."""
        if not self.whole:
            return 0.0
        first = self.open[0][0] if self.open else np.inf
        return min(first, self.closed_bound, *map(_sound, self.hand))

    def _tell(self, phase: str, *, force: bool = False) -> None:
        self.record.raise_bound(min(self.bound, self.record.objective))
        self.record.report(phase, force=force)

    def _steady(self) -> bool:
        """Whether the gap has stopped moving in proportion to the time spent."""
        now, gap = self.record.seconds, self.record.gap
        if not self._gaps or now > 1.02 * self._gaps[-1][0]:
            self._gaps.append((now, gap, self._divided))
        if now < self.patience:
            return False
        before = [(then, count) for seconds, then, count in self._gaps if seconds <= now / 3.0]
        if not before:
            return False
        then, count = before[-1]
        return (
            then - gap < LEAST_PROGRESS * then
            and self._divided - count >= LEAST_DIVIDED * self.width
        )

    def _next(self) -> list[N]:
        if len(self.open) > self.max_open:
            # The tail of a heap: deep nodes, and the heap stays a heap.
            taken, self.open[-self.width :] = self.open[-self.width :], []
            return [node for _, _, node in reversed(taken)]
        return [heappop(self.open)[2] for _ in range(min(self.width, len(self.open)))]

    def _divide(self, nodes: list[N]) -> None:
        threshold, left = self.record.threshold, list[N]()
        for node in nodes:
            if node.bound >= threshold:
                self._close(node)
            else:
                left.append(node)
        self._divided += len(left)
        for part in self.kind.divide(left):
            self._settle(part)

    def _settle(self, node: N) -> None:
        """Close a node or keep it open."""
        self.closed_bound = min(self.closed_bound, node.discarded)
        if node.closed or node.bound >= self.record.threshold:
            self._close(node)
        else:
            self.kind.wait(node)
            heappush(self.open, (_sound(node), next(self._tickets), node))

    def _close(self, node: N) -> None:
        self.closed_bound = min(self.closed_bound, _sound(node))
        self.kind.close(node)


def _sound(node: Node) -> float:
    """Return the bound of a node, 0 if it is negative or no number: NaN vanishes in a minimum."""
    return node.bound if node.bound >= 0.0 else 0.0
