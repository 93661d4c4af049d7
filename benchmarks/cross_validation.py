"""The search over budgets: its time beside GridSearchCV, and its errors on real tables.

    python benchmarks/cross_validation.py                              # 1500 rows, 5 inputs
    python benchmarks/cross_validation.py --rows 5000 --inputs 20 --time-limit 600 --peer-degree 2
    python benchmarks/cross_validation.py --tables --splits 10         # eight UCI rows

The first two draw a smooth function of the inputs that is no polynomial, with noise, and time the
full search (degrees 1 to 4, up to 50 terms, 5 folds, four gammas, raw and centred inputs) without
and with the refit, beside ``GridSearchCV`` over PolynomialFeatures + Lasso (the same degrees up to
``--peer-degree``, ten alphas, 5 folds), and compare their errors on fresh rows (targets: 60 s and
10 minutes).  ``--tables`` fits the default search to random 80 % of each UCI table in the folder
named by POLYSHARP_DATA and prints the mean root mean squared error on the rest.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from pathlib import Path

import machine
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from polysharp import SparsePolynomialRegressorCV

# Name, file, targets at the end of the file, which of them, best figure of the evidence.
TABLES = (
    ("airfoil", "airfoil", 1, 0, 2.99),
    ("concrete", "concrete", 1, 0, 5.48),
    ("energy I", "energy_efficiency", 2, 0, 0.42),
    ("energy II", "energy_efficiency", 2, 1, 1.11),
    ("wine red", "wine_quality_red", 1, 0, 0.63),
    ("wine white", "wine_quality_white", 1, 0, 0.70),
    ("music I", "music_origin", 2, 0, 16.4),
    ("music II", "music_origin", 2, 1, 43.9),
)


def smooth(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs and a response that no polynomial is, with one part in ten of noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.5, 2.0, (n, p))
    signal = np.exp(-X[:, 0] * X[:, 1]) + np.log(X[:, 2] + X[:, 3]) + np.sin(2.0 * X[:, 4])
    return X, signal + 0.1 * signal.std() * rng.standard_normal(n)


def rmse(model: object, X: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.mean((y - model.predict(X)) ** 2)))  # type: ignore[attr-defined]


def peer(X: np.ndarray, y: np.ndarray, degree: int, n_jobs: int) -> GridSearchCV:
    """Fit what people use today."""
    steps = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(include_bias=False),
        StandardScaler(),
        Lasso(max_iter=10_000),
    )
    grid = {
        "polynomialfeatures__degree": list(range(1, degree + 1)),
        "lasso__alpha": (np.std(y) * np.logspace(-4, 0, 10)).tolist(),
    }
    folds = KFold(5, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GridSearchCV(
            steps, grid, cv=folds, scoring="neg_root_mean_squared_error", n_jobs=n_jobs
        ).fit(X, y)


def measure(options: argparse.Namespace) -> None:
    """Time both searches on the same rows."""
    X, y = smooth(options.rows, options.inputs, 0)
    fresh_X, fresh_y = smooth(2000, options.inputs, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours = SparsePolynomialRegressorCV(
        max_terms=50, cv=5, time_limit=options.time_limit, n_jobs=options.jobs, random_state=0
    ).fit(X, y)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    compared = len(ours.cv_results_["params"]) * ours.n_splits_
    print(f"n = {options.rows}, p = {options.inputs}: {compared:,} models compared")
    print(
        f"polysharp: search {ours.search_time_:.1f} s, refit with proof {ours.refit_time_:.1f} s, "
        f"peak memory {memory:.1f} GiB, {len(ours.polynomial_)} terms, "
        f"error on fresh rows {rmse(ours, fresh_X, fresh_y):.4g}"
    )
    print(f"  {ours.best_params_}")
    if options.peer_degree:
        began = time.perf_counter()
        theirs = peer(X, y, options.peer_degree, options.jobs)
        elapsed = time.perf_counter() - began
        terms = int(np.count_nonzero(theirs.best_estimator_[-1].coef_))
        print(
            f"GridSearchCV, degrees to {options.peer_degree}: {elapsed:.1f} s "
            f"({elapsed / ours.search_time_:.1f} times the search), {terms} terms, "
            f"error on fresh rows {rmse(theirs, fresh_X, fresh_y):.4g}"
        )
    print(machine.describe())


def tables(options: argparse.Namespace) -> None:
    """Fit the default search to the UCI tables."""
    folder = Path(os.environ["POLYSHARP_DATA"])
    print("table         best known   mean RMSE  (std)    ratio  terms  degree  s per search")
    for name, file, targets, which, known in TABLES:
        if options.only and name not in options.only:
            continue
        rows = np.loadtxt(folder / f"{file}.csv.gz", delimiter=",", skiprows=1)
        X, y = rows[:, :-targets], rows[:, rows.shape[1] - targets + which]
        errors, terms, degrees, seconds = [], [], [], []
        for seed in range(options.splits):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[: int(0.8 * len(y))], order[int(0.8 * len(y)) :]
            model = SparsePolynomialRegressorCV(
                rule=options.rule,
                engine=options.engine,
                time_limit=options.time_limit,
                n_jobs=options.jobs,
                random_state=seed,
            ).fit(X[train], y[train])
            errors.append(rmse(model, X[test], y[test]))
            terms.append(len(model.polynomial_))
            degrees.append(model.polynomial_.degree)
            seconds.append(model.search_time_)
        print(
            f"{name:<12} {known:>11.2f} {np.mean(errors):>11.4g} ({np.std(errors):.2g}) "
            f"{np.mean(errors) / known:>8.3f} {np.mean(terms):>6.1f} {np.mean(degrees):>6.1f} "
            f"{np.mean(seconds):>10.1f}",
            flush=True,
        )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--inputs", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--peer-degree", type=int, default=4, help="0 leaves the peer out")
    parser.add_argument("--tables", action="store_true", help="the UCI tables instead")
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--rule", default="best")
    parser.add_argument("--engine", default="auto", help="of the refit")
    options = parser.parse_args()
    if options.tables:
        tables(options)
    else:
        measure(options)


if __name__ == "__main__":
    main()
