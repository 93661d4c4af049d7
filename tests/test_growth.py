"""Supports of every size: allowed, at a local optimum, mostly as good as enumeration's."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from instances import make_instance, optimum

from polysharp.engines.growth import System, grow, parts_of, sizes
from polysharp.engines.growth_kernel import narrow
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis

PLAIN = [make_instance(seed) for seed in range(0, 90) if seed % 6 in (0, 1)]


def system_of(instance):
    problem = instance.problem
    f = problem.size
    return System(
        problem.gram.block(np.arange(f), np.arange(f)),
        problem.q,
        problem.yy,
        np.full(f, problem.lam),
        np.arange(f),
        parts_of(instance.basis),
        instance.basis.n_inputs,
    )


def law(n=80, p=4, r=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    basis = Basis.full(p, r, constant=False)
    y = X[:, 0] ** 2 * X[:, 1] - 2.0 * X[:, 2] + 0.5 * X[:, p - 1] + 0.1 * rng.standard_normal(n)
    m = accumulate(basis, X, y)
    ridge = np.full(len(basis), 1.0)
    every = np.arange(len(basis))
    return basis, System(m.scatter, m.cross, m.spread, ridge, every, parts_of(basis), p)


@pytest.mark.parametrize("instance", PLAIN, ids=lambda i: i.label)
def test_every_size_is_allowed_and_never_beats_enumeration(instance):
    system, structure = system_of(instance), instance.problem.structure
    best = optimum(instance.problem).objective
    k = structure.max_inputs
    for size, support in enumerate(sizes(system, structure.max_terms, k), start=1):
        assert len(set(support.tolist())) == len(support) <= size
        assert structure.allows(support)
    slack = 1e-6 * instance.problem.yy
    assert system.objective(support) >= best - slack


def test_most_small_problems_are_solved_to_the_optimum():
    solved = 0
    for instance in PLAIN:
        structure = instance.problem.structure
        *_, support = sizes(system_of(instance), structure.max_terms, structure.max_inputs)
        best = optimum(instance.problem).objective
        found = instance.problem.refit(support).objective
        solved += found <= best + 1e-6 * instance.problem.yy
    assert solved >= 0.8 * len(PLAIN)


def test_no_single_swap_and_no_addition_improves():
    _, system = law()
    for support in sizes(system, 6):
        value = system.objective(support)
        for i in support:
            rest = support[support != i]
            for j in np.setdiff1d(system.pool, support):
                other = system.objective(np.append(rest, j))
                assert other >= value * (1.0 - 1e-7)


def test_the_planted_law_is_found_and_the_objective_falls():
    basis, system = law()
    found = list(sizes(system, 8))
    assert {basis.monomials[j] for j in found[2]} == {(0, 0, 1), (2,), (3,)}
    values = [system.objective(support) for support in found]
    assert np.all(np.diff(values) < 0.0)


def test_the_pool_is_kept():
    _, full = law()
    pool = np.arange(0, len(full.q), 2)
    part = System(full.G, full.q, full.yy, full.ridge, pool, full.parts, full.n_inputs)
    for support in sizes(part, 5):
        assert np.isin(support, pool).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_budgets_of_inputs_hold_and_wider_ones_help(k):
    _, system = law(seed=3)
    wide = list(sizes(system, 6, k + 1))
    alone = [system.objective(s) for s in sizes(system, 6, k)]
    helped = list(sizes(system, 6, k, wider=wide))
    for size, support in enumerate(helped, start=1):
        assert len(system.inputs_of(support)) <= k
        assert len(support) <= size
    assert system.objective(helped[-1]) <= alone[-1] * (1.0 + 1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_inputs_given_up_are_those_missed_least(k):
    """One input after the other, each by refitting without it."""
    _, system = law(p=5, r=3, seed=4)
    *_, support = sizes(system, 12)
    expected = support
    while len(inputs := system.inputs_of(expected)) > k:
        rests = [expected[(system.parts[expected] != i).all(axis=1)] for i in inputs]
        expected = min(rests, key=system.objective)
    H = np.linalg.inv(system.regularised(support))
    kept = narrow(H, H @ system.q[support], system.parts[support], system.n_inputs, k)
    np.testing.assert_array_equal(support[kept], expected)


def test_two_inputs_are_chosen_as_enumeration_would():
    basis, system = law(p=3, r=2, seed=5)
    values = {}
    for inputs in combinations(range(3), 2):
        inside = [j for j, m in enumerate(basis.monomials) if set(m) <= set(inputs)]
        for support in combinations(inside, 3):
            values[support] = system.objective(np.array(support))
    wide = list(sizes(system, 3))
    *_, found = sizes(system, 3, 2, wider=wide)
    assert system.objective(found) == pytest.approx(min(values.values()), rel=1e-9)


def test_a_ridge_per_monomial_is_a_scale_per_monomial():
    _, system = law()
    scale = np.random.default_rng(1).uniform(0.3, 3.0, len(system.q))
    scaled = System(
        system.G * np.multiply.outer(scale, scale),
        system.q * scale,
        system.yy,
        system.ridge * scale**2,
        system.pool,
        system.parts,
        system.n_inputs,
    )
    for a, b in zip(sizes(system, 6), sizes(scaled, 6), strict=True):
        assert set(a.tolist()) == set(b.tolist())


def test_equal_columns_are_used_once():
    _, system = law()
    f = len(system.q)
    twice = np.concatenate([np.arange(f), np.arange(f)])
    double = System(
        np.ascontiguousarray(system.G[np.ix_(twice, twice)]),
        system.q[twice],
        system.yy,
        np.full(2 * f, 1e-9),
        np.arange(2 * f),
        system.parts[twice],
        system.n_inputs,
    )
    support = grow(double, 10)
    assert len(set((support % f).tolist())) == len(support) == 10


@pytest.mark.parametrize("k", [None, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_no_size_is_worse_than_the_next_one_without_its_least_term(seed, k):
    rng = np.random.default_rng(seed)
    X = 2.0 + rng.random((60, 5))  # far from zero: monomials resemble each other
    basis = Basis.full(5, 3, constant=False)
    m = accumulate(basis, X, X[:, 0] * X[:, 1] + X[:, 2] ** 2 * X[:, 3] + rng.normal(size=60))
    every = np.arange(len(basis))
    ridge = np.full(len(basis), 0.01)
    system = System(m.scatter, m.cross, m.spread, ridge, every, parts_of(basis), 5)
    found = list(sizes(system, 12, k))
    for small, large in pairwise(found):
        shorter = min((np.delete(large, a) for a in range(len(large))), key=system.objective)
        assert system.objective(small) <= system.objective(shorter) * (1.0 + 1e-9)
        assert k is None or len(system.inputs_of(large)) <= k
