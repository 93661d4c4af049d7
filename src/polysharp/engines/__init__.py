"""The search engines, all behind ``Engine.solve``, each loaded when first asked for."""

from __future__ import annotations

import signal
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.engines.base import Engine

HOMES = {  # the module in which the class of each engine bears its name
    "tree": "tree",
    "cutting-planes": "cutting_planes",
    "cutting-planes-multitree": "cutting_planes",
    "cutting-planes-gurobi": "cutting_planes",
    "big-m": "big_m",
    "enumeration": "enumeration",
    "local-search": "local_search",
}
AUTO = "tree"
ENGINES = ("auto", *HOMES)


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine, whose traits are class variables.

    Examples
    --------
    >>> engine_class("big-m").packages
    ('pyscipopt',)
    """
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    name = AUTO if name == "auto" else name
    home = import_module(f"polysharp.engines.{HOMES[name]}")
    found: type[Engine] = next(
        cls for cls in vars(home).values() if getattr(cls, "name", None) == name
    )
    return found


def make_engine(name: str) -> Engine:
    """Return the engine of that name with its default settings.

    Examples
    --------
    >>> make_engine("enumeration")
    Enumeration(max_supports=2000000)
    """
    return engine_class(name)()


class DeferredInterrupt:
    """A context in which Ctrl-C sets ``pending``; leaving it raises the interrupt.

    A ``KeyboardInterrupt`` is raised between any two steps of Python.  While a solver calls back
    into Python, that may be inside its own glue, which swallows it.  Here the signal only sets a
    flag; the callback reads the flag and ends the solver.  Python handles signals in its main
    thread only; in any other, nothing is changed.
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
