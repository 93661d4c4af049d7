"""Run a peer in an environment of its own: make the environment, exchange files, read the answer.

Peers are never dependencies of this project (some are under the GPL).  Each lives in
``.peers/<name>``, made on first use from ``benchmarks/peers/requirements-<name>.txt``, and is
called through ``benchmarks/peers/run_<name>.py`` in a process of its own, which measures its own
time.  The objective is always recomputed here from the support.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from instances import Instance

from polysharp.progress import relative_gap
from polysharp.typing import Indices

HOME = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(__file__).parent.parent / ".peers"
PEERS = ("abess", "el0ps", "l0bnb", "okridge")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
GRACE = 180.0  # seconds beyond all solves a peer may use to import, compile and overrun
SOLVES = {"abess": 3, "el0ps": 8, "l0bnb": 8, "okridge": 1}  # most solves in one call


@dataclass(frozen=True)
class Outcome:
    """What one method reached on one instance, ours or a peer's."""

    method: str
    objective: float  # nan where there is no answer
    bound: float  # nan where the method gives none
    seconds: float
    support: tuple[int, ...]
    stopped: str
    note: str

    @property
    def gap(self) -> float:
        """(objective - bound) / objective, nan without a bound."""
        return relative_gap(self.objective, self.bound) if self.bound == self.bound else np.nan


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return ENVIRONMENTS / peer / folder / "python"


def available(peer: str) -> bool:
    """Whether the peer's environment is complete."""
    return (ENVIRONMENTS / peer / "complete").exists()


def set_up(peer: str) -> None:
    """Make the environment of a peer; does nothing if it is there."""
    if available(peer):
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENTS / peer], check=True)
    requirements = HOME / f"requirements-{peer}.txt"
    pip = [python_of(peer), "-m", "pip", "install", "--quiet", "-r", requirements]
    subprocess.run(pip, check=True)
    (ENVIRONMENTS / peer / "complete").touch()


def call(
    peer: str,
    instance: Instance,
    *,
    time_limit: float,
    gap_tol: float = 1e-4,
    warm: Indices | None = None,
    threads: int = 1,
) -> Outcome:
    """Solve one instance with one peer; failures come back as outcomes without an objective."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "instance.npz", Path(folder) / "answer.json"
        np.savez(
            source,
            M=instance.design,
            y=instance.response,
            lam=instance.problem.lam,
            max_terms=instance.problem.structure.max_terms,
            time_limit=time_limit,
            gap_tol=gap_tol,
            warm=np.zeros(0, dtype=np.intp) if warm is None else warm,
        )
        environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
        environment["NUMBA_NUM_THREADS"] = str(threads)
        command = [python_of(peer), HOME / f"run_{peer}.py", source, target]
        try:
            done = subprocess.run(
                command,
                env=environment,
                timeout=SOLVES[peer] * time_limit + GRACE,
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _failure(peer, "did not stop at its time limit, ended")
        if not target.exists():
            last = (done.stderr.strip().splitlines() or [""])[-1]
            return _failure(peer, f"ended with code {done.returncode}: {last}")
        return _read(peer, instance, json.loads(target.read_text()))


def _read(peer: str, instance: Instance, answer: dict) -> Outcome:  # type: ignore[type-arg]
    if "error" in answer:
        return _failure(peer, answer["error"])
    support = np.array(sorted(answer["support"]), dtype=np.intp)
    fit = instance.problem.refit(support)
    allowed = instance.problem.structure.allows(support)
    note = answer["note"] if allowed else f"breaks the budgets; {answer['note']}"
    version = answer["versions"][peer]
    return Outcome(
        method=f"{peer} {version}",
        objective=fit.objective if allowed else np.nan,
        bound=np.nan if answer["bound"] is None else max(0.0, answer["bound"]),
        seconds=answer["seconds"],
        support=tuple(support.tolist()),
        stopped=answer["stopped"],
        note=note,
    )


def _failure(peer: str, note: str) -> Outcome:
    return Outcome(peer, np.nan, np.nan, np.nan, (), "failed", note)
