"""Monomials too many to list: each split works with those that its own training rows point at.

On the training rows of a split

    a0 = y - ybar,       a1, a2 = residuals of models of L/4 and L terms,

and of the monomials of each degree those that correlate most with one of the three join; the models
are found by local search among the best of those that have joined before.  Monomials are priced as
matrix products and never formed (``pricing``).  From all lists together, all splits, the longest
heads are taken that fit into the room there is.

A split uses only the monomials that its own training rows named, so the validation rows stay
unseen.  All monomials of the degrees that fit into three quarters of the room are listed without
regard to the rows.  The model chosen in the end is refitted by the estimator, which prices all
monomials again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polysharp.data.rows import MemoryRows
from polysharp.moments.folds import Plan
from polysharp.moments.moments import moments_of
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.pricer import Pricer
from polysharp.problem.problem import Problem
from polysharp.selection.judges import PartedRows
from polysharp.typing import Array, Indices, Monomial

LISTED_SHARE = 0.75  # of the room; for the degrees of which all monomials are listed
ROUNDS = 3  # residuals that name monomials: a fourth brought no better models
POOL = 400  # monomials that the models between the rounds are found among: enough for L <= 100
SHARE = 1e-3  # ridge of these models, relative to the number of rows


def screened(
    tables: Sequence[PartedRows],
    plan: Plan,
    rules: TermRules,
    inputs: Indices,
    limit: int,
    size: int,
) -> tuple[Basis, list[Indices]]:
    """Return at most ``limit`` monomials, and which of them each split may use.

    Parameters
    ----------
    tables : sequence of PartedRows
        Coded rows, with the response that names monomials, or once for each of several.
    plan : Plan
        Which parts train.
    rules : TermRules
        Of degree at most 4.
    inputs : array of int
        Those that may be used.
    limit : int
        Most monomials, all splits together.
    size : int
        Terms of the largest model whose residual is priced.
    """
    room = LISTED_SHARE * limit
    counts = {r: replace(rules, degree=r).count(len(inputs)) for r in range(1, rules.degree)}
    low = max((r for r, count in counts.items() if count <= room), default=0)
    listed: tuple[Monomial, ...] = ((),) if rules.constant else ()
    if low:
        few = replace(rules, degree=low, include_terms=())
        listed = few.basis(inputs).monomials
    first = rules.basis_of(listed, inputs)
    top = max(1, (limit - len(listed)) // (rules.degree - low))
    degrees = range(low + 1, rules.degree + 1)
    named = [
        [
            ranked
            for table in tables
            for ranked in named_by(table.take(train), rules, inputs, degrees, top, size)
        ]
        for train in plan.train
    ]
    return united(first, named, rules, limit)


def named_by(
    rows: MemoryRows, rules: TermRules, inputs: Indices, degrees: range, top: int, size: int
) -> list[list[Monomial]]:
    """Return lists of monomials, best first, that one training set names."""
    pricers = [_pricer(rows, rules, inputs, degree) for degree in degrees]
    below = [_pricer(rows, rules, inputs, degree) for degree in range(1, degrees.start)]
    residual = rows.y if rules.constant else rows.y - rows.y_mean
    lists: list[list[Monomial]] = []
    joined: list[Monomial] = []
    for round_ in range(ROUNDS):
        new = [list(pricer.price(residual, top).monomials) for pricer in pricers]
        lists += new
        if round_ == ROUNDS - 1:
            break
        share = POOL // (len(degrees) + len(below))
        others = [list(pricer.price(residual, share).monomials) for pricer in below]
        joined += [m for ranked in (*new, *others) for m in ranked[:share]]
        terms = max(1, size // 4) if round_ == 0 else size
        residual = _residual(rows, rules, list(dict.fromkeys(joined)), terms)
    return lists


def _pricer(rows: MemoryRows, rules: TermRules, inputs: Indices, degree: int) -> Pricer:
    """Return what prices the monomials of one degree."""

    def of_degree(keys: NDArray[np.int32]) -> NDArray[np.bool_]:
        if keys.shape[1] != degree:
            return np.zeros(len(keys), dtype=bool)
        return rules.may_price(keys)

    return Pricer(
        rows.X,
        degree,
        inputs=rules.library.columns_of(inputs),
        keep=of_degree,
        sample_weight=rows.sample_weight,
        fit_intercept=not rules.constant,
        arrays=rows.place.arrays(),
    )


def _residual(rows: MemoryRows, rules: TermRules, joined: list[Monomial], terms: int) -> Array:
    """Return the residual of a model of so many of some monomials."""
    from polysharp.engines.local_search import improve

    basis = rules.basis_of(tuple(joined))
    moments = moments_of(rows, basis)
    G, q, yy = moments.normal_equations(centred=not rules.constant)
    structure = Structure.of_basis(basis, min(terms, len(basis)))
    problem = Problem.dense(G, q, yy, SHARE * moments.weight, structure)
    fit = improve(problem, np.zeros(0, dtype=np.intp))
    left = rows.y - basis.select(fit.support).evaluate(rows.X) @ fit.w
    return left if rules.constant else left - float(np.average(left, weights=rows.sample_weight))


def united(
    listed: Basis, named: Sequence[Sequence[Sequence[Monomial]]], rules: TermRules, limit: int
) -> tuple[Basis, list[Indices]]:
    """Join the longest heads of all lists that fit, and say which monomials are whose.

    Under heredity the ancestors of a monomial come with it.
    """
    room = limit - len(listed)

    def heads(length: int) -> list[set[Monomial]]:
        best = ({m for ranked in lists for m in ranked[:length]} for lists in named)
        wanted = (rules.with_parents({*own, *rules.include_terms}) for own in best)
        return [set(own) - listed.index.keys() for own in wanted]

    low, high = 0, room
    while low < high:
        length = (low + high + 1) // 2
        fits = len(set().union(*heads(length))) <= room
        low, high = (length, high) if fits else (low, length - 1)
    own = heads(low)
    joined = sorted(set().union(*own), key=lambda m: (len(m), m))
    basis = replace(listed, monomials=listed.monomials + tuple(joined))
    first = np.arange(len(listed))
    pools = [
        np.concatenate([first, np.array(sorted(basis.index[m] for m in mine), dtype=np.intp)])
        for mine in own
    ]
    return basis, pools
