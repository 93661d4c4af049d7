"""Bounds where rounding is as large as what is bounded: the referee is exact arithmetic."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from support import Basis, DenseGram, Problem, Structure, TimeBudget

from polysharp import SparsePolynomialRegressor
from polysharp.engines import make_engine


def far_from_zero(noise):
    """Powers of inputs near 100, collinear to twelve digits, with next to no ridge."""
    rng = np.random.default_rng(1)
    x = 100.0 + rng.random((25, 1))
    law = x[:, 0] ** 3 - 300.0 * x[:, 0] ** 2 + 30000.0 * x[:, 0] - 1e6
    y = rng.standard_normal(25) if noise else law
    basis = Basis((0,), 4, ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)))
    M = basis.evaluate(x / np.sqrt(np.mean(x**2)))
    M, y = M - M.mean(axis=0), y - y.mean()
    structure = Structure.of_basis(basis, 3)
    return Problem(DenseGram(M.T @ M), M.T @ y, float(y @ y), 1e-14, structure)


def exact_optimum(problem):
    """Return the least c(S) of the problem's own numbers, in rational arithmetic."""
    f = problem.size
    G = [[Fraction(float(problem.gram.G[a, b])) for b in range(f)] for a in range(f)]
    q = [Fraction(float(v)) for v in problem.q[0]]
    lam = Fraction(problem.lam)
    best = Fraction(problem.yy) / 2
    for S in combinations(range(f), problem.structure.max_terms):
        rows = [[G[a][b] + (lam if a == b else 0) for b in S] + [q[a]] for a in S]
        for i in range(len(S)):
            rows[i] = [v / rows[i][i] for v in rows[i]]
            for j in range(len(S)):
                if j != i:
                    rows[j] = [u - rows[j][i] * v for u, v in zip(rows[j], rows[i], strict=True)]
        explained = sum(q[a] * row[-1] for a, row in zip(S, rows, strict=True))
        best = min(best, (Fraction(problem.yy) - explained) / 2)
    return best


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("engine", ["enumeration", "tree", "local-search"])
def test_no_bound_above_the_optimum_where_columns_are_nearly_collinear(engine, noise):
    problem = far_from_zero(noise)
    solution = make_engine(engine).solve(problem, time=TimeBudget(10.0), gap_tol=1e-4)
    assert Fraction(solution.bound) <= exact_optimum(problem)


def test_the_bound_of_a_residual_is_rounded_down():
    problem = far_from_zero(noise=False)
    least = exact_optimum(problem)
    for support in combinations(range(problem.size), 3):
        fit = problem.refit(np.array(support))
        assert Fraction(problem.dual_bound(fit)) <= least


@pytest.mark.parametrize("engine", ["enumeration", "cutting-planes-multitree", "tree"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounding_does_not_cost_the_answer(engine):
    rng = np.random.default_rng(1)
    x = 100.0 + rng.random((25, 1))
    y = (x**3 - 300.0 * x**2 + 30000.0 * x - 1e6)[:, 0]
    model = SparsePolynomialRegressor(4, 3, gamma=1e14, engine=engine, time_limit=5.0)
    assert model.fit(x, y).score(x, y) > 0.999
