"""Every export predicts what the polynomial predicts, whatever the columns are called."""

from __future__ import annotations

import ctypes
import keyword
import math
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import identifiers

from polysharp import Polynomial, SparsePolynomialRegressor
from polysharp.errors import InputError, MissingSolverError

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

ODD_NAMES = (
    "air gap",
    'quote"d',
    "it's",
    "größe µ",
    "for",
    "double",
    "1st",
    "",
    "a\nimport os",
    "x*/ } int evil; /*",
    '"); DROP TABLE t; --',
    "`tick`]",
    "\\input{x}$^~_%",
    "名前",
    "\N{MATHEMATICAL BOLD DIGIT ONE}\N{MATHEMATICAL BOLD ITALIC SMALL X}",
    "linux",
    "predict",
    "__debug__",
    'a"""\nraise SystemExit(3)\n"""',
    "]] ; --",
    "trailing\\",
    "air_gap",
)


def law_in(names, seed=0, shifts=False, intercept=0.1 + 0.2):
    """Draw a polynomial with one term per input, and a square, a cube and a product."""
    rng = np.random.default_rng(seed)
    p = len(names)
    listed = (*((i,) for i in range(p)), (0, 0), (p - 1,) * 3, (0, p - 1))
    monomials = tuple(dict.fromkeys(listed))  # of one input the last is the square again
    scale = 10.0 ** rng.integers(-8, 8, len(monomials))
    return Polynomial(
        monomials,
        rng.standard_normal(len(monomials)) * scale,
        intercept,
        tuple(names),
        rng.standard_normal(p) * 100 if shifts else None,
        response="the power\n; DROP",
    )


LAWS = {
    "plain": law_in(("speed", "mass", "slope")),
    "centred": law_in(("speed", "mass", "slope"), 1, shifts=True),
    "odd names": law_in(ODD_NAMES, 2),
    "odd names, centred": law_in(ODD_NAMES, 3, shifts=True),
    "unused inputs": Polynomial(
        ((3, 3, 1), ()), np.array([-2.5, 1e-300]), 0.0, ("a",) * 3 + ("b",)
    ),
    "constant": Polynomial((), np.zeros(0), -2.5, ("a", "b")),
    "clamped": replace(
        law_in(("speed", "mass", "slope"), 1, shifts=True),
        ranges=np.array([[-1.0, -0.5, 0.1], [1.5, 0.5, 0.2]]),
    ),
    "negative zero": Polynomial(((0,),), np.array([-0.0]), -0.0, ("a",)),
}


@pytest.fixture(params=LAWS.values(), ids=LAWS.keys())
def law(request):
    return request.param


def rows(law, n=40):
    return np.random.default_rng(9).standard_normal((n, len(law.names))) * 3


def assert_same(law, X, predicted):
    """Compare up to a few roundings of the largest term."""
    shifts = 0.0 if law.shifts is None else law.shifts
    size = np.full(len(X), abs(law.intercept))
    X = X if law.ranges is None else X.clip(*law.ranges)
    for m, c in zip(law.monomials, law.coefficients, strict=True):
        size += np.abs(c * np.prod((X - shifts)[:, list(m)], axis=1))
    difference = np.abs(np.asarray(predicted, dtype=np.float64) - law(X))
    assert (difference <= 16 * np.finfo(float).eps * size + 1e-300).all()


def without_reuse(law):
    """Leave out what a target refuses: two inputs of one name that the formula tells apart."""
    used = [law.names[i] for i in law.inputs]
    return len(set(used)) == len(used)


def python_function(law):
    namespace = {"__builtins__": {}}  # what is generated needs nothing, so nothing is there
    exec(law.to_python(), namespace)
    assert set(namespace) == {"__builtins__", "predict"}
    return namespace["predict"]


def test_python(law):
    X = rows(law)
    predict = python_function(law)
    used = list(law.inputs)
    assert_same(law, X, [predict(*row) for row in X[:, used].tolist()])
    assert_same(law, X, np.broadcast_to(predict(*X[:, used].T), len(X)))


