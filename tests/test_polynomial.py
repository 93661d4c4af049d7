"""The formula: what it shows, and that what it shows is what it computes."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support import Ranges, Scaling

from polysharp import Polynomial
from polysharp.errors import InputError, MissingSolverError

LAW = Polynomial(
    monomials=((), (1,), (0, 0, 3)),
    coefficients=np.array([-2.0, -0.7, 1.5]),
    intercept=3.25,
    names=("x0", "x1", "x2", "x3"),
)


def by_hand(law, X):
    shifts = np.zeros(X.shape[1]) if law.shifts is None else law.shifts
    total = np.full(len(X), law.intercept)
    for m, c in zip(law.monomials, law.coefficients, strict=True):
        total += c * np.prod((X - shifts)[:, list(m)], axis=1)
    return total


def test_a_list_of_formulas_can_be_read():
    assert repr([LAW]) == f"[<Polynomial {LAW.formula()}>]"


def test_values_and_summaries():
    X = np.random.default_rng(0).standard_normal((50, 4))
    np.testing.assert_allclose(LAW(X), by_hand(LAW, X), rtol=1e-13, atol=1e-14)
    assert LAW.degree == 3
    assert LAW.inputs == (0, 1, 3)
    assert LAW.powers.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [2, 0, 0, 1]]
    assert LAW.term_names == ("1", "x1", "x0^2 x3")
    assert len(LAW) == 3


def test_text():
    assert str(LAW) == "y = 3.25 - 2 - 0.7 x1 + 1.5 x0^2 x3"
    assert str(Polynomial((), np.zeros(0), 0.0, ("a",))) == "y = 0"
    assert str(Polynomial(((0,),), np.array([-1.0]), 0.0, ("a",))) == "y = -1 a"
    long = Polynomial(((0,),), np.array([1 / 3]), 1e-7, ("a",), response="load")
    assert str(long) == "load = 1e-07 + 0.3333 a"
    assert long.formula(digits=8) == "load = 1e-07 + 0.33333333 a"


def test_text_of_coded_variables_and_odd_names():
    law = Polynomial(((0, 0, 1),), np.array([2.0]), 1.0, ("air gap", "b"), np.array([3.5, -1.0]))
    assert str(law) == "y = 1 + 2 (`air gap` - 3.5)^2 (b + 1)"
    assert law([[4.5, 0.0]]).tolist() == [3.0]
    assert law.to_latex() == (
        r"\mathrm{y} = 1 + 2\, (\mathrm{air\ gap} - 3.5)^{2}\, (\mathrm{b} + 1)"
    )


def test_no_terms():
    law = Polynomial((), np.zeros(0), 2.5, ("a", "b"))
    assert law(np.zeros((3, 2))).tolist() == [2.5, 2.5, 2.5]
    assert law.degree == 0
    assert law.powers.shape == (0, 2)


def test_many_rows_are_evaluated_in_blocks():
    X = np.random.default_rng(1).standard_normal((2_000_000, 4))
    np.testing.assert_allclose(LAW(X)[-3:], by_hand(LAW, X[-3:]), rtol=1e-13, atol=1e-14)


def test_a_term_twice_is_refused():
    with pytest.raises(InputError, match=r"monomials must be distinct, got \(1, 0\) twice"):
        Polynomial(((0, 1), (0,), (1, 0)), np.ones(3), 0.0, ("a", "b"))


def test_wrong_shape():
    with pytest.raises(InputError, match=r"X must have shape \(n, 4\).*got shape \(2, 3\)"):
        LAW(np.zeros((2, 3)))


@pytest.mark.needs("sympy")
def test_sympy_agrees():
    law = Polynomial(((0, 0, 1), (1,)), np.array([2.0, -0.5]), 1.0, ("a", "b"), np.array([0.5, 0]))
    expression = law.to_sympy()
    value = float(expression.subs({"a": 1.25, "b": -2.0}))
    assert value == pytest.approx(law([[1.25, -2.0]])[0], rel=1e-14)


def test_sympy_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(MissingSolverError, match="needs the package sympy"):
        LAW.to_sympy()


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_scaling_is_undone(scale, center):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 3)) * [1e-6, 1.0, 1e8] + [1e-6, 5.0, -1e8]
    scaling = Scaling.of(Ranges.of(X, rng.random(40)), scale=scale, center=center)
    U = scaling.apply(X)
    w = np.array([0.7, -3.0])
    monomials = ((0, 2, 2), (1,))
    coefficients = scaling.invert(monomials, w)
    direct = 0.7 * U[:, 0] * U[:, 2] ** 2 - 3.0 * U[:, 1]
    law = Polynomial(monomials, coefficients, 0.0, ("a", "b", "c"), scaling.shift)
    np.testing.assert_allclose(law(X), direct, rtol=1e-12, atol=1e-12)


def test_units_are_weighted_root_mean_squares():
    X = np.array([[3.0, 0.0, 0.1], [4.0, 0.0, 0.1], [100.0, 0.0, 0.1]])
    v = np.array([1.0, 1.0, 0.0])
    plain = Scaling.of(Ranges.of(X, v), scale=True, center=False)
    np.testing.assert_allclose(plain.unit, [np.sqrt(12.5), 1.0, 0.1])
    coded = Scaling.of(Ranges.of(X, v), scale=True, center=True)
    np.testing.assert_allclose(coded.shift, [3.5, 0.0, 0.1])
    assert coded.unit[2] == 1.0
    assert not coded.apply(X)[:, 2].any()
    for size in (1e140, 1e-140):  # what the door lets in
        ranges = Ranges.of(size * np.array([[1.0], [-1.0]]), np.ones(2))
        assert Scaling.of(ranges, scale=True, center=False).unit[0] == pytest.approx(size)


def test_products_multiplied_out_have_the_same_values():
    rng = np.random.default_rng(1)
    names = ("a", "b", "c")
    law = Polynomial(
        ((0, 0, 1), (1, 2), (2,), ()), rng.standard_normal(4), 0.7, names, rng.standard_normal(3)
    )
    raw = law.to_raw()
    assert raw.shifts is None
    assert () not in raw.monomials
    X = rng.standard_normal((20, 3))
    np.testing.assert_allclose(raw(X), law(X), rtol=1e-12)
    assert raw.to_raw() is raw


def test_inputs_beyond_their_ranges_are_taken_at_the_nearer_end():
    ranges = np.array([[0.0, -1.0], [2.0, 1.0]])
    law = Polynomial(((0, 0),), np.array([3.0]), 1.0, ("a", "b"), None, "y", ranges)
    X = np.array([[1.0, 9.0], [5.0, 0.0], [-4.0, 0.0], [2.0, 0.0]])
    assert law(X).tolist() == [4.0, 13.0, 1.0, 13.0]
    assert law.outside(X).tolist() == [False, True, True, False]  # b is in no term
    assert not LAW.outside(np.full((2, 4), 1e9)).any()
