"""Accuracy against size: what every further term buys.

The curve people choose from.  The training error can only fall as terms are allowed; the
validation error, with its standard error as a band, says where further terms stop paying.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polysharp.basis import Array
from polysharp.plots.axes import BOUND, INK, MODEL, axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from polysharp.size_path import Path


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """One model per number of terms: errors for the plot."""

    sizes: NDArray[np.intp]
    training_error: Array
    validation_error: Array | None
    standard_error: Array | None

    @classmethod
    def of(cls, path: Path) -> SizeCurve:
        """Keep of several budgets of inputs the best objective for each number of terms."""
        best: dict[int, Any] = {}
        for point in path.points:
            if point.max_terms not in best or point.objective < best[point.max_terms].objective:
                best[point.max_terms] = point
        points = [best[size] for size in sorted(best)]
        validated = all(point.validation_error is not None for point in points)
        return cls(
            np.array([point.max_terms for point in points], dtype=np.intp),
            np.array([point.training_error for point in points]),
            np.array([point.validation_error for point in points]) if validated else None,
            np.array([point.standard_error for point in points]) if validated else None,
        )


class PathDisplay:
    """Training and validation error against the number of terms.

    Parameters
    ----------
    sizes : array-like of int
        Numbers of terms allowed, increasing.
    training_error : array-like of float
        Root mean squared error on the rows of the fit.
    validation_error, standard_error : array-like of float or None
        Error on rows left out, and its standard error; None where nothing was validated.
    chosen : int or None
        Size to mark.
    name : str
        Name of the response.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(
        self,
        *,
        sizes: ArrayLike,
        training_error: ArrayLike,
        validation_error: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        chosen: int | None = None,
        name: str = "response",
    ) -> None:
        self.sizes = np.asarray(sizes)
        self.training_error = np.asarray(training_error, dtype=np.float64)
        self.validation_error = _floats(validation_error)
        self.standard_error = _floats(standard_error)
        self.chosen = chosen
        self.name = name

    @classmethod
    def from_path(cls, path: Path, *, chosen: int | None = None, ax: Axes | None = None) -> Self:
        """Draw what ``polysharp.path`` returned, the best model of each size."""
        curve = SizeCurve.of(path)
        return cls(
            sizes=curve.sizes,
            training_error=curve.training_error,
            validation_error=curve.validation_error,
            standard_error=curve.standard_error,
            chosen=chosen,
            name=path.points[0].polynomial.response,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        ax.plot(self.sizes, self.training_error, "o-", color=MODEL, ms=4, lw=1.2, label="training")
        if self.validation_error is not None:
            error, spread = self.validation_error, self.standard_error
            ax.plot(self.sizes, error, "o-", color=BOUND, ms=4, lw=1.2, label="validation")
            if spread is not None:
                band = (error - spread, error + spread)
                ax.fill_between(self.sizes, *band, color=BOUND, alpha=0.15, lw=0)
            ax.legend(frameon=False, fontsize="small")
        if self.chosen is not None:
            ax.axvline(self.chosen, color=INK, linewidth=0.8, linestyle=":")
        ax.locator_params(axis="x", integer=True)
        tidy(ax, "terms", f"error of {self.name}")
        return self


def plot_path(path: Path, *, chosen: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the accuracy-versus-size curve of a path.

    Parameters
    ----------
    path : Path
        What ``polysharp.path`` returned.
    chosen : int or None
        Number of terms to mark.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    return PathDisplay.from_path(path, chosen=chosen, ax=ax).ax_


def _floats(values: Any) -> Array | None:
    return None if values is None else np.asarray(values, dtype=np.float64)
