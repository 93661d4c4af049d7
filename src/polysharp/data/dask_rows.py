"""Dask collections as rows: one pass checks them, later passes compute sums over their blocks.

X is never gathered.  A task reads a block, codes it, uses it and forgets it; only the results of
tasks travel.  Every sum reads the rows again: call ``persist`` on collections that fit into the
workers' memory.

A block is a triple (x, y, weights) of delayed pieces.  Rows are aligned by position:

    arrays of known chunk sizes     y and the weights are cut at the chunks of X; totals must agree
    unknown sizes, data frames      as many pieces on each side; the two of a pair must have equal
                                    lengths, which only the workers can see (``summarise``)

Data frames of one source are joined before they are cut, so that Dask opens a file once for X and y
and reads only the columns in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from polysharp.data.arrays import CPU, Place
from polysharp.data.checks import (
    check_finite,
    check_magnitudes,
    check_powers,
    input_names,
    library_of,
    response_names,
    used_rows,
)
from polysharp.data.cluster import dask_module, is_dask, n_threads, sum_over_blocks
from polysharp.data.functions import Library
from polysharp.data.rows import Code, MemoryRows, Ranges, Responses
from polysharp.errors import InputError, first_line
from polysharp.progress import Progress
from polysharp.typing import Array, OnBlock

Piece = tuple[Any, Any, Any]  # x, y and weights (or None) of one block, delayed


def open_collections(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress, *, several: bool = False
) -> list[DaskRows]:
    """Check collections and return the rows of each response; ``several`` are the columns of y.

    Sets ``n_features_in_`` and ``feature_names_in_`` on the model.  Each of several responses is
    divided by its standard deviation, or without an intercept by its root mean square.
    """
    if several and getattr(y, "ndim", 2) != 2:
        raise InputError(
            "y must have two dimensions, a column for each response; for one response use "
            "SparsePolynomialRegressor"
        )
    if model.device not in (None, "cpu"):
        raise InputError(f"device must be None or 'cpu' for Dask collections, got {model.device!r}")
    check_columns(model, X, reset=True)
    names = input_names(model)
    library = library_of(model, names)
    name = y.name if is_frame(y) and not several else None
    responses = (
        response_names(y, y.shape[1]) if several else [name if isinstance(name, str) else "y"]
    )
    read = BlockReader(names, tuple(responses), library)
    blocks = cut_into_blocks(X, y, sample_weight, several=several)
    on_block = progress.on_block("checking rows")
    try:
        found: Summary = sum_over_blocks("check", summarise, blocks, read, on_block=on_block)
    except (ValueError, TypeError, KeyError) as failed:  # raised by the user's own graph
        raise InputError(f"X and y: a block cannot be read: {first_line(failed)}") from failed
    _check_whole(
        found, model._largest_degree, library.column_names(names), sample_weight is not None
    )
    centers, units = found.responses.centers, np.ones(len(read.responses))
    if several:
        units = found.responses.sizes(centers if model.fit_intercept else 0.0)
        read = replace(read, units=tuple(units.tolist()))
    ranges, means = found.ranges, centers / units
    known = names, library, ranges, (ranges.n_rows, len(names)), ranges.weight
    return [
        DaskRows(blocks, replace(read, column=t), *known, name, float(means[t]), float(units[t]))
        for t, name in enumerate(read.responses)
    ]


def is_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame or Series."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def _is_array(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def check_columns(model: Any, X: Any, *, reset: bool) -> None:
    """Check kind, names and types of the columns without computing anything.

    With ``reset``, set ``n_features_in_`` and ``feature_names_in_`` on the model; without, compare
    the columns with them.
    """
    if is_frame(X):
        if X.ndim != 2:
            raise InputError("X must be a Dask DataFrame with columns, got a Series")
        types, like = [(f"column {name!r} of ", dtype) for name, dtype in X.dtypes.items()], X._meta
    elif _is_array(X) and X.ndim == 2:
        types, like = [("", X.dtype)], np.empty((1, X.shape[1]))
    else:
        raise InputError(
            f"X must be a two-dimensional Dask array or a Dask DataFrame, got {type(X).__name__}"
        )
    for column, dtype in types:
        # Objects may be numbers, and are converted block by block.
        if getattr(dtype, "kind", "O") not in "biuf" and str(dtype) != "object":
            raise InputError(f"X must hold numbers, got {column}type {dtype}")
    validate_data(model, like, reset=reset, skip_check_array=True)


def cut_into_blocks(X: Any, y: Any, sample_weight: Any, *, several: bool = False) -> list[Piece]:
    """Cut the rows of X, y and the weights alike; y may have ``several`` columns."""
    beside = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    for name, column in beside.items():
        if is_dask(column) and not (_is_array(column) or is_frame(column)):
            raise InputError(f"{name} must be a Dask array or Series, got {type(column).__name__}")
        if getattr(column, "ndim", 1) > (2 if several and name == "y" else 1):
            raise InputError(f"{name} must have one dimension, got {column.ndim}")
    if is_frame(X) and all(is_frame(column) for column in beside.values()):
        for name, column in beside.items():
            _check_cut(name, X.npartitions, column.npartitions)
        options = {"meta": X._meta, "align_dataframes": False, "enforce_metadata": False}
        map_partitions = dask_module("dask.dataframe").map_partitions
        return [
            (x, None, None)
            for x in _pieces(map_partitions(_triple, X, *beside.values(), **options))
        ]
    pieces = [_pieces(X)] + [_beside(X, column, name) for name, column in beside.items()]
    if sample_weight is None:
        pieces.append([None] * len(pieces[0]))
    return list(zip(*pieces, strict=True))


def _triple(x: Any, y: Any, weights: Any = None) -> Piece:
    return x, y, weights


def _pieces(X: Any) -> list[Any]:
    """Return the row blocks of a collection, delayed."""
    if is_frame(X):
        # Simplify, to read only columns in use; do not fuse, to keep the user's partitions.
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
            raise _unequal(name, len(values), sum(sizes))
        chunks = (sizes, *values.shape[1:])
        column = dask_module("dask.array").from_array(values, chunks=chunks)
    elif sizes is not None and _known_sizes(column) is not None:
        if column.shape[0] != sum(sizes):
            raise _unequal(name, column.shape[0], sum(sizes))
        column = column.rechunk({0: sizes})
    pieces = _pieces(column)
    _check_cut(name, X.npartitions if is_frame(X) else X.numblocks[0], len(pieces))
    return pieces


def _known_sizes(X: Any) -> tuple[int, ...] | None:
    """Return the lengths of the row blocks, None if Dask does not know them."""
    if is_frame(X) or any(isnan(size) for size in X.chunks[0]):
        return None
    return tuple(X.chunks[0])


def _unequal(name: str, got: int, rows: int) -> InputError:
    return InputError(f"{name} has {got:,} values, X has {rows:,} rows")


def _check_cut(name: str, wanted: int, got: int) -> None:
    if got != wanted:
        raise InputError(
            f"{name} must be cut into the {wanted} blocks of X, got {got}; take both from one "
            "collection, or make their chunks alike (rechunk, repartition)"
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """The result of the first pass over blocks; ``a + b`` merges two of them."""

    ranges: Ranges
    responses: Ranges
    refusal: tuple[int, str] | None = None  # number of a bad block, and its first error

    def __add__(self, other: Summary) -> Summary:
        refusals = [part.refusal for part in (self, other) if part.refusal is not None]
        ranges, responses = self.ranges + other.ranges, self.responses + other.responses
        return Summary(ranges, responses, min(refusals, default=None))


def summarise(number: int, x: Any, y: Any, weights: Any, read: BlockReader) -> Summary:
    """Check and summarise one block, or return a summary with its first error."""
    try:
        rows = read(number, x, y, weights)
    except InputError as refused:
        width = len(read.names) + len(read.library.applied)
        X, Y, none = np.empty((0, width)), np.empty((0, len(read.responses))), np.empty(0)
        return Summary(Ranges.of(X, none), Ranges.of(Y, none), (number, str(refused)))
    Y = rows.y[:, None] if rows.several is None else rows.several.values.T
    return Summary(rows.ranges, Ranges.of(Y, rows.weights))


def _check_whole(found: Summary, degree: int, names: tuple[str, ...], weighted: bool) -> None:
    """Raise the first error of a block, and errors that only the whole table shows."""
    if found.refusal is not None:
        number, sentence = found.refusal
        raise InputError(f"block {number}: {sentence}")
    ranges, responses = found.ranges, found.responses
    if weighted and ranges.n_rows == 0:
        raise InputError("sample_weight must have a positive value, got none")
    if ranges.n_rows < 2:
        raise InputError(f"X must have at least 2 rows of positive weight, got {ranges.n_rows}")
    check_powers(np.array([ranges.low, ranges.high]), degree, names)
    check_magnitudes(np.array([responses.low, responses.high]), ranges.weight)


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Checked rows in blocks on a cluster or on disk; the attributes of ``MemoryRows``."""

    blocks: Sequence[Piece]
    read: BlockReader
    names: tuple[str, ...]
    library: Library
    ranges: Ranges
    shape: tuple[int, int]
    total_weight: float
    response: str
    y_mean: float
    y_unit: float
    place: Place = CPU  # workers compute on their CPUs
    block: None = None  # the rows are never gathered

    @cached_property
    def workers(self) -> int:
        """Threads of the cluster, or of this machine."""
        return n_threads()

    def coded(self, code: Code) -> DaskRows:
        """Return the rows with their inputs coded; blocks are coded when they are read."""
        return replace(self, read=replace(self.read, code=code))

    def sum_over_blocks(
        self,
        stage: str,
        function: Callable[..., Any],
        *args: Any,
        then: Callable[..., Any] | None = None,
        on_block: OnBlock | None = None,
    ) -> Any:
        """Add the results of all blocks that are not empty, in a tree."""
        last = None if then is None else lambda total, _read, _function, *own: then(total, *own)
        given = self.blocks, self.read, function, *args
        return sum_over_blocks(stage, _on_rows, *given, then=last, on_block=on_block)


