"""Experiments: the runner resumes, every experiment runs, tables and page follow from rows."""

import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from support import Basis, Place

from experiments import input_ranking, page, wide_tables
from experiments.data import planted
from experiments.laws import FEYNMAN, LAWS
from experiments.methods import METHODS, NEEDS, PROVING
from experiments.plot import FIGURES, draw
from experiments.rows import FAILED, Table, finished, merge, read, text
from experiments.runner import Cell, Experiment, Plan, execute, load, parse, run_cell
from experiments.summary import n0

ROOT = Path(__file__).parent.parent
NAMES = (
    *("phase_transition", "cutting_planes", "path", "input_ranking"),
    *("correlated_inputs", "formulations", "two_steps"),
)


@pytest.fixture
def toy(monkeypatch):
    """An experiment of eight cells that notes what it runs and can be told to stumble."""
    notes = SimpleNamespace(ran=[], stumble=None)

    def cells(plan):
        for n in (10, 20):
            for seed in plan.seeds:
                for method in ("a", "b"):
                    yield Cell(method, seed, {"n": n})

    def run(cell, time_limit):
        if notes.stumble is not None and len(notes.ran) == 2:
            raise notes.stumble
        notes.ran.append((cell.data["n"], cell.method, cell.seed))
        return {"value": cell.data["n"] / 3.0 + cell.seed}

    notes.experiment = Experiment("toy", ("n",), ("value",), cells, run, seeds=2)
    monkeypatch.setitem(
        sys.modules, "experiments.toy", SimpleNamespace(EXPERIMENT=notes.experiment)
    )
    return notes


def go(toy, path, *arguments):
    toy.ran.clear()
    return execute(toy.experiment, parse(toy.experiment, ["--output", str(path), *arguments]))


def test_every_run_is_one_row_with_its_seed_and_versions(toy, tmp_path):
    path = tmp_path / "toy.csv"
    assert go(toy, path, "--time-limit", "7") == 8
    rows = read(path)
    assert {(int(r["n"]), r["method"], int(r["seed"])) for r in rows} == set(toy.ran)
    assert [r["value"] for r in rows[:3]] == ["103.333", "103.333", "104.333"]
    assert {r["numpy"] for r in rows} == {np.__version__}
    assert all(r["polysharp"] and r["scikit-learn"] and r["status"] == "done" for r in rows)
    assert {r["time_limit"] for r in rows} == {"7"}


def test_cells_in_the_file_are_skipped(toy, tmp_path):
    path = tmp_path / "toy.csv"
    go(toy, path)
    lines = path.read_text().splitlines(keepends=True)
    assert go(toy, path) == 0
    assert toy.ran == []
    path.write_text("".join(lines[:4] + lines[5:]))
    assert go(toy, path) == 1
    assert toy.ran == [(10, "b", 101)]
    assert go(toy, path, "--seeds", "3") == 4
    assert {seed for _, _, seed in toy.ran} == {102}


def test_half_a_line_is_dropped_and_run_again(toy, tmp_path):
    path = tmp_path / "toy.csv"
    go(toy, path)
    path.write_text(path.read_text()[:-9])
    assert go(toy, path) == 1
    assert len(finished(read(path), toy.experiment.key)) == 8


def test_an_interrupt_leaves_a_valid_file_from_which_the_runs_go_on(toy, tmp_path, capsys):
    path = tmp_path / "toy.csv"
    toy.stumble = KeyboardInterrupt()
    assert go(toy, path) == 2
    assert "goes on from here" in capsys.readouterr().out
    assert len(read(path)) == 2
    toy.stumble = None
    assert go(toy, path) == 6


def test_a_failed_run_says_why_and_is_tried_again(toy, tmp_path):
    path = tmp_path / "toy.csv"
    toy.stumble = ValueError("singular, sorry")
    go(toy, path)
    failed = [row for row in read(path) if row["status"] == "failed"]
    assert len(failed) == 6
    assert failed[0]["note"] == "ValueError: singular, sorry"
    assert len(finished(read(path), toy.experiment.key)) == 2
    toy.stumble = None
    assert go(toy, path) == 6
    assert len(finished(read(path), toy.experiment.key)) == 8


