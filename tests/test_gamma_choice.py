"""gamma="auto": chosen from the rows, whatever their order, and near to the best on new rows."""

import numpy as np
import pytest
from support import (
    Folds,
    MemoryRows,
    Plan,
    content_folds,
    inner,
    moments_in_time,
    read_rules,
    sample_rows,
)

import polysharp
from polysharp import SparsePolynomialRegressor

OutOfTime = inner("OutOfTime", "time_budget")


def table(n=150, p=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + noise * rng.standard_normal(n)


def model(**options):
    return SparsePolynomialRegressor(2, 3, engine="local-search", **options)


def test_it_is_near_to_the_best_of_a_grid_on_new_rows():
    X, y = table()
    far, new = table(5000, seed=1)

    def error(fitted):
        return np.sqrt(np.mean((fitted.predict(far) - new) ** 2))

    errors = {g: error(model(gamma=g).fit(X, y)) for g in 10.0 ** np.arange(-4, 5)}
    auto = model().fit(X, y)
    choice = auto.gamma_choice_
    assert auto.gamma_ == pytest.approx(auto.solution_.gamma)
    assert auto.gamma_ <= choice.gamma * (1.0 + 1e-9)
    assert auto.refit_gamma_ == choice.refit_gamma
    assert error(auto) <= 1.05 * min(errors.values())
    assert errors[10.0**-2] > 1.5 * min(errors.values())  # about 1 / sqrt(n), which will not do


def test_the_ridge_is_the_strongest_that_does_as_well_as_the_best():
    choice = model().fit(*table()).gamma_choice_
    excess = choice.errors - choice.errors.min()
    least = choice.errors.min()
    assert excess[choice.chosen] <= 0.001 * least + 1e-12
    assert (excess[: choice.chosen] > 0.001 * least).all()
    assert (np.diff(choice.gammas) > 0).all()
    assert "10 folds" in str(choice)


def test_order_does_not_matter_and_weight_two_is_the_row_twice():
    X, y = table(60)
    order = np.random.default_rng(1).permutation(60)
    first = model().fit(X, y).gamma_choice_
    np.testing.assert_allclose(model().fit(X[order], y[order]).gamma_choice_.errors, first.errors)
    weights = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), weights.astype(int))
    a = model().fit(X, y, weights).gamma_choice_
    b = model().fit(X[twice], y[twice]).gamma_choice_
    np.testing.assert_allclose(a.errors, b.errors, rtol=1e-6)
    assert a.gamma == pytest.approx(b.gamma)


def test_without_noise_the_coefficients_are_those_of_the_law():
    X, y = table(noise=0.0)
    law = SparsePolynomialRegressor(2, 2, engine="enumeration").fit(X, y).polynomial_
    np.testing.assert_allclose(law.coefficients, [-1.0, 2.0], rtol=1e-6)


def test_wide_tables_are_screened_fold_by_fold():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((71, 2500))
    y = X[:, 5] - X[:, 900] + X[:, 2000] + 0.3 * rng.standard_normal(71)
    found = SparsePolynomialRegressor(1, 3, engine="local-search", time_limit=20).fit(X, y)
    assert set(found.polynomial_.inputs) == {5, 900, 2000}
    assert found.score(X, y) > 0.9


@pytest.mark.parametrize(("most", "expected"), [(100, [3, 2]), (20, [3, 1])])
def test_a_lower_degree_stands_in_where_screening_is_too_slow(most, expected):
    X, y = table(60, 6)
    rules = read_rules(SparsePolynomialRegressor(3, 2).get_params(), tuple("abcdef"))
    tried = []

    def deal(rules):
        rows = MemoryRows(X, y)
        return Folds(rows, content_folds(rows, 5), Plan.k_fold(5), rules), most

    def moments(folds, limit, seconds):
        tried.append(folds.rules.degree)
        if len(tried) == 1:
            raise OutOfTime(2.0 * seconds)
        return folds.count <= limit

    assert moments_in_time(rules, deal, moments, 1.0)
    assert tried == expected


def test_a_path_has_one_gamma_for_all_sizes():
    X, y = table()
    curve = polysharp.path(X, y, degree=2, max_terms=4, engine="local-search", cv=5)
    assert curve.best("one-se").n_terms in (2, 3)
    assert curve.gamma > 0.1


def test_too_few_rows_to_hold_any_out():
    X, y = table(2)
    few = model().fit(X, y)
    assert few.gamma_choice_ is None
    assert few.gamma_ == pytest.approx(2**-0.5)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_a_law_is_found_in_a_handful_of_rows(n):
    x = np.arange(1.0, n + 1.0)
    few = SparsePolynomialRegressor(1, 1).fit(x[:, None], 1.0 + 2.0 * x)
    assert few.polynomial_.coefficients == pytest.approx([2.0], rel=1e-3)


def test_dask_collections_choose_as_rows_in_memory_do():
    da = pytest.importorskip("dask.array")
    X, y = table(200)
    blocks = da.from_array(X, chunks=(70, 4)), da.from_array(y, chunks=70)
    found, expected = model().fit(*blocks).gamma_choice_, model().fit(X, y).gamma_choice_
    assert found.gamma == pytest.approx(expected.gamma)
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-9)


def test_samples_and_folds_depend_on_what_rows_hold():
    X, y = table(4000)
    sample = sample_rows(MemoryRows(X, y), 1000)
    assert 800 < len(sample) < 1200
    twice = MemoryRows(np.repeat(X[:20], 2, axis=0), np.repeat(y[:20], 2))
    for fold in content_folds(twice, 5):
        assert len(fold) == 8
        assert len(np.unique(fold // 2)) == 4
