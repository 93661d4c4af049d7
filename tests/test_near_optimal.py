"""Near-optimal searches find every support within a factor: enumeration is the referee."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from instances import make_instance, with_boxes
from support import (
    Event,
    Listener,
    NearOptimal,
    Problem,
    Stop,
    TimeBudget,
    Tree,
    of_exact_size,
    search_near_optimal,
)

WITHIN = (0.001, 0.01, 0.03, 0.1)
BRANCHING = Tree(leaf_worth=0.0, late_share=0.0, outright_share=0.0)  # no leaf enumeration
DESCENT = Tree(leaf_worth=0.0, late_share=0.0, outright_share=0.0, diagonal_seconds=0.0, smallest=2)


def costs_of_all(problem: Problem, size: int) -> dict[tuple[int, ...], float]:
    """What every allowed support of one size costs."""
    sets = (np.array(one, dtype=np.intp) for one in combinations(range(problem.size), size))
    return {
        tuple(S.tolist()): problem.refit(S).objective for S in sets if problem.structure.allows(S)
    }


def near_optimal(
    problem: Problem,
    start: np.ndarray,
    within: float,
    engine: Tree,
    listener: Listener | None = None,
) -> tuple[NearOptimal, dict[tuple[int, ...], float]]:
    """Search; return the result with the supports up to its limit and their costs."""
    result = search_near_optimal(
        problem, start, within,
        time=TimeBudget(60.0), listener=listener, engine=engine, max_excepted=1000,
    )  # fmt: skip
    found, costs = result.store.cheapest(result.limit)
    assert np.all(np.diff(costs) >= 0.0)
    supports = [tuple(S) for S in found.tolist()]
    assert len(set(supports)) == len(supports)
    return result, dict(zip(supports, costs.tolist(), strict=True))


def compare(seed: int, within: float, engine: Tree, start: int = 0, *, boxes: bool = False) -> int:
    """Compare one search with enumeration; return how many supports are within the factor."""
    instance = make_instance(seed)
    problem = (with_boxes(instance, seed) if boxes else instance).problem
    best = next(
        size
        for size in range(problem.structure.max_terms, -1, -1)
        if (every := costs_of_all(problem, size))
    )
    order = sorted(every, key=lambda S: every[S])
    first = np.array(order[min(start, len(order) - 1)], dtype=np.intp)
    problem = of_exact_size(problem, best)
    result, found = near_optimal(problem, first, within, engine)
    least = every[order[0]]
    limit = least * (1.0 + within)
    assert result.complete
    assert result.bound >= limit * (1.0 - 1e-15)
    assert found.items() <= every.items()
    assert all(cost <= limit * (1.0 + 1e-15) for cost in found.values())
    # What costs exactly as much as the limit may be on either side of it.
    missing = {S for S, cost in every.items() if cost <= limit * (1.0 - 1e-9)} - found.keys()
    assert not missing, (seed, within, missing)
    assert all(cost >= result.bound * (1.0 - 1e-6) for S, cost in every.items() if S not in found)
    return sum(cost <= limit for cost in every.values())


@pytest.mark.parametrize("engine", [Tree(), BRANCHING, DESCENT], ids=["ends", "splits", "descent"])
@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_every_support_within_the_factor_is_found(seed: int, engine: Tree) -> None:
    compare(seed, WITHIN[seed // 2 % 4], engine, start=seed % 3)


@pytest.mark.parametrize("seed", range(1, 40, 3))
def test_coefficients_within_boxes(seed: int) -> None:
    compare(seed, WITHIN[seed % 4], (Tree(), BRANCHING)[seed % 2], boxes=True)


@pytest.mark.parametrize("phase", ["incumbent", "root"])
def test_an_interrupted_search_claims_what_it_knows(phase: str) -> None:
    problem = make_instance(14).problem  # 34 nodes by splits alone
    every = costs_of_all(problem, 4)
    worst = np.array(sorted(every, key=lambda S: every[S])[-1], dtype=np.intp)

    def interrupt(event: Event) -> None:
        if event.phase == phase:
            raise KeyboardInterrupt

    result, found = near_optimal(of_exact_size(problem, 4), worst, 0.1, BRANCHING, interrupt)
    assert result.stop is Stop.INTERRUPTED
    assert not result.complete
    assert found.items() <= every.items()
    assert all(cost >= result.bound * (1.0 - 1e-6) for S, cost in every.items() if S not in found)


@pytest.mark.slow
def test_a_thousand_problems_agree_with_enumeration() -> None:
    engines = [Tree(), BRANCHING, DESCENT]
    counts = [
        compare(seed, WITHIN[seed % 4], engines[seed % 3], boxes=seed % 5 == 0)
        for seed in range(100, 1100)
    ]
    assert min(counts) == 1
    assert max(counts) > 20
