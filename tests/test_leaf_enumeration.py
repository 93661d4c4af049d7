"""Leaf enumeration against plain enumeration, under all rules."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from support import (
    CUT_FROM,
    Basis,
    LeafQuery,
    LeafResult,
    Problem,
    Structure,
    SupportRules,
    count_tests,
    enumerate_depth_first,
    enumerate_leaf,
    heredity_closed,
    inner,
    is_small,
    least_cost,
    propagate,
    rounding_slack,
    slack_of_all,
    support_rules,
)

MOST_LISTED = 5_000
FREE = inner("FREE", "problem")
IN = inner("IN", "problem")
OUT = inner("OUT", "problem")

RULES = ("plain", "inputs", "strong", "weak", "required", "all")


def compiled(
    H: np.ndarray, b: np.ndarray, budget: int, task: LeafQuery, rules: SupportRules
) -> LeafResult:
    """Try all choices with the compiled search, however few they are."""
    root, L = np.sqrt(np.diagonal(H)), min(budget, len(b))
    H = H / np.multiply.outer(root, root)
    result = enumerate_depth_first(H, b / root, L, task, rules, MOST_LISTED, lambda: False)
    assert result is not None
    return result


def enumerated(
    H: np.ndarray,
    b: np.ndarray,
    budget: int,
    task: LeafQuery,
    rules: SupportRules,
    most: int = MOST_LISTED,
    expired: Callable[[], bool] = lambda: False,
) -> LeafResult | None:
    """Try all choices, side by side if they are few."""
    return enumerate_leaf(H, b[None], budget, task, rules, most, expired)


either_way = pytest.mark.parametrize("enumerate_leaf", [enumerated, compiled])


def ruled(kind: str, seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a small problem under rules, and the states of monomials and inputs below a node."""
    rng = np.random.default_rng([seed, RULES.index(kind)])
    heredity = {"strong": "strong", "weak": "weak", "all": "weak"}.get(kind)
    basis = heredity_closed(Basis.full(3, 2).filter(bool), heredity)
    structure = Structure.of_basis(
        basis,
        int(rng.integers(1, 6)),
        2 if kind in {"inputs", "all"} else None,
        required_terms=[(0,)] if kind in {"required", "all"} else [],
        required_inputs=[1] if kind in {"required", "all"} else [],
        heredity=heredity,
    )
    X = rng.standard_normal((12, 3))
    M = basis.evaluate(X)
    y = M @ (rng.standard_normal(len(basis)) * (rng.random(len(basis)) < 0.4))
    y += rng.standard_normal(12)
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 10.0 ** rng.uniform(-3, 1), structure)
    terms, inputs = np.zeros(len(basis), dtype=np.int8), np.zeros(3, dtype=np.int8)
    terms[structure.required_terms] = IN
    free = rng.permutation(np.flatnonzero(terms == FREE))
    terms[free[: seed % 2]] = IN
    terms[free[2 : 2 + (seed % 3 == 0)]] = OUT
    return problem, terms, inputs


def below(problem: Problem, terms: np.ndarray, cost: float) -> set[tuple[int, ...]]:
    """Return the supports below a node that cost less, one after the other."""
    fixed_in, free = np.flatnonzero(terms == IN).tolist(), np.flatnonzero(terms == FREE).tolist()
    chosen = (
        tuple(sorted((*fixed_in, *more)))
        for size in range(problem.structure.max_terms - len(fixed_in) + 1)
        for more in combinations(free, size)
    )
    return {
        S
        for S in chosen
        if problem.structure.allows(np.array(S, dtype=np.intp))
        and problem.refit(np.array(S, dtype=np.intp)).objective < cost
    }


