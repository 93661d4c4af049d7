"""What all pictures share: axes made on demand, colours, and a quiet frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polysharp.errors import MissingSolverError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
MODEL = "#0b6e99"
BOUND = "#c2571a"


def axes(ax: Axes | None, figsize: tuple[float, float] = (4.5, 4.0)) -> Axes:
    """Return the axes to draw on, new ones where none are given."""
    if ax is not None:
        return ax
    new: Axes = _pyplot().subplots(figsize=figsize, layout="constrained")[1]
    return new


def panels(count: int, columns: int = 3) -> list[Axes]:
    """Return the axes of a new figure with so many panels, at most ``columns`` side by side."""
    columns = min(columns, count)
    rows = -(-count // columns)
    _, grid = _pyplot().subplots(
        rows, columns, figsize=(3.4 * columns, 2.9 * rows), squeeze=False, layout="constrained"
    )
    for spare in grid.flat[count:]:
        spare.set_axis_off()
    return list(grid.flat[:count])


def tidy(ax: Axes, x: str, y: str) -> None:
    """Name the two sides and take the other two away."""
    # A dollar sign in a user's name is not mathematics.
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingSolverError(
            "plots need matplotlib, which is not installed: pip install 'polysharp[plots]'"
        ) from error
    return plt
