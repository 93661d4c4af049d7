"""The certificate: recomputed, refused when impossible, status derived."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from instances import make_instance, optimum
from support import Problem, Status, Stop, Structure, certify, proved_at, relative_gap, with_refit

from polysharp import Solution, SparsePolynomialRegressor
from polysharp.engines import make_engine
from polysharp.errors import CertificateError


def certified(seed: int, bound: float, **options: object) -> Solution:
    instance = make_instance(seed)
    support = np.array(optimum(instance.problem).support, dtype=np.intp)
    settings = {"gap_tol": 1e-4, "stop": Stop.PROVED, "engine": "test"} | options
    return certify(instance.problem, support, bound, **settings)  # type: ignore[arg-type]


def test_a_bound_above_the_objective_is_refused() -> None:
    best = optimum(make_instance(0).problem).objective
    with pytest.raises(CertificateError, match="above the objective"):
        certified(0, 1.001 * best)


def test_a_bound_that_is_no_number_counts_for_nothing() -> None:
    assert certified(0, np.nan).bound == certified(0, 0.0).bound


def test_an_infinite_bound_is_refused() -> None:
    with pytest.raises(CertificateError, match="above the objective"):
        certified(0, np.inf)


def test_a_bound_within_rounding_is_cut_to_the_objective() -> None:
    best = optimum(make_instance(0).problem).objective
    answer = certified(0, best * (1.0 + 1e-9))
    assert answer.bound == answer.objective
    assert answer.gap == 0.0


def test_a_forbidden_support_is_refused() -> None:
    problem = make_instance(0).problem
    with pytest.raises(CertificateError, match="breaks the rules"):
        certify(
            problem, np.arange(problem.size), 0.0, gap_tol=1e-4, stop=Stop.PROVED, engine="test"
        )


def test_status_follows_from_objective_and_bound() -> None:
    best = optimum(make_instance(0).problem).objective
    assert certified(0, best).status is Status.OPTIMAL
    low = certified(0, 0.0)  # Stop.PROVED claims what the numbers do not show
    assert low.gap > 1e-4
    assert low.status is Status.FEASIBLE
    assert certified(0, 0.0, gap_tol=1.0).status is Status.OPTIMAL


def test_the_objective_is_recomputed_from_the_data() -> None:
    instance = make_instance(0)
    answer = certified(0, 0.0)
    M = instance.basis.evaluate(instance.X)[:, answer.support]
    residual = instance.y - M @ answer.coefficients
    direct = 0.5 * residual @ residual
    direct += 0.5 * instance.problem.lam * answer.coefficients @ answer.coefficients
    assert answer.objective == pytest.approx(direct, rel=1e-9)


def test_the_residual_proves_a_bound_by_itself() -> None:
    """With a = y - M_S w, any model costs 1/2 (y'a)^2 / (|a|^2 + gamma top_l((m_j'a)^2))."""
    instance, answer = make_instance(0), certified(0, 0.0)
    M, y = instance.basis.evaluate(instance.X), instance.y
    a = y - M[:, answer.support] @ answer.coefficients
    largest = np.sort((M.T @ a) ** 2)[-instance.problem.structure.max_terms :]
    value = 0.5 * (y @ a) ** 2 / (a @ a + instance.problem.gamma * largest.sum())
    assert 0.0 < answer.bound <= value
    assert answer.bound == pytest.approx(value, rel=1e-9)


def test_relative_gap() -> None:
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(1.0, 1.0 + 1e-9) == 0.0
    assert relative_gap(1.0, 0.0) == 1.0


def test_the_certificate_reads_as_a_sentence() -> None:
    text = str(certified(0, 0.0))
    assert re.match(
        r"Not proved best: with at most \d+ terms( in \d+ inputs)? the objective could", text
    )
    assert "feasible: objective " in text
    assert "over every input given" in text
    assert text.endswith("stopped: the gap tolerance was reached")
    kept = str(certified(0, 0.0, scope="kept-inputs"))
    assert " among the inputs kept the objective could be up to " in kept
    assert "over the kept inputs only" in kept


def test_of_an_exact_law_nothing_more_is_said() -> None:
    X = np.random.default_rng(0).uniform(1.0, 3.0, (60, 2))
    model = SparsePolynomialRegressor(2, 1, gamma=1e4).fit(X, 3.0 * X[:, 0] * X[:, 1])
    assert model.solution_.in_r2() == "R2 1.000000"


@pytest.mark.parametrize("seed", range(5))
def test_no_support_with_smaller_coefficients_exceeds_the_ceiling(seed):
    """R2 of every support and of random smaller coefficients, beside what the bound allows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4))
    y = X @ [1.0, -0.5, 0.2, 0.0] + 0.5 * rng.standard_normal(30)
    model = SparsePolynomialRegressor(1, 2, gamma=0.1, engine="enumeration", scale=False).fit(X, y)
    solution = model.solution_
    total = ((y - y.mean()) ** 2).sum()
    assert solution.r2 == pytest.approx(model.score(X, y))
    size = np.linalg.norm(solution.coefficients)
    centred = X - X.mean(axis=0)
    best = -np.inf
    for pair in itertools.combinations(range(4), 2):
        for _ in range(200):
            w = rng.standard_normal(2)
            w *= size / np.linalg.norm(w)
            best = max(best, 1 - ((y - y.mean() - centred[:, pair] @ w) ** 2).sum() / total)
    assert solution.r2 <= solution.r2_ceiling <= solution.r2 + 1e-3
    assert best <= solution.r2_ceiling
    assert f"R2 {solution.r2:.4f}; at most " in str(solution)


