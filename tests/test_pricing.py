"""Pricing finds exactly what brute force over the explicit basis finds."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from support import Basis, Leading, NumpyArrays, PanelSizes, Pricer, home, scales

from polysharp.errors import InputError


def brute_force(X, a, degree, *, weight=None, fit_intercept=False, inputs=None, keep=None):
    """All monomials with their correlations, largest first, ties in the order of the basis."""
    basis = Basis.full(X.shape[1], degree, constant=not fit_intercept)
    if inputs is not None:
        basis = basis.filter(lambda m: set(m) <= set(inputs))
    if keep is not None:
        basis = basis.filter(keep)
    v = np.ones(len(a)) if weight is None else weight
    M = basis.evaluate(X)
    if fit_intercept:
        M = M - v @ M / v.sum()
    correlation = M.T @ (v * a)
    with np.errstate(divide="ignore"):
        rounded = np.round(np.log(np.abs(correlation)), 9)
    order = np.argsort(-rounded, kind="stable")
    return [basis.monomials[j] for j in order], correlation[order]


def draw(seed, n, p):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * rng.uniform(0.3, 2.0, p), rng.standard_normal(n)


def check(priced, monomials, correlation, top):
    count = min(top, len(monomials))
    assert list(priced.monomials) == monomials[:count]
    size = np.abs(correlation).max()
    np.testing.assert_allclose(priced.correlations, correlation[:count], rtol=0, atol=1e-10 * size)
    rest = np.abs(correlation[count:])
    assert priced.threshold >= rest.max(initial=0.0) * (1 - 1e-12)
    if len(rest):
        assert priced.threshold <= np.abs(correlation[count - 1]) * (1 + 1e-4) + 1e-9 * size


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize(("n", "p"), [(40, 5), (15, 1), (200, 7), (1, 4)])
def test_equals_brute_force(degree, n, p, precision):
    X, a = draw(degree * 100 + n, n, p)
    monomials, correlation = brute_force(X, a, degree)
    for top in (1, 5, 60, 10_000):
        pricer = Pricer(X, degree, precision=precision)
        assert pricer.n_monomials == len(monomials)
        check(pricer.price(a, top), monomials, correlation, top)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_free_intercept_and_weights(degree, weighted):
    X, a = draw(degree, 60, 6)
    X += 1.0
    weight = np.random.default_rng(0).integers(0, 4, 60).astype(float) if weighted else None
    found = Pricer(X, degree, sample_weight=weight, fit_intercept=True).price(a, 30)
    check(found, *brute_force(X, a, degree, weight=weight, fit_intercept=True), 30)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("top", [3, 17, 50])
def test_ties_keep_the_order_of_the_basis(seed, top):
    X, a = draw(seed, 50, 6)
    X[:, 3] = X[:, 1]
    X[:, 5] = X[:, 0]
    X[:, 2] = np.sign(X[:, 2])
    for degree in (2, 3, 4):
        monomials, correlation = brute_force(X, a, degree)
        check(Pricer(X, degree).price(a, top), monomials, correlation, top)


def test_more_ties_than_can_wait(monkeypatch):
    monkeypatch.setattr(home("Shortlist"), "SLACK", 8)
    X, a = draw(0, 30, 3)
    X = X[:, [0] * 9 + [1, 2]]
    monomials, correlation = brute_force(X, a, 3)
    check(Pricer(X, 3).price(a, 10), monomials, correlation, 10)


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_blocks_do_not_matter(chunk, precision):
    X, a = draw(4, 90, 8)
    arrays, sizes = NumpyArrays(chunk=chunk), PanelSizes(columns=3, rests=1, stacked=chunk)
    for degree in (4, 5):
        found = Pricer(X, degree, precision=precision, arrays=arrays, sizes=sizes).price(a, 40)
        check(found, *brute_force(X, a, degree), 40)


def test_single_precision_margins_are_safe():
    """Huge cancelling entries: float32 alone orders these wrongly, the confirmation does not."""
    rng = np.random.default_rng(3)
    half = rng.standard_normal((200, 9)) * np.geomspace(1.0, 300.0, 9)
    X = np.concatenate([half, half])
    a = rng.standard_normal(200)
    a = np.concatenate([a, -a + 1e-4 * rng.standard_normal(200)])
    monomials, correlation = brute_force(X, a, 3)
    check(Pricer(X, 3, precision="float32").price(a, 50), monomials, correlation, 50)
    arrays = NumpyArrays()
    table = arrays.table(X, np.arange(9), "float32")
    rough = arrays.correlate([(table, a.astype(np.float32))], table)
    exact = (X * a[:, None]).T @ X
    assert np.abs(rough - exact).max() > 1e-3 * np.abs(exact).max()


def test_restricted_inputs_and_a_rule_on_monomials():
    X, a = draw(5, 80, 8)
    few = Pricer(X, 3, inputs=[6, 1, 3]).price(a, 12)
    check(few, *brute_force(X, a, 3, inputs=[1, 3, 6]), 12)

    def at_most_two_inputs(keys):
        return np.array([len(set(key)) <= 2 for key in keys.tolist()], dtype=bool)

    ruled = Pricer(X, 3, keep=at_most_two_inputs, inputs=[0, 2, 5, 7]).price(a, 25)
    expected = brute_force(X, a, 3, inputs=[0, 2, 5, 7], keep=lambda m: len(set(m)) <= 2)
    check(ruled, *expected, 25)


@pytest.mark.parametrize("lowest", [1, 2, 3, 5])
def test_low_degrees_are_left_out(lowest):
    X, a = draw(12, 60, 4)
    pricer = Pricer(X, 5, lowest=lowest)
    monomials, correlation = brute_force(X, a, 5, keep=lambda m: len(m) >= lowest)
    assert pricer.n_monomials == len(monomials)
    check(pricer.price(a, 20), monomials, correlation, 20)


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_the_size_of_the_vector_does_not_matter(size):
    X, a = draw(7, 50, 5)
    monomials, _ = brute_force(X, a, 3)
    assert list(Pricer(X, 3).price(size * a, 10).monomials) == monomials[:10]


def test_large_and_small_inputs_fall_back_to_double():
    X, a = draw(8, 50, 5)
    for factor in (1e12, 1e-12):
        scaled = factor * X
        check(Pricer(scaled, 3).price(a, 10), *brute_force(scaled, a, 3), 10)
    assert Pricer(1e12 * X, 3).precision == "float64"


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_leading_monomials_are_those_of_largest_correlation(degree):
    rng = np.random.default_rng(degree)
    X, columns = rng.uniform(0.5, 2.0, (80, 6)), [0, 2, 3, 5]
    seen = rng.random(80) < 0.8
    leading = Leading(X, degree, columns, lambda keys: (keys != 2).any(axis=1))
    leading.see(seen)
    for _ in range(2):
        a = rng.standard_normal(seen.sum())
        a -= a.mean()
        for d, found in enumerate(leading.best(a, 7), start=1):
            listed = [m for m in combinations_with_replacement(columns, d) if set(m) != {2}]
            M = np.column_stack([X[seen][:, m].prod(axis=1) for m in listed])
            correlation = np.abs(a @ M) / (np.sqrt(len(M)) * M.std(axis=0))
            values = dict(zip(listed, correlation, strict=True))
            best = np.sort(correlation)[::-1][:7]
            np.testing.assert_allclose([values[m] for m in found], best, rtol=2e-3)


def test_a_zero_vector_ties_everything():
    X, _ = draw(9, 20, 3)
    found = Pricer(X, 2).price(np.zeros(20), 6)
    assert found.monomials == ((), (0,), (1,), (2,), (0, 0), (0, 1))
    assert not found.correlations.any()
    constant = Pricer(X, 2, fit_intercept=True).price(np.full(20, 3.0), 1)
    assert constant.monomials == ((0,),)


def test_progress_counts_every_monomial_and_may_stop_the_pass():
    X, a = draw(10, 30, 9)
    for degree in (1, 2, 3, 4, 5, 8):
        for fit_intercept in (False, True):
            pricer, seen = Pricer(X, degree, fit_intercept=fit_intercept), []
            pricer.price(a, 5, on_block=lambda done, total, seen=seen: seen.append((done, total)))
            assert seen[-1] == (pricer.n_monomials, pricer.n_monomials)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Pricer(X, 3).price(a, 5, on_block=stop)


def test_scales_are_those_of_the_basis():
    for degree in (1, 2, 3, 4):
        basis = Basis.full(3, degree)
        for monomial, scale in zip(basis.monomials, basis.scales, strict=True):
            key = np.array([monomial], dtype=np.int32).reshape(1, len(monomial))
            assert scales(key, degree)[0] == pytest.approx(scale, rel=1e-15)


def test_bad_input_is_named():
    X, a = draw(11, 10, 2)
    with pytest.raises(InputError, match="top must be at least 1"):
        Pricer(X, 2).price(a, 0)
    with pytest.raises(InputError, match="a must be finite"):
        Pricer(X, 2).price(a[:-1], 3)
    with pytest.raises(InputError, match="a must be finite"):
        Pricer(X, 2).price(np.full(10, np.nan), 3)
    with pytest.raises(InputError, match="X must be finite"):
        Pricer(1e200 * X, 3)
