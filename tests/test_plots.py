"""What the plots show is what the data and the certificate say."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from support import Event, Stop, measure_importance

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    Path,
    PathPoint,
    Polynomial,
    Solution,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    rank_inputs,
)
from polysharp.errors import InputError, MissingSolverError
from polysharp.plots import (
    GapDisplay,
    ImportanceDisplay,
    PathDisplay,
    PredictionDisplay,
    RankingDisplay,
    ResidualDisplay,
    ResponseDisplay,
    SurfaceDisplay,
    plot_gap,
    plot_path,
    plot_predictions,
    plot_residuals,
)

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


NAMES = ("a", "cost in $", "c_1")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1.0, 3.0, (80, 3)), columns=NAMES)
    y = 2.0 * X["a"] * X["cost in $"] - X["a"] ** 2 + 0.05 * rng.standard_normal(80)
    return X, y.rename("profit in $")


@pytest.fixture(scope="module")
def model(data):
    return SparsePolynomialRegressor(2, 2, gamma=10.0, engine="enumeration").fit(*data)


def path_of(budgets, *, judged):
    points = []
    for k in budgets:
        for size in (1, 2, 3):
            error = 5.0 / size + (0 if k is None else 1.0 / k)
            law = Polynomial(
                tuple((0,) * d for d in range(1, size + 1)),
                np.ones(size),
                0.0,
                ("a",),
                response="power",
            )
            validation = (error + 1.0, 0.25) if judged else (None, None)
            points.append(PathPoint(size, k, law, solution(), error, *validation))
    return Path(tuple(points), 2, 1.0, False)


def test_displays_of_predictions_show_the_predictions_of_the_model(model, data):
    X, y = data
    display = PredictionDisplay.from_estimator(model, X, y)
    np.testing.assert_allclose(display.ax_.collections[0].get_offsets(), np.c_[y, model.predict(X)])
    assert display.ax_.get_ylabel() == "predicted profit in $"
    assert display.figure_ is display.ax_.figure
    left_over = ResidualDisplay.from_estimator(model, X, y)
    np.testing.assert_allclose(
        left_over.ax_.collections[0].get_offsets(),
        np.c_[model.predict(X), y - model.predict(X)],
        atol=1e-12,
    )
    display.figure_.canvas.draw()  # dollar signs in names must not be read as mathematics


def test_residuals_of_predictions_at_hand():
    ax = plot_residuals([1.0, 2.0], [1.5, 1.0], name="power")
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[1.5, -0.5], [1.0, 1.0]])
    assert ax.get_xlabel() == "predicted power"


def test_gap_of_an_estimator_is_that_of_its_solution(model):
    display = GapDisplay.from_estimator(model)
    assert display.objective[-1] == pytest.approx(100.0)
    assert display.bound[-1] == pytest.approx(100.0 * (1.0 - model.solution_.gap))


def test_path_shows_training_and_validation_with_its_band():
    ax = plot_path(path_of([None], judged=True), chosen=2)
    training, validation, chosen = ax.lines
    np.testing.assert_allclose(training.get_ydata(), [5.0, 2.5, 5 / 3])
    np.testing.assert_allclose(validation.get_ydata(), [6.0, 3.5, 1 + 5 / 3])
    np.testing.assert_array_equal(chosen.get_xdata(), [2, 2])
    band = ax.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (pytest.approx(1 + 5 / 3 - 0.25), 6.25)
    assert ax.get_ylabel() == "error of power"


def test_path_without_validation_and_with_several_budgets():
    assert len(plot_path(path_of([None], judged=False)).lines) == 1
    ax = plot_path(path_of([1, 2], judged=True))
    assert [line.get_label() for line in ax.lines] == ["1 inputs", "2 inputs"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [7.0, 4.5, 2 + 5 / 3])


def test_path_of_a_search_shows_the_errors_it_chose_by(data):
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=3, gamma=(0.1, 10.0), cv=3, random_state=0
    ).fit(*data)
    display = PathDisplay.from_estimator(search)
    error = display.curves[0].validation_error
    chosen = search.best_params_["max_terms"]
    assert display.curves[0].sizes.tolist() == [1, 2, 3]
    assert error[chosen - 1] == pytest.approx(-search.best_score_)
    splits = [search.cv_results_[f"split{v}_test_score"][search.best_index_] for v in range(3)]
    assert display.curves[0].std_error[chosen - 1] == pytest.approx(
        np.std(splits, ddof=1) / np.sqrt(3)
    )
    with pytest.raises(InputError, match="SparsePolynomialRegressorCV"):
        PathDisplay.from_estimator(search.best_estimator_)


def test_path_of_a_search_ends_where_all_monomials_are_in(data):
    X, y = data
    search = SparsePolynomialRegressorCV(
        degree=1, max_terms=20, gamma=1.0, center=False, cv=3, rule="best", random_state=0
    ).fit(X, y)
    sizes = PathDisplay.from_estimator(search).curves[0].sizes
    assert sizes.tolist() == list(range(1, X.shape[1] + 1))


def test_ranking_of_the_fit_or_of_the_rows(model, data):
    X, y = data
    with pytest.raises(InputError, match="X and y must be given"):
        RankingDisplay.from_estimator(model)
    display = RankingDisplay.from_estimator(model, X, y)
    scaled = X.to_numpy() / np.sqrt(np.mean(X.to_numpy() ** 2, axis=0))
    ranking = rank_inputs(scaled, y.to_numpy(), 2, 10.0, fit_intercept=True)
    np.testing.assert_allclose(display.values, ranking.scores)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [NAMES[i] for i in ranking.order[::-1]]
    triaged = SparsePolynomialRegressor(2, 2, n_candidates=2, engine="enumeration").fit(X, y)
    kept = RankingDisplay.from_estimator(triaged)
    np.testing.assert_array_equal(kept.values, triaged.ranking_.scores)


def test_importance_of_the_inputs(model, data):
    X, _ = data
    display = ImportanceDisplay.from_estimator(model, X)
    expected = measure_importance(model.polynomial_, X.to_numpy()).inputs
    np.testing.assert_allclose(display.values, expected)
    widths = sorted(bar.get_width() for bar in display.ax_.patches)
    np.testing.assert_allclose(widths, sorted(expected[expected > 0]))


def test_response_curves_in_the_order_asked_for(model, data):
    X, _ = data
    display = ResponseDisplay.from_estimator(model, X, ["cost in $", 0])
    assert [ax.get_xlabel() for ax in display.axes_] == ["cost in $", "a"]
    row = np.median(X.to_numpy(), axis=0)[None, :]
    row[0, 1] = X["cost in $"].max()
    assert display.axes_[0].lines[0].get_ydata()[-1] == pytest.approx(model.polynomial_(row)[0])
    everything = ResponseDisplay.from_estimator(model, X)
    assert len(everything.axes_) == len(model.polynomial_.inputs)


def test_surfaces_of_the_strongest_interactions(model, data):
    X, _ = data
    display = SurfaceDisplay.from_estimator(model, X)
    assert [surface.inputs for surface in display.surfaces] == [(0, 1)]
    chosen = SurfaceDisplay.from_estimator(model, X, [("c_1", "a")])
    assert chosen.surfaces[0].inputs == (2, 0)
    display.figure_.canvas.draw()
    _, ax = plt.subplots()
    assert SurfaceDisplay.from_estimator(model, X, ax=ax).axes_ == [ax]


def test_wrong_requests_are_refused_in_one_sentence(model, data):
    X, y = data
    _, grid = plt.subplots(1, 3)
    with pytest.raises(InputError, match="ax must have one Axes per panel, 1, got 3"):
        SurfaceDisplay.from_estimator(model, X, ax=grid)
    with pytest.raises(InputError, match="two different inputs"):
        SurfaceDisplay.from_estimator(model, X, [("a", "a")])
    with pytest.raises(InputError, match="inputs must name inputs of X, got 'nothing'"):
        ResponseDisplay.from_estimator(model, X, ["nothing"])
    with pytest.raises(InputError, match="one finite number per row"):
        PredictionDisplay.from_estimator(model, X, y[:-1])
    additive = SparsePolynomialRegressor(1, 2, engine="enumeration").fit(X, y)
    with pytest.raises(InputError, match="no term has two inputs"):
        SurfaceDisplay.from_estimator(additive, X)
    with pytest.raises(InputError, match="fitted polysharp model"):
        GapDisplay.from_estimator(LinearRegression().fit(X, y))
    several = MultiTaskSparsePolynomialRegressor(1, 2).fit(X, np.column_stack([y, y]))
    with pytest.raises(InputError, match="model of one response, got MultiTaskSparse"):
        GapDisplay.from_estimator(several)


def test_constant_models_have_no_response(data):
    X, _ = data
    constant = SparsePolynomialRegressor(1, 1, engine="enumeration").fit(X, np.full(len(X), 3.0))
    assert measure_importance(constant.polynomial_, X.to_numpy()).order == []
    with pytest.raises(InputError, match="inputs must name some input"):
        ResponseDisplay.from_estimator(constant, X)


def test_importing_the_plots_does_not_import_matplotlib():
    code = "import sys, polysharp.plots; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