@either_way
@pytest.mark.parametrize("kind", RULES)
def test_what_costs_less_is_listed(kind: str, enumerate_leaf: Callable[..., LeafResult]) -> None:
    """Every allowed support below the threshold is listed or is no better than one that is."""
    for seed in range(60):
        problem, terms, inputs = ruled(kind, seed)
        if not propagate(problem.structure, terms, inputs):
            continue
        fixed_in, free = np.flatnonzero(terms == IN), np.flatnonzero(terms == FREE)
        budget = problem.structure.max_terms - len(fixed_in)
        if not len(free) or budget < 1:
            continue
        H = problem.gram.block(np.arange(problem.size), np.arange(problem.size))
        H[np.diag_indices_from(H)] += problem.lam
        solved = np.linalg.solve(H[np.ix_(fixed_in, fixed_in)], H[np.ix_(fixed_in, free)])
        schur = H[np.ix_(free, free)] - H[np.ix_(free, fixed_in)] @ solved
        b = problem.q[0, free] - problem.q[0, fixed_in] @ solved
        base = problem.refit(fixed_in).objective
        target = base * np.random.default_rng(seed).uniform(0.3, 1.0)
        result = enumerate_leaf(
            schur, b, budget, LeafQuery(base - target, base, 1e-6),
            support_rules(problem.structure, terms, inputs),
        )  # fmt: skip
        assert result is not None
        listed = {
            tuple(sorted((*fixed_in.tolist(), *free[row[row >= 0]].tolist())))
            for row in result.hits
        }
        better = below(problem, terms, target * (1.0 - 1e-9)) - {tuple(fixed_in.tolist())}
        costs = [problem.refit(np.array(S)).objective for S in listed]
        assert all(problem.structure.allows(np.array(S)) for S in listed)
        assert bool(listed) == bool(better) or not better
        if better:
            best = min(problem.refit(np.array(S)).objective for S in better)
            assert min(costs) <= best * (1.0 + 2e-6)
            assert base - result.need <= best * (1.0 + 1e-9)


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_few_choices_are_listed_as_the_compiled_search_lists_them(budget: int) -> None:
    """Side by side or depth first: the same supports and need; up to three terms the same order."""
    rng = np.random.default_rng(budget)
    for size in (budget, budget + 1, 9, 15):
        assert is_small(size, budget)
        M = rng.standard_normal((40, size)) + rng.standard_normal((40, 1))
        y = M @ rng.standard_normal(size) + rng.standard_normal(40)
        H, b, cost = M.T @ M + np.eye(size), M.T @ y, 0.5 * float(y @ y)
        structure = Structure(np.ones((size, 1), dtype=bool), budget, 1)
        rules = support_rules(structure, np.zeros(size, dtype=np.int8), np.zeros(1, dtype=np.int8))
        for need in rng.uniform(0.0, 0.5 * float(b @ np.linalg.solve(H, b)), 5):
            # With no room what is listed depends on what comes first.
            for room in (0.0, np.inf) if budget < CUT_FROM else (np.inf,):
                task = LeafQuery(need, cost, 1e-3, room)
                mine, theirs = (
                    enumerated(H, b, budget, task, rules),
                    compiled(H, b, budget, task, rules),
                )
                assert mine is not None
                listed = [np.sort(own.hits, axis=1).tolist() for own in (mine, theirs)]
                if budget >= CUT_FROM:
                    listed = [sorted(own) for own in listed]
                assert listed[0] == listed[1]
                assert mine.need == pytest.approx(theirs.need, rel=1e-12)


def test_more_than_may_be_listed_is_no_result() -> None:
    structure = Structure(np.ones((9, 1), dtype=bool), 2, 1)
    rules = support_rules(structure, np.zeros(9, dtype=np.int8), np.zeros(1, dtype=np.int8))
    task = LeafQuery(0.0, 100.0, 0.0, room=np.inf)
    assert enumerated(np.eye(9), np.ones(9), 2, task, rules, most=35) is None
    result = enumerated(np.eye(9), np.ones(9), 2, task, rules, most=36)
    assert result is not None
    assert len(result.hits) == 36


