"""The consensus of models that do equally well, against fits from raw rows by enumeration."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

from polysharp import (
    InputError,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    save_model,
    verify,
)
from polysharp.cli import main
from polysharp.data.rows import MemoryRows
from polysharp.estimators import regressor_cv as cross_validation
from polysharp.moments.folds import Plan
from polysharp.monomials.basis import Basis
from polysharp.monomials.term_rules import TermRules
from polysharp.report import write_report
from polysharp.selection.consensus import ERRORS, SHARE, find_consensus
from polysharp.selection.folds import Folds
from polysharp.selection.parallel import Deadline, Workers
from polysharp.selection.search import BudgetSearch, Wanted
from polysharp.selection.split_models import Budgets


def law(n=90, p=4, seed=0, noise=2.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5
    y = 1.0 + 2.0 * X[:, 0] * X[:, 2] - X[:, 1] + 0.3 * X[:, 3] + noise * rng.standard_normal(n)
    return X, y


def search(**options):
    return SparsePolynomialRegressorCV(
        **{
            "degrees": (1, 2),
            "max_terms": 3,
            "gammas": (0.1, 10.0),
            "centers": False,
            "cv": list(KFold(4, shuffle=True, random_state=1).split(law()[0])),
            "rule": "consensus",
            "scale": False,  # coding uses all rows; unscaled, it is the same in every refit
            "engine": "enumeration",
            "clamp": False,
            "random_state": 0,
            **options,
        }
    )


def members_of(model):
    """Return the parameters of the candidates that do as well as the best, one per model."""
    results = model.cv_results_
    plain = np.flatnonzero(~results["consensus"])
    errors = -np.array([results[f"split{v}_test_score"] for v in range(model.n_splits_)]).T[plain]
    best = errors[np.nanargmin(errors.mean(axis=1))]
    root = np.sqrt(errors.shape[1])
    room = np.minimum((errors - best).std(axis=1, ddof=1), best.std(ddof=1)) * ERRORS / root
    close = plain[np.flatnonzero((errors - best).mean(axis=1) <= room)]
    seen, members = set(), []
    for a in close:
        key = tuple(results[f"split{v}_test_score"][a] for v in range(model.n_splits_))
        if key not in seen:
            seen.add(key)
            members.append(results["params"][a])
    return members


def twin(model, **params):
    shared = ("fit_intercept", "heredity", "include_terms", "exclude_inputs", "max_interaction")
    options = {name: getattr(model, name) for name in shared}
    return SparsePolynomialRegressor(scale=False, engine="enumeration", **options, **params)


def fits_of(model, X, y, weights=None):
    return [twin(model, **params).fit(X, y, weights) for params in members_of(model)]


def mean_of_members(model, X, y, weights=None):
    return np.mean([fit.predict(X) for fit in fits_of(model, X, y, weights)], axis=0)


def projected(model, X, y, params):
    """Return the polynomial in the monomials of the members that is nearest to their mean."""
    fits = fits_of(model, X, y)
    used = {m for fit in fits for m in fit.polynomial_.monomials}
    every = Basis.full(X.shape[1], params["degree"]).monomials
    others = [m for m in every if m not in used and (m or not model.fit_intercept)]
    options = {"exclude_terms": others, "exclude_inputs": None}
    towards = np.mean([fit.predict(X) for fit in fits], axis=0)
    return twin(model, **params).set_params(**options).fit(X, towards)


RULES = {
    "plain": {},
    "constant": {"fit_intercept": False},
    "inputs": {"max_inputs": (None, 2)},
    "heredity": {"heredity": "strong"},
    "included": {"include_terms": [(1,)]},
    "excluded": {"exclude_inputs": [0]},
    "additive": {"max_interaction": 1},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_projections_are_those_of_the_mean_of_the_members(rules):
    X, y = law()
    model = search(**rules).fit(X, y)
    results = model.cv_results_
    assert len(members_of(model)) > 1
    np.testing.assert_allclose(model.reference_(X), mean_of_members(model, X, y), rtol=1e-6)
    exact = []
    for a in np.flatnonzero(results["consensus"]):
        params = results["params"][a]
        assert params["gamma"] == pytest.approx(1.0 / (SHARE * len(y)))
        for v, (train, test) in enumerate(model.cv):
            fit = projected(model, X[train], y[train], params)
            residual = y[test] - fit.predict(X[test])
            got = -results[f"split{v}_test_score"][a]
            exact.append(np.isclose(got, np.sqrt(np.mean(residual**2)), rtol=1e-5))
    # Local search may miss the best support of a training set now and then.
    assert np.mean(exact) >= 0.9


def test_the_model_is_the_polynomial_nearest_to_the_reference():
    X, y = law()
    model = search().fit(X, y)
    row = model.best_index_
    assert model.cv_results_["consensus"][row]
    mine = model.cv_results_["mean_test_score"][model.cv_results_["consensus"]]
    assert model.best_score_ == mine.max()
    nearest = twin(model, **model.best_params_).fit(X, model.reference_(X))
    assert model.polynomial_.monomials == nearest.polynomial_.monomials
    assert model.solution_.objective == pytest.approx(nearest.solution_.objective)
    np.testing.assert_allclose(model.predict(X), nearest.predict(X))


def test_its_proof_is_about_the_reference():
    X, y = law()
    model = search(engine="tree").fit(X, y)
    assert verify(model.solution_.proof, X, model.reference_(X))
    assert not verify(model.solution_.proof, X, y)


def test_weights_enter_the_mean():
    X, y = law()
    weights = np.random.default_rng(2).uniform(0.2, 3.0, len(y))
    model = search().fit(X, y, weights)
    expected = mean_of_members(model, X, y, weights)
    np.testing.assert_allclose(model.reference_(X), expected, rtol=1e-6)
    assert not np.allclose(expected, mean_of_members(model, X, y), rtol=1e-3)


def test_the_mean_is_over_all_rows_whatever_the_splits():
    X, y = law()
    splits = list(ShuffleSplit(4, test_size=0.3, train_size=0.4, random_state=0).split(X))
    model = search(cv=splits).fit(X, y)
    np.testing.assert_allclose(model.reference_(X), mean_of_members(model, X, y), rtol=1e-6)


def test_centred_and_scaled_inputs_give_the_mean_in_the_users_units():
    X, y = law()
    X = 100.0 * X + 30.0
    model = search(scale=True, centers=True, gammas="auto").fit(X, y)
    fits = [
        SparsePolynomialRegressor(engine="enumeration", **params).fit(X, y)
        for params in members_of(model)
    ]
    expected = np.mean([fit.predict(X) for fit in fits], axis=0)
    np.testing.assert_allclose(model.reference_(X), expected, rtol=1e-6)


def test_a_single_split_has_no_standard_errors_and_one_member():
    X, y = law()
    splits = [(np.arange(60), np.arange(60, 90))]
    best = search(cv=splits, rule="best").fit(X, y)
    model = search(cv=splits).fit(X, y)
    np.testing.assert_allclose(model.reference_(X), best.predict(X), rtol=1e-6)


@pytest.mark.needs("pandas")
def test_names_and_the_other_rules_are_kept():
    import pandas as pd

    X, y = law()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = search(scale=True).fit(frame, pd.Series(y, name="yield"))
    assert model.polynomial_.response == model.reference_.response == "yield"
    assert model.best_estimator_.polynomial_.response == "yield"
    assert str(model.polynomial_).startswith("yield = ")
    other = clone(model).set_params(rule="best").fit(frame, y)
    assert other.reference_ is None
    assert not other.cv_results_["consensus"].any()
    model.set_params(rule="one-se").fit(frame, y)
    assert model.reference_ is None


def test_refit_false_still_gives_the_reference():
    X, y = law()
    model = search(refit=False).fit(X, y)
    assert len(model.reference_(X)) == len(y)
    assert not hasattr(model, "polynomial_")


def no_polynomial(X):
    a, b, c, d = X.T
    return np.sin(3 * a) + b * np.exp(c) + 1 / (2 + d + a * b)


def test_it_predicts_new_rows_better_than_the_best():
    # Many polynomials do about equally well here, and luck picks the best of them.
    ratios = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, far = rng.uniform(-1, 1, (150, 4)), rng.uniform(-1, 1, (2000, 4))
        y = no_polynomial(X) + 0.1 * rng.standard_normal(150)
        errors = []
        for rule in ("consensus", "best"):
            model = SparsePolynomialRegressorCV(
                degrees=4,
                max_terms=50,
                rule=rule,
                engine="local-search",
                time_limit=None,
                random_state=0,
            )
            errors.append(np.std(model.fit(X, y).predict(far) - no_polynomial(far)))
        ratios.append(errors[0] / errors[1])
    assert np.mean(ratios) < 0.98


def test_files_and_reports_say_what_the_model_was_fitted_to(tmp_path):
    X, y = law()
    model = search(scale=True).fit(X, y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.reference_(X), model.reference_(X))
    for one in (model, again):
        write_report(one, X, y, tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "errors are measured against that mean" in text
        assert "nearest to the mean" in text
        assert "model.fit(X, reference)" in text
        assert "the certificate is about that mean" in one._repr_html_inner()
    assert "model.fit(X, y)" not in text  # a file says nothing of a search
    assert again.fit(X, y).reference_ is None
    document = json.loads((tmp_path / "model.json").read_text())
    document["reference"]["terms"][0]["coefficient"] = "many"
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"reference\.terms\[0\]\.coefficient"):
        load_model(tmp_path / "model.json")


def test_no_term_is_in_the_model_that_is_in_no_member():
    # The splits have other members' terms than all rows have: a size they like may be too long.
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (150, 4))
    rng.uniform(-1, 1, (2000, 4))
    y = no_polynomial(X) + 0.1 * rng.standard_normal(150)
    model = SparsePolynomialRegressorCV(
        degrees=(3, 4),
        max_terms=50,
        gammas=(0.7, 7.0, 70.0),
        centers=False,
        cv=RepeatedKFold(n_splits=5, n_repeats=4, random_state=0),
        rule="consensus",
        engine="local-search",
        random_state=0,
    ).fit(X, y)
    assert set(model.polynomial_.monomials) <= set(model.reference_.monomials)
    own = model.cv_results_["consensus"]
    assert max(model.cv_results_["param_max_terms"][own]) <= len(model.reference_)


def test_limits_that_there_is_no_time_for_are_left_out_with_a_warning(monkeypatch):
    X, y = law()
    settings = {"max_inputs": (1, 2, None), "time_limit": 60.0}
    monkeypatch.setattr(cross_validation, "CONSENSUS_SHARE", -100.0)  # long ago
    with pytest.warns(ConvergenceWarning, match="1 of 3 limits on the number of inputs"):
        model = search(**settings).fit(X, y)
    results = model.cv_results_
    own = results["consensus"]
    reached = np.array([k is None for k in results["param_max_inputs"][own]])
    assert np.isfinite(results["mean_test_score"][own][reached]).all()
    assert np.isnan(results["mean_test_score"][own][~reached]).all()
    assert model.best_params_["max_inputs"] is None


@pytest.mark.parametrize("cubic", [False, True])
def test_degrees_with_screened_monomials_are_not_averaged(cubic):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    y = X[:, 3] - X[:, 4] + 0.5 * rng.standard_normal(120)
    if cubic:
        y += X[:, 0] * X[:, 1] * X[:, 2]
    parts = [np.arange(a, 120, 5) for a in range(5)]
    rules, room = TermRules(degree=3, max_terms=5), 8 * 40**2 * 10
    folds = Folds(MemoryRows(X, y), parts, Plan.k_fold(5), rules, room=room)
    budgets = Budgets((1, 2, 3, 4, 5))
    wanted = Wanted((1, 2, 3), None, (False,), budgets)
    search = BudgetSearch(folds, wanted, Workers(), Deadline(), keep=True)
    found = find_consensus(search.run(), search.moments, budgets, (None,), Workers())
    assert (found is None) == cubic
    if found is not None:
        assert found.moments.basis.degree < 3


@pytest.mark.needs("pandas")
def test_the_command_line_says_what_the_certificate_is_about(tmp_path, capsys):
    import pandas as pd

    X, y = law()
    table = tmp_path / "table.csv"
    pd.DataFrame(X, columns=list("abcd")).assign(z=y).to_csv(table, index=False)
    file = str(tmp_path / "model.json")
    options = ["--max-terms", "3", "--cv", "3", "--degree", "1,2", "--quiet", "-o", file]
    for rule, said in (("consensus", True), ("best", False)):
        assert main(["fit", str(table), "--target", "z", "--rule", rule, *options]) == 0
        assert main(["info", file]) == 0
        printed = capsys.readouterr().out
        assert printed.count("the certificate is about that mean, not about z") == 2 * said
