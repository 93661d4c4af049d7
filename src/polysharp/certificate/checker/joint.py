"""Proofs about several responses with one support: the sum of what each of them says.

The cost of a support is the sum over the responses, each divided by the scale that the statement
names (data here: the numbers that double precision makes of that).  For vectors w_t, one per
response, with one diagonal for all, the bounds of ``bounds`` add:

    sum_t base_t - spent,   spent = sum_in Z_j + top_L(Z_j, j free),   Z_j = sum_t Z_tj,
    s sum_t y_t'a_t - s^2 (sum_t |a_t|^2 / 2 + spent)      where d = 0, for any s.

A vector of the proof lists w_1, w_2, ... end to end: position t f + j names monomial j of response
t, f monomials being listed.  Splits, screenings and rules are those of one response (``reader``).
Exhausted nodes are gone through as in ``ends``, with sum_t b_tj^2 and sum_t b_tj b_tk in place of
b_j^2 and b_j b_k, where b_t = q_t over the length of all responses together.  The gain of
response t is wrong by at most its share of sum_t |y_t|^2 times the slack there, hence the sum of
them by no more than the largest slack; adding T squares takes T further roundings, of which k
eliminations have k T.

Part of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.checker.bounds import Tangent, costs, prices
from polysharp.certificate.checker.ends import (
    CHUNK,
    FEW,
    MOST_HITS,
    TOO_MANY,
    Exhaustion,
    all_choices,
    gain_slack,
)
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.reader import ProofPart, ProofReader
from polysharp.certificate.checker.rows import SAFE, Point, U, read_rows
from polysharp.certificate.checker.rules import (
    FREE,
    IN,
    OUT,
    Array,
    Fixings,
    Indices,
    Rejected,
    Rules,
    demand,
    read_indices,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polysharp.certificate.proof import Proof, ProofNode, Vector

CLOSER = 100  # completions that are bounded more closely, at most, below one node


def joint_reader(
    proof: Proof,
    X: Any,
    Y: Any,
    weight: Any,
    functions: Mapping[str, Any] | None,
    *,
    exact: bool,
) -> JointReader:
    """Return the reader of a proof about several responses, the columns of Y."""
    s = proof.statement
    assert s is not None
    Y = np.asarray(Y, dtype=np.float64)
    named = all(isfinite(scale) and scale > 0.0 for _, scale in s.responses)
    demand(named, "a response has no scale")
    count = len(s.responses)
    demand(Y.ndim == 2 and Y.shape[1] == count, f"y is no table of {count} responses")
    demand(s.listed, "it has several responses and monomials that are not listed")
    demand(not s.exact_size, "it has several responses and an exact size")
    demand(not proof.exceptions, "it has several responses and exceptions")
    found: list[Moments] = []
    for t, (y, (_, scale)) in enumerate(zip(Y.T, s.responses, strict=True)):
        rows = read_rows(s, X, y, weight, functions, scale)
        if exact:
            from polysharp.certificate.checker.exact import Exact, read_table

            precise = Exact(s, rows, s.monomials, read_table(X, y / scale, weight))
            precise.learn(_of_response(v, t, count, len(s.monomials)) for v in proof.vectors)
            own: Moments = precise
        else:
            own = Moments(s, rows, s.monomials)
        if found:
            own.G = found[0].G  # the same columns: one matrix is within the errors of all
        found.append(own)
    return JointReader(proof, Rules(s), found)


def _of_response(vector: Vector, t: int, count: int, f: int) -> Vector:
    """Return the part of a vector that one response has."""
    flat = read_indices(vector.index, count * f, "a vector")
    value = np.asarray(vector.value, dtype=np.float64)
    fits = value.shape == flat.shape and bool(np.isfinite(value).all())
    demand(fits, "a vector is no list of numbers")
    mine = flat // f == t
    return replace(vector, index=flat[mine] % f, value=value[mine])


def _sum(values: Sequence[float], side: float) -> float:
    """Add numbers up and round the sum down (side -1) or up (side 1)."""
    return float(sum(values) + side * 2.0 * len(values) * U * sum(map(abs, values)))


class JointReader(ProofReader):
    """Checks the nodes of a proof against the moments of all responses."""

    def __init__(self, proof: Proof, rules: Rules, every: list[Moments]) -> None:
        super().__init__(proof, rules, every[0])
        self.every, self.ends = every, JointExhaustion(every, rules)

    def cost_at_most(self, S: Indices) -> float:
        """Return what a support costs at most, all responses together."""
        return _sum([own.cost_at_most(S) for own in self.every], 1.0)

    def tangent(self, vector: Vector, at: Fixings, *, close: bool) -> Tangent:
        """Evaluate a vector of all responses at a node."""
        f, alive, count = len(at.terms), np.flatnonzero(at.terms != OUT), len(self.every)
        parts = [_of_response(vector, t, count, f) for t in range(count)]
        used = np.concatenate([part.index for part in parts])
        d = self._diagonal(vector.diagonal, used, at) if vector.diagonal != -1 else None
        points, Z = [], np.zeros(f)
        for own, part in zip(self.every, parts, strict=True):
            index, w = part.index, part.value
            if close and d is None:
                point = own.closer(index, w, alive)
            else:
                point = own.at(index, w, d, alive)
            points.append(point)
            Z += prices(own, np.arange(f), point, d)
        Z *= 1.0 + (len(self.every) + 4.0) * U
        total = Point(
            _sum([point.base for point in points], -1.0),
            _sum([point.ya for point in points], -1.0),
            _sum([point.aa for point in points], 1.0),
            Z[:0],
            Z[:0],
        )
        room = self.rules.room(at)
        scalable = d is None and not self.moments.boxes.stated
        return Tangent(total, Z, at, room, scalable=scalable, others=Z[:0])

    def _split_by_sets(
        self, node: ProofNode, at: Fixings | None, claim: float
    ) -> tuple[float, list[ProofPart]]:
        raise Rejected("splits by sets of inputs, with several responses")


class JointExhaustion(Exhaustion):
    """Goes through all completions of a node, for several responses."""

    def __init__(self, every: list[Moments], rules: Rules) -> None:
        super().__init__(max(every, key=lambda own: own.y_norm), rules, frozenset())
        self.every = every

    def least(self, at: Fixings, claim: float) -> float:
        """Return the claim, or what the cheapest completion costs if that is less."""
        S, J = np.flatnonzero(at.terms == IN), np.flatnonzero(at.terms == FREE)
        self.L, self.J = min(self.rules.room(at), len(J)), J
        if not (claim > 0.0 and self.moments.y_norm > 0.0):
            return 0.0
        H, B, T, mu = self._joint(np.concatenate([S, J]), len(S) + self.L, claim)
        if self.L > 1 and comb(len(J), self.L) > FEW:
            return self._least_of(S, self._hits(at, H, B, T, len(S)), claim, mu)[0]
        # A support costs no less than one that contains it: smaller ones are tried only where the
        # rules forbid those that contain them.
        hits, least = all_choices(len(J), self.L), claim
        while len(hits):
            value, forbidden = self._least_of(S, [hits], claim, mu)
            least = min(least, value)
            size = hits.shape[1] - 1
            parts = {part for one in forbidden for part in combinations(one, size) if size >= 0}
            demand(len(parts) <= MOST_HITS, TOO_MANY)
            hits = np.array(sorted(parts), dtype=np.intp).reshape(len(parts), max(size, 0))
        return least

    def _joint(self, index: Indices, k: int, claim: float) -> tuple[Array, Array, float, float]:
        """Return H, B, T less twice the slack, and mu, as at the head."""
        size = [own.y_norm + own.y_error for own in self.every]
        total = sqrt(_sum([one * one for one in size], 1.0)) or 1.0
        eps = max(
            (own.y_error / y for own, y in zip(self.every, size, strict=True) if y), default=0
        )
        H, _, _, mu = self._scaled(index, k, claim)
        m, root = self.moments, np.sqrt(self.moments.G[index, index] + self.moments.lam)
        r = float((m.error[index] / root).max(initial=0.0))
        eps = SAFE * (m.unit + 2.0 * r + eps + (k + 12.0) * U)
        each = len(self.every) + 4.0
        self.doubt = 2.0 * gain_slack(eps + SAFE * len(index) * U, len(index), mu, each)
        slack = gain_slack(eps, k, mu, each)
        none = np.zeros(0, dtype=np.intp)
        least = _sum([own.yy - own.margins(none, np.zeros(0))[2] for own in self.every], -1.0)
        B = np.array([own.q[index] for own in self.every]) / (root * total)
        return H, B, (least - 2.0 * claim) / total**2 - 2.0 * slack, mu

    def _least_of(
        self, S: Indices, found: list[Indices], claim: float, mu: float
    ) -> tuple[float, list[tuple[int, ...]]]:
        """Return the claim, or the least cost of what is allowed, and what else costs less."""
        least, left = claim, CLOSER
        # Within intervals the ridge regression is no good point: all else is tried there as well.
        more = inf if self.moments.boxes.stated or self.moments.is_exact else 0.0
        forbidden: list[tuple[int, ...]] = []
        for hits in found:
            for start in range(0, len(hits), CHUNK):
                chunk = hits[start : start + CHUNK]
                first = np.broadcast_to(S, (len(chunk), len(S)))
                sets = np.concatenate([first, self.J[chunk]], axis=1)
                values = self._costs(sets, 0.0, 0.0)
                low = np.flatnonzero(~(values >= claim))
                values[low] = np.maximum(values[low], self._costs(sets[low], more, mu))
                for a in low[~(values[low] >= claim)].tolist():
                    if not self.rules.allows(sets[a]):
                        forbidden.append(tuple(chunk[a].tolist()))
                        continue
                    if left > 0:
                        left -= 1
                        values[a] = max(values[a], float(self._costs(sets[a : a + 1], inf, mu)[0]))
                    least = min(least, float(values[a]))
        return least, forbidden

    def _costs(self, sets: Indices, claim: float, mu: float) -> Array:
        """Return bounds on what supports cost; tried again where a response is below the claim."""
        if not sets.shape[1]:
            none = np.zeros(0, dtype=np.intp)
            base = [own.at(none, np.zeros(0), None, none).base for own in self.every]
            return np.full(len(sets), _sum(base, -1.0))
        each = np.array([costs(own, sets, True, 0, claim, mu) for own in self.every])
        total = each.sum(axis=0) - 2.0 * len(each) * U * np.abs(each).sum(axis=0)
        return np.asarray(np.fmax(total, -inf))  # never NaN, which would vanish in a minimum
