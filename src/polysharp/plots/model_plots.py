"""Pictures of one model: how its proof went, how well it predicts, which inputs matter.

The proof is objective and bound over the seconds of the search, in percent of the final objective:
the band between them is where the optimum can be.  Inputs are shown by their scores in the kernel
ranking before the search (Algorithm 1), whatever the model became, and by their importance in the
model after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polysharp.certificate.solution import Solution
from polysharp.errors import InputError
from polysharp.estimators.model import fitted_polynomial
from polysharp.estimators.scored_rows import inputs_of, ranking_of, score_rows
from polysharp.plots.display import BOUND, INK, MODEL, QUIET, Display, tidy
from polysharp.polynomial.importance import measure_importance
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Percent of the final objective.  First guesses may be a thousand times worse; the end of the
# search is what matters.
HIGHEST = 150.0


def course(solution: Solution) -> tuple[Array, Array, Array]:
    """Return seconds, objective and bound of a search, the latter two in percent of the end."""
    events = [(e.seconds, e.objective, e.bound) for e in solution.trace]
    # The certificate is the last word: it may be better than the last event.
    last = max([solution.seconds, *(seconds for seconds, _, _ in events)])
    events.append((last, solution.objective, solution.bound))
    seconds, *values = np.array(events).T
    objective, bound = 100.0 * np.array(values) / (solution.objective or 1.0)
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
    """Observed and predicted values; subclasses say what is drawn against what."""

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
        """Draw what ``rank_inputs`` returned."""
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
