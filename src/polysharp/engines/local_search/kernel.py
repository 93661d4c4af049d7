"""The compiled core: the ridge regression on a support S that changes one monomial at a time.

With H = (G_SS + lam I)^-1, B = H G_S:, w = H q_S and

    z = q - G_:S w,      d_j = G_jj + lam - G_jS H G_Sj   (what of m_j the support leaves over),

    adding j lowers c by               z_j^2 / (2 d_j),
    dropping i raises it by            w_i^2 / (2 H_ii),
    swapping i for j lowers it by      (z_j + B_ij w_i / H_ii)^2 / (2 (d_j + B_ij^2 / H_ii))
                                       - w_i^2 / (2 H_ii),

so all l x f swaps are compared in one pass over B, with no factorisation.  What is held is one
tableau T, whose last rows have names::

    slot   members   B (l x f): how S explains each monomial     H (l x l)
      0       17      B_00 B_01 B_02 . . . . . . . . .           H_00 H_01  0
      1        4      B_10 B_11 B_12 . . . . . . . . .           H_10 H_11  0
      2       -1       0    0    0   . . . . . . . . .            0    0    0     empty
      Z               z_0  z_1  z_2  . . . . . . . . .          -w_0 -w_1   0
      D               d_0  d_1  d_2  . . . . . . . . .
      .                .    .    .                                (see below)

Leaving and joining are the same change of rank one: with a column of T, a pivot and a row v,

    leaving slot i:       column H_:i (and -w_i),   pivot H_ii,   v = T_i:
    joining as slot i:    column B_:j (and z_j),    pivot d_j,    v = [G_j: | e_i] - G_jS [B | H]

every slot and Z lose their entry in that column, over the pivot, times v; d loses v^2 over the
pivot by joining, and wins it by leaving.  The row of the one that joins, until then empty, is v
over the pivot.

Where coefficients are bounded, members whose box has stopped them are *parked* at its end b: their
rows of T are zero, and all of the above holds for the others, the free ones.  Joining gains
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

from typing import NamedTuple

import numpy as np
from numba import i8
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.typing import Array

Ints = NDArray[np.int64]

kernel = Compiler(__file__, allocating=False, contracting=True)


class Equations(NamedTuple):
    """The problem: row j of G stands at ``place[j]`` of the table, -1 where it is not at hand."""

    table: Array
    place: Ints
    yy: float
    lam: float


class Boxed(NamedTuple):
    """Ends of the coefficients, and which of them are reached."""

    low: Array
    high: Array
    parked: NDArray[np.bool_]  # slots of members that stand at an end of their box
    broken: Ints  # (REFRESH): entrants whose swaps did not keep what they promised


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
    orphans: Ints  # members that lack a parent


# Rows of the tableau below those of the slots.
Z, D = -9, -8
LEAST = -7  # what d_j must exceed for j to join: the floor, infinite for members
Q, RIDGED, FLOOR = -6, -5, -4  # what the three above are without members; d is G_jj + lam then
GAINS, COSTS, V = -3, -2, -1  # to work in: of the monomials, of the members, the row v
NAMED = 9


class State(NamedTuple):
    """The regression on the members.  Few arrays: they are passed on field by field."""

    members: Ints
    T: Array  # (slots + NAMED, f + slots)
    f: int

    def named(self, row: int) -> Array:
        """Return one of the named rows, as far as it is about monomials."""
        return self.T[row, : self.f]

    @property
    def H(self) -> Array:
        """The inverse of G_SS + lam I."""
        return self.T[: len(self.members), self.f :]

    @property
    def w(self) -> Array:
        """The coefficients of the members."""
        return -self.T[Z, self.f :]

    @property
    def z(self) -> Array:
        """The correlations of all monomials with the residual."""
        return self.named(Z)


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
    drop: int = -1  # the slot of a member that leaves first; kernels take the last one


class Book(NamedTuple):
    """The support of each size that is written down: row l - 1 for l members; without rows, none.

    An empty book and not None: one variant of the kernels less to compile.
    """

    members: Ints
    value: Array  # c
    without: Array  # c without the member that is missed least


class Chase(NamedTuple):
    """What ``walk`` is to do, one step for each row of draws."""

    step: int  # steps made before
    record: float  # c of the best support known, less rounding: below it the walk pauses
    draws: Ints  # (steps, 2): for how long the one that leaves stays out, the one that joins in
    until: Ints  # (f): the step until which a monomial may not move


@kernel()
def _leftover(equations, state, count, m):  # type: ignore[no-untyped-def]
    """Write what of monomial m the free members leave over into the row v."""
    T, row = state.T, equations.table[equations.place[m]]
    for b in range(row.size):
        T[V, b] = row[b]
    for b in range(row.size, T.shape[1]):
        T[V, b] = 0.0
    for a in range(count):
        if state.members[a] >= 0:
            share = row[state.members[a]]
            for b in range(T.shape[1]):
                T[V, b] -= share * T[a, b]


@kernel()
def _shift(equations, state, slot, count, step):  # type: ignore[no-untyped-def]
    """Change the coefficient of a parked member; the free ones follow."""
    T = state.T
    _leftover(equations, state, count, state.members[slot])
    for b in range(T.shape[1]):
        T[Z, b] -= step * T[V, b]
    T[Z, state.f + slot] -= step


@kernel()
def _change(equations, boxes, state, slot, count, j):  # type: ignore[no-untyped-def]
    """Take the member of a slot, if it has one, out of the regression, then j in, if j >= 0."""
    T = state.T
    for joins in range(2):
        column = state.f + slot
        if joins and j >= 0:
            _leftover(equations, state, count, j)
            T[V, column] = 1.0
            column, inverse = j, 1.0 / T[D, j]
            own = signed = -inverse
        elif joins or state.members[slot] < 0:
            continue
        else:
            if boxes is not None and boxes.parked[slot]:
                _shift(equations, state, slot, count, T[Z, column])
                boxes.parked[slot] = False
                continue
            inverse, own = 1.0 / T[slot, column], 1.0
            signed = inverse
            for b in range(T.shape[1]):
                T[V, b] = T[slot, b]
        for r in range(count + 1):
            a = r if r < count else T.shape[0] + Z
            share = own if a == slot else T[a, column] * inverse
            for b in range(T.shape[1]):
                T[a, b] -= share * T[V, b]
            if not joins:
                T[a, column] = 0.0  # not up to rounding: what is parked stays where it is
        for b in range(T.shape[1]):
            T[D, b] += signed * T[V, b] * T[V, b]


@kernel()
def _register(rules, state, slot, j):  # type: ignore[no-untyped-def]
    """Write down that the member of a slot, if it has one, has left, and that j is there now."""
    for joins in range(2):
        m = j if joins else state.members[slot]
        if m >= 0:
            state.T[LEAST, m] = np.inf if joins else state.T[FLOOR, m]
            if rules is not None:
                _book(rules, m, 2 * joins - 1)
    state.members[slot] = j


@kernel()
def _park(equations, boxes, state, slot, count, end):  # type: ignore[no-untyped-def]
    """Fix a free member at an end of its box; return by how much c rises."""
    off = state.T[Z, state.f + slot] + end
    cost = 0.5 * off * off / state.T[slot, state.f + slot]
    _change(equations, boxes, state, slot, count, i8(-1))
    boxes.parked[slot] = True
    if end != 0.0:
        _shift(equations, state, slot, count, end)
    return cost


@kernel()
def _mend(equations, boxes, state, count):  # type: ignore[no-untyped-def]
    """Park and free members until all boxes are kept and none gains by moving; return c's rise."""
    members, T, rise = state.members, state.T, 0.0
    for _ in range(4 * count + 8):
        slot, worst, end = -1, 0.0, 0.0
        for a in range(count):
            if members[a] >= 0 and not boxes.parked[a]:
                w = -T[Z, state.f + a]
                near = min(max(w, boxes.low[members[a]]), boxes.high[members[a]])
                cost = 0.5 * (w - near) ** 2 / T[a, state.f + a]
                if cost > worst:
                    slot, worst, end = a, cost, near
        if slot >= 0:
            rise += _park(equations, boxes, state, slot, count, end)
            continue
        for a in range(count):
            m = members[a]
            if m >= 0 and boxes.parked[a] and T[D, m] > T[FLOOR, m]:
                w = -T[Z, state.f + a]
                pull = T[Z, m] - equations.lam * w
                inwards = (pull > 0.0 and w < boxes.high[m]) or (pull < 0.0 and w > boxes.low[m])
                gain = 0.5 * pull * pull / T[D, m]
                if inwards and gain > worst + 1e-15 * equations.yy:
                    slot, worst = a, gain
        if slot < 0:
            break
        _change(equations, boxes, state, slot, count, members[slot])
        rise -= worst
    return rise


