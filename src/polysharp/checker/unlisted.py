"""Prices of monomials that nobody has listed.

A vector a over the rows is multiplied with every monomial that the statement allows.  Those with
the largest products get the prices of ``inequalities``, within the intervals of their coefficients;
all others cost no more than the largest product among them would if nothing bounded it.

With b = sqrt(v) a, made to sum to zero where the intercept is free,

    m_j'a = scale_j sum_t b_t prod_{c in j} x_tc,

which for all monomials of degree 2 is the matrix X'diag(b)X, for degree 3 one such matrix per
column c with b x_c in place of b, and so on; columns are inputs and functions of them.  A monomial
is a head, all its columns but the last two, and an entry (j, k) of a matrix.  The vector that is
multiplied is the one that b stands for exactly, so only these sums are rounded: by at most
(n + 4 d + 24) u |m_j| |a|, with |m_j| <= scale_j prod_c (sum_t v_t x_tc^(2d))^(1/2d) by Hoelder's
inequality; and what is left of the sum of b counts with the mean of the monomial, which is at most
|m_j| / sqrt(sum v).

Rules about terms are about pairs of columns (an input and its own inverse, a square root twice,
powers of inputs of two values) or count inputs; both are looked up for a whole matrix.

One or two monomials that may join, of all there are, are points in a few dimensions (``Points``).
Let the columns of U, over the rows, have N = U'U + U'M_O M_O'U / lam <= (1 + e) I, O being in.  Any
vector a = U t proves a bound of every support of O and F, and the best t for each F proves

    P(F) / (1 + e),   P(F) = min_v 1/2 |b - sum_F c_j v_j|^2 + lam/2 |v|^2,   b = U'y, c_j = U'm_j.

With b known up to d and each c_j up to d_j, the root of 2 P is wrong by d and by a share of
sqrt(sum_F d_j^2 / lam) at most, since the best v has |v| <= sqrt(2 P / lam).  So P need only be
compared with a level.  One point gains (c_j'b)^2 / (2 (lam + |c_j|^2)); two, scaled to
lam + |c_j|^2 = 1, gain more than g/2 where b_i^2 + b_j^2 - 2 b_i b_j h > g (1 - h^2), h = c_i'c_j.

A pair that leaves less than tau^2 / 2 has lines of p_j = c_j - (c_j'b) b / |b|^2 that are nearly
the same: in every coordinate of p_j/|p_j|, its sign apart, intervals of half widths
1.5 tau |c_j'b| / (|b| |p_j| (|b| - tau)) meet.  Only those pairs are tried.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import comb, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import (
    FREE,
    IN,
    OUT,
    Fixings,
    Rejected,
    Rules,
    alive_part,
    all_monomials,
    columns_of,
    demand,
    is_trivial,
    living,
    owner,
    shape_allowed,
)
from polysharp.checker.checked_rows import CheckedBoxes, Columns, scale_squared
from polysharp.checker.curvature import SAFE, TINY, Point, U
from polysharp.checker.evidence import Floats, Positions, Statement, Term, Vector, VectorPart
from polysharp.checker.inequalities import prices

KEPT = 8192  # monomials that a pass names
MOST_WORK = 1e15  # multiply-adds of all passes together
EACH = 2e10  # that a matrix counts for beyond degree 4, where they are small and many
MOST_POINTS = 300_000  # monomials that may join a node
CHUNK = 1024  # of them formed at a time
SLAB = 256  # points that are compared with others at a time
MOST_MEETINGS = 1e11  # pairs of points
NEW = 1e-4  # share of a column that must be new for it to count


# The monomials with the largest prices, their prices, and that of any other one (0: there is none).
PriceList = tuple[list[Term], Floats, float]


class Pricing:
    """Prices vectors against all unlisted monomials; ``work`` counts the passes of all nodes."""

    def __init__(self, rules: Rules, columns: Columns) -> None:
        self.rules, self.columns, self.s, self.work = rules, columns, columns.s, 0.0
        self.kept = np.array(self.s.kept_inputs, dtype=np.intp)
        self._priced: dict[int, tuple[NDArray[np.bool_], PriceList]] = {}

    def is_needed(self, at: Fixings) -> bool:
        """Whether a node may leave monomials alive that are not listed."""
        s, out = self.s, np.flatnonzero(at.terms == OUT).tolist()
        gone = {*s.excluded_terms, *(s.monomials[j] for j in out)}
        known, part = gone.union(s.monomials), replace(alive_part(s, at), excluded_terms=(*gone,))
        try:
            return any(m not in known for m in all_monomials(part, KEPT))
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
        (monomials, largest, rest), Z = known[1], list[float]()
        place, left = {int(i): a for a, i in enumerate(self.kept)}, self.rules.input_room(at)
        for m, own in zip(monomials, largest.tolist(), strict=True):
            states = [at.inputs[place[i]] for i in {owner(c, self.s) for c in m}]
            if OUT not in states and states.count(FREE) <= left:
                Z.append(own)
            if len(Z) > L:
                return np.array(Z)
        return np.array(Z + [rest] * (L + 1 - len(Z) if rest > 0.0 else 0))

    def _price(self, part: VectorPart, t: float, inputs: Positions) -> PriceList:
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
        return [names[j] for j in order], Z[order], rest


class Correlated(NamedTuple):
    """A monomial, and bounds on |m_j'a|, on m_j'a and on -m_j'a."""

    size: float
    up: float
    down: float
    monomial: Term


