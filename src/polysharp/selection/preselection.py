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

from polysharp.data.checks import Data
from polysharp.data.place import Place
from polysharp.engines.growth import System, grow, parts_of
from polysharp.errors import TooLargeError
from polysharp.moments.folds import Plan, fold_moments, merge
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.pricer import Pricer
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
    """Checked data, cut into parts, with the rules about terms."""

    data: Data
    parts: Sequence[Indices]
    plan: Plan
    rules: TermRules  # of the largest degree
    place: Place
    scale: bool

    @property
    def inputs(self) -> Indices:
        """Inputs that are not excluded."""
        return np.setdiff1d(np.arange(self.data.X.shape[1]), self.rules.exclude_inputs)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.data.total_weight

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all inputs."""
        return self.data.names

    @property
    def response(self) -> str:
        """Name of the response."""
        return self.data.response

    def reachable(
        self, degrees: Sequence[int], limit: int, n_codings: int, time_limit: float | None
    ) -> tuple[int, ...]:
        """Return the degrees to compare."""
        return reachable(self, degrees, limit, n_codings, time_limit)

    def coding(
        self,
        center: bool,
        limit: int,
        max_terms: int,
        gamma: float,
        *,
        progress: Progress,
        seconds: float | None = None,
    ) -> Coding:
        """Return the moments of the parts in one coding."""
        return make_coding(
            self, center, limit, max_terms, gamma, progress=progress, seconds=seconds
        )

    def count(self, degree: int) -> int:
        """Number of monomials up to a degree."""
        return replace(self.rules, degree=degree).count(len(self.inputs))


def capacity(plan: Plan, n_codings: int) -> int:
    """Return how many monomials the moments of all sets may have."""
    sets = n_codings * (plan.n_parts + plan.n_splits + sum(len(t) > 1 for t in plan.test))
    return isqrt(MOMENT_BYTES // (8 * sets))


def reachable(
    rows: FoldedRows, degrees: Sequence[int], limit: int, n_codings: int, time_limit: float | None
) -> tuple[int, ...]:
    """Return the degrees that can be listed, or priced in a quarter of the time."""
    rate = GPU_RATE if rows.place.on_gpu else CPU_RATE
    passes = RESIDUALS * rows.plan.n_splits * n_codings
    heredity, least = rows.rules.heredity, min(degrees)

    def fits(degree: int) -> bool:
        f = rows.count(degree)
        if f <= limit:
            return True
        # The least degree is compared come what may, so it is the one that must be refused.
        if degree > HIGHEST_PRICED and (heredity is None or degree == least):
            raise TooLargeError(
                f"degrees above {HIGHEST_PRICED} must have at most {limit:,} monomials to be "
                f"compared, and degree {degree} of {len(rows.inputs)} inputs has {f:,}"
            )
        work = passes * len(rows.data.y) * float(f)
        return heredity is None and (time_limit is None or work <= TIME_SHARE * rate * time_limit)

    return tuple(r for r in degrees if fits(r) or r == least)


def make_coding(
    rows: FoldedRows,
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
    data, inputs = rows.data, rows.inputs
    if rows.count(1) > limit:
        raise TooLargeError(
            f"X must have at most {limit - 1:,} inputs to be compared on these splits, got "
            f"{len(inputs):,}; rank_inputs says which matter, exclude_inputs leaves others out"
        )
    scaling = Scaling.of(data.X, data.weights, scale=rows.scale, center=center)
    X = scaling.apply(data.X)
    table = CutRows(replace(data, X=X), rows.parts)
    stage = f"moments of the folds, {'centred' if center else 'raw'} inputs"

    def moments(basis: Basis) -> Coding:
        parts = fold_moments(
            basis,
            X,
            data.y,
            data.sample_weight,
            rows.parts,
            accumulate=rows.place.accumulate,
            on_block=progress.on_block(stage),
        )
        return Coding(center, basis, scaling, parts, basis.degree, table=table)

    if rows.count(rows.rules.degree) <= limit:
        return moments(rows.rules.basis(inputs))
    room = LISTED_SHARE * limit
    low = max((r for r in range(1, rows.rules.degree) if rows.count(r) <= room), default=1)
    few = tuple(m for m in rows.rules.include_terms if len(m) <= low)  # the others join below
    listed = moments(replace(rows.rules, degree=low, include_terms=few).basis(inputs))
    named = []
    for v in range(rows.plan.n_splits):
        named.append(_named(rows, X, listed, v, limit, max_terms, gamma))
        if seconds is not None and perf_counter() - began > seconds:
            return listed
    basis, pools = _united(listed.basis, named, rows.rules, limit)
    return replace(moments(basis), listed=low, pools=pools)


def _named(
    rows: FoldedRows, X: Array, listed: Coding, v: int, limit: int, max_terms: int, gamma: float
) -> list[list[Monomial]]:
    """Return the lists of monomials, best first, that one training set names."""
    chosen = np.concatenate([rows.parts[a] for a in rows.plan.train[v]])
    X, y = X[chosen], rows.data.y[chosen]
    weight = rows.data.sample_weight
    weight = None if weight is None else weight[chosen]
    residuals = _residuals(rows, X, y, listed, v, max_terms, gamma)
    rules, higher = rows.rules, range(listed.basis.degree + 1, rows.rules.degree + 1)
    top = max(1, (limit - len(listed.basis)) // len(higher))
    lists = []
    for degree in higher:

        def of_degree(keys: NDArray[np.int32], degree: int = degree) -> NDArray[np.bool_]:
            if keys.shape[1] != degree:
                return np.zeros(len(keys), dtype=bool)
            return rules.may_price(keys)

        pricer = Pricer(
            X,
            degree,
            inputs=rows.inputs,
            keep=of_degree,
            sample_weight=weight,
            fit_intercept=not rules.constant,
            arrays=rows.place.arrays(),
        )
        lists += [list(pricer.price(a, top).monomials) for a in residuals]
    return lists


def _residuals(
    rows: FoldedRows, X: Array, y: Array, listed: Coding, v: int, max_terms: int, gamma: float
) -> list[Array]:
    """Return the residuals of models of 0, L/4 and L listed terms on one training set."""
    moments, basis = merge(listed.parts, rows.plan.train[v]), listed.basis
    if rows.rules.constant:
        G, q, yy = moments.uncentred()
    else:
        G, q, yy = moments.scatter, moments.cross, moments.spread
    every = np.arange(len(basis))
    ridge = np.full(len(basis), 1.0 / gamma)
    system = System(G, q, yy, ridge, every, parts_of(basis), basis.n_inputs)
    mean = 0.0 if rows.rules.constant else moments.y_mean
    residuals = [y - mean]
    for size in (max(1, max_terms // 4), max_terms):
        support = grow(system, min(size, len(basis)))
        few = basis.select(support)
        fitted = few.evaluate(X) @ system.refit(support)
        residuals.append(y - fitted - (0.0 if rows.rules.constant else float((y - fitted).mean())))
    return residuals


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
