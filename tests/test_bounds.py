"""Bounds against exact rationals: rounded down, whatever the numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support import (
    Accuracy,
    Basis,
    Design,
    DualPoint,
    MemoryRows,
    PricedRun,
    Problem,
    Status,
    Structure,
    Subproblem,
    TermRules,
    TimeBudget,
    admitted,
    assemble,
    free_price,
    least_cost,
    price,
    scaled_value,
    semidefinite,
)

from polysharp import SparsePolynomialRegressor
from polysharp.engines import make_engine

FAMILIES = (
    "plain", "duplicate", "near-duplicate", "collinear", "span", "nearly-span", "few-rows",
    "weights", "scales", "large-mean", "constant", "tiny", "huge", "tiny-y", "huge-y",
)  # fmt: skip
GAMMAS = (1e-12, 1e-6, 1.0, 1e4, 1e8, 1e12)


def hostile(family: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return X, y and weights of a small table."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    n, p = int(rng.integers(3, 9)), 4
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    weights = None
    if family == "duplicate":
        X[:, 1] = X[:, 0]
    elif family == "near-duplicate":
        X[:, 1] = X[:, 0] * (1.0 + 1e-9 * rng.standard_normal(n))
    elif family == "collinear":
        X[:, 3] = X[:, 0] - 2.0 * X[:, 1]
    elif family in {"span", "nearly-span"}:
        y = 2.0 * X[:, 0] - X[:, 1]
        y += 0.0 if family == "span" else 1e-7 * rng.standard_normal(n)
    elif family == "few-rows":
        X, y = X[:2], y[:2]
        X[:, 2] = X[:, 0]
    elif family == "weights":
        weights = 10.0 ** rng.uniform(-9, 9, n)
    elif family == "scales":
        X *= 10.0 ** rng.uniform(-12, 12, p)
    elif family == "large-mean":
        X += 1e6
    elif family == "constant":
        X[:, 2] = 0.3
    elif family in {"tiny", "huge"}:
        X *= 1e-100 if family == "tiny" else 1e100
    elif family in {"tiny-y", "huge-y"}:
        y *= 1e-70 if family == "tiny-y" else 1e70
    return X, y, weights


def solve_exactly(rows: list[list[Fraction]]) -> list[Fraction]:
    """Solve a positive definite system, given with its right-hand side as the last column."""
    for i in range(len(rows)):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(len(rows)):
            if j != i:
                factor = rows[j][i]
                rows[j] = [u - factor * v for u, v in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


def exact_optimum(X, y, weights, lam: float, terms: int, *, intercept: bool) -> Fraction:
    """Return the least cost over all supports of linear terms, from the data, in rationals."""
    v = [Fraction(float(t)) for t in (np.ones(len(y)) if weights is None else weights)]
    columns = [[Fraction(float(x)) for x in column] for column in (*X.T, y)]
    if intercept:
        W = sum(v)
        means = [sum(a * x for a, x in zip(v, c, strict=True)) / W for c in columns]
        columns = [[x - m for x in c] for c, m in zip(columns, means, strict=True)]
    else:
        columns.insert(0, [Fraction(1)] * len(y))
    G = [
        [sum(a * s * t for a, s, t in zip(v, c, e, strict=True)) for e in columns] for c in columns
    ]
    f, best = len(columns) - 1, G[-1][-1] / 2
    for S in combinations(range(f), min(terms, f)):
        rows = [[G[a][b] + (Fraction(lam) if a == b else 0) for b in S] + [G[a][f]] for a in S]
        w = solve_exactly(rows)
        best = min(best, (G[f][f] - sum(G[a][f] * c for a, c in zip(S, w, strict=True))) / 2)
    return best


@pytest.mark.parametrize("engine", ["tree", "enumeration", "local-search"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_bound_exceeds_and_no_objective_undercuts_the_exact_optimum(family, engine):
    for seed in range(12):
        X, y, weights = hostile(family, seed)
        intercept, terms = bool(seed % 2), 1 + seed % 3
        lam = 1.0 / GAMMAS[seed % len(GAMMAS)]
        basis = Basis.full(X.shape[1], 1, constant=not intercept)
        structure = Structure.of_basis(basis, terms)
        rows = MemoryRows(X, y, weights)
        problem = assemble(rows, basis, structure, lam=lam, fit_intercept=intercept).problem
        least = exact_optimum(X, y, weights, lam, terms, intercept=intercept)
        answer = make_engine(engine).solve(problem, time=TimeBudget(10.0), gap_tol=1e-6, seed=seed)
        label = f"{family} {seed}: bound {answer.bound!r}, optimum {float(least)!r}"
        assert Fraction(answer.bound) <= least, label
        assert Fraction(answer.objective) >= least, label


@pytest.mark.parametrize("family", ["plain", "duplicate", "span", "weights"])
def test_rounding_costs_next_to_nothing_on_ordinary_data(family):
    """The bound of a support is rounded down by 1e-9 of the response's sum of squares at most."""
    for seed in range(12):
        X, y, weights = hostile(family, seed)
        basis = Basis.full(X.shape[1], 1, constant=False)
        structure = Structure.of_basis(basis, 2)
        rows = MemoryRows(X, y, weights)
        problem = assemble(rows, basis, structure, lam=1.0, fit_intercept=True).problem
        for S in combinations(range(len(basis)), 2):
            fit = problem.refit(np.array(S))
            assert least_cost(problem, fit) <= fit.objective
            assert problem.cost_at_most(fit) - least_cost(problem, fit) <= 1e-9 * problem.yy


