"""Which of many points in K dimensions can explain a given one, alone or in pairs.

With points c_j, a point b and a ridge, the points F cost

    P(F) = min_v  1/2 |b - sum_F c_j v_j|^2 + lam/2 |v|^2.

One point gains (c_j'b)^2 / (2 (lam + |c_j|^2)).  Two, in units in which lam + |c_j|^2 = 1, gain
more than g/2 exactly when  b_i^2 + b_j^2 - 2 b_i b_j h > g (1 - h^2),  h = c_i'c_j, b_j = c_j'b.

Few pairs need that test.  For a cost below tau^2 / 2 let p_j be c_j less its part along b, and
k_j = |c_j'b| / (|b| |p_j|).  The parts of v_i c_i + v_j c_j along b and across it must come to |b|
and 0 within tau.  By the first, |v_i p_i| or |v_j p_j| is at least (|b| - tau) / (k_i + k_j), and
by the second the angle between the lines of p_i and p_j has a sine of at most tau divided by that.
So p_i/|p_i| and p_j/|p_j|, or its opposite, lie within half_i + half_j,

    half_j = sqrt(2) tau k_j / (|b| - tau),

and in every coordinate, without its sign, the intervals of these half widths meet: a sweep along
the coordinate in which fewest do, and a look at three others, leave few pairs.

All tests err towards marking more: they are rounded by less than 64 (K + 8) u |b|^2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import b1, f8, i8, void
from numpy.typing import NDArray

from polysharp.engines.compiling import Compiler
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array, Indices

AT_ONCE = 1e8  # pairs between two looks at the clock
STEEP = 1e6  # a point so near to the line through b may pair with any other

kernel = Compiler(__file__, later=True)
MAT = f8[:, ::1]
Marks = NDArray[np.bool_]


def mark_alone(C: Array, b: Array, lam: float, level: float) -> Marks:
    """Mark the points that alone may cost less than the level."""
    H = lam + np.einsum("jk,jk->j", C, C)
    marks: Marks = ~(float(b @ b) - (C @ b) ** 2 / H >= 2.0 * level + _slack(b, lam))
    marks |= ~np.isfinite(H)
    return marks


def mark_pairs(
    C: Array, b: Array, lam: float, level: float, most: float, check_time: Callable[[], None]
) -> Marks | None:
    """Mark the points of all pairs that may cost less than the level, where none does alone.

    None where more than ``most`` pairs would have to be looked at.
    """
    whole, tau = float(b @ b), float(np.sqrt(2.0 * level)) * (1.0 + 1e-12)
    size = float(np.sqrt(whole))
    if not tau < 0.99 * size:
        return None
    scaled = C / np.sqrt(lam + np.einsum("jk,jk->j", C, C))[:, None]
    along = scaled @ b
    across = scaled - np.multiply.outer(along / whole, b)
    length = np.sqrt(np.einsum("jk,jk->j", across, across))
    steep = ~(np.abs(along) < STEEP * size * length)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(2.0) * tau * np.abs(along) / (size * length * (size - tau)) + 1e-8
        places = np.abs(across / length[:, None])
    half[steep], places[steep] = 1.0, 0.0
    sweeps = [_sweep(places[:, k], half) for k in range(len(b))]
    counts = np.array([float((stop - np.arange(len(stop)) - 1).sum()) for _, stop in sweeps])
    best = np.argsort(counts)[[0, 1, 2, 3] if len(b) > 3 else [0, 0, 0, 0]]
    if counts[best[0]] > most:
        return None
    order, stop = sweeps[best[0]]
    windows = np.ascontiguousarray(np.column_stack([along, half, places[:, best[1:]]])[order])
    task = np.ascontiguousarray(scaled[order]), windows, stop
    marks, start, total = np.zeros(len(C), dtype=np.bool_), 0, np.cumsum(stop - np.arange(len(C)))
    while start < len(C):
        check_time()
        reached = total[start - 1] if start else 0
        end = min(len(C), max(start + 1, int(np.searchsorted(total, reached + AT_ONCE))))
        _mark(*task, whole - 2.0 * level, _slack(b, lam), start, end, marks)
        start = end
    found = np.zeros(len(C), dtype=np.bool_)
    found[order] = marks
    return found


def _slack(b: Array, lam: float) -> float:
    """Bound the rounding of a test; products may underflow, which a tiny ridge would magnify."""
    whole = float(b @ b)
    return 64.0 * (len(b) + 8.0) * UNIT * whole + 1e-250 * (1.0 + whole) / lam


def _sweep(places: Array, half: Array) -> tuple[Indices, Indices]:
    """Order intervals by their lower ends; return up to which one each may meet those after it."""
    low = places - half
    order = np.argsort(low)
    stop = np.searchsorted(low[order], (places + half)[order], side="right")
    return order, stop.astype(np.int64)


@kernel(void(MAT, MAT, i8[::1], f8, f8, i8, i8, b1[::1]), entry=True, any_order=True)
def _mark(C, windows, stop, g, slack, start, end, marks):  # type: ignore[no-untyped-def]
    """Mark the members of pairs that may gain more than g / 2, the first from start to end.

    ``windows`` has c_j'b, half widths, and places in three coordinates.
    """
    for i in range(start, end):
        own, wide = windows[i, 0], windows[i, 1]
        one, two, three = windows[i, 2], windows[i, 3], windows[i, 4]
        for j in range(i + 1, stop[i]):
            reach = wide + windows[j, 1]
            if (
                abs(one - windows[j, 2]) > reach
                or abs(two - windows[j, 3]) > reach
                or abs(three - windows[j, 4]) > reach
                or (marks[i] and marks[j])
            ):
                continue
            h = 0.0
            for k in range(C.shape[1]):
                h += C[i, k] * C[j, k]
            other = windows[j, 0]
            gain = own * own + other * other - 2.0 * own * other * h
            if not gain + slack < g * (1.0 - h * h):
                marks[i] = True
                marks[j] = True
