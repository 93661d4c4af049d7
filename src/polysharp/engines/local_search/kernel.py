"""The compiled core: the ridge regression on a support S that changes one monomial at a time.

With H = (G_SS + lam I)^-1, B = H G_S:, w = H q_S and

    z = q - G_:S w,      d_j = G_jj + lam - G_jS H G_Sj   (what of m_j the support leaves over),

    adding j lowers c by               z_j^2 / (2 d_j),
    dropping i raises it by            w_i^2 / (2 H_ii),
    swapping i for j lowers it by      (z_j + B_ij w_i / H_ii)^2 / (2 (d_j + B_ij^2 / H_ii))
                                       - w_i^2 / (2 H_ii),

so all l x f swaps are compared in one pass over B, with no factorisation.  What is held::

    slot   members   w     H (l x l)       B (l x f): how S explains each monomial
      0       17    w_0   H_00 H_01 .     B_00 B_01 B_02 . . . . . . . . .
      1        4    w_1   H_10 H_11 .     B_10 B_11 B_12 . . . . . . . . .
      2       -1     .     .    .   .      .         empty: not yet in use
                                      z    z_0  z_1  z_2 . . . . . . . . .
                                      d    d_0  d_1  d_2 . . . . . . . . .

    leave(slot): rank-one downdate of H, B, w, z, d by the slot's row;
    enter(slot): rank-one update by e = (G_j: - G_jS B) / d_j, the part of m_j that is new.

Where coefficients are bounded, members whose box has stopped them are *parked* at its end b: their
rows of H and B are zero, and all of the above holds for the others, the free ones.  Joining gains
t (z_j - d_j t/2), t being z_j / d_j or the end of the box; a parked member pulls by z_i - lam b,
and without it c rises by (z_i - lam b) b + d_i b^2/2.  After every move members are parked and
freed until all boxes are kept (``_mend``), so that gains are what a move promises at best: a swap
that does not keep its promise is undone.

The kernels know every rule.  Checking a rule costs more than a gain, so all gains are computed
first and only monomials that would be the best so far are checked; where a budget of terms is all
there is, ``rules`` is None and nothing is compiled for them.  A kernel returns whenever it needs
something from outside: a row of G that is not at hand, a fresh start against rounding, or simply
after so many moves, so that its caller can look at the clock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polysharp.engines.compiling import CACHED
from polysharp.typing import Array

Ints = NDArray[np.int64]

ENTRY: dict[str, Any] = {
    "cache": CACHED,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc"},
    "no_cfunc_wrapper": True,  # nobody calls these from C, and a wrapper takes time to compile
}
INNER = ENTRY | {"no_cpython_wrapper": True}


class Equations(NamedTuple):
    """The problem: row j of G stands at ``place[j]`` of the table, -1 where it is not at hand."""

    table: Array
    place: Ints
    q: Array
    ridged: Array  # G_jj + lam
    yy: float
    lam: float


class RuleTable(NamedTuple):
    """What a support must satisfy beyond its size, and what is counted for that."""

    k: int  # inputs that may be used
    inputs: Ints  # (f, .): the inputs of each monomial, filled up with p
    required: Ints  # inputs that must be used
    parents: Ints  # (f, .): filled up with f; no columns without heredity
    wanted: Ints  # parents that each monomial must have among the members
    fixed: NDArray[np.bool_]  # members that may not leave
    used: Ints  # (p + 1): members that use each input; the last one always counts as used
    inside: Ints  # (f + 1): 1 for members


class State(NamedTuple):
    """The regression on the members."""

    members: Ints
    H: Array
    B: Array
    w: Array
    z: Array
    d: Array
    least: Array  # what d_j must exceed for j to join: the floor, infinite for members
    floor: Array
    parked: NDArray[np.bool_]  # slots of members that stand at an end of their box


class Stand(NamedTuple):
    """Where a kernel stands.

    Kernels hand back plain numbers in this order: Numba makes a named tuple by calling Python, and
    a Ctrl-C that arrives in that moment ends in a crash.
    """

    taken: int  # slots in use
    progress: int  # the size that is being climbed to, or the steps walked
    value: float  # c, as the moves have changed it
    moves: int  # since the members were loaded; REFRESH asks for that
    need: int  # the monomial whose row of G is needed, or one of the two below


DONE, PAUSED = -1, -2
COLLINEAR = 1e-9  # a monomial that keeps less than this share of its norm is explained by S
REFRESH = 32  # moves after which a support is loaded afresh, rounding being still far below gains


class Climb(NamedTuple):
    """What ``climb`` is to do: for each size, fill up and then take swaps that gain enough."""

    first: int
    last: int
    needed: float  # a swap must lower c by more than this; infinite for no swaps
    share: float  # and by more than this share of c
    drop: int = -1  # the slot of a member that leaves first


class Book(NamedTuple):
    """The support of each size that is written down: row l - 1 for l members; without rows, none.

    An empty book and not None: one variant of the kernels less to compile.
    """

    members: Ints
    value: Array  # c
    cheapest: Ints  # the slot of the member that is missed least
    without: Array  # c without it


class Chase(NamedTuple):
    """What ``walk`` is to do, one step for each row of draws."""

    step: int  # steps made before
    record: float  # c of the best support known, less rounding: below it the walk pauses
    draws: Ints  # (steps, 2): for how long the one that leaves stays out, the one that joins in
    until: Ints  # (f): the step until which a monomial may not move


@njit(**INNER)
def _axpy(a, x, y):  # type: ignore[no-untyped-def]
    for b in range(x.size):
        y[b] += a * x[b]


@njit(**INNER)
def _move(equations, boxes, rules, state, slot, count, j):  # type: ignore[no-untyped-def]
    """Empty one of the ``count`` slots in use, if it has a member, then put j there, if j >= 0."""
    members = state.members
    for turn in range(2):
        m = j if turn else members[slot]
        if m < 0:
            continue
        if boxes is not None and state.parked[slot]:
            _shift(equations, state, slot, count, -state.w[slot])
            state.parked[slot] = False
        else:
            _change(equations, state, slot, count, j if turn else -1)
        state.least[m] = np.inf if turn else state.floor[m]
        if rules is not None:
            rules.inside[m] = turn
            for i in rules.inputs[m]:
                rules.used[i] += 2 * turn - 1
    members[slot] = j


@njit(**INNER)
def _leftover(equations, state, count, m, v):  # type: ignore[no-untyped-def]
    """Write G_m: - G_mS B, what of monomial m the free members leave over."""
    row = equations.table[equations.place[m]]
    for b in range(v.size):
        v[b] = row[b]
    for a in range(count):
        if state.members[a] >= 0:
            _axpy(-row[state.members[a]], state.B[a], v)


@njit(**INNER)
def _shift(equations, state, slot, count, step):  # type: ignore[no-untyped-def]
    """Change the coefficient of a parked member; the free ones follow."""
    m, v = state.members[slot], np.empty(state.z.size)
    _leftover(equations, state, count, m, v)
    _axpy(-step, v, state.z)
    for a in range(count):
        state.w[a] -= step * state.B[a, m]
    state.w[slot] += step


@njit(**INNER)
def _change(equations, state, slot, count, j):  # type: ignore[no-untyped-def]
    """Take the member of a slot out of the regression, or j in, if j >= 0.

    Leaving and joining are the same change of rank one: with

        leaving:   u = H_:i / H_ii,  v = B_i:,                       omega = w_i,       s = 1 / H_ii
        joining:   u = B_:j,         v = (G_j: - G_jS B) / d_j,      omega = z_j / d_j, s = -d_j

    (u is -1 in the slot of the one that joins) H loses u u' / s, B loses u v', w loses omega u, z
    gains omega s v, and d gains s v^2.
    """
    H, B, w, z, d = state.H, state.B, state.w, state.z, state.d
    u, v = np.empty(count), np.empty(z.size)
    if j >= 0:
        omega, s = z[j] / d[j], -d[j]
        for b in range(v.size):
            B[slot, b] = 0.0
        for a in range(count):
            u[a], H[a, slot], H[slot, a] = B[a, j], 0.0, 0.0
        _leftover(equations, state, count, j, v)
        for b in range(v.size):
            v[b] /= d[j]
        u[slot], w[slot] = -1.0, 0.0
    else:
        omega, s = w[slot], 1.0 / H[slot, slot]
        for a in range(count):
            u[a] = H[a, slot] * s
        for b in range(v.size):
            v[b] = B[slot, b]
    for b in range(v.size):
        z[b] += omega * s * v[b]
        d[b] += s * v[b] * v[b]
    for a in range(count):
        w[a] -= omega * u[a]
        _axpy(-u[a], v, B[a])
        for b in range(count):
            H[a, b] -= u[a] * u[b] / s


@njit(**INNER)
def _park(equations, state, slot, count, end):  # type: ignore[no-untyped-def]
    """Fix a free member at an end of its box; return by how much c rises."""
    off = state.w[slot] - end
    cost = 0.5 * off * off / state.H[slot, slot]
    _change(equations, state, slot, count, -1)
    for a in range(count):
        state.H[a, slot] = state.H[slot, a] = 0.0
    for b in range(state.z.size):
        state.B[slot, b] = 0.0
    state.w[slot], state.parked[slot] = 0.0, True
    if end != 0.0:
        _shift(equations, state, slot, count, end)
    return cost


@njit(**INNER)
def _mend(equations, boxes, state, count):  # type: ignore[no-untyped-def]
    """Park and free members until all boxes are kept and none gains by moving; return c's rise."""
    if boxes is None:
        return 0.0
    members, w, H, rise = state.members, state.w, state.H, 0.0
    for _ in range(4 * count + 8):
        slot, worst, end = -1, 0.0, 0.0
        for a in range(count):
            if members[a] >= 0 and not state.parked[a]:
                near = min(max(w[a], boxes.low[members[a]]), boxes.high[members[a]])
                cost = 0.5 * (w[a] - near) ** 2 / H[a, a]
                if cost > worst:
                    slot, worst, end = a, cost, near
        if slot >= 0:
            rise += _park(equations, state, slot, count, end)
            continue
        for a in range(count):
            m = members[a]
            if m >= 0 and state.parked[a] and state.d[m] > state.floor[m]:
                pull = state.z[m] - equations.lam * w[a]
                inwards = (pull > 0.0 and w[a] < boxes.high[m]) or (
                    pull < 0.0 and w[a] > boxes.low[m]
                )
                gain = 0.5 * pull * pull / state.d[m]
                if inwards and gain > worst + 1e-15 * equations.yy:
                    slot, worst = a, gain
        if slot < 0:
            break
        _shift(equations, state, slot, count, -w[slot])
        state.parked[slot] = False
        rise -= worst
        _change(equations, state, slot, count, members[slot])
    return rise


