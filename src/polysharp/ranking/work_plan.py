"""How much of the data a fit works on: which inputs, listed or priced, and which rows are ranked.

With n rows, f(p) monomials of p inputs and T seconds left, ``n_candidates="auto"`` takes the first
of these that fits:

    every input, listed      f(p) <= 8192, and the moments, n f^2 / 2 operations, in half of the
                             whole time limit, whatever is left of it
    every input, priced      five passes over all monomials, 5 n f operations, in T
    a triage, then listed    the largest p' with f(p') <= 8192; ranking and moments in T/2
    a triage, then priced    the ranking in T/4, the largest p' with 5 n f(p') operations in T/2
    a triage, then listed    where pricing is not possible; ranking and moments in T/4 each

On a GPU 20,000 take the place of 8192 where every input is listed.

Pricing takes engines that can do with it; it forms every product of columns, f of them unless
functions or rules leave some out.  A ranking that must be done in T/4 sees so many rows as fit.  An
operation is a multiply-add; how many a machine does in a second is measured by one product, unless
the first choice fits even at the rate of a slow machine: small fits make the same choice
everywhere.  What was estimated wrongly is noticed when the first blocks of rows are done
(``TimeBudget.callback``).

Without a limit every input is priced where that takes hours at most.  An integer or None for
``n_candidates`` is the user's own choice.  It is never changed; where it cannot be done in the time
there is, the estimate says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt
from time import perf_counter
from typing import Literal

import numpy as np

from polysharp.data.arrays import Place
from polysharp.errors import InfeasibleError
from polysharp.moments.gram import MAX_DENSE, MAX_DENSE_GPU
from polysharp.monomials.basis import count_monomials
from polysharp.monomials.term_rules import TermRules
from polysharp.ranking.ranking import KernelRows, prefers_moments

NCandidates = int | Literal["auto"] | None

PASSES = 5  # over all monomials: two find a model, some more prove something about it
SLOW_RATE = 2e9  # operations a second that any machine does
EFFECTIVE = 0.4  # of the rate of one large product, in ranking, moments and pricing
MOST_WORK = 1e14  # operations of the passes, where there is no time limit
POOL = 2000  # monomials that a priced search takes from its first pass
LISTED = 30  # operations per row for each of them: half as many again are listed, and recomputed


@dataclass(frozen=True)
class WorkPlan:
    """What a fit works on."""

    n_inputs: int  # p', those that are kept
    priced: bool  # whether monomials are priced, or listed
    kernel: KernelRows | None = None  # rows that are ranked; None for all of them
    pool: int = POOL  # monomials taken from the first pass, where they are priced
    seconds: float = 0.0  # estimated for the preparation; 0 where it was not worth an estimate
    timed: bool = False  # whether it was chosen for the time there is
    shortened: bool = False  # and is less than it would have been without a limit

    def smaller(self, rules: TermRules, seconds: float, left: float) -> WorkPlan:
        """Return fewer inputs where the moments of these, n f^2 / 2, would take some seconds."""
        most = rules.count(self.n_inputs) * sqrt(left / (4.0 * seconds))
        size = _most_inputs(rules, self.n_inputs - 1, most, rules.count)
        few = self.kernel or KernelRows(0, share=0.0)  # one block, where nothing is ranked yet
        # The least that can be done is done, however long it takes.
        timed = size < self.n_inputs
        return replace(self, n_inputs=size, kernel=few, shortened=True, timed=timed)


@dataclass(frozen=True)
class Machine:
    """Seconds left, and how fast the machine is, asked for only where it matters."""

    seconds: float
    rate: Callable[[], float]
    slow: float = SLOW_RATE
    listing: float = 0.0  # seconds of which the moments of every input may take half, if more

    def does(self, operations: float, share: float, seconds: float = 0.0) -> bool:
        """Whether operations fit into a share of the time."""
        room = share * max(self.seconds, seconds)
        return operations <= self.slow * room or operations <= self.rate() * room

    def room(self, share: float) -> float:
        """Operations that fit into a share of the time."""
        return self.rate() * share * self.seconds


@lru_cache
def product_rate(place: Place) -> float:
    """Measure how many multiply-adds of a fit a place does in a second."""
    arrays = place.arrays()
    rows, columns = (4096, 4096) if place.on_gpu else (256, 4096)
    table = arrays.array(np.ones((rows, columns)))
    weight = arrays.array(np.ones(columns))
    best = np.inf
    for _ in range(3):  # the first one wakes threads and devices
        began = perf_counter()
        arrays.numpy(arrays.correlate([(table, weight)], table))
        best = min(best, perf_counter() - began)
    return EFFECTIVE * rows * rows * columns / best


def plan_work(
    n_candidates: NCandidates,
    rules: TermRules,
    shape: tuple[int, int],
    *,
    prices: bool,
    machine: Machine | None = None,
    most: int = MAX_DENSE,
) -> WorkPlan:
    """Choose what a fit works on; ``shape`` are its rows, and its inputs that are not excluded.

    ``prices`` says whether the search can do with monomials that are priced, ``machine`` what time
    there is (None: no limit); up to ``most`` monomials all are listed rather than priced.
    """
    n, p = shape
    passes = passes_work(n, rules.swept(p), POOL)
    usual = triage_size(n_candidates, rules, p)
    if machine is None or n_candidates != "auto":
        every = n_candidates is None or (n_candidates == "auto" and passes <= MOST_WORK)
        priced = every and prices and rules.count(p) > most
        plan = WorkPlan(p if priced else usual, priced)
        return plan if machine is None else _estimated(plan, rules, shape, machine)
    listing = moments_work(n, rules.count(p))
    if rules.count(p) <= most and machine.does(listing, 1 / 2, machine.listing):
        return WorkPlan(p, False, timed=machine.does(listing, 1 / 2))
    # An eighth of the time is for multiplying the columns of the pool with each other.
    pool = POOL
    if not machine.does(float(POOL) ** 2 * n, 1 / 8):
        pool = max(100, int(sqrt(machine.room(1 / 8) / n)))
    if prices and machine.does(passes, 1.0):
        return WorkPlan(p, True, pool=pool)
    work = ranking_work(n, p, rules.degree, KernelRows())
    if usual < p and machine.does(work + moments_work(n, rules.count(usual)), 1 / 2):
        return WorkPlan(usual, False, timed=True)
    # Only some of the rows can be ranked, and fewer inputs be kept.
    most_listed = sqrt(2 * machine.room(1 / 4) / n)
    most_priced = machine.room(1 / 2) / (PASSES * n) - LISTED * pool
    listed = min(usual, _most_inputs(rules, p, most_listed, rules.count))
    priced_inputs = _most_inputs(rules, p, most_priced, rules.swept)
    kernel = _kernel_rows(n, p, rules.degree, machine.room(1 / 4))
    if prices and priced_inputs > listed:
        return WorkPlan(priced_inputs, True, kernel, pool, timed=True, shortened=True)
    return WorkPlan(listed, False, kernel, timed=True, shortened=True)


def _most_inputs(rules: TermRules, p: int, monomials: float, count: Callable[[int], int]) -> int:
    """Return how many of p inputs have at most so many monomials; the required ones always stay."""
    fitting = bisect_right(range(1, p + 1), monomials, key=count)
    return max(1, len(rules.required_inputs), fitting)


def _estimated(
    plan: WorkPlan, rules: TermRules, shape: tuple[int, int], machine: Machine
) -> WorkPlan:
    """Return the user's choice with the seconds that its preparation takes."""
    n, p = shape
    f = rules.count(plan.n_inputs)
    listed = moments_work(n, f if f <= MAX_DENSE_GPU else MAX_DENSE)
    work = n * float(rules.swept(p)) if plan.priced else listed
    if plan.n_inputs < p:
        work += ranking_work(n, p, rules.degree, KernelRows())
    return plan if machine.does(work, 1.0) else replace(plan, seconds=work / machine.rate())


