"""The checker itself: every node of a proof in turn, and the verdict.

A proof holds when

    - the model is allowed, and costs no more than is stated,
    - every split is covered by its children: with chain c_1..c_m, either some c_a is the first
      one out, or all are in,
    - every monomial that screening fixes, and every leaf, costs at least the bound, except supports
      that the claim leaves out by name.

Every value is rounded downwards by what rounding can add at worst, and the least of them is what
is proved; there is no tolerance.

While monomials are alive that nobody has listed, a vector is multiplied with every monomial that
the statement allows (``priced_products``).  Those with the largest products get the prices of
``inequalities``, within the intervals of their coefficients; all others cost no more than the
largest product among them would if nothing bounded it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from math import comb, inf, isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.all_supports import Completions, least_of_input_sets
from polysharp.checker.allowed import (
    FREE,
    IN,
    OUT,
    Empty,
    Fixings,
    Rejected,
    Rules,
    alive_part,
    all_monomials,
    check_statement,
    columns_of,
    demand,
    may_live,
    owner,
    plain_count,
    read_positions,
)
from polysharp.checker.checked_rows import TINY, Point, U, read_rows
from polysharp.checker.claim import Statement, Term
from polysharp.checker.curvature import Curvature, check_pairs, read_curvature
from polysharp.checker.evidence import (
    Floats,
    Positions,
    ProofError,
    ProofNode,
    ProofRecord,
    Screening,
    Vector,
    all_finite,
)
from polysharp.checker.inequalities import Tangent, added, certified, prices
from polysharp.checker.inner_products import InnerProducts
from polysharp.checker.point_pairs import Points
from polysharp.checker.priced_products import KEPT, largest_products

MOST_WORK = 1e15  # multiply-adds of all passes over unlisted monomials together
EACH = 2e10  # that a matrix counts for beyond degree 4, where they are small and many


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
        return ProofReader(proof, s, InnerProducts(s, rows, s.monomials))
    from polysharp.checker.rational import Exact

    products = Exact(s, rows, s.monomials, table)
    reader = ProofReader(proof, s, products)
    products.learn([reader.vectors(vector) for vector in proof.vectors])
    return reader


class ProofPart(NamedTuple):
    """A node's number, and what is fixed there (None: no support is left)."""

    number: int
    at: Fixings | None


class Unlisted(NamedTuple):
    """The unlisted monomials with the largest prices, largest first."""

    monomials: list[Term]
    prices: Floats
    rest: float  # of any other one; 0 if there is none


class ProofReader:
    """Checks the nodes of a proof against the columns of the monomials that it names."""

    def __init__(self, proof: ProofRecord, s: Statement, products: InnerProducts) -> None:
        self.proof, self.s, self.rules, self.products = proof, s, Rules(s), products
        self.completions = Completions(products, self.rules, self._exceptions())
        self._diagonals: dict[int, Curvature] = {}
        self._sound: dict[int, Any] = {}  # pairwise shifts that have been found sound, by id
        self._priced: dict[int, tuple[NDArray[np.bool_], Unlisted]] = {}
        self.kept, self.work = np.array(s.kept_inputs, dtype=np.intp), 0.0
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
                at.rest = self._has_unlisted(at)
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
        moved = d = None
        if vector.diagonal != -1:
            demand(not at.rest, "a diagonal does not cover it")
            moved = self._moved(vector.diagonal, np.concatenate([own for own, _ in parts]), at)
            d = moved.over_all(len(at.terms))
        points, Z = list[Point](), np.zeros(len(at.terms))
        for t, part in enumerate(parts):
            if at.rest or (close and d is None):
                point = products.closer(t, *part, alive, np.longdouble if close else np.float64)
            else:
                point = products.at(t, *part, moved, alive)
            points.append(point.times(multiple))
            ends = (boxes.low[t], boxes.high[t]) if boxes.stated or moved is not None else None
            Z += prices(products.lam, points[-1].up, points[-1].down, ends, 0.0 if d is None else d)
        if len(parts) > 1:
            Z *= 1.0 + (len(parts) + 4.0) * U
        others = self._others(vector, at, close=close) if at.rest else np.zeros(0)
        scalable = d is None and not boxes.stated
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

    # Monomials that are not listed ----------------------------------------------------------------

    def _has_unlisted(self, at: Fixings) -> bool:
        """Whether a node may leave monomials alive that are not listed."""
        s, out = self.s, np.flatnonzero(at.terms == OUT).tolist()
        gone = {*s.excluded_terms, *(s.monomials[j] for j in out)}
        s = replace(alive_part(s, at), excluded_terms=tuple(gone))
        try:
            few = plain_count(s) <= KEPT
            return not (few and set(s.monomials).issuperset(all_monomials(s, KEPT)))
        except Rejected:
            return True

    def _others(self, vector: Vector, at: Fixings, *, close: bool) -> Floats:
        """Return the L + 1 largest prices of unlisted monomials that a node leaves alive."""
        alive, L, known = at.inputs != OUT, self.rules.room(at), self._priced.get(id(vector))
        if known is None or np.any(alive & ~known[0]) or (close and np.any(alive != known[0])):
            known = alive, self._unlisted(vector, self.kept[alive])
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

    def _unlisted(self, vector: Vector, inputs: Positions) -> Unlisted:
        """Price a vector against all monomials of some inputs."""
        products, s, degree = self.products, self.s, self.s.degree
        a, t = products.residual(0, *self.vectors(vector)[0]), float(vector.multiple)
        count = sum(map(len, columns_of(inputs.tolist(), s).values()))
        self.work += float(len(a)) * comb(count + degree, degree)
        self.work += EACH * sum(comb(count + d - 3, d - 2) for d in range(5, degree + 1))
        demand(self.work <= MOST_WORK, "it has more monomials to price than a reader can")
        found, beyond = largest_products(products, a, inputs)
        listed = set(s.monomials)
        found = [one for one in found if one.monomial not in listed and may_live(one.monomial, s)]
        names = [one.monomial for one in found]
        up, down = (np.array([one[side] for one in found], dtype=np.float64) for side in (1, 2))
        point, reach = Point(0.0, 0.0, 0.0, up, down).times(t), beyond * t * (1.0 + 4.0 * U)
        rest = float(prices(products.lam, np.array([reach]), np.array([reach]))[0])
        rest += TINY if beyond > 0.0 else 0.0  # none is no price that is too small for a float
        boxes, ends = products.boxes, None
        if boxes.stated:
            boxes = products.boxes_of(names)
            ends = boxes.low[0], boxes.high[0]
        Z = np.maximum(prices(products.lam, point.up, point.down, ends), rest)
        order = np.argsort(-Z, kind="stable").tolist()
        return Unlisted([names[j] for j in order], Z[order], rest)