def largest_products(
    columns: Columns, a: Floats, inputs: Positions
) -> tuple[list[Correlated], float]:
    """Return the monomials of some inputs with the largest |m_j'a|, and what others reach."""
    s, v, n = columns.s, columns.rows.v, len(a)
    b = columns.root * a
    if s.fit_intercept:
        b -= v * (b.sum() / columns.total)
    size = sqrt(float((b * b / v).sum())) * (1.0 + n * U)
    left = abs(float(b.sum())) + n * U * float(np.abs(b).sum())
    whole = left + (n + 12.0) * U * size * sqrt(columns.total)  # of the constant
    found = [] if s.fit_intercept else [Correlated(whole, whole, whole, ())]
    rest, products = 0.0, _Heads(s, inputs)
    X = columns.coded[:, products.columns]
    for d in range(1, s.degree + 1) if len(inputs) and X.size else ():
        if s.heredity is not None and d > s.max_terms:
            break  # ancestors down to degree one would be d terms
        norms = _norms(X, v, d)
        off = left / sqrt(columns.total) if s.fit_intercept else 0.0
        unit = SAFE * ((n + 4.0 * d + 24.0) * U * size + off)
        for head in products.of_degree(d):
            sums, tail = _sums(X, b, head, d), norms[_first(head) :]
            scales = _scales(s, head, sums.shape[1], d)
            across = tail[None] if d == 1 else np.multiply.outer(tail, tail)
            error = scales * across * (unit * float(np.prod(norms[list(head)]))) + TINY
            rho = sums * scales
            sizes = np.abs(rho) + error
            demand(np.isfinite(sizes).all(), "its powers leave the floats")
            sizes = np.where(products.allowed(head, d), sizes, -1.0).ravel()
            top = np.flatnonzero(sizes > rest)
            if len(top) > KEPT:
                top = top[np.argpartition(-sizes[top], KEPT)]
                rest = max(rest, float(sizes[top[KEPT]]))
                top = top[:KEPT]
            own, wrong = rho.ravel()[top], error.ravel()[top]
            parts = sizes[top], wrong + own, wrong - own
            names = products.names(head, d, *np.divmod(top, sums.shape[1]))
            found += map(Correlated, *(part.tolist() for part in parts), names)
            if len(found) > 4 * KEPT:
                rest = max(rest, _cut(found))
    return found, max(rest, _cut(found)) if len(found) > KEPT else rest


class _Heads:
    """The columns of some inputs, numbered anew, and which products of them the rules allow."""

    def __init__(self, s: Statement, inputs: Positions) -> None:
        of_inputs = columns_of(inputs.tolist(), s)
        self.s, self.columns = s, sorted(c for own in of_inputs.values() for c in own)
        self.owners = np.array([owner(c, s) for c in self.columns], dtype=np.intp)
        place = {c: j for j, c in enumerate(self.columns)}
        self.clash = np.zeros((len(place), len(place)), dtype=np.bool_)
        for own in of_inputs.values():
            for a, b in product(own, own):
                self.clash[place[a], place[b]] = is_trivial((a, b), s)

    def of_degree(self, d: int) -> list[Term]:
        """Return the heads of monomials of degree d."""
        heads = combinations_with_replacement(range(len(self.columns)), max(d - 2, 0))
        return [h for h in heads if shape_allowed(tuple(self.columns[j] for j in h), self.s)]

    def names(self, head: Term, d: int, j: Positions, k: Positions) -> list[Term]:
        """Return the monomials at some entries of a matrix."""
        named, columns = [self.columns[c] for c in head], np.array(self.columns[_first(head) :])
        tails = columns[np.column_stack([j, k][-min(d, 2) :])]
        return [(*named, *tail) for tail in tails.tolist()]

    def allowed(self, head: Term, d: int) -> NDArray[np.bool_]:
        """Which entries of a matrix are monomials that the rules allow, each once."""
        s, h, first = self.s, list(head), _first(head)
        owners, within = self.owners[first:], self.owners[h]
        new = np.not_equal(owners, within[:, None]).all(axis=0, keepdims=True)
        good = np.asarray(~self.clash[h, first:].any(axis=0, keepdims=True))
        count = len(set(within.tolist())) + new.astype(np.intp)
        if d > 1:
            count = count.T + (new & (owners[:, None] != owners))
            good = np.triu(good & good.T & ~self.clash[first:, first:])
        return good & (count <= s.max_interaction) & ((count < 2) | (d <= s.interaction_degree))


