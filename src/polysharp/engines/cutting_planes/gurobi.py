"""Algorithm 2 in one tree: branch and bound in Gurobi, with cuts added as they are broken.

The same master and the same cuts as with SCIP.  Gurobi calls back at every integral
solution (s, eta); where eta < c(s) the tangent of c at s is handed to it as a lazy constraint.
Gurobi is commercial software under the user's own licence; the licence that comes with
gurobipy takes 2000 columns and 2000 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.cutting_planes.master import TOLERANCE, Cut, Dialogue
from polysharp.errors import MissingSolverError, TooLargeError, load_optional


def branch(talk: Dialogue) -> Stop | None:
    """Let Gurobi branch and ask for cuts."""
    gurobi = load_optional("gurobipy", "engine='cutting-planes-gurobi'", "gurobi")
    stops = {gurobi.GRB.TIME_LIMIT: Stop.TIME, gurobi.GRB.INTERRUPTED: Stop.INTERRUPTED}
    with _environment(gurobi) as environment, gurobi.Model(env=environment) as model:
        try:
            return stops.get(_GurobiTree(talk, model, gurobi.GRB).solve())
        except gurobi.GurobiError as error:
            if error.errno != gurobi.GRB.Error.SIZE_LIMIT_EXCEEDED:
                raise
            raise TooLargeError(
                "engine='cutting-planes-gurobi' must fit the size limit of the Gurobi licence, "
                "and this problem does not; use engine='cutting-planes' or a full licence"
            ) from error


def _environment(gurobi: Any) -> Any:
    """Return a silent environment, or say what is wrong with the licence."""
    environment = gurobi.Env(empty=True)
    environment.setParam("OutputFlag", 0)
    try:
        environment.start()
    except gurobi.GurobiError as error:
        raise MissingSolverError(
            f"engine='cutting-planes-gurobi' found gurobipy but no usable licence: {error}"
        ) from error
    return environment


class _GurobiTree:
    """One Gurobi model of a master, with the callback that talks to the run."""

    def __init__(self, talk: Dialogue, model: Any, GRB: Any) -> None:
        self.talk, self.model, self.GRB = talk, model, GRB
        run, rules = talk.run, talk.master.rules
        self.columns = model.addMVar(rules.size, lb=rules.lower, ub=1.0, vtype=GRB.BINARY)
        self.eta = model.addVar(lb=0.0, obj=1.0)
        for side, sense in ((rules.high, "<"), (rules.low, ">")):
            rows = np.flatnonzero(np.isfinite(side))
            if len(rows):
                model.addMConstr(rules.A[rows], self.columns, sense, side[rows])
        for cut in talk.master.cuts:
            model.addConstr(self._inequality(cut))
        for name, value in {
            "LazyConstraints": 1,
            "Threads": run.threads,
            "Seed": run.seed % 2_000_000_000,
            "FeasibilityTol": TOLERANCE,
            "OptimalityTol": TOLERANCE,
            "IntFeasTol": TOLERANCE,
            "MIPGap": 0.0,
            "MIPGapAbs": talk.gap(0.5),
            "TimeLimit": min(run.time_left, GRB.INFINITY),
        }.items():
            model.setParam(name, value)
        self.columns.Start, self.eta.Start = talk.start()

    def _inequality(self, cut: Cut) -> Any:
        where, values, side = self.talk.master.row(cut)
        return self.eta + values @ self.columns[where] >= side

    def solve(self) -> int:
        """Run Gurobi; an exception from the callback is raised again here."""
        self.model.optimize(self._callback)
        self.talk.finish()
        self.talk.follow(self.model.ObjBound, self.model.NodeCount)
        return int(self.model.Status)

    def _callback(self, model: Any, where: int) -> None:
        calls, talk = self.GRB.Callback, self.talk
        if where == calls.MIPSOL:
            talk.guarded(self._separate, None, model.terminate)
        elif where == calls.MIP:
            bound, nodes = model.cbGet(calls.MIP_OBJBND), model.cbGet(calls.MIP_NODCNT)
            talk.guarded(lambda: talk.follow(bound, nodes), None, model.terminate)

    def _separate(self) -> None:
        """Cut off a candidate whose eta is below c(s)."""
        s = np.asarray(self.model.cbGetSolution(self.columns))[: len(self.talk.master.kept)]
        for cut in self.talk.cuts(s, float(self.model.cbGetSolution(self.eta))):
            self.model.cbLazy(self._inequality(cut))
