"""The benchmarks that asv watches run, and are five kernels."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "asv"
spec = importlib.util.spec_from_file_location("kernels", FOLDER / "benchmarks" / "kernels.py")
kernels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernels)

SUITES = [
    value
    for value in vars(kernels).values()
    if isinstance(value, type) and value.__module__ == "kernels"
]


def test_asv_finds_the_benchmarks():
    settings = json.loads((FOLDER / "asv.conf.json").read_text(encoding="utf-8"))
    assert (FOLDER / settings["benchmark_dir"] / "__init__.py").exists()
    assert (FOLDER / settings["repo"] / "pyproject.toml").exists()
    assert len(SUITES) == 5


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_a_benchmark_runs(suite):
    one = suite()
    one.setup()
    timed = [getattr(one, name) for name in dir(one) if name.startswith("time_")]
    assert timed
    for run in timed:
        run()


@pytest.mark.slow
def test_the_work_of_the_tree_is_counted_and_repeats():
    one = kernels.ProofByTheTree()
    one.setup()
    assert one.track_nodes() == one.track_nodes() > 0
