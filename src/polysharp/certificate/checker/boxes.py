"""How large coefficients may be: the intervals of a statement in the scaled basis.

A coefficient c of prod_i (x_i - shift_i) is w = c prod_i scale_i / sqrt(orderings) in the scaled
basis, over what the response was divided by.
A term's own interval counts before those of its inputs, of which all hold together, and those
before the one for every term; the constant has its own or none.  Besides, a model with
lam w_j^2 > yy costs more than no model at all, so that |w_j| <= sqrt(yy / lam) in any case.

Bounds on costs are taken over intervals that are a little too long, models over some that are a
little too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.checker.rules import Array, Indices, Monomial, demand, owner

if TYPE_CHECKING:
    from polysharp.certificate.statement import Statement

ROUNDS = 100  # of freeing and stopping coefficients, before any answer is taken


def check_intervals(s: Statement) -> None:
    """Reject intervals that are none, do not hold 0 or speak of inputs that are not there."""
    stated = s.coefficients
    pairs = [stated.everywhere, *(ends for _, ends in (*stated.inputs, *stated.terms))]
    demand(all(low <= 0.0 <= high for low, high in pairs), "an interval of coefficients lacks 0")
    width = len(s.names) + len(s.functions)
    inside = all(0 <= i < len(s.names) for i, _ in stated.inputs)
    inside &= all(0 <= i < width for m, _ in stated.terms for i in m)
    demand(inside, "an interval of coefficients names no input of the table")
    once = len(dict(stated.inputs)) == len(stated.inputs)
    demand(once and len(dict(stated.terms)) == len(stated.terms), "an interval is stated twice")


class CheckedBoxes:
    """Intervals [low, high] of the coefficients of some monomials, none longer than ``most``."""

    def __init__(self, s: Statement, monomials: Sequence[Monomial], scale: Array, most: float):
        stated = s.coefficients
        self.stated = bool(stated.inputs or stated.terms or stated.everywhere != (-inf, inf))
        own, of_inputs = dict(stated.terms), dict(stated.inputs)
        ends = np.full((len(monomials), 2), inf) * [-1.0, 1.0]
        for j, m in enumerate(monomials if self.stated else ()):
            if m in own:
                ends[j] = own[m]
            elif m:
                used = {owner(c, s) for c in m} & of_inputs.keys()
                among = [of_inputs[i] for i in used] or [stated.everywhere]
                ends[j] = max(low for low, _ in among), min(high for _, high in among)
        units = [np.prod(s.scale[list(m)]) for m in monomials]
        factor = np.array(units, dtype=np.float64).reshape(-1, 1) / scale.reshape(-1, 1)
        # A factor that is lost would make nothing of any interval; one too large leaves it open.
        demand(not self.stated or np.all(factor >= 1e-290), "its coefficients leave the floats")
        ends = np.where(ends == 0.0, 0.0, ends * factor)
        margin = (4.0 * s.degree + 32.0) * 2.0**-53
        tiny = np.where(ends == 0.0, 0.0, np.copysign(1e-290, ends))
        self.low, self.high = np.clip(ends * (1.0 + margin) + tiny, -most, most).T
        self.inner = np.clip(ends * (1.0 - margin) - tiny, [-most, 0.0], [0.0, most]).T

    def clip(self, S: Indices, w: Array) -> Array:
        """Return coefficients of a support that are surely within their intervals."""
        return np.clip(w, self.inner[0, S], self.inner[1, S])

    def fit(self, H: Array, q: Array, S: Indices) -> Array:
        """Return about the best coefficients of a support within their intervals.

        Those that leave their interval are stopped at its end and the others solved again; one
        that is stopped but pulls back is set free.
        """
        low, high, w = self.inner[0, S], self.inner[1, S], np.zeros(len(S))
        stopped = np.zeros(len(S), dtype=bool)
        for _ in range(ROUNDS):
            free = np.flatnonzero(~stopped)
            w[free] = _solution(H[np.ix_(free, free)], q[free] - H[free][:, stopped] @ w[stopped])
            off = np.abs(w - np.clip(w, low, high)) * np.sqrt(np.diagonal(H))
            if off.max(initial=0.0) > 0.0:
                worst = int(np.argmax(off))
                w[worst], stopped[worst] = np.clip(w[worst], low[worst], high[worst]), True
                continue
            pull = q - H @ w
            back = stopped & (((w == low) & (pull > 0.0)) | ((w == high) & (pull < 0.0)))
            gain = np.where(back & (low < high), pull * pull / np.diagonal(H), 0.0)
            if not gain.max(initial=0.0) > 1e-14 * float(np.abs(q) @ np.abs(w)):
                break
            stopped[int(np.argmax(gain))] = False
        return np.clip(w, low, high)


def _solution(H: Array, q: Array) -> Array:
    """Solve one system; zeros where it cannot be."""
    try:
        w: Any = np.linalg.solve(H, q)
    except np.linalg.LinAlgError:
        w = np.zeros_like(q)
    return np.where(np.isfinite(w), w, 0.0).astype(np.float64)
