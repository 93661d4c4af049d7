"""The demonstration tells the truth about its data, and the data are what they claim."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sklearn.model_selection import GridSearchCV, KFold
from support import Basis, home

from polysharp import SparsePolynomialRegressor
from polysharp.datasets import cycling, diabetes
from polysharp.errors import InputError

demo = home("demonstrate")
INSTALL = Path(__file__).parent.parent / "docs" / "install.md"


def shown_on_the_page():
    blocks = re.findall(r"^```\n(.*?)^```$", INSTALL.read_text(encoding="utf-8"), re.M | re.S)
    return next(block for block in blocks if block.startswith("1. A planted law"))


def comparable(text):
    """Return printed text without what depends on the machine and on the engine's path."""
    text = re.sub(r"proven lower bound.*(?=, over)", "...", text)
    text = re.sub(r"\d+ nodes?, \d+ cuts?, .* s; stopped", "stopped", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_without_noise_the_law_explains_the_rides_exactly():
    rides = cycling(n=50, noise=0.0)
    law = Basis(range(12), 3, tuple(rides.law))
    power = law.evaluate(rides.X, scaled=False) @ np.array(list(rides.law.values()))
    np.testing.assert_allclose(power, rides.y, rtol=1e-12, atol=1e-9)


def test_noise_has_the_stated_size_and_seeds_are_kept():
    quiet, loud = cycling(n=20_000, noise=0.0), cycling(n=20_000, noise=5.0)
    np.testing.assert_array_equal(quiet.X, loud.X)
    assert np.std(loud.y - quiet.y) == pytest.approx(5.0, rel=0.03)
    np.testing.assert_array_equal(cycling().y, cycling().y)
    assert not np.array_equal(cycling(random_state=1).y, cycling().y)


@pytest.mark.parametrize("data", [cycling(), diabetes()], ids=["cycling", "diabetes"])
def test_every_column_has_a_name_and_a_unit(data):
    p = data.X.shape[1]
    assert len(data.input_names) == len(data.units) == p
    assert len(set(data.input_names)) == p
    assert data.y.shape == (len(data.X),)


@pytest.mark.parametrize(("name", "value"), [("n", 0), ("noise", -1.0), ("noise", float("nan"))])
def test_impossible_rides_are_refused(name, value):
    with pytest.raises(InputError, match=f"^{name} must"):
        cycling(**{name: value})


def test_a_story_reports_what_the_model_says():
    model = SparsePolynomialRegressor(
        degree=2, max_terms=2, max_inputs=3, gamma=1.0, engine="enumeration"
    )
    out = io.StringIO()
    story = demo.run(Console(file=out, width=500), diabetes(), model, "title")
    text = out.getvalue()
    assert str(story.formula) in text
    assert str(model.solution_) in text
    ours, ridge, lasso = story.scores
    assert (ours.terms, ridge.terms) == (2, 65)
    assert ours.inputs == len(model.polynomial_.inputs) <= 3
    residual = story.y_test - model.predict(story.X_test)
    assert ours.error == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert lasso.terms <= 65


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Return where the demo drew its plot, and what it printed."""
    path, out = tmp_path_factory.mktemp("demo") / "demo.png", io.StringIO()
    with contextlib.redirect_stdout(out):
        demo.demonstrate(str(path))
    return path, out.getvalue()


@pytest.mark.needs("matplotlib")
def test_the_demo_finds_the_planted_law_and_saves_its_plot(printed):
    path, text = printed
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert str(path) in text
    lines = comparable(text)
    headings = [a for a, line in enumerate(lines) if line.split()[0] in ("term", "method")]
    law = lines[headings[0] + 1 : headings[1]]
    assert len(law) == 5
    assert not any(line.endswith(" -") for line in law)
    assert text.count("Proved best: no formula with at most ") == 2


@pytest.mark.needs("matplotlib", "scikit-learn>=1.8")
def test_the_page_shows_what_the_demo_prints(printed):
    # All but where the plot is.
    assert comparable(shown_on_the_page()) == comparable(printed[1])[:-1]


@pytest.mark.slow
def test_gamma_of_the_diabetes_model_is_what_the_training_rows_choose():
    X, _, y, _ = demo.split(diabetes())
    model = SparsePolynomialRegressor(
        degree=2, max_terms=6, max_inputs=5, engine="local-search", random_state=0
    )
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(
        model, {"gamma": [0.01, 0.1, 1.0, 10.0]}, scoring="neg_root_mean_squared_error", cv=folds
    )
    assert search.fit(X, y).best_params_ == {"gamma": 1.0}


WITHOUT_PANDAS = """
import sys

class NoPandas:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, NoPandas())
from polysharp.cli.demo import demonstrate
demonstrate(sys.argv[1], time_limit=5.0)
"""


@pytest.mark.needs("matplotlib")
def test_the_demo_needs_no_table_library(tmp_path):
    """The first command of a newcomer installs matplotlib alone."""
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path / "demo.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "speed mass slope" in done.stdout
