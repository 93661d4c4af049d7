"""gamma="auto": the strength of the ridge, chosen from the rows for a given degree and size.

Too strong a ridge spoils the fit, too weak a one follows the noise and makes proofs hard.  For

    gamma = 1 / (s n),     s = 1, 10^-1/2, 10^-1, ..., 10^-4, 10^-5, ..., 10^-9,

models of the size asked for are found by local search without the rows of one fold and judged on
them (``split_models``, ``judges``), fold after fold.  Chosen is the strongest ridge whose error
exceeds the least by at most one standard error of the difference, and by two per cent.

Rows go to folds by what they hold, so that neither their order nor a seed matters, and a row of
weight two is the same row twice.  Of very many rows a sample is enough; where the monomials are
many each fold works with those that its training rows point at (``screening``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.moments.folds import Plan
from polysharp.monomials.term_rules import TermRules
from polysharp.progress import Progress
from polysharp.selection.folds import HIGHEST_PRICED, FoldMoments, Folds, lowered
from polysharp.selection.scores import standard_error, strongest
from polysharp.selection.split_models import Budgets
from polysharp.selection.splits import chosen_cv, content_folds, content_hash
from polysharp.threads import one_blas_thread
from polysharp.typing import Array

SHARES = tuple(10.0 ** (-e / 2) for e in (*range(9), 10, 12, 14, 16, 18))
MOST_ROWS = 20_000  # more do not change the choice
MOST_MONOMIALS = 1_500  # in the moments of the folds
WORK = 2e10  # multiply-adds for moments, and for screening: a second or two
LEAST_ROWS = 500  # of a sample, however many monomials there are
LEAST_KINDS = 6  # with fewer different rows there is nothing to hold out


@dataclass(frozen=True, eq=False)
class GammaChoice:
    """The validation behind gamma="auto".

    Parameters
    ----------
    gammas : ndarray
        Those compared, the strongest ridge first.
    errors : ndarray
        Mean over the folds of the root mean squared error on held-out rows.
    std_errors : ndarray
        Standard error of the difference to the least.
    chosen : int
        Place of the gamma chosen.
    n_folds, n_rows : int
        How many folds of how many rows.
    """

    gammas: Array
    errors: Array
    std_errors: Array
    chosen: int
    n_folds: int
    n_rows: int

    @property
    def gamma(self) -> float:
        """The gamma chosen."""
        return float(self.gammas[self.chosen])

    def __str__(self) -> str:
        return (
            f"gamma {self.gamma:.4g}, the strongest of {len(self.gammas)} ridges that does as well "
            f"as the best in {self.n_folds} folds"
        )


def choose_gamma(
    rows: Rows,
    rules: TermRules,
    budgets: Budgets,
    *,
    scale: bool,
    center: bool,
    progress: Progress,
) -> GammaChoice | None:
    """Choose gamma for models of some sizes; None where there are too few rows to hold any out.

    Parameters
    ----------
    rows : Rows
        As the user gave them.
    rules : TermRules
        Degree and rules about terms.
    budgets : Budgets
        The size asked for, or several: each gamma is then judged at its best size.
    scale, center : bool
        As in the estimator.
    progress : Progress
        Who watches.
    """
    moments = _moments(rows, rules, budgets, scale, center, progress)
    if moments is None:
        return None
    n, splits = rows.total_weight, moments.splits()
    gammas = np.array([1.0 / (share * n) for share in SHARES])
    with one_blas_thread():
        found = [[split.compare(g, budgets).error.ravel() for split in splits] for g in gammas]
    errors = np.array(found)  # (gammas, splits, sizes)
    if np.isnan(errors).all():
        return None
    mean = errors.mean(axis=1)
    best = np.nanargmin(np.where(np.isnan(mean), np.inf, mean), axis=1)
    errors = np.take_along_axis(errors, best[:, None, None], axis=2)[..., 0]
    chosen = strongest(errors, moments.y_scale)
    least = errors - errors[int(np.nanargmin(errors.mean(axis=1)))]
    return GammaChoice(
        gammas,
        errors.mean(axis=1),
        standard_error(least),
        chosen,
        len(splits),
        moments.folds.rows.shape[0],
    )


def _moments(
    rows: Rows,
    rules: TermRules,
    budgets: Budgets,
    scale: bool,
    center: bool,
    progress: Progress,
) -> FoldMoments | None:
    """Return the moments of folds of the rows, or of a sample; None where rows are too few."""
    p = len(rules.allowed(rows.shape[1]))
    count = rules.count(p)
    listed = count <= MOST_MONOMIALS
    if not listed and rules.degree > HIGHEST_PRICED:
        # Nothing prices the higher degrees; their best ridge is near to that of degree 4.
        rules = lowered(rules, HIGHEST_PRICED)
        return _moments(rows, rules, budgets, scale, center, progress)
    # Listing costs n f^2 / 2, screening three passes of n f in each of five folds.
    work = 0.5 * count * count if listed else 15.0 * count + 0.5 * MOST_MONOMIALS**2
    sample = sample_rows(rows, int(min(MOST_ROWS, max(LEAST_ROWS, WORK / work))))
    parts = content_folds(sample, chosen_cv("auto", sample.total_weight))
    if len(parts) < 2 or len(np.unique(content_hash(sample))) < LEAST_KINDS:
        return None
    folds = Folds(sample, parts, Plan.k_fold(len(parts)), rules, scale)
    return folds.moments(center, MOST_MONOMIALS, size=max(budgets.max_terms), progress=progress)


def sample_rows(rows: Rows, most: int) -> MemoryRows:
    """Return all rows where they are few and in memory, or about so many: a sample by content."""
    n = rows.shape[0]
    if rows.block is not None and n <= most:
        return rows.block
    sample: RowSample = rows.sum_over_blocks("sample", _sample_of_block, min(1.0, most / n))
    return sample.rows()


def _sample_of_block(rows: MemoryRows, share: float, on_block: object = None) -> RowSample:
    del on_block
    return RowSample((rows.take(content_hash(rows) <= share * float(2**64 - 1)),))


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows of each block; ``a + b`` has those of both."""

    blocks: tuple[MemoryRows, ...]

    def __add__(self, other: RowSample) -> RowSample:
        """Return the rows of both."""
        return RowSample(self.blocks + other.blocks)

    def rows(self) -> MemoryRows:
        """Return them as one table."""
        first = self.blocks[0]
        weights = None
        if first.sample_weight is not None:
            weights = np.concatenate([block.weights for block in self.blocks])
        return MemoryRows(
            np.concatenate([block.X for block in self.blocks]),
            np.concatenate([block.y for block in self.blocks]),
            weights,
            first.names,
            first.response,
            first.place,
        )
