"""Pictures of one model: how its proof went, how well it predicts, which inputs matter, and how.

The proof is objective and bound over the seconds of the search, in percent of the final objective:
the band between them is where the optimum can be.  Inputs are shown by their scores in the kernel
ranking before the search (Algorithm 1), whatever the model became, and by their importance in the
model after it.  A response is shown over one input, or over the two that interact most, with all
other inputs at their medians (``polynomial.stationary``).  A rug or a cloud of points shows
where the data are; a polynomial is no guide elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polysharp.certificate.solution import Solution
from polysharp.errors import InputError, load_optional
from polysharp.estimators.model import fitted_polynomial
from polysharp.estimators.scored_rows import inputs_of, ranking_of, score_rows
from polysharp.monomials.terms import read_inputs
from polysharp.polynomial.importance import measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.stationary import Curve, Surface, response_curve, response_surface
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

INK, MODEL, BOUND, QUIET = "#1f2933", "#0b6e99", "#c2571a", "#b8c4ce"

# Percent of the final objective.  First guesses may be a thousand times worse; the end of the
# search is what matters.
HIGHEST = 150.0


class Display:
    """A picture: ``plot`` has drawn on ``axes_`` of ``figure_``; ``ax_`` is the first of them."""

    ax_: Axes
    axes_: list[Axes]
    figure_: Figure | SubFigure

    def _begin(self, ax: Any, size: tuple[float, float] = (4.5, 4.0), panels: int = 1) -> Axes:
        """Take the axes given, or new ones of this size, at most three panels side by side."""
        if ax is None:
            pyplot = load_optional("matplotlib.pyplot", "a plot", "plots")
            columns = min(3, panels)
            rows = -(-panels // columns)
            figsize = size[0] * columns, size[1] * rows
            new = pyplot.subplots(
                rows, columns, figsize=figsize, squeeze=False, layout="constrained"
            )
            grid = new[1].flat
            for spare in grid[panels:]:
                spare.set_axis_off()
            ax = grid[:panels]
        self.axes_ = list(ax) if hasattr(ax, "__len__") else [ax]
        if len(self.axes_) != panels:
            raise InputError(f"ax must have one Axes per panel, {panels}, got {len(self.axes_)}")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        return self.ax_

    def _panels(self, ax: Any, count: int) -> list[Axes]:
        """Return one Axes for each of several panels."""
        self._begin(ax, (3.4, 2.9), count)
        return self.axes_


def tidy(ax: Axes, x: str, y: str) -> None:
    """Name the two sides and take the other two away."""
    # A dollar sign in a user's name is not mathematics.
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def course(solution: Solution) -> tuple[Array, Array, Array]:
    """Return seconds, objective and bound of a search, the latter two in percent of the end."""
    events = [(e.seconds, e.objective, e.bound) for e in solution.trace]
    # The certificate is the last word: it may be better than the last event.
    last = max([solution.seconds, *(seconds for seconds, _, _ in events)])
    events.append((last, solution.objective, solution.bound))
    seconds, *values = np.array(events).T
    objective, bound = 100.0 * (np.array(values) / (solution.objective or 1.0))
    return seconds, objective, bound


@dataclass(kw_only=True, eq=False, repr=False)
class GapDisplay(Display):
    """Objective and proven bound over the time of the search, a number for each event."""

    seconds: Array
    objective: Array  #: in percent of the final objective
    bound: Array  #: in percent of the final objective

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the search of a fitted model."""
        fitted_polynomial(estimator)
        return cls.from_solution(estimator.solution_, ax=ax)

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Axes | None = None) -> Self:
        """Draw the search behind a solution."""
        seconds, objective, bound = course(solution)
        return cls(seconds=seconds, objective=objective, bound=bound).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        ax, seconds = self._begin(ax), self.seconds
        between: Any = {"step": "post", "color": MODEL, "alpha": 0.12, "lw": 0}
        ax.fill_between(seconds, self.bound, self.objective, **between)
        ax.step(seconds, self.objective, where="post", color=MODEL, label="best model so far")
        ax.step(seconds, self.bound, where="post", color=BOUND, label="proven lower bound")
        ax.set_ylim(0.0, HIGHEST)
        ax.legend(frameon=False, fontsize="small", loc="lower right")
        tidy(ax, "seconds", "objective (% of the final model's)")
        return self


def plot_gap(solution: Solution, *, ax: Axes | None = None) -> Axes:
    """Draw objective and proven bound over the time of the search; return the matplotlib Axes.

    Both are in percent of the result.

    Parameters
    ----------
    solution : Solution
        ``model.solution_`` of a fitted model.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.
    """
    return GapDisplay.from_solution(solution, ax=ax).ax_


