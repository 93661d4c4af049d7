"""Good supports of every size from moments, compiled: what a search over budgets runs thousands of.

The moves of ``local_search`` in their plainest form: to the best support of l - 1 monomials add
the best entrant, then take the best single swap until none lowers c.  With H = (G_SS + R)^-1,
R = diag(ridge), B = H G_S:, w = H q_S and

    z = q - G_:S w,      d_j = G_jj + ridge_j - G_jS H G_Sj,

adding j lowers c by z_j^2 / (2 d_j), removing i raises it by w_i^2 / (2 H_ii), and swapping i for j
lowers it by (z_j + B_ij w_i / H_ii)^2 / (2 (d_j + B_ij^2 / H_ii)) - w_i^2 / (2 H_ii).

The ridge has one value per monomial, so that one G serves every degree: monomial j of degree d_j
carries the scale t_j in a basis of degree r, and a ridge lam on the coefficients of the scaled
monomials is lam / t_j^2 on those of the plain ones.

Where at most k inputs may be used the sizes are walked again for every k, largest first: the
support of k + 1 inputs gives up the input it misses least and is improved, and competes with the
one grown from l - 1.  No proof is attempted here; engines do that for the model that is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import f8, i8, njit, void
from numpy.typing import NDArray

from polysharp.basis import Array, Basis, Indices
from polysharp.problem import solve_spd

COLLINEAR = 1e-9  # a monomial keeping less than this share of its norm is explained by S
LEAST_GAIN = 1e-9  # a swap must lower c by this share of it: less is no better on new rows


@dataclass(frozen=True, eq=False)
class System:
    """min 1/2 (yy - 2 q'w + w'Gw) + 1/2 sum_j ridge_j w_j^2 over the monomials of a pool."""

    G: Array  # symmetric, over all monomials
    q: Array
    yy: float
    ridge: Array
    pool: Indices  # the monomials that may be used
    parts: NDArray[np.int64]  # (f, r): the distinct inputs of each monomial, -1 behind them
    n_inputs: int

    def refit(self, support: Indices) -> Array:
        """Return the coefficients of a support."""
        if not len(support):
            return np.zeros(0)
        H = self.G[np.ix_(support, support)]
        H[np.diag_indices_from(H)] += self.ridge[support]
        return solve_spd(H, self.q[support])

    def objective(self, support: Indices) -> float:
        """Return c(S)."""
        if not len(support):
            return 0.5 * self.yy
        return 0.5 * (self.yy - float(self.q[support] @ self.refit(support)))

    def inputs_of(self, support: Indices) -> Indices:
        """Return the inputs that a support uses."""
        used = np.unique(self.parts[support])
        return used[used >= 0]


def parts_of(basis: Basis) -> NDArray[np.int64]:
    """Return the distinct inputs of every monomial, one row each, filled up with -1."""
    parts = np.full((len(basis), max(1, basis.degree)), -1, dtype=np.int64)
    for j, m in enumerate(basis.monomials):
        distinct = sorted(set(m))
        parts[j, : len(distinct)] = distinct
    return parts


def grow(
    system: System, size: int, max_inputs: int | None = None, *, start: Indices | None = None
) -> Indices:
    """Return a support of at most ``size`` monomials that no single swap improves."""
    first = np.zeros(0, dtype=np.int64) if start is None else np.asarray(start, dtype=np.int64)
    members = np.full(size, -1, dtype=np.int64)
    members[: len(first)] = first
    k = system.n_inputs if max_inputs is None else min(max_inputs, system.n_inputs)
    G = system.G if system.G.flags.c_contiguous else system.G.T
    pool = np.ascontiguousarray(system.pool, dtype=np.int64)
    _settle(G, system.q, system.ridge, system.yy, pool, system.parts, system.n_inputs, k, members)
    return members[members >= 0].astype(np.intp)


def sizes(
    system: System,
    largest: int,
    max_inputs: int | None = None,
    *,
    wider: list[Indices] | None = None,
) -> Iterator[Indices]:
    """Yield a support for each size 1, ..., ``largest``, each grown from the one before.

    ``wider`` holds the supports of the same sizes with more inputs allowed.
    """
    support = np.zeros(0, dtype=np.intp)
    for size in range(1, min(largest, len(system.pool)) + 1):
        support = grow(system, size, max_inputs, start=support)
        if wider is not None and max_inputs is not None:
            other = _narrowed(system, wider[size - 1], size, max_inputs)
            support = min(support, other, key=system.objective)
        yield support


def _narrowed(system: System, support: Indices, size: int, max_inputs: int) -> Indices:
    """Give up the inputs that the support misses least until the rest are few enough."""
    inputs = system.inputs_of(support)
    if len(inputs) <= max_inputs:
        return support
    while len(inputs) > max_inputs:
        rests = [support[(system.parts[support] != i).all(axis=1)] for i in inputs]
        support = min(rests, key=system.objective)
        inputs = system.inputs_of(support)
    return grow(system, size, max_inputs, start=support)


FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
VEC, MAT = f8[::1], f8[:, ::1]
INTS, TABLE = i8[::1], i8[:, ::1]


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


@njit(i8(i8, MAT, MAT, VEC, VEC, VEC, VEC, INTS, INTS, TABLE, INTS, i8, f8, INTS), **FAST)
def _best_swap(count, H, B, w, z, d, least, pool, members, parts, used, k, needed, out):  # type: ignore[no-untyped-def]
    """Find the swap that lowers 2 c most, by more than ``needed``; its slot and entrant in out."""
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
    return out[0]


@njit(void(MAT, VEC, VEC, f8, INTS, TABLE, i8, i8, INTS), **FAST)
def _settle(G, q, ridge, yy, pool, parts, n_inputs, k, members):  # type: ignore[no-untyped-def]
    """Load the members given (-1 for none), fill the empty slots, swap until none helps.

    ``least`` is what d must exceed for a monomial to join: infinite for those inside.
    """
    size, c = len(members), len(pool)
    H, B, w = np.zeros((size, size)), np.zeros((size, c)), np.zeros(size)
    z, d, least = np.empty(c), np.empty(c), np.empty(c)
    used = np.zeros(n_inputs, dtype=np.int64)
    for b in range(c):
        z[b] = q[pool[b]]
        d[b] = G[pool[b], pool[b]] + ridge[pool[b]]
        least[b] = COLLINEAR * d[b]
    start = members.copy()
    members[:] = -1
    count = 0
    for a in range(size):
        place = np.searchsorted(pool, start[a])
        if start[a] >= 0 and d[place] > least[place]:
            _add(G, count, count + 1, place, pool, members, H, B, w, z, d)
            least[place] = np.inf
            _count_uses(parts[start[a]], used, 1)
            count += 1
    while count < size:
        place = _best_entrant(z, d, least, pool, parts, used, k)
        if place < 0:
            break
        _add(G, count, count + 1, place, pool, members, H, B, w, z, d)
        least[place] = np.inf
        _count_uses(parts[pool[place]], used, 1)
        count += 1
    out = np.empty(2, dtype=np.int64)
    for _ in range(4 * size + 8):
        explained = 0.0
        for a in range(count):
            explained += q[members[a]] * w[a]
        needed = LEAST_GAIN * (yy - explained)
        if _best_swap(count, H, B, w, z, d, least, pool, members, parts, used, k, needed, out) < 0:
            break
        slot, place = out[0], out[1]
        gone = members[slot]
        _count_uses(parts[gone], used, -1)
        _drop(slot, count, members, H, B, w, z, d)
        least[np.searchsorted(pool, gone)] = COLLINEAR * (G[gone, gone] + ridge[gone])
        _add(G, slot, count, place, pool, members, H, B, w, z, d)
        least[place] = np.inf
        _count_uses(parts[pool[place]], used, 1)
