"""How a fit is done: with which engine, in what time, to which tolerance, and who watches."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from polysharp.certificate.solution import Solution
from polysharp.engines import make_engine
from polysharp.engines.base import Engine
from polysharp.estimators.parameters import check_seed
from polysharp.progress import Progress, open_progress
from polysharp.threads import limited_threads
from polysharp.time_budget import TimeBudget
from polysharp.typing import OnBlock

PREPARATION = 0.7  # of the time left that a step of the preparation may turn out to take
LEAST_SECONDS = 0.5  # for the preparation, however small the limit is
LATE_SHARE = 0.1  # of the limit, for a search that begins when the limit has passed


@dataclass(frozen=True, eq=False)
class FitContext:
    """Settings of a fit that its steps share.

    ``hopeless_after`` is the number of seconds after which a search ends if its gap is still wide.
    """

    engine: Engine
    time: TimeBudget  # of the whole fit
    gap_tol: float
    seed: int
    threads: int
    progress: Progress
    hopeless_after: float | None = None

    @classmethod
    @contextmanager
    def of(cls, model: Any) -> Iterator[FitContext]:
        """Begin the work of an estimator whose parameters have been checked."""
        time = TimeBudget(model.time_limit)
        engine = make_engine(model.engine) if isinstance(model.engine, str) else model.engine
        seed, gap_tol = check_seed(model.random_state), float(model.gap_tol)
        with open_progress(model.verbose) as progress, limited_threads(model.n_jobs) as threads:
            yield cls(engine, time, gap_tol, seed, threads, progress)

    @property
    def options(self) -> dict[str, Any]:
        """What every engine is told besides its problem, the time and the tolerance."""
        return {"listener": self.progress.listener, "seed": self.seed, "threads": self.threads}

    def search_time(self) -> TimeBudget:
        """Return what a search may take that begins now; one that begins late has a little time."""
        little = min(LEAST_SECONDS, LATE_SHARE * self.time.seconds)
        return TimeBudget(max(little, self.time.remaining()), self.hopeless_after)

    def on_block(self, stage: str, timed: bool) -> OnBlock | None:
        """Return a callback for work in blocks; if ``timed``, the work must leave some time."""
        tell, left = self.progress.on_block(stage), self.time.remaining()
        if not timed or left == inf:
            return tell
        return TimeBudget(PREPARATION * max(left, LEAST_SECONDS)).callback(tell)

    def timed(self, solution: Solution, preparation: float) -> Solution:
        """State how long the preparation and the whole fit took."""
        search, total = solution.times or {"search": solution.seconds}, self.time.spent()
        return replace(solution, times={"preparation": preparation, **search, "total": total})


def warn(message: str) -> None:
    """Raise a warning that points at the line that called into this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("polysharp"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)
