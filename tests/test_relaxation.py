"""The relaxation of a node: a bound that is safe at any moment, and that ends when it should."""

from __future__ import annotations

import numpy as np
import pytest
from instances import make_instance, optimum

from polysharp.engines import make_engine, relaxation
from polysharp.engines.base import Limits
from polysharp.engines.relaxation import UNFINISHED, fresh_warm, solve_relaxation


def slow_relaxation(**options):
    """A budget of 40 among 300 monomials that are nearly alike, with hardly any ridge."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((120, 1)) + 0.1 * rng.standard_normal((120, 300))
    y = M[:, ::7].sum(axis=1) + rng.standard_normal(120)
    Q, q, size = M.T @ M, M.T @ y, 300
    norms = np.sqrt(np.diagonal(Q))
    warm = fresh_warm(Q, q, np.zeros(size), norms, 1.0)
    ridge = np.full(size, 1e-4)
    state = np.zeros(size, dtype=np.int8)
    return solve_relaxation(Q, q, ridge, norms, float(y @ y), state, 40, warm, np.inf, **options)


def test_without_time_the_bound_is_lower_and_safe(monkeypatch):
    monkeypatch.setattr(relaxation, "LEAST_SECONDS", 0.0)
    full = slow_relaxation()
    none, some = (slow_relaxation(seconds=seconds) for seconds in (0.0, 1e-3))
    assert none.code == some.code == UNFINISHED
    assert not none.warm.w.any()
    assert some.warm.w.any()
    assert none.bound <= some.bound < full.bound <= full.primal


def test_less_time_means_less_work(monkeypatch):
    monkeypatch.setattr(relaxation, "LEAST_SECONDS", 0.0)
    products = [slow_relaxation(seconds=s).warm.products for s in (0.0, 1e-3, 4e-3, np.inf)]
    assert products == sorted(products)
    assert products[0] == 0.0
    assert products[1] < products[3]


@pytest.mark.parametrize("seed", range(30))
def test_trees_whose_relaxations_have_no_time_agree_with_enumeration(monkeypatch, seed):
    monkeypatch.setattr(relaxation, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(relaxation, "RATE", 1.0)
    problem = make_instance(seed).problem
    limits = Limits(time_limit=20.0, gap_tol=1e-9)
    best = optimum(problem)
    found = make_engine("tree").solve(problem, limits=limits)
    assert found.bound <= best.objective * (1.0 + 1e-9)
    assert found.objective == pytest.approx(best.objective, rel=1e-8)
