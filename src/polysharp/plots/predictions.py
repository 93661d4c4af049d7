"""How well a model predicts: predictions against observations, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polysharp.errors import InputError
from polysharp.estimators.fitted import fitted_polynomial, rows_of
from polysharp.plots.display import INK, MODEL, Display, tidy
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PairsDisplay(Display):
    """Observed and predicted values; subclasses say what is drawn against what.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Observed and predicted values, best of rows the model has not seen.
    name : str
        Name of the response, for the labels.
    """

    def __init__(self, *, y_true: ArrayLike, y_pred: ArrayLike, name: str = "response") -> None:
        self.y_true = np.asarray(y_true, dtype=np.float64)
        self.y_pred = np.asarray(y_pred, dtype=np.float64)
        self.name = name
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
        rows = rows_of(estimator, X, y)
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
        raise NotImplementedError


class PredictionDisplay(PairsDisplay):
    """Predictions against observations, with the line of perfect agreement.

    The parameters are those of ``PairsDisplay``.
    """

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        ax = self._begin(ax)
        both = np.concatenate([self.y_true, self.y_pred])
        ends = [both.min(), both.max()]
        ax.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
        _scatter(ax, self.y_true, self.y_pred)
        tidy(ax, f"observed {self.name}", f"predicted {self.name}")
        return self


class ResidualDisplay(PairsDisplay):
    """Residuals, observed minus predicted, against predictions.

    The parameters are those of ``PairsDisplay``.
    """

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        ax = self._begin(ax)
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=1)
        _scatter(ax, self.y_pred, self.y_true - self.y_pred)
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

    Parameters and result are those of ``plot_predictions``.
    """
    return ResidualDisplay.from_predictions(y_true, y_pred, ax=ax, name=name).ax_


def _scatter(ax: Axes, x: Array, y: Array) -> None:
    ax.scatter(x, y, s=14, color=MODEL, alpha=0.65, linewidths=0, zorder=2)
