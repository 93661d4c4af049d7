"""Proofs over monomials that nobody lists, with functions of inputs and bounded coefficients.

Small problems with every rule are searched as if they were too large to list, with a pool much too
small; enumeration is the referee, and the checker must accept what the search has written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import (
    Columns,
    Design,
    FitContext,
    Intervals,
    PricedRun,
    ProofNode,
    Sizes,
    Statement,
    TimeBudget,
    Vector,
    WorkPlan,
    all_monomials,
    code_table,
    home,
    inner,
    largest_products,
    open_rows,
    search_all_inputs,
    with_statement,
)

from polysharp import Proof, Solution, SparsePolynomialRegressor, verify
from polysharp.cli import main
from polysharp.engines import make_engine
from polysharp.errors import InfeasibleError

read_rows = inner("read_rows", "checker")

NO_TERMS = np.zeros(0, dtype=np.intp)
LIGHT, SLOW = 16, 1500  # problems
SMALL = Sizes(first=5, added=4, listed=25, pool=12, subproblem=12)
FUNCTIONS = ("inverse", "square-root", "log", "exp", "sin", "cos")
SHAPES = ((2, 2, 2), (3, 2, 1), (4, 2, 0), (3, 3, 0), (2, 3, 1), (1, 4, 2), (5, 1, 2), (6, 2, 0))


class Drawn:
    """Rows, rules, functions and intervals from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([91, seed])
        p, degree, most = SHAPES[seed % len(SHAPES)]
        n = int(rng.integers(10, 60))
        self.X = rng.uniform(0.4, 3.0, (n, p))
        if seed % 7 == 0:
            self.X[:, 0] = rng.integers(1, 3, n)
        self.weights = rng.uniform(0.3, 2.0, n) if seed % 3 == 0 else None
        chosen = [str(name) for name in rng.choice(FUNCTIONS, most, replace=False)]
        self.options: dict[str, Any] = {
            "degree": degree,
            "max_terms": int(rng.integers(1, 4)),
            "max_inputs": [None, 1, 2][int(rng.integers(3))],
            "heredity": [None, None, "weak", "strong"][int(rng.integers(4))],
            "max_interaction": [None, 1, 2][int(rng.choice(3, p=[0.7, 0.15, 0.15]))],
            "interaction_degree": [None, 2][int(rng.random() < 0.15)],
            "fit_intercept": bool(rng.random() < 0.7),
            "center": bool(rng.random() < 0.3),
            "gamma": float(10.0 ** rng.uniform(-3, 2)),
            "functions": chosen if rng.random() < 0.7 or not most else {f"x{p - 1}": chosen},
            "gap_tol": 1e-6,
        }
        if rng.random() < 0.2:
            self.options["exclude_terms"] = [
                (int(rng.integers(p)),) * int(rng.integers(1, degree + 1))
            ]
        if rng.random() < 0.15:
            self.options["include_inputs"] = [int(rng.integers(p))]
        if rng.random() < 0.1 and p > 2 and self.options.get("include_inputs") != [p - 2]:
            self.options["exclude_inputs"] = [p - 2]
        self._bound(rng, p)
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        U = (self.X - low) / (high - low)
        law = U @ rng.standard_normal(p) + U[:, 0] / (1.0 + U[:, -1]) + np.log(self.X[:, 0])
        self.y = law + 0.3 * rng.standard_normal(n) + 1.0

    def _bound(self, rng: np.random.Generator, p: int) -> None:
        size = float(10.0 ** rng.uniform(-2, 1))
        one = [(-size, size), (0.0, size), (-size, None), (None, 0.0)][int(rng.integers(4))]
        kind = int(rng.integers(7))
        if kind == 0:
            self.options["positive"] = True
        elif kind == 1:
            self.options["coefficient_bounds"] = one
        elif kind == 2:
            self.options["coefficient_bounds"] = {"x0": one, "*": (-2.0 * size, 3.0 * size)}
        elif kind == 3:
            self.options["coefficient_bounds"] = {"x0": one, f"x{p - 1}^1": (-size, 0.1)}
        elif kind == 4:
            self.options["coefficient_bounds"] = {(0,): (-size, size), "*": (0.0, None)}


