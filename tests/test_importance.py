"""Importance is what its definition says, found here by enumerating the product of the columns."""

import itertools

import numpy as np
import pytest
from support import errors_without, inner, measure_importance

from polysharp import Polynomial

response_curve = inner("response_curve", "polynomial")
response_surface = inner("response_surface", "polynomial")

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
        # First order: the variance of the mean over all others.
        others = tuple(j for j in range(3) if j != i)
        assert found.first[i] == pytest.approx(f.mean(axis=others).var() / f.var())
    assert (found.first <= found.inputs + 1e-12).all()
    assert found.inputs[3] == found.first[3] == found.data[3] == 0.0
    assert found.order == sorted(range(3), key=lambda i: -found.inputs[i])


def test_the_share_over_the_rows_knows_what_others_stand_in_for():
    rng = np.random.default_rng(0)
    a = rng.standard_normal(200)
    X = np.column_stack([a, a + 0.01 * rng.standard_normal(200), rng.standard_normal(200)])
    found = measure_importance(
        Polynomial(((0,), (1,), (2,)), np.array([1.0, 1.0, 1.0]), 0.0, ("a", "b", "c")), X
    )
    assert found.inputs[0] > 0.2
    assert found.data[0] < 1e-3  # b says the same
    assert found.data[2] == pytest.approx(found.terms[2])
    two = Polynomial(((0,), (0, 0), (2,)), np.array([1.0, 0.5, 1.0]), 0.0, ("a", "b", "c"))
    predicted = two(X)
    left = predicted - np.polyval(np.polyfit(X[:, 2], predicted, 1), X[:, 2])
    expected = left.var() / predicted.var()
    assert measure_importance(two, X).data[0] == pytest.approx(expected)


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


@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_a_term_is_what_a_fit_without_it_loses(seed):
    polynomial, X = law(seed), table(seed, n=50)
    parts, y = polynomial.products(X) * polynomial.coefficients, polynomial(X)
    np.testing.assert_allclose(parts.sum(axis=1) + 1.5, y)
    shares = measure_importance(polynomial, X).terms
    for j, share in enumerate(shares):
        others = np.c_[np.ones(50), np.delete(parts, j, axis=1)]
        left = y - others @ np.linalg.lstsq(others, y)[0]
        assert share == pytest.approx(left @ left / len(y) / y.var())


def test_terms_that_cancel_have_shares_between_zero_and_one():
    """Two nearly equal columns with huge opposite coefficients had shares far beyond 100 %."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    X = np.c_[x, x + 1e-3 * rng.standard_normal(200)]
    polynomial = Polynomial(((0,), (1,)), np.array([500.0, -499.0]), 1.0, ("a", "b"))
    shares = measure_importance(polynomial, X).terms
    assert ((shares >= 0) & (shares <= 1)).all()


def test_errors_without_a_term_are_those_of_refits():
    polynomial, X = law(1), table(1, n=60)
    y = polynomial(X) + 0.3 * np.random.default_rng(3).standard_normal(60)
    weights = np.arange(60) % 3
    whole, without = errors_without(polynomial, X, y, weights)
    repeated = np.repeat(np.arange(60), weights)
    parts = np.c_[polynomial.products(X) * polynomial.coefficients, np.ones(60)][repeated]
    z = y[repeated]

    def error(columns):
        return np.sqrt(np.mean((z - columns @ np.linalg.lstsq(columns, z)[0]) ** 2))

    assert whole == pytest.approx(error(parts))
    assert without.tolist() == pytest.approx([error(np.delete(parts, j, 1)) for j in range(5)])


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
