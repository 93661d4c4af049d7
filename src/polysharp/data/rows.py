"""Rows, wherever they live, and the one question that the method asks of them.

Whatever a fit needs of n rows is a sum over blocks of rows,

    f(block 1) + f(block 2) + ... ,

of numbers, arrays or small records that merge with ``+``: moments, scores of a ranking, partial
products of a pricing pass.  A table in memory is one block (``MemoryRows``), and the function may
cut it again for the cache.  A Dask collection is many blocks (``dask_rows.DaskRows``); each of
them becomes ``MemoryRows`` in the task that reads it, and nothing gathers them.  So moments,
ranking and pricing are written once, for ``Rows``, each in its own room.

``Ranges`` are such a record.  For each column, with weights v and W their sum, a block contributes

    min, max,    xbar = sum v x / W,    S = sum v (x - xbar)^2,

which merge exactly (Chan, Golub & LeVeque), as moments do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import CPU, Place
from polysharp.data.functions import PLAIN, Library
from polysharp.typing import Array, Indices, OnBlock

if TYPE_CHECKING:
    from polysharp.data.dask_rows import DaskRows

ROWS_AT_A_TIME = 1024  # so that temporary arrays stay in the cache

Rows: TypeAlias = "MemoryRows | DaskRows"
Code = Callable[[Array], Array]  # from inputs in the user's units to coded ones


@dataclass(frozen=True, eq=False)
class Ranges:
    """Least and largest value, mean and variance of each column; the coding follows from them."""

    low: Array
    high: Array
    mean: Array
    variance: Array
    at_most_two: NDArray[np.bool_]  # whether a column takes no value between its least and largest
    n_rows: int
    weight: float

    @classmethod
    def of(cls, X: Array, weights: Array) -> Ranges:
        """Measure the columns of a table; of no rows the least value is infinite, the mean zero."""
        low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
        weight = weights.sum() if len(X) else 1.0
        variance, at_most_two = np.zeros(X.shape[1]), np.ones(X.shape[1], dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):  # ``check_powers`` sees the range
            mean = weights @ X / weight
            for start in range(0, len(X), ROWS_AT_A_TIME):
                part = X[start : start + ROWS_AT_A_TIME]
                variance += weights[start : start + ROWS_AT_A_TIME] @ (part - mean) ** 2
                some = np.flatnonzero(at_most_two)
                if len(some):
                    values = part[:, some]
                    at_most_two[some] = ((low[some] == values) | (high[some] == values)).all(axis=0)
        return cls(low, high, mean, variance / weight, at_most_two, len(X), float(weights.sum()))

    def __add__(self, other: Ranges) -> Ranges:
        """Return the ranges of both sets of rows."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        weight, step = self.weight + other.weight, other.mean - self.mean
        share = other.weight / weight if weight else 0.0
        within = [
            (end == low) | (end == high) | (part.n_rows == 0)
            for part in (self, other)
            for end in (part.low, part.high)
        ]
        return Ranges(
            low,
            high,
            self.mean + share * step,
            (1.0 - share) * (self.variance + share * step**2) + share * other.variance,
            self.at_most_two & other.at_most_two & np.all(within, axis=0),
            self.n_rows + other.n_rows,
            weight,
        )

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

    @property
    def centers(self) -> Array:
        """Means; equal numbers give that number, so that they centre to zeros."""
        return np.where(self.low == self.high, self.low, self.mean)

    def sizes(self, shift: Any) -> Array:
        """Return the root mean square of each column about a shift; 1 where that is zero."""
        # About its own number a constant has no variance, whatever rounding says.
        variance = np.where(self.low == self.high, 0.0, self.variance)
        squares = variance + (self.centers - shift) ** 2
        return np.where(squares > 0.0, np.sqrt(squares), 1.0)


class Responses(NamedTuple):
    """Several responses of the same rows, each divided by its unit."""

    names: tuple[str, ...]
    units: tuple[float, ...]
    values: Array  # one row each


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Rows in memory without those of weight zero: a whole table, or a block of a larger one."""

    X: Array  # the inputs, and after them the functions of them
    y: Array
    sample_weight: Array | None = None
    names: tuple[str, ...] = ()  # of the inputs
    response: str = "y"
    place: Place = CPU  # where products of large matrices are computed
    number: int = 0  # among the blocks of a larger table
    library: Library = PLAIN  # functions of the inputs that are columns as well
    y_unit: float = 1.0  # what y was divided by
    several: Responses | None = None  # where y is one of several responses: all of them
    workers: int = 1  # blocks that are worked on at a time

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        n, width = self.X.shape
        return n, width - len(self.library.applied)

    @cached_property
    def weights(self) -> Array:
        """The weights as an array."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @cached_property
    def total_weight(self) -> float:
        """What n is when a row of weight two counts as two rows."""
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @cached_property
    def y_mean(self) -> float:
        """The weighted mean of y; of equal numbers that number, so that they centre to zeros."""
        if self.y.min() == self.y.max():
            return float(self.y[0])
        return float(np.average(self.y, weights=self.sample_weight))

    @cached_property
    def ranges(self) -> Ranges:
        """Ranges, means and variances of the columns."""
        return Ranges.of(self.X, self.weights)

    @property
    def block(self) -> MemoryRows:
        """All rows, as they are in memory."""
        return self

    def responses(self, *, several: bool) -> Array:
        """Return y (n,), or the several responses (T, n)."""
        if not several:
            return self.y
        assert self.several is not None
        return self.several.values

    def coded(self, code: Code) -> MemoryRows:
        """Return the rows with their inputs coded."""
        return replace(self, X=code(self.X))

    def take(self, chosen: Any) -> MemoryRows:
        """Return some of the rows, given by indices or a slice."""
        weights, several = self.sample_weight, self.several
        weights = None if weights is None else weights[chosen]
        if several is not None:
            several = several._replace(values=several.values[:, chosen])
        y = self.y[chosen]
        return replace(self, X=self.X[chosen], y=y, sample_weight=weights, several=several)

    @property
    def each(self) -> tuple[MemoryRows, ...]:
        """The same rows once for each of several responses."""
        assert self.several is not None
        return tuple(
            replace(self, response=name, y_unit=unit, y=values)
            for name, unit, values in zip(*self.several, strict=True)
        )

    def columns(self, columns: Indices) -> Array:
        """Return some columns of the table, which is no copy where they are all of them."""
        return self.X if len(columns) == self.X.shape[1] else self.X[:, columns]

    def sum_over_blocks(
        self,
        stage: str,
        function: Callable[..., Any],
        *args: Any,
        then: Callable[..., Any] | None = None,
        on_block: OnBlock | None = None,
    ) -> Any:
        """Return the sum of ``function(block, *args)`` over the blocks, here a single one.

        With ``then``, return ``then(sum, *args)``, computed where the sum is.  ``stage`` names the
        work.  ``on_block(done, total)`` is called between pieces of it, and an exception raised
        there ends it; a function that is the whole of the work takes ``on_block`` as a keyword.
        """
        del stage
        total = function(self, *args, **({} if on_block is None else {"on_block": on_block}))
        return total if then is None else then(total, *args)


def evenly_spaced(n: int, at_most: int) -> Indices:
    """Return all of n indices, or a number of them evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).round().astype(np.intp))
