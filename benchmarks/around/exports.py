"""Formulas as code against ``predict``: hostile names, huge and tiny coefficients, clamped inputs.

Each formula is run as Python, SQL (SQLite) and SymPy, one in twenty as C and ONNX.  Results may
differ by a few roundings of the largest term.
"""

from __future__ import annotations

import ctypes
import shutil
import sqlite3
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polysharp import Polynomial
from polysharp.errors import InputError

PIECES = (
    *(
        "a",
        "x1",
        "for",
        "double",
        "int",
        "NULL",
        "select",
        "largest",
        "predict",
        "def",
        "__debug__",
    ),
    *(
        " ",
        "-",
        "'",
        '"',
        "`",
        "]",
        "\\",
        "\n",
        "\t",
        "*/",
        "//",
        "--",
        ";",
        "#",
        "%s",
        "{x}",
        "$(",
    ),
    *("ö", "µ", "名", "\u202e", "\u200b", "\U0001d7cf", "é", "e\u0301", "ﬁ", "K", "\x7f", "\x00"),
)
CC = shutil.which("cc")


def drawn(rng: np.random.Generator) -> Polynomial:
    """Draw a formula with hostile names and values."""
    p = int(rng.integers(1, 5))
    least = int(rng.random() < 0.9)  # SQL has no empty names
    names = tuple("".join(rng.choice(PIECES, int(rng.integers(least, 5)))) for _ in range(p))
    count = int(rng.integers(0, 6))
    monomials = {
        tuple(sorted(rng.integers(0, p, int(rng.integers(0, 5))).tolist())) for _ in range(count)
    }
    monomials = tuple(sorted(monomials))
    size = 10.0 ** rng.uniform(-12, 12, len(monomials))
    ranges = None
    if rng.random() < 0.3:
        ends = np.sort(rng.uniform(-2.0, 2.0, (2, p)), axis=0)
        ranges = np.array(ends)
    return Polynomial(
        monomials,
        rng.standard_normal(len(monomials)) * size,
        float(rng.choice([0.0, -0.0, 1e-300, -1.5, 1e15])),
        names,
        rng.standard_normal(p) * 10.0 ** rng.uniform(-3, 3, p) if rng.random() < 0.4 else None,
        response="".join(rng.choice(PIECES, int(rng.integers(0, 5)))),
        ranges=ranges,
    )


def as_python(law: Polynomial, X: np.ndarray) -> Any:
    """Run the formula as Python, with nothing at hand."""
    space: dict[str, Any] = {"__builtins__": {}}
    exec(law.to_python(), space)
    assert set(space) == {"__builtins__", "predict"}, sorted(space)
    return [space["predict"](*row) for row in X[:, list(law.inputs)].tolist()]


def as_sql(law: Polynomial, X: np.ndarray) -> Any:
    """Run the formula in a database, as one statement."""
    text = law.to_sql("t")
    used = list(law.inputs)
    named = ['"' + law.names[i].replace('"', '""') + '"' for i in used] or ['"one"']
    values = X[:, used] if used else np.ones((len(X), 1))
    base = sqlite3.connect(":memory:")
    try:
        base.execute(f"CREATE TABLE t ({', '.join(f'{name} REAL' for name in named)})")
        marks = ", ".join("?" * len(named))
        base.executemany(f"INSERT INTO t VALUES ({marks})", values.tolist())
        return [row[0] for row in base.execute(text)]
    finally:
        base.close()


def as_sympy(law: Polynomial, X: np.ndarray) -> Any:
    """Evaluate the formula as a SymPy expression, which clamps nothing."""
    import sympy

    symbols = [sympy.Symbol(law.names[i]) for i in law.inputs]
    expression = law.to_sympy()
    return [  # not lambdify, which prints 15 digits of a shift
        float(expression.subs(dict(zip(symbols, row, strict=True)), simultaneous=True))
        for row in X[:, list(law.inputs)].tolist()
    ]


def as_c(law: Polynomial, X: np.ndarray) -> Any:
    """Compile the formula without a warning and run it."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "law.c", Path(folder) / "law.so"
        source.write_text(law.to_c("evaluate"), encoding="ascii")
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-ffp-contract=off"]
        subprocess.run([str(CC), *flags, source, "-o", library], check=True, capture_output=True)
        evaluate = ctypes.CDLL(str(library)).evaluate
        evaluate.restype = ctypes.c_double
        evaluate.argtypes = [ctypes.c_double] * len(law.inputs)
        return [evaluate(*row) for row in X[:, list(law.inputs)].tolist()]


def as_onnx(law: Polynomial, X: np.ndarray) -> Any:
    """Run the formula in onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        law.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["prediction"], {"X": X})[0]


def room(law: Polynomial, X: np.ndarray, *, expands: bool = False) -> np.ndarray:
    """Return how far results may differ: some roundings of the sizes of the terms.

    SymPy multiplies a number into a sum, c (x - s) = c x - c s, and rounds both parts.
    """
    X = X if law.ranges is None else X.clip(*law.ranges)
    shifts = np.zeros(X.shape[1]) if law.shifts is None else law.shifts
    factors = np.abs(X) + np.abs(shifts) if expands else np.abs(X - shifts)
    size = np.full(len(X), abs(law.intercept))
    for m, c in zip(law.monomials, law.coefficients, strict=True):
        size += abs(c) * np.prod(factors[:, list(m)], axis=1)
    return 64 * np.finfo(float).eps * size + 1e-290


def check(seed: int, tally: Any) -> None:
    """Compare one formula in all languages."""
    rng = np.random.default_rng([54, seed])
    law = drawn(rng)
    X = rng.standard_normal((7, len(law.names))) * 10.0 ** rng.uniform(-3, 3)
    languages = {"Python": as_python, "SQL": as_sql}
    if seed % 10 == 0:
        languages["SymPy"] = as_sympy
    if seed % 20 == 0:
        languages |= {"C": as_c, "ONNX": as_onnx} if CC else {"ONNX": as_onnx}
    for language, run in languages.items():
        plain = replace(law, ranges=None) if language == "SymPy" else law
        expected = plain(X)
        slack = room(plain, X, expands=language == "SymPy")
        where = f"seed {seed} {language} {law.names!r}"
        try:
            values = np.asarray(run(law, X), dtype=float)
        except InputError:
            tally.count(f"{language}: refused in a sentence")
            continue
        except Exception as error:
            tally.find(f"{language}: cannot be run", where, repr(error)[:200])
            continue
        tally.count(f"{language}: run")
        if not (np.abs(values - expected) <= slack).all():
            tally.find(f"{language}: another value", where, f"{values} for {expected}")