@njit(**INNER)
def _cost(equations, boxes, state, slot):  # type: ignore[no-untyped-def]
    """Return by how much c rises without a member."""
    w = state.w[slot]
    if boxes is not None and state.parked[slot]:
        m = state.members[slot]
        return (state.z[m] - equations.lam * w) * w + 0.5 * state.d[m] * w * w
    return 0.5 * w * w / state.H[slot, slot]


@njit(**INNER)
def _gains(state, boxes, row, tilt, inverse, gains):  # type: ignore[no-untyped-def]
    """Write how much each monomial lowers c by joining; return the largest."""
    # Once member i is out: ``row`` = B_i:, ``tilt`` = w_i / H_ii, ``inverse`` = 1 / H_ii.
    z, d, least = state.z, state.d, state.least
    top = 0.0
    for b in range(gains.size):
        number = z[b] + row[b] * tilt
        left = d[b] + row[b] * row[b] * inverse
        if boxes is None:
            gains[b] = 0.5 * number * number / max(left, least[b]) * (left > least[b])
        else:
            step = min(max(number / max(left, least[b]), boxes.low[b]), boxes.high[b])
            gains[b] = step * (number - 0.5 * left * step) * (left > least[b])
        top = max(top, gains[b])
    return top


@njit(**INNER)
def _gains_without(equations, boxes, state, slot, count, gains):  # type: ignore[no-untyped-def]
    """Write the gains once a member is out; return the largest."""
    w = state.w[slot]
    if boxes is not None and state.parked[slot]:
        v = np.empty(gains.size)
        _leftover(equations, state, count, state.members[slot], v)
        return _gains(state, boxes, v, w, 0.0, gains)
    h = state.H[slot, slot]
    return _gains(state, boxes, state.B[slot], w / h, 1.0 / h, gains)


