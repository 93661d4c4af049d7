"""The settings of a fitted model on the same rows, weighted anew.

A bootstrap resample draws n rows with replacement, and a row drawn v times is a row of weight v; a
fold is held out by weights of zero.  Both are the weighted fit, with the model's settings, of

    weights drawn * the user's own.

Budgets and ridge are those of the model; terms are chosen anew, by a short local search that begins
from the model's terms among others.  Where other formulas are wanted as well, those that cost at
most a share ``within`` more than the best on the weighted rows are listed (``rivals``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from polysharp.data.arrays import as_host
from polysharp.engines.local_search import LocalSearch
from polysharp.estimators.fitted import laws_of
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.rivals import rivals
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array

Draw = tuple[Array, int]  # weights of the rows, and a seed
ANY_GAP = 0.999  # of a fit whose proof nobody asks for
MOST_RIVALS = 100  # of one resample, the best ones


class Refit(NamedTuple):
    """What one fit found, in the user's names and units, and the formulas that come close."""

    laws: tuple[Polynomial, ...]  # one for each response
    spread: Any
    rivals: tuple[Polynomial, ...]  # the formula itself, or the best one met, first


@dataclass(frozen=True, eq=False)
class Refits:
    """What every fit needs: settings and rows; draws are weights of the rows of positive weight."""

    settings: SparsePolynomialRegressor
    laws: tuple[Polynomial, ...]  # of the model, one for each response
    X: Any
    y: Any
    weights: Array
    within: float = 0.0  # share by which rivals of a refit may cost more; 0 for none

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any, engine: Any = None) -> Refits:
        """Take the settings of a fitted model; ``engine`` is a short local search by default.

        For several responses there is no such engine: the tree ends where it has begun.
        """
        settings = clone(getattr(model, "best_estimator_", model)).set_params(
            gamma=model.gamma_, n_jobs=None, verbose=0
        )
        laws = laws_of(model)
        if hasattr(model, "polynomials_"):
            settings.set_params(gap_tol=ANY_GAP)
        else:
            settings.set_params(engine=LocalSearch(patience=2) if engine is None else engine)
        given = 1.0 if sample_weight is None else as_host(sample_weight)
        weights = np.broadcast_to(np.asarray(given, dtype=np.float64), len(y))
        return cls(settings, laws, as_host(X), as_host(y), weights)

    def run(
        self, draws: Sequence[Draw], n_jobs: int | None = None, time_limit: float | None = None
    ) -> list[Refit]:
        """Fit them all; when time is up, those not begun are left out, but for the first."""
        from joblib import Parallel, delayed

        deadline = None if time_limit is None else time() + time_limit
        found = Parallel(n_jobs=n_jobs)(
            delayed(self._fit_resample)(weights, seed, deadline if number else None)
            for number, (weights, seed) in enumerate(draws)
        )
        return [refit for refit in found if refit is not None]

    def _fit_resample(self, drawn: Array, seed: int, deadline: float | None) -> Refit | None:
        if deadline is not None and time() > deadline:
            return None
        weights = self.weights.copy()
        weights[weights > 0.0] *= drawn
        one = clone(self.settings).set_params(random_state=seed)
        one._fit(self.X, self.y, weights, start=self.laws[0].monomials)
        laws = tuple(
            replace(law, response=own.response)
            for law, own in zip(laws_of(one), self.laws, strict=True)
        )
        if not self.within:
            return Refit(laws, one.spread_, laws[:1])
        left = one.time_limit if deadline is None else max(deadline - time(), 1e-3)
        close = rivals(
            one, self.X, self.y, weights, within=self.within, max_count=MOST_RIVALS, time_limit=left
        )
        return Refit(laws, one.spread_, close.polynomials)


def bootstrap(seed: int, n: int, count: int) -> list[Draw]:
    """Return how often each of n rows is drawn in so many resamples, and a seed for each."""
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(count):
        weights = np.zeros(n)
        while np.count_nonzero(weights) < min(2, n):  # one row alone is no data
            weights = np.bincount(rng.choice(n, size=n), minlength=n).astype(np.float64)
        draws.append((weights, int(rng.integers(2**31 - 1))))
    return draws
