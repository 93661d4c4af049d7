"""The data of a search that forms columns on demand: vectors over the rows, and products with them.

    G_ij = sum_t v_t (m_ti - mbar_i)(m_tj - mbar_j),    q_j = sum_t v_t (m_tj - mbar_j)(y_t - ybar),
    a = y - M w,    m_j'V a,    y'V a,    a'V a,    and the largest m_j'V a over all f monomials,

with weights v and means mbar, ybar (zero without a free intercept).  A search knows a vector over
the rows only by its formula; every answer is a sum over blocks of rows (``columns``), and for rows
in memory, which are one block, the block with its columns is kept from one question to the next.

Prices over one block come from a sweep (``pricer``).  Over many blocks no entry is known before
all of them have been added, so the panels are added in tiles of 4 Mi entries (32 MiB), each tile
is cut to its largest entries where its sum is, and only those reach the client: B blocks keep
3 log_4 B + 2 tiles alive for each thread at most, the client none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.arrays import ROUNDOFF, NumpyArrays
from polysharp.data.rows import MemoryRows, Rows
from polysharp.monomials.basis import count_monomials
from polysharp.pricing.columns import ColumnBlock, ColumnTable, CrossMoments, Formula, Sums
from polysharp.pricing.panels import (
    Factors,
    Keep,
    Keys,
    Panel,
    PanelSizes,
    largest_scale,
    largest_sum,
    norm_powers,
    panels,
    scales,
)
from polysharp.pricing.pricer import Priced, Pricer
from polysharp.pricing.sweep import order_by_value
from polysharp.typing import Array, Indices, Monomial, OnBlock

KEPT_BYTES = 2**30  # of columns in memory
TASK_BYTES = 64 * 2**20  # of columns in a task
SUMMED = 128.0  # roundings of a sum that is made in pairs, of its mean and of taking that away
TILE_ENTRIES = 4 * 2**20
SLICE_ROWS = 4096  # of a block that are multiplied at a time

Tile = tuple[Panel, ...]


class RowVector(NamedTuple):
    """A vector over the rows: its formula, what centres it, and its products."""

    formula: Formula
    centre: float  # zero without a free intercept, and rounding with one
    ya: float
    aa: float
    raw: float  # a'V a before it was centred: what ya and aa have lost digits of
    drift: float  # what centring may have left in a correlation
    norms: tuple[float, float, float] | None  # |va|_1, |va|_2, largest |va x_j|_2


class Design:
    """All monomials of some inputs, none of them formed, as a search sees them."""

    def __init__(self, rows: Rows, inputs: Indices, degree: int, *, fit_intercept: bool) -> None:
        self.rows, self.degree, self.inputs = rows, degree, np.sort(inputs)
        self.fit_intercept = fit_intercept
        self.n, self.weight = rows.shape[0], rows.total_weight
        self.y_mean = rows.y_mean if fit_intercept else 0.0
        self._q_and_mean: dict[Monomial, tuple[float, float]] = {}
        self.table_pricer: Pricer | None = None
        self._block: ColumnTable | None = None
        if rows.block is not None:
            self.table_pricer = Pricer(
                rows.block.X,
                degree,
                inputs=self.inputs,
                sample_weight=rows.block.sample_weight,
                fit_intercept=fit_intercept,
                arrays=rows.place.arrays(),
            )
            self._block = ColumnTable(
                rows.block, self.inputs, degree, self.table_pricer.exact_table
            )
        else:
            sums: Sums = self._sum("norms", ColumnTable.power_sums)
            self.norms = {
                power: sums.of[f"x{power}"] ** (1.0 / power) for power in norm_powers(degree)
            }
            self.weighted_norm = np.sqrt(sums.of["(vx)2"])
        self.target = self.residual([], np.zeros(0))

    def _sum(
        self, stage: str, function: Callable[..., Any], *args: Any, on_block: OnBlock | None = None
    ) -> Any:
        """Sum ``function(table, *args)`` over the blocks."""
        if self._block is not None:
            return function(self._block, *args, **({"on_block": on_block} if on_block else {}))
        return self.rows.sum_over_blocks(
            stage, _on_table, self.inputs, self.degree, function, args, on_block=on_block
        )

    def gram(
        self,
        old: tuple[ColumnBlock, ...],
        monomials: Sequence[Monomial],
        on_block: OnBlock | None = None,
    ) -> tuple[Array, tuple[ColumnBlock, ...]]:
        """Return columns of G for new monomials, sorted by degree: rows are the old, then the new.

        Also returns the blocks of old and new monomials in that order.
        """
        room = TASK_BYTES if self._block is None else KEPT_BYTES
        found: CrossMoments = self._sum(
            "gram",
            ColumnTable.cross_moments,
            *(old, tuple(monomials), self.y_mean, room),
            on_block=on_block,
        )
        columns, q = (found.cross, found.q) if self.fit_intercept else found.uncentred()
        mean = found.mean[len(found.mean) - len(q) :] * self.fit_intercept
        self._q_and_mean |= zip(monomials, zip(q.tolist(), mean.tolist(), strict=True), strict=True)
        new = (ColumnBlock(tuple(some)) for _, some in groupby(monomials, key=len))
        return columns, found.blocks or (*(block.bare() for block in old), *new)

    def moments(self, monomials: Sequence[Monomial]) -> tuple[Array, Array]:
        """Return q and the means of some monomials, known since they joined a pool."""
        unknown = [m for m in monomials if m not in self._q_and_mean]
        if unknown:
            self.gram((), sorted(unknown, key=len))
        found = np.array([self._q_and_mean[m] for m in monomials]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def residual(self, monomials: Sequence[Monomial], w: Array) -> RowVector:
        """Return the vector a = y - M w, centred where there is a free intercept."""
        _, mean = self.moments(monomials)
        formula = Formula(tuple(monomials), w, self.y_mean - float(mean @ w), self.y_mean)
        blocked = self._block is None
        sums: Sums = self._sum("residual", ColumnTable.residual_sums, formula, blocked)
        number = sums.number
        if not len(monomials):
            self.yy = number("vtt")
        # Centred once more: rounding leaves some of the mean.
        centre = number("va") / self.weight if self.fit_intercept else 0.0
        shift, norms = abs(centre), None
        if blocked:
            weighted = np.sqrt(sums.of["(vax)2"]) + shift * self.weighted_norm
            plain = float(np.sqrt(sums.of["(va)2"])) + shift * self.weight
            norms = number("|va|") + shift * self.weight, plain, float(weighted.max())
        raw = number("vaa")
        # The sum of v a that is left, times the mean of a monomial.
        drift = SUMMED * ROUNDOFF["float64"] * float(np.sqrt(self.weight * raw)) * self._largest
        ya, aa = number("vat") - centre * number("vt"), max(0.0, raw - self.weight * centre**2)
        return RowVector(formula, centre, ya, aa, raw, drift * self.fit_intercept, norms)

    @cached_property
    def _largest(self) -> float:
        """A bound on the entries of all scaled monomials."""
        pricer = self.table_pricer
        reach = float(self.norms[8].max(initial=1.0)) if pricer is None else pricer.reach
        return largest_scale(self.degree, self.degree) * max(1.0, reach) ** self.degree

    def correlations(self, monomials: Sequence[Monomial], a: RowVector) -> Array:
        """Return m_j'V a for some monomials."""
        if not len(monomials):
            return np.zeros(0)
        found: Array = self._sum(
            "correlations", ColumnTable.correlations, a.formula, a.centre, list(monomials)
        )
        return found

    def columns(self, monomials: Sequence[Monomial]) -> Array:
        """Return monomials over the rows, one each, where the rows are in memory; not centred."""
        assert self._block is not None, "columns do not travel"
        found = np.empty((len(monomials), self.n))
        for some in self._block.chunks(monomials):
            M = self._block.columns([monomials[j] for j in some])
            found[some] = self._block.arrays.numpy(M)
        return found

    def values(self, a: RowVector) -> Array:
        """Return the vector itself, where the rows are in memory."""
        assert self._block is not None, "only formulas travel"
        return self._block.values(a.formula) - a.centre

    def price(
        self, a: RowVector, top: int, keep: Keep | None = None, *, on_block: OnBlock | None = None
    ) -> Priced:
        """Return the ``top`` monomials of largest |m_j'a| among those that pass ``keep``."""
        if self.table_pricer is not None:
            pricer = self.table_pricer if keep is None else self.table_pricer.among(keep)
            return pricer.price(self.values(a), top, on_block=on_block)
        keys, values = np.zeros((0, self.degree), dtype=np.int32), np.zeros(0)
        cut = tiles(len(self.inputs), self.degree, constant=not self.fit_intercept)
        for number, tile in enumerate(cut):
            more, of_more = self.rows.sum_over_blocks(
                "pricing",
                tile_products,
                TileTask(a, self.inputs, self.degree, tile, keep, top),
                then=tile_largest,
                on_block=_part(on_block, number, len(cut)),
            )
            keys, values = np.concatenate([keys, more]), np.concatenate([values, of_more])
            best = order_by_value(keys, np.abs(values))[:top]
            keys, values = keys[best], values[best]
        names = tuple(tuple(i for i in key if i >= 0) for key in keys.tolist())
        every = count_monomials(len(self.inputs), self.degree) - self.fit_intercept
        assert a.norms is not None, "known for rows in blocks"
        largest = largest_sum(self.norms, a.norms, self.degree)
        error = (self.n + 12 + 2 * self.degree) * ROUNDOFF["float64"] * largest
        return Priced.of(names, values, error, all_listed=len(values) < top or top >= every)


