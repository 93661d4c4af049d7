"""Coefficients within boxes: refits, prices, engines, certificates, and how users state them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from instances import TINY, Instance, make_instance, optimum, with_boxes
from scipy.optimize import lsq_linear
from support import (
    Design,
    Intervals,
    MemoryRows,
    PricedKind,
    PricedRun,
    ProofNode,
    Sizes,
    SwapState,
    SwapTask,
    TimeBudget,
    inner,
    price,
    raise_bound,
    read_bounds,
    read_rules,
    search_all_inputs,
)

from polysharp import (
    Proof,
    Solution,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    path,
    save_model,
    verify,
)
from polysharp.engines import make_engine
from polysharp.errors import InputError

Array = inner("Array", "typing")

TIGHT = 1e-7  # gap
SOLVERS = ("cutting-planes", "cutting-planes-multitree", "big-m")
EXACT = ("tree", *SOLVERS)
LARGEST = {"big-m": 9}


@cache
def boxed(seed: int) -> tuple[Instance, Solution]:
    instance = with_boxes(make_instance(seed), seed)
    return instance, optimum(instance.problem)


def slack_of(instance: Instance, best: Solution) -> float:
    return 1e-6 * best.objective + 1e3 * instance.problem.resolution


def check_engine(name: str, seed: int) -> None:
    instance, best = boxed(seed)
    problem, slack = instance.problem, slack_of(instance, best)
    answer = make_engine(name).solve(problem, time=TimeBudget(60.0), gap_tol=TIGHT)
    S = np.array(answer.support, dtype=np.intp)
    assert problem.structure.allows(S), instance.label
    low, high = problem.boxes.among(S)
    assert np.all((low <= answer.coefficients) & (answer.coefficients <= high)), instance.label
    assert best.objective - slack <= answer.objective, instance.label
    assert answer.bound <= best.objective + slack, instance.label
    if name != "local-search":
        assert answer.objective <= best.objective + slack, instance.label
        assert answer.status == "optimal", instance.label


def test_refits_agree_with_scipy() -> None:
    for seed in range(60):
        problem = with_boxes(make_instance(seed), seed).problem
        S = np.random.default_rng(seed).choice(problem.size, min(problem.size, 5), replace=False)
        fit = problem.refit(S)
        low, high = problem.boxes.among(fit.support)
        assert np.all((low <= fit.w) & (fit.w <= high))
        H = problem.gram.block(fit.support, fit.support) + problem.lam * np.eye(len(S))
        R = np.linalg.cholesky(H).T
        right = np.linalg.solve(R.T, problem.q[0, fit.support])
        other = lsq_linear(
            R, right, (low[0], np.maximum(high, low + 1e-300)[0]), "bvls", tol=1e-14
        ).x
        cost = 0.5 * (problem.yy - 2.0 * problem.q[0, fit.support] @ other + other @ H @ other)
        assert fit.objective <= cost * (1.0 + 1e-9) + 1e-12 * problem.yy


def test_prices_are_never_below_those_of_rationals() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        rho, ridge = rng.standard_normal(), 10.0 ** rng.uniform(-8, 3)
        low, high = -(10.0 ** rng.uniform(-6, 6)), 10.0 ** rng.uniform(-6, 6)
        low, high = (low * (rng.random() < 0.8), high * (rng.random() < 0.8))
        exact = max(
            _gain(rho, ridge, v)
            for v in (low, high, 0.0, min(max(Fraction(rho) / Fraction(ridge), low), high))
        )
        found = float(price(rho, 0.0, ridge, low, high))
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**46))
    assert price(2.0, 0.0, 4.0, -np.inf, np.inf) == pytest.approx(0.5)


def _gain(rho: float, ridge: float, v: float | Fraction) -> Fraction:
    return Fraction(rho) * Fraction(v) - Fraction(ridge) * Fraction(v) ** 2 / 2


def test_a_price_covers_every_rho_within_its_error() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        rho, error, ridge = rng.standard_normal(), abs(rng.standard_normal()), rng.random() + 0.01
        low, high = -abs(rng.standard_normal()), abs(rng.standard_normal())
        most = price(rho, error, ridge, low, high)
        for other in rho + error * np.linspace(-1.0, 1.0, 9):
            assert price(other, 0.0, ridge, low, high) <= most * (1.0 + 1e-12)


def test_the_model_of_the_local_search_keeps_to_the_boxes() -> None:
    kept = 0
    for seed in range(80):
        problem = with_boxes(make_instance(seed), seed).problem
        rng, slots = np.random.default_rng(seed), min(problem.size, 5)
        model = SwapState(problem, slots)
        model.load(rng.choice(problem.size, slots, replace=False))
        fit = problem.refit(model.support)
        kept += model.objective == pytest.approx(fit.objective, rel=1e-7, abs=1e-10 * problem.yy)
        model.fill_and_swap(SwapTask(slots, slots, problem.resolution, 0.0))
        assert problem.refit(model.support).objective <= fit.objective * (1 + 1e-6)
    assert kept >= 78  # parking may go round in circles, which costs nothing but a good guess


@pytest.mark.parametrize("name", [*EXACT, "local-search"])
def test_engines_agree_with_enumeration(name: str) -> None:
    for seed in (start + start // 4 % 4 for start in range(0, 160, 4)):
        instance, _ = boxed(seed)
        if name in SOLVERS and instance.ridge == TINY:  # solvers run into their tolerances
            continue
        if instance.problem.size <= LARGEST.get(name, 20):
            check_engine(name, seed)


def check_proof(seed: int) -> None:
    """A fit with bounds in the user's units is the best, and its proof says so."""
    rng = np.random.default_rng([53, seed])
    X, y = law(seed, int(rng.integers(15, 40)))
    low, high = -(10.0 ** rng.uniform(-3, 1)), 10.0 ** rng.uniform(-3, 1)
    stated: tuple[dict[str, Any], ...] = (
        {"positive": True},
        {"coefficient_bounds": (low, high)},
        {"coefficient_bounds": {"x0": (low, high), "x1": (None, 0.0)}},
        {"coefficient_bounds": {"x2": (0.0, None)}, "heredity": "weak"},
    )
    model = SparsePolynomialRegressor(
        int(rng.integers(1, 3)), int(rng.integers(1, 4)), gamma=10.0 ** rng.uniform(-2, 2),
        gap_tol=1e-7, fit_intercept=bool(rng.random() < 0.7), **stated[seed % 4],
    )  # fmt: skip
    found = model.fit(X, y).solution_
    best = model.set_params(engine="enumeration").fit(X, y).solution_.objective
    assert found.objective == pytest.approx(best, rel=1e-6), seed
    verdict = verify(found.proof, X, y)
    assert verdict.valid, f"{seed}: {verdict}"
    assert verdict.bound <= best * (1 + 1e-9), seed


