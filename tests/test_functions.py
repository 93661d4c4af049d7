"""Functions of inputs: what counts as what, every export, and enumeration as the referee."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from itertools import combinations, combinations_with_replacement
from math import factorial, prod
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from support import (
    Applied,
    Design,
    MemoryRows,
    PricedRun,
    Scaling,
    Sizes,
    TermRules,
    TimeBudget,
    inner,
    measure_importance,
    search_all_inputs,
)

from polysharp import (
    InputError,
    MultiTaskSparsePolynomialRegressor,
    Polynomial,
    Proof,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    path,
    rivals,
    save_model,
    verify,
)
from polysharp.cli import main
from polysharp.engines import make_engine

FUNCTIONS = inner("FUNCTIONS", "data")
read_functions = inner("read_functions", "data")

NAMES = tuple(FUNCTIONS)
SLOW, LIGHT = 1000, 24
PLAIN = {
    "inverse": lambda x: 1 / x,
    "square-root": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
}


class Drawn:
    """A small problem with functions and rules, and its optimum by trying all supports.

    What is allowed is stated here once more, from the words of the documentation.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([77, seed])
        p, degree, most = ((2, 2, 2), (3, 2, 1), (2, 3, 1), (1, 3, 3), (3, 1, 3))[seed % 5]
        n = int(rng.integers(12, 40))
        self.X = rng.uniform(0.5, 3.0, (n, p))
        self.weights = rng.uniform(0.3, 2.0, n) if seed % 3 == 0 else None
        chosen = [str(name) for name in rng.choice(NAMES, most, replace=False)]
        every = bool(rng.random() < 0.7)
        self.functions = chosen if every else {f"x{p - 1}": chosen}
        owners = [*range(p)]
        kinds = [""] * p
        columns = [self.X[:, i] for i in range(p)]
        for i in range(p) if every else [p - 1]:
            for name in chosen:
                owners.append(i)
                kinds.append(name)
                columns.append(PLAIN[name](self.X[:, i]))
        self.options = {
            "degree": degree,
            "max_terms": int(rng.integers(1, 4)),
            "max_inputs": [None, 1, 2][int(rng.integers(3))],
            "heredity": [None, None, "weak", "strong"][int(rng.integers(4))],
            "max_interaction": [None, 1][int(rng.random() < 0.2)],
            "fit_intercept": bool(rng.random() < 0.7),
            "center": bool(rng.random() < 0.3),
            "gamma": float(10.0 ** rng.uniform(-3, 1)),
            "functions": self.functions,
        }
        self.library = read_functions(self.functions, [f"x{i}" for i in range(p)])
        law = rng.standard_normal(len(columns)) * (rng.random(len(columns)) < 0.5)
        self.y = np.array(columns).T @ law + 0.3 * rng.standard_normal(n) + 1.0
        self.columns, self.owners, self.kinds = columns, owners, kinds
        self.best, self.count = self._enumerate()

    def _allowed(self, m: tuple[int, ...]) -> bool:
        width = self.options["max_interaction"]
        if width is not None and len({self.owners[c] for c in m}) > width:
            return False
        for a, b in combinations(m, 2):
            together = sorted((self.kinds[a], self.kinds[b]))
            same = self.owners[a] == self.owners[b]
            if same and together in (["", "inverse"], ["square-root", "square-root"]):
                return False
        return bool(m) or not self.options["fit_intercept"]

    def _design(self, monomials: list[tuple[int, ...]]) -> np.ndarray:
        v = np.ones(len(self.y)) if self.weights is None else self.weights
        coded = []
        for kind, x in zip(self.kinds, self.columns, strict=True):
            u = x - np.average(x, weights=v) if self.options["center"] and not kind else x
            coded.append(u / np.sqrt(np.average(u**2, weights=v)))
        r, design = self.options["degree"], []
        for m in monomials:
            repeats = prod(factorial(m.count(c)) for c in set(m))
            scale = np.sqrt(factorial(r) / (factorial(r - len(m)) * repeats))
            design.append(scale * np.prod([coded[c] for c in m], axis=0) * np.ones(len(v)))
        return np.array(design).T

    def _enumerate(self) -> tuple[float, int]:
        width, r = len(self.columns), self.options["degree"]
        listed = [m for d in range(r + 1) for m in combinations_with_replacement(range(width), d)]
        listed = [m for m in listed if self._allowed(m)]
        M, y = self._design(listed), self.y
        v = np.ones(len(y)) if self.weights is None else self.weights
        if self.options["fit_intercept"]:
            M, y = M - np.average(M, axis=0, weights=v), y - np.average(y, weights=v)
        G, q, yy = M.T @ (v[:, None] * M), M.T @ (v * y), float(v @ y**2)
        lam, best = 1.0 / self.options["gamma"], yy
        for size in range(1, self.options["max_terms"] + 1):
            for S in combinations(range(len(listed)), size):
                if self._keeps([listed[j] for j in S]):
                    s = list(S)
                    w = np.linalg.solve(G[np.ix_(s, s)] + lam * np.eye(size), q[s])
                    best = min(best, yy - float(q[s] @ w))
        return 0.5 * best, len(listed)

    def _keeps(self, terms: list[tuple[int, ...]]) -> bool:
        limit, heredity = self.options["max_inputs"], self.options["heredity"]
        if limit is not None and len({self.owners[c] for m in terms for c in m}) > limit:
            return False
        enough = any if heredity == "weak" else all
        return heredity is None or all(
            len(m) < 2 or enough(m[:a] + m[a + 1 :] in terms for a in range(len(m))) for m in terms
        )


