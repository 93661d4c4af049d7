"""The sink that takes the supports found at leaves, and the support store of near-optimal searches.

Nodes are bounded in threads; the supports they find wait in the sink until the search takes them,
between two steps, so that the threshold moves only there.

The support store: supports of one size with their costs, each support once.

A near-optimal search may find millions of supports, some of them twice (by rounding a relaxation,
and at a leaf), and which of them are close enough is known only when it is over.  So all
of them are kept, in arrays of 2 l + 8 bytes each (4 l + 8 beyond 65,536 monomials), and those up to
the limit are read at the end.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from polysharp.engines.base import Run
from polysharp.typing import Array, Indices

FRESH = 10_000  # supports at least that wait to be merged into the arrays


class SupportStore:
    """Supports of ``size`` monomials out of ``monomials``."""

    def __init__(self, size: int, monomials: int) -> None:
        place = np.uint16 if monomials <= 1 << 16 else np.uint32
        self.size = size
        self._supports, self._costs = np.zeros((0, size), dtype=place), np.zeros(0)
        self._fresh = list[tuple[Indices, float]]()

    def add(self, support: Indices, cost: float) -> None:
        """Keep a sorted support, unless it is there."""
        self._fresh.append((support, cost))
        if len(self._fresh) >= max(FRESH, len(self._costs) // 2):
            self._merge()

    def count(self, limit: float = np.inf) -> int:
        """Return how many supports cost at most ``limit``."""
        self._merge()
        return int(np.count_nonzero(self._costs <= limit))

    def least(self) -> float:
        """Return the least cost; infinite if the store is empty."""
        self._merge()
        return float(self._costs.min(initial=np.inf))

    def cheapest(self, limit: float = np.inf) -> tuple[Indices, Array]:
        """Return the supports up to a limit, one in a row, and their costs.

        The cheapest come first, equal costs in the order of the supports.
        """
        self._merge()
        chosen = np.flatnonzero(self._costs <= limit)
        supports, costs = self._supports[chosen], self._costs[chosen]
        order = np.lexsort((*supports.T[::-1], costs))
        return supports[order], costs[order]

    def _merge(self) -> None:
        if not self._fresh:
            return
        supports, costs = zip(*self._fresh, strict=True)
        new = np.array(supports).reshape(len(costs), self.size)
        every = np.concatenate([self._supports, new.astype(self._supports.dtype)])
        # Keep one row of each: rows as single items, which NumPy sorts.
        first = np.zeros(1, dtype=np.intp)
        if self.size:
            row = np.dtype((np.void, every.dtype.itemsize * self.size))
            _, first = np.unique(every.view(row)[:, 0], return_index=True)
        self._supports, self._costs = every[first], np.append(self._costs, costs)[first]
        self._fresh.clear()


class SupportSink:
    """Offers supports to a run as incumbents."""

    wants_all: ClassVar[bool] = False  # or only the best support of a node
    most_listed: ClassVar[int] = 5_000  # supports below one node: with more, it is split first

    def __init__(self, run: Run) -> None:
        self.run = run
        self._found = deque[Indices]()

    def take(self, support: Indices, cost: float) -> bool:
        """Take a support that costs at least ``cost``; return whether bounds need not cover it."""
        del cost
        self._found.append(support)
        return False

    def drain(self) -> None:
        """Offer what was taken."""
        while self._found:
            self.run.offer(self._found.popleft())
