"""The certificate: recomputed, refused when impossible, status derived."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from instances import make_instance, optimum
from support import Status, Stop, certify, relative_gap

from polysharp import Solution, SparsePolynomialRegressor
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
    assert text.startswith("Not proved best: within these budgets the objective could be up to ")
    assert "feasible: objective " in text
    assert "over every input given" in text
    assert text.endswith("stopped: the gap tolerance was reached")
    kept = str(certified(0, 0.0, scope="kept-inputs"))
    assert "within these budgets and the inputs kept" in kept
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
