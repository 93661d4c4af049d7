"""Several responses with one support: against enumeration, and behind scikit-learn's interface."""

import json
from dataclasses import replace
from fractions import Fraction
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
    verify,
)
from polysharp.certificate.proof import Proof, ProofNode
from polysharp.cli import main
from polysharp.data.rows import MemoryRows
from polysharp.engines.base import Limits
from polysharp.engines.joint import JointTree
from polysharp.engines.joint.supports import every_size
from polysharp.errors import InputError
from polysharp.moments.moments import Moments, accumulate
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
        accumulate(basis, X[some], Y[0, some], weights[some]).with_responses(
            MemoryRows(X[some], Y[0, some], weights[some]), Y[:, some], basis
        )
        for some in (np.arange(25), np.arange(25, 60))
    ]
    joint = Moments.merged(parts)
    for t, y in enumerate(Y):
        alone = accumulate(basis, X, y, weights)
        for centred in (True, False):
            _, q, yy = alone.normal_equations(centred=centred)
            _, found, squares = joint.normal_equations(centred=centred)
            assert_allclose(found[t], q, rtol=1e-10, atol=1e-12)
            assert_allclose(squares[t], yy)
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


def proved(seed):
    """A fit under random rules, its rows, and the proof."""
    rng = np.random.default_rng(seed)
    n, p, count = int(rng.integers(6, 60)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    Y = X[:, :2] @ rng.standard_normal((2, count)) + X[:, :1] * X[:, 1:2]
    Y = Y * 10.0 ** rng.uniform(-3, 3, count) + 10.0 ** rng.uniform(-6, 1) * rng.random((n, count))
    weights = rng.random(n) if rng.random() < 0.3 else None
    model = MultiTaskSparsePolynomialRegressor(
        degree=int(rng.integers(1, 4)),
        max_terms=int(rng.integers(1, 5)),
        max_inputs=int(rng.integers(1, p + 1)) if rng.random() < 0.4 else None,
        gamma=10.0 ** rng.uniform(-3, 4),
        fit_intercept=bool(rng.random() < 0.8),
        center=bool(rng.random() < 0.3),
        heredity=rng.choice(np.array([None, "weak", "strong"])),
        include_terms=[(0,)] if rng.random() < 0.2 else None,
    )
    return model.fit(X, Y, weights), (X, Y, weights)


@pytest.mark.parametrize("seed", range(12))
def test_proofs_hold_and_nothing_beyond_them(seed):
    model, rows = proved(seed)
    solution, proof = model.solution_, model.solution_.proof
    verdict = verify(proof, *rows)
    assert verdict, verdict.reason
    assert solution.bound * (1.0 - 1e-8) - 1e-12 * solution.total_squares <= verdict.bound
    assert_allclose(verdict.objective, solution.objective, rtol=1e-8, atol=1e-300)
    # The model itself refutes any bound above what it costs.
    assert not verify(replace(proof, bound=solution.objective * (1.0 + 1e-7)), *rows)


@pytest.mark.slow
def test_five_hundred_proofs_hold():
    for seed in range(100, 600):
        test_proofs_hold_and_nothing_beyond_them(seed)


def searched():
    """A search that branches, screens and moves curvature."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((70, 7))
    Y = X[:, :2] @ rng.standard_normal((2, 4)) + rng.standard_normal() * X[:, :1] * X[:, 1:2]
    Y += rng.standard_normal(Y.shape)
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=5, gamma=0.1).fit(X, Y)
    assert len(model.solution_.proof.nodes) > 1
    return model.solution_.proof, X, Y


def test_what_is_changed_in_a_proof_is_found(tmp_path):
    proof, X, Y = searched()
    proof.save(tmp_path / "p.npz")
    proof = Proof.load(tmp_path / "p.npz")
    verdict = verify(proof, X, Y)
    assert verdict
    assert "responses, with the same terms" in str(proof.statement)
    root, *rest = proof.nodes
    named, short = proof.statement.responses, replace(root, chain=root.chain[1:])
    changed = {
        "one response alone": (proof, X, Y[:, 0]),
        "responses in another order": (proof, X, Y[:, ::-1] * [1.0, 2.0, 3.0, 4.0]),
        "a child left out": (replace(proof, nodes=(short, *rest)), X, Y),
        "no nodes": (replace(proof, nodes=()), X, Y),
        "all is void": (replace(proof, nodes=(ProofNode("void"),)), X, Y),
        "no vector": (replace(proof, nodes=(ProofNode("dual"),)), X, Y),
        "exceptions": (replace(proof, exceptions=((0,),)), X, Y),
    }
    for scale in (0.0, -1.0, np.inf):
        stated = replace(proof.statement, responses=((named[0][0], scale), *named[1:]))
        changed[f"scale {scale}"] = (proof.about(stated), X, Y)
    for what, given in changed.items():
        assert not verify(*given), what
    assert "floats only" in verify(proof, X, Y, exact=True).reason


def test_a_constant_response_does_not_matter():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3))
    Y = np.column_stack([np.full(40, 2.0), X[:, 0] + X[:, 1] ** 2 + rng.standard_normal(40)])
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0).fit(X, Y)
    assert verify(model.solution_.proof, X, Y)
    assert not verify(model.solution_.proof, X, np.full_like(Y, 2.0))


def test_proofs_of_several_targets_on_the_command_line(table, capsys):
    given = [*FIT, "--target", 'heat,flow,"p, q"', "--max-terms", "2", "--proof", "p.npz"]
    assert main([*given, "--holdout", "0.2"]) == 0
    assert main(["verify", "p.npz", "t.csv", "--holdout", "0.2"]) == 0
    said = capsys.readouterr().out
    assert "The proof holds for the 96 rows" in said
    assert "flow / " in said
    assert main(["verify", "p.npz", "t.csv"]) == 4


def rational_cost(M, Y, lam, S):
    """What a support costs, in rationals: sum_t (yy_t - q_t'H^-1 q_t) / 2, by elimination."""
    columns = [[Fraction(value) for value in M[:, j]] for j in S]
    responses = [[Fraction(value) for value in y] for y in Y]

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    table = [[dot(a, b) for b in (*columns, *responses)] for a in columns]
    total = sum(dot(y, y) for y in responses)
    for k, row in enumerate(table):
        row[k] += Fraction(lam)
    for k, row in enumerate(table):
        total -= sum(value * value for value in row[len(S) :]) / row[k]
        for below in table[k + 1 :]:
            rate = below[k] / row[k]
            below[:] = [a - rate * b for a, b in zip(below, row, strict=True)]
    return total / 2


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_exceeds_the_optimum_in_rationals(seed):
    """Equal and nearly equal columns, columns of any size, few rows, ridges of any strength."""
    rng = np.random.default_rng(seed)
    f, n, count, kind = (int(rng.integers(*ends)) for ends in ((3, 7), (1, 7), (1, 4), (0, 5)))
    M = rng.standard_normal((n, f))
    if kind < 2:
        M[:, 1] = M[:, 0] * (1.0 + 1e-9 * kind)
    if kind == 2:
        M *= 10.0 ** rng.uniform(-20, 20, f)
    if kind == 3:
        M = np.round(M)
    Y = rng.standard_normal((count, n))
    if rng.random() < 0.4:
        Y = rng.standard_normal((count, 2)) @ M[:, :2].T
    lam = 10.0 ** rng.uniform(-12, 12)
    structure = Structure(
        np.eye(f, dtype=bool), int(rng.integers(1, 4)), int(rng.integers(1, f + 1))
    )
    problem = JointProblem.of(
        [Problem.dense(M.T @ M, M.T @ y, float(y @ y), lam, structure) for y in Y]
    )
    solution = JointTree().solve(problem, limits=Limits(5.0, 1e-4))
    supports = (S for k in range(structure.max_terms + 1) for S in combinations(range(f), k))
    least = min(
        rational_cost(M, Y, lam, S)
        for S in supports
        if structure.allows(np.array(S, dtype=np.intp))
    )
    assert Fraction(solution.bound) <= least <= Fraction(solution.objective)


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
