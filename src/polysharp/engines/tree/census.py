"""A census: every support that costs at most a factor more than the best one.

The same tree, asked another question.  With c* the least cost and T = (1 + within) c*, a node is
closed when its bound reaches T; screening and propagation use T as well.  A support that stays
below T is named where the tree ends, so that at every moment

    whatever has not been named costs at least the bound of the run,

and when the bound has reached T, the census is complete.  Supports have exactly l terms: adding a
term never raises the cost, so that smaller ones would bring all their supersets with them.

Where a better support than the best known is met, T falls with it; what was closed before stays
closed.  T lies above its definition by ROOM, so that a proof, whose claim is lowered by what
rounding may take, still covers all of it.  A support is named unless it is *proved* to cost T or
more, with T as it is then: some beyond the last T may be among those named, and ``limit`` says
where they begin.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from polysharp.certificate.proof import CLAIM_ROOM, Proof
from polysharp.certificate.solution import Counters, Stop
from polysharp.engines.base import Listener, Run
from polysharp.engines.tree import Tree
from polysharp.engines.tree.ledger import Ledger
from polysharp.problem.problem import Fit, Problem
from polysharp.time_budget import TimeBudget
from polysharp.typing import Indices

ROOM = 4.0 * CLAIM_ROOM


class CensusRun(Run):
    """The record of a census; its objective, which the bound has to reach, is T."""

    names: ClassVar[bool] = True

    def __init__(
        self,
        problem: Problem,
        start: Indices,
        within: float,
        ledger: Ledger,
        time: TimeBudget | None = None,
        listener: Listener | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        super().__init__(problem, time, 0.0, listener, seed, threads, start)
        self.factor = 1.0 + within
        self.ledger = ledger
        self._enter(self.best)

    @property
    def objective(self) -> float:
        """T: what a support that is not named must be proved to cost."""
        return self.best.objective * self.factor * (1.0 + ROOM)

    def name(self, support: Indices) -> None:
        """Take a support that is not proved to cost T."""
        self._enter(self.problem.refit(support))

    def offer_fit(self, fit: Fit) -> bool:
        """Take an allowed fit that costs less than T; return whether it is the best one."""
        low = fit.objective < self.objective
        return low and self.problem.structure.allows(fit.support) and self._enter(fit)

    def _enter(self, fit: Fit) -> bool:
        self.ledger.add(fit.support, fit.objective)
        return super().offer_fit(fit)


@dataclass(frozen=True, eq=False)
class Census:
    """What is known when a census is over; the supports named are in its ledger.

    Those up to ``limit`` are within the factor of the best one, and whatever is not among them
    costs ``bound`` at least; where it is ``complete``, that is no less than the limit.
    """

    limit: float
    bound: float
    complete: bool
    stop: Stop
    counters: Counters
    seconds: float
    proof: Proof | None  # of the bound, with the supports named as its exceptions


def of_exact_size(problem: Problem, terms: int) -> Problem:
    """Return a problem with exactly so many terms in place of at most l."""
    return replace(problem, structure=replace(problem.structure, max_terms=terms, exact_size=True))


def take_census(
    problem: Problem,
    start: Indices,
    within: float,
    ledger: Ledger,
    *,
    time: TimeBudget | None = None,
    listener: Listener | None = None,
    seed: int = 0,
    threads: int = 1,
    engine: Tree,
    max_excepted: int,
) -> Census:
    """Name every support of the size of ``start`` that costs at most 1 + within times the best.

    They are entered in the ledger.  The problem asks for exactly so many terms.  That the bound
    does not move is no reason to stop: supports are named all the same.  A proof names all of them
    once more, and there is none where that would be more than ``max_excepted``.
    """
    engine = replace(engine, patience=np.inf)
    time = (time or TimeBudget()).share(1.0)
    engine.check(problem)  # which may compile, off the clock
    with np.errstate(all="ignore"):  # see ``Engine.solve``
        run = CensusRun(problem, start, within, ledger, time.restarted(), listener, seed, threads)
        stop = Stop.INTERRUPTED
        with suppress(KeyboardInterrupt):
            stop = engine.search(run)
        run.report("done", force=True)
    [(_, least)] = ledger.blocks(most=1)
    limit = (1.0 + within) * float(least[0])
    named = ledger.count()
    beyond = named > ledger.count(limit)
    facts, proof = run.facts, run.proof
    if proof is not None:
        every = ledger.blocks() if named <= max_excepted else ()
        exceptions = tuple(tuple(S) for supports, _ in every for S in supports.tolist())
        proof = replace(proof, exceptions=exceptions) if exceptions else None
    return Census(
        limit,
        min(run.bound, limit) if beyond else run.bound,
        run.proved,
        stop,
        facts["counters"],
        facts["seconds"],
        proof,
    )
