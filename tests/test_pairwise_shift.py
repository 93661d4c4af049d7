"""Shifts: matrices that vectors of few terms do not feel, and what they add to a bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from support import (
    MOST_STEPS,
    Basis,
    BestDiagonal,
    DiagonalStart,
    PairwiseMatrix,
    Problem,
    Structure,
    Tree,
    _PairwiseMethod,
    best_diagonal,
    find_pairwise_shift,
    first_start,
    inner,
)

from polysharp import Solution
from tests.instances import make_instance, optimum, while_it_gains, with_boxes

Array = inner("Array", "typing")

# No end tries everything, and every node that a diagonal does not close is shifted.
SHIFTING = Tree(leaf_worth=0.0, late_share=0.0, outright_share=0.0, pairwise_worth=0.0)


def random_shift(seed: int, size: int) -> PairwiseMatrix:
    rng = np.random.default_rng([60, seed])
    ratios = np.triu(rng.integers(-MOST_STEPS, MOST_STEPS + 1, (size, size)), 1)
    if seed % 2:
        ratios = np.sign(ratios) * MOST_STEPS
    return PairwiseMatrix(
        np.arange(size), rng.exponential(size=size), (ratios + ratios.T).astype(np.int16)
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_vector_of_few_terms_feels_a_shift(seed: int) -> None:
    terms = 2 + seed % 4
    K = random_shift(seed, 8).matrix(np.arange(8), True, terms)
    for S in combinations(range(8), terms):
        assert np.linalg.eigvalsh(K[np.ix_(S, S)])[0] >= -1e-12 * K.max()


def test_vectors_of_more_terms_do() -> None:
    shift = PairwiseMatrix(np.arange(8), np.ones(8), np.full((8, 8), -MOST_STEPS, np.int16))
    shift.ratios[np.arange(8), np.arange(8)] = 0
    assert np.linalg.eigvalsh(shift.matrix(np.arange(8), True, 3))[0] < -1.0


def test_a_shift_acts_on_what_is_free_and_known() -> None:
    shift = random_shift(0, 6)
    some = PairwiseMatrix(np.array([1, 2, 4, 5, 7, 9]), shift.reach, shift.ratios)
    among, free = np.array([0, 1, 4, 6, 9]), np.array([True, True, True, True, False])
    K = some.matrix(among, free, 3)
    whole = some.matrix(some.index, True, 3)
    assert np.array_equal(K[np.ix_([1, 2], [1, 2])], whole[np.ix_([0, 2], [0, 2])])
    K[np.ix_([1, 2], [1, 2])] = 0.0
    assert not K.any()


def test_shifts_are_symmetric_whatever_rounding_leaves() -> None:
    """The two copies of a pair may lie on either side of half a step."""
    ratios = np.array([[0.3, 0.5 / 2**15], [(0.5 + 1e-9) / 2**15, -0.2]])
    steps = PairwiseMatrix.rounded(np.arange(2), np.ones(2), ratios).ratios
    assert np.array_equal(steps, steps.T)
    assert not np.diagonal(steps).any()


def collinear(seed: int, m: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Return H and b of monomials that follow three factors, as those of real tables do."""
    rng = np.random.default_rng([61, seed])
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, m))
    X += 0.15 * rng.standard_normal((60, m))
    y = X[:, :3] @ rng.standard_normal(3) + rng.standard_normal(60)
    return X.T @ X + 0.01 * np.eye(m), X.T @ y


def best_gain(H: np.ndarray, b: np.ndarray, terms: int) -> float:
    sets = (np.array(S) for S in combinations(range(len(b)), terms))
    return max(float(0.5 * b[S] @ np.linalg.solve(H[np.ix_(S, S)], b[S])) for S in sets)


def shifted(
    H: np.ndarray, b: np.ndarray, terms: int, aim: float
) -> tuple[BestDiagonal, BestDiagonal]:
    """Return the best diagonal alone, and the one that goes with a shift."""
    start = first_start(H, terms)
    assert start is not None
    alone = best_diagonal(H, b, terms, start, aim=aim, tol=0.01)
    found = find_pairwise_shift(H, b, terms, start, aim=aim, worthwhile=while_it_gains)
    assert alone is not None
    assert found is not None
    K = found.matrix_over(np.arange(len(b))).matrix(np.arange(len(b)), True, terms)
    near = DiagonalStart(0.9 * found.delta, 0.5 * found.delta, found.shares)
    together = best_diagonal(H - K, b, terms, near, aim=aim, tol=0.01)
    assert together is not None
    return alone, together


