"""Several responses with one support: against enumeration, and behind scikit-learn's interface."""

import json
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    MultiTaskSparsePolynomialRegressorCV,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    save_model,
)
from polysharp.cli import main
from polysharp.data.rows import MemoryRows
from polysharp.engines.base import Limits
from polysharp.engines.joint import JointTree
from polysharp.engines.joint.supports import every_size
from polysharp.errors import InputError
from polysharp.moments.joint import JointMoments
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.joint import JointProblem
from polysharp.problem.problem import Problem


def joint_problem(seed):
    """A random problem of up to three responses under random rules."""
    rng = np.random.default_rng(seed)
    p, n, count = int(rng.integers(2, 5)), int(rng.integers(4, 40)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    basis = Basis.full(p, 2, constant=False)
    heredity = rng.choice([None, "weak", "strong"])
    structure = Structure.of_basis(
        basis,
        int(rng.integers(1, 4)),
        int(rng.integers(1, p + 1)),
        heredity=None if heredity == "None" else heredity,
        required_terms=[(0,)] if rng.random() < 0.3 else [],
    )
    M = basis.evaluate(X)
    Y = rng.standard_normal((count, n)) + M[:, :2] @ rng.standard_normal(2)
    lam, G = 10.0 ** rng.uniform(-4, 2), M.T @ M
    return JointProblem.of([Problem.dense(G, M.T @ y, float(y @ y), lam, structure) for y in Y])


def least_cost(problem):
    """The referee: every support."""
    structure = problem.structure
    supports = (
        np.array(chosen, dtype=np.intp)
        for size in range(structure.max_terms + 1)
        for chosen in combinations(range(problem.size), size)
    )
    return min(problem.refit(S).objective for S in supports if structure.allows(S))


def agrees_with_enumeration(seed):
    problem = joint_problem(seed)
    least = least_cost(problem)
    solution = JointTree().solve(problem, limits=Limits(20.0, 1e-6))
    assert solution.bound <= least * (1.0 + 1e-12)
    assert_allclose(solution.objective, least, rtol=1e-6, atol=1e-12 * problem.yy)
    assert solution.gap <= 1e-6 or solution.objective - solution.bound <= 1e-9 * problem.yy


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_agrees_with_enumeration(seed):
    agrees_with_enumeration(seed)


@pytest.mark.slow
def test_the_tree_agrees_with_enumeration_a_thousand_times():
    for seed in range(1000, 2000):
        agrees_with_enumeration(seed)


def test_one_response_is_the_plain_problem():
    problem = joint_problem(3)
    own = problem.responses[0]
    alone = JointProblem.of([own])
    S = own.structure.best_linear(own.q**2)
    assert_allclose(alone.refit(S).objective, own.refit(S).objective)
    assert_allclose(alone.dual_bound(alone.refit(S)), own.dual_bound(own.refit(S)), rtol=1e-9)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    terms = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])
    Y = terms @ np.array([[3.0, -2.0, 1.0], [100.0, 0.0, 5.0]]) + [1.0, 2.0, 3.0]
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


def test_responses_share_terms_and_keep_their_units(rows):
    X, Y = rows
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e3).fit(X, Y)
    assert {polynomial.term_names for polynomial in model.polynomials_} == {("x2", "x0 x1")}
    assert model.solution_.status == "optimal"
    assert_allclose(model.predict(X), Y, atol=0.4)
    assert_allclose(model.intercept_, [1.0, 2.0, 3.0], atol=0.05)
    assert model.score(X, Y) > 0.99


