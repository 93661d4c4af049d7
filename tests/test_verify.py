"""Proofs of the tree engine hold, survive a file, and any tampering that breaks them is found."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from instances import make_instance
from sklearn.exceptions import ConvergenceWarning
from support import (
    CheckedRows,
    Diagonal,
    Exact,
    ProofError,
    Scheduler,
    Screening,
    Statement,
    Tree,
    Vector,
    home,
    inner,
    value,
)

import polysharp
from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.engines import make_engine

Point = inner("Point", "checker")

CHECKER = Path(polysharp.__file__).parent / "checker"


# Small problems are ended by trying everything; here they are to be split.
SPLITTING = Tree(leaf_worth=0.0, outright_share=0.0, late_share=0.0, pairwise_shifts=False)


def make_data(seed=2, n=40):
    rng = np.random.default_rng(seed)
    X = 0.8 * rng.standard_normal((n, 1)) + 0.6 * rng.standard_normal((n, 5))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 2 + X[:, 3] * X[:, 4] + rng.standard_normal(n)
    return X, y


def fit(X, y, sample_weight=None, **options):
    given = {"degree": 3, "max_terms": 4, "gamma": 1.0, "gap_tol": 1e-7, "time_limit": 30.0}
    model = SparsePolynomialRegressor(**({"engine": SPLITTING} | given | options))
    return model.fit(X, y, sample_weight=sample_weight)


def statement_of(instance, solution):
    """What a solution of an instance of the tests claims: no scaling, every input."""
    basis, structure = instance.basis, instance.problem.structure
    p = basis.n_inputs
    return Statement(
        names=tuple(f"x{i}" for i in range(p)),
        response="y",
        total_weight=float(len(instance.y)),
        degree=basis.degree,
        kept_inputs=tuple(range(p)),
        max_interaction=basis.degree,
        interaction_degree=basis.degree,
        excluded_terms=(),
        monomials=basis.monomials,
        shift=np.zeros(p),
        scale=np.ones(p),
        fit_intercept=() not in basis.index,
        gamma=solution.gamma,
        max_terms=structure.max_terms,
        max_inputs=structure.max_inputs,
        required_terms=tuple(basis.monomials[j] for j in structure.required_terms),
        required_inputs=tuple(int(i) for i in structure.required_inputs),
        heredity=structure.heredity,
        support=tuple(basis.monomials[j] for j in solution.support),
        objective=solution.objective * (1.0 + 1e-9),
    )


def proof_of(instance, gap_tol, engine=SPLITTING):
    solution = engine.solve(instance.problem, gap_tol=gap_tol)
    return solution.proof.about(statement_of(instance, solution))


# Proofs hold --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 120))
def test_proofs_of_small_instances_hold(seed):
    instance = make_instance(seed)
    proof = proof_of(instance, (1e-4, 0.0, 0.3)[seed % 3], (Tree(), SPLITTING)[seed % 2])
    verdict = verify(proof, instance.X, instance.y)
    assert verdict, verdict.reason
    assert verdict.objective == pytest.approx(proof.statement.objective, rel=1e-8, abs=1e-12)
    assert proof.bound <= verdict.bound + 1e-8 * verdict.objective + 1e-12
    assert verdict.bound <= verdict.objective


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_proofs_of_many_small_instances_hold(seed):
    instance = make_instance(seed)
    verdict = verify(proof_of(instance, (1e-4, 0.0, 0.3)[seed % 3]), instance.X, instance.y)
    assert verdict, verdict.reason


OPTIONS = {
    "plain": {},
    "k binds": {"max_inputs": 2},
    "strong heredity": {"heredity": "strong"},
    "weak heredity": {"heredity": "weak", "max_terms": 3},
    "strong heredity, orphans": {"heredity": "strong", "exclude_terms": [(0, 1)]},
    "weak heredity, orphans": {"heredity": "weak", "exclude_terms": [(0,), (1,), (0, 0), (0, 1)]},
    "required": {"include_terms": [(0, 2)], "include_inputs": [3]},
    "required, k binds": {"include_inputs": [1], "max_inputs": 2},
    "no intercept": {"fit_intercept": False},
    "centred": {"center": True},
    "unscaled": {"scale": False},
    "excluded": {"exclude_terms": [(2, 2), (1, 1, 1)], "exclude_inputs": [4]},
    "interactions": {"max_interaction": 2, "interaction_degree": 2},
    "additive": {"max_interaction": 1},
    "triage": {"n_candidates": 3},
    "wide gap": {"gap_tol": 0.2},
    "tiny ridge": {"gamma": 1e8, "degree": 2},
    "huge ridge": {"gamma": 1e-8},
    "more terms than monomials": {"max_terms": 100, "degree": 1},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_proofs_of_the_estimator_hold(options):
    X, y = make_data()
    model = fit(X, y, **options)
    verdict = verify(model.solution_.proof, X, y)
    assert verdict, verdict.reason
    assert str(verdict).startswith("valid: ")
    assert model.solution_.proof.bound <= model.solution_.bound
    assert verdict.objective == pytest.approx(model.solution_.objective, rel=1e-9)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_proofs_hold_exactly(options):
    """In integers the same proofs hold, and what is proved is no less."""
    pytest.importorskip("flint")
    X, y = make_data()
    proof = fit(X, y, **options).solution_.proof
    rough, exact = verify(proof, X, y), verify(proof, X, y, exact=True)
    assert exact, exact.reason
    assert exact.bound >= rough.bound - 1e-14 * rough.objective
    assert exact.objective <= rough.objective


def test_exact_products_are_those_of_rationals():
    """Values at a vector agree with rational arithmetic to the last bit but a few."""
    pytest.importorskip("flint")
    X, y = make_data(4, 12)
    X, y = np.round(X[:, :2], 3), np.round(y, 3)
    statement = replace(base_proof("plain").statement, names=("a", "b"), kept_inputs=(0, 1),
                        monomials=((0,), (1,), (0, 0), (0, 1), (1, 1)), total_weight=12.0, degree=2,
                        shift=np.array([0.1, 0.0]), scale=np.array([3.0, 0.7]))  # fmt: skip
    index, w = np.array([0, 3]), np.array([0.5, -0.25])
    texts = X.astype(str), y.astype(str), np.ones(12)
    rows = CheckedRows(X, y[:, None], np.ones(12), np.ones(1))
    for table, number in ((texts, lambda v: Fraction(str(v))), ((X, y, np.ones(12)), Fraction)):
        exact = Exact(statement, rows, statement.monomials, table)
        point = exact.at(0, index, w, None, np.arange(5))
        coded = [[(number(x) - Fraction(s)) / Fraction(u)
                  for x, s, u in zip(row, statement.shift, statement.scale, strict=True)]
                 for row in X]  # fmt: skip
        root = Fraction(math.sqrt(2.0))
        a = [number(t) - (root * Fraction(0.5) * u - root * Fraction(0.25) * u * z)
             for (u, z), t in zip(coded, y, strict=True)]  # fmt: skip
        a = [x - sum(a) / 12 for x in a]
        assert point.aa == pytest.approx(float(sum(x * x for x in a)), rel=1e-15)
        rho = root * sum(u * z * x for (u, z), x in zip(coded, a, strict=True))
        assert point.up[3] == pytest.approx(float(rho), rel=1e-14)
        assert point.down[3] == pytest.approx(-float(rho), rel=1e-14)


def test_a_table_of_decimals_is_taken_as_it_stands():
    pytest.importorskip("flint")
    X, y = make_data()
    X, y = np.round(X, 2), np.round(y, 2)
    proof = fit(X, y).solution_.proof
    decimals = verify(proof, X.astype(str), [Decimal(str(v)) for v in y], exact=True)
    assert decimals, decimals.reason
    assert decimals.bound == pytest.approx(verify(proof, X, y, exact=True).bound, rel=1e-12)


def test_exact_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ImportError, match=r"pip install polysharp\[exact\]"):
        verify(base_proof("plain"), *make_data(), exact=True)


@pytest.mark.parametrize("kind", ["weights", "duplicates", "large mean", "constant input"])
def test_proofs_about_awkward_data_hold(kind):
    X, y = make_data(3)
    weight = None
    if kind == "weights":
        weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    elif kind == "duplicates":
        X[:, 4] = X[:, 0]
    elif kind == "large mean":
        X, y = X + 100.0, y + 1e6
    else:
        X[:, 4] = 7.0
    verdict = verify(fit(X, y, weight, degree=2).solution_.proof, X, y, weight)
    assert verdict, verdict.reason


def test_a_constant_response_is_proved():
    X, _ = make_data()
    assert verify(fit(X, np.full(len(X), 0.1)).solution_.proof, X, np.full(len(X), 0.1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("time_limit", [1e-3, 0.1, 0.4])
def test_an_unfinished_search_proves_the_bound_it_reached(time_limit):
    X, y = make_data(11)
    model = fit(X, y, max_terms=6, time_limit=time_limit)
    assert model.solution_.gap > 0.0
    verdict = verify(model.solution_.proof, X, y)
    assert verdict, verdict.reason
    assert verdict.bound < model.solution_.objective


def interrupted(monkeypatch, owner, name, call):
    """Fit while Ctrl-C arrives in a call of a function; return the rows and the solution."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6))
    y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] ** 2 + 2.0 * rng.standard_normal(40)
    plain, calls = getattr(owner, name), []

    def interrupt(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupt)
    model = SparsePolynomialRegressor(
        degree=2, max_terms=4, gamma=1.0, engine=SPLITTING, gap_tol=0.0
    )
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = model.fit(X, y).solution_
    assert "interrupted" in solution.stop
    return X, y, solution


