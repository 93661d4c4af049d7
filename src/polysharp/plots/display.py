"""What all pictures share: axes made on demand, colours, and a quiet frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polysharp.errors import InputError, load_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

INK = "#1f2933"
MODEL = "#0b6e99"
BOUND = "#c2571a"
QUIET = "#b8c4ce"


class Display:
    """A picture on one Axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where ``plot`` has drawn.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def _begin(self, ax: Axes | None, figsize: tuple[float, float] = (4.5, 4.0)) -> Axes:
        """Return the axes to draw on, new ones where none are given."""
        if ax is None:
            ax = _pyplot().subplots(figsize=figsize, layout="constrained")[1]
        assert ax is not None
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class PanelDisplay:
    """A picture on several Axes, at most three side by side.

    Attributes
    ----------
    axes_, figure_ : list of matplotlib Axes, and Figure
        Where ``plot`` has drawn.
    """

    axes_: list[Axes]
    figure_: Figure | SubFigure

    def _begin(self, ax: Any, count: int) -> list[Axes]:
        """Return one Axes per panel: those given, or those of a new figure."""
        if ax is None:
            columns = min(3, count)
            rows = -(-count // columns)
            size = (3.4 * columns, 2.9 * rows)
            grid = (
                _pyplot()
                .subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")[1]
                .flat
            )
            for spare in grid[count:]:
                spare.set_axis_off()
            ax = grid[:count]
        given = list(ax) if isinstance(ax, Sequence) or hasattr(ax, "__len__") else [ax]
        if len(given) != count:
            raise InputError(f"ax must have one Axes per panel, {count}, got {len(given)}")
        self.axes_, self.figure_ = given, given[0].figure
        return given


def tidy(ax: Axes, x: str, y: str) -> None:
    """Name the two sides and take the other two away."""
    # A dollar sign in a user's name is not mathematics.
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def _pyplot() -> Any:
    return load_optional("matplotlib.pyplot", "a plot", "plots")
