"""Predictions on Dask collections: one task per block, computed when the user asks.

An array gives an array with the chunks of its rows, a data frame a series with its index, named as
the response was.  A block that cannot be predicted says so with its number when it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polysharp.data.cluster import dask_module
from polysharp.data.dask_blocks import check_columns, is_frame
from polysharp.data.dask_rows import table_of
from polysharp.errors import InputError
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


def predict_collection(model: Any, law: Polynomial, X: Any) -> Any:
    """Return the values of a polynomial at the rows of X, the columns of the fit, lazily."""
    check_columns(model, X, reset=False)
    if is_frame(X):
        pandas = dask_module("pandas")
        meta = pandas.Series(dtype=np.float64, name=law.response)
        return X.map_partitions(_series, law, meta=meta)
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    return whole.map_blocks(_values, law, drop_axis=1, dtype=np.float64, meta=np.empty(0))


def _values(x: Any, law: Polynomial, block_info: Any = None) -> Array:
    place = block_info[0]["chunk-location"][0] if block_info else None
    return _predict(x, law, place)


def _series(x: Any, law: Polynomial, partition_info: Any = None) -> Any:
    from pandas import Series

    place = partition_info["number"] if partition_info else None
    return Series(_predict(x, law, place), index=x.index, name=law.response)


def _predict(x: Any, law: Polynomial, place: int | None) -> Array:
    try:
        return law(table_of(x, law.names))
    except InputError as refused:
        raise InputError(f"block {place}: {refused}") from None