def test_python_takes_names_and_integers():
    law = Polynomial(((0,) * 5, (1,)), np.array([1.5, 2.0]), 0.25, ("a", "b"))
    predict = python_function(law)
    assert predict(b=1, a=2) == 1.5 * 32 + 2 + 0.25
    large = np.array([100_000], dtype=np.int32)  # whose fifth power is no int32
    assert predict(large, large)[0] == pytest.approx(1.5e25, rel=1e-14)


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_c(law, tmp_path):
    source, library = tmp_path / "law.c", tmp_path / "law.so"
    source.write_text(law.to_c("evaluate"), encoding="ascii")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run([CC, *flags, source, "-o", library], check=True, capture_output=True)
    evaluate = ctypes.CDLL(str(library)).evaluate
    evaluate.restype = ctypes.c_double
    evaluate.argtypes = [ctypes.c_double] * len(law.inputs)
    X = rows(law)
    assert_same(law, X, [evaluate(*row) for row in X[:, list(law.inputs)].tolist()])


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_c_with_the_compiler_s_own_dialect_and_macros(tmp_path):
    law = law_in(("linux", "unix", "asm", "typeof", "NULL"))
    source = tmp_path / "law.c"
    source.write_text(law.to_c(), encoding="ascii")
    subprocess.run([CC, "-c", source, "-o", tmp_path / "law.o"], check=True, capture_output=True)


def sql_names(law):
    """SQL cannot have empty names, and tells names apart without case."""
    return Polynomial(
        law.monomials,
        law.coefficients,
        law.intercept,
        tuple(name or "nothing" for name in law.names),
        law.shifts,
        law.response,
    )


def test_sql(law):
    law = sql_names(law)
    X = rows(law)
    used = list(law.inputs) or [0]  # a table needs a column

    def quoted(name):
        return '"' + name.replace('"', '""') + '"'

    with sqlite3.connect(":memory:") as base:
        columns = ", ".join(f"{quoted(law.names[i])} REAL" for i in used)
        base.execute(f'CREATE TABLE "rides; -- "({columns})')
        marks = ", ".join("?" * len(used))
        base.executemany(f'INSERT INTO "rides; -- " VALUES ({marks})', X[:, used].tolist())
        # One statement only: execute refuses two.
        found = base.execute(law.to_sql("rides; -- ")).fetchall()
        (count,) = base.execute('SELECT count(*) FROM "rides; -- "').fetchone()
        alone = base.execute(f'SELECT {law.to_sql()} FROM "rides; -- "').fetchall()
    base.close()
    assert count == len(X)
    assert found == alone
    assert_same(law, X, [value for (value,) in found])


def test_sql_of_a_constant_and_of_missing_values():
    with sqlite3.connect(":memory:") as base:
        assert base.execute(f"SELECT {LAWS['constant'].to_sql()}").fetchone() == (-2.5,)
        null = base.execute(f"SELECT {LAWS['negative zero'].to_sql()} FROM (SELECT NULL AS a)")
        assert null.fetchone() == (None,)
    base.close()


def test_sql_uses_no_functions_and_floats_only():
    text = LAWS["centred"].to_sql()
    assert not re.search(r"[A-Za-z_]+\(|\*\*|\^", text)
    assert all("e" in number for number in re.findall(r"(?<![\w\"])[\d.]+(?:e[-+]?\d+)?", text))


def test_sql_quotes_of_other_databases():
    law = Polynomial(((0,), (1,)), np.ones(2), 0.0, ("a`b", "c]d"))
    assert law.to_sql(quote="`") == "0.0e0 + 1.0e0 * `a``b` + 1.0e0 * `c]d`"
    assert law.to_sql(quote="[") == "0.0e0 + 1.0e0 * [a`b] + 1.0e0 * [c]]d]"
    with pytest.raises(InputError, match="quote must be one of"):
        law.to_sql(quote="'")


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_sql_refuses_names_that_no_database_has(name):
    with pytest.raises(InputError, match="neither empty nor hold a NUL"):
        Polynomial(((0,),), np.ones(1), 0.0, (name,)).to_sql()