def _on_table(
    rows: MemoryRows,
    inputs: Indices,
    degree: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """Ask a block that is read for one question; columns do not travel."""
    found = function(ColumnTable(rows, inputs, degree), *args)
    return replace(found, blocks=()) if isinstance(found, CrossMoments) else found


class TileTask(NamedTuple):
    """What is asked about one tile."""

    a: RowVector
    inputs: Indices
    degree: int
    tile: Tile
    keep: Keep | None
    top: int


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
    offsets = _offsets(task.tile)
    total = np.zeros(offsets[-1])
    for start in range(0, len(rows), SLICE_ROWS):
        table = np.ascontiguousarray(block.table[:, start : start + SLICE_ROWS])
        a, factors = direction[start : start + SLICE_ROWS], Factors(block.arrays, table)
        for panel, (low, high) in zip(task.tile, pairwise(offsets), strict=True):
            total[low:high] += factors.correlations(panel, a).ravel()
    return total


def _offsets(tile: Tile) -> list[int]:
    return list(accumulate((panel.size for panel in tile), initial=0))


def tile_largest(total: Array, task: TileTask) -> tuple[Keys, Array]:
    """Return the largest scaled correlations of a tile: keys padded with -1, and values."""
    degree, top = task.degree, task.top
    keys, values = np.zeros((0, degree), dtype=np.int32), np.zeros(0)
    threshold = 0.0
    for panel, (low, high) in zip(task.tile, pairwise(_offsets(task.tile)), strict=True):
        P = total[low:high].reshape(panel.shape)
        # Inputs that differ have the largest scale: what misses the threshold with it, misses it.
        rows, columns = np.nonzero(np.abs(P) * largest_scale(degree, panel.degree) >= threshold)
        local, once = panel.keys(rows, columns)
        scaled = P[rows[once], columns[once]] * scales(local, degree)
        named = np.full((len(local), degree), -1, dtype=np.int32)
        named[:, : panel.degree] = task.inputs[local]
        wanted = np.ones(len(named), dtype=bool)
        if task.keep is not None and len(named):
            wanted = task.keep(named[:, : panel.degree])
        keys = np.concatenate([keys, named[wanted]])
        values = np.concatenate([values, scaled[wanted]])
        if len(values) > top:
            best = np.argpartition(-np.abs(values), top - 1)[:top]
            keys, values = keys[best], values[best]
            threshold = float(np.abs(values).min())
    return keys, values


def _part(on_block: OnBlock | None, number: int, count: int) -> OnBlock | None:
    """Return a callback for one tile of several."""
    if on_block is None:
        return None
    return lambda done, total: on_block(number * total + done, count * total)
