"""Going through the completions of a node, depth first.

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

The way is compiled, with nothing of what the search has compiled.  All that is known at a moment
stands in ``Remains``, so that it can stop after some work and go on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.checker.rows import U
from polysharp.certificate.checker.rules import Array, Indices, demand

MOST_PAIRS = 2e12  # in all exhausted ends of a proof together: about half an hour
ROW = 30.0  # pairs that take as long as what a row of them takes besides
PRODUCTS = 0.5  # pairs that take as long as a product of a factorisation
MOST_HITS = 200_000  # refitted below one node
SORTED = 4  # members to come from which an order of their own is worth it
AT_A_TIME = 1e9  # pairs between two looks around
BEGUN, GOING, ENDED, DONE, FAILED = range(5)  # a level, or the whole way
TOO_MANY = "it has more completions than a reader can try"
DEPENDENT = "its completions are too nearly dependent to be tried"


class Remains(NamedTuple):
    """What is left once 0, 1, 2, ... members have been taken in: a row for each of these levels.

    The candidates of a level stand at ``first`` to ``size``, in the order in which they may join.
    """

    H: Array  # of all levels but the last, where two are to come
    F: Array  # likewise
    B: Array
    Z: Array
    h: Array
    T: Array
    J: Indices  # what the candidates are called
    used: NDArray[np.bool_]  # inputs that the members need
    factored: NDArray[np.bool_]  # whether there is an F
    first: Indices
    size: Indices
    now: Indices  # who is in at the next level
    last: Indices  # from here on nobody is taken in
    members: Indices  # what those who are in are called
    rows: Array  # room to work in: rows of numbers and places, and a matrix
    left: Array
    places: Indices
    spare: Array


SQUARES, CROSS, V, REST = range(4)  # what the rows hold


class Sought(NamedTuple):
    """Which completions are sought."""

    L: int
    exact_size: bool  # of L members only
    uses: NDArray[np.bool_]  # inputs that each monomial needs
    room: int  # how many may be needed together
    doubt: float  # twice what rounding may take off the gain of all members together


def may_gain(
    H: Array, B: Array, T: float, sought: Sought, work: float
) -> tuple[list[Indices], float]:
    """Return the completions that may gain T/2, one array for each size, and all work so far."""
    fit = np.flatnonzero(sought.uses.sum(axis=1) <= sought.room)
    at = _levels(H[np.ix_(fit, fit)], B[:, fit], T, fit, sought)
    hits = np.full((MOST_HITS + 1, sought.L), -1, dtype=np.intp)
    none = 64.0 * len(B) * U >= T and not sought.exact_size  # a row without members
    state = (BEGUN, 0, int(none), work)
    while state[0] < DONE:
        state = _go_on(at, sought, hits, state, min(state[-1] + AT_A_TIME, MOST_PAIRS))
        demand(state[0] != FAILED, DEPENDENT)
        demand(state[2] <= MOST_HITS, "too many of its completions come close to the bound")
        demand(state[3] <= MOST_PAIRS, TOO_MANY)
    found = hits[: state[2]]
    sizes = np.count_nonzero(found >= 0, axis=1)
    return [found[sizes == k, :k] for k in np.unique(sizes)], state[3]


def _levels(H: Array, B: Array, T: float, J: Indices, sought: Sought) -> Remains:
    """Return room for all levels, and the first of them, with nobody in."""
    size, levels = len(H), max(sought.L - 1, 1)
    whole = (max(sought.L - 2, 1), size, size)
    factors = whole if sought.L > 2 else (1, 1, 1)
    at = Remains(
        H=np.empty(whole),
        F=np.empty(factors),
        B=np.empty((levels, len(B), size)),
        Z=np.empty((levels, len(B), size)),
        h=np.empty((levels, size)),
        T=np.full(levels, T),
        J=np.empty((levels, size), dtype=np.intp),
        used=np.zeros((levels, sought.uses.shape[1]), dtype=bool),
        factored=np.zeros(levels, dtype=bool),
        first=np.zeros(levels, dtype=np.intp),
        size=np.full(levels, size),
        now=np.zeros(levels, dtype=np.intp),
        last=np.full(levels, size),
        members=np.zeros(sought.L, dtype=np.intp),
        rows=np.zeros((4, size)),
        left=np.zeros((len(B), size)),
        places=np.zeros(size, dtype=np.intp),
        spare=np.empty(factors[1:]),
    )
    at.H[0], at.B[0], at.h[0], at.J[0] = H, B, np.diagonal(H), J
    return at


def _compiled(function: Callable[..., Any]) -> Any:
    """Let a function be compiled when it is first called; kept where a folder can be written to."""
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


@_compiled
def _fits(at, sought, d, more):  # type: ignore[no-untyped-def]
    """Whether the members of a level and some more need no more inputs than there is room for."""
    needed = 0
    for i in range(sought.uses.shape[1]):
        need = at.used[d, i]
        for j in more:
            need = need or sought.uses[j, i]
        needed += need
    return needed <= sought.room


@_compiled
def _note(at, sought, d, count, hits, noted):  # type: ignore[no-untyped-def]
    """Take down so many members, those of a level and more, if the rules allow it."""
    if noted > MOST_HITS or (sought.exact_size and count < sought.L):
        return noted
    if not _fits(at, sought, d, at.members[d:count]):
        return noted
    for a in range(count):
        hits[noted, a] = at.members[a]
    return noted + 1


@_compiled
def _mark_single(at, sought, d, hits, noted):  # type: ignore[no-untyped-def]
    """Mark completions by one more member; return T less what the tests may lose.

    It is no number where a pivot is lost.  The squares of b stay in their row.
    """
    first, size, T, largest = at.first[d], at.size[d], at.T[d], 0.0
    squares, h = at.rows[SQUARES], at.h[d]
    for j in range(first, size):
        squares[j] = 0.0
        for t in range(at.B.shape[1]):
            squares[j] += at.B[d, t, j] * at.B[d, t, j]
        if not h[j] > 0.0:
            return np.nan, noted
        largest = max(largest, squares[j] / h[j])
    lowered = T - 64.0 * at.B.shape[1] * U * (largest + abs(T))
    for j in range(first, size):
        if not squares[j] <= lowered * h[j]:
            at.members[d] = at.J[d, j]
            noted = _note(at, sought, d, d + 1, hits, noted)
    return lowered, noted


@_compiled
def _mark_pairs(at, sought, d, lowered, hits, noted):  # type: ignore[no-untyped-def]
    """Mark completions by two more members, the first before ``last``; H - v v' is what is left."""
    size, T, whole = at.size[d], at.T[d], at.H[max(d - 1, 0)]
    for j in range(at.first[d], at.last[d]):
        H, v, h = whole[j, j + 1 : size], at.rows[V, j + 1 : size], at.h[d, j + 1 : size]
        squares, cross = at.rows[SQUARES, j + 1 : size], at.rows[CROSS, j + 1 : size]
        for t in range(at.B.shape[1]):
            twice, b = 2.0 * at.B[d, t, j], at.B[d, t, j + 1 : size]
            for k in range(len(b)):
                cross[k] = twice * b[k] + (cross[k] if t > 0 else 0.0)
        h_j, v_j, squares_j = at.h[d, j], at.rows[V, j], at.rows[SQUARES, j]
        own, found = squares_j - lowered * h_j, 0
        for k in range(len(h)):
            x = H[k] - v_j * v[k]
            found += not x * (T * x - cross[k]) + own * h[k] + h_j * squares[k] <= 0.0
        if found == 0 and T > 0.0:  # with nothing left to gain all may do
            continue
        at.members[d] = at.J[d, j]
        for k in range(len(h)):
            x = H[k] - v_j * v[k]
            if not (x * (T * x - cross[k]) + own * h[k] + h_j * squares[k] <= 0.0 and T > 0.0):
                at.members[d + 1] = at.J[d, j + 1 + k]
                noted = _note(at, sought, d, d + 2, hits, noted)
    return noted


