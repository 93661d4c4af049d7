"""Ctrl-C and SIGTERM at a random moment of every command: an end in words, and whole files only.

Each case starts a command in a process of its own, sends the signal after a random part of the
time that the command takes, and looks at exit code, messages and files.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from around import command
from polysharp import SparsePolynomialRegressor, load_model, save_model

COMMANDS = {
    "fit": ["fit", "t.csv", "-t", "y", "-r", "3", "-l", "6", "-o", "out.json", "--proof", "p.npz"],
    "fit, sizes": ["fit", "t.csv", "-t", "y", "-r", "3", "-l", "8", "--size-table", "s.csv"],
    "fit, all chosen": ["fit", "t.csv", "-t", "y", "-o", "out.json", "--report", "r.html"],
    "predict": ["predict", "m.json", "t.csv", "-o", "out.csv"],
    "report": ["report", "m.json", "t.csv", "-o", "r.html"],
    "explain": ["explain", "m.json", "t.csv"],
    "rivals": ["rivals", "m.json", "t.csv", "--within", "0.2", "-o", "rivals.jsonl"],
    "verify": ["verify", "m.json", "t.csv"],
}
LONGEST = 25.0  # seconds in which a command has to end once it is told to


@cache
def files() -> dict[str, bytes]:
    """Return a table and a model of it."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + 0.5 * rng.standard_normal(300)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    model = SparsePolynomialRegressor(degree=2, max_terms=3, gamma=0.1)
    model.fit(frame, pd.Series(y, name="y"))
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "m.json")
        frame.assign(y=y).to_csv(Path(folder) / "t.csv", index=False)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@cache
def usual(name: str) -> float:
    """Return how long a command takes on this machine, compiled kernels included."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        process = start(name, folder)
        try:
            process.communicate(timeout=60.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return min(time.perf_counter() - began, 15.0)


def start(name: str, folder: str) -> subprocess.Popen[str]:
    """Start a command in a folder that holds the table and the model."""
    for file, content in files().items():
        (Path(folder) / file).write_bytes(content)
    return subprocess.Popen(
        command(*COMMANDS[name]),
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def check(seed: int, tally: Any) -> None:
    """Interrupt one command."""
    rng = np.random.default_rng([58, seed])
    name = list(COMMANDS)[seed % len(COMMANDS)]
    how = signal.SIGINT if rng.random() < 0.7 else signal.SIGTERM
    delay = float(rng.uniform(0.3, 1.0)) * usual(name)
    where = f"seed {seed} {name} {how.name} after {delay:.2f} s"
    with tempfile.TemporaryDirectory() as folder:
        process = start(name, folder)
        time.sleep(delay)
        process.send_signal(how)
        try:
            _, said = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            tally.find("deaf", where)
            return
        left = {p.name: p for p in Path(folder).iterdir()}
        tally.count(f"{name}: {how.name}, exit code {process.returncode}")
        if "Traceback" in said and delay > 0.5 * usual(name):
            tally.find("traceback", where, said[-300:])
        if extra := left.keys() - {"t.csv", "m.json", "out.json", "out.csv", "r.html", "p.npz",
                                   "rivals.jsonl", "s.csv"}:  # fmt: skip
            tally.find("left behind", where, str(sorted(extra)))
        if "out.json" in left:
            load_model(left["out.json"])
        if "rivals.jsonl" in left:
            for line in left["rivals.jsonl"].read_text().splitlines():
                json.loads(line)
        if "r.html" in left and not left["r.html"].read_text().rstrip().endswith("</html>"):
            tally.find("half a report", where)
