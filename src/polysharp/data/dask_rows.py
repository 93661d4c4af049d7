"""Dask collections as rows: one pass checks them, later passes compute sums over their blocks.

X is never gathered.  A task reads a block, codes it, uses it and forgets it; only the results of
tasks travel.  Every sum reads the rows again: call ``persist`` on collections that fit into the
workers' memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from polysharp.data.arrays import CPU, Place
from polysharp.data.checks import (
    check_finite,
    check_magnitudes,
    check_powers,
    input_names,
    library_of,
    response_names,
)
from polysharp.data.cluster import n_threads, sum_over_blocks
from polysharp.data.dask_blocks import Piece, check_columns, cut_into_blocks, is_frame
from polysharp.data.functions import PLAIN, Library
from polysharp.data.rows import Code, MemoryRows, Responses, Rows
from polysharp.data.summary import Ranges, Summary
from polysharp.errors import InputError, first_line
from polysharp.progress import Progress
from polysharp.typing import Array, OnBlock


def open_collections(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress
) -> DaskRows:
    """Check collections; set ``n_features_in_`` and ``feature_names_in_`` on the model."""
    response = y.name if is_frame(y) else None
    names = (response if isinstance(response, str) else "y",)
    (rows,) = _opened(model, (X, y, sample_weight), names, progress)
    return rows


def open_several(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress
) -> list[DaskRows]:
    """Check collections with several responses, the columns of y; return the rows of each.

    Each response is divided by its standard deviation, or without an intercept by its root mean
    square.
    """
    if getattr(y, "ndim", 2) != 2:
        raise InputError(
            "y must have two dimensions, a column for each response; for one response use "
            "SparsePolynomialRegressor"
        )
    names = tuple(response_names(y, y.shape[1]))
    return _opened(model, (X, y, sample_weight), names, progress, several=True)


def _opened(
    model: Any,
    given: tuple[Any, Any, Any],
    responses: tuple[str, ...],
    progress: Progress,
    *,
    several: bool = False,
) -> list[DaskRows]:
    """Check collections; return the rows of each response."""
    X, y, sample_weight = given
    if model.device not in (None, "cpu"):
        raise InputError(f"device must be None or 'cpu' for Dask collections, got {model.device!r}")
    check_columns(model, X, reset=True)
    names = input_names(model)
    library = library_of(model, names)
    read = BlockReader(names, responses, library)
    blocks = cut_into_blocks(X, y, sample_weight, several=several)
    on_block = progress.on_block("checking rows")
    try:
        found: Summary = sum_over_blocks("check", summarise, blocks, read, on_block=on_block)
    except (ValueError, TypeError, KeyError) as failed:  # raised by the user's own graph
        raise InputError(f"X and y: a block cannot be read: {first_line(failed)}") from failed
    _check_whole(
        found, model._largest_degree, library.column_names(names), sample_weight is not None
    )
    if several:
        read = replace(read, units=found.units(about_mean=bool(model.fit_intercept)))
    known = (found.n_rows, len(names)), found.weight, found.ranges, library
    return [
        DaskRows(blocks, replace(read, column=t), names, name, *known, center / unit, unit)
        for t, (name, center, unit) in enumerate(
            zip(responses, found.centers.tolist(), read.units or (1.0,), strict=True)
        )
    ]


def summarise(number: int, x: Any, y: Any, weights: Any, read: BlockReader) -> Summary:
    """Check and summarise one block, or return a summary with its first error."""
    try:
        rows, n_given = read(number, x, y, weights)
    except InputError as refused:
        nothing = Summary.nothing(read.width, len(read.responses))
        return replace(nothing, refusal=(number, str(refused)))
    Y = rows.y[:, None] if rows.several is None else rows.several.values.T
    return Summary.of(rows.X, Y, rows.weights, n_given)


def _check_whole(summary: Summary, degree: int, names: tuple[str, ...], weighted: bool) -> None:
    """Raise the first error of a block, and errors that only the whole table shows."""
    if summary.refusal is not None:
        number, sentence = summary.refusal
        raise InputError(f"block {number}: {sentence}")
    if weighted and summary.n_rows == 0 and summary.n_given:
        raise InputError("sample_weight must have a positive value, got only zeros")
    if summary.n_rows < 2:
        raise InputError(f"X must have at least 2 rows of positive weight, got {summary.n_rows}")
    check_powers(np.array([summary.ranges.low, summary.ranges.high]), degree, names)
    check_magnitudes(np.array(summary.responses[:2]), summary.weight)


@dataclass(frozen=True, eq=False)
class DaskRows(Rows):
    """Checked rows in blocks on a cluster or on disk."""

    blocks: Sequence[Piece]
    read: BlockReader
    names: tuple[str, ...]
    response: str
    shape: tuple[int, int]
    total_weight: float
    ranges: Ranges
    library: Library
    y_mean: float
    y_unit: float = 1.0
    place: Place = CPU  # workers compute on their CPUs
    block: None = None  # the rows are never gathered

    @cached_property
    def workers(self) -> int:  # type: ignore[override]
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
        last = None if then is None else partial(_finish, then)
        given = self.blocks, self.read, function, *args
        return sum_over_blocks(stage, _on_rows, *given, then=last, on_block=on_block)


def _on_rows(number: int, *piece_and_work: Any) -> Any:
    """Read a block and use it; None where it is empty."""
    x, y, weights, read, function, *args = piece_and_work
    rows, _ = read(number, x, y, weights)
    return function(rows, *args) if len(rows) else None


def _finish(then: Callable[..., Any], total: Any, *shared: Any) -> Any:
    """Call ``then`` on the worker that has the sum."""
    _read, _function, *args = shared
    return then(total, *args)


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Turns the pieces of a block into rows, within a task."""

    names: tuple[str, ...]
    responses: tuple[str, ...] = ("y",)
    library: Library = PLAIN
    code: Code | None = None
    units: tuple[float, ...] = ()  # divisors of several responses; empty: 1 for each
    column: int = 0  # of y, the response of these rows

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names) + len(self.library.applied)

    def __call__(self, number: int, x: Any, y: Any, weights: Any) -> tuple[MemoryRows, int]:
        """Return the coded rows of positive weight, and the number of all rows."""
        if isinstance(x, tuple):  # joined data frames
            x, y, weights = x
        X = table_of(x, self.names)
        n = len(X)
        Y, v = _column(y, n, "y", self.responses), None
        if weights is not None:
            v = _column(weights, n, "sample_weight")
            if n and v.min() < 0:
                raise InputError(f"sample_weight must not be negative, got {v.min():g}")
            used = v > 0
            if not used.all():
                X, Y, v = X[used], Y[used], v[used]
        X = self.library.grown(X, self.names)
        X = X if self.code is None else self.code(X)
        y, response, unit, several = Y, self.responses[self.column], 1.0, None
        if Y.ndim > 1:
            units = self.units or (1.0,) * len(self.responses)
            values = np.ascontiguousarray((Y / np.array(units)).T)
            y, unit = values[self.column], units[self.column]
            several = Responses(self.responses, units, values)
        own = self.names, response, CPU, number, self.library, unit, several
        return MemoryRows(X, y, v, *own), n


def table_of(x: Any, names: tuple[str, ...]) -> Array:
    """Return the inputs of a block as finite floats, or raise InputError."""
    X = np.empty((len(x), len(names)), order="F")
    columns = [x.iloc[:, a] for a in range(len(names))] if hasattr(x, "iloc") else np.asarray(x).T
    for a, column in enumerate(columns):
        X[:, a] = _floats(column, f"X must hold numbers, got text in column {names[a]!r}")
    check_finite(X, names)
    return X


def _column(values: Any, n: int, name: str, each: tuple[str, ...] = ("",)) -> Array:
    """Return one column, or a table with a column for ``each`` of several responses."""
    column = _floats(values, f"{name} must hold numbers, got text")
    if column.shape not in ((n,), (n, len(each))):
        raise InputError(f"{name} has {len(column):,} values, X has {n:,} rows")
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
