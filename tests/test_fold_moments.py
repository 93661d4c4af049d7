"""Parts of the rows, their moments, and what sums of them give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from support import (
    Basis,
    MemoryRows,
    Plan,
    accumulate,
    fold_moments,
    inner,
    merge,
    read_splits,
    squared_error,
)

from polysharp.errors import InputError

cut = inner("cut", "selection")


def table(n=60, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 3.0
    return X, X[:, 0] ** 2 - X[:, 1] + rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def assert_same(a, b):
    assert a.n_rows == b.n_rows
    for name in ("weight", "mean", "y_mean", "scatter", "cross", "spread"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-9)


SPLITTERS = {
    "k-fold": KFold(5, shuffle=True, random_state=0),
    "time series": TimeSeriesSplit(4),
    "one out": LeaveOneOut(),
    "random": ShuffleSplit(4, random_state=0),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=3, random_state=0),
}


@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)
def test_sums_of_parts_are_the_moments_of_every_set(splitter):
    X, y, weight = table()
    basis = Basis.full(3, 2)
    splits = list(splitter.split(X))
    parts, plan = cut(splits, len(y))
    moments = fold_moments(MemoryRows(X, y, weight), basis, parts)
    assert plan.n_splits == len(splits)
    assert len(parts) <= 2 * len(splits)
    for v, pair in enumerate(splits):
        for rows, which in zip(pair, (plan.train[v], plan.test[v]), strict=True):
            assert_same(merge(moments, which), accumulate(basis, X[rows], y[rows], weight[rows]))


def test_k_fold_has_one_part_per_fold():
    parts, plan = cut(KFold(4).split(np.zeros((20, 1))), 20)
    assert len(parts) == 4
    assert sorted(np.concatenate(parts).tolist()) == list(range(20))
    assert {frozenset(t) for t in plan.train} == {frozenset(t) for t in Plan.k_fold(4).train}


def test_rows_may_repeat_within_a_training_set():
    X, y, _ = table(6)
    train, test = np.array([0, 0, 1, 2]), np.array([3, 4])
    parts, plan = cut([(train, test)], 6)
    basis = Basis.full(3, 1)
    got = merge(fold_moments(MemoryRows(X, y), basis, parts), plan.train[0])
    assert_same(got, accumulate(basis, X[train], y[train]))


def test_merging_equals_adding():
    X, y, weight = table()
    halves = [np.arange(20), np.arange(20, 60)]
    parts = fold_moments(MemoryRows(X, y, weight), Basis.full(3, 2), halves)
    assert_same(merge(parts, (0, 1)), parts[0] + parts[1])


def test_splits_without_rows_are_refused():
    with pytest.raises(InputError, match="cv must make at least 1 split"):
        cut([], 5)
    with pytest.raises(InputError, match="cv must leave rows"):
        cut([(np.arange(5), np.arange(0))], 5)


def test_flags_are_no_indices():
    X, y, train = np.zeros((6, 1)), np.zeros(6), np.arange(6) < 4
    for weight in (None, np.ones(6)):
        [(a, b)] = read_splits([(train, ~train)], X, y, sample_weight=weight)
        assert (a.tolist(), b.tolist()) == ([0, 1, 2, 3], [4, 5])


@pytest.mark.parametrize("rows", [[0, 6], [-1], [0.5], [True, False], [[0], [1]]])
def test_rows_that_are_not_there_are_refused(rows):
    with pytest.raises(InputError, match="cv must give indices from 0 to 5, or 6 flags, got"):
        read_splits([(rows, [2])], np.zeros((6, 1)), np.zeros(6))


def test_squared_error_is_that_of_the_rows():
    X, y, weight = table()
    basis = Basis.full(3, 2, constant=False)
    moments = accumulate(basis, X, y, weight)
    support, w, b = np.array([1, 4, 7]), np.array([0.3, -1.0, 2.0]), 0.7
    residual = y - b - basis.evaluate(X)[:, support] @ w
    expected = np.average(residual**2, weights=weight)
    assert squared_error(moments, support, w, b) == pytest.approx(expected, rel=1e-10)
