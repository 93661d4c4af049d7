"""Proofs that speak of monomials which nobody has listed: all of them are priced, none is formed.

A vector is multiplied with every monomial that a statement allows (``dearest``).  Those with the
largest products get the prices of ``bounds``, within the intervals of their coefficients; all
others cost no more than the largest product among them would if nothing bounded it.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb, inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.checker.bounds import Tangent, free_prices, prices
from polysharp.certificate.checker.dearest import KEPT, dearest
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.points import Points
from polysharp.certificate.checker.reader import ProofPart, ProofReader
from polysharp.certificate.checker.rows import TINY, Columns, Point, U
from polysharp.certificate.checker.rules import (
    FREE,
    IN,
    OUT,
    Array,
    Fixings,
    Indices,
    Monomial,
    Rejected,
    Rules,
    alive_part,
    all_monomials,
    columns_of,
    demand,
    may_live,
    owner,
    plain_count,
)

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof, ProofNode, Screening, Vector
    from polysharp.certificate.statement import Statement
MOST_WORK = 1e15  # multiply-adds of all passes together
EACH = 2e10  # that a matrix counts for beyond degree 4, where they are small and many
NOTHING = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)


class Unlisted(NamedTuple):
    """The dearest monomials that are not listed, largest price first."""

    monomials: list[Monomial]
    prices: Array
    rest: float  # of any other one; 0 where there is none


class PricedReader(ProofReader):
    """Checks nodes where monomials are alive that nobody has listed."""

    def __init__(self, proof: Proof, rules: Rules, columns: Columns) -> None:
        super().__init__(proof, rules, [columns])  # type: ignore[list-item]  # there is no G
        self.columns, self.work = columns, 0.0
        self.kept = np.array(columns.s.kept_inputs, dtype=np.intp)
        self._priced: dict[int, tuple[NDArray[np.bool_], Unlisted]] = {}

    def visit(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[ProofPart]]:
        """Look first whether all monomials that may be alive are listed."""
        if at is not None and at.rest:
            s, out = self.columns.s, np.flatnonzero(at.terms == OUT).tolist()
            gone = {*s.excluded_terms, *(s.monomials[j] for j in out)}
            s = replace(alive_part(s, at), excluded_terms=tuple(gone))
            at.rest = plain_count(s) > KEPT or not self._names_all(s)
        return super().visit(node, at, claim)

    def _names_all(self, s: Statement) -> bool:
        """Whether all monomials of a statement, at most as many as a pass names, are listed."""
        try:
            return set(self.columns.monomials).issuperset(all_monomials(s, KEPT))
        except Rejected:
            return False

    def tangent(self, vector: Vector, at: Fixings, *, close: bool) -> Tangent:
        """Evaluate a vector at a node, by its products with every monomial there is."""
        demand(vector.diagonal == -1, "a diagonal does not cover it")
        ((index, w),) = self.vectors(vector)
        alive, L = np.flatnonzero(at.terms != OUT), self.rules.room(at)
        point = self.columns.closer(index, w, alive, np.longdouble if close else np.float64)
        point, boxes = point.times(self.multiple(vector)), self.columns.boxes
        others = self._others(vector, at, close=close) if at.rest else np.zeros(0)
        Z = prices(self.columns.lam, boxes, point.up, point.down)
        return Tangent(point, Z, at, L, scalable=not boxes.stated, others=others)

    def _others(self, vector: Vector, at: Fixings, *, close: bool) -> Array:
        """Return the prices of the L + 1 dearest unlisted monomials that a node leaves alive."""
        alive, L, known = at.inputs != OUT, self.rules.room(at), self._priced.get(id(vector))
        if known is None or np.any(alive & ~known[0]) or (close and np.any(alive != known[0])):
            known = alive, self._unlisted(vector, self.kept[alive])
            self._priced[id(vector)] = known
        found, Z = known[1], list[float]()
        place, s = {int(i): a for a, i in enumerate(self.kept)}, self.columns.s
        left = self.rules.input_room(at)
        for m, own in zip(found.monomials, found.prices.tolist(), strict=True):
            states = [at.inputs[place[i]] for i in {owner(c, s) for c in m}]
            if OUT not in states and states.count(FREE) <= left:
                Z.append(own)
            if len(Z) > L:
                return np.array(Z)
        return np.array(Z + [found.rest] * (L + 1 - len(Z) if found.rest > 0.0 else 0))

    def _unlisted(self, vector: Vector, inputs: Indices) -> Unlisted:
        """Price a vector against all monomials of some inputs."""
        columns, s, degree = self.columns, self.columns.s, self.columns.s.degree
        a, t = columns.residual(*self.vectors(vector)[0]), self.multiple(vector)
        count = sum(map(len, columns_of(inputs.tolist(), s).values()))
        self.work += float(len(a)) * comb(count + degree, degree)
        self.work += EACH * sum(comb(count + d - 3, d - 2) for d in range(5, degree + 1))
        demand(self.work <= MOST_WORK, "it has more monomials to price than a reader can")
        found, beyond = dearest(columns, a, inputs)
        listed = set(columns.monomials)
        found = [one for one in found if one.monomial not in listed and may_live(one.monomial, s)]
        names = [one.monomial for one in found]
        up, down = (np.array([one[side] for one in found], dtype=np.float64) for side in (1, 2))
        point = Point(0.0, 0.0, 0.0, up, down).times(t)
        rest = float(free_prices(np.array([beyond * t * (1.0 + 4.0 * U)]), columns.lam)[0])
        rest += TINY if beyond > 0.0 else 0.0  # none is no price that is too small for a float
        boxes = columns.boxes_of(names) if columns.boxes.stated else columns.boxes
        Z = np.maximum(prices(columns.lam, boxes, point.up, point.down), rest)
        order = np.argsort(-Z, kind="stable").tolist()
        return Unlisted([names[j] for j in order], Z[order], rest)

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
        read = self.read(along, what), self.read(only, what)
        points = Points(self.columns, self.rules, *read, at)
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
