"""Leaf enumeration for several responses: all supports of a node, tried one by one.

As for one response (``leaf_enumeration``): H and b are Schur complements, monomials are chosen
depth first in order, and each choice turns H and b into those of the later monomials.  The gain of
a monomial is  1/2 sum_t b_tj^2 / H_jj.  Rounding changes gains by the slack stated there, with the
sum of the responses' squares in place of one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from time import thread_time

import numpy as np
from numba import f8, i8, void

from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.leaf_enumeration import LeafQuery, LeafResult, count_tests
from polysharp.typing import Array

kernel = Compiler(__file__, later=True)
STACK = f8[:, :, ::1]


def enumerate_rows(
    H: Array, b: Array, budget: int, task: LeafQuery, most: int, expired: Callable[[], bool]
) -> LeafResult | None:
    """Try all choices of ``budget`` monomials; forbidden supports are listed as well.

    None if more than ``most`` come close, if that would be too much work, or when time is up.
    """
    size, L = len(H), min(budget, len(H))
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
