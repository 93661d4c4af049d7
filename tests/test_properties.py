"""Properties that hold for every problem, on problems drawn by hypothesis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import Instance, make_instance, optimum, problem_of
from support import Basis, Fit, Master, Problem, Run, Structure, TimeBudget, accumulate

instances = st.integers(0, 10_000).map(make_instance)
generators = st.integers(0, 10_000).map(np.random.default_rng)
modest = settings(max_examples=60, deadline=None, derandomize=True)
few = settings(max_examples=25, deadline=None, derandomize=True)


def value_at(problem: Problem, s: np.ndarray) -> float:
    """c(s) by elimination in extended precision: a route of its own, and a more precise one."""
    every, root = np.arange(len(s)), np.sqrt(s.astype(np.longdouble))
    H = root[:, None] * problem.gram.block(every, every) * root
    H[every, every] += problem.lam
    b, explained = root * problem.q[0], np.longdouble(0.0)
    for _ in every:  # H is positive definite, so that any order of the pivots will do
        pivot = int(np.argmax(np.diagonal(H)))
        explained += b[pivot] ** 2 / H[pivot, pivot]
        left = np.arange(len(b)) != pivot
        column = H[left, pivot] / H[pivot, pivot]
        b, H = b[left] - column * b[pivot], H[left][:, left] - np.outer(column, H[pivot, left])
    return float(0.5 * (problem.yy - explained))


def random_point(rng: np.random.Generator, f: int) -> np.ndarray:
    s = (rng.random(f) < rng.random()).astype(float)
    return s if rng.random() < 0.5 else s * rng.random(f)


def random_support(rng: np.random.Generator, problem: Problem) -> np.ndarray:
    size = int(rng.integers(0, problem.structure.max_terms + 1))
    return np.sort(rng.choice(problem.size, size=size, replace=False))


@modest
@given(instances, generators)
def test_tangents_lie_below_the_function(instance: Instance, rng: np.random.Generator) -> None:
    problem = instance.problem
    s = random_point(rng, problem.size)
    cut = Master.of(Run(problem, TimeBudget())).tangent(s)
    slack = 1e-9 * problem.yy
    assert (cut.slopes <= 0.0).all()
    if instance.ridge >= 0.1:  # rounding is paid for where the ridge is tiny
        assert cut.constant + float(cut.slopes @ s) >= value_at(problem, s) - slack
    for point in (s, *(random_point(rng, problem.size) for _ in range(5))):
        assert value_at(problem, point) >= cut.constant + float(cut.slopes @ point) - slack


@modest
@given(instances, generators)
def test_the_refit_is_the_function_at_binary_points(
    instance: Instance, rng: np.random.Generator
) -> None:
    problem = instance.problem
    support = random_support(rng, problem)
    s = np.zeros(problem.size)
    s[support] = 1.0
    fit = problem.refit(support)
    assert abs(fit.objective - value_at(problem, s)) <= 1e-9 * problem.yy


@modest
@given(instances, generators)
def test_the_dual_bound_never_exceeds_the_optimum(
    instance: Instance, rng: np.random.Generator
) -> None:
    problem = instance.problem
    best = optimum(problem).objective
    support = random_support(rng, problem)
    fit = problem.refit(support)
    for w in (fit.w, 0.9 * fit.w, rng.standard_normal((1, len(support))) * (1.0 + np.abs(fit.w))):
        bound = problem.dual_bound(Fit(fit.support, w, np.inf))
        assert bound <= best * (1.0 + 1e-9) + 1e3 * problem.resolution


@few
@given(instances)
def test_the_optimum_falls_with_the_budgets(instance: Instance) -> None:
    problem, structure = instance.problem, instance.problem.structure
    here = optimum(problem).objective
    slack = 1e-9 * problem.yy
    more_terms = replace(structure, max_terms=min(structure.max_terms + 1, problem.size))
    more_inputs = replace(structure, max_inputs=min(structure.max_inputs + 1, structure.n_inputs))
    for wider in (more_terms, more_inputs):
        assert optimum(replace(problem, structure=wider)).objective <= here + slack


@few
@given(instances)
def test_the_optimum_falls_with_gamma(instance: Instance) -> None:
    problem = instance.problem
    weaker = replace(problem, lam=0.5 * problem.lam)
    assert optimum(weaker).objective <= optimum(problem).objective + 1e-9 * problem.yy


def small_problem(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, lam: float
) -> tuple[Basis, Problem]:
    basis = Basis.full(X.shape[1], 2, constant=False)
    structure = Structure.of_basis(basis, 3, 2)
    return basis, problem_of(accumulate(basis, X, y, weight), True, lam, structure)


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((20, 3))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(20)


@few
@given(generators)
def test_the_order_of_the_inputs_does_not_matter(rng: np.random.Generator) -> None:
    X, y = draw(rng)
    order = rng.permutation(3)
    basis, problem = small_problem(X, y, None, 0.7)
    _, permuted = small_problem(X[:, order], y, None, 0.7)
    first, second = optimum(problem), optimum(permuted)
    assert abs(first.objective - second.objective) <= 1e-9 * problem.yy
    back = {
        tuple(sorted(int(order[i]) for i in basis.monomials[j])): w
        for j, w in zip(second.support, second.coefficients, strict=True)
    }
    named = {basis.monomials[j]: w for j, w in zip(first.support, first.coefficients, strict=True)}
    assert named.keys() == back.keys()
    np.testing.assert_allclose([named[m] for m in back], list(back.values()), rtol=1e-7)


@few
@given(generators, st.sampled_from([1e-4, 0.5, -3.0, 1e5]))
def test_scaling_the_response_scales_the_objective(rng: np.random.Generator, c: float) -> None:
    X, y = draw(rng)
    _, problem = small_problem(X, y, None, 0.7)
    _, scaled = small_problem(X, c * y, None, 0.7)
    first, second = optimum(problem), optimum(scaled)
    assert first.support == second.support
    np.testing.assert_allclose(second.objective, c * c * first.objective, rtol=1e-9)
    np.testing.assert_allclose(second.coefficients, c * first.coefficients, rtol=1e-7)


@few
@given(generators, st.sampled_from([1e-2, 0.5, 40.0]))
def test_scaling_the_weights_is_scaling_gamma(rng: np.random.Generator, c: float) -> None:
    X, y = draw(rng)
    weight = rng.uniform(0.5, 2.0, size=20)
    _, problem = small_problem(X, y, weight, 0.7)
    _, scaled = small_problem(X, y, c * weight, 0.7 * c)
    first, second = optimum(problem), optimum(scaled)
    assert first.support == second.support
    np.testing.assert_allclose(second.objective, c * first.objective, rtol=1e-9)
    np.testing.assert_allclose(second.coefficients, first.coefficients, rtol=1e-7)


@few
@given(generators, st.sampled_from([1e-2, 0.5, 40.0]))
def test_scaling_linear_inputs_is_scaling_gamma(rng: np.random.Generator, c: float) -> None:
    X, y = draw(rng)
    basis = Basis.full(3, 1, constant=False)
    structure = Structure.of_basis(basis, 2)
    first = optimum(problem_of(accumulate(basis, X, y), True, 0.7, structure))
    second = optimum(problem_of(accumulate(basis, c * X, y), True, 0.7 * c * c, structure))
    assert first.support == second.support
    np.testing.assert_allclose(second.objective, first.objective, rtol=1e-9)
    np.testing.assert_allclose(c * second.coefficients, first.coefficients, rtol=1e-7)
