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
from polysharp.data.rows import MemoryRows
from polysharp.engines.local_search import LocalSearch
from polysharp.estimators.fit_context import FitContext
from polysharp.estimators.leverage import Leverage
from polysharp.estimators.model import formulas_of
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.rivals import rivals_of
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import Progress
from polysharp.typing import Array

Draw = tuple[Array, int]  # weights of the rows, and a seed
ANY_GAP = 0.999  # of a fit whose proof nobody asks for
MOST_RIVALS = 100  # of one resample, the best ones


class Refit(NamedTuple):
    """What one fit found, in the user's names and units, and the formulas that come close."""

    formulas: tuple[Polynomial, ...]  # one for each response
    leverage: Leverage
    rivals: tuple[Polynomial, ...]  # the formula itself, or the best one met, first


@dataclass(frozen=True, eq=False)
class Refits:
    """What every fit needs: settings and rows; draws are weights of the rows of positive weight."""

    settings: SparsePolynomialRegressor
    formulas: tuple[Polynomial, ...]  # of the model, one for each response
    tables: Sequence[MemoryRows]  # once for each response
    within: float = 0.0  # share by which rivals of a refit may cost more; 0 for none

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any, engine: Any = None) -> Refits:
        """Take the settings of a fitted model; ``engine`` is a short local search by default.

        Several responses have no such engine: the tree ends where it has begun.
        """
        settings = clone(getattr(model, "best_estimator_", model)).set_params(
            gamma=model.gamma_, refit_gamma=model.refit_gamma_, n_jobs=None, verbose=0
        )
        if model._several:
            settings.set_params(gap_tol=ANY_GAP)
        else:
            settings.set_params(engine=LocalSearch(patience=2) if engine is None else engine)
        given = as_host(X), as_host(y), as_host(sample_weight)
        return cls(settings, formulas_of(model), settings._open(given, Progress()))

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
        tables = reweighted(self.tables, drawn)
        one = clone(self.settings).set_params(random_state=seed)
        with FitContext.of(one) as context:
            one._fit_tables(tables, context, [self.formulas[0].monomials])
        formulas, leverage = one.fitted_.polynomials, one.fitted_.leverage
        assert leverage is not None
        if not self.within:
            return Refit(formulas, leverage, formulas[:1])
        left = one.time_limit if deadline is None else max(deadline - time(), 1e-3)
        close = rivals_of(one, tables[0], self.within, MOST_RIVALS, left)
        return Refit(formulas, leverage, close.polynomials)


def reweighted(tables: Sequence[MemoryRows], drawn: Array) -> list[MemoryRows]:
    """Return the rows that were drawn, with their weights multiplied."""
    several, chosen = tables[0].several, np.flatnonzero(drawn > 0.0)
    if several is not None:
        several = several._replace(values=several.values[:, chosen])
    weights = tables[0].weights[chosen] * drawn[chosen]
    return [
        replace(table, X=table.X[chosen], y=table.y[chosen], sample_weight=weights, several=several)
        for table in tables
    ]


def bootstrap(seed: int, n: int, count: int) -> list[Draw]:
    """Return how often each of n rows is drawn in each resample, and a seed for it."""
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(count):
        weights = np.zeros(n)
        while np.count_nonzero(weights) < min(2, n):  # one row alone is no data
            weights = np.bincount(rng.choice(n, size=n), minlength=n).astype(np.float64)
        draws.append((weights, int(rng.integers(2**31 - 1))))
    return draws