@dataclass(kw_only=True, eq=False, repr=False)
class PairsDisplay(Display):
    """Observed and predicted values; subclasses choose the two axes."""

    y_true: Any  #: observed values, best of rows the model has not seen
    y_pred: Any  #: predicted values
    name: str = "response"  #: of the response, for the labels

    def __post_init__(self) -> None:
        self.y_true = np.asarray(self.y_true, dtype=np.float64)
        self.y_pred = np.asarray(self.y_pred, dtype=np.float64)
        shape = self.y_true.shape
        if len(shape) != 1 or shape != self.y_pred.shape or not shape[0]:
            raise InputError(
                "y_true and y_pred must be vectors of one length, at least 1; got shapes "
                f"{shape} and {self.y_pred.shape}"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None, name: str | None = None
    ) -> Self:
        """Predict the rows of X and draw the predictions against y."""
        rows = score_rows(estimator, X, y)
        name = fitted_polynomial(estimator).response if name is None else name
        return cls(y_true=rows.observed, y_pred=rows.predicted, name=name).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, *, ax: Axes | None = None, name: str = "response"
    ) -> Self:
        """Draw predictions that are at hand."""
        return cls(y_true=y_true, y_pred=y_pred, name=name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        ax = self._begin(ax)
        ax.scatter(*self._drawn(ax), s=14, color=MODEL, alpha=0.65, linewidths=0, zorder=2)
        return self

    def _drawn(self, ax: Axes) -> tuple[Array, Array]:
        """Return the points, with the line that they should lie on drawn and the axes named."""
        raise NotImplementedError


class PredictionDisplay(PairsDisplay):
    """Predictions against observations, with the line of perfect agreement.

    The parameters are those of ``PairsDisplay``.
    """

    def _drawn(self, ax: Axes) -> tuple[Array, Array]:
        both = np.concatenate([self.y_true, self.y_pred])
        limits = [both.min(), both.max()]
        ax.plot(limits, limits, color=INK, linewidth=0.8, zorder=1)
        tidy(ax, f"observed {self.name}", f"predicted {self.name}")
        return self.y_true, self.y_pred


class ResidualDisplay(PairsDisplay):
    """Residuals, observed minus predicted, against predictions.

    The parameters are those of ``PairsDisplay``.
    """

    def _drawn(self, ax: Axes) -> tuple[Array, Array]:
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=1)
        tidy(ax, f"predicted {self.name}", "observed - predicted")
        return self.y_pred, self.y_true - self.y_pred


def plot_predictions(
    y_true: ArrayLike, y_pred: ArrayLike, *, ax: Axes | None = None, name: str = "response"
) -> Axes:
    """Draw predictions against observations; return the matplotlib Axes.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Observed and predicted values, best of rows the model has not seen.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.
    name : str
        Name of the response, for the labels.
    """
    return PredictionDisplay.from_predictions(y_true, y_pred, ax=ax, name=name).ax_


def plot_residuals(
    y_true: ArrayLike, y_pred: ArrayLike, *, ax: Axes | None = None, name: str = "response"
) -> Axes:
    """Draw residuals, observed minus predicted, against predictions.

    Parameters and result are those of ``plot_predictions``.
    """
    return ResidualDisplay.from_predictions(y_true, y_pred, ax=ax, name=name).ax_


@dataclass(kw_only=True, eq=False, repr=False)
class BarsDisplay(Display):
    """One bar per input, the longest on top; inputs of the formula are coloured."""

    label = ""
    values: Array  #: lengths of the bars
    names: tuple[str, ...]  #: of the inputs
    used: tuple[int, ...]  #: inputs that the formula uses

    def plot(self, ax: Axes | None = None, *, max_bars: int = 20) -> Self:
        """Draw the ``max_bars`` longest, none for inputs at zero; returns the display."""
        order = np.argsort(-self.values, kind="stable")[:max_bars][::-1]
        order = order[self.values[order] > 0.0]
        ax = self._begin(ax, (4.5, 1.2 + 0.26 * len(order)))
        colors = [MODEL if i in self.used else QUIET for i in order]
        ax.barh(np.arange(len(order)), self.values[order], height=0.66, color=colors)
        ax.set_yticks(np.arange(len(order)))
        ax.set_yticklabels([self.names[i] for i in order], color=INK, parse_math=False)
        ax.tick_params(axis="y", length=0)
        tidy(ax, self.label, "")
        return self


