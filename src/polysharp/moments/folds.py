"""Moments of the folds: everything that models need of the data, from one pass over it.

Moments add over rows.  The rows are cut into parts that every split treats alike (the folds of
k-fold validation, the stretches between the cuts of a time series); the moments of a training
set are then the sum of its parts, and those of a validation set likewise.  Nothing is ever
subtracted, so no digits are lost, and no model after this file depends on the number of rows:

    rows -> ``cut`` -> ``fold_moments`` -> sums of parts -> models -> ``judges``.

The mean squared error of y = b + m'w on a set of rows is a quadratic form in its moments,

    E = (ss - 2 s'w + w'S w) / W + (ybar - b - mbar'w)^2.

Anything that can make the moments of the parts, from files or on a cluster, can use all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InputError
from polysharp.moments.moments import Moments, moments_of
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices, OnBlock

Split = tuple[Indices, Indices]  # rows to train on, rows to validate on

FEW_ROWS, FEW_MONOMIALS = 2_000, 1_000  # up to which cv="auto" means ten folds


@dataclass(frozen=True)
class Plan:
    """Which parts train and which validate, split by split.

    Examples
    --------
    >>> Plan.k_fold(3).train
    ((1, 2), (0, 2), (0, 1))
    """

    train: tuple[tuple[int, ...], ...]
    test: tuple[tuple[int, ...], ...]

    @classmethod
    def k_fold(cls, n_folds: int) -> Plan:
        """Every part validates once, the others train."""
        every = range(n_folds)
        return cls(
            tuple(tuple(a for a in every if a != v) for v in every), tuple((v,) for v in every)
        )

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.train)

    @property
    def n_parts(self) -> int:
        """Number of parts in use."""
        return 1 + max(a for side in (self.train, self.test) for parts in side for a in parts)


def chosen_cv(cv: Any, n: float, f: float) -> Any:
    """Return the number of folds that ``cv="auto"`` means for n rows and f monomials.

    On few rows the errors of five folds are noisy and their models lack a fifth of the rows; ten
    take twice the time, which is there where monomials are few.  Anything but a word is returned
    as it is.

    Examples
    --------
    >>> [chosen_cv("auto", n, 494) for n in (900, 5000, 7)]
    [10, 5, 7]
    """
    if not isinstance(cv, str):
        return cv
    if cv != "auto":
        raise InputError(f"cv must be 'auto', a number of folds, a splitter or splits, got {cv!r}")
    return min(10 if n <= FEW_ROWS and f <= FEW_MONOMIALS else 5, max(n, 2))


def dealt_folds(cv: Any, groups: Any) -> int:
    """Return the number of folds that rows on Dask are dealt to; a collection is not small."""
    cv = chosen_cv(cv, np.inf, np.inf)
    if groups is not None or isinstance(cv, bool) or not isinstance(cv, (int, np.integer)):
        raise InputError(
            "cv must be a number of folds, without groups, for Dask collections, got "
            f"{cv!r}{'' if groups is None else ' and groups'}"
        )
    if cv < 2:
        raise InputError(f"cv must be at least 2 folds, got {cv}")
    return int(cv)


def read_splits(
    cv: Any, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, seed: int = 0
) -> list[Split]:
    """Split the rows as the user asked, then leave out those of weight zero, as the data do.

    A number means so many shuffled folds.
    """
    n = len(np.asarray(y))
    if isinstance(cv, str):
        raise InputError(f"cv must be a number of folds, a splitter or splits, got {cv!r}")
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise InputError(f"cv must be at least 2 folds, got {cv}")
        if cv > n:
            raise InputError(f"cv must be at most the number of rows, {n}, got {cv}")
        cv = KFold(int(cv), shuffle=True, random_state=seed)
    pairs = [(_rows(a, n), _rows(b, n)) for a, b in check_cv(cv, y).split(X, y, groups)]
    used = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64) > 0
    if not used.ndim:
        return pairs
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


@dataclass(frozen=True)
class Dealt:
    """Parts whose rows are drawn: those of block b in an order drawn from (seed, b).

    The parts of a block differ by at most one row, and depend on the seed and on how the rows are
    cut into blocks, not on who reads them.
    """

    n_parts: int
    seed: int

    def of(self, n: int, number: int) -> list[Indices]:
        """Return the rows of each part in a block of n rows.

        Examples
        --------
        >>> [len(rows) for rows in Dealt(3, seed=0).of(7, number=5)]
        [3, 2, 2]
        """
        rng = np.random.default_rng([self.seed, number])
        order, first = rng.permutation(n), int(rng.integers(self.n_parts))
        step = self.n_parts
        return [np.sort(order[(part - first) % step :: step]) for part in range(step)]


Parts = Sequence[Indices] | Dealt  # the rows of each part: listed, or dealt block by block


@dataclass(frozen=True, eq=False)
class PartMoments:
    """Moments of every part, None where it has no rows yet; ``a + b`` merges part by part."""

    of: tuple[Moments | None, ...]

    def __add__(self, other: PartMoments) -> PartMoments:
        """Return the moments of both sets of rows."""
        return PartMoments(
            tuple(
                a if b is None else b if a is None else a + b
                for a, b in zip(self.of, other.of, strict=True)
            )
        )


def fold_moments(
    rows: Rows, basis: Basis, parts: Parts, *, on_block: OnBlock | None = None
) -> list[Moments]:
    """Return the moments of each part.

    Examples
    --------
    >>> rows = MemoryRows(np.arange(12.0).reshape(6, 2), np.arange(6.0))
    >>> parts = fold_moments(rows, Basis.full(2, 1), [np.arange(3), np.arange(3, 6)])
    >>> merge(parts, (0, 1)).mean.tolist()
    [1.0, 5.0, 6.0]
    """
    total: PartMoments = rows.sum_over_blocks(
        "folds", _parts_of_block, basis, parts, on_block=on_block
    )
    found = [moments for moments in total.of if moments is not None]
    if len(found) < len(total.of):
        raise InputError(
            f"cv must leave rows of positive weight in every fold, got {len(total.of)} folds for "
            f"{rows.shape[0]} rows"
        )
    return found


def _parts_of_block(
    rows: MemoryRows, basis: Basis, parts: Parts, on_block: OnBlock | None = None
) -> PartMoments:
    dealt = parts.of(len(rows), rows.number) if isinstance(parts, Dealt) else parts
    found = []
    for done, chosen in enumerate(dealt, start=1):
        found.append(moments_of(rows.take(chosen), basis) if len(chosen) else None)
        if on_block is not None:
            on_block(done, len(dealt))
    return PartMoments(tuple(found))


def merge(parts: Sequence[Moments], which: Iterable[int]) -> Moments:
    """Return the moments of some parts together."""
    return Moments.merged([parts[a] for a in which])


def squared_error(rows: Moments, support: Indices, w: Array, intercept: float) -> float:
    """Return the mean squared error of a polynomial on the rows that the moments stand for."""
    S = rows.scatter[np.ix_(support, support)]
    around = rows.spread - 2.0 * float(rows.cross[support] @ w) + float(w @ (S @ w))
    offset = rows.y_mean - intercept - float(rows.mean[support] @ w)
    return max(0.0, around) / rows.weight + offset * offset
