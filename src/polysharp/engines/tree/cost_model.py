"""What the steps of a search cost: guesses of one core, corrected by what they take here.

Second-order steps grow with the cube of the monomials, leaf enumeration with the number of
supports.  Each bounder counts its own operations; a ``Rate`` says how long one of them takes.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_MEASURED = 1e-3  # seconds: start-up dominates shorter runs


@dataclass(eq=False)
class Rate:
    """Seconds per operation, a running mean of what was measured, from a first guess."""

    seconds: float
    memory: float = 0.9  # weight of the past
    least: float = LEAST_MEASURED  # seconds of a run that counts

    def note(self, operations: float, seconds: float) -> None:
        """Learn from a run."""
        if seconds > self.least and operations > 0.0:
            new = seconds / operations
            self.seconds = self.memory * self.seconds + (1.0 - self.memory) * new


def diagonal_step(free: int) -> float:
    """Return a guess of the seconds of one step of the best diagonal's method."""
    return 3e-4 + 4e-10 * free**3


def pairwise_search(free: int) -> float:
    """Return a guess of the seconds of the method that finds a pairwise shift."""
    return 0.02 + 1.5e-6 * free**2 + 1.5e-8 * free**3


def smallest_eigenvalue(size: int) -> float:
    """Return a guess of the seconds to find the smallest eigenvalue of a Gram matrix."""
    return 2e-11 * float(size) ** 3
