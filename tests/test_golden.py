"""The golden instances can be drawn, and a small one is what its row says."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import golden  # noqa: E402

ROWS = {
    row["case"]: row for row in csv.DictReader(golden.RESULTS.read_text().splitlines())
}  # fmt: skip
CASES = {case.name: case for case in golden.cases()}
SMALL = ("weak heredity", "box, weak ridge", "two responses", "rivals, strong heredity")


def test_every_instance_has_a_row_and_a_table():
    assert set(CASES) <= set(ROWS)
    for case in CASES.values():
        X, y = case.table()
        assert len(X) == len(y)
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()


@pytest.mark.parametrize("name", SMALL)
def test_a_small_instance_is_what_its_row_says(name):
    row = ROWS[name]
    old = {what: float(row[what]) for what in ("objective", "bound", "nodes", "count")}
    assert golden.differences(old | {"status": row["status"]}, CASES[name].ready()()) == []


def test_what_is_worse_is_said():
    old = {"objective": 10.0, "bound": 10.0, "status": "optimal", "count": 2}
    assert golden.differences(old, old | {"bound": 9.999999}) == []
    assert golden.differences(old, old | {"bound": 9.999}) == ["bound 9.999, was 10.0"]
    assert golden.differences(old, old | {"bound": np.nan}) == ["bound nan, was 10.0"]
    worse = old | {"objective": 10.001, "status": "feasible"}
    assert len(golden.differences(old, worse)) == 2
