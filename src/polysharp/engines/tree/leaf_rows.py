"""Leaf enumeration for several responses: all supports of a node, tried one by one.

As for one response (``leaf_enumeration``): H and b are Schur complements, monomials are chosen
depth first in order, and each choice turns H and b into those of the later monomials.  The gain of
a monomial is  1/2 sum_t b_tj^2 / H_jj.  Rounding changes gains by the slack stated there, with the
sum of the responses' squares in place of one.
"""

from __future__ import annotations

from time import thread_time

import numpy as np
from numba import f8, i8

from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.leaf_enumeration import LeafQuery, LeafResult, count_tests
from polysharp.typing import Array

kernel = Compiler(__file__, later=True)


def enumerate_rows(
    H: Array, b: Array, budget: int, task: LeafQuery, most: int
) -> LeafResult | None:
    """Try all choices of ``budget`` monomials; None where more than ``most`` come close.

    Forbidden supports are listed as well, and the clock is not looked at.
    """
    size, responses = len(H), len(b)
    L = min(budget, size)
    hits = np.zeros((most, L), dtype=np.int64)
    levels, rests = np.zeros((L, size, size)), np.zeros((L, responses, size))
    levels[0], rests[0] = H, b
    bar = np.array([task.need, task.cost, task.share, task.room])
    began = thread_time()
    count = _enumerate(levels, rests, bar, hits)
    seconds, work = thread_time() - began, count_tests(size, L)
    return None if count > most else LeafResult(hits[:count], float(bar[0]), seconds, work)


@kernel(i8(f8[:, :, ::1], f8[:, :, ::1], f8[::1], i8[:, ::1]), entry=True)
def _enumerate(levels, rests, bar, hits):  # type: ignore[no-untyped-def]
    """List the supports; return how many there are, one more than the list has room for at most.

    ``bar`` holds the gain needed, which rises with what is found, and cost, share and room.
    """
    L, responses, size = rests.shape
    chosen, gains = np.full(L, -1, dtype=np.int64), np.zeros(L + 1)
    depth, count = 0, 0
    while depth >= 0:
        chosen[depth] += 1
        j = chosen[depth]
        if j > size - L + depth:
            depth -= 1
            continue
        H, b, own = levels[depth], rests[depth], levels[depth, j, j]
        squares = 0.0
        for t in range(responses):
            squares += b[t, j] * b[t, j]
        # Where rounding has left no pivot nothing is known: whatever follows is listed.
        gains[depth + 1] = gains[depth] + (0.5 * squares / own if own > 0.0 else np.inf)
        if depth == L - 1:
            gain = gains[depth + 1]
            if not gain <= bar[0]:
                if gain <= bar[1]:  # or it is rounding
                    bar[0] = max(bar[0], gain + bar[2] * (bar[1] - gain) - bar[3])
                if count == len(hits):
                    return count + 1
                hits[count] = chosen
                count += 1
            continue
        for t in range(responses):
            share = b[t, j] / own
            for k in range(j + 1, size):
                rests[depth + 1, t, k] = b[t, k] - share * H[j, k]
        # The last level needs its diagonal only.
        for a in range(j + 1, size):
            share = H[j, a] / own
            last = size if depth < L - 2 else a + 1
            for k in range(a, last):
                levels[depth + 1, a, k] = H[a, k] - share * H[j, k]
        depth += 1
        chosen[depth] = j
    return count
