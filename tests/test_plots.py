"""What the plots show is what the data and the certificate say."""

import sys

import matplotlib
import numpy as np
import pytest

from polysharp.errors import InputError, MissingSolverError
from polysharp.plots import plot_gap, plot_predictions
from polysharp.solution import Event, Solution, Stop

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def solution(trace=()):
    return Solution(
        support=(0,),
        coefficients=np.ones(1),
        objective=2.0,
        bound=1.5,
        gap_tol=1e-4,
        stop=Stop.TIME,
        engine="tree",
        gamma=1.0,
        scope="all-inputs",
        seconds=3.0,
        trace=trace,
    )


def test_every_pair_is_drawn_and_the_diagonal_spans_them():
    observed, predicted = np.array([1.0, 2.0, 5.0]), np.array([1.5, 1.0, 7.0])
    ax = plot_predictions(observed, predicted, name="power")
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), np.c_[observed, predicted])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1.0, 7.0])
    assert ax.get_xlabel() == "observed power"


def test_given_axes_are_used():
    _, ax = plt.subplots()
    assert plot_predictions([0.0, 1.0], [0.0, 1.0], ax=ax) is ax
    assert plot_gap(solution(), ax=ax) is ax


@pytest.mark.parametrize(("y", "z"), [([], []), ([1.0], [1.0, 2.0]), ([[1.0]], [[1.0]])])
def test_shapes_that_do_not_match_are_refused(y, z):
    with pytest.raises(InputError, match="y_true and y_pred"):
        plot_predictions(y, z)


def test_gap_ends_with_the_certificate():
    trace = (Event("root", 4.0, 1.0, 1, 0, 0, 0.1), Event("done", 2.0, 1.2, 9, 0, 0, 2.9))
    ax = plot_gap(solution(trace))
    objective, bound = ax.lines
    np.testing.assert_array_equal(objective.get_xdata(), [0.1, 2.9, 3.0])
    np.testing.assert_array_equal(objective.get_ydata(), [200.0, 100.0, 100.0])
    np.testing.assert_array_equal(bound.get_ydata(), [50.0, 60.0, 75.0])


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingSolverError, match=r"polysharp\[plots\]"):
        plot_predictions([0.0], [0.0])
