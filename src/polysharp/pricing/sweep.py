"""One sweep over all monomials against one vector, as a sequence of matrix products (``panels``).

Entries that may exceed the shortlist's threshold, given the error of the working precision,

    error_ik <= unit * |head_i|_4 |x_j a|_2 |rest_k|_4     (degree 2: |x_i|_2 |x_k a|_2),

are offered to it; nothing else leaves the product.  The scale of a monomial is largest when
its inputs differ, so comparing with that scale first is safe for all patterns.

The shortlist keeps the K largest of many values that arrive in blocks.  Each candidate comes with
a computed magnitude c and a margin e, true value in [c - e, c + e].  The K-th largest c - e is a
lower bound T on the K-th largest true value, so whatever has c + e < T can never be among the K
largest and is dropped at once; T only grows.  What is left at the end is recomputed exactly,
ordered, and cut to K.  Equal values are ordered as the basis orders monomials, by degree, then
lexicographically; rounding makes them differ in their last digits, so neighbours within 1e-11
relative count as equal: the answer then does not depend on how the work was blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from polysharp.data.arrays import ROUNDOFF, products
from polysharp.pricing.panels import Factors, Keys, Panel, largest_scale, largest_sum, scales
from polysharp.typing import Array, Indices, OnBlock

if TYPE_CHECKING:
    from polysharp.pricing.pricer import Pricer

TIE = 1e-11
SLACK = 4096  # candidates beyond 2 K that may wait before they are looked through

Candidates = tuple[Keys, Array, Array]


class Sweep:
    """One pass over all monomials against one vector."""

    def __init__(self, pricer: Pricer, a: Array, top: int) -> None:
        self.pricer = pricer
        arrays, r, n = pricer.arrays, pricer.degree, pricer.n
        self.exact_a, self.a = arrays.array(a), arrays.array(a, pricer.precision)
        squares = arrays.numpy(pricer.squares @ (self.exact_a * self.exact_a))
        self.weighted_norm = np.sqrt(squares)  # |x_j a|_2
        self.norms = float(np.abs(a).sum()), float(np.linalg.norm(a))
        chunk = min(n, arrays.chunk)
        # A product of r inputs and a rounds r times, and each of its factors once.
        single, double = ROUNDOFF[pricer.precision], ROUNDOFF["float64"]
        self.unit = (chunk + 12 + 2 * r) * single + n / chunk * double
        # In float32 products may underflow, which a relative error does not cover.
        self.underflow = r * 1.2e-38 * n * pricer.reach**r if pricer.precision == "float32" else 0.0
        of_a = (*self.norms, float(self.weighted_norm.max()))
        self.exact_error = (n + 12 + 2 * r) * double * largest_sum(pricer.norms, of_a, r)
        self.shortlist = Shortlist(top, r, self.exact, self.exact_error, pricer.slack)

    def run(self, on_block: OnBlock | None) -> tuple[Keys, Array]:
        """Offer every monomial, degree by degree, and return the shortlist."""
        factors = Factors(self.pricer.arrays, self.pricer.table, self.pricer.norms)
        for panel in self.pricer.panels(on_block):
            self._take(panel, factors)
        return self.shortlist.result()

    def exact(self, keys: Keys) -> Array:
        """Return the scaled correlations of monomials in float64."""
        arrays, table = self.pricer.arrays, self.pricer.exact_table
        values = np.zeros(len(keys))
        degree = (keys >= 0).sum(axis=1)
        # A quarter of a block for the cache: each factor takes a copy of it.
        at_a_time = max(1, arrays.block_bytes // (32 * self.pricer.n))
        for d in range(self.pricer.degree + 1):
            where = np.flatnonzero(degree == d)
            for start in range(0, len(where), at_a_time):
                some = where[start : start + at_a_time]
                values[some] = arrays.numpy(products(arrays, table, keys[some, :d]) @ self.exact_a)
            values[where] *= scales(keys[where, :d], self.pricer.degree)
        return values

    def _take(self, panel: Panel, factors: Factors) -> None:
        """Offer the entries of a panel that may exceed the threshold."""
        pricer = self.pricer
        P = factors.correlations(panel, self.a)
        error = self.unit * self._sums(panel, factors) + self.underflow
        limits = self.shortlist.threshold / largest_scale(pricer.degree, panel.degree) - error
        rows, columns, value = pricer.arrays.above(P, limits)
        if len(rows):
            keys, once = panel.keys(rows, columns)
            scale, kept = scales(keys, pricer.degree), pricer.kept(keys)
            value, margin = scale * value[once], scale * error[rows[once]]
            self.shortlist.offer(keys[kept], value[kept], margin[kept])

    def _sums(self, panel: Panel, factors: Factors) -> Array:
        """Bound the sum of magnitudes behind any entry of each row of a panel."""
        norm2, j, weighted = self.pricer.norms[2], panel.middles, self.weighted_norm
        if panel.degree < 2:
            total, plain = self.norms
            return np.array([plain * norm2.max() if panel.degree else total])
        if panel.degree == 2:
            return np.asarray(weighted[j.start : j.stop] * norm2[: j.stop].max())
        heads, rests = factors.head_norms, factors.rest_norms
        if panel.left:
            largest = rests[panel.before(j.start) :].max()
            return np.concatenate([heads[: panel.heads(m)] * (weighted[m] * largest) for m in j])
        largest = heads[: panel.heads(j.stop - 1)].max()
        return np.concatenate([rests[panel.before(m) :] * (weighted[m] * largest) for m in j])


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
        # Keys, values and margins: of those looked through, and of those that came after them.
        none: Candidates = np.zeros((0, width), dtype=np.int32), np.zeros(0), np.zeros(0)
        self._held, self._waiting = none, list[Candidates]()

    def offer(self, keys: Keys, value: Array, margin: Array) -> None:
        """Take in candidates with their magnitudes and margins."""
        if not len(keys):
            return
        padded = np.full((len(keys), self._held[0].shape[1]), -1, dtype=np.int32)
        padded[:, : keys.shape[1]] = keys
        self._waiting.append((padded, value, margin))
        if sum(len(part[0]) for part in (self._held, *self._waiting)) > 2 * self.size + self.slack:
            self._drop_hopeless()
            if len(self._held[0]) > 2 * self.size + self.slack // 2:
                self._settle()

    def result(self) -> tuple[Keys, Array]:
        """Return the keys and exact signed values of the largest, in order."""
        self._drop_hopeless()
        return self._settle()

    def _drop_hopeless(self) -> None:
        """Raise the threshold to what is known now and drop all that cannot reach it."""
        parts = zip(self._held, *self._waiting, strict=True)
        keys, value, margin = (np.concatenate(part) for part in parts)
        if len(keys) >= self.size:
            kth = float(np.partition(value - margin, -self.size)[-self.size])
            self.threshold = max(self.threshold, kth)
        hopeful = value + margin >= self.threshold
        self._held, self._waiting = (keys[hopeful], value[hopeful], margin[hopeful]), []

    def _settle(self) -> tuple[Keys, Array]:
        """Replace the values by exact ones, cut to K; return the keys and the signed values."""
        keys = self._held[0]
        signed = self.exact(keys)
        order = order_by_value(keys, np.abs(signed))[: self.size]
        keys, signed = keys[order], signed[order]
        self._held = keys, np.abs(signed), np.full(len(order), self.exact_error)
        if len(order) == self.size:
            self.threshold = max(self.threshold, float(abs(signed[-1])) - self.exact_error)
        return keys, signed


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