def test_onnx(law):
    runtime = pytest.importorskip("onnxruntime")
    model = law.to_onnx()
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    X = rows(law)
    (predicted,) = session.run(["prediction"], {"X": X})
    assert predicted.dtype == np.float64
    assert predicted.shape == (len(X),)
    assert_same(law, X, predicted)
    properties = {p.key: p.value for p in model.metadata_props}
    assert properties["formula"] == str(law)


def test_sympy(law):
    sympy = pytest.importorskip("sympy")
    X = rows(law)
    if not without_reuse(law):
        with pytest.raises(InputError, match="names must be distinct"):
            law.to_sympy()
        return
    symbols = [sympy.Symbol(law.names[i]) for i in law.inputs]
    law = replace(law, ranges=None)  # the expression is the polynomial itself
    predict = sympy.lambdify(symbols, law.to_sympy(), "math", dummify=True)
    assert_same(law, X, [predict(*row) for row in X[:, list(law.inputs)].tolist()])


def from_latex(text, law):
    """Turn a formula of plain names in LaTeX into Python, by rules of this test's own."""
    right = text.split(" = ", 1)[1]
    right = re.sub(r" \\times 10\^\{(-?\d+)\}", r"e\1", right)
    right = re.sub(r"\\mathrm\{(\w+)\}", r"\1", right)
    return right.replace(r"\, ", " * ").replace("^{", "**").replace("}", "")


@pytest.mark.parametrize("case", ["plain", "centred", "constant"])
def test_latex(case):
    law = LAWS[case]
    X = rows(law)
    code = compile(from_latex(law.to_latex(digits=17), law), "latex", "eval")
    predicted = [eval(code, dict(zip(law.names, row, strict=True))) for row in X.tolist()]
    assert_same(law, X, predicted)


def test_notebooks_show_mathematics():
    few, many = LAWS["plain"], law_in([f"x{i}" for i in range(12)])
    assert few._repr_latex_().startswith(r"$\begin{aligned} \mathrm{the\ power")
    assert many._repr_latex_().count(r"\\ & {} ") == 3
    assert Polynomial(((0,),), np.ones(1), 0.5, ("a",))._repr_latex_() == (
        r"$\mathrm{y} = 0.5 + 1\, \mathrm{a}$"
    )


def test_latex_shows_names_and_obeys_none():
    text = law_in(ODD_NAMES).to_latex()
    commands = set(re.findall(r"\\([A-Za-z]+)", text))
    assert commands <= {"mathrm", "times", "backslash", "hat", "sim"}
    assert "\n" not in text
    # Braces that TeX sees are balanced, so no name ends its group.
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0


def test_names_do_not_run():
    """A column's name that is code stays a name, in every language that could run it."""
    mark = "os_was_imported"
    evil = f"x): pass\nimport sys; sys.{mark} = 1\ndef f(y, \"*/ ' \\"
    law = Polynomial(((0,),), np.array([2.0]), 1.0, (evil,), response=evil)
    assert python_function(law)(3.0) == 7.0
    assert not hasattr(sys, mark)
    code = law.to_c()
    # Outside of comments there is the one function and nothing of the name but its identifier.
    bare = re.sub(r"//.*", "", code)
    assert re.fullmatch(
        r"double predict\(double (\w+)\)\s*\{\s*return 1\.0\s*\+ 2\.0 \* \1;\s*\}\s*", bare
    )
    with sqlite3.connect(":memory:") as base:
        quoted = evil.replace('"', '""')
        base.execute(f'CREATE TABLE t("{quoted}")')
        base.execute("INSERT INTO t VALUES (3)")
        cursor = base.execute(law.to_sql("t"))
        assert cursor.fetchall() == [(7.0,)]
        assert cursor.description[0][0] == evil
    base.close()


