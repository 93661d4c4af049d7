"""Validation errors over a grid of degrees, ridges, codings and sizes.

A case is a coding of the inputs (raw or centred), a degree and a gamma.  In every split it is one
walk along the sizes l and the budgets k (``validation_walk``): the supports come from the moments
of the training parts, their errors from the held-out rows or their moments (``judges``).  The cases
of one coding share the moments of the largest degree.

Walks are independent and run through joblib, one job for each split and degree of a coding.  They
go from low degrees to high ones: when the time is up, what was compared is a grid of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from polysharp.errors import InfeasibleError
from polysharp.moments.folds import Plan, merge
from polysharp.moments.moments import Moments, accumulate
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.selection.judges import CutRows, judges
from polysharp.selection.validation_walk import Walk, Walked
from polysharp.threads import one_blas_thread
from polysharp.typing import Array, Indices

Rule = Literal["consensus", "one-se", "best"]
OnBatch = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Coding:
    """The moments of the parts in one coding of the inputs.

    ``basis`` has the largest degree of the grid.  ``pools`` names the monomials that each split may
    use, None for all of them; ``listed`` is the largest degree of which all monomials are there.
    ``table`` has the rows themselves, where they are at hand.
    """

    center: bool
    basis: Basis
    scaling: Scaling
    parts: Sequence[Moments]
    listed: int
    pools: Sequence[Indices] | None = None
    table: CutRows | None = None

    def whole(self) -> Moments:
        """Return the moments of all rows."""
        if self.table is None or self.table.whole:
            return merge(self.parts, range(len(self.parts)))
        data = self.table.data
        return accumulate(self.basis, data.X, data.y, data.sample_weight)


@dataclass(frozen=True)
class Grid:
    """What is compared: every combination."""

    degrees: tuple[int, ...]
    gammas: tuple[float, ...]
    max_terms: tuple[int, ...]
    max_inputs: tuple[int | None, ...] = (None,)


@dataclass(frozen=True)
class Candidate:
    """One combination of the grid."""

    degree: int
    gamma: float
    center: bool
    max_inputs: int | None
    max_terms: int
    consensus: bool = False  # fitted to the consensus of others, not to the response


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of all candidates; NaN where time ran out or no polynomial obeys the rules."""

    candidates: tuple[Candidate, ...]
    errors: Array  # (candidates, splits), root mean squared error on held-out rows
    n_terms: Array  # mean over the splits
    n_inputs: Array
    finished: int  # cases compared, of
    cases: int
    supports: tuple[tuple[Indices, ...], ...] = ()  # of each candidate by split, where kept

    @property
    def mean(self) -> Array:
        """Mean error of each candidate over the splits."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def std_error(self) -> Array:
        """Standard error of that mean."""
        splits = self.errors.shape[1]
        if splits < 2:
            return np.zeros(len(self.errors))
        return np.asarray(self.errors.std(axis=1, ddof=1) / np.sqrt(splits))

    def shortfall(
        self, left_out: list[int], time_limit: float | None, *, time_helps: bool
    ) -> str | None:
        """Say what was not compared, None where all was; degrees left out may lack time or room."""
        parts = []
        if left_out:
            parts.append(
                f"degrees {', '.join(map(str, left_out))} have too many monomials to be compared "
                "and were left out"
            )
        if self.finished < self.cases:
            time_helps = True
            parts.append(
                f"{self.finished} of {self.cases} combinations of degree, gamma and center "
                "were compared when the time was up, and the best of these is used"
            )
        said = "; ".join(parts)
        if said and time_helps and time_limit is not None:
            return f"With time_limit={time_limit:g} {said}; a longer time_limit compares more."
        return f"{said[0].upper()}{said[1:]}." if said else None

    def alike(self, best: int, errors: float) -> Indices:
        """Return the candidates that validation cannot tell from one of them.

        Their mean error exceeds that of ``best`` by at most so many standard errors, both of the
        difference and of the error of ``best``: a model that fails in a single split differs
        widely, and would pass by the first alone.  Of models that are the same (budgets that do
        not bind) one counts.
        """
        excess = replace(self, errors=self.errors - self.errors[best])
        room = errors * np.minimum(excess.std_error, self.std_error[best])
        close = np.flatnonzero(excess.mean <= room)
        _, first = np.unique(self.errors[close], axis=0, return_index=True)
        return np.asarray(close[np.sort(first)])

    def joined(self, others: Scores) -> Scores:
        """Return these and other candidates of the same splits; supports are not kept."""
        return replace(
            self,
            candidates=self.candidates + others.candidates,
            errors=np.concatenate([self.errors, others.errors]),
            n_terms=np.concatenate([self.n_terms, others.n_terms]),
            n_inputs=np.concatenate([self.n_inputs, others.n_inputs]),
            supports=(),
        )

    def choose(self, rule: Rule) -> int:
        """Return the place of the candidate to use.

        "best" has the smallest mean error; "one-se" the fewest terms, then inputs, then the lowest
        degree, then the strongest ridge, among those within one standard error of it; "consensus"
        the smallest mean error of those fitted to the consensus, where there is one.
        """
        mean = self.mean
        if np.isnan(mean).all() and self.finished < self.cases:
            raise InfeasibleError(
                "time_limit must leave time for a case that satisfies all the rules, and "
                f"{self.finished} of {self.cases} were compared, none of them such a case"
            )
        if np.isnan(mean).all():
            raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
        if rule == "consensus" and any(c.consensus for c in self.candidates):
            mean = np.where([c.consensus for c in self.candidates], mean, np.nan)
        best = int(np.nanargmin(mean))
        if rule != "one-se":
            return best
        close = np.flatnonzero(mean <= mean[best] + self.std_error[best])
        return int(min(close, key=lambda a: self._simplicity(int(a))))

    def _simplicity(self, a: int) -> tuple[float, ...]:
        c = self.candidates[a]
        inputs = np.inf if c.max_inputs is None else c.max_inputs
        return c.max_terms, inputs, c.degree, c.gamma, float(self.mean[a])


def grid_search(
    codings: Sequence[Coding],
    plan: Plan,
    grid: Grid,
    rules: TermRules,
    *,
    n_jobs: int | None = None,
    deadline: float | None = None,
    on_batch: OnBatch | None = None,
    keep_supports: bool = False,
) -> Scores:
    """Compare the whole grid on held-out parts.

    Parameters
    ----------
    codings : sequence of Coding
        Moments of the parts, one entry for each coding of the inputs.
    plan : Plan
        Which parts train and validate.
    grid : Grid
        Degrees, gammas, sizes.
    rules : TermRules
        The user's other rules; degree and budgets are those of the grid.
    n_jobs : int or None
        Passed to joblib, whose backends decide where the walks run.
    deadline : float or None
        On the clock of ``time.time``; walks that have not begun by then are left out, except for
        those of the first case.
    on_batch : callable or None
        Called with (walks done, walks).
    keep_supports : bool
        Whether the scores have the supports too.
    """
    from joblib import Parallel, delayed

    walks = walks_of(codings, plan, grid, rules, keep_supports=keep_supports)
    batch = len(codings) * plan.n_splits  # the walks of one degree
    found: list[list[Walked | None]] = []
    with one_blas_thread(), Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for start in range(0, len(walks), batch):
            found += parallel(
                delayed(Walk.run)(walk, deadline, spare_first=start + a < plan.n_splits)
                for a, walk in enumerate(walks[start : start + batch])
            )
            if on_batch is not None:
                on_batch(min(start + batch, len(walks)), len(walks))
    return _collect(found, codings, plan, grid)


def walks_of(
    codings: Sequence[Coding],
    plan: Plan,
    grid: Grid,
    rules: TermRules,
    *,
    keep_supports: bool = False,
) -> list[Walk]:
    """List the walks: by degree, then coding, then split."""
    walks: dict[int, list[Walk]] = {degree: [] for degree in grid.degrees}
    for coding in codings:
        basis = coding.basis
        lengths = np.array([len(m) for m in basis.monomials])
        for v, judge in enumerate(judges(basis, coding.parts, plan, coding.table)):
            train = merge(coding.parts, plan.train[v])
            own = np.arange(len(basis)) if coding.pools is None else np.sort(coding.pools[v])
            for degree in grid.degrees:
                pool = own[lengths[own] <= degree]
                walks[degree].append(
                    Walk(
                        train=train,
                        judge=judge,
                        basis=basis,
                        pool=pool,
                        rules=rules,
                        degree=degree,
                        gammas=grid.gammas,
                        max_terms=grid.max_terms,
                        max_inputs=grid.max_inputs,
                        keep_supports=keep_supports,
                    )
                )
    return [walk for degree in grid.degrees for walk in walks[degree]]


def _collect(
    found: list[list[Walked | None]], codings: Sequence[Coding], plan: Plan, grid: Grid
) -> Scores:
    """Bring the splits of each case together; a case counts when all its splits are done."""
    candidates: list[Candidate] = []
    rows: list[Array] = []
    supports: list[tuple[Indices, ...]] = []
    finished, position = 0, 0
    shape = (3, plan.n_splits, len(grid.max_inputs), len(grid.max_terms))
    for degree in grid.degrees:
        for coding in codings:
            splits = found[position : position + plan.n_splits]
            position += plan.n_splits
            for g, gamma in enumerate(grid.gammas):
                done = [split[g] for split in splits]
                table = np.full(shape, np.nan)
                if None not in done:
                    finished += 1
                    table = np.array([(w.error, w.n_terms, w.n_inputs) for w in done if w])
                    table = table.swapaxes(0, 1)
                for a, k in enumerate(grid.max_inputs):
                    for b, size in enumerate(grid.max_terms):
                        candidates.append(Candidate(degree, gamma, coding.center, k, size))
                        rows.append(table[:, :, a, b])
                        supports.append(
                            tuple(w.supports[a][b] for w in done if w and w.supports[a])
                        )
    errors, terms, inputs = np.array(rows).swapaxes(0, 1)
    return Scores(
        tuple(candidates),
        errors,
        terms.mean(axis=1),
        inputs.mean(axis=1),
        finished,
        len(grid.degrees) * len(codings) * len(grid.gammas),
        tuple(supports),
    )
