"""Moments and the three forms of the Gram matrix."""

from __future__ import annotations

import numpy as np
import pytest
from support import Basis, DenseGram, DesignGram, Moments, NumpyArrays, StreamedGram, accumulate


def data(seed: int, n: int = 60) -> tuple[Basis, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis = Basis.full(3, 3)
    X = rng.standard_normal((n, 3))
    return basis, X, rng.standard_normal(n) + X[:, 0], rng.uniform(0.0, 3.0, size=n)


def assert_same(a: Moments, b: Moments, rtol: float = 1e-11) -> None:
    assert a.n_rows == b.n_rows
    size = np.sqrt(np.outer(np.diagonal(b.scatter), np.diagonal(b.scatter))) + 1e-300
    assert np.abs((a.scatter - b.scatter) / size).max() <= rtol
    cross = np.sqrt(np.diagonal(b.scatter) * b.spread) + 1e-300
    assert np.abs((a.cross - b.cross) / cross).max() <= rtol
    np.testing.assert_allclose(a.mean, b.mean, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(
        [a.weight, a.y_mean, a.spread], [b.weight, b.y_mean, b.spread], rtol=rtol
    )


def without_constant(basis: Basis) -> Basis:
    return basis.filter(lambda m: len(m) > 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_those_of_the_design(weighted: bool) -> None:
    basis, X, y, v = data(0)
    moments = accumulate(basis, X, y, v if weighted else None)
    if not weighted:
        v = np.ones(len(y))
    M = basis.evaluate(X)
    mean, y_mean = v @ M / v.sum(), v @ y / v.sum()
    C, t = M - mean, y - y_mean
    np.testing.assert_allclose(moments.mean, mean, atol=1e-12)
    np.testing.assert_allclose(moments.scatter, C.T @ (v[:, None] * C), atol=1e-9)
    np.testing.assert_allclose(moments.cross, C.T @ (v * t), atol=1e-10)
    assert moments.spread == pytest.approx(v @ t**2)
    G, q, yy = moments.uncentred()
    np.testing.assert_allclose(G, M.T @ (v[:, None] * M), atol=1e-9)
    np.testing.assert_allclose(q, M.T @ (v * y), atol=1e-10)
    assert yy == pytest.approx(v @ y**2)


def test_whole_weights_repeat_rows() -> None:
    basis, X, y, _ = data(1)
    times = np.arange(len(y)) % 3
    repeated = accumulate(without_constant(basis), np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = accumulate(without_constant(basis), X, y, times.astype(float))
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, atol=1e-9)
    np.testing.assert_allclose(weighted.cross, repeated.cross, atol=1e-10)
    assert weighted.spread == pytest.approx(repeated.spread)


@pytest.mark.parametrize("seed", range(8))
def test_random_splits_merge_to_the_whole(seed: int) -> None:
    basis, X, y, v = data(seed)
    basis = without_constant(basis)
    rng = np.random.default_rng([9, seed])
    ends = np.unique(rng.integers(1, len(y), size=3))
    parts = [
        accumulate(basis, X[rows], y[rows], v[rows]) for rows in np.split(np.arange(len(y)), ends)
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    assert_same(merged, accumulate(basis, X, y, v))


def test_blocks_do_not_change_the_moments() -> None:
    basis, X, y, v = data(2, n=500)
    basis = without_constant(basis)
    whole = accumulate(basis, X, y, v)
    seen: list[tuple[int, int]] = []
    small = NumpyArrays(block_bytes=1)
    cut = accumulate(basis, X, y, v, arrays=small, on_block=lambda *done: seen.append(done))
    assert_same(cut, whole)
    assert len(seen) > 3
    assert seen[-1] == (500, 500)


def test_large_means_keep_their_digits() -> None:
    basis = Basis.full(2, 1, constant=False)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1000, 2))
    near = accumulate(basis, X, X[:, 0])
    far = accumulate(basis, X + 2.0**26, X[:, 0] + 2.0**26)
    # X itself loses 26 bits to the shift; the moments must not lose them again by squaring.
    np.testing.assert_allclose(far.scatter, near.scatter, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(far.spread, near.spread, rtol=1e-6)


def test_large_means_merge_with_their_digits() -> None:
    basis = Basis.full(2, 1, constant=False)
    X = np.random.default_rng(4).standard_normal((1000, 2)) + 2.0**26
    merged = accumulate(basis, X[:300], X[:300, 0]) + accumulate(basis, X[300:], X[300:, 0])
    assert_same(merged, accumulate(basis, X, X[:, 0]), rtol=1e-6)


def test_select_takes_the_moments_of_some() -> None:
    basis, X, y, v = data(5)
    J = np.array([7, 2, 11])
    part = basis.select(J)
    assert_same(accumulate(basis, X, y, v).select(J), accumulate(part, X, y, v))


def test_moments_of_different_bases_do_not_add() -> None:
    basis, X, y, _ = data(6)
    with pytest.raises(ValueError, match="different bases"):
        accumulate(basis, X, y) + accumulate(without_constant(basis), X, y)


@pytest.mark.parametrize("seed", range(4))
def test_three_forms_of_the_gram_matrix_agree(seed: int) -> None:
    basis, X, y, v = data(seed)
    centred = bool(seed % 2)
    moments = accumulate(basis, X, y, v)
    mean = moments.mean if centred else np.zeros(len(basis))
    M = np.sqrt(v)[:, None] * (basis.evaluate(X) - mean)
    G = moments.scatter if centred else moments.uncentred()[0]
    forms = [
        DenseGram(G),
        DesignGram.of(M),
        StreamedGram(basis, X, np.sqrt(v), mean, np.diagonal(G).copy()),
    ]
    rng = np.random.default_rng(seed)
    first = rng.choice(len(basis), size=6, replace=False)
    second = rng.choice(len(basis), size=3, replace=False)
    w = rng.standard_normal(3)
    tight = {"rtol": 1e-10, "atol": 1e-9 * np.abs(G).max()}
    for gram in forms:
        assert gram.size == len(basis)
        np.testing.assert_allclose(gram.diagonal, np.diagonal(G), **tight)
        np.testing.assert_allclose(gram.block(first, second), G[np.ix_(first, second)], **tight)
        np.testing.assert_allclose(gram.columns(second), G[:, second], **tight)
        np.testing.assert_allclose(gram.times(second, w), G[:, second] @ w, **tight)
        np.testing.assert_allclose(gram.times(second[:0], w[:0]), np.zeros(len(basis)))
