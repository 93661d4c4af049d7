"""Algorithm 1 on blocks of rows, scores averaged: for n beyond one kernel matrix.

The kernel of n rows has n^2 entries and its factorisation takes n^3/3 operations.  Divide and
conquer (Zhang, Duchi & Wainwright) ranks B rows at a time and averages,

    score_i = sum_b W_b |w_b,D(i)|^2 / W,      gamma_b = gamma W / W_b,

W_b the weight of block b: n B p operations instead of n^2 (n + p), one B x B kernel at a time, and
per row the same ridge as the whole has.  What is lost: a block sees only B rows, so every score
carries the noise of a fit to B rows, about the same for all inputs, and averaging lessens its
scatter but not its level.  Scores depend on where the blocks are cut; with one block they are
Algorithm 1's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from polysharp.ranking.ranking import Ranking, rank_inputs
from polysharp.typing import Array, OnBlock

BLOCK_ROWS = 2048  # rows of one kernel: 32 MiB
WHOLE_ROWS = 16384  # tables up to here are ranked by one kernel: 2 GiB


@dataclass(frozen=True, eq=False)
class AveragedScores:
    """Scores of several blocks; ``a + b`` merges."""

    weighted: Array
    weight: float

    def __add__(self, other: AveragedScores) -> AveragedScores:
        """Return the scores of both sets of blocks."""
        return AveragedScores(self.weighted + other.weighted, self.weight + other.weight)

    @property
    def scores(self) -> Array:
        """The average."""
        return self.weighted / self.weight


def rank_rows(
    X: Array,
    y: Array,
    weights: Array | None,
    degree: int,
    gamma_weight: float,
    fit_intercept: bool,
    *,
    rank: Callable[..., Ranking] = rank_inputs,
    on_block: OnBlock | None = None,
) -> AveragedScores:
    """Rank blocks of at most 2048 rows; ``gamma_weight`` is gamma times the weight of all rows."""
    total = AveragedScores(np.zeros(X.shape[1]), 0.0)
    for rows in row_blocks(len(y)):
        v = None if weights is None else weights[rows]
        weight = float(len(y[rows]) if v is None else v.sum())
        part = rank(
            X[rows],
            y[rows],
            degree,
            gamma_weight / weight,
            sample_weight=v,
            fit_intercept=fit_intercept,
        )
        total += AveragedScores(weight * part.scores, weight)
        if on_block is not None:
            on_block(rows.stop, len(y))
    return total


def row_blocks(n: int) -> Iterator[slice]:
    """Cut n rows into blocks of nearly equal size."""
    count = -(-n // BLOCK_ROWS)
    for b in range(count):
        yield slice(b * n // count, (b + 1) * n // count)
