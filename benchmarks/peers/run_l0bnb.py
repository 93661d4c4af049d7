"""L0BnB: branch and bound for the penalised form with |w_j| <= bigM.

Its certificate holds only if no optimal coefficient exceeds bigM: it is handed 1.5 times the
largest coefficient of the warm support, which it could not know by itself.  Its gradient
screening takes columns for unit vectors; M is divided by its largest column norm s (and lam by
s^2), one factor for all columns, which leaves the objective as it is and makes that screening
safe.  Penalty and tolerances as for El0ps; kernels are compiled on a tiny instance before.
"""

from time import perf_counter

import numpy as np
from adapter import Answer, Penalised, choose_penalty, main, tiny_task
from l0bnb import BNBTree

BIG_M_FACTOR = 1.5


def run(task):
    """Choose the penalty; the seconds of the answer are those of one solve."""
    warm_w, target = task.fit(task.warm)
    scale = float(np.sqrt(np.einsum("tj,tj->j", task.M, task.M).max()))
    big_m = BIG_M_FACTOR * float(np.abs(warm_w).max()) * scale
    start = np.zeros(task.M.shape[1])
    start[task.warm] = warm_w * scale
    M = np.ascontiguousarray(task.M / scale)

    def solve_at(mu):
        gap = task.gap_tol * target / (target + mu * task.max_terms)
        started = perf_counter()
        tree = BNBTree(M, task.y)
        result = tree.solve(
            mu,
            task.lam / scale**2 / 2.0,
            big_m,
            gap_tol=gap,
            warm_start=start,
            time_limit=task.time_limit,
        )
        seconds = perf_counter() - started
        emptied = tree.bfs_queue.empty() and tree.dfs_queue.empty()
        # Its gap starts at gap_tol + 1 and stays there until a whole level is closed.
        gap_seen = 0.0 if emptied else (result.gap if result.gap < 1.0 else np.inf)
        return Penalised(
            support=np.flatnonzero(result.beta),
            finished=gap_seen <= gap,
            seconds=seconds,
            bound=float(result.cost) * (1.0 - gap_seen),
            nodes=tree.number_of_nodes,
        )

    mu, result, note = choose_penalty(task, solve_at)
    return Answer(
        support=result.support.tolist(),
        seconds=result.seconds,
        bound=result.bound - mu * task.max_terms if np.isfinite(result.bound) else None,
        stopped="optimal" if result.finished else "time limit",
        note=f"{note}; {result.nodes} nodes; conditional on |w_j| <= {big_m / scale:.3g}; "
        "warm start given; compilation not timed",
    )


def solve(task):
    """Compile on a tiny instance, then solve."""
    run(tiny_task())
    return run(task)


if __name__ == "__main__":
    main("l0bnb", ["l0bnb", "numba", "numpy"], solve)