def test_enumeration_gives_up_where_too_many_supports_come_close() -> None:
    """A threshold that everything beats is no end."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((200, 40))
    H, b = M.T @ M + np.eye(40), M.T @ rng.standard_normal(200)
    structure = Structure(np.ones((40, 1), dtype=bool), 4, 1)
    rules = support_rules(structure, np.zeros(40, dtype=np.int8), np.zeros(1, dtype=np.int8))
    assert enumerated(H, b, 4, LeafQuery(-1.0, -1.0, 1.0), rules) is None


@either_way
def test_slack_covers_what_elimination_loses(enumerate_leaf: Callable[..., LeafResult]) -> None:
    """Gains of nearly dependent monomials differ from exact ones by less than the slack."""
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-6):
        base = rng.standard_normal((30, 1))
        M = base + size * rng.standard_normal((30, 6))
        y = rng.standard_normal(30)
        G, q = M.T @ M, M.T @ y
        problem = Problem.dense(
            G, q, float(y @ y), 1e-8, Structure(np.ones((6, 1), dtype=bool), 3, 1)
        )
        H = G + 1e-8 * np.eye(6)
        rules = support_rules(
            problem.structure, np.zeros(6, dtype=np.int8), np.zeros(1, dtype=np.int8)
        )
        result = enumerate_leaf(H, q, 3, LeafQuery(0.0, 0.5 * float(y @ y), 0.0), rules)
        assert result is not None
        slack = rounding_slack(problem.system(np.arange(6), G), 1e-8 / float(np.diag(H).max()), 3)
        costs = [least_cost(problem, problem.refit(np.array(S))) for S in combinations(range(6), 3)]
        assert abs(0.5 * float(y @ y) - result.need - min(costs)) <= 2.0 * slack


@either_way
@pytest.mark.parametrize("budget", [3, 4, 5, 6])
def test_no_support_is_passed_over_that_gains_enough(
    budget: int, enumerate_leaf: Callable[..., LeafResult]
) -> None:
    """What all later monomials together cannot reach is left out, and nothing else is."""
    size, rng = 11, np.random.default_rng(budget)
    structure = Structure(np.ones((size, 1), dtype=bool), budget, 1)
    rules = support_rules(structure, np.zeros(size, dtype=np.int8), np.zeros(1, dtype=np.int8))
    for strength in (0.3, 1.0, 3.0):
        # Correlated columns of very different strength: some prefixes decide, others do not.
        M = rng.standard_normal((60, size)) + rng.standard_normal((60, 1))
        y = M @ (rng.standard_normal(size) * np.geomspace(strength, 0.01, size))
        y += rng.standard_normal(60)
        H, b = M.T @ M + np.eye(size), M.T @ y
        sets = np.array(list(combinations(range(size), budget)))
        A, c = H[sets[:, :, None], sets[:, None, :]], b[sets]
        gains = 0.5 * np.einsum("sj,sj->s", c, np.linalg.solve(A, c[:, :, None])[:, :, 0])
        need = float(np.sort(gains)[-40]) * (1.0 - 1e-12)
        everything = LeafQuery(need, 0.5 * float(y @ y), 0.0, room=np.inf)
        for order in (np.arange(size), rng.permutation(size)):
            result = enumerate_leaf(H[np.ix_(order, order)], b[order], budget, everything, rules)
            assert result is not None
            listed = {tuple(sorted(order[row].tolist())) for row in result.hits}
            assert listed == {tuple(S) for S in sets[gains > need].tolist()}


@pytest.mark.parametrize("near", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("budget", [4, 5, 6, 7])
def test_passing_over_allows_for_rounding(budget: int, near: float) -> None:
    """Of nearly collinear columns too, whatever gains enough is listed, levels in every order."""
    size, rng = 12, np.random.default_rng([budget, round(1 / near)])
    structure = Structure(np.ones((size, 1), dtype=bool), budget, 1)
    rules = support_rules(structure, np.zeros(size, dtype=np.int8), np.zeros(1, dtype=np.int8))
    common = rng.standard_normal((40, 3)) @ rng.standard_normal((3, size))
    M = common + near * rng.standard_normal((40, size))
    y = M @ rng.standard_normal(size) / near + 0.1 * rng.standard_normal(40)
    lam = near**2
    G, q, yy = M.T @ M, M.T @ y, float(y @ y)
    problem = Problem.dense(G, q, yy, lam, structure)
    sets = np.array(list(combinations(range(size), budget)))
    costs = np.array([problem.refit(S).objective for S in sets])
    system = problem.system(np.arange(size), G)
    least = lam / (float(np.diag(G).max()) + lam)
    doubt = slack_of_all(system, least, size, budget)
    target = float(np.sort(costs)[5])
    slack = rounding_slack(system, least, budget)
    task = LeafQuery(0.5 * yy - target - slack, 0.5 * yy, 0.0, room=np.inf, doubt=doubt)
    result = enumerated(G + lam * np.eye(size), q, budget, task, rules)
    assert result is not None
    listed = {tuple(sorted(row.tolist())) for row in result.hits}
    assert {tuple(S) for S in sets[costs < target].tolist()} <= listed


def test_enumeration_gives_up_where_the_work_is_too_much() -> None:
    """As many pairs as were asked for, and no more."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((200, 40))
    H, b = M.T @ M + np.eye(40), M.T @ rng.standard_normal(200)
    structure = Structure(np.ones((40, 1), dtype=bool), 4, 1)
    rules = support_rules(structure, np.zeros(40, dtype=np.int8), np.zeros(1, dtype=np.int8))
    task = LeafQuery(0.5 * float(b @ np.linalg.solve(H, b)) * 0.3, 100.0, 0.0)
    assert enumerated(H, b, 4, task, rules) is not None
    assert enumerated(H, b, 4, task._replace(work=1e4), rules) is None


