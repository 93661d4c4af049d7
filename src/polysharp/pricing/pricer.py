"""Pricing: the largest |m_j'a| over all f monomials of degree <= r, none of them formed.

All correlations come from matrix products (``panels``), n f multiply-adds in all.  They run in
float32 where asked, in chunks of C rows that are added in float64: with unit roundoff u,

    |error_ik| <= (C + 2 r + 12) u |head_i|_4 |x_j a|_2 |rest_k|_4    (degree 2: |x_i|_2 |x_k a|_2).

Each candidate comes with a computed magnitude c and such a margin e.  The K-th largest c - e is a
lower bound T on the K-th largest true value, so whatever has c + e < T can never be among the K
largest and is dropped at once; T only grows.  The scale of a monomial is largest when its inputs
differ, so entries are compared with that scale first.  The candidates that remain are recomputed in
float64, ordered and cut to K: no monomial is missed, and the returned threshold bounds every
monomial that is not returned.  Equal values are ordered as the basis orders monomials, by degree,
then lexicographically; rounding makes them differ in their last digits, so neighbours within 1e-11
relative count as equal: the answer does not depend on how the work was blocked.

Sample weights v and a free intercept only change the vector: with M centred,
M_c'V a = M'(V a - v (v'a) / sum v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice
from typing import Any

import numpy as np

from polysharp.data.arrays import ROUNDOFF, Arrays, NumpyArrays, products
from polysharp.errors import InputError
from polysharp.monomials.basis import count_monomials
from polysharp.pricing.panels import (
    Factors,
    Keep,
    Keys,
    Panel,
    PanelSizes,
    largest_scale,
    named,
    norm_powers,
    padded,
    panels,
    scales,
    sum_error,
    with_ones,
)
from polysharp.typing import Array, Indices, Monomial, OnBlock, Precision

TIE = 1e-11
SLACK = 4096  # candidates beyond 2 K that may wait before they are looked through

Candidates = tuple[Keys, Array, Array]  # keys, values and margins


@dataclass(frozen=True, eq=False)
class Priced:
    """The monomials with the largest |m_j'a|, best first, and a bound on all others."""

    monomials: tuple[Monomial, ...]
    correlations: Array  # m_j'a on the scaled monomials, with sign
    threshold: float  # no monomial that is not listed exceeds this in magnitude
    error: float = 0.0  # rounding of a correlation that is listed

    @classmethod
    def of(cls, keys: Keys, listed: Array, error: float, *, all_listed: bool) -> Priced:
        """Bound what is not listed by the last one that is."""
        threshold = 0.0 if all_listed else float(np.abs(listed).min()) + error
        return cls(tuple(named(keys)), listed, threshold, error)


