"""The dearest of all monomials that a statement allows, none of them listed.

For a vector a over the rows and b = sqrt(v) a, made to sum to zero where the intercept is free,

    m_j'a = scale_j sum_t b_t prod_{i in j} x_ti,

which for all monomials of degree 2 is the matrix X'diag(b)X, for degree 3 one such matrix per
input i with b x_i in place of b, and so on.  The vector that is priced is the one that b
stands for exactly, so only these sums are rounded: by at most (n + 4 d + 8) u |m_j| |a|, with
|m_j| <= scale_j prod_i (sum_t v_t x_ti^(2d))^(1/2d) by Hoelder's inequality; and what is left of
the sum of b counts with the mean of the monomial, which is at most |m_j| / sqrt(sum v).

ProofPart of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.checker.bounds import Tangent, free_prices
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.points import points_of
from polysharp.certificate.checker.reader import ProofPart, ProofReader
from polysharp.certificate.checker.rows import SAFE, TINY, Columns, U, scale_squared
from polysharp.certificate.checker.rules import (
    FREE,
    IN,
    OUT,
    Array,
    Fixings,
    Indices,
    Monomial,
    Rules,
    all_monomials,
    count_monomials,
    demand,
    may_live,
)

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof, ProofNode, Screening, Vector
    from polysharp.certificate.statement import Statement

KEPT = 8192  # monomials that a pass names
MOST_WORK = 1e15  # multiply-adds of all passes together
EACH = 2e10  # that a matrix counts for beyond degree 4, where they are small and many
NOTHING = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)


class Unlisted(NamedTuple):
    """The dearest monomials that are not listed, with |m_j'a| at most ``sizes``, largest first."""

    monomials: list[Monomial]
    sizes: Array
    rest: float  # of any other one; 0 where there is none


def price(columns: Columns, a: Array, inputs: Indices) -> Unlisted:
    """Return the dearest unlisted monomials of some inputs (numbers in the table)."""
    s, v, n = columns.s, columns.rows.v, len(a)
    b = columns.root * a
    if s.fit_intercept:
        b -= v * (b.sum() / columns.total)
    size = sqrt(float((b * b / v).sum())) * (1.0 + n * U)
    left = abs(float(b.sum())) + n * U * float(np.abs(b).sum())
    error = (n + 12.0) * U * size * sqrt(columns.total)  # of the constant
    found: list[tuple[float, Monomial]] = [] if s.fit_intercept else [(left + error, ())]
    rest = 0.0
    X, once = columns.coded[:, inputs], np.isin(inputs, s.two_valued)
    for d in range(1, s.degree + 1) if len(inputs) else ():
        norm = sqrt(scale_squared(tuple(range(d)), s.degree)) * np.float64(_largest(X, v, d)) ** d
        off = left / sqrt(columns.total) if s.fit_intercept else 0.0
        error = SAFE * norm * ((n + 4.0 * d + 8.0) * U * size + off) + TINY
        for head, sums in _sums(X, b, d):
            first = head[-1] if head else 0
            sizes = np.where(_repeats(head, d, once), -1.0, _scaled(s, head, sums, d)).ravel()
            top = np.flatnonzero(sizes >= 0.0)
            if len(top) > KEPT:
                top = top[np.argpartition(-sizes[top], KEPT)]
                rest = max(rest, float(sizes[top[KEPT]]) + error)
                top = top[:KEPT]
            for place, value in zip(top.tolist(), sizes[top].tolist(), strict=True):
                j, k = divmod(place, sums.shape[1])
                tail = (first + k,) if d == 1 else (first + j, first + k)
                found.append((value + error, (*head, *tail)))
            if len(found) > 4 * KEPT:
                rest = max(rest, _cut(found))
    rest = max(rest, _cut(found)) if len(found) > KEPT else rest
    listed = set(columns.monomials)
    names, found = inputs.tolist(), sorted(found, reverse=True)
    named = [(value, tuple(names[i] for i in m)) for value, m in found]
    named = [(value, m) for value, m in named if m not in listed and may_live(m, s)]
    return Unlisted([m for _, m in named], np.array([value for value, _ in named]), rest)


