"""Hostile tables and options on the command line: one sentence and exit code 2, or a whole answer.

Tables have odd cells, separators, encodings, headers and sizes; options have values that are none,
contradict each other, or belong to other commands.  No traceback may show, no file may be left
half-written, and what was refused writes nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from polysharp.cli import main

CELLS = (
    "", " ", "1", "-2.5", "1e3", "1,5", "1e400", "nan", "inf", "-", "abc", "0x1F", "1_000", "1/2",
    "\uff11\uff12", "\u0661", '"', '""', "'", "=1+1", "<b>", "\x00", "\ufeff", "1 000", "TRUE",
    "2024-01-01", "9" * 400, "1e-320", "ö", "\\", "$HOME", "%d", "\r", "🙂",
)  # fmt: skip
NAMES = (
    "a", "b", "y", "y", "", " ", "a b", "a,b", '"', "=1", "--target", "*", "x" * 300, "名", "\n",
    "1", "nan", "../y", "a^2", "log(a)", "<script>",
)  # fmt: skip
SEPARATORS = (",", ",", ",", ";", "\t", "|", " ")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32")
VALUES = (
    "0", "-1", "1", "1", "2", "2", "3", "1e9", "nan", "inf", "", "x", "1.5", "9" * 20, "a", "b",
    "y", "a,b", "z", "auto", "None", "tree", "log", "../../x", "a=0:1", "0:1", "0.5", "strong",
    "a b", "mean", ",", "utf-8", "best",
)  # fmt: skip
FLAGS = (
    *("--delimiter", "--decimal", "--encoding", "--sheet", "--skip-lines", "--missing", "--inputs"),
    *("--exclude", "--weights", "--impute", "--degree", "--max-terms", "--gamma", "--max-inputs"),
    *("--cv", "--rule", "--max-interaction", "--interaction-degree", "--heredity", "--engine"),
    *("--include-term", "--exclude-term", "--include-input", "--coefficient-bounds", "--functions"),
    *("--candidates", "--device", "--time-limit", "--gap-tol", "--jobs", "--seed", "--digits"),
    *("--holdout", "--keep", "--interval", "--resamples", "--within"),
)
SWITCHES = (
    *("--center", "--no-scale", "--positive", "--brief", "--require-proof", "--quiet"),
    *("--no-intercept", "--no-header", "--drop-missing", "--indicators", "--keep-all", "--help"),
)
DONE = (0, 2, 3, 4)


@cache
def model_text() -> str:
    """Return a model file."""
    from polysharp import SparsePolynomialRegressor, save_model

    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    import pandas as pd

    model = SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), pd.Series(X[:, 0] * X[:, 1], name="y"))
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "m.json")
        return (Path(folder) / "m.json").read_text()


def table(rng: np.random.Generator) -> bytes:
    """Write a table, more or less damaged."""
    hostile, n = rng.random(), int(rng.integers(0, 40))
    names = list(rng.choice(NAMES, 3)) if rng.random() < 0.1 else ["a", "b", "y"]
    values = np.round(rng.standard_normal((n, len(names))), 3).astype(str).tolist()
    for row in values:
        if hostile < 0.4 and rng.random() < 0.05:
            row[int(rng.integers(len(row)))] = str(rng.choice(CELLS))
        if hostile < 0.1 and rng.random() < 0.1:
            row.append("7")
    mark = str(rng.choice(SEPARATORS)) if rng.random() < 0.3 else ","
    text = "\n".join(mark.join(row) for row in [names, *values]) + "\n" * int(rng.integers(0, 3))
    data = text.encode(str(rng.choice(ENCODINGS[:4])) if rng.random() < 0.2 else "utf-8")
    if rng.random() < 0.1 and data:
        at = int(rng.integers(len(data)))
        data = data[:at] + rng.bytes(3) + data[at:]
    return data


def words(rng: np.random.Generator) -> list[str]:
    """Draw a command."""
    command = str(rng.choice(["fit", "fit", "fit", "predict", "info", "explain"]))
    drawn = [command]
    if command in ("predict", "info", "explain"):
        drawn.append("m.json")
    if command != "info":
        drawn.append("t.csv" if rng.random() < 0.97 else "nothing.csv")
    if command == "fit":
        drawn += ["--target", "y" if rng.random() < 0.9 else str(rng.choice(NAMES))]
        drawn += ["--degree", "2", "--max-terms", "2", "--gamma", "1", "--time-limit", "2"]
    for _ in range(int(rng.choice([0, 0, 1, 1, 2]))):
        drawn += [str(rng.choice(FLAGS)), str(rng.choice(VALUES))]
    if rng.random() < 0.3:
        drawn.append(str(rng.choice(SWITCHES)))
    if command == "fit" and rng.random() < 0.2:
        drawn += ["--size-table", "sizes.csv"]
    if command in ("fit", "predict") and rng.random() < 0.5:
        drawn += ["--output", str(rng.choice(["out.json", "out.csv", "no/where", ".", "t.csv"]))]
    return drawn


def check(seed: int, tally: Any) -> None:
    """Run one command in a folder of its own."""
    rng = np.random.default_rng([57, seed])
    out, err = io.StringIO(), io.StringIO()
    given = words(rng)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("t.csv").write_bytes(table(rng))
            content = Path("t.csv").read_bytes()
            Path("m.json").write_text(model_text())
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code: Any = main(given)
                except SystemExit as end:
                    code = end.code or 0
            left = {p.name: p.read_bytes() for p in Path().iterdir() if p.is_file()}
        finally:
            os.chdir(before)
    where = f"seed {seed} {' '.join(given)!r}"
    tally.count(f"{given[0]}: exit code {code}")
    said = err.getvalue()
    if code not in DONE:
        tally.find("exit code", where, f"{code}: {said[-200:]}")
    if "Traceback" in said or "Traceback" in out.getvalue():
        tally.find("traceback", where, said[-300:])
    if code == 2 and not said.strip():
        tally.find("refused without a word", where)
    if code == 2 and left.keys() - {"t.csv", "m.json"}:
        tally.find("refused, but wrote", where, str(sorted(left)))
    if code == 2 and left.get("t.csv") != content:
        tally.find("refused, but changed the table", where)
    if any(name.startswith(".") or name.endswith(".tmp") for name in left):
        tally.find("left behind", where, str(sorted(left)))
    if code == 0 and "out.json" in left and given[0] == "fit":
        json.loads(left["out.json"])
