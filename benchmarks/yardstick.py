"""Our own side of a comparison: an engine on an instance, and the Lasso path as yardstick.

The yardstick is scikit-learn's ``lasso_path`` with 100 alphas on the same design matrix, in the
same run and with as many threads.  It starts from M in memory; our time starts from X and
includes the monomials and their moments, so a ratio of 1 favours neither by much.
"""

from __future__ import annotations

import warnings
from time import perf_counter

import numpy as np
from instances import Instance, Setting, make_instance
from peer_call import Outcome
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from threadpoolctl import threadpool_limits

from polysharp.engines import make_engine
from polysharp.time_budget import TimeBudget

N_ALPHAS = 100
LARGEST_DESIGN = 2**30  # bytes of M beyond which the path is not run


def lasso_path_seconds(instance: Instance, threads: int = 1) -> float:
    """Return the time of the Lasso path, nan where the design is too large to hold."""
    if instance.design_bytes > LARGEST_DESIGN:
        return np.nan
    M, y = instance.design, instance.response
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore", ConvergenceWarning)
        started = perf_counter()
        lasso_path(M, y, alphas=N_ALPHAS)
        return perf_counter() - started


def warm_up(engine: str) -> None:
    """Compile what the engine compiles, on a small instance."""
    for p, terms, max_inputs in ((6, 4, 3), (6, 4, None), (10, 6, None)):  # the last: relaxations
        setting = Setting(
            60, p=p, degree=2, max_terms=terms, max_inputs=max_inputs, planted_inputs=3
        )
        instance = make_instance(setting, 0)
        make_engine(engine).solve(instance.problem, time=TimeBudget(20.0), gap_tol=1e-4)


def solve(
    engine: str,
    instance: Instance,
    *,
    time_limit: float,
    gap_tol: float = 1e-4,
    threads: int = 1,
) -> Outcome:
    """Solve one instance with one of our engines, from a cold start."""
    with threadpool_limits(threads):
        started = perf_counter()
        solution = make_engine(engine).solve(
            instance.problem,
            time=TimeBudget(time_limit),
            gap_tol=gap_tol,
            seed=instance.seed,
            threads=threads,
        )
        seconds = perf_counter() - started
    counters = solution.counters
    return Outcome(
        method=f"polysharp {engine}",
        objective=solution.objective,
        bound=solution.bound,
        seconds=seconds + instance.moments_seconds,
        support=solution.support,
        stopped=str(solution.stop),
        note=f"{counters.nodes} nodes, {counters.cuts} cuts; "
        f"{instance.moments_seconds:.2f} s of it for the moments",
    )
