"""How the proof went: objective and bound over the seconds of the search.

Both are in percent of the final objective: the band between them is where the optimum can be, and
the proof is done when it closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.estimators.fitted import fitted_polynomial
from polysharp.plots.axes import BOUND, MODEL, axes, tidy
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def course(solution: Solution) -> tuple[Array, Array, Array]:
    """Return seconds, objective and bound of a search, the latter two in percent of the end."""
    events = [(e.seconds, e.objective, e.bound) for e in solution.trace]
    # The certificate is the last word: it may be better than the last event.
    last = max([solution.seconds, *(seconds for seconds, _, _ in events)])
    events.append((last, solution.objective, solution.bound))
    seconds, *values = np.array(events).T
    objective, bound = 100.0 * np.array(values) / (solution.objective or 1.0)
    return seconds, objective, bound


class GapDisplay:
    """Objective and proven bound over the time of the search.

    Parameters
    ----------
    seconds, objective, bound : array (n_events,)
        The course of the search, objective and bound in percent of the final objective.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, *, seconds: Array, objective: Array, bound: Array) -> None:
        self.seconds = seconds
        self.objective = objective
        self.bound = bound

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
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        seconds, objective, bound = self.seconds, self.objective, self.bound
        ax.fill_between(seconds, bound, objective, step="post", color=MODEL, alpha=0.12, lw=0)
        ax.step(seconds, objective, where="post", color=MODEL, label="best model so far")
        ax.step(seconds, bound, where="post", color=BOUND, label="proven lower bound")
        # First guesses may be a thousand times worse; the end of the search is what matters.
        ax.set_ylim(0.0, 150.0)
        ax.legend(frameon=False, fontsize="small", loc="lower right")
        tidy(ax, "seconds", "objective (% of the final model's)")
        return self


def plot_gap(solution: Solution, *, ax: Axes | None = None) -> Axes:
    """Draw objective and proven bound over the time of the search, in percent of the result.

    Parameters
    ----------
    solution : Solution
        ``model.solution_`` of a fitted model.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    return GapDisplay.from_solution(solution, ax=ax).ax_
