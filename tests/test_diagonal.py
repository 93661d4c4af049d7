"""The best diagonal: feasible, a bound on every choice, and as good as its own dual says."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from support import (
    Basis,
    DiagonalStart,
    MemoryRows,
    Structure,
    Subproblem,
    assemble,
    best_diagonal,
    first_start,
    smallest_eigenvalue,
)


def instance(seed: int, size: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Return H and b of correlated columns under a weak or a strong ridge."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((20, size)) + (seed % 3) * rng.standard_normal((20, 1))
    M *= 10.0 ** rng.uniform(-2, 2, size)
    y = M @ rng.standard_normal(size) + 3.0 * rng.standard_normal(20)
    return M.T @ M + 10.0 ** rng.uniform(-3, 2) * np.eye(size), M.T @ y


def best_gain(H: np.ndarray, b: np.ndarray, budget: int) -> float:
    """Return what the best choice of monomials gains."""
    return max(
        0.5 * b[list(S)] @ np.linalg.solve(H[np.ix_(S, S)], b[list(S)])
        for S in combinations(range(len(b)), budget)
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_and_is_the_best(seed: int) -> None:
    H, b = instance(seed)
    budget = 1 + seed % 5
    start = first_start(H, budget)
    assert start is not None
    found = best_diagonal(H, b, budget, start, aim=0.0, tol=1e-4, max_steps=60)
    assert found is not None
    gain = best_gain(H, b, budget)
    assert found.gain >= gain * (1.0 - 1e-9)
    assert found.least <= found.gain <= found.least + 1e-2 * found.gain
    # The value is that of the diagonal and the coefficients returned.
    R = H - np.diag(found.delta)
    assert np.linalg.eigvalsh(R / np.sqrt(np.outer(np.diag(H), np.diag(H))))[0] >= -1e-9
    prices = np.sort((b - R @ found.w) ** 2 / (2.0 * found.delta))[::-1]
    value = 0.5 * found.w @ R @ found.w + prices[:budget].sum()
    assert value == pytest.approx(found.gain, rel=1e-6)
    # One eigenvalue for all monomials does no better.
    uniform = 0.99 * smallest_eigenvalue(H, 0.0) * np.diag(H)
    other = best_diagonal(
        H, b, budget, DiagonalStart(uniform, uniform, start.shares), aim=0.0, max_steps=0
    )
    assert other is not None
    assert found.gain <= other.gain * (1.0 + 1e-6)


def test_a_child_starts_from_its_parent() -> None:
    """Taking a monomial out leaves the diagonal feasible, and few steps are needed."""
    H, b = instance(3, 12)
    start = first_start(H, 4)
    assert start is not None
    whole = best_diagonal(H, b, 4, start, aim=0.0, tol=1e-2)
    assert whole is not None
    keep = np.arange(1, 12)
    child = DiagonalStart(whole.delta, start.inside, whole.shares).among(keep)
    part = best_diagonal(H[1:, 1:], b[1:], 4, child, aim=0.0, tol=1e-2)
    assert part is not None
    assert part.gain <= whole.gain * (1.0 + 1e-2)
    assert part.steps < 20


def test_it_stops_at_the_aim() -> None:
    H, b = instance(5)
    start = first_start(H, 3)
    assert start is not None
    tight = best_diagonal(H, b, 3, start, aim=0.0, tol=1e-4)
    assert tight is not None
    aimed = best_diagonal(H, b, 3, start, aim=1.2 * tight.gain)
    assert aimed is not None
    assert aimed.gain <= 1.2 * tight.gain
    assert aimed.steps <= tight.steps


@pytest.mark.parametrize("size", [5, 100])
def test_smallest_eigenvalue(size: int) -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((3 * size, size))
    G = M.T @ M
    C = (G + np.eye(size)) / np.sqrt(np.outer(np.diag(G) + 1.0, np.diag(G) + 1.0))
    assert smallest_eigenvalue(G, 1.0) == pytest.approx(np.linalg.eigvalsh(C)[0], rel=2e-2)


@pytest.mark.parametrize("rows", [30, 40, 200])
def test_curvature_moves_into_the_ridge_where_there_are_rows_enough(rows: int) -> None:
    rng = np.random.default_rng(rows)
    X, basis = rng.standard_normal((rows, 7)), Basis.full(7, 2, constant=False)
    structure = Structure.of_basis(basis, 3)
    table = MemoryRows(X, X[:, 0] * X[:, 1])
    problem = assemble(table, basis, structure, lam=0.1, fit_intercept=True).problem
    stronger = Subproblem.of(problem).strengthened(0)
    assert (stronger is not None) == (rows > len(basis))
    if stronger is not None:
        assert np.all(stronger.d > 0.0)
        assert np.linalg.eigvalsh(stronger.system.Q)[0] > 0.0


def test_singular_matrices_have_no_start() -> None:
    assert first_start(np.ones((3, 3)), 1) is None


@pytest.mark.parametrize("left", [0.0, -1e-18, np.nan])
def test_nothing_to_start_from_where_rounding_has_left_nothing(left):
    assert first_start(np.diag([1.0, 2.0, left]), 1) is None
    H = np.ones((3, 3))
    H[2, 2] += left
    assert first_start(H, 1) is None
