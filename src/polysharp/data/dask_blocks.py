"""From Dask collections to blocks: cut the rows of X, y and the weights alike, computing nothing.

A block is a triple (x, y, weights) of delayed pieces.  Rows are aligned by position:

    arrays of known chunk sizes     y and the weights are cut at the chunks of X; totals must agree
    unknown sizes, data frames      as many pieces on each side; the two of a pair must have equal
                                    lengths, which only the workers can see (``block_summary``)

Data frames of one source are joined before they are cut, so that Dask opens a file once for X and y
and reads only the columns in use.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from polysharp.data.cluster import dask_module, is_dask
from polysharp.errors import InputError

Piece = tuple[Any, Any, Any]  # x, y and weights (or None) of one block, delayed


def is_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame or Series."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def is_array(X: Any) -> bool:
    """Whether X is a Dask array."""
    return type(X).__module__.startswith("dask.array")


def check_columns(model: Any, X: Any, *, reset: bool) -> None:
    """Check kind, names and types of the columns without computing anything.

    With ``reset``, set ``n_features_in_`` and ``feature_names_in_`` on the model; without, compare
    the columns with them.
    """
    if is_frame(X):
        if X.ndim != 2:
            raise InputError("X must be a Dask DataFrame with columns, got a Series")
        for name, dtype in X.dtypes.items():
            if not _holds_numbers(dtype):
                raise InputError(f"X must hold numbers, got column {name!r} of type {dtype}")
        like = X._meta
    elif is_array(X) and X.ndim == 2:
        if not _holds_numbers(X.dtype):
            raise InputError(f"X must hold numbers, got type {X.dtype}")
        like = np.empty((1, X.shape[1]))
    else:
        raise InputError(
            f"X must be a two-dimensional Dask array or a Dask DataFrame, got {type(X).__name__}"
        )
    validate_data(model, like, reset=reset, skip_check_array=True)


def _holds_numbers(dtype: Any) -> bool:
    """Whether a type may hold numbers; objects may, and are converted block by block."""
    kind = getattr(dtype, "kind", "O")
    return kind in "biuf" or str(dtype) == "object"


def cut_into_blocks(X: Any, y: Any, sample_weight: Any, *, several: bool = False) -> list[Piece]:
    """Cut the rows of X, y and the weights alike; y may have ``several`` columns."""
    beside = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    for name, column in beside.items():
        if is_dask(column) and not (is_array(column) or is_frame(column)):
            raise InputError(f"{name} must be a Dask array or Series, got {type(column).__name__}")
        if getattr(column, "ndim", 1) > (2 if several and name == "y" else 1):
            raise InputError(f"{name} must have one dimension, got {column.ndim}")
    if is_frame(X) and all(is_frame(column) for column in beside.values()):
        return _joined(X, beside)
    pieces = [_pieces(X)] + [_beside(X, column, name) for name, column in beside.items()]
    if sample_weight is None:
        pieces.append([None] * len(pieces[0]))
    return list(zip(*pieces, strict=True))


def _joined(X: Any, beside: dict[str, Any]) -> list[Piece]:
    """Cut data frames after optimising how all of them are read."""
    for name, column in beside.items():
        if column.npartitions != X.npartitions:
            raise _disagree(name, X.npartitions, column.npartitions)
    joined = dask_module("dask.dataframe").map_partitions(
        _triple, X, *beside.values(), meta=X._meta, align_dataframes=False, enforce_metadata=False
    )
    # Simplify, to read only columns in use; do not fuse, to keep the user's partitions.
    delayed = joined.simplify().to_delayed(optimize_graph=False)
    return [(piece, None, None) for piece in delayed]


def _triple(x: Any, y: Any, weights: Any = None) -> Piece:
    return x, y, weights


def _pieces(X: Any) -> list[Any]:
    """Return the row blocks of a collection, delayed."""
    if is_frame(X):
        return list(X.simplify().to_delayed(optimize_graph=False))
    whole = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
    return list(whole.to_delayed().ravel())


def _beside(X: Any, column: Any, name: str) -> list[Any]:
    """Return y or the weights in the blocks of X."""
    sizes = _known_sizes(X)
    if not is_dask(column):
        if sizes is None:
            raise InputError(
                f"{name} must be a Dask array or Series in the partitions of X, whose sizes are "
                f"unknown, got {type(column).__name__}"
            )
        values = np.atleast_1d(column)
        if len(values) != sum(sizes):
            raise InputError(f"{name} has {len(values):,} values, X has {sum(sizes):,} rows")
        chunks = (sizes, *values.shape[1:])
        column = dask_module("dask.array").from_array(values, chunks=chunks)
    elif sizes is not None and _known_sizes(column) is not None:
        if sum(sizes) != column.shape[0]:
            raise InputError(f"{name} has {column.shape[0]:,} values, X has {sum(sizes):,} rows")
        column = column.rechunk({0: sizes})
    pieces, wanted = _pieces(column), X.npartitions if is_frame(X) else X.numblocks[0]
    if len(pieces) != wanted:
        raise _disagree(name, wanted, len(pieces))
    return pieces


def _known_sizes(X: Any) -> tuple[int, ...] | None:
    """Return the lengths of the row blocks, None if Dask does not know them."""
    if is_frame(X) or any(isnan(size) for size in X.chunks[0]):
        return None
    return tuple(X.chunks[0])


def _disagree(name: str, wanted: int, got: int) -> InputError:
    return InputError(
        f"{name} must be cut into the {wanted} blocks of X, got {got}; take both from one "
        "collection, or make their chunks alike (rechunk, repartition)"
    )