@pytest.mark.parametrize("terms", [2, 3, 4])
def test_shifts_go_beyond_every_diagonal_and_not_too_far(terms: int) -> None:
    short = np.zeros(2)
    for seed in range(6):
        H, b = collinear(seed)
        best = best_gain(H, b, terms)
        alone, together = shifted(H, b, terms, best)
        assert together.gain >= best * (1.0 - 1e-9)
        # ``least`` of a result is what no diagonal can beat.
        short += max(alone.least - best, 0.0), together.gain - best
    assert short[1] < 0.5 * short[0]


def test_a_shift_is_gone_on_from() -> None:
    H, b = collinear(1)
    start = first_start(H, 3)
    assert start is not None
    best, rounds = best_gain(H, b, 3), iter([True, False])

    def twice(*_: float) -> bool:
        return next(rounds)

    first = find_pairwise_shift(H, b, 3, start, aim=best, worthwhile=twice)
    assert first is not None
    K = first.matrix_over(np.arange(len(b))).matrix(np.arange(len(b)), True, 3)
    near = DiagonalStart(0.98 * first.delta, 0.5 * first.delta, first.shares)
    again = find_pairwise_shift(H, b, 3, near, K=K, aim=best, worthwhile=while_it_gains)
    assert again is not None
    assert again.gain < first.gain


def has_shift(solution: Solution) -> bool:
    proof = solution.proof
    return proof is not None and any(d.pairs is not None for d in proof.diagonals)


def agrees(problem: Problem) -> None:
    """Solve with shifts and compare with enumeration."""
    best = optimum(problem)
    solution = SHIFTING.solve(problem)
    assert solution.bound <= best.objective * (1.0 + 1e-9)
    assert solution.status == "optimal"
    assert solution.objective <= best.objective * (1.0 + 1.1e-4) + 1e-12 * problem.yy


@pytest.mark.parametrize("seed", range(60))
def test_a_search_with_shifts_agrees_with_enumeration(seed: int) -> None:
    agrees(make_instance(seed).problem)


@pytest.mark.parametrize("seed", range(12))
def test_within_boxes_too(seed: int) -> None:
    agrees(with_boxes(make_instance(seed), seed).problem)


def test_a_search_uses_shifts_and_needs_fewer_nodes() -> None:
    rng = np.random.default_rng(62)
    basis = Basis.full(40, 1, constant=False)
    X = rng.standard_normal((120, 5)) @ rng.standard_normal((5, 40))
    X += 0.3 * rng.standard_normal(X.shape)
    y = X[:, :12] @ rng.standard_normal(12) + 3.0 * rng.standard_normal(120)
    structure = Structure.of_basis(basis, 6)
    problem = Problem.dense(X.T @ X, X.T @ y, float(y @ y), 0.01, structure)
    solution = SHIFTING.solve(problem)
    without = replace(SHIFTING, pairwise_shifts=False).solve(problem)
    assert has_shift(solution)
    assert not has_shift(without)
    assert solution.status == without.status == "optimal"
    assert solution.objective == pytest.approx(without.objective, rel=1e-4)
    assert solution.counters.nodes < 0.5 * without.counters.nodes


def test_derivatives_are_those_of_the_value() -> None:
    rng, m = np.random.default_rng(5), 9
    A = rng.standard_normal((20, m)) + rng.standard_normal((20, 1))
    start = DiagonalStart(np.full(m, 0.1), np.full(m, 0.1), np.full(m, 0.3))
    method = _PairwiseMethod(A.T @ A, rng.standard_normal(m), 3, start, 0.0, lambda: False)

    def moved(scale: float) -> Array:
        """Return a random step whose ratios are symmetric."""
        step = scale * rng.standard_normal(len(method.x))
        ratios = step[2 * m :].reshape(m, m)  # a view
        ratios[:] = 0.5 * (ratios + ratios.T) * (1.0 - np.eye(m))
        return step

    x = method.x + moved(0.1)
    step, point = moved(1e-6), method._at(x, 0.02)
    up, down = method._at(x + step, 0.02), method._at(x - step, 0.02)
    assert point is not None
    assert up is not None
    assert down is not None
    slope = float(point.slope @ step)
    assert 0.5 * (up.value - down.value) == pytest.approx(slope, rel=1e-5)
