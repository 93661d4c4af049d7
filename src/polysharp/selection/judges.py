"""Judges: the error of many models on held-out rows.

The mean squared error of y = b + m'w is a quadratic form in the moments of the rows
(``fold_moments.squared_error``), whatever their number.  But a polynomial of high degree may take
an absurd value at a single held-out row, and that row would then decide among thousands of
candidates.  Where a split holds out few enough rows they judge one by one, and a prediction beyond
the range of the responses counts as the end of that range.

The range is that of all rows, held-out ones included: a law that predicts a new record rightly
must not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.moments.folds import Plan, merge, squared_error
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices

# Splits that hold out more rows are judged by moments: products with more would take longer than
# the walks that they judge.
MOST_ROWS = 10_000


class Model(NamedTuple):
    """Coefficients of some monomials of a basis, and the intercept."""

    support: Indices
    w: Array
    intercept: float


class Judge(Protocol):
    """Measures models on held-out rows."""

    def errors(self, models: Sequence[Model]) -> Array:
        """Return the root mean squared error of every model."""
        ...


@dataclass(frozen=True, eq=False)
class MomentJudge:
    """Held-out rows known by their moments."""

    moments: Moments

    def errors(self, models: Sequence[Model]) -> Array:
        """Return the root mean squared error of every model."""
        return np.sqrt([squared_error(self.moments, *model) for model in models])


@dataclass(frozen=True, eq=False)
class CutRows:
    """All rows, their inputs coded, and which of them are in which part."""

    data: MemoryRows
    parts: Sequence[Indices]

    @property
    def whole(self) -> bool:
        """Whether every row is in one part, and in no other."""
        rows = np.concatenate(self.parts)
        return len(rows) == len(self.data.y) == len(np.unique(rows))


@dataclass(frozen=True, eq=False)
class RowJudge:
    """Held-out rows themselves, and the range that predictions are cut to."""

    rows: MemoryRows
    basis: Basis
    low: float
    high: float

    def errors(self, models: Sequence[Model]) -> Array:
        """Return the root mean squared error of every model, its predictions cut to the range."""
        used = np.unique(np.concatenate([model.support for model in models]))
        W = np.zeros((len(used), len(models)))
        for column, model in enumerate(models):
            W[np.searchsorted(used, model.support), column] = model.w
        intercepts = np.array([model.intercept for model in models])
        part = self.basis.select(used)
        predicted = intercepts + part.evaluate(self.rows.X) @ W
        residuals = np.clip(predicted, self.low, self.high) - self.rows.y[:, None]
        return np.sqrt(np.average(residuals**2, axis=0, weights=self.rows.sample_weight))


def judges(
    basis: Basis, parts: Sequence[Moments], plan: Plan, table: CutRows | None
) -> Iterator[Judge]:
    """Yield the judge of every split.

    Parameters
    ----------
    basis : Basis
        What supports are indices of.
    parts : sequence of Moments
        Moments of the parts.
    plan : Plan
        Which parts judge.
    table : CutRows or None
        The parts themselves, where they are at hand.
    """
    for test in plan.test:
        if table is None or sum(len(table.parts[a]) for a in test) > MOST_ROWS:
            yield MomentJudge(merge(parts, test))
            continue
        held = table.data.take(np.concatenate([table.parts[a] for a in test]))
        low, high = float(table.data.y.min()), float(table.data.y.max())
        if low == high:  # a cut would make all models alike
            low, high = -np.inf, np.inf
        yield RowJudge(held, basis, low, high)
