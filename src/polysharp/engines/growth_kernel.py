"""The compiled walk along the sizes: ``working_model`` and its moves without Python in between.

With H = (G_SS + R)^-1, R = diag(ridge), B = H G_S:, w = H q_S and

    z = q - G_:S w,      d_j = G_jj + ridge_j - G_jS H G_Sj,

adding j lowers c by z_j^2 / (2 d_j), removing i raises it by w_i^2 / (2 H_ii), and swapping i for j
lowers it by (z_j + B_ij w_i / H_ii)^2 / (2 (d_j + B_ij^2 / H_ii)) - w_i^2 / (2 H_ii).

A table of 125 monomials is walked to 50 terms in a few milliseconds; the same moves through NumPy
take about fifty times as long, nearly all of it the cost of calls on short arrays.
"""

from __future__ import annotations

import numpy as np
from numba import b1, f8, i8, njit, void

from polysharp.engines.compiling import CACHED

COLLINEAR = 1e-9  # a monomial keeping less than this share of its norm is explained by S
REFRESH = 32  # moves after which rounding is wiped out by loading the support afresh
LEAST_GAIN = 1e-9  # a swap must lower c by this share of it: less is no better on new rows

FAST = {"cache": CACHED, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
VEC, MAT = f8[::1], f8[:, ::1]
INTS, TABLE, BOOLS = i8[::1], i8[:, ::1], b1[::1]


@njit(void(MAT, i8, i8, i8, INTS, INTS, MAT, MAT, VEC, VEC, VEC), **FAST)
def _add(G, slot, count, c, pool, members, H, B, w, z, d):  # type: ignore[no-untyped-def]
    """Put monomial pool[c] into the slot; ``count`` slots are in use, an empty one is zero."""
    j = pool[c]
    zj, dj = z[c], d[c]
    e = np.empty(len(pool))
    for b in range(len(pool)):
        e[b] = G[j, pool[b]]
    for a in range(count):
        if members[a] >= 0:
            g = G[j, members[a]]
            for b in range(len(pool)):
                e[b] -= g * B[a, b]
    step = np.zeros(count)
    for a in range(count):
        step[a] = B[a, c]
    step[slot] = -1.0
    for b in range(len(pool)):
        e[b] /= dj
        z[b] -= e[b] * zj
        d[b] -= e[b] * e[b] * dj
    for a in range(count):
        if step[a] != 0.0:
            w[a] -= step[a] * zj / dj
            for b in range(count):
                H[a, b] += step[a] * step[b] / dj
            for b in range(len(pool)):
                B[a, b] -= step[a] * e[b]
    members[slot] = j


@njit(void(i8, i8, INTS, MAT, MAT, VEC, VEC, VEC), **FAST)
def _drop(slot, count, members, H, B, w, z, d):  # type: ignore[no-untyped-def]
    """Take the slot's monomial out; the slot stays, with zero rows."""
    h, weight = H[slot, slot], w[slot]
    row = B[slot].copy()
    column = H[:count, slot] / h
    for b in range(len(row)):
        z[b] += row[b] * (weight / h)
        d[b] += row[b] * row[b] / h
    for a in range(count):
        w[a] -= column[a] * weight
        for b in range(count):
            H[a, b] -= column[a] * column[b] * h
        for b in range(len(row)):
            B[a, b] -= column[a] * row[b]
    H[slot, :] = 0.0
    H[:, slot] = 0.0
    B[slot, :] = 0.0
    w[slot] = 0.0
    members[slot] = -1


@njit(i8(INTS, INTS, i8), **FAST)
def _new_inputs(parts, used, leaving_count):  # type: ignore[no-untyped-def]
    """Count the inputs of a monomial that nothing in the support uses."""
    new = leaving_count
    for a in range(len(parts)):
        if parts[a] >= 0 and used[parts[a]] == 0:
            new += 1
    return new


@njit(void(INTS, INTS, i8), **FAST)
def _count_uses(parts, used, change):  # type: ignore[no-untyped-def]
    for a in range(len(parts)):
        if parts[a] >= 0:
            used[parts[a]] += change


@njit(i8(VEC, VEC, VEC, INTS, TABLE, INTS, i8), **FAST)
def _best_entrant(z, d, least, pool, parts, used, k):  # type: ignore[no-untyped-def]
    """Return the place in the pool of the best monomial that may join, -1 if none gains."""
    taken = 0
    for i in range(len(used)):
        taken += used[i] > 0
    best, place = 0.0, -1
    for b in range(len(pool)):
        if d[b] > least[b]:
            gain = z[b] * z[b] / d[b]
            if gain > best and _new_inputs(parts[pool[b]], used, taken) <= k:
                best, place = gain, b
    return place


@njit(void(i8, MAT, MAT, VEC, VEC, VEC, VEC, INTS, INTS, TABLE, INTS, i8, f8, INTS), **FAST)
def _best_swap(count, H, B, w, z, d, least, pool, members, parts, used, k, needed, out):  # type: ignore[no-untyped-def]
    """Find the swap that lowers 2 c most, by more than ``needed``; (slot, entrant) goes to out."""
    best = needed
    out[0] = -1
    gains = np.empty(len(pool))
    for slot in range(count):
        if members[slot] < 0:
            continue
        h, weight = H[slot, slot], w[slot]
        tilt, inverse, cost = weight / h, 1.0 / h, weight * weight / h
        top = 0.0
        for b in range(len(pool)):
            row = B[slot, b]
            number = z[b] + row * tilt
            below = d[b] + row * row * inverse
            gains[b] = number * number / max(below, least[b]) * (below > least[b])
            top = max(top, gains[b])
        if top - cost <= best:
            continue
        _count_uses(parts[members[slot]], used, -1)
        taken = 0
        for i in range(len(used)):
            taken += used[i] > 0
        for b in range(len(pool)):
            if gains[b] - cost > best and _new_inputs(parts[pool[b]], used, taken) <= k:
                best = gains[b] - cost
                out[0], out[1] = slot, b
        _count_uses(parts[members[slot]], used, 1)


@njit(i8(MAT, VEC, VEC, INTS, TABLE, INTS, INTS, MAT, MAT, VEC, VEC, VEC, VEC, INTS), **FAST)
def _load(G, q, ridge, pool, parts, start, members, H, B, w, z, d, least, used):  # type: ignore[no-untyped-def]
    """Begin afresh with the members in ``start`` (-1 for none); return how many they are."""
    H[:], B[:], w[:], used[:], members[:] = 0.0, 0.0, 0.0, 0, -1
    for b in range(len(pool)):
        z[b] = q[pool[b]]
        d[b] = G[pool[b], pool[b]] + ridge[pool[b]]
        least[b] = COLLINEAR * d[b]
    count = 0
    for a in range(len(start)):
        place = np.searchsorted(pool, start[a])
        if start[a] >= 0 and d[place] > least[place]:
            _add(G, count, count + 1, place, pool, members, H, B, w, z, d)
            least[place] = np.inf
            _count_uses(parts[start[a]], used, 1)
            count += 1
    return count


@njit(f8(f8, VEC, INTS, VEC, i8), **FAST)
def _value(yy, q, members, w, count):  # type: ignore[no-untyped-def]
    """Return 2 c of the members."""
    value = yy
    for a in range(count):
        value -= q[members[a]] * w[a]
    return value


@njit(i8(MAT, VEC, VEC, f8, INTS, TABLE, i8, i8, INTS, MAT, MAT, VEC, VEC, VEC, VEC, INTS), **FAST)
def _settle(G, q, ridge, yy, pool, parts, k, count, members, H, B, w, z, d, least, used):  # type: ignore[no-untyped-def]
    """Take the best swap until none lowers c; return the number of moves."""
    moves = 0
    out = np.empty(2, dtype=np.int64)
    for _ in range(4 * count + 8):  # a limit that only rounding could reach
        needed = LEAST_GAIN * _value(yy, q, members, w, count)
        _best_swap(count, H, B, w, z, d, least, pool, members, parts, used, k, needed, out)
        slot, place = out[0], out[1]
        if slot < 0:
            break
        gone = members[slot]
        _count_uses(parts[gone], used, -1)
        _drop(slot, count, members, H, B, w, z, d)
        least[np.searchsorted(pool, gone)] = COLLINEAR * (G[gone, gone] + ridge[gone])
        _add(G, slot, count, place, pool, members, H, B, w, z, d)
        least[place] = np.inf
        _count_uses(parts[pool[place]], used, 1)
        moves += 2
    return moves


@njit(void(MAT, VEC, VEC, f8, INTS, TABLE, i8, i8, INTS, i8, TABLE, VEC), **FAST)
def walk_up(G, q, ridge, yy, pool, parts, n_inputs, k, members, first, found, values):  # type: ignore[no-untyped-def]
    """From ``members``: for each size from ``first`` on, fill up, swap until none helps, note it.

    ``least`` is what d must exceed for a monomial to join: infinite for those inside.
    """
    largest, c = len(members), len(pool)
    H, B, w = np.empty((largest, largest)), np.empty((largest, c)), np.empty(largest)
    z, d, least = np.empty(c), np.empty(c), np.empty(c)
    used = np.empty(n_inputs, dtype=np.int64)
    count = _load(G, q, ridge, pool, parts, members.copy(), members, H, B, w, z, d, least, used)
    moves = 0
    for size in range(first, largest + 1):
        if moves > REFRESH:
            old = members.copy()
            count = _load(G, q, ridge, pool, parts, old, members, H, B, w, z, d, least, used)
            moves = 0
        while count < size:
            place = _best_entrant(z, d, least, pool, parts, used, k)
            if place < 0:
                break
            _add(G, count, count + 1, place, pool, members, H, B, w, z, d)
            least[place] = np.inf
            _count_uses(parts[pool[place]], used, 1)
            count += 1
            moves += 1
        moves += _settle(
            G, q, ridge, yy, pool, parts, k, count, members, H, B, w, z, d, least, used
        )
        found[size - first] = members
        values[size - first] = _value(yy, q, members, w, count)


@njit(void(i8, i8, INTS, MAT, MAT, VEC), **FAST)
def _close_up(slot, last, members, H, B, w):  # type: ignore[no-untyped-def]
    """Move the last slot into an empty one."""
    if slot != last:
        members[slot], w[slot] = members[last], w[last]
        B[slot] = B[last]
        H[slot, :] = H[last, :]
        H[:, slot] = H[:, last]
        H[slot, slot] = H[last, last]
    members[last], w[last] = -1, 0.0
    B[last], H[last, :], H[:, last] = 0.0, 0.0, 0.0


@njit(void(MAT, VEC, VEC, f8, INTS, TABLE, i8, i8, TABLE, VEC), **FAST)
def walk_back(G, q, ridge, yy, pool, parts, n_inputs, k, found, values):  # type: ignore[no-untyped-def]
    """From the largest size down: where dropping the least monomial beats the next, take it.

    Row a of ``found`` holds at most a + 1 members with 2 c in ``values``; both are put right.
    """
    rows, largest = found.shape
    c = len(pool)
    members = np.empty(largest, dtype=np.int64)
    H, B, w = np.empty((largest, largest)), np.empty((largest, c)), np.empty(largest)
    z, d, least = np.empty(c), np.empty(c), np.empty(c)
    used = np.empty(n_inputs, dtype=np.int64)
    count, moves, fresh = 0, 0, False
    for row in range(rows - 2, -1, -1):
        if not fresh or moves > REFRESH:
            old = found[row + 1].copy()
            count = _load(G, q, ridge, pool, parts, old, members, H, B, w, z, d, least, used)
            moves = 0
        fresh = False
        if count <= row + 1:  # no more could help, so that of one less is the same
            continue
        slot, cost = 0, np.inf
        for a in range(count):
            loss = w[a] * w[a] / H[a, a]
            if loss < cost:
                slot, cost = a, loss
        if _value(yy, q, members, w, count) + cost >= values[row]:
            continue
        gone = members[slot]
        _count_uses(parts[gone], used, -1)
        _drop(slot, count, members, H, B, w, z, d)
        least[np.searchsorted(pool, gone)] = COLLINEAR * (G[gone, gone] + ridge[gone])
        count -= 1
        _close_up(slot, count, members, H, B, w)
        moves += 1 + _settle(
            G, q, ridge, yy, pool, parts, k, count, members, H, B, w, z, d, least, used
        )
        found[row] = members
        values[row] = _value(yy, q, members, w, count)
        fresh = True


@njit(i8(MAT, VEC, TABLE, BOOLS, i8, MAT, VEC), **FAST)
def _lose(H, w, parts, kept, i, T, u):  # type: ignore[no-untyped-def]
    """Factor H_DD = L L' over the members D kept that use input i: T = L^-1 H_D:, u = L^-1 w_D.

    Returns their number, or -1 where rounding has spoilt H_DD.
    """
    m = 0
    for a in range(len(w)):
        if not kept[a] or not np.any(parts[a] == i):
            continue
        T[m] = H[a]
        u[m] = w[a]
        for b in range(m):
            # T_b at a is entry (m, b) of L, since rows before b were taken out of it as well.
            T[m] -= T[b, a] * T[b]
            u[m] -= T[b, a] * u[b]
        if T[m, a] <= 0.0:
            return -1
        pivot = np.sqrt(T[m, a])
        T[m] /= pivot
        u[m] /= pivot
        m += 1
    return m


@njit(BOOLS(MAT, VEC, TABLE, i8, i8), **FAST)
def narrow(H, w, parts, n_inputs, k):  # type: ignore[no-untyped-def]
    """Give up the input that is missed least until at most k are used; return who is kept.

    Without the members D of an input c rises by u'u / 2, and H and w become H - T'T and w - T'u.
    Both are overwritten.
    """
    count = len(w)
    kept = np.ones(count, dtype=np.bool_)
    T, u = np.empty((count, count)), np.empty(count)
    while True:
        used = np.zeros(n_inputs, dtype=np.bool_)
        for a in range(count):
            for i in parts[a]:
                if kept[a] and i >= 0:
                    used[i] = True
        if used.sum() <= k:
            return kept
        least, which = np.inf, -1
        for i in range(n_inputs):
            if used[i]:
                m = _lose(H, w, parts, kept, i, T, u)
                loss = np.inf if m < 0 else np.sum(u[:m] ** 2)
                if which < 0 or loss < least:
                    least, which = loss, i
        m = _lose(H, w, parts, kept, which, T, u)
        for b in range(max(m, 0)):
            for a in range(count):
                w[a] -= T[b, a] * u[b]
                H[a] -= T[b, a] * T[b]
        for a in range(count):
            if np.any(parts[a] == which):
                kept[a] = False
