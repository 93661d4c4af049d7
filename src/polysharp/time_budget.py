"""The seconds that some work may take: one class for every limit, share and deadline.

A budget begins when it is made.  Work asks it for the seconds that remain, gives parts of it to its
steps (``share``), and ends work in blocks that will not be done in time (``callback``).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it loads NumPy, which the help of a command can do without
    from polysharp.typing import OnBlock

HOPEFUL_GAP = 0.1  # a gap that is wider after a few seconds rarely closes within a minute
PROJECTED = 0.2  # seconds after which the blocks done tell how long the others will take


class OutOfTime(Exception):
    """A time budget is used up, or work would take more than the budget has."""

    def __init__(self, seconds: float = inf) -> None:
        super().__init__(f"{seconds:.3g} s in all")
        self.seconds = seconds  # that all of the work would take, where that is known


class TimeBudget:
    """Seconds from now on, without end by default; ``clock`` may count work in place of time.

    A search whose gap is still wider than ``HOPEFUL_GAP`` after ``hopeless_after`` seconds ends;
    until then it plans as if it had no more time than that.
    """

    def __init__(
        self,
        seconds: float | None = None,
        hopeless_after: float | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.seconds = inf if seconds is None else float(seconds)
        self.hopeless_after = inf if hopeless_after is None else float(hopeless_after)
        self.clock, self.began = clock, clock()

    def __reduce__(self) -> tuple[type[TimeBudget], tuple[float, float]]:
        # Clocks of other processes and machines show other times.
        left = self.share(1.0)
        return TimeBudget, (left.seconds, left.hopeless_after)

    def spent(self) -> float:
        """Return the seconds since the budget began."""
        return self.clock() - self.began

    def remaining(self, gap: float = 0.0) -> float:
        """Return the seconds that are left, at least 0, to a search whose gap is this wide."""
        most = self.seconds if gap <= HOPEFUL_GAP else min(self.seconds, self.hopeless_after)
        return max(0.0, most - self.spent())

    @property
    def expired(self) -> bool:
        """Whether nothing is left."""
        return self.remaining() <= 0.0

    def share(self, share: float, at_least: float = 0.0) -> TimeBudget:
        """Return a budget that begins now, with a share of the seconds that are left."""
        hopeful = max(0.0, share * (self.hopeless_after - self.spent()))
        return TimeBudget(max(at_least, share * self.remaining()), hopeful, self.clock)

    def restarted(self) -> TimeBudget:
        """Return a budget of as many seconds that begins now."""
        return TimeBudget(self.seconds, self.hopeless_after, self.clock)

    def callback(self, tell: OnBlock | None = None) -> OnBlock:
        """Return a callback for work in blocks that begins now.

        It passes each call on to ``tell``, and raises ``OutOfTime`` when all blocks together would
        take longer than the seconds that are left now, as projected from the blocks that are done.
        """
        began, seconds = self.clock(), self.remaining()

        def on_block(done: int, total: int) -> Any:
            if tell is not None:
                tell(done, total)
            spent = self.clock() - began
            if spent > PROJECTED and done < total and spent * total > seconds * done:
                raise OutOfTime(spent * total / done)

        return on_block