def exact_moments(rng: np.random.Generator, f: int = 5) -> tuple[np.ndarray, np.ndarray, float]:
    """Moments of small integers, which floats hold exactly."""
    M = rng.integers(-3, 4, (7, f)).astype(float)
    y = rng.integers(-5, 6, 7).astype(float)
    return M.T @ M, M.T @ y, float(y @ y)


@pytest.mark.parametrize("seed", range(20))
def test_support_and_residual_bounds_of_exact_moments(seed):
    rng = np.random.default_rng(seed)
    G, q, yy = exact_moments(rng)
    lam = 2.0 ** float(rng.integers(-40, 10))
    structure = Structure.of_basis(Basis.full(5, 1, constant=False), 2)
    problem = Problem.dense(G, q, yy, lam, structure, Accuracy.of(np.diagonal(G), yy, 0.0))
    costs = {}
    for S in combinations(range(5), 2):
        rows = [
            [Fraction(G[a, b]) + (Fraction(lam) if a == b else 0) for b in S] + [Fraction(q[a])]
            for a in S
        ]
        w = solve_exactly(rows)
        explained = sum(Fraction(q[a]) * c for a, c in zip(S, w, strict=True))
        costs[S] = (Fraction(yy) - explained) / 2
    least = min(costs.values())
    for S, cost in costs.items():
        fit = problem.refit(np.array(S))
        assert Fraction(least_cost(problem, fit)) <= cost <= Fraction(problem.cost_at_most(fit))
        assert Fraction(problem.dual_bound(fit)) <= least


def test_what_is_no_number_proves_nothing():
    assert admitted(np.nan, 1.0) == admitted(np.inf, 1.0) == admitted(0.6, 1.0) == -np.inf
    assert admitted(0.4, np.nan) == -np.inf
    for numbers in [(np.nan, 1.0, 1.0), (1.0, np.nan, 1.0), (1.0, 1.0, np.inf), (1.0, -1.0, 0.0)]:
        assert scaled_value(*numbers) == (0.0, 0.0)


def test_a_matrix_is_semidefinite_only_where_that_is_proved():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((40, 6))
    G = M.T @ M
    known = Accuracy.of(np.diagonal(G), 1.0, 40)
    least = float(np.linalg.eigvalsh(G)[0])
    assert semidefinite(G, np.full(6, 0.999 * least), known)
    assert not semidefinite(G, np.full(6, 1.001 * least), known)
    assert not semidefinite(G, np.full(6, np.nan), known)
    assert not semidefinite(np.full((6, 6), np.nan), np.zeros(6), known)
    # A negative part leaves room elsewhere.
    d = np.full(6, -1.0)
    d[0] = 1.0 / np.linalg.inv(G + np.eye(6))[0, 0] - 1.0
    assert semidefinite(G, 0.999 * d, known)
    singular = np.ones((3, 3))
    assert not semidefinite(singular, np.zeros(3), Accuracy.of(np.ones(3), 1.0, 3))


