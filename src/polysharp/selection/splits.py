"""Which rows train and which validate: what ``cv`` means, and rows that fold by what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import as_host
from polysharp.data.cluster import is_dask
from polysharp.data.rows import MemoryRows
from polysharp.errors import InputError
from polysharp.moments.moments import Parts, Plan, RandomFolds
from polysharp.typing import Indices

Split = tuple[Indices, Indices]  # rows to train on, rows to validate on

SMALL = 2_000  # rows up to which cv="auto" means ten folds
FEW_ROWS = 100  # below which these folds are drawn several times
REPEATS = 3  # drawings of the folds of few rows, whose errors depend much on the drawing


def chosen_cv(cv: Any, n: float) -> Any:
    """Return the number of folds that ``cv="auto"`` means for n rows.

    On few rows the errors of five folds are noisy and their models lack a fifth of the rows; ten
    take twice the time, which is there where rows are few.  Anything but a word or a number that
    is too small is returned as it is.

    Examples
    --------
    >>> [chosen_cv("auto", n) for n in (900, 5000, 7)]
    [10, 5, 7]
    """
    if _is_number(cv) and cv < 2:
        raise InputError(f"cv must be at least 2 folds, got {cv}")
    if not isinstance(cv, str):
        return cv
    if cv != "auto":
        raise InputError(f"cv must be 'auto', a number of folds, a splitter or splits, got {cv!r}")
    return int(min(10 if n <= SMALL else 5, max(n, 2)))


def repeated(cv: Any, n: float) -> int:
    """Return how often the folds of n rows are drawn: several times if rows are few."""
    return REPEATS if isinstance(cv, str) and chosen_cv(cv, n) < n < FEW_ROWS else 1


def random_folds(cv: Any, groups: Any) -> int:
    """Return the number of random folds for rows on Dask; a collection is not small."""
    cv = chosen_cv(cv, np.inf)
    if groups is not None or not _is_number(cv):
        raise InputError(
            "cv must be a number of folds, without groups, for Dask collections, got "
            f"{cv!r}{'' if groups is None else ' and groups'}"
        )
    return int(cv)


def _is_number(cv: Any) -> bool:
    return isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)


def read_splits(
    cv: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
    repeats: int = 1,
) -> list[Split]:
    """Split the rows as the user asked; a number means shuffled folds, drawn ``repeats`` times.

    Rows of weight zero are left out then, as the data do.
    """
    from sklearn.model_selection import KFold, check_cv  # slow to load, and not always needed

    n = len(np.asarray(y))
    weights = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64)
    used = np.broadcast_to(weights > 0, n)
    cv = chosen_cv(cv, int(used.sum()))
    if _is_number(cv):
        if cv > n:
            raise InputError(f"cv must be at most the number of rows, {n}, got {cv}")
        each = [KFold(int(cv), shuffle=True, random_state=seed + r) for r in range(repeats)]
        cv = [pair for folds in each for pair in folds.split(np.zeros(n))]
    pairs = [(_rows(a, n), _rows(b, n)) for a, b in check_cv(cv, y).split(X, y, groups)]
    place = np.cumsum(used) - 1
    return [(place[train[used[train]]], place[test[used[test]]]) for train, test in pairs]


def _rows(chosen: Any, n: int) -> Indices:
    """Return the rows of one side of a split, given as indices or as one flag per row."""
    rows = np.asarray(chosen)
    if rows.dtype == bool and rows.shape == (n,):
        return np.flatnonzero(rows)
    whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or not len(rows))
    if not whole or not np.all((rows >= 0) & (rows < n)):
        raise InputError(f"cv must give indices from 0 to {n - 1}, or {n} flags, got {chosen!r}")
    return rows.astype(np.intp)


def read_parts(
    cv: Any,
    given: tuple[Any, Any, Any],
    n: int,
    *,
    groups: Any = None,
    seed: int = 0,
    repeats: int = 1,
) -> tuple[Parts, Plan]:
    """Cut X, y and sample_weight, n rows of positive weight, as ``cv`` says; deal those on Dask."""
    X, y, sample_weight = (as_host(part) for part in given)
    if is_dask(X):
        n_folds = random_folds(cv, groups)
        return RandomFolds(n_folds, seed), Plan.k_fold(n_folds)
    how = {"groups": groups, "sample_weight": sample_weight, "seed": seed, "repeats": repeats}
    return cut(read_splits(cv, X, y, **how), n)


def cut(splits: Iterable[Split], n: int) -> tuple[list[Indices], Plan]:
    """Cut n rows into the parts that every split treats alike, or as near as is worth while.

    Rows that repeat within a split, or more kinds of rows than training and validation sets (as
    in repeated random splits), leave one part per set.
    """
    pairs = [(np.asarray(a, dtype=np.intp), np.asarray(b, dtype=np.intp)) for a, b in splits]
    if not pairs:
        raise InputError("cv must make at least 1 split, got none")
    for train, test in pairs:
        if not len(train) or not len(test):
            raise InputError(
                "cv must leave rows of positive weight to train on and to validate on, "
                f"got {len(train)} and {len(test)}"
            )
    role = np.zeros((n, len(pairs)), dtype=np.int8)  # 1 trains, 2 validates
    repeats = False
    for v, (train, test) in enumerate(pairs):
        repeats |= len(np.unique(train)) < len(train) or len(np.unique(test)) < len(test)
        role[train, v], role[test, v] = 1, 2
        repeats |= bool((role[train, v] != 1).any())
    kinds, kind_of = np.unique(role, axis=0, return_inverse=True)
    if repeats or len(kinds) > 2 * len(pairs) + 1:
        whole = [rows for pair in pairs for rows in pair]
        return whole, Plan(
            tuple((2 * v,) for v in range(len(pairs))),
            tuple((2 * v + 1,) for v in range(len(pairs))),
        )
    used = np.flatnonzero(kinds.any(axis=1))
    kind_of = kind_of.reshape(-1)
    plan = Plan(
        *(
            tuple(tuple(np.flatnonzero(kinds[used, v] == side).tolist()) for v in range(len(pairs)))
            for side in (1, 2)
        )
    )
    return [np.flatnonzero(kind_of == kind) for kind in used], plan


def content_folds(rows: MemoryRows, n_folds: int) -> list[Indices]:
    """Deal rows to at most so many folds by what they hold, whatever their order.

    Equal rows go together, so that a row of weight two is the same as the row twice.
    """
    _, kind = np.unique(content_hash(rows), return_inverse=True)
    fold = kind.reshape(-1) % n_folds
    return [np.flatnonzero(fold == v) for v in range(min(n_folds, int(kind.max()) + 1))]


def content_hash(rows: MemoryRows) -> NDArray[np.uint64]:
    """Return a number for each row that depends on its inputs and response alone.

    Examples
    --------
    >>> rows = MemoryRows(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]), np.zeros(3))
    >>> a, b, c = content_hash(rows).tolist()
    >>> a == c, a == b
    (True, False)
    """
    total = np.zeros(len(rows), dtype=np.uint64)
    for column in (*rows.X.T, rows.y):
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # -0.0 is 0.0
        # One round of splitmix64: every bit of the column reaches every bit of the number.
        total = (total ^ bits) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            total = (total ^ (total >> np.uint64(shift))) * np.uint64(factor)
    return total
