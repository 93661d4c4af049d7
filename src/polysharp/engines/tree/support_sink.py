"""Where supports go that a search finds where its tree ends.

Nodes are bounded in threads; what they find waits in the sink until the search takes it, between
two steps, so that the threshold moves only there.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from polysharp.engines.base import Run
from polysharp.typing import Indices


class SupportSink:
    """Offers supports to a run as incumbents."""

    wants_all: ClassVar[bool] = False  # or only the best support of a node
    most_listed: ClassVar[int] = 5_000  # supports below one node: with more, it is split first

    def __init__(self, run: Run) -> None:
        self.run = run
        self._found = deque[Indices]()

    def take(self, support: Indices, cost: float) -> bool:
        """Take a support that costs at least ``cost``; return whether bounds need not cover it."""
        del cost
        self._found.append(support)
        return False

    def drain(self) -> None:
        """Offer what was taken."""
        while self._found:
            self.run.offer(self._found.popleft())
