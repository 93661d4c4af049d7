"""Searches for a good support of one size, and local search as an engine.

    forward    add the best entrant until the budget is spent;
    improve    add and swap until neither lowers c, and move several monomials where rules bind;
    restarts   walk away from local optima.  A walk exchanges the cheapest member for the best
               entrant, even when c rises; a monomial that has just left (or joined) may not come
               back (or leave) for a few steps, unless that beats the best support known.  A walk
               that has not improved for a while starts again from a random part of the best.

The walk is what finds the planted law below n = 200 (p = 25, r = 3, l = 20), where forward
selection and swaps end at several times its objective.  Every support returned is allowed by the
structure, and every objective is recomputed by ``Problem.refit``.  As an engine, local search gives
a good model at once, and no proof beyond the bound that ``certify`` derives from its residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.local_search.boxed_rows import (
    forward_boxed,
    has_boxed_rows,
    improve_boxed,
)
from polysharp.engines.local_search.moves import add_families, settle
from polysharp.engines.local_search.swap_state import SwapState, never
from polysharp.engines.local_search.tableau import REFRESH, SwapTask, TabuTask
from polysharp.moments.gram import DesignGram
from polysharp.monomials.structure import Structure
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Indices

STALL = 400  # steps of a walk without improvement before it starts again: twice is hardly better
TENURE = 10  # steps for which a monomial that left stays out, plus up to as many at random
SETTLING = 6  # at most so many steps for which a monomial that joined stays in


def smallest_support(problem: Problem) -> Indices:
    """Return the smallest support that meets the rules, of largest correlations among equals."""
    structure = problem.structure
    if not len(structure.required_terms) and not len(structure.required_inputs):
        return np.zeros(0, dtype=np.intp)
    share = (problem.norms / np.sqrt(problem.gram.diagonal + problem.lam)) ** 2
    return structure.best_linear(0.5 * share / (1.0 + share.sum()) - 1.0)


def forward(problem: Problem) -> Fit:
    """Add the best entrant to the smallest support that meets the rules, until none is left."""
    structure, start = problem.structure, smallest_support(problem)
    if has_boxed_rows(problem):
        return forward_boxed(problem, start)
    model = SwapState(problem, structure.max_terms, start)
    task = SwapTask(structure.max_terms, structure.max_terms, np.inf, 0.0)
    while not model.fill_and_swap(task):
        pass
    if structure.heredity is not None:
        add_families(model, structure.max_terms)
    return problem.refit(model.support)


def improve(problem: Problem, support: Indices, *, out_of_time: Callable[[], bool] = never) -> Fit:
    """Fill the budget from an allowed support and move to a local optimum."""
    if has_boxed_rows(problem):
        return improve_boxed(problem, support, out_of_time)
    model = SwapState(problem, problem.structure.max_terms, support, out_of_time)
    settle(model, model.slots)
    return problem.refit(model.support)


def restarts(
    problem: Problem,
    support: Indices,
    rng: np.random.Generator,
    rounds: int,
    *,
    out_of_time: Callable[[], bool] = never,
    on_walk: Callable[[Fit], object] | None = None,
) -> Fit:
    """Walk from a support, then from random parts of the best one; return the best fit met.

    Ends after ``rounds`` walks in a row without improvement.  ``on_walk`` is called after each
    walk with the best fit so far.
    """
    best, idle = problem.refit(support), 0
    if has_boxed_rows(problem):
        return best
    model = SwapState(problem, problem.structure.max_terms, support, out_of_time)
    while idle < rounds and not out_of_time():
        fit = _walk(model, rng, best)
        better = fit.objective < best.objective - problem.resolution
        best, idle = (fit, 0) if better else (best, idle + 1)
        if on_walk is not None:
            on_walk(best)
        model.load(_thinned(problem.structure, best.support, rng))
        settle(model, model.slots)
    return best


def _walk(model: SwapState, rng: np.random.Generator, best: Fit) -> Fit:
    """Walk from the model's support until ``STALL`` steps bring nothing; return the best met."""
    problem = model.problem
    resolution, spare = problem.resolution, problem.size - model.slots
    patience = min(STALL, spare * model.slots)
    until = np.zeros(problem.size, dtype=np.int64)
    step = last = 0
    if model.objective < best.objective - resolution:
        best = problem.refit(model.support)
    while step - last < patience and not model.out_of_time():
        n = min(REFRESH, patience - (step - last))
        tenure = np.minimum(TENURE + rng.integers(TENURE + 1, size=n), spare // 2)
        draws = np.stack([tenure, rng.integers(SETTLING, size=n)], axis=1)
        made, stuck = model.walk(TabuTask(step, best.objective - resolution, draws, until))
        step += made
        if model.objective < best.objective - resolution:
            fit = problem.refit(model.support)
            if fit.objective < best.objective - resolution:
                best, last = fit, step
            else:
                model.refresh()
        elif model.moves >= REFRESH:
            model.refresh()
        if stuck:
            break
    return best


def _thinned(structure: Structure, support: Indices, rng: np.random.Generator) -> Indices:
    """Return a random part of a support, of random size, that the rules allow."""
    keep = rng.random()
    rest = support
    for j in rng.permutation(support):
        fewer = rest[rest != j]
        if rng.random() > keep and structure.allows(fewer):
            rest = fewer
    return rest


@dataclass(frozen=True)
class LocalSearch(Engine):
    """Forward selection, swaps and restarted walks.

    Parameters
    ----------
    patience : int
        Walks in a row without improvement before the search ends.
    """

    name: ClassVar[str] = "local-search"
    proves: ClassVar[bool] = False
    needs_start: ClassVar[bool] = False
    patience: int = 20

    def search(self, run: Run) -> Stop:
        """Descend from the start and from forward selection, then walk from the better one."""
        problem, rng = run.problem, np.random.default_rng(run.seed)
        if isinstance(problem.gram, DesignGram):
            problem.gram.matrix(1.0)  # walks read nearly all of G
        clock = {"out_of_time": lambda: run.expired}
        for start in (run.best.support, forward(problem).support):
            run.offer_fit(improve(problem, start, **clock))
        run.raise_bound(problem.dual_bound(run.best))

        def on_walk(fit: Fit) -> None:
            run.rounds += 1
            if run.offer_fit(fit):
                run.raise_bound(problem.dual_bound(fit))
            run.report("walking")

        restarts(problem, run.best.support, rng, self.patience, on_walk=on_walk, **clock)
        return Stop.TIME if run.expired else Stop.LOCAL