def check(seed: int) -> None:
    case = Drawn(seed)
    model = SparsePolynomialRegressor(**case.options, gap_tol=1e-7, engine="tree")
    model.fit(case.X, case.y, case.weights)
    found, label = model.solution_, f"{seed}: {case.options}"
    slack = 1e-6 * case.best + 1e-12
    assert abs(found.objective - case.best) <= slack, label
    assert found.bound <= case.best + slack, label
    assert len(found.proof.statement.monomials) <= case.count, label
    verdict = verify(found.proof, case.X, case.y, case.weights)
    assert verdict.valid, f"{label}: {verdict}"
    assert verdict.bound <= case.best * (1 + 1e-9), label
    penalty = 0.5 * float(found.coefficients @ found.coefficients) / model.gamma_
    v = np.ones(len(case.y)) if case.weights is None else case.weights
    cost = 0.5 * float(v @ (case.y - model.predict(case.X)) ** 2) + penalty
    assert cost == pytest.approx(case.best, rel=1e-6, abs=1e-9), label


def check_priced(seed: int) -> None:
    """Columns on demand: the same optimum, with a pool of a dozen."""
    case = Drawn(seed)
    o = case.options
    rules = TermRules(
        degree=o["degree"],
        max_terms=o["max_terms"],
        max_inputs=o["max_inputs"],
        constant=not o["fit_intercept"],
        max_interaction=o["max_interaction"],
        heredity=o["heredity"],
        library=case.library,
    )
    p = case.X.shape[1]
    names = tuple(f"x{i}" for i in range(p))
    wide = case.library.grown(case.X, names)
    rows = MemoryRows(wide, case.y, case.weights, names, library=case.library)
    scaling = Scaling.of(rows.ranges, scale=True, center=o["center"], library=case.library)
    every = np.arange(wide.shape[1])
    design = Design(rows.coded(scaling.apply), every, o["degree"], fit_intercept=not rules.constant)
    found = search_all_inputs(
        PricedRun(
            design,
            rules,
            lam=1.0 / o["gamma"],
            engine=make_engine("tree"),
            time=TimeBudget(20.0),
            gap_tol=1e-7,
            sizes=Sizes(first=5, added=4, listed=25, pool=12, subproblem=12),
        )
    ).solution
    slack = 1e-6 * case.best + 1e-12
    assert found.bound <= case.best + slack, seed
    assert found.objective >= case.best - slack, seed
    assert found.objective <= case.best * (1 + 1e-6) + slack or found.gap > 1e-7, seed


