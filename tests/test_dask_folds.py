"""The search over budgets on Dask collections: moments of folds that are those of their rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit
from support import RandomFolds

from polysharp import InputError, SparsePolynomialRegressorCV, TooLargeError

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

CHUNKS = (120, 0, 180, 100)
N = sum(CHUNKS)
SETTINGS = {
    "degree": (1, 2, 3),
    "max_terms": 4,
    "gamma": (0.01, 1.0),
    "center": (False, True),
    "cv": 3,
    "random_state": 5,
    "rule": "best",
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 4)) + np.array([0.0, 1.0, 2.0, -1.0])
    y = 1 + X[:, 0] ** 2 - 2 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(N)
    weights = rng.uniform(0.1, 2.0, N)
    weights[::11] = 0.0
    return X, y, weights


def folds_of_rows(seed, n_folds, weights):
    """Return the fold of every row, found by dealing the rows that count block by block."""
    fold, start = np.full(N, -1), 0
    for number, size in enumerate(CHUNKS):
        used = start + np.flatnonzero(weights[start : start + size] > 0)
        for which, mine in enumerate(RandomFolds(n_folds, seed).of(len(used), number)):
            fold[used[mine]] = which
        start += size
    return fold


@pytest.mark.parametrize("weighted", [False, True])
def test_the_search_is_the_one_in_memory_on_the_same_folds(rows, weighted, monkeypatch):
    monkeypatch.setattr("polysharp.selection.split_models.MOST_ROWS", 0)
    X, y, v = rows
    weights = v if weighted else np.ones(N)
    given = {**SETTINGS, "clamp": False}  # moments cannot judge clamped inputs
    found = SparsePolynomialRegressorCV(**given).fit(
        da.from_array(X, chunks=(CHUNKS, 4)), y, v if weighted else None
    )
    from support import check_seed

    fold = folds_of_rows(check_seed(5), 3, weights)
    expected = SparsePolynomialRegressorCV(**{**given, "cv": PredefinedSplit(fold)}).fit(
        X, y, v if weighted else None
    )
    assert found.best_params_ == expected.best_params_
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-7)
    assert found.polynomial_.monomials == expected.polynomial_.monomials
    np.testing.assert_allclose(
        found.polynomial_.coefficients, expected.polynomial_.coefficients, rtol=1e-9
    )
    assert found.n_splits_ == 3


def test_the_folds_are_five_unless_said():
    rng = np.random.default_rng(0)
    X = da.from_array(rng.standard_normal((60, 2)), chunks=(20, 2))
    settings = {**SETTINGS, "cv": "auto", "refit": False}
    assert SparsePolynomialRegressorCV(**settings).fit(X, X[:, 0]).n_splits_ == 5
    assert SparsePolynomialRegressorCV().get_params()["cv"] == "auto"


def test_every_row_is_dealt_once():
    for n in (0, 1, 2, 7, 100):
        hands = RandomFolds(4, seed=1).of(n, number=2)
        assert sorted(np.concatenate(hands).tolist()) == list(range(n))
        sizes = [len(hand) for hand in hands]
        assert max(sizes) - min(sizes) <= 1


def refused(message, error=InputError, groups=None, X=None, **settings):
    X = da.from_array(np.arange(40.0).reshape(20, 2) % 7, chunks=(5, 2)) if X is None else X
    with pytest.raises(error, match=message):
        SparsePolynomialRegressorCV(**{**SETTINGS, **settings}).fit(
            X, np.arange(len(X)) % 5, groups=groups
        )


def test_what_is_not_offered_is_said():
    refused("cv must be a number of folds", cv=PredefinedSplit(np.arange(20) % 2))
    refused("and groups", groups=np.arange(20))
    refused("cv must be at least 2 folds, got 1", cv=1)
    refused("cv must leave rows of positive weight in every fold", cv=30)
    wide = da.from_array(np.random.default_rng(0).standard_normal((20, 60)), chunks=(5, 60))
    refused("degree must have at most", TooLargeError, X=wide, degree=4)