def priced(case: Drawn, limit: float = 20.0) -> Solution:
    """PricedRun as if no monomial could be listed."""
    model = SparsePolynomialRegressor(**case.options, n_candidates=None)
    with FitContext.of(model) as context:
        tables = [open_rows(model, case.X, case.y, case.weights, context.progress)]
        opened, _ = code_table(model, tables, context)
    rules = opened.rules
    columns = np.array(rules.library.columns_of(opened.allowed), dtype=np.intp)
    search = PricedRun(
        Design(opened.rows, columns, rules.degree, fit_intercept=not rules.constant),
        rules,
        lam=1.0 / opened.gamma,
        engine=make_engine("tree"),
        time=TimeBudget(limit),
        gap_tol=case.options["gap_tol"],
        sizes=SMALL,
    )
    found = search_all_inputs(search)
    structure = found.assembled.problem.structure
    return with_statement(
        found.solution, rules, found.basis, structure, opened.scaling, opened.tables[0]
    )


def optimum(case: Drawn) -> float:
    """Return the least cost, of all supports."""
    model = SparsePolynomialRegressor(**case.options, engine="enumeration")
    return model.fit(case.X, case.y, case.weights).solution_.objective


def check(seed: int, limit: float = 20.0) -> None:
    case = Drawn(seed)
    try:
        best = optimum(case)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            priced(case, limit)
        return
    found, label = priced(case, limit), f"{seed}: {case.options}"
    slack = 1e-6 * best + 1e-12
    assert found.bound <= best + slack, label
    assert found.objective >= best - slack, label
    assert found.objective <= best + slack or found.gap > 1e-6, label
    if found.proof is None:
        assert found.bound == 0.0, label  # stopped before a vector was priced
        return
    assert not found.proof.statement.listed
    verdict = verify(found.proof, case.X, case.y, case.weights)
    assert verdict, f"{label}: {verdict}"
    assert verdict.bound <= best * (1.0 + 1e-9), label
    assert verdict.bound >= found.bound * (1.0 - 1e-6) - slack or limit < 1.0, label


@pytest.mark.parametrize("group", range(4))
def test_agrees_with_enumeration_and_is_accepted(group):
    for seed in range(group, LIGHT, 4):
        check(seed)


def test_what_was_found():
    """More inputs allowed than there are; products whose factors are out, under heredity."""
    for seed in (13, 55):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_agrees_on_1500(group):
    for seed in range(LIGHT + group, LIGHT + SLOW, 20):
        check(seed)


@pytest.mark.parametrize("limit", [0.01, 0.03])
def test_a_search_that_runs_out_of_time_leaves_what_it_has_proved(limit):
    for seed in range(4):
        check(seed, limit)


@pytest.mark.parametrize("kept", [8, 64])
def test_a_reader_that_names_few_proves_no_more_than_is_true(kept, monkeypatch):
    """Monomials beyond those named are bounded together; enough are named to accept."""
    for module in (home("largest_products"), home("Pricing")):
        monkeypatch.setattr(module, "KEPT", kept)
    for seed in range(6):
        case = Drawn(seed)
        best, proof = optimum(case), priced(case).proof
        verdict = verify(proof, case.X, case.y, case.weights)
        assert verdict or kept < SMALL.listed, f"{seed}: {verdict}"
        assert verdict.bound <= best * (1.0 + 1e-9)
        above = replace(proof, bound=best * (1.0 + 1e-6))
        assert not verify(above, case.X, case.y, case.weights)