@pytest.mark.parametrize("group", range(4))
def test_agrees_with_enumeration(group):
    for seed in range(group, LIGHT, 4):
        check(seed)
        check_priced(seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_a_thousand_agree_with_enumeration(group):
    for seed in range(LIGHT + group, LIGHT + SLOW, 20):
        check(seed)
        check_priced(seed)


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(1.0, 4.0, (n, 3))
    y = 2.0 * X[:, 0] / X[:, 1] ** 2 - 3.0 * np.log(X[:, 2]) + 0.5
    return X, y + 0.01 * rng.standard_normal(n)


def test_a_law_with_an_inverse_and_a_logarithm_is_found():
    X, y = rows()
    model = SparsePolynomialRegressor(
        degree=3, max_terms=2, max_inputs=3, gamma=100.0, functions=("inverse", "log")
    ).fit(X, y)
    assert model.polynomial_.term_names == ("log(x2)", "x0 x1^-2")
    assert model.polynomial_.inputs == (0, 1, 2)
    assert model.solution_.status == "optimal"
    assert model.powers_.shape == (2, 9)


def test_functions_count_as_their_input():
    """Two columns of one input are one input; two inputs are two."""
    X, y = rows()
    options = {"degree": 2, "max_terms": 3, "gamma": 10.0, "functions": ("inverse", "log")}
    one = SparsePolynomialRegressor(**options, max_inputs=1).fit(X, y)
    assert len(one.polynomial_.inputs) == 1
    assert len({c for m in one.polynomial_.monomials for c in m}) > 1
    alone = SparsePolynomialRegressor(**options, max_interaction=1).fit(X, y)
    library = alone.polynomial_.library
    assert all(len(library.inputs_of(m)) == 1 for m in alone.polynomial_.monomials)
    without = SparsePolynomialRegressor(**options, exclude_inputs=["x1"]).fit(X, y)
    assert 1 not in without.polynomial_.inputs


def test_trivial_products_are_left_out():
    library = read_functions(("inverse", "sqrt"), ("a", "b"))
    rules = TermRules(degree=3, max_terms=2, library=library)
    basis = rules.basis(np.arange(2))
    names = {tuple(library.column_names(("a", "b"))[c] for c in m) for m in basis.monomials}
    assert ("a", "a^-1") not in names
    assert ("sqrt(a)", "sqrt(a)") not in names
    assert ("a", "b^-1") in names
    assert ("a", "sqrt(a)") in names  # a^1.5
    assert ("a^-1", "sqrt(a)") in names  # a^-0.5
    # No product of powers of one input is another one.
    powers = {"a": 1.0, "a^-1": -1.0, "sqrt(a)": 0.5}
    own = [sum(powers[f] for f in m) for m in names if set(m) <= set(powers)]
    assert len(own) == len(set(own))
    assert len(basis) + 1 == rules.count(2)
    every = np.array(list(combinations_with_replacement(range(6), 3)), dtype=np.int32)
    kept = {tuple(m) for m in every[rules.may_price(every)].tolist()}
    assert kept == {m for m in basis.monomials if len(m) == 3}


@pytest.mark.parametrize(
    ("function", "value", "rule"),
    [
        ("inverse", 0.0, "not be 0"),
        ("log", 0.0, "not be 0 or negative"),
        ("log", -1.0, "not be 0 or negative"),
        ("square-root", -0.5, "not be negative"),
        ("exp", 800.0, "so large"),
        (("odd", lambda x: np.where(x > 4.5, np.nan, x)), 5.0, "finite"),
    ],
)
def test_functions_are_refused_where_they_are_not_defined(function, value, rule):
    X, y = rows(20)
    X[7, 1] = value
    with pytest.raises(InputError, match=rf"{rule}.*'x1', got {value:g} in row 7"):
        SparsePolynomialRegressor(degree=1, max_terms=1, functions=[function]).fit(X, y)
    only = SparsePolynomialRegressor(degree=1, max_terms=1, functions={"x0": [function]})
    model = only.set_params(gamma=1.0, include_terms=[(3,)], max_terms=2).fit(X, y)
    if function == "inverse":
        with pytest.raises(InputError, match="'x0', got 0 in row 0"):
            model.predict([[0.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("functions", "rule"),
    [
        (["cosine"], "among inverse"),
        ([lambda x: x], "identifiers"),
        ([("log", np.log)], "not those known"),
        ([3], "names, callables"),
        ({"x9": ["log"]}, "name inputs"),
        ([("half", lambda x: x[:3])], "one number for each"),
    ],
)
def test_functions_that_are_none_are_refused(functions, rule):
    X, y = rows(20)
    with pytest.raises(InputError, match=rule):
        SparsePolynomialRegressor(degree=1, max_terms=1, functions=functions).fit(X, y)


def test_terms_with_functions_are_read_as_they_are_shown():
    X, y = rows()
    terms = ["x0 x1^-2", "log(x2)", ("x0", "x1^-1")]
    model = SparsePolynomialRegressor(
        degree=3, max_terms=3, gamma=1.0, functions=("inverse", "log"), include_terms=terms
    ).fit(X, y)
    assert set(model.polynomial_.term_names) == {"log(x2)", "x0 x1^-1", "x0 x1^-2"}
    again = replace(model.polynomial_, names=("a b", "c", "d"))
    assert again.term_names[-1] == "`a b` c^-2"
    for term, rule in (("x0 x0^-1", "trivial"), ("x1^-4", "degree=3")):
        with pytest.raises(InputError, match=rule):
            model.set_params(include_terms=[term]).fit(X, y)
    with pytest.raises(InputError, match="negative powers"):
        model.set_params(include_terms=["x0^-1"], functions=["log"]).fit(X, y)


def test_centring_shifts_inputs_and_no_function():
    X, y = rows()
    model = SparsePolynomialRegressor(
        degree=2, max_terms=4, gamma=10.0, center=True, functions=("log",)
    ).fit(X, y)
    law = model.polynomial_
    assert "log(x2)" in law.term_names
    np.testing.assert_allclose(law.to_raw()(X), law(X), rtol=1e-9)
    assert verify(model.solution_.proof, X, y)


LAW = Polynomial(
    ((0, 2, 2), (3,), (4, 1), (5,), (6,), (7,)),
    np.array([2.0, -0.5, 0.25, 1.5, -3.0, 0.125]),
    1.0,
    ("air gap", "b"),
    np.array([0.5, 0.0]),
    functions=tuple(
        Applied(i, FUNCTIONS[name]) for i, name in zip((1, 0, 0, 1, 0, 1), NAMES, strict=True)
    ),
)
POINTS = np.random.default_rng(3).uniform(0.5, 2.0, (50, 2))


def by_hand(X):
    a, b = X.T
    return (
        1.0 + 2.0 * (a - 0.5) / b**2 - 0.5 * np.sqrt(a) + 0.25 * np.log(a) * b
        + 1.5 * np.exp(b) - 3.0 * np.sin(a) + 0.125 * np.cos(b)
    )  # fmt: skip


def test_the_formula_is_what_it_says():
    np.testing.assert_allclose(LAW(POINTS), by_hand(POINTS), rtol=1e-13)
    assert str(LAW) == (
        "y = 1 + 2 (`air gap` - 0.5) b^-2 - 0.5 sqrt(`air gap`) + 0.25 log(`air gap`) b "
        "+ 1.5 exp(b) - 3 sin(`air gap`) + 0.125 cos(b)"
    )
    shown = LAW.to_latex()
    for part in (r"\mathrm{b}^{-2}", r"\sqrt{\mathrm{air\ gap}}", r"\ln(", r"\exp(", r"\cos("):
        assert part in shown


def test_python_and_sql_and_sympy_say_the_same():
    space: dict = {}
    exec(LAW.to_python(), space)
    np.testing.assert_allclose(space["predict"](*POINTS.T), by_hand(POINTS), rtol=1e-13)
    import sqlite3

    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE t ("air gap" REAL, b REAL)')
    base.executemany("INSERT INTO t VALUES (?, ?)", POINTS.tolist())
    for name, f in (
        ("LN", np.log),
        ("SQRT", np.sqrt),
        ("EXP", np.exp),
        ("SIN", np.sin),
        ("COS", np.cos),
    ):
        base.create_function(name, 1, lambda x, f=f: float(f(x)))
    found = [row[0] for row in base.execute(LAW.to_sql("t"))]
    np.testing.assert_allclose(found, by_hand(POINTS), rtol=1e-13)
    sympy = pytest.importorskip("sympy")
    a, b = sympy.Symbol("air gap"), sympy.Symbol("b")
    call = sympy.lambdify((a, b), LAW.to_sympy())
    np.testing.assert_allclose(call(*POINTS.T), by_hand(POINTS), rtol=1e-12)


@pytest.mark.skipif(which("cc") is None, reason="needs a C compiler")
def test_c_says_the_same(tmp_path: Path):
    main_ = (
        '#include <stdio.h>\nint main(void) { double a, b; while (scanf("%lf %lf", &a, &b) == 2) '
        'printf("%.17g\\n", predict(a, b)); return 0; }\n'
    )
    (tmp_path / "law.c").write_text(LAW.to_c() + main_)
    subprocess.run(["cc", "law.c", "-o", "law", "-lm"], cwd=tmp_path, check=True)
    given = "\n".join(f"{a!r} {b!r}" for a, b in POINTS.tolist())
    out = subprocess.run(
        [tmp_path / "law"], input=given, capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(np.array(out.stdout.split(), float), by_hand(POINTS), rtol=1e-13)


def test_onnx_says_the_same():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    few = replace(LAW, monomials=LAW.monomials[:-1], coefficients=LAW.coefficients[:-1])
    session = runtime.InferenceSession(few.to_onnx().SerializeToString())
    (found,) = session.run(None, {"X": POINTS})
    np.testing.assert_allclose(found, few(POINTS), rtol=1e-12)


def test_functions_of_ones_own_are_shown_and_not_exported(tmp_path: Path):
    X, _ = rows()
    y = np.tanh(X[:, 0]) - 0.1 * X[:, 1] ** 3
    model = SparsePolynomialRegressor(
        degree=1, max_terms=2, gamma=1e4, functions=[np.tanh, ("cube", lambda x: x**3)]
    ).fit(X, y)
    assert model.polynomial_.term_names == ("tanh(x0)", "cube(x1)")
    for export in (model.polynomial_.to_python, model.polynomial_.to_c, model.polynomial_.to_sql):
        with pytest.raises(InputError, match="functions must be known"):
            export()
    with pytest.raises(InputError, match="functions must be among"):
        save_model(model, tmp_path / "model.json")
    proof = model.solution_.proof
    assert not verify(proof, X, y)
    assert verify(proof, X, y, functions={"tanh": np.tanh, "cube": lambda x: x**3})
    assert not verify(proof, X, y, functions={"tanh": np.sin, "cube": lambda x: x**3})


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.needs("flint"))])
def test_files_hold_functions(tmp_path: Path, exact: bool):
    X, y = rows()
    options = {"degree": 3, "max_terms": 2, "gamma": 10.0, "functions": {"x1": ("inverse",)}}
    model = SparsePolynomialRegressor(**options).fit(X, y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert (again.predict(X) == model.predict(X)).all()
    assert str(again.polynomial_) == str(model.polynomial_)
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"function": "inverse"', '"function": "log"'))
    with pytest.raises(InputError, match="functions must be those"):
        load_model(tmp_path / "other.json")
    model.solution_.proof.save(tmp_path / "law.proof")
    proof = Proof.load(tmp_path / "law.proof")
    assert "inverse of x1" in str(proof.statement)
    assert verify(proof, X, y, exact=exact)


def forged(proof, **changes):
    return replace(proof, statement=replace(proof.statement, **changes))


def test_a_proof_about_other_functions_is_rejected():
    X, y = rows()
    model = SparsePolynomialRegressor(
        degree=2, max_terms=2, gamma=10.0, max_inputs=2, functions=("inverse",)
    ).fit(X, y)
    proof = model.solution_.proof
    assert verify(proof, X, y)
    told = proof.statement.functions
    for functions in ((), told[:-1], (*told[:-1], (2, "log")), ((1, "inverse"), *told[1:])):
        assert not verify(forged(proof, functions=functions), X, y)
        assert not verify(forged(proof, functions=functions, listed=False), X, y)
    assert verify(forged(proof, listed=False), X, y)  # which is as true
    unshifted = proof.statement.shift.copy()
    unshifted[-1] = 0.5
    assert not verify(forged(proof, shift=unshifted), X, y)


def test_the_search_the_path_and_importance_know_functions():
    X, y = rows()
    search = SparsePolynomialRegressorCV(
        degree=(2, 3), max_terms=4, functions=("inverse", "log"), random_state=0
    ).fit(X, y)
    assert set(search.polynomial_.term_names) == {"log(x2)", "x0 x1^-2"}
    assert search.solution_.status == "optimal"
    shares = measure_importance(search.polynomial_, X)
    assert shares.inputs.shape == (3,)
    assert set(shares.pairs) == {(0, 1)}
    curve = path(X, y, degree=2, max_terms=2, gamma=1.0, functions=("inverse",), cv=3)
    assert all(point.solution.status == "optimal" for point in curve)


def test_blocks_of_dask_grow_the_same_columns():
    da = pytest.importorskip("dask.array")
    X, y = rows()
    model = SparsePolynomialRegressor(
        degree=3, max_terms=2, gamma=1.0, functions=("inverse", "log")
    )
    expected = model.fit(X, y).polynomial_
    chunks = da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50)
    found = model.fit(*chunks).polynomial_
    assert found.monomials == expected.monomials
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-9)
    np.testing.assert_allclose(model.predict(chunks[0]).compute(), expected(X), rtol=1e-9)
    X[60, 0] = 0.0
    with pytest.raises(InputError, match="block 1: X must not be 0"):
        model.fit(da.from_array(X, chunks=(50, 3)), chunks[1])


