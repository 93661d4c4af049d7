"""gamma="auto": the strength of the ridge, chosen from the rows for a given degree and size.

Too strong a ridge spoils the fit, too weak a one follows the noise and makes proofs hard.  For

    gamma = 1 / (s n),     s = 1, 10^-1/2, 10^-1, ..., 10^-4, 10^-5, ..., 10^-9,

models of the size asked for are found by local search without the rows of one fold and scored on
them (``split_models``, ``scorers``), fold after fold.  Chosen is the strongest ridge whose error
exceeds the least by at most one standard error of the difference and half a per cent, or by a
thousandth.

Rows go to folds by what they hold, so that neither their order nor a seed matters, and a row of
weight two is the same row twice.  Of very many rows a sample is enough; where the monomials are
many each fold works with those that its training rows point at (``screening``).  Where that turns
out to take too long on this machine, ridges are compared for the highest degree that can be listed:
the best ridge is near to that of a lower degree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InfeasibleError
from polysharp.moments.fold_moments import Plan
from polysharp.monomials.term_rules import TermRules
from polysharp.progress import Progress
from polysharp.selection.folds import FoldMoments, Folds, lowered
from polysharp.selection.scores import standard_error, strongest
from polysharp.selection.split_models import Budgets
from polysharp.selection.splits import chosen_cv, content_folds, content_hash
from polysharp.threads import one_blas_thread
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Array

GOLDEN = 0.6180339887498949
SHARES = tuple(10.0 ** (-e / 2) for e in (*range(9), 10, 12, 14, 16, 18))
MOST_ROWS = 20_000  # more do not change the choice
MOST_MONOMIALS = 1_500  # in the moments of the folds, where there is time enough
ENOUGH_SECONDS = 20.0  # of a time limit
TIME_SHARE = 0.25  # of a time limit after which no more ridges are compared
FEWEST = 3  # ridges that are compared in any case
WORK = 2e10  # multiply-adds for moments, and for screening: a second or two
WORK_SHARE = 4e8  # of them per second of a time limit: a fifth of it goes into the choice
LEAST_ROWS = 500  # of a sample, however many monomials there are
LEAST_KINDS = 3  # with fewer different rows there is nothing to hold out


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
    time_limit: float,
) -> GammaChoice | None:
    """Choose gamma for models of some sizes; None where there are too few rows to hold any out.

    ``rows`` are as the user gave them; where they have several responses, models must serve all of
    them.  Of several ``budgets`` each gamma is scored at its best size.  ``time_limit`` is that of
    the whole fit, of which the choice takes a small part.
    """
    time = TimeBudget(TIME_SHARE * max(1.0, time_limit))
    deal = partial(_folds, rows, time_limit=time_limit, scale=scale)
    size = max(budgets.max_terms)
    of_folds = partial(Folds.moments, center=center, size=size, progress=progress)
    try:
        moments = moments_in_time(rules, deal, of_folds, time.seconds)
    except InfeasibleError:
        return None  # the fit itself finds the empty model, or says what cannot be
    if moments is None:
        return None
    n, splits = rows.total_weight, moments.splits()
    found: dict[int, list[Array]] = {}
    with one_blas_thread():
        # In an order that is spread over the grid, however few there is time for.
        for a in np.argsort(GOLDEN * np.arange(len(SHARES)) % 1.0):
            if len(found) >= FEWEST and time.expired:
                break
            gamma = 1.0 / (SHARES[a] * n)
            found[int(a)] = [split.compare(gamma, budgets).error.ravel() for split in splits]
    compared = sorted(found)
    errors = np.array([found[a] for a in compared])  # (gammas, splits, sizes)
    if np.isnan(errors).all():
        return None
    mean = errors.mean(axis=1)
    best = np.argmin(np.where(np.isnan(mean), np.inf, mean), axis=1)
    errors = np.take_along_axis(errors, best[:, None, None], axis=2)[..., 0]
    mean = errors.mean(axis=1)
    return GammaChoice(
        gammas=np.array([1.0 / (SHARES[a] * n) for a in compared]),
        errors=mean,
        std_errors=standard_error(errors - errors[int(np.nanargmin(mean))]),
        chosen=strongest(errors, moments.y_scale),
        n_folds=len(splits),
        n_rows=moments.folds.rows.shape[0],
    )


def moments_in_time(
    rules: TermRules,
    deal: Callable[[TermRules], tuple[Folds | None, int]],
    of_folds: Callable[..., FoldMoments],
    seconds: float,
) -> FoldMoments | None:
    """Return the moments of the folds, of a lower degree where they take longer than they may."""
    folds, most = deal(rules)
    if folds is None:
        return None
    degree = folds.rules.degree
    try:
        return of_folds(folds, limit=most, seconds=seconds if degree > 1 else np.inf)
    except OutOfTime:
        lower = [lowered(rules, r) for r in range(1, degree)]
        listed = [own for own in lower if own.count(len(folds.inputs)) <= most]
        return moments_in_time((listed or lower[:1])[-1], deal, of_folds, seconds)


def _folds(
    rows: Rows, rules: TermRules, *, time_limit: float, scale: bool
) -> tuple[Folds | None, int]:
    """Return folds of the rows or of a sample, None where rows are too few; and most monomials."""
    p = len(rules.allowed(rows.shape[1]))
    room = min(WORK, WORK_SHARE * max(1.0, time_limit))
    most = int(MOST_MONOMIALS * min(1.0, max(0.2, time_limit / ENOUGH_SECONDS)))

    def work(count: int) -> float:
        """Count the multiply-adds per row: listing, or three passes of screening in five folds."""
        if count <= most:
            return 0.5 * count * count
        return 15.0 * rules.swept(p) + 0.5 * most * most

    # Even a few rows of very many monomials may take too long.
    while rules.degree > 1:
        count = rules.count(p)
        if count <= most or LEAST_ROWS * work(count) <= room:
            break
        rules = lowered(rules, rules.degree - 1)
    at_most = int(min(MOST_ROWS, max(LEAST_ROWS, room / work(rules.count(p)))))
    sample = sample_rows(rows, at_most)
    n_folds = chosen_cv("auto", sample.total_weight)
    if most < MOST_MONOMIALS:
        n_folds = min(n_folds, 5)
    parts = content_folds(sample, n_folds)
    if len(parts) < 2 or len(np.unique(content_hash(sample))) < LEAST_KINDS:
        return None, most
    plan = Plan.k_fold(len(parts))
    return Folds(sample, parts, plan, rules, scale), most


def sample_rows(rows: Rows, most: int) -> MemoryRows:
    """Return all rows where they are few and in memory, or about so many: a sample by content."""
    n = rows.shape[0]
    if rows.block is not None and n <= most:
        return rows.block
    blocks: list[MemoryRows] = rows.sum_over_blocks("sample", _sample_of_block, most / n)
    first = blocks[0]
    weights, several = first.sample_weight, first.several
    if weights is not None:
        weights = np.concatenate([block.weights for block in blocks])
    if several is not None:
        values = [block.several.values for block in blocks if block.several is not None]
        several = several._replace(values=np.hstack(values))
    X, y = (np.concatenate(parts) for parts in zip(*((b.X, b.y) for b in blocks), strict=True))
    return replace(first, X=X, y=y, sample_weight=weights, several=several)


def _sample_of_block(rows: MemoryRows, share: float) -> list[MemoryRows]:
    """Return a share of the rows, chosen by content, as a list: lists of blocks add up."""
    return [rows.take(np.flatnonzero(content_hash(rows) <= min(1.0, share) * float(2**64 - 1)))]
