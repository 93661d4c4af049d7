"""The compiled moves of a local search on its tableau (``tableau`` has the mathematics).

A kernel returns whenever it needs something from outside: a row of G that is not at hand, a fresh
start against rounding, or after REFRESH moves, so that its caller can look at the clock.
"""

from __future__ import annotations

import numpy as np
from numba import i8

from polysharp.engines.compiling import Compiler
from polysharp.engines.local_search import tableau
from polysharp.engines.local_search.tableau import (
    COLLINEAR,
    COSTS,
    DONE,
    FLOOR,
    GAINS,
    LEAST,
    NAMED,
    OTHERS,
    PAUSED,
    REFRESH,
    RIDGED,
    D,
    V,
    best_entrant,
    best_without,
    count_in,
)

kernel = Compiler(__file__, tableau.__file__, allocating=False, contracting=True)


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
    T, Z = state.T, state.members.size
    _leftover(equations, state, count, state.members[slot])
    for b in range(T.shape[1]):
        T[Z, b] -= step * T[V, b]
    T[Z, state.f + slot] -= step


@kernel()
def _change(equations, boxes, state, slot, count, j):  # type: ignore[no-untyped-def]
    """Take the member of a slot, if it has one, out of the regression, then j in, if j >= 0."""
    T, Z = state.T, state.members.size
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
        for r in range(count + T.shape[0] - NAMED - Z):  # slots in use, then responses
            a = r if r < count else Z + r - count
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
                count_in(rules, m, 2 * joins - 1)
    state.members[slot] = j


@kernel()
def _park(equations, boxes, state, slot, count, end):  # type: ignore[no-untyped-def]
    """Fix a free member at an end of its box; return by how much c rises."""
    off = state.T[state.members.size, state.f + slot] + end
    cost = 0.5 * off * off / state.T[slot, state.f + slot]
    _change(equations, boxes, state, slot, count, i8(-1))
    boxes.parked[slot] = True
    if end != 0.0:
        _shift(equations, state, slot, count, end)
    return cost


@kernel()
def _keep_boxes(equations, boxes, state, count):  # type: ignore[no-untyped-def]
    """Park and free members until all boxes are kept and none gains by moving; return c's rise."""
    members, T, Z, rise = state.members, state.T, state.members.size, 0.0
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
def _squares(state, column):  # type: ignore[no-untyped-def]
    """Return sum_t z_tj^2 for a monomial j, or sum_t w_ti^2 for the column of a slot."""
    total = 0.0
    for r in range(state.members.size, state.T.shape[0] - NAMED):
        total += state.T[r, column] * state.T[r, column]
    return total


@kernel()
def _cost(equations, boxes, state, slot):  # type: ignore[no-untyped-def]
    """Return by how much c rises without a member."""
    T, Z, column = state.T, state.members.size, state.f + slot
    if boxes is not None and boxes.parked[slot]:
        m, w = state.members[slot], -T[Z, column]
        return (T[Z, m] - equations.lam * w) * w + 0.5 * T[D, m] * w * w
    return 0.5 * _squares(state, column) / T[slot, column]


@kernel()
def _gains(equations, boxes, state, slot, count):  # type: ignore[no-untyped-def]
    """Write how much each monomial lowers c by joining; return the largest.

    That is once the member of a slot is out; as things are where slot < 0.
    """
    T, Z, top = state.T, state.members.size, 0.0
    row, tilt, inverse, column = Z, 0.0, 0.0, i8(0)
    if slot >= 0:
        column = state.f + slot
        if boxes is not None and boxes.parked[slot]:
            _leftover(equations, state, count, state.members[slot])
            row, tilt = T.shape[0] + V, -T[Z, column]
        else:
            row, inverse = slot, 1.0 / T[slot, column]
            tilt = -T[Z, column] * inverse
    for r in range(Z + 1, T.shape[0] - NAMED):
        other = -T[r, column] * inverse
        for b in range(state.f):
            number = T[r, b] + T[row, b] * other
            T[OTHERS, b] = number * number + (T[OTHERS, b] if r > Z + 1 else 0.0)
    for b in range(state.f):
        number = T[Z, b] + T[row, b] * tilt
        left = T[D, b] + T[row, b] * T[row, b] * inverse
        least = T[LEAST, b]
        enough = least if least > left else left  # ``max`` would be compiled as well
        if boxes is None:
            gain = 0.5 * (number * number + T[OTHERS, b]) / enough * (left > least)
        else:
            step = min(max(number / enough, boxes.low[b]), boxes.high[b])
            gain = step * (number - 0.5 * left * step) * (left > least)
        T[GAINS, b] = gain
        top = gain if gain > top else top
    return top