def test_identifiers_are_distinct_and_legal():
    for ascii_only in (False, True):
        found = identifiers(ODD_NAMES * 2, {*keyword.kwlist}, ascii_only=ascii_only)
        assert len(set(found)) == len(found)
        assert all(name.isidentifier() and not keyword.iskeyword(name) for name in found)
        assert not ascii_only or all(name.isascii() for name in found)
    # Distinct as Python compares them: in the normal form of compatibility.
    assert len(set(identifiers(["ﬁ", "fi", "x²", "x2"], ()))) == 4


ANY_NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(st.lists(ANY_NAME, min_size=1, max_size=4, unique_by=str.lower))
@settings(max_examples=200, deadline=None)
def test_any_name_at_all(names):
    law = law_in(names)
    X = rows(law, 3)
    predict = python_function(law)
    assert_same(law, X, [predict(*row) for row in X.tolist()])
    # In C only comments hold what is not ASCII identifiers, numbers and signs.
    assert re.fullmatch(r"[\w\s(){},;.*+-]*", re.sub(r"//.*", "", law.to_c()), re.ASCII)
    base = sqlite3.connect(":memory:")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    base.execute(f"CREATE TABLE t({quoted})")
    base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", X.tolist())
    found = base.execute(law.to_sql("t")).fetchall()
    base.close()
    assert_same(law, X, [value for (value,) in found])


@pytest.mark.parametrize("method", ["to_python", "to_c"])
@pytest.mark.parametrize("name", ["", "a b", "1a", "f(): pass #", "für", "for"])
def test_names_of_functions_are_identifiers(method, name):
    with pytest.raises(InputError, match="name must be an ASCII identifier"):
        getattr(LAWS["plain"], method)(name)


@pytest.mark.parametrize("method", ["to_python", "to_c", "to_sql", "to_onnx"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_cannot_be_written_is_refused(method, value):
    law = Polynomial(((0,),), np.array([value]), 0.0, ("a",))
    with pytest.raises(InputError, match="must be finite"):
        getattr(law, method)()


@pytest.mark.parametrize("method", ["to_sql", "to_sympy"])
def test_two_inputs_of_one_name_are_refused(method):
    law = Polynomial(((0,), (1,)), np.ones(2), 0.0, ("a", "a"))
    with pytest.raises(InputError, match=r"names must be distinct.*'a' twice"):
        getattr(law, method)()


@pytest.mark.parametrize("method", ["to_onnx", "to_sympy"])
def test_a_missing_library_is_named(method, monkeypatch):
    monkeypatch.setitem(sys.modules, method.removeprefix("to_"), None)
    with pytest.raises(MissingSolverError, match="pip install"):
        getattr(LAWS["plain"], method)()


def test_excel_says_the_same():
    """Cells as names, functions as Python's: a formula in Excel is an expression without powers."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0.5, 2.0, (40, 30))
    y = X[:, 1] ** 2 * X[:, 28] - 3.0 / X[:, 4] + np.sqrt(X[:, 28]) + 2.0 * np.log(X[:, 1])
    functions = ["inverse", "square-root", "log"]
    model = SparsePolynomialRegressor(
        3, 6, gamma=1e3, clamp=True, functions=functions, engine="local-search", gap_tol=0.99
    )
    law = model.fit(X, y).polynomial_
    new = rng.uniform(0.1, 3.0, (5, 30))
    calls = {"SQRT": np.sqrt, "LN": np.log, "MEDIAN": lambda *v: float(np.median(v))}
    for row, expected in zip(new, law(new), strict=True):
        cells = {f"{chr(65 + at)}7": row[i] for at, i in enumerate(law.inputs)}
        found = eval(law.to_excel(row=7).removeprefix("="), calls | cells)
        assert found == pytest.approx(expected, rel=1e-12)


def test_columns_of_excel_have_letters():
    names = tuple(f"x{i}" for i in range(60))
    law = Polynomial(tuple((i,) for i in range(60)), np.ones(60), 0.0, names)
    assert "1.0 * Z2 + 1.0 * AA2 + 1.0 * AB2" in law.to_excel()
    assert law.to_excel().endswith("* BH2")
