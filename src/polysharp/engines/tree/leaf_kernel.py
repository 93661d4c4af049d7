"""The compiled search of leaf enumeration: all choices of L monomials, depth first.

The last two are chosen together: with D the diagonal of H and T twice the gain that is still
needed, a pair gains more than T/2 iff

    D_k (b_a^2 - T D_a) + D_a b_k^2 + H_ak (T H_ak - 2 b_a b_k) > 0,

without a division or a branch.  Summed as positive parts over two rows this takes 0.4 nanoseconds a
pair (and 20 a row); the update of H by the monomial before the pair is part of the same pass.  Rows
are padded with zeros, which add nothing, to whole blocks of BLOCK numbers.

Most supports are never looked at (leaps and bounds, the rule of Furnival and Wilson): more
monomials never gain less, so if all from one on gain too little *together*, nothing among them is
chosen, be it in front of a pair or as its first.  What they gain follows from a factor of H that is
made from the last monomial backwards,

    H_rs = sum_k U_rk U_sk,   k >= max(r, s),       b_r = sum_k U_rk z_k,   k >= r:

all from i on gain 1/2 sum_(k >= i) z_k^2.  Choosing j takes the row u = U_j: out of it.  With
sigma_k = sum_(c < k) u_c^2 and, for every other row and for b likewise, p_rk = sum_(c < k) U_rc u_c
(c >= j), what is left of H has the factor

    U'_rk = (sigma_k U_rk - u_k p_rk) / sqrt(sigma_k sigma_(k+1)):

m^2/2 products instead of a factorisation, and where a pair is to come only z' is asked for, in m.
No p_rk is longer than its row times sqrt(sigma_k), so nothing is lost: a row of U' is wrong by at
most (m + 12) u (1 + 2 sqrt(log(1/mu))) times what U_r is long, mu below the eigenvalues of H: the
squares of u_k / sqrt(sigma_(k+1)) add up to log(H_jj / U_jj^2) at most.

Which monomials come last decides how much is passed over.  If SORTED terms or more are to come, the
last one is that which gains least, the one before it that which gains least beside it, and so on:
what cannot matter stands together.  Later levels keep the order.

Rules are met on the way if that is cheap: monomials that need too many inputs are skipped.
Whatever gains enough is then asked for all rules.  Without rules only supports of L terms count,
since more terms never cost more; with rules, shorter ones count too, down to ``fewest``.

A pair is listed if its test is positive up to its own rounding: less than 64 u (b^2/D + |T|) D_a
D_k, where b^2/D and |T| are at most twice the cost before any gain, so that NOISE times that cost
is added to it.

Without rules ``rules`` is None and nothing is compiled for them; conditional expressions stand for
``min`` and ``max``, which would be compiled as well; and numbers that start as literals are made
``i8``, or what they are passed to is compiled once for the literal and once more.
"""

from __future__ import annotations

import numpy as np
from numba import i8, u8

from polysharp.engines.compiling import Compiler
from polysharp.problem.bounds import UNIT

ROW = 50.0  # pair tests that take as long as what a row takes beside them
SORTED = 4
FACTORED = 0.5  # pair tests that take as long as a product in a factorisation
BLOCK = 16  # numbers that one turn of the vectorised loop takes
NOISE = 512.0 * UNIT

# Rows of numbers: b^2, the update of H, the gains of the levels, z^2 of the next level, u, sigma
# and p of b; and room for what is left of D, of b, and for a sum.
ROWS = 10
BB, V, GAINS, SQUARES, U_J, SIGMA, P, LEFT_D, LEFT_B, SUM = range(-ROWS, 0)
# Rows of places: the positions chosen, where levels stop, how often inputs are used, and the
# monomials that stand at the positions chosen.
CHOSEN, STOPS, USED, PICKED, NAMES = range(5)
CUT_FROM = 4  # terms from which monomials are passed over: of three there are few

kernel = Compiler(__file__, allocating=False)


