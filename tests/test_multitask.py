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
from support import (
    Basis,
    Boxes,
    Moments,
    Problem,
    ProofNode,
    Structure,
    TimeBudget,
    Tree,
    accumulate,
    every_size,
)

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    MultiTaskSparsePolynomialRegressorCV,
    Proof,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    save_model,
    verify,
)
from polysharp.cli import main
from polysharp.errors import InputError
from polysharp.report import write_report


def joint_problem(seed, *, boxes=False):
    """A random problem of up to three responses under random rules, coefficients bounded or not."""
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
    if boxes:
        own = [random_boxes(rng, len(basis)) for _ in Y]
        ends = (np.array(rows) for rows in zip(*own, strict=True))
        structure = replace(structure, boxes=Boxes(*ends))
    return Problem.dense(G, Y @ M, np.square(Y).sum(axis=1), lam, structure)


def random_boxes(rng, size):
    """Intervals that hold 0: of any length, on one side of it, or none."""
    ends = 10.0 ** rng.uniform(-2, 1, (2, size))
    kind = rng.integers(0, 4, (2, size))
    low, high = np.where(kind == 0, np.inf, np.where(kind == 1, 0.0, ends))
    high = np.where((low == 0.0) & (high == 0.0), np.inf, high)
    return Boxes(-low, high)


def least_cost(problem):
    """The referee: every support."""
    structure = problem.structure
    supports = (
        np.array(chosen, dtype=np.intp)
        for size in range(structure.max_terms + 1)
        for chosen in combinations(range(problem.size), size)
    )
    return min(problem.refit(S).objective for S in supports if structure.allows(S))


def agrees_with_enumeration(seed, *, boxes=False):
    problem = joint_problem(seed, boxes=boxes)
    least = least_cost(problem)
    solution = Tree().solve(problem, time=TimeBudget(20.0), gap_tol=1e-6)
    assert solution.bound <= least * (1.0 + 1e-12)
    assert_allclose(solution.objective, least, rtol=1e-6, atol=1e-12 * problem.yy)
    assert solution.gap <= 1e-6 or solution.objective - solution.bound <= 1e-9 * problem.yy


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_the_tree_agrees_with_enumeration(seed, boxes):
    agrees_with_enumeration(seed, boxes=boxes)


@pytest.mark.slow
@pytest.mark.parametrize("boxes", [False, True])
def test_the_tree_agrees_with_enumeration_a_thousand_times(boxes):
    for seed in range(1000, 2000):
        agrees_with_enumeration(seed, boxes=boxes)


def test_costs_of_several_responses_add_up():
    problem = joint_problem(3)
    each = [
        replace(problem, q=problem.q[[t]], squares=problem.squares[[t]])
        for t in range(problem.n_responses)
    ]
    S = problem.structure.best_linear(problem.norms**2)
    together, alone = problem.refit(S), [own.refit(S) for own in each]
    assert_allclose(together.objective, sum(fit.objective for fit in alone))
    assert_allclose(together.w, np.concatenate([fit.w for fit in alone]))
    assert_allclose(problem.cost_at_most(together), sum(map(Problem.cost_at_most, each, alone)))


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


def test_names_of_arrow_tables_are_kept(rows):
    arrow = pytest.importorskip("pyarrow")
    X, Y = rows
    table = arrow.table(dict(zip(("speed", "heat", "mass"), Y.T, strict=True)))
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0)
    for responses in (table, table.to_batches()[0], table.to_reader()):
        laws = model.fit(X, responses).polynomials_
        assert [law.response for law in laws] == ["speed", "heat", "mass"]


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
    found = [S for S in every_size(problem) if len(S)]
    costs = [problem.refit(S).objective for S in found]
    assert all(structure.allows(S) for S in found)
    assert all(later <= cost * (1.0 + 1e-9) for cost, later in pairwise(costs))
    assert costs[-1] <= 1.2 * least_cost(problem)


def test_the_first_term_is_the_best_one():
    problem = next(own for own in map(joint_problem, range(99)) if own.structure.plain)
    every = [problem.refit(np.array([j])).objective for j in range(problem.size)]
    assert every_size(problem)[0].tolist() == [int(np.argmin(every))]


