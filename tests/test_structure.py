"""Which supports are allowed, stated three times: the rules, the rows, the compiled moves."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from instances import make_instance, monomials_of
from scipy.optimize import LinearConstraint
from support import (
    Basis,
    Problem,
    Structure,
    SwapState,
    SwapTask,
    family_of,
    heredity_closed,
    parents_of,
)

from polysharp.errors import InfeasibleError

SMALL = [seed for seed in range(60) if monomials_of(seed) <= 10]


def all_supports(structure: Structure) -> list[np.ndarray]:
    f, largest = structure.n_terms, structure.max_terms + 1
    sizes = (combinations(range(f), size) for size in range(min(f, largest) + 1))
    return [np.array(support, dtype=np.intp) for support in chain.from_iterable(sizes)]


def satisfies_rows(structure: Structure, support: np.ndarray) -> bool:
    s = np.zeros(structure.n_terms)
    s[support] = 1.0
    x = np.concatenate([s, structure.inputs_of(support).astype(float)])
    rows: LinearConstraint = structure.constraints
    value = rows.A @ x
    inside = (value >= np.asarray(rows.lb) - 1e-9) & (value <= np.asarray(rows.ub) + 1e-9)
    return bool(inside.all() and (x >= structure.lower).all())


@pytest.mark.parametrize("seed", SMALL)
def test_the_rows_say_what_the_rules_say(seed: int) -> None:
    structure = make_instance(seed).problem.structure
    verdicts = set()
    for support in all_supports(structure):
        allowed = structure.allows(support)
        verdicts.add(allowed)
        assert satisfies_rows(structure, support) == allowed, support
    assert verdicts == {True, False} or structure.max_terms == structure.n_terms


@pytest.mark.parametrize("seed", SMALL)
def test_monomials_join_exactly_where_the_rules_are_kept(seed: int) -> None:
    structure, f = make_instance(seed).problem.structure, make_instance(seed).problem.size
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((3 * f, f))
    problem = Problem.dense(M.T @ M, rng.standard_normal(f), 10.0, 1.0, structure)
    supports = [s for s in all_supports(structure) if len(s) < structure.max_terms]
    model = SwapState(problem, structure.max_terms)
    for a in rng.permutation(len(supports))[:60]:
        support = supports[a]
        if not set(structure.required_terms.tolist()) <= set(support.tolist()):
            continue
        for j in np.setdiff1d(np.arange(f), support):
            model.confine(np.arange(f) == j)
            model.load(support)
            model.fill_and_swap(SwapTask(len(support) + 1, len(support) + 1, np.inf, 0.0))
            assert (j in model.support) == structure.allows(np.append(support, j)), (support, j)


@pytest.mark.parametrize("seed", SMALL)
def test_best_linear_is_the_best_allowed_support(seed: int) -> None:
    structure = make_instance(seed).problem.structure
    value = np.random.default_rng(seed).standard_normal(structure.n_terms)
    for scale in (1.0, 1e-30, 1e30):
        chosen = structure.best_linear(scale * value)
        assert structure.allows(chosen)
        allowed = (s for s in all_supports(structure) if structure.allows(s))
        assert value[chosen].sum() == pytest.approx(max(value[s].sum() for s in allowed))


def test_the_paper_s_hierarchy() -> None:
    """A monomial counts all its inputs against k."""
    structure = Structure.of_basis(Basis.full(3, 2), 4, 1)
    at = Basis.full(3, 2).index
    assert structure.inputs_bind
    assert structure.allows(np.array([at[(0,)], at[(0, 0)], at[()]]))
    assert not structure.allows(np.array([at[(0, 1)]]))
    assert not structure.allows(np.array([at[(0,)], at[(1,)]]))


def test_heredity() -> None:
    basis = Basis.full(2, 3)
    at = basis.index
    strong = Structure.of_basis(basis, 5, heredity="strong")
    weak = Structure.of_basis(basis, 5, heredity="weak")
    product = [at[(0,)], at[(0, 1)]]
    assert not strong.allows(np.array(product))
    assert weak.allows(np.array(product))
    assert strong.allows(np.array([*product, at[(1,)]]))
    assert not weak.allows(np.array([at[(0, 1)]]))
    assert parents_of((0, 0, 1)) == [(0, 0), (0, 1)]
    assert parents_of((0,)) == []


def test_orphans_leave_the_basis() -> None:
    basis = Basis.full(2, 2).filter(lambda m: m != (1,))
    assert heredity_closed(basis, None) is basis
    assert heredity_closed(basis, "strong").monomials == ((), (0,), (0, 0))
    assert heredity_closed(basis, "weak").monomials == ((), (0,), (0, 0), (0, 1))


def test_budgets_beyond_the_basis_are_cut() -> None:
    structure = Structure.of_basis(Basis.full(2, 1), 9, 9)
    assert (structure.max_terms, structure.max_inputs) == (3, 2)
    assert structure.plain
    assert not structure.inputs_bind


def test_requirements_that_contradict_each_other() -> None:
    basis = Basis.full(3, 1)
    structure = Structure.of_basis(basis, 1, required_inputs=(0, 1))
    with pytest.raises(InfeasibleError, match="max_terms=1"):
        structure.best_linear(np.ones(len(basis)))


def test_families_bring_their_ancestors() -> None:
    basis = Basis.full(2, 3, constant=False)
    at, none = basis.index, np.zeros(0, dtype=np.intp)
    value = np.zeros(len(basis))
    value[at[(1,)]] = value[at[(1, 1)]] = 1.0
    strong = Structure.of_basis(basis, 7, heredity="strong")
    family = family_of(strong, none, at[(0, 0, 1)], value)
    named = {basis.monomials[j] for j in family}
    assert named == {(0,), (1,), (0, 0), (0, 1), (0, 0, 1)}
    assert strong.allows(family)
    weak = Structure.of_basis(basis, 7, heredity="weak")
    family = family_of(weak, none, at[(1, 1, 1)], value)
    assert [basis.monomials[j] for j in family] == [(1,), (1, 1), (1, 1, 1)]
    family = family_of(weak, np.array([at[(0,)]]), at[(0, 1)], value)
    assert [basis.monomials[j] for j in family] == [(0, 1)]
