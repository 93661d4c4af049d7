"""What pictures and reports take from a fitted model: its polynomial, and rows to show it on.

Any estimator with a ``polynomial_`` will do, so the search over budgets is shown like a single
fit.  Rows are checked as ``predict`` checks them; rows of weight zero are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from polysharp.data.arrays import as_host
from polysharp.data.checks import check_finite
from polysharp.data.summary import Ranges
from polysharp.errors import InputError
from polysharp.monomials.scaling import Scaling
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking, rank_inputs
from polysharp.typing import Array, Indices

RANKED_ROWS = 2000


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Checked rows with their observed and predicted responses."""

    X: Array
    observed: Array
    predicted: Array
    weights: Array | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, chosen: Indices) -> ShownRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return ShownRows(self.X[chosen], self.observed[chosen], self.predicted[chosen], weights)

    @property
    def each(self) -> list[ShownRows]:
        """The same rows once for each response, where there are several."""
        if self.observed.ndim == 1:
            return [self]
        columns = zip(self.observed.T, self.predicted.T, strict=True)
        return [ShownRows(self.X, *own, self.weights) for own in columns]

    @property
    def shares(self) -> Array:
        """Weights of the rows; they add up to one."""
        v = np.ones(self.n) if self.weights is None else self.weights
        return np.asarray(v / v.sum())

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
        """1 - sum v e^2 / sum v (y - mean y)^2, None where the response does not vary."""
        total, weight = self.total_squares, self.n if self.weights is None else self.weights.sum()
        return 1.0 - self.rmse**2 * float(weight) / total if total > 0.0 else None

    @property
    def total_squares(self) -> float:
        """Sum v (y - mean y)^2, the squares that R2 is relative to."""
        centred = self.observed - self.shares @ self.observed
        return float(centred**2 @ (np.ones(self.n) if self.weights is None else self.weights))


def fitted_polynomial(estimator: Any) -> Polynomial:
    """Return the polynomial of a fitted estimator of one response, or say what is wrong with it."""
    check_is_fitted(estimator)
    polynomial = getattr(estimator, "polynomial_", None)
    if not isinstance(polynomial, Polynomial):
        single = " of one response" if hasattr(estimator, "polynomials_") else ""
        raise InputError(
            f"estimator must be a fitted polysharp model{single}, got {type(estimator).__name__}"
        )
    return polynomial


def laws_of(estimator: Any) -> tuple[Polynomial, ...]:
    """Return the polynomials of a fitted estimator, one for each response."""
    check_is_fitted(estimator)
    several = getattr(estimator, "polynomials_", None)
    return (fitted_polynomial(estimator),) if several is None else tuple(several)


def inputs_of(estimator: Any, X: Any) -> Array:
    """Return X as a table of floats with the columns of the fit."""
    polynomial = laws_of(estimator)[0]
    table: Array = check_array(
        as_host(X), dtype=np.float64, ensure_all_finite=False, input_name="X"
    )
    if table.shape[1] != len(polynomial.names):
        raise InputError(
            f"X must have the {len(polynomial.names)} columns of the fit, got {table.shape[1]}"
        )
    check_finite(table, polynomial.names)
    return table


def rows_of(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> ShownRows:
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
        return ShownRows(table, observed, predicted, None)
    weights = np.asarray(as_host(sample_weight), dtype=np.float64)
    check_consistent_length(weights, observed)
    if weights.ndim != 1 or not weights.min() >= 0.0 or not weights.any():
        raise InputError("sample_weight must be >= 0 and not all 0, one number per row of X")
    used = weights > 0.0
    return ShownRows(table[used], observed[used], predicted[used], weights[used])


def settings_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of the fit; of a search over budgets, those of the model chosen.

    Seed and time limit are the search's own: what was left of them for the last fit is nothing
    that a reader would write again.
    """
    given: dict[str, Any] = getattr(estimator, "best_estimator_", estimator).get_params(deep=False)
    return given | {name: getattr(estimator, name) for name in ("random_state", "time_limit")}


def ranking_of(estimator: Any, rows: ShownRows) -> Ranking:
    """Return the ranking of the fit; where it kept every input, rank them as it would have.

    Centring, degree and gamma are those of the model; inputs are always scaled, for scores compare
    coefficients.  The kernel is n x n, so of a long table evenly spaced rows are ranked.
    """
    if estimator.ranking_ is not None:
        found: Ranking = estimator.ranking_
        return found
    settings = settings_of(estimator)
    weights = np.ones(len(rows.X)) if rows.weights is None else rows.weights
    some = spread(len(rows.X), RANKED_ROWS)
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


def spread(n: int, at_most: int) -> Indices:
    """Return all of n indices, or so many of them evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).round().astype(np.intp))
