"""The estimator among scikit-learn's: its own checks, pipelines, searches, frames, pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from polysharp import SparsePolynomialRegressor


def small(**options):
    return SparsePolynomialRegressor(
        **{"degree": 2, "max_terms": 2, "engine": "enumeration", **options}
    )


def law(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + 0.01 * rng.standard_normal(n)


@parametrize_with_checks(
    [
        small(max_terms=1),
        small(fit_intercept=False, center=True, n_candidates=3, max_inputs=2),
        SparsePolynomialRegressor(max_terms=3, engine="local-search"),
        small(degree=1, engine="auto"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clone_and_pickle():
    X, y = law()
    model = small(include_terms=["x0 x2"], gamma=0.5).fit(X, y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "polynomial_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.polynomial_) == str(model.polynomial_)
    assert again.solution_.status == "optimal"


def test_pipeline_and_grid_search():
    X, y = law()
    pipeline = make_pipeline(MaxAbsScaler(), small(gamma=10.0))
    grid = {"sparsepolynomialregressor__max_terms": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"sparsepolynomialregressor__max_terms": 2}
    assert cross_val_score(search.best_estimator_, X, y, cv=3).min() > 0.99


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_names_out(frame):
    X, y = law()
    names = ["speed", "mass", "air gap", "load"]
    table = frame({name: X[:, i] for i, name in enumerate(names)})
    model = small().fit(table, y)
    assert model.feature_names_in_.tolist() == names
    assert model.get_feature_names_out().tolist() == ["mass", "speed `air gap`"]
    assert "speed `air gap`" in str(model.polynomial_)
    np.testing.assert_array_equal(model.predict(table), model.polynomial_(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({name: X[:, i] for i, name in enumerate(reversed(names))}))


def test_the_response_keeps_its_name():
    X, y = law()
    assert str(small().fit(X, pd.Series(y, name="watts")).polynomial_).startswith("watts = ")
    assert str(small().fit(X, pl.Series("watts", y)).polynomial_).startswith("watts = ")
    assert str(small().fit(X, y).polynomial_).startswith("y = ")


def test_html_shows_formula_and_certificate_after_the_fit():
    X, y = law()
    model = small()
    assert "proven lower bound" not in model._repr_html_()
    model.fit(X, y)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in html
        assert "x0 x2" in html
        assert "proven lower bound" in html


def test_every_parameter_is_documented():
    documented = SparsePolynomialRegressor.__doc__
    for name in SparsePolynomialRegressor().get_params():
        assert name in documented
