"""Moments of several responses at the same rows: those of the monomials are held once.

With T responses only ybar, s and ss (``moments``) are there T times, as rows of matrices; they
merge by the same formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices


class ResponseSums(NamedTuple):
    """Products of several responses with the monomials and with themselves, one row each."""

    cross: Array
    spread: Array

    def __add__(self, other: Any) -> ResponseSums:
        """Return the sums over both sets of rows."""
        return ResponseSums(self.cross + other.cross, self.spread + other.spread)


def response_sums(rows: Rows, basis: Basis, mean: Array, y_means: Array) -> ResponseSums:
    """Add up the products of several responses about given means."""
    sums: ResponseSums = rows.sum_over_blocks("responses", _of_block, basis, mean, y_means)
    return sums


def _of_block(rows: MemoryRows, basis: Basis, mean: Array, y_means: Array) -> ResponseSums:
    assert rows.several is not None
    Y = rows.several.values - y_means[:, None]
    weighted, cross = rows.weights * Y, np.zeros((len(Y), len(basis)))
    for some in basis.blocks(len(rows)):
        cross += weighted[:, some] @ (basis.evaluate(rows.X[some]) - mean)
    return ResponseSums(cross, np.einsum("tn,tn->t", weighted, Y))


@dataclass(frozen=True, eq=False)
class JointMoments:
    """The moments of the first response, and what the responses have of their own."""

    first: Moments
    y_mean: Array
    cross: Array  # one row per response
    spread: Array

    @classmethod
    def of(cls, first: Moments, rows: MemoryRows, basis: Basis) -> JointMoments:
        """Add several responses of the rows to the moments of the first."""
        assert rows.several is not None
        y_mean = rows.several.values @ (rows.weights / rows.total_weight)
        return cls(first, y_mean, *response_sums(rows, basis, first.mean, y_mean))

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
