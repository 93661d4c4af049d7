"""The cost model: what bounders and branching take, learnt from what they have taken so far.

Guesses are for one core.  Second-order steps grow with the cube of the monomials, leaf enumeration
with the number of supports: each bounder counts its own operations, and a ``Rate`` says how long
one of them takes here.

Whether to branch on a node or to strengthen its bound first is decided by the branching so far.
Let branching take t seconds and leave g children open, which fall short of the threshold by less
than their parent did, by b on average.  A node that falls short by s then takes about

    T(s) = t exp(kappa s),    kappa = log(g) / b,

seconds until it is closed.  A pairwise shift that brings s down to s' in c seconds is worth it if
``worth`` times c is less than T(s) - T(s'), neither more than the time that is left.  It is worth
it as well if branching for as long would raise the bound of the node by less, which is by
log(1 + (g - 1) worth c/t) / kappa.  The first node is strengthened in any case, as long as that
brings something: nothing is known of branching then, and all nodes inherit what it gains.
Distances from the threshold are measured in shares of the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, log1p

LEAST_MEASURED = 1e-3  # seconds: start-up dominates shorter runs
MEMORY = 0.95  # weight of the past against the last branching
LEAST_GROWTH = 1.2  # children left open by branching, at least
FIRST_SHARE = 0.06  # of what is missing: the first shift has to bring at least as much
FIRST_GAIN = 0.5  # share of what is missing that a shift brings, as a first guess
LEARN = 0.2  # weight of the last shift against those before it
LARGEST = 60.0  # exponent
TINY = 1e-12  # in place of a divisor of zero


@dataclass(eq=False)
class Rate:
    """Seconds per operation, a running mean of what was measured, from a first guess."""

    seconds: float
    memory: float = 0.9  # weight of the past
    least: float = LEAST_MEASURED  # seconds of a run that counts

    def note(self, operations: float, seconds: float) -> None:
        """Learn from a run."""
        if seconds > self.least and operations > 0.0:
            self.seconds = self.mean(self.seconds, seconds / operations)

    def mean(self, known: float, new: float) -> float:
        """Return a running mean with the memory of this rate."""
        return self.memory * known + (1.0 - self.memory) * new


def diagonal_step(free: int) -> float:
    """Return a guess of the seconds of one step of the best diagonal's method."""
    return 3e-4 + 4e-10 * free**3


def pairwise_search(free: int) -> float:
    """Return a guess of the seconds of the method that finds a pairwise shift."""
    return 0.02 + 1.5e-6 * free**2 + 1.5e-8 * free**3


def eigenvalue_seconds(size: int) -> float:
    """Return a guess of the seconds to find the smallest eigenvalue of a Gram matrix."""
    return 2e-11 * float(size) ** 3


@dataclass(eq=False)
class StrengtheningPolicy:
    """Sums over branchings, the old ones with less weight, and what shifts have brought."""

    worth: float = 1.0  # how many times its time a shift has to save
    branchings: float = 0.0
    seconds: float = 0.0
    left: float = 0.0  # children left open
    brought: float = 0.0  # by how much less these fall short, in all
    shares: dict[int, float] = field(default_factory=dict)  # brought by shifts, by terms left

    def note_branching(self, before: float, after: list[float], seconds: float) -> None:
        """Learn from a branching; children that are closed fall short by nothing."""
        left = [short for short in after if short > 0.0]
        self.branchings = MEMORY * self.branchings + 1.0
        self.seconds = MEMORY * self.seconds + seconds
        self.left = MEMORY * self.left + len(left)
        self.brought = MEMORY * self.brought + sum(before - short for short in left)

    def note_shift(self, terms: int, before: float, after: float) -> None:
        """Learn what a shift has brought."""
        share = 1.0 - after / before if before > 0.0 else 0.0
        known = self.shares.get(terms, FIRST_GAIN)
        self.shares[terms] = known + LEARN * (share - known)

    def saves(self, short: float, brought: float, seconds: float, time_left: float) -> bool:
        """Whether it is worth these seconds to bring a node closer to the threshold by so much.

        The node falls short by ``short`` as it is.
        """
        growth = max(self.left / self.branchings, LEAST_GROWTH)
        kappa = log(growth) * self.left / max(self.brought, TINY)
        branching, seconds = max(self.seconds / self.branchings, TINY), self.worth * seconds

        def whole(short: float) -> float:
            time = branching * exp(min(kappa * short, LARGEST))
            return min(time, time_left) if short > 0.0 else 0.0

        saved = whole(short) - whole(short - brought)
        alike = log1p((growth - 1.0) * seconds / branching) / max(kappa, TINY)
        return saved > seconds or brought > alike

    def begins(self, terms: int, short: float, seconds: float, time_left: float) -> bool:
        """Whether to look for a shift at all."""
        if self.branchings == 0.0:
            return True
        brought = self.shares.get(terms, FIRST_GAIN) * short
        return self.saves(short, brought, seconds, time_left)

    def continues(self, short: float, brought: float, seconds: float, time_left: float) -> bool:
        """Whether to go on, these seconds having ``brought`` the node to where it falls short."""
        if self.branchings == 0.0:
            return brought > FIRST_SHARE * short
        return self.saves(short, min(brought, short), seconds, time_left)
