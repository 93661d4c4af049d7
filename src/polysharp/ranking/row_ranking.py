"""Algorithm 1 on rows wherever they are, and on more of them than one kernel matrix can take.

    at most 16,384 rows in memory     Algorithm 1 itself                    (``ranking``)
    f <= 8192 monomials               the same scores, from the moments of all rows
    else                              Algorithm 1 on 2048 rows at a time, scores averaged

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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.moments.gram import MAX_DENSE
from polysharp.moments.moments import moments_of
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.ranking.ranking import KernelSettings, Ranking, scores_from_moments, scores_of
from polysharp.typing import Array, Indices, OnBlock


@dataclass(frozen=True)
class KernelRows:
    """How many rows one kernel matrix takes."""

    whole: int = 16384  # tables in memory up to here are ranked by one kernel: 2 GiB
    block: int = 2048  # rows at a time beyond that: 32 MiB


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
    elif count_monomials(len(inputs), degree) <= MAX_DENSE:
        basis = Basis.full(inputs.tolist(), degree)
        shift = rows.y_mean if fit_intercept else 0.0
        moments = moments_of(rows, basis, y_shift=shift, on_block=on_block)
        scores = scores_from_moments(basis, moments, gamma, fit_intercept)
    else:
        whole = settings._replace(gamma=gamma * rows.total_weight)
        scores = rows.sum_over_blocks(
            "ranking", averaged_scores, inputs, whole, sizes.block, on_block=on_block
        ).scores
    return Ranking.of_scores(scores, degree, gamma)


def averaged_scores(
    rows: MemoryRows,
    inputs: Indices,
    settings: KernelSettings,
    block: int,
    on_block: OnBlock | None = None,
) -> AveragedScores:
    """Average over blocks of rows; ``settings.gamma`` is gamma times the weight of all rows."""
    total = AveragedScores(np.zeros(len(inputs)), 0.0)
    for cut in row_blocks(len(rows), block):
        part = rows.take(cut)
        own = settings._replace(gamma=settings.gamma / part.total_weight)
        scores = scores_of(part, inputs, own)
        total += AveragedScores(part.total_weight * scores, part.total_weight)
        if on_block is not None:
            on_block(cut.stop, len(rows))
    return total


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of at most ``size`` rows, nearly equal."""
    count = -(-n // size)
    for b in range(count):
        yield slice(b * n // count, (b + 1) * n // count)
