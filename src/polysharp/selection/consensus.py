"""The consensus of the models that validation cannot tell apart.

The least of thousands of validation errors is least partly by luck, and its model has terms that
other rows would not have chosen.  The mean of the models that do equally well varies less from
sample to sample, and predicts better, but has hundreds of terms.  So (projection prediction, after
Piironen, Paasiniemi & Vehtari, Electronic Journal of Statistics 14, 2020):

    members     the candidates, in the coding of the best one, whose error exceeds the least by at
                most two standard errors, of the difference and of the least error itself
    reference   the mean of their polynomials, all fitted on the same rows
    projection  the polynomial of each size that is nearest to the reference on these rows

Limits on the number of inputs are limits on the projections; members obey the widest of them.
Members have degrees of which all monomials are listed: among the millions that ``preselection``
did not name, a fit to values without noise would find some for every row.  Where none of these
degrees does as well as the best candidate there is no consensus, and the best is used as it is.

In every split members, reference and projections are fitted to the training rows alone, and
held-out rows judge the projections: this chooses the size.  (Who is a member depends on the
held-out rows of all splits, so these errors are a little optimistic, like those of the best of
many.)  In the splits a projection uses the monomials of the members; on all rows an engine may use
any.

In the moments of a coding the reference is a vector a of coefficients, its values M a the response
of one more least-squares problem with q = G a and yy = a'G a, and no row is read again.  The
reference is shrunk by the ridges of its members, so its projections have hardly any ridge of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

import numpy as np

from polysharp.moments.folds import Plan
from polysharp.monomials.term_rules import TermRules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.selection.grid_search import Candidate, Coding, Grid, OnBatch, Scores, walks_of
from polysharp.selection.judges import MomentJudge
from polysharp.selection.validation_walk import Fit, Walk, Walked
from polysharp.threads import one_blas_thread
from polysharp.typing import Array

ERRORS = 2.0  # standard errors of the difference within which models count as equally good
SHARE = 1e-6  # ridge of the projections, relative to the number of rows


@dataclass(frozen=True, eq=False)
class Consensus:
    """The mean of some models, and how well its projections do on held-out rows."""

    coding: Coding
    members: tuple[Candidate, ...]
    coefficients: Array  # of the monomials of the coding's basis
    intercept: float
    projections: Scores
    limits: int  # on the inputs, that there was time for, the widest first

    def shortfall(self, limits: int, time_limit: float | None) -> str | None:
        """Say what was not compared, None where all was."""
        if self.limits == limits or time_limit is None:
            return None
        return (
            f"With time_limit={time_limit:g} {self.limits} of {limits} limits on the number of "
            "inputs were compared when the time was up, the widest; a longer time_limit compares "
            "more."
        )

    def polynomial(self, names: tuple[str, ...], response: str) -> Polynomial:
        """Return the mean in the user's variables."""
        used, coding = np.flatnonzero(self.coefficients), self.coding
        basis, w = coding.basis.select(used), self.coefficients[used]
        return Polynomial.from_scaled(basis, w, self.intercept, coding.scaling, names, response)