@kernel(any_order=True)
def _next_rows(H, v, b, bb, D, rows):  # type: ignore[no-untyped-def]
    """Return the first row a such that a pair of row a or a + 1 passes, or the end of the rows.

    H stands for H - v v'.  Two rows are tried together: they share what is read.  Positions are
    unsigned: if they might count from the end, nothing is vectorised.
    """
    low, top, high, T, lowered = u8(rows[0]), u8(rows[1]), u8(rows[2]), rows[3], rows[4]
    for a in range(low, top, u8(2)):
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
    return i8(top)


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
    # A support need not be found again: from now on only those better by the tolerance count.
    better = gain + task.share * (task.cost - gain) - task.room
    if gain <= task.cost and better > need[0]:  # or it is rounding
        need[0] = better
    return noted + 1


@kernel()
def _pairs(task, rules, levels, names, hits, need, where, gain):  # type: ignore[no-untyped-def]
    """Try pairs of later monomials, the first before ``top``; H is that of the level less v v'."""
    depth, low, top, high, noted = where
    H, rows, picked = levels.H[depth - 1 if depth > 0 else 0], levels.rows, levels.places[PICKED]
    b, D, bb, v = rows[3 * depth], rows[3 * depth + 1], rows[BB], rows[V]
    if depth == 0:
        for k in range(low, high):
            bb[k] = b[k] * b[k]
    noise = NOISE * task.cost  # the rounding of the test itself
    if rules is not None:
        for a in range(low, top):
            T = 2.0 * (need[0] - gain)
            if not (T > 0.0 and bb[a] <= T * D[a]):
                picked[depth] = names[a]
                alone = gain + 0.5 * bb[a] / D[a]
                noted = _note(task, rules, picked, depth + 1, alone, need, hits, noted)
    a = low - 2
    while noted <= hits.shape[0]:
        T = 2.0 * (need[0] - gain)
        # With nothing left to gain every pair will do: the test would only see its own rounding.
        a = _next_rows(H, v, b, bb, D, (a + 2, top, high, T, T - noise)) if T > 0.0 else a + 2
        if a >= top:
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
                    picked[depth], picked[depth + 1] = names[e], names[k]
                    both = gain + 0.5 * both
                    noted = _note(task, rules, picked, depth + 2, both, need, hits, noted)
                    T = 2.0 * (need[0] - gain)
    return noted


@kernel()
def _chosen(levels, depth, j, size):  # type: ignore[no-untyped-def]
    """Write b, b^2, D and v of the next level, in which j has been eliminated; return its gain."""
    H, rows, k_b, k_D = levels.H, levels.rows, u8(3 * depth), u8(3 * depth + 1)
    inverse, b_j = 1.0 / rows[k_D, u8(j)], rows[k_b, u8(j)]
    root = np.sqrt(inverse)
    for k in range(u8(j + 1), u8(size)):
        x = H[u8(depth), u8(j), k] * root
        y = rows[k_b, k] - x * b_j * root
        rows[V, k], rows[k_b + u8(3), k], rows[BB, k] = x, y, y * y
        left = rows[k_D, k] - x * x  # never below zero: the ridge is part of H
        rows[k_D + u8(3), k] = 1e-300 if left < 1e-300 else left
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


@kernel()
def _swap(levels, depth, low, i, t, size):  # type: ignore[no-untyped-def]
    """Let two monomials of a level change their positions, i < t, which is not factorised yet."""
    H, U, rows, names = levels.H[depth], levels.U[depth], levels.rows, levels.places[NAMES + depth]
    for k in range(low, i):
        H[k, i], H[k, t] = H[k, t], H[k, i]
    for k in range(i + 1, t):
        H[i, k], H[k, t] = H[k, t], H[i, k]
    for k in range(t + 1, size):
        H[i, k], H[t, k] = H[t, k], H[i, k]
        U[k, i], U[k, t] = U[k, t], U[k, i]
    for row in (3 * depth, 3 * depth + 1, LEFT_D, LEFT_B):
        rows[row, i], rows[row, t] = rows[row, t], rows[row, i]
    names[i], names[t] = names[t], names[i]