@kernel()
def _best_swap(equations, boxes, rules, state, count, needed):  # type: ignore[no-untyped-def]
    """Return (gain, slot, entrant) of the swap that lowers c most, by more than ``needed``."""
    best, at, entrant = needed, count, -1
    for slot in range(count):
        cost = _cost(equations, boxes, state, slot)
        if _gains(equations, boxes, state, slot, count) - cost <= best:
            continue
        if rules is not None and rules.fixed[state.members[slot]]:
            continue
        bar = best + cost  # below zero where parking went round in circles; members gain zero
        j = best_without(rules, state, slot, bar if bar > 0.0 else 0.0)
        if j >= 0:
            best, at, entrant = state.T[GAINS, j] - cost, slot, j
    return best, at, entrant


@kernel()
def _note(equations, boxes, state, kept, row, count, value):  # type: ignore[no-untyped-def]
    """Keep the support, and what c would be without its cheapest member."""
    kept.value[row], kept.without[row] = value, np.inf
    for a in range(kept.members.shape[1]):
        kept.members[row, a] = state.members[a]
    for a in range(count):
        without = value + _cost(equations, boxes, state, a)
        kept.without[row] = without if without < kept.without[row] else kept.without[row]


@kernel()
def _allow_again(boxes, state, n):  # type: ignore[no-untyped-def]
    """Let the n monomials join again whose swaps did not keep what they promised; return 0."""
    for a in range(n):
        j = boxes.broken[a]
        state.T[LEAST, j] = state.T[FLOOR, j]
    return 0


@kernel(entry=True)
def fill_and_swap(equations, boxes, rules, state, cursor, task, kept):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """Add the best entrant while there is room, else take the best swap, until neither helps.

    Once for each size from the first to the last, each kept if there is a table for that.  Pauses
    after ``REFRESH`` moves; where it goes on from there, the members join afresh first.
    """
    # Whatever moves does so by one call of ``_change``: it takes longest to compile.
    members, T, n = state.members, state.T, 0
    count, value, moves = cursor.taken, cursor.value, cursor.moves
    size, drop = task.first, task.drop
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
            gain = 0.5 * _squares(state, entrant) / T[D, entrant]
        elif drop >= 0:
            at, gain = count - 1, -_cost(equations, boxes, state, count - 1)
        else:
            if count < size:
                _gains(equations, boxes, state, i8(-1), count)
                entrant = best_entrant(rules, state, 0.0)
                gain = T[GAINS, entrant]
            if entrant < 0 and needed < np.inf:
                gain, at, entrant = _best_swap(equations, boxes, rules, state, count, needed)
        if entrant < 0 and drop < 0:
            if kept.value.size > 0:
                _note(equations, boxes, state, kept, size - 1, count, value)
            if boxes is not None:
                n = _allow_again(boxes, state, n)
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
            change = _keep_boxes(equations, boxes, state, count)
            if entrant >= 0 and before >= 0 and change - gain >= -needed:
                _change(equations, boxes, state, at, count, before)
                _register(rules, state, at, before)
                _keep_boxes(equations, boxes, state, count)
                change, T[LEAST, entrant], boxes.broken[n], n = gain, np.inf, entrant, n + 1
            else:
                n = _allow_again(boxes, state, n)
            value += change
    if boxes is not None:
        _allow_again(boxes, state, n)
    return count, size, value, moves, need


@kernel(entry=True)
def tabu_walk(equations, boxes, rules, state, cursor, task):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Exchange the cheapest member that may leave for the best entrant, step after step.

    c may rise.  Ends early where nothing may move, or below the record.
    """
    members, T, until = state.members, state.T, task.until
    count, value, moves, steps = cursor.taken, cursor.value, cursor.moves, len(task.draws)
    for s in range(steps):
        step = task.step + s + 1
        for a in range(count):
            T[COSTS, a] = _cost(equations, boxes, state, a)
            if until[members[a]] > step:
                T[COSTS, a] = np.inf
            if rules is not None and rules.fixed[members[a]]:
                T[COSTS, a] = np.inf
        j, slot, cost = -1, i8(0), 0.0  # a literal 0 would be a type of its own
        while j < 0:
            slot, cost = i8(0), np.inf
            for a in range(count):
                if T[COSTS, a] < cost:
                    slot, cost = a, T[COSTS, a]
            if cost == np.inf:
                return count, s, value, moves + s, DONE
            T[COSTS, slot] = np.inf
            _gains(equations, boxes, state, slot, count)
            for b in range(state.f):  # whose time has not come must beat the record
                if until[b] > step and value + cost - T[GAINS, b] >= task.record:
                    T[GAINS, b] = 0.0
            j = best_without(rules, state, slot, 0.0)
        if equations.place[j] < 0:
            return count, s, value, moves + s, j
        until[members[slot]] = step + 1 + task.draws[s, 0]
        until[j] = step + 1 + task.draws[s, 1]
        _change(equations, boxes, state, slot, count, j)
        _register(rules, state, slot, j)
        value += cost - T[GAINS, j]
        if boxes is not None:
            value += _keep_boxes(equations, boxes, state, count)
        if value < task.record:
            return count, s + 1, value, moves + s + 1, PAUSED
    return count, steps, value, moves + steps, PAUSED
