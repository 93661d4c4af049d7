"""The accuracy-versus-size curve: each point is the best of its size, and says so honestly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold
from support import LocalSearch, Status

import polysharp
from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.errors import InputError


def law(n=80, p=4, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + noise * rng.standard_normal(n)


@pytest.mark.parametrize(
    "rules", [{}, {"fit_intercept": False}, {"center": True}, {"heredity": "strong"}], ids=str
)
def test_every_point_is_what_enumeration_finds(rules):
    X, y = law()
    curve = polysharp.path(X, y, degree=2, max_terms=4, gamma=1.0, **rules)
    assert [point.max_terms for point in curve] == [1, 2, 3, 4]
    for point in curve:
        twin = SparsePolynomialRegressor(
            degree=2, max_terms=point.max_terms, gamma=1.0, engine="enumeration", **rules
        ).fit(X, y)
        assert point.status is Status.OPTIMAL
        assert point.objective == pytest.approx(twin.solution_.objective, rel=1e-4)
        assert point.bound <= twin.solution_.objective * (1.0 + 1e-9)
        residual = y - point.polynomial(X)
        assert point.training_error == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-6)
        assert point.n_terms == len(point.polynomial) <= point.max_terms


def test_several_limits_on_inputs_give_several_curves():
    X, y = law()
    curve = polysharp.path(X, y, degree=2, max_terms=(2, 4), max_inputs=(1, None, 2), gamma=1.0)
    assert [(p.max_inputs, p.max_terms) for p in curve] == [
        (None, 2), (None, 4), (2, 2), (2, 4), (1, 2), (1, 4),
    ]  # fmt: skip
    for point in curve:
        assert point.n_inputs <= (point.max_inputs or 4)
    by_terms = {(p.max_inputs, p.max_terms): p.objective for p in curve}
    assert by_terms[None, 4] <= by_terms[2, 4] <= by_terms[1, 4]


def test_the_objective_does_not_rise_however_short_the_time():
    X, y = law(noise=3.0)
    curve = polysharp.path(X, y, degree=3, max_terms=8, gamma=10.0, time_limit=1e-6)
    objectives = [point.objective for point in curve]
    assert np.all(np.diff(objectives) <= 1e-9 * objectives[0])
    known = polysharp.path(X, y, degree=3, max_terms=8, gamma=10.0, time_limit=2.0)
    for point, best in zip(curve, known, strict=True):
        assert point.max_terms == best.max_terms
        assert 0.0 <= point.bound <= best.objective * (1.0 + 1e-9)


def test_validation_errors_are_those_of_the_search_over_budgets():
    X, y = law()
    splits = list(KFold(4, shuffle=True, random_state=3).split(X))
    curve = polysharp.path(X, y, degree=2, max_terms=5, gamma=2.0, cv=splits)
    search = SparsePolynomialRegressorCV(
        degree=2,
        max_terms=5,
        gamma=2.0,
        center=False,
        cv=splits,
        rule="best",
        engine="local-search",
        clamp=False,
    ).fit(X, y)
    errors = [point.validation_error for point in curve]
    np.testing.assert_allclose(errors, -search.cv_results_["mean_test_score"], rtol=1e-12)
    standard = search.cv_results_["std_test_score"] / np.sqrt(3)
    np.testing.assert_allclose([p.validation_std_error for p in curve], standard, rtol=1e-12)
    assert curve.n_splits == 4
    assert curve.best("best").max_terms == search.best_params_["max_terms"]


def test_best_follows_its_rule():
    X, y = law(noise=1.0)
    curve = polysharp.path(X, y, degree=2, max_terms=8, cv=5, random_state=0)
    lowest = min(curve, key=lambda p: p.validation_error)
    assert curve.best("best") is lowest
    limit = lowest.validation_error + lowest.validation_std_error
    short = curve.best("one-se")
    assert short.validation_error <= limit
    assert all(p.validation_error > limit for p in curve if p.n_terms < short.n_terms)
    assert curve.best() is short
    with pytest.raises(InputError, match="rule must be 'one-se' or 'best', got 'nope'"):
        curve.best("nope")
    with pytest.raises(InputError, match="best needs validation errors"):
        polysharp.path(X, y, degree=1, max_terms=2).best()


@pytest.mark.needs("pandas")
def test_table_and_frame():
    import pandas as pd

    X, y = law()
    frame = pd.DataFrame(X, columns=list("abcd"))
    curve = polysharp.path(frame, y, degree=2, max_terms=3, max_inputs=2, cv=3, random_state=0)
    rows = curve.to_frame()
    assert rows["max_terms"].tolist() == [1, 2, 3]
    assert rows["formula"][1] == str(curve[1].polynomial)
    assert rows["validation_error"].notna().all()
    lines = str(curve).splitlines()
    assert len(lines) == 4
    assert "validation RMSE" in lines[0]
    assert "optimal" in lines[1]
    bare = str(polysharp.path(X, y, degree=1, max_terms=2))
    assert "validation" not in bare


def test_sizes_that_no_rule_allows_are_left_out():
    X, y = law()
    curve = polysharp.path(X, y, degree=2, max_terms=3, include_terms=["x3", "x0 x1"], cv=3)
    assert [point.max_terms for point in curve] == [2, 3]
    assert all((0, 1) in point.polynomial.monomials for point in curve)


def test_proofs_of_points_can_be_checked():
    X, y = law()
    curve = polysharp.path(X, y, degree=2, max_terms=3, gamma=0.1)
    for point in curve:
        assert polysharp.verify(point.solution.proof, X, y)


def test_ctrl_c_keeps_the_sizes_that_are_done(monkeypatch):
    X, y = law()
    original, calls = LocalSearch.search, []

    def search(self, run):
        calls.append(run.problem.structure.max_terms)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, run)

    monkeypatch.setattr(LocalSearch, "search", search)
    curve = polysharp.path(X, y, degree=2, max_terms=6, engine="local-search")
    assert [point.max_terms for point in curve] == [1, 2, 3]


def test_ctrl_c_in_the_validation_keeps_the_sizes(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("polysharp.estimators.path.validated_sizes", interrupt)
    curve = polysharp.path(*law(), degree=2, max_terms=2, cv=3)
    assert [point.status for point in curve] == ["optimal", "optimal"]
    assert curve[0].validation_error is None


def test_when_the_time_is_up_sizes_come_from_local_search_alone(monkeypatch):
    """Each size would otherwise take its first relaxation, however many are left."""
    X, y = law()
    certain = polysharp.path(X, y, degree=2, max_terms=4, gamma=0.1)
    monkeypatch.setattr("polysharp.engines.tree.Tree.search", None)  # must not be called
    curve = polysharp.path(X, y, degree=2, max_terms=4, gamma=0.1, time_limit=1e-9)
    for late, point in zip(curve, certain, strict=True):
        assert late.bound <= point.objective <= late.objective
        assert late.bound > 0.0
        assert late.solution.stop == "the time limit was reached"


def test_wide_tables_are_triaged_and_say_so():
    X, y = law(n=60, p=6)
    curve = polysharp.path(X, y, degree=2, max_terms=2, n_candidates=3)
    assert {point.solution.scope for point in curve} == {"kept-inputs"}


@pytest.mark.parametrize("cv", [1, 10_000])
def test_splits_are_checked_before_the_search(cv, monkeypatch):
    monkeypatch.setattr("polysharp.estimators.path.certified_sizes", None)  # must not be called
    with pytest.raises(ValueError, match=r"cv must be at (least 2|most the number of rows)"):
        polysharp.path(*law(), degree=1, max_terms=1, cv=cv)


def test_bad_parameters_get_one_sentence():
    X, y = law()
    with pytest.raises(InputError, match="max_terms must be an integer of at least 1"):
        polysharp.path(X, y, max_terms=0)
    with pytest.raises(InputError, match="gamma must be 'auto' or a positive"):
        polysharp.path(X, y, gamma=0.0)
    with pytest.raises(TypeError, match="max_term"):
        polysharp.path(X, y, max_term=3)


def test_progress_is_shown_when_asked_for(capsys):
    X, y = law()
    polysharp.path(X, y, degree=1, max_terms=2, verbose=1)
    assert "sizes: 100 %" in capsys.readouterr().err


def test_ceilings_rise_with_the_size_and_stand_above_every_formula():
    """No formula compared here has an R2 above the ceiling of its size, or of a larger one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] * X[:, 1] - X[:, 2] + 0.5 * rng.standard_normal(40)
    curve = polysharp.path(X, y, degree=2, max_terms=6, gamma=0.1, engine="enumeration")
    ceilings = [curve.r2_ceilings()[None, size] for size in range(1, 7)]
    assert ceilings == sorted(ceilings)
    for point, ceiling in zip(curve, ceilings, strict=True):
        assert 1 - np.var(y - point.polynomial(X)) / np.var(y) <= ceiling + 1e-12
    better = curve.r2_ceilings({(None, 6): curve[0].bound})
    assert len(set(better.values())) == 1  # a bound for six terms holds for fewer
