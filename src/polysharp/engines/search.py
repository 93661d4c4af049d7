"""A search with a head start: local search first, then the engine that proves.

A good incumbent is what lets a proof cut branches away; finding one takes a small part of the
time, so it gets at most a quarter of it.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines import make_engine
from polysharp.engines.base import Engine, Limits, Listener

if TYPE_CHECKING:
    from polysharp.certificate.solution import Scope, Solution
    from polysharp.problem.problem import Problem

START_SHARE = 0.25


def search(
    engine: Engine,
    problem: Problem,
    limits: Limits,
    *,
    listener: Listener | None = None,
    seed: int = 0,
    threads: int = 1,
    scope: Scope = "all-inputs",
) -> Solution:
    """Solve with the engine, from a local-search start where the engine has none of its own."""
    engine.check(problem)
    began = perf_counter()
    first = start = None
    if engine.needs_start:
        first = make_engine("local-search").solve(
            problem,
            limits=_part(limits, START_SHARE, 0.0),
            listener=listener,
            seed=seed,
            threads=threads,
            scope=scope,
        )
        if first.stop is Stop.INTERRUPTED:
            return first
        start = np.array(first.support, dtype=np.intp)
    started = perf_counter() - began
    try:
        solution = engine.solve(
            problem,
            start=start,
            limits=_part(limits, 1.0, started),
            listener=listener,
            seed=seed,
            threads=threads,
            scope=scope,
        )
    except KeyboardInterrupt:  # before the engine had a model of its own
        if first is None:
            raise
        return replace(first, stop=Stop.INTERRUPTED)
    return replace(solution, times={"start": started, "search": solution.seconds})


def _part(limits: Limits, share: float, spent: float) -> Limits:
    if limits.time_limit is None:
        return limits
    return replace(limits, time_limit=max(0.0, share * limits.time_limit - spent))
