"""The compiled search of exhaustive ends: all choices of L monomials, depth first.

The last two are chosen together: with D the diagonal of H and T twice the gain that is still
needed, a pair gains more than T/2 iff

    D_k (b_a^2 - T D_a) + D_a b_k^2 + H_ak (T H_ak - 2 b_a b_k) > 0,

without a division or a branch.  Summed as positive parts over two rows this takes 0.4 nanoseconds a
pair (and 20 a row); the update of H by the monomial before the pair is part of the same pass.  Rows
are padded with zeros, which add nothing, to whole blocks of BLOCK numbers.

Rules are met on the way where that is cheap: monomials that need too many inputs are skipped.
Whatever gains enough is then asked for all rules.  Without rules only supports of L terms count,
since more terms never cost more; with rules, shorter ones count too, down to ``fewest``.

A pair is listed where its test is positive up to its own rounding: less than 64 u (b^2/D + |T|) D_a
D_k, where b^2/D and |T| are at most twice the cost before any gain, so that NOISE times that cost
is added to it.

What is compiled here takes about a second where it was not cached.  Without rules ``rules`` is None
and nothing is compiled for them; nothing is allocated; conditional expressions stand where ``min``
and ``max`` would be compiled as well; and numbers that start as literals are made ``i8``, or what
they are passed to is compiled once for the literal and once more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import i8, u8
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array

ROW = 50.0  # pair tests that take as long as what a row takes beside them
BLOCK = 16  # numbers that one turn of the vectorised loop takes
NOISE = 512.0 * UNIT


class Quest(NamedTuple):
    """What to look for."""

    need: float  # gain from which a support is listed
    cost: float  # before any gain
    share: float  # of the cost of a support that is listed, by which others need not beat it
    room: float = 0.0  # supports whose gain is less by no more than this are listed all the same
    fewest: float = 0.0  # terms of a support that is listed
    doubt: float = 0.0  # what rounding may take off the gain of all monomials together
    work: float = np.inf  # pair tests, or what takes as long, after which to give up

    def raised(self, need: float, gain: float) -> float:
        """Return what is needed once a support is found: to be better by the tolerance."""
        if not gain <= self.cost:  # it is rounding
            return need
        return max(need, gain + self.share * (self.cost - gain) - self.room)


class Levels(NamedTuple):
    """H, b and D after 0, 1, 2, ... monomials have been chosen, and room to work in.

    Few arrays: kernels pass them on field by field.
    """

    H: Array  # of the levels; the last one is room for a factorisation
    rows: Array  # b and D of each level by turns, then those named below
    places: NDArray[np.int64]  # three rows


BB, V, INVERSE, GAINS = -4, -3, -2, -1  # b^2, the update of H, pivots, the gains of the levels


class Demands(NamedTuple):
    """What a choice of free monomials must satisfy, given what is in.

    Row i of a list of lists, ``items[starts[i] : starts[i + 1]]``, names free monomials.  One of
    each of the first ``always`` rows must be chosen in any case; one (or all, if ``strong``) of row
    ``always + j`` when monomial j is chosen.
    """

    uses: NDArray[np.uint8]  # inputs of the free monomials that are not in yet
    room: int  # how many of those inputs may join
    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    always: int
    strong: bool
    plain: bool  # whether there are no rules beyond the number of terms


kernel = Compiler(__file__, allocating=False)


@kernel(any_order=True)
def _next_rows(H, v, b, bb, D, rows):  # type: ignore[no-untyped-def]
    """Return the first row a such that a pair of row a or a + 1 passes, or the end of the rows.

    H stands for H - v v'.  Two rows are tried together: they share what is read.  Positions are
    unsigned: where they might count from the end, nothing is vectorised.
    """
    low, high, T, lowered = u8(rows[0]), u8(rows[1]), rows[2], rows[3]
    for a in range(low, high, u8(2)):
        e = a + u8(1)
        v_a, b_a, D_a, c_a = v[a], 2.0 * b[a], D[a], bb[a] - lowered * D[a]
        v_e, b_e, D_e, c_e = v[e], 2.0 * b[e], D[e], bb[e] - lowered * D[e]
        x = H[a, e] - v_a * v_e
        x = D_e * c_a + D_a * bb[e] + x * (T * x - b_a * b[e])
        total = x if x > 0.0 else 0.0
        first = a + u8(2)
        stop = first  # or so many whole blocks later that the rows end before
        if high > first:
            stop += (high - first + u8(BLOCK - 1)) // u8(BLOCK) * u8(BLOCK)
        for k in range(first, stop):
            x = H[a, k] - v_a * v[k]
            y = H[e, k] - v_e * v[k]
            x = D[k] * c_a + D_a * bb[k] + x * (T * x - b_a * b[k])
            y = D[k] * c_e + D_e * bb[k] + y * (T * y - b_e * b[k])
            total += (x if x > 0.0 else 0.0) + (y if y > 0.0 else 0.0)
        if total > 0.0:
            return i8(a)
    return i8(high)


@kernel()
def _allowed(rules, chosen, count):  # type: ignore[no-untyped-def]
    """Whether the chosen monomials satisfy the rules."""
    new = 0
    for i in range(rules.uses.shape[1]):
        for a in range(count):
            if rules.uses[chosen[a], i] > 0:
                new += 1
                break
    if new > rules.room:
        return False
    for a in range(-rules.always, count):
        if a >= 0 and rules.starts.shape[0] == rules.always + 1:
            break
        row = a + rules.always if a < 0 else rules.always + chosen[a]
        start, stop = rules.starts[row], rules.starts[row + 1]
        met = 0
        for i in range(start, stop):
            for c in range(count):
                if chosen[c] == rules.items[i]:
                    met += 1
                    break
        every = rules.strong and a >= 0
        if (every and met < stop - start) or (stop > start and met == 0):
            return False
        if a < 0 and stop == start:
            return False
    return True


@kernel()
def _note(task, rules, chosen, count, gain, need, hits, noted):  # type: ignore[no-untyped-def]
    """List a support that gains more than needed, if the rules allow it; return how many are."""
    if rules is not None and (count < task.fewest or not _allowed(rules, chosen, count)):
        return noted
    if noted < hits.shape[0]:
        for a in range(hits.shape[1]):
            hits[noted, a] = chosen[a] if a < count else -1
    # What is found need not be found again: from now on only what is better by the tolerance.
    better = gain + task.share * (task.cost - gain) - task.room
    if gain <= task.cost and better > need[0]:  # or it is rounding
        need[0] = better
    return noted + 1


@kernel()
def _pairs(task, rules, levels, chosen, hits, need, where, gain):  # type: ignore[no-untyped-def]
    """Try all pairs of later monomials; H is that of the level less v v'."""
    depth, low, high, noted = where
    H, rows = levels.H[depth - 1 if depth > 0 else 0], levels.rows
    b, D, bb, v = rows[2 * depth], rows[2 * depth + 1], rows[BB], rows[V]
    if depth == 0:
        for k in range(low, high):
            bb[k] = b[k] * b[k]
    noise = NOISE * task.cost  # the rounding of the test itself
    if rules is not None:
        for a in range(low, high):
            T = 2.0 * (need[0] - gain)
            if not (T > 0.0 and bb[a] <= T * D[a]):
                chosen[depth] = a
                alone = gain + 0.5 * bb[a] / D[a]
                noted = _note(task, rules, chosen, depth + 1, alone, need, hits, noted)
    a = low - 2
    while noted <= hits.shape[0]:
        T = 2.0 * (need[0] - gain)
        # With nothing left to gain every pair will do: the test would only see its own rounding.
        a = _next_rows(H, v, b, bb, D, (a + 2, high, T, T - noise)) if T > 0.0 else a + 2
        if a >= high:
            break
        for e in range(a, a + 2):
            for k in range(e + 1, high):
                h = H[e, k] - v[e] * v[k]
                D_e = D[e]
                c = bb[e] - (T - noise) * D_e
                x = D[k] * c + D_e * bb[k] + h * (T * h - 2.0 * b[e] * b[k])
                if not (T > 0.0 and x <= 0.0):
                    determinant = D_e * D[k] - h * h
                    determinant = 1e-300 if determinant < 1e-300 else determinant
                    both = (bb[e] * D[k] + bb[k] * D_e - 2.0 * h * b[e] * b[k]) / determinant
                    chosen[depth], chosen[depth + 1] = e, k
                    both = gain + 0.5 * both
                    noted = _note(task, rules, chosen, depth + 2, both, need, hits, noted)
                    T = 2.0 * (need[0] - gain)
    return noted


