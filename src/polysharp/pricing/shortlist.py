"""The K largest of many values that arrive in blocks and are known only up to a margin.

Each candidate comes with a computed magnitude c and a margin e, true value in [c - e, c + e].
The K-th largest c - e is a lower bound T on the K-th largest true value, so whatever has
c + e < T can never be among the K largest and is dropped at once; T only grows.  What is left
at the end is recomputed exactly, ordered, and cut to K.

Equal values are ordered as the basis orders monomials: by degree, then lexicographically.
Rounding makes equal values differ in their last digits, so neighbours within 1e-11 relative
count as equal: the answer then does not depend on how the work was blocked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polysharp.pricing.panels import Keys
from polysharp.typing import Array, Indices

TIE = 1e-11
SLACK = 4096  # candidates beyond 2 K that may wait before they are looked through


class Shortlist:
    """Keep the ``size`` largest candidates seen so far."""

    def __init__(
        self,
        size: int,
        width: int,
        exact: Callable[[Keys], Array],
        exact_error: float,
        slack: int = SLACK,
    ) -> None:
        self.size, self.slack = size, slack
        self.exact, self.exact_error = exact, exact_error
        self.threshold = 0.0
        self._keys: Keys = np.zeros((0, width), dtype=np.int32)
        self._value = np.zeros(0)
        self._margin = np.zeros(0)
        self._waiting: list[tuple[Keys, Array, Array]] = []
        self._n_waiting = 0

    def offer(self, keys: Keys, value: Array, margin: Array) -> None:
        """Take in candidates with their magnitudes and margins."""
        if not len(keys):
            return
        padded = np.full((len(keys), self._keys.shape[1]), -1, dtype=np.int32)
        padded[:, : keys.shape[1]] = keys
        self._waiting.append((padded, value, margin))
        self._n_waiting += len(keys)
        if self._n_waiting + len(self._keys) > 2 * self.size + self.slack:
            self._drop_hopeless()
            if len(self._keys) > 2 * self.size + self.slack // 2:
                self._settle()

    def result(self) -> tuple[Keys, Array]:
        """Return the keys and exact signed values of the largest, in order."""
        self._drop_hopeless()
        signed = self._settle()
        return self._keys, signed

    def _drop_hopeless(self) -> None:
        """Raise the threshold to what is known now and drop all that cannot reach it."""
        parts = [(self._keys, self._value, self._margin), *self._waiting]
        self._keys, self._value, self._margin = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        self._waiting, self._n_waiting = [], 0
        if len(self._keys) >= self.size:
            sure = self._value - self._margin
            kth = float(np.partition(sure, -self.size)[-self.size])
            self.threshold = max(self.threshold, kth)
        self._select(np.flatnonzero(self._value + self._margin >= self.threshold))

    def _settle(self) -> Array:
        """Replace the values by exact ones, cut to K, and return them with their signs."""
        signed = self.exact(self._keys)
        self._value = np.abs(signed)
        self._margin = np.full(len(signed), self.exact_error)
        order = order_by_value(self._keys, self._value)[: self.size]
        self._select(order)
        if len(order) == self.size:
            self.threshold = max(self.threshold, float(self._value[-1]) - self.exact_error)
        return signed[order]

    def _select(self, which: Indices) -> None:
        self._keys, self._value = self._keys[which], self._value[which]
        self._margin = self._margin[which]


def order_by_value(keys: Keys, value: Array) -> Indices:
    """Order by value, largest first, and near-equal values in graded lexicographic order."""
    if not len(value):
        return np.zeros(0, dtype=np.intp)
    by_value = np.argsort(-value, kind="stable")
    steps = -np.diff(value[by_value]) > TIE * value[by_value][:-1]
    group = np.empty(len(value), dtype=np.intp)
    group[by_value] = np.concatenate([[0], np.cumsum(steps)])
    degree = (keys >= 0).sum(axis=1)
    return np.asarray(np.lexsort((*keys.T[::-1], degree, group)))
