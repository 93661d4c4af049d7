"""The estimator among scikit-learn's: its own checks, pipelines, searches, frames, pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.errors import InputError


def small(**options):
    return SparsePolynomialRegressor(
        **{"degree": 2, "max_terms": 2, "engine": "enumeration", **options}
    )


def law(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + 0.01 * rng.standard_normal(n)


class Relation:
    """What DuckDB's relations are for others: a stream of Arrow with names, and no array."""

    def __init__(self, columns):
        self.table = pa.table(columns)
        self.columns = self.table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


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


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, Relation])
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


@pytest.mark.parametrize("frame", [pa.table, Relation])
def test_cells_of_arrow_that_are_no_numbers_are_named(frame):
    y = [1.0, 2.0, 3.0]
    with pytest.raises(InputError, match="'x' in row 0 of column 'a'"):
        small().fit(frame({"a": ["x", "1", "2"], "b": y}), y)
    with pytest.raises(InputError, match="nan in row 1 of column 'b'"):
        small().fit(frame({"a": y, "b": [1.0, None, 3.0]}), pa.array(y))


def test_a_column_may_be_called_as_arrow_calls_its_names():
    X, y = law()
    table = pd.DataFrame({"column_names": X[:, 0].round(), "b": X[:, 1]})
    assert small().fit(table, y).feature_names_in_.tolist() == ["column_names", "b"]


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


# Metadata, names and tags, as scikit-learn hands them round

BOTH = [SparsePolynomialRegressor, SparsePolynomialRegressorCV]


def of_kind(kind):
    if kind is SparsePolynomialRegressor:
        return small(gamma=1.0)
    return SparsePolynomialRegressorCV(
        2, 2, gamma=1.0, center=False, cv=3, rule="best", random_state=0
    )


@pytest.mark.parametrize("kind", BOTH)
def test_weights_are_routed_to_fit_and_score(kind):
    X, y = law()
    weights = np.random.default_rng(3).uniform(0.0, 4.0, len(y))
    y = y + np.where(weights < 1.0, 10.0 * X[:, 3], 0.0)  # so that the weights matter
    splits = list(KFold(3).split(X))
    with config_context(enable_metadata_routing=True):
        model = of_kind(kind).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        routed = cross_validate(model, X, y, cv=splits, params={"sample_weight": weights})
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_validate(of_kind(kind), X, y, cv=splits, params={"sample_weight": weights})
    by_hand = [
        of_kind(kind)
        .fit(X[train], y[train], sample_weight=weights[train])
        .score(X[test], y[test], sample_weight=weights[test])
        for train, test in splits
    ]
    np.testing.assert_allclose(routed["test_score"], by_hand)
    plain = cross_validate(of_kind(kind), X, y, cv=splits)
    assert not np.allclose(plain["test_score"], by_hand)


def test_weights_are_routed_through_a_pipeline_and_a_search():
    X, y = law()
    weights = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
    with config_context(enable_metadata_routing=True):
        model = small(gamma=1.0).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(MaxAbsScaler(), model)
        grid = {"sparsepolynomialregressor__max_terms": [1, 2]}
        score = make_scorer(r2_score).set_score_request(sample_weight=True)
        search = GridSearchCV(pipeline, grid, cv=3, scoring=score)
        search.fit(X, y, sample_weight=weights)
    scaled = MaxAbsScaler().fit_transform(X)
    expected = small(gamma=1.0).fit(scaled, y, sample_weight=weights)
    np.testing.assert_allclose(search.predict(X), expected.predict(scaled))


def test_groups_are_routed_to_the_search_over_budgets():
    X, y = law()
    groups = np.arange(len(y)) // 5
    options = {"gamma": (0.1, 1.0), "center": False, "rule": "best", "random_state": 0}
    with config_context(enable_metadata_routing=True):
        model = SparsePolynomialRegressorCV(2, 3, cv=GroupKFold(3), **options)
        pipeline = make_pipeline(MaxAbsScaler(), model.set_fit_request(groups=True))
        routed = pipeline.fit(X, y, groups=groups)[-1]
    splits = list(GroupKFold(3).split(X, y, groups))
    given = SparsePolynomialRegressorCV(2, 3, cv=splits, **options)
    given.fit(MaxAbsScaler().fit_transform(X), y)
    np.testing.assert_allclose(
        routed.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"]
    )


def test_names_come_through_a_pipeline_with_set_output():
    X, y = law()
    table = pd.DataFrame(X, columns=["speed", "mass", "air gap", "load"])
    pipeline = make_pipeline(MaxAbsScaler(), small()).set_output(transform="pandas")
    pipeline.fit(table, y)
    assert pipeline[-1].feature_names_in_.tolist() == list(table.columns)
    assert pipeline.get_feature_names_out().tolist() == ["mass", "speed `air gap`"]
    assert isinstance(pipeline.predict(table), np.ndarray)


@pytest.mark.parametrize("kind", BOTH)
def test_tags_say_what_the_estimator_takes(kind):
    tags = get_tags(of_kind(kind))
    assert is_regressor(of_kind(kind))
    assert tags.target_tags.required
    assert not tags.target_tags.multi_output
    assert not tags.input_tags.allow_nan
    assert not tags.input_tags.sparse
    X, y = law()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        of_kind(kind).fit(X, y)
    with pytest.raises((TypeError, ValueError), match=r"[Ss]parse"):
        of_kind(kind).fit(csr_array(np.eye(20)), np.arange(20.0))