def find_consensus(
    scores: Scores,
    codings: Sequence[Coding],
    plan: Plan,
    grid: Grid,
    rules: TermRules,
    max_inputs: tuple[int | None, ...],
    *,
    n_jobs: int | None = None,
    deadline: float | None = None,
    on_batch: OnBatch | None = None,
) -> Consensus | None:
    """Average the candidates that do as well as the best, and project their mean.

    None where no degree of which all monomials are listed does as well as the best.

    Parameters
    ----------
    scores : Scores
        Errors of the whole grid, with supports.
    codings, plan, grid, rules
        What they come from.
    max_inputs : tuple of int or None
        Limits on the inputs of the projections.
    n_jobs : int or None
        Passed to joblib.
    deadline : float or None
        On the clock of ``time.time``; limits on the inputs that are not reached by then are left
        out, except for the widest.
    on_batch : callable or None
        Called with (steps done, steps).
    """
    from joblib import Parallel, delayed

    best = scores.choose("best")
    coding = next(c for c in codings if c.center == scores.candidates[best].center)
    places = [
        a
        for a in scores.alike(best, ERRORS)
        if scores.candidates[a].center == coding.center
        and scores.candidates[a].degree <= coding.listed
    ]
    if not places:
        return None
    members = tuple(scores.candidates[a] for a in places)
    whole = coding.whole()
    nearest = Candidate(
        degree=max(member.degree for member in members),
        gamma=1.0 / (SHARE * whole.weight),
        center=coding.center,
        max_inputs=None,
        max_terms=0,
        consensus=True,
    )
    narrow = replace(grid, degrees=(nearest.degree,), max_inputs=max_inputs)
    walks = walks_of([coding], plan, narrow, rules)
    everywhere = replace(
        walks[0],
        train=whole,
        judge=MomentJudge(whole),
        pool=np.arange(len(coding.basis)),
        max_inputs=grid.max_inputs,
        keep_supports=True,
    )
    with one_blas_thread(), Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        projected: list[Walked] = parallel(
            delayed(Walk.towards)(walk, _seen(scores, places, v), nearest.gamma, deadline)
            for v, walk in enumerate(walks)
        )
        if on_batch is not None:
            on_batch(1, 2)
        fits = parallel(
            delayed(_fitted)(everywhere, list(group))
            for _, group in groupby(members, key=lambda m: (m.degree, m.gamma))
        )
    coefficients = everywhere.mean([fit for group in fits for fit in group])
    if on_batch is not None:
        on_batch(2, 2)
    offset = 0.0 if rules.constant else whole.y_mean - float(whole.mean @ coefficients)
    return Consensus(
        coding,
        members,
        coefficients,
        offset,
        _scores(projected, nearest, narrow, int(np.count_nonzero(coefficients))),
        min(walked.limits for walked in projected),
    )


def _seen(scores: Scores, places: list[int], split: int) -> list[Fit]:
    """Return the models of some candidates in one split."""
    return [
        Fit(scores.candidates[a].degree, scores.candidates[a].gamma, scores.supports[a][split])
        for a in places
    ]


def _fitted(walk: Walk, members: list[Candidate]) -> list[Fit]:
    """Return the models of members of one degree and gamma on the rows of a walk."""
    degree, gamma = members[0].degree, members[0].gamma
    within = [j for j in walk.pool if len(walk.basis.monomials[j]) <= degree]
    case = replace(walk, degree=degree, gammas=(gamma,), pool=np.array(within, dtype=np.intp))
    [found] = case.run(None)
    assert found is not None  # there is no deadline
    return [
        Fit(degree, gamma, own[walk.max_terms.index(m.max_terms)])
        for m in members
        if (own := found.supports[walk.max_inputs.index(m.max_inputs)])
    ]


def _scores(projected: list[Walked], nearest: Candidate, grid: Grid, most: int) -> Scores:
    """Bring the projections of all splits together, of sizes up to that of the reference.

    Where splits have other members' terms than all rows have, longer ones would be filled up with
    terms of no use.
    """
    sizes = [b for b, size in enumerate(grid.max_terms) if size <= most]
    sizes = sizes or [int(np.argmin(grid.max_terms))]
    candidates = tuple(
        replace(nearest, max_inputs=k, max_terms=grid.max_terms[b])
        for k, b in product(grid.max_inputs, sizes)
    )
    errors, terms, inputs = (
        np.stack(tables, axis=-1)[:, sizes].reshape(-1, len(projected))
        for tables in zip(*((w.error, w.n_terms, w.n_inputs) for w in projected), strict=True)
    )
    return Scores(candidates, errors, terms.mean(axis=1), inputs.mean(axis=1), 1, 1)
