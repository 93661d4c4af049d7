"""Budgets chosen by validation: errors equal those of refits from raw rows; conventions hold."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import (
    Budgets,
    BudgetSearch,
    Candidate,
    Engine,
    Folds,
    MemoryRows,
    Progress,
    Scores,
    Stop,
    TermRules,
    TimeBudget,
    Wanted,
    Workers,
    clamping_pays,
    home,
    inner,
    read_splits,
)

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.errors import InfeasibleError, InputError, TooLargeError

cut = inner("cut", "selection")


def law(n=90, p=4, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5
    return X, 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + noise * rng.standard_normal(n)


def search(**options):
    return SparsePolynomialRegressorCV(
        **{
            "degree": (1, 2),
            "max_terms": 3,
            "gamma": (0.1, 10.0),
            "cv": 3,
            "rule": "best",
            "engine": "local-search",
            "random_state": 0,
            **options,
        }
    )


@dataclass(frozen=True)
class Unproved(Engine):
    """An engine that keeps the model it is given and proves nothing about it."""

    name: ClassVar[str] = "unproved"

    def search(self, run):
        return Stop.TIME


def refitted_errors(model, X, y, splits, a, weights=None):
    """Fit the candidate to the raw rows of every training set, by enumeration."""
    shared = (
        "fit_intercept", "heredity", "include_terms", "include_inputs", "exclude_terms",
        "exclude_inputs", "max_interaction", "interaction_degree",
    )  # fmt: skip
    options = {name: getattr(model, name) for name in shared}
    options["clamp"] = bool(model.cv_results_["clamped"][a])
    params = model.cv_results_["params"][a]
    errors = []
    for train, test in splits:
        v = None if weights is None else weights[train]
        twin = SparsePolynomialRegressor(scale=False, engine="enumeration", **options, **params)
        residual = y[test] - twin.fit(X[train], y[train], v).predict(X[test])
        u = None if weights is None else weights[test]
        errors.append(np.sqrt(np.average(residual**2, weights=u)))
    return errors


RULES = {
    "plain": {},
    "constant": {"fit_intercept": False},
    "inputs": {"max_inputs": (None, 2, 1)},
    "heredity": {"heredity": "strong"},
    "weak": {"heredity": "weak", "max_inputs": 3},
    "included": {"include_terms": [(0, 2)], "max_terms": (2, 3), "degree": 2},
    "needed": {"include_inputs": [3]},
    "excluded": {"exclude_terms": [(0, 2)], "exclude_inputs": [3]},
    "additive": {"max_interaction": 1},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_errors_are_those_of_refits_from_raw_rows(rules):
    X, y = law()
    splits = list(KFold(3, shuffle=True, random_state=1).split(X))
    # Coding uses all rows, so that only unscaled, raw inputs are the same in every refit.
    model = search(scale=False, center=False, cv=splits, **rules).fit(X, y)
    results = model.cv_results_
    exact = 0
    for a in range(len(results["params"])):
        got = -np.array([results[f"split{v}_test_score"][a] for v in range(3)])
        expected = refitted_errors(model, X, y, splits, a)
        exact += np.allclose(got, expected, rtol=1e-6)
    # Local search may miss the best support of a training set now and then.
    assert exact >= 0.9 * len(results["params"])


def test_weights_enter_fits_and_errors():
    X, y = law()
    weights = np.random.default_rng(2).uniform(0.2, 3.0, len(y))
    splits = list(KFold(3).split(X))
    model = search(scale=False, center=False, cv=splits, max_terms=2).fit(X, y, weights)
    for a in range(len(model.cv_results_["params"])):
        got = [-model.cv_results_[f"split{v}_test_score"][a] for v in range(3)]
        expected = refitted_errors(model, X, y, splits, a, weights)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_an_absurd_prediction_counts_as_predict_makes_it():
    # A held-out row far from the others: the true law's quartic is right everywhere else, and for
    # models that clamp their inputs it is right enough there too.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (80, 1))
    y = X[:, 0] ** 4 - X[:, 0] + 0.02 * rng.standard_normal(80)
    X[5], y[5] = 6.0, 1.0  # a misprint
    train = np.setdiff1d(np.arange(80), np.arange(0, 80, 5))
    splits = [(train, np.arange(0, 80, 5))]
    plain, clamped = (
        search(degree=(1, 4), gamma=100.0, center=False, cv=splits, refit=False, clamp=clamp).fit(
            X, y
        )
        for clamp in (False, True)
    )
    assert (plain.best_params_["degree"], clamped.best_params_["degree"]) == (1, 4)
    assert -clamped.best_score_ < -plain.best_score_


def test_rows_of_weight_zero_are_no_rows():
    X, y = law()
    weights = np.ones(len(y))
    weights[::7] = 0.0
    splits = list(KFold(3).split(X))
    used = weights > 0
    place = np.cumsum(used) - 1
    rest = [tuple(place[rows[used[rows]]] for rows in pair) for pair in splits]
    a = search(cv=splits).fit(X, y, weights)
    b = search(cv=rest).fit(X[used], y[used])
    np.testing.assert_allclose(
        a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_the_law_is_found_and_refitted_with_a_certificate():
    X, y = law()
    model = search(gamma="auto", max_terms=6, rule="one-se", engine="auto").fit(X, y)
    assert model.best_params_["degree"] == 2
    assert model.best_params_["max_terms"] == 2
    assert set(model.polynomial_.monomials) == {(0, 2), (1,)}
    assert model.solution_.status == "optimal"
    assert model.refit_gamma_ == model.best_params_["gamma"]
    assert model.solution_.gamma == model.gamma_ <= model.refit_gamma_
    assert model.score(X, y) > 0.99
    twin = model.best_estimator_
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    chosen = twin.get_params() | {"gamma": twin.refit_gamma}
    assert {k: chosen[k] for k in model.best_params_} == model.best_params_


@pytest.mark.needs("pandas")
def test_results_are_laid_out_as_scikit_learn_does():
    import pandas as pd

    X, y = law()
    model = search(max_inputs=(None, 2)).fit(X, y)
    results = model.cv_results_
    count = 2 * 2 * 2 * 2 * 3  # degrees, gammas, centers, limits on inputs, sizes
    assert len(results["params"]) == count
    frame = pd.DataFrame(results)
    assert len(frame) == count
    scores = frame[[f"split{v}_test_score" for v in range(3)]].to_numpy()
    np.testing.assert_allclose(frame["mean_test_score"], scores.mean(axis=1))
    np.testing.assert_allclose(frame["std_test_score"], scores.std(axis=1))
    assert frame["rank_test_score"].min() == 1
    for name in ("degree", "gamma", "center", "max_inputs", "max_terms"):
        assert [p[name] for p in results["params"]] == list(results[f"param_{name}"])
    assert frame["rank_test_score"][model.best_index_] == 1
    assert model.best_score_ == frame["mean_test_score"].max()
    assert model.best_params_ == results["params"][model.best_index_]
    assert model.n_splits_ == 3
    assert (frame["mean_n_terms"] <= frame["param_max_terms"].astype(float)).all()
    limited = frame["param_max_inputs"] == 2
    assert (frame["mean_n_inputs"][limited] <= 2).all()


def test_the_model_shows_the_limit_that_was_given():
    X, y = law()
    model = search(time_limit=30.0).fit(X, y)
    assert model.best_estimator_.time_limit == 30.0


def test_one_standard_error_prefers_fewer_terms():
    X, y = law(noise=1.0)
    best = search(max_terms=8, rule="best").fit(X, y)
    short = search(max_terms=8, rule="one-se").fit(X, y)
    results = best.cv_results_
    a = best.best_index_
    error = results["std_test_score"][a] / np.sqrt(2)  # n_splits - 1
    limit = results["mean_test_score"][a] - error
    within = results["mean_test_score"] >= limit
    fewest = results["param_max_terms"][within].min()
    assert short.best_params_["max_terms"] == fewest < best.best_params_["max_terms"]
    assert short.best_score_ >= limit


@pytest.mark.parametrize(
    "cv",
    [KFold(4), TimeSeriesSplit(3), ShuffleSplit(3, random_state=0), [(range(60), range(60, 90))]],
    ids=["k-fold", "time series", "random", "one split"],
)
def test_splitters(cv):
    X, y = law()
    model = search(cv=cv, max_terms=2, gamma=10.0).fit(X, y)
    assert model.n_splits_ == (cv.get_n_splits(X) if hasattr(cv, "split") else 1)
    assert model.best_params_["degree"] == 2


@pytest.mark.parametrize(("rows", "folds"), [(90, 30), (7, 7), (100, 10), (2000, 10), (2001, 5)])
def test_small_tables_get_ten_folds_and_few_rows_several_drawings(rows, folds):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, 2)), rng.standard_normal(rows)
    model = search(cv="auto", degree=1, max_terms=1, gamma=1.0, center=False, refit=False)
    assert model.fit(X, y).n_splits_ == folds


def test_rows_without_weight_do_not_count_for_the_folds():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2100, 2)), rng.standard_normal(2100)
    weight = np.ones(2100)
    weight[:100] = 0.0
    model = search(cv="auto", degree=1, max_terms=1, gamma=1.0, center=False, refit=False)
    assert model.fit(X, y, weight).n_splits_ == 10
    assert model.fit(X, y).n_splits_ == 5


def test_groups_reach_the_splitter():
    X, y = law()
    groups = np.arange(len(y)) // 10
    model = search(cv=GroupKFold(3)).fit(X, y, groups=groups)
    given = search(cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(
        model.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"]
    )


def test_the_same_with_two_jobs_and_again():
    X, y = law()
    first = search().fit(X, y)
    for other in (search(n_jobs=2).fit(X, y), search().fit(X, y)):
        np.testing.assert_array_equal(
            first.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
        )
        assert str(first.polynomial_) == str(other.polynomial_)


def test_when_time_is_up_the_first_case_is_used_and_said_so():
    X, y = law()
    with pytest.warns(ConvergenceWarning, match="Degree 2 could not be compared"):
        model = search(time_limit=1e-9).fit(X, y)
    assert "degree 1 at most" in model.remarks_[0]
    compared = ~np.isnan(model.cv_results_["mean_test_score"])
    assert compared.sum() >= 3
    assert model.best_params_["degree"] == 1
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.needs("pandas")
def test_clone_pickle_pipeline_and_frames():
    import pandas as pd

    X, y = law()
    frame = pd.DataFrame(X, columns=["a", "b", "c d", "e"])
    model = search().fit(frame, pd.Series(y, name="load"))
    assert "`c d`" in str(model.polynomial_)
    assert str(model.polynomial_).startswith("load = ")
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "polynomial_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    pipeline = make_pipeline(MaxAbsScaler(), search()).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert "proven lower bound" in model._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": ()}, "degree must have at least one value"),
        ({"degree": (1, 0)}, "degree must be an integer of at least 1"),
        ({"max_terms": 0}, "max_terms must be an integer of at least 1"),
        ({"gamma": (1.0, "auto")}, "gamma must not mix 'auto'"),
        ({"gamma": -1.0}, "gamma must be 'auto' or a positive finite number"),
        ({"center": "both"}, "center must be True or False"),
        ({"rule": "two-se"}, "rule must be one of 'shortest', .* got 'two-se'"),
        ({"cv": 1}, "cv must be at least 2 folds, got 1"),
        ({"cv": "ten"}, "cv must be 'auto', a number of folds, a splitter or splits, got 'ten'"),
        ({"cv": [(range(90), range(0))]}, "cv must leave rows"),
        ({"max_inputs": 2.5}, "max_inputs must be None or an integer"),
        ({"time_limit": -1}, "time_limit must be None or a positive number"),
    ],
)
def test_bad_parameters_get_one_sentence(options, message):
    X, y = law()
    with pytest.raises(InputError, match=message):
        search(**options).fit(X, y)


def test_budgets_too_small_for_the_rules_are_nan_or_refused():
    X, y = law()
    model = search(include_terms=[(0, 2), (1,)], max_terms=3, center=False).fit(X, y)
    scores, sizes = (model.cv_results_[k] for k in ("mean_test_score", "param_max_terms"))
    # Degree 1 has no place for the term of degree 2.
    assert set(model.cv_results_["param_degree"]) == {2}
    np.testing.assert_array_equal(np.isnan(scores), sizes == 1)
    with pytest.raises(InfeasibleError):
        search(include_terms=[(0, 2), (1,)], max_terms=1).fit(X, y)


def deep_law(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] + 0.1 * rng.standard_normal(n)


def folded(X, y, degree, room, **rules):
    """Three folds whose moments may have so many monomials."""
    parts, plan = cut(read_splits(3, X, y), len(y))
    rules = TermRules(degree=degree, max_terms=4, **rules)
    return Folds(MemoryRows(X, y), parts, plan, rules, room=8 * room**2 * 6)


def compared(folds, degrees, seconds=np.inf):
    wanted = Wanted(degrees, (1.0,), (False,), Budgets((1, 2, 3)))
    return BudgetSearch(folds, wanted, Workers(), TimeBudget(), seconds)


def test_work_and_not_the_clock_says_what_is_compared():
    X, y = deep_law()
    short, long = (compared(folded(X, y, 3, 90), (1, 2, 3), s) for s in (1e-6, 1e6))
    assert {c.degree for c in short.run().candidates} == {1}
    assert "Degrees 2 and 3 could not be compared" in short.remarks[0]
    assert {c.degree for c in long.run().candidates} == {1, 2, 3}
    assert short.work() < long.work()


def test_a_required_term_beyond_the_listed_degrees_joins_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = X[:, 0] * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(60)
    folds = folded(X, y, 3, 40, include_terms=((1, 2, 3),))
    scores = compared(folds, (1, 2, 3)).run()
    assert {c.degree for c in scores.candidates} == {3}
    basis = folds.moments(False, 40, size=3, progress=Progress()).basis
    for support in scores.supports[1]:
        assert {(0, 1, 2), (1, 2, 3)} == {basis.monomials[j] for j in support}


def test_monomials_that_do_not_fit_are_screened():
    X, y = deep_law()
    scores = compared(folded(X, y, 3, 40), (1, 2, 3)).run()  # room for 40 of 83 monomials
    chosen = scores.candidates[scores.choose("shortest")]
    assert (chosen.degree, chosen.max_terms) == (3, 2)


@pytest.mark.parametrize(("room", "listed"), [(37, 1), (38, 2)])
def test_the_degrees_that_fill_three_quarters_of_the_room_are_listed(room, listed):
    X, y = deep_law()  # 28 monomials of degree 2
    moments = folded(X, y, 3, room).moments(False, room, size=4, progress=Progress())
    low = [len([m for m in moments.basis.monomials if len(m) == d]) for d in (1, 2)]
    assert (low == [6, 21]) == (listed == 2)
    assert len(moments.basis) <= room


def test_more_inputs_than_there_is_room_for_are_screened():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 300))
    y = X[:, 7] - 2.0 * X[:, 200] + 0.1 * rng.standard_normal(80)
    scores = compared(folded(X, y, 1, 50), (1,)).run()
    chosen = scores.choose("shortest")
    assert scores.candidates[chosen].max_terms == 2
    assert scores.errors[chosen].max() < 0.5


def test_a_split_names_its_monomials_from_its_training_rows():
    X, y = deep_law()
    other, folds = y.copy(), folded(X, y, 3, 40)
    held = folds.parts[folds.plan.test[0][0]]
    other[held] = 1000.0 * np.sin(np.arange(len(held)))
    seen = []
    for response in (y, other):
        moments = folded(X, response, 3, 40).moments(False, 40, size=3, progress=Progress())
        seen.append([{moments.basis.monomials[j] for j in pool} for pool in moments.pools])
    # Heads of the same lists, whose length depends on what the other splits name.
    assert seen[0][0] <= seen[1][0] or seen[1][0] <= seen[0][0]
    assert seen[0][1] - seen[1][1]
    assert seen[1][1] - seen[0][1]


def test_degrees_out_of_reach_are_left_out_or_refused():
    X, y = deep_law()
    search = compared(folded(X, y, 400, 30), (2, 400))
    assert {c.degree for c in search.run().candidates} == {2}
    assert "Degree 400 could not be compared" in search.remarks[0]
    with pytest.raises(TooLargeError, match="degree must have at most 30 monomials"):
        compared(folded(X, y, 400, 30), (400,)).run()


def long_product(n=150, noise=0.01):
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 3.0, (n, 3))
    y = 2.0 * X[:, 0] ** 3 * X[:, 1] ** 3 / X[:, 2] ** 2
    return X, y + noise * y.std() * rng.standard_normal(n)


def test_a_law_that_is_one_long_product_is_found_and_proved():
    X, y = long_product()
    found = SparsePolynomialRegressorCV(functions=("inverse",), cv=3, random_state=0).fit(X, y)
    assert found.best_params_["degree"] == 8
    assert found.polynomial_.monomials == ((0, 0, 0, 1, 1, 1, 5, 5),)
    assert found.solution_.status == "optimal"
    assert not found.remarks_
    # A list of degrees is all that is compared.
    given = found.set_params(degree=(4, 5), max_terms=5, refit=False).fit(X, y)
    assert given.best_params_["degree"] == 5


def test_degrees_that_bring_nothing_are_not_tried():
    rng = np.random.default_rng(1)
    X = rng.uniform(1.0, 3.0, (150, 3))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(150)
    found = SparsePolynomialRegressorCV(max_terms=10, cv=3, refit=False, random_state=0).fit(X, y)
    assert set(found.cv_results_["param_degree"]) <= {1, 2, 3, 4, 5}


def scores_of(errors, **differing):
    """Scores of candidates that differ in some parameters, from lists of errors."""
    base = {"degree": 1, "gamma": 1.0, "center": False, "max_inputs": None, "max_terms": 1}
    names = list(differing)
    values = zip(*differing.values(), strict=True)
    candidates = tuple(Candidate(**base | dict(zip(names, own, strict=True))) for own in values)
    ones = np.ones(len(errors))
    return Scores(candidates, np.array(errors), ones, ones, ((),) * len(errors), 1.0)


def test_the_shortest_is_one_that_validation_cannot_tell_from_the_best():
    errors = [[0.5, 0.6, 0.7], [0.30, 0.32, 0.31], [0.295, 0.321, 0.30]]
    assert scores_of(errors, max_terms=[1, 2, 9]).choose("shortest") == 1
    assert scores_of(errors, max_terms=[1, 2, 9]).choose("best") == 2


def test_means_are_taken_once_however_many_candidates_are_compared():
    scores = scores_of([[0.3, 0.31, 0.32]] * 300, max_terms=range(1, 301))
    assert scores.choose("shortest") == scores.choose("one-se") == 0
    assert scores.mean is scores.mean
    some = scores.select(np.arange(300) > 7)
    assert some.choose("best") == 8
    np.testing.assert_array_equal(np.isnan(some.mean), np.arange(300) <= 7)


def test_raw_inputs_unless_centring_saves_a_fifth_of_the_terms():
    alike = [[0.30, 0.32, 0.31], [0.295, 0.321, 0.30]]
    for raw, centred, chosen in ((10, 9, 0), (10, 8, 1), (3, 2, 0), (3, 1, 1)):
        scores = scores_of(alike, center=[False, True], max_terms=[raw, centred])
        assert scores.choose("shortest") == chosen


def test_errors_next_to_nothing_are_alike():
    errors = [[3e-5, 3e-5, 3e-5], [1e-9, 1e-9, 1e-9]]
    scores = scores_of(errors, max_terms=[3, 4], center=[False, True])
    assert scores.choose("shortest") == 0


def test_of_ridges_that_do_as_well_the_strongest_is_taken():
    errors = [[0.5, 0.5, 0.6], [0.306, 0.29, 0.30], [0.30, 0.295, 0.301], [0.3, 0.295, 0.3]]
    assert scores_of(errors, gamma=[0.1, 1.0, 10.0, 100.0]).choose("shortest") == 1


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_laws_come_out_in_raw_inputs(noise):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (500, 2))
    y = 3.0 * X[:, 0] - X[:, 0] ** 2 - 2.0 * X[:, 0] * X[:, 1]
    y += noise * y.std() * rng.standard_normal(500)
    model = SparsePolynomialRegressorCV(random_state=0).fit(X, y)
    assert model.polynomial_.shifts is None
    assert set(model.polynomial_.monomials) == {(0,), (0, 0), (0, 1)}
    tolerance = 1e-4 if noise == 0.0 else 0.05
    np.testing.assert_allclose(model.polynomial_.coefficients, [3.0, -1.0, -2.0], atol=tolerance)


def test_inputs_are_clamped_to_the_rows_seen():
    X, y = law()
    model = search(clamp=True).fit(X, y)
    far = X.copy()
    far[:, 0] += 100.0
    np.testing.assert_array_equal(model.predict(far), model.predict(np.minimum(far, X.max(axis=0))))
    assert search(clamp=False).fit(X, y).polynomial_.ranges is None


def test_no_warning_for_a_refit_that_is_not_proved():
    X, y = law(noise=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = search(engine=Unproved(), max_terms=4, gap_tol=0.0).fit(X, y)
    assert model.solution_.status == "feasible"
    with pytest.warns(ConvergenceWarning, match="not proved"):
        clone(model.best_estimator_).fit(X, y)


def test_every_parameter_is_documented():
    for name in SparsePolynomialRegressorCV().get_params():
        assert name in SparsePolynomialRegressorCV.__doc__


@parametrize_with_checks(
    [
        search(max_terms=2, center=False, gamma=10.0),
        search(degree=1, max_terms=2, max_inputs=(None, 1), rule="one-se", gamma="auto"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_without_a_refit_there_is_a_choice_and_no_model():
    X, y = law()
    both = search().fit(X, y)
    alone = search(refit=False).fit(X, y)
    assert alone.best_params_ == both.best_params_
    assert alone.n_features_in_ == 4
    assert not hasattr(alone, "polynomial_")
    with pytest.raises(NotFittedError):
        alone.predict(X)
    again = both.set_params(refit=False).fit(X, y)  # the model of the first fit is gone
    assert not hasattr(again, "best_estimator_")
    assert not hasattr(again, "polynomial_")
    with pytest.raises(InputError, match="refit must be True or False, got 'yes'"):
        search(refit="yes").fit(X, y)


def test_a_refit_that_is_worse_than_validation_is_tried_again_and_said(monkeypatch):
    X, y = law(noise=0.3)
    solve = home("code_table").solve
    calls = []

    def spoiled(coded, n_candidates, context, starts=(), **options):
        calls.append(context.engine.name)
        if len(calls) == 1:  # as if the search had found next to nothing
            rules = replace(coded.rules, max_terms=1)
            return solve(replace(coded, rules=rules), n_candidates, context, (), **options)
        return solve(coded, n_candidates, context, starts, **options)

    monkeypatch.setattr(home("SparsePolynomialRegressor"), "solve", spoiled)
    model = search(gamma="auto", max_terms=4, rule="best", engine="auto").fit(X, y)
    assert calls == ["tree", "local-search"]
    assert {(0, 2), (1,)} <= set(model.polynomial_.monomials)
    assert not any("rows of the fit" in remark for remark in model.remarks_)


def test_no_candidate_is_chosen_that_is_longer_and_worse_than_another():
    sizes, splits = (8, 10, 11, 12, 20), 10
    rng = np.random.default_rng(0)
    steady = rng.normal(0.0, 0.01, splits)
    errors = np.array([1.05 + steady, 1.04 + steady, 1.04 + steady, 1.06 + steady, 1.0 + steady])
    errors[3] += np.where(np.arange(splits) == 0, 0.4, -0.4 / 9)  # passes by the noise of a split
    candidates = tuple(Candidate(2, 1.0, False, None, size) for size in sizes)
    n = np.array(sizes, float)
    scores = Scores(candidates, errors, n, n, ((),) * 5, 2.0)
    assert 3 in scores.indistinct()
    chosen = scores.candidates[scores.choose("shortest")].max_terms
    assert chosen != 12


def test_few_rows_get_a_linear_formula_unless_another_is_clearly_better():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 6))
    noise = X @ [1.0, 0.8, 0.6, 0.5, 0.4, 0.3] + 2.0 * rng.standard_normal(40)
    model = SparsePolynomialRegressorCV().fit(X, noise)
    assert model.best_params_["degree"] == 1
    assert len(model.polynomial_) == 6
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(40)
    law_found = SparsePolynomialRegressorCV().fit(X, y)
    assert set(law_found.polynomial_.monomials) == {(0, 1), (2,)}


def test_inputs_are_clamped_where_held_out_rows_ask_for_it():
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.0, (300, 1))
    y = np.clip(X[:, 0], -2.0, 2.0) ** 3 + 0.1 * rng.standard_normal(300)
    settings = {"degree": (2, 3), "center": False, "max_terms": 3}
    clamped = SparsePolynomialRegressorCV(**settings).fit(X, y)
    assert clamped.polynomial_.ranges is not None
    far = np.array([[1e4]])
    assert abs(clamped.predict(far)[0]) < 1e3 * abs(y).max()
    free = SparsePolynomialRegressorCV(**settings, clamp=False).fit(X, y)
    assert free.polynomial_.ranges is None
    straight = SparsePolynomialRegressorCV(degree=1).fit(X, X[:, 0] + 0.1 * y)
    assert straight.polynomial_.ranges is None


def test_what_validation_cannot_tell_from_free_inputs_is_clamped():
    rng = np.random.default_rng(0)
    free = 1.0 + 0.1 * rng.random((4, 10))
    free[3] = 1e-6  # the law
    clamped = free.copy()
    clamped[0] += np.where(np.arange(10) == 0, 0.05, -0.004)
    clamped[1] += 0.05 + 0.01 * rng.random(10)
    clamped[3] = 1e-5
    assert clamping_pays(free, clamped, 1.0, risky=True).tolist() == [True, False, False, False]
    assert clamping_pays(clamped, free, 1.0)[1]
    assert not clamping_pays(free, clamped, 1.0).any()


def test_formulas_in_inputs_of_heavy_tails_are_clamped():
    rng = np.random.default_rng(2)
    X = np.exp(1.2 * rng.standard_normal((150, 3)))
    y = np.tanh(X[:, 0] / 3.0) * X[:, 1] ** 0.3 + 0.05 * rng.standard_normal(150)
    model = SparsePolynomialRegressorCV(degree=(1, 2, 3, 4), center=False).fit(X, y)
    assert model.polynomial_.degree > 1
    assert model.polynomial_.ranges is not None
    free = SparsePolynomialRegressorCV(degree=(1, 2, 3, 4), center=False, clamp=False).fit(X, y)
    assert model.best_score_ > free.best_score_


def test_few_rows_let_a_short_formula_pass_and_a_long_one_prove_itself():
    rng = np.random.default_rng(0)
    noise = 0.02 * rng.standard_normal((3, 10))
    errors = 1.0 + noise + np.array([[0.0], [-0.02], [-0.02]])
    candidates = (Candidate(1, 1.0, False, None, 4), Candidate(2, 1.0, False, None, 2))
    candidates += (Candidate(3, 1.0, False, None, 9),)
    sizes = np.array([4.0, 2.0, 9.0])
    scores = Scores(candidates, errors, sizes, sizes, ((),) * 3, 2.0)
    assert scores.choose("shortest", nats=np.array([0.2, 0.1, 1.0])) == 1
    assert scores.choose("shortest", nats=np.array([0.2, 1.0, 1.0])) == 0


def test_the_linear_formula_of_few_rows_has_a_tuned_ridge():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    y = X.sum(axis=1) + 12.0 * rng.standard_normal(40)
    model = SparsePolynomialRegressorCV(degree=1).fit(X, y)
    assert model.best_params_["max_terms"] == 12
    assert 1.0 / model.best_params_["gamma"] > 40.0  # stronger than the usual grid has


def test_limits_on_many_inputs_are_compared_by_themselves():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12))
    y = X[:, 0] * X[:, 1] + X[:, 2] ** 2 - X[:, 3] + 0.3 * rng.standard_normal(200)
    options = {"degree": 2, "center": False, "max_terms": 6, "time_limit": 20.0}
    model = SparsePolynomialRegressorCV(**options).fit(X, y)
    assert model.best_params_["max_inputs"] == 5
    assert {None, 10, 5} == set(model.cv_results_["param_max_inputs"].tolist())
    assert model.solution_.status == "optimal"
    free = SparsePolynomialRegressorCV(**options, max_inputs=None).fit(X, y)
    assert set(free.cv_results_["param_max_inputs"].tolist()) == {None}


def test_a_function_that_would_help_is_named_and_not_used():
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 5.0, (200, 3))
    y = X[:, 0] / (X[:, 1] * X[:, 2])
    y += 0.02 * y.std() * rng.standard_normal(200)
    model = search(degree=(1, 2, 3), max_terms=8).fit(X, y)
    (hint,) = model.hints_
    assert hint.startswith("--functions inverse (functions=['inverse']) lowers the error")
    assert "with 1 term of degree 3 at most" in hint
    assert not model.polynomial_.library.applied
    some = X * [1.0, 1.0, -1.0]
    some[0, 0] = 0.0  # neither 1 / x0 nor log x0
    (hint,) = search(degree=(1, 2, 3), max_terms=8).fit(some, y).hints_
    assert "'1=inverse' '2=inverse' (functions={1: ['inverse'], 2: ['inverse']})" in hint
    assert search().fit(*law()).hints_ == ()
    assert search(degree=1, functions=["inverse"]).fit(X, y).hints_ == ()


def test_an_interrupt_while_functions_are_tried_keeps_the_model(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(home("SparsePolynomialRegressorCV"), "try_functions", interrupted)
    X, y = law()
    model = search().fit(X + 10.0, y)
    assert model.hints_ == ()
    assert len(model.polynomial_)


def test_the_same_call_gives_the_same_formula():
    X, y = law(noise=1.0)
    one, two = (SparsePolynomialRegressorCV(time_limit=60.0).fit(X, y) for _ in range(2))
    assert str(one.polynomial_) == str(two.polynomial_)


def test_a_search_keeps_a_formula_of_every_size_near_its_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    y = 2.0 * X[:, 0] * X[:, 1] - X[:, 2] ** 2 + X[:, 3] + 0.3 * rng.standard_normal(120)
    search = SparsePolynomialRegressorCV(degree=2, max_terms=6, gamma=1.0, center=False).fit(X, y)
    formulas = {n_terms: formula for n_terms, _, formula in search.formulas_}
    own = search.polynomial_
    assert formulas[len(own)] == own
    assert set(formulas) == set(range(1, 7))
    assert all(len(formula) == size for size, formula in formulas.items())
    errors = [np.mean((y - formulas[size](X)) ** 2) for size in sorted(formulas)]
    assert errors == sorted(errors, reverse=True)
    allowed = np.array(search.cv_results_["param_max_terms"], dtype=int)
    for size, error, _ in search.formulas_:
        assert error == -np.nanmax(search.cv_results_["mean_test_score"][allowed == size])
    np.testing.assert_array_equal(search.coef_, own.coefficients)
