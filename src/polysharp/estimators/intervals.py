"""Prediction intervals that hold whatever the distribution of the errors: conformal prediction.

Errors on rows that a model f has not seen are measured in the unit that the rows of its fit
give it (``leverage``), which grows outside of them:  e_t = |y_t - f(x_t)| / u(x_t).

Held-out rows (split conformal prediction).  If a new row is drawn like the n rows held out, its e
is equally likely to take any rank among theirs; with q the ceil((n + 1) coverage)-th smallest,

    f(x) - q u(x) <= y <= f(x) + q u(x)

with probability ``coverage`` at least, on average over rows and tables.

Folds (CV+; Barber, Candes, Ramdas & Tibshirani, Annals of Statistics 49, 2021).  Each row t is
predicted by the model f_k of the fold that holds it out, terms chosen anew.  The ends at a new row
are the same quantiles of f_k(x) - e_t u_k(x) and f_k(x) + e_t u_k(x) over all t, so the intervals
know how much the models of the folds differ at x.  The probability is then 1 - 2 (1 - coverage) at
the very least, less about sqrt(2 / n), and close to ``coverage`` in practice.  Budgets and ridge
are held as they were chosen with all rows, which the theorem does not know of.  One set of held-out
rows is the case of a single fold, so there is one way to compute both.

A row of weight v counts as v of the sum of weights, and a new row as much as the heaviest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.errors import InputError
from polysharp.estimators.fitted_model import Leverage
from polysharp.estimators.model import formulas_of
from polysharp.estimators.parameters import check_seed
from polysharp.estimators.resampling import refits
from polysharp.estimators.scored_rows import ScoredRows, score_rows
from polysharp.polynomial.polynomial import Polynomial
from polysharp.selection.splits import read_splits
from polysharp.typing import Array

MOST_SCORES = 2000  # kept in all; where there are more, neighbours are rounded up to the largest
BISECTIONS = 50


@dataclass(frozen=True, eq=False)
class UnseenErrors:
    """A model and its errors on rows it has not seen, in the unit that its rows give it."""

    polynomial: Polynomial
    leverage: Leverage
    scores: Array  # ascending
    weights: Array  # of the rows behind them

    @classmethod
    def of(
        cls, polynomial: Polynomial, leverage: Leverage, rows: ScoredRows, most: int
    ) -> UnseenErrors:
        """Measure the errors; keep at most so many, the others rounded up to one that is kept."""
        errors = np.abs(rows.observed - polynomial(rows.X)) / leverage(polynomial, rows.X)
        order = np.argsort(errors, kind="stable")
        weights = (np.ones(rows.n) if rows.weights is None else rows.weights)[order]
        groups = np.array_split(np.arange(rows.n), min(most, rows.n))
        last = [group[-1] for group in groups]
        summed = np.add.reduceat(weights, [group[0] for group in groups])
        return cls(polynomial, leverage, errors[order][last], summed)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What ``predict_interval`` needs: errors on unseen rows, of the model or of its folds."""

    folds: tuple[UnseenErrors, ...]
    heaviest: float  # weight of a row

    @property
    def most(self) -> float:
        """The largest coverage that so many rows can give."""
        return self._total / (self._total + self.heaviest)

    @property
    def _total(self) -> float:
        return float(sum(fold.weights.sum() for fold in self.folds))

    def _needed(self, coverage: float) -> float:
        """Return the weight of the errors that an interval must cover."""
        if coverage > self.most:
            raise InputError(
                f"coverage must be at most {self.most:.4g} with the "
                f"{round(self._total / self.heaviest)} rows of the calibration, got {coverage!r}"
            )
        return coverage * (self._total + self.heaviest) * (1.0 - 1e-12)

    def quantile(self, coverage: float) -> float:
        """Return q: the error that a share ``coverage`` of the rows does not exceed."""
        needed = self._needed(coverage)
        scores = np.concatenate([fold.scores for fold in self.folds])
        order = np.argsort(scores, kind="stable")
        weights = np.concatenate([fold.weights for fold in self.folds])[order]
        return float(scores[order[np.searchsorted(np.cumsum(weights), needed)]])

    def limits(self, X: Array, coverage: float) -> Array:
        """Return lower and upper ends of the intervals at the rows of X, shape (n, 2)."""
        q, needed = self.quantile(coverage), self._needed(coverage)
        middles = np.array([fold.polynomial(X) for fold in self.folds])
        units = np.array([fold.leverage(fold.polynomial, X) for fold in self.folds])
        lower, upper = (
            sign * self._quantiles(sign * middles, units, q, needed) for sign in (-1.0, 1.0)
        )
        # Where models of the folds differ by more than a small coverage asks for, they may cross.
        return np.sort(np.column_stack([lower, upper]), axis=1)

    def _quantiles(self, middles: Array, units: Array, q: float, needed: float) -> Array:
        """Return the least v for each row such that enough errors have f_k + e u_k <= v."""
        # It lies between the least and the largest f_k + q u_k, which are one where there is one
        # fold; the upper end of the bisection always has enough.
        low, high = (end(middles + q * units, axis=0) for end in (np.min, np.max))
        sums = [np.append(0.0, np.cumsum(fold.weights)) for fold in self.folds]
        for _ in range(BISECTIONS if len(self.folds) > 1 else 0):
            v = 0.5 * (low + high)
            below = np.zeros(len(v))
            for fold, sum_, f, u in zip(self.folds, sums, middles, units, strict=True):
                below += sum_[np.searchsorted(fold.scores, (v - f) / u, side="right")]
            enough = below >= needed
            low, high = np.where(enough, low, v), np.where(enough, v, high)
        return np.asarray(high)


def calibrated(
    model: Any, X: Any, y: Any, sample_weight: Any = None, *, cv: Any = None, groups: Any = None
) -> tuple[Calibration, ...]:
    """Calibrate a fitted model on rows it has not seen, or with ``cv`` on those of its fit.

    There is one calibration for each response.
    """
    rows = score_rows(model, X, y, sample_weight)
    heaviest = 1.0 if rows.weights is None else float(rows.weights.max())
    unseen = [(formulas_of(model), model.leverage_, rows)]
    if cv is not None:
        unseen = refit_folds(model, (X, y, sample_weight), rows, cv, groups)
    most = max(50, MOST_SCORES // len(unseen))
    folds = [
        [
            UnseenErrors.of(law, leverage, own, most)
            for law, own in zip(laws, some.each, strict=True)
        ]
        for laws, leverage, some in unseen
    ]
    return tuple(Calibration(own, heaviest) for own in zip(*folds, strict=True))


def refit_folds(
    model: Any, given: tuple[Any, Any, Any], rows: ScoredRows, cv: Any, groups: Any = None
) -> list[tuple[tuple[Polynomial, ...], Leverage, ScoredRows]]:
    """Fit without each fold; return formulas, leverage and the rows held out."""
    X, y, sample_weight = given
    seed = check_seed(model.random_state)
    splits = read_splits(cv, X, y, groups=groups, sample_weight=sample_weight, seed=seed)
    held_out = np.concatenate([test for _, test in splits]) if splits else np.zeros(0)
    if len(np.unique(held_out)) < max(1, len(held_out)):
        raise InputError("cv must hold out every row once at most, got splits that overlap")
    draws = [(np.isin(np.arange(rows.n), train).astype(np.float64), seed) for train, _ in splits]
    models = zip(refits(model, given, draws), splits, strict=True)
    return [(found.formulas, found.leverage, rows.take(test)) for found, (_, test) in models]