def test_moments_of_several_responses_are_those_of_each():
    rng = np.random.default_rng(5)
    X, Y, weights = rng.standard_normal((60, 3)), rng.standard_normal((2, 60)), rng.random(60)
    basis = Basis.full(3, 2)
    parts = [
        accumulate(basis, X[some], Y[:, some], weights[some])
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
    search = MultiTaskSparsePolynomialRegressorCV(degree=(1, 2), max_terms=4, random_state=0)
    search.fit(X, Y)
    assert search.get_feature_names_out().tolist() == ["x2", "x0 x1"]
    assert search.best_params_["degree"] == 2
    assert search.solution_.status == "optimal"
    own = MultiTaskSparsePolynomialRegressor(**search.best_params_).fit(X, Y)
    assert_allclose(search.predict(X), own.predict(X))
    assert -0.2 < search.best_score_ < 0.0  # in standard deviations of the responses


def test_one_column_is_searched_like_one_response(rows):
    X, Y = rows
    settings = {"degree": 2, "max_terms": 3, "random_state": 0}
    alone = SparsePolynomialRegressorCV(**settings).fit(X, Y[:, 0] / Y[:, 0].std())
    joint = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, :1])
    assert joint.best_params_ == alone.best_params_
    assert_allclose(joint.best_score_, alone.best_score_)


def test_equal_responses_are_searched_like_one(rows):
    """What is found for two copies of a response is what is found for one."""
    X, Y = rows
    settings = {"degree": 2, "max_terms": 3, "random_state": 0}
    one = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, :1])
    two = MultiTaskSparsePolynomialRegressorCV(**settings).fit(X, Y[:, [0, 0]])
    assert two.best_params_ == one.best_params_
    assert_allclose(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])


@pytest.mark.parametrize("settings", [{"gamma": 1e3}, {"gamma": "auto", "positive": True}])
def test_rows_on_dask_give_the_same_model(rows, settings):
    da = pytest.importorskip("dask.array")
    X, Y = rows
    weights = np.random.default_rng(4).integers(0, 3, len(X)).astype(float)
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, **settings)
    here = model.fit(X, Y, weights)
    expected, scales = here.predict(X), here.response_scales_
    blocks = [da.from_array(a, chunks=(50, *a.shape[1:])) for a in (X, Y, weights)]
    there = MultiTaskSparsePolynomialRegressor(**model.get_params()).fit(*blocks)
    assert there.solution_.status == "optimal"
    assert_allclose(there.response_scales_, scales, rtol=1e-12)
    assert_allclose(there.predict(X), expected, rtol=1e-6, atol=1e-8)
    lazy = there.predict(blocks[0])
    assert lazy.chunks == ((50, 50, 20), (3,))
    assert_allclose(lazy.compute(), expected, rtol=1e-6, atol=1e-8)
    assert verify(there.solution_.proof, X, Y, weights)


def test_data_frames_on_dask_keep_their_names(rows):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, Y = rows
    frame = pandas.DataFrame(np.column_stack([X, Y]), columns=[*"abcd", "heat", "flow", "mass"])
    parts = dd.from_pandas(frame, npartitions=3)
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e3)
    model.fit(parts[list("abcd")], parts[["heat", "flow", "mass"]])
    assert [p.response for p in model.polynomials_] == ["heat", "flow", "mass"]
    assert model.get_feature_names_out().tolist() == ["c", "a b"]
    predicted = model.predict(parts[list("abcd")]).compute()
    assert list(predicted.columns) == ["heat", "flow", "mass"]
    assert_allclose(predicted, model.predict(frame[list("abcd")]))


def test_what_several_responses_on_dask_are_refused(rows):
    da = pytest.importorskip("dask.array")
    X, Y = (da.from_array(a, chunks=(50, a.shape[1])) for a in rows)
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0)
    with pytest.raises(InputError, match="two dimensions"):
        model.fit(X, Y[:, 0])
    holes = rows[1].copy()
    holes[70, 1] = np.nan
    with pytest.raises(InputError, match=r"block 1: y must have neither NaN nor inf.* in row 20"):
        model.fit(X, da.from_array(holes, chunks=(50, 3)))
    with pytest.raises(InputError, match="one dimension"):
        SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0).fit(X, Y)
    with pytest.raises(InputError, match="in memory to compare sizes"):
        MultiTaskSparsePolynomialRegressorCV().fit(X, Y)


