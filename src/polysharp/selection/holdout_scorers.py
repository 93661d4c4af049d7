"""Scorers: the error of many models on held-out rows.

The mean squared error of y = b + m'w is a quadratic form in the moments of the rows
(``fold_moments.squared_error``), whatever their number.  If a split holds out few enough rows they
score one by one: next to the exact formula that loses no digits, and models that clamp their inputs
can be scored, with held-out rows moved into the range of the training rows first.  Clamping changes
predictions at rows outside that range alone, which are few: where it is a choice, these rows are
scored a second time (``EdgeScorer``).

A prediction counts as ``predict`` would make it, however absurd.  A polynomial that takes such a
value at a held-out row will do so at new rows too, and is told from its rivals by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.moments.moments import Moments, Plan, merge, squared_error
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices

# Splits that hold out more rows are scored by moments: products with more would take longer than
# the searches for the models that they scorer.
MOST_ROWS = 10_000


class Model(NamedTuple):
    """Coefficients of some monomials of a basis, and the intercept."""

    support: Indices
    w: Array
    intercept: float


@dataclass(frozen=True, eq=False)
class MomentScorer:
    """Held-out rows known by their moments."""

    moments: Moments

    def errors(self, models: Sequence[Model], design: object = None) -> Array:
        """Return the root mean squared error of every model."""
        del design
        return np.sqrt([squared_error(self.moments, *model) for model in models])


@dataclass(frozen=True, eq=False)
class RowScorer:
    """Held-out rows themselves."""

    rows: MemoryRows
    basis: Basis
    small_design: int = 2**21  # bytes of all monomials at the rows that are kept between models

    def errors(self, models: Sequence[Model], design: tuple[Indices, Array] | None = None) -> Array:
        """Return the root mean squared error of every model, with the design of other scorers."""
        used, M = self.design(models) if design is None else design
        W = np.zeros((len(used), len(models)))
        for column, model in enumerate(models):
            W[np.searchsorted(used, model.support), column] = model.w
        intercepts = np.array([model.intercept for model in models])
        residuals = intercepts + M @ W - self.rows.y[:, None]
        return np.sqrt(np.average(residuals**2, axis=0, weights=self.rows.sample_weight))

    def design(self, models: Sequence[Model]) -> tuple[Indices, Array]:
        """Return the monomials that some model uses, and their values at the rows."""
        used = np.unique(np.concatenate([model.support for model in models]))
        if 8 * len(self.basis) * len(self.rows) <= self.small_design:
            return used, self._whole.T[used].T
        return used, self.basis.select(used).evaluate(self.rows.X)

    @cached_property
    def _whole(self) -> Array:
        """All monomials at the rows."""
        return self.basis.evaluate(self.rows.X)


Scorer = MomentScorer | RowScorer


class EdgeScorer(NamedTuple):
    """Held-out rows outside the range of the training rows, and the same rows moved into it."""

    outside: RowScorer
    within: RowScorer
    share: float  # of the weight of all held-out rows

    def changes(self, models: Sequence[Model]) -> Array:
        """Return what clamped inputs change about the mean squared error of every model."""
        free, clamped = (scorer.errors(models) for scorer in (self.outside, self.within))
        return np.asarray(self.share * (clamped**2 - free**2))


@dataclass(frozen=True, eq=False)
class PartedRows:
    """All rows, their inputs coded, and which of them are in which part."""

    rows: MemoryRows
    parts: Sequence[Indices]

    @property
    def whole(self) -> bool:
        """Whether every row is in one part, and in no other."""
        every = np.concatenate(self.parts)
        return len(every) == len(self.rows) == len(np.unique(every))

    def take(self, which: Sequence[int]) -> MemoryRows:
        """Return the rows of some parts."""
        return self.rows.take(np.concatenate([self.parts[a] for a in which]))


def scorers(
    basis: Basis,
    parts: Sequence[Moments],
    plan: Plan,
    table: PartedRows | None,
    *,
    clamp: bool = False,
    most_rows: int | None = None,
) -> Iterator[Scorer]:
    """Yield the scorer of every split: by moments where rows are not at hand, or too many."""
    most_rows = MOST_ROWS if most_rows is None else most_rows
    for train, test in zip(plan.train, plan.test, strict=True):
        if table is None or sum(len(table.parts[a]) for a in test) > most_rows:
            yield MomentScorer(merge(parts, test))
            continue
        held = table.take(test)
        yield RowScorer(_clamped(held, table.take(train)) if clamp else held, basis)


def edge_scorers(basis: Basis, plan: Plan, table: PartedRows) -> Iterator[EdgeScorer | None]:
    """Yield what clamping changes in every split, None where no held-out row is outside."""
    for train, test in zip(plan.train, plan.test, strict=True):
        held = table.take(test)
        within = _clamped(held, table.take(train))
        moved = np.flatnonzero((within.X != held.X).any(axis=1))
        if not len(moved):
            yield None
            continue
        share = float(held.weights[moved].sum() / held.weights.sum())
        free, clamped = (RowScorer(rows.take(moved), basis) for rows in (held, within))
        yield EdgeScorer(free, clamped, share)


def _clamped(rows: MemoryRows, seen: MemoryRows) -> MemoryRows:
    """Return rows whose inputs are moved into the range of others."""
    return replace(rows, X=rows.X.clip(seen.X.min(axis=0), seen.X.max(axis=0)))
