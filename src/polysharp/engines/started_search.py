"""A search with a head start: local search first, then the engine that proves.

A good incumbent is what lets a proof cut branches away; finding one takes a small part of the
time, so it gets at most a quarter of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines import make_engine
from polysharp.engines.base import Engine
from polysharp.time_budget import TimeBudget

if TYPE_CHECKING:
    from polysharp.certificate.solution import Solution
    from polysharp.problem.problem import Problem
    from polysharp.typing import Indices

START_SHARE = 0.25


def search(
    engine: Engine, problem: Problem, time: TimeBudget, start: Indices | None = None, **options: Any
) -> Solution:
    """Solve with the engine, from a local-search start where the engine has none of its own.

    ``start`` is an allowed support to begin with; ``options`` are those of ``Engine.solve``.
    """
    time = time.share(1.0)
    engine.check(problem)  # which may compile, off the clock
    time = time.restarted()
    first = None
    if engine.needs_start:
        finder = make_engine("local-search")
        first = finder.solve(problem, start=start, time=time.share(START_SHARE), **options)
        if first.stop is Stop.INTERRUPTED:
            return first
        start = np.array(first.support, dtype=np.intp)
    started = time.spent()
    try:
        solution = engine.solve(problem, start=start, time=time, **options)
    except KeyboardInterrupt:  # before the engine had a model of its own
        if first is None:
            raise
        return replace(first, stop=Stop.INTERRUPTED)
    return replace(solution, times={"start": started, "search": solution.seconds})
