"""Methods on real data: from a split to a test error, every choice made on validation rows alone.

    ridge     PolynomialKernelRegressor of degree 1
    kernel    PolynomialKernelRegressor of degree 2 to 4
    lasso     PolynomialLasso, l <= 100
    exact     SparsePolynomialRegressorCV, l <= 100; the model chosen carries a certificate
    boosting  scikit-learn's histogram gradient boosting, an outside yardstick
    ebm       an explainable boosting machine, another one, where ``interpret`` is installed; it is
              slow, and therefore not tuned

One protocol for all.  A tenth of the rows is for the test alone.  Inputs are clipped to the range
of the middle 98 % of their values in the others: polynomials of degree 2 and more are at the mercy
of single records far outside, in validation and in the test.  Of the rows seen one tenth of the
data after another is held out for validation, eight tenths train, until 1000 rows have been held
out or all have had their turn: a single tenth, 77 to 160 rows in seven of the eight data sets, is
too few to tell the better of two models.  Predictions are clipped to the range of the responses
in the nine tenths, in the test and (but for boosting, which hardly leaves it) in validation.
Hyper-parameters, raw or centred inputs among them, are those of the least error over the rows held
out; where that is at the strongest ridge of the grid, the grid goes on, a decade at a time, as far
as that of the kernel.  The model is then refitted on the nine tenths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polysharp import (
    PolynomialKernelRegressor,
    PolynomialLasso,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
)
from polysharp.datasets import Dataset
from polysharp.metrics import test_error
from polysharp.monomials.basis import count_monomials
from polysharp.typing import Array, Indices

NEEDS = {"ebm": "interpret"}
HELD_OUT = 1000  # rows that validation wants to see
TAIL = 0.01  # share of an input's values that is clipped, at either end
MOST_MONOMIALS = 2500  # that supports of every size are searched over


@dataclass(frozen=True)
class Grid:
    """What validation chooses from; gammas are relative to 1 / (number of rows seen)."""

    degrees: tuple[int, ...] = (1, 2, 3, 4)
    max_terms: int = 100
    gammas: tuple[float, ...] = (1e0, 1e1, 1e2, 1e3, 1e4, 1e6)
    kernel_gammas: tuple[float, ...] = tuple(10.0**e for e in range(-2, 8))
    centers: tuple[bool, ...] = (False, True)
    input_shares: tuple[float, ...] = (0.3, 0.45, 0.6, 0.75, 0.9)
    boosting_leaves: tuple[int, ...] = (7, 15)
    boosting_rounds: int = 400


GRID = Grid()
QUICK = Grid((1, 2), 20, (1e2, 1e5), (1e0, 1e2, 1e4), (True,), (0.6,), (15,), 60)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to choose and fit on, and rows to test on."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    clips: bool = True  # inputs and predictions

    @classmethod
    def of(cls, data: Dataset, seed: int, *, clip: bool = True) -> Split:
        """Leave a random tenth of the rows for the test, and clip inputs as the others tell."""
        n = len(data.y)
        order = np.random.default_rng(seed).permutation(n)
        seen, tested = order[: 9 * n // 10], order[9 * n // 10 :]
        if not clip:
            return cls(data.X[seen], data.y[seen], data.X[tested], data.y[tested], False)
        X = np.clip(data.X, *np.quantile(data.X[seen], [TAIL, 1.0 - TAIL], axis=0))
        return cls(X[seen], data.y[seen], X[tested], data.y[tested])

    @cached_property
    def folds(self) -> list[tuple[Indices, Indices]]:
        """Training and validation rows: one tenth of the data after another is held out."""
        rows = np.arange(len(self.y))
        tenths = np.array_split(rows, 9)[::-1]
        turns = min(9, ceil(HELD_OUT / len(tenths[0])))
        return [(np.setdiff1d(rows, held), held) for held in tenths[:turns]]

    def gammas(self, relative: Iterable[float]) -> list[float]:
        """Return gammas from those relative to 1 / n."""
        return [gamma / len(self.y) for gamma in relative]

    def beyond(self, grid: Grid, gamma: float) -> float | None:
        """Return the next stronger ridge, None where the kernel's grid ends."""
        stronger = gamma / 10.0
        return stronger if stronger * len(self.y) > 0.9 * min(grid.kernel_gammas) else None

    def validate(self, model: Any) -> float:
        """Return the mean error over the rows held out."""
        errors = []
        for train, held in self.folds:
            model.fit(self.X[train], self.y[train])
            errors.append(test_error(self.y[held], self.predicted(model, self.X[held])))
        return float(np.mean(errors))

    def test(self, model: Any) -> float:
        """Return TE of a fitted model."""
        return test_error(self.y_test, self.predicted(model, self.X_test))

    def predicted(self, model: Any, X: Array) -> Array:
        """Return a model's predictions, where ``clips`` within the range of the responses seen."""
        predicted = np.asarray(model.predict(X))
        return predicted.clip(self.y.min(), self.y.max()) if self.clips else predicted


