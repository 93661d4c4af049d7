"""Nodes that one or two monomials may join: no support is lost, and proofs say why."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from support import (
    CoefficientBounds,
    Design,
    FewTerms,
    MemoryRows,
    PricedKind,
    PricedRun,
    Pricer,
    Sizes,
    Status,
    TermRules,
    TimeBudget,
    assemble,
    combined_level,
    coordinates,
    mark_alone,
    mark_pairs,
    rounding,
    search_all_inputs,
)

from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.engines import make_engine

SMALL = Sizes(first=4, added=3, listed=6, pool=10, subproblem=6)
RULES: dict[str, dict[str, object]] = {
    "budget": {},
    "inputs": {"max_inputs": 2},
    "strong": {"heredity": "strong"},
    "weak": {"heredity": "weak", "exclude_terms": ((0,),)},
    "terms": {"include_terms": ((1, 1),)},
    "boxes": {"coefficients": CoefficientBounds((0.0, np.inf), terms=(((0, 1), (-0.1, 0.1)),))},
    "shape": {"max_interaction": 2, "interaction_degree": 2, "exclude_terms": ((2,), (0, 1))},
}


class Few:
    """A small problem of one term or two, with hardly any ridge: prices prove next to nothing."""

    def __init__(self, seed: int, kind: str, terms: int) -> None:
        rng = np.random.default_rng([7, seed])
        n, self.p, self.degree = int(rng.integers(12, 40)), 4, 3
        self.intercept = bool(seed % 2)
        self.X = rng.standard_normal((n, self.p)) * 10.0 ** rng.uniform(-1, 1, self.p) + seed % 3
        self.weights = rng.uniform(0.0, 3.0, n).round(1) if seed % 3 == 0 else None
        options = {**RULES[kind], "max_terms": terms, "degree": self.degree}
        self.rules = TermRules(constant=not self.intercept, **options)  # type: ignore[arg-type]
        self.basis = self.rules.basis(np.arange(self.p))
        M = self.basis.evaluate(self.X)
        M /= np.sqrt((M * M).mean(axis=0))
        law = M[:, rng.choice(len(self.basis), terms, replace=False)].sum(axis=1)
        self.y = law + 10.0 ** rng.uniform(-3, 0) * rng.standard_normal(n) + 2.0 * self.intercept
        self.lam = 10.0 ** rng.uniform(-6, 0)
        self.n_terms = terms

    def search(self, sizes: Sizes = SMALL) -> PricedRun:
        rows = MemoryRows(self.X, self.y, self.weights)
        design = Design(rows, np.arange(self.p), self.degree, fit_intercept=self.intercept)
        time, engine = TimeBudget(60.0), make_engine("tree")
        return PricedRun(design, self.rules, lam=self.lam, engine=engine, time=time, sizes=sizes)

    def whole(self):
        return assemble(
            MemoryRows(self.X, self.y, self.weights),
            self.basis,
            self.rules.structure(self.basis),
            lam=self.lam,
            fit_intercept=self.intercept,
        ).problem


CASES = [(seed, kind, terms) for seed in range(12) for kind in RULES for terms in (1, 2)]


@pytest.mark.parametrize(("seed", "kind", "terms"), CASES[::3])
def test_searches_of_one_term_or_two_agree_with_enumeration(seed, kind, terms):
    few = Few(seed, kind, terms)
    problem = few.whole()
    best = make_engine("enumeration").solve(problem)
    found = search_all_inputs(few.search()).solution
    slack = 1e-9 * best.objective + 1e-12 * problem.yy
    assert found.bound <= best.objective + slack
    assert found.objective == pytest.approx(best.objective, rel=2e-4, abs=slack)
    if few.rules.heredity is None:
        assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(24))
def test_what_does_not_stay_costs_as_much_as_is_said(seed):
    few = Few(seed, "boxes" if seed % 4 == 3 else "budget", 3)
    search, problem = few.search(), few.whole()
    rng = np.random.default_rng(seed)
    some = [few.basis.monomials[j] for j in rng.choice(len(few.basis), 3, replace=False)]
    inside = frozenset(some[: 1 + seed % 2])
    root = PricedKind(search, search.price({})).root()
    out = frozenset({int(rng.integers(few.p))} - {i for m in inside for i in m})
    node = replace(root, terms_in=inside, terms_out=frozenset(some[2:]), inputs_out=out)
    names = [m for m in few.basis.monomials if m not in inside and node.allows(m)]
    held = [few.basis.index[m] for m in inside]
    costs = {
        frozenset(F): problem.refit(np.array([*held, *(few.basis.index[m] for m in F)])).objective
        for size in range(1, node.room + 1)
        for F in combinations(names, size)
    }
    asked = np.quantile(list(costs.values()), [0.01, 0.1, 0.5])
    answers = [FewTerms(search, node).below(float(cost), 1e9) for cost in asked]
    for cost, left in zip(asked, answers, strict=True):
        if left is not None:
            lost = [F for F in costs if F.difference(left.monomials)]
            assert all(costs[F] >= cost * (1.0 - 1e-9) for F in lost)
    wide = FewTerms(few.search(replace(SMALL, subproblem=30)), node).below(float(asked[0]), 1e9)
    assert wide is not None or node.room == 2


@pytest.mark.parametrize("seed", range(30))
def test_marks_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    f, K, lam = 60, int(rng.integers(1, 7)), 10.0 ** rng.uniform(-9, 0)
    C, b = rng.standard_normal((f, K)) * 10.0 ** rng.uniform(-2, 2, (f, 1)), rng.standard_normal(K)
    C[::7] = C[1::7][: len(C[::7])] * (1.0 + 1e-12)  # nearly the same

    def cost(F):
        A = C[list(F)]
        H = A @ A.T + lam * np.eye(len(F))
        return 0.5 * (b @ b - (A @ b) @ np.linalg.lstsq(H, A @ b, rcond=None)[0])

    singles = np.array([cost((j,)) for j in range(f)])
    level = 0.9 * float(singles.min()) if seed % 2 else 0.3 * float(singles.min())
    assert not mark_alone(C, b, lam, level).any()
    assert mark_alone(C, b, lam, float(singles.min()) * (1 + 1e-9)).any()
    marks = mark_pairs(C, b, lam, level, 1e9, lambda: None)
    assert marks is not None
    needed = np.zeros(f, dtype=bool)
    for F in combinations(range(f), 2):
        if cost(F) < level * (1.0 - 1e-6):
            needed[list(F)] = True
    assert not (needed & ~marks).any()
    if seed % 2 == 0 and K > 3:
        assert marks.sum() < f  # and not simply all of them


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_points_are_products_with_all_monomials(fit_intercept):
    rng = np.random.default_rng(3)
    X, v = rng.standard_normal((30, 4)) + 1.0, rng.uniform(0.0, 2.0, 30)
    rules = TermRules(degree=4, max_terms=1, constant=not fit_intercept, exclude_terms=((0, 1),))
    pricer = Pricer(X, 4, sample_weight=v, fit_intercept=fit_intercept)
    basis = rules.basis(np.arange(4))
    M = basis.evaluate(X)
    M -= fit_intercept * (v @ M) / v.sum()
    vectors = rng.standard_normal((3, 30))
    directions = np.array([pricer.direction(u) for u in vectors])
    points = coordinates(pricer, directions, rules.may_price)
    place = [basis.index[m] for m in points.monomials]
    assert sorted(place) == list(range(len(basis)))
    np.testing.assert_allclose(points.values, (M.T * v @ vectors.T)[place], rtol=0, atol=1e-9)
    raw = np.sqrt(v @ basis.evaluate(X) ** 2)[place]
    assert np.all(points.sizes >= raw)
    exact = (M.T * v @ vectors.T)[place]
    size = np.sqrt((vectors**2 * v).sum(axis=1))
    assert np.all(np.abs(points.values - exact) <= rounding(pricer) * np.outer(raw, size))


def test_a_level_is_what_must_be_seen():
    assert combined_level(2.0, 0.0, 0.0, 0.0) == pytest.approx(2.0, rel=1e-14)
    assert combined_level(2.0, 0.0, 0.0, 0.0) >= 2.0
    assert combined_level(2.0, 0.1, 0.2, 0.3) == pytest.approx(0.5 * (4.4**0.5 * 1.2 + 0.3) ** 2)


@pytest.fixture(scope="module", params=[1, 2])
def law(request):
    """A fit of one term or two of 8,567 monomials that prices alone do not prove."""
    rng = np.random.default_rng(5)
    X = rng.uniform(1.0, 3.0, (200, 13))
    y = X[:, 0] * X[:, 3] ** 2 * X[:, 5] * X[:, 7]
    if request.param == 2:
        y += 3.0 * X[:, 2] * X[:, 9]
    y += 0.01 * y.std() * rng.standard_normal(200)
    model = SparsePolynomialRegressor(5, request.param, gamma=1.0, n_candidates=None)
    return X, y, model.fit(X, y)


def test_laws_of_one_term_or_two_are_proved_over_all_products(law, tmp_path):
    X, y, model = law
    solution = model.solution_
    assert solution.status is Status.OPTIMAL
    assert {(0, 3, 3, 5, 7)} <= set(model.polynomial_.monomials) <= {(0, 3, 3, 5, 7), (2, 9)}
    screenings = [s for node in solution.proof.nodes for s in node.screenings]
    assert any(s.along is not None for s in screenings)
    solution.proof.save(tmp_path / "few.proof")
    verdict = verify(Proof.load(tmp_path / "few.proof"), X, y)
    assert verdict, verdict.reason
    assert verdict.bound == pytest.approx(solution.bound, rel=1e-6)


def test_a_reader_of_points_believes_nothing(law):
    X, y, model = law
    proof = model.solution_.proof
    statement = replace(proof.statement, objective=100.0 * model.solution_.objective)
    root = proof.nodes[0]
    (screening,) = root.screenings
    none = screening.only[:0]
    for change in ({"only": none}, {"along": none}, {"along": screening.along[:1]}):
        nodes = (replace(root, screenings=(replace(screening, **change),)), *proof.nodes[1:])
        assert not verify(replace(proof, nodes=nodes), X, y), change
    more = replace(proof, statement=statement, bound=1.01 * model.solution_.objective)
    assert not verify(more, X, y)
    wider = replace(statement, max_terms=3)
    assert "more monomials may join" in verify(replace(proof, statement=wider), X, y).reason
