"""The first pass over blocks of rows: checks, ranges, means and variances.

For each input and each response, with weights v and W their sum, a block contributes

    min, max,    xbar = sum v x / W,    S = sum v (x - xbar)^2,

which merge exactly (Chan, Golub & LeVeque), as moments do.  Shifts and units of the coded variables
follow from them, and so does n, which nobody knows before the pass.  A block that breaks a rule
reports it in its summary, with its number; the first of these reports is raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.typing import Array

ROWS = 1024  # taken at a time, so that temporary arrays stay in the cache


class Ranges(NamedTuple):
    """Least and largest value, mean and variance of each column; the coding follows from them."""

    low: Array
    high: Array
    mean: Array
    variance: Array
    at_most_two: NDArray[np.bool_]  # whether a column takes no value between its least and largest

    @classmethod
    def of(cls, X: Array, weights: Array) -> Ranges:
        """Measure the columns of a table; of no rows the least value is infinite, the mean zero."""
        low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
        weight = weights.sum() if len(X) else 1.0
        variance, at_most_two = np.zeros(X.shape[1]), np.ones(X.shape[1], dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):  # ``check_powers`` sees the range
            mean = weights @ X / weight
            for start in range(0, len(X), ROWS):
                part = X[start : start + ROWS]
                variance += weights[start : start + ROWS] @ (part - mean) ** 2
                some = np.flatnonzero(at_most_two)
                if len(some):
                    values = part[:, some]
                    at_most_two[some] = ((low[some] == values) | (high[some] == values)).all(axis=0)
        return cls(low, high, mean, variance / weight, at_most_two)

    @property
    def offset(self) -> float:
        """The largest ratio of a mean to the standard deviation of its column."""
        varies = self.variance > 0.0
        ratios = np.abs(self.mean[varies]) / np.sqrt(self.variance[varies])
        return float(ratios.max(initial=0.0))

    @property
    def two_valued(self) -> NDArray[np.bool_]:
        """Which inputs take two values."""
        return self.at_most_two & (self.low < self.high)

    def merged(self, other: Ranges, share: float) -> Ranges:
        """Return the ranges of both sets of rows; ``share`` is the other's part of the weight."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        step = other.mean - self.mean
        within = [
            (end == low) | (end == high) | (part.low > part.high)  # of no rows
            for part in (self, other)
            for end in (part.low, part.high)
        ]
        return Ranges(
            low,
            high,
            self.mean + share * step,
            (1.0 - share) * (self.variance + share * step**2) + share * other.variance,
            self.at_most_two & other.at_most_two & np.all(within, axis=0),
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """The result of the first pass; ``a + b`` merges two of them."""

    n_given: int  # rows, including those of weight zero
    n_rows: int
    weight: float
    ranges: Ranges
    responses: Ranges
    refusal: tuple[int, str] | None = None  # number of a bad block, and what is wrong with it

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        refusals = [part.refusal for part in (self, other) if part.refusal is not None]
        return Summary(
            n_given=self.n_given + other.n_given,
            n_rows=self.n_rows + other.n_rows,
            weight=weight,
            ranges=self.ranges.merged(other.ranges, share),
            responses=self.responses.merged(other.responses, share),
            refusal=min(refusals, default=None),
        )

    @classmethod
    def nothing(cls, p: int, responses: int) -> Summary:
        """Return the summary of no rows."""
        return cls.of(np.empty((0, p)), np.empty((0, responses)), np.empty(0), 0)

    @classmethod
    def of(cls, X: Array, Y: Array, weights: Array, n_given: int) -> Summary:
        """Summarise the rows of one block; Y has a column for each response."""
        weight = float(weights.sum())
        return cls(n_given, len(X), weight, Ranges.of(X, weights), Ranges.of(Y, weights))

    @property
    def centers(self) -> Array:
        """Means of the responses; equal numbers give that number, so that they centre to zeros."""
        low, high, mean = self.responses[:3]
        return np.where(low == high, low, mean)

    def units(self, *, about_mean: bool) -> tuple[float, ...]:
        """Return the root mean square of each response, about its mean or zero; 1 for constants."""
        about = self.centers if about_mean else 0.0
        squares = self.responses.variance + (self.responses.mean - about) ** 2
        return tuple(np.where(squares > 0.0, np.sqrt(squares), 1.0).tolist())
