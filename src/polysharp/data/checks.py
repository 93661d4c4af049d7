"""The door for data: rows are checked here, once (those of Dask by ``dask_rows``).

Every refusal is one sentence with the parameter, the rule and the value received.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from polysharp.data.arrays import Place, as_host
from polysharp.data.cluster import is_dask
from polysharp.data.functions import Library, read_functions
from polysharp.data.rows import MemoryRows, Ranges, Responses, Rows
from polysharp.errors import InputError
from polysharp.progress import Progress
from polysharp.typing import Array

# Each stays between its inverse and it.  Bounds divide (y'a)^2, of the order of (sum v y^2)^2, so
# that response and weights have less room than the powers of X, which are only squared.
LARGEST = 1e140  # powers of X
LARGEST_RESPONSE = 1e60
LARGEST_WEIGHT = 1e20  # all rows together


def open_rows(model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress) -> Rows:
    """Check the training data; sets ``n_features_in_`` and ``feature_names_in_`` on the model."""
    if is_dask(X):
        from polysharp.data.dask_rows import open_collections

        return open_collections(model, X, y, sample_weight, progress)[0]
    return check_data(model, X, y, sample_weight)


def check_data(model: Any, X: Any, y: Any, sample_weight: Any) -> MemoryRows:
    """Do the same where the rows must be in memory."""
    if is_dask(X):
        raise InputError(
            f"X must be in memory for {type(model).__name__}, got a Dask collection; call "
            "compute() first, or use SparsePolynomialRegressor"
        )
    rows = _checked(model, X, y, sample_weight)
    # The name of a Dask array is a key of its graph.
    response = None if type(y).__module__.startswith("dask.array") else getattr(y, "name", None)
    return replace(rows, response=response) if isinstance(response, str) else rows


def open_responses(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress
) -> Sequence[Rows]:
    """Check rows with several responses, the columns of y; return the rows once for each.

    Each response is divided by its standard deviation, or without an intercept by its root mean
    square.
    """
    if is_dask(X):
        from polysharp.data.dask_rows import open_collections

        return open_collections(model, X, y, sample_weight, progress, several=True)
    y = as_host(y)
    rows = _checked(model, X, y, sample_weight, multi_output=True)
    if rows.y.ndim != 2:
        raise InputError(
            "y must have two dimensions, a column for each response, got shape "
            f"{rows.y.shape}; for one response use SparsePolynomialRegressor"
        )
    ranges = Ranges.of(rows.y, rows.weights)
    units = ranges.sizes(ranges.centers if model.fit_intercept else 0.0)
    names = tuple(response_names(y, rows.y.shape[1]))
    values = np.ascontiguousarray((rows.y / units).T)
    return replace(rows, several=Responses(names, tuple(units.tolist()), values)).each


def response_names(y: Any, count: int) -> list[str]:
    """Return the names of so many responses, y0, y1, ... where the columns of y have none."""
    return list(map(str, column_names(y))) or [f"y{t}" for t in range(count)]


def column_names(table: Any) -> list[Any]:
    """Return the names of a table's columns, none of what has no names."""
    # In PyArrow ``columns`` are values; a data frame's own column may be called "column_names".
    arrow = hasattr(type(table), "column_names")
    return list(getattr(table, "column_names" if arrow else "columns", ()))


def _checked(
    model: Any, X: Any, y: Any, sample_weight: Any, *, multi_output: bool = False
) -> MemoryRows:
    """Return the rows as floats that the method can work with; y may have several columns."""
    place = Place.find(X, getattr(model, "device", None))
    X, y, sample_weight = as_host(X), as_host(y), as_host(sample_weight)
    with named_columns(X):
        X, y = validate_data(
            model,
            X,
            y,
            dtype=np.float64,
            y_numeric=True,
            multi_output=multi_output,
            ensure_all_finite=False,
            ensure_min_samples=2,
        )
    names = input_names(model)
    check_finite(X, names)
    y = np.asarray(y, dtype=np.float64)
    weights = None
    if sample_weight is not None:
        X, y, weights = _weighted(X, y, sample_weight)
    library = library_of(model, names)
    X = library.grown(X, names)
    check_powers(X, model._largest_degree, library.column_names(names))
    check_magnitudes(y, 1.0 if weights is None else float(weights.sum()))
    return MemoryRows(X, y, weights, names, place=place, library=library)


