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
more: a few beyond T may be among those named, and the caller leaves them out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from polysharp.certificate.proof import CLAIM_ROOM, Proof
from polysharp.certificate.solution import Counters, Stop
from polysharp.engines.base import Limits, Listener, Run
from polysharp.engines.tree import Tree
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Array, Indices

ROOM = 4.0 * CLAIM_ROOM


class CensusRun(Run):
    """The record of a census; its objective, which the bound has to reach, is T."""

    names: ClassVar[bool] = True

    def __init__(
        self,
        problem: Problem,
        start: Indices,
        within: float,
        limits: Limits,
        listener: Listener | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        super().__init__(problem, replace(limits, gap_tol=0.0), listener, seed, threads, start)
        self.factor = 1.0 + within
        self.costs: dict[bytes, float] = {}  # of the supports named, which are the keys
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
        self.costs[fit.support.astype(np.int32).tobytes()] = fit.objective
        return super().offer_fit(fit)


@dataclass(frozen=True, eq=False)
class Census:
    """The supports named, cheapest first; whatever is not among them costs ``bound`` at least.

    ``complete`` says whether that is all there is within the factor of the best one.
    """

    supports: Indices  # one row each
    costs: Array
    bound: float
    complete: bool
    stop: Stop
    counters: Counters
    seconds: float
    proof: Proof | None  # its exceptions are the supports named


def of_exact_size(problem: Problem, terms: int) -> Problem:
    """Return a problem with exactly so many terms in place of at most l."""
    return replace(problem, structure=replace(problem.structure, max_terms=terms, exact_size=True))


def take_census(
    problem: Problem,
    start: Indices,
    within: float,
    *,
    limits: Limits,
    listener: Listener | None = None,
    seed: int = 0,
    threads: int = 1,
    engine: Tree,
) -> Census:
    """Name every support of the size of ``start`` that costs at most 1 + within times the best.

    The problem asks for exactly so many terms.  That the bound does not move is no reason to stop:
    supports are named all the same.
    """
    engine = replace(engine, patience=np.inf)
    engine.check(problem)
    with np.errstate(all="ignore"):  # see ``Engine.solve``
        run = CensusRun(problem, start, within, limits, listener, seed, threads)
        stop = Stop.INTERRUPTED
        with suppress(KeyboardInterrupt):
            stop = engine.search(run)
        run.report("done", force=True)
    count = len(run.costs)
    supports: Indices = np.frombuffer(b"".join(run.costs), dtype=np.int32).astype(np.intp)
    supports = supports.reshape(count, len(start))
    costs = np.fromiter(run.costs.values(), dtype=np.float64, count=count)
    order = np.lexsort((*supports.T[::-1], costs))
    facts, proof = run.facts, run.proof
    if proof is not None:
        proof = replace(proof, exceptions=tuple(map(tuple, supports[order].tolist())))
    return Census(
        supports[order],
        costs[order],
        run.bound,
        run.proved,
        stop,
        facts["counters"],
        facts["seconds"],
        proof,
    )