@kernel()
def _cost(equations, boxes, state, slot):  # type: ignore[no-untyped-def]
    """Return by how much c rises without a member."""
    T, column = state.T, state.f + slot
    w = -T[Z, column]
    if boxes is not None and boxes.parked[slot]:
        m = state.members[slot]
        return (T[Z, m] - equations.lam * w) * w + 0.5 * T[D, m] * w * w
    return 0.5 * w * w / T[slot, column]


@kernel()
def _gains(state, boxes, row, tilt, inverse):  # type: ignore[no-untyped-def]
    """Write how much each monomial lowers c by joining; return the largest."""
    # Once member i is out: row i of T (B_i:), ``tilt`` = w_i / H_ii, ``inverse`` = 1 / H_ii.
    T, top = state.T, 0.0
    for b in range(state.f):
        number = T[Z, b] + T[row, b] * tilt
        left = T[D, b] + T[row, b] * T[row, b] * inverse
        least = T[LEAST, b]
        enough = least if least > left else left  # ``max`` would be compiled as well
        if boxes is None:
            gain = 0.5 * number * number / enough * (left > least)
        else:
            step = min(max(number / enough, boxes.low[b]), boxes.high[b])
            gain = step * (number - 0.5 * left * step) * (left > least)
        T[GAINS, b] = gain
        top = gain if gain > top else top
    return top