@pytest.mark.parametrize("seed", range(16))
def test_every_monomial_is_priced_and_no_other(seed, monkeypatch):
    """All that the checker lists, with products known from the columns themselves."""
    case = Drawn(seed)
    own = priced(case).proof.statement
    s = replace(own, monomials=(), listed=False, heredity=None, excluded_terms=())
    every = list(all_monomials(s))
    rows = read_rows(s, case.X, case.y, case.weights)
    columns, whole = Columns(s, rows, ()), Columns(s, rows, every)
    a = columns.residual(0, NO_TERMS, np.zeros(0)) + 0.1 * np.sin(np.arange(len(case.y)))
    sums, _ = whole.products(a[:, None], np.arange(len(every)), np.longdouble)
    true = dict(zip(every, sums[:-1, 0].astype(float).tolist(), strict=True))
    found, rest = largest_products(columns, a, np.array(s.kept_inputs))
    assert rest == 0.0
    assert sorted(one.monomial for one in found) == sorted(every)
    for one in found:
        assert one.up >= true[one.monomial] >= -one.down
        assert one.up + one.down <= 1e-9 * (1.0 + one.size) or not one.monomial
    for kept in (1, 5, 30):
        monkeypatch.setattr(home("largest_products"), "KEPT", kept)
        few, rest = largest_products(columns, a, np.array(s.kept_inputs))
        named = {one.monomial for one in few}
        assert len(named) == min(kept, len(every))
        assert all(abs(true[m]) <= rest for m in every if m not in named)


RULES: dict[str, Any] = {
    "degree": 2,
    "max_terms": 3,
    "gamma": 10.0,
    "functions": {"x0": ("inverse",), "x1": ("inverse",)},
    "coefficient_bounds": {"x0": (0, 1.5), "*": (-0.8, 2)},
    "gap_tol": 1e-6,
}


class Law(Drawn):
    """Terms that leave their intervals, and one function that is not asked for."""

    def __init__(self, **options: Any) -> None:
        rng = np.random.default_rng(5)
        self.X, self.weights, self.options = rng.uniform(0.5, 3.0, (60, 3)), None, RULES | options
        x, z, t = self.X.T
        self.y = 3.0 * x / z + z * z + 5.0 * np.log(t) + 0.3 * rng.standard_normal(60)


@cache
def law() -> tuple[Law, Proof]:
    """Return the rows and an honest proof about them."""
    proof = priced(Law()).proof
    assert verify(proof, Law().X, Law().y)
    return Law(), proof


def stated(**changes: Any) -> Proof:
    """Return the proof with another statement, whatever its model costs there."""
    _, proof = law()
    return replace(proof, statement=replace(proof.statement, objective=1e9, **changes))


@pytest.mark.parametrize(
    ("told", "options"),
    [
        ({"everywhere": (-2.0, 2.0)}, {"x0": (0, 1.5), "*": (-2, 2)}),
        ({"everywhere": (-np.inf, np.inf)}, {"x0": (0, 1.5)}),
        ({"inputs": ()}, (-0.8, 2)),
        ({"inputs": ((0, (0.0, 3.0)),)}, {"x0": (0, 3), "*": (-0.8, 2)}),
        ({"inputs": ((0, (-1.0, 1.5)),)}, {"x0": (-1, 1.5), "*": (-0.8, 2)}),
        ({"terms": (((2,), (-5.0, 0.0)),)}, {"x0": (0, 1.5), "*": (-0.8, 2), "x2^1": (-5, 0)}),
    ],
)
def test_a_proof_holds_for_other_intervals_only_where_it_is_true(told, options):
    case, proof = law()
    best = optimum(Law(coefficient_bounds=options))
    own = proof.statement.coefficients._replace(**told)
    verdict = verify(stated(coefficients=own), case.X, case.y)
    assert verdict.bound <= best
    assert bool(verdict) <= (proof.bound <= best)