@_compiled
def _cut(squares, T, doubt):  # type: ignore[no-untyped-def]
    """Return the first place from which on all together gain less than T/2, rounding too."""
    gains = 0.0
    for k in range(len(squares) - 1, -1, -1):
        gains += squares[k]
        if not gains < T - doubt - 64.0 * U * (abs(T) + gains):
            return k + 1
    return 0


@_compiled
def _weakest(order, left, rest):  # type: ignore[no-untyped-def]
    """Return the position in an order of whoever gains least beside those that are placed."""
    least, weakest = np.inf, len(order) - 1
    for a in range(len(order)):
        gain = 0.0
        for c in range(len(left)):
            gain += left[c, order[a]] * left[c, order[a]]
        gain /= rest[order[a]]
        if gain < least:
            least, weakest = gain, a
    return weakest


@_compiled
def _place(at, d, j, t):  # type: ignore[no-untyped-def]
    """Write the column of candidate j, who comes before those at t + 1 and on, and what is left."""
    H, columns, left, rest = at.H[d, j], at.spare, at.left, at.rows[REST]
    column, root = columns[t], np.sqrt(rest[j])
    for k in range(at.size[d]):
        column[k] = H[k]
    for s in range(t + 1, at.size[d]):
        x, later = columns[s, j], columns[s]
        for k in range(at.size[d]):
            column[k] -= x * later[k]
    for k in range(at.size[d]):
        column[k] /= root
        rest[k] -= column[k] * column[k]
    for c in range(len(left)):
        z = left[c, j] / root
        at.Z[d, c, t] = z
        for k in range(at.size[d]):
            left[c, k] -= z * column[k]


