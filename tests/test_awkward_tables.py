"""Tables as people have them: what is found out, that it is said, and that it can be overruled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import Format, find_decimal, find_header, inner

from polysharp.cli import main

read_table = inner("read_table", "cli")

PLAIN = pd.DataFrame({"flow": [1234.5, 2034.25, 934.0, 1000.5], "load": [0.5, 1.25, 2.0, 3.5]})


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return str(path)


def same(found, expected=PLAIN):
    assert found.columns.tolist() == expected.columns.tolist()
    np.testing.assert_array_equal(found.to_numpy(dtype=float), expected.to_numpy(dtype=float))


TABLES = {
    "decimal commas": (
        "flow;load\n1234,5;0,5\n2034,25;1,25\n934;2\n1000,5;3,5\n",
        "read 1,5 as 1.5",
    ),
    "points for thousands": (
        "flow;load\n1.234,5;0,5\n2.034,25;1,25\n934;2\n1.000,5;3,5\n",
        "read '1.234,5' as 1234.5 in 'flow'",
    ),
    "commas for thousands": (
        'flow,load\n"1,234.5",0.5\n"2,034.25",1.25\n934,2\n"1,000.5",3.5\n',
        "read '1,234.5' as 1234.5 in 'flow'",
    ),
    "blanks for thousands": (
        "flow;load\n1 234,5;0,5\n2\N{NO-BREAK SPACE}034,25;1,25\n934;2\n1 000,5;3,5\n",
        "read '1 234,5' as 1234.5 in 'flow'",
    ),
    "a row of units": (
        "flow,load\nkg/h,kN\n1234.5,0.5\n2034.25,1.25\n934,2\n1000.5,3.5\n",
        "took the line below the names for units: kg/h, kN",
    ),
    "units in cells": (
        "flow,load\n1234.5 kg,$0.5\n2034.25 kg,$1.25\n934 kg,$2\n1000.5 kg,$3.5\n",
        "read '1234.5 kg' as 1234.5 in 'flow'",
    ),
    "an empty last column": (
        "flow,load,\n1234.5,0.5,\n2034.25,1.25,\n934,2,\n1000.5,3.5,\n",
        "",
    ),
    "remarks above the names": (
        "# May, run 2\nsecond shift\n\nflow,load\n1234.5,0.5\n2034.25,1.25\n934,2\n1000.5,3.5\n",
        "skipped 3 lines above the names; --skip-lines 0 reads all",
    ),
}


@pytest.mark.parametrize(("text", "said"), TABLES.values(), ids=TABLES.keys())
def test_what_is_found_out_is_right_and_said(tmp_path, text, said):
    remarks = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        remarks.clear()
        same(read_table(written(tmp_path / "t.csv", text, encoding), tell=remarks.append))
        assert any(remark.startswith(said) for remark in remarks) or not said
    assert bool(remarks) == bool(said)


def test_windows_text_is_read_and_said(tmp_path):
    remarks = []
    file = written(tmp_path / "t.csv", "Größe,load\n1,2\n2,3\n", "cp1252")
    assert read_table(file, tell=remarks.append).columns.tolist() == ["Größe", "load"]
    assert "is not UTF-8: read as Windows text; --encoding overrules it" in remarks[0]


def test_options_overrule_what_is_found_out(tmp_path):
    file = written(tmp_path / "t.csv", TABLES["decimal commas"][0])
    assert read_table(file, Format(decimal="."))["flow"].tolist()[0] == "1234,5"
    file = written(tmp_path / "s.csv", "a,b\nflow,load\n1,2\n3,4\n")
    assert read_table(file, Format(skip_lines=1)).columns.tolist() == ["flow", "load"]


@pytest.mark.parametrize(
    "cells", [["01.02.2024", "02.03.2024"], ["1.2.3", "1.2.4"], ["1 kg", "2 g"], ["12:30", "1:15"]]
)
def test_what_is_no_number_stays_a_text(tmp_path, cells):
    file = written(tmp_path / "t.csv", f"a;b\n{cells[0]};1,5\n{cells[1]};2,5\n")
    found = read_table(file, tell=lambda _: None)
    assert found["a"].tolist() == cells
    assert found["b"].tolist() == [1.5, 2.5]


def test_a_comma_is_a_decimal_mark_where_a_cell_proves_it():
    assert find_decimal(["1,234", "2,345"]) == "."
    assert find_decimal(["1,234", "2,3"]) == ","
    assert find_decimal(["1,234", "1,234.5"]) == "."
    assert find_decimal(["1,234"], ";") == ","


def test_rows_of_texts_are_no_units():
    first = [["town", "load"], ["Paris", "low"], ["Rome", "high"]]
    assert find_header(first) == (["town", "load"], 1, None)
    assert find_header([["town", "load"], ["Paris", "3"], ["Rome", "4"]])[2] is None
    assert find_header([["a", "b"], ["1", "2"], ["3", "4"]])[2] is None


@pytest.mark.needs("openpyxl")
def test_two_rows_of_names_in_excel(tmp_path):
    cells = [["pump", None, "load"], ["in", "out", "kN"], [1, 2.5, 3], [2, 3.5, 5], [4, 1.5, 1]]
    pd.DataFrame([["Report of May", None, None], *cells]).to_excel(
        tmp_path / "t.xlsx", header=False, index=False
    )
    remarks = []
    found = read_table(str(tmp_path / "t.xlsx"), tell=remarks.append)
    assert found.columns.tolist() == ["pump in", "pump out", "load kN"]
    assert found["pump out"].tolist() == [2.5, 3.5, 1.5]
    assert remarks[0] == "skipped 1 row above the names; --skip-lines 0 reads all"
    assert remarks[1] == "two rows of names became one, such as 'load kN'"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(1, 3, (60, 2)).round(3), columns=["a", "b"])
    table["y"] = (table["a"] * table["b"] + 0.01 * rng.standard_normal(60)).round(4)
    table["copy"], table["same"] = table["a"], 7
    table["day"] = [f"2026-01-{1 + i % 28:02d}" for i in range(60)]
    table["who"] = [f"person {i}" for i in range(60)]
    table["empty"] = np.nan
    table.to_csv("t.csv", index=False)
    return table


FIT = ["--target", "y", "-r", "2", "-l", "1", "-g", "1e4", "-q", "--brief"]


def test_useless_columns_are_left_out_and_said(folder, capsys):
    assert main(["fit", "t.csv", *FIT, "-o", "m.json"]) == 0
    out, err = capsys.readouterr()
    assert "60 rows, 2 inputs" in out
    said = "left out 5 columns: 'copy' (a copy of 'a'), 'same' (always 7), 'day' (dates), 'who' ("
    assert said in err
    assert main(["predict", "m.json", "t.csv", "-o", "p.csv"]) == 0  # the table of the fit


def test_a_running_number_is_pointed_at(folder, capsys):
    folder[["a", "b", "y"]].assign(run=range(7, 67)).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", *FIT]) == 0
    assert "column 'run' counts the rows: --exclude it" in capsys.readouterr().err


def test_common_texts_become_indicators_when_told(folder, capsys):
    town = np.array([f"town {i}" for i in range(20)])[np.arange(60) % 20]
    folder.assign(town=town).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", *FIT]) == 0
    assert "'town' (text, 20 values; --indicators takes the commonest)" in capsys.readouterr().err
    assert main(["fit", "t.csv", *FIT, "--indicators", "-x", "who,day,empty"]) == 0
    assert capsys.readouterr().err.count("town=") == 10


def test_a_model_remembers_how_its_table_was_read_and_split(folder, capsys):
    strange = folder[["a", "b", "y"]].copy()
    strange.loc[strange.index % 15 == 0, "a"] = -999
    strange["no input"] = "x1"
    text = strange.to_csv(index=False, sep="#").replace(".", ",")
    with open("s.csv", "w", encoding="latin-1") as file:
        file.write("Größe\n" + text)
    reading = ["--delimiter", "#", "--decimal", ",", "--encoding", "latin-1", "--skip-lines", "1"]
    how = [*reading, "--missing=-999", "--exclude", "no input", "--holdout", "0.2", "--seed", "3"]
    assert main(["fit", "s.csv", *FIT, *how, "-o", "m.json"]) == 0
    kept = json.loads(Path("m.json").read_text())["columns"]["reading"]
    assert kept["rows"] == 56
    capsys.readouterr()
    for command in ("rivals", "verify"):
        assert main([command, "m.json", "s.csv", "-q"]) == 0
        assert "left out the 11 rows that the fit held out" in capsys.readouterr().err
    assert main(["predict", "m.json", "s.csv", "-o", "p.csv"]) == 0
    assert "4 of 60 rows have missing inputs and no prediction" in capsys.readouterr().err
    assert pd.read_csv("p.csv")["prediction"].isna().sum() == 4
    assert main(["explain", "m.json", "s.csv", "--resamples", "0"]) == 0
    assert "s.csv: 45 rows, 11 rows held out" in capsys.readouterr().out
    # What the user says comes first, and a table of another length is not split.
    folder[["a", "b", "y"]].to_csv("new.csv", index=False)
    again = ["--delimiter", ",", "--decimal", ".", "--skip-lines", "0"]
    assert main(["explain", "m.json", "new.csv", *again, "--resamples", "0"]) == 0
    assert "new.csv: 60 rows\n" in capsys.readouterr().out


def test_rows_outside_the_range_are_marked_and_have_no_interval(folder, capsys):
    assert main(["fit", "t.csv", *FIT, "-o", "m.json"]) == 0
    capsys.readouterr()
    pd.DataFrame({"a": [2.0, 9.0], "b": [2.0, 0.0]}).to_csv("new.csv", index=False)
    assert main(["predict", "m.json", "new.csv", "--interval", "0.8", "-o", "p.csv"]) == 0
    said = "1 of 2 rows lie outside the range of the fit, where nothing is known of the error, and"
    assert said in capsys.readouterr().err
    found = pd.read_csv("p.csv")
    assert found.columns.tolist() == ["prediction", "lower", "upper", "outside"]
    assert found["outside"].fillna("").tolist() == ["", "a, b"]
    assert found["lower"].isna().tolist() == [False, True]
    assert found["prediction"].notna().all()