def moments_work(n: int, f: int) -> float:
    """Count the operations of the moments of f monomials."""
    return 0.5 * n * float(f) ** 2


def passes_work(n: int, f: int, pool: int) -> float:
    """Count the operations of the passes over f monomials, of which some are listed."""
    return PASSES * n * float(f + LISTED * pool)


def ranking_work(n: int, p: int, degree: int, kernel: KernelRows) -> float:
    """Count the operations of a ranking: per block a Cholesky factor and r products."""
    if n > kernel.whole or prefers_moments(n, p, degree):
        f = count_monomials(p, degree)
        if f <= MAX_DENSE and kernel.whole:
            return moments_work(n, f)
    block = min(n, kernel.whole if n <= kernel.whole else kernel.block)
    return kernel.share * n * block * (block / 6 + degree * p)


def _kernel_rows(n: int, p: int, degree: int, room: float) -> KernelRows:
    """Return how many rows a ranking of so many operations sees, in blocks as large as may be."""
    work = {block: block**2 * (block / 6 + degree * p) for block in (2048, 1024, 512, 256)}
    block = next((block for block, one in work.items() if one <= room), 256)
    blocks = max(1, ceil(n / block))
    return KernelRows(0, block, min(1.0, max(1, int(room / work[block])) / blocks))


def triage_size(n_candidates: NCandidates, rules: TermRules, p: int) -> int:
    """Return p', how many of the p inputs that are not excluded stay where time is no matter."""
    required = len(rules.required_inputs)
    if n_candidates is None:
        return p
    if n_candidates == "auto":
        return _most_inputs(rules, p, MAX_DENSE, rules.count)
    if n_candidates < required:
        raise InfeasibleError(
            f"n_candidates must be at least the number of inputs in include_terms and "
            f"include_inputs ({required}), got {n_candidates}"
        )
    return min(int(n_candidates), p)
