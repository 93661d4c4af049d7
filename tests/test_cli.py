"""The command line as users and scripts meet it."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from support import Stop, at_higher_degree

import polysharp
from polysharp import SparsePolynomialRegressor, load_model, save_model
from polysharp.cli import COMMANDS, main, make_parser

NAMES = ["speed", "air gap", "mass, total"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0.5, 2.0, (60, 3)), columns=NAMES)
    frame["load"] = 1 + 2 * frame["speed"] * frame["air gap"] - frame["mass, total"] ** 2
    frame["load"] += 0.01 * rng.standard_normal(60)
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch, table):
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)
    return tmp_path


FIT = ["--target", "load", "-r", "2", "-l", "2", "-g", "100", "--engine", "enumeration"]


def fit(*options, file="t.csv"):
    return main(["fit", file, *FIT, *options])


@pytest.fixture
def model(folder, capsys):
    assert fit("-o", "model.json", "-q") == 0
    capsys.readouterr()
    return load_model("model.json")


def test_fit_prints_formula_certificate_and_errors(folder, capsys, table):
    assert fit("-o", "model.json") == 0
    out, err = capsys.readouterr()
    expected = SparsePolynomialRegressor(2, 2, gamma=100.0, engine="enumeration")
    expected.fit(table[NAMES], table["load"])
    assert str(expected.polynomial_) in out
    assert "Proved best: no formula with at most 2 terms fits these rows better" in out
    assert re.search(r"RMSE 0\.0\d+, R2 0\.999\d+ on the 60 rows of the fit", out)
    assert "t.csv: 60 rows, 3 inputs, target load" in out
    assert "wrote the model to model.json" in out
    assert "done" in err  # progress goes to standard error, in lines since it is no terminal
    assert "\x1b" not in err
    again = load_model("model.json")
    X = table[NAMES]
    np.testing.assert_allclose(again.predict(X), expected.predict(X), rtol=1e-12)
    assert again.get_params()["gamma"] == 100.0


def test_quiet_is_quiet(folder, capsys):
    assert fit("-q") == 0
    assert capsys.readouterr().err == ""


def write(frame, kind):
    file = f"t.{kind}"
    if kind == "csv.gz":
        with gzip.open(file, "wt") as packed:
            frame.to_csv(packed, index=False)
    elif kind == "tsv":
        frame.to_csv(file, index=False, sep="\t")
    elif kind == "european.csv":
        frame.to_csv(file, index=False, sep=";", decimal=",")
    elif kind == "marked.csv":
        frame.to_csv(file, index=False, encoding="utf-8-sig")
    elif kind == "xlsx":
        frame.to_excel(file, index=False)
    else:
        {"parquet": frame.to_parquet, "feather": frame.to_feather}[kind](file)
    return file


KINDS = ["csv.gz", "tsv", "european.csv", "marked.csv", "parquet", "feather", "xlsx"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_model(model, capsys, table, kind):
    file = write(table, kind)
    mark = ["--decimal", ","] if kind == "european.csv" else []
    assert fit("-o", "other.json", *mark, file=file) == 0
    other = load_model("other.json")
    assert other.polynomial_.names == model.polynomial_.names
    assert other.polynomial_.monomials == model.polynomial_.monomials
    np.testing.assert_allclose(
        other.polynomial_.coefficients, model.polynomial_.coefficients, rtol=1e-12
    )


def test_a_table_from_a_pipe(model, table, monkeypatch, capsys):
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(table.to_csv(index=False)))
    assert fit("-o", "other.json", file="-") == 0
    assert str(load_model("other.json").polynomial_) == str(model.polynomial_)


def test_blanks_as_delimiter(folder, capsys):
    rows = "\n".join(f"{x}   {x * x}" for x in range(1, 9))
    (folder / "t.dat").write_text(f"x y\n{rows}\n")
    assert main(["fit", "t.dat", "-t", "y", "-r", "2", "-l", "1", "-q", "-g", "1e6"]) == 0
    assert "x^2" in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_whatever_ends_a_line(model, table, end, capsys):
    Path("t.csv").write_bytes(table.to_csv(index=False, lineterminator=end).encode())
    assert fit("-q", "-o", "other.json") == 0
    assert str(load_model("other.json").polynomial_) == str(model.polynomial_)


def test_columns_by_name(folder, capsys, table):
    assert fit("--inputs", 'speed,"mass, total"', "-q", "-o", "a.json") == 0
    assert load_model("a.json").polynomial_.names == ("speed", "mass, total")
    assert fit("--exclude", "speed", "--exclude", '"mass, total"', "-q", "-o", "b.json") == 0
    assert load_model("b.json").polynomial_.names == ("air gap",)


def test_weights_count_rows(folder, capsys, table):
    weights = np.arange(60) % 3
    table.assign(w=weights).to_csv("w.csv", index=False)
    table.loc[np.repeat(np.arange(60), weights)].to_csv("repeated.csv", index=False)
    assert fit("--weights", "w", "-q", "-o", "a.json", file="w.csv") == 0
    assert fit("-q", "-o", "b.json", file="repeated.csv") == 0
    a, b = (load_model(name).polynomial_ for name in ("a.json", "b.json"))
    assert a.names == b.names == tuple(NAMES)
    np.testing.assert_allclose(a.coefficients, b.coefficients, rtol=1e-9)


def test_many_rows_with_missing_values_are_left_out_only_when_told(model, capsys, table):
    holes = pd.concat([table, table.iloc[:20].assign(speed=np.nan)])
    holes.to_csv("holes.csv", index=False)
    assert fit("-q", file="holes.csv") == 2
    capsys.readouterr()
    assert fit("-q", "--drop-missing", "-o", "other.json", file="holes.csv") == 0
    assert "left out 20 of 80 rows" in capsys.readouterr().err
    pd.concat([table, table.iloc[:3].assign(speed=np.nan)]).to_csv("holes.csv", index=False)
    assert fit("-q", "-o", "other.json", file="holes.csv") == 0
    said = "left out 3 of 63 rows, which have missing values in 'speed'; --impute median fills"
    assert said in capsys.readouterr().err
    assert str(load_model("other.json").polynomial_) == str(model.polynomial_)


def test_marks_for_missing_values_and_files_without_names(folder, capsys, table):
    marked = table.astype(object)
    marked.loc[3, "speed"] = "?"
    marked.loc[5, "air gap"] = "-999"
    marks = ["--missing", "?", "--missing=-999"]
    for file in ("m.csv", "m.xlsx"):
        marked.to_csv(file, index=False) if file == "m.csv" else marked.to_excel(file, index=False)
        assert fit("-q", *marks, "--drop-missing", file=file) == 0
        assert "left out 2 of 60 rows" in capsys.readouterr().err
    table.to_csv("bare.csv", index=False, header=False)
    table.to_excel("bare.xlsx", index=False, header=False)
    for file in ("bare.csv", "bare.xlsx"):
        words = ["fit", file, "--no-header", *FIT, "-q", "-o", "m.json", "-t", "4", "-x", "2"]
        assert main(words) == 0
        law = load_model("m.json").polynomial_
        assert (law.names, law.response) == (("x1", "x3"), "x4")
        capsys.readouterr()
        assert main(["predict", "m.json", file, "--no-header", "-x", "2", "--keep", "1"]) == 0
        assert capsys.readouterr().out.startswith("x1,prediction\n")
        for command in (["report", "--sizes", "0", "-q"], ["explain"]):
            told = ["m.json", file, "--no-header", "--target", "4", "--resamples", "0"]
            assert main([*command, *told]) == 0


@pytest.mark.parametrize(
    ("option", "parameter", "read"),
    [
        ("--include-input=3", "include_inputs", ["x3"]),
        ("--functions=3=exp", "functions", {"x3": ["exp"]}),
        ("--coefficient-bounds=3=0,1", "coefficient_bounds", {"x3": [0.0, 1.0]}),
    ],
)
def test_inputs_without_names_have_numbers_in_every_option(
    folder, capsys, table, option, parameter, read
):
    table.to_csv("bare.csv", index=False, header=False)
    words = ["fit", "bare.csv", "--no-header", *FIT, "-q", "-o", "m.json", "-t", "4", "-x", "2"]
    assert main([*words, option]) == 0, capsys.readouterr().err
    assert getattr(load_model("m.json"), parameter) == read


@pytest.mark.parametrize("rule", ["median", "mean"])
def test_missing_inputs_are_filled_as_in_the_fit(folder, capsys, table, rule):
    holes = table.copy()
    holes.loc[[2, 7], "speed"] = np.nan
    holes.to_csv("holes.csv", index=False)
    assert fit("-q", "--impute", rule, "-o", "m.json", file="holes.csv") == 0
    fill = getattr(holes["speed"], rule)()
    assert f"missing cells were filled: 'speed' with {fill:.6g}\n" in capsys.readouterr().err
    filled = holes.fillna({"speed": fill})
    expected = SparsePolynomialRegressor(2, 2, gamma=100.0, engine="enumeration")
    expected.fit(filled[NAMES], filled["load"])
    assert str(load_model("m.json").polynomial_) == str(expected.polynomial_)
    assert main(["predict", "m.json", "holes.csv"]) == 0
    predicted = [float(line) for line in capsys.readouterr().out.split()[1:]]
    assert predicted == pytest.approx(expected.predict(filled[NAMES]).tolist())
    # The response is never filled in.
    holes.assign(load=holes["load"].where(holes.index > 0)).to_csv("holes.csv", index=False)
    capsys.readouterr()
    assert fit("-q", "--impute", rule, file="holes.csv") == 0
    assert "left out 1 of 60 rows" in capsys.readouterr().err


def test_texts_of_few_values_become_zeros_and_ones(folder, capsys, table):
    rng = np.random.default_rng(5)
    town = rng.choice(["Oslo", "Paris", "Rome"], 60, p=[0.6, 0.2, 0.2])
    texts = table.assign(town=town, fast=np.where(rng.random(60) < 0.5, "yes", "no"))
    texts["load"] += 3.0 * (town == "Rome") * texts["speed"]
    texts.to_csv("texts.csv", index=False)
    options = ["--indicators", "-l", "3", "-q", "-o", "m.json", "--proof", "p", "--engine", "tree"]
    assert fit(*options, file="texts.csv") == 0
    err = capsys.readouterr().err
    assert "column 'town' became town=Paris, town=Rome (1 or 0)" in err
    assert "column 'fast' became fast=yes" in err
    law = load_model("m.json").polynomial_
    assert "`town=Rome`" in str(law)
    new = texts.drop(columns=["load", "fast"])
    new.loc[0, "town"] = "Berlin"  # a town that the fit has not seen is none of those it has
    new.to_csv("new.csv", index=False)
    assert main(["predict", "m.json", "new.csv"]) == 0
    X = np.c_[table[NAMES], new["town"] == "Paris", new["town"] == "Rome", np.zeros(60)]
    out = capsys.readouterr().out.split()[1:]
    assert [float(line) for line in out] == law(X.astype(float)).tolist()
    for command in (
        ["report", "m.json", "texts.csv", "--sizes", "0"],
        ["verify", "p", "texts.csv"],
    ):
        assert main([*command, "-q"]) == 0


def test_true_and_false_are_numbers(folder, capsys, table):
    table.assign(indoors=[True, False] * 30).to_csv("b.csv", index=False)
    assert fit("-q", "-o", "model.json", file="b.csv") == 0
    assert "indoors" in load_model("model.json").polynomial_.names


def test_held_out_rows(folder, capsys):
    assert fit("--holdout", "0.25", "-q", "--report", "r.html") == 0
    out = capsys.readouterr().out
    assert "on the 45 rows of the fit" in out
    held_out = re.search(r"(RMSE .*) on the 15 held-out rows", out)
    page = Path("r.html").read_text(encoding="utf-8")
    assert "All 45 rows are drawn." in page
    assert "On 15 held-out rows, which the fit has not seen" in page
    assert held_out.group(1).split()[1].rstrip(",") in page


def test_what_the_formula_costs_and_buys(folder, capsys):
    assert fit("-q", "--report", "r.html") == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^([> ]) +(\d+) +([\d.]+) ± \S+ +(0\.\d+|-)$", out, re.M)
    assert [int(row[1]) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row[1] for row in rows if row[0] == ">"] == ["2"]
    assert re.search(r"this formula \S+ ± \S+; the mean .*; linear regression \S+ ± .*", out)
    page = Path("r.html").read_text(encoding="utf-8")
    assert "2 (this model)" in page
    assert "linear regression" in page
    assert fit("-q", "--brief") == 0
    assert "linear regression" not in capsys.readouterr().out


def test_a_law_of_higher_degree_is_hinted_at(folder, capsys):
    x = np.linspace(-1.0, 1.0, 80)
    pd.DataFrame({"x": x, "y": x**5}).to_csv("five.csv", index=False)
    words = ["-t", "y", "-l", "4", "--cv", "4", "--no-center", "-q"]
    assert main(["fit", "five.csv", *words, "--degree", "1,2,3"]) == 0
    assert "try --degree 4" in capsys.readouterr().out
    assert main(["fit", "five.csv", *words, "--degree", "4,5,6"]) == 0
    assert "try --degree" not in capsys.readouterr().out


def test_a_degree_that_was_out_of_reach_is_not_hinted_at():
    errors = {"mean_test_score": [-2.0, -1.0], "std_test_score": [0.1, 0.1], "param_degree": [1, 2]}
    known = {"cv_results_": errors, "n_splits_": 5, "best_params_": {"degree": 2}}
    known["solution_"] = SimpleNamespace(r2=0.5)
    assert "try --degree 3" in at_higher_degree(SimpleNamespace(**known, remarks_=()))[0]
    assert at_higher_degree(SimpleNamespace(**known, remarks_=("Degree 3 could not",))) == []


def test_one_mistyped_cell_and_labels_are_named(folder, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(1.0, 2.0, (60, 2)), columns=["a", "b"])
    frame["grade"] = rng.integers(1, 6, 60)
    frame["load"] = frame.a * frame.b + (frame.grade - 3) ** 2 + 0.01 * rng.standard_normal(60)
    frame.to_csv("labels.csv", index=False)
    assert fit("-l", "4", "--brief", file="labels.csv") == 0
    assert "'grade' has powers and holds 5 whole numbers, 1 to 5" in capsys.readouterr().err
    frame["load"] = frame.a - frame.b + 0.01 * rng.standard_normal(60)
    frame.loc[17, "b"] *= 100.0
    frame.to_csv("cell.csv", index=False)
    assert fit("-l", "1", "-r", "1", "--brief", "--include-term", "a", file="cell.csv") == 0
    assert "row 18 makes" not in capsys.readouterr().err  # b is not in the formula
    frame.loc[17, "load"] = 900.0
    frame.to_csv("cell.csv", index=False)
    assert fit("-l", "1", "-r", "1", "--brief", "--include-term", "a", file="cell.csv") == 0
    said = capsys.readouterr().err
    assert "row 18 makes 98% of the squared error: look at 'b' = " in said
    assert "'load' = 900" in said


def test_a_formula_that_has_found_nothing_says_so(folder, capsys, table):
    said = "It predicts no better than the mean of load"
    assert fit("-q") == 0
    assert said not in capsys.readouterr().out
    noise = np.random.default_rng(1).standard_normal(len(table))
    table.assign(load=noise).to_csv("noise.csv", index=False)
    assert main(["fit", "noise.csv", "--target", "load", "-q", "-j", "1"]) == 0
    assert said in capsys.readouterr().out


def test_every_target_has_a_verdict(folder, capsys, table):
    noise = np.random.default_rng(1).standard_normal(len(table))
    table.assign(noise=noise).to_csv("two.csv", index=False)
    options = ["-t", "load,noise", "-r", "2", "-l", "2", "-g", "100", "-q", "-o", "m.json"]
    assert main(["fit", "two.csv", *options, "--report", "r.html"]) == 0
    said = "load: It predicts better than linear regression", "noise: It predicts no better than"
    out = capsys.readouterr().out
    assert all(f"\n{words}" in out for words in said)
    assert main(["info", "m.json"]) == 0
    info, page = capsys.readouterr().out, Path("r.html").read_text(encoding="utf-8")
    assert all(words in info and words in page for words in said)
    assert "As good as linear regression or better for 1 of 2 responses" in page
    assert main(["report", "m.json", "two.csv", "-q"]) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert all(words in page for words in said)
    assert main(["fit", "two.csv", *options, "--brief", "--holdout", "0.3"]) == 0
    assert "load: It predicts" not in capsys.readouterr().out


def test_no_size_has_more_terms_than_there_are(folder, capsys):
    assert main(["fit", "t.csv", "-t", "load", "-r", "1", "-l", "2", "-q"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^[> ] +(\d+) .*±", printed, re.M) == ["1", "2", "3"]


def test_rules_about_terms_reach_the_library(folder, capsys):
    options = ["--include-term", "speed^2", "--exclude-term", "speed `air gap`"]
    assert fit(*options, "--no-intercept", "--no-scale", "--center", "-q", "-o", "m.json") == 0
    model = load_model("m.json")
    assert (0, 0) in model.polynomial_.monomials
    assert (0, 1) not in model.polynomial_.monomials
    assert model.get_params()["center"] is True
    assert model.get_params()["scale"] is False
    assert model.intercept_ == 0.0


def test_bounds_on_coefficients_reach_the_library(folder, capsys):
    assert fit("--positive", "--coefficient-bounds", "speed=,0.5", "-o", "m.json", "-q") == 0
    polynomial = load_model("m.json").polynomial_
    for term, c in zip(polynomial.monomials, polynomial.coefficients, strict=True):
        assert 0.0 <= c <= (0.5 if 0 in term else np.inf)
    assert fit("--coefficient-bounds=-1,1", "-o", "m.json", "-q") == 0
    assert np.abs(load_model("m.json").polynomial_.coefficients).max() == 1.0
    capsys.readouterr()
    assert fit("--coefficient-bounds=1,2", "-q") == 2
    assert "coefficient_bounds must hold 0" in capsys.readouterr().err


def test_budgets_by_validation(folder, capsys):
    options = ["--target", "load", "--degree", "1,2", "--time-limit", "20", "--gamma", "1,100"]
    assert main(["fit", "t.csv", *options, "--no-center", "--cv", "3", "-l", "4", "-q"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"chosen by cross-validation: .*degree 2", out)
    assert "at most 2 terms" in out
    assert "mean of 3 splits" in out


def test_a_model_of_the_search_is_saved_with_what_it_chose(folder, capsys, table):
    cv = polysharp.SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=3, gamma=(1.0, 100.0), center=False, cv=2, random_state=0
    ).fit(table[NAMES], table["load"])
    save_model(cv, "cv.json")
    again = load_model("cv.json")
    assert again.predict(table[NAMES]).tobytes() == cv.predict(table[NAMES]).tobytes()
    chosen = {name: again.get_params()[name] for name in cv.best_params_}
    assert chosen == cv.best_params_
    assert json.loads(Path("cv.json").read_text())["estimator"] == "SparsePolynomialRegressorCV"


def test_a_proof_is_asked_for(folder, capsys):
    options = ["--target", "load", "-r", "2", "-l", "2", "--require-proof", "-q", "-o", "m.json"]
    assert main(["fit", "t.csv", *options]) == 0
    assert main(["fit", "t.csv", *options, "--engine", "local-search", "--gap-tol", "0"]) == 3
    assert os.path.exists("m.json")


def test_the_proof_can_be_checked(folder, capsys, table):
    options = ["--target", "load", "-r", "2", "-l", "2", "-g", "1", "--proof", "p.npz", "-q"]
    assert main(["fit", "t.csv", *options]) == 0
    proof = polysharp.Proof.load("p.npz")
    assert polysharp.verify(proof, table[NAMES], table["load"]).valid
    assert fit("-q", "--proof", "none.npz") == 0
    assert "no proof to write" in capsys.readouterr().err
    assert not os.path.exists("none.npz")


def test_rivals_of_a_model(model, table, capsys):
    rivals = ["rivals", "model.json", "t.csv", "--within", "3", "--time-limit", "none", "-q"]
    assert main([*rivals, "-o", "r.csv", "--proof", "p", "--require-proof"]) == 0
    out = capsys.readouterr().out
    found = polysharp.rivals(model, table[NAMES], table["load"], within=3.0)
    assert out.startswith(str(found))
    np.testing.assert_allclose(pd.read_csv("r.csv")["objective"], found.objectives, rtol=1e-9)
    assert main(["verify", "p", "t.csv", "-q"]) == 0
    assert f"but the {len(found)} that the proof names" in capsys.readouterr().out
    assert main([*rivals, "-o", "r.jsonl", "--json", "--max-count", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["count"], said["complete"], len(said["rivals"])) == (found.count, True, 1)
    assert len(Path("r.jsonl").read_text().splitlines()) == 1 + found.count
    assert main([*rivals, "--time-limit", "1e-9", "--require-proof"]) == 3
    assert main(["report", "model.json", "t.csv", "--sizes", "0", "--rivals", "3", "-q"]) == 0
    assert "What else could it be" in Path("report.html").read_text(encoding="utf-8")
    for wrong in (["-o", "t.csv"], ["--proof", "model.json"], ["--within", "-1"]):
        assert main([*rivals, *wrong]) == 2
    table.assign(load=2.0 * table["load"]).to_csv("other.csv", index=False)
    assert main(["rivals", "model.json", "other.csv", "-q"]) == 2
    assert "must be the rows of the fit" in capsys.readouterr().err


def test_a_proof_is_checked_on_the_command_line(folder, capsys, table):
    options = ["-t", "load", "-r", "2", "-l", "2", "-g", "1", "--center", "-q"]
    assert main(["fit", "t.csv", *options, "--proof", "p", "-o", "m.json"]) == 0
    capsys.readouterr()
    assert main(["verify", "p", "t.csv"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The proof holds for the 60 rows of t.csv. Every formula of this kind")
    mean = table["speed"].mean()
    assert f"(speed - {str(mean)[:10]}" in out  # the statement is whole, shift and scale included
    assert main(["verify", "m.json", "t.csv", "-q"]) == 0
    assert "no other choice of terms can lower the cost by more than" in capsys.readouterr().out
    table.assign(load=table["load"] + 0.1 * table["speed"]).to_csv("other.csv", index=False)
    assert main(["verify", "p", "other.csv", "-q"]) == 4
    assert capsys.readouterr().out.startswith("The proof does NOT hold for other.csv: ")
    options += ["--holdout", "0.25", "--seed", "3"]
    holes = table.assign(speed=table["speed"].where(table.index != 4))
    holes.to_csv("holes.csv", index=False)
    assert main(["fit", "holes.csv", *options, "--impute", "mean", "--brief", "--proof", "q"]) == 0
    check = ["verify", "q", "holes.csv", "-q", "--impute", "mean"]
    assert main([*check, "--holdout", "0.25", "--seed", "3"]) == 0
    assert main(check) == 4
    capsys.readouterr()
    Path("p").write_bytes(Path("p").read_bytes()[:-50])
    for file in ("p", "t.csv", "nothing"):
        assert main(["verify", file, "t.csv"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupted_search_is_written_and_told(folder, capsys, monkeypatch):
    whole = SparsePolynomialRegressor.fit

    def cut_short(self, *rows, **weights):
        whole(self, *rows, **weights)
        solution = replace(self.solution_, stop=Stop.INTERRUPTED)
        self.fitted_ = replace(self.fitted_, solution=solution)
        return self

    monkeypatch.setattr(SparsePolynomialRegressor, "fit", cut_short)
    assert fit("-q", "-o", "m.json") == 130
    assert "interrupted by the user" in capsys.readouterr().out
    assert load_model("m.json").solution_.stop is Stop.INTERRUPTED


def test_an_interrupt_of_the_comparison_loses_no_model(folder, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("polysharp.cli.size_table.sizes_near", interrupt)
    assert fit("-q", "-o", "m.json") == 130
    assert capsys.readouterr().err == "polysharp: the comparison was interrupted\n"
    assert load_model("m.json").polynomial_.monomials


def test_an_interrupt_outside_of_the_search(folder, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("polysharp.cli.fit_command.read_sample", interrupt)
    assert fit("-q") == 130
    assert capsys.readouterr().err == "polysharp: interrupted\n"


@pytest.mark.slow
def test_ctrl_c_in_earnest(folder):
    rng = np.random.default_rng(0)
    hard = pd.DataFrame(rng.standard_normal((40, 12)), columns=[f"x{i}" for i in range(12)])
    hard["y"] = rng.standard_normal(40)
    hard.to_csv("hard.csv", index=False)
    options = ["-t", "y", "-r", "3", "-l", "12", "-g", "10", "--time-limit", "none"]
    command = [sys.executable, "-m", "polysharp", "fit", "hard.csv", *options, "-o", "m.json"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        for line in process.stderr:
            if line.startswith(("branching", "root")):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted by the user" in out
    assert load_model("m.json").solution_.gap > 0


def test_predictions(model, capsys, table):
    assert main(["predict", "model.json", "t.csv"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "prediction"
    expected = model.predict(table[NAMES])
    assert [float(line) for line in lines[1:]] == expected.tolist()
    assert re.match(r"polysharp: RMSE 0\.0\d+, R2 0\.999\d+ against the column 'load'", err)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather", "xlsx"])
def test_predictions_as_files(model, capsys, table, kind):
    new = table[["mass, total", "air gap", "speed"]].assign(id=range(60))  # in another order
    new.to_csv("new.csv", index=False)
    file = f"predictions.{kind}"
    assert main(["predict", "model.json", "new.csv", "--keep", "id", "-o", file]) == 0
    assert f"wrote 60 predictions of load to {file}" in capsys.readouterr().out
    read = {
        "csv": pd.read_csv,
        "tsv": lambda f: pd.read_csv(f, sep="\t"),
        "parquet": pd.read_parquet,
        "feather": pd.read_feather,
        "xlsx": pd.read_excel,
    }[kind]
    written = read(file)
    assert list(written.columns) == ["id", "prediction"]
    assert written["id"].tolist() == list(range(60))
    np.testing.assert_allclose(written["prediction"], model.predict(table[NAMES]), rtol=1e-14)


def test_only_what_the_formula_uses_is_needed(folder, capsys, table):
    assert fit("--include-input", "speed", "-l", "1", "-q", "-o", "m.json") == 0
    law = load_model("m.json").polynomial_
    used = [law.names[i] for i in law.inputs]
    assert len(used) < 3
    table[used].to_csv("new.csv", index=False)
    capsys.readouterr()
    assert main(["predict", "m.json", "new.csv"]) == 0
    out = capsys.readouterr().out.split()[1:]
    assert [float(v) for v in out] == law(table[NAMES]).tolist()
    # A broken cell in a column that is not used does no harm either.
    table.assign(**{name: "?" for name in NAMES if name not in used}).to_csv("new.csv", index=False)
    assert main(["predict", "m.json", "new.csv"]) == 0


def test_keep_all_and_ignore_unknown(model, capsys, table):
    table.assign(city="Paris").to_csv("new.csv", index=False)
    assert main(["predict", "model.json", "new.csv", "--keep-all", "-o", "p.csv"]) == 0
    assert list(pd.read_csv("p.csv").columns) == [*NAMES, "load", "city", "prediction"]
    assert main(["predict", "model.json", "new.csv", "--ignore-unknown", "-o", "p.csv"]) == 0
    assert list(pd.read_csv("p.csv").columns) == ["prediction"]


def test_new_rows_need_no_target(model, capsys, table):
    table.assign(load=np.nan).to_csv("new.csv", index=False)
    assert main(["predict", "model.json", "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 61
    assert err == ""


def test_the_table_of_sizes(folder, capsys):
    assert fit("-q", "--size-table", "sizes.csv", "-l", "4") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "wrote 8 sizes to sizes.csv" in out
    sizes = pd.read_csv("sizes.csv")
    assert sizes["max_terms"].tolist() == list(range(1, 9))
    assert (sizes["objective"] >= sizes["bound"]).all()
    assert (sizes["r2"] <= sizes["r2_ceiling"]).all()
    assert sizes["objective"].is_monotonic_decreasing
    lines = re.findall(r"^[> ] +(\d+) +(\S+) ± \S+ +\S+$", out, re.M)
    assert [int(size) for size, _ in lines] == sizes["max_terms"].tolist()
    errors = [float(error) for _, error in lines]
    assert errors == pytest.approx(sizes["validation_error"].tolist(), rel=1e-3)


def test_a_table_of_sizes_needs_the_comparison(folder, capsys):
    for option, why in (("--brief", "which --brief skips"), ("--target", "is for one target")):
        words = [option] if option == "--brief" else [option, "load,speed", "--engine", "tree"]
        assert fit("--size-table", "sizes.csv", *words) == 2
        assert why in capsys.readouterr().err
    assert not Path("sizes.csv").exists()


def test_explain_ranks_the_inputs_that_the_formula_leaves_out(folder, capsys, table):
    noisy = table.assign(noise=np.random.default_rng(1).uniform(0.5, 2.0, 60))
    noisy.to_csv("t.csv", index=False)
    assert fit("-q", "-o", "m.json") == 0
    capsys.readouterr()
    assert main(["explain", "m.json", "t.csv", "--resamples", "0"]) == 0
    shares = re.findall(r"^(\S.*?) +\S.*?  +([\d.]+) %$", capsys.readouterr().out, re.M)
    assert sum(float(share) for _, share in shares) == pytest.approx(100.0, abs=0.3)
    assert shares[-1][0] == "noise"
    assert float(shares[-1][1]) < 5.0


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("--degree", "must be a whole number, or several with commas between them, got 'two'"),
        ("--gamma", "must be a number or 'auto', got 'two'"),
    ],
)
def test_words_where_numbers_belong(option, rule, capsys):
    with pytest.raises(SystemExit):
        main(["fit", "t.csv", "-t", "y", option, "two"])
    assert rule in capsys.readouterr().err


def test_info_without_a_file(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"polysharp {polysharp.__version__}, Python ")
    from polysharp.engines import ENGINES

    assert all(engine in out for engine in ENGINES if engine != "auto")
    assert re.search(r"pandas +\(tables\) +\d", out)
    assert not re.search(r"\)\w", out.partition("optional libraries")[2])


def test_info_of_a_model(model, capsys):
    assert main(["info", "model.json"]) == 0
    out = capsys.readouterr().out
    assert str(model.solution_) in out
    assert "inputs used (3 of 3): speed, air gap, mass, total" in out
    assert "gamma=100.0" in out
    for c in model.polynomial_.coefficients:
        assert f"{c:.16g}" in out


def test_the_formula_as_code(model, capsys, table):
    def shown(*options):
        assert main(["info", "model.json", *options]) == 0
        return capsys.readouterr().out

    law = model.polynomial_
    namespace = {}
    exec(shown("--as", "python", "--name", "load"), namespace)
    predicted = namespace["load"](*table[NAMES].to_numpy().T)
    np.testing.assert_allclose(predicted, law(table[NAMES]), rtol=1e-13)
    assert shown("--as", "c") == law.to_c()
    assert shown("--as", "sql", "--table", "rides").rstrip() == law.to_sql("rides")
    assert shown("--as", "latex", "--digits", "3").rstrip() == law.to_latex(3)
    assert shown("--as", "text").rstrip() == law.formula(6)
    assert shown("--as", "sympy").rstrip() == str(law.to_sympy())
    assert shown("--as", "onnx", "-o", "m.onnx") == ""
    assert Path("m.onnx").read_bytes() == law.to_onnx().SerializeToString()
    assert shown("--as", "c", "-o", "m.c") == ""
    assert Path("m.c").read_text() == law.to_c()
    assert main(["info", "model.json", "--as", "onnx"]) == 2
    assert main(["info", "--as", "c"]) == 2


def test_report(model, capsys):
    assert main(["report", "model.json", "t.csv", "--sizes", "0", "--title", "A <b>"]) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "A &lt;b&gt;" in page
    assert main(["report", "model.json", "t.csv", "--sizes", "3", "-q"]) == 0
    assert len(Path("report.html").read_text(encoding="utf-8")) > len(page)
    assert main(["report", "model.json", "t.csv", "--sizes", "-1"]) == 2
    assert fit("--report", "other.html", "-q") == 0
    assert "polysharp fit t.csv --target load" in Path("other.html").read_text(encoding="utf-8")


def test_demo(folder, capsys, monkeypatch):
    assert main(["demo", "--table", "rides.csv"]) == 0
    assert pd.read_csv("rides.csv").shape == (1000, 13)
    seen = []
    monkeypatch.setattr("polysharp.cli.demo.demonstrate", lambda *how: seen.append(how))
    assert main(["demo", "-o", "picture.png"]) == 0
    assert seen == [("picture.png", 60.0)]


def test_warnings_are_one_line(folder, capsys, monkeypatch):
    whole = SparsePolynomialRegressor.fit

    def warn(self, *rows, **weights):
        warnings.warn("take\ncare", UserWarning, stacklevel=2)
        return whole(self, *rows, **weights)

    monkeypatch.setattr(SparsePolynomialRegressor, "fit", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert fit("-q") == 0
    assert capsys.readouterr().err == "polysharp: warning: take care\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    examples = re.findall(r"^  (polysharp .*?)(?: {3,}.*)?$", text.split("examples:")[1], re.M)
    assert examples
    for line in examples:
        words = shlex.split(line.split("||")[0])[1:]
        assert words[0] == command
        make_parser().parse_args(words)


def test_usage_errors_exit_with_2(capsys):
    for words in ([], ["fit"], ["fit", "t.csv"], ["dance"], ["fit", "t.csv", "-t", "y", "-l", "x"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"polysharp {polysharp.__version__}\n"


@pytest.mark.parametrize(("given", "cores"), [([], 3), (["--jobs", "1"], 1)])
def test_budgets_are_compared_on_every_core_unless_told(folder, monkeypatch, given, cores):
    used = []

    class Counting(joblib.Parallel):
        def __enter__(self):
            used.append(self._effective_n_jobs())
            return super().__enter__()

    monkeypatch.setattr(joblib, "Parallel", Counting)
    monkeypatch.setattr("joblib._parallel_backends.cpu_count", lambda: 3)
    options = ["--target", "load", "-r", "2", "-l", "2", "-g", "100", "--cv", "3", "--quiet"]
    assert main(["fit", "t.csv", *options, *given]) == 0
    assert set(used) == {cores}


def test_help_loads_no_library():
    script = "import sys, polysharp.cli as c; c.make_parser(); print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {*done.stdout.split()} & {"numpy", "pandas", "sklearn", "scipy", "rich"}


def test_whoever_reads_may_go_away(model):
    command = f"{shlex.quote(sys.executable)} -m polysharp predict model.json t.csv"
    script = f"{command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)  # it may have written all before the other end closed
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_a_terminal_gets_a_live_line(folder):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "polysharp", "fit", "t.csv", *FIT]
    done = subprocess.run(
        command, stdout=-1, stderr=theirs, env={**os.environ, "TERM": "xterm"}, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "\x1b[" in shown
    assert b"\x1b" not in done.stdout
