"""Algorithm 2 in its three solvers: exact against enumeration, honest when stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from support import (
    Basis,
    BigM,
    Cut,
    CuttingPlanes,
    CuttingPlanesGurobi,
    CuttingPlanesMultitree,
    Dialogue,
    Engine,
    Enumeration,
    Event,
    Master,
    Problem,
    RootLP,
    RuleRows,
    Run,
    Status,
    Stop,
    Structure,
    TimeBudget,
    accumulate,
    heredity_closed,
    inner,
    strengthen,
)

from polysharp import SparsePolynomialRegressor
from polysharp.engines import make_engine
from polysharp.errors import MissingSolverError
from polysharp.synthetic import make_sparse_polynomial

STEEPEST = inner("STEEPEST", "cutting_planes")

EXACT = 1e-6  # gap

ENGINES: list[Engine] = [
    CuttingPlanes(),
    CuttingPlanes(root_cuts=False),
    CuttingPlanesMultitree(),
    CuttingPlanesMultitree(root_cuts=False),
]


def _label(engine: Engine) -> str:
    return f"{engine.name}-{'root' if getattr(engine, 'root_cuts', True) else 'pure'}"


def small_problem(seed: int) -> Problem:
    """A problem of 5 to 20 monomials with rules drawn from everything a structure can ask."""
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(2, 5)), int(rng.integers(8, 40))
    X = rng.normal(size=(n, p))
    if seed % 3 == 0:
        X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=n)
    if seed % 7 == 0:
        X[:, -1] = X[:, 0]
    constant = bool(seed % 2)
    degree = 3 if p == 2 else 2
    basis = Basis.full(p, degree, constant=constant)
    heredity = (None, None, "strong", "weak")[seed % 4]
    basis = heredity_closed(basis, heredity)
    max_terms = int(rng.integers(1, 5))
    max_inputs = (None, 1, 2)[rng.integers(3)]
    noise = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 1)
    y = basis.evaluate(X) @ rng.normal(size=len(basis)) + noise
    moments = accumulate(basis, X, y)
    G, q, yy = moments.uncentred() if constant else (moments.scatter, moments.cross, moments.spread)
    terms = [(0,)] if seed % 5 == 0 else []
    room = max_terms > len(terms) and (max_inputs is None or max_inputs > len(terms))
    structure = Structure.of_basis(
        basis,
        max_terms,
        max_inputs,
        required_terms=terms,
        required_inputs=[p - 1] if seed % 6 == 1 and room else [],
        heredity=heredity,
    )
    return Problem.dense(G, q, yy, 10.0 ** rng.uniform(-2, 2), structure)


def planted_problem(
    n: int, p: int, k: int | None, terms: int, share: float, seed: int = 0
) -> tuple[Problem, set[int]]:
    """The paper's planted law with gamma = share / sqrt(n), and the planted support."""
    data = make_sparse_polynomial(n, p, 3, k, terms, 20.0, seed)
    basis = Basis.full(p, 3, constant=False)
    moments = accumulate(basis, data.X / np.sqrt((data.X**2).mean(axis=0)), data.y)
    structure = Structure.of_basis(basis, terms, k)
    lam = np.sqrt(n) / share
    problem = Problem.dense(moments.scatter, moments.cross, moments.spread, lam, structure)
    return problem, {basis.index[m] for m in data.monomials}


def assert_exact(engine: Engine, problem: Problem, gap_tol: float = EXACT) -> None:
    optimum = Enumeration().solve(problem).objective
    solution = engine.solve(problem, time=TimeBudget(60.0), gap_tol=gap_tol)
    assert solution.objective == pytest.approx(optimum, rel=1e-6)
    assert solution.bound <= optimum * (1.0 + 1e-9)
    assert solution.status is Status.OPTIMAL
    assert solution.stop is Stop.PROVED


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("engine", ENGINES[:2], ids=_label)
def test_single_tree_agrees_with_enumeration(engine: Engine, seed: int) -> None:
    assert_exact(engine, small_problem(seed))


@pytest.mark.parametrize("seed", [1, 2, 3, 7, 9, 10, 12, 14, 15, 18, 20, 21])
@pytest.mark.parametrize("engine", ENGINES[2:], ids=_label)
def test_multitree_agrees_with_enumeration(engine: Engine, seed: int) -> None:
    assert_exact(engine, small_problem(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 260))
@pytest.mark.parametrize("engine", ENGINES[:2], ids=_label)
def test_single_tree_agrees_with_enumeration_on_many(engine: Engine, seed: int) -> None:
    assert_exact(engine, small_problem(seed))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("root_cuts", [True, False])
