"""The response of a polynomial to one input, or to two.

A response curve varies one input over its observed range and keeps all others at their medians; a
response surface varies two.  Both are slices of the polynomial, not averages: within the range,
``predict`` returns every value shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class Curve:
    """The response over one input."""

    input: int
    x: Array
    response: Array


@dataclass(frozen=True, eq=False)
class Surface:
    """The response over two inputs; ``response[b, a]`` belongs to ``x[a]`` and ``y[b]``."""

    inputs: tuple[int, int]
    x: Array
    y: Array
    response: Array


def response_curve(polynomial: Polynomial, X: Array, i: int, points: int = 101) -> Curve:
    """Vary input i over the range it has in X, the others at their medians.

    Examples
    --------
    >>> law = Polynomial(((0, 1),), np.array([2.0]), 1.0, ("a", "b"))
    >>> curve = response_curve(law, np.array([[0.0, 1.0], [1.0, 3.0], [4.0, 5.0]]), 0, points=3)
    >>> curve.x.tolist(), curve.response.tolist()
    ([0.0, 2.0, 4.0], [1.0, 13.0, 25.0])
    """
    x = np.linspace(X[:, i].min(), X[:, i].max(), points)
    rows = np.repeat(np.median(X, axis=0)[None, :], points, axis=0)
    rows[:, i] = x
    return Curve(i, x, polynomial(rows))


def response_surface(
    polynomial: Polynomial, X: Array, inputs: tuple[int, int], points: int = 41
) -> Surface:
    """Vary two inputs over the ranges they have in X, the others at their medians."""
    i, j = inputs
    x = np.linspace(X[:, i].min(), X[:, i].max(), points)
    y = np.linspace(X[:, j].min(), X[:, j].max(), points)
    rows = np.repeat(np.median(X, axis=0)[None, :], points * points, axis=0)
    rows[:, j], rows[:, i] = (grid.ravel() for grid in np.meshgrid(y, x, indexing="ij"))
    return Surface(inputs, x, y, polynomial(rows).reshape(points, points))
