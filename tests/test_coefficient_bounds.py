"""Coefficients within boxes: refits, prices, engines, certificates, and how users state them."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from instances import TINY, Instance, make_instance, optimum, with_boxes
from scipy.optimize import lsq_linear

from polysharp.certificate.solution import Solution
from polysharp.engines import make_engine
from polysharp.engines.base import Limits
from polysharp.engines.local_search.kernel import Climb
from polysharp.engines.local_search.model import RidgeModel
from polysharp.problem.bounds import price

TIGHT = Limits(gap_tol=1e-7, time_limit=60.0)
SOLVERS = ("cutting-planes", "cutting-planes-multitree", "big-m")
EXACT = ("tree", *SOLVERS)
LARGEST = {"big-m": 9}


@cache
def boxed(seed: int) -> tuple[Instance, Solution]:
    instance = with_boxes(make_instance(seed), seed)
    return instance, optimum(instance.problem)


def slack_of(instance: Instance, best: Solution) -> float:
    return 1e-6 * best.objective + 1e3 * instance.problem.resolution


def check_engine(name: str, seed: int) -> None:
    instance, best = boxed(seed)
    problem, slack = instance.problem, slack_of(instance, best)
    answer = make_engine(name).solve(problem, limits=TIGHT)
    S = np.array(answer.support, dtype=np.intp)
    assert problem.structure.allows(S), instance.label
    low, high = problem.boxes.among(S)
    assert np.all((low <= answer.coefficients) & (answer.coefficients <= high)), instance.label
    assert best.objective - slack <= answer.objective, instance.label
    assert answer.bound <= best.objective + slack, instance.label
    if name != "local-search":
        assert answer.objective <= best.objective + slack, instance.label
        assert answer.status == "optimal", instance.label


def test_refits_agree_with_scipy() -> None:
    for seed in range(60):
        problem = with_boxes(make_instance(seed), seed).problem
        S = np.random.default_rng(seed).choice(problem.size, min(problem.size, 5), replace=False)
        fit = problem.refit(S)
        low, high = problem.boxes.among(fit.support)
        assert np.all((low <= fit.w) & (fit.w <= high))
        H = problem.gram.block(fit.support, fit.support) + problem.lam * np.eye(len(S))
        R = np.linalg.cholesky(H).T
        right = np.linalg.solve(R.T, problem.q[fit.support])
        other = lsq_linear(R, right, (low, np.maximum(high, low + 1e-300)), "bvls", tol=1e-14).x
        cost = 0.5 * (problem.yy - 2.0 * problem.q[fit.support] @ other + other @ H @ other)
        assert fit.objective <= cost * (1.0 + 1e-9) + 1e-12 * problem.yy


def test_prices_are_never_below_those_of_rationals() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        rho, ridge = rng.standard_normal(), 10.0 ** rng.uniform(-8, 3)
        low, high = -(10.0 ** rng.uniform(-6, 6)), 10.0 ** rng.uniform(-6, 6)
        low, high = (low * (rng.random() < 0.8), high * (rng.random() < 0.8))
        exact = max(
            _gain(rho, ridge, v)
            for v in (low, high, 0.0, min(max(Fraction(rho) / Fraction(ridge), low), high))
        )
        found = float(price(rho, 0.0, ridge, low, high))
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**46))
    assert price(2.0, 0.0, 4.0, -np.inf, np.inf) == pytest.approx(0.5)


def _gain(rho: float, ridge: float, v: float | Fraction) -> Fraction:
    return Fraction(rho) * Fraction(v) - Fraction(ridge) * Fraction(v) ** 2 / 2


def test_a_price_covers_every_rho_within_its_error() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        rho, error, ridge = rng.standard_normal(), abs(rng.standard_normal()), rng.random() + 0.01
        low, high = -abs(rng.standard_normal()), abs(rng.standard_normal())
        most = price(rho, error, ridge, low, high)
        for other in rho + error * np.linspace(-1.0, 1.0, 9):
            assert price(other, 0.0, ridge, low, high) <= most * (1.0 + 1e-12)


def test_the_model_of_the_local_search_keeps_to_the_boxes() -> None:
    kept = 0
    for seed in range(80):
        problem = with_boxes(make_instance(seed), seed).problem
        rng, slots = np.random.default_rng(seed), min(problem.size, 5)
        model = RidgeModel(problem, slots)
        model.load(rng.choice(problem.size, slots, replace=False))
        fit = problem.refit(model.support)
        kept += model.objective == pytest.approx(fit.objective, rel=1e-7, abs=1e-10 * problem.yy)
        model.climb(Climb(slots, slots, problem.resolution, 0.0))
        assert problem.refit(model.support).objective <= fit.objective * (1 + 1e-6)
    assert kept >= 78  # parking may go round in circles, which costs nothing but a good guess


@pytest.mark.parametrize("name", [*EXACT, "local-search"])
def test_engines_agree_with_enumeration(name: str) -> None:
    for seed in (start + start // 4 % 4 for start in range(0, 160, 4)):
        instance, _ = boxed(seed)
        if name in SOLVERS and instance.ridge == TINY:  # solvers run into their tolerances
            continue
        if instance.problem.size <= LARGEST.get(name, 20):
            check_engine(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_a_thousand_problems(group: int) -> None:
    for seed in range(group, 1000, 20):
        check_engine("tree", seed)
