"""What all pictures share: axes made on demand, colours, and a quiet frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polysharp.errors import InputError, load_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

INK, MODEL, BOUND, QUIET = "#1f2933", "#0b6e99", "#c2571a", "#b8c4ce"


class Display:
    """A picture on one Axes; ``ax_`` and ``figure_`` are where ``plot`` has drawn."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _begin(self, ax: Axes | None, figsize: tuple[float, float] = (4.5, 4.0)) -> Axes:
        """Return the axes to draw on, new ones where none are given."""
        self.ax_ = _subplots(figsize=figsize)[0] if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_


class PanelDisplay:
    """A picture on several Axes, at most three side by side: ``axes_`` of ``figure_``."""

    axes_: list[Axes]
    figure_: Figure | SubFigure

    def _begin(self, ax: Any, count: int) -> list[Axes]:
        """Return one Axes per panel: those given, or those of a new figure."""
        if ax is None:
            columns = min(3, count)
            rows = -(-count // columns)
            grid = _subplots(rows, columns, figsize=(3.4 * columns, 2.9 * rows))
            for spare in grid[count:]:
                spare.set_axis_off()
            ax = grid[:count]
        self.axes_ = list(ax) if isinstance(ax, Sequence) or hasattr(ax, "__len__") else [ax]
        if len(self.axes_) != count:
            raise InputError(f"ax must have one Axes per panel, {count}, got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        return self.axes_


def tidy(ax: Axes, x: str, y: str) -> None:
    """Name the two sides and take the other two away."""
    # A dollar sign in a user's name is not mathematics.
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def _subplots(*shape: int, figsize: tuple[float, float]) -> Any:
    pyplot = load_optional("matplotlib.pyplot", "a plot", "plots")
    return pyplot.subplots(*shape, figsize=figsize, squeeze=False, layout="constrained")[1].flat
