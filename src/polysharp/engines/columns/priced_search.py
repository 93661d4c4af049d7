"""Search over every monomial of every input, with columns generated on demand.

    find     price the residual, take the best monomials into the pool, improve the model on the
             pool, and again with its residual, until neither brings anything new;
    prove    branch and price (``branching``): every bound comes from a vector that was
             priced against all f monomials, so it holds over all of them at any moment.

Neither forms the n x f matrix: a pass over all monomials is a sequence of matrix products
(``pricing``), and only the pool's monomials ever become columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from polysharp.certificate.solution import Solution, Stop, certify
from polysharp.engines.columns.dual_point import DualPoint
from polysharp.engines.columns.priced_branching import PricedKind, prove
from polysharp.engines.columns.priced_nodes import few_survivors, raise_bound
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.monomials.basis import Basis
from polysharp.pricing.design import Pool
from polysharp.problem.assemble import Assembled
from polysharp.time_budget import OutOfTime
from polysharp.typing import Monomial


@dataclass(frozen=True, eq=False)
class Found:
    """The answer: a certified solution over a basis of the monomials it uses."""

    solution: Solution
    basis: Basis
    assembled: Assembled


def search_all_inputs(search: PricedRun) -> Found:
    """Find a model and prove as much about it as the limits allow."""
    stop = Stop.LOCAL
    with np.errstate(all="ignore"):  # see ``Engine.solve``
        try:
            try:
                find(search)
            except OutOfTime:
                stop = Stop.TIME
            if search.engine.proves and search.dual is not None:
                stop = prove(search, search.dual)  # which says at once that time is up
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        return _found(search, stop)


def find(search: PricedRun) -> DualPoint:
    """Price the residual and improve on the pool until neither brings anything new.

    Returns the last residual that was priced.
    """
    search.improve(search.best.monomials)
    wanted = search.sizes.first
    w: dict[Monomial, float] = {}  # the first residual is y itself
    while True:
        search.check_time()
        dual = search.price(w)
        inside = frozenset(search.rules.include_terms)
        free = search.rules.max_terms - len(inside)
        proved = dual.bounded(inside, free, lambda _: True).bound
        if search.dual is None or proved > search.bound:
            search.dual = dual
        search.raise_bound(min(proved, search.objective))
        if search.proved:
            return dual
        search.extend(list(dual.prices)[:wanted])
        wanted = search.sizes.added
        better = search.improve(search.best.monomials)
        if w and not better and not search.improve(search.best.monomials, walk=True):
            return dual
        w = search.best.coefficients


def _found(search: PricedRun, stop: Stop) -> Found:
    """Certify the incumbent with the bound over all monomials."""
    monomials = sorted(search.best.monomials, key=lambda m: (len(m), m))
    pool = Pool(search.design, monomials)
    rules = replace(search.rules, max_terms=max(1, len(monomials)))
    problem, basis = search.problem_on(pool, rules)
    search.report("done", force=True)
    solution = certify(
        problem,
        np.arange(len(monomials)),
        search.bound,
        engine=search.engine.name,
        proof=search.proof,
        whole=False,
        stop=Stop.PROVED if search.proved else stop,
        max_terms=search.rules.max_terms,
        max_inputs=search.rules.max_inputs,
        **search.facts,
    )
    return Found(solution, basis, Assembled(problem, pool.mean, np.array([search.design.y_mean])))


@dataclass(frozen=True, eq=False)
class NearOptimalPool:
    """A problem over few monomials; supports with any other one cost ``others`` at least."""

    assembled: Assembled
    basis: Basis
    others: float


def near_optimal_pool(
    search: PricedRun, start: Iterable[Monomial], factor: float
) -> NearOptimalPool:
    """Find the monomials that supports within a factor of the best one may have.

    With T = ``factor`` times the best cost known, a dual point that was priced against all
    monomials shows of all but a few that no support with them costs less than T.  Where it leaves
    too many, the pool takes their place, and the point's own bound is all that is proved of the
    others.
    """
    search.factor, search.gap_tol = factor, 0.0
    start, others = list(start), 0.0
    kept: Iterable[Monomial] = ()
    with suppress(OutOfTime), np.errstate(all="ignore"):
        search.improve(start)
        node = PricedKind(search, find(search)).root()
        raise_bound(search, node)
        left = few_survivors(search, node)
        kept, others = search.pool.monomials, node.bound
        if left is not None:
            kept, others = [*node.terms_in, *left[0]], left[1]
    pool = Pool(search.design, search.rules.with_parents([*start, *kept]))
    problem, basis = search.problem_on(pool, search.rules)
    mean = pool.mean[[pool.index[m] for m in basis.monomials]]
    assembled = Assembled(problem, mean, np.array([search.design.y_mean]))
    return NearOptimalPool(assembled, basis, others)
