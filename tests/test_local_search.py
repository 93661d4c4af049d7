"""Local search: closed forms against refits, every rule kept, planted laws found."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from instances import make_instance, optimum
from support import (
    REFRESH,
    Basis,
    BestBySize,
    Boxes,
    DesignGram,
    Heredity,
    LocalSearch,
    Problem,
    Stop,
    StreamedGram,
    Structure,
    SwapState,
    SwapTask,
    TabuTask,
    TimeBudget,
    forward,
    inner,
    restarts,
)

from polysharp.synthetic import make_sparse_polynomial

improve = inner("improve", "local_search")

SEEDS = range(60)


def planted(
    n: int,
    p: int,
    degree: int,
    terms: int,
    seed: int,
    *,
    inputs: int | None = None,
    max_inputs: int | None = None,
    heredity: Heredity = None,
    gamma: float | None = None,
) -> tuple[Problem, np.ndarray]:
    data = make_sparse_polynomial(n, p, degree, inputs, terms, 20.0, seed)
    basis = Basis.full(p, degree)
    M = basis.evaluate(data.X)
    truth = np.array(sorted(basis.index[m] for m in data.monomials))
    structure = Structure.of_basis(basis, terms, max_inputs, heredity=heredity)
    lam = np.sqrt(n) if gamma is None else 1.0 / gamma
    return Problem.dense(M.T @ M, M.T @ data.y, float(data.y @ data.y), lam, structure), truth


def random_model(seed: int) -> tuple[Problem, SwapState, np.random.Generator]:
    rng = np.random.default_rng(seed)
    problem, _ = planted(30, 3, 3, 5, seed)
    model = SwapState(problem, 6)
    model.load(rng.choice(problem.size, size=4, replace=False))
    return problem, model, rng


def swap(problem: Problem, support: np.ndarray) -> np.ndarray:
    """Single swaps alone."""
    model = SwapState(problem, len(support))
    model.load(support)
    while not model.fill_and_swap(SwapTask(len(support), len(support), problem.resolution, 0.0)):
        pass
    return np.sort(model.support)


@pytest.mark.parametrize("seed", range(5))
def test_gains_and_costs_are_those_of_refits(seed: int) -> None:
    problem, model, _ = random_model(seed)
    support, gains, costs = model.support, model.gains(), model.costs()
    here = problem.refit(support).objective
    assert model.objective == pytest.approx(here, rel=1e-10)
    for j in range(problem.size):
        grown = problem.refit(np.union1d(support, [j])).objective
        assert gains[j] == pytest.approx(here - grown, abs=1e-9 * problem.yy)
    for slot, i in enumerate(support):
        rest = support[support != i]
        assert costs[slot] == pytest.approx(problem.refit(rest).objective - here)


@pytest.mark.parametrize("seed", range(5))
def test_the_swap_taken_is_the_best_of_all(seed: int) -> None:
    problem, model, _ = random_model(seed)
    support, before = model.support, model.objective
    swaps = [
        problem.refit(np.append(support[support != i], j)).objective
        for i in support
        for j in np.setdiff1d(np.arange(problem.size), support)
    ]
    # Only the best swap gains nearly as much as it.
    model.fill_and_swap(SwapTask(4, 4, 0.999 * (before - min(swaps)), 0.0))
    assert len(set(model.support) & set(support)) == 3
    assert model.objective == pytest.approx(min(swaps))


@pytest.mark.parametrize("seed", range(3))
def test_a_model_after_many_moves_is_a_fresh_one(seed: int) -> None:
    problem, model, rng = random_model(seed)
    draws = rng.integers(4, size=(REFRESH - 4, 2))
    made, stuck = model.walk(TabuTask(0, -np.inf, draws, np.zeros(problem.size, dtype=np.int64)))
    assert (made, stuck) == (REFRESH - 4, False)
    model.fill_and_swap(SwapTask(3, 3, np.inf, 0.0, drop=1), BestBySize.blank(3, 6))
    assert len(model.support) == 3
    fresh = SwapState(problem, 6)
    fresh.load(model.support)
    fit = problem.refit(model.support)
    count = len(fit.support)
    assert model.objective == pytest.approx(fit.objective, rel=1e-8)
    np.testing.assert_allclose(np.sort(model.state.w[0, :count]), np.sort(fit.w[0]), rtol=1e-7)
    np.testing.assert_allclose(
        model.state.z, fresh.state.z, atol=1e-9 * float(np.abs(problem.q).max())
    )
    np.testing.assert_allclose(model.gains(), fresh.gains(), atol=1e-9 * problem.yy)


@pytest.mark.parametrize("bounded", [False, True])
def test_gains_beyond_all_numbers_are_infinite_and_those_of_members_zero(bounded: bool) -> None:
    """A gain that overflows, times zero for a member, was no number and a warning."""
    structure = Structure.of_basis(Basis.full(3, 1, constant=False), 2)
    if bounded:
        structure = replace(structure, boxes=Boxes(np.full(3, -np.inf), np.full(3, np.inf)))
    G = np.diag([1.0, 1e-160, 1.0])
    problem = Problem.dense(G, np.array([1e200, 1e200, 1.0]), 1e300, 1e-170, structure)
    state = SwapState(problem, 2, np.array([0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert state.gains().tolist() == [0.0, np.inf, 0.5]


def test_a_duplicate_of_a_member_gains_nothing() -> None:
    G = np.array([[2.0, 2.0, 0.5], [2.0, 2.0, 0.5], [0.5, 0.5, 1.0]])
    structure = Structure.of_basis(Basis.full(3, 1, constant=False), 2)
    problem = Problem.dense(G, np.array([1.0, 1.0, 0.1]), 1.0, 1e-13, structure)
    model = SwapState(problem, 2)
    model.load(np.array([0]))
    assert model.gains()[1] == 0.0
    assert forward(problem).support.tolist() in ([0, 2], [1, 2])
    model.load(np.array([0, 1]))  # singular, yet defined
    assert model.objective == pytest.approx(problem.refit(np.array([0])).objective, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_search_keeps_the_rules_and_never_rises(seed: int) -> None:
    instance = make_instance(seed)
    problem, structure = instance.problem, instance.problem.structure
    best, slack = optimum(problem).objective, 1e-9 * problem.yy
    first = forward(problem)
    second = improve(problem, first.support)
    third = restarts(problem, second.support, np.random.default_rng(0), 2)
    chain = [0.5 * problem.yy, *(fit.objective for fit in (first, second, third))]
    for fit, above, here in zip((first, second, third), chain, chain[1:], strict=False):
        assert structure.allows(fit.support), instance.label
        assert here == pytest.approx(problem.refit(fit.support).objective, rel=1e-12)
        assert best - slack <= here <= above + slack, instance.label


@pytest.mark.parametrize("seed", SEEDS)
def test_no_allowed_swap_improves_the_result(seed: int) -> None:
    problem = make_instance(seed).problem
    fit = improve(problem, forward(problem).support)
    for i in fit.support:
        for j in np.setdiff1d(np.arange(problem.size), fit.support):
            other = np.append(fit.support[fit.support != i], j)
            if problem.structure.allows(other):
                # Collinear candidates count as gaining nothing, hence the margin.
                assert problem.refit(other).objective >= fit.objective - 1e-6 * problem.yy


def test_swaps_recover_a_law_from_a_bad_start() -> None:
    problem, truth = planted(200, 8, 3, 6, 1)
    bad = np.setdiff1d(np.arange(problem.size), truth)[:6]
    np.testing.assert_array_equal(swap(problem, bad), truth)


def test_exchanging_inputs_finds_a_law_when_k_binds() -> None:
    problem, truth = planted(200, 12, 3, 8, 0, inputs=4, max_inputs=4)
    wrong = np.setdiff1d(np.arange(12), np.flatnonzero(problem.structure.inputs_of(truth)))[:4]
    start = np.flatnonzero(problem.structure.uses[:, wrong].any(axis=1))[:4]
    assert problem.structure.allows(start)
    np.testing.assert_array_equal(improve(problem, start).support, truth)


def test_families_join_together_under_strong_heredity() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = 5.0 * X[:, 0] * X[:, 1] + 2.0 * (X[:, 2] + X[:, 3] + X[:, 2] * X[:, 3])
    basis = Basis.full(4, 2, constant=False)
    M = basis.evaluate(X)
    structure = Structure.of_basis(basis, 3, heredity="strong")
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 1.0, structure)
    best = [basis.index[m] for m in ((0,), (1,), (0, 1))]
    np.testing.assert_array_equal(improve(problem, np.zeros(0, dtype=np.intp)).support, best)
    local = np.array([basis.index[m] for m in ((2,), (3,), (2, 3))])
    np.testing.assert_array_equal(swap(problem, local), local)
    np.testing.assert_array_equal(improve(problem, local).support, best)


def test_a_walk_leaves_out_for_a_while_what_has_just_left() -> None:
    problem, _ = planted(60, 10, 3, 12, 3)
    model = SwapState(problem, 12)
    model.load(forward(problem).support)
    until, draws = np.zeros(problem.size, dtype=np.int64), np.full((1, 2), [[100, 0]])
    left: set[int] = set()
    for step in range(8):
        before = set(model.support.tolist())
        assert model.walk(TabuTask(step, -np.inf, draws, until)) == (1, False)
        gone, joined = before - set(model.support), set(model.support) - before
        assert len(gone) == 1
        assert not joined & left
        left |= gone
    # A record may be broken with what has just left.
    until[:] = 100
    assert model.walk(TabuTask(9, np.inf, draws, until)) == (0, True)
    until[model.support[0]] = 0
    assert model.walk(TabuTask(9, np.inf, draws, until)) == (1, False)
    until[:] = 100
    until[model.support[0]] = 0
    assert model.walk(TabuTask(9, -np.inf, draws, until)) == (0, True)


def test_walks_find_a_law_that_swaps_miss() -> None:
    problem, truth = planted(60, 10, 3, 12, 3)
    stuck = improve(problem, forward(problem).support)
    target = problem.refit(truth).objective
    assert stuck.objective > 1.5 * target
    found = restarts(problem, stuck.support, np.random.default_rng(0), 40)
    assert found.objective <= target * (1.0 + 1e-12)


def test_where_nothing_gains_the_support_stays_empty() -> None:
    problem, _ = planted(60, 4, 2, 3, 0)
    nothing = replace(problem, q=0.0 * problem.q)
    none = forward(nothing).support
    assert len(none) == 0
    assert len(restarts(nothing, none, np.random.default_rng(0), 2).support) == 0


def test_the_form_of_the_gram_matrix_does_not_matter() -> None:
    data = make_sparse_polynomial(80, 4, 3, None, 5, 20.0, 0)
    basis = Basis.full(4, 3)
    M = basis.evaluate(data.X)
    dense = Problem.dense(
        M.T @ M, M.T @ data.y, float(data.y @ data.y), 9.0, Structure.of_basis(basis, 5)
    )
    streamed = StreamedGram(
        basis, data.X, np.ones(80), np.zeros(len(basis)), dense.gram.diagonal.copy()
    )
    supports = []
    for gram in (dense.gram, DesignGram.of(M), streamed):
        problem = Problem(gram, dense.q, dense.squares, dense.lam, dense.structure)
        fit = improve(problem, forward(problem).support)
        supports.append(restarts(problem, fit.support, np.random.default_rng(0), 1).support)
    np.testing.assert_array_equal(supports[0], supports[1])
    np.testing.assert_array_equal(supports[0], supports[2])


def test_time_is_respected() -> None:
    problem, _ = planted(60, 10, 3, 12, 3)
    start = forward(problem).support
    fit = improve(problem, start, out_of_time=lambda: True)
    np.testing.assert_array_equal(fit.support, start)
    fit = restarts(problem, start, np.random.default_rng(0), 10**9, out_of_time=lambda: True)
    np.testing.assert_array_equal(fit.support, start)
    answer = LocalSearch(patience=10**9).solve(problem, time=TimeBudget(0.1))
    assert answer.stop is Stop.TIME


def test_the_engine_counts_its_walks_and_says_why_it_stopped() -> None:
    problem, truth = planted(200, 8, 3, 6, 1)
    answer = LocalSearch(patience=2).solve(problem, seed=5)
    assert answer.stop is Stop.LOCAL
    assert answer.support == tuple(truth)
    assert answer.counters.rounds >= 2
    assert answer.bound > 0.0