def test_the_terms_are_those_that_serve_all_responses_together():
    """Each response alone would choose another term."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 3))
    Y = np.column_stack([X[:, 0] + 0.9 * X[:, 1], X[:, 2] + 0.9 * X[:, 1]])
    model = MultiTaskSparsePolynomialRegressor(degree=1, max_terms=1, gamma=10.0).fit(X, Y)
    assert model.get_feature_names_out().tolist() == ["x1"]
    for t, own in enumerate(("x0", "x2")):
        alone = SparsePolynomialRegressor(degree=1, max_terms=1, gamma=10.0).fit(X, Y[:, t])
        assert alone.get_feature_names_out().tolist() == [own]


def test_names_of_data_frames_are_kept(rows):
    pandas = pytest.importorskip("pandas")
    X, Y = rows
    frame = pandas.DataFrame(X, columns=list("abcd"))
    responses = pandas.DataFrame(Y, columns=["speed", "heat", "mass"])
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma="auto")
    first = model.fit(frame, responses).polynomials_[0]
    assert str(first).startswith("speed = ")
    assert first.term_names == ("c", "a b")


def test_weights_count_rows(rows):
    X, Y = rows
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=3, gamma=1.0)
    weighted = model.fit(X, Y, sample_weight=weights).predict(X)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_supports_of_every_size_are_allowed_and_fall_in_cost(seed):
    """Seeds with rules take the one way, those without the other."""
    problem = joint_problem(seed)
    structure = problem.structure
    found = [S for S in every_size(problem, lambda: False) if len(S)]
    costs = [problem.refit(S).objective for S in found]
    assert all(structure.allows(S) for S in found)
    assert all(later <= cost * (1.0 + 1e-9) for cost, later in pairwise(costs))
    assert costs[-1] <= 1.2 * least_cost(problem)


def test_the_first_term_is_the_best_one():
    problem = next(own for own in map(joint_problem, range(99)) if own.structure.plain)
    every = [problem.refit(np.array([j])).objective for j in range(problem.size)]
    assert every_size(problem, lambda: False)[0].tolist() == [int(np.argmin(every))]


def test_moments_of_several_responses_are_those_of_each():
    rng = np.random.default_rng(5)
    X, Y, weights = rng.standard_normal((60, 3)), rng.standard_normal((2, 60)), rng.random(60)
    basis = Basis.full(3, 2)
    parts = [
        JointMoments.of(
            accumulate(basis, X[some], Y[0, some], weights[some]),
            MemoryRows(X[some], Y[0, some], weights[some]),
            Y[:, some],
            basis,
        )
        for some in (np.arange(25), np.arange(25, 60))
    ]
    joint = JointMoments.merged(parts)
    for t, y in enumerate(Y):
        alone = accumulate(basis, X, y, weights)
        for centred in (True, False):
            _, q, yy = alone.normal_equations(centred=centred)
            found = joint.correlations(centred=centred)
            assert_allclose(found[0][t], q, rtol=1e-10, atol=1e-12)
            assert_allclose(found[1][t], yy)
        assert_allclose(joint.response(t).y_mean, alone.y_mean)


def test_budgets_are_chosen_for_all_responses_together(rows):
    X, Y = rows
    search = MultiTaskSparsePolynomialRegressorCV(degrees=(1, 2), max_terms=4, random_state=0)
    search.fit(X, Y)
    assert search.get_feature_names_out().tolist() == ["x2", "x0 x1"]
    assert search.best_params_["degree"] == 2
    assert search.solution_.status == "optimal"
    own = MultiTaskSparsePolynomialRegressor(**search.best_params_).fit(X, Y)
    assert_allclose(search.predict(X), own.predict(X))
    assert -0.2 < search.best_score_ < 0.0  # in standard deviations of the responses


def test_one_column_is_searched_like_one_response(rows):
    X, Y = rows
    settings = {"degrees": 2, "max_terms": 3, "random_state": 0}
    alone = SparsePolynomialRegressorCV(**settings).fit(X, Y[:, 0] / Y[:, 0].std())
    joint = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, :1])
    assert joint.best_params_ == alone.best_params_
    assert_allclose(joint.best_score_, alone.best_score_)


def test_equal_responses_are_searched_like_one(rows):
    """What is found for two copies of a response is what is found for one."""
    X, Y = rows
    settings = {"degrees": 2, "max_terms": 3, "random_state": 0}
    one = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, :1])
    two = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, [0, 0]])
    assert two.best_params_ == one.best_params_
    assert_allclose(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])


def test_models_go_through_files(rows, tmp_path):
    X, Y = rows
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e3).fit(X, Y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert isinstance(again, MultiTaskSparsePolynomialRegressor)
    assert (again.predict(X) == model.predict(X)).all()
    assert again.solution_.status == "optimal"
    assert_allclose(again.solution_.coefficients, model.solution_.coefficients)
    document = json.loads((tmp_path / "model.json").read_text())
    document["responses"][1]["terms"][0]["inputs"] = [3]
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="responses"):
        load_model(tmp_path / "model.json")


@pytest.fixture
def table(rows, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    X, Y = rows
    frame = pandas.DataFrame(np.column_stack([X, Y]), columns=[*"abcd", "heat", "flow", "p, q"])
    monkeypatch.chdir(tmp_path)
    frame.to_csv("t.csv", index=False)
    return frame


FIT = ["fit", "t.csv", "-q", "--degree", "2", "--gamma", "1000"]


def test_several_targets_on_the_command_line(table, capsys):
    pandas = pytest.importorskip("pandas")
    given = [*FIT, "--target", 'heat,flow,"p, q"', "--max-terms", "2", "-o", "m.json"]
    assert main([*given, "--holdout", "0.2"]) == 0
    said = capsys.readouterr().out
    assert "targets heat, flow, p, q" in said
    for name in ("heat", "flow", "p, q"):
        assert f"\n{name} = " in said
        assert f"{name}: RMSE" in said
    assert "the sum of their objectives" in said
    assert "mean R2" in said
    assert main(["predict", "m.json", "t.csv", "-o", "p.csv"]) == 0
    written = pandas.read_csv("p.csv")
    assert list(written.columns) == [f"prediction_{name}" for name in ("heat", "flow", "p, q")]
    assert_allclose(written.to_numpy(), load_model("m.json").predict(table[list("abcd")]))
    said = capsys.readouterr()
    assert said.err.count("against the column") == 3
    assert main(["info", "m.json"]) == 0
    said = capsys.readouterr().out
    assert "flow = " in said
    assert said.count("a b") == 4  # three formulas, one row of the table
    for form, count in (("text", 3), ("python", 3), ("c", 3), ("sql", 3), ("latex", 3)):
        assert main(["info", "m.json", "--as", form]) == 0
        said = capsys.readouterr().out
        assert len([line for line in said.splitlines() if line[:1] not in ("", " ", "}", "{")]) >= 3
        if form == "python":
            made: dict = {}
            exec(said, made)
            assert [name for name in made if name.startswith("predict")] == [
                f"predict_{t}" for t in range(count)
            ]


def test_a_report_on_several_targets(table, capsys):
    pytest.importorskip("pandas")
    given = [*FIT, "--target", 'heat,flow,"p, q"', "--max-terms", "2", "-o", "m.json"]
    assert main([*given, "--report", "fit.html", "--holdout", "0.25"]) == 0
    assert main(["report", "m.json", "t.csv", "-o", "again.html"]) == 0
    for name in ("fit.html", "again.html"):
        text = Path(name).read_text(encoding="utf-8")
        assert "<h1>Formulas for heat, flow and p, q</h1>" in text
        assert "Proved best for all responses together" in text
        assert all(f"predicted {target}<" in text for target in ("heat", "flow", "p, q"))
        terms = text[text.index('aria-label="Terms by response"') :]
        assert terms[: terms.index("</table>")].count("<td>") == 3 * 3  # two terms, intercept
        assert "://" not in text
    assert "held-out rows" in Path("fit.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "m.json", "t.csv", "--rivals", "0.1"]) == 2
    assert "--rivals is for models of one response" in capsys.readouterr().err


def test_a_target_with_a_comma_in_its_name_is_one_column(table, capsys):
    assert main([*FIT, "--target", "p, q", "-x", "heat,flow", "--max-terms", "2", "--brief"]) == 0
    assert "target p, q\n" in capsys.readouterr().out


def test_sizes_are_chosen_for_several_targets(table, capsys):
    given = ["fit", "t.csv", "-q", "-t", "heat,flow", "-x", "p, q".join('""'), "--degree", "2"]
    assert main([*given, "--cv", "3", "--max-terms", "3", "-o", "m.json"]) == 0
    said = capsys.readouterr().out
    assert "chosen by validation: degree 2, at most 2 terms" in said
    assert load_model("m.json").get_feature_names_out().tolist() == ["c", "a b"]


@pytest.mark.parametrize(
    "option",
    [
        "--proof=p.npz",
        "--positive",
        "--rule=consensus",
        "--engine=big-m",
        "--coefficient-bounds=0,1",
    ],
)
def test_what_is_for_one_target_is_refused_by_name(table, capsys, option):
    cv = ["--cv", "3"] if "rule" in option else []
    assert main([*FIT, "--target", "heat,flow", "--max-terms", "2", option, *cv]) == 2
    assert f"{option.split('=')[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rivals", "explain", "verify"])
def test_commands_for_one_response_say_so(table, capsys, command):
    assert main([*FIT, "--target", "heat,flow", "--max-terms", "2", "-o", "m.json"]) == 0
    assert main([command, "m.json", "t.csv"]) == 2
    assert f"polysharp {command} is for models of one response" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "responses", "sentence"),
    [
        ({}, 1, "two dimensions"),
        ({"engine": "big-m"}, 2, "engine must be 'auto' or 'tree'"),
        ({"positive": True}, 2, "positive must be False for several responses"),
        ({"coefficient_bounds": (0, 1)}, 2, "coefficient_bounds must be None"),
    ],
)
def test_what_is_refused(rows, settings, responses, sentence):
    X, Y = rows
    y = Y[:, 0] if responses == 1 else Y
    with pytest.raises(InputError, match=sentence):
        MultiTaskSparsePolynomialRegressor(**settings).fit(X, y)


@parametrize_with_checks(
    [
        MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0, time_limit=5.0),
        MultiTaskSparsePolynomialRegressorCV(degrees=2, max_terms=2, gammas=1.0, cv=2),
    ]
)
def test_conventions(estimator, check):
    check(estimator)
