"""The sweeps of a relaxation of several responses with one support over its working set.

As for one response (``relaxation_sweeps``), with the row of coefficients (w_1j, w_2j, ...) of a
monomial in place of one coefficient: the penalty of a monomial depends on the norm of its row, and
coordinate descent moves a row at a time, along (c_1, c_2, ...) where c_t is the correlation that
the other monomials leave.  If that leads out of the boxes, low_t s <= w_t <= high_t s for a share
s, then

    w_t(s) = c_t s / (Q_jj s + ridge)   brought between   low_t s and high_t s

is best for a given s.  The prices sum_t Z_t of c_t - Q_jj w_t(s) fall as s grows, and the best s is
where they meet nu: 0 if they lie below from the start, 1 if they stay above.
"""

from __future__ import annotations

import numpy as np
from numba import f8, i8

from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.relaxation import shares
from polysharp.engines.tree.relaxation_sweeps import (
    RIDGE,
    STATE,
    SWEEPS,
    Vectors,
    scaled_cost,
    steered,
)
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem.propagation import FREE, IN
from polysharp.typing import Array

STEERINGS = 15  # of nu, before all monomials are looked at again
HALVINGS = 40  # of an interval of shares

kernel = Compiler(__file__)
VEC, MAT = f8[::1], f8[:, ::1]


def solve_rows(
    Q: Array,
    point: Vectors,
    shared: Array,
    budget: int,
    yy: float,
    tol: float,
    nu: float,
    work: float,
) -> tuple[float, float, float]:
    """Sweep until the shares fill the budget; return (value, nu, multiplications left)."""
    W, R, q, *limits = point
    ridge, state, boxes = shared[RIDGE], shared[STATE], Boxes(*limits)
    nu, rising, power = max(nu, 1e-300), False, 1.0
    for _ in range(STEERINGS):
        for _ in range(SWEEPS):
            work -= float(W.size * len(ridge))
            if _sweep(Q, ridge, state, *boxes, W, R, nu) < 1e-8 * yy * tol:
                break
        term = 0.5 * ridge * np.einsum("tj,tj->j", W, W)
        some = (state == FREE) & (term > 0.0)
        s = shares(W[:, some], ridge[some], boxes.among(some), nu)
        filled, used = float(s.sum()), nu
        near = abs(filled - budget) <= 1e-3 * budget or (filled < budget and nu <= 1e-300)
        if near or work <= 0.0:
            break
        nu, rising, power = steered(nu, filled / budget, rising, power)
        nu = max(nu, 1e-300)
    penalties = float(term[state == IN].sum()), float((term[some] / s).sum())
    qw, t = float(np.vdot(q, W)), min(1.0, budget / max(filled, 1e-300))
    aa = yy - qw - float(np.vdot(W, R))
    return float(scaled_cost(yy, qw, aa, penalties, t)), used, work


@kernel(f8(f8, f8, f8, f8, f8, f8))
def _within(c, own, ridge, low, high, s):  # type: ignore[no-untyped-def]
    """Return the best coefficient for a share of the monomial."""
    return min(max(c * s / (own * s + ridge), low * s), high * s)


@kernel(f8(VEC, f8, f8, MAT, MAT, i8, f8))
def _priced(c, own, ridge, low, high, a, s):  # type: ignore[no-untyped-def]
    """Return the price of a monomial where its coefficients are the best for a share of it."""
    total = 0.0
    for t in range(len(c)):
        rho = c[t] - own * _within(c[t], own, ridge, low[t, a], high[t, a], s)
        at = min(max(rho / ridge, low[t, a]), high[t, a])
        total += at * (rho - 0.5 * ridge * at)
    return total


@kernel(f8(VEC, f8, f8, MAT, MAT, i8, f8))
def _share(c, own, ridge, low, high, a, nu):  # type: ignore[no-untyped-def]
    """Return the share of a monomial at which its price is nu."""
    if _priced(c, own, ridge, low, high, a, 1.0) >= nu:
        return 1.0
    least, most = 0.0, 1.0
    for _ in range(HALVINGS):
        s = 0.5 * (least + most)
        if _priced(c, own, ridge, low, high, a, s) > nu:
            least = s
        else:
            most = s
    return least


@kernel(f8(MAT, VEC, VEC, MAT, MAT, MAT, MAT, f8), entry=True)
def _sweep(Q, ridge, state, low, high, W, R, nu):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent, a row of coefficients at a time; return the largest move."""
    largest, c = 0.0, np.empty(len(W))
    for a in range(len(ridge)):
        own, squares = Q[a, a], 0.0
        for t in range(len(W)):
            c[t] = R[t, a] + own * W[t, a]
            squares += c[t] * c[t]
        size = np.sqrt(squares)
        cut = np.sqrt(2.0 * nu * ridge[a]) if state[a] == 0.0 else 0.0
        s = 0.0
        if size > cut:
            # The norm's piece first; past its end the penalty is a ridge.
            s = 1.0
            if state[a] == 0.0 and (size - cut) * ridge[a] <= cut * own:
                s = ridge[a] * (size - cut) / (own * cut)
            outside = False
            for t in range(len(W)):
                w = c[t] * s / (own * s + ridge[a])
                outside |= w < low[t, a] * s or w > high[t, a] * s
            if outside and state[a] == 0.0:
                s = _share(c, own, ridge[a], low, high, a, nu)
        moved = 0.0
        for t in range(len(W)):
            w = _within(c[t], own, ridge[a], low[t, a], high[t, a], s) if s > 0.0 else 0.0
            step = w - W[t, a]
            if step != 0.0:
                W[t, a] = w
                for b in range(len(ridge)):
                    R[t, b] -= Q[a, b] * step
                moved += step * step
        largest = max(largest, moved * (own + ridge[a]))
    return largest
