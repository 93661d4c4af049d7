"""The response surface of a formula: slices through it, and its minima, maxima and saddles.

A slice varies one input or two over their observed ranges and keeps all others at their medians.
It is no average: within the ranges, ``predict`` returns every value shown.

In v = (x - middle) / half, with the inputs scaled to half their observed range, a stationary point
solves grad f(v) = 0, and the eigenvalues of the Hessian at the point tell its kind:

    all positive    minimum            both signs        saddle
    all negative    maximum            some are zero     flat: second derivatives do not decide

For a quadratic the equation is linear, and the solutions are one point, a line or plane of points
(the one nearest to the middle is given), or none.  For higher degrees Newton's method starts from
many rows, and its list may be incomplete.

A stationary point is a property of the formula.  It does not prove that the process has an optimum
there.  Outside the observed range it is a guess, and on a nearly flat surface a little noise moves
it far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array

PointKind = Literal["minimum", "maximum", "saddle", "flat"]

FLAT = 1e-8  # eigenvalues below this share of the largest count as zero
STARTS = 60  # rows from which Newton's method starts
STEPS = 60  # of Newton's method from each start
FARTHEST = 3.0  # half ranges from the middle, the limit of the numerical search
MOST_POINTS = 10  # that are returned


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
    return Curve(i, *_slice(polynomial, X, (i,), points))


def response_surface(
    polynomial: Polynomial, X: Array, inputs: tuple[int, int], points: int = 41
) -> Surface:
    """Vary two inputs over the ranges they have in X, the others at their medians."""
    return Surface(inputs, *_slice(polynomial, X, inputs, points))


def _slice(polynomial: Polynomial, X: Array, inputs: tuple[int, ...], points: int) -> list[Array]:
    """Return the values of each input, and the response on their grid, the last input first."""
    grid = [np.linspace(X[:, i].min(), X[:, i].max(), points) for i in inputs]
    rows = np.tile(np.median(X, axis=0), (points ** len(inputs), 1))
    for i, values in zip(inputs, np.meshgrid(*grid), strict=True):
        rows[:, i] = values.ravel()
    return [*grid, polynomial(rows).reshape([points] * len(inputs))]


@dataclass(frozen=True, eq=False)
class StationaryPoint:
    """A point with zero gradient."""

    x: Array  # (p,); inputs that are not in use are at the middle of their range
    value: float
    kind: PointKind
    inside: bool  # whether every input is within its observed range
    curvatures: Array  # ascending eigenvalues of the Hessian, inputs in half ranges
    directions: Array  # (inputs in use, eigenvalues), the eigenvectors


@dataclass(frozen=True, eq=False)
class StationaryPoints:
    """The points found, those inside the observed range first."""

    polynomial: Polynomial
    points: tuple[StationaryPoint, ...]
    exact: bool  # whether the list is complete: the formula is at most quadratic

    def __str__(self) -> str:
        """Return one line for each point."""
        if _has_functions(self.polynomial):
            return "stationary points of formulas with functions of inputs are not computed"
        if not self.points:
            sure = "has" if self.exact else "has, as far as a numerical search can tell,"
            return f"the formula {sure} no stationary point"
        lines, names = [], self.polynomial.names
        for point in self.points:
            place = ", ".join(f"{names[i]} = {point.x[i]:.4g}" for i in self.polynomial.inputs)
            side = "inside" if point.inside else "outside"
            lines.append(f"{point.kind} of {point.value:.4g} at {place}, {side} the range seen")
        return "\n".join(lines)


def stationary_points(polynomial: Polynomial, X: Array) -> StationaryPoints:
    """Return the ``StationaryPoints`` of a formula, over the range of the inputs in a table.

    Parameters
    ----------
    polynomial : Polynomial
        ``model.polynomial_`` of a fitted model; its clamping is ignored.  Formulas with functions
        of inputs get an empty result.
    X : array (n, p)
        Rows that give the ranges of the inputs, usually those of the fit.

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
    return bool(polynomial.powers[:, len(polynomial.names) :].any())


class _Slopes:
    """Gradient and Hessian in v, the inputs in use scaled to half their range."""

    def __init__(self, polynomial: Polynomial, X: Array) -> None:
        low, high = X.min(axis=0), X.max(axis=0)
        self.middle, self.half = 0.5 * (low + high), 0.5 * (high - low)
        self.half[self.half == 0.0] = 1.0
        self.polynomial, self.used = replace(polynomial, ranges=None), list(polynomial.inputs)
        self.first = [_derivative(self.polynomial, i) for i in self.used]
        self.second = [[_derivative(slope, j) for j in self.used] for slope in self.first]

    def rows(self, v: Array) -> Array:
        """Return x at some points v, shape (points, p)."""
        x = np.repeat(self.middle[None, :], len(v), axis=0)
        x[:, self.used] += v * self.half[self.used]
        x[np.abs(x) < 1e-12 * self.half] = 0.0  # rounding of zero
        return x

    def at(self, v: Array) -> tuple[Array, Array]:
        """Return the gradients and Hessians at some points, shape (points, inputs in use)."""
        x, half = self.rows(v), self.half[self.used]
        gradient = np.array([slope(x) for slope in self.first]).T
        hessian = np.array([[slope(x) for slope in row] for row in self.second]).T
        return gradient * half, hessian * np.outer(half, half)


def _derivative(f: Polynomial, i: int) -> Polynomial:
    terms = {}
    for m, c in zip(f.monomials, f.coefficients.tolist(), strict=True):
        if i in m:
            at = m.index(i)
            terms[m[:at] + m[at + 1 :]] = c * m.count(i)
    intercept, coefficients = terms.pop((), 0.0), np.array(list(terms.values()))
    return replace(f, monomials=tuple(terms), coefficients=coefficients, intercept=intercept)


def _of_quadratic(slopes: _Slopes) -> Array:
    """Solve H v = -g; if H is singular, return the shortest solution, or none."""
    start = np.zeros((1, len(slopes.used)))
    (gradient,), (H,) = slopes.at(start)
    sizes, axes = np.linalg.eigh(H)
    largest = float(np.abs(sizes).max())
    curved = np.abs(sizes) > FLAT * largest
    along = axes.T @ gradient
    if not curved.any() or np.abs(along[~curved]).max(initial=0.0) > FLAT * np.abs(along).max():
        return start[:0]  # f is linear and not constant in some direction
    return np.asarray(-(axes[:, curved] @ (along[curved] / sizes[curved]))[None, :])


def _by_newton(slopes: _Slopes, X: Array) -> Array:
    """Run Newton's method from many rows, and return the distinct limits."""
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
    kind: PointKind = "minimum" if sizes[0] > 0.0 else "maximum"
    if sizes[0] < -zero and sizes[-1] > zero:
        kind = "saddle"
    elif (np.abs(sizes) <= zero).any():
        kind = "flat"
    inside = bool((np.abs(v) <= 1.0 + 1e-9).all())
    value = float(slopes.polynomial(x)[0])
    return StationaryPoint(x[0], value, kind, inside, sizes, axes)