@kernel(any_order=True)
def _explained(U, total, t, low, size):  # type: ignore[no-untyped-def]
    """Take what the later columns of a factor explain off column t of H."""
    first, end = u8(low), u8(t)
    stop = first + (end - first + u8(BLOCK - 1)) // u8(BLOCK) * u8(BLOCK)
    for c in range(u8(t + 1), u8(size), u8(2)):
        x, y = U[c, end], U[c + u8(1), end]  # zero beyond the last
        for r in range(first, stop):
            total[r] -= x * U[c, r] + y * U[c + u8(1), r]


@kernel()
def _factored(levels, depth, low, size):  # type: ignore[no-untyped-def]
    """Put the monomials of a level into their order, and write U, z and z^2."""
    H, U, rows = levels.H[depth], levels.U[depth], levels.rows
    b, D, z = rows[3 * depth], rows[3 * depth + 1], rows[3 * depth + 2]
    left_D, left_b, total = rows[LEFT_D], rows[LEFT_B], rows[SUM]
    for r in range(low, size):
        left_D[r], left_b[r] = D[r], b[r]
        if depth > 0:
            levels.places[NAMES + depth, r] = levels.places[NAMES + depth - 1, r]
    for t in range(size - 1, low - 1, -1):
        least, gained = t, left_b[t] * left_b[t] / left_D[t]
        for r in range(t - 1, low - 1, -1):
            gain = left_b[r] * left_b[r] / left_D[r]
            if gain < gained:
                least, gained = r, gain
        if least < t:
            _swap(levels, depth, low, least, t, size)
        for r in range(low, t):
            total[r] = H[r, t]
        _explained(U, total, t, low, size)
        pivot = 1e-300 if left_D[t] < 1e-300 else left_D[t]
        root = 1.0 / np.sqrt(pivot)
        z[t], U[t, t] = left_b[t] * root, pivot * root
        rows[SQUARES, t] = z[t] * z[t]
        for r in range(low, t):
            x = total[r] * root
            U[t, r] = x
            left_D[r] -= x * x
            left_b[r] -= x * z[t]


@kernel(any_order=True)
def _parted(levels, depth, j, size):  # type: ignore[no-untyped-def]
    """Write z^2 of the level in which j is in, and what its factor follows from."""
    U, rows, first, end = levels.U, levels.rows, u8(j + 1), u8(size)
    here, z = u8(depth), u8(3 * depth + 2)
    own = U[here, u8(j), u8(j)]
    sigma, p = own * own, own * rows[z, u8(j)]
    for k in range(first, end):
        u = U[here, k, u8(j)]
        rows[U_J, k], rows[SIGMA, k], rows[P, k] = u, sigma, p
        sigma += u * u
        p += u * rows[z, k]
    rows[SIGMA, end] = sigma
    for k in range(first, end):
        x = rows[SIGMA, k] * rows[z, k] - rows[U_J, k] * rows[P, k]
        rows[SQUARES, k] = x * x / (rows[SIGMA, k] * rows[SIGMA, k + u8(1)])


@kernel(any_order=True)
def _turned(levels, depth, j, size):  # type: ignore[no-untyped-def]
    """Write U and z of the level in which j is in, once it is parted."""
    U, rows, here, there = levels.U, levels.rows, u8(depth), u8(depth + 1)
    z, first, end = u8(3 * depth + 2), u8(j + 1), u8(size)
    for k in range(first, end):
        sigma, u = rows[SIGMA, k], rows[U_J, k]
        inverse = 1.0 / np.sqrt(sigma * rows[SIGMA, k + u8(1)])
        rows[z + u8(3), k] = (sigma * rows[z, k] - u * rows[P, k]) * inverse
        rows[LEFT_D, k], rows[LEFT_B, k], rows[SUM, k] = sigma * inverse, u * inverse, 0.0
    for k in range(first, end):
        c, s, u = rows[LEFT_D, k], rows[LEFT_B, k], rows[U_J, k]
        stop = first + (k + u8(1) - first + u8(BLOCK - 1)) // u8(BLOCK) * u8(BLOCK)
        for r in range(first, stop):
            x, p = U[here, k, r], rows[SUM, r]
            U[there, k, r] = c * x - s * p
            rows[SUM, r] = p + u * x


