"""Judges: the error of many models on held-out rows.

The root mean squared error of y = b + m'w is a quadratic form in the moments of the rows
(``fold_moments.squared_error``), whatever their number.  But a polynomial of high degree may take
an absurd value at a single held-out row, and a choice among thousands of candidates is then a
choice about that row.  Where a split holds out few enough rows they judge one by one, and a
prediction beyond the range of the responses of all rows counts as the end of that range: it is as
wrong as the worst that could be believed, and not wronger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from polysharp.basis import Array, Basis, Indices
from polysharp.fold_moments import Plan, merge, squared_error
from polysharp.moments import Moments

MOST_ROWS = 2000  # held out by a split that judge one by one; a single one of more matters little


class Model(NamedTuple):
    """Coefficients of some monomials of a basis, and the intercept."""

    support: Indices
    w: Array
    intercept: float


class Judge(Protocol):
    """Whatever has errors for models."""

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
class Rows:
    """Coded inputs, responses and weights."""

    X: Array
    y: Array
    sample_weight: Array | None

    def take(self, chosen: Indices) -> Self:
        """Return some of the rows."""
        weights = None if self.sample_weight is None else self.sample_weight[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], sample_weight=weights)


@dataclass(frozen=True, eq=False)
class RowJudge:
    """Held-out rows themselves, and the range that predictions are cut to."""

    rows: Rows
    basis: Basis
    low: float
    high: float

    def errors(self, models: Sequence[Model]) -> Array:
        """Return the root mean squared error of every model, its predictions cut to the range."""
        used = np.unique(np.concatenate([model.support for model in models]))
        W = np.zeros((len(used), len(models)))
        for column, model in enumerate(models):
            W[np.searchsorted(used, model.support), column] = model.w
        predicted = np.array([model.intercept for model in models])
        if len(used):
            monomials = tuple(self.basis.monomials[j] for j in used)
            M = replace(self.basis, monomials=monomials).evaluate(self.rows.X)
            predicted = predicted + M @ W
        else:
            predicted = np.tile(predicted, (len(self.rows.y), 1))
        residuals = np.clip(predicted, self.low, self.high) - self.rows.y[:, None]
        return np.sqrt(np.average(residuals**2, axis=0, weights=self.rows.sample_weight))


def judges(
    basis: Basis,
    parts: Sequence[Moments],
    plan: Plan,
    rows: Sequence[Rows] | None,
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
    rows : sequence of Rows or None
        The parts themselves, where they are at hand.
    """
    low = min((float(part.y.min()) for part in rows or ()), default=-np.inf)
    high = max((float(part.y.max()) for part in rows or ()), default=np.inf)
    for test in plan.test:
        if rows is None or sum(len(rows[a].y) for a in test) > MOST_ROWS:
            yield MomentJudge(merge(parts, test))
            continue
        yield RowJudge(_joined([rows[a] for a in test]), basis, low, high)


def _joined(parts: Sequence[Rows]) -> Rows:
    weights = [part.sample_weight for part in parts if part.sample_weight is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
    )
