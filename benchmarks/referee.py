"""The least cost of all supports of a statement, by trying every one: nothing of the library.

Costs are computed in long double (64 bits of mantissa where the machine has them), and those that
decide something again in rationals, from the floats of the table as they are:

    cost of S = 1/2 (yy - q_S'(G_SS + lam I)^-1 q_S),

with monomials that are not scaled, G = P'VP, and the ridge lam / orderings_j instead.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 20_000  # supports

Support = tuple[int, ...]
Long = NDArray[np.longdouble]


class TooManyError(Exception):
    """The problem has more supports than a referee tries."""


class Referee:
    """One statement with its rows."""

    def __init__(
        self, statement: Any, X: Any, y: Any, weight: Any = None, exceptions: Any = ()
    ) -> None:
        self.exceptions = {tuple(sorted(one)) for one in exceptions}
        self.s = s = (
            statement
            if statement.listed
            else replace(statement, monomials=_all_monomials(statement), listed=True)
        )
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.v = np.ones(len(self.y)) if weight is None else np.asarray(weight, dtype=float)
        f = len(s.monomials)
        if sum(comb(f, k) for k in range(min(s.max_terms, f) + 1)) > MOST:
            raise TooManyError
        self._inputs: dict[int, tuple[list[int], int]] = {}
        self.place = {m: j for j, m in enumerate(s.monomials)}
        self.orderings = [
            factorial(s.degree)
            // (factorial(s.degree - len(m)) * prod(factorial(m.count(i)) for i in set(m)))
            for m in s.monomials
        ]
        supports = [S for k in range(s.max_terms + 1) for S in combinations(range(f), k)]
        self.supports = [S for S in supports if self.allowed(S)]
        self.yy, self.costs = 0.0, np.zeros(0)
        if self.supports:
            self.costs = self._costs()

    def allowed(self, S: Support) -> bool:
        """Whether a support meets every rule of the statement."""
        s, chosen = self.s, {self.s.monomials[j] for j in S}
        used = {i for m in chosen for i in m}
        if len(chosen) > s.max_terms or len(used) > s.max_inputs:
            return False
        if tuple(sorted(S)) in self.exceptions or (s.exact_size and len(S) < s.max_terms):
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
        costs = np.where(np.isnan(self.costs), -np.inf, self.costs)  # unknown: worth a look
        order = np.argsort(costs, kind="stable")[:most]
        return [self.supports[a] for a in order if not costs[a] > value + slack]

    def refutes(self, bound: float) -> Support | None:
        """Return a support that costs less than the bound, in exact arithmetic."""
        for S in self.close_to(bound):
            if self.exact(S) < Fraction(bound):
                return S
        return None

    def exact(self, S: Support) -> Fraction:
        """Return the cost of a support as a rational number."""
        s, unit, y, v = self.s, *self._integers
        columns = [self._column(s.monomials[j]) for j in S]
        columns.append(y)
        weighted = [[a * b for a, b in zip(v, c, strict=True)] for c in columns]
        total, sums = sum(v), [sum(c) for c in weighted]
        size = len(columns)
        A = [[Fraction(0)] * size for _ in range(size)]
        for a in range(size):
            for b in range(a + 1):
                product = sum(x * z for x, z in zip(weighted[a], columns[b], strict=True))
                if s.fit_intercept:
                    A[a][b] = A[b][a] = Fraction(total * product - sums[a] * sums[b], total)
                else:
                    A[a][b] = A[b][a] = Fraction(product)
        for a, j in enumerate(S):  # of the column in integers, in units of its own
            scale = prod((self._unit(i) for i in s.monomials[j]), start=Fraction(1))
            A[a][a] += scale**2 * unit.v / (Fraction(s.gamma) * self.orderings[j])
        for a in range(size - 1):  # the last pivot is what the others leave of yy
            for b in range(a + 1, size):
                factor = A[b][a] / A[a][a]
                for c in range(a + 1, size):
                    A[b][c] -= factor * A[a][c]
        return A[-1][-1] / (2 * unit.v * unit.y**2)

    @cached_property
    def _integers(self) -> tuple[_Units, list[int], list[int]]:
        """The units of y and of the weights, and both as integers, without rows of no weight."""
        y, of_y = _integers([Fraction(a) for a in self.y[self.v > 0.0]])
        v, of_v = _integers([Fraction(a) for a in self.v[self.v > 0.0]])
        return _Units(of_y, of_v), y, v

    def _column(self, m: tuple[int, ...]) -> list[int]:
        """A monomial as integers."""
        column = [1] * int(np.count_nonzero(self.v > 0.0))
        for i in m:
            column = [a * b for a, b in zip(column, self._input(i), strict=True)]
        return column

    def _input(self, i: int) -> list[int]:
        """An input less its shift, as integers."""
        if i not in self._inputs:
            shift = Fraction(self.s.shift[i])
            column = [Fraction(a) - shift for a in self.X[self.v > 0.0, i]]
            self._inputs[i] = _integers(column)
        return self._inputs[i][0]

    def _unit(self, i: int) -> Fraction:
        """By what the integers of an input are to be divided to be coded."""
        self._input(i)
        return self._inputs[i][1] * Fraction(self.s.scale[i])


class _Units(NamedTuple):
    """By what integers are to be divided."""

    y: int
    v: int


def _integers(values: list[Fraction]) -> tuple[list[int], int]:
    """Binary fractions as integers, and what these are to be divided by."""
    unit = max(a.denominator for a in values)
    return [a.numerator * (unit // a.denominator) for a in values], unit


def _all_monomials(s: Any) -> tuple[tuple[int, ...], ...]:
    """All monomials of a statement's kind."""
    degrees = range(1 if s.fit_intercept else 0, s.degree + 1)
    if comb(len(s.kept_inputs) + s.degree, s.degree) > MOST:
        raise TooManyError
    every = [m for d in degrees for m in combinations_with_replacement(s.kept_inputs, d)]
    kept: dict[tuple[int, ...], None] = {}
    for m in every:
        distinct = len(set(m))
        shaped = distinct <= s.max_interaction and (distinct < 2 or len(m) <= s.interaction_degree)
        shaped = shaped and not any(m.count(i) > 1 for i in s.two_valued)
        parents = {m[:a] + m[a + 1 :] for a in range(len(m))} if len(m) > 1 else set()
        enough = all if s.heredity == "strong" else any
        alive = s.heredity is None or not parents or enough(a in kept for a in parents)
        if shaped and alive and m not in s.excluded_terms:
            kept[m] = None
    return tuple(kept)


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
