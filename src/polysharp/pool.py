"""The pool: the few monomials of a huge basis that a search works with, and their moments.

Columns of M are products of rows of the pricer's table, formed when they are needed, wherever
that table lives (see ``arrays``).  With weights v and means mbar (zero without a free intercept)

    G_ij = sum_t v_t (m_ti - mbar_i)(m_tj - mbar_j),    q_j = sum_t v_t (m_tj - mbar_j)(y_t - ybar),

so that a new monomial costs one product of its column with those already there, and nothing
of G is computed twice while the pool grows.  Columns are kept while they fit into a gigabyte.
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
KEPT_BYTES = 2**30


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

    def blocks(self, monomials: Sequence[Monomial]) -> Iterator[Block]:
        """Form the columns of some monomials, a block of one degree at a time."""
        for some in self._chunks(monomials):
            names = tuple(monomials[j] for j in some)
            yield Block(names, self._columns(list(names))[0])

    def product(self, left: Block, right: Block) -> Array:
        """Return the block of G between the monomials of two blocks."""
        M = left.table if left.table is not None else self._columns(list(left.monomials))[0]
        return self.arrays.numpy(self.arrays.correlate([(M, self._weight)], right.table))

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
class Block:
    """Monomials of one degree with their columns, or without where they are not kept."""

    monomials: tuple[Monomial, ...]
    table: Any | None

    def part(self, design: Design, kept: set[Monomial]) -> Block:
        """Return the block of those of its monomials that are kept."""
        where = [a for a, m in enumerate(self.monomials) if m in kept]
        if len(where) == len(self.monomials):
            return self
        names = tuple(self.monomials[a] for a in where)
        if self.table is None:
            return Block(names, None)
        return Block(names, design.arrays.rows(self.table, np.array(where, dtype=np.intp)))


@dataclass(frozen=True, eq=False)
class Pool:
    """Monomials with their block of G and of q."""

    monomials: tuple[Monomial, ...]
    G: Array
    q: Array
    blocks: tuple[Block, ...] = ()  # the same monomials in the same order

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
        wanted = [m for m in dict.fromkeys(monomials) if m not in self.index]
        if not wanted:
            return self
        new = list(design.blocks(sorted(wanted, key=len)))
        names = self.monomials + tuple(m for block in new for m in block.monomials)
        G = np.empty((len(names), len(names)))
        G[: len(self), : len(self)] = self.G
        blocks, stop = list(self.blocks), len(self)
        keep = 8 * design.n * len(names) <= KEPT_BYTES
        for block in new:
            columns = slice(stop, stop + len(block.monomials))
            at = 0
            for other in (*blocks, block):
                rows = slice(at, at + len(other.monomials))
                part = design.product(other, block)
                G[rows, columns] = part if other is not block else 0.5 * (part + part.T)
                G[columns, rows] = G[rows, columns].T
                at = rows.stop
            stop = columns.stop
            blocks.append(block if keep else Block(block.monomials, None))
        q = np.concatenate([self.q, design.moments(names[len(self) :])[0]])
        return Pool(names, G, q, tuple(blocks))

    def selected(self, design: Design, keep: Indices) -> Pool:
        """Return the pool of some of its monomials, given in ascending order."""
        names = tuple(self.monomials[j] for j in keep)
        kept = set(names)
        blocks = (block.part(design, kept) for block in self.blocks)
        return Pool(
            names,
            self.G[np.ix_(keep, keep)],
            self.q[keep],
            tuple(block for block in blocks if block.monomials),
        )

    def vector(self, w: dict[Monomial, float]) -> Array:
        """Return coefficients by monomial as an array; all of them must be in the pool."""
        values = np.zeros(len(self))
        values[[self.index[m] for m in w]] = list(w.values())
        return values
