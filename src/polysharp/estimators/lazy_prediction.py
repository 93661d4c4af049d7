"""Predictions on Dask collections: one task per block, computed when the user asks.

An array gives an array with the chunks of its rows, a data frame a series with its index, named as
the response was; several responses give tables.  A block that cannot be predicted says so with its
number when it is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.data.cluster import dask_module
from polysharp.data.dask_rows import check_columns, is_frame, table_of
from polysharp.errors import InputError
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


def predict_collection(
    model: Any, formulas: tuple[Polynomial, ...], X: Any, *, several: bool
) -> Any:
    """Return the values of formulas at the rows of X, lazily; of ``several`` as a table."""
    values = _Values(formulas, several)
    check_columns(model, X, reset=False)
    if is_frame(X):
        pandas = dask_module("pandas")
        meta = values.named(np.empty((0, len(values.formulas))), pandas.RangeIndex(0))
        return X.map_partitions(_of_partition, values, meta=meta)
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    if values.several:
        shape = {"chunks": (whole.chunks[0], (len(values.formulas),)), "meta": np.empty((0, 0))}
    else:
        shape = {"drop_axis": 1, "meta": np.empty(0)}
    return whole.map_blocks(_of_block, values, dtype=np.float64, **shape)


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of one polynomial, or a column for each of several."""

    formulas: tuple[Polynomial, ...]
    several: bool

    def at(self, x: Any, place: int | None) -> Array:
        """Return a table with a column for each polynomial."""
        try:
            rows = table_of(x, self.formulas[0].names)
        except InputError as refused:
            raise InputError(f"block {place}: {refused}") from None
        return np.column_stack([law(rows) for law in self.formulas])

    def named(self, table: Array, index: Any) -> Any:
        """Return a series or a data frame with the names of the responses."""
        from pandas import DataFrame

        frame = DataFrame(table, index=index, columns=[law.response for law in self.formulas])
        return frame if self.several else frame.iloc[:, 0]


def _of_block(x: Any, values: _Values, block_info: Any = None) -> Array:
    table = values.at(x, block_info[0]["chunk-location"][0] if block_info else None)
    return table if values.several else table[:, 0]


def _of_partition(x: Any, values: _Values, partition_info: Any = None) -> Any:
    place = partition_info["number"] if partition_info else None
    return values.named(values.at(x, place), x.index)