def test_proofs_agree_with_enumeration() -> None:
    for seed in range(1000, 1012):
        check_proof(seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_a_thousand_problems(group: int) -> None:
    for seed in range(group, 1000, 20):
        check_engine("tree", seed)
        check_proof(seed)


def law(seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 30.0, 0.02] + [0.0, 5.0, 0.01]
    u = X / [1.0, 30.0, 0.02]
    y = 2.0 * u[:, 0] - 1.5 * u[:, 1] * u[:, 2] + u[:, 2] ** 2 + 0.3 * rng.standard_normal(n)
    return X, y


STATED: tuple[dict[str, Any], ...] = (
    {"positive": True},
    {"coefficient_bounds": (-0.5, 0.5)},
    {"coefficient_bounds": {"b": (0, None), ("a",): (-1.0, 1.5), "c^2": (None, 0.0)}},
    {"coefficient_bounds": {"*": (0, 1.0), "b": (None, None)}, "positive": False, "center": True},
    {"coefficient_bounds": {1: (-0.001, 0.02)}, "positive": True, "fit_intercept": False},
)


def fitted(stated: dict[str, Any], seed: int = 0, **options: Any) -> SparsePolynomialRegressor:
    settings = {"degree": 2, "max_terms": 3, "gamma": 1.0, "gap_tol": 1e-7, **stated, **options}
    return SparsePolynomialRegressor(**settings).fit(table(seed), law(seed)[1])


def table(seed: int) -> pd.DataFrame:
    return pd.DataFrame(law(seed)[0], columns=["a", "b", "c"])


@pytest.mark.parametrize("stated", STATED)
def test_fits_keep_to_what_is_stated_and_are_proved(stated: dict[str, Any], tmp_path: Path) -> None:
    model, referee = fitted(stated), fitted(stated, engine="enumeration")
    solution, polynomial = model.solution_, model.polynomial_
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(referee.solution_.objective, rel=1e-6)
    bounds = read_bounds(stated.get("coefficient_bounds"), stated.get("positive"), polynomial.names)
    for m, c in zip(polynomial.monomials, polynomial.coefficients, strict=True):
        low, high = bounds.interval(m)
        assert low <= c <= high
    free = fitted({key: stated[key] for key in ("center", "fit_intercept") if key in stated})
    assert solution.objective > free.solution_.objective * 1.001  # the bounds matter here
    X, y = law(0)
    assert solution.proof is not None
    path = tmp_path / "proof.npz"
    solution.proof.save(path)
    proof = Proof.load(path)
    assert str(proof.statement) == str(solution.proof.statement)
    assert "coefficients: " in str(proof.statement)
    verdict = verify(proof, X, y)
    assert verdict, verdict.reason
    assert verdict.bound == pytest.approx(solution.bound, rel=1e-6)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(table(0)), model.predict(table(0)))


