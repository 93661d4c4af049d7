"""Orthogonal polynomials in place of powers: what they are, and enumeration as the referee."""

from __future__ import annotations

import json
import pickle
import sqlite3
import subprocess
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations, combinations_with_replacement
from math import factorial, prod
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, HermiteE, Legendre
from scipy.optimize import lsq_linear

from polysharp import (
    InputError,
    MultiTaskSparsePolynomialRegressor,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    path,
    rivals,
    save_model,
    stability,
    verify,
)
from polysharp.certificate.checker.rows import Columns, orders, read_rows
from polysharp.certificate.proof import Proof
from polysharp.data.arrays import NumpyArrays
from polysharp.data.families import FAMILIES, HIGHEST
from polysharp.moments.moments import _evaluator
from polysharp.monomials.terms import read_terms, write_term
from polysharp.polynomial.importance import measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.stationary import stationary_points
from polysharp.progress import open_progress
from polysharp.selection.parallel import Deadline, Workers
from polysharp.selection.search import BudgetSearch, Wanted
from polysharp.selection.split_models import Budgets

NUMPYS = {"legendre": Legendre, "chebyshev": Chebyshev, "hermite": HermiteE}
BASES = tuple(NUMPYS)
SLOW, LIGHT = 1000, 30


class Drawn:
    """A small problem in an orthogonal basis with rules, and its optimum by trying all supports.

    Polynomials are NumPy's, and what is allowed is stated here once more.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([78, seed])
        p, degree = ((2, 3), (3, 2), (1, 5), (2, 4), (3, 2))[seed % 5]
        n = int(rng.integers(12, 40))
        self.X = rng.uniform(0.0, 3.0, (n, p)) * rng.choice([0.1, 1.0, 30.0], p)
        self.X += rng.choice([0.0, 5.0, -40.0], p)
        self.weights = rng.uniform(0.3, 2.0, n) if seed % 3 == 0 else None
        self.bounded = seed % 7 == 0
        listed = [m for d in range(1, degree + 1) for m in _monomials(p, d)]
        wanted = listed[int(rng.integers(len(listed)))]
        free, most = bool(rng.random() < 0.7), int(rng.integers(1, 3 if self.bounded else 4))
        self.options = {
            "basis": BASES[seed % 3 if seed % 2 else seed // 2 % 3],
            "degree": degree,
            "max_terms": most,
            "max_inputs": [None, 1, 2][int(rng.integers(3))],
            "heredity": [None, None, "weak", "strong"][int(rng.integers(4))],
            "max_interaction": [None, 1][int(rng.random() < 0.2)],
            "fit_intercept": free,
            "include_terms": [wanted] if rng.random() < 0.3 else None,
            "exclude_terms": [listed[-1]] if rng.random() < 0.2 else None,
            "include_inputs": [0] if rng.random() < 0.2 else None,
            "coefficient_bounds": (-1.5, 2.0) if self.bounded else None,
            "gamma": float(10.0 ** rng.uniform(-3, 1)),
        }
        self.monomials = [m for m in ([] if free else [()]) + listed if self._shaped(m)]
        self.M = self._design()
        law = rng.standard_normal(self.M.shape[1]) * (rng.random(self.M.shape[1]) < 0.4)
        self.y = self.M @ law + 0.3 * rng.standard_normal(n) + 1.0
        self.best = self._enumerate()

    def _shaped(self, m: tuple[int, ...]) -> bool:
        width = self.options["max_interaction"]
        return (width is None or len(set(m)) <= width) and m not in (
            self.options["exclude_terms"] or ()
        )

    def _mapped(self, x: np.ndarray) -> np.ndarray:
        if self.options["basis"] == "hermite":
            mean = np.average(x, weights=self.weights)
            return (x - mean) / np.sqrt(np.average((x - mean) ** 2, weights=self.weights))
        return (2.0 * x - x.max() - x.min()) / (x.max() - x.min())

    def _design(self) -> np.ndarray:
        r, kind = self.options["degree"], NUMPYS[self.options["basis"]]
        t, columns = [self._mapped(x) for x in self.X.T], []
        for m in self.monomials:
            repeats = prod(factorial(m.count(i)) for i in set(m))
            scale = np.sqrt(factorial(r) / (factorial(r - len(m)) * repeats))
            factors = [kind.basis(d)(t[i]) for i, d in Counter(m).items()]
            columns.append(scale * np.prod(factors, axis=0) * np.ones(len(self.X)))
        return np.array(columns).T

    def _keeps(self, terms: list[tuple[int, ...]]) -> bool:
        limit, heredity = self.options["max_inputs"], self.options["heredity"]
        used = {i for m in terms for i in m}
        if limit is not None and len(used) > limit:
            return False
        if not set(self.options["include_terms"] or ()) <= set(terms):
            return False
        if not set(self.options["include_inputs"] or ()) <= used:
            return False
        enough = any if heredity == "weak" else all
        return heredity is None or all(
            len(m) < 2 or enough(m[:a] + m[a + 1 :] in terms for a in range(len(m))) for m in terms
        )

    def _enumerate(self) -> float | None:
        M, y = self.M, self.y
        v = np.ones(len(y)) if self.weights is None else self.weights
        if self.options["fit_intercept"]:
            M, y = M - np.average(M, axis=0, weights=v), y - np.average(y, weights=v)
        root, lam, best = np.sqrt(v)[:, None], 1.0 / self.options["gamma"], np.inf
        A, b = root * M, root[:, 0] * y
        G, q, yy = A.T @ A, A.T @ b, float(b @ b)
        for size in range(self.options["max_terms"] + 1):
            for S in combinations(range(len(self.monomials)), size):
                if not self._keeps([self.monomials[j] for j in S]):
                    continue
                s = list(S)
                if self.bounded and s:
                    w = self._bounded(A[:, s], b, lam, [self.monomials[j] for j in S])
                else:
                    w = np.linalg.solve(G[np.ix_(s, s)] + lam * np.eye(size), q[s])
                cost = yy - 2.0 * q[s] @ w + w @ G[np.ix_(s, s)] @ w + lam * w @ w
                best = min(best, float(cost))
        return 0.5 * best if np.isfinite(best) else None

    def _bounded(self, A, b, lam, terms) -> np.ndarray:
        """Coefficients of products of P_d, that is w times the scale, keep to the interval."""
        r = self.options["degree"]
        repeats = [prod(map(factorial, Counter(m).values())) for m in terms]
        orderings = [
            factorial(r) / (factorial(r - len(m)) * own)
            for m, own in zip(terms, repeats, strict=True)
        ]
        scales = np.sqrt(orderings)
        low, high = (end / scales for end in self.options["coefficient_bounds"])
        free = np.array([m == () for m in terms])
        low, high = np.where(free, -np.inf, low), np.where(free, np.inf, high)
        stacked = np.vstack([A, np.sqrt(lam) * np.eye(len(terms))])
        target = np.append(b, np.zeros(len(terms)))
        return lsq_linear(stacked, target, (low, high), method="bvls", tol=1e-14).x


def _monomials(p: int, d: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(p), d))


def check(seed: int) -> bool:
    case = Drawn(seed)
    model = SparsePolynomialRegressor(**case.options, gap_tol=1e-7, engine="tree")
    label = f"{seed}: {case.options}"
    if case.best is None:
        with pytest.raises(InputError):
            model.fit(case.X, case.y, case.weights)
        return False
    model.fit(case.X, case.y, case.weights)
    found = model.solution_
    slack = 1e-6 * case.best + 1e-12
    assert abs(found.objective - case.best) <= slack, label
    assert found.bound <= case.best * (1 + 1e-9) + 1e-12, label
    verdict = verify(found.proof, case.X, case.y, case.weights)
    assert verdict.valid, f"{label}: {verdict}"
    assert verdict.bound <= case.best * (1 + 1e-9) + 1e-12, label
    if seed % 4 == 0 and find_spec("flint"):
        verdict = verify(found.proof, case.X, case.y, case.weights, exact=True)
        assert verdict.valid, f"{label}, exactly: {verdict}"
    v = np.ones(len(case.y)) if case.weights is None else case.weights
    penalty = 0.5 * float(found.coefficients @ found.coefficients) / model.gamma_
    laws = [model.polynomial_]
    # In powers of inputs far from zero, terms cancel: with all digits no law is left.
    far = np.abs(model.polynomial_.shifts / model.polynomial_.scales).max()
    if far ** case.options["degree"] < 1e8:
        laws.append(model.polynomial_.to_raw())
    for law in laws:
        cost = 0.5 * float(v @ (case.y - law(case.X)) ** 2) + penalty
        assert cost == pytest.approx(case.best, rel=1e-5, abs=1e-8), label
    return True


@pytest.mark.parametrize("group", range(3))
def test_agrees_with_enumeration(group):
    assert sum(check(seed) for seed in range(group, LIGHT, 3)) >= LIGHT // 3 - 4


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_a_thousand_agree_with_enumeration(group):
    assert sum(check(seed) for seed in range(LIGHT + group, LIGHT + SLOW, 20)) >= 30


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(3.0, 7.0, (n, 3))
    X[0], X[1] = 3.0, 7.0
    t = (X - 5.0) / 2.0
    y = 2.0 + 3.0 * Legendre.basis(3)(t[:, 0]) * t[:, 1] - 2.0 * Legendre.basis(2)(t[:, 2])
    return X, y + 0.01 * rng.standard_normal(n)


OPTIONS = {"degree": 4, "max_terms": 2, "gamma": 100.0, "basis": "legendre"}


@pytest.mark.parametrize("name", BASES)
def test_families_are_those_of_the_books(name):
    t = np.linspace(-1.7, 1.7, 41)
    family, theirs = FAMILIES[name], NUMPYS[name]
    for d, values in enumerate(family.values(t, HIGHEST), start=1):
        expected = theirs.basis(d)(t)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12 * np.abs(values).max())
        in_powers = np.polynomial.Polynomial(family.coefficients(d))
        np.testing.assert_allclose(in_powers(t), expected, atol=1e-11 * np.abs(values).max())
        # The coefficients are exact, and so are the checker's own recurrences.
        exact = orders(name, Fraction(3, 7), d)[d]
        assert exact == sum(Fraction(c) * Fraction(3, 7) ** k for k, c in enumerate(in_powers.coef))


@pytest.mark.parametrize("name", BASES)
def test_the_mapping_is_that_of_the_family(name):
    X, y = rows()
    X[:, 1] = 4.0  # a constant has no range
    law = SparsePolynomialRegressor(2, 2, gamma=1.0, basis=name).fit(X, y).polynomial_
    t = (X - law.shifts) / law.scales
    if name == "hermite":
        np.testing.assert_allclose(t.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(t.std(axis=0), [1.0, 0.0, 1.0], atol=1e-12)
    else:
        np.testing.assert_allclose(t.min(axis=0), [-1.0, 0.0, -1.0], atol=1e-12)
        np.testing.assert_allclose(t.max(axis=0), [1.0, 0.0, 1.0], atol=1e-12)


def test_the_law_is_found_and_shown():
    X, y = rows()
    model = SparsePolynomialRegressor(**OPTIONS).fit(X, y)
    law = model.polynomial_
    assert law.term_names == ("P2(x2)", "P3(x0) P1(x1)")
    assert model.solution_.status == "optimal"
    low, high = X.min(axis=0), X.max(axis=0)
    mapped = [f"x{i} mapped from [{low[i]:.6g}, {high[i]:.6g}]" for i in range(3)]
    assert str(law).endswith(", ".join(mapped))
    assert "basis: legendre" in str(model.solution_.proof.statement)
    assert r"\mathit{P}_{3}\bigl(\tfrac{\mathrm{x0} - " in law.to_latex()
    raw = law.to_raw()
    assert raw.shifts is None
    assert "x0^3 x1" in raw.term_names
    np.testing.assert_allclose(raw(X), law(X), rtol=1e-9)
    back = raw.about(law.shifts, law.scales, law.family)
    kept = dict(zip(back.monomials, back.coefficients, strict=True))
    np.testing.assert_allclose([kept[m] for m in law.monomials], law.coefficients, rtol=1e-8)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()


def test_terms_are_read_as_they_are_shown():
    library = SparsePolynomialRegressor(**OPTIONS).fit(*rows()).polynomial_.library
    names = ("a", "air gap", "P2")
    for m in ((0, 0, 1), (1, 1, 1, 2), (2, 2)):
        written = write_term(m, names, library)
        assert read_terms([written], names, "include_terms", library) == (m,)
    assert read_terms(["P2(`air gap`) a"], names, "t", library) == ((0, 1, 1),)
    assert read_terms(["a^2 P2"], names, "t", library) == ((0, 0, 2),)
    X, y = rows()
    model = SparsePolynomialRegressor(
        **OPTIONS, include_terms=["P1(x0)"], exclude_terms=["P3(x0) P1(x1)"]
    ).fit(X, y)
    assert (0,) in model.polynomial_.monomials
    assert (0, 0, 0, 1) not in model.polynomial_.monomials


def test_rules_count_orders():
    X, y = rows()
    for changes in ({"max_inputs": 1}, {"max_interaction": 1}, {"heredity": "strong"}):
        model = SparsePolynomialRegressor(**{**OPTIONS, "max_terms": 4}, **changes).fit(X, y)
        monomials = set(model.polynomial_.monomials)
        assert verify(model.solution_.proof, X, y)
        if "heredity" in changes:
            parents = {m[:a] + m[a + 1 :] for m in monomials if len(m) > 1 for a in range(len(m))}
            assert parents <= monomials
        elif "max_inputs" in changes:
            assert len(model.polynomial_.inputs) == 1
        else:
            assert all(len(set(m)) == 1 for m in monomials)
    low = SparsePolynomialRegressor(**{**OPTIONS, "degree": 3}).fit(X, y)
    assert max(map(len, low.polynomial_.monomials)) <= 3  # P3(x0) P1(x1) has order 4


def test_bounds_are_those_of_the_coefficients_shown():
    X, y = rows()
    model = SparsePolynomialRegressor(**OPTIONS, coefficient_bounds={"P2(x2)": (-1.0, 0.0)})
    law = model.fit(X, y).polynomial_
    coefficients = dict(zip(law.term_names, law.coefficients, strict=True))
    assert coefficients["P2(x2)"] == -1.0
    proof = model.solution_.proof
    assert "from -1.0 to 0.0 for P2(x2)" in str(proof.statement)
    assert verify(proof, X, y)
    wider = replace(proof.statement.coefficients, terms=(((2, 2), (-5.0, 0.0)),))
    assert not verify(forged(proof, coefficients=wider), X, y)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"basis": "fourier"}, "basis must be one of 'monomials', 'legendre'"),
        ({"degree": 11}, "degree must be at most 10 with basis='legendre', got 11"),
        ({"center": True}, "center must be False with basis='legendre'"),
        ({"scale": False}, "scale must be True with basis='legendre'"),
        ({"functions": ("log",)}, "functions must be None with basis='legendre'"),
        ({"constants": []}, "constants must be None with basis='legendre'"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, rule):
    with pytest.raises(InputError, match=rule):
        SparsePolynomialRegressor(**{**OPTIONS, **changes}).fit(*rows())


@pytest.mark.needs("pint")
def test_coefficients_have_the_unit_of_the_response():
    law = SparsePolynomialRegressor(**OPTIONS).fit(*rows()).polynomial_
    units = {"x0": "m/s", "x1": "kg", "x2": "K", "y": "W"}
    assert law.coefficient_units(units) == ("W", "W")


def law_in(name: str) -> Polynomial:
    return Polynomial(
        ((0, 0, 0, 1), (1,), (0, 0), (1,) * 5, ()),
        np.array([2.0, -0.5, 0.25, 1.5, 3.0]),
        1.0,
        ("air gap", "b"),
        shifts=np.array([1.25, 0.0]),
        ranges=np.array([[0.5, 0.6], [1.9, 1.8]]),
        scales=np.array([0.75, 1.0]),
        family=FAMILIES[name],
    )


POINTS = np.random.default_rng(3).uniform(0.3, 2.2, (50, 2))


def by_hand(name: str) -> np.ndarray:
    X, P = POINTS.clip([0.5, 0.6], [1.9, 1.8]), NUMPYS[name].basis
    a, b = (X[:, 0] - 1.25) / 0.75, X[:, 1]
    return 4.0 + 2.0 * P(3)(a) * P(1)(b) - 0.5 * P(1)(b) + 0.25 * P(2)(a) + 1.5 * P(5)(b)


@pytest.mark.parametrize("name", BASES)
def test_python_and_sql_and_sympy_say_the_same(name):
    law, expected = law_in(name), by_hand(name)
    np.testing.assert_allclose(law(POINTS), expected, rtol=1e-12)
    space: dict = {}
    exec(law.to_python(), space)
    np.testing.assert_allclose(space["predict"](*POINTS.T), expected, rtol=1e-12)
    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE t ("air gap" REAL, b REAL)')
    base.executemany("INSERT INTO t VALUES (?, ?)", POINTS.tolist())
    found = [row[0] for row in base.execute(law.to_sql("t"))]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    sympy = pytest.importorskip("sympy")
    call = sympy.lambdify((sympy.Symbol("air gap"), sympy.Symbol("b")), law.to_sympy())
    inside = POINTS.clip([0.5, 0.6], [1.9, 1.8])
    np.testing.assert_allclose(call(*inside.T), expected, rtol=1e-11)


@pytest.mark.skipif(which("cc") is None, reason="needs a C compiler")
def test_c_says_the_same(tmp_path: Path):
    main_ = (
        '#include <stdio.h>\nint main(void) { double a, b; while (scanf("%lf %lf", &a, &b) == 2) '
        'printf("%.17g\\n", predict(a, b)); return 0; }\n'
    )
    (tmp_path / "law.c").write_text(law_in("legendre").to_c() + main_)
    subprocess.run(["cc", "law.c", "-o", "law"], cwd=tmp_path, check=True)
    given = "\n".join(f"{a!r} {b!r}" for a, b in POINTS.tolist())
    out = subprocess.run(
        [tmp_path / "law"], input=given, capture_output=True, text=True, check=True
    )
    found = np.array(out.stdout.split(), float)
    np.testing.assert_allclose(found, by_hand("legendre"), rtol=1e-12)


@pytest.mark.parametrize("name", BASES)
def test_onnx_says_the_same(name):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(law_in(name).to_onnx().SerializeToString())
    (found,) = session.run(None, {"X": POINTS})
    np.testing.assert_allclose(found, by_hand(name), rtol=1e-12)


def test_exports_carry_intervals():
    X, y = rows()
    model = SparsePolynomialRegressor(**OPTIONS).fit(X, y).calibrate(X, y)
    half = model.half_width(0.9)
    space: dict = {}
    exec(model.polynomial_.to_python(interval=half), space)
    low, high = space["predict_interval"](*X.T)
    expected = model.predict_interval(X, coverage=0.9)
    np.testing.assert_allclose(np.c_[low, high], expected, rtol=1e-9)
    base = sqlite3.connect(":memory:")
    base.create_function("SQRT", 1, np.sqrt)
    base.execute("CREATE TABLE t (x0 REAL, x1 REAL, x2 REAL)")
    base.executemany("INSERT INTO t VALUES (?, ?, ?)", X.tolist())
    found = np.array(list(base.execute(model.polynomial_.to_sql("t", interval=half))))
    np.testing.assert_allclose(found[:, 1:], expected, rtol=1e-9)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    exported = model.polynomial_.to_onnx(interval=half).SerializeToString()
    _, *ends = runtime.InferenceSession(exported).run(None, {"X": X})
    np.testing.assert_allclose(np.array(ends).T, expected, rtol=1e-9)


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.needs("flint"))])
@pytest.mark.parametrize("name", BASES)
def test_files_hold_the_basis(tmp_path: Path, name: str, exact: bool):
    X, y = rows()
    model = SparsePolynomialRegressor(**{**OPTIONS, "basis": name, "gamma": 1.0}).fit(X, y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert (again.predict(X) == model.predict(X)).all()
    assert str(again.polynomial_) == str(model.polynomial_)
    document = json.loads((tmp_path / "model.json").read_text())
    for changed in ({"basis": "monomials"}, {"scales": [1.0, 1.0]}, {"scales": [1.0, 0.0, 1.0]}):
        (tmp_path / "other.json").write_text(json.dumps(document | changed))
        with pytest.raises(InputError):
            load_model(tmp_path / "other.json")
    model.solution_.proof.save(tmp_path / "law.proof")
    proof = Proof.load(tmp_path / "law.proof")
    assert proof.statement.basis == name
    verdict = verify(proof, X, y, exact=exact)
    assert verdict.valid, verdict
    assert verdict.bound <= model.solution_.objective


def forged(proof, **changes):
    return replace(proof, statement=replace(proof.statement, **changes))


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.needs("flint"))])
def test_a_proof_about_another_basis_is_rejected(exact: bool):
    X, y = rows()
    model = SparsePolynomialRegressor(**{**OPTIONS, "gamma": 1.0}).fit(X, y)
    proof = model.solution_.proof
    assert verify(proof, X, y, exact=exact)
    told = proof.statement
    for basis in ("monomials", "chebyshev", "hermite"):
        assert not verify(forged(proof, basis=basis), X, y, exact=exact)
    assert "basis is unknown" in verify(forged(proof, basis="laguerre"), X, y).reason
    for changes in (
        {"shift": told.shift + np.array([0.3, 0.0, 0.0])},
        {"scale": told.scale * [1.0, 1.0, 1.3]},
        {"degree": 3},
        {"degree": 5},
        {"support": ((0, 0, 1), (2, 2))},
        {"support": ((0, 0, 0, 1), (2, 2, 2))},
        {"listed": False},
        {"functions": ((0, "log"),)},
        {"monomials": told.monomials[:-1]},
    ):
        assert not verify(forged(proof, **changes), X, y, exact=exact), changes


def test_rounding_of_recurrences_is_within_its_bounds():
    """Against exact rationals, at the highest order and far from zero."""
    rng = np.random.default_rng(0)
    X, y = 1e6 + rng.uniform(0.0, 1.0, (40, 1)), rng.standard_normal(40)
    for name in BASES:
        options = {"degree": HIGHEST, "max_terms": 1, "gamma": 1.0, "basis": name}
        proof = SparsePolynomialRegressor(**options, fit_intercept=False).fit(X, y).solution_.proof
        s = proof.statement
        columns = Columns(s, read_rows(s, X, y, None), s.monomials)
        M = columns.centred(slice(None), np.arange(len(s.monomials)))[:, :-1]
        shift, scale = Fraction(float(s.shift[0])), Fraction(float(s.scale[0]))
        t = [(Fraction(x) - shift) / scale for x in X[:, 0].tolist()]
        for j, m in enumerate(s.monomials):
            repeats = factorial(HIGHEST - len(m)) * factorial(len(m))
            unit = np.sqrt(np.longdouble(factorial(HIGHEST)) / np.longdouble(repeats))
            exact = [np.longdouble(v.numerator) / np.longdouble(v.denominator)
                     for v in (orders(name, x, max(1, len(m)))[len(m)] for x in t)]  # fmt: skip
            off = np.linalg.norm((M[:, j] - unit * np.array(exact)).astype(float))
            assert off <= columns.error[j], (name, m)
            assert columns.error[j] <= 1e-9 * columns.norms[j], (name, m)


def test_the_search_and_the_path_and_rivals_know_the_basis():
    X, y = rows()
    search = SparsePolynomialRegressorCV(
        degrees=(3, 4), max_terms=4, basis="legendre", random_state=0
    ).fit(X, y)
    assert search.polynomial_.term_names == ("P2(x2)", "P3(x0) P1(x1)")
    assert search.best_params_["center"] is False
    curve = path(X, y, degree=3, max_terms=2, gamma=1.0, basis="chebyshev", cv=3)
    assert all(point.solution.status == "optimal" for point in curve)
    assert all(verify(point.solution.proof, X, y) for point in curve)
    model = SparsePolynomialRegressor(**{**OPTIONS, "max_terms": 1, "gamma": 1.0}).fit(X, y)
    found = rivals(model, X, y, within=0.2)
    assert found.complete
    assert all(law.family.name == "legendre" for law in found.polynomials)
    joint = MultiTaskSparsePolynomialRegressor(**OPTIONS).fit(X, np.c_[y, 3.0 - 2.0 * y])
    assert [law.term_names for law in joint.polynomials_] == [("P2(x2)", "P3(x0) P1(x1)")] * 2
    assert verify(joint.solution_.proof, X, np.c_[y, 3.0 - 2.0 * y])


def test_resamples_are_compared_in_the_ranges_of_the_model():
    X, y = rows()
    model = SparsePolynomialRegressor(**OPTIONS).fit(X, y)
    picked = stability(model, X, y, n_resamples=4, random_state=0)
    assert picked.term_names[:2] == ("P2(x2)", "P3(x0) P1(x1)")
    np.testing.assert_allclose(picked.resampled[:, 0], -2.0, rtol=0.05)


def test_stationary_points_are_those_of_the_powers():
    X, y = rows()
    law = SparsePolynomialRegressor(2, 3, gamma=10.0, basis="legendre").fit(X, y).polynomial_
    for ours, theirs in zip(
        stationary_points(law, X).points, stationary_points(law.to_raw(), X).points, strict=True
    ):
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-6)
        assert ours.kind == theirs.kind


def test_blocks_of_dask_are_mapped_alike():
    da = pytest.importorskip("dask.array")
    alike(lambda X, y: (da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50)))


def test_tensors_are_mapped_alike():
    torch = pytest.importorskip("torch")
    alike(lambda X, y: (torch.tensor(X), torch.tensor(y)))


def alike(held) -> None:
    X, y = rows()
    model = SparsePolynomialRegressor(**{**OPTIONS, "gamma": 1.0})
    expected = model.fit(X, y).polynomial_
    found = model.fit(*held(X, y)).polynomial_
    assert found.monomials == expected.monomials
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-9)
    np.testing.assert_allclose(found(X), expected(X), rtol=1e-9)


def test_other_arrays_than_numpys_form_the_same_columns():
    """What a GPU computes, with NumPy's arrays as if they were of another library."""

    class Others:
        def __getattr__(self, name):
            return getattr(NumpyArrays(), name)

    X, y = rows()
    law = SparsePolynomialRegressor(**OPTIONS).fit(X, y).polynomial_
    basis = replace(law.basis, monomials=((), (0, 0, 1), (1,), (0, 1, 2), (2, 2, 2, 2)), degree=4)
    t = (X - law.shifts) / law.scales
    for scaled in (True, False):
        found = _evaluator(basis, Others(), scaled=scaled)(t)
        np.testing.assert_allclose(found.T, basis.evaluate(t, scaled=scaled), rtol=1e-13)