@kernel()
def _gains_without(equations, boxes, state, slot, count):  # type: ignore[no-untyped-def]
    """Write the gains once a member is out; return the largest."""
    column = state.f + slot
    w = -state.T[Z, column]
    if boxes is not None and boxes.parked[slot]:
        _leftover(equations, state, count, state.members[slot])
        return _gains(state, boxes, state.T.shape[0] + V, w, 0.0)
    h = state.T[slot, column]
    return _gains(state, boxes, slot, w / h, 1.0 / h)


@kernel()
def _book(rules, j, change):  # type: ignore[no-untyped-def]
    """Count monomial j in (1) or out (-1)."""
    rules.inside[j] += change
    for i in rules.inputs[j]:
        rules.used[i] += change


@kernel()
def _lack(rules, j):  # type: ignore[no-untyped-def]
    """Return how many parents j still wants."""
    lack = rules.wanted[j]
    for a in range(rules.parents.shape[1]):
        lack -= rules.inside[rules.parents[j, a]]
    return lack


@kernel()
def _has(row, i):  # type: ignore[no-untyped-def]
    found = False
    for entry in row:
        found |= entry == i
    return found


@kernel()
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


@kernel()
def _best(rules, state, bar):  # type: ignore[no-untyped-def]
    """Return the monomial of largest gain above ``bar`` that may join, -1 for none."""
    # The members alone need not keep the rules: they are what a swap has in between.
    best, T, f = -1, state.T, state.f
    if rules is None:
        for j in range(f):
            if T[GAINS, j] > bar:
                best, bar = j, T[GAINS, j]
        return best
    used, inputs, orphans, room, n = rules.used, rules.inputs, rules.orphans, rules.k, 0
    for i in range(used.size - 1):
        room -= used[i] > 0
    for m in state.members:
        if m >= 0 and rules.inside[m] > 0 and _lack(rules, m) > 0:
            orphans[n] = m
            n += 1
    budgets_only = rules.parents.shape[1] == 0 and rules.required.size == 0
    for j in range(f):
        if T[GAINS, j] > bar:
            new = 0
            for a in range(inputs.shape[1]):
                new += used[inputs[j, a]] == 0
            if new <= room and (budgets_only or _keeps(rules, orphans[:n], j)):
                best, bar = j, T[GAINS, j]
    return best


@kernel()
def _best_swap(equations, boxes, rules, state, count, needed):  # type: ignore[no-untyped-def]
    """Return (gain, slot, entrant) of the swap that lowers c most, by more than ``needed``."""
    best, at, entrant = needed, count, -1
    for slot in range(count):
        m, cost = state.members[slot], _cost(equations, boxes, state, slot)
        if _gains_without(equations, boxes, state, slot, count) - cost <= best:
            continue
        if rules is not None:
            if rules.fixed[m]:
                continue
            _book(rules, m, -1)
        bar = best + cost  # below zero where parking went round in circles; members gain zero
        j = _best(rules, state, bar if bar > 0.0 else 0.0)
        if rules is not None:
            _book(rules, m, 1)
        if j >= 0:
            best, at, entrant = state.T[GAINS, j] - cost, slot, j
    return best, at, entrant


@kernel()
def _note(equations, boxes, state, book, row, count, value):  # type: ignore[no-untyped-def]
    """Write the support down, and what c would be without its cheapest member."""
    book.value[row], book.without[row] = value, np.inf
    for a in range(book.members.shape[1]):
        book.members[row, a] = state.members[a]
    for a in range(count):
        without = value + _cost(equations, boxes, state, a)
        book.without[row] = without if without < book.without[row] else book.without[row]


@kernel()
def _forgive(boxes, state, n):  # type: ignore[no-untyped-def]
    """Let those join again whose swaps did not keep what they promised; return 0 of them."""
    for a in range(n):
        j = boxes.broken[a]
        state.T[LEAST, j] = state.T[FLOOR, j]
    return 0


