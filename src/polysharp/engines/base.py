"""One interface for all engines, and the record a running search writes to.

An engine is a frozen settings object with one method, ``search(run)``.  Everything it learns
goes into the ``Run``: supports through ``offer``, lower bounds through ``raise_bound``.  So the
run holds an honest answer at every moment, and a time limit or Ctrl-C needs no special care:
``solve`` certifies whatever the run holds when the search ends, however it ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.proof import Proof
from polysharp.certificate.solution import Counters, Scope, Solution, Stop, certify
from polysharp.engines import make_engine
from polysharp.errors import InputError, TooLargeError, load_optional
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Event, relative_gap
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Indices

Listener = Callable[[Event], None]


GAP_TOL = 1e-4
START_SHARE = 0.25  # of the time, that a local search before the engine may take


class Run:
    """The record of a search: problem, incumbent, bound, counters, clock and events."""

    def __init__(
        self,
        problem: Problem,
        time: TimeBudget | None = None,
        gap_tol: float = GAP_TOL,
        listener: Listener | None = None,
        seed: int = 0,
        threads: int = 1,
        start: Indices | None = None,
        device: Any = None,
    ) -> None:
        self.problem, self.time = problem, TimeBudget() if time is None else time
        self.gap_tol, self.listener = gap_tol, listener
        self.seed, self.threads, self.device = seed, threads, device
        self.factor = 1.0  # of the incumbent's cost, that bounds have to reach
        self.bound = 0.0
        self.proof: Proof | None = None
        self.nodes = self.cuts = self.rounds = 0
        self._trace: list[Event] = []
        self._started = self.time.clock()
        self._reported = -np.inf
        self.best: Fit = problem.refit(first_support(problem) if start is None else start)

    @property
    def objective(self) -> float:
        """What bounds have to reach: the cost of the incumbent, or a multiple of it."""
        return self.best.objective * self.factor

    @property
    def gap(self) -> float:
        """Relative gap now."""
        return relative_gap(self.objective, self.bound)

    @property
    def proved(self) -> bool:
        """Whether the gap tolerance is reached."""
        return self.gap <= self.gap_tol

    @property
    def threshold(self) -> float:
        """A part of the search space with this bound needs no further search."""
        return self.objective * (1.0 - 0.99 * self.gap_tol)

    @property
    def seconds(self) -> float:
        """Time since the search began."""
        return self.time.clock() - self._started

    @property
    def time_left(self) -> float:
        """Seconds until the search has to end, infinite without a limit."""
        return self.time.remaining(self.gap)

    @property
    def expired(self) -> bool:
        """Whether the time is over."""
        return self.time_left <= 0.0

    def check_time(self) -> None:
        """End the work in hand when the time is over."""
        if self.expired:
            raise OutOfTime

    def raise_bound(self, bound: float) -> None:
        """Record a proven lower bound."""
        self.bound = max(self.bound, bound)

    @property
    def facts(self) -> dict[str, Any]:
        """What a solution says about the search: tolerance, work, time, events."""
        return {
            "gap_tol": self.gap_tol,
            "counters": Counters(nodes=self.nodes, cuts=self.cuts, rounds=self.rounds),
            "seconds": self.seconds,
            "trace": tuple(self._trace),
        }

    def report(self, phase: str, *, force: bool = False) -> None:
        """Emit an event, at most ten a second unless forced."""
        now = self.seconds
        if not force and now - self._reported < 0.1:
            return
        self._reported = now
        event = Event(phase, self.objective, self.bound, self.nodes, self.cuts, self.rounds, now)
        self._trace.append(event)
        if self.listener is not None:
            self.listener(event)

    def offer(self, support: Indices) -> bool:
        """Make a support the incumbent if it is allowed and better; return whether it was."""
        if not self.problem.structure.allows(support):
            return False
        return self.offer_fit(self.problem.refit(support))

    def offer_fit(self, fit: Fit) -> bool:
        """Make an allowed fit the incumbent if it is better; return whether it was."""
        if fit.objective >= self.best.objective - self.problem.resolution:
            return False
        self.best = fit
        self.report("incumbent", force=True)
        return True


def first_support(problem: Problem) -> Indices:
    """Return the support a search begins with: empty, or what the rules ask for."""
    if problem.structure.plain:
        return np.zeros(0, dtype=np.intp)
    peak = float(problem.norms.max(initial=0.0)) or 1.0
    return problem.structure.best_linear((problem.norms / peak) ** 2)


class Engine(ABC):
    """A search method; subclasses are frozen dataclasses of settings, with traits of the class."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()  # what it needs beyond the required ones,
    extra: ClassVar[str] = "solvers"  # and the extra that brings them
    proves: ClassVar[bool] = True  # whether more time closes the gap
    needs_start: ClassVar[bool] = True  # whether it is given the local search's model to begin with
    prices: ClassVar[bool] = True  # whether it can finish a search in which monomials are priced
    largest: float = np.inf  # monomials whose Gram matrix it holds: of 25,000 that takes 5 GB

    @abstractmethod
    def search(self, run: Run) -> Stop:
        """Improve ``run.best`` and ``run.bound`` until done; say why it ended."""

    def check(self, problem: Problem) -> None:
        """Raise a user error if a package is missing or the problem is not one for the engine."""
        for package in self.packages:
            load_optional(package, f"engine={self.name!r}", self.extra)
        if problem.size > self.largest:
            raise TooLargeError(
                f"engine={self.name!r} holds the Gram matrix of at most {self.largest:,} "
                f"monomials, and this problem has {problem.size:,}; lower degree or n_candidates"
            )

    def solve(
        self,
        problem: Problem,
        *,
        start: Indices | None = None,
        time: TimeBudget | None = None,
        gap_tol: float = GAP_TOL,
        listener: Listener | None = None,
        seed: int = 0,
        threads: int = 1,
        scope: Scope = "all-inputs",
        device: Any = None,
    ) -> Solution:
        """Search and certify; ``start`` is an allowed support to begin from.

        ``device`` is a PyTorch device that may help with the search, None without one.
        """
        time = (time or TimeBudget()).share(1.0)
        self.check(problem)  # which may compile, off the clock
        if start is not None:
            start = np.asarray(start, dtype=np.intp)
            if not problem.structure.allows(start):
                raise InputError(f"start must satisfy the budgets and rules, got {start.tolist()}")
        # Numbers that overflow end as "no bound" or "no better", never as an answer.
        with np.errstate(all="ignore"):
            time = time.restarted()
            run = Run(problem, time, gap_tol, listener, seed, threads, start, device)
            stop = Stop.INTERRUPTED
            with suppress(KeyboardInterrupt):
                stop = self.search(run)
            run.report("done", force=True)
            facts = {"stop": stop, "scope": scope, **run.facts}
            best, bound = run.best.support, run.bound
            return certify(problem, best, bound, engine=self.name, proof=run.proof, **facts)


def search(
    engine: Engine, problem: Problem, time: TimeBudget, start: Indices | None = None, **options: Any
) -> Solution:
    """Solve with the engine, from a local-search start if the engine has none of its own.

    A good incumbent is what lets a proof cut branches away; finding one takes a small part of the
    time, so it gets at most a quarter of it.  ``start`` is an allowed support to begin with;
    ``options`` are those of ``Engine.solve``.
    """
    time = time.share(1.0)
    engine.check(problem)  # which may compile, off the clock
    time = time.restarted()
    first = None
    if engine.needs_start:
        finder = make_engine("local-search")
        first = finder.solve(problem, start=start, time=time.share(START_SHARE), **options)
        if first.stop is Stop.INTERRUPTED:
            return first
        start = np.array(first.support, dtype=np.intp)
    started = time.spent()
    try:
        solution = engine.solve(problem, start=start, time=time, **options)
    except KeyboardInterrupt:  # before the engine had a model of its own
        if first is None:
            raise
        return replace(first, stop=Stop.INTERRUPTED)
    return replace(solution, times={"start": started, "search": solution.seconds})
