"""Whether to clamp inputs: predictions beyond the range of the rows, judged by held-out rows.

A polynomial of degree 2 or more may take any value outside the range of its rows.  For the terms
that each split chose, coefficients are estimated on the training rows once more, and held-out rows
are predicted as they are and with their inputs moved into the range of the training rows.  Inputs
are clamped if that makes the mean error over the splits no larger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.moments.gram import solve_spd
from polysharp.monomials.basis import Basis, Scaling
from polysharp.selection.folds import Folds
from polysharp.typing import Array, Indices

MOST_CELLS = 2e8  # products of rows, splits and squared terms: about a second


def clamping_helps(
    folds: Folds, center: bool, basis: Basis, supports: Sequence[Indices], gamma: float
) -> bool:
    """Whether held-out rows are predicted no worse with clamped inputs, and some differ."""
    table = folds.parted
    terms = max(map(len, supports), default=0)
    if table is None or folds.rules.degree == 1 or len(supports) < folds.plan.n_splits:
        return False
    if len(table.rows) * folds.plan.n_splits * terms**2 > MOST_CELLS:
        return False
    library = folds.rules.library
    scaling = Scaling.of(folds.rows.ranges, scale=folds.scale, center=center, library=library)
    errors: list[tuple[float, float]] = []
    plan = zip(folds.plan.train, folds.plan.test, supports, strict=True)
    for train, test, support in plan:
        rows, held = table.take(train), table.take(test)
        own = basis.select(support)
        W, mean, y_means = _fitted(rows, own.evaluate(scaling.apply(rows.X)), gamma, folds)
        within = held.X.clip(rows.X.min(axis=0), rows.X.max(axis=0))
        each = (own.evaluate(scaling.apply(X)) - mean for X in (held.X, within))
        Y = _responses(held)
        squares = [np.mean((Y - (y_means[:, None] + W @ M.T)) ** 2, axis=0) for M in each]
        errors.append(tuple(float(np.sqrt(held.weights @ s)) for s in squares))  # type: ignore[arg-type]
    free, clamped = np.mean(errors, axis=0)
    return bool(clamped <= free and any(a != b for a, b in errors))


def _fitted(rows: MemoryRows, M: Array, gamma: float, folds: Folds) -> tuple[Array, Array, Array]:
    """Return coefficients and intercept of each response, the means of M taken out."""
    v, Y = rows.weights, _responses(rows)
    mean, y_means = np.zeros(M.shape[1]), np.zeros(len(Y))
    if not folds.rules.constant:
        mean, y_means = v @ M / v.sum(), Y @ v / v.sum()
    M, Y = M - mean, Y - y_means[:, None]
    H = (M.T * v) @ M + np.eye(M.shape[1]) / gamma
    return solve_spd(H, (M.T * v) @ Y.T).T, mean, y_means


def _responses(rows: MemoryRows) -> Array:
    return rows.y[None] if rows.several is None else rows.several.values
