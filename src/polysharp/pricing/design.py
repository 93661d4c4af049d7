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

The pool is the working set of a search: the few monomials that it forms, with their moments.  A new
monomial costs one product of its column with those already there, and nothing of G is computed
twice while the pool grows.  Columns are kept while they fit into a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polysharp.data.arrays import ROUNDOFF
from polysharp.data.rows import MemoryRows, Rows
from polysharp.monomials.basis import count_monomials
from polysharp.pricing.columns import (
    CentredColumns,
    ColumnTable,
    CrossMoments,
    Formula,
    RowVector,
    TileTask,
    tile_largest,
    tile_products,
    tiles,
)
from polysharp.pricing.panels import Keep, largest_scale, norm_powers, sum_error
from polysharp.pricing.pricer import Priced, Pricer, Shortlist
from polysharp.typing import Array, Indices, Monomial, OnBlock

KEPT_BYTES = 2**30  # of columns in memory
TASK_BYTES = 64 * 2**20  # of columns in a task
SUMMED = 128.0  # roundings of a sum that is made in pairs, of its mean and of taking that away


class Design:
    """All monomials of some inputs, none of them formed, as a search sees them."""

    def __init__(self, rows: Rows, inputs: Indices, degree: int, *, fit_intercept: bool) -> None:
        self.rows, self.degree, self.inputs = rows, degree, np.sort(inputs)
        self.fit_intercept = fit_intercept
        self.n, self.weight = rows.shape[0], rows.total_weight
        self.y_mean = rows.y_mean if fit_intercept else 0.0
        self.means: dict[Monomial, float] = {}  # of monomials that have joined a pool
        self.table_pricer: Pricer | None = None
        self._block: ColumnTable | None = None
        if rows.block is not None:
            self.table_pricer = pricer = Pricer(
                rows.block.X,
                degree,
                inputs=self.inputs,
                sample_weight=rows.block.sample_weight,
                fit_intercept=fit_intercept,
                arrays=rows.place.arrays(),
            )
            self._block = ColumnTable(rows.block, self.inputs, degree, pricer.exact_table)
            self.norms = pricer.norms
        else:
            *sums, weighted = self._sum("norms", ColumnTable.power_sums)
            powers = norm_powers(degree)
            self.norms = {
                power: of ** (1.0 / power) for power, of in zip(powers, sums, strict=True)
            }
            self.weighted_norm = np.sqrt(weighted)
        reach = max(1.0, float(self.norms[8].max(initial=0.0)))
        self._largest = largest_scale(degree, degree) * reach**degree  # entry of any monomial
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
        old: tuple[Monomial, ...],
        kept: tuple[CentredColumns, ...],
        new: Sequence[Monomial],
        on_block: OnBlock | None = None,
    ) -> tuple[Array, Array, tuple[CentredColumns, ...]]:
        """Return columns of G for new monomials, with a row for each old and new one, and their q.

        Also returns the columns of old and new monomials where they are kept.
        """
        room = TASK_BYTES if self._block is None else KEPT_BYTES
        task = old, kept, tuple(new), self.y_mean, room
        found: CrossMoments = self._sum("gram", ColumnTable.cross_moments, *task, on_block=on_block)
        columns, q = (found.cross, found.q) if self.fit_intercept else found.uncentred()
        mean = found.mean[len(old) :] * self.fit_intercept
        self.means |= zip(new, mean.tolist(), strict=True)
        return columns, q, found.columns

    def residual(self, monomials: Sequence[Monomial], w: Array) -> RowVector:
        """Return the vector a = y - M w, centred where there is a free intercept."""
        unknown = [m for m in monomials if m not in self.means]
        if unknown:
            self.gram((), (), unknown)
        mean = np.array([self.means[m] for m in monomials])
        formula = Formula(tuple(monomials), w, self.y_mean - float(mean @ w), self.y_mean)
        blocked = self._block is None
        sums: Array = self._sum("residual", ColumnTable.residual_sums, formula, blocked)
        va, raw, vat, vt, vtt = sums[:5].tolist()
        if not len(monomials):
            self.yy = vtt
        # Centred once more: rounding leaves some of the mean.
        centre = va / self.weight if self.fit_intercept else 0.0
        shift, norms = abs(centre), None
        if blocked:
            weighted = np.sqrt(sums[7:]) + shift * self.weighted_norm
            total, plain = float(sums[5]), float(np.sqrt(sums[6]))
            norms = total + shift * self.weight, plain + shift * self.weight, float(weighted.max())
        # The sum of v a that is left, times the mean of a monomial.
        drift = SUMMED * ROUNDOFF["float64"] * float(np.sqrt(self.weight * raw)) * self._largest
        ya, aa = vat - centre * vt, max(0.0, raw - self.weight * centre**2)
        return RowVector(formula, centre, ya, aa, raw, drift * self.fit_intercept, norms)

    def correlations(self, monomials: Sequence[Monomial], a: RowVector) -> Array:
        """Return m_j'V a for some monomials."""
        if not len(monomials):
            return np.zeros(0)
        task = a.formula, a.centre, list(monomials)
        found: Array = self._sum("correlations", ColumnTable.correlations, *task)
        return found

    def columns(self, monomials: Sequence[Monomial]) -> Array:
        """Return monomials over the rows, one each, where the rows are in memory; not centred."""
        assert self._block is not None, "columns do not travel"
        found = np.empty((len(monomials), self.n))
        for some, M in self._block.chunks(monomials):
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
            return self.table_pricer.price(self.values(a), top, keep, on_block=on_block)
        best = Shortlist(top, self.degree)
        cut = tiles(len(self.inputs), self.degree, constant=not self.fit_intercept)
        for number, tile in enumerate(cut):
            keys, values = self.rows.sum_over_blocks(
                "pricing",
                tile_products,
                TileTask(a, self.inputs, self.degree, tile, keep, top),
                then=tile_largest,
                on_block=_part(on_block, number, len(cut)),
            )
            best.offer(keys, values, np.zeros(len(values)))
        keys, values = best.result()
        every = count_monomials(len(self.inputs), self.degree) - self.fit_intercept
        assert a.norms is not None, "known for rows in blocks"
        error = sum_error(self.n, self.norms, a.norms, self.degree)
        return Priced.of(keys, values, error, all_listed=len(values) < top or top >= every)


