"""Monomials too many to list: each split works with those that its own training rows point at.

On the training rows of a split

    a0 = y - ybar,       a1, a2 = residuals of models of L/4 and L terms,

and of the monomials of each degree those that correlate most with one of the three join; the models
are found by local search among the best of those that have joined before.  Where laws of few terms
are looked for, monomials join by their correlation (``pricing.products``); the models are the best
monomial of each degree, and those of two and three terms without each of these in turn: given the
others, the one that should stand in its place correlates most with what is left.
Monomials are priced as matrix products and never formed (``pricing``).  From all lists together,
all splits, the longest heads are taken that fit into the room there is.

A split uses only the monomials that its own training rows named, so the validation rows stay
unseen.  All monomials of the degrees that fit into three quarters of the room are listed without
regard to the rows.  The model chosen in the end is refitted by the estimator, which prices all
monomials again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.moments.moments import Plan, moments_of
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.pricer import Pricer
from polysharp.pricing.products import Leading
from polysharp.problem.problem import Problem
from polysharp.selection.split_models import PartedRows
from polysharp.typing import Array, Indices, Monomial, OnBlock

LISTED_SHARE = 0.75  # of the room; for the degrees of which all monomials are listed
FEW = (2, 3)  # terms of the models, each of which is left out in turn
FEW_ROWS = 600  # that laws of few terms are looked for on: they stand out on few rows
FEW_STARTS = 8  # degrees whose best monomial is a model of its own, the highest
FEW_NAMED = 20  # monomials of each degree that a residual names then
POOL = 400  # monomials that the models between the rounds are found among: enough for L <= 100
SHARE = 1e-3  # ridge of these models, relative to the number of rows


def screened(
    tables: Sequence[PartedRows],
    plan: Plan,
    rules: TermRules,
    inputs: Indices,
    limit: int,
    size: int,
    *,
    few: bool = False,
    on_block: OnBlock | None = None,
) -> tuple[Basis, list[Indices]]:
    """Return at most ``limit`` monomials, all splits together, and which each split may use.

    Models have ``size`` terms at most, or ``few``.  Rows come once for each response that names
    monomials; ``on_block`` is told how many of the training sets have named theirs.
    """
    room = LISTED_SHARE * limit
    counts = {r: replace(rules, degree=r).count(len(inputs)) for r in range(1, rules.degree)}
    low = max((r for r, count in counts.items() if count <= room and not few), default=0)
    listed: tuple[Monomial, ...] = ((),) if rules.constant else ()
    if low:
        listed = replace(rules, degree=low, include_terms=()).basis(inputs).monomials
    first = rules.basis_of(listed, inputs)
    top = max(1, (limit - len(listed)) // (rules.degree - low))
    degrees = range(low + 1, rules.degree + 1)
    named: list[list[list[Monomial]]] = [[] for _ in plan.train]
    done = 0
    for table in tables:
        if few:
            found = few_named(table, plan, rules, inputs)
        else:
            takes = (table.take(train) for train in plan.train)
            found = (named_by(rows, rules, inputs, degrees, top, size) for rows in takes)
        for own, new in zip(named, found, strict=True):
            own.extend(new)
            done += 1
            if on_block is not None:
                on_block(done, len(tables) * len(named))
    return united(first, named, rules, limit)


def screening_work(n: int, swept: int, n_splits: int, *, few: bool) -> float:
    """Count the multiply-adds of a screening, of laws of few terms or of any."""
    if not few:
        return 3.0 * n_splits * n * swept
    return float(n_splits * (3 + FEW_STARTS + sum(FEW))) * min(n, FEW_ROWS) * swept


def named_by(
    rows: MemoryRows, rules: TermRules, inputs: Indices, degrees: range, top: int, size: int
) -> list[list[Monomial]]:
    """Return lists of monomials, best first, that one training set names."""
    pricers = [_pricer(rows, rules, inputs, degree) for degree in degrees]
    below = [_pricer(rows, rules, inputs, degree) for degree in range(1, degrees.start)]
    share = POOL // (len(degrees) + len(below))
    residual = rows.y if rules.constant else rows.y - rows.y_mean
    lists: list[list[Monomial]] = []
    joined: list[Monomial] = []
    for terms in (max(1, size // 4), size, 0):  # a third model brought no better ones
        new = [list(pricer.price(residual, top).monomials) for pricer in pricers]
        lists += new
        if terms:
            others = [list(pricer.price(residual, share).monomials) for pricer in below]
            joined += [m for ranked in (*new, *others) for m in ranked[:share]]
            _, (residual,) = _model(rows, rules, list(dict.fromkeys(joined)), terms)
    return lists


def few_named(
    table: PartedRows, plan: Plan, rules: TermRules, inputs: Indices
) -> Iterator[list[list[Monomial]]]:
    """Yield lists of monomials, best first, that each training set names for laws of few terms.

    The terms of the models come first.  Of a sample of the rows each split sees those that train.
    """
    n = len(table.rows)
    sample = np.arange(0, n, -(-n // FEW_ROWS))
    columns = rules.library.columns_of(inputs)
    leading = Leading(table.rows.X[sample], rules.degree, columns, rules.may_price)
    for train in plan.train:
        own = np.isin(sample, np.concatenate([table.parts[a] for a in train]))
        rows = table.rows.take(sample[own])
        leading.see(own)
        lists = leading.best(rows.weights * (rows.y - rows.y_mean), FEW_NAMED)
        starts = [ranked[:1] for ranked in lists[-FEW_STARTS:] if ranked]
        residuals = [_model(rows, rules, start, 1)[1][0] for start in starts]
        models: list[list[Monomial]] = []
        for terms in (*FEW, FEW[-1]):
            for residual in residuals:
                lists += leading.best(rows.weights * residual, FEW_NAMED)
            joined = dict.fromkeys(m for ranked in lists for m in ranked)
            model, residuals = _model(rows, rules, list(joined), terms, each=True)
            models.append(model)
        yield models + lists


def _pricer(rows: MemoryRows, rules: TermRules, inputs: Indices, degree: int) -> Pricer:
    """Return what prices the monomials of one degree."""
    return Pricer(
        rows.X,
        degree,
        lowest=degree,
        inputs=rules.library.columns_of(inputs),
        keep=rules.may_price,
        sample_weight=rows.sample_weight,
        fit_intercept=not rules.constant,
        arrays=rows.place.arrays(),
    )


def _model(
    rows: MemoryRows, rules: TermRules, joined: list[Monomial], terms: int, *, each: bool = False
) -> tuple[list[Monomial], list[Array]]:
    """Return a model of so many of some monomials, and its residual, or one without each term."""
    from polysharp.engines.local_search import improve

    basis = rules.basis_of(tuple(joined))
    moments = moments_of(rows, basis)
    G, q, yy = moments.normal_equations(centred=not rules.constant)
    structure = Structure.of_basis(basis, min(terms, len(basis)))
    problem = Problem.dense(G, q, yy, SHARE * moments.weight, structure)
    support = improve(problem, np.zeros(0, dtype=np.intp)).support
    kept = [np.delete(support, t) for t in range(len(support))] if each else [support]
    found = []
    for part in kept:
        left = rows.y - basis.select(part).evaluate(rows.X) @ problem.refit(part).w[0]
        mean = 0.0 if rules.constant else float(np.average(left, weights=rows.sample_weight))
        found.append(left - mean)
    return [basis.monomials[j] for j in support], found


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

    own = heads(bisect_right(range(1, room + 1), room, key=lambda t: len(set().union(*heads(t)))))
    joined = sorted(set().union(*own), key=lambda m: (len(m), m))
    basis = replace(listed, monomials=listed.monomials + tuple(joined))
    first = np.arange(len(listed))
    pools = [
        np.concatenate([first, np.array(sorted(basis.index[m] for m in mine), dtype=np.intp)])
        for mine in own
    ]
    return basis, pools
