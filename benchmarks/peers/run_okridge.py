"""OKRidge: branch and bound for the l-sparse ridge form itself.

Its loss is 2 c(S) - y'y, and its relative gap divides by that loss, in which y'y dominates; the
tolerance handed to it is ``gap_tol`` converted to c at the warm support, and the bound returned
is converted back.  A negative time limit makes it claim gap 0, so it always gets at least 1 s.
The released wheel calls ``Node.lower_solve``, which does not exist, when f >= n + 2: it is set
to ``lower_solve_fast``.
"""

import contextlib
import io
from time import perf_counter

import numpy as np
from adapter import Answer, main
from okridge.node import Node
from okridge.tree import BNBTree

Node.lower_solve = Node.lower_solve_fast


def solve(task):
    """Build the tree (X'X and its eigenvalues are part of the time) and solve."""
    yy = float(task.y @ task.y)
    _, target = task.fit(task.warm)
    gap = task.gap_tol * 2.0 * target / abs(2.0 * target - yy)
    with contextlib.redirect_stdout(io.StringIO()):
        started = perf_counter()
        tree = BNBTree(X=task.M, y=task.y, lambda2=task.lam)
        setup = perf_counter() - started
        loss, w, reported, bound, _ = tree.solve(
            k=task.max_terms, gap_tol=gap, time_limit=max(1.0, task.time_limit - setup)
        )
        seconds = perf_counter() - started
    bounded = bound > -yy  # it starts at minus the largest integer; c >= 0 is all that says
    return Answer(
        support=np.flatnonzero(w).tolist(),
        seconds=seconds,
        bound=(bound + yy) / 2.0 if bounded else None,
        stopped="optimal" if reported <= gap else "time limit",
        note=f"set-up {setup:.2f} s of it; {tree.number_of_nodes} nodes; it reports a gap of "
        f"{reported:.2e} on its loss {loss:.4g}" + ("" if bounded else "; no bound above zero yet"),
    )


if __name__ == "__main__":
    main("okridge", ["okridge", "numpy", "scikit-learn"], solve)
