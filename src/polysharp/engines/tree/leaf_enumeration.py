"""Leaf enumeration: a node with few supports left is closed by trying all of them.

H is the Schur complement of G + lam I on the free monomials, b what is left of q, both scaled so
that H has unit diagonal; at most L monomials join.  Choosing j turns H and b into Schur complements
on the other monomials.  Few choices are followed side by side, one array operation for all of them;
many are gone through depth first, which is compiled (``leaf_kernel``).

Rounding (see ``bounds``): k eliminations are exact for data changed by a relative eps in every
entry, eps = unit (s_j / sqrt(H_jj))^2 + (k + 12) u; if mu bounds the eigenvalues of the scaled H
from below, gains of k terms change by at most

    slack = eps (B + B^2 / 2) + (k + 12) u  times |y|^2,     B^2 = k / mu.

Several responses with one support have a row of b each: the gain of a monomial is
1/2 sum_t b_tj^2 / H_jj, no choice is passed over, and the slack has the sum of their squares.

So supports that come within twice that of the threshold are listed, and the caller bounds these one
by one.  What all later monomials gain together is wrong by more: a factorisation of m
columns, and SORTED - 2 changes of it (``leaf_kernel``), each on both sides of H.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb, log, sqrt
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from numba import f8, i8, void
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler, compiling
from polysharp.engines.tree.leaf_kernel import BLOCK, CUT_FROM, NAMES, ROWS, SORTED, search
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import UNIT, Quadratic
from polysharp.problem.propagation import FREE, IN, States
from polysharp.typing import Array, Indices

kernel = Compiler(__file__, later=True)  # of several responses
STACK = f8[:, :, ::1]
LONG, LOOK_AROUND = 3e8, 0.1  # pair tests, seconds: a longer search looks around now and then
AT_ONCE, SHORT = 2_000, 4  # supports, and terms of one, that are tried at once, uncompiled


class LeafQuery(NamedTuple):
    """What a leaf enumeration looks for."""

    need: float  # gain from which a support is listed
    cost: float  # before any gain
    share: float  # of the cost of a support that is listed, by which others need not beat it
    room: float = 0.0  # supports whose gain is less by no more than this are listed all the same
    fewest: float = 0.0  # terms of a support that is listed
    doubt: float = 0.0  # what rounding may take off the gain of all monomials together
    work: float = np.inf  # pair tests, or what takes as long, after which to give up

    def raised(self, need: float, gain: float) -> float:
        """Return the gain needed once a support is found: better by the tolerance."""
        if not gain <= self.cost:  # it is rounding
            return need
        return max(need, gain + self.share * (self.cost - gain) - self.room)


class EliminationStack(NamedTuple):
    """H, b and D after 0, 1, 2, ... monomials have been chosen, and room to work in.

    Few arrays: kernels pass them on field by field.
    """

    H: Array  # of the levels, above its diagonal
    U: Array  # of the levels, column by column
    rows: Array  # b, D and z of each level by turns, then those named below
    places: NDArray[np.int64]  # the rows named below, then the monomials of each level

    @classmethod
    def of(cls, H: Array, b: Array, L: int, inputs: int) -> EliminationStack:
        """Return room for a search for L monomials, of H with unit diagonal."""
        size, depth = len(b), max(L - 2, 1)
        width = size + BLOCK
        levels = cls(
            np.zeros((depth, width, width)),
            np.zeros((depth, width, width) if L > CUT_FROM - 1 else (1, 1, 1)),
            np.zeros((3 * max(L, 2) + ROWS, width)),
            np.zeros((NAMES + depth, max(width, L + 2, inputs)), dtype=np.int64),
        )
        levels.H[0, :size, :size] = H
        levels.rows[0, :size], levels.rows[1, :size] = b, 1.0
        levels.places[NAMES, :size] = np.arange(size)
        return levels


class SupportRules(NamedTuple):
    """The conditions on a choice of free monomials, given those that are in.

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


def count_tests(free: int, budget: int) -> float:
    """Return the pair tests of all supports, with what rows and levels cost beside them."""
    return comb(free, budget) + sum(
        cost * comb(free, budget - less) for less, cost in ((1, 50), (2, 200)) if budget >= less
    )