@njit(**INNER)
def _book(rules, j, change):  # type: ignore[no-untyped-def]
    """Count monomial j in (1) or out (-1)."""
    rules.inside[j] += change
    for i in rules.inputs[j]:
        rules.used[i] += change


@njit(**INNER)
def _lack(rules, j):  # type: ignore[no-untyped-def]
    """Return how many parents j still wants."""
    lack = rules.wanted[j]
    for a in range(rules.parents.shape[1]):
        lack -= rules.inside[rules.parents[j, a]]
    return lack


@njit(**INNER)
def _has(row, i):  # type: ignore[no-untyped-def]
    found = False
    for entry in row:
        found |= entry == i
    return found


@njit(**INNER)
def _keeps(rules, orphans, j):  # type: ignore[no-untyped-def]
    """Whether j has its parents, mends the ``orphans`` among the members, and uses what must be."""
    if _lack(rules, j) > 0:
        return False
    for m in orphans:
        if _lack(rules, m) > 1 or not _has(rules.parents[m], j):
            return False
    missing = 0
    for i in rules.required:
        missing += rules.used[i] == 0 and not _has(rules.inputs[j], i)
    return missing == 0


@njit(**INNER)
def _best(rules, members, gains, bar):  # type: ignore[no-untyped-def]
    """Return the monomial of largest gain above ``bar`` that may join, -1 for none."""
    # The members alone need not keep the rules: they are what a swap has in between.
    best = -1
    if rules is None:
        for j in range(gains.size):
            if gains[j] > bar:
                best, bar = j, gains[j]
        return best
    used, inputs, room, n = rules.used, rules.inputs, rules.k, 0
    for i in range(used.size - 1):
        room -= used[i] > 0
    orphans = np.empty_like(members)
    for m in members:
        if m >= 0 and rules.inside[m] > 0 and _lack(rules, m) > 0:
            orphans[n] = m
            n += 1
    budgets_only = rules.parents.shape[1] == 0 and rules.required.size == 0
    for j in range(gains.size):
        if gains[j] > bar:
            new = 0
            for a in range(inputs.shape[1]):
                new += used[inputs[j, a]] == 0
            if new <= room and (budgets_only or _keeps(rules, orphans[:n], j)):
                best, bar = j, gains[j]
    return best