@kernel()
def _chosen(levels, depth, j, size):  # type: ignore[no-untyped-def]
    """Write b, b^2, D and v of the next level, in which j has been eliminated; return its gain."""
    H, rows, k_b, k_D = levels.H, levels.rows, u8(2 * depth), u8(2 * depth + 1)
    inverse, b_j = 1.0 / rows[k_D, u8(j)], rows[k_b, u8(j)]
    root = np.sqrt(inverse)
    for k in range(u8(j + 1), u8(size)):
        x = H[u8(depth), u8(j), k] * root
        y = rows[k_b, k] - x * b_j * root
        rows[V, k], rows[k_b + u8(2), k], rows[BB, k] = x, y, y * y
        left = rows[k_D, k] - x * x  # never below zero: the ridge is part of H
        rows[k_D + u8(2), k] = 1e-300 if left < 1e-300 else left
    return 0.5 * b_j * b_j * inverse


@kernel(any_order=True)
def _descend(levels, depth, j, size):  # type: ignore[no-untyped-def]
    """Write H of the next level, above its diagonal."""
    H, v, here, there, end = levels.H, levels.rows[V], u8(depth), u8(depth + 1), u8(size)
    for a in range(u8(j + 1), end - u8(1)):
        first, v_a = a + u8(1), v[a]
        stop = first + (end - first + u8(BLOCK - 1)) // u8(BLOCK) * u8(BLOCK)
        for k in range(first, stop):
            H[there, a, k] = H[here, a, k] - v_a * v[k]


