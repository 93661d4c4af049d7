"""The tableau of a local search: the ridge regressions on a support S, ready for every move.

With H = (G_SS + lam I)^-1, B = H G_S:, and for each response t  w_t = H q_tS and

    z_t = q_t - G_:S w_t,    d_j = G_jj + lam - G_jS H G_Sj   (what of m_j the support leaves over),

adding j lowers c by               sum_t z_tj^2 / (2 d_j),
dropping i raises it by            sum_t w_ti^2 / (2 H_ii),
swapping i for j lowers it by      sum_t (z_tj + B_ij w_ti / H_ii)^2 / (2 (d_j + B_ij^2 / H_ii))
                                   - sum_t w_ti^2 / (2 H_ii),

so all l x f swaps are compared in one pass over B, with no factorisation.  The tableau T has a row
for each slot of the support, then one for each response, then some that have names::

    slot   members   B (l x f): how S explains each monomial     H (l x l)
      0       17      B_00 B_01 B_02 . . . . . . . . .           H_00 H_01  0
      1        4      B_10 B_11 B_12 . . . . . . . . .           H_10 H_11  0
      2       -1       0    0    0   . . . . . . . . .            0    0    0     empty
     z_1              z_0  z_1  z_2  . . . . . . . . .          -w_0 -w_1   0
     z_2              z_0  z_1  z_2  . . . . . . . . .          -w_0 -w_1   0
      D               d_0  d_1  d_2  . . . . . . . . .
      .                .    .    .                                (see below)

Leaving and joining are the same change of rank one: with a column of T, a pivot and a row v,

    leaving slot i:       column H_:i (and -w_ti),  pivot H_ii,   v = T_i:
    joining as slot i:    column B_:j (and z_tj),   pivot d_j,    v = [G_j: | e_i] - G_jS [B | H]

every slot and z_t lose their entry in that column, over the pivot, times v; d loses v^2 over the
pivot by joining, and wins it by leaving.  The row of the one that joins, until then empty, is v
over the pivot.

Where the coefficients of one response are bounded, members whose box has stopped them are *parked*
at its end b: their rows of T are zero, and all of the above holds for the others, the free ones.
Joining gains t (z_j - d_j t/2), t being z_j / d_j or the end of the box; a parked member pulls by
z_i - lam b, and without it c rises by (z_i - lam b) b + d_i b^2/2.  After every move members are
parked and freed until all boxes are kept, so that gains are what a move promises at best: a swap
that does not keep its promise is undone.  (Boxes of several responses: ``boxed_rows``.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.typing import Array

kernel = Compiler(__file__, allocating=False, contracting=True)
Ints = NDArray[np.int64]

COLLINEAR = 1e-9  # a monomial that keeps less than this share of its norm is explained by S
REFRESH = 32  # moves after which a support is loaded afresh, rounding being still far below gains

# Named rows, at the end of the tableau.
D, LEAST = -8, -7  # d_j, and what it must exceed for j to join: the floor, infinite for members
RIDGED, FLOOR = -6, -5  # d_j and the least d_j without members; d_j is G_jj + lam then
OTHERS = -4  # what the responses after the first add to squares of numbers
GAINS, COSTS, V = -3, -2, -1  # to work in: of the monomials, of the members, the row v
NAMED = 8


class Equations(NamedTuple):
    """The problem: row j of G stands at ``place[j]`` of the table, -1 where it is not at hand."""

    table: Array
    place: Ints
    yy: float
    lam: float


class Boxed(NamedTuple):
    """Ends of the coefficients of one response, and which of them are reached."""

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


class State(NamedTuple):
    """The regressions on the members.  Few arrays: they are passed on field by field."""

    members: Ints
    T: Array  # (slots + responses + NAMED, f + slots)
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
        """The coefficients of the members, a row per response."""
        return -self.T[len(self.members) : -NAMED, self.f :]

    @property
    def z(self) -> Array:
        """The correlations of all monomials with the residuals, a row per response."""
        return self.T[len(self.members) : -NAMED, : self.f]


class Cursor(NamedTuple):
    """Where a kernel begins.

    It returns these as plain numbers, with two more: after the first its progress, the size that is
    being filled or the steps walked, and at last its need, the monomial whose row of G is not at
    hand, or DONE or PAUSED.  Numba makes a named tuple by calling Python, and a Ctrl-C that arrives
    in that moment ends in a crash.
    """

    taken: int  # slots in use
    value: float  # c, as the moves have changed it
    moves: int  # since the members were loaded; REFRESH asks for that


DONE, PAUSED = -1, -2


class SwapTask(NamedTuple):
    """What ``fill_and_swap`` does at each size: fill up, then take swaps that gain enough."""

    first: int
    last: int
    needed: float  # a swap must lower c by more than this; infinite for no swaps
    share: float  # and by more than this share of c
    drop: int = -1  # the slot of a member that leaves first; kernels take the last one


class BestBySize(NamedTuple):
    """The support that was reached for each size l, in row l - 1; without rows, none is kept.

    Empty and not None: one variant of the kernels less to compile.
    """

    members: Ints
    value: Array  # c
    without: Array  # c without the member that is missed least

    @classmethod
    def blank(cls, sizes: int, slots: int) -> BestBySize:
        """Return an empty table for sizes up to ``sizes``."""
        return cls(np.full((sizes, slots), -1), *np.full((2, sizes), np.inf))


class TabuTask(NamedTuple):
    """What ``tabu_walk`` does: one step for each row of draws."""

    step: int  # steps made before
    record: float  # c of the best support known, less rounding: below it the walk pauses
    draws: Ints  # (steps, 2): for how long the one that leaves stays out, the one that joins in
    until: Ints  # (f): the step until which a monomial may not move


@kernel()
def count_in(rules, j, change):  # type: ignore[no-untyped-def]
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
    """Whether j has its parents, is a parent that all orphans lack, and uses what must be used."""
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
def best_entrant(rules, state, bar):  # type: ignore[no-untyped-def]
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
def best_without(rules, state, slot, bar):  # type: ignore[no-untyped-def]
    """Return the same once the member of a slot is out."""
    if rules is None:
        return best_entrant(rules, state, bar)
    count_in(rules, state.members[slot], -1)
    j = best_entrant(rules, state, bar)
    count_in(rules, state.members[slot], 1)
    return j
