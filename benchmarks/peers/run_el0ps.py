"""El0ps: branch and bound for the penalised form c(S) + mu |S|.

mu is chosen for it (see adapter.py) and one solve is timed; compilation (about 20 s) happens on
a tiny instance before.  Its relative gap is on c + mu l, so the tolerance is tightened to mean
``gap_tol`` on c.  Its result has no bound; we read the one kept by pybnb beneath it.
"""

from time import perf_counter

import numpy as np
from adapter import Answer, Penalised, choose_penalty, main, tiny_task
from el0ps.datafit import Leastsquares
from el0ps.penalty import L2norm
from el0ps.solver import BnbSolver, Status


class BoundedSolver(BnbSolver):
    """Keeps the lower bound that ``package_results`` drops."""

    bound = None

    def package_results(self, problem, results):
        """Store the bound, then go on as before."""
        self.bound = results.bound
        return super().package_results(problem, results)


def run(task):
    """Choose the penalty; the seconds of the answer are those of one solve."""
    _, target = task.fit(task.warm)

    def solve_at(mu):
        gap = task.gap_tol * target / (target + mu * task.max_terms)
        solver = BoundedSolver(relative_gap=gap, time_limit=task.time_limit)
        started = perf_counter()
        result = solver.solve(Leastsquares(task.y), L2norm(task.lam / 2.0), task.M, mu)
        return Penalised(
            support=np.flatnonzero(result.x),
            finished=result.status == Status.OPTIMAL,
            seconds=perf_counter() - started,
            bound=float(solver.bound),
            nodes=result.iter_count,
        )

    mu, result, note = choose_penalty(task, solve_at)
    return Answer(
        support=result.support.tolist(),
        seconds=result.seconds,
        bound=result.bound - mu * task.max_terms if np.isfinite(result.bound) else None,
        stopped="optimal" if result.finished else "time limit",
        note=f"{note}; {result.nodes} nodes; compilation not timed",
    )


def solve(task):
    """Compile on a tiny instance, then solve."""
    run(tiny_task())
    return run(task)


if __name__ == "__main__":
    main("el0ps", ["el0ps", "pybnb", "numba", "numpy", "mpich"], solve)