def test_products_that_cannot_be_listed_are_not_priced():
    """Columns on demand multiply columns; the triage keeps as many inputs as can be listed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (60, 60))
    y = Legendre.basis(3)(2.0 * X[:, 7] - 3.0) + 0.01 * rng.standard_normal(60)
    model = SparsePolynomialRegressor(
        3, 1, gamma=1.0, basis="legendre", time_limit=None, engine="local-search"
    ).fit(X, y)
    assert len(model.kept_inputs_) < 60
    assert model.solution_.scope == "kept-inputs"


def test_linear_terms_are_priced():
    """At degree 1 all bases multiply columns: too many to be listed are no obstacle."""
    rng = np.random.default_rng(0)
    X = rng.uniform(5.0, 6.0, (40, 9000))
    y = 3.0 * X[:, 5] - 2.0 * X[:, 77] + 0.01 * rng.standard_normal(40)
    model = SparsePolynomialRegressor(1, 2, gamma=1.0, basis="legendre", n_candidates=None)
    proof = model.fit(X, y).solution_.proof
    assert model.polynomial_.term_names == ("P1(x5)", "P1(x77)")
    assert not proof.statement.listed
    assert verify(proof, X, y)


def test_what_matters_does_not_depend_on_the_basis():
    """Sobol indices are those of the polynomial, however it is written."""
    X, y = rows()
    law = SparsePolynomialRegressor(3, 3, gamma=10.0, basis="hermite").fit(X, y).polynomial_
    ours, theirs = (measure_importance(each, X) for each in (law, law.to_raw()))
    np.testing.assert_allclose(ours.inputs, theirs.inputs, atol=1e-6)
    np.testing.assert_allclose(ours.first, theirs.first, atol=1e-6)


def test_intervals_of_folds_go_through_the_file(tmp_path: Path):
    X, y = rows()
    model = SparsePolynomialRegressor(**OPTIONS).fit(X, y).calibrate(X, y, cv=3)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    expected = model.predict_interval(X, coverage=0.8)
    np.testing.assert_array_equal(again.predict_interval(X, coverage=0.8), expected)


def test_degrees_that_are_compared_end_where_the_basis_does():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0.0, 1.0, (60, 1)), rng.standard_normal(60)
    model = SparsePolynomialRegressorCV(basis="legendre")
    with open_progress(0) as progress:
        folds = model._folds((X, y, None), None, 0, model._checked_parameters(), progress)
        wanted = Wanted(None, None, (False,), Budgets((1, 2), (None,)))
        search = BudgetSearch(folds, wanted, Workers(None, progress), Deadline())
        assert search._compare_short(HIGHEST)
        assert not search._compare_short(HIGHEST + 1)
