"""Methods on real data: from a split to predictions, every choice made on validation rows alone.

    ridge     PolynomialKernelRegressor of degree 1
    kernel    PolynomialKernelRegressor of degree 2 to 4
    lasso     PolynomialLasso, l <= 100, p' <= 20 inputs kept where the monomials are too many
    exact     SparsePolynomialRegressorCV, l <= 100; the model chosen carries a certificate
    boosting  scikit-learn's histogram gradient boosting, an outside yardstick
    ebm       an explainable boosting machine, another one, where ``interpret`` is installed

One protocol for all: hyper-parameters with the least root mean square error on the validation
rows, raw and centred inputs among them; a refit with these on training and validation rows
together; predictions clipped to the range of the responses seen.  Degrees, numbers of terms and
gammas are those of ``GRID``; only the kernel, which has no other parameter, gets a finer grid of
gammas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from polysharp import PolynomialKernelRegressor, PolynomialLasso, SparsePolynomialRegressorCV
from polysharp.basis import Array, count_monomials
from polysharp.datasets import Dataset
from polysharp.metrics import test_error

NEEDS = {"ebm": "interpret"}


@dataclass(frozen=True)
class Grid:
    """What validation chooses from; gammas are relative to 1 / (number of training rows)."""

    degrees: tuple[int, ...] = (1, 2, 3, 4)
    max_terms: int = 100
    gammas: tuple[float, ...] = tuple(10.0**e for e in range(9))
    kernel_gammas: tuple[float, ...] = tuple(10.0 ** (e / 2) for e in range(-4, 19))
    centers: tuple[bool, ...] = (False, True)
    boosting_rounds: int = 600


GRID = Grid()
QUICK = Grid((1, 2), 20, (1e2, 1e5), (1e0, 1e2, 1e4), (True,), 60)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to choose on (training, then validation) and rows to test on."""

    X: Array
    y: Array
    n_train: int
    X_test: Array
    y_test: Array

    @classmethod
    def of(cls, data: Dataset, seed: int) -> Split:
        """Draw 80 % training, 10 % validation and 10 % test rows."""
        n = len(data.y)
        order = np.random.default_rng(seed).permutation(n)
        n_train, seen = (8 * n) // 10, (9 * n) // 10
        return cls(
            data.X[order[:seen]],
            data.y[order[:seen]],
            n_train,
            data.X[order[seen:]],
            data.y[order[seen:]],
        )

    @property
    def folds(self) -> list[tuple[Any, Any]]:
        """The one validation split, in scikit-learn's form."""
        rows = np.arange(len(self.y))
        return [(rows[: self.n_train], rows[self.n_train :])]

    def validate(self, model: Any) -> float:
        """Fit on the training rows and return the error on the validation rows."""
        model.fit(self.X[: self.n_train], self.y[: self.n_train])
        return test_error(self.y[self.n_train :], model.predict(self.X[self.n_train :]))

    def test(self, model: Any) -> float:
        """Return TE of a fitted model, its predictions clipped to the responses seen."""
        predicted = np.clip(model.predict(self.X_test), self.y.min(), self.y.max())
        return test_error(self.y_test, predicted)


def best(split: Split, models: Iterable[Any]) -> tuple[Any, float]:
    """Return the model with the least validation error, refitted on all rows seen."""
    error, chosen = min(((split.validate(m), a, m) for a, m in enumerate(models)))[::2]
    return chosen.fit(split.X, split.y), error


def _kernel(split: Split, grid: Grid, degrees: Iterable[int]) -> dict[str, Any]:
    settings = product(grid.centers, degrees, grid.kernel_gammas)
    model, error = best(
        split,
        (
            PolynomialKernelRegressor(degree, gamma / split.n_train, center=center)
            for center, degree, gamma in settings
        ),
    )
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


def lasso(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """The polynomial Lasso; it chooses l and gamma itself, the other settings are compared here."""
    del time_limit
    p = split.X.shape[1]
    fitted = [
        PolynomialLasso(
            degree,
            max_terms="auto",
            n_candidates=p if count_monomials(p, degree) <= 2500 else min(p, 20),
            gammas=np.array(grid.gammas) / split.n_train,
            cv=split.folds,
            center=center,
        ).fit(split.X, split.y)
        for center, degree in product(grid.centers, grid.degrees)
    ]
    model = min(fitted, key=lambda each: float(each.errors_.min()))
    return {
        "TE": split.test(model),
        "validation": float(model.errors_.min()) ** 0.5,
        "k": len(model.polynomial_.inputs),
        "l": len(model.polynomial_),
        "r": model.degree,
        "gamma": model.gamma_,
        "center": int(model.center),
    }


def exact(split: Split, grid: Grid, time_limit: float) -> dict[str, Any]:
    """The exact method: budgets by validation on moments, then the best polynomial within them."""
    p = split.X.shape[1]
    model = SparsePolynomialRegressorCV(
        degrees=grid.degrees,
        max_terms=grid.max_terms,
        gammas=np.array(grid.gammas) / split.n_train,
        centers=grid.centers,
        cv=split.folds,
        time_limit=time_limit,
        random_state=0,
    ).fit(split.X, split.y)
    return {
        "TE": split.test(model),
        "validation": -model.best_score_,
        "k": len(model.polynomial_.inputs),
        "l": len(model.polynomial_),
        "r": model.best_params_["degree"],
        "gamma": model.gamma_,
        "center": int(model.best_params_["center"]),
        "gap": model.solution_.gap,
        "status": str(model.solution_.status),
        "note": f"{p - len(model.polynomial_.inputs)} inputs left out",
    }
