"""Rows become moments of the parts; where the monomials are too many, each split names its own.

The grid holds G of f monomials for every part and every training and validation set, in
8 f^2 bytes each; ``capacity`` is the f for which all of them together take 2 GiB.  Up to that, all
monomials of the largest degree are listed.  Beyond it

    all monomials of degree <= r0 are listed, r0 the largest degree that fits into three quarters;
    in each split, on its training rows alone, models of 0, L/4 and L listed terms are grown, and of
    the monomials of each higher degree those that correlate most with the three residuals join:
    as many from each residual and degree as fit, all splits together, into the rest.

A split uses only the monomials that its own training rows named, so the validation rows stay
unseen.  Higher degrees are priced as matrix products and never formed.  A degree whose passes would
take more than a quarter of the time limit at the stated rates of ``triage`` is left out, and so are
those that did take more.  With heredity only listed degrees and the least are compared.  The model
chosen is refitted by the estimator, which prices all monomials again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from polysharp.data.rows import MemoryRows, Rows
from polysharp.engines.local_search import improve
from polysharp.errors import TooLargeError
from polysharp.moments.folds import Dealt, Parts, Plan, fold_moments, merge
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.structure import Structure
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.pricer import Pricer
from polysharp.problem.problem import Problem
from polysharp.progress import Progress
from polysharp.ranking.triage import CPU_RATE, GPU_RATE
from polysharp.selection.grid_search import Coding
from polysharp.selection.judges import CutRows
from polysharp.typing import Array, Indices, Monomial

MOMENT_BYTES = 2 * 2**30
LISTED_SHARE = 0.75  # of the capacity; for the degrees of which all monomials are listed
RESIDUALS = 3  # models whose residuals name monomials in each split
TIME_SHARE = 0.25
HIGHEST_PRICED = 4


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Checked rows, cut into parts, with the rules about terms."""

    rows: Rows
    parts: Parts
    plan: Plan
    rules: TermRules  # of the largest degree
    scale: bool

    @property
    def inputs(self) -> Indices:
        """Inputs that are not excluded."""
        return np.setdiff1d(np.arange(self.rows.shape[1]), self.rules.exclude_inputs)

    @property
    def prices(self) -> bool:
        """Whether monomials beyond those that can be listed are compared, too.

        Under heredity they need their parents.  On Dask naming them would read the rows again in
        each split.
        """
        return self.rules.heredity is None and self.rows.block is not None

    def count(self, degree: int) -> int:
        """Number of monomials up to a degree."""
        return replace(self.rules, degree=degree).count(len(self.inputs))


