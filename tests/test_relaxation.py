"""The relaxation of a node: a bound that is safe at any moment, and that ends when it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import make_instance, optimum
from support import (
    SOLVED,
    STOPPED,
    Accuracy,
    Aim,
    Basis,
    Boxes,
    DenseGram,
    DesignGram,
    Problem,
    Quadratic,
    Stop,
    Structure,
    Subproblem,
    TimeBudget,
    Tree,
    fresh_warm,
    solve_relaxation,
)


def slow_relaxation(seconds=np.inf, end=np.inf, *, ridge=1e-4, apart=0.1, budget=40):
    """A budget of 40 among 300 monomials that are nearly alike, with hardly any ridge."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((120, 1)) + apart * rng.standard_normal((120, 300))
    y = M[:, ::7].sum(axis=1) + rng.standard_normal(120)
    Q, q, yy, size = M.T @ M, M.T @ y, float(y @ y), 300
    known = Accuracy.of(np.diagonal(Q), yy)
    ends = np.full(size, -end), np.full(size, end)
    system = Quadratic(
        Q,
        q,
        np.full(size, ridge),
        known.sizes,
        *ends,
        yy,
        float(known.response[0]),
        known.unit,
        scalable=False,
    )
    warm = fresh_warm([system], np.zeros((1, size)), 1.0)
    aim = Aim(seconds=seconds, least_seconds=0.0, slack=0.0)
    return solve_relaxation([system], np.zeros(size, dtype=np.int8), budget, warm, aim)


@pytest.mark.parametrize("ridge", [1.0, 10.0])
def test_correlated_monomials_are_no_reason_to_stop_far_from_the_optimum(ridge):
    """Sweeps alone leave 3 to 40 % between the bound and the value after as many passes."""
    relaxed = slow_relaxation(ridge=ridge, apart=0.3, budget=10)
    assert 0.0 <= relaxed.primal - relaxed.bound < 0.01 * relaxed.primal


def test_without_time_the_bound_is_lower_and_safe():
    full = slow_relaxation()
    none, some = (slow_relaxation(seconds) for seconds in (0.0, 1e-3))
    assert none.code == some.code == STOPPED
    assert not none.warm.w.any()
    assert some.warm.w.any()
    assert none.bound <= some.bound < full.bound <= full.primal


def test_less_time_means_less_work():
    active = [np.count_nonzero(slow_relaxation(s).warm.w) for s in (0.0, 1e-3, np.inf)]
    assert active == sorted(active)
    assert active[0] == 0 < active[1]


def test_boxes_that_nothing_reaches_change_nothing():
    free, wide, tight = (slow_relaxation(end=end) for end in (np.inf, 1e9, 0.1))
    assert wide.bound == pytest.approx(free.bound, rel=1e-12)
    np.testing.assert_allclose(wide.Z, free.Z, rtol=1e-9)
    np.testing.assert_allclose(wide.w, free.w, rtol=1e-9, atol=1e-12)
    assert tight.bound > free.bound


@pytest.mark.parametrize("seed", range(10))
def test_within_boxes_a_relaxation_ends_solved_and_not_before(seed):
    """The value that its bound is compared with is that of a point within boxes and budget."""
    rng = np.random.default_rng(seed)
    n, size, budget, end = 60, 12, 3, 0.3
    M = rng.standard_normal((n, size)) + 0.5 * rng.standard_normal((n, 1))
    y = M[:, :5] @ rng.uniform(0.2, 1.0, 5) + rng.standard_normal(n)
    Q, q, yy = M.T @ M, M.T @ y, float(y @ y)
    known, ridge = Accuracy.of(np.diagonal(Q), yy), np.full(size, 2.0)
    ends = np.full(size, -end), np.full(size, end)
    system = Quadratic(
        Q, q, ridge, known.sizes, *ends, yy, *known.response.tolist(), known.unit, scalable=False
    )
    warm = fresh_warm([system], np.zeros((1, size)), 1.0)
    aim = Aim(threshold=yy, max_passes=200, tol=1e-6, slack=0.0)
    relaxed = solve_relaxation([system], np.zeros(size, dtype=np.int8), budget, warm, aim)

    # The feasible point of its last iterate: shares that fill the budget, w within them.
    w, nu = relaxed.warm.w[0], relaxed.warm.nu
    s = np.minimum(np.maximum(np.sqrt(0.5 * ridge * w * w / nu), np.abs(w) / end), 1.0)
    t = min(1.0, budget / s.sum())
    w, s = t * w, t * s
    some = s > 0.0
    value = 0.5 * yy - q @ w + 0.5 * w @ Q @ w + 0.5 * ridge[some] @ (w[some] ** 2 / s[some])
    assert np.all(np.abs(w) <= end * s + 1e-12)
    assert relaxed.code == SOLVED
    assert relaxed.bound <= value == pytest.approx(relaxed.primal, rel=1e-9)
    assert relaxed.bound == pytest.approx(value, rel=1e-5)


