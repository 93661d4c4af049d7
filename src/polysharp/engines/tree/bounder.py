"""One interface for whatever raises the bound of nodes.

A bounder says what it would take for some nodes, and applies itself to them: it returns nodes that
cover them with more proved, most often the same ones.  What it cannot do takes for ever, so that
the scheduler never asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from polysharp.engines.tree.listed_node import ListedNode
from polysharp.engines.tree.search_state import SearchState

WORTH_SOLVING_AGAIN = 0.85  # if no more than this share of the monomials is left


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