class Pricer:
    """Price vectors against all monomials of some inputs of X, scaled as the basis will see them.

    ``keep`` says which monomials count, given as an integer array (m, d) of monomials of one
    degree.  With weights v correlations are M'V a; with ``fit_intercept`` they are those with
    centred monomials, and the constant is left out.  ``precision`` is that of the matrix products,
    None for the library's fastest: what is returned is exact to float64 either way.
    """

    def __init__(
        self,
        X: Any,
        degree: int,
        *,
        lowest: int = 0,
        inputs: Sequence[int] | Indices | None = None,
        keep: Keep | None = None,
        sample_weight: Array | None = None,
        fit_intercept: bool = False,
        precision: Precision | None = None,
        arrays: Arrays | None = None,
        sizes: PanelSizes | None = None,  # how the work is cut; None for what suits the table
    ) -> None:
        self.arrays: Arrays = NumpyArrays() if arrays is None else arrays
        self.n, self.degree, self.lowest, self.keep = int(X.shape[0]), degree, lowest, keep
        self.inputs = np.unique(np.arange(X.shape[1]) if inputs is None else np.asarray(inputs))
        self.weight = np.ones(self.n) if sample_weight is None else np.asarray(sample_weight, float)
        self.fit_intercept = fit_intercept
        self.sizes = sizes or PanelSizes.of(self.n, len(self.inputs), self.arrays.stack)
        self.exact_table = with_ones(self.arrays, X, self.inputs)
        with np.errstate(over="ignore"):
            self.squares = self.exact_table[:-1] ** 2
            self.norms = {
                power: self.arrays.numpy((self.squares ** (power // 2)).sum(1)) ** (1.0 / power)
                for power in norm_powers(degree)
            }
        self.reach = max(1.0, float(self.norms[8].max(initial=0.0)))  # no |x_ti| is larger
        if not self.n * self.reach ** (2 * degree) < 1e300:
            raise InputError("X must be finite and so small that its powers stay finite")
        wanted = self.arrays.best_precision if precision is None else precision
        fits_single = self.n * self.reach**degree < 1e30
        self.precision: Precision = wanted if fits_single else "float64"
        self.table = self.exact_table[:-1]
        if self.precision == "float32":
            self.table = self.arrays.table(X, self.inputs, "float32")

    @property
    def n_monomials(self) -> int:
        """Number f of monomials that are priced, before ``keep``."""
        p, lowest = len(self.inputs), max(self.lowest, int(self.fit_intercept))
        below = count_monomials(p, lowest - 1) if lowest else 0
        return count_monomials(p, self.degree) - below

    def price(
        self, a: Array, top: int, keep: Keep | None = None, *, on_block: OnBlock | None = None
    ) -> Priced:
        """Return the ``top`` monomials of largest |m_j'a|, of those that pass ``keep``.

        ``on_block(done, total)`` counts monomials; an exception it raises ends the pass.
        """
        if top < 1:
            raise InputError(f"top must be at least 1, got {top!r}")
        keep, direction = self.keep if keep is None else keep, self.direction(a)
        peak = float(np.abs(direction).max(initial=0.0))
        if peak == 0.0:
            return self._all_zero(top, keep)
        sweep = _Sweep(self, direction / peak, keep)
        shortlist = Shortlist(top, self.degree, sweep.exact, sweep.exact_error)
        for panel in self.panels(on_block):
            shortlist.offer(*sweep.candidates(panel, shortlist.threshold))
        keys, correlations = shortlist.result()
        correlations *= peak
        all_listed = len(correlations) < top or top >= self.n_monomials
        keys = np.where(keys >= 0, self.inputs[keys], -1)
        return Priced.of(keys, correlations, peak * sweep.exact_error, all_listed=all_listed)

    def panels(self, on_block: OnBlock | None) -> Iterator[Panel]:
        """Yield the panels of all monomials; count the monomials of those that are done."""
        p, constant, done = len(self.inputs), not self.fit_intercept, 0
        for panel in panels(p, self.degree, self.sizes, constant=constant, lowest=self.lowest):
            yield panel
            done += panel.count
            if on_block is not None:
                on_block(done, self.n_monomials)

    def direction(self, a: Array) -> Array:
        """Return the vector that plain monomials are multiplied with: weighted, centred."""
        a = np.asarray(a, dtype=np.float64)
        if a.shape != (self.n,) or not np.isfinite(a).all():
            raise InputError(f"a must be finite with one value per row, {self.n}: {a.shape}")
        v, direction = self.weight, self.weight * a
        return direction - v * (direction.sum() / v.sum()) if self.fit_intercept else direction

    def _all_zero(self, top: int, keep: Keep | None) -> Priced:
        """Every correlation is zero: the first monomials of the basis win the tie."""
        first = max(self.lowest, int(self.fit_intercept))
        everything = (
            m
            for d in range(first, self.degree + 1)
            for m in combinations_with_replacement(self.inputs.tolist(), d)
            if keep is None or keep(np.array([m], dtype=np.int32).reshape(1, d))[0]
        )
        monomials = tuple(islice(everything, top))
        return Priced(monomials, np.zeros(len(monomials)), 0.0)


class _Sweep:
    """One pass over all monomials against one vector: candidates for the shortlist."""

    def __init__(self, pricer: Pricer, a: Array, keep: Keep | None) -> None:
        self.pricer, self.keep = pricer, keep
        arrays, r, n = pricer.arrays, pricer.degree, pricer.n
        self.exact_a, self.a = arrays.array(a), arrays.array(a, pricer.precision)
        self.factors = Factors(arrays, pricer.table, pricer.norms)
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
        self.exact_error = sum_error(n, pricer.norms, of_a, r)

    def exact(self, keys: Keys) -> Array:
        """Return the scaled correlations of monomials in float64."""
        arrays, values = self.pricer.arrays, np.empty(len(keys))
        # A quarter of a block for the cache: each factor takes a copy of it.
        at_a_time = max(1, arrays.block_bytes // (32 * self.pricer.n))
        for start in range(0, len(keys), at_a_time):
            some = slice(start, start + at_a_time)
            formed = products(arrays, self.pricer.exact_table, keys[some])
            values[some] = arrays.numpy(formed @ self.exact_a)
        return values * scales(keys, self.pricer.degree)

    def candidates(self, panel: Panel, threshold: float) -> Candidates:
        """Return the entries of a panel that may exceed a threshold."""
        pricer = self.pricer
        P = self.factors.correlations(panel, self.a)
        error = self.unit * self._sums(panel) + self.underflow
        limits = threshold / largest_scale(pricer.degree, panel.degree) - error
        rows, columns, value = pricer.arrays.above(P, limits)
        keys, once = panel.keys(rows, columns)
        scale = scales(keys, pricer.degree)
        value, margin = scale * value[once], scale * error[rows[once]]
        if self.keep is None or not len(keys):
            return keys, value, margin
        kept = self.keep(pricer.inputs[keys].astype(np.int32).reshape(keys.shape))
        return keys[kept], value[kept], margin[kept]

    def _sums(self, panel: Panel) -> Array:
        """Bound the sum of magnitudes behind any entry of each row of a panel."""
        norm2, j, weighted = self.pricer.norms[2], panel.middles, self.weighted_norm
        if panel.degree < 2:
            total, plain = self.norms
            return np.array([plain * norm2.max() if panel.degree else total])
        if panel.degree == 2:
            return np.asarray(weighted[j.start : j.stop] * norm2[: j.stop].max())
        heads, rests = self.factors.head_norms, self.factors.rest_norms
        if panel.left:
            largest = rests[panel.before(j.start) :].max()
            return np.concatenate([heads[: panel.heads(m)] * (weighted[m] * largest) for m in j])
        largest = heads[: panel.heads(j.stop - 1)].max()
        return np.concatenate([rests[panel.before(m) :] * (weighted[m] * largest) for m in j])


class Shortlist:
    """Keep the ``size`` largest candidates seen so far.

    Values are magnitudes that ``exact`` recomputes with their signs, up to ``exact_error``; without
    it they are the signed values themselves.
    """

    def __init__(
        self,
        size: int,
        degree: int,
        exact: Callable[[Keys], Array] | None = None,
        exact_error: float = 0.0,
    ) -> None:
        self.size, self.degree = size, degree
        self.exact, self.exact_error = exact, exact_error
        self.threshold = 0.0
        none: Candidates = np.zeros((0, degree), dtype=np.int32), np.zeros(0), np.zeros(0)
        self._kept, self._waiting = none, list[Candidates]()

    def offer(self, keys: Keys, value: Array, margin: Array) -> None:
        """Take in candidates."""
        if not len(keys):
            return
        self._waiting.append((padded(keys, self.degree), value, margin))
        if sum(len(part[0]) for part in (self._kept, *self._waiting)) > 2 * self.size + SLACK:
            self._drop_hopeless()
            if len(self._kept[0]) > 2 * self.size + SLACK // 2:
                self.result()

    def _drop_hopeless(self) -> None:
        """Raise the threshold to what is known now and drop all that cannot reach it."""
        parts = zip(self._kept, *self._waiting, strict=True)
        keys, value, margin = (np.concatenate(part) for part in parts)
        magnitude = np.abs(value)
        if len(keys) >= self.size:
            kth = float(np.partition(magnitude - margin, -self.size)[-self.size])
            self.threshold = max(self.threshold, kth)
        hopeful = magnitude + margin >= self.threshold
        self._kept, self._waiting = (keys[hopeful], value[hopeful], margin[hopeful]), []

    def result(self) -> tuple[Keys, Array]:
        """Return the keys and exact signed values of the largest, in order."""
        self._drop_hopeless()
        keys, signed, _ = self._kept
        if self.exact is not None:
            signed = self.exact(keys)
        order = order_by_value(keys, np.abs(signed))[: self.size]
        keys, signed = keys[order], signed[order]
        self._kept = keys, signed, np.full(len(order), self.exact_error)
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
