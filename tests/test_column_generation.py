"""The search over every input: agreement with enumeration, honest bounds, limits, rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from instances import DATA, RIDGES, make_inputs
from sklearn.base import clone
from support import (
    Basis,
    Design,
    Diagonal,
    DualPoint,
    Event,
    MemoryRows,
    Pool,
    PricedKind,
    PricedNode,
    PricedRun,
    Problem,
    ProofNode,
    Sizes,
    Status,
    Stop,
    Survivors,
    TermRules,
    TimeBudget,
    assemble,
    search_all_inputs,
)

from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.engines import make_engine
from polysharp.errors import InfeasibleError, InputError
from polysharp.synthetic import make_sparse_polynomial

TINY = Sizes(first=5, added=4, listed=25, pool=12, subproblem=12)
SHAPES = ((9, 1), (4, 2), (6, 2), (3, 3), (4, 3), (3, 4))  # 10 to 35 monomials
KINDS = ("budget", "inputs", "terms", "shape", "strong", "weak", "excluded")


def ridge_of(seed: int) -> float:
    return RIDGES[(seed // 5) % len(RIDGES)]


HOPELESS = [seed for seed in range(200) if ridge_of(seed) < 1e-3]


class Case:
    """A small problem with all its parts."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([44, seed])
        self.p, self.degree = SHAPES[seed % len(SHAPES)]
        data, kind = DATA[seed % len(DATA)], KINDS[(seed // 2) % len(KINDS)]
        self.intercept = bool((seed // 3) % 2)
        n = int(rng.integers(10, 40))
        self.X = make_inputs(rng, n, self.p, self.degree, data)
        self.weights = rng.uniform(0.2, 3.0, n) if seed % 4 == 0 else None
        self.rules = self._rules(rng, kind)
        basis = self.rules.basis(np.arange(self.p))
        M = basis.evaluate(self.X)
        signal = M @ (rng.standard_normal(len(basis)) * (rng.random(len(basis)) < 0.2))
        noise = 0.5 * np.linalg.norm(signal) / np.sqrt(n) + 0.1
        self.y = signal + noise * rng.standard_normal(n) + 3.0
        ridge = ridge_of(seed)
        self.lam = ridge * float(np.median((M * M).sum(axis=0))) / n
        self.label = f"{seed}-{data}-{kind}-ridge{ridge:g}-p{self.p}r{self.degree}"
        self.basis = basis
        # Bounds that ignore heredity, or have hardly any ridge to stand on, split for long.
        self.easy = self.rules.heredity is None and ridge > 1e-3
        self.hopeless = ridge < 1e-3  # for a pool of a dozen: the usual sizes then

    def _rules(self, rng: np.random.Generator, kind: str) -> TermRules:
        some = [tuple(m) for m in Basis.full(self.p, self.degree, constant=False).monomials]
        picks = [some[int(j)] for j in rng.choice(len(some), size=3, replace=False)]
        options: dict[str, object] = {
            "budget": {},
            "inputs": {"max_inputs": int(rng.integers(1, self.p))},
            "terms": {"include_terms": (picks[0],), "include_inputs": (int(rng.integers(self.p)),)},
            "shape": {"max_interaction": 2, "interaction_degree": 2},
            "strong": {"heredity": "strong", "max_inputs": int(rng.integers(1, self.p))},
            "weak": {"heredity": "weak", "exclude_terms": (picks[0],)},
            "excluded": {"exclude_terms": tuple(picks), "max_inputs": self.p - 1},
        }[kind]
        terms = int(rng.integers(2 if kind == "terms" else 1, 4))
        return TermRules(
            degree=self.degree, max_terms=terms, constant=not self.intercept, **options
        )

    def whole(self) -> Problem:
        structure = self.rules.structure(self.basis)
        return assemble(
            MemoryRows(self.X, self.y, self.weights),
            self.basis,
            structure,
            lam=self.lam,
            fit_intercept=self.intercept,
        ).problem

    def search(self, **options: object) -> PricedRun:
        settings: dict[str, object] = {
            "lam": self.lam,
            "engine": make_engine("tree"),
            "time": TimeBudget(300.0),
            "gap_tol": 1e-6,
            "sizes": Sizes()
            if self.hopeless
            else TINY
            if self.easy
            else replace(TINY, subproblem=25),
        }
        design = priced(self.X, self.y, self.degree, self.weights, fit_intercept=self.intercept)
        return PricedRun(design, self.rules, **{**settings, **options})


def priced(X, y, degree, weights=None, *, fit_intercept=False) -> Design:
    """Return all monomials of a table, to be priced."""
    rows = MemoryRows(X, y, weights)
    return Design(rows, np.arange(X.shape[1]), degree, fit_intercept=fit_intercept)


def check_agreement(seed: int, referee: str = "enumeration") -> None:
    case = Case(seed)
    problem = case.whole()
    best = make_engine(referee).solve(problem, time=TimeBudget(60.0), gap_tol=1e-6)
    assert best.gap <= 1e-6 or referee == "enumeration", f"{case.label}: {best}"
    answer = search_all_inputs(case.search()).solution
    slack = 1e-6 * best.objective + 1e-12 * problem.yy
    assert answer.bound <= best.objective + slack, case.label
    assert answer.status is Status.OPTIMAL, f"{case.label}: {answer}"
    assert answer.objective == pytest.approx(best.objective, rel=3e-6, abs=slack), case.label


@pytest.mark.parametrize("seed", HOPELESS[:12])
def test_a_small_pool_without_a_ridge_stays_honest(seed):
    case = Case(seed)
    best = make_engine("enumeration").solve(case.whole())
    answer = search_all_inputs(case.search(sizes=TINY, time=TimeBudget(0.5), gap_tol=1e-6)).solution
    slack = 1e-6 * best.objective + 1e-12 * case.whole().yy
    assert answer.bound <= best.objective + slack
    assert answer.objective >= best.objective - slack


@pytest.mark.parametrize("block", range(6))
def test_agrees_with_enumeration(block):
    for seed in range(10 * block, 10 * block + 10):
        check_agreement(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
@pytest.mark.parametrize("referee", ["enumeration", "tree"])
def test_agrees_on_500(referee, block):
    for seed in range(100 + 10 * block, 110 + 10 * block):
        check_agreement(seed, referee)


@pytest.mark.parametrize("seed", [0, 3, 7, 8])
def test_pool_grows_to_the_moments_of_the_basis(seed):
    case = Case(seed)
    problem, monomials = case.whole(), case.basis.monomials
    design = case.search().design
    pool = Pool(design, monomials[:4])
    pool.extend(monomials[2:])
    order = [pool.index[m] for m in monomials]
    slack = 1e-9 * float(np.abs(problem.gram.diagonal).max())
    np.testing.assert_allclose(pool.G[np.ix_(order, order)], problem.gram.G, rtol=1e-9, atol=slack)
    np.testing.assert_allclose(pool.q[order], problem.q[0], rtol=1e-9, atol=1e-9 * slack + 1e-6)
    assert design.yy == pytest.approx(problem.yy, rel=1e-12)
    part = pool.selected(np.array([1, 3]))
    part.extend(monomials)
    assert part.monomials[:2] == (pool.monomials[1], pool.monomials[3])
    order = [part.index[m] for m in pool.monomials]
    np.testing.assert_allclose(part.G[np.ix_(order, order)], pool.G, rtol=1e-9, atol=slack)


def test_pool_without_monomials():
    design = Case(0).search().design
    assert len(Pool(design, [])) == 0
    nothing = design.residual([], np.zeros(0))
    assert (nothing.ya, nothing.aa) == (design.target.ya, design.target.aa)
    np.testing.assert_array_equal(design.values(nothing), design.values(design.target))


def dual_points(case: Case, count: int = 4) -> list[DualPoint]:
    rng = np.random.default_rng(5)
    search = case.search()
    fits = [search.best.coefficients, {}]
    for _ in range(count):
        picks = rng.choice(len(case.basis), size=3, replace=False)
        fits.append({case.basis.monomials[j]: float(rng.normal()) for j in picks})
    return [search.price(w) for w in fits]


@pytest.mark.parametrize("seed", [0, 13, 27, 29, 42])
def test_any_vector_gives_a_bound_and_its_survivors(seed):
    case = Case(seed)
    problem = case.whole()
    terms = problem.structure.max_terms
    supports = [
        np.array(s, dtype=np.intp)
        for m in range(terms + 1)
        for s in combinations(range(problem.size), m)
        if problem.structure.allows(np.array(s, dtype=np.intp))
    ]
    costs = [problem.refit(s).objective for s in supports]
    names = [{case.basis.monomials[j] for j in s} for s in supports]
    checked = 0
    for dual in dual_points(case):
        proved = dual.bounded(frozenset(), terms, lambda _: True)
        assert proved.bound <= min(costs) * (1 + 1e-9)
        for threshold in (proved.bound * 1.01, min(costs), max(costs)):
            left = dual.survivors(proved, threshold, frozenset(), lambda _: True)
            if left is not None:
                kept = set(left[0])
                beyond = [c for c, s in zip(costs, names, strict=True) if not s <= kept]
                assert min(beyond, default=np.inf) >= left[1] * (1 - 1e-9)
                checked += 1
    assert checked


def listen(search: PricedRun, listener: Callable[[Event], None]) -> PricedRun:
    """Let a listener hear every event, however short the time between them."""
    search.listener = listener
    search.report = lambda phase, force=False: PricedRun.report(search, phase, force=True)
    return search


@pytest.mark.parametrize("seed", [1, 13, 58])
def test_bounds_on_the_way_are_valid_and_rise(seed):
    case, events = Case(seed), []
    best = make_engine("enumeration").solve(case.whole()).objective
    search_all_inputs(listen(case.search(), events.append))
    bounds = [event.bound for event in events]
    assert bounds == sorted(bounds)
    assert max(bounds) <= best * (1 + 1e-6)
    assert {"pricing", "done"} <= {event.phase for event in events}


@pytest.mark.parametrize("limit", [0.0, 1e-3, 0.05])
def test_time_limit_is_honest(limit):
    data = make_sparse_polynomial(60, 25, 3, 5, 6, 10.0, random_state=2)
    rules = TermRules(degree=3, max_terms=6, max_inputs=5)
    search = PricedRun(
        priced(data.X, data.y, 3, fit_intercept=True),
        rules,
        lam=8.0,
        engine=make_engine("tree"),
        time=TimeBudget(limit),
        gap_tol=1e-4,
    )
    found = search_all_inputs(search)
    truth = Pool(search.design, data.monomials)
    problem, _ = search.problem_on(truth, rules)
    planted = problem.refit(np.arange(len(truth))).objective
    assert found.solution.stop is Stop.TIME
    assert found.solution.bound <= min(found.solution.objective, planted)
    if limit == 0.0:
        assert found.solution.counters.rounds == 0
        assert found.solution.bound == 0.0


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_interrupt_inside_a_pass_keeps_what_is_known(after):
    case = Case(57)
    best = make_engine("enumeration").solve(case.whole()).objective
    search = case.search()

    def interrupt(event: Event) -> None:
        if event.phase == "pricing" and search.rounds == after:
            raise KeyboardInterrupt

    listen(search, interrupt)
    solution = search_all_inputs(search).solution
    assert solution.stop is Stop.INTERRUPTED
    assert solution.counters.rounds == after
    assert solution.bound <= best * (1 + 1e-9) <= solution.objective * (1 + 2e-9)


def test_interrupt_inside_the_engine_is_passed_on():
    case = Case(13)
    search = case.search(sizes=replace(TINY, subproblem=1000, listed=1000))

    def interrupt(event: Event) -> None:
        if event.phase == "branching" and search.nodes > 0:
            raise KeyboardInterrupt

    listen(search, interrupt)
    assert search_all_inputs(search).solution.stop is Stop.INTERRUPTED


def test_local_search_prices_but_does_not_branch():
    case = Case(13)
    solution = search_all_inputs(case.search(engine=make_engine("local-search"))).solution
    assert solution.counters.nodes == 0
    assert solution.counters.rounds >= 2
    best = make_engine("enumeration").solve(case.whole()).objective
    assert 0.0 < solution.bound <= best * (1.0 + 1e-9)


def test_constant_response_is_proved():
    case = Case(0)
    case.intercept, case.y = True, np.full(len(case.y), 2.5)
    found = search_all_inputs(case.search())
    assert found.solution.objective == 0.0
    assert found.solution.status is Status.OPTIMAL
    assert found.assembled.intercept(found.solution.support, found.solution.coefficients) == 2.5


def test_too_many_required_inputs():
    X = np.random.default_rng(0).standard_normal((30, 40))
    rules = TermRules(degree=3, max_terms=30, include_inputs=tuple(range(30)))
    with pytest.raises(InputError, match=r"include_inputs and include_terms .* got 30"):
        PricedRun(
            priced(X, X[:, 0], 3),
            rules,
            lam=1.0,
            engine=make_engine("tree"),
            time=TimeBudget(),
        )


@pytest.fixture(scope="module")
def planted():
    return make_sparse_polynomial(300, 40, 3, 6, 8, 20.0, random_state=1)


@pytest.fixture(scope="module")
def fitted(planted):
    model = SparsePolynomialRegressor(3, 8, 6, gamma=1 / 30, n_candidates=None)
    return model.fit(planted.X, planted.y)


def test_estimator_proves_over_every_input(planted, fitted):
    assert fitted.solution_.scope == "all-inputs"
    assert fitted.solution_.status is Status.OPTIMAL
    assert set(fitted.polynomial_.monomials) == set(planted.monomials)
    assert fitted.kept_inputs_.tolist() == list(range(40))
    assert fitted.ranking_ is None
    assert fitted.solution_.counters.rounds > 0
    residual = planted.y - fitted.predict(planted.X)
    assert np.linalg.norm(residual) < 0.1 * np.linalg.norm(planted.y)


def test_a_fit_over_every_input_leaves_a_proof(planted, fitted, tmp_path):
    fitted.solution_.proof.save(tmp_path / "all.proof")
    proof = Proof.load(tmp_path / "all.proof")
    assert not proof.statement.listed
    assert len(proof.statement.monomials) < 5000
    verdict = verify(proof, planted.X, planted.y)
    assert verdict, verdict.reason
    assert proof.bound <= verdict.bound <= fitted.solution_.objective
    assert 1.0 - verdict.bound / verdict.objective <= 1e-4
    assert "floats only" in verify(proof, planted.X, planted.y, exact=True).reason


def test_a_proof_over_every_input_proves_no_more_than_is_true(planted, fitted):
    proof, one = fitted.solution_.proof, np.zeros(1, dtype=np.intp)
    more = 1.001 * fitted.solution_.objective
    statement = replace(proof.statement, objective=10.0 * more)
    named = proof.statement.monomials
    for change in (
        {"bound": more},
        {"bound": more, "nodes": (ProofNode("enumeration"),)},
        {"bound": more, "nodes": (ProofNode("enumeration", on_inputs=True),)},
        {"bound": more, "nodes": tuple(map(narrowed, proof.nodes))},
        {"bound": more, "diagonals": (Diagonal(one, np.zeros(1)),)},
        {"statement": replace(statement, monomials=named[1:])},
        {"statement": replace(statement, monomials=(*named, (0, 41)))},
        {"statement": replace(statement, listed=True)},
        {"exceptions": ((0,),)},
    ):
        forged = replace(proof, **({"statement": statement} | change))
        assert not verify(forged, planted.X, planted.y), change


def narrowed(node: ProofNode) -> ProofNode:
    """Let a node go on with hardly any monomial."""
    few = tuple(replace(s, only=s.out[:1]) for s in node.screenings)
    return replace(node, screenings=few)


def test_auto_prices_and_an_integer_does_not(planted, fitted):
    auto = SparsePolynomialRegressor(3, 8, 6, gamma=1 / 30).fit(planted.X, planted.y)
    assert auto.polynomial_.monomials == fitted.polynomial_.monomials
    assert auto.solution_.scope == "all-inputs"
    kept = SparsePolynomialRegressor(3, 8, 6, gamma=1 / 30, n_candidates=12)
    assert kept.fit(planted.X, planted.y).solution_.scope == "kept-inputs"


def test_rules_apply_to_what_is_priced(planted):
    law = sorted(planted.monomials)
    unused = next(i for i in range(40) if i not in planted.inputs)
    model = SparsePolynomialRegressor(
        3,
        9,
        gamma=1 / 30,
        n_candidates=None,
        exclude_terms=[law[0]],
        include_terms=[(unused, unused)],
        exclude_inputs=[law[-1][0]],
        max_interaction=2,
        engine="local-search",
    )
    found = set(model.fit(planted.X, planted.y).polynomial_.monomials)
    assert law[0] not in found
    assert (unused, unused) in found
    assert all(len(set(m)) <= 2 and law[-1][0] not in m for m in found)
    expected = {m for m in law[1:] if len(set(m)) <= 2 and law[-1][0] not in m}
    assert expected <= found


def test_tensors_on_the_cpu_give_the_same_model(planted, fitted):
    torch = pytest.importorskip("torch")
    X, y = torch.as_tensor(planted.X), torch.as_tensor(planted.y)
    model = SparsePolynomialRegressor(3, 8, 6, gamma=1 / 30, n_candidates=None).fit(X, y)
    assert model.polynomial_.monomials == fitted.polynomial_.monomials
    np.testing.assert_allclose(
        model.polynomial_.coefficients, fitted.polynomial_.coefficients, rtol=1e-8
    )
    assert model.solution_.status is Status.OPTIMAL
    np.testing.assert_allclose(model.predict(X), fitted.predict(planted.X), rtol=1e-6)
    two_steps = SparsePolynomialRegressor(3, 8, 6, gamma=1 / 30, n_candidates=12)
    on_tensors, on_arrays = clone(two_steps).fit(X, y), two_steps.fit(planted.X, planted.y)
    assert on_tensors.kept_inputs_.tolist() == on_arrays.kept_inputs_.tolist()
    assert on_tensors.polynomial_.monomials == on_arrays.polynomial_.monomials


def test_devices_that_are_not_there(planted):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"device must be a PyTorch device, got 'toaster'"):
        SparsePolynomialRegressor(device="toaster").fit(planted.X, planted.y)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match=r"device='cuda' needs a CUDA GPU"):
            SparsePolynomialRegressor(device="cuda").fit(planted.X, planted.y)


@pytest.mark.parametrize("heredity", ["strong", "weak"])
def test_survivors_without_parents_leave_the_bound_of_the_others(heredity):
    """x0^2 survives, but x0 is out: what lies beyond the survivors still counts."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = 5.0 * X[:, 1] + rng.standard_normal(30)
    rules = TermRules(degree=2, max_terms=2, heredity=heredity)
    search = PricedRun(
        priced(X, y, 2),
        rules,
        lam=1.0,
        engine=make_engine("tree"),
        time=TimeBudget(10.0),
        gap_tol=1e-6,
    )
    node = PricedNode(0, rules, None, terms_out=frozenset({(0,)}))
    node = PricedKind(search, None)._solved(node, Survivors([(0, 0)], 7.0))
    assert node.bound == 7.0
    assert not node.closed


@pytest.mark.parametrize("heredity", ["strong", "weak"])
def test_required_terms_whose_parents_are_excluded_are_refused_in_words(heredity):
    X, y = np.random.default_rng(0).standard_normal((30, 40)), np.arange(30.0)
    model = SparsePolynomialRegressor(
        3,
        4,
        n_candidates=None,
        heredity=heredity,
        include_terms=[(0, 1)],
        exclude_terms=[(0,), (1,)],
    )
    with pytest.raises(InfeasibleError, match="include_terms must have their parents allowed"):
        model.fit(X, y)


def test_a_basis_without_any_monomial_that_may_be_used_leaves_the_empty_model():
    X, y = np.random.default_rng(0).standard_normal((30, 40)), np.arange(30.0)
    linear = [(i,) for i in range(40)]
    model = SparsePolynomialRegressor(
        3, 4, gamma=1.0, n_candidates=None, heredity="strong", exclude_terms=linear
    ).fit(X, y)
    assert model.polynomial_.monomials == ()
    assert model.solution_.status == "optimal"
