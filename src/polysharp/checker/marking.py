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
from polysharp.checker.checked_rows import blocks_of
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
        if self.rounding >= T:
            self._note((), np.zeros((1, 0), dtype=np.intp))  # no member at all
        self._go(H, np.diagonal(H), B, T, np.arange(len(H)), ())
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

    def _go(
        self, H: Floats, h: Floats, B: Floats, T: float, J: Positions, members: Support
    ) -> None:
        """Mark what comes after some members; H, its diagonal h, B and T are what those leave.

        If two are to come, H has the rows of those only that may be the first of them.
        """
        self.work += float(H.size + h.size)
        demand(self.work <= MOST_PAIRS, TOO_MANY)
        used = self.uses[list(members)].any(axis=0)
        fits = (self.uses[J] | used).sum(axis=1) <= self.room
        left = self.L - len(members)
        if not T > 0.0 or not left:  # with nothing left to gain all may do
            self._note_all(members, J[fits], 1)
            return
        lost = fits & ~(h > 0.0)  # rounding has left no pivot: it may gain anything
        for a in np.flatnonzero(lost).tolist():
            fits[a] = False
            self._note_all((*members, int(J[a])), J[fits])
        if not fits.all():
            rest = np.flatnonzero(fits)
            H, h, B, J = H[np.ix_(rest[rest < len(H)], rest)], h[rest], B[:, rest], J[rest]
        if not len(J):
            return
        S = (B * B).sum(axis=0)
        lowered = T - self.rounding * (float((S / h).max()) + T)
        self._note(members, J[~(lowered * h >= S)][:, None])
        if left == 2:
            own = np.stack([S - lowered * h, h], axis=1) / T
            self._mark_pairs(H, B, own, np.stack([h, S]), 2.0 * B / T, J, members)
        elif left > 2:
            self._go_on(H, B, T, J, members, left)

    def _go_on(
        self, H: Floats, B: Floats, T: float, J: Positions, members: Support, left: int
    ) -> None:
        """Take each candidate in that may gain enough with those behind it."""
        m, last = len(J), len(J)
        self.work += 0.5 * m**3
        factor, cuts = _factor(H, B, greedy=left >= SORTED or not members), np.full(m, m)
        if factor is not None:
            order, F, z = factor
            H, B, J = H[np.ix_(order, order)], B[:, order], J[order]
            last = int(_cut((z * z).sum(axis=0)[None], np.array([T]), self.doubt)[0])
        h, S = np.diagonal(H), (B * B).sum(axis=0)
        if factor is not None and left == 3:
            cuts = _cut(_squares_with(F[:last], z), (T - S / h)[:last], self.doubt)
        for a in range(last):
            v, b, left_T = H[a, a + 1 :] / sqrt(h[a]), B[:, a] / sqrt(h[a]), T - S[a] / h[a]
            top = slice(a + 1, max(a + 1, int(cuts[a])))
            rest = H[top, a + 1 :] - np.multiply.outer(v[: top.stop - top.start], v)
            left_B = B[:, a + 1 :] - np.multiply.outer(b, v)
            self._go(rest, h[a + 1 :] - v * v, left_B, left_T, J[a + 1 :], (*members, int(J[a])))

    def _mark_pairs(
        self, H: Floats, B: Floats, own: Floats, other: Floats, twice: Floats, J: Positions,
        members: Support,
    ) -> None:  # fmt: skip
        """Mark completions by j < k, j one of the rows of H."""
        m = len(J)
        for rows in blocks_of(min(m - 1, len(H)), max(1, ENTRIES // m)):
            behind = slice(rows.start + 1, m)
            x = H[rows, behind]
            e = x - twice[:, rows].T @ B[:, behind]
            e *= x
            e += own[rows] @ other[:, behind]
            e[np.arange(1, len(e)), np.arange(len(e) - 1)] = -1.0  # j with itself
            if e.max(initial=-1.0) <= 0.0:
                continue
            one, two = np.nonzero(np.triu(~(e <= 0.0)))
            self._note(members, np.column_stack([J[rows.start + one], J[rows.start + 1 + two]]))


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