@njit(**INNER)
def _best_swap(equations, boxes, rules, state, count, gains, needed):  # type: ignore[no-untyped-def]
    """Return (gain, slot, entrant) of the swap that lowers c most, by more than ``needed``."""
    members = state.members
    best, at, entrant = needed, count, -1
    for slot in range(count):
        m, cost = members[slot], _cost(equations, boxes, state, slot)
        if _gains_without(equations, boxes, state, slot, count, gains) - cost <= best:
            continue
        if rules is not None:
            if rules.fixed[m]:
                continue
            _book(rules, m, -1)
        j = _best(rules, members, gains, best + cost)
        if rules is not None:
            _book(rules, m, 1)
        if j >= 0:
            best, at, entrant = gains[j] - cost, slot, j
    return best, at, entrant


@njit(**INNER)
def _load(equations, boxes, rules, state, count):  # type: ignore[no-untyped-def]
    """Compute everything afresh from the members; return c."""
    z, d, value = state.z, state.d, 0.5 * equations.yy
    for b in range(z.size):
        z[b], d[b], state.least[b] = equations.q[b], equations.ridged[b], state.floor[b]
    if rules is not None:
        for i in range(rules.used.size):
            rules.used[i] = i == rules.used.size - 1
        for b in range(rules.inside.size):
            rules.inside[b] = 0
    for a in range(count):
        j = state.members[a]
        # Members that the rules want may explain each other: as if their ridge were larger.
        d[j] = max(d[j], COLLINEAR * equations.ridged[j])
        value -= 0.5 * z[j] * z[j] / d[j]
        state.members[a], state.parked[a] = -1, False
        _move(equations, boxes, rules, state, a, a + 1, j)
    return value + _mend(equations, boxes, state, count)


@njit(**INNER)
def _drop(equations, boxes, rules, state, slot, count):  # type: ignore[no-untyped-def]
    """Take a member out and move the last of the ``count`` slots into its place."""
    nobody, last = min(slot, -1), count - 1
    _move(equations, boxes, rules, state, slot, count, nobody)
    state.members[slot], state.w[slot] = state.members[last], state.w[last]
    for b in range(state.z.size):
        state.B[slot, b] = state.B[last, b]
    for a in range(last):
        state.H[slot, a] = state.H[a, slot] = state.H[last, a]
    state.H[slot, slot] = state.H[last, last]
    state.parked[slot], state.parked[last] = state.parked[last], False
    state.members[last] = -1


@njit(**INNER)
def _note(equations, boxes, state, book, row, count, value):  # type: ignore[no-untyped-def]
    """Write the support down, and what c would be without its cheapest member."""
    book.value[row], book.without[row] = value, np.inf
    for a in range(state.members.size):
        book.members[row, a] = state.members[a]
    for a in range(count):
        without = value + _cost(equations, boxes, state, a)
        if without < book.without[row]:
            book.cheapest[row], book.without[row] = a, without