def test_a_method_without_its_package_is_skipped_with_a_message(toy, tmp_path, capsys):
    experiment = Experiment(**{**vars(toy.experiment), "needs": {"b": "no_such_package"}})
    options = parse(experiment, ["--output", str(tmp_path / "toy.csv")])
    assert execute(experiment, options) == 4
    assert "b is skipped: package no_such_package" in capsys.readouterr().out


def test_shards_share_the_runs_out_and_merge(toy, tmp_path):
    parts = [tmp_path / f"toy.{i}.csv" for i in (1, 2, 3)]
    counts = [go(toy, part, "--shard", f"{i}/3") for i, part in enumerate(parts, start=1)]
    assert counts == [3, 3, 2]
    assert merge(tmp_path / "toy.csv", parts, toy.experiment.key) == 8
    assert go(toy, tmp_path / "toy.csv") == 0


@pytest.mark.parametrize("argument", ["0/3", "4/3", "x/3", "3"])
def test_a_shard_that_does_not_exist_is_refused(toy, argument, capsys):
    with pytest.raises(SystemExit):
        parse(toy.experiment, ["--shard", argument])
    assert "must be i/m" in capsys.readouterr().err


def test_a_file_with_other_columns_is_refused(toy, tmp_path):
    path = tmp_path / "toy.csv"
    path.write_text("n,method,seed\n")
    with pytest.raises(SystemExit, match="other columns"):
        go(toy, path)
    assert path.read_text() == "n,method,seed\n"


def test_values_with_commas_and_quotes_come_back(tmp_path):
    table = Table(tmp_path / "t.csv", ("seed",), ("seed", "note", "status"))
    table.append({"seed": 1, "note": 'a, "b"', "status": "done"})
    assert read(table.path) == [{"seed": "1", "note": 'a, "b"', "status": "done"}]
    assert table.done() == {("1",)}


def installed(experiment, method):
    return method not in experiment.needs or find_spec(experiment.needs[method]) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_cell_of_every_method_runs(name):
    experiment = load(name)
    last = {cell.method: cell for cell in experiment.cells(Plan(seeds=[100], quick=True))}
    for method, cell in last.items():
        if not installed(experiment, method):
            continue
        row = run_cell(name, 1.0, 1, cell)
        assert row["status"] != "failed", row["note"]
        assert set(experiment.columns) <= set(row) | {"note"}
        assert row["seconds"] > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_no_two_cells_have_one_key(name):
    experiment = load(name)
    cells = list(experiment.cells(Plan(seeds=[100, 101])))
    keys = {tuple(cell.columns[column] for column in experiment.key) for cell in cells}
    assert len(keys) == len(cells)


def test_a_table_that_is_not_there_is_skipped_with_a_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("POLYSHARP_DATA", str(tmp_path))
    plan = Plan(seeds=[100])
    without = {cell.data["data"] for cell in wide_tables.cells(plan)}
    assert f"riboflavin is skipped: {tmp_path / 'riboflavin.npz'} is not there" in (
        capsys.readouterr().out
    )
    np.savez(tmp_path / "riboflavin.npz", X=np.eye(3), y=np.arange(3.0))
    there = {cell.data["data"] for cell in wide_tables.cells(plan)}
    assert there - without == {"riboflavin"}
    X, y = wide_tables.DATA["riboflavin"](100)
    assert X.shape == (3, 3)
    assert y.tolist() == [0.0, 1.0, 2.0]


def test_processes_give_the_rows_of_one_process(tmp_path):
    path = tmp_path / "formulations.csv"
    command = [sys.executable, "-m", "experiments.formulations", "--quick", "--seeds", "1"]
    arguments = ["--methods", "tree", "--jobs", "2", "--output", str(path)]
    subprocess.run([*command, *arguments], check=True, cwd=ROOT, capture_output=True)
    cells = load("formulations").cells(Plan(seeds=[100], quick=True))
    here = [run_cell("formulations", None, 1, cell) for cell in cells if cell.method == "tree"]
    there = {(row["p"], row["n"]): row for row in read(path)}
    assert len(there) == len(here) == 4
    for row in here:
        same = there[str(row["p"]), str(row["n"])]
        assert same["objective"] == f"{row['objective']:.6g}"


