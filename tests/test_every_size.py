"""Supports of every size: allowed, at a local optimum, mostly as good as enumeration's."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from instances import make_instance, optimum
from support import Basis, Problem, Structure, SwapState, accumulate, inner

every_size = inner("every_size", "local_search")
improve = inner("improve", "local_search")
narrowed = inner("narrowed", "local_search")


def cost(problem: Problem, support: np.ndarray) -> float:
    return problem.refit(support).objective


def budgets(problem: Problem, terms: int, inputs: int | None = None) -> Problem:
    structure = problem.structure
    k = structure.n_inputs if inputs is None else inputs
    return replace(problem, structure=replace(structure, max_terms=terms, max_inputs=k))


def law(n: int = 80, p: int = 4, r: int = 3, seed: int = 0) -> tuple[Basis, Problem]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    basis = Basis.full(p, r, constant=False)
    y = X[:, 0] ** 2 * X[:, 1] - 2.0 * X[:, 2] + 0.5 * X[:, p - 1] + 0.1 * rng.standard_normal(n)
    m = accumulate(basis, X, y)
    return basis, Problem.dense(m.scatter, m.cross, m.spread, 1.0, Structure.of_basis(basis, 6))


@pytest.mark.parametrize("seed", range(60))
def test_every_size_is_allowed_and_never_beats_enumeration(seed: int) -> None:
    problem = make_instance(seed).problem
    structure, best = problem.structure, optimum(problem).objective
    supports = every_size(problem)
    assert len(supports) == structure.max_terms
    for size, support in enumerate(supports, start=1):
        assert len(set(support.tolist())) == len(support)
        assert replace(structure, max_terms=size).allows(support) or not len(support)
    assert len(support) or structure.plain  # the largest size can be had
    assert cost(problem, support) >= best - 1e-6 * problem.yy


def test_sizes_too_small_for_the_rules_are_empty() -> None:
    basis, problem = law()
    structure = Structure.of_basis(basis, 4, required_inputs=(0, 1, 2, 3), heredity="strong")
    supports = every_size(replace(problem, structure=structure))
    assert [len(support) > 0 for support in supports] == [False, False, False, True]
    impossible = replace(structure, max_terms=3)
    assert [len(s) for s in every_size(replace(problem, structure=impossible))] == [0, 0, 0]


def test_most_small_problems_are_solved_to_the_optimum() -> None:
    problems = [make_instance(seed).problem for seed in range(60)]
    solved = [
        cost(problem, every_size(problem)[-1]) <= optimum(problem).objective + 1e-6 * problem.yy
        for problem in problems
    ]
    assert np.mean(solved) >= 0.8


def test_no_single_swap_improves() -> None:
    _, problem = law()
    for support in every_size(problem):
        value = cost(problem, support)
        for i in support:
            for j in np.setdiff1d(np.arange(problem.size), support):
                other = cost(problem, np.append(support[support != i], j))
                assert other >= value * (1.0 - 1e-7)


def test_the_planted_law_is_found_and_the_objective_falls() -> None:
    basis, problem = law()
    supports = every_size(budgets(problem, 8))
    assert {basis.monomials[j] for j in supports[2]} == {(0, 0, 1), (2,), (3,)}
    assert np.all(np.diff([cost(problem, support) for support in supports]) < 0.0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_budgets_of_inputs_hold_and_wider_ones_help(k: int) -> None:
    _, problem = law(seed=3)
    narrow = budgets(problem, 6, k)
    alone = every_size(narrow)
    helped = every_size(narrow, wider=every_size(budgets(problem, 6, k + 1)))
    for size, support in enumerate(helped, start=1):
        assert int(problem.structure.inputs_of(support).sum()) <= k
        assert len(support) <= size
    assert cost(problem, helped[-1]) <= cost(problem, alone[-1]) * (1.0 + 1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_inputs_given_up_are_those_missed_least(k: int) -> None:
    """One input after the other, each by refitting without it."""
    _, problem = law(p=5, r=3, seed=4)
    uses = problem.structure.uses
    support = every_size(budgets(problem, 12))[-1]
    expected = support
    while len(inputs := np.flatnonzero(uses[expected].any(axis=0))) > k:
        rests = [expected[~uses[expected, i]] for i in inputs]
        expected = min(rests, key=lambda rest: cost(problem, rest))
    model = SwapState(budgets(problem, 12, k), 12)
    np.testing.assert_array_equal(narrowed(model, support), expected)


def test_two_inputs_are_chosen_as_enumeration_would() -> None:
    basis, problem = law(p=3, r=2, seed=5)
    values = []
    for inputs in combinations(range(3), 2):
        inside = [j for j, m in enumerate(basis.monomials) if set(m) <= set(inputs)]
        values += [cost(problem, np.array(support)) for support in combinations(inside, 3)]
    supports = every_size(budgets(problem, 3, 2), wider=every_size(budgets(problem, 3)))
    assert cost(problem, supports[-1]) == pytest.approx(min(values), rel=1e-9)


def test_equal_columns_are_used_once() -> None:
    basis, problem = law()
    f = problem.size
    twice = np.tile(np.arange(f), 2)
    monomials = Structure(np.tile(basis.uses, (2, 1)), 10, 4)
    double = Problem.dense(
        problem.gram.block(twice, twice), problem.q[:, twice], problem.yy, 1e-9, monomials
    )
    for support in (every_size(double)[-1], improve(double, twice[:0]).support):
        assert len(set((support % f).tolist())) == len(support) == 10


@pytest.mark.parametrize("k", [None, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_no_size_is_worse_than_the_next_one_without_its_least_term(
    seed: int, k: int | None
) -> None:
    rng = np.random.default_rng(seed)
    X = 2.0 + rng.random((60, 5))  # far from zero: monomials resemble each other
    basis = Basis.full(5, 3, constant=False)
    m = accumulate(basis, X, X[:, 0] * X[:, 1] + X[:, 2] ** 2 * X[:, 3] + rng.normal(size=60))
    structure = Structure.of_basis(basis, 12, k)
    problem = Problem.dense(m.scatter, m.cross, m.spread, 0.01, structure)
    for small, large in pairwise(every_size(problem)):
        shorter = min(cost(problem, np.delete(large, a)) for a in range(len(large)))
        assert cost(problem, small) <= shorter * (1.0 + 1e-9)
        assert structure.allows(large)


def test_where_time_runs_out_there_are_fewer_sizes() -> None:
    _, problem = law()
    few = every_size(budgets(problem, 30), out_of_time=lambda: True)
    assert [len(support) for support in few] == list(range(1, len(few) + 1))
    assert len(few) < 30