def test_gurobi_agrees_with_enumeration(root_cuts: bool, seed: int) -> None:
    pytest.importorskip("gurobipy")
    assert_exact(CuttingPlanesGurobi(root_cuts=root_cuts), small_problem(seed))


@pytest.mark.parametrize("engine", ENGINES, ids=_label)
@pytest.mark.parametrize("time_limit", [0.0, 1e-3])
def test_no_time_still_gives_an_honest_answer(engine: Engine, time_limit: float) -> None:
    problem, _ = planted_problem(60, 6, 3, 4, 1.0)
    optimum = CuttingPlanes().solve(problem).objective
    solution = engine.solve(problem, time=TimeBudget(time_limit))
    assert solution.bound <= optimum <= solution.objective
    assert solution.stop is Stop.TIME or solution.status is Status.OPTIMAL


@pytest.mark.parametrize("engine", ENGINES, ids=_label)
@pytest.mark.parametrize("moment", [0, 1, 3])
def test_interruption_keeps_incumbent_and_bound(engine: Engine, moment: int) -> None:
    problem = small_problem(13)
    optimum = Enumeration().solve(problem).objective
    events: list[Event] = []

    def interrupt(event: Event) -> None:
        events.append(event)
        if len(events) == moment + 1:
            raise KeyboardInterrupt

    solution = engine.solve(problem, listener=interrupt)
    assert solution.stop is Stop.INTERRUPTED
    assert solution.bound <= optimum * (1.0 + 1e-9)
    assert solution.objective >= optimum * (1.0 - 1e-9)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on POSIX")
@pytest.mark.parametrize("engine", [ENGINES[1], ENGINES[3], BigM()], ids=_label)
def test_ctrl_c_inside_the_solver(engine: Engine) -> None:
    problem, _ = planted_problem(150, 12, None, 10, 1.0)
    best = make_engine("tree").solve(problem)
    assert best.status is Status.OPTIMAL
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        solution = engine.solve(problem, time=TimeBudget(30.0))
    finally:
        timer.cancel()
    assert solution.stop is Stop.INTERRUPTED
    assert solution.bound <= best.objective
    assert solution.objective >= best.bound


@pytest.mark.parametrize("engine", ENGINES, ids=_label)
def test_an_error_of_the_listener_is_not_swallowed(engine: Engine) -> None:
    def fail(event: Event) -> None:
        if event.cuts > 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.solve(small_problem(13), listener=fail)


def test_hierarchy_of_the_issue_is_proved() -> None:
    problem, planted = planted_problem(200, 15, 5, 10, 0.1)
    solution = CuttingPlanes().solve(problem, time=TimeBudget(60.0))
    assert solution.status is Status.OPTIMAL
    assert set(solution.support) == planted


@pytest.mark.parametrize("seed", range(3))
def test_ties_among_duplicate_columns_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = np.repeat(rng.normal(size=(20, 4)), 3, axis=1)
    y = M @ rng.normal(size=12) + 0.1 * rng.normal(size=20)
    structure = Structure(np.eye(12, dtype=bool), max_terms=3, max_inputs=12)
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 0.01, structure)
    for engine in ENGINES[:2]:
        assert_exact(engine, problem)


def test_zero_response_is_proved_at_once() -> None:
    problem = small_problem(1)
    nothing = replace(problem, q=0.0 * problem.q, squares=np.zeros(1))
    for engine in ENGINES:
        assert engine.solve(nothing).status is Status.OPTIMAL


def test_empty_budget_left_by_required_terms() -> None:
    basis = Basis.full(3, 2, constant=False)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    moments = accumulate(basis, X, y)
    structure = Structure.of_basis(basis, 2, required_terms=[(0,), (1, 2)])
    problem = Problem.dense(moments.scatter, moments.cross, moments.spread, 1.0, structure)
    for engine in ENGINES:
        assert_exact(engine, problem)


@pytest.mark.parametrize("seed", range(8))
def test_every_root_cut_is_below_the_cost_of_every_support(seed: int) -> None:
    problem = small_problem(seed)
    run = Run(problem, TimeBudget())
    master = strengthen(run, Master.of(run))
    rng = np.random.default_rng(seed)
    for _ in range(100):
        size = min(problem.structure.max_terms, len(master.kept))
        chosen = rng.choice(len(master.kept), size=size, replace=False)
        s = np.zeros(len(master.kept))
        s[chosen] = 1.0
        cost = problem.refit(master.kept[chosen]).objective
        # A clipped cut says no more than the bound that holds for the allowed supports.
        allowed = problem.structure.allows(master.kept[chosen])
        for cut in master.cuts if allowed else ():
            assert cut.constant + float(cut.slopes @ s) <= cost * (1.0 + 1e-9)