@kernel(entry=True)
def climb(equations, boxes, rules, state, stand, task, book):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """Add the best entrant while there is room, else take the best swap, until neither helps.

    Once for each size from the first to the last, noted in the book if that has rows.  Pauses
    after ``REFRESH`` moves; where it goes on from there, the members join afresh first.
    """
    # Whatever moves does so by one call of ``_change``: it takes longest to compile.
    members, T, n = state.members, state.T, 0
    count, value, moves, size, drop = stand.taken, stand.value, stand.moves, task.first, task.drop
    loaded, need = count, PAUSED
    if moves >= REFRESH:
        count, value, moves = 0, 0.5 * equations.yy, 0
    while moves < REFRESH:
        at, gain, entrant, needed = count, 0.0, -1, task.share * value
        needed = task.needed if task.needed > needed else needed
        if count < loaded:
            entrant, members[at] = members[at], -1
            if boxes is not None:
                boxes.parked[at] = False
            # Members that the rules want may explain each other: as if their ridge were larger.
            left = COLLINEAR * T[RIDGED, entrant]
            T[D, entrant] = left if left > T[D, entrant] else T[D, entrant]
            gain = 0.5 * T[Z, entrant] * T[Z, entrant] / T[D, entrant]
        elif drop >= 0:
            at, gain = count - 1, -_cost(equations, boxes, state, count - 1)
        else:
            if count < size:
                _gains(state, boxes, T.shape[0] + Z, 0.0, 0.0)
                entrant = _best(rules, state, 0.0)
                gain = T[GAINS, entrant]
            if entrant < 0 and needed < np.inf:
                gain, at, entrant = _best_swap(equations, boxes, rules, state, count, needed)
        if entrant < 0 and drop < 0:
            if book.value.size > 0:
                _note(equations, boxes, state, book, size - 1, count, value)
            if boxes is not None:
                n = _forgive(boxes, state, n)
            if size >= task.last:
                need = DONE
                break
            size += 1
            continue
        if entrant >= 0 and equations.place[entrant] < 0:
            need = entrant
            break
        if count >= loaded:
            moves += 1
        before = members[at]
        if at == count:
            count += 1
        _change(equations, boxes, state, at, count, entrant)
        _register(rules, state, at, entrant)
        value -= gain
        if entrant < 0:
            count, loaded, drop = count - 1, 0, -1
        if boxes is not None and count >= loaded:
            change = _mend(equations, boxes, state, count)
            if entrant >= 0 and before >= 0 and change - gain >= -needed:
                _change(equations, boxes, state, at, count, before)
                _register(rules, state, at, before)
                _mend(equations, boxes, state, count)
                change, T[LEAST, entrant], boxes.broken[n], n = gain, np.inf, entrant, n + 1
            else:
                n = _forgive(boxes, state, n)
            value += change
    if boxes is not None:
        _forgive(boxes, state, n)
    return count, size, value, moves, need


@kernel(entry=True)
def walk(equations, boxes, rules, state, stand, chase):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Exchange the cheapest member that may leave for the best entrant, step after step.

    c may rise.  Ends early where nothing may move, or below the record.
    """
    members, T, until = state.members, state.T, chase.until
    count, value, moves, steps = stand.taken, stand.value, stand.moves, len(chase.draws)
    for s in range(steps):
        step = chase.step + s + 1
        for a in range(count):
            T[COSTS, a] = _cost(equations, boxes, state, a)
            if until[members[a]] > step:
                T[COSTS, a] = np.inf
            if rules is not None and rules.fixed[members[a]]:
                T[COSTS, a] = np.inf
        j, slot, cost = -1, 0, 0.0
        while j < 0:
            slot, cost = 0, np.inf
            for a in range(count):
                if T[COSTS, a] < cost:
                    slot, cost = a, T[COSTS, a]
            if cost == np.inf:
                return count, s, value, moves + s, DONE
            m, T[COSTS, slot] = members[slot], np.inf
            _gains_without(equations, boxes, state, slot, count)
            for b in range(state.f):  # whose time has not come must beat the record
                if until[b] > step and value + cost - T[GAINS, b] >= chase.record:
                    T[GAINS, b] = 0.0
            if rules is not None:
                _book(rules, m, -1)
            j = _best(rules, state, 0.0)
            if rules is not None:
                _book(rules, m, 1)
        if equations.place[j] < 0:
            return count, s, value, moves + s, j
        until[members[slot]] = step + 1 + chase.draws[s, 0]
        until[j] = step + 1 + chase.draws[s, 1]
        _change(equations, boxes, state, slot, count, j)
        _register(rules, state, slot, j)
        value += cost - T[GAINS, j]
        if boxes is not None:
            value += _mend(equations, boxes, state, count)
        if value < chase.record:
            return count, s + 1, value, moves + s + 1, PAUSED
    return count, steps, value, moves + steps, PAUSED