@njit(**INNER)
def _forgive(state, broken, n):  # type: ignore[no-untyped-def]
    """Let those join again whose swaps did not keep what they promised; return 0 of them."""
    for a in range(n):
        state.least[broken[a]] = state.floor[broken[a]]
    return 0


@njit(**ENTRY)
def climb(equations, boxes, rules, state, stand, task, book):  # type: ignore[no-untyped-def]
    """Add the best entrant while there is room, else take the best swap, until neither helps.

    Once for each size from the first to the last, noted in the book if that has rows.  Pauses
    after ``REFRESH`` moves, and loads the members afresh where it goes on from there.
    """
    count, value, moves, size = stand.taken, stand.value, stand.moves, task.first
    gains, broken, n = np.empty(state.z.size), np.empty(REFRESH, dtype=np.int64), 0
    if moves >= REFRESH:
        value, moves = _load(equations, boxes, rules, state, count), 0
    if task.drop >= 0:
        value += _cost(equations, boxes, state, task.drop)
        _drop(equations, boxes, rules, state, task.drop, count)
        count, moves = count - 1, moves + 1
        value += _mend(equations, boxes, state, count)
    need = PAUSED
    while moves < REFRESH:
        at, gain, entrant, needed = count, 0.0, -1, max(task.needed, task.share * value)
        if count < size:
            _gains(state, boxes, state.z, 0.0, 0.0, gains)
            entrant = _best(rules, state.members, gains, 0.0)
            gain = gains[entrant]
        if entrant < 0 and needed < np.inf:
            gain, at, entrant = _best_swap(equations, boxes, rules, state, count, gains, needed)
        if entrant >= 0:
            if equations.place[entrant] < 0:
                need = entrant
                break
            before, taken, count = state.members[at], count, max(count, at + 1)
            _move(equations, boxes, rules, state, at, count, entrant)
            change, moves = _mend(equations, boxes, state, count) - gain, moves + 1
            if boxes is not None and at < taken and change >= -needed:
                _move(equations, boxes, rules, state, at, count, before)
                _mend(equations, boxes, state, count)
                change, state.least[entrant], broken[n], n = 0.0, np.inf, entrant, n + 1
            elif n > 0:
                n = _forgive(state, broken, n)
            value += change
        else:
            if book.value.size > 0:
                _note(equations, boxes, state, book, size - 1, count, value)
            if size >= task.last:
                need = DONE
                break
            size, n = size + 1, _forgive(state, broken, n)
    _forgive(state, broken, n)
    return count, size, value, moves, need


@njit(**ENTRY)
def walk(equations, boxes, rules, state, stand, chase):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Exchange the cheapest member that may leave for the best entrant, step after step.

    c may rise.  Ends early where nothing may move, or below the record.
    """
    members, until = state.members, chase.until
    count, value, moves, steps = stand.taken, stand.value, stand.moves, len(chase.draws)
    gains, costs = np.empty(state.z.size), np.empty(count)
    for s in range(steps):
        step = chase.step + s + 1
        for a in range(count):
            costs[a] = _cost(equations, boxes, state, a)
            if until[members[a]] > step:
                costs[a] = np.inf
            if rules is not None and rules.fixed[members[a]]:
                costs[a] = np.inf
        j, slot, cost = -1, 0, 0.0
        while j < 0:
            slot, cost = 0, np.inf
            for a in range(count):
                if costs[a] < cost:
                    slot, cost = a, costs[a]
            if cost == np.inf:
                return count, s, value, moves + s, DONE
            m, costs[slot] = members[slot], np.inf
            _gains_without(equations, boxes, state, slot, count, gains)
            for b in range(gains.size):  # whose time has not come must beat the record
                if until[b] > step and value + cost - gains[b] >= chase.record:
                    gains[b] = 0.0
            if rules is not None:
                _book(rules, m, -1)
            j = _best(rules, members, gains, 0.0)
            if rules is not None:
                _book(rules, m, 1)
        if equations.place[j] < 0:
            return count, s, value, moves + s, j
        until[members[slot]] = step + 1 + chase.draws[s, 0]
        until[j] = step + 1 + chase.draws[s, 1]
        _move(equations, boxes, rules, state, slot, count, j)
        value += cost - gains[j] + _mend(equations, boxes, state, count)
        if value < chase.record:
            return count, s + 1, value, moves + s + 1, PAUSED
    return count, steps, value, moves + steps, PAUSED