def test_rho_stays_in_step_with_the_coefficients():
    rng = np.random.default_rng(1)
    for size in range(5, 12):  # rows are taken four at a time: every remainder
        M = rng.standard_normal((40, size))
        y = M.sum(axis=1) + rng.standard_normal(40)
        Q, q, yy = M.T @ M, M.T @ y, float(y @ y)
        known = Accuracy.of(np.diagonal(Q), yy)
        ends = np.full(size, -np.inf), np.full(size, np.inf)
        system = Quadratic(
            Q,
            q,
            np.ones(size),
            known.sizes,
            *ends,
            yy,
            *known.response.tolist(),
            known.unit,
            scalable=True,
        )
        warm = fresh_warm([system], np.zeros((1, size)), 1.0)
        solve_relaxation([system], np.zeros(size, dtype=np.int8), 3, warm, Aim())
        assert np.count_nonzero(warm.w) >= 3
        np.testing.assert_allclose(warm.rho, [q - Q @ warm.w[0]], atol=1e-10 * np.abs(q).max())


@pytest.mark.parametrize("seed", range(30))
def test_trees_whose_relaxations_have_no_time_agree_with_enumeration(seed):
    problem = make_instance(seed).problem
    best = optimum(problem)
    found = Tree(relaxation_rate=0.0).solve(problem, time=TimeBudget(20.0), gap_tol=1e-9)
    assert found.bound <= best.objective * (1.0 + 1e-9)
    assert found.objective == pytest.approx(best.objective, rel=1e-8)


# A design in place of its Gram matrix


@pytest.mark.parametrize("end", [np.inf, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_design_proves_what_its_gram_matrix_proves(seed, end):
    """The same tree to the last node, and no bound above the cost of the best support."""
    rng = np.random.default_rng(seed)
    M, size = rng.standard_normal((40, 90)), 90
    y = M[:, :6] @ rng.standard_normal(6) + 0.5 * rng.standard_normal(40)
    boxes = None if end == np.inf else Boxes(np.full(size, -end), np.full(size, end))
    structure = Structure.of_basis(Basis.full(size, 1, constant=False), 6)
    structure = replace(structure, boxes=boxes)
    tree = Tree(diagonal_shifts=False, leaf_worth=0.0)
    grams = DesignGram.of(M), DenseGram(M.T @ M, 40)
    there, here = (
        tree.solve(Problem(gram, M.T @ y, y @ y, 4.0, structure), time=TimeBudget(300.0))
        for gram in grams
    )
    assert there.stop is Stop.PROVED
    assert there.support == here.support
    assert there.bound == pytest.approx(here.bound, rel=1e-4)
    assert there.bound <= here.objective <= there.objective * (1.0 + 1e-12)


def test_a_design_is_read_until_its_gram_matrix_is_cheaper():
    M = np.random.default_rng(0).standard_normal((20, 200))
    problem = Problem(
        DesignGram.of(M), M.T @ M[:, 0], 20.0, 1.0,
        Structure.of_basis(Basis.full(200, 1, constant=False), 3),
    )  # fmt: skip
    core = Subproblem.of(problem)
    formed = [len(core.read_once_more().system.Q) for _ in range(6)]
    assert formed == [0, 200, 200, 200, 200, 200]
    np.testing.assert_allclose(core.read_once_more().system.Q, M.T @ M)