def library_of(model: Any, names: tuple[str, ...]) -> Library:
    """Return the columns that an estimator asks for; some estimators have no functions."""
    return read_functions(getattr(model, "functions", None), names)


@contextmanager
def named_columns(X: Any) -> Iterator[None]:
    """Where a table is refused because of what a column holds, say which and where."""
    names = column_names(X)
    double = [name for name, count in Counter(names).items() if count > 1]
    if double:
        raise InputError(
            f"X must have a name of its own for each column, got {double[0]!r} more than once"
        )
    try:
        yield
    except (TypeError, ValueError):
        for name in names:
            cells = np.asarray(X[name])
            row = _first_without_number(cells)
            if row is not None:
                raise InputError(
                    f"X must hold numbers, got {cells[row]!r} in row {row} of column {name!r}"
                ) from None
        raise


def _first_without_number(cells: Any) -> int | None:
    """Return the place of the first cell that cannot be read as a number, None without any."""
    if cells.dtype.kind not in "OSUT":
        return None if cells.dtype.kind in "biuf" or not len(cells) else 0
    for row, cell in enumerate(cells.tolist()):
        try:
            float(0.0 if cell is None else cell)
        except (TypeError, ValueError):
            return row
    return None


def input_names(model: Any) -> tuple[str, ...]:
    """Return the columns' names as the user gave them, x0, x1, ... without."""
    given = getattr(model, "feature_names_in_", None)
    if given is None:
        return tuple(f"x{i}" for i in range(model.n_features_in_))
    return tuple(str(name) for name in given)


def check_finite(X: Array, names: tuple[str, ...]) -> None:
    """Refuse NaN and infinities, and say where the first one stands."""
    # A sum is not finite when an entry is not, and costs no table of flags.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()) or np.isfinite(X).all():
            return
    row, column = (int(a) for a in np.argwhere(~np.isfinite(X))[0])
    raise InputError(
        f"X must have neither NaN nor inf, got {X[row, column]} in row {row} of column "
        f"{names[column]!r}"
    )


def check_powers(X: Array, degree: int, names: tuple[str, ...]) -> None:
    """Refuse inputs whose powers, or the coefficients they lead to, leave the floats."""
    peaks = np.maximum(X.max(axis=0), -X.min(axis=0))
    limit = LARGEST ** (1.0 / degree)
    for name, peak in zip(names, peaks.tolist(), strict=True):
        if peak and not 1.0 / limit <= peak <= limit:
            raise InputError(
                f"X must have powers up to degree={degree} within {1 / LARGEST:g} and {LARGEST:g}, "
                f"got column {name!r} with largest absolute value {peak:g}; use other units"
            )


def check_magnitudes(y: Array, total_weight: float) -> None:
    """Refuse responses and weights with which a bound would leave the floats."""
    peak = float(np.abs(y).max())
    if peak and not 1.0 / LARGEST_RESPONSE <= peak <= LARGEST_RESPONSE:
        raise InputError(
            f"y must lie within {1 / LARGEST_RESPONSE:g} and {LARGEST_RESPONSE:g}, got the largest "
            f"absolute value {peak:g}; use other units"
        )
    if not 1.0 / LARGEST_WEIGHT <= total_weight <= LARGEST_WEIGHT:
        raise InputError(
            f"sample_weight must have a sum within {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, "
            f"got {total_weight:g}"
        )


def _weighted(X: Array, y: Array, sample_weight: Any) -> tuple[Array, Array, Array]:
    """Check the weights, and leave out the rows that count for nothing."""
    given = np.asarray(sample_weight)
    # Ours before scikit-learn's, whose wording for these two differs between versions.
    if given.dtype.kind in "biuf" and given.size and not np.any(given):
        raise InputError("sample_weight must have a positive value, got only zeros")
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    X, y, weights = used_rows(X, y, weights)
    if len(weights) < 2:
        raise InputError("sample_weight must be positive for at least 2 rows, got 1 row")
    return X, y, weights


def used_rows(X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Leave out the rows of weight zero; refuse negative weights."""
    if weights.min(initial=0.0) < 0:
        raise InputError(f"sample_weight must not be negative, got {weights.min():g}")
    used = weights > 0
    return (X, y, weights) if used.all() else (X[used], y[used], weights[used])
