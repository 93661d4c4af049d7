"""SCIP as the engines use it: loading it, a quiet model, the rules of a master as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.master import TOLERANCE, RuleRows
from polysharp.errors import load_optional

STOPS = {"timelimit": Stop.TIME, "userinterrupt": Stop.INTERRUPTED}
TROUBLE = "numerical trouble"


def load_scip(engine: str) -> Any:
    """Import pyscipopt, or say how to get it."""
    return load_optional("pyscipopt", f"engine={engine!r}", "solvers")


def quiet_model(scip: Any, time_left: float) -> Any:
    """Return a silent SCIP model with the tolerances that ``safe_bound`` counts on."""
    model = scip.Model()
    model.hideOutput()
    model.setParam("numerics/feastol", TOLERANCE)
    model.setParam("numerics/dualfeastol", TOLERANCE)
    if np.isfinite(time_left):
        model.setParam("limits/time", max(0.0, time_left))
    return model


def add_rows(scip: Any, model: Any, columns: list[Any], rules: RuleRows) -> None:
    """Add the rules low <= A x <= high to a SCIP model."""
    A = rules.A
    for row in range(A.shape[0]):
        entries = slice(A.indptr[row], A.indptr[row + 1])
        pairs = zip(A.data[entries], A.indices[entries], strict=True)
        line = scip.quicksum(float(a) * columns[c] for a, c in pairs)
        if np.isfinite(rules.high[row]):
            model.addCons(line <= float(rules.high[row]))
        if np.isfinite(rules.low[row]):
            model.addCons(line >= float(rules.low[row]))


def optimise(model: Any) -> str:
    """Run SCIP and return its status; what it had proved stays true if an LP defeats it.

    SCIP must run in the thread that calls: nonlinear programmes crash it in any other.
    """
    with np.errstate(all="ignore"):
        try:
            model.optimize()
        except Exception:
            return TROUBLE
    return str(model.getStatus())
