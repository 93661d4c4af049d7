"""Algorithm 2 in one tree: branch and bound in Gurobi, with cuts added as they are broken.

The same master and the same cuts as ``cutting_planes``.  Gurobi calls back at every integral
solution (s, eta); where eta < c(s) the tangent of c at s is handed to it as a lazy constraint.
Gurobi is commercial software under the user's own licence; the licence that comes with
gurobipy takes 2000 columns and 2000 rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.master import TOLERANCE, Cut, Master, Separator, safe_bound
from polysharp.engines.root_cuts import prepare
from polysharp.errors import MissingSolverError, TooLargeError, load_optional
from polysharp.problem.problem import Problem


@dataclass(frozen=True)
class CuttingPlanesGurobi(Engine):
    """Outer approximation with lazy cuts in Gurobi.

    Parameters
    ----------
    root_cuts : bool
        Add tangents at fractional points, fix columns and raise the ridge at the root; False is
        the paper's pure form, with cuts at binary points only.
    """

    name: ClassVar[str] = "cutting-planes-gurobi"
    root_cuts: bool = True

    def check(self, problem: Problem) -> None:
        """Refuse to start without Gurobi."""
        del problem
        _gurobi()

    def search(self, run: Run) -> Stop:
        """Strengthen the root, then let Gurobi branch and ask for cuts."""
        gurobi = _gurobi()
        master: Master | None = prepare(run, root_cuts=self.root_cuts)
        stops = {gurobi.GRB.TIME_LIMIT: Stop.TIME, gurobi.GRB.INTERRUPTED: Stop.INTERRUPTED}
        while not (run.proved or run.expired):
            if master is None:
                return Stop.STALLED
            with _environment(gurobi) as environment, gurobi.Model(env=environment) as model:
                try:
                    tree = _GurobiTree(run, master, model, gurobi, clip=self.root_cuts)
                    status = tree.solve()
                except gurobi.GurobiError as error:
                    raise _explained(gurobi, error) from error
            if status in stops and not run.proved:
                return stops[status]
            master = master.renewed(run, tree.separator.added)
        return Stop.PROVED if run.proved else Stop.TIME


def _gurobi() -> Any:
    """Import gurobipy, or say how to get it."""
    return load_optional("gurobipy", "engine='cutting-planes-gurobi'", "gurobi")


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


def _explained(gurobi: Any, error: Exception) -> Exception:
    if getattr(error, "errno", None) != gurobi.GRB.Error.SIZE_LIMIT_EXCEEDED:
        return error
    return TooLargeError(
        "engine='cutting-planes-gurobi' must fit the size limit of the Gurobi licence, and this "
        "problem does not; use engine='cutting-planes' or a full licence"
    )


class _GurobiTree:
    """One Gurobi model of a master, with the callback that talks to the run."""

    def __init__(self, run: Run, master: Master, model: Any, gurobi: Any, *, clip: bool) -> None:
        self.run, self.master, self.model = run, master, model
        self.GRB = gurobi.GRB
        self.separator = Separator(run, master, clip=clip)
        self.error: BaseException | None = None
        self._nodes_before = run.nodes
        rules = master.rules
        self.columns = model.addMVar(rules.size, lb=rules.lower, ub=1.0, vtype=self.GRB.BINARY)
        self.eta = model.addVar(lb=0.0, obj=1.0)
        for side, sense in ((rules.high, "<"), (rules.low, ">")):
            rows = np.flatnonzero(np.isfinite(side))
            if len(rows):
                model.addMConstr(rules.A[rows], self.columns, sense, side[rows])
        for cut in master.cuts:
            model.addConstr(self._inequality(cut))
        self._configure()

    def _configure(self) -> None:
        best = self.run.best
        for name, value in {
            "LazyConstraints": 1,
            "Threads": self.run.threads,
            "Seed": self.run.seed % 2_000_000_000,
            "FeasibilityTol": TOLERANCE,
            "OptimalityTol": TOLERANCE,
            "IntFeasTol": TOLERANCE,
            "MIPGap": 0.0,
            "MIPGapAbs": 0.5 * self.run.limits.gap_tol * best.objective / self.master.scale,
        }.items():
            self.model.setParam(name, value)
        if np.isfinite(self.run.time_left):
            self.model.setParam("TimeLimit", max(0.0, self.run.time_left))
        self.columns.Start = self.master.point(best.support)
        self.eta.Start = max(0.0, self.master.eta(best.objective))

    def _inequality(self, cut: Cut) -> Any:
        where, values, side = self.master.row(cut)
        return self.eta + values @ self.columns[where] >= side

    def solve(self) -> int:
        """Run Gurobi; an exception from the callback is raised again here."""
        self.model.optimize(self._callback)
        if self.error is not None:
            raise self.error
        self._follow(self.model.ObjBound, self.model.NodeCount)
        return int(self.model.Status)

    def _callback(self, model: Any, where: int) -> None:
        try:
            if where == self.GRB.Callback.MIPSOL:
                self._separate()
            elif where == self.GRB.Callback.MIP:
                bound = model.cbGet(self.GRB.Callback.MIP_OBJBND)
                self._follow(bound, model.cbGet(self.GRB.Callback.MIP_NODCNT))
        except BaseException as error:
            self.error = self.error or error
            model.terminate()

    def _separate(self) -> None:
        """Cut off a candidate whose eta is below c(s)."""
        s = np.asarray(self.model.cbGetSolution(self.columns))[: len(self.master.kept)]
        cut = self.separator.cut(s, float(self.model.cbGetSolution(self.eta)))
        if cut is not None:
            self.model.cbLazy(self._inequality(cut))

    def _follow(self, eta: float, nodes: float) -> None:
        """Carry Gurobi's bound and counters over to the run."""
        if np.isfinite(eta) and abs(eta) < self.GRB.INFINITY:
            self.run.raise_bound(safe_bound(self.run, self.master, eta))
        self.run.nodes = self._nodes_before + int(nodes)
        self.run.report("branch and cut")