@pytest.mark.parametrize("cv", [None, 4])
def test_intervals_cover_each_response(cv, tmp_path):
    """Errors of very different sizes, and new rows: nine of ten inside, of each response."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.0, 1.0, (1400, 3))
    Y = np.outer(X[:, 0] * X[:, 1], [1.0, -30.0]) + rng.standard_normal((1400, 2)) * [0.1, 5.0]
    model = MultiTaskSparsePolynomialRegressor(2, 2, gamma=1.0, random_state=0)
    model.fit(X[:200], Y[:200])
    with pytest.raises(InputError, match="call calibrate first"):
        model.predict_interval(X)
    some = slice(0, 200) if cv else slice(200, 400)
    model.calibrate(X[some], Y[some], cv=cv)
    ends = model.predict_interval(X[400:], 0.9)
    assert ends.shape == (1000, 2, 2)
    inside = (ends[..., 0] <= Y[400:]) & (Y[400:] <= ends[..., 1])
    assert np.all(np.abs(inside.mean(axis=0) - 0.9) < 0.05)
    assert_allclose(np.diff(ends).mean(axis=0).ravel(), [0.33, 16.5], rtol=0.15)
    assert [len(own.folds) for own in model.calibrations_] == [cv or 1] * 2
    save_model(model, tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert_allclose(again.predict_interval(X[400:]), ends, rtol=1e-9)
    assert not hasattr(model.fit(X[:200], Y[:200]), "calibrations_")


def test_one_response_has_the_intervals_that_it_has_alone(rows):
    X, Y = rows
    settings = {"degree": 2, "max_terms": 2}
    one = SparsePolynomialRegressor(**settings, gamma=1e3).fit(X[:80], Y[:80, 0])
    joint = MultiTaskSparsePolynomialRegressor(**settings, gamma=1e3).fit(X[:80], Y[:80, :1])
    given = X[80:], Y[80:, 0]
    expected = one.calibrate(*given).predict_interval(X)
    assert_allclose(joint.calibrate(X[80:], Y[80:, :1]).predict_interval(X)[:, 0], expected)


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
    assert "within \N{PLUS-MINUS SIGN}" in said
    assert main(["predict", "m.json", "t.csv", "--interval", "0.8", "-o", "p.csv"]) == 0
    written = pandas.read_csv("p.csv")
    assert (written["lower_flow"] < written["prediction_flow"]).all()
    ends = load_model("m.json").predict_interval(table[list("abcd")], 0.8)
    assert_allclose(written[["lower_p, q", "upper_p, q"]].to_numpy(), ends[:, 2])
    capsys.readouterr()
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
        assert text.count("nine of ten within") == 1
        assert "of each response by itself" in text
    assert "held-out rows" in Path("fit.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "m.json", "t.csv", "--rivals", "0.1"]) == 2
    assert "--rivals is for models of one response" in capsys.readouterr().err


def test_a_single_response_is_reported_and_verified_in_its_table(table, capsys):
    pandas = pytest.importorskip("pandas")
    rows = pandas.read_csv("t.csv")
    for model in (
        MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0),
        MultiTaskSparsePolynomialRegressorCV(degree=2, max_terms=3, cv=3, random_state=0),
    ):
        model.fit(rows[list("abcd")], rows[["heat"]])
        write_report(model, rows[list("abcd")], rows[["heat"]], "r.html")
        text = Path("r.html").read_text(encoding="utf-8")
        assert "<h1>A formula for heat</h1>" in text
        assert "Each response is divided by its standard deviation" in text
        assert "validation error" not in text  # which is that of the scaled response
    save_model(model, "m.json")
    model.solution_.proof.save("p.npz")
    assert main(["report", "m.json", "t.csv"]) == 0
    assert main(["verify", "p.npz", "t.csv"]) == 0
    assert main(["rivals", "m.json", "t.csv"]) == 2
    said = "models of one response, got 'm.json' with a MultiTaskSparsePolynomialRegressor"
    assert said in capsys.readouterr().err


def test_a_target_with_a_comma_in_its_name_is_one_column(table, capsys):
    assert main([*FIT, "--target", "p, q", "-x", "heat,flow", "--max-terms", "2", "--brief"]) == 0
    assert "target p, q\n" in capsys.readouterr().out


def test_sizes_are_chosen_for_several_targets(table, capsys):
    given = ["fit", "t.csv", "-q", "-t", "heat,flow", "-x", "p, q".join('""'), "--degree", "2"]
    assert main([*given, "--cv", "3", "--max-terms", "3", "-o", "m.json"]) == 0
    said = capsys.readouterr().out
    assert "chosen by cross-validation: degree 2, at most 2 terms" in said
    assert load_model("m.json").get_feature_names_out().tolist() == ["c", "a b"]


def test_what_is_for_one_target_is_refused_by_name(table, capsys):
    assert main([*FIT, "--target", "heat,flow", "--max-terms", "2", "--engine=big-m"]) == 2
    assert "--engine" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rivals", "explain", "verify"])
def test_commands_for_one_response_say_so(table, capsys, command):
    assert main([*FIT, "--target", "heat,flow", "--max-terms", "2", "-o", "m.json"]) == 0
    assert main([command, "m.json", "t.csv"]) == 2
    assert f"polysharp {command} is for models of one response" in capsys.readouterr().err


def proved(seed, *, bounded=False):
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
    if bounded:
        size = 10.0 ** rng.uniform(-4, 3)
        ends = [(-size, 2.0 * size), {0: (0, None), (1,): (-size, size)}, {"*": (None, size)}]
        model.set_params(coefficient_bounds=ends[seed % 3], positive=seed % 7 == 0)
    return model.fit(X, Y, weights), (X, Y, weights)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", [*range(14), 108])  # where screening leaves nothing to move
def test_proofs_hold_and_nothing_beyond_them(seed, bounded):
    model, rows = proved(seed, bounded=bounded)
    solution, proof = model.solution_, model.solution_.proof
    verdict = verify(proof, *rows)
    assert verdict, verdict.reason
    assert solution.bound * (1.0 - 1e-8) - 1e-12 * solution.total_squares <= verdict.bound
    assert_allclose(verdict.objective, solution.objective, rtol=1e-8, atol=1e-300)
    # The model itself refutes any bound above what it costs.
    assert not verify(replace(proof, bound=solution.objective * (1.0 + 1e-7)), *rows)


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [False, True])
def test_a_thousand_proofs_hold(bounded):
    for seed in range(100, 600):
        test_proofs_hold_and_nothing_beyond_them(seed, bounded)


@pytest.mark.parametrize("ends", [(-0.5, 2.0), {"x2": (0, 1), "x0 x1": (None, 1.5)}])
def test_bounds_hold_in_the_units_of_every_response(rows, ends):
    X, Y = rows
    settings = {"degree": 2, "max_terms": 3, "gamma": 1e3, "coefficient_bounds": ends}
    model = MultiTaskSparsePolynomialRegressor(**settings).fit(X, Y)
    assert model.solution_.status == "optimal"
    for polynomial in model.polynomials_:
        for name, c in zip(polynomial.term_names, polynomial.coefficients, strict=True):
            low, high = ends.get(name, (None, None)) if isinstance(ends, dict) else ends
            if isinstance(ends, dict) and "x2" in name:
                low, high = ends["x2"]
            assert low is None or c >= low
            assert high is None or c <= high
    # What one of them costs is what it costs alone, with these terms and bounds.
    total = 0.0
    for y, unit in zip(Y.T, model.response_scales_, strict=True):
        terms = [tuple(m) for m in model.polynomials_[0].monomials]
        own = {**settings, "max_terms": len(terms), "include_terms": terms}
        total += SparsePolynomialRegressor(**own).fit(X, y).solution_.objective / unit**2
    assert_allclose(model.solution_.objective, total, rtol=1e-6)


def test_sizes_are_compared_within_bounds(rows):
    X, Y = rows
    search = MultiTaskSparsePolynomialRegressorCV(
        degree=2, max_terms=4, positive=True, random_state=0
    ).fit(X, Y)
    assert all(np.all(polynomial.coefficients >= 0.0) for polynomial in search.polynomials_)
    assert search.best_score_ < -0.2  # the second response falls with both terms


def searched():
    """A search that branches, screens and moves curvature."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((70, 20))
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
        "all is void": (replace(proof, nodes=(ProofNode("enumeration", on_inputs=True),)), X, Y),
        "no vector": (replace(proof, nodes=(ProofNode("dual"),)), X, Y),
        "exceptions": (replace(proof, exceptions=((0,),)), X, Y),
    }
    for scale in (0.0, -1.0, np.inf):
        stated = replace(proof.statement, responses=((named[0][0], scale), *named[1:]))
        changed[f"scale {scale}"] = (proof.about(stated), X, Y)
    for what, given in changed.items():
        assert not verify(*given), what