@pytest.mark.parametrize("step", [1, 2, 4])
def test_an_interrupt_between_two_steps_leaves_a_proof_of_the_bound(step, monkeypatch):
    X, y, solution = interrupted(monkeypatch, inner("Run", "engines"), "check_time", step)
    best = enumerated(X, y, degree=2, max_terms=4)
    verdict = verify(solution.proof, X, y)
    assert verdict, verdict.reason
    assert 0.9 * solution.bound <= verdict.bound <= best * (1.0 + 1e-9)
    assert solution.bound > 0.0


@pytest.mark.parametrize("call", [1, 2, 5, 9])
def test_an_interrupt_within_a_step_leaves_a_bound_that_holds(call, monkeypatch):
    """The node in hand has no end yet, so that there is no proof to write."""
    X, y, solution = interrupted(monkeypatch, Scheduler, "_settled", call)
    best = enumerated(X, y, degree=2, max_terms=4)
    assert solution.proof is None
    assert solution.bound <= best * (1.0 + 1e-9) <= solution.objective * (1.0 + 2e-9)
    assert solution.bound > 0.0


def test_a_large_proof_holds():
    data = polysharp.synthetic.make_sparse_polynomial(150, 15, 3, 15, 10, 20.0, random_state=0)
    proof = fit(data.X, data.y, max_terms=10, gamma=0.7, gap_tol=1e-4).solution_.proof
    assert len(proof.statement.monomials) == 815
    assert verify(proof, data.X, data.y)


SCREENED_BEFORE_A_SPLIT = [
    (86, 48, 0.1, {"heredity": "strong"}),
    (159, 30, 0.2, {"heredity": "strong"}),
    (344, 48, 0.1, {"max_inputs": 3}),
    (104, 48, 0.1, {"max_inputs": 3}),
    (151, 40, 0.05, {"max_inputs": 3}),
    (65, 48, 0.5, {"heredity": "strong"}),
    (181, 40, 0.05, {"heredity": "strong"}),
    (183, 30, 0.2, {"heredity": "strong"}),
    (325, 40, 0.05, {"heredity": "strong"}),
    (352, 40, 0.3, {"heredity": "strong"}),
]


