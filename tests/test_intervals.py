"""Prediction intervals: coverage, width outside the rows, and what is refused."""

import numpy as np
import pytest

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.errors import InputError


def law(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    noise = rng.standard_t(3, n) * (0.1 + 0.2 * np.abs(X[:, 2]))  # heavy tails, unequal spreads
    return X, X[:, 0] * X[:, 1] + X[:, 2] ** 2 + noise


def fitted(n=80, seed=0, **options):
    X, y = law(n, seed)
    settings = {"degree": 2, "max_terms": 3, "gamma": 1.0, "engine": "local-search", **options}
    return SparsePolynomialRegressor(**settings).fit(X, y), X, y


def covered(model, coverage, seed=99):
    X, y = law(20_000, seed)
    low, high = model.predict_interval(X, coverage).T
    return np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_unseen_rows_give_the_coverage_on_average_over_tables(coverage):
    shares = []
    for seed in range(40):
        model, _, _ = fitted(seed=seed)
        model.calibrate(*law(99, 1000 + seed))
        shares.append(covered(model, coverage))
    # Exactly (n + 1) coverage / (n + 1) on average; the mean of 40 strays by about 0.008.
    assert np.mean(shares) == pytest.approx(coverage, abs=0.03)


def test_folds_of_the_fit_give_about_the_coverage():
    shares = []
    for seed in range(20):
        model, X, y = fitted(n=120, seed=seed)
        shares.append(covered(model.calibrate(X, y, cv=5), 0.9))
    assert 0.87 <= np.mean(shares) <= 0.94


def test_the_rows_of_the_fit_as_unseen_rows_would_be_too_narrow():
    model, X, y = fitted(n=30, max_terms=8)
    narrow = np.diff(model.calibrate(X, y).predict_interval(X, 0.8))
    wide = np.diff(model.calibrate(X, y, cv=5).predict_interval(X, 0.8))
    assert narrow.mean() < wide.mean()


def test_intervals_grow_outside_the_rows():
    model, _, _ = fitted()
    model.calibrate(*law(200, 7))
    widths = np.diff(model.predict_interval([[0.0] * 3, [1.0] * 3, [10.0] * 3, [100.0] * 3]))
    assert np.all(np.diff(widths.ravel()) > 0.0)
    assert widths[3] > 100 * widths[0]


def test_equal_terms_and_constants_do_no_harm():
    X = np.ones((30, 2))
    y = np.random.default_rng(0).standard_normal(30)
    model = SparsePolynomialRegressor(degree=1, max_terms=1, gamma=1.0).fit(X, y)
    ends = model.calibrate(X, y).predict_interval(X, 0.9)
    assert np.isfinite(ends).all()


def test_a_search_over_budgets_has_intervals_too():
    X, y = law(60, 0)
    search = SparsePolynomialRegressorCV(
        degrees=(1, 2), max_terms=3, gammas=(1.0,), cv=3, engine="local-search"
    ).fit(X, y)
    assert search.calibrate(X, y, cv=3).predict_interval(X[:5]).shape == (5, 2)


def test_what_is_refused():
    model, X, y = fitted()
    with pytest.raises(InputError, match="call calibrate first"):
        model.predict_interval(X)
    model.calibrate(X[:9], y[:9])
    with pytest.raises(InputError, match=r"coverage must be at most 0.9 with the 9 rows"):
        model.predict_interval(X, 0.95)
    for coverage in (0.0, 1.0, np.nan, "most"):
        with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
            model.predict_interval(X, coverage)
