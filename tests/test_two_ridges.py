"""Two ridges: one to choose and prove the terms, one to estimate their coefficients."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from support import Problem, Structure, TimeBudget, inner, provable_gamma, restore

import polysharp
from polysharp import InputError, SparsePolynomialRegressor, SparsePolynomialRegressorCV, verify
from polysharp.synthetic import make_sparse_polynomial

Stop = inner("Stop", "solution")
describe = inner("describe", "model_file")


def table(n=120, p=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + noise * rng.standard_normal(n)


def scaled_design(model, X):
    """Return the scaled monomials of a model, centred, as its objective sees them."""
    scales = np.sqrt(np.mean(X**2, axis=0))
    # Both x1 and x0 x2 have two orderings when they are padded with ones to degree 2.
    terms = [np.prod(X[:, m] / scales[list(m)], axis=1) for m in model.polynomial_.monomials]
    M = np.sqrt(2.0) * np.array(terms).T
    return M - M.mean(axis=0)


@pytest.mark.parametrize("refit_gamma", [None, 0.05, 7.0])
def test_coefficients_are_those_of_the_second_ridge_and_the_bound_of_the_first(refit_gamma):
    X, y = table()
    settings = {"degree": 2, "max_terms": 2, "gamma": 0.01}
    one = SparsePolynomialRegressor(**settings).fit(X, y)
    model = SparsePolynomialRegressor(**settings, refit_gamma=refit_gamma).fit(X, y)
    used = 0.01 if refit_gamma is None else refit_gamma
    assert (model.gamma_, model.refit_gamma_) == (pytest.approx(0.01), used)
    assert model.solution_.objective == one.solution_.objective
    assert model.polynomial_.monomials == one.polynomial_.monomials
    M, target = scaled_design(model, X), y - y.mean()
    w = np.linalg.solve(M.T @ M + np.eye(2) / used, M.T @ target)
    np.testing.assert_allclose(model.predict(X), y.mean() + M @ w, rtol=1e-9, atol=1e-9)
    proof = model.solution_.proof
    assert verify(proof, X, y)
    assert proof.statement.refit_gamma == (None if refit_gamma is None else used)
    assert ("estimated afterwards" in str(proof.statement)) == (refit_gamma is not None)


def test_a_quick_proof_needs_one_ridge_alone():
    X, y = table()
    model = SparsePolynomialRegressor(degree=2, max_terms=2).fit(X, y)
    assert model.solution_.status == "optimal"
    assert model.gamma_ == model.refit_gamma_ == model.gamma_choice_.refit_gamma


def test_auto_chooses_both_and_proves_what_one_ridge_does_not(monkeypatch):
    monkeypatch.setattr("polysharp.estimators.fitting.FIRST_SECONDS", 0.0)
    data = make_sparse_polynomial(300, 10, 3, 5, 8, 3.0, random_state=0)
    settings = {"degree": 3, "max_terms": 8, "time_limit": 20.0}
    model = SparsePolynomialRegressor(**settings).fit(data.X, data.y)
    assert set(model.polynomial_.monomials) == set(data.monomials)
    assert model.solution_.status == "optimal"
    assert model.gamma_ < model.refit_gamma_
    assert model.gamma_ <= model.gamma_choice_.gamma * (1 + 1e-9)
    assert model.refit_gamma_ == model.gamma_choice_.refit_gamma
    held = SparsePolynomialRegressor(**settings, refit_gamma=0.5).fit(data.X, data.y)
    assert held.refit_gamma_ == 0.5


def test_no_search_begins_after_an_interrupt(monkeypatch):
    home, stops = "polysharp.estimators.fitting", []

    def interrupted(*args):
        stop = Stop.TIME if not stops else Stop.INTERRUPTED
        stops.append(stop)
        return replace(searched(*args), stop=stop)

    searched = importlib.import_module(home)._search_listed
    monkeypatch.setattr(f"{home}.FIRST_SECONDS", 0.0)
    monkeypatch.setattr(f"{home}._search_listed", interrupted)
    monkeypatch.setattr(f"{home}._spoiled", lambda *_: True)
    monkeypatch.setattr(f"{home}.provable_gamma", lambda problem, *_: 0.5 * problem.gamma)
    data = make_sparse_polynomial(300, 10, 3, 5, 8, 3.0, random_state=0)
    SparsePolynomialRegressor(degree=3, max_terms=8, time_limit=20.0).fit(data.X, data.y)
    assert stops == [Stop.TIME, Stop.INTERRUPTED]


def test_the_search_over_budgets_has_two_ridges_too():
    X, y = table()
    search = SparsePolynomialRegressorCV(degree=2, max_terms=4, random_state=0).fit(X, y)
    assert search.refit_gamma_ == pytest.approx(search.best_params_["gamma"])
    assert search.gamma_ <= search.refit_gamma_
    again = search.best_estimator_
    settings = {k: v for k, v in again.get_params().items() if k != "time_limit"}
    alone = SparsePolynomialRegressor(**settings).fit(X, y)
    np.testing.assert_allclose(alone.predict(X), search.predict(X), rtol=1e-9)
    document = json.loads(json.dumps(describe(search)))
    loaded = restore(document)
    assert loaded.refit_gamma_ == search.refit_gamma_
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))


def test_rivals_resamples_and_sizes_use_both_ridges():
    X, y = table()
    model = SparsePolynomialRegressor(2, 2, gamma=0.01, refit_gamma=5.0).fit(X, y)
    close = polysharp.rivals(model, X, y, within=0.1)
    np.testing.assert_allclose(close.best(X), model.predict(X), rtol=1e-12)
    found = polysharp.stability(model, X, y, n_resamples=3, random_state=0)
    assert found.n_resamples == 3
    curve = polysharp.path(X, y, degree=2, max_terms=2, gamma=0.01, refit_gamma=5.0, cv=3)
    np.testing.assert_allclose(curve[-1].polynomial(X), model.predict(X), rtol=1e-9)
    residual = y - curve[-1].polynomial(X)
    assert curve[-1].training_error == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-9)
    weak = polysharp.path(X, y, degree=2, max_terms=2, gamma=0.01, cv=3)
    assert curve[-1].validation_error < weak[-1].validation_error


def test_the_provable_ridge_keeps_the_terms():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((80, 30))
    y = M[:, :3] @ [3.0, -2.0, 1.0] + 0.5 * rng.standard_normal(80)
    structure = Structure(np.eye(30, dtype=bool), 3, 30)
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 1.0, structure)
    gamma = provable_gamma(problem, np.arange(3), TimeBudget())
    assert gamma < 1.0  # the ridge of 1 is weaker than what proves these terms at once
    stronger = replace(problem, lam=1.0 / gamma)
    best = min(combinations(range(30), 3), key=lambda S: stronger.refit(np.array(S)).objective)
    assert best == (0, 1, 2)


def test_what_is_no_ridge_is_refused():
    for wrong in (0.0, -1.0, "auto", np.inf):
        with pytest.raises(InputError, match="refit_gamma must be None or a positive"):
            SparsePolynomialRegressor(refit_gamma=wrong).fit(*table())
