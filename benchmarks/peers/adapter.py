"""What every adapter shares: the exchange of files, and the penalty that stands for l terms.

An adapter is run by the peer's own Python as ``run_<peer>.py instance.npz answer.json``.  This
file needs NumPy only.  All values that leave an adapter are in our units,

    c(S) = min_w 1/2 |y - M_S w|^2 + lam/2 |w|^2.

A penalised peer minimises c(S) + mu |S|.  If S with l terms is its optimum, S is the best
support of l terms; and a lower bound B on its optimum bounds every l-sparse c by B - mu l.
mu is right for S when dropping any term costs more and adding any term gains less:

    max_j (m_j'a)^2 / (2 (G_jj + lam - G_jS H^-1 G_Sj))  <=  mu  <=  min_j w_j^2 / (2 (H^-1)_jj),

with H = G_SS + lam I.  Peers are sensitive to where in
this bracket mu lies, so points around its middle are tried and the fastest counts.
"""

import json
import sys
import traceback
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

FRACTIONS = (0.45, 0.55, 0.5)  # of the way from low to high, in logarithms
MAX_TRIES = 8  # penalties tried before giving up


@dataclass
class Task:
    """One instance as it reaches the peer."""

    M: np.ndarray
    y: np.ndarray
    lam: float
    max_terms: int
    time_limit: float
    gap_tol: float
    warm: np.ndarray  # a good support, from elsewhere; may be empty

    def fit(self, support):
        """Return the coefficients and objective of a support."""
        A = self.M[:, support]
        w = np.linalg.solve(A.T @ A + self.lam * np.eye(len(support)), A.T @ self.y)
        residual = self.y - A @ w
        return w, 0.5 * float(residual @ residual + self.lam * (w @ w))


@dataclass
class Penalised:
    """One solve of the penalised form."""

    support: np.ndarray
    finished: bool
    seconds: float
    bound: float  # on c + mu |S|; -inf if there is none
    nodes: int


@dataclass
class Answer:
    """What the peer found, in our units."""

    support: list
    seconds: float  # of the solve call alone
    bound: float | None = None  # lower bound on the l-sparse optimum, None if it gives none
    stopped: str = ""
    note: str = ""
    versions: dict = field(default_factory=dict)


def tiny_task(time_limit=30.0):
    """Return a small instance on which compiled peers warm up."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((40, 60))
    M -= M.mean(axis=0)
    y = M[:, :3] @ np.ones(3) + 0.1 * rng.standard_normal(40)
    return Task(M, y - y.mean(), 5.0, 3, time_limit, 1e-3, np.arange(3))


def penalty_bracket(task, support):
    """Return (low, high) between which the penalty makes ``support`` locally optimal."""
    M, y, lam = task.M, task.y, task.lam
    A = M[:, support]
    inverse = np.linalg.inv(A.T @ A + lam * np.eye(len(support)))
    w = inverse @ (A.T @ y)
    cross = A.T @ M
    slack = np.einsum("tj,tj->j", M, M) + lam - np.einsum("sj,sj->j", cross, inverse @ cross)
    gains = 0.5 * (M.T @ (y - A @ w)) ** 2 / slack
    gains[support] = 0.0
    return float(gains.max()), float(np.min(0.5 * w**2 / np.diag(inverse)))


def choose_penalty(task, solve):
    """Find the penalty that suits the peer best and whose optimum has l terms.

    ``solve(mu)`` returns a record with ``support``, ``finished`` and ``seconds``.  Three points
    near the middle of the bracket are tried and the fastest that finishes with l terms counts;
    if they finish with other sizes the bracket is bisected.  A solve that does not finish says
    nothing about the penalty: if none does, the one with the best bound counts.
    """
    low, high = penalty_bracket(task, task.warm)
    if low >= high:
        low, high = high / 10.0, low * 10.0
    tried = [(mu, solve(mu)) for mu in (low ** (1.0 - a) * high**a for a in FRACTIONS)]
    while not _right(task, tried) and tried[-1][1].finished and len(tried) < MAX_TRIES:
        mu, result = tried[-1]
        low, high = (mu, high) if len(result.support) > task.max_terms else (low, mu)
        middle = float(np.sqrt(low * high))
        tried.append((middle, solve(middle)))
    right = _right(task, tried)
    if right:
        mu, result = min(right, key=lambda pair: pair[1].seconds)
    else:
        mu, result = max(tried, key=lambda pair: pair[1].bound - pair[0] * task.max_terms)
    return mu, result, f"penalty {mu:.4g}, the best of {len(tried)}, that solve timed"


def _right(task, tried):
    """Return the tries that finished with l terms."""
    return [pair for pair in tried if pair[1].finished and len(pair[1].support) == task.max_terms]


def main(peer, packages, solve):
    """Read the instance named on the command line, solve it, write the answer."""
    source, target = map(Path, sys.argv[1:3])
    with np.load(source) as data:
        task = Task(
            M=np.asfortranarray(data["M"]),
            y=np.ascontiguousarray(data["y"]),
            lam=float(data["lam"]),
            max_terms=int(data["max_terms"]),
            time_limit=float(data["time_limit"]),
            gap_tol=float(data["gap_tol"]),
            warm=data["warm"],
        )
    try:
        answer = solve(task)
        answer.versions = {name: version(name) for name in packages}
        record = asdict(answer)
    except Exception as error:
        traceback.print_exc()
        record = {"error": f"{peer}: {type(error).__name__}: {error}"}
    target.write_text(json.dumps(record))