def test_computation_does_without_matplotlib():
    modules = ", ".join(f"experiments.{name}" for name in NAMES)
    code = f"import sys, {modules}; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("method", METHODS)
def test_methods_find_an_easy_law(method):
    if method in NEEDS:
        pytest.importorskip(NEEDS[method])
    data = planted(300, 3, p=5, degree=2, terms=4)
    found = METHODS[method](data, 4, 10.0)
    assert set(found.monomials) == set(data.law)
    assert (found.gap is not None) == (method in PROVING)


@pytest.mark.parametrize("terms", [2, 5, 9])
def test_the_lasso_support_is_that_of_a_lasso(terms):
    data = planted(80, 1, p=6, degree=2, terms=6)
    found = {data.basis.index[m] for m in METHODS["lasso"](data, terms, 10.0).monomials}
    assert len(found) == terms
    M, y = data.standardised, data.response
    supports = []
    for alpha in np.geomspace(1.0, 1e-3, 400) * np.abs(M.T @ y).max() / len(y):
        model = Lasso(alpha, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(M, y)
        supports.append(set(np.flatnonzero(model.coef_).tolist()))
    assert found in supports


def test_pricing_orders_inputs_by_their_best_monomial():
    data = planted(150, 2, p=7, degree=3, k=3, terms=6)
    basis = Basis.full(7, 3, constant=False)
    correlations = np.abs(data.design.T @ data.response)
    best = {i: correlations[basis.uses[:, i]].max() for i in range(7)}
    order = input_ranking.priced_order(data, Place())
    assert sorted(order) == list(range(7))
    # Inputs of one monomial tie: compare values, not places.
    np.testing.assert_allclose([best[i] for i in order], sorted(best.values(), reverse=True))


def up_to_names(law):
    """The terms of a law in the order of inputs that sorts them first."""
    p = len(law.inputs)

    def terms(order):
        place = {name: i for i, name in zip(order, law.inputs, strict=True)}
        place |= {f"1/{name}": p + i for name, i in place.items()}
        named = ((sorted(place[name] for name in term), c) for term, c in law.terms.items())
        return sorted((tuple(factors), c) for factors, c in named)

    return min(map(terms, permutations(range(p)))) if p < 8 else None


def test_no_two_laws_are_the_same_up_to_names():
    for laws in (LAWS, FEYNMAN):
        drawn = [(law.draw(50, np.random.default_rng(0)).tobytes(), law) for law in laws.values()]
        keys = [(table, str(up_to_names(law))) for table, law in drawn]
        assert len(set(keys)) == len(keys)


def test_needed_is_the_place_of_the_last_true_input():
    assert input_ranking.needed([4, 2, 0, 1, 3], {4, 0}) == 3


def recovery_rows(perfect):
    return [
        {"n": str(n), "A": "100" if good else "95", "F": "0" if good else "5"}
        for n, good in perfect
    ]


def test_n0_needs_every_data_set_at_every_larger_n():
    assert n0(recovery_rows([(100, 0), (200, 1), (200, 1), (300, 1)])) == 200
    assert n0(recovery_rows([(100, 1), (200, 1), (200, 0), (300, 1)])) == 300
    assert n0(recovery_rows([(100, 1), (300, 0)])) is None


def made_up_rows(name, path):
    """Write a row for every quick cell, measures all alike, and return the rows."""
    experiment = load(name)
    table = Table(path, experiment.key, experiment.columns)
    for cell in experiment.cells(Plan(seeds=[100, 101], quick=True)):
        measures = dict.fromkeys(experiment.measures, 1.5) | {"A": 100.0, "F": 0.0, "needed": 33}
        common = {"status": "optimal", "time_limit": 1.0, "jobs": 1, "cores": 2, "numpy": "9.9"}
        table.append({**measures, **common, **cell.columns})
    return finished(read(path), experiment.key)


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"real_data"}))
def test_figures_are_drawn_from_rows_alone(name, tmp_path):
    rows = made_up_rows(name.split("-")[0], tmp_path / "rows.csv")
    assert draw(name, rows, tmp_path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_built_from_rows(name, tmp_path):
    made_up_rows(name, tmp_path / f"{name}.csv")
    marks = [f"<!-- run: {name} -->", *(f"<!-- table: {name}/{t} -->" for t in load(name).tables)]
    text = "Before.\n\n" + "\n".join(f"{mark}\nold\n<!-- end -->\n" for mark in marks) + "After."
    built = page.rebuild(text, results=tmp_path)
    assert built.startswith("Before.\n")
    assert built.endswith("After.")
    assert "old" not in built
    assert built.count("\n| --- |") == len(marks)  # the runs are a table, too
    assert f"python -m experiments.{name}" in built
    assert "numpy 9.9" in built
    assert page.rebuild(built, results=tmp_path) == built


def test_tables_say_what_the_rows_say(tmp_path):
    rows = made_up_rows("phase_transition", tmp_path / "rows.csv")
    for row in rows:
        if row["method"] == "lasso" and row["n"] != "600":
            row["A"], row["F"] = "90", "10"
    tables = load("phase_transition").tables
    assert "| exact (tree) | 150 | 150 | 6/6 | 150 to 600 |" in tables["n0"](rows)
    assert "| Lasso | 600 | 600 | 2/6 | 150 to 600 |" in tables["n0"](rows)
    assert "| about 600 |" in tables["n0"](rows)
    assert "| 90 ± 0, 10 ± 0 |" in tables["accuracy"](rows)
    ranked = made_up_rows("input_ranking", tmp_path / "ranked.csv")
    table = load("input_ranking").tables["sizes"](ranked)
    assert table.splitlines()[2:4] == [
        "| 200 | the paper | 72 |",
        "|  | ranking | 33 ± 0 (33 to 33) |",
    ]


def test_without_rows_the_page_says_so(tmp_path):
    text = "<!-- table: path/path -->\n<!-- end -->\n<!-- figure: path -->\n<!-- end -->\n"
    built = page.rebuild(text, results=tmp_path, figures=tmp_path)
    assert "No rows yet: `python -m experiments.path` makes them." in built
    assert "![" not in built


def test_the_committed_page_is_what_the_rows_give():
    for each in page.PAGES:
        text = each.read_text(encoding="utf-8")
        assert page.rebuild(text, page=each) == text


@pytest.mark.parametrize("name", NAMES)
def test_openings_say_something_about_any_rows(name, tmp_path):
    rows = made_up_rows(name, tmp_path / f"{name}.csv")
    opening = load(name).opening
    assert opening is None or opening(rows).endswith(".")


SAME = ("objective", "A", "F", "needed", "right", "terms", "TE")
COMMITTED = sorted(path.stem for path in page.RESULTS.glob("*.csv"))


def quickest(name):
    """The quickest committed run that ended by itself, with a certificate if any has one."""
    experiment = load(name)
    rows = finished(read(page.RESULTS / f"{name}.csv"), experiment.key)
    ended = [row for row in rows if row["status"] != "feasible" and any(map(row.get, SAME))]
    for row in sorted(ended, key=lambda row: (not row.get("gap"), float(row["wall"]))):
        key = tuple(row[column] for column in experiment.key)
        for cell in experiment.cells(Plan(seeds=[int(row["seed"])])):
            columns = {column: text(value) for column, value in cell.columns.items()}
            if tuple(columns[column] for column in experiment.key) == key:
                return row, cell
    return None, None


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_row_can_be_made_again(name):
    row, cell = quickest(name)
    if row is None:
        pytest.skip(f"the data of {name} are not at hand")
    if not installed(load(name), cell.method):
        pytest.skip(f"the package of {cell.method} is not installed")
    again = run_cell(name, float(row["time_limit"]), 1, cell)
    if again["status"] == FAILED and re.search("POLYSHARP|urlopen", again["note"]):
        pytest.skip(again["note"])
    assert again["status"] != FAILED, again["note"]
    for column in SAME:
        if row.get(column):
            assert float(text(again[column])) == pytest.approx(float(row[column]), rel=1e-4), column
    if row.get("gap"):  # this code may prove more than that of the row
        assert again["gap"] <= max(float(row["gap"]), 1e-4) + 1e-6
