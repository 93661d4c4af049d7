"""Sets of inputs: their bound is valid and useful, and their number may be astronomical."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from instances import RULES, make_instance, optimum
from support import (
    Basis,
    ListedNode,
    Problem,
    ProofWriter,
    SetsBelow,
    Structure,
    Subproblem,
    TimeBudget,
    accumulate,
    propagate,
)

from polysharp import SparsePolynomialRegressor, verify
from polysharp.engines import make_engine

# Where fewer inputs are allowed than there are; at 73 the terms allow no more anyway.
BINDING = [s for s in range(120) if "inputs" in RULES[s % len(RULES)] and s != 73]


def root_of(problem: Problem) -> ListedNode:
    core = Subproblem.of(problem)
    terms = np.zeros(core.size, dtype=np.int8)
    terms[core.structure.required_terms] = 1
    inputs = np.zeros(core.structure.n_inputs, dtype=np.int8)
    assert propagate(core.structure, terms, inputs)
    return ListedNode(0, 0, core, terms, inputs)


@pytest.mark.parametrize("seed", BINDING)
def test_the_best_support_lies_in_a_set_that_is_left(seed):
    problem = make_instance(seed).problem
    best = optimum(problem)
    sets = SetsBelow(root_of(problem))
    above = best.objective * (1.0 + 1e-6) + 10.0 * problem.resolution
    sifted = sets.sift(above, lambda: False)
    assert sifted is not None
    assert sifted.closed >= above
    used = set(np.flatnonzero(problem.structure.inputs_of(np.array(best.support))).tolist())
    decided = set(range(problem.structure.n_inputs)) - set(sets.undecided.tolist())
    assert any(used <= set(kept.inputs.tolist()) | decided for kept in sifted.left)


@pytest.mark.parametrize("seed", BINDING[:12])
def test_the_bound_of_a_set_holds_for_all_its_supports(seed):
    problem = make_instance(seed).problem
    structure = problem.structure
    sifted = SetsBelow(root_of(problem)).sift(np.inf, lambda: False)
    assert sifted is not None
    for kept in sifted.left:
        for size in range(min(structure.max_terms, 2) + 1):
            for support in combinations(kept.terms.tolist(), size):
                S = np.array(support, dtype=np.intp)
                if structure.allows(S):
                    assert kept.bound <= problem.refit(S).objective * (1.0 + 1e-9)


def binding_problem(p: int, k: int, degree: int = 2) -> Problem:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, p))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * X[:, 3] ** 2 + 0.1 * rng.standard_normal(60)
    basis = Basis.full(p, degree, constant=False)
    moments = accumulate(basis, X, y)
    structure = Structure.of_basis(basis, 4, k)
    return Problem.dense(moments.scatter, moments.cross, moments.spread, 1.0, structure)


def test_sets_beyond_counting_are_not_gone_through():
    sets = SetsBelow(root_of(binding_problem(400, 200, degree=1)))
    assert sets.count > 10**100
    assert not sets.affordable


def test_out_of_time_gives_up():
    assert SetsBelow(root_of(binding_problem(8, 3))).sift(np.inf, lambda: True) is None


def test_the_tree_goes_through_the_sets_and_agrees():
    problem = binding_problem(8, 3)
    solution = make_engine("tree").solve(problem, time=TimeBudget(30.0), gap_tol=1e-7)
    assert solution.objective == pytest.approx(optimum_by_inputs(problem), rel=1e-6)


def optimum_by_inputs(problem: Problem) -> float:
    """The best of all triples of inputs, each enumerated alone."""
    best = np.inf
    for inputs in combinations(range(problem.structure.n_inputs), 3):
        outside = np.ones(problem.structure.n_inputs, dtype=bool)
        outside[list(inputs)] = False
        J = np.flatnonzero(~problem.structure.uses[:, outside].any(axis=1))
        for support in combinations(J.tolist(), 4):
            best = min(best, problem.refit(np.array(support, dtype=np.intp)).objective)
    return best


def test_a_set_without_monomials_of_its_own_is_no_obstacle():
    """With every product of x0 and x2 ruled out, that pair of inputs has nothing to offer."""
    rng = np.random.default_rng(0)
    X, p = rng.standard_normal((30, 7)), 7
    y = rng.standard_normal(30) + X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    alone = [(i,) * d for i in range(p) for d in (1, 2)]
    settings = {
        "degree": 2, "max_terms": 3, "max_inputs": 2, "gamma": 10.0,
        "exclude_terms": [*alone, (0, 2), (1, 3)],
    }  # fmt: skip
    found = SparsePolynomialRegressor(engine="tree", **settings).fit(X, y).solution_
    best = SparsePolynomialRegressor(engine="enumeration", **settings).fit(X, y).solution_
    assert found.objective == pytest.approx(best.objective, rel=1e-9)
    assert verify(found.proof, X, y)


def test_thousands_of_sets_of_inputs_are_written_without_recursion():
    """Every set has its child, and every other choice of inputs lies in one enumeration."""
    sets = [one for one in combinations(range(24), 3) if sum(one) % 2 == 0][:900]
    writer = ProofWriter(limit=10**6)
    root, children = writer.reserve(), [writer.reserve() for _ in sets]
    writer.write_input_sets(root, (), sets, children)
    owner = dict(zip(children, sets, strict=True))
    rng = np.random.default_rng(0)
    for one in [*sets, *(tuple(rng.choice(24, 3, replace=False).tolist()) for _ in range(300))]:
        number, inside = root, set()
        while number not in owner and writer.nodes[number].kind == "split":
            node = writer.nodes[number]
            first = next((a for a, i in enumerate(node.chain) if i not in one), len(node.chain))
            inside |= set(node.chain[:first])
            number = node.children[first]
        assert inside <= set(one)
        listed = tuple(sorted(one)) in sets
        assert (number in owner) == listed
        assert not listed or owner[number] == tuple(sorted(one))


@pytest.mark.parametrize("seed", BINDING[:12])
def test_compiled_bounds_are_those_of_one_set_at_a_time(seed):
    """A threshold between the bounds divides the sets; what is left has its own bound again."""
    sets = SetsBelow(root_of(make_instance(seed).problem))
    every = sets.sift(np.inf, lambda: False)
    assert every is not None
    own = np.array(sorted(kept.bound for kept in every.left))
    gaps = np.append(np.diff(own), own[-1])  # beyond the last one if all are equal
    gap = int(np.argmax(gaps[:-1])) if gaps[:-1].max(initial=0.0) > 1e-6 * own[-1] else -1
    between = own[gap] + 0.5 * gaps[gap]
    some = sets.sift(between, lambda: False)
    assert some is not None
    np.testing.assert_allclose(sorted(kept.bound for kept in some.left), own[own < between])
    assert some.closed == pytest.approx(own[own >= between].min(initial=np.inf), rel=1e-9)