def _on_table(
    rows: MemoryRows,
    inputs: Indices,
    degree: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """Ask a block that is read for one question; columns do not travel."""
    found = function(ColumnTable(rows, inputs, degree), *args)
    return replace(found, columns=()) if isinstance(found, CrossMoments) else found


def _part(on_block: OnBlock | None, number: int, count: int) -> OnBlock | None:
    """Return a callback for one tile of several."""
    if on_block is None:
        return None
    return lambda done, total: on_block(number * total + done, count * total)


class Pool:
    """Monomials with their block of G and of q; it grows in place.

    G moves within one buffer as it grows, since fresh memory costs more than the arithmetic on it:
    an array that ``G`` returned before is no longer G then.
    """

    def __init__(self, design: Design, monomials: Sequence[Monomial] = ()) -> None:
        self.design, self.monomials, self.q = design, tuple[Monomial, ...](), np.zeros(0)
        self.columns: tuple[CentredColumns, ...] = ()  # of the monomials in order, where kept
        self.index: dict[Monomial, int] = {}
        self._buffer = np.zeros(0)
        self.extend(monomials)

    def __len__(self) -> int:
        return len(self.monomials)

    @property
    def G(self) -> Array:
        """The block of G."""
        f = len(self)
        return self._buffer[: f * f].reshape(f, f)

    @property
    def mean(self) -> Array:
        """The means that were taken from the monomials."""
        return np.array([self.design.means[m] for m in self.monomials])

    def extend(self, monomials: Sequence[Monomial], on_block: OnBlock | None = None) -> None:
        """Take in those of some monomials that the pool does not hold yet."""
        new = sorted((m for m in dict.fromkeys(monomials) if m not in self.index), key=len)
        if not new:
            return
        moments, q, kept = self.design.gram(self.monomials, self.columns, new, on_block)
        old, f, last, buffer = len(self), len(moments), self._buffer, self._buffer
        if len(buffer) < f * f:
            buffer = np.empty((f + f // 2) ** 2)
        for j in reversed(range(old)):  # from the last row on: no other is overwritten
            buffer[j * f : j * f + old] = last[j * old : (j + 1) * old]
        self._buffer = buffer
        self._name((*self.monomials, *new), np.concatenate([self.q, q]), kept)
        self.G[:, old:] = moments
        self.G[old:, :old] = moments[:old].T

    def selected(self, keep: Indices) -> Pool:
        """Return the pool of some of its monomials, given in ascending order."""
        columns, start = list[CentredColumns](), 0
        for own in self.columns:
            stop = start + len(own.mean)
            mine = (keep[(keep >= start) & (keep < stop)] - start).tolist()
            columns += [CentredColumns(own.table[mine], own.mean[mine])] if mine else []
            start = stop
        part = Pool(self.design)
        part._buffer = self.G[np.ix_(keep, keep)].ravel()
        part._name(tuple(self.monomials[j] for j in keep), self.q[keep], tuple(columns))
        return part

    def _name(
        self, monomials: tuple[Monomial, ...], q: Array, columns: tuple[CentredColumns, ...]
    ) -> None:
        self.monomials, self.q, self.columns = monomials, q, columns
        self.index = {m: j for j, m in enumerate(monomials)}

    def vector(self, w: dict[Monomial, float]) -> Array:
        """Return coefficients by monomial as an array; all of them must be in the pool."""
        values = np.zeros(len(self))
        values[[self.index[m] for m in w]] = list(w.values())
        return values

    def coefficients(self, w: Array) -> dict[Monomial, float]:
        """Return the coefficients that are not zero by monomial."""
        return {self.monomials[j]: float(w[j]) for j in np.flatnonzero(w)}
