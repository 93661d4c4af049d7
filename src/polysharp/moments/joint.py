"""Moments of several responses at the same rows: those of the monomials are held once.

With T responses only ybar, s and ss (``moments``) are there T times, as rows of matrices; they
merge by the same formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class JointMoments:
    """The moments of the first response, and what the responses have of their own."""

    first: Moments
    y_mean: Array
    cross: Array  # one row per response
    spread: Array

    @classmethod
    def of(cls, first: Moments, rows: MemoryRows, Y: Array, basis: Basis) -> JointMoments:
        """Add responses, the rows of Y, to the moments of the first."""
        shares = rows.weights / rows.total_weight
        y_mean = Y @ shares
        left = (Y - y_mean[:, None]) * rows.weights
        cross = np.zeros((len(Y), len(basis)))
        for some in basis.blocks(len(rows)):
            cross += left[:, some] @ (basis.evaluate(rows.X[some]) - first.mean)
        spread = np.einsum("tn,tn->t", left, Y - y_mean[:, None])
        return cls(first, y_mean, cross, spread)

    @classmethod
    def merged(cls, parts: Sequence[JointMoments]) -> JointMoments:
        """Return the moments of several sets of rows together."""
        if len(parts) == 1:
            return parts[0]
        first = Moments.merged([part.first for part in parts])
        weights = np.array([part.first.weight for part in parts])
        y_means = np.array([part.y_mean for part in parts])
        y_mean = weights @ y_means / weights.sum()
        steps = np.array([part.first.mean for part in parts]) - first.mean
        y_steps = y_means - y_mean
        cross = np.sum([part.cross for part in parts], axis=0)
        spread = np.sum([part.spread for part in parts], axis=0)
        return cls(
            first,
            y_mean,
            cross + (weights[:, None] * y_steps).T @ steps,
            spread + weights @ y_steps**2,
        )

    def response(self, t: int) -> Moments:
        """Return the moments of one response; what is shared is not copied."""
        y_mean, spread = float(self.y_mean[t]), float(self.spread[t])
        return replace(self.first, y_mean=y_mean, cross=self.cross[t], spread=spread)

    def correlations(self, *, centred: bool) -> tuple[Array, Array]:
        """Return q and y'y of the responses, with a free intercept (centred) or without one."""
        if centred:
            return self.cross, self.spread
        weighted = self.first.weight * self.y_mean
        return (
            self.cross + weighted[:, None] * self.first.mean,
            self.spread + weighted * self.y_mean,
        )

    def select(self, J: Indices) -> JointMoments:
        """Return the moments of the monomials J only."""
        return replace(self, first=self.first.select(J), cross=self.cross[:, J])