@_compiled
def _factorise(at, d, sort):  # type: ignore[no-untyped-def]
    """Write F and z of a level, if rounding leaves an F.

    With ``sort`` the candidates are put into the order that passes most over.
    """
    size, left, rest = at.size[d], at.left, at.rows[REST]
    order = at.places[:size]
    for j in range(size):
        order[j], rest[j] = j, at.h[d, j]
        for c in range(len(left)):
            left[c, j] = at.B[d, c, j]
    at.factored[d] = False
    for t in range(size - 1, -1, -1):
        if sort:
            weakest = _weakest(order[: t + 1], left, rest)
            order[weakest], order[t] = order[t], order[weakest]
        if not rest[order[t]] > 0.0:
            return
        _place(at, d, order[t], t)
    for a in range(size):
        for k in range(a, size):
            at.F[d, a, k] = at.spare[k, order[a]]
    at.factored[d] = True
    if sort:
        _reorder(at, d, order)


@_compiled
def _reorder(at, d, order):  # type: ignore[no-untyped-def]
    """Put the candidates of a level into an order."""
    size, H, spare, row = len(order), at.H[d], at.spare, at.rows[REST]
    for a in range(size):
        for k in range(size):
            spare[a, k] = H[order[a], order[k]]
    for a in range(size):
        for k in range(size):
            H[a, k] = spare[a, k]
        at.h[d, a] = H[a, a]
        spare[0, a] = at.J[d, order[a]]
    for a in range(size):
        at.J[d, a] = int(spare[0, a])
    for t in range(at.B.shape[1]):
        for a in range(size):
            row[a] = at.B[d, t, order[a]]
        for a in range(size):
            at.B[d, t, a] = row[a]


