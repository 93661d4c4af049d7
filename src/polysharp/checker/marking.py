"""Marking the completions of a node that may cost less than the claim, depth first.

H and b are what the members so far leave, columns and responses having had length one.  With
h = diag(H) and T twice the gain that the claim still leaves to the members to come, the last two
are treated together:

    b_j^2 > T h_j       or       x (T x - 2 b_j b_k) + b_j^2 h_k + b_k^2 h_j > T h_j h_k,  x = H_jk,

mark the completions that may cost less than the claim.  If there are several responses, b has a row
for each, and its squares and products are sums over them.

More members never gain less: if all those from one on gain too little together, no completion
among them is looked at (leaps and bounds).  If four members or more are to come, the last one is
that which gains least, the one before it that which gains least beside it, and so on.  The gains of
the last ones together are sums of squares of z, F z = b, F F' = H a factor from the last member on.
Once member a is in, with u its row of F, sigma = F_aa^2 plus the squares of u up to a column and
p = F_aa z_a plus the products u z up to there, the z of that column is

    (sigma z - u p) / sqrt(sigma (sigma + u^2)).

If rounding leaves no pivot of a candidate, all completions with it are marked.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import demand
from polysharp.checker.curvature import U
from polysharp.checker.evidence import Floats, Positions

Support = tuple[int, ...]

MOST_PAIRS = 2e12  # in all leaves of a proof together: an hour or two
MOST_HITS = 200_000  # refitted below one node
ENTRIES = 2**16  # of matrices formed at a time, which stay in a cache
BORDER = 1e30  # more than any response leaves, so that a factorisation solves with them
SORTED = 4  # members to come from which an order of their own is worth it
TOO_MANY = "it has more completions than a reader can try"
TOO_CLOSE = "too many of its completions come close to the bound"


class Marking:
    """Marks the completions by up to L members that may gain T / 2, depth first."""

    def __init__(
        self, L: int, uses: NDArray[np.bool_], room: int, doubt: float, work: float = 0.0
    ) -> None:
        self.L, self.uses, self.room, self.doubt, self.work = L, uses, room, doubt, work
        self.found: dict[int, list[Any]] = {}  # by size
        self.count = 0

    def run(self, H: Floats, B: Floats, T: float, *, exact_size: bool) -> list[Positions]:
        """Return the marked completions, one array for each size."""
        self.least_size = self.L if exact_size else 0
        self.rounding = 128.0 * len(B) * U
        fit = np.flatnonzero(self.uses.sum(axis=1) <= self.room)
        if self.rounding >= T:
            self._note((), np.zeros((1, 0), dtype=np.intp))  # no member at all
        self._go(H[np.ix_(fit, fit)], B[:, fit], T, fit, ())
        return [np.concatenate(parts) for _, parts in sorted(self.found.items())]

    def _note(self, members: Support, more: Positions) -> None:
        """Take down members with each row of further ones, if the rules allow it."""
        size = len(members) + more.shape[1]
        if size < self.least_size or not len(more):
            return
        first = np.broadcast_to(np.array(members, dtype=np.intp), (len(more), len(members)))
        sets = np.concatenate([first, more], axis=1)
        sets = sets[self.uses[sets].any(axis=1).sum(axis=1) <= self.room]
        self.count += len(sets)
        demand(self.count <= MOST_HITS, TOO_CLOSE)
        self.found.setdefault(size, []).append(sets)

    def _note_all(self, members: Support, J: Positions, least: int = 0) -> None:
        """Take down members with any of the candidates J, at least some and as many as may join."""
        for k in range(least, min(self.L - len(members), len(J)) + 1):
            demand(self.count + comb(len(J), k) <= MOST_HITS, TOO_CLOSE)
            more = np.array(list(combinations(J.tolist(), k)), dtype=np.intp)
            self._note(members, more.reshape(-1, k))

    def _go(self, H: Floats, B: Floats, T: float, J: Positions, members: Support) -> None:
        """Mark what comes after some members; H, B and T are what those leave, over J."""
        left = self.L - len(members)
        if not T > 0.0 or not left:  # with nothing left to gain all may do
            self._note_all(members, J, 1)
            return
        lost = np.flatnonzero(~(np.diagonal(H) > 0.0))
        for a in lost.tolist():  # rounding has left no pivot: it may gain anything
            self._note_all((*members, int(J[a])), np.delete(J, lost[lost <= a]))
        if len(lost):
            rest = np.delete(np.arange(len(J)), lost)
            H, B, J = H[np.ix_(rest, rest)], B[:, rest], J[rest]
        m = len(J)
        if not m:
            return
        h, S = np.diagonal(H), (B * B).sum(axis=0)
        self._mark_single(h[None], S[None], np.array([T]), J, members, None)
        if left == 1:
            return
        if left == 2:
            every = np.zeros((1, m)), h[None], S[None], B[:, None], np.array([T])
            self._mark_pairs(H, every, J, members, np.array([-1]), np.array([m]))
            return
        factor = _factor(H, B, greedy=left >= SORTED or not members)
        self.work += 0.5 * m**3
        last = m
        if factor is not None:
            order, F, z = factor
            H, B, J = H[np.ix_(order, order)], B[:, order], J[order]
            last = _cut((z * z).sum(axis=0)[None], np.array([T]), self.doubt)[0]
        h = np.diagonal(H)
        if left > 3:
            for a in range(min(last, m)):
                self._go(*self._taken(H, B, T, J, members, a), (*members, int(J[a])))
            return
        last = min(last, m)
        cuts, gained = np.full(last, m), T - (B * B).sum(axis=0)[:last] / h[:last]
        if factor is not None:
            cuts = _cut(_squares_with(F[:last], z), gained, self.doubt)
        start = 0
        while start < last:  # several first members at a time
            pairs = (m - start) * max(1, int(cuts[start:].max()) - start)  # of one of them
            stop = min(last, start + max(1, ENTRIES // pairs))
            self._mark_triples(H[start:, start:], B[:, start:], J[start:], members,
                               gained[start:stop], cuts[start:stop] - start)  # fmt: skip
            start = stop

    def _mark_triples(
        self, H: Floats, B: Floats, J: Positions, members: Support, T: Floats, cuts: Positions
    ) -> None:
        """Mark completions by three members, or two, of which the first is one of the first."""
        h, some, places = np.diagonal(H), np.arange(len(T)), np.arange(len(J))
        valid, root = places > some[:, None], np.sqrt(h[some])
        V = np.where(valid, H[some] / root[:, None], 0.0)
        rest = B[:, None, :] - V * (B[:, some] / root)[:, :, None]
        left = np.where(valid, h - V * V, 1.0)
        lost = ~(left > 0.0)
        for a, k in zip(*np.nonzero(lost), strict=True):  # no pivot: these two may gain anything
            pair = int(J[a]), int(J[k])
            self._note_all((*members, *pair), J[(places > a) & (places != k)])
        valid = valid & ~lost
        left = np.where(valid, left, 1.0)
        S = np.where(valid, (rest * rest).sum(axis=0), 0.0)
        self._mark_single(left, S, T, J, members, (J[some], valid))
        given = V, left, np.where(valid, S, -1e100), rest, T
        self._mark_pairs(H, given, J, members, some, cuts, J[some])

    def _taken(
        self, H: Floats, B: Floats, T: float, J: Positions, members: Support, a: int
    ) -> tuple[Floats, Floats, float, Positions]:
        """Return what is left for the candidates behind a once it is in."""
        used = self.uses[[*members, int(J[a])]].any(axis=0)
        behind = np.arange(a + 1, len(J))
        behind = behind[(self.uses[J[behind]] | used).sum(axis=1) <= self.room]
        root = sqrt(H[a, a])
        v, b = H[a, behind] / root, B[:, a] / root
        rest = H[np.ix_(behind, behind)] - np.multiply.outer(v, v)
        return rest, B[:, behind] - np.multiply.outer(b, v), T - float(b @ b), J[behind]

    def _mark_single(
        self, h: Floats, S: Floats, T: Floats, J: Positions, members: Support, firsts: Any
    ) -> None:
        """Mark completions by one more member; rows stand for different first members."""
        self.work += h.size
        marked = ~(self._lowered(h, S, T)[:, None] * h >= S)
        if firsts is None:
            self._note(members, J[np.flatnonzero(marked[0])][:, None])
        else:
            row, k = np.nonzero(marked & firsts[1])
            self._note(members, np.column_stack([firsts[0][row], J[k]]))

    def _lowered(self, h: Floats, S: Floats, T: Floats) -> Floats:
        """Return T less what the tests may lose to rounding, for each row."""
        largest = np.maximum(S / h, 0.0).max(axis=1)
        return np.asarray(T - self.rounding * (largest + np.abs(T)))

    def _mark_pairs(
        self, H: Floats, given: tuple[Floats, ...], J: Positions, members: Support,
        at: Positions, last: Positions, firsts: Any = None,
    ) -> None:  # fmt: skip
        """Mark completions by j < k, j behind ``at`` and before ``last``; H - v v' is left.

        Rows of V, h, S, T and columns of B stand for different first members.
        """
        V, h, S, B, T = given
        m = len(J)
        lowered = self._lowered(h, S, T)
        first, end = int(at.min()) + 1, int(min(m - 1, last.max()))
        step = max(1, ENTRIES // (len(T) * m))
        positive = (T > 0.0).all()
        scale = np.where(T > 0.0, T, 1.0)
        own = np.stack([S - lowered[:, None] * h, h], axis=2) / scale[:, None, None]
        other, twice = np.stack([h, S], axis=1), 2.0 * B / scale[:, None]
        for j in range(first, end, step):
            rows, behind = slice(j, min(j + step, end)), slice(j + 1, m)
            x = H[rows, behind] - V[:, rows, None] * V[:, None, behind]
            e = x.copy()
            for t in range(len(B)):
                e -= twice[t][:, rows, None] * B[t][:, None, behind]
            e *= x
            e += own[:, rows] @ other[:, :, behind]
            a = np.arange(e.shape[1] - 1)
            e[:, a + 1, a] = -1.0  # j with itself
            self.work += e.size
            if positive and e.max(initial=-1.0) <= 0.0:
                continue
            marked = ~(e <= 0.0) | ~(T > 0.0)[:, None, None]  # with nothing left to gain all may do
            row, one, two = np.nonzero(marked)
            one, two = one + j, two + j + 1
            right = (one < two) & (one > at[row])
            row, one, two = row[right], one[right], two[right]
            more = [J[one], J[two]] if firsts is None else [firsts[row], J[one], J[two]]
            self._note(members, np.column_stack(more))
        demand(self.work <= MOST_PAIRS, TOO_MANY)


def _cut(squares: Floats, T: Floats, doubt: float) -> Positions:
    """Return, row by row, from which place on all together gain less than T/2, rounding too."""
    gains = np.cumsum(squares[:, ::-1], axis=1)[:, ::-1]
    bar = T[:, None] - doubt - 64.0 * U * (np.abs(T)[:, None] + gains)
    enough = ~(gains < bar)
    places = np.arange(1, squares.shape[1] + 1)
    return np.asarray(np.where(enough, places, 0).max(axis=1))


def _factor(H: Floats, B: Floats, *, greedy: bool) -> tuple[Positions, Floats, Floats] | None:
    """Return an order, and F and z of it; None if rounding leaves no F.

    With ``greedy`` the order is the one that passes most over.
    """
    m = len(H)
    rest, left, order = np.diagonal(H).copy(), B.copy(), np.arange(m)
    C, z = np.zeros((m, m)), np.zeros(B.shape)
    if not greedy:
        whole = np.full((m + len(B), m + len(B)), 0.0)  # from the last member on, then responses
        whole[:m, :m], whole[m:, :m] = H[::-1, ::-1], B[:, ::-1]
        whole[m:, m:] = BORDER * np.eye(len(B))
        try:
            lower = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return None
        F, z = lower[:m, :m][::-1, ::-1], lower[m:, :m][:, ::-1]
        return (order, F, z) if np.isfinite(lower).all() else None
    for t in range(m - 1, -1, -1):
        some = order[: t + 1]
        a = int(np.argmin((left[:, some] ** 2).sum(axis=0) / rest[some]))
        order[[a, t]] = order[[t, a]]
        j = order[t]
        if not rest[j] > 0.0:
            return None
        root = sqrt(rest[j])
        C[t] = (H[j] - C[t + 1 :, j] @ C[t + 1 :]) / root
        rest = rest - C[t] * C[t]
        z[:, t] = left[:, j] / root
        left = left - np.multiply.outer(z[:, t], C[t])
    return order, np.triu(C[:, order].T), z


def _squares_with(F: Floats, z: Floats) -> Floats:
    """Return the squares of z, summed over responses, once member a (a row) is in."""
    u = np.triu(F)
    squares, behind = np.zeros(F.shape), np.triu(np.ones(F.shape, dtype=bool), 1)
    more = np.cumsum(u * u, axis=1)
    before = np.concatenate([np.zeros((len(F), 1)), more[:, :-1]], axis=1)
    for row in z:
        p = np.cumsum(u * row, axis=1)
        p = np.concatenate([np.zeros((len(F), 1)), p[:, :-1]], axis=1)
        x = before * row - u * p
        with np.errstate(all="ignore"):
            squares += np.where(behind, x * x / (before * more), 0.0)
    return squares
