"""Algorithm 2 and its alternatives as methods: engines run through the estimator.

    pure   cuts at binary points only, the paper's Algorithm 2, in one SCIP tree
    pure-multi  the same, one integer programme of HiGHS after another
    root   the same after tangent cuts at fractional points of the root
    big-m  the paper's first formulation (bigm:primal), constants proven from the data
    tree   our own branch and bound

Every engine begins with the support that the local search returns; ``seconds`` is the time after
that, ``start_seconds`` the time of the local search.  gamma = share / sqrt(n).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from experiments.data import Planted, planted
from polysharp import SparsePolynomialRegressor
from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine
from polysharp.metrics import accuracy, false_alarm

SCIP = "pyscipopt"
NEEDS = {"pure": SCIP, "root": SCIP, "big-m": SCIP}
METHODS = ("big-m", "pure", "root", "tree")
MEASURES = (
    *("gamma", "cuts", "root_cuts", "nodes", "seconds", "start_seconds"),
    *("objective", "bound", "gap", "A", "F"),
)


def warm_up() -> None:
    """Run every engine once on a small problem, so that no run pays for imports or compilation."""
    data = planted(60, 0, p=4, degree=2, terms=3)
    for method in METHODS:
        if method not in NEEDS or find_spec(NEEDS[method]) is not None:
            solve(method, data, 3, 1.0, 5.0)


def engine_of(method: str) -> str | Engine:
    """Return the engine of a method; solvers are imported only where they are used."""
    if method not in ("pure", "root", "pure-multi"):
        return method
    from polysharp.engines.cutting_planes import CuttingPlanes, CuttingPlanesMultitree

    form = CuttingPlanesMultitree if method == "pure-multi" else CuttingPlanes
    return form(root_cuts=method == "root")


def solve(
    method: str, data: Planted, terms: int, gamma_share: float, time_limit: float
) -> dict[str, Any]:
    """Fit with one engine and return the columns ``MEASURES`` and the status."""
    model = SparsePolynomialRegressor(
        degree=data.degree,
        max_terms=terms,
        gamma=gamma_share / len(data.y) ** 0.5,
        n_candidates=None,
        engine=engine_of(method),
        time_limit=time_limit,
        random_state=0,
    ).fit(data.X, data.y)
    solution, found = model.solution_, model.polynomial_.monomials
    if solution.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return {
        "gamma": model.gamma_,
        "cuts": solution.counters.cuts,
        "root_cuts": solution.counters.rounds if method == "root" else 0,
        "nodes": solution.counters.nodes,
        "seconds": solution.times["search"],
        "start_seconds": solution.times["start"],
        "objective": solution.objective,
        "bound": solution.bound,
        "gap": solution.gap,
        "A": accuracy(found, data.law),
        "F": false_alarm(found, data.law),
        "status": str(solution.status),
    }