def _cut(found: list[tuple[float, Monomial]]) -> float:
    """Leave the dearest ones in place; return the price of the dearest that goes."""
    found.sort(reverse=True)
    gone = found[KEPT][0]
    del found[KEPT:]
    return gone


def _sums(X: Array, b: Array, d: int) -> Iterator[tuple[Monomial, Array]]:
    """Sums of the monomials of degree d: the first inputs, and a matrix over the last two."""
    if d == 1:
        yield (), (b @ X)[None, :]
        return
    for head in combinations_with_replacement(range(X.shape[1]), d - 2):
        weight = b * np.prod(X[:, np.array(head)], axis=1) if head else b
        tail = X[:, head[-1] :] if head else X
        yield head, (tail * weight[:, None]).T @ tail


def _scaled(s: Statement, head: Monomial, sums: Array, d: int) -> Array:
    """Return |m_j'a|; -1 for what the rules do not allow and what stands twice."""
    # Entry (j, k) is the monomial head + (first + j, first + k), so that equal factors are those
    # with j = 0 (equal to the last of the head) and with j = k.
    size, repeated = sums.shape[1], head.count(head[-1]) if head else 0
    scale = sqrt(scale_squared((*head, *((-1, -2)[: d - len(head)])), s.degree))
    sizes = np.abs(sums) * (scale * (1.0 + 8.0 * U))
    distinct = np.full(sums.shape, len(set(head)) + d - len(head))
    if d > 1:
        sizes[np.arange(1, size), np.arange(1, size)] /= sqrt(2.0)
        sizes[0, 1:] /= sqrt(repeated + 1.0)
        sizes[0, 0] /= sqrt((repeated + 1.0) * (repeated + 2.0))
        distinct[np.diag_indices(size)] -= 1
        distinct[0] -= bool(head)
        sizes[np.tril_indices(size, -1)] = -1.0
    allowed = (distinct <= s.max_interaction) & ((distinct < 2) | (d <= s.interaction_degree))
    if s.heredity is not None and d > s.max_terms:
        allowed[:] = False  # its ancestors down to degree one would be d terms
    return np.where(allowed, sizes, -1.0)


