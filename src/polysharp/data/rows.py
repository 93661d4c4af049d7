"""Rows, wherever they live, and the one question that the method asks of them.

Whatever a fit needs of n rows is a sum over blocks of rows,

    f(block 1) + f(block 2) + ... ,

of numbers, arrays or small records that merge with ``+``: moments, scores of a ranking, partial
products of a pricing pass.  A table in memory is one block (``MemoryRows``), and the function may
cut it again for the cache.  A Dask collection is many blocks (``dask_rows.DaskRows``); each of
them becomes ``MemoryRows`` in the task that reads it, and nothing gathers them.  So moments,
ranking and pricing are written once, for ``Rows``, each in its own room.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.arrays import CPU, Place
from polysharp.data.functions import PLAIN, Library
from polysharp.data.summary import Ranges
from polysharp.typing import Array, Indices, OnBlock

Code = Callable[[Array], Array]  # from inputs in the user's units to coded ones


class Responses(NamedTuple):
    """Several responses of the same rows, each divided by its unit."""

    names: tuple[str, ...]
    units: tuple[float, ...]
    values: Array  # one row each


class Rows(ABC):
    """Inputs, response and weights of n rows; rows of weight zero are left out."""

    names: tuple[str, ...]  # of the inputs
    response: str
    place: Place  # where products of large matrices are computed
    workers: int = 1  # blocks that are worked on at a time
    shape: tuple[int, int]  # rows and inputs
    y_unit: float = 1.0  # what y was divided by
    total_weight: float  # what n is when a row of weight two counts as two rows
    y_mean: float  # weighted; of equal numbers that number itself, so that they centre to zeros
    library: Library  # functions of the inputs that are columns as well
    ranges: Ranges  # of the columns, inputs as the user gave them
    block: MemoryRows | None  # all rows, where they are in memory

    @abstractmethod
    def coded(self, code: Code) -> Rows:
        """Return the rows with their inputs coded."""

    @abstractmethod
    def sum_over_blocks(
        self,
        stage: str,
        function: Callable[..., Any],
        *args: Any,
        then: Callable[..., Any] | None = None,
        on_block: OnBlock | None = None,
    ) -> Any:
        """Return the sum of ``function(block, *args)`` over the blocks, each of them in memory.

        With ``then``, return ``then(sum, *args)``, computed where the sum is.  ``stage`` names the
        work.  ``on_block(done, total)`` is called between pieces of it, and an exception raised
        there ends it; a function that is the whole of the work takes ``on_block`` as a keyword.
        """


@dataclass(frozen=True, eq=False)
class MemoryRows(Rows):
    """Rows in memory: a whole table, or one block of a larger one."""

    X: Array  # the inputs, and after them the functions of them
    y: Array
    sample_weight: Array | None = None
    names: tuple[str, ...] = ()
    response: str = "y"
    place: Place = CPU
    number: int = 0  # among the blocks of a larger table
    library: Library = PLAIN
    y_unit: float = 1.0
    several: Responses | None = None  # where y is one of several responses: all of them

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and inputs."""
        n, width = self.X.shape
        return n, width - len(self.library.applied)

    @cached_property
    def weights(self) -> Array:
        """The weights as an array."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @cached_property
    def total_weight(self) -> float:  # type: ignore[override]
        """Sum of the weights."""
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @cached_property
    def y_mean(self) -> float:  # type: ignore[override]
        """The weighted mean of y, or the number that all of them are."""
        if self.y.min() == self.y.max():
            return float(self.y[0])
        return float(np.average(self.y, weights=self.sample_weight))

    @cached_property
    def ranges(self) -> Ranges:  # type: ignore[override]
        """Ranges, means and variances of the columns."""
        return Ranges.of(self.X, self.weights)

    @property
    def block(self) -> MemoryRows:  # type: ignore[override]
        """These rows."""
        return self

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
        """Call the function once: there is one block."""
        del stage
        total = function(self, *args, **({} if on_block is None else {"on_block": on_block}))
        return total if then is None else then(total, *args)


def evenly_spaced(n: int, at_most: int) -> Indices:
    """Return all of n indices, or a number of them evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).round().astype(np.intp))
