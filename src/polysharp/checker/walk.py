"""The verdict on a proof: one node after the other, from the root.

A proof holds when the model is allowed and costs no more than is stated, and when its tree shows
that no support costs less than the bound.  Every split must be covered by its children: with chain
c_1..c_m, either some c_a is the first one out, or all are in.  Every monomial that screening fixes,
and every leaf, must cost at least the bound, except supports that the claim leaves out by name.
Every value is rounded downwards by what rounding can add at worst, and the least of them is the
bound that is proved; there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from math import inf, isfinite, nan
from typing import Any

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
    check_statement,
    demand,
    read_positions,
)
from polysharp.checker.checked_rows import read_rows
from polysharp.checker.curvature import Curvature, Point, U, check_pairs, read_curvature
from polysharp.checker.evidence import (
    Positions,
    ProofError,
    ProofNode,
    ProofRecord,
    Screening,
    Vector,
    VectorPart,
    all_finite,
)
from polysharp.checker.inequalities import Tangent, added, certified, prices
from polysharp.checker.inner_products import Exact, InnerProducts
from polysharp.checker.unlisted import Points, Pricing

PendingNode = tuple[
    int, Fixings | None
]  # a node's number, and what is fixed there (None: no support)


@dataclass(frozen=True)
class Verdict:
    """Whether a proof holds; ``bound`` and ``objective`` are recomputed, never copied.

    Parameters
    ----------
    valid : bool
        Whether the claim of the proof is proved; the truth value of the verdict.
    bound : float
        No allowed polynomial costs less; rounded downwards, 0 if the proof fails.
    objective : float
        The stated model costs no more; NaN if that was not reached.
    reason : str
        The first thing that is wrong, and where.
    excepted : int
        Number of polynomials, named one by one in the proof, that the bound leaves out.
    """

    valid: bool
    bound: float
    objective: float
    reason: str = ""
    excepted: int = 0

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        if not self.valid:
            return f"rejected: {self.reason}"
        # Rounded to the safe side: 9 digits of a bound may be more than the bound.
        down, up = Context(prec=9, rounding=ROUND_FLOOR), Context(prec=9, rounding=ROUND_CEILING)
        bound = float(down.create_decimal_from_float(self.bound))
        objective = float(up.create_decimal_from_float(self.objective))
        but = f", but for the {self.excepted} that it names," if self.excepted else ""
        return (
            f"valid: the model costs at most {objective:.9g}, and no polynomial of the kind stated"
            f"{but} costs less than {bound:.9g}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def verify(
    proof: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    exact: bool = False,
    functions: Mapping[str, Any] | None = None,
) -> Verdict:
    """Check a proof against the data it speaks of.

    Parameters
    ----------
    proof : fitted model or proof
        A model whose search has left a proof, ``model.solution_.proof`` itself, or a proof read by
        ``Proof.load(path)``.
    X, y, sample_weight
        The rows that were given to ``fit``; y is a table if there are several responses.
    exact : bool, default=False
        Evaluate in exact integers (needs python-flint, the extra ``exact``) instead of floats
        with worst-case bounds on rounding: slower, and sharper by many digits.  Floats are taken
        for the binary fractions they are; a table of texts or of ``decimal.Decimal`` for the
        decimals that stand there.  Several responses are the floats that dividing them by their
        scales gives.
    functions : mapping from names to callables, or None
        Functions of inputs that the statement names, if they are not known by name.

    Returns
    -------
    Verdict
        True or false as it stands; ``reason`` names the first thing that is wrong and where.
    """
    given = proof
    proof = getattr(getattr(proof, "solution_", proof), "proof", proof)
    if not hasattr(proof, "statement"):
        raise ProofError(
            "proof must be a fitted model with a proof, the proof that model.solution_.proof holds "
            "after a search by the tree engine, or one that Proof.load reads, got "
            f"{type(given).__name__}"
        )
    objective = nan
    try:
        with np.errstate(all="ignore"):  # a number that overflows is not finite, and is refused
            demand(all_finite(proof), "it has a number that is none, or infinite")
            check_statement(proof.statement)
            reader = make_reader(proof, (X, y, sample_weight), exact, functions or {})
            objective = reader.objective()
            bound = reader.least()
    except Rejected as failure:
        return Verdict(False, 0.0, objective, str(failure))
    except OverflowError:  # of integers, which become floats in the end
        return Verdict(False, 0.0, objective, "its numbers leave the floats")
    excepted = len(proof.exceptions)
    return Verdict(True, bound if excepted else min(bound, objective), objective, "", excepted)


def make_reader(
    proof: ProofRecord, table: tuple[Any, Any, Any], exact: bool, functions: Mapping[str, Any]
) -> ProofReader:
    """Return a reader of a proof about a table, in floats or exactly."""
    s = proof.statement
    assert s is not None  # check_statement has refused that
    demand(s.listed or not s.responses, "it has several responses and monomials without a list")
    demand(not (s.responses and s.exact_size), "it has several responses and an exact size")
    demand(not (s.responses and proof.exceptions), "it has several responses and exceptions")
    demand(s.listed or not proof.exceptions, "it has exceptions, and monomials without a list")
    demand(s.listed or not exact, "monomials without a list are priced in floats only")
    rows = read_rows(s, *table, functions)
    if not exact:
        return ProofReader(proof, InnerProducts(s, rows, s.monomials))
    products = Exact(s, rows, s.monomials, table)
    reader = ProofReader(proof, products)
    products.learn([reader.vectors(vector) for vector in proof.vectors])
    return reader


class ProofReader:
    """Checks the nodes of a proof against the columns of the monomials that it names."""

    def __init__(self, proof: ProofRecord, products: InnerProducts) -> None:
        self.proof, self.products, self.s = proof, products, products.s
        self.rules = Rules(self.s)
        self.completions = Completions(products, self.rules, self._exceptions())
        self._diagonals: dict[int, Curvature] = {}
        self._sound: dict[int, Any] = {}  # pairwise shifts that have been found sound, by id
        self.pricing = Pricing(self.rules, products)
        if self.s.listed and proof.vectors:  # in one pass over the rows
            f = len(self.s.monomials)
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
        least, seen = inf, {0}
        stack: list[PendingNode] = [(0, self.rules.root())]
        while stack:
            number, at = stack.pop()
            try:
                found, children = self.visit(nodes[number], at, claim)
                demand(found >= claim, f"proves {found:.12g}, less than the bound {claim:.12g}")
                for child, _ in children:
                    demand(0 < child < len(nodes), f"child {child} does not exist")
                    demand(child not in seen, f"child {child} is used twice")
                    seen.add(child)
            except Rejected as failure:
                raise Rejected(f"node {number}: {failure}") from None
            least = min(least, found)
            stack += children
        demand(len(seen) == len(nodes), "some nodes are not part of the tree")
        return max(0.0, least)

    # One node -------------------------------------------------------------------------------------

    def visit(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[PendingNode]]:
        """Return the least cost that a node leaves possible by itself, and its children."""
        least = inf
        try:
            if at is None:
                raise Empty
            if at.rest:  # perhaps all monomials that may be alive are listed
                at.rest = self.pricing.is_needed(at)
            self.rules.deduce(at)
            for screening in node.screenings:
                found, out, inn = self.screened(screening, at, claim)
                least = min(least, found)  # even if no support is left then
                at.rest &= screening.only is None
                self.rules.screen(at, out, inn)
        except Empty:  # nothing is left to cover, whatever the node is
            children = node.children if node.kind == "split" else ()
            return least, [(child, None) for child in children]
        if node.kind == "split":
            size, what = len(at.inputs if node.on_inputs else at.terms), "the chain"
            chain = read_positions(node.chain, size, what)
            demand(len(node.children) == len(chain) + 1, "the children do not cover it")
            split = [self.rules.split(at, node.on_inputs, chain, a) for a in range(len(chain) + 1)]
            return least, list(zip(node.children, split, strict=True))
        demand(node.kind in ("dual", "enumeration"), f"is of the unknown kind {node.kind!r}")
        if node.kind == "enumeration":
            demand(not at.rest, "it has monomials without a list")
            if node.on_inputs:
                own = least_of_input_sets(self.products, self.rules, at, claim)
            else:
                own = self.completions.least(at, claim)
        elif node.vector is None:
            own = 0.0
        else:
            own = self.tangent(node.vector, at, close=False).bound
            if own < claim:
                own = self.tangent(node.vector, at, close=True).bound
        return min(least, own), []

    def screened(
        self, screening: Screening, at: Fixings, claim: float
    ) -> tuple[float, Positions, Positions]:
        """Return the least cost of the supports that a screening leaves behind, its out and in."""
        what = "a screening"
        out, inn = self.read(screening.out, what), self.read(screening.inn, what)
        if screening.only is None:
            demand(screening.along is None, "a screening has columns without a list")
        else:
            demand(not self.s.listed, "narrows down a list that is complete")
            demand(not len(out) and not len(inn), "a screening fixes monomials beside its list")
            only = self.read(screening.only, what)
            out = np.setdiff1d(np.flatnonzero(at.terms == FREE), only)
        if screening.along is not None:
            room = self.rules.room(at)
            demand(room <= 2, "more monomials may join than points can show")
            points = Points(self.products, self.rules, self.read(screening.along, what), only, at)
            found = claim if points.reach(claim, room) else -inf
        else:
            for close in (False, True):
                tangent = self.tangent(screening.vector, at, close=close)
                left = np.concatenate([tangent.with_each(out), tangent.without_each(inn)])
                found = float(left.min(initial=inf))
                if screening.only is not None:
                    found = min(found, tangent.with_others())
                if found >= claim:
                    break
        demand(found >= claim, f"screens at {found:.12g}, less than the bound")
        return found, out, inn

    # One vector -----------------------------------------------------------------------------------

    def vectors(self, vector: Vector) -> list[VectorPart]:
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
        # By G; by rows to be closer, or if unlisted monomials are priced with the same residual.
        real = np.longdouble if close else np.float64 if at.rest else None
        points, Z = list[Point](), np.zeros(len(at.terms))
        for t, part in enumerate(parts):
            points.append(products.at(t, *part, moved, alive, real).times(multiple))
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
            diagonal = self.proof.diagonals[number]
            if diagonal.pairs is not None and id(diagonal.pairs) not in self._sound:
                check_pairs(diagonal.pairs, len(self.rules.uses), what)
                self._sound[id(diagonal.pairs)] = diagonal.pairs  # and so it keeps its id
            given = read_curvature(diagonal, self.read, what)
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
