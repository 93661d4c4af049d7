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
Members have degrees of which all monomials are listed: among the millions that ``screening`` did
not name, a fit to values without noise would find some for every row.  Where none of these
degrees does as well as the best candidate there is no consensus, and the best is used as it is.

In every split members, reference and projections are fitted to the training rows alone, and
held-out rows judge the projections: this chooses the size.  (Who is a member depends on the
held-out rows of all splits, so these errors are a little optimistic, like those of the best of
many.)  In the splits a projection uses the monomials of the members; on all rows an engine may use
any.

In the moments of the largest degree the reference is a vector a of coefficients, its values M a the
response of one more least-squares problem with q = G a and yy = a'G a, and no row is read again.
Members of lower degrees have other scales t_j of the monomials: w_j t_j is what they share.  The
reference is shrunk by the ridges of its members, so its projections have hardly any ridge of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.polynomial.polynomial import Polynomial
from polysharp.selection.folds import FoldMoments
from polysharp.selection.judges import MomentJudge
from polysharp.selection.parallel import NEVER, Deadline, Workers
from polysharp.selection.scores import Candidate, Case, Scores
from polysharp.selection.split_models import Budgets, SizeErrors, SplitModels
from polysharp.typing import Array, Indices

ERRORS = 2.0  # standard errors of the difference within which models count as equally good
SHARE = 1e-6  # ridge of the projections, relative to the number of rows


@dataclass(frozen=True, eq=False)
class Consensus:
    """The mean of some models, and how well its projections do on held-out rows."""

    moments: FoldMoments  # of the largest degree of a member
    members: tuple[Candidate, ...]
    coefficients: Array  # of the monomials there
    intercept: float
    projections: Scores
    limits: int  # on the inputs, that there was time for, the widest first

    def polynomial(self, names: tuple[str, ...], response: str) -> Polynomial:
        """Return the mean in the user's variables."""
        used, moments = np.flatnonzero(self.coefficients), self.moments
        basis, w = moments.basis.select(used), self.coefficients[used]
        return Polynomial.from_scaled(basis, w, self.intercept, moments.scaling, names, response)


def find_consensus(
    scores: Scores,
    compared: Mapping[tuple[int, bool], FoldMoments],
    budgets: Budgets,
    limits: tuple[int | None, ...],
    workers: Workers,
    late: Deadline = NEVER,
) -> Consensus | None:
    """Average the candidates that do as well as the best, and project their mean.

    None where no degree of which all monomials are listed does as well as the best.  ``limits`` are
    those on the inputs of the projections; when it is ``late``, all but the widest are left out.
    """
    best = scores.choose("best")
    center = scores.candidates[best].center
    listed = {r: m for (r, c), m in compared.items() if c == center and m.pools is None}
    alike = scores.alike(best, ERRORS)
    places = [
        a for a in alike if (c := scores.candidates[a]).center == center and c.degree in listed
    ]
    if not places:
        return None
    members = tuple(scores.candidates[a] for a in places)
    top = listed[max(member.degree for member in members)]
    whole, rules = top.whole(), top.rules
    nearest = Case(top.basis.degree, 1.0 / (SHARE * whole.weight), center, consensus=True)
    by_degree = {r: m.splits() for r, m in listed.items() if r <= nearest.degree}
    narrow = replace(budgets, max_inputs=limits)
    projected: list[SizeErrors] = workers.run(
        _projected,
        [
            (
                {r: splits[v] for r, splits in by_degree.items()},
                [(scores.candidates[a], scores.supports[a][v]) for a in places],
                nearest.gamma,
                narrow,
                late,
            )
            for v in range(top.folds.plan.n_splits)
        ],
        "averaging models that do equally well",
    )
    everywhere = {r: _on_all_rows(m) for r, m in listed.items() if r <= nearest.degree}
    cases = [list(group) for _, group in groupby(members, key=lambda m: (m.degree, m.gamma))]
    fits = workers.run(
        _supports,
        [(everywhere[own[0].degree], own, budgets) for own in cases],
        "fitting models that do equally well",
    )
    pairs = zip(members, (support for own in fits for support in own), strict=True)
    a = _mean(everywhere, top.basis, [(m, support) for m, support in pairs if support is not None])
    offset = 0.0 if rules.constant else whole.y_mean - float(whole.mean @ a)
    # Where splits chose other terms than all rows do, a projection with more terms than the
    # reference would be filled up with terms of no use.
    most = int(np.count_nonzero(a))
    few = [b for b, size in enumerate(narrow.max_terms) if size <= most] or [0]
    own = replace(narrow, max_terms=tuple(narrow.max_terms[b] for b in few))
    shown = Scores.of(nearest, own, [_first(s, few) for s in projected], scores.scale)
    reached = int(np.isfinite(np.stack([s.error for s in projected])).any(axis=2).all(axis=0).sum())
    return Consensus(top, members, a, offset, shown, reached)


