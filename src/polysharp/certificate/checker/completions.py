"""Going through the completions of a node, many beginnings of them at a time.

Columns of H and y have length one.  A completion has up to L members.  They are eliminated one by
one (H and b become Schur complements), and the last two are treated together: with h = diag(H) and
T twice the gain that the claim still leaves to the others,

    b_j^2 > T h_j       or       b_j^2 h_k + b_k^2 h_j - 2 H_jk b_j b_k > T (h_j h_k - H_jk^2)

mark the completions that may cost less than the claim.  With several responses b has a row for
each, and its squares and products are sums over them.

More members never gain less: where all those from one on gain too little together, no completion
among them is looked at (leaps and bounds).  Where enough members are to come, the last one is that
which gains least, the one before it that which gains least beside it, and so on.  What the last
ones gain together are sums of squares of z, F z = b, F F' = H a factor from the last member on.
Once member a is in, with u its row of F, sigma = F_aa^2 plus the squares of u up to a column and
p = F_aa z_a plus the products u z up to there, the z of that column is

    (sigma z - u p) / sqrt(sigma (sigma + u^2)).

Who is out keeps its place, with H_jj = 1, H_jk = 0 and b_j = 0, which gain nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.checker.rows import U
from polysharp.certificate.checker.rules import Array, Indices, demand

MOST_PAIRS = 2e11  # in all exhausted ends of a proof together: about an hour
VISIT = 2e3  # pairs that take as long as a beginning does by itself
PRODUCTS = 0.05  # pairs that take as long as a product of its factorisation
MOST_HITS = 200_000  # refitted below one node
TOGETHER = 2e5  # pairs tested at a time: what a cache holds
SORTED = 5  # members to come from which an order of their own is worth it
TOO_MANY = "it has more completions than a reader can try"
DEPENDENT = "its completions are too nearly dependent to be tried"


class Cases(NamedTuple):
    """Beginnings of completions with equally many members; every part has a row for each."""

    H: Array  # the first rows where no more are asked for
    h: Array
    B: Array
    T: Array
    J: Indices  # the candidates, in the order in which they may join
    open: NDArray[np.bool_]  # which of them may
    members: Indices

    def closed(self, still: NDArray[np.bool_]) -> Cases:
        """Return the same with fewer candidates."""
        H, every = self.H * still[:, :, None], np.arange(still.shape[1])
        H *= still[:, None, :]
        H[:, every, every] += ~still
        B = self.B * still[:, None, :]
        return self._replace(H=H, h=np.where(still, self.h, 1.0), B=B, open=still)

    def with_members(self, case: Indices, a: Indices, rows: int | None = None) -> Cases:
        """Take a candidate into each of some cases; those before it are out."""
        b, row, behind = (
            self.B[case, :, a],
            self.H[case, a],
            np.arange(self.J.shape[1]) > a[:, None],
        )
        pivot = row[np.arange(len(a)), a][:, None]
        rate = row / pivot
        rest = self.H[case, :rows]
        rest -= row[:, :rows, None] * rate[:, None, :]
        still = self.open[case] & behind
        rest *= still[:, None, :]
        h = np.where(still, self.h[case] - row * rate, 1.0)
        B = self.B[case] - b[:, :, None] * rate[:, None, :]
        T = self.T[case] - np.einsum("ct,ct->c", b, b) / pivot[:, 0]
        members = np.column_stack([self.members[case], self.J[case, a]])
        after = Cases(rest, h, B, T, self.J[case], still, members)
        return after.closed(still) if rows is None else after


class Completions:
    """Marks the completions that may cost less than a claim."""

    def __init__(
        self, size: int, uses: Array, room: int, *, exact_size: bool, doubt: float, work: float
    ) -> None:
        self.L, self.uses, self.room, self.exact_size = size, uses, room, exact_size
        self.ruled = min(uses.sum(axis=1).max(initial=0) * size, uses.shape[1]) > room
        self.doubt = doubt  # twice what rounding may take off the gain of all members together
        self.work = work  # pairs tested so far, in other nodes too
        self.hits: list[Indices] = []

    def mark_all(self, H: Array, B: Array, T: float) -> None:
        """Go through everything from no member on."""
        every, none = np.arange(len(H))[None], np.zeros((1, 0), dtype=np.intp)
        if 64.0 * len(B) * U >= T:
            self._mark(none)
        is_open, h = np.ones(every.shape, dtype=bool), np.diagonal(H)[None]
        self._visit(Cases(H[None], h, B[None], np.array([T]), every, is_open, none))

    def _visit(self, cases: Cases) -> None:
        """Mark the completions that have one member more than these, or several."""
        if self.ruled:
            used = self.uses[cases.members].max(axis=1, initial=0.0)[:, None]
            fits = np.maximum(self.uses[cases.J], used).sum(axis=2) <= self.room
            cases = cases.closed(cases.open & fits)
        left, size = self.L - cases.members.shape[1], cases.J.shape[1]
        self._count(len(cases.T) * (VISIT + size**2 + PRODUCTS * size**3))
        self._mark_single(cases)
        if left == 2:
            self._mark_pairs(cases)
        if left <= 2:
            return
        if left >= SORTED or not cases.members.shape[1]:
            cases = _weakest_last(cases)
        F, Z = _factors(cases)
        last = self._cuts(np.cumsum((Z * Z).sum(axis=1), axis=1), cases.T)
        case, a = np.nonzero(cases.open & (np.arange(size) < last[:, None]))
        step = max(1, int(TOGETHER / size ** (2 if left > 3 else 1)))
        for first in range(0, len(a), step):
            some = case[first : first + step], a[first : first + step]
            if left > 3:
                self._visit(cases.with_members(*some))
            else:
                self._mark_behind(cases, F, Z, *some)

    def _mark_behind(self, cases: Cases, F: Array, Z: Array, case: Indices, a: Indices) -> None:
        """Mark the completions that have member a of a case and one or two behind it."""
        behind = cases.J.shape[1] - 1 - a
        T = cases.with_members(case, a, rows=0).T
        tops = self._cuts(np.cumsum(_squares_with(F, Z, case, behind), axis=1), T)
        order = np.argsort(tops, kind="stable")  # those with as many rows to look at together
        pairs = float(tops.sum()) * cases.J.shape[1]
        for some in np.array_split(order, max(1, min(len(order), int(pairs / TOGETHER)))):
            now = cases.with_members(case[some], a[some], rows=int(tops[some].max(initial=0)))
            self._count(float(now.H.size))
            self._mark_single(now)
            self._mark_pairs(now)

    def _mark_single(self, cases: Cases) -> None:
        """Mark completions by one more member."""
        squares, lowered = self._limits(cases)
        case, j = np.nonzero(cases.open & ~(squares <= lowered * cases.h))
        self._mark(np.column_stack([cases.members[case], cases.J[case, j]]))

    def _mark_pairs(self, cases: Cases) -> None:
        """Mark completions by two more members, the first among the rows of H."""
        H, h, B, T, J, is_open, members = cases
        rows, (squares, lowered) = H.shape[1], self._limits(cases)
        P = T[:, None, None] * H
        for b in B.swapaxes(0, 1):
            P -= (2.0 * b[:, :rows, None]) * b[:, None, :]
        P *= H
        P += (squares - lowered * h)[:, :rows, None] * h[:, None, :]
        P += h[:, :rows, None] * squares[:, None, :]
        below = (P <= 0.0) & (T > 0.0)[:, None, None]  # with nothing left to gain all may do
        if below.all():
            return
        found = np.triu(~below & is_open[:, :rows, None] & is_open[:, None, :], 1)
        case, j, k = np.nonzero(found)
        self._mark(np.column_stack([members[case], J[case, j], J[case, k]]))

    def _limits(self, cases: Cases) -> tuple[Array, Array]:
        """Return b^2, and T less what the tests may lose."""
        h, B, T = cases.h, cases.B, cases.T
        demand(np.all(h > 0.0), DEPENDENT)
        squares = np.einsum("ctj,ctj->cj", B, B)
        largest = np.where(cases.open, squares / h, 0.0).max(axis=1, initial=0.0)
        return squares, (T - 64.0 * B.shape[1] * U * (largest + np.abs(T)))[:, None]

    def _cuts(self, gains: Array, T: Array) -> Indices:
        """Return the first positions from which on all together gain less than T/2, rounding too.

        ``gains`` are twice those of the last one, the last two, and so on.
        """
        margin = self.doubt + 64.0 * U * (np.abs(T)[:, None] + gains)
        return np.asarray(gains.shape[1] - np.count_nonzero(gains < T[:, None] - margin, axis=1))

    def _mark(self, sets: Indices) -> None:
        """Take down supports, but for those that the rules forbid."""
        if self.ruled and len(sets):
            used = self.uses[sets].max(axis=1, initial=0.0)
            sets = sets[used.sum(axis=1) <= self.room]
        if len(sets) and not (self.exact_size and sets.shape[1] < self.L):
            self.hits.append(sets)
            hits = sum(map(len, self.hits))
            demand(hits <= MOST_HITS, "too many of its completions come close to the bound")

    def _count(self, pairs: float) -> None:
        self.work += pairs
        demand(self.work <= MOST_PAIRS, TOO_MANY)


def _weakest_last(cases: Cases) -> Cases:
    """Put the candidates of each case into the order that passes most over."""
    H, h, B, T, J, is_open, members = cases
    count, size = J.shape
    columns, order = np.zeros_like(H), np.zeros((count, size), dtype=np.intp)
    every, left, rest = np.arange(count), np.ones((count, size), dtype=bool), h.copy()
    B_left = B.copy()
    with np.errstate(all="ignore"):  # where rounding takes over, any order will do
        for k in range(size):
            gains = np.einsum("ctj,ctj->cj", B_left, B_left) / rest
            gains = np.nan_to_num(gains, nan=0.0, posinf=1e300)
            j = np.argmin(np.where(left, np.where(is_open, gains, 1e301), np.inf), axis=1)
            order[:, size - 1 - k], left[every, j] = j, False
            known = np.matmul(columns[every, j, None, :k], columns[:, :, :k].transpose(0, 2, 1))
            root = np.sqrt(np.maximum(rest[every, j], 1e-300))[:, None]
            column = (H[every, j] - known[:, 0]) / root
            columns[:, :, k] = column
            B_left -= (B_left[every, :, j] / root)[:, :, None] * column[:, None, :]
            rest -= column * column
    row = every[:, None]
    H = H[row[:, :, None], order[:, :, None], order[:, None, :]]
    B = np.take_along_axis(B, order[:, None, :], axis=2)
    return Cases(H, h[row, order], B, T, J[row, order], is_open[row, order], members)


def _factors(cases: Cases) -> tuple[Array, Array]:
    """Return F and z from the last candidate on; z is infinite where rounding leaves no F."""
    H, B = cases.H[:, ::-1, ::-1], cases.B[:, :, ::-1]
    size, count = H.shape[1], B.shape[1]
    # Rows of b below H become rows of z below F; their squares add up to 1 at most.
    both = np.zeros((len(H), size + count, size + count))
    both[:, :size, :size], both[:, size:, :size] = H, B
    both[:, size:, size:] = 4.0 * np.eye(count)
    try:
        both = np.asarray(np.linalg.cholesky(both))
    except np.linalg.LinAlgError:
        return np.zeros_like(H), np.full_like(B, np.inf)
    return both[:, :size, :size], both[:, size:, :size]


def _squares_with(F: Array, Z: Array, case: Indices, at: Indices) -> Array:
    """Return the squares of z, summed over responses, once a candidate of each case is in."""
    u = np.where(np.arange(F.shape[1]) < at[:, None], F[case, at], 0.0)
    own = F[case, at, at][:, None]

    def up_to(terms: Array) -> Array:
        """Sum over the columns between the candidate and each one, which stands before it here."""
        sums = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
        return np.column_stack([sums[:, 1:], np.zeros(len(terms))])

    with np.errstate(all="ignore"):  # infinite z cut nothing off
        sigma, squares = own * own + up_to(u * u), np.zeros_like(u)
        for t in range(Z.shape[1]):
            z = Z[case, t]
            x = sigma * z - u * (own * z[np.arange(len(at)), at][:, None] + up_to(u * z))
            squares += x * x / (sigma * (sigma + u * u))
    return squares