def _on_rows(number: int, *piece_and_work: Any) -> Any:
    """Read a block and use it; None where it is empty."""
    x, y, weights, read, function, *args = piece_and_work
    rows = read(number, x, y, weights)
    return function(rows, *args) if len(rows) else None


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Turns the pieces of a block into rows, within a task."""

    names: tuple[str, ...]
    responses: tuple[str, ...]
    library: Library
    code: Code | None = None
    units: tuple[float, ...] = ()  # divisors of several responses; empty: 1 for each
    column: int = 0  # of y, the response of these rows

    def __call__(self, number: int, x: Any, y: Any, weights: Any) -> MemoryRows:
        """Return the coded rows of positive weight."""
        if isinstance(x, tuple):  # joined data frames
            x, y, weights = x
        X = table_of(x, self.names)
        Y, v = _column(y, len(X), "y", len(self.responses)), None
        if weights is not None:
            X, Y, v = used_rows(X, Y, _column(weights, len(X), "sample_weight"))
        X = self.library.grown(X, self.names)
        X = X if self.code is None else self.code(X)
        response = self.responses[self.column]
        rows = MemoryRows(X, Y, v, self.names, response, number=number, library=self.library)
        if Y.ndim == 1:
            return rows
        units = self.units or (1.0,) * len(self.responses)
        several = Responses(self.responses, units, np.ascontiguousarray((Y / np.array(units)).T))
        return replace(rows, several=several).each[self.column]


def table_of(x: Any, names: tuple[str, ...]) -> Array:
    """Return the inputs of a block as finite floats, or raise InputError."""
    X = np.empty((len(x), len(names)), order="F")
    columns = [x.iloc[:, a] for a in range(len(names))] if hasattr(x, "iloc") else np.asarray(x).T
    for a, column in enumerate(columns):
        X[:, a] = _floats(column, f"X must hold numbers, got text in column {names[a]!r}")
    check_finite(X, names)
    return X


def _column(values: Any, n: int, name: str, width: int = 1) -> Array:
    """Return one column, or a table with a column for each of several responses."""
    column = _floats(values, f"{name} must hold numbers, got text")
    if column.shape not in ((n,), (n, width)):
        raise _unequal(name, len(column), n)
    bad = np.argwhere(~np.isfinite(column))
    if len(bad):
        raise InputError(
            f"{name} must have neither NaN nor inf, got {column[tuple(bad[0])]} in row {bad[0][0]}"
        )
    return column


def _floats(values: Any, otherwise: str) -> Array:
    """Return numbers as float64, missing ones as NaN."""
    try:
        if hasattr(values, "iloc"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as refused:
        raise InputError(otherwise) from refused