def test_the_triage_keeps_inputs_for_their_functions():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (400, 6))
    y = np.cos(2.0 * X[:, 4]) + 0.01 * rng.standard_normal(400)
    model = SparsePolynomialRegressor(
        degree=2, max_terms=2, gamma=1.0, n_candidates=1, functions=("sin", "cos")
    ).fit(X, y)
    assert model.kept_inputs_.tolist() == [4]
    assert model.score(X, y) > 0.99


@pytest.mark.needs("pandas")
def test_the_command_line(tmp_path: Path, capsys):
    X, y = rows()
    table = tmp_path / "law.csv"
    np.savetxt(table, np.c_[X, y], delimiter=",", header="a,b,c,y", comments="")
    model, report = tmp_path / "m.json", tmp_path / "r.html"
    call = ["fit", str(table), "-t", "y", "--max-terms", "2", "--gamma", "10", "-q", "--brief"]
    code = main([*call, "--functions", "inverse,log", "-o", str(model), "--report", str(report)])
    assert code == 0
    assert re.search(r"log\(c\).*a b\^-2", capsys.readouterr().out)
    assert "log(" in report.read_text()
    assert main(["verify", str(model), str(table), "-q"]) == 0
    capsys.readouterr()
    assert main(["info", str(model), "--as", "python"]) == 0
    assert "from numpy import log" in capsys.readouterr().out
    assert main([*call, "--functions", "b=inverse", "--functions", "c=log"]) == 0
    assert "log(c)" in capsys.readouterr().out
    assert main([*call, "--functions", "b=inverse", "--functions", "log"]) == 2


def test_several_responses_share_terms_with_functions():
    X, y = rows()
    both = np.c_[y, 5.0 * X[:, 0] / X[:, 1] ** 2]
    model = MultiTaskSparsePolynomialRegressor(
        degree=3, max_terms=2, gamma=10.0, functions=("inverse", "log")
    ).fit(X, both)
    assert [law.term_names for law in model.polynomials_] == [("log(x2)", "x0 x1^-2")] * 2


def test_rivals_have_functions_too():
    X, y = rows()
    options = {"degree": 2, "max_terms": 1, "gamma": 10.0, "functions": ("inverse", "sqrt")}
    model = SparsePolynomialRegressor(**options).fit(X, y)
    found = rivals(model, X, y, within=1.0)
    assert found.complete
    names = {p.term_names[0] for p in found}
    assert any("^-1" in name or "sqrt" in name for name in names)
    assert set(found.shares.inputs) <= {"x0", "x1", "x2"}
