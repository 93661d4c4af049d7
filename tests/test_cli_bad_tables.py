"""Bad tables: each gets one clear sentence, a non-zero exit code, no traceback, and no output."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from polysharp.cli import main

GOOD = pd.DataFrame(
    np.round(np.random.default_rng(0).standard_normal((12, 3)), 3), columns=["a", "b", "y"]
)


def csv(frame=GOOD, **options):
    return frame.to_csv(index=False, **options)


def changed(row, column, value):
    frame = GOOD.astype(object)
    frame.loc[row, column] = value
    return csv(frame)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*options, target="y", file="t.csv"):
    return main(["fit", file, "--target", target, "--max-terms", "1", "-r", "1", "-q", *options])


def refused(capsys, code, *pieces):
    """Check that there was one sentence, on standard error, that says all the pieces."""
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("polysharp: error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for piece in pieces:
        assert piece in err


CASES = {
    "missing target": (csv(), ["--target", "z"], ["--target", "'z'", "'a', 'b', 'y'"]),
    "unknown input": (csv(), ["--inputs", "a,q"], ["--inputs", "'q'", "'a', 'b', 'y'"]),
    "unknown excluded column": (csv(), ["--exclude", "q"], ["--exclude", "'q'"]),
    "unknown weights": (csv(), ["--weights", "w"], ["--weights", "'w'"]),
    "target among the inputs": (csv(), ["--inputs", "a,y"], ["--inputs", "target 'y'"]),
    "no input left": (csv(GOOD[["y"]]), [], ["beside the target 'y'", "got none"]),
    "all inputs excluded": (csv(), ["--exclude", "a,b"], ["beside the target", "got none"]),
    "inputs that are excluded": (
        csv(),
        ["--inputs", "a", "--exclude", "a"],
        ["--inputs", "--exclude", "got 'a'"],
    ),
    "text columns that are named": (
        csv(GOOD.assign(city="Paris", day="Monday")),
        ["--inputs", "a,city,day"],
        ["'Paris' in row 1 of column 'city'", "'Monday'", "--exclude 'city,day'"],
    ),
    "text columns without indicators": (
        csv(GOOD.assign(city=["Paris", "Rome", "Oslo"] * 4)),
        ["--no-indicators"],
        ["'Paris' in row 1", "--indicators", "--exclude 'city'"],
    ),
    "text columns of many values": (
        csv(GOOD.assign(id=[f"a{i}" for i in range(12)])),
        ["--indicators", "--inputs", "a,id"],
        ["'a0' in row 1 of column 'id'", "--exclude 'id'"],
    ),
    "one cell that is no number": (
        changed(4, "b", "1.5 m"),
        [],
        ["must hold numbers", "'1.5 m' in row 5 of column 'b'", "say --missing '1.5 m'"],
    ),
    "several cells that are no numbers": (
        "a,b,y\n1,2 m,3\n2,1,4\n2,x,3\n",
        [],
        ["'2 m' in row 1", "--exclude 'b'; where other rows hold numbers, correct"],
    ),
    "target that is no number": (changed(0, "y", "high"), [], ["'high' in row 1 of column 'y'"]),
    "missing values": (
        csv(GOOD.assign(a=GOOD["a"].where(GOOD.index % 3 > 0))),
        [],
        ["no missing", "'a' (4)", "row 1", "--drop-missing", "--impute median", "--exclude 'a'"],
    ),
    "missing target values": (
        csv(GOOD.assign(y=GOOD["y"].where(GOOD.index % 3 > 0))),
        [],
        ["'y' (4)", "row 1"],
    ),
    "infinite value": (changed(2, "b", "inf"), [], ["inf in row 3; correct the cell", "'b'"]),
    "too large for a float": (changed(2, "b", "-1e999"), [], ["finite", "-inf in row 3", "'b'"]),
    "duplicate names": ("a,a,y\n1,2,3\n4,5,7\n", [], ["several columns named 'a'", "rename"]),
    "nameless column": (
        GOOD.to_csv(),
        [],
        ["without a name", "--exclude 'Unnamed: 0'"],
    ),
    "wrong delimiter": (
        csv(),
        ["--delimiter", ";"],
        ["--target", "'y'", "'a,b,y'", "delimiter"],
    ),
    "delimiter of two characters": (csv(), ["--delimiter", "::"], ["--delimiter", "'::'"]),
    "decimal mark of two characters": (csv(), ["--decimal", "::"], ["--decimal", "'::'"]),
    "long row": ("a,b,y\n1,2,3\n1,2,3,4\n1,2,5\n", [], ["4 fields in line 3", "delimiter ','"]),
    "rows all longer than the header": ("a,y\n1,2,3\n4,5,7\n", [], ["more fields than its header"]),
    "short row": ("a,b,y\n1,2,3\n1,2\n1,2,5\n", [], ["'y' (1)", "row 2"]),
    "empty file": ("", [], ["'t.csv' is empty"]),
    "blank file": ("\n  \n\n", [], ["'t.csv' is empty"]),
    "header only": ("a,b,y\n", [], ["a header and no rows"]),
    "commas only": (",,\n,,\n", [], ["no names in its header"]),
    "constant target": (
        csv(GOOD.assign(y=3.0)),
        [],
        ["is constant (3 in all 12 rows)"],
    ),
    "one row": (csv(GOOD[:1]), [], ["at least 2 rows", "got 1"]),
    "one row without missing values": (
        "a,y\n1,2\n,3\n",
        ["--drop-missing"],
        ["at least 2 rows", "got 1"],
    ),
    "a column without values": (
        "a,b,y\n1,,2\n2,,3\n",
        ["--drop-missing", "--inputs", "a,b"],
        ["--drop-missing", "all 2 rows", "'b' (2)", "--exclude 'b'"],
    ),
    "not UTF-8": (
        b"a,y\n1,2\n\xff\xfe,3\n",
        ["--encoding", "utf-8"],
        ["not text in the encoding", "--encoding", "latin-1"],
    ),
    "unknown encoding": (csv(), ["--encoding", "utf-9"], ["--encoding", "'utf-9'"]),
    "binary": (b"\x00\x01\x02a,y\n", [], ["is not text"]),
    "bad degree": (csv(), ["--degree", "0"], ["degree must be an integer of at least 1, got 0"]),
    "more folds than rows": (csv(), ["--cv", "13"], ["cv must be at most", "12, got 13"]),
    "bad holdout": (csv(), ["--holdout", "1.5"], ["--holdout", "1.5"]),
    "holdout of too few rows": (csv(GOOD[:2]), ["--holdout", "0.5"], ["--holdout", "2 rows"]),
    "negative weights": (csv(GOOD.assign(w=-1.0)), ["--weights", "w"], ["must not be negative"]),
    "list of degrees": (csv(), ["--degree", "1,2"], ["--degree", "one number", "--cv"]),
    "unknown engine": (csv(), ["--engine", "magic"], ["engine must be one of", "'magic'"]),
    "no header": (
        csv().partition("\n")[2],
        [],
        ["numbers in its first line where names should be", "--no-header"],
    ),
    "a target that is a number of the first row": (
        "0.11,0.5\n0.2,0.7\n0.3,0.8\n",
        ["--target", "0.11"],
        ["'0.11'; say --no-header"],
    ),
    "years as names": ("2019,2020\n1,2\n2,3\n3,5\n", ["-t", "y"], ["--target must name columns"]),
    "an unknown number of a column": (
        "0.11,0.5\n0.2,0.7\n0.3,0.8\n",
        ["--no-header", "-t", "3"],
        ["--target", "'x3'", "'x1', 'x2'"],
    ),
    "sheet of a text file": (csv(), ["--sheet", "May"], ["--sheet", "'t.csv'"]),
    "term of too high degree": (csv(), ["--include-term", "a^9"], ["degree=", "got 'a^9'"]),
    "unknown term": (csv(), ["--include-term", "a q"], ["include_terms", "'a q'"]),
    "header not cut": (("x" * 140_000) + "\n1\n", [], ["140,000", "--delimiter"]),
    "long header, other mark": (
        ";".join(f"{'x' * 900}{i}" for i in range(200)) + "\n" + ";".join("1" * 200),
        [],
        ["--target must name columns"],
    ),
    "no such folder": (csv(), ["--output", "no/model.json"], ["'no/model.json'", "folder"]),
    "output is a folder": (csv(), ["--report", "."], ["folder '.'"]),
}


@pytest.mark.parametrize(("content", "options", "pieces"), CASES.values(), ids=CASES.keys())
def test_one_sentence_and_exit_code_2(folder, capsys, content, options, pieces):
    (folder / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(folder.iterdir())
    code = fit(*options)
    out, err = capsys.readouterr()
    assert code == 2
    assert err.startswith("polysharp: error: ") or "left out" in err
    assert err.count("polysharp: error: ") == 1
    assert err.count("\n") == 1 + ("left out" in err)
    assert "Traceback" not in err
    for piece in pieces:
        assert piece in err
    assert "=" not in out  # no formula
    assert "--exclude 'y'" not in err  # the target cannot be left out
    assert sorted(folder.iterdir()) == before


def test_a_file_that_is_not_there(folder, capsys):
    refused(capsys, fit(file="missing.csv"), "'missing.csv' is not there")
    address = "https://example.org/t.csv"
    refused(capsys, fit(file=address), f"'{address}' is an address and no file; download it first")


def test_a_folder(folder, capsys):
    (folder / "data").mkdir()
    refused(capsys, fit(file="data"), "'data'", "Parquet or CSV files, found none")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything can be read here")
def test_a_file_that_cannot_be_read(folder, capsys):
    (folder / "t.csv").write_text(csv())
    (folder / "t.csv").chmod(0)
    refused(capsys, fit(), "'t.csv' cannot be used: Permission denied")


def test_a_file_whose_reading_fails(folder, capsys, monkeypatch):
    (folder / "t.csv").write_text(csv())

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "t.csv")

    monkeypatch.setattr("polysharp.cli.delimited.open", refuse, raising=False)
    refused(capsys, fit(), "'t.csv' cannot be used: Permission denied")


@pytest.mark.parametrize("kind", ["parquet", "feather", "xlsx"])
def test_files_that_are_not_what_their_ending_says(folder, capsys, kind):
    (folder / f"t.{kind}").write_text(csv())
    refused(capsys, fit(file=f"t.{kind}"), f"'t.{kind}' cannot be read as")


def test_a_gzip_file_that_is_none(folder, capsys):
    (folder / "t.csv.gz").write_text(csv())
    refused(capsys, fit(file="t.csv.gz"), "not a gzip file")


def test_duplicate_names_in_other_kinds(folder, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"]), "t.parquet")
    refused(capsys, fit(file="t.parquet"), "several columns named 'a'")
    double = GOOD.set_axis(["a", "a", "y"], axis=1)
    double.to_excel("t.xlsx", index=False)
    refused(capsys, fit(file="t.xlsx"), "several columns named 'a'")


def test_a_sheet_that_is_not_there(folder, capsys):
    GOOD.to_excel("t.xlsx", index=False)
    refused(capsys, fit("--sheet", "May", file="t.xlsx"), "'t.xlsx'", "May")


def test_dates_and_categories(folder, capsys):
    dated = GOOD.assign(day=pd.Timestamp("2026-05-01"), kind=pd.Categorical(["u"] * 12))
    dated.to_parquet("t.parquet")
    named = ("--inputs", "day,kind,a")
    asked = fit(*named, file="t.parquet")
    refused(capsys, asked, "column 'day'", "column 'kind'", "--exclude 'day,kind'")


@pytest.fixture
def model(folder, capsys):
    (folder / "t.csv").write_text(csv())
    assert fit("--output", "model.json", "--inputs", "a") == 0
    capsys.readouterr()
    return "model.json"


PREDICT = {
    "missing column": ("b\n1\n", [], ["must have the columns", "got no 'a'", "it has 'b'"]),
    "misspelt column": ("A\n1\n", [], ["got no 'a'", "it has 'A'"]),
    "unknown column": ("a,c\n1,2\n", [], ["does not know", "'c'", "--exclude 'c'", "--ignore-"]),
    "text": ("a\nfast\n", [], ["'fast' in row 1 of column 'a'"]),
    "infinite": ("a\ninf\n", [], ["finite", "row 1"]),
    "no rows": ("a\n", [], ["no rows"]),
    "unknown kept column": ("a\n1\n", ["--keep", "id"], ["--keep", "'id'"]),
    "kept name is taken": ("a,prediction\n1,2\n", ["--keep-all"], ["'prediction'"]),
    "needed column excluded": ("a\n1\n", ["--exclude", "a"], ["got no 'a'"]),
}


@pytest.mark.parametrize(("content", "options", "pieces"), PREDICT.values(), ids=PREDICT.keys())
def test_bad_tables_to_predict(model, folder, capsys, content, options, pieces):
    (folder / "new.csv").write_text(content)
    refused(capsys, main(["predict", model, "new.csv", *options]), *pieces)


@pytest.mark.parametrize("command", ["predict", "report"])
def test_bad_models(folder, capsys, command):
    (folder / "t.csv").write_text(csv())
    refused(capsys, main([command, "model.json", "t.csv"]), "'model.json'", "No such file")
    (folder / "model.json").write_text("{}")
    refused(capsys, main([command, "model.json", "t.csv"]), "not a polysharp model", "format")


def test_a_model_needs_its_inputs_and_no_advice_says_otherwise(model, folder, capsys):
    (folder / "new.csv").write_text("a,b,y\n1,1,2\n,2,3\n3,3,4\n")
    assert main(["report", model, "new.csv"]) == 2
    assert capsys.readouterr().err.endswith("row 2; leave such rows out with --drop-missing\n")


def test_missing_texts_are_named_by_the_column_of_the_table(folder, capsys):
    texts = GOOD.assign(kind=["u", "v", None] * 4, b=["p", "q", "r"] * 4)
    (folder / "t.csv").write_text(csv(texts))
    assert fit("--indicators") == 2
    assert "got some in 'kind' (4), the first in row 3;" in (err := capsys.readouterr().err)
    assert "--exclude 'kind'" in err
    assert fit("--indicators", "--exclude", "kind") == 0


def test_texts_that_the_fit_has_not_seen_are_named(folder, capsys):
    kinds = ["u", "v", "w"] * 4
    (folder / "t.csv").write_text(csv(GOOD.assign(kind=kinds, y=[ord(k) for k in kinds])))
    assert fit("--indicators", "--inputs", "kind", "--max-terms", "2", "-o", "model.json") == 0
    (folder / "new.csv").write_text("kind\nw\nx\nz\n")
    capsys.readouterr()
    assert main(["predict", "model.json", "new.csv", "-o", "p.csv"]) == 0
    said = "column 'kind' holds texts that the fit has not seen, such as 'x', in 2 of 3 rows; they"
    assert f"{said} are taken for 'u'" in capsys.readouterr().err
    (folder / "new.csv").write_text("kind\nw\nv\nu\n")
    assert main(["predict", "model.json", "new.csv", "-o", "p.csv"]) == 0
    assert capsys.readouterr().err == ""


def test_report_on_a_table_without_the_target(model, folder, capsys):
    (folder / "new.csv").write_text("a\n1\n2\n")
    refused(capsys, main(["report", model, "new.csv"]), "got no 'y'", "it has 'a'")


@pytest.mark.parametrize("package", ["pandas", "pyarrow", "openpyxl"])
def test_a_missing_library_is_named(folder, capsys, monkeypatch, package):
    kind = {"pandas": "csv", "pyarrow": "parquet", "openpyxl": "xlsx"}[package]
    (folder / "t.csv").write_text(csv())
    GOOD.to_parquet("t.parquet")
    GOOD.to_excel("t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, package, None)
    refused(capsys, fit(file=f"t.{kind}"), package, "pip install")


@pytest.mark.parametrize(
    ("words", "said"),
    [("\nno such sheet\nthere are two\n", "no such sheet"), ("", "ValueError")],
)
def test_what_other_libraries_say_is_one_line(folder, capsys, monkeypatch, words, said):
    def refuse(options):
        raise ValueError(words)

    monkeypatch.setattr("polysharp.cli.fit_command.run_fit", refuse)
    assert main(["fit", "t.csv", "--target", "y"]) == 2
    assert capsys.readouterr().err == f"polysharp: error: {said}\n"


def test_the_traceback_is_there_for_who_asks(folder):
    from polysharp import InputError

    with pytest.raises(InputError):
        main(["--traceback", "fit", "missing.csv", "--target", "y"])


def test_as_a_process(folder):
    (folder / "t.csv").write_text("a,b\n1,2\n")
    done = subprocess.run(
        [sys.executable, "-m", "polysharp", "fit", "t.csv", "--target", "y"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "polysharp: error: --target must name columns of 't.csv', got 'y'; it has 'a', 'b'\n"
    )


def test_of_many_columns_the_nearest_names_come_first(folder, capsys):
    header = ",".join([*(f"input {i}" for i in range(12)), "Δp (kPa)"])
    (folder / "t.csv").write_text(f"{header}\n{','.join('1' * 13)}\n", encoding="utf-8")
    refused(capsys, main(["fit", "t.csv", "--target", "Δp"]), "it has 'Δp (kPa)', 'input 0'")


def test_numbers_between_blanks_with_a_tab_before_a_quoted_name(tmp_path, capsys):
    lines = [f'{2 * i}.0   {i}   {i % 3}\t"car {i}"' for i in range(30)]
    path = tmp_path / "cars.data"
    path.write_text("\n".join(lines))
    options = ["--no-header", "--target", "1", "--exclude", "4", "--degree", "1", "--brief"]
    assert main(["fit", str(path), *options, "--max-terms", "1", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "2 inputs, target x1" in printed
    assert "2 x2" in printed
    assert main(["fit", str(path), "--target", "load"]) == 2
    assert "say --no-header" in capsys.readouterr().err
