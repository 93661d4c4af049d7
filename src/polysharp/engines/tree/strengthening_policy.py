"""Decides whether to branch on a node or to strengthen its bound first, from branching so far.

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

MEMORY = 0.95  # weight of the past against the last branching
LEAST_GROWTH = 1.2  # children left open by branching, at least
FIRST_SHARE = 0.06  # of what is missing: the first shift has to bring at least as much
FIRST_GAIN = 0.5  # share of what is missing that a shift brings, as a first guess
LEARN = 0.2  # weight of the last shift against those before it
LARGEST = 60.0  # exponent
TINY = 1e-12  # in place of a divisor of zero


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