def _repeats(head: Monomial, d: int, once: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether entry (j, k) of ``_scaled`` has one of the inputs ``once`` twice."""
    tail = once[head[-1] :] if head else once
    if d == 1:
        return np.zeros((1, len(tail)), dtype=np.bool_)
    twice: NDArray[np.bool_] = np.diag(tail)
    twice[0] |= bool(head) and bool(tail[0])
    return twice | any(once[i] and head.count(i) > 1 for i in head)


def _largest(X: Array, v: Array, d: int) -> float:
    """The largest (sum_t v_t x_ti^(2d))^(1/2d) of an input, rounded up."""
    peak = float(np.abs(X).max(initial=0.0)) or 1.0
    power = (v @ (X / peak) ** (2 * d)) ** (0.5 / d)
    return SAFE * peak * float(power.max(initial=0.0))


class PricedReader(ProofReader):
    """Checks nodes where monomials are alive that nobody has listed."""

    is_priced = True

    def __init__(self, proof: Proof, rules: Rules, columns: Columns) -> None:
        super().__init__(proof, rules, [columns])  # type: ignore[list-item]  # there is no G
        self.columns, self.work = columns, 0.0
        self.kept = np.array(columns.s.kept_inputs, dtype=np.intp)
        self._priced: dict[int, tuple[NDArray[np.bool_], Unlisted]] = {}

    def visit(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[ProofPart]]:
        """Look first whether all monomials of the inputs alive are listed."""
        if at is not None and at.rest:
            alive = tuple(self.kept[at.inputs != OUT].tolist())
            s = replace(self.columns.s, kept_inputs=alive)
            if s.heredity is not None:  # ancestors down to degree one would be more terms
                s = replace(s, degree=min(s.degree, s.max_terms))
            if count_monomials(s) <= KEPT:
                at.rest = not set(self.columns.monomials).issuperset(all_monomials(s))
        return super().visit(node, at, claim)

    def tangent(self, vector: Vector, at: Fixings, *, close: bool) -> Tangent:
        """Evaluate a vector at a node, by its products with every monomial there is."""
        demand(vector.diagonal == -1, "a diagonal does not cover it")
        ((index, w),) = self.vectors(vector)
        alive, L, f = np.flatnonzero(at.terms != OUT), self.rules.room(at), len(at.terms)
        point = self.columns.closer(index, w, alive, np.longdouble if close else np.float64)
        others = self._others(vector, index, w, at, L, close) if at.rest else np.zeros(0)
        Z = free_prices(np.append(np.maximum(point.up, point.down), others), self.columns.lam)
        return Tangent(point, Z[:f], at, L, scalable=True, others=Z[f:])

    def _others(
        self, vector: Vector, index: Indices, w: Array, at: Fixings, L: int, close: bool
    ) -> Array:
        """Return the sizes of the L + 1 dearest unlisted monomials that a node leaves alive."""
        alive = at.inputs != OUT
        known = self._priced.get(id(vector))
        if known is None or np.any(alive & ~known[0]) or (close and np.any(alive != known[0])):
            degree, count = self.columns.s.degree, int(np.count_nonzero(alive))
            self.work += float(len(self.columns.root)) * comb(count + degree, degree)
            self.work += EACH * sum(comb(count + d - 3, d - 2) for d in range(5, degree + 1))
            demand(self.work <= MOST_WORK, "it has more monomials to price than a reader can")
            found = price(self.columns, self.columns.residual(index, w), self.kept[alive])
            known = self._priced[id(vector)] = alive, found
        prices_, sizes = known[1], []
        place = {int(i): a for a, i in enumerate(self.kept)}
        left = self.rules.max_inputs - int(np.count_nonzero(at.inputs == IN))
        for m, size in zip(prices_.monomials, prices_.sizes.tolist(), strict=True):
            states = [at.inputs[place[i]] for i in set(m)]
            if OUT not in states and states.count(FREE) <= left:
                sizes.append(size)
            if len(sizes) > L:
                return np.array(sizes)
        return np.array(sizes + [prices_.rest] * (L + 1 - len(sizes) if prices_.rest > 0.0 else 0))

    def screened(
        self, screening: Screening, at: Fixings, *, close: bool
    ) -> tuple[float, Indices, Indices]:
        """Return the least cost of what a screening leaves behind, and what goes out and in."""
        if screening.only is not None and screening.along is not None:
            return self._by_points(screening.only, screening.along, at), *NOTHING
        value, out, inn = super().screened(screening, at, close=close)
        if screening.only is not None:
            only = self.read(screening.only, "a screening")
            gone = np.setdiff1d(np.flatnonzero(at.terms == FREE), only)
            tangent = self.tangent(screening.vector, at, close=close)
            value = min(value, float(tangent.with_each(gone).min(initial=inf)))
            value = min(value, tangent.with_others())
        return value, out, inn

    def _by_points(self, only: Indices, along: Indices, at: Fixings) -> float:
        """Return the claim where all supports with monomials beyond ``only`` reach it."""
        room, what = self.rules.room(at), "a screening"
        demand(room <= 2, "more monomials may join than points can show")
        points = points_of(
            self.columns, self.rules, self.read(along, what), self.read(only, what), at
        )
        return self.proof.bound if points.reach(self.proof.bound, room) else -inf

    def narrowed(self, only: Indices, at: Fixings) -> tuple[ProofReader, Fixings]:
        """Return a reader for the monomials that stay alive, with moments of their own."""
        stays = at.terms == IN
        stays[self.read(only, "a screening")] = True  # vectors may use what is out by now
        index, s = np.flatnonzero(stays), self.columns.s
        place = np.full(len(stays), -1, dtype=np.intp)
        place[index] = np.arange(len(index))
        monomials = tuple(s.monomials[j] for j in index.tolist())
        required = tuple(s.monomials[j] for j in np.flatnonzero(at.terms == IN).tolist())
        own = replace(s, monomials=monomials, listed=True, required_terms=required)
        reader = ProofReader(
            self.proof, Rules(own), [Moments(own, self.columns.rows, monomials)], place
        )
        return reader, Fixings(at.terms[index].copy(), at.inputs.copy(), False)
