"""Polynomial kernel regression: equal to ridge on all monomials, whichever form solves it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import Basis

from polysharp import PolynomialKernelRegressor
from polysharp.errors import InputError


def law(n=60, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 1.0
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + 0.1 * rng.standard_normal(n)


@parametrize_with_checks(
    [
        PolynomialKernelRegressor(),
        PolynomialKernelRegressor(degree=1),
        PolynomialKernelRegressor(degree=2, gamma=3.0, fit_intercept=False, center=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n", [25, 300])  # the kernel, and the moments
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_equals_ridge_on_all_monomials(n, degree, fit_intercept, center):
    X, y = law(n)
    v = np.random.default_rng(1).uniform(0.5, 2.0, n)
    gamma = 0.7
    shift = v @ X / v.sum() if center else 0.0
    unit = np.sqrt(v @ (X - shift) ** 2 / v.sum())
    basis = Basis.full(3, degree, constant=not fit_intercept)

    def design(rows):
        return basis.evaluate((rows - shift) / unit)

    ridge = Ridge(alpha=1.0 / gamma, fit_intercept=fit_intercept, solver="svd")
    ridge.fit(design(X), y, sample_weight=v)
    model = PolynomialKernelRegressor(degree, gamma, fit_intercept, center=center)
    model.fit(X, y, sample_weight=v)
    assert (model.polynomial_ is None) == (2 * Basis.full(3, degree).scales.size > n)
    fresh = law(40, seed=7)[0]
    np.testing.assert_allclose(model.predict(fresh), ridge.predict(design(fresh)), rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-8)
    residuals = v * (y - ridge.predict(design(X)))
    np.testing.assert_allclose(model.dual_coef_, residuals, atol=1e-8)


def test_units_do_not_matter_with_scale():
    X, y = law()
    one = PolynomialKernelRegressor(3, 0.1).fit(X, y).predict(X)
    other = PolynomialKernelRegressor(3, 0.1).fit(X * [1e3, 1e-4, 1.0], y)
    np.testing.assert_allclose(other.predict(X * [1e3, 1e-4, 1.0]), one, rtol=1e-9)
    raw = PolynomialKernelRegressor(3, 0.1, scale=False).fit(X, y).predict(X)
    assert np.abs(raw - one).max() > 1e-3


def test_a_huge_gamma_interpolates_without_failing():
    X, y = law(15)
    model = PolynomialKernelRegressor(3, 1e12).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-5)


@pytest.mark.needs("pandas")
def test_the_polynomial_is_in_the_users_names_and_units():
    import pandas as pd

    X, y = law(300)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PolynomialKernelRegressor(1, 1e9, center=True).fit(table, pd.Series(y, name="out"))
    ols = np.linalg.lstsq(np.column_stack([np.ones(300), X]), y, rcond=None)[0]
    np.testing.assert_allclose(model.polynomial_.coefficients, ols[1:], rtol=1e-6)
    assert str(model.polynomial_).startswith("out = ")
    assert "(b - " in str(model.polynomial_)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames(package):
    frame = pytest.importorskip(package).DataFrame
    X, y = law()
    table = frame({name: X[:, i] for i, name in enumerate("abc")})
    model = PolynomialKernelRegressor().fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        model.predict(table), PolynomialKernelRegressor().fit(X, y).predict(X), rtol=1e-9
    )
    with pytest.raises(InputError, match="column 'b'"):
        model.predict(frame({"a": [1.0], "b": [np.nan], "c": [1.0]}))


def test_clone_pickle_pipeline_and_search():
    X, y = law()
    grid = {"polynomialkernelregressor__degree": [1, 2]}
    pipeline = make_pipeline(MaxAbsScaler(), PolynomialKernelRegressor(gamma=10.0))
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"polynomialkernelregressor__degree": 2}
    model = PolynomialKernelRegressor(2, 5.0).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [("degree", 0), ("degree", 1.5), ("gamma", -1.0), ("gamma", "best"), ("center", 1)],
)
def test_refusals_name_parameter_rule_and_value(name, value):
    X, y = law()
    with pytest.raises(InputError, match=f"^{name} must be .*, got {value!r}"):
        PolynomialKernelRegressor(**{name: value}).fit(X, y)
