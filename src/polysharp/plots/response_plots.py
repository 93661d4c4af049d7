"""What the formula does: the response over one input, and over the two that interact most.

All other inputs stay at their medians (``polynomial.stationary``).  A rug or a cloud of
points shows where the data are; a polynomial is no guide elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from polysharp.errors import InputError
from polysharp.estimators.model import fitted_polynomial
from polysharp.estimators.scored_rows import inputs_of
from polysharp.monomials.terms import read_inputs
from polysharp.plots.display import INK, MODEL, PanelDisplay, tidy
from polysharp.polynomial.importance import measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.stationary import Curve, Surface, response_curve, response_surface
from polysharp.typing import Array


@dataclass(kw_only=True, eq=False, repr=False)
class ResponseDisplay(PanelDisplay):
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
        for curve, panel in zip(self.curves, self._begin(ax, len(self.curves)), strict=True):
            panel.plot(curve.x, curve.response, color=MODEL, linewidth=1.8)
            foot = panel.get_xaxis_transform()
            x = self.X[:, curve.input]
            panel.plot(x, [0.015] * len(x), "|", transform=foot, **rug)
            tidy(panel, self.polynomial.names[curve.input], self.polynomial.response)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SurfaceDisplay(PanelDisplay):
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
        for surface, panel in zip(self.surfaces, self._begin(ax, len(self.surfaces)), strict=True):
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
