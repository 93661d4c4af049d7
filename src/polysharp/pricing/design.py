"""The data of a search that forms columns on demand: vectors over the rows, and products with them.

Columns of M are products of rows of the pricer's table, formed when they are needed, wherever
that table lives (see ``arrays``).  With weights v and means mbar (zero without a free intercept)

    G_ij = sum_t v_t (m_ti - mbar_i)(m_tj - mbar_j),    q_j = sum_t v_t (m_tj - mbar_j)(y_t - ybar),
    a = y - M w,    m_j'V a,    y'V a,    a'V a.

A search knows a vector over the rows only by name: it asks a ``Design`` for one and hands it
back, so that the rows may as well be spread over a cluster (``dask_design``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from polysharp.data.arrays import products
from polysharp.data.rows import MemoryRows, Rows
from polysharp.monomials.basis import Basis
from polysharp.pricing.pricer import Priced, Pricer
from polysharp.pricing.sweep import Keep
from polysharp.typing import Array, Indices, Monomial, OnBlock

BLOCK_BYTES = 64 * 2**20
KEPT_BYTES = 2**30


class Prices(Protocol):
    """All monomials of some inputs, priced against one vector after another."""

    @property
    def inputs(self) -> Indices:
        """The inputs, by their numbers in X."""

    def among(self, keep: Keep) -> Prices:
        """Return the same for the monomials that pass ``keep`` as well."""

    def price(self, a: Any, top: int, *, on_block: OnBlock | None = None) -> Priced:
        """Return the ``top`` monomials of largest |m_j'a|."""


class Design(Protocol):
    """The rows as a search sees them."""

    @property
    def pricer(self) -> Prices:
        """Every monomial."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def yy(self) -> float:
        """Y'Vy."""

    @property
    def y_mean(self) -> float:
        """What centring took from y."""

    @property
    def target(self) -> Any:
        """The vector y, centred where there is a free intercept."""

    def gram(
        self, old: tuple[ColumnBlock, ...], monomials: Sequence[Monomial]
    ) -> tuple[Array, tuple[ColumnBlock, ...]]:
        """Return columns of G for new monomials, sorted by degree: rows are the old, then the new.

        Also returns the blocks of old and new monomials in that order.
        """

    def moments(self, monomials: Sequence[Monomial]) -> tuple[Array, Array]:
        """Return q and the means of some monomials."""

    def residual(self, monomials: Sequence[Monomial], w: Array) -> Any:
        """Return the vector a = y - M w, centred where there is a free intercept."""

    def correlations(self, monomials: Sequence[Monomial], a: Any) -> Array:
        """Return m_j'V a for some monomials."""

    def products(self, a: Any) -> tuple[float, float]:
        """Return y'V a and a'V a."""


def open_design(rows: Rows, inputs: Indices, degree: int, *, fit_intercept: bool) -> Design:
    """Return all monomials of some inputs, none of them formed."""
    if rows.block is not None:
        return TableDesign.of(rows.block, inputs, degree, fit_intercept=fit_intercept)
    from polysharp.pricing.blocked_design import BlockedDesign

    return BlockedDesign(rows, inputs, degree, fit_intercept=fit_intercept)


class TableDesign:
    """A table in memory, or on a GPU."""

    def __init__(self, pricer: Pricer, rows: MemoryRows) -> None:
        self.pricer, self.arrays, self.n = pricer, pricer.arrays, pricer.n
        self.v = rows.weights
        self.y_mean = rows.y_mean if pricer.fit_intercept else 0.0
        self.target = rows.y - self.y_mean
        self.yy = float(self.v @ self.target**2)
        self._weight = self.arrays.array(self.v)
        self._weighted_target = self.arrays.array(self.v * self.target)
        self._place = {int(i): a for a, i in enumerate(pricer.inputs)}

    @classmethod
    def of(cls, rows: MemoryRows, inputs: Indices, degree: int, *, fit_intercept: bool) -> Self:
        """Put the table where it will be priced."""
        pricer = Pricer(
            rows.X,
            degree,
            inputs=inputs,
            sample_weight=rows.sample_weight,
            fit_intercept=fit_intercept,
            arrays=rows.place.arrays(),
        )
        return cls(pricer, rows)

    def gram(
        self, old: tuple[ColumnBlock, ...], monomials: Sequence[Monomial]
    ) -> tuple[Array, tuple[ColumnBlock, ...]]:
        """Multiply the new columns, a block of one degree at a time, with all before them."""
        new = [self._block(tuple(monomials[j] for j in some)) for some in self._chunks(monomials)]
        old_size = sum(len(block.monomials) for block in old)
        size = old_size + len(monomials)
        columns = np.empty((size, len(monomials)))
        keep = 8 * self.n * size <= KEPT_BYTES
        blocks, done = list(old), 0
        for block in new:
            mine = slice(done, done + len(block.monomials))
            done, at = mine.stop, 0
            for other in (*blocks, block):
                part = self._product(other, block)
                rows = slice(at, at + len(part))
                columns[rows, mine] = part if other is not block else 0.5 * (part + part.T)
                at = rows.stop
            blocks.append(block if keep else ColumnBlock(block.monomials, None))
        # Among the new ones, what stands below the diagonal mirrors what stands above it.
        square = columns[old_size:]
        lower = np.tril_indices(len(square), -1)
        square[lower] = square.T[lower]
        return columns, tuple(blocks)

    def _block(self, names: tuple[Monomial, ...]) -> ColumnBlock:
        return ColumnBlock(names, self._columns(list(names))[0])

    def _product(self, left: ColumnBlock, right: ColumnBlock) -> Array:
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
        weighted = self.arrays.array(self.v * a)
        values = np.empty(len(monomials))
        for some in self._chunks(monomials):
            M, _ = self._columns([monomials[j] for j in some])
            values[some] = self.arrays.numpy(M @ weighted)
        return values

    def products(self, a: Array) -> tuple[float, float]:
        """Return y'V a and a'V a."""
        va = self.v * a
        return float(va @ self.target), float(va @ a)

    def residual(self, monomials: Sequence[Monomial], w: Array) -> Array:
        """Return a = y - M w, centred where there is a free intercept."""
        prediction = np.zeros(self.n)
        for some in self._chunks(monomials):
            M, _ = self._columns([monomials[j] for j in some])
            prediction += self.arrays.numpy(self.arrays.array(w[some]) @ M)
        return self.target - prediction

    def _columns(self, monomials: list[Monomial]) -> tuple[Any, Array]:
        """Return scaled, centred monomials of one degree as rows, and their means."""
        table, d = self.pricer.exact_table, len(monomials[0])
        keys = np.array([[self._place[i] for i in m] for m in monomials], dtype=np.intp)
        M = products(self.arrays, table, keys.reshape(len(monomials), d))
        scales = Basis((), self.pricer.degree, tuple(monomials)).scales
        M *= self.arrays.array(scales)[:, None]
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
class ColumnBlock:
    """Monomials of one degree with their columns, or without where they are not kept."""

    monomials: tuple[Monomial, ...]
    table: Any | None

    def part(self, kept: set[Monomial]) -> ColumnBlock:
        """Return the block of those of its monomials that are kept."""
        where = [a for a, m in enumerate(self.monomials) if m in kept]
        if len(where) == len(self.monomials):
            return self
        names = tuple(self.monomials[a] for a in where)
        if self.table is None:
            return ColumnBlock(names, None)
        return ColumnBlock(names, self.table[where])
