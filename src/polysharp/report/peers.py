"""How other methods do on the same rows: the mean of the responses, linear regression, boosting.

A formula that is no better than the mean has found nothing; linear regression says what terms of
higher degree buy, boosted trees what a model that nobody can read would buy.  All are measured as
the sizes of a path are: the mean over the splits of the root mean squared error on the rows that
the split left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from polysharp.data.rows import evenly_spaced
from polysharp.selection.splits import read_splits
from polysharp.threads import limited_threads
from polysharp.typing import Array

MEAN, LINEAR, BOOSTING = "the mean", "linear regression", "boosting"
MOST_ROWS = 20_000  # boosting takes a second or two for so many; of more, evenly spaced ones


@dataclass(frozen=True)
class Peer:
    """A method and its error on rows it has not seen."""

    name: str
    error: float
    std_error: float


def compare_peers(
    X: Any, y: Any, sample_weight: Any = None, *, cv: int = 5, seed: int = 0
) -> tuple[Peer, ...]:
    """Cross-validate the mean, linear regression and boosting on ``cv`` folds of the rows.

    ``seed`` shuffles the rows into folds, and is that of boosting.  More than 20,000 rows are
    thinned to evenly spaced ones.
    """
    methods = {
        MEAN: DummyRegressor(),
        LINEAR: LinearRegression(),
        BOOSTING: HistGradientBoostingRegressor(random_state=seed),
    }
    table, observed = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weights = np.ones(len(table)) if sample_weight is None else np.asarray(sample_weight, float)
    some = np.flatnonzero(weights > 0.0)
    some = some[evenly_spaced(len(some), MOST_ROWS)]
    rows = table[some], observed[some], weights[some]
    splits = read_splits(min(cv, len(some)), rows[0], rows[1], seed=seed)
    found = []
    for name, method in methods.items():
        # Tables of this size are not worth waking threads for.
        with limited_threads(1):
            errors = np.array(list(_errors(method, splits, *rows)))
        found.append(
            Peer(name, float(errors.mean()), float(errors.std() / np.sqrt(max(1, len(errors) - 1))))
        )
    return tuple(found)


def _errors(method: Any, splits: Any, X: Array, y: Array, weights: Array) -> Iterator[float]:
    for train, test in splits:
        method.fit(X[train], y[train], sample_weight=weights[train])
        squares = (y[test] - method.predict(X[test])) ** 2
        yield float(np.sqrt(np.average(squares, weights=weights[test])))