@_compiled
def _take(at, sought, d, a):  # type: ignore[no-untyped-def]
    """Take candidate a of a level in; the candidates of the next one are those behind it."""
    H, B, h, size, after = at.H[d], at.B[d], at.h[d], at.size[d], d + 1
    pivot, places, pair, n = h[a], at.places, sought.L - d == 3, 0
    at.members[d] = at.J[d, a]
    for i in range(sought.uses.shape[1]):
        at.used[after, i] = at.used[d, i] or sought.uses[at.J[d, a], i]
    at.T[after] = at.T[d]
    for t in range(len(B)):
        at.T[after] -= B[t, a] * B[t, a] / pivot
    # Where a pair is to come, H stays where it is, and so do the candidates.
    for k in range(a + 1, size):
        if pair or _fits(at, sought, after, at.J[d, k : k + 1]):
            places[n] = k
            n += 1
    first, root = a + 1 if pair else 0, np.sqrt(pivot)
    at.first[after], at.size[after] = first, first + n
    for place in range(n):
        x, j = first + place, places[place]
        v = H[a, j] / root
        at.J[after, x], at.h[after, x] = at.J[d, j], h[j] - v * v
        for t in range(len(B)):
            at.B[after, t, x] = B[t, j] - v * (B[t, a] / root)
        if pair:
            at.rows[V, x] = v
        else:
            for y in range(n):
                at.H[after, x, y] = H[j, places[y]] - v * (H[a, places[y]] / root)


@_compiled
def _cut_with(at, sought, d, a):  # type: ignore[no-untyped-def]
    """Return the first position from which on all gain too little once candidate a is in."""
    size, squares, u = at.size[d], at.rows[REST], at.F[d, a]
    for t in range(at.Z.shape[1]):
        z = at.Z[d, t]
        sigma, p = u[a] * u[a], u[a] * z[a]
        for k in range(a + 1, size):
            more = sigma + u[k] * u[k]
            x = sigma * z[k] - u[k] * p
            squares[k] = x * x / (sigma * more) + (squares[k] if t > 0 else 0.0)
            sigma, p = more, p + u[k] * z[k]
    return a + 1 + _cut(squares[a + 1 : size], at.T[d + 1], sought.doubt)


@_compiled
def _cut_of(at, sought, d):  # type: ignore[no-untyped-def]
    """Return the first position of a level from which on all gain too little."""
    size, squares = at.size[d], at.rows[REST]
    for t in range(at.Z.shape[1]):
        for k in range(size):
            squares[k] = at.Z[d, t, k] * at.Z[d, t, k] + (squares[k] if t > 0 else 0.0)
    return _cut(squares[:size], at.T[d], sought.doubt)


@_compiled
def _go_on(at, sought, hits, state, until):  # type: ignore[no-untyped-def]
    """Go on until all is done or there has been so much work."""
    what, d, noted, work = state
    while what != DONE and work <= until and noted <= MOST_HITS:
        left, size = sought.L - d, at.size[d]
        if what == BEGUN:
            lowered, noted = _mark_single(at, sought, d, hits, noted)
            if np.isnan(lowered):
                return FAILED, d, noted, work
            work += ROW + size
            at.now[d] = -1
            if left == 2:
                noted = _mark_pairs(at, sought, d, lowered, hits, noted)
                count = at.last[d] - at.first[d]
                work += count * (ROW + size - 0.5 * (at.first[d] + at.last[d]))
            elif left > 2:
                _factorise(at, d, left >= SORTED or d == 0)
                work += PRODUCTS * size**3
                at.last[d] = size
                if at.factored[d]:
                    at.last[d] = _cut_of(at, sought, d)
            what = ENDED if left <= 2 else GOING
        elif what == GOING and at.now[d] + 1 < at.last[d]:
            at.now[d] += 1
            _take(at, sought, d, at.now[d])
            if left == 3:
                at.last[d + 1] = size
                if at.factored[d]:
                    at.last[d + 1] = _cut_with(at, sought, d, at.now[d])
            what, d, work = BEGUN, d + 1, work + ROW + at.size[d + 1] ** (1 if left == 3 else 2)
        else:
            what, d = (GOING, d - 1) if d > 0 else (DONE, d)
    return what, d, noted, work