def test_a_long_enumeration_stops_when_the_time_is_up() -> None:
    """Noise on 90 monomials, most of them needed together, and a clock that runs out at once."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((100, 90))
    H, b = M.T @ M + np.eye(90), M.T @ rng.standard_normal(100)
    structure = Structure(np.ones((90, 1), dtype=bool), 12, 1)
    rules = support_rules(structure, np.zeros(90, dtype=np.int8), np.zeros(1, dtype=np.int8))
    task, looks = LeafQuery(0.2 * float(b @ np.linalg.solve(H, b)), 100.0, 0.0), []
    result = enumerated(H, b, 12, task, rules, expired=lambda: not looks.append(0))
    assert result is None
    assert 1 <= len(looks) < 20


def test_tests_grow_with_the_choice() -> None:
    """The estimate follows the binomial coefficient."""
    assert count_tests(164, 4) > 10 * count_tests(164, 3) > 100 * count_tests(164, 2)


@either_way
@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_where_nothing_is_left_to_gain_every_support_is_listed(
    budget: int, enumerate_leaf: Callable[..., LeafResult]
) -> None:
    """Equal columns and a need that rounding has pushed far below zero."""
    size, rng = 5, np.random.default_rng(0)
    column = rng.standard_normal(20) * 1e5
    H = np.full((size, size), float(column @ column))
    H[np.diag_indices(size)] += 2e-9
    b = np.full(size, float(column @ rng.standard_normal(20)))
    structure = Structure.of_basis(Basis.full(size, 1).filter(bool), budget, None)
    rules = support_rules(structure, np.zeros(size, dtype=np.int8), np.zeros(size, dtype=np.int8))
    task = LeafQuery(need=-8e15, cost=3e9, share=1e-4, room=8e15)
    result = enumerate_leaf(H, b, budget, task, rules)
    assert result is not None
    listed = {tuple(hit[hit >= 0].tolist()) for hit in result.hits}
    assert listed == set(combinations(range(size), budget))
    assert result.need < 0.0
