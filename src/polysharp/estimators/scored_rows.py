"""Rows to judge a fitted model by: checked as ``predict`` checks them, with its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from polysharp.data.arrays import as_host
from polysharp.data.checks import check_finite
from polysharp.data.rows import Ranges, evenly_spaced
from polysharp.errors import InputError
from polysharp.estimators.model import fitted_polynomial, formulas_of, settings_of
from polysharp.monomials.basis import Scaling
from polysharp.ranking.ranking import Ranking, rank_inputs
from polysharp.typing import Array, Indices

RANKED_ROWS = 2000  # the kernel is n x n


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Checked rows of positive weight with their observed and predicted responses."""

    X: Array
    observed: Array
    predicted: Array
    weights: Array | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, chosen: Indices) -> ScoredRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return ScoredRows(self.X[chosen], self.observed[chosen], self.predicted[chosen], weights)

    @property
    def each(self) -> list[ScoredRows]:
        """The same rows once for each response."""
        if self.observed.ndim == 1:
            return [self]
        columns = zip(self.observed.T, self.predicted.T, strict=True)
        return [ScoredRows(self.X, *own, self.weights) for own in columns]

    @property
    def _weights(self) -> Array:
        return np.ones(self.n) if self.weights is None else self.weights

    @property
    def shares(self) -> Array:
        """Weights of the rows; they add up to one."""
        return np.asarray(self._weights / self._weights.sum())

    @property
    def residuals(self) -> Array:
        """Observed minus predicted."""
        return self.observed - self.predicted

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(self.shares @ self.residuals**2))

    @property
    def r2(self) -> float | None:
        """1 - sum v e^2 / sum v (y - mean y)^2, None if the response does not vary."""
        total = self.total_squares
        return 1.0 - self.rmse**2 * float(self._weights.sum()) / total if total > 0.0 else None

    @property
    def total_squares(self) -> float:
        """Sum v (y - mean y)^2, the squares that R2 is relative to."""
        return float((self.observed - self.shares @ self.observed) ** 2 @ self._weights)


def inputs_of(estimator: Any, X: Any) -> Array:
    """Return X as a table of floats with the columns of the fit."""
    polynomial = formulas_of(estimator)[0]
    table: Array = check_array(
        as_host(X), dtype=np.float64, ensure_all_finite=False, input_name="X"
    )
    if table.shape[1] != len(polynomial.names):
        raise InputError(
            f"X must have the {len(polynomial.names)} columns of the fit, got {table.shape[1]}"
        )
    check_finite(table, polynomial.names)
    return table


def score_rows(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> ScoredRows:
    """Check rows and responses, and predict."""
    # The estimator compares the names of the columns with those of the fit.
    predicted = np.asarray(estimator.predict(X))
    table = inputs_of(estimator, X)
    observed = np.asarray(as_host(y), dtype=np.float64)
    if observed.shape != predicted.shape or not np.isfinite(observed).all():
        each = " and response" if predicted.ndim > 1 else ""
        raise InputError(
            f"y must have one finite number per row of X{each}, {len(table)}, got shape "
            f"{observed.shape}"
        )
    if sample_weight is None:
        return ScoredRows(table, observed, predicted, None)
    weights = np.asarray(as_host(sample_weight), dtype=np.float64)
    check_consistent_length(weights, observed)
    if weights.ndim != 1 or not weights.min() >= 0.0 or not weights.any():
        raise InputError("sample_weight must be >= 0 and not all 0, one number per row of X")
    used = weights > 0.0
    return ScoredRows(table[used], observed[used], predicted[used], weights[used])


def ranking_of(estimator: Any, rows: ScoredRows) -> Ranking:
    """Return the ranking of the fit; rank the inputs if the fit kept all of them.

    Centring, degree and gamma are those of the model; inputs are always scaled, for scores compare
    coefficients.  The kernel is n x n, so of a long table evenly spaced rows are ranked.
    """
    if estimator.ranking_ is not None:
        return estimator.ranking_  # type: ignore[no-any-return]
    settings, weights = settings_of(estimator), rows._weights
    some = evenly_spaced(rows.n, RANKED_ROWS)
    center = fitted_polynomial(estimator).shifts is not None
    scaling = Scaling.of(Ranges.of(rows.X, weights), scale=True, center=center)
    return rank_inputs(
        scaling.apply(rows.X[some]),
        rows.observed[some],
        int(settings["degree"]),
        float(estimator.gamma_),
        sample_weight=weights[some],
        fit_intercept=bool(settings["fit_intercept"]),
    )