def best(split: Split, models: Iterable[Any]) -> tuple[Any, float]:
    """Return the model with the least validation error, refitted on all rows, and the error."""
    candidates = list(models)
    errors = [split.validate(model) for model in candidates]
    chosen = int(np.argmin(errors))
    return candidates[chosen].fit(split.X, split.y), errors[chosen]


def _kernel(split: Split, grid: Grid, degrees: Iterable[int]) -> dict[str, Any]:
    """Compare gammas a decade apart, then half a decade on either side of the best."""
    settings = product(degrees, split.gammas(grid.kernel_gammas), grid.centers)
    coarse, _ = best(
        split, (PolynomialKernelRegressor(r, gamma, center=c) for r, gamma, c in settings)
    )
    finer = [coarse.gamma * 10.0 ** (step / 2) for step in (-1, 0, 1)]
    model, error = best(split, (clone(coarse).set_params(gamma=gamma) for gamma in finer))
    return {
        "TE": split.test(model),
        "validation": error,
        "k": split.X.shape[1],
        "r": model.degree,
        "gamma": model.gamma,
        "center": int(model.center),
    }


def ridge(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """Ridge regression: the kernel of degree 1."""
    del time_limit
    return _kernel(split, grid, (1,))


def kernel(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """Polynomial kernel regression of degree 2 and more."""
    del time_limit
    return _kernel(split, grid, [r for r in grid.degrees if r > 1])


def affordable(p: int, degree: int) -> bool:
    """Whether supports of every size can be searched over the monomials of p inputs."""
    return count_monomials(p, degree) <= MOST_MONOMIALS


def lasso(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """The polynomial Lasso: it chooses l and gamma by itself, degree and centring here.

    Where the monomials are too many, the ranking keeps as many inputs as it may.
    """
    del time_limit
    p = split.X.shape[1]
    fitted = [
        PolynomialLasso(
            r,
            n_candidates=max(k for k in range(1, p + 1) if affordable(k, r)),
            gammas=split.gammas(grid.gammas),
            cv=split.folds,
            center=center,
            n_alphas=100,
        ).fit(split.X, split.y)
        for r, center in product(grid.degrees, grid.centers)
    ]
    model = min(fitted, key=_squared_error)
    while model.gamma_ == min(model.gammas) and (stronger := split.beyond(grid, model.gamma_)):
        more = clone(model).set_params(gammas=[stronger]).fit(split.X, split.y)
        if _squared_error(more) >= _squared_error(model):
            break
        model = more
    return {
        "TE": split.test(model),
        "validation": _squared_error(model) ** 0.5,
        "k": len(model.polynomial_.inputs),
        "l": len(model.polynomial_),
        "r": model.degree,
        "gamma": model.gamma_,
        "center": int(model.center),
    }


def _squared_error(model: PolynomialLasso) -> float:
    return float(model.errors_.min())


def exact(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """The exact method: budgets by validation, then the best polynomial within them, certified.

    Degree, gamma, centring and number of terms are chosen together; then, as for the kernel, gamma
    half a decade on either side; then the number of inputs.  Every input is kept, so that the
    certificate covers them all; degrees with too many monomials are left out instead (3 and 4 for
    the 68 inputs of music).
    """
    began = perf_counter()
    found = _searched(split, grid)
    search = _least(found)
    near = clone(search).set_params(
        degree=search.best_params_["degree"], center=search.best_params_["center"]
    )
    gamma = search.best_params_["gamma"]
    near.set_params(gamma=[gamma * 10.0 ** (step / 2) for step in (-1, 1)])
    found.append(clone(near).fit(split.X, split.y))
    near.set_params(gamma=_least(found).best_params_["gamma"])
    found += [
        clone(near).set_params(max_inputs=k).fit(split.X, split.y)
        for k in _input_limits(split, grid)
    ]
    chosen = _least(found)
    return _certified(split, chosen, time_limit, perf_counter() - began)


def _searched(split: Split, grid: Grid) -> list[SparsePolynomialRegressorCV]:
    """Search the grid, and on, a ridge at a time, while the strongest is the best."""
    found = [_search(split, grid, split.gammas(grid.gammas)).fit(split.X, split.y)]
    while _least(found) is found[-1] and (stronger := _stronger(split, grid, found[-1])):
        found.append(_search(split, grid, [stronger]).fit(split.X, split.y))
    return found


def _stronger(split: Split, grid: Grid, search: SparsePolynomialRegressorCV) -> float | None:
    """Return the ridge to go on with, where the strongest of a search is the best."""
    results = search.cv_results_
    best = float(results["param_gamma"][np.nanargmax(results["mean_test_score"])])
    return split.beyond(grid, best) if best == min(search.gamma) else None


def _search(split: Split, grid: Grid, gammas: list[float]) -> SparsePolynomialRegressorCV:
    """Return the search over the whole grid on the folds of a split."""
    p = split.X.shape[1]
    return SparsePolynomialRegressorCV(
        degree=[r for r in grid.degrees if affordable(p, r)],
        max_terms=grid.max_terms,
        gamma=gammas,
        center=grid.centers,
        cv=split.folds,
        rule="best",
        time_limit=None,
        random_state=0,
        refit=False,
    )


def _input_limits(split: Split, grid: Grid) -> list[int]:
    """Return the limits on the number of inputs that are compared."""
    return sorted({ceil(share * split.X.shape[1]) for share in grid.input_shares})


def _certified(
    split: Split, search: SparsePolynomialRegressorCV, time_limit: float, choosing: float
) -> dict[str, Any]:
    """Fit what a search has chosen, with its certificate, and measure it."""
    model = SparsePolynomialRegressor(
        **search.best_params_, n_candidates=None, time_limit=time_limit, random_state=0
    ).fit(split.X, split.y)
    return {
        **_formula_measures(split, model),
        "validation": -search.best_score_,
        "gap": model.solution_.gap,
        "status": str(model.solution_.status),
        "choosing": choosing,
    }


def _least(found: list[SparsePolynomialRegressorCV]) -> SparsePolynomialRegressorCV:
    """Return the search that found the least validation error."""
    return max(found, key=lambda search: search.best_score_)


def _formula_measures(split: Split, model: SparsePolynomialRegressor) -> dict[str, Any]:
    return {
        "TE": split.test(model),
        "k": len(model.polynomial_.inputs),
        "l": len(model.polynomial_),
        "r": model.degree,
        "gamma": model.gamma_,
        "center": int(model.center),
    }


def default(split: Split, grid: Grid, time_limit: float, rule: str = "shortest") -> dict[str, Any]:
    """The search over budgets: every setting but the rule its default (quick runs are quick)."""
    del time_limit
    settings: dict[str, Any] = {"rule": rule}
    if grid is not GRID:
        settings |= {"degree": grid.degrees, "max_terms": grid.max_terms, "engine": "local-search"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a search cut short by its limit
        search = SparsePolynomialRegressorCV(random_state=0, **settings).fit(split.X, split.y)
    return {
        **_formula_measures(split, search.best_estimator_),
        "validation": -search.best_score_,
        "gap": search.solution_.gap,
        "status": str(search.solution_.status),
        "choosing": search.search_time_,
    }


def boosting(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """Gradient boosting of trees: leaves and number of rounds by validation."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    del time_limit
    errors = {}
    for leaves in grid.boosting_leaves:
        curves = []
        for train, held in split.folds:
            model = _boosted(HistGradientBoostingRegressor, leaves, grid.boosting_rounds)
            model.fit(split.X[train], split.y[train])
            stages = model.staged_predict(split.X[held])
            curves.append([test_error(split.y[held], stage) for stage in stages])
        curve = np.mean(curves, axis=0)
        errors[leaves, int(np.argmin(curve)) + 1] = float(curve.min())
    leaves, rounds = min(errors, key=errors.__getitem__)
    model = _boosted(HistGradientBoostingRegressor, leaves, rounds).fit(split.X, split.y)
    return {
        "TE": split.test(model),
        "validation": errors[leaves, rounds],
        "note": f"{leaves} leaves, {rounds} rounds",
    }


def _boosted(kind: Any, leaves: int, rounds: int) -> Any:
    return kind(
        learning_rate=0.05,
        max_leaf_nodes=leaves,
        min_samples_leaf=5,
        max_iter=rounds,
        early_stopping=False,
        random_state=0,
    )


def ebm(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """An explainable boosting machine, settings lightened for speed and not tuned."""
    from interpret.glassbox import ExplainableBoostingRegressor

    del time_limit
    model = ExplainableBoostingRegressor(
        interactions=10,
        outer_bags=2,
        learning_rate=0.1,
        max_rounds=10 * grid.boosting_rounds,
        smoothing_rounds=20,
        interaction_smoothing_rounds=20,
        n_jobs=1,
        random_state=0,
    ).fit(split.X, split.y)
    return {"TE": split.test(model), "note": "10 pairwise terms"}


Method = Callable[[Split, Grid, float], dict[str, Any]]

METHODS: dict[str, Method] = {
    "ridge": ridge,
    "kernel": kernel,
    "lasso": lasso,
    "exact": exact,
    "boosting": boosting,
    "ebm": ebm,
}
MEASURES = (
    "TE",
    "validation",
    "k",
    "l",
    "r",
    "gamma",
    "center",
    "gap",
    "seconds",
    "choosing",
    "n",
    "p",
)


def run_method(
    name: str, data: Dataset, seed: int, grid: Grid, time_limit: float
) -> dict[str, Any]:
    """Return the measures of one method on one split, with the seconds of the whole of it."""
    n, p = data.X.shape
    return {**timed(METHODS[name], Split.of(data, seed), grid, time_limit), "n": n, "p": p}


def timed(method: Method, split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """Return the measures of a method, with the seconds of the whole of it."""
    began = perf_counter()
    return {**method(split, grid, time_limit), "seconds": perf_counter() - began}
