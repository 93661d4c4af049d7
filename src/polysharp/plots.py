"""Two pictures of a fitted model: how well it predicts, and how the proof went.

``plot_predictions`` sets predictions against observations, with the line of perfect agreement.
``plot_gap`` draws objective and bound over the seconds of the search, in percent of the final
objective: the band between them is where the optimum can be, and the proof is done when it closes.

Matplotlib is imported when a plot is drawn and not before (``pip install polysharp[plots]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from polysharp.errors import InputError, MissingSolverError
from polysharp.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
MODEL = "#0b6e99"
BOUND = "#c2571a"


def _axes(ax: Axes | None) -> Axes:
    """Return the axes to draw on, new ones where none are given."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingSolverError(
            "plots need matplotlib, which is not installed: pip install 'polysharp[plots]'"
        ) from error
    new: Axes = plt.subplots(figsize=(4.5, 4.0), layout="constrained")[1]
    return new


def plot_predictions(
    y_true: ArrayLike, y_pred: ArrayLike, *, ax: Axes | None = None, name: str = "response"
) -> Axes:
    """Draw predictions against observations.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Observed and predicted values, best of rows the model has not seen.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.
    name : str
        Name of the response, for the labels.

    Returns
    -------
    matplotlib Axes
    """
    observed = np.asarray(y_true, dtype=np.float64)
    predicted = np.asarray(y_pred, dtype=np.float64)
    if observed.ndim != 1 or observed.shape != predicted.shape or not observed.size:
        raise InputError(
            "y_true and y_pred must be vectors of one length, at least 1; got shapes "
            f"{observed.shape} and {predicted.shape}"
        )
    ax = _axes(ax)
    ends = [min(observed.min(), predicted.min()), max(observed.max(), predicted.max())]
    ax.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
    ax.scatter(observed, predicted, s=14, color=MODEL, alpha=0.65, linewidths=0, zorder=2)
    ax.set_xlabel(f"observed {name}")
    ax.set_ylabel(f"predicted {name}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


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
    ax = _axes(ax)
    events = [(e.seconds, e.objective, e.bound) for e in solution.trace]
    # The certificate is the last word: it may be better than the last event.
    last = max([solution.seconds, *(seconds for seconds, _, _ in events)])
    events.append((last, solution.objective, solution.bound))
    seconds, *values = np.array(events).T
    objective, bound = 100.0 * np.array(values) / (solution.objective or 1.0)
    ax.fill_between(seconds, bound, objective, step="post", color=MODEL, alpha=0.12, linewidth=0)
    ax.step(seconds, objective, where="post", color=MODEL, label="best model so far")
    ax.step(seconds, bound, where="post", color=BOUND, label="proven lower bound")
    ax.set_xlabel("seconds")
    ax.set_ylabel("objective (% of the final model's)")
    # First guesses may be a thousand times worse; the end of the search is what matters.
    ax.set_ylim(0.0, 150.0)
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
