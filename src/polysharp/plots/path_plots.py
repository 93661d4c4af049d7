"""Accuracy against size: the gain of every further term.

The curve people choose from.  The training error can hardly rise as terms are allowed; the
validation error, with its standard error as a band, says where further terms stop paying.  A path
over several budgets of inputs has one curve for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from polysharp.errors import InputError
from polysharp.estimators.model import fitted_polynomial
from polysharp.plots.model_plots import BOUND, INK, MODEL, Display, tidy
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from polysharp.estimators.path import Path, PathPoint


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """Errors against the number of terms allowed, for one budget of inputs."""

    max_inputs: int | None
    sizes: NDArray[np.intp]
    training_error: Array | None
    validation_error: Array | None
    std_error: Array  # of the validation errors

    @property
    def error(self) -> Array:
        """The error to judge by: that of validation where there is one."""
        found = self.training_error if self.validation_error is None else self.validation_error
        assert found is not None
        return found

    def measured(self, size: int) -> tuple[float, float] | None:
        """Return mean and standard error of a size on rows not seen, where they are known."""
        at = np.flatnonzero(self.sizes == size)
        if not len(at) or self.validation_error is None:
            return None
        error = float(self.validation_error[at[0]])
        return (error, float(self.std_error[at[0]])) if np.isfinite(error) else None


def curves_of(model: Any, path: Path | None) -> list[SizeCurve]:
    """Return the curves of a path, or of the search that chose the budgets of a model."""
    searched = hasattr(model, "cv_results_")
    if path is not None and (path.n_splits or not searched):
        return size_curves(path)
    return [search_curve(model)] if searched else []


def size_curves(path: Path) -> list[SizeCurve]:
    """Return one curve for each budget of inputs of a path."""
    budgets = dict.fromkeys(point.max_inputs for point in path.points)
    return [_curve([point for point in path.points if point.max_inputs == k]) for k in budgets]


def _curve(points: Sequence[PathPoint]) -> SizeCurve:
    validated = any(point.validation_error is not None for point in points)
    return SizeCurve(
        points[0].max_inputs,
        np.array([point.max_terms for point in points], dtype=np.intp),
        np.array([point.training_error for point in points]),
        np.array([point.validation_error for point in points], float) if validated else None,
        np.array([point.validation_std_error or 0.0 for point in points]),
    )


def search_curve(search: Any) -> SizeCurve:
    """Return the curve of a search over budgets, all else at the values it chose."""
    results, chosen = search.cv_results_, search.best_params_
    error = -np.asarray(results["mean_test_score"], dtype=np.float64)
    others = [name for name in chosen if name != "max_terms"]
    alike = np.array([all(row[k] == chosen[k] for k in others) for row in results["params"]])
    sizes = np.asarray(results["param_max_terms"], dtype=np.intp)
    rows = np.flatnonzero(alike & np.isfinite(error))
    rows = rows[np.argsort(sizes[rows])]
    # A budget above the number of monomials allows nothing new: the flat end is shown once.
    moves = np.flatnonzero(np.diff(error[rows]))
    last = max(sizes[rows][moves + 1].max(initial=0), chosen["max_terms"])
    rows = rows[sizes[rows] <= last]
    # std_test_score is that of the splits themselves; this is the standard error of their mean.
    std_error = np.asarray(results["std_test_score"])[rows] / max(1, search.n_splits_ - 1) ** 0.5
    return SizeCurve(chosen["max_inputs"], sizes[rows], None, error[rows], std_error)


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay(Display):
    """Training and validation error against the number of terms."""

    curves: Sequence[SizeCurve]  #: one for each budget of inputs
    chosen: int | None = None  #: number of terms to mark
    name: str = "response"  #: of the response

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the validation errors of a fitted search over budgets, the size chosen marked."""
        name = fitted_polynomial(estimator).response
        if not hasattr(estimator, "cv_results_"):
            raise InputError(
                "estimator must be a fitted SparsePolynomialRegressorCV, got "
                f"{type(estimator).__name__}; for one model draw polysharp.path with from_path"
            )
        chosen = int(estimator.best_params_["max_terms"])
        return cls(curves=[search_curve(estimator)], chosen=chosen, name=name).plot(ax)

    @classmethod
    def from_path(cls, path: Path, *, chosen: int | None = None, ax: Axes | None = None) -> Self:
        """Draw the result of ``polysharp.path``."""
        name = path.points[0].polynomial.response
        return cls(curves=size_curves(path), chosen=chosen, name=name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns the display."""
        ax = self._begin(ax)
        style: Any = {"marker": "o", "markersize": 4, "linewidth": 1.2}
        shades = np.linspace(0.25, 1.0, len(self.curves))
        for curve, shade in zip(self.curves, shades, strict=True):
            if len(self.curves) > 1:
                label = f"{'all' if curve.max_inputs is None else curve.max_inputs} inputs"
                ax.plot(curve.sizes, curve.error, label=label, color=MODEL, alpha=shade, **style)
                continue
            if curve.training_error is not None:
                ax.plot(curve.sizes, curve.training_error, color=MODEL, label="training", **style)
            if (error := curve.validation_error) is not None:
                ax.plot(curve.sizes, error, color=BOUND, label="validation", **style)
                band = error - curve.std_error, error + curve.std_error
                ax.fill_between(curve.sizes, *band, color=BOUND, alpha=0.15, lw=0)
        if self.chosen is not None:
            ax.axvline(self.chosen, color=INK, linewidth=0.8, linestyle=":")
        ax.legend(frameon=False, fontsize="small")
        ax.locator_params(axis="x", integer=True)
        tidy(ax, "terms allowed", f"error of {self.name}")
        return self


def plot_path(path: Path, *, chosen: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the accuracy-versus-size curve of a path; return the matplotlib Axes.

    Parameters
    ----------
    path : Path
        What ``polysharp.path`` returned.
    chosen : int or None
        Number of terms to mark.
    ax : matplotlib Axes or None
        Where to draw; a new figure by default.
    """
    return PathDisplay.from_path(path, chosen=chosen, ax=ax).ax_