@kernel(any_order=True)
def _dot(H, i, k, low, high):  # type: ignore[no-untyped-def]
    """Return the product of two rows of the factor between two columns."""
    U, total = u8(H.shape[0] - 1), 0.0
    for c in range(u8(low), u8(high)):
        total += H[U, u8(i), c] * H[U, u8(k), c]
    return total


@kernel()
def _cut(levels, depth, low, size, missing):  # type: ignore[no-untyped-def]
    """Return the first position from which on all monomials together gain less than is missing.

    They are taken in from the last one on, row by row of a factorisation, until they gain enough.
    """
    H, rows, gain = levels.H, levels.rows, 0.0
    for i in range(size - 1, low - 1, -1):
        for k in range(size - 1, i - 1, -1):
            rest = _dot(H, i, k, k + 1, size)
            if k > i:
                H[-1, i, k] = (H[depth, i, k] - rest) * rows[INVERSE, k]
            else:
                pivot = rows[2 * depth + 1, i] - rest
                rows[INVERSE, i] = 1.0 / np.sqrt(1e-300 if pivot < 1e-300 else pivot)
        # What is left of b stands below the factor.
        z = (rows[2 * depth, i] - _dot(H, i, size, i + 1, size)) * rows[INVERSE, i]
        H[-1, size, i] = z
        gain += 0.5 * z * z
        if not gain < missing:
            return i + 1
    return low


@kernel()
def _count(rules, used, j, change):  # type: ignore[no-untyped-def]
    """Count the inputs of j in ``used`` or take them off; return how many were or are new."""
    new = 0
    for i in range(rules.uses.shape[1]):
        if rules.uses[j, i] > 0:
            before = used[i]
            used[i] += change
            if before == 0 or used[i] == 0:
                new += 1
    return new


@kernel(entry=True)
def search(levels, size, L, task, rules, need, hits):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Go through all choices depth first; return how many supports were listed."""
    chosen, ends, used = levels.places[0], levels.places[1], levels.places[2]
    gains = levels.rows[GAINS]
    room, noted, depth, new, work = i8(0), i8(0), i8(0), i8(0), 0.0
    if rules is not None:
        room = rules.room
    chosen[0], gains[0] = -1, 0.0
    while noted <= hits.shape[0]:
        first = 0 if depth == 0 else chosen[depth - 1] + 1
        if depth == L - 2:
            where = (depth, first, size, noted)
            noted = _pairs(task, rules, levels, chosen, hits, need, where, gains[depth])
            j = ends[depth] = size
        else:
            chosen[depth] += 1
            j = chosen[depth]
            if j == first:
                # Without rules a choice that cannot be completed is left to others.
                ends[depth] = size
                if rules is None:
                    ends[depth] = size - (L - depth) + 1
                if L > 2:
                    cut = _cut(levels, depth, j, size, need[0] - gains[depth] - task.doubt)
                    ends[depth] = cut if cut < ends[depth] else ends[depth]
                    work += ROW * (size - ends[depth])
        if j >= ends[depth]:
            depth -= 1
            if depth < 0:
                break
            if rules is not None:
                room += _count(rules, used, chosen[depth], i8(-1))
            continue
        if rules is not None:
            new = _count(rules, used, j, i8(1))
            if new > room:
                _count(rules, used, j, i8(-1))
                continue
        gain = gains[depth] + _chosen(levels, depth, j, size)
        if not gain <= need[0] and (L == 1 or rules is not None):
            noted = _note(task, rules, chosen, depth + 1, gain, need, hits, noted)
        left = size - j
        work += (0.5 * left + ROW) * left
        if work > task.work or need[1] > 0.0:
            return -1
        if L > 1:
            if depth < L - 3:
                _descend(levels, depth, j, size)
            room -= new
            gains[depth + 1], chosen[depth + 1] = gain, j
            depth += 1
        elif rules is not None:
            _count(rules, used, j, i8(-1))
    return noted