def test_the_words_name_the_budgets() -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * np.random.default_rng(1).standard_normal(60)
    model = SparsePolynomialRegressor(2, 2, gamma=1.0).fit(X, y)
    assert model.solution_.in_words() == (
        "Proved best: no formula with at most 2 terms fits these rows better"
    )
    model = SparsePolynomialRegressor(2, 3, max_inputs=2, gamma=1.0).fit(X, y)
    assert model.solution_.in_words() == (
        "Proved best: no formula with at most 3 terms in 2 inputs fits these rows better"
    )


def test_the_words_of_two_ridges_say_what_was_proved() -> None:
    """The terms at one ridge, the coefficients at another: in print, in files, in the proof."""
    instance = make_instance(1)
    answer = make_engine("tree").solve(instance.problem, gap_tol=1e-6)
    refitted = with_refit(answer, instance.problem, 100.0 * instance.problem.gamma)
    assert refitted.support == answer.support
    assert (refitted.objective, refitted.bound) == (answer.objective, answer.bound)
    assert refitted.shown is refitted.refit.coefficients
    M = instance.basis.evaluate(instance.X)[:, answer.support]
    weak = 0.01 * instance.problem.lam
    direct = np.linalg.solve(M.T @ M + weak * np.eye(M.shape[1]), M.T @ instance.y)
    assert refitted.shown == pytest.approx(direct, rel=1e-8)
    assert f"{100.0 * instance.problem.gamma:.4g}" in refitted.in_words()
    assert "smaller penalised error at gamma" in str(refitted)
    assert with_refit(refitted, instance.problem, instance.problem.gamma).refit is None


def test_terms_are_proved_at_stronger_ridges() -> None:
    """The optimum at every ridge of the range, by enumeration."""
    found, rules = 0, Structure(np.eye(5, dtype=bool), 2, 5)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 5))
        y = X @ [3.0, -2.0, 0.5, 0.0, 0.0] + rng.standard_normal(60)
        U = (X - X.mean(axis=0)) / X.std(axis=0)
        t = y - y.mean()
        problem = Problem.dense(U.T @ U, U.T @ t, t @ t, 0.01, rules)
        at = proved_at(problem, np.array([0, 1]), 1e-9)
        if at is None:
            continue
        found += 1
        low, high = at
        assert 0.0 < low <= high <= problem.gamma * (1.0 + 1e-12)
        for gamma in np.geomspace(low, high, 7):
            own = replace(problem, lam=1.0 / gamma)
            costs = {
                S: own.refit(np.array(S)).objective for S in itertools.combinations(range(5), 2)
            }
            assert min(costs, key=costs.get) == (0, 1)
    assert found >= 5
    assert proved_at(problem, np.array([0]), 1e-9) is None