@pytest.mark.parametrize(("seed", "n", "gap_tol", "options"), SCREENED_BEFORE_A_SPLIT)
def test_what_is_screened_before_a_split_counts_in_the_bound(seed, n, gap_tol, options):
    X, y = make_data(seed, n)
    verdict = verify(fit(X, y, gap_tol=gap_tol, **options).solution_.proof, X, y)
    assert verdict, verdict.reason


def test_a_residual_that_points_away_from_y_screens_nothing():
    instance = make_instance(3406)
    verdict = verify(proof_of(instance, 0.3), instance.X, instance.y)
    assert verdict, verdict.reason


# What the checker computes ------------------------------------------------------------------------


def best_by_brute_force(X, y, max_terms, lam):
    """The least cost over all supports of monomials of degree 2, from the definition."""
    U = X / np.sqrt((X**2).mean(axis=0))
    p = X.shape[1]
    columns = [np.sqrt(2.0) * U[:, i] for i in range(p)]
    columns += [U[:, i] ** 2 if i == j else np.sqrt(2.0) * U[:, i] * U[:, j]
                for i in range(p) for j in range(i, p)]  # fmt: skip
    M = np.column_stack(columns)
    M, t = M - M.mean(axis=0), y - y.mean()
    least = np.inf
    for S in combinations(range(M.shape[1]), max_terms):
        A = np.vstack([M[:, S], np.sqrt(lam) * np.eye(len(S))])
        b = np.concatenate([t, np.zeros(len(S))])
        least = min(least, 0.5 * np.sum((b - A @ np.linalg.lstsq(A, b, rcond=None)[0]) ** 2))
    return least


def test_the_verdict_brackets_the_optimum_by_definition():
    X, y = make_data(4)
    X = X[:, :3]
    proof = fit(X, y, degree=2, max_terms=3, gamma=2.0).solution_.proof
    verdict = verify(proof, X, y)
    least = best_by_brute_force(X, y, 3, 0.5)
    assert verdict.objective == pytest.approx(least, rel=1e-10)
    assert least * (1 - 1e-6) <= verdict.bound <= least * (1 + 1e-10)


