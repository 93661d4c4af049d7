"""Split a node or couple it first: what its search would take, learnt from the splits so far.

Let a split take t seconds and leave g children open, which fall short of the threshold by less than
their parent did, by b on average.  A node that falls short by s then takes about

    T(s) = t exp(kappa s),    kappa = log(g) / b,

seconds until it is closed.  A coupling that brings s down to s' in c seconds is worth it where
``worth`` times c is less than T(s) - T(s'), neither more than the time that is left.  It is worth
it as well where so many seconds of splits would raise the bound of the node by less, which is by
log(1 + (g - 1) worth c/t) / kappa.  The first node is coupled in any case, as long as that brings
something: nothing is known of splits then, and all nodes inherit what it gains.

Falling short is measured in shares of the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, log1p

MEMORY = 0.95  # weight of what is known against what has just been seen
LEAST_GROWTH = 1.2  # children left open by a split, at least
FIRST_SHARE = 0.06  # of what is missing, that the coupling of the first node has to bring at least
HOPE = 0.5  # share of what is missing, that couplings bring as long as nothing is known
LEARN = 0.2  # weight of what has just been seen, against what is known of couplings
LARGEST = 60.0  # exponent
TINY = 1e-12  # in place of nothing where something is divided by it


@dataclass(eq=False)
class Outlook:
    """Sums over splits, those of long ago with less weight, and what couplings have brought."""

    worth: float = 1.0  # how many times its time a coupling has to save
    splits: float = 0.0
    seconds: float = 0.0
    left: float = 0.0  # children
    brought: float = 0.0  # by how much less these fall short, in all
    shares: dict[int, float] = field(default_factory=dict)  # brought by couplings, by terms left
    pace: float = 1.0  # seconds of a coupling over the guess

    def note_split(self, before: float, after: list[float], seconds: float) -> None:
        """Learn from a split; children that are closed fall short by nothing."""
        left = [short for short in after if short > 0.0]
        self.splits = MEMORY * self.splits + 1.0
        self.seconds = MEMORY * self.seconds + seconds
        self.left = MEMORY * self.left + len(left)
        self.brought = MEMORY * self.brought + sum(before - short for short in left)

    def note_coupling(self, terms: int, before: float, after: float) -> None:
        """Learn what a coupling has brought."""
        share = 1.0 - after / before if before > 0.0 else 0.0
        known = self.shares.get(terms, HOPE)
        self.shares[terms] = known + LEARN * (share - known)

    def note_pace(self, ratio: float) -> None:
        """Learn what couplings have taken over the guess."""
        self.pace += LEARN * (ratio - self.pace)

    def pays(self, short: float, brought: float, seconds: float, time_left: float) -> bool:
        """Whether it is worth these seconds to bring nodes closer to the threshold by so much.

        Nodes fall short by ``short`` as they are.
        """
        growth = max(self.left / self.splits, LEAST_GROWTH)
        kappa = log(growth) * self.left / max(self.brought, TINY)
        split, seconds = max(self.seconds / self.splits, TINY), self.worth * seconds

        def whole(short: float) -> float:
            time = split * exp(min(kappa * short, LARGEST))
            return min(time, time_left) if short > 0.0 else 0.0

        saved = whole(short) - whole(short - brought)
        alike = log1p((growth - 1.0) * seconds / split) / max(kappa, TINY)
        return saved > seconds or brought > alike

    def coupling_pays(self, terms: int, short: float, seconds: float, time_left: float) -> bool:
        """Whether to look for a coupling at all."""
        if self.splits == 0.0:
            return True
        brought = self.shares.get(terms, HOPE) * short
        return self.pays(short, brought, seconds, time_left)

    def going_on_pays(self, short: float, brought: float, seconds: float, time_left: float) -> bool:
        """Whether to go on, these seconds having ``brought`` nodes to where they fall short now."""
        if self.splits == 0.0:
            return brought > FIRST_SHARE * short
        return self.pays(short, min(brought, short), seconds, time_left)