@dataclass(frozen=True, eq=False)
class LeafResult:
    """Supports (positions, filled up with -1) that may cost less than the threshold."""

    hits: NDArray[np.int64]
    need: float  # gain that nothing but the hits exceeds
    seconds: float = 0.0  # of the processor or of the device, waiting left out
    work: float = 0.0  # of the processor, in pair tests


def enumerate_leaf(
    H: Array,
    b: Array,
    budget: int,
    task: LeafQuery,
    rules: SupportRules,
    most: int,
    expired: Callable[[], bool] = lambda: False,
) -> LeafResult | None:
    """Try all choices of at most ``budget`` monomials, best with the strongest ones first.

    None if more than ``most`` come close, if it would be too much work, or when the time is up.
    """
    L, root = min(budget, len(H)), np.sqrt(np.diagonal(H))
    if len(b) > 1:
        return _enumerate_rows(H, b, L, task, most, expired)
    H, b = H / np.multiply.outer(root, root), b[0] / root
    if rules.plain and is_small(len(b), L):
        return _enumerate_small(H, b, L, task, most)
    return enumerate_depth_first(H, b, L, task, rules, most, expired)


def is_small(size: int, budget: int) -> bool:
    """Whether no choice among at most ``size`` monomials needs the compiled search."""
    return budget <= SHORT and comb(size, budget) <= AT_ONCE


