"""How well a model predicts: predictions against observations, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polysharp.errors import InputError
from polysharp.estimators.fitted import fitted_polynomial, rows_of
from polysharp.plots.axes import INK, MODEL, axes, tidy
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class _PairsDisplay:
    """Observed and predicted values; subclasses say what is drawn against what."""

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, *, y_true: ArrayLike, y_pred: ArrayLike, name: str = "response") -> None:
        self.y_true, self.y_pred = _pair(y_true, y_pred)
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None, name: str | None = None
    ) -> Self:
        """Predict the rows of X and draw the predictions against y."""
        rows = rows_of(estimator, X, y)
        name = fitted_polynomial(estimator).response if name is None else name
        return cls(y_true=rows.observed, y_pred=rows.predicted, name=name).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        ax: Axes | None = None,
        name: str = "response",
    ) -> Self:
        """Draw predictions that are at hand."""
        return cls(y_true=y_true, y_pred=y_pred, name=name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        raise NotImplementedError

    def _scatter(self, ax: Axes, x: Array, y: Array) -> None:
        ax.scatter(x, y, s=14, color=MODEL, alpha=0.65, linewidths=0, zorder=2)


class PredictionDisplay(_PairsDisplay):
    """Predictions against observations, with the line of perfect agreement.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Observed and predicted values, best of rows the model has not seen.
    name : str
        Name of the response, for the labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.
    """

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        both = np.concatenate([self.y_true, self.y_pred])
        ends = [both.min(), both.max()]
        ax.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
        self._scatter(ax, self.y_true, self.y_pred)
        tidy(ax, f"observed {self.name}", f"predicted {self.name}")
        return self


class ResidualDisplay(_PairsDisplay):
    """Residuals, observed minus predicted, against predictions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Observed and predicted values, best of rows the model has not seen.
    name : str
        Name of the response, for the labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.
    """

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=1)
        self._scatter(ax, self.y_pred, self.y_true - self.y_pred)
        tidy(ax, f"predicted {self.name}", "observed - predicted")
        return self


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
    return PredictionDisplay.from_predictions(y_true, y_pred, ax=ax, name=name).ax_


def plot_residuals(
    y_true: ArrayLike, y_pred: ArrayLike, *, ax: Axes | None = None, name: str = "response"
) -> Axes:
    """Draw residuals, observed minus predicted, against predictions.

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
    return ResidualDisplay.from_predictions(y_true, y_pred, ax=ax, name=name).ax_


def _pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[Array, Array]:
    observed = np.asarray(y_true, dtype=np.float64)
    predicted = np.asarray(y_pred, dtype=np.float64)
    if observed.ndim != 1 or observed.shape != predicted.shape or not observed.size:
        raise InputError(
            "y_true and y_pred must be vectors of one length, at least 1; got shapes "
            f"{observed.shape} and {predicted.shape}"
        )
    return observed, predicted
