"""Dask collections as rows: checked in one pass, then asked for sums over their blocks.

X stays where it is: a block is read, coded, used and forgotten by a task, and what moves is what
the tasks return.  Each sum reads the rows again: ``persist`` collections that fit into the
workers' memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polysharp.data.arrays import CPU, Place
from polysharp.data.checks import (
    check_finite,
    check_magnitudes,
    check_powers,
    input_names,
    library_of,
)
from polysharp.data.cluster import n_threads, sum_over_blocks
from polysharp.data.dask_blocks import Piece, check_columns, cut_into_blocks, is_frame
from polysharp.data.functions import PLAIN, Library
from polysharp.data.rows import Code, MemoryRows, Rows
from polysharp.data.summary import Ranges, Summary
from polysharp.errors import InputError
from polysharp.progress import Progress
from polysharp.typing import Array, OnBlock


def open_collections(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress
) -> DaskRows:
    """Check Dask collections; sets ``n_features_in_`` and ``feature_names_in_`` on the model."""
    if model.device not in (None, "cpu"):
        raise InputError(f"device must be None or 'cpu' for Dask collections, got {model.device!r}")
    check_columns(model, X, reset=True)
    response = y.name if is_frame(y) else None
    names = input_names(model)
    library = library_of(model, names)
    read = BlockReader(names, response if isinstance(response, str) else "y", library)
    blocks = cut_into_blocks(X, y, sample_weight)
    summary = _summary(blocks, read, progress)
    columns = library.column_names(names)
    _check_whole(summary, int(model.degree), columns, sample_weight is not None)
    return DaskRows(
        blocks,
        read,
        read.names,
        read.response,
        (summary.n_rows, len(read.names)),
        summary.weight,
        summary.y_center,
        summary.ranges,
        library,
    )


def _summary(blocks: Sequence[Piece], read: BlockReader, progress: Progress) -> Summary:
    """Go over the blocks once; what the user's own graph raises is told in one sentence."""
    tell = progress.on_block("checking rows")
    try:
        summary: Summary = sum_over_blocks("check", summarise, blocks, read, on_block=tell)
    except (ValueError, TypeError, KeyError) as failed:
        first = (str(failed).splitlines() or [type(failed).__name__])[0]
        raise InputError(f"X and y: a block cannot be read: {first}") from failed
    return summary


def summarise(number: int, x: Any, y: Any, weights: Any, read: BlockReader) -> Summary:
    """Check and summarise one block, or say what is wrong with it."""
    try:
        rows, n_given = read(number, x, y, weights)
    except InputError as refused:
        return Summary.nothing(read.width, refusal=(number, str(refused)))
    if not len(rows):
        return Summary.nothing(read.width, n_given)
    return Summary.of(rows.X, rows.y, rows.weights, n_given)


def _check_whole(summary: Summary, degree: int, names: tuple[str, ...], weighted: bool) -> None:
    """Refuse what a block refused, and what only all of them together show."""
    if summary.refusal is not None:
        number, sentence = summary.refusal
        raise InputError(f"block {number}: {sentence}")
    if weighted and summary.n_rows == 0 and summary.n_given:
        raise InputError("sample_weight must have a positive value, got only zeros")
    if summary.n_rows < 2:
        raise InputError(f"X must have at least 2 rows of positive weight, got {summary.n_rows}")
    check_powers(np.array([summary.ranges.low, summary.ranges.high]), degree, names)
    check_magnitudes(np.array([summary.y_low, summary.y_high]), summary.weight)


@dataclass(frozen=True, eq=False)
class DaskRows(Rows):
    """Rows that live in blocks on a cluster or on disk, and have passed the checks."""

    blocks: Sequence[Piece]
    read: BlockReader
    names: tuple[str, ...]
    response: str
    shape: tuple[int, int]
    total_weight: float
    y_mean: float
    ranges: Ranges
    library: Library
    place: Place = CPU  # workers compute on their CPUs
    block: None = None  # nothing gathers the rows

    @cached_property
    def workers(self) -> int:  # type: ignore[override]
        """Threads of the cluster, or of this machine."""
        return n_threads()

    def coded(self, code: Code) -> DaskRows:
        """Return the rows with their inputs coded, which is done when they are read."""
        return replace(self, read=replace(self.read, code=code))

    def sum_over_blocks(
        self,
        stage: str,
        function: Callable[..., Any],
        *args: Any,
        then: Callable[..., Any] | None = None,
        on_block: OnBlock | None = None,
    ) -> Any:
        """Add what the blocks that are not empty return, in a tree."""
        return sum_over_blocks(
            stage,
            _on_rows,
            self.blocks,
            *(self.read, function, then, *args),
            then=None if then is None else _then,
            on_block=on_block,
        )


def _on_rows(number: int, x: Any, y: Any, weights: Any, *shared: Any) -> Any:
    """Read a block and use it; None where it is empty."""
    read, function, _, *args = shared
    rows, _ = read(number, x, y, weights)
    return function(rows, *args) if len(rows) else None


def _then(total: Any, *shared: Any) -> Any:
    """Finish the work where the sum is."""
    _, _, then, *args = shared
    return then(total, *args)


@dataclass(frozen=True, eq=False)
class BlockReader:
    """How a task turns the pieces of a block into rows."""

    names: tuple[str, ...]
    response: str = "y"
    library: Library = PLAIN
    code: Code | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names) + len(self.library.applied)

    def __call__(self, number: int, x: Any, y: Any, weights: Any) -> tuple[MemoryRows, int]:
        """Return the rows that count, as floats and coded, and how many there were."""
        if isinstance(x, tuple):  # joined data frames
            x, y, weights = x
        X = table_of(x, self.names)
        n = len(X)
        response, v = _column(y, n, "y"), None
        if weights is not None:
            v = _column(weights, n, "sample_weight")
            if n and v.min() < 0:
                raise InputError(f"sample_weight must not be negative, got {v.min():g}")
            used = v > 0
            if not used.all():
                X, response, v = X[used], response[used], v[used]
        X = self.library.grown(X, self.names)
        X = X if self.code is None else self.code(X)
        rows = MemoryRows(X, response, v, self.names, self.response, CPU, number, self.library)
        return rows, n


def table_of(x: Any, names: tuple[str, ...]) -> Array:
    """Return the inputs of a block as finite floats, or say which one is not."""
    X = np.empty((len(x), len(names)), order="F")
    columns = [x.iloc[:, a] for a in range(len(names))] if hasattr(x, "iloc") else np.asarray(x).T
    for a, column in enumerate(columns):
        X[:, a] = _floats(column, f"X must hold numbers, got text in column {names[a]!r}")
    check_finite(X, names)
    return X


def _column(values: Any, n: int, name: str) -> Array:
    column = _floats(values, f"{name} must hold numbers, got text")
    if column.shape != (n,):
        raise InputError(f"{name} must have one value per row of X, {n}, got {len(column)}")
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise InputError(
            f"{name} must have neither NaN nor inf, got {column[bad[0]]} in row {bad[0]}"
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
