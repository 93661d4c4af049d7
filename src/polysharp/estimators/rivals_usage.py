"""Usage counts: what rivals have in common and how they differ.

A set (of terms, or of inputs) is a row of truth values.  Of all sets we count how many have each
member and, for each member of the first set, keep those that do without it and change the fewest
others: what stands in for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.typing import Array

Sets = NDArray[np.bool_]  # one in a row


class Swap(NamedTuple):
    """What the nearest rivals without a term (or input) have in its place, and their excess."""

    out: tuple[str, ...]
    into: tuple[str, ...]
    excess: float


class Used(NamedTuple):
    """Something about terms, and the same about inputs."""

    terms: Any
    inputs: Any


class UsageCounts:
    """Counts of members, and at most ``most`` ways to do without each member of the first set.

    Sets come in blocks, the cheapest first.
    """

    def __init__(self, first: NDArray[np.bool_], most: int) -> None:
        self.first, self.most = first, most
        self.count = 0
        self.having = np.zeros(len(first), dtype=np.int64)
        self._fewest = np.full(len(first), len(first) + 1)  # changes without each member
        self._ways: dict[int, dict[bytes, tuple[NDArray[np.bool_], float]]] = {}

    def add(self, sets: Sets, costs: Array) -> None:
        """Count sets that cost no less than those before them."""
        self.count += len(sets)
        self.having += sets.sum(axis=0)
        changed = sets != self.first
        changes, keys = changed.sum(axis=1), np.packbits(changed, axis=1)
        for member in np.flatnonzero(self.first).tolist():
            without = changed[:, member]
            fewest = int(changes[without].min(initial=len(self.first) + 1))
            if fewest < self._fewest[member]:
                self._fewest[member], self._ways[member] = fewest, {}
            nearest = np.flatnonzero(without & (changes == self._fewest[member]))
            _, one_each = np.unique(keys[nearest], axis=0, return_index=True)
            for a in nearest[np.sort(one_each)].tolist():
                ways = self._ways[member]
                if len(ways) < self.most:
                    ways.setdefault(keys[a].tobytes(), (changed[a], float(costs[a])))

    def shares(self, names: dict[int, str]) -> dict[str, float]:
        """Return the share of sets with each member, the most frequent and the first set's first.

        ``names`` are those of the members that any set has.
        """
        order = sorted(names, key=lambda j: (-self.having[j], not self.first[j], j))
        return {names[j]: float(self.having[j] / self.count) for j in order}

    def swaps(self, names: dict[int, str], least: float) -> dict[str, tuple[Swap, ...]]:
        """Return what stands in for each member of the first set, which costs least."""

        def swap(changed: NDArray[np.bool_], cost: float) -> Swap:
            out, into = (
                tuple(sorted(names[j] for j in np.flatnonzero(changed & part).tolist()))
                for part in (self.first, ~self.first)
            )
            return Swap(out, into, cost / least - 1.0 if least > 0.0 else 0.0)

        return {
            names[member]: tuple(swap(*way) for way in self._ways[member].values())
            for member in sorted(self._ways)
        }
