"""Two ridges for gamma="auto", chosen from the rows for a given degree and size.

The terms are chosen with one ridge, 1 / gamma, and their coefficients estimated with another,
1 / refit_gamma, as in the relaxed Lasso.  A strong ridge makes the choice of terms provable, a weak
one does not spoil the coefficients.  For

    gamma = 1 / (s n),     s = 10, 10^1/2, 1, 10^-1/2, 10^-1, ..., 10^-4, 10^-5, ..., 10^-9,

the terms of models of the size asked for are found by local search without the rows of one fold,
refitted with every weaker ridge of the grid, and scored on these rows, fold after fold.  The ridge
of the terms is the strongest whose error, refitted at its best, exceeds the least by at most a
thousandth; so is the ridge of the coefficients with these terms.  A proof may take a still stronger
ridge that has the same terms.  One ridge for several sizes may cost one standard error of the
difference, at most half a per cent.

Rows go to folds by what they hold, so that neither their order nor a seed matters, and a row of
weight two is the same row twice.  Of very many rows a sample is enough; where the monomials are
many each fold works with those that its training rows point at (``screening``).  Where that turns
out to take too long on this machine, ridges are compared for the highest degree that can be listed:
the best ridge is near to that of a lower degree.

The ridge for a proof: terms S with ridge regression w and residual r at ridge lam are proved the
best at once, by the perspective relaxation, if

    rho(lam) = lam min_{i in S} |w_i| / max_{j not in S} |m_j'r|  >=  1,

and the larger rho is, the fewer nodes a proof takes.  rho vanishes for weak ridges, because w and r
hardly change, and for strong ones no terms are far ahead of the others.  Among ridges from a given
one to stronger ones, at which no swap of terms pays, the weakest is returned whose rho suffices for
a proof of few nodes, or else that of the largest rho.  Several responses enter by the roots of the
sums of their squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InfeasibleError
from polysharp.moments.moments import Plan
from polysharp.monomials.term_rules import TermRules
from polysharp.problem.problem import Problem
from polysharp.progress import Progress
from polysharp.selection.folds import FoldMoments, Folds, lowered
from polysharp.selection.scores import EXACT, UNNOTICED, standard_error, strongest
from polysharp.selection.split_models import Budgets, SplitModels
from polysharp.selection.splits import chosen_cv, content_folds, content_hash
from polysharp.threads import one_blas_thread
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Array, Indices, Monomial

ENOUGH = 0.7  # of rho: proofs on planted data have one node then
STEPS = tuple(10.0 ** (e / 4.0) for e in range(1, 13))  # times the given ridge
BEYOND = 2  # steps without a larger rho after which no more are tried
GOLDEN = 0.6180339887498949
SHARES = tuple(10.0 ** (-e / 2) for e in (-2, -1, *range(9), 10, 12, 14, 16, 18))
STRONGEST_REFIT = 1.0  # share of the strongest ridge that coefficients are estimated with
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
        Gammas that terms were chosen with, the strongest ridge first.
    errors : ndarray
        Mean over the folds of the root mean squared error on held-out rows, with the coefficients
        estimated as well as possible.
    std_errors : ndarray
        Standard error of the difference to the least.
    chosen : int
        Place of the gamma chosen for the terms.
    refit_gamma : float
        The gamma chosen for the coefficients.
    terms : tuple
        Sets of terms that the folds chose with that gamma.
    n_folds, n_rows : int
        Number of folds, and of rows in all of them.
    """

    gammas: Array
    errors: Array
    std_errors: Array
    chosen: int
    refit_gamma: float
    terms: tuple[tuple[Monomial, ...], ...]
    n_folds: int
    n_rows: int

    @property
    def gamma(self) -> float:
        """The gamma chosen for the terms."""
        return float(self.gammas[self.chosen])

    def __str__(self) -> str:
        return (
            f"terms chosen with gamma {self.gamma:.4g}, the strongest of {len(self.gammas)} ridges "
            f"that does as well as the best in {self.n_folds} folds, and coefficients estimated "
            f"with gamma {self.refit_gamma:.4g}"
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
    refit_gamma: float | None = None,
) -> GammaChoice | None:
    """Choose the ridges for models of some sizes; None if there are too few rows to hold any out.

    ``rows`` are as the user gave them; models must serve all their responses.  If there are several
    ``budgets``, each gamma is scored at its best size, and serves coefficients too.  A given
    ``refit_gamma`` is not chosen.  ``time_limit`` is that of the whole fit, of which the choice
    takes a small part.
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
    ridges = Ridges(n, budgets, refit_gamma)
    found: dict[int, list[tuple[Array, list[Indices]]]] = {}
    with one_blas_thread():
        # In an order that is spread over the grid, however few there is time for.
        for a in np.argsort(GOLDEN * np.arange(len(SHARES)) % 1.0):
            if len(found) >= FEWEST and time.expired:
                break
            found[int(a)] = [ridges.compare(split, int(a)) for split in splits]
    compared = sorted(found)
    # Errors by gamma, by gamma of the refit (or by size) and by fold.
    errors = np.array([[error for error, _ in found[a]] for a in compared]).transpose(0, 2, 1)
    mean = errors.mean(axis=2)
    if np.isnan(mean).all():
        return None
    best = np.argmin(np.where(np.isnan(mean), np.inf, mean), axis=1)
    rows_of_gamma: Array = np.take_along_axis(errors, best[:, None, None], axis=1)[:, 0]
    chosen = _strongest(rows_of_gamma, moments.y_scale, several=len(budgets) > 1)
    gammas = np.array([ridges.gamma(a) for a in compared])
    supports = {tuple(places.tolist()) for _, own in found[compared[chosen]] for places in own}
    return GammaChoice(
        gammas=gammas,
        errors=rows_of_gamma.mean(axis=1),
        std_errors=standard_error(
            rows_of_gamma - rows_of_gamma[int(np.nanargmin(rows_of_gamma.mean(axis=1)))]
        ),
        chosen=chosen,
        refit_gamma=ridges.refit(gammas[chosen], errors[chosen], moments.y_scale),
        terms=tuple(moments.basis.select(own).monomials for own in sorted(supports)),
        n_folds=len(splits),
        n_rows=moments.folds.rows.shape[0],
    )


def _strongest(errors: Array, scale: float, *, several: bool) -> int:
    """Return the place of the ridge to use, of ridges from strong to weak."""
    if several:
        return strongest(errors, scale)
    mean = np.maximum(errors, EXACT * scale).mean(axis=1)
    return int(np.flatnonzero(mean <= (1.0 + UNNOTICED) * np.nanmin(mean))[0])


@dataclass(frozen=True)
class Ridges:
    """The ridges that are compared, for terms and for coefficients."""

    n: float  # total weight of the rows
    budgets: Budgets
    refit_gamma: float | None

    def gamma(self, a: int) -> float:
        """Return a gamma of the grid."""
        return float(1.0 / (SHARES[a] * self.n))

    @cached_property
    def refits(self) -> list[float]:
        """Gammas that coefficients are estimated with, the strongest ridge first."""
        if self.refit_gamma is not None:
            return [self.refit_gamma]
        return [self.gamma(a) for a, s in enumerate(SHARES) if s <= STRONGEST_REFIT]

    def compare(self, split: SplitModels, a: int) -> tuple[Array, list[Indices]]:
        """Find models without the rows of one fold; return their errors there and their terms.

        There is an error for each gamma of the refit, or for each size if there are several.
        """
        gamma = self.gamma(a)
        found = split.compare(gamma, self.budgets)
        supports = [support for own in found.supports for support in own]
        if len(self.budgets) > 1 or not supports:
            errors = found.error.ravel()
            return (errors if len(self.budgets) > 1 else np.full(len(self.refits), np.nan)), []
        weaker = [g for g in self.refits if g >= gamma or self.refit_gamma is not None]
        errors = np.full(len(self.refits), np.nan)
        errors[len(errors) - len(weaker) :] = split.refit_errors(supports[0], weaker, self.budgets)
        return errors, supports

    def refit(self, gamma: float, errors: Array, scale: float) -> float:
        """Return the gamma for the coefficients of the terms chosen; one serves several sizes."""
        if len(self.budgets) > 1:
            return gamma
        return float(self.refits[_strongest(errors, scale, several=False)])


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


def provable_gamma(problem: Problem, support: Indices, time: TimeBudget) -> float:
    """Return a gamma, at most that of the problem, at which some terms are easy to prove."""
    # Here and not above: the compiler is loaded when it is needed.
    from polysharp.engines.local_search import improve

    best, found, behind = _rho(problem, support), problem.lam, 0
    for step in STEPS if best < ENOUGH else ():
        stronger = replace(problem, lam=step * problem.lam)
        rho = _rho(stronger, support)
        if rho <= best:
            behind += 1
        else:
            kept = improve(stronger, support, out_of_time=lambda: time.expired).support
            if time.expired or not np.array_equal(kept, support):
                break
            best, found, behind = rho, stronger.lam, 0
        if behind > BEYOND or best >= ENOUGH:
            break
    return 1.0 / found


def _rho(problem: Problem, support: Indices) -> float:
    """Return rho of some terms, infinite if no other could take their place."""
    fit, every = problem.refit(support), np.arange(problem.size)
    free = np.setdiff1d(fit.support, problem.structure.required_terms)
    rest = problem.q - fit.w @ problem.gram.block(fit.support, every)
    rest[:, fit.support] = 0.0
    own = fit.w[:, np.isin(fit.support, free)]
    least = problem.lam * float(np.sqrt((own**2).sum(axis=0)).min(initial=np.inf))
    return least / max(float(np.sqrt((rest**2).sum(axis=0)).max()), 1e-300)
