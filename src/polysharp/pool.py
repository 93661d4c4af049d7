"""The pool: the few monomials of a huge basis that a search works with, and their moments.

Columns of M are products of rows of the pricer's table, formed when they are needed, wherever
that table lives (see ``arrays``).  With weights v and means mbar (zero without a free intercept)

    G_ij = sum_t v_t (m_ti - mbar_i)(m_tj - mbar_j),    q_j = sum_t v_t (m_tj - mbar_j)(y_t - ybar),

so that a new monomial costs one product of its column with those already there, and nothing
of G is computed twice while the pool grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polysharp.assemble import weighted_mean
from polysharp.basis import Array, Basis, Indices, Monomial
from polysharp.pricing import Pricer

BLOCK_BYTES = 64 * 2**20


class Design:
    """The data as pools see them: columns on demand, and the response."""

    def __init__(self, pricer: Pricer, y: Array) -> None:
        self.pricer, self.arrays, self.n = pricer, pricer.arrays, pricer.n
        self.v = np.ones(self.n) if pricer.weight is None else pricer.weight
        self.y_mean = weighted_mean(y, pricer.weight) if pricer.fit_intercept else 0.0
        self.target = np.asarray(y, dtype=np.float64) - self.y_mean
        self.yy = float(self.v @ self.target**2)
        self._weight = self.arrays.vector(self.v, "float64")
        self._weighted_target = self.arrays.vector(self.v * self.target, "float64")
        self._place = {int(i): a for a, i in enumerate(pricer.inputs)}

    def gram(self, left: Sequence[Monomial], right: Sequence[Monomial]) -> Array:
        """Return the block of G between two lists of monomials."""
        G = np.empty((len(left), len(right)))
        for columns in self._chunks(right):
            N, _ = self._columns([right[j] for j in columns])
            for rows in self._chunks(left):
                M, _ = self._columns([left[i] for i in rows])
                product = self.arrays.correlate([(M, self._weight)], N)
                G[np.ix_(rows, columns)] = self.arrays.numpy(product)
        return G

    def moments(self, monomials: Sequence[Monomial]) -> tuple[Array, Array]:
        """Return q and the means of some monomials."""
        q, mean = np.empty(len(monomials)), np.empty(len(monomials))
        for some in self._chunks(monomials):
            M, mean[some] = self._columns([monomials[j] for j in some])
            q[some] = self.arrays.numpy(M @ self._weighted_target)
        return q, mean

    def correlations(self, monomials: Sequence[Monomial], a: Array) -> Array:
        """Return m_j'V a for some monomials."""
        weighted = self.arrays.vector(self.v * a, "float64")
        values = np.empty(len(monomials))
        for some in self._chunks(monomials):
            M, _ = self._columns([monomials[j] for j in some])
            values[some] = self.arrays.numpy(M @ weighted)
        return values

    def residual(self, monomials: Sequence[Monomial], w: Array) -> Array:
        """Return a = y - M w, centred where there is a free intercept."""
        prediction = np.zeros(self.n)
        for some in self._chunks(monomials):
            M, _ = self._columns([monomials[j] for j in some])
            prediction += self.arrays.numpy(self.arrays.vector(w[some], "float64") @ M)
        return self.target - prediction

    def _columns(self, monomials: list[Monomial]) -> tuple[Any, Array]:
        """Return scaled, centred monomials of one degree as rows, and their means."""
        table, d = self.pricer.exact_table, len(monomials[0])
        keys = np.array([[self._place[i] for i in m] for m in monomials], dtype=np.intp)
        first = keys[:, 0] if d else np.zeros(len(monomials), dtype=np.intp)
        M = self.arrays.rows(table, first)
        if d == 0:
            M[:] = 1.0
        for factor in range(1, d):
            M *= self.arrays.rows(table, keys[:, factor])
        scales = Basis(0, self.pricer.degree, tuple(monomials)).scales
        M *= self.arrays.vector(scales, "float64")[:, None]
        if not self.pricer.fit_intercept:
            return M, np.zeros(len(monomials))
        mean = (M @ self._weight) / float(self.v.sum())
        M -= mean[:, None]
        return M, self.arrays.numpy(mean)

    def _chunks(self, monomials: Sequence[Monomial]) -> Iterator[Indices]:
        """Positions of monomials of one degree, so many that their columns stay small."""
        degree = np.array([len(m) for m in monomials], dtype=np.intp)
        size = max(16, BLOCK_BYTES // (8 * self.n))
        for d in np.unique(degree):
            where = np.flatnonzero(degree == d)
            for start in range(0, len(where), size):
                yield where[start : start + size]


@dataclass(frozen=True, eq=False)
class Pool:
    """Monomials with their block of G and of q."""

    monomials: tuple[Monomial, ...]
    G: Array
    q: Array

    @classmethod
    def of(cls, design: Design, monomials: Sequence[Monomial]) -> Pool:
        """Build a pool from nothing."""
        return cls((), np.zeros((0, 0)), np.zeros(0)).extended(design, monomials)

    def __len__(self) -> int:
        return len(self.monomials)

    @cached_property
    def index(self) -> dict[Monomial, int]:
        """Position of each monomial."""
        return {m: j for j, m in enumerate(self.monomials)}

    @cached_property
    def norms(self) -> Array:
        """|m_j|."""
        return np.sqrt(np.maximum(np.diagonal(self.G), 0.0))

    def extended(self, design: Design, monomials: Sequence[Monomial]) -> Pool:
        """Return the pool with those of ``monomials`` that it does not hold yet."""
        new = tuple(m for m in dict.fromkeys(monomials) if m not in self.index)
        if not new:
            return self
        old, everything = len(self), self.monomials + new
        G = np.empty((len(everything), len(everything)))
        G[:old, :old] = self.G
        G[:, old:] = design.gram(everything, new)
        G[old:, :old] = G[:old, old:].T
        corner = G[old:, old:]
        corner[:] = 0.5 * (corner + corner.T)
        return Pool(everything, G, np.concatenate([self.q, design.moments(new)[0]]))

    def selected(self, keep: Indices) -> Pool:
        """Return the pool of some of its monomials."""
        return Pool(
            tuple(self.monomials[j] for j in keep), self.G[np.ix_(keep, keep)], self.q[keep]
        )

    def vector(self, w: dict[Monomial, float]) -> Array:
        """Return coefficients by monomial as an array; all of them must be in the pool."""
        values = np.zeros(len(self))
        values[[self.index[m] for m in w]] = list(w.values())
        return values
