"""The big-M formulation: proven constants, and the same optimum as enumeration."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from support import (
    BigM,
    Ellipsoid,
    Enumeration,
    Event,
    Problem,
    Status,
    Stop,
    Structure,
    TimeBudget,
)
from test_cutting_planes import assert_exact, planted_problem, small_problem

from polysharp.errors import MissingSolverError, TooLargeError


@pytest.mark.parametrize("seed", range(24))
def test_agrees_with_enumeration(seed: int) -> None:
    assert_exact(BigM(), small_problem(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 224))
def test_agrees_with_enumeration_on_many(seed: int) -> None:
    assert_exact(BigM(), small_problem(seed))


@pytest.mark.parametrize("seed", range(12))
def test_no_solution_as_good_as_the_incumbent_passes_the_constants(seed: int) -> None:
    problem = small_problem(seed)
    limits_of = Ellipsoid.of(problem).limits
    rng = np.random.default_rng(seed)
    for _ in range(50):
        size = int(rng.integers(1, problem.size + 1))
        fit = problem.refit(rng.choice(problem.size, size=size, replace=False))
        limits = limits_of(fit.objective, 1e-9 * fit.objective)
        assert np.all(np.abs(fit.w[0]) <= limits[fit.support])


def test_constants_are_tight_where_the_ellipsoid_touches() -> None:
    problem, _ = planted_problem(40, 2, None, 2, 1.0)
    ellipsoid = Ellipsoid.of(problem)
    cost = 1.5 * ellipsoid.least
    limits = ellipsoid.limits(cost, 0.0)
    H = problem.gram.block(np.arange(problem.size), np.arange(problem.size))
    H[np.diag_indices_from(H)] += problem.lam
    for j in range(problem.size):
        # The point of the ellipsoid farthest along axis j, on the side of the dense solution.
        column = np.linalg.solve(H, np.eye(problem.size)[j])
        reach = np.sqrt(2.0 * (cost - ellipsoid.least) / column[j])
        w = ellipsoid.centre + np.sign(ellipsoid.centre[j]) * reach * column
        value = 0.5 * (problem.yy - 2.0 * problem.q[0] @ w + w @ H @ w)
        assert value == pytest.approx(cost)
        assert abs(w[j]) == pytest.approx(limits[j], rel=1e-4)


def test_no_time_still_gives_an_honest_answer() -> None:
    problem = small_problem(8)
    optimum = Enumeration().solve(problem).objective
    for time_limit in (0.0, 0.02):
        solution = BigM().solve(problem, time=TimeBudget(time_limit))
        assert solution.bound <= optimum <= solution.objective * (1.0 + 1e-9)
        assert solution.stop is Stop.TIME or solution.status is Status.OPTIMAL


def test_interruption_keeps_incumbent_and_bound() -> None:
    problem = small_problem(13)
    optimum = Enumeration().solve(problem).objective

    def interrupt(event: Event) -> None:
        if event.phase != "done":
            raise KeyboardInterrupt

    solution = BigM().solve(problem, listener=interrupt)
    assert solution.stop is Stop.INTERRUPTED
    assert solution.bound <= optimum <= solution.objective * (1.0 + 1e-9)


def test_refuses_too_many_monomials_and_names_a_missing_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = 2001
    structure = Structure(np.ones((f, 1), dtype=bool), 2, 1)
    large = Problem.dense(np.eye(f), np.ones(f), 1.0, 1.0, structure)
    with pytest.raises(TooLargeError, match="2001"):
        BigM().solve(large)
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(MissingSolverError, match="pyscipopt"):
        BigM().solve(small_problem(1))


def test_nearly_singular_moments_are_factored_and_bounded() -> None:
    """Equal columns and hardly any ridge: Cholesky fails, the constants come from the ridge."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    M = np.column_stack([x, x, 2.0 * x, rng.normal(size=40)])
    y = x + 0.1 * rng.normal(size=40)
    structure = Structure(np.eye(4, dtype=bool), 2, 4)
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 1e-15, structure)
    ellipsoid = Ellipsoid.of(problem)
    np.testing.assert_allclose(ellipsoid.R.T @ ellipsoid.R, M.T @ M, atol=1e-12)
    optimum = Enumeration().solve(problem).objective
    fit = problem.refit(np.array([0, 3]))
    limits = ellipsoid.limits(fit.objective, 1e-9 * fit.objective)
    assert np.all(np.abs(fit.w[0]) <= limits[fit.support])
    solution = BigM().solve(problem, time=TimeBudget(5.0))
    assert solution.bound <= optimum


def test_many_runs_need_few_threads() -> None:
    """SCIP numbers the threads it meets, and breaks down beyond 64 of them."""
    before = threading.active_count()
    for _ in range(70):
        BigM().solve(small_problem(3), gap_tol=0.5)
    assert threading.active_count() <= before + 1