def test_wider_intervals_are_not_proved():
    """Of those above these are false."""
    case, proof = law()
    own = proof.statement.coefficients
    for told in ({"everywhere": (-0.8, 4.0)}, {"inputs": ((0, (0.0, 3.0)),)}, {"inputs": ()}):
        verdict = verify(stated(coefficients=own._replace(**told)), case.X, case.y)
        assert "less than the bound" in verdict.reason, told
    for told in (
        {"inputs": ((0, (0.1, 3.0)),)},
        {"inputs": ((7, (0.0, 1.5)),)},
        {"everywhere": (np.nan, 1.0)},
    ):
        verdict = verify(stated(coefficients=own._replace(**told)), case.X, case.y)
        assert "interval" in verdict.reason, told


def test_a_proof_about_other_functions_is_rejected():
    case, proof = law()
    s = proof.statement
    assert s.functions == ((0, "inverse"), (1, "inverse"))
    more = {"shift": np.append(s.shift, 0.0), "scale": np.append(s.scale, 1.0)}
    for change in (
        {"functions": (s.functions[0],) * 2},
        {"functions": ((5, "inverse"), *s.functions[1:])},
        {"functions": ()},
        {"functions": (*s.functions, (2, "unheard-of")), **more},
        {"functions": (*s.functions, (2, "log")), "coefficients": Intervals(), **more},
    ):
        assert not verify(stated(**change), case.X, case.y), change
    # One more function gives a better law: what was proved without it is false with it.
    case = Law(coefficient_bounds=None)
    proof = priced(case).proof
    assert verify(proof, case.X, case.y)
    logs = {"functions": (*s.functions, (2, "log")), "objective": 1e9, **more}
    forged = replace(proof, statement=replace(proof.statement, **logs))
    named = {"x0": ("inverse",), "x1": ("inverse",), "x2": ("log",)}
    assert optimum(Law(coefficient_bounds=None, functions=named)) < 0.95 * proof.bound
    assert "less than the bound" in verify(forged, case.X, case.y).reason


def test_forged_bounds_vectors_and_monomials_are_rejected():
    case, proof = law()
    named, X, y = proof.statement.monomials, case.X, case.y
    above = verify(proof, X, y).objective * (1.0 + 1e-9)
    assert not verify(replace(proof, bound=above), X, y)
    for number in range(len(named)):
        assert not verify(stated(monomials=(*named[:number], *named[number + 1 :])), X, y)
    few = tuple(map(narrowed, proof.nodes))
    assert not verify(replace(proof, nodes=few), X, y)


@pytest.mark.parametrize("gamma", [0.02, 0.005])
def test_vectors_times_another_number_prove_nothing(gamma):
    """With so strong a ridge one vector carries the proof: by screening, or at once."""
    case = Law(gamma=gamma)
    proof = priced(case).proof
    assert verify(proof, case.X, case.y)
    for multiple in (0.0, -1.0, np.nan, np.inf, 0.5, 1e300, 1e-300):
        nodes = tuple(multiplied(node, multiple) for node in proof.nodes)
        assert not verify(replace(proof, nodes=nodes), case.X, case.y), multiple


def multiplied(node: ProofNode, multiple: float, *, keep: bool = False) -> ProofNode:
    """Give the vectors of a node another multiple, or one more factor where they keep theirs."""

    def changed(vector: Vector) -> Vector:
        return replace(vector, multiple=multiple * (vector.multiple if keep else 1.0))

    screenings = tuple(replace(s, vector=changed(s.vector)) for s in node.screenings)
    own = node.vector and changed(node.vector)
    return replace(node, screenings=screenings, vector=own)


def narrowed(node: ProofNode) -> ProofNode:
    """Let hardly any monomial stay where a screening says which do."""
    few = (s if s.only is None else replace(s, only=s.only[:1]) for s in node.screenings)
    return replace(node, screenings=tuple(few))