def _cut(found: list[Correlated]) -> float:
    """Leave the largest ones in place; return the size of the largest that goes."""
    found.sort(reverse=True)
    gone = found[KEPT].size
    del found[KEPT:]
    return gone


def _first(head: Term) -> int:
    """The first column that may follow."""
    return head[-1] if head else 0


def _sums(X: Floats, b: Floats, head: Term, d: int) -> Floats:
    """Sums of the monomials of degree d with a head: a matrix over the last two columns."""
    if d == 1:
        return np.asarray(b @ X)[None]
    weight = b * np.prod(X[:, list(head)], axis=1) if head else b
    tail = X[:, _first(head) :]
    return np.asarray((tail * weight[:, None]).T @ tail)


def _scales(s: Statement, head: Term, size: int, d: int) -> Floats:
    """The scales of the monomials of degree d with a head, where j <= k."""
    # Equal factors are those with j = 0 (equal to the last of the head) and with j = k.
    repeated, different = head.count(_first(head)), (*head, *((-1, -2)[: d - len(head)]))
    scale = sqrt(scale_squared(different, s.degree))
    scales = np.full((1 if d == 1 else size, size), scale)
    if d > 1:
        scales[np.diag_indices(size)] /= sqrt(2.0)
        scales[0, 1:] /= sqrt(repeated + 1.0)
        scales[0, 0] = sqrt(scale_squared((*head, *(2 * (_first(head),))), s.degree))
    return scales


def _norms(X: Floats, v: Floats, d: int) -> Floats:
    """(sum_t v_t x_tc^(2d))^(1/2d) of every column, rounded up."""
    peak = np.abs(X).max(axis=0)
    peak[peak == 0.0] = 1.0
    return np.asarray(SAFE * peak * (v @ (X / peak) ** (2 * d)) ** (0.5 / d))


def _orthonormal(columns: Columns, inside: Positions, along: Positions) -> Floats:
    """Return y and columns, less what the ones inside explain, made orthonormal somehow."""
    o, n = len(inside), len(columns.root)
    M = columns.centred(slice(None), np.concatenate([inside, along]))
    held, A = M[:, :o], np.column_stack([M[:, -1], M[:, o:-1]])
    try:
        A[:, 1:] /= _length(A[:, 1:])  # so that R says how much of each is new
        A -= held @ np.linalg.solve(held.T @ held + columns.lam * np.eye(o), held.T @ A)
        A[:, 0] /= _length(A[:, 0])
        Q, R = np.linalg.qr(np.vstack([A, held.T @ A / sqrt(columns.lam)]))
    except np.linalg.LinAlgError:
        raise Rejected("the columns of a screening are no vectors") from None
    return np.asarray(Q[:n, np.abs(np.diagonal(R)) > NEW])


def _length(A: Floats) -> Any:
    """Return the lengths of columns; infinity where there is none."""
    length = np.linalg.norm(A, axis=0)
    return np.where(length > 0.0, length, np.inf)


def _joining(columns: Columns, rules: Rules, at: Fixings) -> list[Term]:
    """Return the monomials, listed or not, that a node leaves free."""
    s = columns.s
    kept = np.array(s.kept_inputs, dtype=np.intp)
    decided = {columns.monomials[j] for j in np.flatnonzero(at.terms != FREE).tolist()}
    undecided = {int(i) for i in kept[at.inputs == FREE]}
    left = rules.input_room(at)
    return [
        m
        for m in all_monomials(alive_part(s, at), MOST_POINTS)
        if m not in decided and len(undecided.intersection(owner(c, s) for c in m)) <= left
    ]


