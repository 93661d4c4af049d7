"""Exhaustive ends for several responses: all supports of a node, tried one by one.

As for one response (``tree.ends``): H and b are Schur complements, monomials are chosen depth first
in order, and each choice turns H and b into those of the later monomials.  The gain of a monomial
is  1/2 sum_t b_tj^2 / H_jj.  Rounding changes gains by the slack stated there, with the sum of the
responses' squares in place of one.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numba import f8, i8

from polysharp.engines.compiling import Compiler
from polysharp.typing import Array, Indices

MOST_HITS = 5_000  # supports listed; more, and the threshold is too far below the optimum
DEEPEST = 4  # terms; the supports of more are too many anyway

kernel = Compiler(__file__)


def seconds(free: int, budget: int, responses: int) -> float:
    """Return about how long trying all supports takes."""
    if budget > DEEPEST:
        return np.inf
    updates = comb(free, max(budget - 2, 0)) * free * free / 2.0
    return 2e-9 * (comb(free, budget) * (responses + 2.0) + updates)


def exhaust(H: Array, b: Array, budget: int, need: float) -> Indices | None:
    """Return the supports that gain more than ``need``, one per row; None if they are too many."""
    hits = np.zeros((MOST_HITS, budget), dtype=np.int64)
    size, responses = len(H), len(b)
    levels, rests = np.zeros((budget, size, size)), np.zeros((budget, responses, size))
    levels[0], rests[0] = H, b
    count = _exhaust(levels, rests, need, hits)
    return None if count > MOST_HITS else hits[:count].astype(np.intp)


@kernel(i8(f8[:, :, ::1], f8[:, :, ::1], f8, i8[:, ::1]), entry=True)
def _exhaust(levels, rests, need, hits):  # type: ignore[no-untyped-def]
    """List the supports; return how many there are, one more than the list has room for at most."""
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
            if not gains[depth + 1] <= need:
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
