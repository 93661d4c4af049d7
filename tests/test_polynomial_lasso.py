"""The polynomial Lasso: scikit-learn's path from moments, validated refits, conventions."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge, lasso_path
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import Basis, MemoryRows, Structure, assemble, follow, ridge_coefficients

from polysharp import PolynomialLasso
from polysharp.errors import InputError, TooLargeError
from polysharp.metrics import accuracy
from polysharp.synthetic import make_sparse_polynomial


def law(n=80, p=4, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + noise * rng.standard_normal(n)


@parametrize_with_checks(
    [
        PolynomialLasso(degree=2, n_alphas=10, cv=3),
        PolynomialLasso(degree=2, max_terms=3, gammas=[1.0], n_candidates=2, n_alphas=10),
        PolynomialLasso(degree=1, fit_intercept=False, center=True, standardize=False, n_alphas=10),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("standardize", [True, False])
def test_the_path_is_scikit_learns_on_the_design(standardize):
    X, y = law()
    basis = Basis.full(4, 2, constant=False)
    structure = Structure.of_basis(basis, 100)
    problem = assemble(MemoryRows(X, y), basis, structure, lam=1.0, fit_intercept=True).problem
    path = follow(problem, 100, np.geomspace(1.0, 1e-3, 40), standardize=standardize)
    M = basis.evaluate(X)
    M = M - M.mean(axis=0)
    if standardize:
        M = M / np.linalg.norm(M, axis=0)
    _, W, _ = lasso_path(M, y - y.mean(), alphas=path.alphas / len(y))
    assert path.sizes[0] == 0
    assert path.sizes[-1] > 5
    for support, w in zip(path.supports, W.T, strict=True):
        assert set(support) == set(np.flatnonzero(w))


def test_supports_by_number_of_terms():
    X, y = law(noise=1.0)
    model = PolynomialLasso(degree=2, max_terms=8, gammas=[1.0]).fit(X, y)
    sizes = [len(model.support_at(terms)) for terms in range(9)]
    assert sizes[0] == 0
    assert all(size <= terms for terms, size in enumerate(sizes))
    assert sizes == sorted(sizes)
    assert model.support_at(8) == model.polynomial_.monomials
    assert set(model.support_at(2)) == {(1,), (0, 2)}


def test_ridge_on_a_support_for_many_gammas():
    X, y = law()
    basis = Basis.full(4, 2, constant=False)
    structure = Structure.of_basis(basis, 5)
    problem = assemble(MemoryRows(X, y), basis, structure, lam=1.0, fit_intercept=True).problem
    support, gammas = np.array([1, 4, 6]), np.array([1e-3, 1.0, 1e3])
    W = ridge_coefficients(problem, support, gammas)
    for w, gamma in zip(W.T, gammas, strict=True):
        ridge = Ridge(alpha=1.0 / gamma, solver="cholesky").fit(basis.evaluate(X)[:, support], y)
        np.testing.assert_allclose(w, ridge.coef_, rtol=1e-8)


def test_finds_a_planted_law_with_enough_rows():
    data = make_sparse_polynomial(600, 8, 3, None, 5, 20.0, 0)
    model = PolynomialLasso(degree=3, max_terms=5, gammas=[1.0]).fit(data.X, data.y)
    assert accuracy(model.polynomial_.monomials, data.monomials) == 100.0


def test_validation_chooses_the_least_error():
    X, y = law(noise=0.5)
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    gammas = [1e-3, 1.0]
    model = PolynomialLasso(degree=2, gammas=gammas, cv=splits).fit(X, y)
    assert model.errors_.shape == (14, 2)
    best = np.unravel_index(model.errors_.argmin(), model.errors_.shape)
    assert (model.max_terms_, model.gamma_) == (best[0] + 1, gammas[best[1]])
    # The table is what separate fits of each point reach on the rows held out.
    for terms, column in [(2, 0), (5, 1)]:
        total = 0.0
        for train, test in splits:
            part = PolynomialLasso(degree=2, max_terms=terms, gammas=[gammas[column]])
            part.fit(X[train], y[train])
            predicted = np.clip(part.predict(X[test]), y.min(), y.max())
            total += float(np.sum((predicted - y[test]) ** 2))
        np.testing.assert_allclose(model.errors_[terms - 1, column], total / len(y), rtol=0.02)


def test_a_given_validation_set_is_a_predefined_split():
    X, y = law(noise=0.5)
    part = np.where(np.arange(80) < 60, -1, 0)
    model = PolynomialLasso(degree=2, cv=PredefinedSplit(part)).fit(X, y)
    by_hand = PolynomialLasso(degree=2, cv=[(np.arange(60), np.arange(60, 80))]).fit(X, y)
    np.testing.assert_array_equal(model.errors_, by_hand.errors_)


def test_rows_of_weight_zero_are_no_rows_for_given_splits():
    X, y = law(noise=0.5)
    v = np.where(np.arange(80) % 3 == 0, 0.0, 1.0)
    splits = [(np.arange(60), np.arange(60, 80))]
    used = v > 0
    count = int(used[:60].sum())
    weighted = PolynomialLasso(degree=2, cv=splits).fit(X, y, sample_weight=v)
    alone = PolynomialLasso(degree=2, cv=[(np.arange(count), np.arange(count, int(used.sum())))])
    alone.fit(X[used], y[used])
    np.testing.assert_allclose(weighted.errors_, alone.errors_, rtol=1e-9)
    nothing = np.where(np.arange(80) < 60, 1.0, 0.0)
    with pytest.raises(InputError, match=r"^cv must leave rows of positive weight"):
        PolynomialLasso(degree=2, cv=splits).fit(X, y, sample_weight=nothing)


def test_the_ranking_leaves_inputs_out():
    X, y = law(p=12)
    model = PolynomialLasso(degree=2, max_terms=2, n_candidates=3, gammas=[1.0]).fit(X, y)
    assert set(model.kept_inputs_) == {0, 1, 2}
    assert model.ranking_.scores.shape == (12,)
    assert set(model.polynomial_.monomials) == {(1,), (0, 2)}


def test_a_constant_response_gives_the_constant_polynomial():
    X, _ = law()
    model = PolynomialLasso(degree=2).fit(X, np.full(len(X), 3.5))
    assert len(model.polynomial_) == 0
    np.testing.assert_array_equal(model.predict(X), 3.5)


@pytest.mark.parametrize("center", [True, False])
def test_coefficients_are_in_the_users_units(center):
    X, y = law(noise=0.0)
    model = PolynomialLasso(degree=2, max_terms=2, gammas=[1e8], center=False).fit(X * 100.0, y)
    terms = dict(zip(model.polynomial_.monomials, model.polynomial_.coefficients, strict=True))
    assert terms == pytest.approx({(1,): -1e-2, (0, 2): 2e-4}, rel=1e-5)
    assert model.intercept_ == pytest.approx(1.0, abs=1e-5)
    coded = PolynomialLasso(degree=2, center=center, random_state=0).fit(X + 5.0, y)
    np.testing.assert_allclose(coded.predict(X + 5.0), y, atol=0.05)
    assert (coded.polynomial_.shifts is not None) == center


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_in_and_names_out(package):
    frame = pytest.importorskip(package).DataFrame
    X, y = law()
    table = frame({name: X[:, i] for i, name in enumerate(["a", "b", "air gap", "d"])})
    model = PolynomialLasso(degree=2, max_terms=2, gammas=[1.0]).fit(table, y)
    assert model.get_feature_names_out().tolist() == ["b", "a `air gap`"]
    np.testing.assert_array_equal(model.predict(table), model.polynomial_(X))
    assert model.powers_.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0]]


def test_clone_pickle_pipeline_and_search():
    X, y = law()
    grid = {"polynomiallasso__degree": [1, 2]}
    pipeline = make_pipeline(MaxAbsScaler(), PolynomialLasso(max_terms=2, gammas=[1.0]))
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"polynomiallasso__degree": 2}
    model = PolynomialLasso(degree=2, random_state=1).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.support_at(2) == model.support_at(2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("degree", 0),
        ("max_terms", "all"),
        ("n_candidates", 0),
        ("gammas", []),
        ("gammas", [1.0, -1.0]),
        ("gammas", 3.0),
        ("cv", 1),
        ("cv", None),
        ("cv", "five"),
        ("standardize", 1),
        ("n_alphas", 1),
        ("eps", 1.0),
    ],
)
def test_refusals_name_parameter_rule_and_value(name, value):
    X, y = law()
    with pytest.raises(InputError) as refusal:
        PolynomialLasso(**{name: value}).fit(X, y)
    assert str(refusal.value).startswith(f"{name} must be ")
    assert str(refusal.value).endswith(f"got {value!r}")


def test_too_many_monomials_are_refused():
    X = np.random.default_rng(0).standard_normal((30, 40))
    with pytest.raises(TooLargeError, match=r"^n_candidates must leave at most 8192 monomials"):
        PolynomialLasso(degree=3, n_candidates=None).fit(X, X[:, 0])


def test_every_parameter_is_documented():
    for name in PolynomialLasso().get_params():
        assert re.search(rf"^ +(\w+, )*{name}(, \w+)* :", PolynomialLasso.__doc__, re.MULTILINE)
