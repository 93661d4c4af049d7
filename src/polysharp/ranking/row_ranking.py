"""Algorithm 1 on rows wherever they are, and on more of them than one kernel matrix can take.

    at most 16,384 rows in memory     Algorithm 1 itself                    (``ranking``)
    f <= 8192 monomials               the same scores, from the moments of all rows
    else, or in a hurry               Algorithm 1 on 2048 rows at a time, scores averaged

The kernel of n rows has n^2 entries and its factorisation takes n^3/3 operations.  Divide and
conquer (Zhang, Duchi & Wainwright) ranks B rows at a time and averages,

    score_i = sum_b W_b |w_b,D(i)|^2 / W,      gamma_b = gamma W / W_b,

W_b the weight of block b: n B p operations instead of n^2 (n + p), one B x B kernel at a time, and
per row the same ridge as the whole has.  What is lost: a block sees only B rows, so every score
carries the noise of a fit to B rows, about the same for all inputs, and averaging lessens its
scatter but not its level.  Of m blocks each has every m-th row, so that any of them is a sample of
the whole table, and a ranking that has to hurry does with some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.moments.gram import MAX_DENSE
from polysharp.moments.moments import moments_of
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.ranking.ranking import KernelSettings, Ranking, scores_from_moments, scores_of
from polysharp.time_budget import OutOfTime
from polysharp.typing import Array, Indices, OnBlock


@dataclass(frozen=True)
class KernelRows:
    """How many rows one kernel matrix takes."""

    # Tables in memory up to here are ranked by one kernel, 2 GiB; 0 to rank by blocks in any case.
    whole: int = 16384
    block: int = 2048  # rows at a time beyond that: 32 MiB
    share: float = 1.0  # of the blocks that are ranked, at least one


@dataclass(frozen=True, eq=False)
class AveragedScores:
    """Scores of several blocks; ``a + b`` merges."""

    weighted: Array
    weight: float
    n_rows: int

    def __add__(self, other: AveragedScores) -> AveragedScores:
        return AveragedScores(
            self.weighted + other.weighted, self.weight + other.weight, self.n_rows + other.n_rows
        )

    @property
    def scores(self) -> Array:
        """The average."""
        return self.weighted / self.weight


def rank_rows(
    rows: Rows,
    inputs: Indices,
    settings: KernelSettings,
    *,
    sizes: KernelRows | None = None,
    on_block: OnBlock | None = None,
) -> Ranking:
    """Rank some inputs."""
    degree, gamma, fit_intercept = settings
    sizes = KernelRows() if sizes is None else sizes
    if rows.block is not None and len(rows.block) <= sizes.whole:
        scores = scores_of(rows.block, inputs, settings, on_block)
    elif sizes.whole and count_monomials(len(inputs), degree) <= MAX_DENSE:
        basis = Basis.full(inputs.tolist(), degree)
        shift = rows.y_mean if fit_intercept else 0.0
        moments = moments_of(rows, basis, y_shift=shift, on_block=on_block)
        scores = scores_from_moments(basis, moments, gamma, fit_intercept)
    else:
        whole = settings._replace(gamma=gamma * rows.total_weight)
        averaged: AveragedScores = rows.sum_over_blocks(
            "ranking", averaged_scores, inputs, whole, sizes, on_block=on_block
        )
        return Ranking.of_scores(averaged.scores, degree, gamma, averaged.n_rows)
    return Ranking.of_scores(scores, degree, gamma, rows.shape[0])


def averaged_scores(
    rows: MemoryRows,
    inputs: Indices,
    settings: KernelSettings,
    sizes: KernelRows,
    on_block: OnBlock | None = None,
) -> AveragedScores:
    """Average over blocks of rows; ``settings.gamma`` is gamma times the weight of all rows.

    When ``on_block`` raises ``OutOfTime``, the blocks done by then are averaged.
    """
    total = AveragedScores(np.zeros(len(inputs)), 0.0, 0)
    count = ceil(len(rows) / sizes.block)
    ranked = max(1, round(sizes.share * count))
    for number in range(ranked):
        part = rows.take(slice(number, None, count))
        own = settings._replace(gamma=settings.gamma / part.total_weight)
        scores = scores_of(part, inputs, own)
        total += AveragedScores(part.total_weight * scores, part.total_weight, len(part))
        try:
            if on_block is not None:
                on_block(number + 1, ranked)
        except OutOfTime:
            break
    return total
