"""Columns of M formed on demand from a block of rows, and what a search needs of them: sums.

Columns are products of rows of a table (inputs, rows), formed where that table lives (``arrays``).
A vector over the rows is known by its formula,

    a_t = y_t - level - m(u_t)'w,

so that it takes a few numbers to name it, wherever the rows are.  With weights v, and M centred by
the means mbar of the rows at hand, the sums are

    residual        sum v a, v a^2, v a y, ...          y'Va, a'Va, and what the level must be
    correlations    sum v a m_j                         for a list of monomials
    cross moments   sum v (m_i - mbar_i)(m_j - mbar_j)  between old and new monomials of a pool
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.data.arrays import products
from polysharp.data.rows import MemoryRows
from polysharp.pricing.panels import norm_powers, scales
from polysharp.typing import Array, Indices, Monomial, OnBlock

CHUNK_BYTES = 64 * 2**20  # of columns that are multiplied with others at a time


@dataclass(frozen=True, eq=False)
class Sums:
    """Named sums; ``a + b`` adds name by name."""

    of: dict[str, Array]

    def __add__(self, other: Sums) -> Sums:
        return Sums({name: value + other.of[name] for name, value in self.of.items()})

    def number(self, name: str) -> float:
        """Return a sum that is a single number."""
        return float(self.of[name])


@dataclass(frozen=True, eq=False)
class Formula:
    """A vector over the rows: y - level - M w."""

    monomials: tuple[Monomial, ...]
    w: Array
    level: float
    y_mean: float  # what centring takes from y


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """Monomials of one degree with their centred columns, or without where these are not kept."""

    monomials: tuple[Monomial, ...]
    table: Any = None
    mean: Array | None = None

    def bare(self) -> ColumnBlock:
        """Return the monomials alone."""
        return ColumnBlock(self.monomials)

    def part(self, kept: set[Monomial]) -> ColumnBlock:
        """Return the block of those of its monomials that are kept."""
        where = [a for a, m in enumerate(self.monomials) if m in kept]
        if len(where) == len(self.monomials):
            return self
        names = tuple(self.monomials[a] for a in where)
        if self.mean is None:
            return ColumnBlock(names)
        return ColumnBlock(names, self.table[where], self.mean[where])


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Centred moments of all monomials of a pool with its m last ones and y; ``a + b`` merges."""

    weight: float
    mean: Array  # (f,)
    y_mean: float
    cross: Array  # (f, m)
    q: Array  # (m,)
    blocks: tuple[ColumnBlock, ...] = ()  # of the rows at hand, where kept

    def __add__(self, other: CrossMoments) -> CrossMoments:
        weight = self.weight + other.weight
        share = other.weight / weight
        step, y_step = other.mean - self.mean, other.y_mean - self.y_mean
        factor, new_step = self.weight * share * step, step[len(step) - len(self.q) :]
        return CrossMoments(
            weight,
            self.mean + share * step,
            self.y_mean + share * y_step,
            self.cross + other.cross + np.multiply.outer(factor, new_step),
            self.q + other.q + (self.weight * share * y_step) * new_step,
        )

    def uncentred(self) -> tuple[Array, Array]:
        """Return M'V M_new and M_new'V y."""
        new = self.weight * self.mean[len(self.mean) - len(self.q) :]
        return self.cross + np.multiply.outer(self.mean, new), self.q + new * self.y_mean


