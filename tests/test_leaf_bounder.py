"""Nodes of which few supports are left, whatever is fixed: enumeration is the referee."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from instances import make_instance
from support import (
    PAIR_TEST,
    LeafEnumeration,
    LeafResult,
    ListedNode,
    Run,
    SearchState,
    Subproblem,
    SupportSink,
    TimeBudget,
    Tree,
    count_tests,
)
from test_multitask import joint_problem


class KeepingSink(SupportSink):
    """Keeps the supports that were found."""

    def __init__(self, run):
        super().__init__(run)
        self.found = []

    def take(self, support, cost):
        self.found.append(support)
        return False


def random_node(rng, problem):
    """A node that fixes some monomials and leaves any number free, none of them at times."""
    core = Subproblem.of(problem)
    structure = core.structure
    terms = rng.choice([0, -1], size=core.size, p=rng.permutation([0.3, 0.7])).astype(np.int8)
    if rng.random() < 0.3:
        terms[:] = -1
    terms[rng.permutation(core.size)[: rng.integers(0, structure.max_terms + 1)]] = 1
    terms[structure.required_terms] = 1
    inputs = np.zeros(structure.n_inputs, dtype=np.int8)
    return ListedNode(0, 0, core, terms, inputs)


def least_cost(node):
    problem, structure = node.core.problem, node.core.structure
    supports = (
        np.sort(np.append(node.fixed_in, chosen)).astype(np.intp)
        for size in range(max(node.budget, -1) + 1)
        for chosen in combinations(node.free, size)
    )
    costs = [problem.refit(S).objective for S in supports if structure.allows(S)]
    return min(costs, default=np.inf)


def settled(leaves, node):
    return leaves.settled(node)


def enumerated(leaves, node):
    return leaves.apply([node])[0]


@pytest.mark.parametrize("close", [settled, enumerated])
@pytest.mark.parametrize("make", [lambda seed: make_instance(seed).problem, joint_problem])
@pytest.mark.parametrize("seed", range(30))
def test_no_bound_claims_more_than_the_supports_of_a_node_cost(seed, make, close):
    problem = make(seed)
    rng, run = np.random.default_rng(seed), Run(problem, TimeBudget(), 0.0)
    sink = KeepingSink(run)
    leaves = LeafEnumeration(SearchState(Tree(), run, sink))
    leaves.level = Subproblem.of(problem).least_eigenvalue()
    for _ in range(10):
        node = random_node(rng, problem).propagated()
        least, sink.found = least_cost(node), []
        if node.closed:
            assert least == np.inf
            continue
        node = close(leaves, node)
        if node.closed:
            assert node.bound <= least * (1.0 + 1e-12)
            if least < run.threshold * (1.0 - 1e-6):  # and what is better than the best was found
                found = [problem.refit(S).objective for S in sink.found]
                assert min(found) <= least * (1.0 + 1e-6)
        elif close is settled:
            assert len(node.free) > 0


def test_seconds_are_foreseen_from_the_supports_that_were_tried():
    """Of many more terms too, and though no enumeration took long enough to be timed."""
    run = Run(make_instance(0).problem)
    leaves = LeafEnumeration(SearchState(Tree(), run, SupportSink(run)))
    before = [leaves.seconds(130, budget) for budget in (3, 5, 6)]
    none = np.zeros((0, 5), dtype=np.int64)
    leaves.note(130, 5, LeafResult(none, 0.0, 1e-5, 1e-4 * count_tests(130, 5)))
    after = [leaves.seconds(130, budget) for budget in (3, 5, 6)]
    assert after[0] == before[0]
    assert after[1] < 0.1 * before[1]
    assert after[2] < 0.01 * before[2]
    assert leaves.rate.seconds == PAIR_TEST
    leaves.note(130, 5, None)
    assert leaves.tried[5] == pytest.approx(2e-4)