def test_the_objective_is_that_of_the_rows_where_moments_have_lost_it():
    """Inputs near 1e8, not scaled: the moments know nothing of a squared error of 400."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)) + 1e8, 2.0 * rng.standard_normal(200)
    model = SparsePolynomialRegressor(2, 3, fit_intercept=False, scale=False, engine="enumeration")
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    residual = y - model.predict(X)
    assert model.solution_.objective >= 0.5 * residual @ residual * (1.0 - 1e-6)
    assert model.solution_.objective <= 0.5 * y @ y * (1.0 + 1e-6)
    assert model.solution_.status is Status.FEASIBLE


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_equal_columns_and_weights_over_18_decades_end_in_an_answer():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((4, 1))
        X, y = np.hstack([x, x, rng.standard_normal((4, 2))]), rng.standard_normal(4)
        weights = 10.0 ** rng.uniform(-9, 9, 4)
        model = SparsePolynomialRegressor(2, 4, gamma=1e8, fit_intercept=bool(seed % 2))
        solution = model.fit(X, y, sample_weight=weights).solution_
        assert solution.bound >= 0.0
        if seed < 10:  # half a second each
            every = model.set_params(engine="enumeration").fit(X, y, sample_weight=weights)
            assert solution.bound <= every.solution_.objective


def test_equal_columns_with_a_weak_ridge():
    """A rounding margin that is not scaled as the residual is once proved three times the truth."""
    x = np.random.default_rng(0).standard_normal(100)
    X, y = np.column_stack([x, x, x]), 2.0 * x
    basis = Basis.full(3, 1, constant=False)
    rows = MemoryRows(X, y)
    problem = assemble(
        rows, basis, Structure.of_basis(basis, 3), lam=1e-8, fit_intercept=False
    ).problem
    answer = make_engine("tree").solve(problem)
    # All three share the weight: lam/2 * 3 (2/3)^2 and next to no error.
    xx = Fraction(0)
    for value in x:
        xx += Fraction(float(value)) ** 2
    lam = Fraction(1e-8)
    exact = 2 * xx * lam / (3 * xx + lam)
    assert Fraction(answer.bound) <= exact <= Fraction(answer.objective)
    assert answer.bound >= 0.8 * float(exact)


def test_a_model_without_terms_has_a_least_cost_however_rough_the_moments():
    known = Accuracy(1e-3, np.ones(2), np.ones(1))
    problem = Problem.dense(
        np.eye(2),
        np.ones(2),
        1.0,
        1.0,
        Structure.of_basis(Basis.full(2, 1).filter(bool), 1, None),
        known,
    )
    assert 0.0 <= least_cost(problem, problem.refit(np.zeros(0, dtype=np.intp))) < 0.5


def test_a_priced_bound_of_a_response_that_is_constant_but_for_its_last_digits():
    """Centring leaves nothing but rounding of the heaviest row, and squares of that cancel."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 6))
        y = rng.uniform(0.5, 2.0) + rng.integers(-2, 3, n) * 2.0**-52
        v = 10.0 ** rng.uniform(-9, 9, n)
        exact, weights = [Fraction(a) for a in y], [Fraction(a) for a in v]
        mean = sum(a * b for a, b in zip(exact, weights, strict=True)) / sum(weights)
        half = sum(w * (a - mean) ** 2 for a, w in zip(exact, weights, strict=True)) / 2
        rows = MemoryRows(rng.standard_normal((n, 1)), y, v)
        design = Design(rows, np.arange(1), 1, fit_intercept=True)
        nothing, rules = design.target, TermRules(degree=1, max_terms=1)
        search = PricedRun(design, rules, lam=1.0, engine=make_engine("tree"))
        dual = DualPoint.of(search, {}, nothing, design.price(nothing, 3))
        assert dual.bounded(frozenset(), 0, bool).bound <= half


def test_held_monomials_that_only_rounding_tells_apart():
    """Columns of size 1e10 that are equal, with a ridge that is lost beside them."""
    G, q = np.full((4, 4), 6e20 * (1.0 + 1e-15)), np.full(4, 1e10)
    G[np.diag_indices(4)] = 6e20
    structure = Structure.of_basis(
        Basis.full(4, 1).filter(bool), 3, None, required_terms=[(0,), (1,)]
    )
    problem = Problem.dense(G, q, 1.0, 1e-3, structure)
    assert Subproblem.of(problem).eliminated(np.arange(2), np.arange(2, 4)) is None
    answer = make_engine("tree").solve(problem)
    assert structure.allows(np.array(answer.support, dtype=np.intp))
    assert answer.bound <= make_engine("enumeration").solve(problem).objective


def test_prices_without_boxes_are_those_of_infinite_ones() -> None:
    rng = np.random.default_rng(0)
    rho, error, ridge = rng.standard_normal(1000), rng.random(1000), rng.random(1000) + 1e-3
    error[::3] = 0.0
    ends = np.full(1000, -np.inf), np.full(1000, np.inf)
    assert np.array_equal(free_price(rho, error, ridge), price(rho, error, ridge, *ends))