@pytest.mark.needs("flint")
def test_proofs_hold_in_exact_arithmetic():
    proof, X, Y = searched()
    verdict, exact = verify(proof, X, Y), verify(proof, X, Y, exact=True)
    assert exact, exact.reason
    assert exact.bound >= verdict.bound
    assert exact.objective <= verdict.objective
    assert exact.objective - exact.bound <= verdict.objective - verdict.bound
    assert not verify(replace(proof, bound=exact.objective * (1.0 + 1e-12)), X, Y, exact=True)
    # As with one response: of decimals that are no floats, completions are not tried.
    assert "floats only" in verify(proof, np.vectorize(repr)(X), Y, exact=True).reason


@pytest.mark.needs("flint")
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_proofs_hold_in_exact_arithmetic(seed, bounded):
    model, rows = proved(seed, bounded=bounded)
    solution, proof = model.solution_, model.solution_.proof
    verdict = verify(proof, *rows, exact=True)
    assert verdict, verdict.reason
    assert verdict.bound <= solution.objective
    assert not verify(replace(proof, bound=solution.objective * (1.0 + 1e-9)), *rows, exact=True)


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
    pytest.importorskip("flint")
    assert main(["verify", "p.npz", "t.csv", "--holdout", "0.2", "--exact", "-q"]) == 0
    assert "in exact arithmetic" in capsys.readouterr().out
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
    problem = Problem.dense(M.T @ M, Y @ M, np.square(Y).sum(axis=1), lam, structure)
    solution = Tree().solve(problem, time=TimeBudget(5.0), gap_tol=1e-4)
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
        MultiTaskSparsePolynomialRegressorCV(degree=2, max_terms=2, gamma=1.0, cv=2),
    ]
)
def test_conventions(estimator, check):
    check(estimator)
