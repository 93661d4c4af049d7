"""Sums over blocks of rows: tiles of correlations, ranking by blocks, summaries that merge."""

from __future__ import annotations

import numpy as np
import pytest
from support import (
    Basis,
    Formula,
    KernelRows,
    KernelSettings,
    MemoryRows,
    Ranges,
    RowVector,
    Scaling,
    TileTask,
    rank_rows,
    summed_scores,
    tile_largest,
    tile_products,
    tiles,
)

from polysharp import rank_inputs
from polysharp.synthetic import make_sparse_polynomial


def task(inputs, degree, tile, top, keep=None):
    """Ask for the largest correlations with y itself."""
    y = RowVector(Formula((), np.zeros(0), 0.0, 0.0), 0.0, 0.0, 0.0, 0.0, 0.0, None)
    return TileTask(y, np.asarray(inputs), degree, tile, keep, top)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("entries", [1, 40, 10**6])
@pytest.mark.parametrize("p", [1, 5])
def test_tiles_hold_every_monomial_once(degree, constant, entries, p):
    rng = np.random.default_rng(degree)
    top, inputs = 12, [1, 2, 5, 7, 8][:p]
    rows = MemoryRows(rng.standard_normal((700, 9)), rng.standard_normal(700))
    basis = Basis.full(inputs, degree, constant=constant)
    truth = dict(zip(basis.monomials, rows.y @ basis.evaluate(rows.X), strict=True))
    found = {}
    for tile in tiles(p, degree, constant=constant, entries=entries):
        every = task(inputs, degree, tile, 10**6)
        total = sum(tile_products(rows.take(cut), every) for cut in (slice(300), slice(300, 700)))
        keys, values = tile_largest(total, every)
        names = [tuple(int(i) for i in key if i >= 0) for key in keys]
        assert found.keys().isdisjoint(names)
        assert sum(panel.count for panel in tile) == len(names)
        found.update(zip(names, values, strict=True))
        few, best = tile_largest(total, task(inputs, degree, tile, top))
        assert len(few) == min(top, len(names))
        assert np.abs(best).min() >= np.sort(np.abs(values))[::-1][: len(best)].min() - 1e-12
    assert found.keys() == truth.keys()
    for monomial, value in truth.items():
        assert found[monomial] == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_tiles_are_no_larger_than_stated():
    cut = tiles(30, 3, constant=True, entries=1000)
    assert len(cut) > 5
    assert all(len(tile) == 1 or sum(panel.size for panel in tile) <= 1000 for tile in cut)


def test_only_what_may_be_kept_is_listed():
    rng = np.random.default_rng(0)
    rows = MemoryRows(rng.standard_normal((50, 4)), rng.standard_normal(50))
    for tile in tiles(4, 3, constant=False):
        asked = task(range(4), 3, tile, 99, lambda m: (m != 2).all(axis=1))
        keys, _ = tile_largest(tile_products(rows, asked), asked)
        assert not (keys == 2).any()


def test_one_block_is_algorithm_1():
    data = make_sparse_polynomial(200, 12, 3, 3, 4, 20.0, random_state=0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 200)
    expected = rank_inputs(data.X, data.y, 3, 0.01, sample_weight=weights, fit_intercept=True)
    rows = MemoryRows(data.X, data.y, weights)
    settings = KernelSettings(3, 0.01 * weights.sum(), True)
    *found, weight, n = summed_scores(rows, np.arange(12), settings, KernelRows())
    np.testing.assert_allclose(np.array(found) / weight, expected.scores, rtol=1e-10)
    assert (weight, n) == (pytest.approx(weights.sum()), 200)


def test_long_tables_in_memory_are_ranked_by_blocks():
    data = make_sparse_polynomial(1200, 40, 3, 4, 6, 20.0, random_state=1)
    rows, settings = MemoryRows(data.X, data.y), KernelSettings(3, 0.03, True)
    whole = rank_rows(rows, np.arange(40), settings)
    found = rank_rows(rows, np.arange(40), settings, sizes=KernelRows(whole=600, block=400))
    assert found.n_rows == whole.n_rows == 1200
    assert not np.allclose(found.scores, whole.scores)
    assert set(data.inputs) <= set(found.order[:6].tolist())


@pytest.mark.parametrize("center", [False, True])
def test_ranges_of_parts_give_the_scaling_of_the_whole(center):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((90, 4)) * [1e-3, 1.0, 1e5, 1.0] + [0.0, 1e6, 1e5, 0.0]
    X[:, 3] = 0.1
    v, Y = rng.uniform(0.1, 2.0, 90), rng.standard_normal((90, 2))
    total = Ranges.of(X[:0], v[:0])
    responses = Ranges.of(Y[:0], v[:0])
    for rows_ in (slice(0, 20), slice(20, 21), slice(21, 90)):
        total = total + Ranges.of(X[rows_], v[rows_])
        responses = responses + Ranges.of(Y[rows_], v[rows_])
    assert (total.n_rows, total.weight) == (90, pytest.approx(v.sum()))
    expected = Scaling.of(Ranges.of(X, v), scale=True, center=center)
    found = Scaling.of(total, scale=True, center=center)
    np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-12)
    np.testing.assert_allclose(found.unit, expected.unit, rtol=1e-9)
    mean = np.average(Y, axis=0, weights=v)
    np.testing.assert_allclose(responses.centers, mean)
    np.testing.assert_allclose(responses.variance, np.average((Y - mean) ** 2, axis=0, weights=v))


def test_ranges_of_parts_know_which_inputs_take_two_values():
    X = np.array([[0, 1, 5, 2, 3], [1, 1, 5, 1, 3], [1, 0, 5, 3, 3], [0, 0, 5, 2, 4.0]])
    total = Ranges.of(X[:0], np.ones(0))
    for rows_ in (slice(0, 2), slice(2, 4)):
        total = total + Ranges.of(X[rows_], np.ones(2))
    assert total.two_valued.tolist() == [True, True, False, False, True]
    assert Ranges.of(X, np.ones(4)).two_valued.tolist() == [True, True, False, False, True]
