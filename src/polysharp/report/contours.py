"""Filled contours of a surface on a grid, as paths: marching squares.

For a level t the region {z >= t} is cut out of every cell: go round its four corners, take those
at or above t, and add the point on an edge, by linear interpolation, where z crosses t.
Painting the regions of rising levels over each other gives the bands.  Whole cells in a row are
joined into one rectangle.
"""

from __future__ import annotations

import numpy as np

from polysharp.typing import Array


def region_above(z: Array, level: float, x: Array, y: Array) -> str:
    """Return the path of {z >= level}; ``z[b, a]`` belongs to the point ``x[a], y[b]``.

    Examples
    --------
    >>> z = np.array([[0.0, 2.0], [0.0, 2.0]])
    >>> region_above(z, 1.0, np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    'M5 0L10 0L10 10L5 10Z'
    """
    above = z >= level
    corners = np.stack([above[:-1, :-1], above[:-1, 1:], above[1:, 1:], above[1:, :-1]])
    count = corners.sum(axis=0)
    pieces = []
    for b in range(len(y) - 1):
        for a in np.flatnonzero((count[b] > 0) & (count[b] < 4)).tolist():
            cell = [(a, b), (a + 1, b), (a + 1, b + 1), (a, b + 1)]
            points = [(float(x[i]), float(y[j])) for i, j in cell]
            pieces.append(_cut(points, [float(z[j, i]) - level for i, j in cell]))
        # Where whole cells begin and where they end, in turns.
        limits = np.flatnonzero(np.diff(count[b] == 4, prepend=False, append=False))
        for first, last in limits.reshape(-1, 2).tolist():
            left, right, low, high = x[first], x[last], y[b], y[b + 1]
            pieces.append(_polygon([(left, low), (right, low), (right, high), (left, high)]))
    return "".join(pieces)


def _cut(points: list[tuple[float, float]], heights: list[float]) -> str:
    """Return the part of one cell where the height is not negative."""
    corners: list[tuple[float, float]] = []
    for a in range(4):
        here, there = points[a], points[(a + 1) % 4]
        h, k = heights[a], heights[(a + 1) % 4]
        if h >= 0.0:
            corners.append(here)
        if (h >= 0.0) != (k >= 0.0):
            share = h / (h - k)
            x, y = (a + share * (b - a) for a, b in zip(here, there, strict=True))
            corners.append((x, y))
    return _polygon(corners)


def _polygon(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{px:.4g} {py:.4g}" for px, py in points) + "Z"
