"""A part of the campaign for what stands around the search."""

import importlib
import sys
import warnings
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from campaign import Tally  # noqa: E402

CHEAP = ("intervals", "bounded", "exports", "files", "commands")
NEEDS = {"tables": ("dask", "polars", "pyarrow"), "exports": ("onnxruntime", "sympy")}


def found(kind, seeds):
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package)
    idea, tally = importlib.import_module(f"around.{kind}"), Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            idea.check(seed, tally)
    assert tally.counts
    return tally.findings


@pytest.mark.parametrize("kind", CHEAP)
def test_nothing_is_found(kind):
    assert found(kind, range(1000, 1012)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tables", "interrupts", "pages"])
def test_nothing_is_found_where_cases_take_long(kind):
    assert found(kind, range(1000, 1020)) == []


def test_a_wrong_bound_would_be_found(monkeypatch):
    """The referee of bounded coefficients is not blind."""
    bounded, tally = importlib.import_module("around.bounded"), Tally()
    least = bounded.least
    monkeypatch.setattr(bounded, "least", lambda *given: 0.9 * least(*given))
    for seed in range(5):
        bounded.check(seed, tally)
    assert any("wrong bound" in finding for finding in tally.findings)
