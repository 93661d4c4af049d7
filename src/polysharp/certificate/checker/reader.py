"""One node of a proof after the other: what it fixes, what it costs, and what it leaves to others.

A ``ProofReader`` holds the numbers and the rules of a list of monomials.  A node's indices are
positions in the statement's list; where a screening has left only some of many monomials alive, a
narrower reader goes on with these, and ``place`` says where they stand in its own list.

Several responses share one support, and its cost is the sum over them, each divided by the scale
that the statement names (data here: the numbers that double precision makes of that).  For vectors
w_t, one per response, with one diagonal and coupling for all, the bounds of ``bounds`` add:

    sum_t base_t - spent,   spent = sum_in Z_j + top_L(Z_j, j free),   Z_j = sum_t Z_tj,
    s sum_t y_t'a_t - s^2 (sum_t |a_t|^2 / 2 + spent)      where d = 0, for any s.

A vector of the proof then lists w_1, w_2, ... end to end: position t f + j names monomial j of
response t, f monomials being listed.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.checker.bounds import Tangent, certified, prices
from polysharp.certificate.checker.curvature import Curvature, check_coupling, read_curvature
from polysharp.certificate.checker.ends import Exhaustion, least_of_sets
from polysharp.certificate.checker.rows import Point, U, rounded_sum
from polysharp.certificate.checker.rules import (
    FREE,
    IN,
    OUT,
    Array,
    Empty,
    Fixings,
    Indices,
    Rejected,
    Rules,
    demand,
    read_indices,
)

if TYPE_CHECKING:
    from polysharp.certificate.checker.moments import CheckedMoments as Moments
    from polysharp.certificate.proof import Proof, ProofNode, Screening, Vector

UNLISTED = "it has monomials that are not listed"


class ProofPart:
    """A node's number, what is fixed there (None: no support is left), and who reads it."""

    def __init__(self, number: int, at: Fixings | None, reader: ProofReader) -> None:
        self.number, self.at, self.reader = number, at, reader