def capacity(plan: Plan, n_codings: int) -> int:
    """Return how many monomials the moments of all sets may have."""
    sets = n_codings * (plan.n_parts + plan.n_splits + sum(len(t) > 1 for t in plan.test))
    return isqrt(MOMENT_BYTES // (8 * sets))


def reachable(
    folded: FoldedRows, degrees: Sequence[int], limit: int, n_codings: int, time_limit: float | None
) -> tuple[int, ...]:
    """Return the degrees that can be listed, or priced in a quarter of the time."""
    n, least = folded.rows.shape[0], min(degrees)
    rate = GPU_RATE if folded.rows.place.on_gpu else CPU_RATE
    passes = RESIDUALS * folded.plan.n_splits * n_codings

    def fits(degree: int) -> bool:
        f = folded.count(degree)
        if f <= limit:
            return True
        # The least degree is compared in any case, so it is the one that must be refused.
        if folded.rows.block is None and degree == least:
            raise TooLargeError(
                f"degrees must have at most {limit:,} monomials to be compared on Dask collections,"
                f" and degree {degree} of {len(folded.inputs)} inputs has {f:,}"
            )
        if degree > HIGHEST_PRICED and (folded.prices or degree == least):
            raise TooLargeError(
                f"degrees above {HIGHEST_PRICED} must have at most {limit:,} monomials to be "
                f"compared, and degree {degree} of {len(folded.inputs)} inputs has {f:,}"
            )
        work = passes * n * float(f)
        return folded.prices and (time_limit is None or work <= TIME_SHARE * rate * time_limit)

    return tuple(r for r in degrees if fits(r) or r == least)


def make_coding(
    folded: FoldedRows,
    center: bool,
    limit: int,
    max_terms: int,
    gamma: float,
    *,
    progress: Progress,
    seconds: float | None = None,
) -> Coding:
    """Return the moments of the parts in raw or centred variables.

    Of degrees too large to be listed, ``limit`` monomials in all are preselected; when that takes
    longer than ``seconds`` the listed degrees are all there is.
    """
    began = perf_counter()
    rules, inputs = folded.rules, folded.inputs
    if folded.count(1) > limit:
        raise TooLargeError(
            f"X must have at most {limit - 1:,} inputs to be compared on these splits, got "
            f"{len(inputs):,}; rank_inputs says which matter, exclude_inputs leaves others out"
        )
    scaling = Scaling.of(folded.rows.ranges, scale=folded.scale, center=center)
    rows = folded.rows.coded(scaling.apply)
    table = None
    if rows.block is not None and not isinstance(folded.parts, Dealt):
        table = CutRows(rows.block, folded.parts)
    stage = f"moments of the folds, {'centred' if center else 'raw'} inputs"

    def moments(basis: Basis) -> Coding:
        parts = fold_moments(rows, basis, folded.parts, on_block=progress.on_block(stage))
        return Coding(center, basis, scaling, parts, basis.degree, table=table)

    if folded.count(rules.degree) <= limit or table is None:
        return moments(rules.basis(inputs))
    room = LISTED_SHARE * limit
    low = max((r for r in range(1, rules.degree) if folded.count(r) <= room), default=1)
    few = tuple(m for m in rules.include_terms if len(m) <= low)  # the others join below
    listed = moments(replace(rules, degree=low, include_terms=few).basis(inputs))
    named = []
    for train in folded.plan.train:
        own = table.data.take(np.concatenate([table.parts[a] for a in train]))
        train_moments = merge(listed.parts, train)
        problem = _listed_problem(train_moments, listed.basis, rules, max_terms, gamma)
        residuals = _residuals(own, listed.basis, problem, centred=not rules.constant)
        named.append(_named(own, rules, inputs, residuals, listed.basis, limit))
        if seconds is not None and perf_counter() - began > seconds:
            return listed
    basis, pools = _united(listed.basis, named, rules, limit)
    return replace(moments(basis), listed=low, pools=pools)


def _listed_problem(
    moments: Moments, basis: Basis, rules: TermRules, max_terms: int, gamma: float
) -> Problem:
    """Return the problem of the listed monomials on one training set, budgets of inputs apart."""
    G, q, yy = moments.scatter, moments.cross, moments.spread
    if rules.constant:
        G, q, yy = moments.uncentred()
    return Problem.dense(G, q, yy, 1.0 / gamma, Structure.of_basis(basis, max_terms))


def _residuals(rows: MemoryRows, basis: Basis, problem: Problem, *, centred: bool) -> list[Array]:
    """Return the residuals of models of 0, L/4 and L listed terms on one training set."""
    residuals = [rows.y - rows.y_mean if centred else rows.y]
    most = problem.structure.max_terms
    for size in (max(1, most // 4), most):
        structure = replace(problem.structure, max_terms=size)
        fit = improve(replace(problem, structure=structure), np.zeros(0, dtype=np.intp))
        left = rows.y - basis.select(fit.support).evaluate(rows.X) @ fit.w
        residuals.append(left - float(left.mean()) if centred else left)
    return residuals


def _named(
    rows: MemoryRows,
    rules: TermRules,
    inputs: Indices,
    residuals: list[Array],
    listed: Basis,
    limit: int,
) -> list[list[Monomial]]:
    """Return the lists of monomials, best first, that one training set names."""
    higher = range(listed.degree + 1, rules.degree + 1)
    top = max(1, (limit - len(listed)) // len(higher))
    lists = []
    for degree in higher:

        def of_degree(keys: NDArray[np.int32], degree: int = degree) -> NDArray[np.bool_]:
            if keys.shape[1] != degree:
                return np.zeros(len(keys), dtype=bool)
            return rules.may_price(keys)

        pricer = Pricer(
            rows.X,
            degree,
            inputs=inputs,
            keep=of_degree,
            sample_weight=rows.sample_weight,
            fit_intercept=not rules.constant,
            arrays=rows.place.arrays(),
        )
        lists += [list(pricer.price(a, top).monomials) for a in residuals]
    return lists


def _united(
    listed: Basis,
    named: list[list[list[Monomial]]],
    rules: TermRules,
    limit: int,
) -> tuple[Basis, list[Indices]]:
    """Join the longest heads of all lists that fit, and say which monomials are whose.

    Under heredity the ancestors of a monomial come with it.
    """
    room = limit - len(listed)

    def heads(length: int) -> list[set[Monomial]]:
        best = [{m for ranked in lists for m in ranked[:length]} for lists in named]
        wanted = [rules.with_parents({*own, *rules.include_terms}) for own in best]
        return [set(own) - listed.index.keys() for own in wanted]

    low, high = 0, room
    while low < high:
        length = (low + high + 1) // 2
        low, high = (
            (length, high) if len(set().union(*heads(length))) <= room else (low, length - 1)
        )
    own = heads(low)
    joined = sorted(set().union(*own), key=lambda m: (len(m), m))
    basis = Basis(listed.inputs, rules.degree, listed.monomials + tuple(joined))
    first = np.arange(len(listed))
    pools = [
        np.concatenate([first, np.array(sorted(basis.index[m] for m in mine), dtype=np.intp)])
        for mine in own
    ]
    return basis, pools
