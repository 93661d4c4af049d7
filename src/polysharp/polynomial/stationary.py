"""Where a formula has no slope: minima, maxima and saddles of the response surface.

In v = (x - middle) / half, the inputs in parts of the range they have in the data, a stationary
point solves grad f(v) = 0, and the eigenvalues of the Hessian there tell its kind:

    all positive    minimum            both signs        saddle
    all negative    maximum            some are zero     flat: second derivatives do not decide

For a quadratic the equation is linear and this is all there is: one point, or a line or plane of
them (the one nearest to the middle is given), or none.  Beyond that Newton's method is started from
many rows, and what it finds is a list that may not be complete.

A stationary point belongs to the formula.  It is no proof that the process has an optimum there;
outside the range seen it is a guess; and where the surface is nearly flat a little noise moves it
far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array

Kind = Literal["minimum", "maximum", "saddle", "flat"]

FLAT = 1e-8  # eigenvalues below this share of the largest count as zero
STARTS = 60
STEPS = 60
FARTHEST = 3.0  # half ranges from the middle, beyond which nothing numerical is looked for
MOST_POINTS = 10


@dataclass(frozen=True, eq=False)
class StationaryPoint:
    """A point without slope."""

    x: Array  # (p,), the middle of the range for inputs that no term uses
    value: float
    kind: Kind
    inside: bool  # whether every input is within the range it has in the data
    curvatures: Array  # ascending eigenvalues of the Hessian, inputs in half ranges
    directions: Array  # (inputs in use, eigenvalues), the axes that they belong to


@dataclass(frozen=True, eq=False)
class StationaryPoints:
    """What was found, points inside the range first."""

    polynomial: Polynomial
    points: tuple[StationaryPoint, ...]
    exact: bool  # whether there are no others: the formula is a quadratic

    def __str__(self) -> str:
        """Return one line for each point."""
        law = self.polynomial
        if _has_functions(law):
            return "stationary points of formulas with functions of inputs are not looked for"
        if not self.points:
            sure = "has" if self.exact else "has, as far as a numerical search can tell,"
            return f"the formula {sure} no stationary point"
        lines = []
        for point in self.points:
            where = ", ".join(f"{law.names[i]} = {point.x[i]:.4g}" for i in law.inputs)
            side = "inside the range seen" if point.inside else "outside the range seen"
            lines.append(f"{point.kind} of {point.value:.4g} at {where}, {side}")
        return "\n".join(lines)


def stationary_points(polynomial: Polynomial, X: Array) -> StationaryPoints:
    """Return the ``StationaryPoints`` of a formula, over the range that inputs have in a table.

    Parameters
    ----------
    polynomial : Polynomial
        ``model.polynomial_`` of a fitted model; values that it clamps are not clamped here.  Where
        terms hold functions of inputs, nothing is looked for.
    X : array (n, p)
        Rows that tell the ranges of the inputs, usually those of the fit.

    Examples
    --------
    >>> law = Polynomial(((0,), (0, 0), (1, 1)), np.array([2.0, -1.0, -3.0]), 0.5, ("a", "b"))
    >>> print(stationary_points(law, np.array([[-2.0, -2.0], [2.0, 2.0]])))
    maximum of 1.5 at a = 1, b = 0, inside the range seen
    """
    X = np.asarray(X, dtype=np.float64)
    if not polynomial.inputs or _has_functions(polynomial):
        return StationaryPoints(polynomial, (), not polynomial.inputs)
    slopes = _Slopes(polynomial, X)
    exact = polynomial.degree <= 2
    found = _of_quadratic(slopes) if exact else _by_newton(slopes, X)
    points = sorted((_point(slopes, v) for v in found), key=lambda point: not point.inside)
    return StationaryPoints(polynomial, tuple(points[:MOST_POINTS]), exact)


def _has_functions(polynomial: Polynomial) -> bool:
    return any(i >= len(polynomial.names) for m in polynomial.monomials for i in m)


class _Slopes:
    """Gradient and Hessian in v, the inputs in use in parts of half their range."""

    def __init__(self, polynomial: Polynomial, X: Array) -> None:
        low, high = X.min(axis=0), X.max(axis=0)
        self.middle, self.half = 0.5 * (low + high), 0.5 * (high - low)
        self.half[self.half == 0.0] = 1.0
        law = polynomial.about(polynomial.shifts)  # derivatives are those of powers
        self.polynomial, self.used = replace(law, ranges=None), list(law.inputs)
        self.first = [_derivative(self.polynomial, i) for i in self.used]
        self.second = [[_derivative(slope, j) for j in self.used] for slope in self.first]

    def rows(self, v: Array) -> Array:
        """Return x at some points v, shape (points, p)."""
        x = np.repeat(self.middle[None, :], len(v), axis=0)
        x[:, self.used] += v * self.half[self.used]
        x[np.abs(x) < 1e-12 * self.half] = 0.0  # what rounding leaves of nothing
        return x

    def at(self, v: Array) -> tuple[Array, Array]:
        """Return the gradients and Hessians at some points, shape (points, inputs in use)."""
        x, half = self.rows(v), self.half[self.used]
        gradient = np.array([slope(x) for slope in self.first]).T
        hessian = np.array([[slope(x) for slope in row] for row in self.second]).T
        return gradient * half, hessian * np.outer(half, half)


def _derivative(law: Polynomial, i: int) -> Polynomial:
    left = {}
    for m, c in zip(law.monomials, law.coefficients.tolist(), strict=True):
        if i in m:
            at = m.index(i)
            left[m[:at] + m[at + 1 :]] = c * m.count(i)
    intercept = left.pop((), 0.0)
    return replace(
        law, monomials=tuple(left), coefficients=np.array(list(left.values())), intercept=intercept
    )


def _of_quadratic(slopes: _Slopes) -> Array:
    """Solve H v = -g; where H is singular, for the solution of least length, if there is one."""
    start = np.zeros((1, len(slopes.used)))
    (gradient,), (H,) = slopes.at(start)
    sizes, axes = np.linalg.eigh(H)
    largest = float(np.abs(sizes).max())
    curved = np.abs(sizes) > FLAT * largest
    along = axes.T @ gradient
    if not curved.any() or np.abs(along[~curved]).max(initial=0.0) > FLAT * np.abs(along).max():
        return start[:0]  # it rises without end in some direction
    return np.asarray(-(axes[:, curved] @ (along[curved] / sizes[curved]))[None, :])


def _by_newton(slopes: _Slopes, X: Array) -> Array:
    """Go by Newton's steps from many rows until the slope is gone."""
    used, k = slopes.used, len(slopes.used)
    chosen = np.unique(np.linspace(0, len(X) - 1, min(len(X), STARTS)).round().astype(int))
    v = (X[chosen][:, used] - slopes.middle[used]) / slopes.half[used]
    v = np.vstack([np.zeros((1, k)), v])
    first, _ = slopes.at(v)
    scale = float(np.abs(first).max())
    for _ in range(STEPS):
        gradient, H = slopes.at(v)
        step = -np.einsum("aij,aj->ai", np.linalg.pinv(H, hermitian=True), gradient)
        length = np.linalg.norm(step, axis=1, keepdims=True)
        v = (v + step * np.minimum(1.0, 1.0 / np.maximum(length, 1e-300))).clip(
            -2.0 * FARTHEST, 2.0 * FARTHEST
        )
    gradient, _ = slopes.at(v)
    still = np.abs(gradient).max(axis=1) <= 1e-9 * scale
    near = np.abs(v).max(axis=1) <= FARTHEST
    distinct: list[Array] = []
    for point in v[still & near]:
        if all(np.abs(point - other).max() > 1e-5 for other in distinct):
            distinct.append(point)
    return np.array(distinct).reshape(-1, k)


def _point(slopes: _Slopes, v: Array) -> StationaryPoint:
    x, (_, (H,)) = slopes.rows(v[None, :]), slopes.at(v[None, :])
    sizes, axes = np.linalg.eigh(H)
    zero = FLAT * float(np.abs(sizes).max())
    kind: Kind = "minimum" if sizes[0] > 0.0 else "maximum"
    if sizes[0] < -zero and sizes[-1] > zero:
        kind = "saddle"
    elif (np.abs(sizes) <= zero).any():
        kind = "flat"
    inside = bool((np.abs(v) <= 1.0 + 1e-9).all())
    value = float(slopes.polynomial(x)[0])
    return StationaryPoint(x[0], value, kind, inside, sizes, axes)
