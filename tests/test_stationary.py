"""Stationary points: those of quadratics exactly, others found by Newton's method."""

import numpy as np
import pytest
from support import stationary_points

from polysharp import Polynomial

RANGE = np.array([[-2.0, -2.0, 0.0], [2.0, 2.0, 4.0]])
NAMES = ("a", "b", "c")


def quadratic(H, at, shifts=None):
    """Return 7 + 1/2 (x - at)' H (x - at), multiplied out."""
    n = len(H)
    terms, c = [], []
    for i in range(n):
        for j in range(i, n):
            terms.append((i, j))
            c.append(H[i, j] * (0.5 if i == j else 1.0))
    terms += [(i,) for i in range(n)]
    origin = np.zeros(n) if shifts is None else shifts[:n]
    c += list(-H @ (at - origin))
    value = 7.0 + 0.5 * (at - origin) @ H @ (at - origin)
    return Polynomial(tuple(terms), np.array(c), value, NAMES, shifts)


@pytest.mark.parametrize(
    ("signs", "kind"), [((1, 2, 3), "minimum"), ((-1, -2, -1), "maximum"), ((-1, 2, 1), "saddle")]
)
@pytest.mark.parametrize("shifts", [None, np.array([1.0, -3.0, 0.5])])
def test_a_quadratic_has_the_point_it_was_made_with(signs, kind, shifts):
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    H = axes * np.array(signs, dtype=float) @ axes.T
    at = np.array([0.3, -1.0, 2.5])
    found = stationary_points(quadratic(H, at, shifts), RANGE)
    (point,) = found.points
    np.testing.assert_allclose(point.x, at, rtol=1e-9)
    assert (point.kind, point.inside, found.exact) == (kind, True, True)
    assert point.value == pytest.approx(7.0)
    np.testing.assert_allclose(point.curvatures, np.sort(4.0 * np.array(signs)), rtol=1e-9)
    assert f"{kind} of 7 at a = 0.3, b = -1, c = 2.5, inside the range seen" in str(found)


def test_outside_the_range():
    (point,) = stationary_points(quadratic(np.eye(2), np.array([5.0, 0.0])), RANGE).points
    assert not point.inside


def test_a_slope_without_end_has_no_point_and_a_ridge_has_many():
    rising = Polynomial(((0, 0), (1,)), np.array([1.0, 2.0]), 0.0, NAMES)
    none = stationary_points(rising, RANGE)
    assert none.points == ()
    assert str(none) == "the formula has no stationary point"
    ridge = Polynomial(((0, 0), (0, 1), (1, 1)), np.array([-1.0, 2.0, -1.0]), 0.0, NAMES)
    (point,) = stationary_points(ridge, RANGE).points
    assert point.kind == "flat"
    assert point.x[0] == pytest.approx(point.x[1])
    assert stationary_points(Polynomial((), np.zeros(0), 1.0, NAMES), RANGE).points == ()


def test_higher_degrees_have_several():
    # a^4 - 2 a^2 + b^2: minima at a = -1 and 1, a saddle between them.
    law = Polynomial(((0, 0, 0, 0), (0, 0), (1, 1)), np.array([1.0, -2.0, 1.0]), 0.0, NAMES)
    rows = np.random.default_rng(0).uniform(-2.0, 2.0, (100, 3))
    found = stationary_points(law, rows)
    kinds = {round(float(p.x[0]), 6) + 0.0: p.kind for p in found.points}
    assert kinds == {-1.0: "minimum", 1.0: "minimum", 0.0: "saddle"}
    assert not found.exact
    for point in found.points:
        near = point.x + 1e-4 * np.random.default_rng(1).standard_normal((50, 3))
        assert np.abs(law(near) - point.value).max() < 1e-6  # no slope
    climb = Polynomial(((0, 0, 0), (0,)), np.array([1.0, 1.0]), 0.0, NAMES)
    assert "as far as a numerical search can tell" in str(stationary_points(climb, rows))


def test_units_do_not_matter():
    law = quadratic(np.diag([1.0, -1.0]), np.array([0.5, 0.5]))
    units = np.array([1e6, 1e-6, 1.0])
    factors = np.array([np.prod(units[list(m)]) for m in law.monomials])
    other = Polynomial(law.monomials, law.coefficients / factors, law.intercept, NAMES)
    (point,) = stationary_points(other, RANGE * units).points
    np.testing.assert_allclose(point.x[:2], [0.5e6, 0.5e-6], rtol=1e-9)
    assert point.kind == "saddle"
