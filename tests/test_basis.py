"""The scaled basis: the paper's example, the Mercer identity, subsets, row blocks."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from support import Basis, count_monomials


def test_the_paper_s_example() -> None:
    """p = 3, r = 2; the paper counts monomials and inputs from 1."""
    basis = Basis.full(3, 2)
    monomials = [(), (0,), (1,), (2,), (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    assert list(basis.monomials) == monomials
    assert (basis.dependents(0) + 1).tolist() == [2, 5, 6, 7]
    two = np.sqrt(2.0)
    np.testing.assert_allclose(basis.scales, [1, two, two, two, 1, two, two, 1, two, 1])
    x = np.array([[2.0, 3.0, 5.0]])
    direct = np.array([1, 2, 3, 5, 4, 6, 10, 9, 15, 25]) * basis.scales
    np.testing.assert_allclose(basis.evaluate(x)[0], direct)
    assert basis.ancestors(4) == (0, 0)


@pytest.mark.parametrize(
    ("p", "r"), [(1, 1), (1, 6), (2, 5), (3, 2), (4, 4), (7, 3), (12, 2), (25, 1)]
)
def test_mercer_identity(p: int, r: int) -> None:
    rng = np.random.default_rng(p * 10 + r)
    X, Z = rng.standard_normal((5, p)), rng.standard_normal((4, p))
    basis = Basis.full(p, r)
    assert len(basis) == count_monomials(p, r)
    kernel = (1.0 + X @ Z.T) ** r
    size = np.linalg.norm(basis.evaluate(X), axis=1)[:, None]
    size = size * np.linalg.norm(basis.evaluate(Z), axis=1)
    difference = basis.evaluate(X) @ basis.evaluate(Z).T - kernel
    assert np.abs(difference / size).max() <= 1e-12


def test_scales_count_the_orderings() -> None:
    p, r = 3, 4
    basis = Basis.full(p, r)
    orderings = dict.fromkeys(basis.monomials, 0)
    for word in np.ndindex(*(p + 1,) * r):  # letter p stands for the padding one
        orderings[tuple(sorted(i for i in word if i < p))] += 1
    np.testing.assert_allclose(basis.scales**2, list(orderings.values()), rtol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_a_subset_has_the_columns_of_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = Basis.full(4, 4, constant=bool(seed % 2))
    chosen = {m for m in basis.monomials if rng.random() < 0.2}
    part = basis.filter(chosen.__contains__)
    X = rng.standard_normal((6, 4))
    columns = [basis.index[m] for m in part.monomials]
    np.testing.assert_allclose(part.evaluate(X), basis.evaluate(X)[:, columns], rtol=1e-14)
    np.testing.assert_array_equal(part.uses, basis.uses[columns])


def test_an_unordered_subset_keeps_its_order() -> None:
    basis = Basis(range(3), 3, ((0, 1, 2), (2,), (), (1, 1)))
    X = np.array([[2.0, 3.0, 5.0]])
    np.testing.assert_allclose(basis.evaluate(X, scaled=False), [[30.0, 5.0, 1.0, 9.0]])


def test_every_monomial_is_the_product_of_its_inputs() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 4))
    basis = Basis.full(4, 3, constant=False)
    assert basis.monomials == tuple(
        m for d in (1, 2, 3) for m in combinations_with_replacement(range(4), d)
    )
    direct = np.column_stack([X[:, list(m)].prod(axis=1) for m in basis.monomials])
    np.testing.assert_allclose(basis.evaluate(X, scaled=False), direct, rtol=1e-13)


def test_row_blocks_cover_every_row_once() -> None:
    basis = Basis.full(3, 3)
    rows = np.concatenate([np.arange(1000)[block] for block in basis.blocks(1000, 16_000)])
    np.testing.assert_array_equal(rows, np.arange(1000))
    assert len(list(basis.blocks(1000, 16_000))) > 3


def test_a_basis_over_some_columns_keeps_their_numbers():
    X = np.random.default_rng(0).standard_normal((5, 9))
    part, first = Basis.full((2, 5, 8), 2), Basis.full(3, 2)
    assert part.monomials[-1] == (8, 8)
    assert part.dependents(5).tolist() == first.dependents(1).tolist()
    np.testing.assert_array_equal(part.uses, first.uses)
    np.testing.assert_array_equal(part.evaluate(X), first.evaluate(X[:, [2, 5, 8]]))
    np.testing.assert_array_equal(part.select([1, 4]).evaluate(X), part.evaluate(X)[:, [1, 4]])
