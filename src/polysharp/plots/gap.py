"""How the proof went: objective and bound over the seconds of the search.

Both are in percent of the final objective: the band between them is where the optimum can be, and
the proof is done when it closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.estimators.fitted import fitted_polynomial
from polysharp.plots.display import BOUND, MODEL, Display, tidy
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Percent of the final objective.  First guesses may be a thousand times worse; the end of the
# search is what matters.
TOP = 150.0


def course(solution: Solution) -> tuple[Array, Array, Array]:
    """Return seconds, objective and bound of a search, the latter two in percent of the end."""
    events = [(e.seconds, e.objective, e.bound) for e in solution.trace]
    # The certificate is the last word: it may be better than the last event.
    last = max([solution.seconds, *(seconds for seconds, _, _ in events)])
    events.append((last, solution.objective, solution.bound))
    seconds, *values = np.array(events).T
    objective, bound = 100.0 * np.array(values) / (solution.objective or 1.0)
    return seconds, objective, bound


class GapDisplay(Display):
    """Objective and proven bound over the time of the search.

    Parameters
    ----------
    seconds, objective, bound : array (n_events,)
        The course of the search, objective and bound in percent of the final objective.
    """

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
        ax, seconds = self._begin(ax), self.seconds
        ax.fill_between(
            seconds, self.bound, self.objective, step="post", color=MODEL, alpha=0.12, lw=0
        )
        ax.step(seconds, self.objective, where="post", color=MODEL, label="best model so far")
        ax.step(seconds, self.bound, where="post", color=BOUND, label="proven lower bound")
        ax.set_ylim(0.0, TOP)
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