@pytest.mark.parametrize("path", sorted(CHECKER.glob("*.py")), ids=lambda path: path.stem)
def test_the_checker_shares_no_code_with_the_search(path):
    """Imports inside functions count too."""
    known = {"polysharp.checker", "numpy", "flint", *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.module
            names = [node.module]
        for name in names:
            assert name.startswith("polysharp.checker") or name.split(".")[0] in known, name


def test_the_checker_works_with_the_rest_of_the_library_blocked(tmp_path):
    """A proof from a file is verified where nothing but NumPy can be imported."""
    X, y = make_data()
    fit(X, y).solution_.proof.save(tmp_path / "model.proof")
    np.savez(tmp_path / "table.npz", X=X, y=y)
    script = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        top, *rest = name.split(".")
        inside = top == "polysharp" and (not rest or rest[0] in ("checker", "_version"))
        if not inside and top not in {"numpy", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np
from polysharp.checker import read_proof, verify
table = np.load("table.npz")
verdict = verify(read_proof("model.proof"), table["X"], table["y"])
assert verdict, verdict
print(verdict)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("valid: ")


# Tampering is found -------------------------------------------------------------------------------


def where(proof, kind=None, test=lambda node: True):
    """The numbers of the nodes of a kind that pass a test."""
    return [
        a for a, node in enumerate(proof.nodes) if kind in (None, node.kind) and test(node)
    ]  # fmt: skip


def with_node(proof, number, **changes):
    nodes = list(proof.nodes)
    nodes[number] = replace(nodes[number], **changes)
    return replace(proof, nodes=tuple(nodes))


def where_dual(proof):
    """The numbers of the leaves that rest on a vector."""
    return where(proof, "dual", lambda node: node.vector is not None)


def with_statement(proof, **changes):
    return replace(proof, statement=replace(proof.statement, **changes))


def drop_a_child(proof):
    number = where(proof, "split")[-1]
    return with_node(proof, number, children=proof.nodes[number].children[:-1])


def drop_a_child_and_its_chain_element(proof):
    node = proof.nodes[0]
    return with_node(proof, 0, children=node.children[:-1], chain=node.chain[:-1])


def repeat_a_child(proof):
    number = where(proof, "split")[-1]
    children = proof.nodes[number].children
    return with_node(proof, number, children=(children[0], *children[:-1]))


def reverse_the_children(proof):
    return with_node(proof, 0, children=proof.nodes[0].children[::-1])


def make_a_cycle(proof):
    number = where(proof, "split")[-1]
    return with_node(proof, number, children=(0, *proof.nodes[number].children[1:]))


def point_beyond_the_end(proof):
    number = where(proof, "split")[-1]
    children = proof.nodes[number].children
    return with_node(proof, number, children=(len(proof.nodes), *children[1:]))


def swap_chain_elements(proof):
    return with_node(proof, 0, chain=proof.nodes[0].chain[::-1])


def change_a_chain_element(proof):
    chain = proof.nodes[0].chain
    other = next(j for j in range(len(proof.statement.monomials)) if j not in chain)
    return with_node(proof, 0, chain=(other, *chain[1:]))


def repeat_a_chain_element(proof):
    chain = proof.nodes[0].chain
    return with_node(proof, 0, chain=(chain[1], *chain[1:]))


def leave_the_problem_with_the_chain(proof):
    return with_node(proof, 0, chain=(-1, *proof.nodes[0].chain[1:]))


def split_on_inputs_instead(proof):
    number = where(proof, "split", lambda node: max(node.chain) < len(proof.statement.names))
    return with_node(proof, (number or [0])[0], on_inputs=True)


def call_the_root_void(proof):
    return with_node(proof, 0, kind="dual", vector=None)


def call_a_leaf_void(proof):
    return with_node(proof, where_dual(proof)[0], kind="void")


def enumerate_the_sets_of_inputs_of_a_leaf(proof):
    """The ridge regression on all monomials of all inputs costs less than any model."""
    return with_node(proof, 0, kind="enumeration", on_inputs=True, children=(), chain=())


def call_the_root_a_leaf(proof):
    """One node for the whole problem, with a vector that proves some leaf."""
    vector = proof.nodes[where_dual(proof)[-1]].vector
    root = replace(proof.nodes[0], kind="dual", vector=vector, children=(), chain=())
    return replace(proof, nodes=(root,))


def keep_the_children_of_a_leaf(proof):
    number = where(proof, "split")[-1]
    vector = proof.nodes[where_dual(proof)[0]].vector
    return with_node(proof, number, kind="dual", vector=vector)


def call_enumerations_dual(proof):
    for number in where(proof, "enumeration"):
        proof = with_node(proof, number, kind="dual")
    return proof


def use_an_unknown_kind(proof):
    return with_node(proof, where_dual(proof)[0], kind="sure")


def forget_a_vector(proof):
    return with_node(proof, where_dual(proof)[0], vector=None)


def with_vectors(proof, change):
    for number in where_dual(proof):
        proof = with_node(proof, number, vector=change(proof.nodes[number].vector))
    return proof


def zero_the_vectors(proof):
    return with_vectors(proof, lambda v: replace(v, value=np.zeros_like(v.value)))


def negate_the_vectors(proof):
    return with_vectors(proof, lambda v: replace(v, value=-v.value))


def shorten_the_vectors(proof):
    return with_vectors(proof, lambda v: replace(v, index=v.index[1:], value=v.value[1:]))


def put_nan_into_the_vectors(proof):
    return with_vectors(proof, lambda v: replace(v, value=np.full_like(v.value, np.nan)))


def mismatch_a_vector(proof):
    return with_vectors(proof, lambda v: replace(v, value=v.value[1:]))


def move_a_vector_out_of_the_problem(proof):
    return with_vectors(proof, lambda v: replace(v, index=v.index - 10_000))


def raise_the_bound_a_little(proof):
    return replace(proof, bound=verdict_bound(proof) + 1e-5 * proof.statement.objective)


def raise_the_bound(proof):
    return replace(proof, bound=1.5 * proof.statement.objective)


def make_the_bound_nan(proof):
    return replace(proof, bound=np.nan)


def make_the_bound_infinite(proof):
    return replace(proof, bound=np.inf)


def add_a_node(proof):
    return replace(proof, nodes=(*proof.nodes, proof.nodes[where_dual(proof)[0]]))


def drop_all_nodes(proof):
    return replace(proof, nodes=())


def drop_the_statement(proof):
    return replace(proof, statement=None)


def with_screening(proof, change):
    number = where(proof, test=lambda node: len(node.screenings) > 0)[0]
    first, *others = proof.nodes[number].screenings
    return with_node(proof, number, screenings=(change(first, proof), *others))


def screen_everything_out(proof):
    every = np.arange(len(proof.statement.monomials))
    return with_screening(proof, lambda s, _: replace(s, out=np.setdiff1d(every, s.inn)))


def screen_everything_in(proof):
    def change(screening, proof):
        others = np.setdiff1d(np.arange(len(proof.statement.monomials)), screening.out)
        return replace(screening, inn=others)

    return with_screening(proof, change)


def screen_by_a_poor_vector(proof):
    nothing = Vector(np.zeros(0, dtype=np.intp), np.zeros(0))
    return with_screening(proof, lambda s, _: replace(s, vector=nothing))


def screen_at_the_root_by_fiat(proof):
    monomials = proof.statement.monomials
    model = np.array([monomials.index(m) for m in proof.statement.support], dtype=np.intp)
    vector = proof.nodes[where_dual(proof)[0]].vector
    added = Screening(vector, model, model[:0])
    return with_node(proof, 0, screenings=(*proof.nodes[0].screenings, added))


def with_diagonals(proof, change):
    return replace(proof, diagonals=tuple(change(d) for d in proof.diagonals))


def enlarge_the_diagonals(proof):
    return with_diagonals(proof, lambda d: replace(d, value=2.0 * d.value + 1e-3))


def enlarge_one_entry_of_a_diagonal(proof):
    first, *others = proof.diagonals
    value = first.value.copy()
    value[-1] = 1e6
    return replace(proof, diagonals=(replace(first, value=value), *others))


def forget_that_a_diagonal_was_used(proof):
    return with_vectors(proof, lambda v: replace(v, diagonal=-1))


def use_a_diagonal_that_does_not_exist(proof):
    return with_vectors(proof, lambda v: replace(v, diagonal=99_999))


def use_a_negative_diagonal(proof):
    return with_vectors(proof, lambda v: replace(v, diagonal=-2))


def use_the_smallest_diagonal_at_a_large_node(proof):
    number = int(np.argmin([len(d.index) for d in proof.diagonals]))
    return with_vectors(proof, lambda v: replace(v, diagonal=number))


def make_a_diagonal_nan(proof):
    return with_diagonals(proof, lambda d: replace(d, value=np.full_like(d.value, np.nan)))


def remove_a_monomial(proof):
    kept = tuple(m for m in proof.statement.monomials if m not in {(0, 0, 1)})
    return with_statement(proof, monomials=kept)


def exclude_a_monomial_on_the_quiet(proof):
    return with_statement(proof, excluded_terms=((0, 0, 1),))


def reorder_the_monomials(proof):
    return with_statement(proof, monomials=proof.statement.monomials[::-1])


def drop_an_input(proof):
    return with_statement(proof, kept_inputs=proof.statement.kept_inputs[1:])


def repeat_an_input(proof):
    return with_statement(proof, kept_inputs=(0, *proof.statement.kept_inputs))


def change_gamma(proof):
    return with_statement(proof, gamma=1.1 * proof.statement.gamma)


def make_gamma_negative(proof):
    return with_statement(proof, gamma=-proof.statement.gamma)


def change_the_intercept(proof):
    return with_statement(proof, fit_intercept=not proof.statement.fit_intercept)


def change_a_shift(proof):
    return with_statement(proof, shift=proof.statement.shift + 0.1)


def change_the_scales(proof):
    return with_statement(proof, scale=1.01 * proof.statement.scale)


def make_a_scale_zero(proof):
    return with_statement(proof, scale=0.0 * proof.statement.scale)


def shorten_the_scales(proof):
    return with_statement(proof, scale=proof.statement.scale[1:])


def allow_more_terms(proof):
    return with_statement(proof, max_terms=proof.statement.max_terms + 2)


def allow_fewer_terms(proof):
    return with_statement(proof, max_terms=len(proof.statement.support) - 1)


def lower_the_degree(proof):
    return with_statement(proof, degree=proof.statement.degree - 1)


def demand_another_heredity(proof):
    return with_statement(proof, heredity="strict")


def require_what_is_not_in_the_model(proof):
    s = proof.statement
    term = next(m for m in s.monomials if m not in s.support)
    return with_statement(proof, required_terms=(*s.required_terms, term))


def take_another_model(proof):
    s = proof.statement
    other = next(m for m in s.monomials if m not in s.support)
    return with_statement(proof, support=(*s.support[:-1], other))


def take_a_model_that_is_no_candidate(proof):
    return with_statement(proof, support=((7, 7, 7),))


def repeat_a_term_of_the_model(proof):
    s = proof.statement
    return with_statement(proof, support=(*s.support[:-1], s.support[0]))


def lower_the_objective(proof):
    return with_statement(proof, objective=0.999 * proof.statement.objective)


def make_the_objective_nan(proof):
    return with_statement(proof, objective=np.nan)


ALWAYS = [
    drop_a_child, drop_a_child_and_its_chain_element, repeat_a_child, reverse_the_children,
    make_a_cycle, point_beyond_the_end, swap_chain_elements, change_a_chain_element,
    repeat_a_chain_element, leave_the_problem_with_the_chain, call_the_root_void, call_a_leaf_void,
    enumerate_the_sets_of_inputs_of_a_leaf,
    call_the_root_a_leaf, keep_the_children_of_a_leaf, use_an_unknown_kind,
    forget_a_vector, zero_the_vectors, negate_the_vectors, shorten_the_vectors,
    put_nan_into_the_vectors, mismatch_a_vector, move_a_vector_out_of_the_problem,
    raise_the_bound_a_little, raise_the_bound, make_the_bound_nan, make_the_bound_infinite,
    add_a_node, drop_all_nodes, drop_the_statement, screen_everything_out, screen_everything_in,
    screen_by_a_poor_vector, screen_at_the_root_by_fiat, enlarge_the_diagonals,
    enlarge_one_entry_of_a_diagonal, forget_that_a_diagonal_was_used,
    use_a_diagonal_that_does_not_exist, use_a_negative_diagonal,
    use_the_smallest_diagonal_at_a_large_node, make_a_diagonal_nan, remove_a_monomial,
    exclude_a_monomial_on_the_quiet, reorder_the_monomials, drop_an_input, repeat_an_input,
    change_gamma, make_gamma_negative, change_the_intercept, change_a_shift, change_the_scales,
    make_a_scale_zero, shorten_the_scales, allow_more_terms, allow_fewer_terms, lower_the_degree,
    demand_another_heredity, require_what_is_not_in_the_model, take_another_model,
    take_a_model_that_is_no_candidate, repeat_a_term_of_the_model, lower_the_objective,
    make_the_objective_nan,
]  # fmt: skip

BASES = {
    "plain": {},
    "k binds": {"max_inputs": 2},
    "heredity": {"heredity": "strong"},
    "required": {"include_terms": [(0, 2)], "include_inputs": [3]},
}
_PROOFS = {}


def base_proof(name):
    if name not in _PROOFS:
        X, y = make_data()
        _PROOFS[name] = fit(X, y, **BASES[name]).solution_.proof
    return _PROOFS[name]


def verdict_bound(proof):
    return verify(proof, *make_data()).bound


@pytest.mark.parametrize("base", BASES)
def test_the_proofs_to_be_tampered_with_hold_and_use_every_means(base):
    proof = base_proof(base)
    assert verify(proof, *make_data())
    kinds = {node.kind for node in proof.nodes}
    assert {"split", "dual"} <= kinds
    assert ("enumeration" in kinds) == (base in ("plain", "k binds"))
    assert len(proof.diagonals) > 1
    assert any(len(s.out) for node in proof.nodes for s in node.screenings)
    assert any(node.on_inputs for node in proof.nodes) == (base == "k binds")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("tamper", ALWAYS, ids=lambda tamper: tamper.__name__)
def test_tampering_is_found(tamper, base, exact):
    if exact:
        pytest.importorskip("flint")
    verdict = verify(tamper(base_proof(base)), *make_data(), exact=exact)
    assert not verdict
    assert verdict.bound == 0.0
    assert verdict.reason
    assert str(verdict) == f"rejected: {verdict.reason}"


def through_sets(proof):
    """The numbers of the leaves that go through sets of inputs."""
    return where(proof, "enumeration", lambda node: node.on_inputs)


def test_every_set_of_inputs_is_covered():
    """A set that was searched cannot be closed by the ridge bound of the others."""
    proof = base_proof("k binds")
    assert through_sets(proof), "the proof goes through sets of inputs"
    numbers = where(proof, "split", lambda node: node.on_inputs)
    assert numbers
    for number in numbers:
        leaf = {"kind": "enumeration", "chain": (), "children": ()}
        verdict = verify(with_node(proof, number, **leaf), *make_data())
        assert not verdict
        assert "inputs" in verdict.reason


@pytest.mark.parametrize("change", ["shorter", "repeated", "foreign", "no children", "another set"])
def test_splits_by_sets_of_inputs_are_checked(change):
    proof = base_proof("k binds")
    number = where(proof, "split", lambda node: node.on_inputs)[0]
    node = proof.nodes[number]
    other = next(i for i in range(5) if i not in node.chain)
    changed = {
        "shorter": {"chain": node.chain[1:]},
        "repeated": {"chain": (node.chain[1], *node.chain[1:])},
        "foreign": {"chain": (99, *node.chain[1:])},
        "no children": {"children": ()},
        "another set": {"chain": (other, *node.chain[1:])},
    }[change]
    assert not verify(with_node(proof, number, **changed), *make_data())


def test_enumerations_are_no_duals():
    assert not verify(call_enumerations_dual(base_proof("plain")), *make_data())


def test_a_split_on_monomials_is_none_on_inputs():
    assert not verify(split_on_inputs_instead(base_proof("heredity")), *make_data())


@pytest.mark.parametrize("seed", range(40))
def test_random_tampering_is_found_or_harmless(seed):
    """Whatever is done to vectors, fixings and tree, no verdict exceeds the optimum."""
    rng = np.random.default_rng(seed)
    proof = base_proof(list(BASES)[seed % len(BASES)])
    objective = proof.statement.objective
    raised = replace(proof, bound=objective * 1.01)
    for _ in range(int(rng.integers(1, 30))):
        raised = scramble(raised, rng)
    verdict = verify(raised, *make_data())
    assert not verdict


def scramble(proof, rng):
    number = int(rng.integers(len(proof.nodes)))
    node = proof.nodes[number]
    other = proof.nodes[int(rng.integers(len(proof.nodes)))]
    choice = int(rng.integers(5))
    if choice == 0:
        return with_node(proof, number, vector=other.vector)
    if choice == 1:
        return with_node(proof, number, screenings=other.screenings)
    if choice == 2 and node.vector is not None:
        value = node.vector.value * rng.choice([0.0, 0.5, 2.0, -1.0, 1e8])
        return with_node(proof, number, vector=replace(node.vector, value=value))
    if choice == 3 and len(node.chain) == len(other.chain):
        return with_node(proof, number, chain=other.chain)
    return with_node(proof, number, kind=other.kind)


# Forgeries ----------------------------------------------------------------------------------------


def one_node(proof, **changes):
    """The whole problem closed by one node."""
    root = replace(proof.nodes[0], screenings=(), chain=(), children=(), on_inputs=False)
    return replace(proof, nodes=(replace(root, **changes),))


@pytest.mark.parametrize("scale", [1e-60, 1e-120, 1e-300])
def test_a_scale_that_overflows_proves_nothing(scale):
    """NaN passes a Cholesky factorisation; no diagonal may lean on that."""
    proof = base_proof("plain")
    f, objective = len(proof.statement.monomials), proof.statement.objective
    huge = Diagonal(np.arange(f), np.full(f, 1e30))
    nothing = Vector(np.zeros(0, dtype=np.intp), np.zeros(0), 0)
    forged = one_node(proof, kind="dual", vector=nothing)
    forged = replace(forged, diagonals=(huge,), bound=2.0 * objective)
    verdict = verify(with_statement(forged, scale=np.full(5, scale)), *make_data())
    assert not verdict
    assert "powers leave the floats" in verdict.reason


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_bad_model_buys_no_tolerance():
    """The claim must be proved as it stands, however dear the stated model is."""
    X, y = make_data()
    y = X[:, 0] + 1e-6 * y
    proof = fit(X, y, gamma=1e6, degree=2, max_terms=2).solution_.proof
    best = verify(proof, X, y)
    assert best
    bad = ((4, 4),)
    cost = float(
        re.search(r"costs (\S+),", verify(with_statement(proof, support=bad), X, y).reason)[1]
    )
    for claim in (10.0 * best.objective, 1e-9 * cost):
        forged = with_statement(replace(proof, bound=claim), support=bad, objective=cost)
        if claim > best.objective:
            assert not verify(forged, X, y)


@pytest.mark.parametrize(
    "changes",
    [
        {"degree": 10**6},
        {"degree": 100, "max_interaction": 100, "interaction_degree": 100},
        {"max_terms": 10**400},
        {"gamma": 1e300},
        {"gamma": np.inf},
        {"total_weight": np.nan},
        {"names": tuple(map(str, range(10**6)))},
    ],
    ids=str,
)
def test_a_statement_cannot_stall_its_reader(changes):
    verdict = verify(with_statement(base_proof("plain"), **changes), *make_data())
    assert not verdict
    assert verdict.reason


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_exhausted_end_is_tried_out():
    """All completions cost what enumeration says, and a digit more is refused."""
    X, y = make_data(4, 30)
    X = X[:, :3]
    for options in ({}, {"max_inputs": 2}, {"heredity": "strong"}, {"include_terms": [(1, 2)]}):
        for terms in (1, 2, 3, 4):
            given = {"degree": 2, "max_terms": terms} | options
            solution = fit(X, y, **given, gap_tol=0.0).solution_
            best = enumerated(X, y, **given)
            end = one_node(solution.proof, kind="enumeration", vector=None)
            assert verify(replace(end, bound=best * (1.0 - 1e-11)), X, y)
            assert not verify(replace(end, bound=best * (1.0 + 1e-11)), X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"max_inputs": 3}, {"heredity": "weak"}])
