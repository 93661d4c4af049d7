"""Prediction intervals on errors without a variance, with few rows and with weights.

Rows of the fit, of the calibration and new ones are drawn alike, so that a new row lies inside
with the probability promised at least: ``counts["inside"] / counts["new rows"]`` of each promise
must not fall below it by more than chance.  The ends must be the same after a file, wider for a
larger promise, and never NaN.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from polysharp import SparsePolynomialRegressor, load_model, save_model
from polysharp.errors import InputError

NEW = 50  # rows of each case
PROMISES = (0.5, 0.8, 0.9)


def errors(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Draw errors: Cauchy, one-sided, of two sizes, in steps, or none."""
    n = len(X)
    kind = int(rng.integers(5))
    return (
        rng.standard_cauchy(n),
        rng.pareto(1.2, n),
        rng.standard_normal(n) * np.where(X[:, 0] > 0.5, 100.0, 0.1),
        rng.integers(-1, 2, n).astype(float),
        np.zeros(n),
    )[kind]


def check(seed: int, tally: Any) -> None:
    """Fit, calibrate on other rows or on folds, and count the new rows inside."""
    rng = np.random.default_rng([51, seed])
    n, m = int(rng.integers(6, 60)), int(rng.integers(1, 60))
    X = rng.uniform(-1.0, 1.0, (n + m + NEW, 3))
    kind = np.random.default_rng([52, seed])
    y = X[:, 0] * X[:, 1] + X[:, 2] + errors(kind, X)
    fit, aside, new = slice(0, n), slice(n, n + m), slice(n + m, None)
    model = SparsePolynomialRegressor(
        degree=2, max_terms=int(rng.integers(1, 4)), gamma=1.0, engine="local-search",
        center=bool(rng.random() < 0.5), random_state=seed,
    )  # fmt: skip
    weights = rng.uniform(0.5, 2.0, n) if rng.random() < 0.3 else None
    model.fit(X[fit], y[fit], sample_weight=weights)
    folds = rng.random() < 0.3 and n >= 12
    how = "folds" if folds else "rows set aside"
    if folds:
        model.calibrate(X[fit], y[fit], sample_weight=weights, cv=3)
    else:
        model.calibrate(X[aside], y[aside])
    before = None
    for promise in PROMISES:
        try:
            ends = model.predict_interval(X[new], promise)
        except InputError:
            tally.count("too few rows for the promise")
            continue
        low, high = ends.T
        inside = (low <= y[new]) & (y[new] <= high)
        tally.counts[f"new rows, {promise:.0%} by {how}"] += NEW
        tally.counts[f"inside, {promise:.0%} by {how}"] += int(inside.sum())
        if np.isnan(ends).any() or not (low <= high).all():
            tally.find("no interval", f"seed {seed}", repr(ends[:2]))
        if before is not None and not ((low <= before[0]) & (high >= before[1])).all():
            tally.find("a larger promise is narrower", f"seed {seed}")
        before = low, high
        with tempfile.TemporaryDirectory() as folder:
            save_model(model, Path(folder) / "m.json")
            again = load_model(Path(folder) / "m.json").predict_interval(X[new], promise)
        if again.tobytes() != ends.tobytes():
            tally.find("another interval from a file", f"seed {seed}")
