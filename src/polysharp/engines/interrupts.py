"""Ctrl-C while foreign code is running: noted at once, raised when it is safe.

A ``KeyboardInterrupt`` is raised between any two steps of Python.  While a solver calls back into
Python, that may be inside its own glue, which swallows it.  Here the signal only sets a flag; the
callback reads the flag and ends the solver, and the interrupt is raised once the solver is back.
"""

from __future__ import annotations

import signal
import threading
from typing import Any, Self


class DeferredInterrupt:
    """A context in which Ctrl-C sets ``pending``; leaving it raises the interrupt.

    Python handles signals in its main thread only; in any other, nothing is changed.
    """

    def __init__(self) -> None:
        self.pending = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self.pending and error is None:
            raise KeyboardInterrupt

    def _note(self, *signal_and_frame: Any) -> None:
        del signal_and_frame
        self.pending = True
