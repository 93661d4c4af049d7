"""Prediction intervals that hold whatever the distribution of the errors: conformal prediction.

On rows that the model has not seen the errors are measured in units of a spread,

    e_t = |y_t - f(x_t)| / u(x_t),     u(x) = sqrt(1 + h(x)),
    h(x) = 1/n + (phi(x) - mean)' C^+ (phi(x) - mean),

with phi the terms of the formula, and mean and C their mean and scatter over those rows.  h is the
leverage of x: about (terms + 1) / n among the rows, and growing without limit outside them, where a
polynomial is no guide.  If a new row is drawn like the n rows, its e is equally likely to take any
rank among theirs, so that with q the ceil((n + 1) coverage)-th smallest

    f(x) - q u(x) <= y <= f(x) + q u(x)

with probability ``coverage`` at least, on average over rows and tables.  Where the rows are those
of the fit, every fold is judged by a model that was fitted, terms chosen anew, to the other folds
(cross-conformal prediction): the guarantee is then approximate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from polysharp.errors import InputError
from polysharp.estimators.fitted import ShownRows, rows_of
from polysharp.polynomial.importance import term_values
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class Calibration:
    """Errors on unseen rows in units of the spread, and what the spread is made of."""

    scores: Array  # sorted
    mean: Array  # of the terms, coefficients included
    root: Array  # (terms, rank): h(x) = 1/n + |(phi(x) - mean)' root|^2

    @classmethod
    def of(cls, polynomial: Polynomial, rows: ShownRows, predicted: Array) -> Calibration:
        """Measure the spread over rows, and the errors of predictions made without them."""
        terms = term_values(polynomial, rows.X)
        mean = terms.mean(axis=0)
        _, sizes, axes = np.linalg.svd(terms - mean, full_matrices=False)
        used = sizes > sizes.max(initial=0.0) * len(terms) * np.finfo(float).eps
        root = axes[used].T / sizes[used]
        unscored = cls(np.zeros(len(terms)), mean, root)
        scores = np.abs(rows.observed - predicted) / unscored.spread(polynomial, rows.X)
        return cls(np.sort(scores), mean, root)

    def spread(self, polynomial: Polynomial, X: Array) -> Array:
        """Return u(x) at the rows of X."""
        offset = (term_values(polynomial, X) - self.mean) @ self.root
        spread: Array = np.sqrt(1.0 + 1.0 / len(self.scores) + np.sum(offset**2, axis=1))
        return spread

    def quantile(self, coverage: float) -> float:
        """Return q, or say that there are too few rows for this coverage."""
        n = len(self.scores)
        rank = ceil((n + 1) * coverage)
        if rank > n:
            raise InputError(
                f"coverage must be at most {n / (n + 1):.4g} with the {n} rows of the "
                f"calibration, got {coverage!r}"
            )
        return float(self.scores[rank - 1])


def calibrated(model: Any, X: Any, y: Any, cv: Any) -> Calibration:
    """Calibrate a fitted model on rows it has not seen, or with ``cv`` on those of its fit."""
    rows = rows_of(model, X, y)
    predicted = rows.predicted
    if cv is not None:
        predicted = np.empty(rows.n)
        other = clone(getattr(model, "best_estimator_", model))
        if "engine" in other.get_params(deep=False):
            other.set_params(engine="local-search")  # the folds need good models, not proofs
        for train, test in check_cv(cv).split(rows.X):
            other.fit(rows.X[train], rows.observed[train])
            predicted[test] = other.predict(rows.X[test])
    return Calibration.of(model.polynomial_, rows, predicted)
