"""One or two monomials that may join, of all there are, as points in a few dimensions.

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

from math import sqrt
from typing import Any

import numpy as np

from polysharp.checker.allowed import (
    FREE,
    IN,
    Fixings,
    Rejected,
    Rules,
    alive_part,
    all_monomials,
    demand,
    owner,
)
from polysharp.checker.checked_rows import Columns
from polysharp.checker.curvature import SAFE, U
from polysharp.checker.evidence import Floats, Positions, Term

MOST = 300_000  # monomials that may join a node
CHUNK = 1024  # of them formed at a time
SLAB = 256  # points that are compared with others at a time
MOST_PAIRS = 1e11
NEW = 1e-4  # share of a column that must be new for it to count


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
        for m in all_monomials(alive_part(s, at), MOST)
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
        demand(work <= MOST_PAIRS, "it has more pairs of monomials to try than a reader can")
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