def _projected(
    splits: Mapping[int, SplitModels],
    members: Sequence[tuple[Candidate, Indices]],
    gamma: float,
    budgets: Budgets,
    late: Deadline,
) -> SizeErrors:
    """Fit the mean of some models of one split in place of the response, with their monomials."""
    top = splits[max(splits)]
    a = _mean(splits, top.basis, members)
    train = _response_of(top.train, a, centred=not top.rules.constant)
    own = replace(top, train=train, pool=np.flatnonzero(a))
    return own.compare(gamma, budgets, late, spare_widest=True)


def _response_of(moments: Moments, a: Array, *, centred: bool) -> Moments:
    """Return the moments with the values M a, and the mean of y where it is free, for y."""
    cross = moments.scatter @ a
    y_mean = moments.y_mean if centred else float(moments.mean @ a)
    return replace(moments, cross=cross, spread=float(a @ cross), y_mean=y_mean)


def _mean(
    splits: Mapping[int, SplitModels], basis: Basis, members: Sequence[tuple[Candidate, Indices]]
) -> Array:
    """Return the mean of the coefficients of some models, for the monomials of a basis."""
    total = np.zeros(len(basis))
    needed = {member.degree for member, _ in members}
    problems = {r: splits[r].problem(1.0, len(splits[r].basis), None) for r in needed}
    for member, support in members:
        own, lam = splits[member.degree], 1.0 / member.gamma
        (model,) = own.models(replace(problems[member.degree], lam=lam).refit(support))
        places = [basis.index[own.basis.monomials[j]] for j in model.support]
        plain = model.w * own.basis.scales[model.support]
        total[places] += plain / basis.scales[places]
    return total / len(members)


def _on_all_rows(moments: FoldMoments) -> SplitModels:
    """Return what finds models on all rows."""
    whole, every = moments.whole(), np.arange(len(moments.basis))
    return SplitModels(whole, (MomentJudge(whole),), moments.basis, moments.rules, every)


def _supports(
    models: SplitModels, members: Sequence[Candidate], budgets: Budgets
) -> list[Indices | None]:
    """Return the supports of members of one degree and gamma on all rows."""
    most = max(m.max_terms for m in members)
    budgets = replace(budgets, max_terms=tuple(s for s in budgets.max_terms if s <= most))
    found = models.compare(members[0].gamma, budgets)
    by_limit = [found.supports[budgets.max_inputs.index(m.max_inputs)] for m in members]
    return [
        own[budgets.max_terms.index(m.max_terms)] if own else None
        for m, own in zip(members, by_limit, strict=True)
    ]


def _first(errors: SizeErrors, places: Sequence[int]) -> SizeErrors:
    """Return some of the sizes."""
    supports = [[own[b] for b in places] if own else [] for own in errors.supports]
    error, n_terms = errors.error[:, places], errors.n_terms[:, places]
    return SizeErrors(error, n_terms, errors.n_inputs[:, places], supports)
