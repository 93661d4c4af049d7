"""Going through a proof: one node after the other, from the root.

Every split must be covered by its children: with chain c_1..c_m, either some c_a is the first one
out, or all are in.  Every monomial that screening fixes, and every leaf, must cost at least the
bound, except supports that the claim leaves out by name.  The least of all values is what the
proof leaves possible.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from polysharp.checker.all_supports import Completions, least_of_input_sets
from polysharp.checker.allowed import (
    FREE,
    IN,
    OUT,
    Empty,
    Fixings,
    Rejected,
    Rules,
    demand,
    read_positions,
)
from polysharp.checker.checked_rows import Point, U
from polysharp.checker.claim import Statement
from polysharp.checker.curvature import Curvature, check_pairs, read_curvature
from polysharp.checker.evidence import (
    Floats,
    Positions,
    ProofNode,
    ProofRecord,
    Screening,
    Vector,
)
from polysharp.checker.inequalities import Tangent, added, certified, prices
from polysharp.checker.inner_products import InnerProducts
from polysharp.checker.point_pairs import Points
from polysharp.checker.unlisted import Pricing


class ProofPart(NamedTuple):
    """A node's number, and what is fixed there (None: no support is left)."""

    number: int
    at: Fixings | None


class ProofReader:
    """Checks the nodes of a proof against the columns of the monomials that it names."""

    def __init__(self, proof: ProofRecord, s: Statement, products: InnerProducts) -> None:
        self.proof, self.s, self.rules, self.products = proof, s, Rules(s), products
        self.completions = Completions(products, self.rules, self._exceptions())
        self._diagonals: dict[int, Curvature] = {}
        self._sound: dict[int, Any] = {}  # pairwise shifts that have been found sound, by id
        self.pricing = Pricing(self.rules, products)
        if s.listed and proof.vectors:  # in one pass over the rows
            f = len(s.monomials)
            index = np.concatenate([np.asarray(v.index, np.intp).ravel() for v in proof.vectors])
            products.need(np.unique(index[(index >= 0) & (index < f * products.T)]) % max(f, 1))

    def _exceptions(self) -> frozenset[tuple[int, ...]]:
        """Return the supports that the claim leaves out, which must be allowed themselves."""
        named = [self.read(one, "an exception") for one in self.proof.exceptions]
        demand(all(map(self.rules.allows, named)), "an exception breaks the rules")
        found = frozenset(tuple(sorted(one.tolist())) for one in named)
        demand(len(found) == len(named), "an exception is named twice")
        return found

    def read(self, given: Any, what: str, times: int = 1) -> Positions:
        """Return positions in the list of monomials, or in that list repeated ``times``."""
        return read_positions(given, times * len(self.rules.uses), what)

    # The whole ------------------------------------------------------------------------------------

    def objective(self) -> float:
        """Return what the model costs at most; it must be allowed, and cost no more than stated."""
        s = self.s
        place = {term: j for j, term in enumerate(s.monomials)}
        demand(set(s.support) <= place.keys(), "the model has a term that is no candidate")
        S = np.array(sorted({place[term] for term in s.support}), dtype=np.intp)
        demand(len(S) == len(s.support) and self.rules.allows(S), "the model breaks the rules")
        cost = self.products.cost_at_most(S)
        demand(cost <= s.objective, f"the model costs {cost:.12g}, more than stated")
        return cost

    def least(self) -> float:
        """Check every node; return the least cost that the proof leaves possible."""
        nodes, claim = self.proof.nodes, self.proof.bound
        demand(isfinite(claim), "the bound is not a number")
        demand(len(nodes) > 0, "the proof has no nodes")
        least, seen, stack = inf, {0}, [ProofPart(0, self.rules.root())]
        while stack:
            part = stack.pop()
            try:
                found, children = self.visit(nodes[part.number], part.at, claim)
                demand(found >= claim, f"proves {found:.12g}, less than the bound {claim:.12g}")
                for child in children:
                    demand(0 < child.number < len(nodes), f"child {child.number} does not exist")
                    demand(child.number not in seen, f"child {child.number} is used twice")
                    seen.add(child.number)
            except Rejected as failure:
                raise Rejected(f"node {part.number}: {failure}") from None
            least = min(least, found)
            stack += children
        demand(len(seen) == len(nodes), "some nodes are not part of the tree")
        return max(0.0, least)

    # One node -------------------------------------------------------------------------------------

    def visit(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[ProofPart]]:
        """Return the least cost that a node leaves possible by itself, and its children."""
        least = inf
        try:
            if at is None:
                raise Empty
            if at.rest:  # perhaps all monomials that may be alive are listed
                at.rest = self.pricing.is_needed(at)
            self.rules.deduce(at)
            for screening in node.screenings:
                found, out, inn = self.screened(screening, at, close=False)
                if not found >= claim:
                    found, out, inn = self.screened(screening, at, close=True)
                demand(found >= claim, f"screens at {found:.12g}, less than the bound")
                least = min(least, found)
                if screening.only is not None:
                    at.rest = False
                self.rules.screen(at, out, inn)
                self.rules.deduce(at)
        except Empty:  # nothing is left to cover, whatever the node is
            children = node.children if node.kind == "split" else ()
            return least, [ProofPart(child, None) for child in children]
        if node.kind == "split":
            return least, self._split(node, at)
        demand(node.kind in ("dual", "enumeration"), f"is of the unknown kind {node.kind!r}")
        if node.kind == "dual":
            return min(least, self._dual(node.vector, at, claim)), []
        demand(not at.rest, "it has monomials without a list")
        if node.on_inputs:
            return min(least, least_of_input_sets(self.products, self.rules, at, claim)), []
        return min(least, self.completions.least(at, claim)), []

    def _split(self, node: ProofNode, at: Fixings) -> list[ProofPart]:
        """Return the children: child a has c_1..c_{a-1} in and c_a out, the last all of them in."""
        if node.on_inputs:
            chain = read_positions(node.chain, len(at.inputs), "the chain")
        else:
            chain = self.read(node.chain, "the chain")
        demand(len(node.children) == len(chain) + 1, "the children do not cover it")
        return [
            ProofPart(child, self.rules.split(at, node.on_inputs, chain, a))
            for a, child in enumerate(node.children)
        ]

    def _dual(self, vector: Vector | None, at: Fixings, claim: float) -> float:
        """Return the lower bound that a vector proves for a node; without one it is 0."""
        if vector is None:
            return 0.0
        bound = self.tangent(vector, at, close=False).bound
        return bound if bound >= claim else self.tangent(vector, at, close=True).bound

    def screened(
        self, screening: Screening, at: Fixings, *, close: bool
    ) -> tuple[float, Positions, Positions]:
        """Return the least cost of the supports that a screening leaves behind, its out and in."""
        what = "a screening"
        out, inn = self.read(screening.out, what), self.read(screening.inn, what)
        if screening.only is None:
            demand(screening.along is None, "a screening has columns without a list")
            tangent = self.tangent(screening.vector, at, close=close)
            left = np.concatenate([tangent.with_each(out), tangent.without_each(inn)])
            return float(left.min(initial=inf)), out, inn
        demand(not self.s.listed, "narrows down a list that is complete")
        demand(not len(out) and not len(inn), "a screening fixes monomials beside its list")
        only = self.read(screening.only, what)
        gone = np.setdiff1d(np.flatnonzero(at.terms == FREE), only)
        if screening.along is None:
            tangent = self.tangent(screening.vector, at, close=close)
            value = float(tangent.with_each(gone).min(initial=inf))
            return min(value, tangent.with_others()), gone, inn
        room, claim = self.rules.room(at), self.proof.bound
        demand(room <= 2, "more monomials may join than points can show")
        points = Points(self.products, self.rules, self.read(screening.along, what), only, at)
        return claim if points.reach(claim, room) else -inf, gone, inn

    # One vector -----------------------------------------------------------------------------------

    def vectors(self, vector: Vector) -> list[tuple[Positions, Floats]]:
        """Read a vector, one for each response."""
        T = self.products.T
        places = self.read(vector.index, "a vector", T)
        w = np.asarray(vector.value, dtype=np.float64)
        demand(w.shape == places.shape and np.isfinite(w).all(), "a vector is no list of numbers")
        of, index = np.divmod(places, max(1, len(self.rules.uses)))
        return [(index[of == t], w[of == t]) for t in range(T)]

    def tangent(self, vector: Vector, at: Fixings, *, close: bool) -> Tangent:
        """Evaluate a vector at a node, by G, or by rows to be closer or to price all."""
        parts, products = self.vectors(vector), self.products
        alive = np.flatnonzero(at.terms != OUT)
        multiple, boxes = float(vector.multiple), products.boxes
        demand(
            0.0 <= multiple < inf and (multiple == 1.0 or vector.diagonal == -1),
            "a vector is multiplied with no number",
        )
        moved, d = None, np.zeros(len(at.terms))
        if vector.diagonal != -1:
            demand(not at.rest, "a diagonal does not cover it")
            moved = self._moved(vector.diagonal, np.concatenate([own for own, _ in parts]), at)
            d = moved.over_all(len(at.terms))
        points, Z = list[Point](), np.zeros(len(at.terms))
        for t, part in enumerate(parts):
            if at.rest or (close and moved is None):
                point = products.closer(t, *part, alive, np.longdouble if close else np.float64)
            elif close and moved is not None:
                point = products.closer_at(t, *part, moved, alive)
            else:
                point = products.at(t, *part, moved, alive)
            points.append(point.times(multiple))
            bounded = boxes.stated or moved is not None
            interval = (boxes.low[t], boxes.high[t]) if bounded else None
            Z += prices(products.lam, points[-1].up, points[-1].down, interval, d)
        if len(parts) > 1:
            Z *= 1.0 + (len(parts) + 4.0) * U
        others = np.zeros(0)
        if at.rest:
            others = self.pricing.largest(vector, parts[0], at, afresh=close)
        scalable = moved is None and not boxes.stated
        room = self.rules.room(at)
        return Tangent(added(points), Z, at, room, scalable=scalable, others=others)

    def _moved(self, number: int, index: Positions, at: Fixings) -> Curvature:
        """Return a diagonal and its pairwise shift, checked once; it covers a vector and a node."""
        demand(0 <= number < len(self.proof.diagonals), "a diagonal does not exist")
        what = f"diagonal {number}"
        if number not in self._diagonals:
            given = read_curvature(self.proof.diagonals[number], self.read, self._is_sound, what)
            self._diagonals[number] = certified(self.products, given, what)
        moved = self._diagonals[number]
        within = np.zeros(len(at.terms), dtype=bool)
        within[moved.index] = True
        covers = within[at.terms != OUT].all() and within[index].all()
        demand(covers, f"{what} does not cover it")
        if len(moved.places):
            inside = int(np.count_nonzero(at.terms[moved.free] == IN))
            few = inside + self.rules.room(at) <= moved.terms
            demand(few, f"{what} has a pairwise shift of fewer terms than may join")
        return moved

    def _is_sound(self, pairs: Any, what: str) -> None:
        """Check a pairwise shift, once for all diagonals that share it."""
        if id(pairs) not in self._sound:
            check_pairs(pairs, len(self.rules.uses), what)
            self._sound[id(pairs)] = pairs  # and so it keeps its id
