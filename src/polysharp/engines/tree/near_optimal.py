"""The near-optimal search: every support that costs at most a factor more than the best one.

It is the same tree with another threshold and a sink for supports.  With c* the least cost and
T = (1 + within) c*, a node is closed when its bound reaches T; screening and propagation use T as
well.  Every support below T that a leaf finds goes into the support store, so that at every moment

    every support that is not in the store costs at least the bound of the run,

and when the bound has reached T, the store is complete.  Supports have exactly l terms: adding a
term never raises the cost, so that smaller ones would bring all their supersets with them.

When a better support than the best known is met, T falls with it; closed nodes stay closed.  T lies
above its definition by ROOM, so that a proof, whose claim is lowered by what rounding may take,
still covers all of it.  A support is stored unless it is *proved* to cost T or more, with T as it
is then: the store may hold some beyond the last T, and ``limit`` says where they begin.

A search may find millions of supports, some of them twice (by rounding a relaxation, and at a
leaf), and which of them are close enough is known only when it is over.  So all of them are kept,
in arrays of 2 l + 8 bytes each (4 l + 8 beyond 65,536 monomials), and those up to the limit are
read at the end.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from polysharp.certificate.proof import CLAIM_ROOM, Proof
from polysharp.certificate.solution import Counters, Stop
from polysharp.engines.base import Listener, Run
from polysharp.engines.tree import Tree
from polysharp.engines.tree.search_state import SupportSink
from polysharp.problem.problem import Fit, Problem
from polysharp.time_budget import TimeBudget
from polysharp.typing import Array, Indices

ROOM = 4.0 * CLAIM_ROOM
FRESH = 10_000  # supports at least that wait to be merged into the arrays of a store


class SupportStore:
    """Supports of ``size`` monomials out of ``monomials``."""

    def __init__(self, size: int, monomials: int) -> None:
        place = np.uint16 if monomials <= 1 << 16 else np.uint32
        self.size = size
        self._supports, self._costs = np.zeros((0, size), dtype=place), np.zeros(0)
        self._fresh = list[tuple[Indices, float]]()

    def add(self, support: Indices, cost: float) -> None:
        """Keep a sorted support, unless it is there."""
        self._fresh.append((support, cost))
        if len(self._fresh) >= max(FRESH, len(self._costs) // 2):
            self._merge()

    def count(self, limit: float = np.inf) -> int:
        """Return how many supports cost at most ``limit``."""
        self._merge()
        return int(np.count_nonzero(self._costs <= limit))

    def least(self) -> float:
        """Return the least cost; infinite if the store is empty."""
        self._merge()
        return float(self._costs.min(initial=np.inf))

    def cheapest(self, limit: float = np.inf) -> tuple[Indices, Array]:
        """Return the supports up to a limit, one in a row, and their costs.

        The cheapest come first, equal costs in the order of the supports.
        """
        self._merge()
        chosen = np.flatnonzero(self._costs <= limit)
        supports, costs = self._supports[chosen], self._costs[chosen]
        order = np.lexsort((*supports.T[::-1], costs))
        return supports[order], costs[order]

    def _merge(self) -> None:
        if not self._fresh:
            return
        supports, costs = zip(*self._fresh, strict=True)
        new = np.array(supports).reshape(len(costs), self.size)
        every = np.concatenate([self._supports, new.astype(self._supports.dtype)])
        # Keep one row of each: rows as single items, which NumPy sorts.
        first = np.zeros(1, dtype=np.intp)
        if self.size:
            row = np.dtype((np.void, every.dtype.itemsize * self.size))
            _, first = np.unique(every.view(row)[:, 0], return_index=True)
        self._supports, self._costs = every[first], np.append(self._costs, costs)[first]
        self._fresh.clear()


class NearOptimalRun(Run):
    """The record of a near-optimal search; its objective, which the bound has to reach, is T."""

    def __init__(
        self,
        problem: Problem,
        start: Indices,
        within: float,
        time: TimeBudget | None = None,
        listener: Listener | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        super().__init__(problem, time, 0.0, listener, seed, threads, start)
        self.factor = (1.0 + within) * (1.0 + ROOM)
        self.store = SupportStore(len(start), problem.size)
        self.keep(self.best)

    def offer_fit(self, fit: Fit) -> bool:
        """Take an allowed fit that costs less than T; return whether it is the best one."""
        low = fit.objective < self.objective
        return low and self.problem.structure.allows(fit.support) and self.keep(fit)

    def keep(self, fit: Fit) -> bool:
        """Store a fit; return whether it is the best one."""
        self.store.add(fit.support, fit.objective)
        return super().offer_fit(fit)


class StoringSink(SupportSink):
    """Stores every support that is not proved to cost T, and takes it out of the bound."""

    wants_all = True
    most_listed = 100_000

    def __init__(self, run: NearOptimalRun) -> None:
        super().__init__(run)
        self.store_in = run
        self._below = deque[Indices]()

    def take(self, support: Indices, cost: float) -> bool:
        """Take a support that costs at least ``cost``; return whether bounds need not cover it."""
        if cost >= self.run.threshold:
            return super().take(support, cost)
        self._below.append(support)
        return True

    def drain(self) -> None:
        """Store what was taken."""
        super().drain()
        while self._below:
            self.store_in.keep(self.run.problem.refit(self._below.popleft()))


@dataclass(frozen=True, eq=False)
class NearOptimal:
    """The result of a near-optimal search.

    The supports in the store up to ``limit`` are within the factor of the best one, and every other
    support costs at least ``bound``; if it is ``complete``, that is no less than the limit.
    """

    store: SupportStore
    limit: float
    bound: float
    complete: bool
    stop: Stop
    counters: Counters
    seconds: float
    proof: Proof | None  # of the bound, with the supports stored as its exceptions


def of_exact_size(problem: Problem, terms: int) -> Problem:
    """Return a problem with exactly this number of terms in place of at most l."""
    return replace(problem, structure=replace(problem.structure, max_terms=terms, exact_size=True))


def search_near_optimal(
    problem: Problem,
    start: Indices,
    within: float,
    *,
    time: TimeBudget | None = None,
    listener: Listener | None = None,
    seed: int = 0,
    threads: int = 1,
    engine: Tree,
    max_excepted: int,
) -> NearOptimal:
    """Find every support of the size of ``start`` that costs at most 1 + within times the best.

    The problem asks for exactly this number of terms.  A bound that does not move is no reason to
    stop: supports are found all the same.  A proof lists all of them once more; there is none if
    that would be more than ``max_excepted``.
    """
    engine = replace(engine, patience=np.inf)
    time = (time or TimeBudget()).share(1.0)
    engine.check(problem)  # which may compile, off the clock
    with np.errstate(all="ignore"):  # see ``Engine.solve``
        run = NearOptimalRun(problem, start, within, time.restarted(), listener, seed, threads)
        stop, sink = Stop.INTERRUPTED, StoringSink(run)
        with suppress(KeyboardInterrupt):
            stop = engine.search(run, sink)
        run.report("done", force=True)
    store, proof, facts = run.store, run.proof, run.facts
    limit = (1.0 + within) * store.least()
    stored = store.count()
    beyond = stored > store.count(limit)
    if proof is not None:
        every = store.cheapest()[0].tolist() if stored <= max_excepted else []
        proof = replace(proof, exceptions=tuple(map(tuple, every))) if every else None
    return NearOptimal(
        store,
        limit,
        min(run.bound, limit) if beyond else run.bound,
        run.proved,
        stop,
        facts["counters"],
        facts["seconds"],
        proof,
    )