class Points:
    """Points c_j of all monomials that may join a node, those that stay marked, and b."""

    def __init__(
        self, columns: Columns, rules: Rules, along: Positions, only: Positions, at: Fixings
    ) -> None:
        inside, lam = np.flatnonzero(at.terms == IN), columns.lam
        vectors = _orthonormal(columns, inside, along)
        n, K = vectors.shape
        sums, errors = columns.products(vectors, inside)
        W, loose = sums[:-1] / sqrt(lam), float(np.linalg.norm(errors[inside])) / sqrt(lam)
        N, size = vectors.T @ vectors + W.T @ W, float(np.linalg.norm(W))
        largest = max(1.0, float(np.diagonal(N).max(initial=0.0)))
        excess = float(np.linalg.norm(N - np.eye(K))) + (2.0 * size + loose) * loose
        self.excess = SAFE * (excess + K * (n + len(inside) + 16.0) * U * largest)
        names, stays = _joining(columns, rules, at), {columns.monomials[j] for j in only.tolist()}
        self.kept = np.array([m in stays for m in names], dtype=np.bool_)
        C, wrong = np.zeros((len(names), K)), 0.0
        for start in range(0, len(names), CHUNK):
            some = names[start : start + CHUNK]
            own = Columns(columns.s, columns.rows, some)
            found, off_by = own.products(vectors, np.arange(len(some)))
            C[start : start + CHUNK] = found[:-1]
            wrong = max(wrong, float(np.linalg.norm(off_by[:-1], axis=1).max()))
        self.shift, self.error = SAFE * wrong / sqrt(lam), float(np.linalg.norm(errors[-1]))
        self.b, self.whole = sums[-1], float(sums[-1] @ sums[-1])
        self.scaled = C / np.sqrt(lam + (C * C).sum(axis=1))[:, None]
        self.gain = self.scaled @ self.b
        self.slack = 64.0 * (K + 8.0) * U * self.whole + 1e-250 * (1.0 + self.whole) / lam
        demand(np.isfinite(C * C).all() and self.slack < np.inf, "its powers leave the floats")

    def reach(self, claim: float, room: int) -> bool:
        """Whether all supports with a monomial that does not stay are proved to cost the claim."""
        if room <= 0 or claim <= 0.0 or self.kept.all():
            return True
        tau = sqrt(2.0 * claim * (1.0 + self.excess)) * (1.0 + sqrt(room) * self.shift)
        tau = (tau + self.error) * (1.0 + 64.0 * U)
        alone = self.whole - self.gain**2 >= tau * tau + self.slack
        if not alone[~self.kept].all():
            return False
        return room == 1 or self._pairs_reach(tau)

    def _pairs_reach(self, tau: float) -> bool:
        """Whether all pairs that are not kept leave tau^2 / 2 at least."""
        size, f = sqrt(self.whole), len(self.gain)
        places, half = np.zeros((f, 1)), np.full(f, np.inf)
        if tau < 0.99 * size:
            across = self.scaled - np.multiply.outer(self.gain / self.whole, self.b)
            length = np.sqrt((across * across).sum(axis=1))
            near = length > 1e-6 * np.abs(self.gain) / size
            half[near] = 1e-8 + 1.5 * tau * np.abs(self.gain[near]) / (
                size * length[near] * (size - tau)
            )
            places = np.zeros(across.shape)
            places[near] = np.abs(across[near] / length[near, None])
        ways = [_meetings(places[:, k], half) for k in range(places.shape[1])]
        order, stop = min(ways, key=lambda way: int((way[1] - np.arange(f)).sum()))
        work = float((stop - np.arange(f)).sum())
        demand(work <= MOST_MEETINGS, "it has more pairs of monomials to try than a reader can")
        C, b, kept = self.scaled[order], self.gain[order], self.kept[order]
        g = self.whole - tau * tau
        for start in range(0, f, SLAB):
            rows = slice(start, min(start + SLAB, f))
            others = slice(start, int(stop[rows].max()))
            h, own, last = C[rows] @ C[others].T, b[rows, None], b[others]
            more = own * own + last * last - 2.0 * own * last * h - g * (1.0 - h * h)
            open_ = ~(more < -self.slack) & ~(kept[rows, None] & kept[others])
            first = np.arange(rows.start, rows.stop)[:, None]
            if (open_ & (first < np.arange(others.start, others.stop))).any():
                return False
        return True


def _meetings(places: Floats, half: Floats) -> tuple[Positions, Positions]:
    """Order intervals by where they begin; say which is the last that each may meet."""
    low = places - half
    order = np.argsort(low)
    return order, np.searchsorted(low[order], (places + half)[order], side="right")