def test_raised_ridge_keeps_the_cost_of_supports_and_lifts_the_tangent() -> None:
    problem, _ = planted_problem(80, 3, None, 3, 1.0)
    master = Master.of(Run(problem, TimeBudget()))
    raised = master.ridge_raised()
    assert np.all(raised.part.system.ridge > problem.lam)
    s = np.full(problem.size, 0.3)
    assert raised.tangent(s).constant + raised.tangent(s).slopes @ s > (
        master.tangent(s).constant + master.tangent(s).slopes @ s
    )
    support = np.array([0, 4, 7])
    s = np.isin(np.arange(problem.size), support).astype(float)
    value = raised.tangent(s).constant + raised.tangent(s).slopes @ s
    assert value == pytest.approx(problem.refit(support).objective)


def test_relaxation_bound_is_safe_for_any_multipliers() -> None:
    problem = small_problem(8)
    run = Run(problem, TimeBudget())
    master = strengthen(run, Master.of(run))
    optimum = Enumeration().solve(problem).objective
    whole = Master.of(Run(problem, TimeBudget()))
    lp = RootLP(whole)
    for level in (0.1, 0.5, 0.9):
        lp.add(whole.tangent(np.full(problem.size, level)))
    rng = np.random.default_rng(0)
    for _ in range(50):
        y = rng.normal(size=whole.rules.A.shape[0] + 3)
        assert lp.safe(np.zeros(whole.rules.size), y).bound <= optimum * (1.0 + 1e-9)
    assert len(master.kept) <= problem.size


def test_rules_drop_what_an_input_out_takes_with_it() -> None:
    basis = Basis.full(3, 2, constant=False)
    rules = RuleRows.of(Structure.of_basis(basis, 3, 2))
    out = np.zeros(rules.size, dtype=bool)
    out[len(basis) + 1] = True
    gone = rules.implied_out(out)
    assert gone[: len(basis)].tolist() == basis.uses[:, 1].tolist()
    assert rules.restrict(~gone, np.zeros(rules.size, dtype=bool)).inputs.tolist() == [0, 2]


def test_a_support_that_comes_back_gets_a_corner_then_passes() -> None:
    problem = small_problem(2)
    run = Run(problem, TimeBudget())
    separator = Dialogue(run, Master.of(run), clip=True)
    s = np.zeros(problem.size)
    s[run.best.support] = 1.0
    (tangent, *_), (corner,) = separator.cuts(s, -1.0), separator.cuts(s, -1.0)
    cost = problem.refit(run.best.support).objective
    for cut in (tangent, corner):
        assert cut.constant + float(cut.slopes @ s) == pytest.approx(cost, rel=1e-6)
    assert separator.cuts(s, -1.0) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_exceeds_what_any_support_costs(seed: int) -> None:
    """Corners of larger sets as well, against every support."""
    problem = small_problem(seed)
    run = Run(problem, TimeBudget())
    run.offer(np.array(Enumeration().solve(problem).support, dtype=np.intp))
    separator, rng = Dialogue(run, Master.of(run)), np.random.default_rng(seed)
    every = [
        np.array(chosen, dtype=np.intp)
        for size in range(problem.structure.max_terms + 1)
        for chosen in combinations(range(problem.size), size)
    ]
    allowed = [support for support in every if problem.structure.allows(support)]
    for support in rng.permutation(len(allowed))[:5]:
        s = np.zeros(problem.size)
        s[allowed[support]] = 1.0
        for cut in separator.cuts(s, -1e9):
            for other in allowed:
                cost = problem.refit(other).objective
                value = cut.constant + float(cut.slopes[other].sum())
                # Clipped slopes and corners say no more than the bound known, or the least cost.
                assert value <= cost * (1.0 + 1e-9) + 1e-12 * problem.yy


