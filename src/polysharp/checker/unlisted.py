"""Prices of monomials that nobody has listed.

A vector is multiplied with every monomial that the statement allows (``priced_products``).  Those
with the largest products get the prices of ``inequalities``, within the intervals of their
coefficients; all others cost no more than the largest product among them would if nothing bounded
it.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import (
    FREE,
    OUT,
    Fixings,
    Rejected,
    Rules,
    alive_part,
    all_monomials,
    columns_of,
    demand,
    living,
    owner,
)
from polysharp.checker.checked_rows import CheckedBoxes, Columns
from polysharp.checker.curvature import TINY, Point, U
from polysharp.checker.evidence import Floats, Positions, Term, Vector
from polysharp.checker.inequalities import prices
from polysharp.checker.priced_products import KEPT, largest_products

MOST_WORK = 1e15  # multiply-adds of all passes together
EACH = 2e10  # that a matrix counts for beyond degree 4, where they are small and many

VectorPart = tuple[Positions, Floats]


class Unlisted(NamedTuple):
    """The unlisted monomials with the largest prices, largest first."""

    monomials: list[Term]
    prices: Floats
    rest: float  # of any other one; 0 if there is none


class Pricing:
    """Prices vectors against all unlisted monomials; ``work`` counts the passes of all nodes."""

    def __init__(self, rules: Rules, columns: Columns) -> None:
        self.rules, self.columns, self.s, self.work = rules, columns, columns.s, 0.0
        self.kept = np.array(self.s.kept_inputs, dtype=np.intp)
        self._priced: dict[int, tuple[NDArray[np.bool_], Unlisted]] = {}

    def is_needed(self, at: Fixings) -> bool:
        """Whether a node may leave monomials alive that are not listed."""
        s, out = self.s, np.flatnonzero(at.terms == OUT).tolist()
        gone = {*s.excluded_terms, *(s.monomials[j] for j in out)}
        known = gone.union(s.monomials)
        # Orphans of what is out may be many, and none of them is listed.
        most = KEPT if s.heredity else min(KEPT, len(known))
        try:
            part = replace(alive_part(s, at), excluded_terms=tuple(gone))
            return not known.issuperset(all_monomials(part, most))
        except Rejected:
            return True

    def largest(self, vector: Vector, part: VectorPart, at: Fixings, *, afresh: bool) -> Floats:
        """Return the L + 1 largest prices of unlisted monomials that a node leaves alive.

        What another node has found for more inputs will do, unless it is to be done ``afresh``.
        """
        alive, L, known = at.inputs != OUT, self.rules.room(at), self._priced.get(id(vector))
        if known is None or np.any(alive & ~known[0]) or (afresh and np.any(alive != known[0])):
            known = alive, self._price(part, float(vector.multiple), self.kept[alive])
            self._priced[id(vector)] = known
        found, Z = known[1], list[float]()
        place, left = {int(i): a for a, i in enumerate(self.kept)}, self.rules.input_room(at)
        for m, own in zip(found.monomials, found.prices.tolist(), strict=True):
            states = [at.inputs[place[i]] for i in {owner(c, self.s) for c in m}]
            if OUT not in states and states.count(FREE) <= left:
                Z.append(own)
            if len(Z) > L:
                return np.array(Z)
        return np.array(Z + [found.rest] * (L + 1 - len(Z) if found.rest > 0.0 else 0))

    def _price(self, part: VectorPart, t: float, inputs: Positions) -> Unlisted:
        """Price t times a residual against all monomials of some inputs."""
        columns, s, degree = self.columns, self.s, self.s.degree
        a = columns.residual(0, *part)
        count = sum(map(len, columns_of(inputs.tolist(), s).values()))
        self.work += float(len(a)) * comb(count + degree, degree)
        self.work += EACH * sum(comb(count + d - 3, d - 2) for d in range(5, degree + 1))
        demand(self.work <= MOST_WORK, "it has more monomials to price than a reader can")
        found, beyond = largest_products(columns, a, inputs)
        listed, lives = set(s.monomials), living(s)
        found = [one for one in found if one.monomial not in listed and lives(one.monomial)]
        names = [one.monomial for one in found]
        up, down = (np.array([one[side] for one in found], dtype=np.float64) for side in (1, 2))
        point, reach = Point(0.0, 0.0, 0.0, up, down).times(t), beyond * t * (1.0 + 4.0 * U)
        rest = float(prices(columns.lam, np.array([reach]), np.array([reach]))[0])
        rest += TINY if beyond > 0.0 else 0.0  # none is no price that is too small for a float
        interval = None
        if columns.boxes.stated:
            boxes = CheckedBoxes(columns, names)
            interval = boxes.low[0], boxes.high[0]
        Z = np.maximum(prices(columns.lam, point.up, point.down, interval), rest)
        order = np.argsort(-Z, kind="stable").tolist()
        return Unlisted([names[j] for j in order], Z[order], rest)