@pytest.mark.parametrize("stated", STATED)
def test_proofs_hold_in_exact_integers(stated: dict[str, Any]) -> None:
    pytest.importorskip("flint")
    X, y = law(0)
    proof = fitted(stated).solution_.proof
    assert proof is not None
    verdict = verify(proof, X, y, exact=True)
    assert verdict, verdict.reason


@pytest.mark.parametrize("stated", STATED[:3])
def test_a_proof_without_its_bounds_is_rejected(stated: dict[str, Any]) -> None:
    X, y = law(0)
    proof = fitted(stated).solution_.proof
    assert proof is not None
    assert proof.statement is not None
    wider = replace(proof.statement, coefficients=Intervals())
    assert not verify(proof.about(wider), X, y)
    longer = Intervals((-1e3, 1e3))
    assert not verify(proof.about(replace(proof.statement, coefficients=longer)), X, y)
    without_zero = Intervals((1.0, 2.0))
    verdict = verify(proof.about(replace(proof.statement, coefficients=without_zero)), X, y)
    assert "lacks 0" in verdict.reason


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"coefficient_bounds": (1.0, 2.0)}, "must hold 0"),
        ({"coefficient_bounds": (2.0, -1.0)}, "must hold 0"),
        ({"coefficient_bounds": (0.0, 0.0)}, "leave more than 0"),
        ({"coefficient_bounds": {"a": (-1.0, 0.0)}, "positive": True}, "with positive=True"),
        ({"coefficient_bounds": (0.0, float("nan"))}, "must be a pair"),
        ({"coefficient_bounds": "a"}, "must be a pair"),
        ({"coefficient_bounds": {"d": (0, 1)}}, "coefficient_bounds must hold products"),
        ({"coefficient_bounds": {"a^3": (0, 1)}}, "must name terms that may be chosen"),
        ({"coefficient_bounds": {5: (0, 1)}}, "indices from 0 to 2"),
        ({"positive": 1}, "positive must be True or False"),
    ],
)
def test_refusals_are_one_sentence(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        fitted(stated)
    assert "\n" not in str(refusal.value)


def test_every_door_keeps_to_the_bounds() -> None:
    X, y = table(1), law(1)[1]
    for point in path(X, y, degree=2, max_terms=4, positive=True, cv=3, random_state=0):
        assert np.all(point.polynomial.coefficients >= 0.0)
        assert point.status == "optimal"
    search = SparsePolynomialRegressorCV(
        degree=2, max_terms=4, positive=True, cv=3, random_state=0, time_limit=20.0
    )
    search.fit(X, y)
    assert np.all(search.polynomial_.coefficients >= 0.0)


def priced_search(options: dict[str, Any], **sizes: int) -> tuple[PricedRun, Array, Array]:
    """A search that prices the products of twelve inputs, and its rows."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 12))
    y = X[:, 0] * X[:, 1] - 0.4 * X[:, 2] + X[:, 3] ** 2 + 0.3 * rng.standard_normal(150)
    asked = SparsePolynomialRegressor(**options).get_params()
    rules = read_rules(asked, tuple(f"x{i}" for i in range(12)))
    rows = MemoryRows(X, y, None, tuple(f"x{i}" for i in range(12)))
    design = Design(rows, np.arange(12), 2, fit_intercept=True)
    search = PricedRun(
        design, rules, lam=10.0, engine=make_engine("tree"), time=TimeBudget(20.0), gap_tol=1e-6,
        sizes=Sizes(first=20, added=10, listed=80, pool=90, **sizes),
    )  # fmt: skip
    return search, X, y


@pytest.mark.parametrize("end", [0.01, 0.2])
def test_shares_of_priced_nodes_know_the_bounds(end: float) -> None:
    ends = {"degree": 2, "max_terms": 3, "coefficient_bounds": (-end, end)}
    search, _, _ = priced_search(ends, subproblem=0)
    node = PricedKind(search, search.price({})).root()
    _, promising = raise_bound(search, node)
    share = list(promising.share.values())
    assert share == sorted(share, reverse=True)
    # Coefficients at their ends have all of a term: the budget of three is nearly used up.
    assert share[:2] == pytest.approx([1.0, 1.0])
    assert sum(share) == pytest.approx(3.0, abs=0.2)


def test_priced_fits_keep_to_the_bounds() -> None:
    options: dict[str, Any] = {"degree": 2, "max_terms": 3, "gamma": 0.1, "positive": True}
    search, X, y = priced_search(options, subproblem=60)
    found = search_all_inputs(search)
    unscaled = SparsePolynomialRegressor(**options, scale=False, gap_tol=1e-6).fit(X, y)
    assert found.solution.objective == pytest.approx(unscaled.solution_.objective, rel=1e-5)
    assert found.solution.status == "optimal"
    assert found.solution.bound <= unscaled.solution_.objective * (1.0 + 1e-9)
    assert np.all(found.solution.coefficients >= 0.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bounded_coefficients_of_equal_rows_are_proved() -> None:
    """The ridge regression of equal columns is singular, and the constant has no interval."""
    X = np.tile([-1.81257512, 0.35796979, -0.03551268, 0.77275807, 2.45914819], (4, 1))
    y, weight = np.array([-0.14103431, 0.36775099, 0.63696572, 0.87874879]), np.full(4, 1.528976e8)
    limits = {"coefficient_bounds": (-0.0012, 0.0012), "gamma": 3.824e11, "fit_intercept": False}
    model = SparsePolynomialRegressor(degree=1, max_terms=3, engine="tree", **limits)
    proof = model.fit(X, y, sample_weight=weight).solution_.proof
    end = ProofNode("enumeration")
    verdict = verify(replace(proof, nodes=(end,), diagonals=()), X, y, weight)
    assert verdict, verdict.reason
