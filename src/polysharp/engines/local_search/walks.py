"""Searches for good supports of one size and of every size, and local search as an engine.

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

``every_size`` is what a search over budgets runs thousands of times, without any proof:

    up      to the support of l - 1 monomials add the best entrant, then take the best swap until
            none lowers c;
    back    the support of l + 1 without its cheapest member takes the place of that of l where it
            is better: the way up had missed two terms that only together beat a third.

Where at most k inputs may be used, the support of the same size with more inputs gives up those it
misses least, is improved, and competes with the one grown from l - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.local_search.moves import (
    add_families,
    cheapest,
    grown_boxed,
    has_boxed_rows,
    narrowed,
    settle,
    swapped_boxed,
)
from polysharp.engines.local_search.swap_state import KEEP_NONE, SwapState, never
from polysharp.engines.local_search.tableau import REFRESH, BestBySize, SwapTask, TabuTask
from polysharp.errors import InfeasibleError
from polysharp.moments.gram import DesignGram
from polysharp.monomials.structure import Structure
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Indices

STALL = 400  # steps of a walk without improvement before it starts again: twice is hardly better
TENURE = 10  # steps for which a monomial that left stays out, plus up to as many at random
SETTLING = 6  # at most so many steps for which a monomial that joined stays in
LEAST_GAIN = 1e-9  # a swap must lower c by this share of it: less is no better on new rows
CHEAPEST = 3  # terms of a boxed support of each size that a swap may replace

Clock = Callable[[], bool]  # says whether time is up


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
        first = problem.refit(start)
        return [first, *grown_boxed(problem, first)][-1]
    model = SwapState(problem, structure.max_terms, start)
    task = SwapTask(structure.max_terms, structure.max_terms, np.inf, 0.0)
    while not model.fill_and_swap(task):
        pass
    if structure.heredity is not None:
        add_families(model, structure.max_terms)
    return problem.refit(model.support)


def improve(problem: Problem, support: Indices, *, out_of_time: Clock = never) -> Fit:
    """Fill the budget from an allowed support and move to a local optimum."""
    if has_boxed_rows(problem):
        best = problem.refit(support)
        if not out_of_time():
            best = [best, *grown_boxed(problem, best)][-1]
        return swapped_boxed(problem, best, len(best.support), 0.0, out_of_time)
    model = SwapState(problem, problem.structure.max_terms, support, out_of_time)
    settle(model, model.slots)
    return problem.refit(model.support)


def restarts(
    problem: Problem,
    support: Indices,
    rng: np.random.Generator,
    rounds: int,
    *,
    out_of_time: Clock = never,
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
        fit = (
            problem.refit(model.support) if model.objective < best.objective - resolution else None
        )
        if fit is not None and fit.objective < best.objective - resolution:
            best, last = fit, step
        elif fit is not None or model.moves >= REFRESH:
            model.load(model.support)
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


def every_size(
    problem: Problem, *, wider: Sequence[Indices] = (), out_of_time: Clock = never
) -> list[Indices]:
    """Return a support for each size from 1 to ``max_terms``; empty ones where none is allowed.

    ``wider`` holds the supports of the same sizes with more inputs allowed.  If time runs out there
    are fewer supports.
    """
    structure, most = problem.structure, problem.structure.max_terms
    try:
        start = smallest_support(problem)
    except InfeasibleError:
        return [np.zeros(0, dtype=np.intp)] * most
    if has_boxed_rows(problem):
        return _every_boxed_size(problem, start, out_of_time)
    first = max(1, len(start))
    state, kept = SwapState(problem, most, start, out_of_time), BestBySize.blank(most, most)
    if structure.plain and not wider:
        _swap_through(state, kept, first, most)
    else:
        for size in range(first, most + 1):
            if not structure.plain:
                settle(state, size)
            _swap_through(state, kept, size, size)
            if state.out_of_time():
                break
            if size <= len(wider):
                _narrow(state, kept, size, wider[size - 1])
    done = first - 1 + int(np.isfinite(kept.value).sum())  # fewer where time ran out
    for size in range(done - 1, first - 1, -1):
        _shorten(state, kept, size)
    return [row[row >= 0].astype(np.intp) for row in kept.members[:done]]


def _swap_through(
    state: SwapState, kept: BestBySize, first: int, last: int, drop: int = -1
) -> None:
    """Fill up and swap until no swap gains more than new rows could tell, at every size."""
    best, task = np.inf, SwapTask(first, last, state.problem.resolution, LEAST_GAIN, drop)
    while not state.fill_and_swap(task, kept) and not state.out_of_time():
        if state.progress == task.first and state.objective >= best:
            task = task._replace(needed=np.inf)  # rounding goes round in a circle
        best, task = state.objective, task._replace(first=state.progress, drop=-1)


def _narrow(state: SwapState, kept: BestBySize, size: int, wide: Indices) -> None:
    """Keep a support that uses more inputs without some of them, if that is better."""
    structure, own, value = state.problem.structure, state.support, state.objective
    rest = narrowed(state, wide)
    if structure.plain or structure.allows(rest):
        state.load(rest)
        _swap_through(state, KEEP_NONE, size, size)
        if state.objective < value:
            _swap_through(state, kept, size, size)
            return
    state.load(own)


def _shorten(state: SwapState, kept: BestBySize, size: int) -> None:
    """Keep the support of one more member without its cheapest, if that is better."""
    longer, value = kept.members[size], kept.value[size - 1]
    if kept.without[size] >= value or longer[size] < 0:  # the rules may ask for even more
        return
    if not np.array_equal(longer[: size + 1], state.support):
        state.load(longer[: size + 1])
    slot = cheapest(state)
    if slot is not None and kept.value[size] + state.costs()[slot] < value:
        _swap_through(state, kept, size, size, drop=slot)


def _every_boxed_size(problem: Problem, start: Indices, out_of_time: Clock) -> list[Indices]:
    """Return a support for each size, grown from the one before; fewer where time runs out."""
    best, most = problem.refit(start), problem.structure.max_terms
    found = [np.zeros(0, dtype=np.intp)] * max(0, len(start) - 1)
    for size in range(max(1, len(start)), most + 1):
        if len(best.support) < size:
            grown = next(grown_boxed(problem, best, always=True), None)
            if grown is None:
                return found + [best.support] * (most - len(found))
            best = grown
        best = swapped_boxed(problem, best, CHEAPEST, LEAST_GAIN, out_of_time)
        found.append(best.support)
        if out_of_time():
            break
    return found


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