@cache
def _choices(size: int, L: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all choices as columns, and the positions in H of their pairs."""
    chosen = np.array(list(combinations(range(size), L)), dtype=np.int64).T
    first, second = np.triu_indices(L)
    return chosen, chosen[first] * size + chosen[second]


def _enumerate_small(H: Array, b: Array, L: int, task: LeafQuery, most: int) -> LeafResult | None:
    """Eliminate the monomials of all choices, the first of each, then the second, ..."""
    chosen, pairs = _choices(len(b), L)
    rows = iter(np.take(H, pairs))
    left = {(a, e): next(rows) for a in range(L) for e in range(a, L)}
    rest, gains = np.take(b, chosen), np.zeros(chosen.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for a in range(L):
            inverse = 1.0 / np.maximum(left[a, a], 1e-300)
            gains += 0.5 * rest[a] * rest[a] * inverse
            for e in range(a + 1, L):
                share = left[a, e] * inverse
                rest[e] -= share * rest[a]
                for c in range(e, L):
                    left[e, c] -= share * left[a, c]
    need, hits = task.need, list[int]()
    for hit in np.flatnonzero(~(gains <= need)).tolist():
        if not gains[hit] <= need:
            hits.append(hit)
            need = task.raised(need, gains[hit])
    return LeafResult(chosen.T[hits], float(need)) if len(hits) <= most else None


def enumerate_depth_first(
    H: Array,
    b: Array,
    L: int,
    task: LeafQuery,
    rules: SupportRules,
    most: int,
    expired: Callable[[], bool],
) -> LeafResult | None:
    """Go through the choices depth first; the search is compiled when it is needed first."""
    _compile(plain=rules.plain)
    size, levels = len(b), EliminationStack.of(H, b, L, rules.uses.shape[1])
    hits = np.empty((most, max(L, 1)), dtype=np.int64)
    need = np.array([task.need, 0.0, 0.0])  # a flag that ends the search, and what it has done
    task, own_rules = LeafQuery(*map(float, task)), None if rules.plain else rules
    if task.work < LONG:
        count, seconds = _timed_search(levels, size, L, task, own_rules, need, hits)
    else:  # beside this thread, which stays awake for the clock and for Ctrl-C
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(_timed_search, levels, size, L, task, own_rules, need, hits)
            try:
                while not wait([running], LOOK_AROUND).done:
                    need[1] = float(expired())
            finally:
                need[1] = 1.0
            count, seconds = running.result()
    if not 0 <= count <= most:
        return None
    return LeafResult(hits[:count], float(need[0]), seconds, float(need[2]))


def _timed_search(*task: Any) -> tuple[int, float]:
    began = thread_time()  # of this thread alone
    return search(*task), thread_time() - began


def compile_for(structure: Structure, size: int, responses: int) -> None:
    """Compile what enumerates the supports of a problem, or load it: no clock runs yet."""
    if responses > 1:
        kernel.compile()
    elif not structure.plain or structure.inputs_bind:
        _compile(plain=False)
    elif not is_small(size, structure.max_terms):
        _compile(plain=True)


@cache
def _compile(*, plain: bool) -> None:
    """Compile the search with rules or without them, so that no search is timed that compiles."""
    nothing = np.zeros(1, dtype=np.int64)
    rules = SupportRules(np.zeros((1, 0), dtype=np.uint8), 1, nothing, nothing[:0], 0, False, plain)
    query, levels = LeafQuery(*[0.0] * 7), EliminationStack.of(np.eye(1), np.zeros(1), 1, 0)
    need, hits = np.array([np.inf, 0.0, 0.0]), np.empty((1, 1), dtype=np.int64)
    with compiling():
        search(levels, 1, 1, query, None if plain else rules, need, hits)


def _enumerate_rows(
    H: Array, b: Array, L: int, task: LeafQuery, most: int, expired: Callable[[], bool]
) -> LeafResult | None:
    """Try all choices of L monomials for several responses; forbidden ones are listed as well."""
    size = len(H)
    hits = np.zeros((most, L), dtype=np.int64)
    levels, rests = np.zeros((L, size, size)), np.zeros((L, len(b) + 1, size))
    levels[0], rests[0] = H, np.vstack([b, np.diagonal(H)])
    bar = np.array([task.need, task.cost, task.share, task.room])
    began, work, count, tests = thread_time(), 0.0, 0, count_tests(size, L)
    for first in range(size - L + 1):  # the clock is looked at in between
        work += tests * comb(size - first - 1, L - 1) / comb(size, L)
        if work > task.work or expired():
            return None
        count = _enumerate(levels, rests, bar, hits, count, first)
        if count > most:
            return None
    return LeafResult(hits[:count], float(bar[0]), thread_time() - began, tests)


def rounding_slack(
    system: Quadratic, least: float, terms: int, roundings: float | None = None
) -> float:
    """Return by how much rounding may change a gain of ``terms`` terms.

    ``least`` bounds the eigenvalues of the scaled H from below; an entry goes through so many
    ``roundings``, by default those of the eliminations.
    """
    roundings = terms + 12.0 if roundings is None else roundings
    H = system.diagonal(np.arange(len(system.ridge))) + system.ridge
    worst = float((system.sizes**2 / H).max(initial=1.0))
    eps = 1.01 * (system.unit * worst + roundings * UNIT)
    B = sqrt(1.01 * terms / least)
    return 1.01 * (eps * (B + 0.5 * B * B) + (terms + 12.0) * UNIT) * system.response**2


def slack_of_all(system: Quadratic, least: float, size: int, terms: int) -> float:
    """Return by how much rounding may change the gain of all ``size`` monomials together."""
    changed = 2.0 * (SORTED - 2) * (size + 12.0) * (1.0 + 2.0 * sqrt(max(0.0, -log(least))))
    return rounding_slack(system, least, size, size + terms + 24.0 + changed)


def support_rules(
    structure: Structure, terms: States, inputs: States, free: Indices | None = None
) -> SupportRules:
    """Return what the rules ask of the free monomials of a node, in a given order."""
    free = np.flatnonzero(terms == FREE) if free is None else free
    fixed_in = np.flatnonzero(terms == IN)
    plain = structure.heredity is None and not len(structure.required_inputs)
    undecided = inputs == FREE
    uses = structure.uses[free][:, undecided] if structure.inputs_bind else np.zeros((len(free), 0))
    room = structure.max_inputs - int(np.count_nonzero(inputs == IN))
    rows: list[Indices] = []
    if not plain:
        place = np.full(len(terms), -1, dtype=np.int64)
        place[free] = np.arange(len(free))
        used = structure.inputs_of(fixed_in)
        rows = [
            place[free[structure.uses[free, i]]] for i in structure.required_inputs if not used[i]
        ]
        if structure.heredity == "weak":
            parents = ((j, structure.parents[j]) for j in fixed_in)
            orphans = [j for j, own in parents if len(own) and not np.any(terms[own] == IN)]
            rows += [place[_wanted(structure, terms, j)] for j in orphans]
    always = len(rows)
    if structure.heredity is not None:
        rows += [place[_wanted(structure, terms, j)] for j in free]
    return SupportRules(
        np.ascontiguousarray(uses, dtype=np.uint8),
        room,
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
        always,
        structure.heredity == "strong",
        plain and uses.shape[1] == 0,
    )


def _wanted(structure: Structure, terms: States, j: np.intp) -> Indices:
    """Return the free parents that monomial j still asks for."""
    parents: Indices = structure.parents[j]
    if structure.heredity == "weak" and np.any(terms[parents] == IN):
        return parents[:0]
    return np.asarray(parents[terms[parents] == FREE])


@kernel(i8(i8[::1], i8, f8, f8[::1], i8[:, ::1], i8))
def _list(chosen, last, gain, bar, hits, count):  # type: ignore[no-untyped-def]
    """List a support that gains enough if there is room; return how many there would be."""
    if gain <= bar[0]:
        return count
    if gain <= bar[1]:  # or it is rounding
        bar[0] = max(bar[0], gain + bar[2] * (bar[1] - gain) - bar[3])
    if count < len(hits):
        hits[count] = chosen
        hits[count, -1] = last
    return count + 1


@kernel(void(STACK, STACK, i8, i8))
def _eliminate(levels, rests, depth, j):  # type: ignore[no-untyped-def]
    """Write H, b and the diagonal of the later monomials once j has joined."""
    H, b, size = levels[depth], rests[depth], levels.shape[1]
    responses = len(b) - 1
    for t in range(responses):
        share = b[t, j] / b[responses, j]
        for k in range(j + 1, size):
            rests[depth + 1, t, k] = b[t, k] - share * H[j, k]
    for a in range(j + 1, size):
        share = H[j, a] / b[responses, j]
        for k in range(a, size):
            levels[depth + 1, a, k] = H[a, k] - share * H[j, k]
        rests[depth + 1, responses, a] = levels[depth + 1, a, a]


@kernel(void(f8[::1], f8[:, ::1], i8, f8, f8[:, ::1]))
def _last_gains(h, b, j, gain, work):  # type: ignore[no-untyped-def]
    """Write what j and each later monomial, the last to join, gain with those that have joined."""
    gains, left, responses = work[0], work[1], len(b) - 1
    for k in range(j + 1, len(h)):
        left[k], gains[k] = b[responses, k] - h[k] * h[k] / b[responses, j], 0.0
    for t in range(responses):
        share = b[t, j] / b[responses, j]
        for k in range(j + 1, len(h)):
            rest = b[t, k] - share * h[k]
            gains[k] += rest * rest
    for k in range(j + 1, len(h)):
        gains[k] = gain + (0.5 * gains[k] / left[k] if left[k] > 0.0 else np.inf)


@kernel(i8(STACK, STACK, f8[::1], i8[:, ::1], i8, i8), entry=True)
def _enumerate(levels, rests, bar, hits, count, first):  # type: ignore[no-untyped-def]
    """List the supports whose first monomial is given; return how many are listed by then.

    That is one more than the list has room for at most.  ``bar`` holds the gain needed, which rises
    with what is found, and cost, share and room; the last row of ``rests`` is the diagonal of H.
    """
    L, responses, size = rests.shape[0], rests.shape[1] - 1, rests.shape[2]
    chosen, gains = np.full(L, first, dtype=np.int64), np.zeros(L + 1)
    work, depth = np.empty((2, size)), 0
    while count <= len(hits):
        j = chosen[depth]
        if j > (first if depth == 0 else size - L + depth):
            depth -= 1
            if depth < 0:
                break
            chosen[depth] += 1
            continue
        b, squares = rests[depth], 0.0
        for t in range(responses):
            squares += b[t, j] * b[t, j]
        # Where rounding has left no pivot nothing is known: whatever follows is listed.
        own = b[responses, j]
        gains[depth + 1] = gains[depth] + (0.5 * squares / own if own > 0.0 else np.inf)
        if depth < L - 2:
            _eliminate(levels, rests, depth, j)
            depth += 1
            chosen[depth] = j + 1
            continue
        if L == 1:
            count = _list(chosen, j, gains[1], bar, hits, count)
        else:
            _last_gains(levels[depth, j], b, j, gains[depth + 1], work)
            for k in range(j + 1, size):
                if not work[0, k] <= bar[0] and count <= len(hits):
                    count = _list(chosen, k, work[0, k], bar, hits, count)
        chosen[depth] += 1
    return count