@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_completions_are_passed_over_only_where_none_can_be_better(options, noise):
    """More completions than are refitted one by one: six of 20 monomials, strong laws and weak."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 5)) + rng.standard_normal((80, 1))
    y = X[:, 0] * X[:, 1] - X[:, 2] + 0.5 * X[:, 3] ** 2 + noise * rng.standard_normal(80)
    given = {"degree": 2, "max_terms": 6} | options
    proof = fit(X, y, **given, gap_tol=0.0).solution_.proof
    best = enumerated(X, y, **given)
    end = one_node(proof, kind="enumeration", vector=None)
    assert verify(replace(end, bound=best * (1.0 - 1e-10)), X, y)
    assert not verify(replace(end, bound=best * (1.0 + 1e-10)), X, y)


def enumerated(X, y, **options):
    model = SparsePolynomialRegressor(engine="enumeration", **({"gamma": 1.0} | options))
    return model.fit(X, y).solution_.objective


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("terms", [2, 3, 4])
@pytest.mark.parametrize("gamma", [1e6, 1e12, 1e17])
def test_enumerations_of_dependent_columns_are_checked(terms, gamma, monkeypatch):
    """Rounding loses pivots of equal columns; every support with them is refitted then."""
    monkeypatch.setattr(home("Completions"), "FEW", 0)
    X, y = make_data(4, 30)
    X[:, 3], X[:, 4] = X[:, 0], X[:, 1] * (1.0 + 1e-13)
    given = {"degree": 1, "max_terms": terms, "gamma": gamma}
    solution = fit(X, y, **given, gap_tol=0.0).solution_
    best = enumerated(X, y, **given)
    end = one_node(solution.proof, kind="enumeration", vector=None)
    verdict = verify(replace(end, bound=best * (1.0 - 1e-9)), X, y)
    assert verdict, verdict.reason
    assert not verify(replace(end, bound=best * (1.0 + 1e-9)), X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_end_with_too_many_completions_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 12)), rng.standard_normal(60)
    proof = fit(X, y, max_terms=12, time_limit=0.3, gap_tol=0.5).solution_.proof
    claimed = replace(proof, bound=0.5 * proof.statement.objective)  # however far the search got
    verdict = verify(one_node(claimed, kind="enumeration", vector=None), X, y)
    assert "more completions than a reader can try" in verdict.reason


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_cancellation_proves_nothing(size):
    """Huge coefficients along a null vector of G cost nothing but rounding, which must not pay."""
    X, y = make_data(3)
    X[:, 4] = X[:, 0]
    proof = fit(X, y, degree=2).solution_.proof
    one, other = proof.statement.monomials.index((0,)), proof.statement.monomials.index((4,))
    for sign in (1.0, -1.0):
        w = Vector(np.array([one, other]), sign * size * np.array([1.0, -1.0]))
        leaf = replace(proof.nodes[0], kind="dual", vector=w, screenings=(), chain=(), children=())
        forged = replace(proof, nodes=(leaf,), diagonals=(), bound=proof.statement.objective)
        assert not verify(forged, X, y)


@pytest.mark.parametrize("what", ["X", "y", "a row", "weights", "columns", "rows", "nan"])
def test_other_data_are_found(what):
    proof, (X, y) = base_proof("plain"), make_data()
    weight = None
    if what == "X":
        X[3, 1] += 0.01
    elif what == "y":
        y[5] += 0.01
    elif what == "a row":
        X, y = X[1:], y[1:]
    elif what == "weights":
        weight = np.r_[2.0, np.ones(len(y) - 1)]
    elif what == "columns":
        X = X[:, :-1]
    elif what == "rows":
        y = y[:-1]
    else:
        X[0, 0] = np.nan
    assert not verify(proof, X, y, weight)


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan])
def test_impossible_weights_are_found(weight):
    X, y = make_data()
    assert not verify(base_proof("plain"), X, y, np.full(len(y), weight))


@pytest.mark.parametrize("value", [1e-200, 1e200])
def test_data_whose_powers_leave_the_floats_prove_nothing(value):
    """Prices that vanish would prove that no model is better than the mean."""
    X, y = make_data()
    assert "powers leave the floats" in verify(base_proof("plain"), X, value * y).reason
    weight = np.full(len(y), value)
    assert "powers leave the floats" in verify(base_proof("plain"), X, y, weight).reason


# Files --------------------------------------------------------------------------------------------


def same(a, b):
    """Whether two records hold the same values, bit by bit."""
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)
        )
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b and (isinstance(a, float) or type(a) is type(b))


@pytest.mark.parametrize("base", BASES)
def test_a_file_gives_back_the_same_proof(base, tmp_path):
    proof = base_proof(base)
    proof.save(tmp_path / "model.proof")
    again = Proof.load(tmp_path / "model.proof")
    assert same(proof, again)
    assert verify(again, *make_data())


def test_a_proof_without_a_statement_can_be_stored(tmp_path):
    instance = make_instance(0)
    proof = make_engine("tree").solve(instance.problem).proof
    proof.save(tmp_path / "bare")
    again = Proof.load(tmp_path / "bare")
    assert same(proof, again)
    assert verify(again, instance.X, instance.y).reason == "the proof has no statement"


def test_files_hold_numbers_only(tmp_path):
    base_proof("plain").save(tmp_path / "model.proof")
    with np.load(tmp_path / "model.proof", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "iufb" for name in archive)
        header = json.loads(archive["header"].tobytes())
    assert (header["format"], header["version"]) == ("polysharp-proof", 3)


@pytest.mark.parametrize("how", ["text", "empty", "version", "missing", "lengths", "truncated"])
def test_other_files_are_refused(how, tmp_path):
    path = tmp_path / "model.proof"
    base_proof("plain").save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    if how == "text":
        path.write_text("no proof")
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    else:
        if how == "version":
            header = json.loads(arrays["header"].tobytes()) | {"version": 2}
            arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        elif how == "missing":
            del arrays["vector_value"]
        else:
            arrays["vector_index_length"] = arrays["vector_index_length"] + 1
        with open(path, "wb") as file:
            np.savez_compressed(file, **arrays)
    with pytest.raises(ProofError, match="is not a valid polysharp proof"):
        Proof.load(path)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_refused_in_one_sentence(seed, tmp_path):
    """Bytes changed, cut out or doubled, in the archive or in what it holds."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "model.proof"
    base_proof("plain").save(path)
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 20))):
        where = int(rng.integers(len(data)))
        how = seed % 3
        if how == 0:
            data[where] = int(rng.integers(256))
        elif how == 1:
            del data[where : where + int(rng.integers(1, 50))]
        else:
            data[where:where] = data[where // 2 : where // 2 + int(rng.integers(1, 50))]
    path.write_bytes(data)
    with suppress(ProofError):
        assert not verify(Proof.load(path), *make_data()) or seed % 3 == 0


HEADERS = {
    "not JSON": b"{",
    "deep": b"[" * 100_000,
    "NaN": b'{"format": "polysharp-proof", "version": 3, "bound": NaN}',
    "infinite": b'{"format": "polysharp-proof", "version": 3, "bound": 1e999}',
    "long": b'{"format": "polysharp-proof", "version": 3, "bound": ' + b"9" * 9999 + b"}",
    "text": b'{"format": "polysharp-proof", "version": 3, "bound": "1"}',
    "list": b"[1, 2]",
    "statement": b'{"format": "polysharp-proof", "version": 3, "bound": 1, "statement": 7}',
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_hostile_header_is_refused(header, tmp_path):
    path = tmp_path / "model.proof"
    base_proof("plain").save(path)
    with np.load(path) as archive:
        arrays = dict(archive) | {"header": np.frombuffer(header, dtype=np.uint8)}
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)
    with pytest.raises(ProofError, match="is not a valid polysharp proof"):
        Proof.load(path)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(((1,),),)", "(" * 5000])
def test_an_array_that_is_not_as_long_as_it_says_is_refused(shape, tmp_path):
    path = tmp_path / "model.proof"
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"12345678"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", array)
    with pytest.raises(ProofError, match="is not a valid polysharp proof"):
        Proof.load(path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(0x123456))
    said, claimed = (size.to_bytes(4, "little") for size in (0x123456, 2**31 - 1))
    path.write_bytes(path.read_bytes().replace(said, claimed))
    with pytest.raises(ProofError, match="bytes"):
        Proof.load(path)


def test_a_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Proof.load(tmp_path / "nowhere")


@pytest.mark.parametrize("given", [None, SparsePolynomialRegressor()])
def test_what_is_no_proof_is_refused_with_where_to_find_one(given):
    with pytest.raises(ProofError, match=rf"solution_.proof .*, got {type(given).__name__}$"):
        verify(given, *make_data())


def test_other_engines_leave_no_proof_behind():
    X, y = make_data()
    model = SparsePolynomialRegressor(2, 2, engine="enumeration").fit(X, y)
    assert model.solution_.proof is None


def test_a_statement_says_what_it_is_about():
    statement = base_proof("required").statement
    text = str(statement)
    assert "degree 3, at most 4 of 55 monomials in at most 5 of 5 inputs (5 were given)" in text
    assert "required terms: x0 x2" in text
    assert "required inputs: x3" in text
    assert "gamma 1.0" in text
    for i in range(5):
        assert f"input x{i}: (x{i} - 0.0) / {float(statement.scale[i])!r}" in text
    assert repr(statement.objective) in text


def test_products_that_are_zero_in_every_row_are_no_fault():
    """Indicators of one column exclude each other."""
    rng = np.random.default_rng(0)
    town = rng.integers(0, 3, 80)
    X = np.c_[rng.standard_normal(80), town == 1, town == 2].astype(float)
    y = X[:, 0] * X[:, 1] - X[:, 2] + 0.1 * rng.standard_normal(80)
    model = SparsePolynomialRegressor(3, 2, gamma=1.0, engine="tree").fit(X, y)
    verdict = verify(model.solution_.proof, X, y)
    assert verdict.valid, verdict.reason


@pytest.mark.parametrize("weights", [None, np.array([2.0, 2.0])])
def test_no_shift_proves_more_than_is_true(weights):
    """With a free intercept no cost of a straight line depends on a shift, however large.

    A shift of 1e9 leaves the mean of a column no digits, and long doubles keep eleven more.
    """
    X, y = np.array([[1.67387549e-05], [-7.45976875e-05]]), np.array([1.80181, -0.18528404])
    proof = fit(X, y, weights, degree=1, max_terms=1, gamma=24.56, center=True).solution_.proof
    valid = []
    for power in range(14):
        statement = proof.statement
        moved = replace(statement, shift=statement.shift + 10.0**power, objective=1e9)
        verdict = verify(replace(proof, statement=moved, bound=0.9 * proof.bound), X, y, weights)
        assert verdict.bound <= statement.objective
        valid.append(bool(verdict))
    assert valid == sorted(valid, reverse=True)  # as long as digits are left
    assert valid[0]


def test_a_multiple_whose_square_vanishes_proves_no_more_than_it_should():
    ya, aa, spent = 4.3, 4.3, 5e218
    none = np.zeros(0)
    proved = float(value(Point(-1.0, ya, aa, none, none), spent, scalable=True))
    assert 0.0 < proved <= 0.5 * ya * (ya / (aa + 2.0 * spent))
    assert Point(-1.0, ya, 1e300, none, none).times(1e-170).aa >= 1e-170 * 1e130
