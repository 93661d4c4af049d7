"""One interface for whatever raises the bound of nodes.

A bounder says what it would take for some nodes, and applies itself to them: it returns nodes that
cover them with more proved, most often the same ones.  What it cannot do takes for ever, so that
the scheduler never asks for it.

The cost model has guesses for one core, corrected by what things take here.  Second-order steps
grow with the cube of the monomials, leaf enumeration with the number of supports: each bounder
counts its own operations, and a ``Rate`` says how long one of them takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from polysharp.engines.tree.listed_node import ListedNode
from polysharp.engines.tree.search_state import SearchState

WORTH_SOLVING_AGAIN = 0.85  # if no more than this share of the monomials is left
LEAST_MEASURED = 1e-3  # seconds: start-up dominates shorter runs


class Bounder(ABC):
    """Raises the bound of nodes."""

    def __init__(self, state: SearchState) -> None:
        self.state = state

    @abstractmethod
    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that ``apply`` takes; infinite if it cannot be applied."""

    @abstractmethod
    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Return nodes that cover these, with more proved if that was possible."""

    def again(self, before: ListedNode, after: ListedNode) -> bool:
        """Whether what it has fixed makes it worth applying once more."""
        return len(after.free) <= WORTH_SOLVING_AGAIN * len(before.free)


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


def eigenvalue_seconds(size: int) -> float:
    """Return a guess of the seconds to find the smallest eigenvalue of a Gram matrix."""
    return 2e-11 * float(size) ** 3
