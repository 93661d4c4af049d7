"""Columns of M formed on demand from a block of rows, and the sums of them that a search needs.

Columns are products of rows of a table (inputs, rows), formed where that table lives (``arrays``).
A vector over the rows is known by its formula,

    a_t = y_t - level - m(u_t)'w,

so that it takes a few numbers to name it, wherever the rows are.  With weights v, and M centred by
the means mbar of the rows at hand, the sums are

    residual        sum v a, v a^2, v a y, ...          y'Va, a'Va, and what the level must be
    correlations    sum v a m_j                         for a list of monomials
    cross moments   sum v (m_i - mbar_i)(m_j - mbar_j)  between old and new monomials of a pool
    tiles           sum v a m_j                         for all monomials, a few panels at a time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.arrays import NumpyArrays, products
from polysharp.data.rows import MemoryRows
from polysharp.pricing.panels import (
    Factors,
    Keep,
    Keys,
    Panel,
    PanelSizes,
    largest_scale,
    norm_powers,
    panels,
    scales,
    with_ones,
)
from polysharp.pricing.pricer import Shortlist
from polysharp.typing import Array, Indices, Monomial, OnBlock

CHUNK_BYTES = 64 * 2**20  # of columns that are multiplied with others at a time
TILE_ENTRIES = 4 * 2**20  # of a sum of panels over blocks of rows: 32 MiB
SLICE_ROWS = 4096  # of a block that are multiplied at a time

Tile = tuple[Panel, ...]


class Formula(NamedTuple):
    """A vector over the rows: y - level - M w."""

    monomials: tuple[Monomial, ...]
    w: Array
    level: float
    y_mean: float  # what centring takes from y


class RowVector(NamedTuple):
    """A vector over the rows: its formula, what centres it, and its products."""

    formula: Formula
    centre: float  # zero without a free intercept, and rounding with one
    ya: float
    aa: float
    raw: float  # a'V a before it was centred: what ya and aa have lost digits of
    drift: float  # what centring may have left in a correlation
    norms: tuple[float, float, float] | None  # |va|_1, |va|_2, largest |va x_j|_2


class CentredColumns(NamedTuple):
    """Columns of some monomials less their means, where they are kept."""

    table: Any
    mean: Array


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Centred moments of all monomials of a pool with its m last ones and y; ``a + b`` merges."""

    weight: float
    mean: Array  # (f,)
    y_mean: float
    cross: Array  # (f, m)
    q: Array  # (m,)
    columns: tuple[CentredColumns, ...] = ()  # of the rows at hand, where kept

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
        self.table = with_ones(self.arrays, rows.X, inputs) if table is None else table
        self._place = {int(i): a for a, i in enumerate(inputs)}
        self._last: tuple[Formula, Array] | None = None

    def columns(self, monomials: Sequence[Monomial]) -> Any:
        """Return scaled monomials as rows."""
        place, r = self._place, self.degree
        keys = [[*(place[i] for i in m), *[-1] * (r - len(m))] for m in monomials]
        padded = np.array(keys, dtype=np.intp).reshape(len(monomials), r)
        M = products(self.arrays, self.table, padded)
        M *= self.arrays.array(scales(padded.astype(np.int32), r))[:, None]
        return M

    def chunks(self, monomials: Sequence[Monomial]) -> Iterator[tuple[slice, Any]]:
        """Yield columns, as many at a time as stay in the cache."""
        size = max(1, self.arrays.block_bytes // (32 * len(self.rows)))
        for start in range(0, len(monomials), size):
            yield slice(start, start + size), self.columns(monomials[start : start + size])

    def values(self, a: Formula) -> Array:
        """Return a vector over the rows; the last one is kept."""
        if self._last is None or self._last[0] is not a:
            value = self.rows.y - a.level
            for some, M in self.chunks(a.monomials):
                value -= self.arrays.numpy(self.arrays.array(a.w[some]) @ M)
            self._last = a, value
        return self._last[1]

    def residual_sums(self, formula: Formula, norms: bool) -> Array:
        """Return sums of v a, v a^2, v a t, v t and v t^2, t being y less its mean.

        With ``norms`` also of |v a|, (v a)^2 and, for each input, (v a x)^2, which bound rounding.
        """
        a, v = self.values(formula), self.rows.weights
        va, t = v * a, self.rows.y - formula.y_mean
        sums = np.array([va.sum(), va @ a, va @ t, v @ t, (v * t) @ t])
        if norms:
            of_inputs = self.arrays.numpy(self.table[:-1] ** 2 @ self.arrays.array(va * va))
            sums = np.concatenate([sums, [np.abs(va).sum(), va @ va], of_inputs])
        return sums

    def power_sums(self) -> Array:
        """Return sums of even powers of the inputs, and of (v x)^2: a row of inputs for each."""
        with np.errstate(over="ignore"):
            square = self.arrays.numpy(self.table[:-1]) ** 2
            powers = [(square ** (power // 2)).sum(1) for power in norm_powers(self.degree)]
            return np.array([*powers, square @ self.rows.weights**2])

    def correlations(self, formula: Formula, centre: float, monomials: list[Monomial]) -> Array:
        """Return m_j'V (a - centre)."""
        va = self.arrays.array(self.rows.weights * (self.values(formula) - centre))
        found = np.empty(len(monomials))
        for some, M in self.chunks(monomials):
            found[some] = self.arrays.numpy(M @ va)
        return found

    def cross_moments(
        self,
        old: tuple[Monomial, ...],
        kept: tuple[CentredColumns, ...],
        new: Sequence[Monomial],
        y_mean: float,
        room: int,
        on_block: OnBlock | None = None,
    ) -> CrossMoments:
        """Return the moments of old and new monomials with the new ones, and with y - ``y_mean``.

        Columns, those of the old monomials being ``kept``, are kept where all of them fit into
        ``room`` bytes; else the rows are cut.
        """
        at_once, total = max(64, room // (8 * (len(old) + len(new)))), None
        if len(self.rows) <= at_once:
            return self._cross_moments(kept or self._centred(old), new, y_mean, on_block)
        for start in range(0, len(self.rows), at_once):
            rows = slice(start, min(start + at_once, len(self.rows)))
            table = self.table[:, rows]
            part = ColumnTable(self.rows.take(rows), self.inputs, self.degree, table)
            moments = part._cross_moments(part._centred(old), new, y_mean)
            total = moments if total is None else total + moments
            if on_block is not None:
                on_block(rows.stop, len(self.rows))
        assert total is not None, "empty blocks are left out"
        return total

    def _cross_moments(
        self,
        blocks: tuple[CentredColumns, ...],
        monomials: Sequence[Monomial],
        y_mean: float,
        on_block: OnBlock | None = None,
    ) -> CrossMoments:
        arrays, v, t = self.arrays, self.rows.weights, self.rows.y - y_mean
        weight, t_mean = float(v.sum()), float(v @ t / v.sum())
        device_weight, vt = arrays.array(v), arrays.array(v * (t - t_mean))
        new, before, stop = self._centred(monomials), sum(len(own.mean) for own in blocks), 0
        cross = np.empty((before + len(monomials), len(monomials)))
        for right in new:
            blocks = (*blocks, right)
            mine, at = slice(stop, stop + len(right.mean)), 0
            for left in blocks:
                part = arrays.numpy(arrays.correlate([(left.table, device_weight)], right.table))
                rows = slice(at, at + len(part))
                cross[rows, mine] = part if left is not right else 0.5 * (part + part.T)
                at = rows.stop
            # Among the new ones, what stands below the diagonal mirrors what stands above it.
            cross[before + mine.start : before + mine.stop, :stop] = cross[before:, mine][:stop].T
            stop = mine.stop
            if on_block is not None:
                on_block(stop, len(monomials))
        mean = np.concatenate([np.zeros(0), *(own.mean for own in blocks)])
        q = np.concatenate([np.zeros(0), *(arrays.numpy(own.table @ vt) for own in new)])
        return CrossMoments(weight, mean, t_mean, cross, q, blocks)

    def _centred(self, monomials: Sequence[Monomial]) -> tuple[CentredColumns, ...]:
        """Form columns, chunk by chunk, and take their means away."""
        found, v = list[CentredColumns](), self.arrays.array(self.rows.weights)
        size = max(16, CHUNK_BYTES // (8 * len(self.rows)))
        for start in range(0, len(monomials), size):
            M = self.columns(monomials[start : start + size])
            mean = (M @ v) / self.rows.total_weight
            M -= mean[:, None]
            found.append(CentredColumns(M, self.arrays.numpy(mean)))
        return tuple(found)


class TileTask(NamedTuple):
    """Which monomials of one tile are asked for: the ``top`` largest that pass ``keep``."""

    a: RowVector
    inputs: Indices
    degree: int
    tile: Tile
    keep: Keep | None
    top: int

    @property
    def places(self) -> list[tuple[Panel, slice]]:
        """The panels, and the entries of each in the sum of the tile."""
        offsets = accumulate((panel.size for panel in self.tile), initial=0)
        return [(panel, slice(*ab)) for panel, ab in zip(self.tile, pairwise(offsets), strict=True)]


def tiles(p: int, degree: int, *, constant: bool, entries: int = TILE_ENTRIES) -> list[Tile]:
    """Cut the panels into tiles; a tile exceeds ``entries`` only where a single panel does."""
    cut: list[list[Panel]] = [[]]
    size = 0
    sizes = PanelSizes.of(SLICE_ROWS, p, NumpyArrays().stack)
    for panel in panels(p, degree, sizes, constant=constant):
        if cut[-1] and size + panel.size > entries:
            cut.append([])
            size = 0
        cut[-1].append(panel)
        size += panel.size
    return [tuple(tile) for tile in cut]


def tile_products(rows: MemoryRows, task: TileTask) -> Array:
    """Return what some rows contribute to the correlations of a tile, panel after panel."""
    block = ColumnTable(rows, task.inputs, task.degree)
    direction = rows.weights * (block.values(task.a.formula) - task.a.centre)
    total = np.zeros(sum(panel.size for panel in task.tile))
    for start in range(0, len(rows), SLICE_ROWS):
        table = np.ascontiguousarray(block.table[:-1, start : start + SLICE_ROWS])
        a, factors = direction[start : start + SLICE_ROWS], Factors(block.arrays, table)
        for panel, entries in task.places:
            total[entries] += factors.correlations(panel, a).ravel()
    return total


def tile_largest(total: Array, task: TileTask) -> tuple[Keys, Array]:
    """Return the largest scaled correlations of a tile: keys padded with -1, and values."""
    best = Shortlist(task.top, task.degree)
    for panel, entries in task.places:
        P = total[entries].reshape(panel.shape)
        # Inputs that differ have the largest scale: what misses the threshold with it, misses it.
        limit = best.threshold / largest_scale(task.degree, panel.degree)
        rows, columns = np.nonzero(np.abs(P) >= limit)
        local, once = panel.keys(rows, columns)
        scaled = P[rows[once], columns[once]] * scales(local, task.degree)
        keys = np.asarray(task.inputs)[local].astype(np.int32).reshape(local.shape)
        if task.keep is not None and len(keys):
            wanted = task.keep(keys)
            keys, scaled = keys[wanted], scaled[wanted]
        best.offer(keys, scaled, np.zeros(len(keys)))
    return best.result()
