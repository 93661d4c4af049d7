"""Several responses with one support: against enumeration, and behind scikit-learn's interface."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

from polysharp import MultiTaskSparsePolynomialRegressor, SparsePolynomialRegressor
from polysharp.engines.base import Limits
from polysharp.engines.joint import JointTree
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.joint import JointProblem
from polysharp.problem.problem import Problem


def joint_problem(seed):
    """A random problem of up to three responses under random rules."""
    rng = np.random.default_rng(seed)
    p, n, count = int(rng.integers(2, 5)), int(rng.integers(4, 40)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    basis = Basis.full(p, 2, constant=False)
    heredity = rng.choice([None, "weak", "strong"])
    structure = Structure.of_basis(
        basis,
        int(rng.integers(1, 4)),
        int(rng.integers(1, p + 1)),
        heredity=None if heredity == "None" else heredity,
        required_terms=[(0,)] if rng.random() < 0.3 else [],
    )
    M = basis.evaluate(X)
    Y = rng.standard_normal((count, n)) + M[:, :2] @ rng.standard_normal(2)
    lam, G = 10.0 ** rng.uniform(-4, 2), M.T @ M
    return JointProblem.of([Problem.dense(G, M.T @ y, float(y @ y), lam, structure) for y in Y])


def least_cost(problem):
    """The referee: every support."""
    structure = problem.structure
    supports = (
        np.array(chosen, dtype=np.intp)
        for size in range(structure.max_terms + 1)
        for chosen in combinations(range(problem.size), size)
    )
    return min(problem.refit(S).objective for S in supports if structure.allows(S))


def agrees_with_enumeration(seed):
    problem = joint_problem(seed)
    least = least_cost(problem)
    solution = JointTree().solve(problem, limits=Limits(20.0, 1e-6))
    assert solution.bound <= least * (1.0 + 1e-12)
    assert_allclose(solution.objective, least, rtol=1e-6, atol=1e-12 * problem.yy)
    assert solution.gap <= 1e-6 or solution.objective - solution.bound <= 1e-9 * problem.yy


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_agrees_with_enumeration(seed):
    agrees_with_enumeration(seed)


@pytest.mark.slow
def test_the_tree_agrees_with_enumeration_a_thousand_times():
    for seed in range(1000, 2000):
        agrees_with_enumeration(seed)


def test_one_response_is_the_plain_problem():
    problem = joint_problem(3)
    own = problem.responses[0]
    alone = JointProblem.of([own])
    S = own.structure.best_linear(own.q**2)
    assert_allclose(alone.refit(S).objective, own.refit(S).objective)
    assert_allclose(alone.dual_bound(alone.refit(S)), own.dual_bound(own.refit(S)), rtol=1e-9)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    terms = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])
    Y = terms @ np.array([[3.0, -2.0, 1.0], [100.0, 0.0, 5.0]]) + [1.0, 2.0, 3.0]
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


def test_responses_share_terms_and_keep_their_units(rows):
    X, Y = rows
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e3).fit(X, Y)
    assert {polynomial.term_names for polynomial in model.polynomials_} == {("x2", "x0 x1")}
    assert model.solution_.status == "optimal"
    assert_allclose(model.predict(X), Y, atol=0.4)
    assert_allclose(model.intercept_, [1.0, 2.0, 3.0], atol=0.05)
    assert model.score(X, Y) > 0.99


def test_the_terms_are_those_that_serve_all_responses_together():
    """Each response alone would choose another term."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 3))
    Y = np.column_stack([X[:, 0] + 0.9 * X[:, 1], X[:, 2] + 0.9 * X[:, 1]])
    model = MultiTaskSparsePolynomialRegressor(degree=1, max_terms=1, gamma=10.0).fit(X, Y)
    assert model.get_feature_names_out().tolist() == ["x1"]
    for t, own in enumerate(("x0", "x2")):
        alone = SparsePolynomialRegressor(degree=1, max_terms=1, gamma=10.0).fit(X, Y[:, t])
        assert alone.get_feature_names_out().tolist() == [own]


def test_names_of_data_frames_are_kept(rows):
    pandas = pytest.importorskip("pandas")
    X, Y = rows
    frame = pandas.DataFrame(X, columns=list("abcd"))
    responses = pandas.DataFrame(Y, columns=["speed", "heat", "mass"])
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma="auto")
    first = model.fit(frame, responses).polynomials_[0]
    assert str(first).startswith("speed = ")
    assert first.term_names == ("c", "a b")


def test_weights_count_rows(rows):
    X, Y = rows
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=3, gamma=1.0)
    weighted = model.fit(X, Y, sample_weight=weights).predict(X)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "responses", "sentence"),
    [
        ({}, 1, "two dimensions"),
        ({"engine": "big-m"}, 2, "engine must be 'auto' or 'tree'"),
    ],
)
def test_what_is_refused(rows, settings, responses, sentence):
    X, Y = rows
    y = Y[:, 0] if responses == 1 else Y
    with pytest.raises(InputError, match=sentence):
        MultiTaskSparsePolynomialRegressor(**settings).fit(X, y)


@parametrize_with_checks(
    [MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0, time_limit=5.0)]
)
def test_conventions(estimator, check):
    check(estimator)
