"""One sweep over all monomials against one vector, as a sequence of matrix products (``panels``).

Entries that may exceed the shortlist's threshold, given the error of the working precision,

    error_ik <= unit * |head_i|_4 |x_j a|_2 |rest_k|_4     (degree 2: |x_i|_2 |x_k a|_2),

are offered to it; nothing else leaves the product.  The scale of a monomial is largest when
its inputs differ, so comparing with that scale first is safe for all patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polysharp.data.arrays import ROUNDOFF, products
from polysharp.pricing.panels import (
    Factors,
    Keys,
    Panel,
    PanelSizes,
    largest_scale,
    largest_sum,
    panels,
    scales,
)
from polysharp.pricing.shortlist import Shortlist
from polysharp.typing import Array, OnBlock

if TYPE_CHECKING:
    from polysharp.pricing.pricer import Pricer


class Sweep:
    """One pass over all monomials against one vector."""

    def __init__(self, pricer: Pricer, a: Array, top: int) -> None:
        self.pricer = pricer
        arrays, r, n = pricer.arrays, pricer.degree, pricer.n
        self.exact_a, self.a = arrays.array(a), arrays.array(a, pricer.precision)
        self.ones = arrays.array(np.ones((1, n)), pricer.precision)
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
        pricer, done = self.pricer, 0
        p, constant = len(pricer.inputs), not pricer.fit_intercept
        sizes = pricer.sizes or PanelSizes.of(pricer.n, p, pricer.arrays.stack)
        factors = Factors(pricer.arrays, pricer.table, pricer.norms)
        for panel in panels(p, pricer.degree, sizes, constant=constant, lowest=pricer.lowest):
            factors.hold(panel)
            self._take(panel, factors)
            done += panel.count
            if on_block is not None:
                on_block(done, pricer.n_monomials)
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
        parts, against = panel.operands(factors, self.ones, self.a)
        error = self.unit * self._sums(panel, factors) + self.underflow
        limits = self.shortlist.threshold / largest_scale(pricer.degree, panel.degree) - error
        P = pricer.arrays.correlate(parts, against)
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
