"""Importance is what its definition says, found here by enumerating the product of the columns."""

import itertools

import numpy as np
import pytest

from polysharp.polynomial.importance import measure_importance, term_values
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.response import response_curve, response_surface

MONOMIALS = ((0,), (0, 1), (1, 1, 2), (0, 0, 2), (2,))


def law(seed, shifts=None):
    c = np.random.default_rng(seed).standard_normal(len(MONOMIALS))
    return Polynomial(MONOMIALS, c, 1.5, ("a", "b", "c", "d"), shifts)


def table(seed, n=4, p=4):
    return np.random.default_rng(100 + seed).uniform(-1.0, 3.0, (n, p))


def product_values(polynomial, X, used=3):
    """Return the polynomial on all combinations of the columns' values, one axis per input."""
    n = len(X)
    points = [
        [X[a, i] for i, a in enumerate(rows)] + [0.0]
        for rows in itertools.product(range(n), repeat=used)
    ]
    return polynomial(np.array(points)).reshape((n,) * used)


@pytest.mark.parametrize("seed", range(4))
def test_importance_of_an_input_is_the_variance_that_goes_when_it_is_fixed(seed):
    polynomial, X = law(seed), table(seed)
    f = product_values(polynomial, X)
    found = measure_importance(polynomial, X)
    for i in range(3):
        assert found.inputs[i] == pytest.approx(f.var(axis=i).mean() / f.var())
    assert found.inputs[3] == 0.0
    assert found.order == sorted(range(3), key=lambda i: -found.inputs[i])


@pytest.mark.parametrize("seed", range(4))
def test_strength_of_an_interaction_is_its_mean_squared_mixed_difference(seed):
    polynomial, X = law(seed), table(seed)
    f = product_values(polynomial, X)
    found = measure_importance(polynomial, X).pairs
    assert set(found) == {(0, 1), (1, 2), (0, 2)}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for (i, j), share in found.items():
        g = np.moveaxis(f, (i, j), (0, 1))
        mixed = (
            g[:, None, :, None] - g[None, :, :, None] - g[:, None, None, :] + g[None, :, None, :]
        )
        assert share == pytest.approx((mixed**2).mean() / 4.0 / f.var())


@pytest.mark.parametrize("seed", range(3))
def test_units_and_origins_change_nothing(seed):
    polynomial, X = law(seed), table(seed, n=30)
    units, origins = np.array([1e-6, 3.0, 1e7, 1.0]), np.array([5.0, -2.0, 0.5, 0.0])
    factors = np.array([np.prod(units[list(m)]) for m in MONOMIALS])
    moved = Polynomial(
        MONOMIALS, polynomial.coefficients / factors, 1.5, polynomial.names, origins * units
    )
    one = measure_importance(polynomial, X)
    other = measure_importance(moved, (X + origins) * units)
    np.testing.assert_allclose(other.inputs, one.inputs, rtol=1e-7)
    np.testing.assert_allclose(other.terms, one.terms, rtol=1e-7)
    assert other.pairs == pytest.approx(one.pairs)


def test_shares_of_the_terms_are_covariances_and_add_up_to_one():
    polynomial, X = law(0), table(0, n=50)
    parts, y = term_values(polynomial, X), polynomial(X)
    np.testing.assert_allclose(parts.sum(axis=1) + 1.5, y)
    shares = measure_importance(polynomial, X).terms
    expected = [np.cov(part, y, bias=True)[0, 1] / y.var() for part in parts.T]
    np.testing.assert_allclose(shares, expected)
    assert shares.sum() == pytest.approx(1.0)


def test_weight_two_is_the_same_row_twice():
    polynomial, X = law(1), table(1, n=12)
    weights = np.arange(12) % 3
    weighted = measure_importance(polynomial, X, weights)
    repeated = measure_importance(polynomial, np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.inputs, repeated.inputs)
    np.testing.assert_allclose(weighted.terms, repeated.terms)
    assert weighted.pairs == pytest.approx(repeated.pairs)


@pytest.mark.parametrize("monomials", [(), ((),), ((0,),)], ids=["none", "constant", "column"])
def test_what_does_not_vary_has_no_importance(monomials):
    polynomial = Polynomial(monomials, np.ones(len(monomials)), 2.0, ("a", "b"))
    found = measure_importance(polynomial, np.ones((5, 2)))
    assert not found.inputs.any()
    assert not found.terms.any()
    assert found.order == []
    assert found.pairs == {}


def test_slices_are_predictions_with_the_others_at_their_medians():
    polynomial, X = law(2, np.array([0.3, 0.0, -1.0, 0.0])), table(2, n=9)
    median = np.median(X, axis=0)
    curve = response_curve(polynomial, X, 1, points=5)
    assert (curve.x[0], curve.x[-1]) == (X[:, 1].min(), X[:, 1].max())
    rows = np.array([[median[0], x, median[2], median[3]] for x in curve.x])
    np.testing.assert_allclose(curve.response, polynomial(rows))
    surface = response_surface(polynomial, X, (2, 0), points=3)
    for b, a in itertools.product(range(3), repeat=2):
        row = np.array([[surface.y[b], median[1], surface.x[a], median[3]]])
        assert surface.response[b, a] == pytest.approx(polynomial(row)[0])
