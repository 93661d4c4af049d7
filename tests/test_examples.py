"""Every example of the gallery runs, without a warning, and says something."""

import runpy
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent.parent / "docs" / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert plt.get_fignums()
    plt.close("all")


def test_the_gallery_has_its_examples():
    names = " ".join(example.stem for example in EXAMPLES)
    subjects = (
        "planted_law diabetes budgets lasso lorenz thousand_inputs designed_experiment proof "
        "exports gpu"
    )
    assert [subject for subject in subjects.split() if subject not in names] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    lines = example.read_text(encoding="utf-8").splitlines()
    assert 20 <= sum(1 for line in lines if line.strip() and not line.startswith("#")) <= 80
