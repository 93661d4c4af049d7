"""The relaxation of a node: a bound that is safe at any moment, and that ends when it should."""

from __future__ import annotations

import numpy as np
import pytest
from instances import make_instance, optimum

from polysharp.engines.base import Limits
from polysharp.engines.tree import Tree
from polysharp.engines.tree.relaxation import STOPPED, Aim, fresh_warm, solve_relaxation
from polysharp.problem.bounds import Accuracy, Quadratic


def slow_relaxation(seconds=np.inf):
    """A budget of 40 among 300 monomials that are nearly alike, with hardly any ridge."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((120, 1)) + 0.1 * rng.standard_normal((120, 300))
    y = M[:, ::7].sum(axis=1) + rng.standard_normal(120)
    Q, q, yy, size = M.T @ M, M.T @ y, float(y @ y), 300
    known = Accuracy.of(np.diagonal(Q), yy)
    ridge = np.full(size, 1e-4)
    ends = np.full(size, -np.inf), np.full(size, np.inf)
    system = Quadratic(
        Q, q, ridge, known.sizes, *ends, yy, known.response, known.unit, scalable=False
    )
    warm = fresh_warm(system, np.zeros(size), 1.0)
    aim = Aim(seconds=seconds, least_seconds=0.0)
    return solve_relaxation(system, np.zeros(size, dtype=np.int8), 40, warm, aim)


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


@pytest.mark.parametrize("seed", range(30))
def test_trees_whose_relaxations_have_no_time_agree_with_enumeration(seed):
    problem = make_instance(seed).problem
    limits = Limits(time_limit=20.0, gap_tol=1e-9)
    best = optimum(problem)
    found = Tree(relaxation_rate=0.0).solve(problem, limits=limits)
    assert found.bound <= best.objective * (1.0 + 1e-9)
    assert found.objective == pytest.approx(best.objective, rel=1e-8)