@kernel()
def _cut(squares, low, size, missing):  # type: ignore[no-untyped-def]
    """Return the first position from which on all monomials together gain less than is missing."""
    gain = 0.0
    for k in range(size - 1, low - 1, -1):
        gain += 0.5 * squares[k]
        if not gain < missing:
            return k + 1
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
def search(levels, size, L, task, rules, need, hits):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """Go through all choices depth first; return how many supports were listed.

    ``need`` is the gain from which one is, a flag that ends the search, and the work it has been.
    """
    rows, places = levels.rows, levels.places
    chosen, stops, used, picked, gains = (
        places[CHOSEN], places[STOPS], places[USED], places[PICKED], rows[GAINS]
    )  # fmt: skip
    room, noted, depth, new, work = i8(0), i8(0), i8(0), i8(0), 0.0
    if rules is not None:
        room = rules.room
    # The more rounding may hide, the less can be passed over.
    cuts, last_sorted = L >= CUT_FROM and task.doubt < need[0], i8(0)
    if cuts and L > SORTED:
        last_sorted = L - SORTED
    chosen[0], gains[0] = -1, 0.0
    while noted <= hits.shape[0]:
        first = 0 if depth == 0 else chosen[depth - 1] + 1
        names = places[NAMES + (depth if depth < last_sorted else last_sorted)]
        missing = need[0] - gains[depth] - task.doubt
        if depth == L - 2:
            top = _cut(rows[SQUARES], first, size, missing) if cuts else i8(size)
            where = (depth, first, top, size, noted)
            noted = _pairs(task, rules, levels, names, hits, need, where, gains[depth])
            work += (top - first) * (ROW + size - 0.5 * (first + top))
            j = stops[depth] = size
        else:
            chosen[depth] += 1
            j = chosen[depth]
            if j == first:
                # Without rules a choice that cannot be completed is left to others.
                stops[depth] = size
                if rules is None:
                    stops[depth] = size - (L - depth) + 1
                if cuts:
                    if depth <= last_sorted:
                        _factored(levels, depth, j, size)
                        work += FACTORED * (size - j) ** 3 / 6.0
                    cut = _cut(rows[SQUARES], j, size, missing)
                    stops[depth] = cut if cut < stops[depth] else stops[depth]
        if j >= stops[depth]:
            depth -= 1
            if depth < 0:
                break
            if rules is not None:
                room += _count(rules, used, picked[depth], i8(-1))
            continue
        picked[depth] = names[j]
        if rules is not None:
            new = _count(rules, used, picked[depth], i8(1))
            if new > room:
                _count(rules, used, picked[depth], i8(-1))
                continue
        gain = gains[depth] + _chosen(levels, depth, j, size)
        if not gain <= need[0] and (L == 1 or rules is not None):
            noted = _note(task, rules, picked, depth + 1, gain, need, hits, noted)
        left = size - j
        work += ROW + (2.0 * left if depth == L - 3 else left * left)
        if work > task.work or need[1] > 0.0:
            return -1
        if L > 1:
            if depth < L - 3:
                _descend(levels, depth, j, size)
            if cuts and depth >= last_sorted:
                _parted(levels, depth, j, size)
                if depth < L - 3:
                    _turned(levels, depth, j, size)
            room -= new
            gains[depth + 1], chosen[depth + 1] = gain, j
            depth += 1
        elif rules is not None:
            _count(rules, used, picked[depth], i8(-1))
    need[2] = work
    return noted