@pytest.mark.parametrize("seed", [6, 7, 23])
def test_few_rows_and_little_ridge_need_few_integer_programmes(seed: int) -> None:
    """With tangents alone HiGHS branches 1800 to 4100 times, in 100 to 150 programmes."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 3)), rng.standard_normal(9)
    model = SparsePolynomialRegressor(
        degree=2, max_terms=4, gamma=236.0, fit_intercept=False, gap_tol=1e-6, time_limit=20.0
    )
    answer = model.set_params(engine="cutting-planes-multitree").fit(X, y).solution_
    best = model.set_params(engine="enumeration").fit(X, y).solution_
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(best.objective, rel=1e-6)
    assert answer.counters.nodes <= 200


@pytest.mark.parametrize(
    ("engine", "package"), [(CuttingPlanes(), "pyscipopt"), (CuttingPlanesGurobi(), "gurobipy")]
)
def test_missing_solver_is_named(
    engine: Engine, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingSolverError, match=package):
        engine.solve(small_problem(1))


HOSTILE = ("heavy-tails", "large", "near-duplicates", "large-mean")


def hostile_problem(kind: str, seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A problem whose moments say little in floating point, with its columns and response."""
    rng = np.random.default_rng(seed)
    n, p, degree = 30, 2, 3
    X = rng.normal(size=(n, p))
    if kind == "heavy-tails":
        X, degree = rng.standard_cauchy(size=(n, p)), 6
    elif kind == "large":
        X *= 1e10
    elif kind == "near-duplicates":
        X[:, 1] = X[:, 0] * (1.0 + 1e-9 * rng.normal(size=n))
    else:
        X += 1e6
    basis = Basis.full(p, degree)
    root = np.sqrt(10.0 ** rng.uniform(-6, 6, size=n))  # weights
    M = basis.evaluate(X) * root[:, None]
    y = (X[:, 0] * X[:, 1] + rng.normal(size=n)) * root
    structure = Structure.of_basis(basis, 2)
    lam = 10.0 ** rng.uniform(-6, 6)
    return Problem.dense(M.T @ M, M.T @ y, float(y @ y), lam, structure), M, y


def exact_optimum(problem: Problem, M: np.ndarray, y: np.ndarray) -> float:
    """The least cost over all supports, in long double from the columns themselves."""
    M, y, lam = M.astype(np.longdouble), y.astype(np.longdouble), np.longdouble(problem.lam)
    least = np.longdouble(np.inf)
    for S in combinations(range(problem.size), problem.structure.max_terms):
        A = M[:, S]
        (a, b), (_, d) = A.T @ A + lam * np.eye(2, dtype=np.longdouble)
        q, r = A.T @ y
        w = np.array([d * q - b * r, a * r - b * q]) / (a * d - b * b)
        e = y - A @ w
        least = min(least, (e @ e + lam * (w @ w)) / 2)
    return float(least)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("engine", [*ENGINES, BigM()], ids=_label)
def test_no_bound_exceeds_the_optimum_of_hostile_data(engine: Engine, kind: str, seed: int) -> None:
    problem, M, y = hostile_problem(kind, seed)
    solution = engine.solve(problem, time=TimeBudget(5.0))
    assert solution.bound <= exact_optimum(problem, M, y) * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_cut_holds_for_the_data_and_not_only_for_their_moments(kind: str) -> None:
    problem, M, y = hostile_problem(kind, 1)
    master = Master.of(Run(problem, TimeBudget()))
    rng = np.random.default_rng(0)
    pairs = [np.sort(rng.choice(problem.size, 2, replace=False)) for _ in range(30)]
    for _ in range(10):
        cut = master.tangent(rng.random(problem.size) * (rng.random(problem.size) < 0.4))
        for S in pairs:
            few = Structure(np.eye(2, dtype=bool), 2, 2)
            own = Problem.dense(np.eye(2), np.zeros(2), 1.0, problem.lam, few)
            cost = exact_optimum(own, M[:, S], y)
            assert cut.constant + float(cut.slopes[S].sum()) <= cost * (1.0 + 1e-12)


def test_rows_for_solvers_are_bounded_and_say_no_more_than_their_cut() -> None:
    master = replace(Master.of(Run(small_problem(2), TimeBudget())), floor=1.0, scale=1e-12)
    f = len(master.kept)
    rng = np.random.default_rng(0)
    cut = Cut(5.0, -(10.0 ** rng.uniform(-25, 3, size=f)))
    where, values, side = master.row(cut)
    assert max(side, values.max()) <= STEEPEST
    for _ in range(100):
        chosen = rng.choice(f, size=min(f, master.most_terms), replace=False)
        s = np.isin(np.arange(f), chosen)
        least = max(0.0, side - float(values[s[where]].sum()))
        assert least <= max(0.0, master.eta(cut.constant + float(cut.slopes[s].sum())))


def test_a_solver_s_bound_is_lowered_by_its_tolerances() -> None:
    run = Run(small_problem(2), TimeBudget())
    master = Master.of(run)
    assert master.safe_cost(run, 1.0) < run.best.objective
    assert master.safe_cost(run, 0.5) < master.floor + 0.5 * master.scale
    talk = Dialogue(run, master)
    for nothing in (np.nan, np.inf, -np.inf, 1e20, -1e20):
        talk.follow(nothing, 0)
    assert run.bound == 0.0
