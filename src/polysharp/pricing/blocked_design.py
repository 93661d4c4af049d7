"""Columns on demand and prices over rows in blocks: one pass over the blocks for each question.

A search by column generation asks for products of vectors and columns (``design``).  Here every
answer is a sum over blocks (``row_sums``), and a vector travels as its formula, a few numbers.
Pricing adds partial products tile by tile (``tiles``), each tile is cut to its largest entries
where its sum is, and only those reach the client:

    B blocks keep 3 log_4 B + 2 tiles of 32 MiB alive for each thread at most, the client none;
    a pool of f monomials that grows by m takes sums of 8 f m bytes instead (at most 106 MB).

Each pass reads the rows again: ``persist`` collections that fit into the workers' memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import factorial
from typing import Any

import numpy as np

from polysharp.data.arrays import ROUNDOFF
from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.pricing.design import ColumnBlock
from polysharp.pricing.pricer import Priced
from polysharp.pricing.row_sums import (
    CrossMoments,
    Formula,
    Sums,
    correlations,
    cross_moments,
    power_sums,
    residual_sums,
)
from polysharp.pricing.shortlist import Keys, order_by_value
from polysharp.pricing.sweep import Keep
from polysharp.pricing.tiles import Tile, largest, partial_products, tiles
from polysharp.typing import Array, Indices, Monomial, OnBlock


class FormulaVector:
    """A vector over the rows: its formula, its products, and norms that bound rounding."""

    def __init__(self, formula: Formula, sums: Sums, design: BlockedDesign) -> None:
        centre = sums.number("va") / design.weight if design.fit_intercept else 0.0
        # Centred once more: what rounding left of the mean is taken into the offset.
        self.formula = Formula(formula.basis, formula.w, formula.y_mean, formula.offset - centre)
        self.aa = max(0.0, sums.number("vaa") - design.weight * centre**2)
        self.ya = sums.number("vat") - centre * sums.number("vt")
        self.l1 = sums.number("|va|") + abs(centre) * design.weight
        self.l2 = float(np.sqrt(sums["(va)2"])) + abs(centre) * design.weight
        self.weighted = float((np.sqrt(sums["(vax)2"]) + abs(centre) * design.norms["vx2"]).max())


class BlockedDesign:
    """Rows in blocks, as a search sees them."""

    def __init__(self, rows: Rows, inputs: Indices, degree: int, *, fit_intercept: bool) -> None:
        if degree not in (1, 2, 3, 4):
            raise InputError(f"degree must be 1, 2, 3 or 4 to price all monomials, got {degree!r}")
        self.rows, self.degree = rows, degree
        self.inputs, self.fit_intercept = np.sort(inputs), fit_intercept
        self.n, self.weight = rows.shape[0], rows.total_weight
        self.y_mean = rows.y_mean if fit_intercept else 0.0
        self.q_and_mean: dict[Monomial, tuple[float, float]] = {}
        sums: Sums = self.rows.sum_over_blocks("norms", power_sums)
        self.norms = {
            name: value[self.inputs] ** (1.0 / power)
            for (name, value), power in zip(sums.of.items(), (2, 4, 8, 2), strict=True)
        }
        nothing = Formula(self.basis(()), np.zeros(0), self.y_mean)
        first: Sums = self.rows.sum_over_blocks("residual", residual_sums, nothing)
        self.yy = first.number("vtt")
        self.target = FormulaVector(nothing, first, self)
        self.pricer = BlockedPricer(self)

    def basis(self, monomials: Sequence[Monomial]) -> Basis:
        """Return monomials of the user's inputs as a basis."""
        return Basis(range(self.rows.shape[1]), self.degree, tuple(monomials))

    def gram(
        self, old: tuple[ColumnBlock, ...], monomials: Sequence[Monomial]
    ) -> tuple[Array, tuple[ColumnBlock, ...]]:
        """Return columns of G for new monomials, in one pass."""
        new = ColumnBlock(tuple(monomials), None)
        names = [m for block in (*old, new) for m in block.monomials]
        found: CrossMoments = self.rows.sum_over_blocks(
            "gram", cross_moments, self.basis(names), len(monomials), self.y_mean
        )
        product = found.cross if self.fit_intercept else found.uncentred()
        mean = found.mean if self.fit_intercept else np.zeros(len(names))
        first = len(names) - len(monomials)
        square = product[first:, :-1]
        product[first:, :-1] = 0.5 * (square + square.T)
        for j in range(first, len(names)):
            self.q_and_mean[names[j]] = float(product[j, -1]), float(mean[j])
        return product[:, :-1], (*old, new)

    def moments(self, monomials: Sequence[Monomial]) -> tuple[Array, Array]:
        """Return q and the means of some monomials, known since they joined a pool."""
        unknown = [m for m in monomials if m not in self.q_and_mean]
        if unknown:
            self.gram((), unknown)
        found = np.array([self.q_and_mean[m] for m in monomials]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def residual(self, monomials: Sequence[Monomial], w: Array) -> FormulaVector:
        """Return a = y - M w, centred where there is a free intercept."""
        _, mean = self.moments(monomials)
        formula = Formula(self.basis(monomials), w, self.y_mean, float(mean @ w))
        return FormulaVector(
            formula, self.rows.sum_over_blocks("residual", residual_sums, formula), self
        )

    def correlations(self, monomials: Sequence[Monomial], a: FormulaVector) -> Array:
        """Return m_j'V a for some monomials."""
        if not len(monomials):
            return np.zeros(0)
        found: Array = self.rows.sum_over_blocks(
            "correlations", correlations, a.formula, self.basis(monomials)
        )
        return found

    def products(self, a: FormulaVector) -> tuple[float, float]:
        """Return y'V a and a'V a."""
        return a.ya, a.aa


class BlockedPricer:
    """All monomials of some inputs, priced by partial products per block."""

    def __init__(self, design: BlockedDesign) -> None:
        self.design, self.inputs = design, design.inputs
        self.keep: Keep | None = None
        self.tiles = tiles(len(self.inputs), design.degree, constant=not design.fit_intercept)

    @property
    def n_monomials(self) -> int:
        """Number f of monomials that are priced, before ``keep``."""
        return count_monomials(len(self.inputs), self.design.degree) - self.design.fit_intercept

    def among(self, keep: Keep) -> BlockedPricer:
        """Return a pricer for the monomials that pass ``keep`` as well."""
        narrower, mine = copy(self), self.keep
        narrower.keep = keep if mine is None else lambda keys: mine(keys) & keep(keys)
        return narrower

    def price(self, a: FormulaVector, top: int, *, on_block: OnBlock | None = None) -> Priced:
        """Return the ``top`` monomials of largest |m_j'a|, tile by tile."""
        degree = self.design.degree
        keys, values = np.zeros((0, degree), dtype=np.int32), np.zeros(0)
        for number, tile in enumerate(self.tiles):
            more = self.design.rows.sum_over_blocks(
                "pricing",
                _tile_products,
                a.formula,
                self.inputs,
                tile,
                degree,
                self.keep,
                top,
                then=_tile_largest,
                on_block=_part(on_block, number, len(self.tiles)),
            )
            keys, values = np.concatenate([keys, more[0]]), np.concatenate([values, more[1]])
            best = order_by_value(keys, np.abs(values))[:top]
            keys, values = keys[best], values[best]
        error = self._error(a)
        threshold = 0.0
        if len(values) == top and top < self.n_monomials:
            threshold = float(np.abs(values).min()) + error
        return Priced(_monomials(keys), values, threshold, error)

    def _error(self, a: FormulaVector) -> float:
        """Bound the rounding of any scaled correlation by the norms of its factors."""
        design = self.design
        two, four, eight = (float(design.norms[name].max()) for name in ("x2", "x4", "x8"))
        sums = [
            a.l1,
            a.l2 * two,
            a.weighted * two,
            a.weighted * four**2,
            a.weighted * four * eight**2,
        ]
        scale = float(np.sqrt(factorial(design.degree)))
        return (design.n + 16) * ROUNDOFF["float64"] * scale * max(sums[: design.degree + 1])


def _tile_products(
    rows: MemoryRows, formula: Formula, inputs: Indices, tile: Tile, *_: Any
) -> Array:
    """Return what a block contributes to a tile."""
    return partial_products(rows.columns(inputs), rows.weights * formula.at(rows), tile)


def _tile_largest(
    total: Array, formula: Formula, inputs: Indices, *rest: Any
) -> tuple[Keys, Array]:
    """Keep the largest entries of a tile, where its sum is."""
    del formula
    tile, degree, keep, top = rest
    return largest(total, tile, inputs, degree, keep, top)


def _part(on_block: OnBlock | None, number: int, count: int) -> OnBlock | None:
    """Return a callback for one tile of several."""
    if on_block is None:
        return None
    return lambda done, total: on_block(number * total + done, count * total)


def _monomials(keys: Keys) -> tuple[Monomial, ...]:
    return tuple(tuple(i for i in key if i >= 0) for key in keys.tolist())