class ColumnTable:
    """A block of rows on its device, which forms columns of M."""

    def __init__(
        self, rows: MemoryRows, inputs: Indices, degree: int, table: Any | None = None
    ) -> None:
        self.rows, self.inputs, self.degree = rows, inputs, degree
        self.arrays = rows.place.arrays()
        self.table = self.arrays.table(rows.X, inputs, "float64") if table is None else table
        self._place = {int(i): a for a, i in enumerate(inputs)}
        self._last: tuple[Formula, Array] | None = None

    def cut(self, rows: slice) -> ColumnTable:
        """Return the table of some of the rows."""
        return ColumnTable(
            self.rows.take(rows), self.inputs, self.degree, self.table[:, rows.start : rows.stop]
        )

    def columns(self, monomials: Sequence[Monomial]) -> Any:
        """Return scaled monomials of one degree as rows."""
        local = [[self._place[i] for i in m] for m in monomials]
        keys = np.array(local, dtype=np.intp).reshape(len(monomials), len(monomials[0]))
        M = products(self.arrays, self.table, keys)
        M *= self.arrays.array(scales(keys.astype(np.int32), self.degree))[:, None]
        return M

    def chunks(self, monomials: Sequence[Monomial], size: int | None = None) -> Iterator[Indices]:
        """Positions of ``size`` monomials of one degree, by default what stays in the cache."""
        degree = np.array([len(m) for m in monomials], dtype=np.intp)
        size = size or max(1, self.arrays.block_bytes // (32 * len(self.rows)))
        for d in np.unique(degree):
            where = np.flatnonzero(degree == d)
            for start in range(0, len(where), size):
                yield where[start : start + size]

    def values(self, a: Formula) -> Array:
        """Return a vector over the rows; the last one is kept."""
        if self._last is None or self._last[0] is not a:
            value = self.rows.y - a.level
            for some in self.chunks(a.monomials):
                M = self.columns([a.monomials[j] for j in some])
                value -= self.arrays.numpy(self.arrays.array(a.w[some]) @ M)
            self._last = a, value
        return self._last[1]

    def residual_sums(self, formula: Formula, norms: bool) -> Sums:
        """Sum what is needed to know about a vector, with ``norms`` also to bound its rounding."""
        a, v = self.values(formula), self.rows.weights
        va, t = v * a, self.rows.y - formula.y_mean
        sums = {"va": va.sum(), "vaa": va @ a, "vat": va @ t, "vt": v @ t, "vtt": (v * t) @ t}
        if norms:
            square = self.table * self.table
            sums |= {"|va|": np.abs(va).sum(), "(va)2": va @ va, "(vax)2": square @ (va * va)}
        return Sums(sums)

    def power_sums(self) -> Sums:
        """Sum even powers of the inputs: norms for the error bounds of pricing."""
        with np.errstate(over="ignore"):
            square = self.table**2
            powers = norm_powers(self.degree)
            of = {f"x{power}": (square ** (power // 2)).sum(1) for power in powers}
            return Sums(of | {"(vx)2": square @ self.rows.weights**2})

    def correlations(self, formula: Formula, centre: float, monomials: list[Monomial]) -> Array:
        """Return m_j'V (a - centre)."""
        va = self.arrays.array(self.rows.weights * (self.values(formula) - centre))
        found = np.empty(len(monomials))
        for some in self.chunks(monomials):
            found[some] = self.arrays.numpy(self.columns([monomials[j] for j in some]) @ va)
        return found

    def cross_moments(
        self,
        old: tuple[ColumnBlock, ...],
        monomials: Sequence[Monomial],
        y_mean: float,
        room: int,
        on_block: OnBlock | None = None,
    ) -> CrossMoments:
        """Return the moments of old and new monomials with the new ones, and with y - ``y_mean``.

        Columns are kept where all of them fit into ``room`` bytes; else the rows are cut.
        """
        size, total = sum(len(block.monomials) for block in old) + len(monomials), None
        at_once = max(64, room // (8 * size))
        if len(self.rows) <= at_once:
            return self._cross_moments(old, monomials, y_mean, on_block)
        bare = tuple(block.bare() for block in old)
        for start in range(0, len(self.rows), at_once):
            part = self.cut(slice(start, min(start + at_once, len(self.rows))))
            moments = part._cross_moments(bare, monomials, y_mean)
            total = moments if total is None else total + moments
            if on_block is not None:
                on_block(start + len(part.rows), len(self.rows))
        assert total is not None, "empty blocks are left out"
        return total

    def _cross_moments(
        self,
        old: tuple[ColumnBlock, ...],
        monomials: Sequence[Monomial],
        y_mean: float,
        on_block: OnBlock | None = None,
    ) -> CrossMoments:
        arrays, v, t = self.arrays, self.rows.weights, self.rows.y - y_mean
        weight, t_mean = float(v.sum()), float(v @ t / v.sum())
        device_weight, vt = arrays.array(v), arrays.array(v * (t - t_mean))
        blocks = [block if block.mean is not None else self._centred(block) for block in old]
        new = [
            self._centred(ColumnBlock(tuple(monomials[j] for j in some)))
            for some in self.chunks(monomials, max(16, CHUNK_BYTES // (8 * len(self.rows))))
        ]
        before = sum(len(block.monomials) for block in old)
        cross = np.empty((before + len(monomials), len(monomials)))
        stop = 0
        for right in new:
            blocks.append(right)
            mine, at = slice(stop, stop + len(right.monomials)), 0
            for left in blocks:
                part = arrays.numpy(arrays.correlate([(left.table, device_weight)], right.table))
                rows = slice(at, at + len(part))
                cross[rows, mine] = part if left is not right else 0.5 * (part + part.T)
                at = rows.stop
            stop = mine.stop
            if on_block is not None:
                on_block(stop, len(monomials))
        # Among the new ones, what stands below the diagonal mirrors what stands above it.
        square = cross[before:]
        lower = np.tril_indices(len(square), -1)
        square[lower] = square.T[lower]
        mean = np.concatenate([np.zeros(0), *(b.mean for b in blocks if b.mean is not None)])
        q = np.concatenate([np.zeros(0), *(arrays.numpy(b.table @ vt) for b in new)])
        return CrossMoments(weight, mean, t_mean, cross, q, tuple(blocks))

    def _centred(self, block: ColumnBlock) -> ColumnBlock:
        """Form the columns of a block and take their means away."""
        M = self.columns(block.monomials)
        mean = (M @ self.arrays.array(self.rows.weights)) / self.rows.total_weight
        M -= mean[:, None]
        return ColumnBlock(block.monomials, M, self.arrays.numpy(mean))
