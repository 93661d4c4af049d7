"""The least cost of all supports of a statement, by trying every one: nothing of the library.

Costs are computed in long double (64 bits of mantissa where the machine has them), and those that
decide something again in rationals, from the floats of the table as they are:

    cost of S = 1/2 (yy - q_S'(G_SS + lam I)^-1 q_S),

with monomials that are not scaled, G = P'VP, and the ridge lam / orderings_j instead.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 20_000  # supports

Support = tuple[int, ...]
Long = NDArray[np.longdouble]


class TooManyError(Exception):
    """The problem has more supports than a referee tries."""


class Referee:
    """One statement with its rows."""

    def __init__(self, statement: Any, X: Any, y: Any, weight: Any = None) -> None:
        self.s = s = statement
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.v = np.ones(len(self.y)) if weight is None else np.asarray(weight, dtype=float)
        f = len(s.monomials)
        if sum(comb(f, k) for k in range(min(s.max_terms, f) + 1)) > MOST:
            raise TooManyError
        self.place = {m: j for j, m in enumerate(s.monomials)}
        self.orderings = [
            factorial(s.degree)
            // (factorial(s.degree - len(m)) * prod(factorial(m.count(i)) for i in set(m)))
            for m in s.monomials
        ]
        supports = [S for k in range(s.max_terms + 1) for S in combinations(range(f), k)]
        self.supports = [S for S in supports if self.allowed(S)]
        self.costs = self._costs() if self.supports else np.zeros(0)

    def allowed(self, S: Support) -> bool:
        """Whether a support meets every rule of the statement."""
        s, chosen = self.s, {self.s.monomials[j] for j in S}
        used = {i for m in chosen for i in m}
        if len(chosen) > s.max_terms or len(used) > s.max_inputs:
            return False
        if not set(s.required_terms) <= chosen or not set(s.required_inputs) <= used:
            return False
        for m in chosen if s.heredity else ():
            parents = {m[:a] + m[a + 1 :] for a in range(len(m))} if len(m) > 1 else set()
            present = [parent in chosen for parent in parents if parent in self.place]
            missing = not all(present) if s.heredity == "strong" else not any(present)
            if parents and missing:
                return False
        return True

    def _costs(self) -> Long:
        """Costs of all supports in long double."""
        s, real = self.s, np.longdouble
        coded = (self.X.astype(real) - s.shift.astype(real)) / s.scale.astype(real)
        M = np.ones((len(self.y), len(s.monomials)), dtype=real)
        for j, m in enumerate(s.monomials):
            M[:, j] = np.sqrt(real(self.orderings[j]))
            for i in m:
                M[:, j] *= coded[:, i]
        v, t = self.v.astype(real), self.y.astype(real)
        if s.fit_intercept:
            first = int(np.flatnonzero(v)[0])
            M, t = M - M[first], t - t[first]
            M, t = M - v @ M / v.sum(), t - v @ t / v.sum()
        G, q, yy = (M * v[:, None]).T @ M, M.T @ (v * t), v @ (t * t)
        self.yy, lam = float(yy), 1 / real(s.gamma)
        costs = np.empty(len(self.supports), dtype=real)
        sizes = np.array([len(S) for S in self.supports])
        for k in np.unique(sizes):
            where = np.flatnonzero(sizes == k)
            sets = np.array([self.supports[a] for a in where], dtype=np.intp).reshape(len(where), k)
            H = G[sets[:, :, None], sets[:, None, :]] + lam * np.eye(k)
            costs[where] = 0.5 * (yy - _explained(H, q[sets]))
        return costs

    def close_to(self, value: float, most: int = 6) -> list[Support]:
        """The cheapest supports that may cost less than a value."""
        slack = 1e-14 * self.yy
        order = np.argsort(self.costs, kind="stable")[:most]
        return [self.supports[a] for a in order if not self.costs[a] > value + slack]

    def refutes(self, bound: float) -> Support | None:
        """Return a support that costs less than the bound, in exact arithmetic."""
        for S in self.close_to(bound):
            if self.exact(S) < Fraction(bound):
                return S
        return None

    def exact(self, S: Support) -> Fraction:
        """Return the cost of a support as a rational number."""
        s, rows = self.s, [t for t in range(len(self.y)) if self.v[t] > 0.0]
        used = sorted({i for j in S for i in s.monomials[j]})
        coded = {
            i: [
                (Fraction(self.X[t, i]) - Fraction(s.shift[i])) / Fraction(s.scale[i]) for t in rows
            ]
            for i in used
        }
        columns = [[prod((coded[i][a] for i in s.monomials[j]), start=Fraction(1))
                    for a in range(len(rows))] for j in S]  # fmt: skip
        columns.append([Fraction(self.y[t]) for t in rows])
        v = [Fraction(self.v[t]) for t in rows]
        if s.fit_intercept:
            total = sum(v)
            means = [sum(a * b for a, b in zip(v, c, strict=True)) / total for c in columns]
            columns = [[x - mean for x in c] for c, mean in zip(columns, means, strict=True)]
        size = len(columns)
        A = [[Fraction(0)] * size for _ in range(size)]
        for a in range(size):
            for b in range(a + 1):
                A[a][b] = A[b][a] = sum(
                    w * x * z for w, x, z in zip(v, columns[a], columns[b], strict=True)
                )
        for a, j in enumerate(S):
            A[a][a] += 1 / (Fraction(s.gamma) * self.orderings[j])
        for a in range(size - 1):  # the last pivot is what the others leave of yy
            for b in range(a + 1, size):
                factor = A[b][a] / A[a][a]
                for c in range(a + 1, size):
                    A[b][c] -= factor * A[a][c]
        return A[-1][-1] / 2


def _explained(H: Long, b: Long) -> Long:
    """b'H^-1 b for a stack of systems, by Cholesky factorisations; NaN where one breaks down."""
    count, k = b.shape
    L, z = np.zeros_like(H), np.zeros_like(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        for a in range(k):
            L[:, a, a] = np.sqrt(H[:, a, a] - (L[:, a, :a] ** 2).sum(axis=1))
            for c in range(a + 1, k):
                inner = (L[:, c, :a] * L[:, a, :a]).sum(axis=1)
                L[:, c, a] = (H[:, c, a] - inner) / L[:, a, a]
            z[:, a] = (b[:, a] - (L[:, a, :a] * z[:, :a]).sum(axis=1)) / L[:, a, a]
    return (z**2).sum(axis=1) if k else np.zeros(count, dtype=b.dtype)
