"""Moments of the folds: everything that models need of the data, from one pass over it.

Moments add over rows.  The rows are cut into parts that every split treats alike (the folds of
k-fold validation, the stretches between the cuts of a time series); the moments of a training
set are then the sum of its parts, and those of a validation set likewise.  Nothing is ever
subtracted, so no digits are lost, and no model after this file depends on the number of rows:

    rows -> parts -> ``fold_moments`` -> sums of parts -> models -> their errors.

The mean squared error of y = b + m'w on a set of rows is a quadratic form in its moments,

    E = (ss - 2 s'w + w'S w) / W + (ybar - b - mbar'w)^2.

Anything that can make the moments of the parts, from files or on a cluster, can use all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InputError
from polysharp.moments.moments import Moments, moments_of
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices, OnBlock


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


@dataclass(frozen=True)
class RandomFolds:
    """Parts of random rows: those of block b in an order drawn from (seed, b).

    The parts of a block differ by at most one row, and depend on the seed and on how the rows are
    cut into blocks, not on who reads them.
    """

    n_parts: int
    seed: int

    def of(self, n: int, number: int) -> list[Indices]:
        """Return the rows of each part in a block of n rows.

        Examples
        --------
        >>> [len(rows) for rows in RandomFolds(3, seed=0).of(7, number=5)]
        [3, 2, 2]
        """
        rng = np.random.default_rng([self.seed, number])
        order, first = rng.permutation(n), int(rng.integers(self.n_parts))
        step = self.n_parts
        return [np.sort(order[(part - first) % step :: step]) for part in range(step)]


Parts = Sequence[Indices] | RandomFolds  # the rows of each part: listed, or random in each block


@dataclass(frozen=True, eq=False)
class PartMoments:
    """Moments of every part, None where it has no rows yet; ``a + b`` merges part by part."""

    of: tuple[Moments | None, ...]

    def __add__(self, other: PartMoments) -> PartMoments:
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
    chosen = parts.of(len(rows), rows.number) if isinstance(parts, RandomFolds) else parts
    found = []
    for done, own in enumerate(chosen, start=1):
        found.append(moments_of(rows.take(own), basis) if len(own) else None)
        if on_block is not None:
            on_block(done, len(chosen))
    return PartMoments(tuple(found))


def merge(parts: Sequence[Moments], which: Iterable[int]) -> Moments:
    """Return the moments of some parts together."""
    return Moments.merged([parts[a] for a in which])


def squared_error(rows: Moments, support: Indices, w: Array, intercept: float) -> float:
    """Return the mean squared error of a polynomial on the rows that the moments stand for."""
    S = rows.scatter[np.ix_(support, support)]
    around = rows.spread - 2.0 * float(rows.cross[support] @ w) + float(w @ (S @ w))
    offset = rows.y_mean - intercept - float(rows.mean[support] @ w)
    return float(max(0.0, around) / rows.weight + offset * offset)
