"""The one place where a running search becomes something to look at.

Engines emit events and know nothing of screens.  With ``verbose`` off nobody listens; in a
terminal one line is redrawn; in a pipe or a log file a plain line is written now and then
and at the end.  Everything goes to standard error, so that a program's own output stays its own.
Whoever wants the events themselves, such as a page in a browser, asks for them with ``watching``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Timer
from time import perf_counter
from typing import TextIO

from polysharp.wording import plural, rounded_down

PERIOD = 1.0  # seconds between the first two plain lines; each pause is half as long again
LONGEST_PAUSE = 30.0
BLINK = 2.0  # seconds that work may take without being announced; loading kernels takes less


@dataclass(frozen=True)
class Event:
    """One moment of a search, for progress displays and plots of the gap over time."""

    phase: str
    objective: float
    bound: float
    nodes: int
    cuts: int
    rounds: int
    seconds: float

    @property
    def gap(self) -> float:
        """Relative gap at that moment."""
        return relative_gap(self.objective, self.bound)

    @property
    def last(self) -> bool:
        """Whether it is the last word of its stage."""
        return self.phase == "done"


@dataclass(frozen=True)
class Share:
    """One moment of work in blocks: how many of them are done; 0 of 0 where nobody counts."""

    stage: str
    done: int
    total: int

    @property
    def last(self) -> bool:
        """Whether it is the last word of its stage."""
        return self.done == self.total


Tell = Callable[[Event | Share], None]
_watcher: ContextVar[Tell | None] = ContextVar("watcher", default=None)
_announcer: ContextVar[Tell | None] = ContextVar("announcer", default=None)


@dataclass(frozen=True)
class Progress:
    """What a fit reports to; nobody looks where ``listener`` is None."""

    listener: Tell | None = None

    def on_block(self, stage: str) -> Callable[[int, int], None] | None:
        """Return a callback for work done in blocks."""
        tell = self.listener
        if tell is None:
            return None
        return lambda done, total: tell(Share(stage, done, total))


def describe(event: Event | Share) -> str:
    """Return one line; its end is the part that a narrow terminal may cut off."""
    if isinstance(event, Share) and not event.total:
        return f"{event.stage} ..."
    if isinstance(event, Share):
        return f"{event.stage}: {100 * event.done // event.total} %"
    counted = {"node": event.nodes, "cut": event.cuts, "round": event.rounds}
    work = "".join(f", {plural(count, what)}" for what, count in counted.items() if count)
    return (
        f"{event.phase} {event.seconds:.1f} s: objective {event.objective:.6g}, "
        f"bound {rounded_down(event.bound)}, gap {100 * event.gap:.2f} %{work}"
    )


def relative_gap(objective: float, bound: float) -> float:
    """Return (objective - bound) / objective, 0 where both vanish."""
    if objective <= bound:
        return 0.0
    return (objective - bound) / objective


@contextmanager
def _telling(who: ContextVar[Tell | None], tell: Tell) -> Iterator[None]:
    before = who.set(tell)
    try:
        yield
    finally:
        who.reset(before)


def watching(tell: Tell) -> AbstractContextManager[None]:
    """Hand every event of the fits of this thread to a function, in place of any display."""
    return _telling(_watcher, tell)


def announcing(tell: Tell) -> AbstractContextManager[None]:
    """Hand announcements of slow work to a function, until a fit has a display of its own."""
    return _telling(_announcer, tell)


@contextmanager
def announced(stage: str) -> Iterator[None]:
    """Announce some work if it takes longer than a blink, to whoever watches."""
    tell = _watcher.get() or _announcer.get()
    if tell is None:
        yield
        return
    timer = Timer(BLINK, tell, [Share(stage, 0, 0)])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def open_progress(verbose: int, stream: TextIO | None = None) -> Iterator[Progress]:
    """Choose who is told: a watcher, nobody, a live line in a terminal, plain lines elsewhere."""
    out, watcher = sys.stderr if stream is None else stream, _watcher.get()
    if watcher is not None or not verbose:
        yield Progress(watcher)
    elif out.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        def redraw(event: Event | Share) -> None:
            live.update(Text(describe(event), no_wrap=True, overflow="ellipsis"))

        with Live(console=Console(file=out), refresh_per_second=8) as live, announcing(redraw):
            yield Progress(redraw)
    else:
        lines = _Lines(out)
        with announcing(lines):
            yield Progress(lines)


@dataclass
class _Lines:
    """Plain lines, rarer and rarer within a stage; last words always."""

    out: TextIO
    _written: float = field(default=-PERIOD)
    _pause: float = field(default=PERIOD)
    _said: str = ""

    def __call__(self, event: Event | Share) -> None:
        now, text, last = perf_counter(), describe(event), event.last
        if (last or now - self._written >= self._pause) and text != self._said:
            self._written, self._said = now, text
            self._pause = PERIOD if last else min(1.5 * self._pause, LONGEST_PAUSE)
            self.out.write(f"{text}\n")
            self.out.flush()