class ProofReader:
    """Checks the nodes of a proof against the moments of a list of monomials."""

    def __init__(
        self, proof: Proof, rules: Rules, every: list[Moments], place: Indices | None = None
    ) -> None:
        self.proof, self.rules, self.place = proof, rules, place
        self.every, self.moments = every, every[0]  # of each response
        self.ends = Exhaustion(every, rules, self._excepted() if rules.listed else frozenset())
        self._diagonals: dict[int, Curvature] = {}
        self._couplings: dict[int, Any] = {}  # that have been found sound

    def _excepted(self) -> frozenset[tuple[int, ...]]:
        """Return the supports that the claim leaves out, which must be allowed themselves."""
        named = [self.read(one, "an exception") for one in self.proof.exceptions]
        demand(all(map(self.rules.allows, named)), "an exception breaks the rules")
        found = frozenset(tuple(sorted(one.tolist())) for one in named)
        demand(len(found) == len(named), "an exception is named twice")
        return found

    def cost_at_most(self, S: Indices) -> float:
        """Return what a support costs at most, all responses together."""
        return rounded_sum([own.cost_at_most(S) for own in self.every], 1.0)

    def read(self, given: Any, what: str, times: int = 1) -> Indices:
        """Return positions of monomials in the reader's own list, or in so many lists in a row."""
        if self.place is None:
            return read_indices(given, times * len(self.rules.uses), what)
        index = self.place[read_indices(given, len(self.place), what)]
        demand(np.all(index >= 0), f"{what} leaves the problem")
        return index

    def visit(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[ProofPart]]:
        """Return the least cost that a node leaves possible by itself, and its children."""
        least = inf
        try:
            if at is None:
                raise Empty
            self.rules.deduce(at)
            for number, screening in enumerate(node.screenings):
                value, out, inn = self.screened(screening, at, close=False)
                if not value >= claim:
                    value, out, inn = self.screened(screening, at, close=True)
                demand(value >= claim, f"screens at {value:.12g}, less than the bound")
                least = min(least, value)
                self.rules.screen(at, out, inn)
                if screening.only is not None:
                    narrow, below = self.narrowed(screening.only, at)
                    rest = replace(node, screenings=node.screenings[number + 1 :])
                    value, parts = narrow.visit(rest, below, claim)
                    return min(least, value), parts
                self.rules.deduce(at)
        except Empty:  # nothing is left to cover, whatever the node is
            children = node.children if node.kind in ("split", "sets") else ()
            return least, [ProofPart(child, None, self) for child in children]
        tries = node.kind in ("single", "exhausted", "sets")
        # Without moments of its own a reader goes on with a narrower one.
        if tries and not (self.rules.listed or at.rest):
            narrow, below = self.narrowed(np.flatnonzero(at.terms == FREE), at)
            value, parts = narrow.visit(replace(node, screenings=()), below, claim)
        elif node.kind == "split":
            value, parts = least, self._split(node, at)
        elif node.kind == "sets":
            value, parts = self._split_by_sets(node, at, claim)
        else:
            value, parts = self._leaf(node, at, claim), []
        return min(least, value), parts

    def narrowed(self, only: Indices, at: Fixings) -> tuple[ProofReader, Fixings]:
        """Return a reader for the monomials that stay alive; here all are listed already."""
        raise Rejected("narrows down a list that is complete")

    def _split(self, node: ProofNode, at: Fixings) -> list[ProofPart]:
        """Return the children: child a has c_1..c_{a-1} in and c_a out, the last all of them in."""
        if node.on_inputs:
            chain = read_indices(node.chain, len(at.inputs), "the chain")
        else:
            chain = self.read(node.chain, "the chain")
        demand(len(node.children) == len(chain) + 1, "the children do not cover it")
        return [
            ProofPart(child, self.rules.split(at, node.on_inputs, chain, a), self)
            for a, child in enumerate(node.children)
        ]

    def _split_by_sets(
        self, node: ProofNode, at: Fixings, claim: float
    ) -> tuple[float, list[ProofPart]]:
        """Return the least bound of the sets of inputs that are no child, and the children."""
        demand(len(self.every) == 1, "splits by sets of inputs, with several responses")
        demand(not at.rest, UNLISTED)
        room = self.rules.input_room(at)
        chain, count = np.array(node.chain, dtype=np.intp), len(node.children)
        demand(room > 0 and len(chain) == count * room, "its sets do not fill the budget of inputs")
        listed = [read_indices(one, len(at.inputs), "a set") for one in chain.reshape(count, room)]
        least, undecided = least_of_sets(self.moments, self.rules, at, listed, claim)
        parts = []
        for child, kept in zip(node.children, listed, strict=True):
            below = at.copy()
            below.inputs[np.setdiff1d(undecided, kept)] = OUT
            parts.append(ProofPart(child, below, self))
        return least, parts

    def _leaf(self, node: ProofNode, at: Fixings, claim: float) -> float:
        """Return a lower bound on the cost of every support of a closed node."""
        if node.kind == "dual":
            if node.vector is None:
                return 0.0
            bound = self.tangent(node.vector, at, close=False).bound
            if not bound >= claim:
                bound = self.tangent(node.vector, at, close=True).bound
            return bound
        demand(node.kind in ("single", "exhausted"), f"is {node.kind!r} while supports are left")
        demand(not at.rest, UNLISTED)
        return self.ends.least(at, claim)

    def screened(
        self, screening: Screening, at: Fixings, *, close: bool
    ) -> tuple[float, Indices, Indices]:
        """Return the least cost of what a screening leaves behind, and what goes out and in."""
        out, inn = self.read(screening.out, "a screening"), self.read(screening.inn, "a screening")
        tangent = self.tangent(screening.vector, at, close=close)
        left = np.concatenate([tangent.with_each(out), tangent.without_each(inn)])
        return float(left.min(initial=inf)), out, inn

    def vectors(self, vector: Vector) -> list[tuple[Indices, Array]]:
        """Read a vector, one for each response."""
        places = self.read(vector.index, "a vector", len(self.every))
        w = np.asarray(vector.value, dtype=np.float64)
        demand(w.shape == places.shape and np.isfinite(w).all(), "a vector is no list of numbers")
        of, index = np.divmod(places, len(self.rules.uses))
        return [(index[of == t], w[of == t]) for t in range(len(self.every))]

    def multiple(self, vector: Vector) -> float:
        """Return what a residual is multiplied with."""
        t, plain = float(vector.multiple), vector.diagonal == -1
        demand(0.0 <= t < inf and (t == 1.0 or plain), "a vector is multiplied with no number")
        return t

    def tangent(self, vector: Vector, at: Fixings, *, close: bool) -> Tangent:
        """Evaluate a vector at a node, from the moments or more closely, from the rows."""
        parts, alive, every = self.vectors(vector), np.flatnonzero(at.terms != OUT), self.every
        moved = d = None
        if vector.diagonal != -1:
            moved = self._moved(vector.diagonal, np.concatenate([own for own, _ in parts]), at)
            d = moved.over_all(len(at.terms))
        points, Z = list[Point](), np.zeros(len(at.terms))
        for own, part in zip(every, parts, strict=True):
            near = close and d is None
            point = own.closer(*part, alive) if near else own.at(*part, moved, alive)
            point = point.times(self.multiple(vector))
            points.append(point)
            Z += prices(own.lam, own.boxes, point.up, point.down, d=d)
        if len(every) > 1:
            Z *= 1.0 + (len(every) + 4.0) * U
        base, ya, aa = zip(*(point[:3] for point in points), strict=True)
        low = rounded_sum(base, -1.0), rounded_sum(ya, -1.0)
        point = Point(*low, rounded_sum(aa, 1.0), Z[:0], Z[:0])
        scalable = d is None and not self.moments.boxes.stated
        return Tangent(point, Z, at, self.rules.room(at), scalable=scalable, others=Z[:0])

    def _moved(self, number: int, index: Indices, at: Fixings) -> Curvature:
        """Return a diagonal and its coupling, checked once, that cover a vector and a node."""
        demand(0 <= number < len(self.proof.diagonals), "a diagonal does not exist")
        what = f"diagonal {number}"
        if number not in self._diagonals:
            given = read_curvature(self.proof.diagonals[number], self.read, self._sound, what)
            self._diagonals[number] = certified(self.moments, given, what)
        moved = self._diagonals[number]
        within = np.zeros(len(at.terms), dtype=bool)
        within[moved.index] = True
        covers = within[at.terms != OUT].all() and within[index].all()
        demand(covers, f"{what} does not cover it")
        if len(moved.places):
            held = int(np.count_nonzero(at.terms[moved.free] == IN))
            few = held + self.rules.room(at) <= moved.terms
            demand(few, f"{what} has a coupling of fewer terms than may join")
        return moved

    def _sound(self, coupling: Any, what: str) -> None:
        """Check a coupling, once for all diagonals that share it."""
        if id(coupling) not in self._couplings:
            listed = self.rules.uses if self.place is None else self.place
            check_coupling(coupling, len(listed), what)
            self._couplings[id(coupling)] = coupling  # and so it keeps its id