def test_columns_beyond_the_floats_are_refused():
    """Infinity less infinity is no number, and no monomial may vanish by that."""
    rng = np.random.default_rng(0)
    X = 1e10 * rng.standard_normal((20, 3))
    y = 1e-10 * X[:, 0] + 0.5 * rng.standard_normal(20)
    whole = float((y - y.mean()) @ (y - y.mean()))
    for degree, scale in ((1, 1e-300), (2, 1e-150), (3, 1e-100)):
        statement = Statement(
            names=("a", "b", "c"), response="y", total_weight=20.0, degree=degree,
            kept_inputs=(0, 1, 2), max_interaction=degree, interaction_degree=degree,
            excluded_terms=(), monomials=(), listed=False, shift=np.zeros(3),
            scale=np.full(3, scale), fit_intercept=True, gamma=1.0, max_terms=1, max_inputs=3,
            required_terms=(), required_inputs=(), heredity=None, support=(), objective=whole,
        )  # fmt: skip
        end = ProofNode("dual", vector=Vector(NO_TERMS, np.zeros(0)))
        verdict = verify(Proof(0.49 * whole, (end,), statement=statement), X, y)
        assert not verdict
        assert "floats" in verdict.reason or "-inf" in verdict.reason


def test_multiples_of_vectors_are_kept_in_files(tmp_path):
    case = Law(gamma=0.02)  # one vector carries the proof
    proof = priced(case).proof
    assert any(vector.multiple != 1.0 for vector in proof.vectors)
    for factor in (1.0, 0.01):
        nodes = tuple(multiplied(node, factor, keep=True) for node in proof.nodes)
        one = replace(proof, nodes=nodes)
        one.save(tmp_path / "a.proof")
        again = Proof.load(tmp_path / "a.proof")
        assert [v.multiple for v in again.vectors] == [v.multiple for v in one.vectors]
        assert bool(verify(again, case.X, case.y)) == (factor == 1.0)


FITS: dict[str, dict[str, Any]] = {
    "positive": {"positive": True, "max_inputs": 2},
    "functions": {"heredity": "strong"},
    "intervals": {"coefficient_bounds": {"x0": (0, 1.5), "*": (-1, 1)}, "heredity": "weak"},
}


@pytest.mark.parametrize(
    "rules", ["positive", *(pytest.param(name, marks=pytest.mark.slow) for name in list(FITS)[1:])]
)
def test_the_command_verifies_a_proof(rules, tmp_path, monkeypatch, capsys):
    """More products than are listed, under heredity and a budget of inputs as well."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.uniform(0.5, 3.0, (50, 45)), columns=[f"x{i}" for i in range(45)])
    y = 2.0 * X["x0"] / X["x1"] + X["x0"] + 0.05 * rng.standard_normal(50)
    X.assign(y=y).to_csv("t.csv", index=False)
    X.assign(y=y[::-1].to_numpy()).to_csv("u.csv", index=False)
    model = SparsePolynomialRegressor(
        2, 2, gamma=0.001, functions=("inverse", "log"), n_candidates=None, **FITS[rules]
    ).fit(X, y.rename("y"))
    statement = model.solution_.proof.statement
    assert not statement.listed
    assert len(statement.functions) == 90
    model.solution_.proof.save("p")
    assert main(["verify", "p", "t.csv", "-q"]) == 0
    assert main(["verify", "p", "u.csv", "-q"]) == 4
    capsys.readouterr()


def test_a_search_over_some_inputs_speaks_of_these(monkeypatch):
    """Where time leaves no more, the statement keeps the inputs that the search was given."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.5, 3.0, (60, 9))
    y = 2.0 * X[:, 6] / X[:, 4] + 0.1 * rng.standard_normal(60)
    monkeypatch.setattr(home("CodedTable"), "plan_work", lambda *a, **k: WorkPlan(4, True))
    model = SparsePolynomialRegressor(2, 2, 2, gamma=1.0, functions=("inverse",)).fit(X, y)
    proof = model.solution_.proof
    assert proof.statement.kept_inputs == tuple(model.kept_inputs_.tolist())
    assert len(model.kept_inputs_) == 4
    assert verify(proof, X, y)