class RankingDisplay(BarsDisplay):
    """Scores of the inputs by Algorithm 1; the parameters are those of ``BarsDisplay``."""

    label = "score of the input (Algorithm 1)"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Axes | None = None
    ) -> Self:
        """Draw the ranking of the fit; where the fit needed none, that of X and y.

        A fit that keeps every input ranks nothing; X and y are then scaled as in the fit and
        ranked with its degree and gamma.
        """
        polynomial = fitted_polynomial(estimator)
        ranking = estimator.ranking_
        if ranking is None and (X is None or y is None):
            raise InputError(
                "X and y must be given where the fit kept every input and ranked none, got None"
            )
        if ranking is None:
            ranking = ranking_of(estimator, score_rows(estimator, X, y))
        return cls.from_ranking(ranking, polynomial.names, used=polynomial.inputs, ax=ax)

    @classmethod
    def from_ranking(
        cls,
        ranking: Ranking,
        names: tuple[str, ...] | None = None,
        *,
        used: tuple[int, ...] = (),
        ax: Axes | None = None,
    ) -> Self:
        """Draw the result of ``rank_inputs``."""
        if names is None:
            names = tuple(f"x{i}" for i in range(len(ranking.scores)))
        return cls(values=ranking.scores, names=names, used=used).plot(ax)


class ImportanceDisplay(BarsDisplay):
    """Share of the model's variance that each input takes part in, ``Importance.inputs``.

    The values are total Sobol indices, between 0 and 1; the parameters are those of
    ``BarsDisplay``.
    """

    label = "share of the predictions' variance"

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Axes | None = None) -> Self:
        """Measure the importance over the rows of X and draw it."""
        polynomial = fitted_polynomial(estimator)
        shares = measure_importance(polynomial, inputs_of(estimator, X)).inputs
        return cls(values=shares, names=polynomial.names, used=polynomial.inputs).plot(ax)


@dataclass(kw_only=True, eq=False, repr=False)
class ResponseDisplay(Display):
    """Response curves, one panel per input."""

    curves: Sequence[Curve]
    polynomial: Polynomial  #: for the names
    X: Array  #: rows shown as a rug

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, inputs: Any = None, *, ax: Any = None) -> Self:
        """Draw the curves of the given inputs (names or indices), by default of all in use."""
        polynomial, table = fitted_polynomial(estimator), inputs_of(estimator, X)
        if inputs is None:
            chosen = measure_importance(polynomial, table).order
        else:
            # One at a time: in the order given.
            chosen = [read_inputs([i], polynomial.names, "inputs")[0] for i in inputs]
        if not chosen:
            raise InputError("inputs must name some input, got none and the formula uses none")
        curves = [response_curve(polynomial, table, i) for i in chosen]
        return cls(curves=curves, polynomial=polynomial, X=table).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on one Axes per curve, new ones by default; returns the display."""
        rug: Any = {"color": INK, "alpha": 0.35, "markersize": 6}
        for curve, panel in zip(self.curves, self._panels(ax, len(self.curves)), strict=True):
            panel.plot(curve.x, curve.response, color=MODEL, linewidth=1.8)
            foot = panel.get_xaxis_transform()
            x = self.X[:, curve.input]
            panel.plot(x, [0.015] * len(x), "|", transform=foot, **rug)
            tidy(panel, self.polynomial.names[curve.input], self.polynomial.response)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SurfaceDisplay(Display):
    """Response surfaces of the strongest interactions, one panel per pair of inputs."""

    surfaces: Sequence[Surface]
    polynomial: Polynomial  #: for the names
    X: Array  #: rows shown as points

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, pairs: Any = None, *, max_pairs: int = 3, ax: Any = None
    ) -> Self:
        """Draw the given pairs of inputs, by default the ``max_pairs`` strongest interactions."""
        polynomial, table = fitted_polynomial(estimator), inputs_of(estimator, X)
        if pairs is None:
            chosen = list(measure_importance(polynomial, table).pairs)[:max_pairs]
            if not chosen:
                raise InputError("pairs must be given where no term has two inputs, got None")
        else:
            chosen = [_pair(pair, polynomial.names) for pair in pairs]
        surfaces = [response_surface(polynomial, table, pair) for pair in chosen]
        return cls(surfaces=surfaces, polynomial=polynomial, X=table).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on one Axes per surface, new ones by default; returns the display."""
        names = self.polynomial.names
        for surface, panel in zip(self.surfaces, self._panels(ax, len(self.surfaces)), strict=True):
            i, j = surface.inputs
            filled = panel.contourf(
                surface.x, surface.y, surface.response, levels=12, cmap="viridis"
            )
            panel.scatter(self.X[:, i], self.X[:, j], s=4, color="white", alpha=0.5, linewidths=0)
            bar = self.figure_.colorbar(filled, ax=panel)
            bar.set_label(self.polynomial.response, parse_math=False)
            bar.outline.set_visible(False)
            tidy(panel, names[i], names[j])
        return self


def _pair(pair: Any, names: tuple[str, ...]) -> tuple[int, int]:
    found = [read_inputs([name], names, "pairs")[0] for name in pair]
    if len(set(found)) != 2:
        raise InputError(f"pairs must hold two different inputs each, got {pair!r}")
    return found[0], found[1]
