"""Algorithm 2 in one tree: branch and bound in SCIP, with cuts added as they are broken.

SCIP solves the master (see ``master``).  Wherever the linear relaxation of a node has an
integral solution (s, eta) with eta < c(s), the tangent of c at s is added for the whole tree
and the node is solved again.  So the paper's sequence of integer programmes becomes one.

What SCIP must be told: the constraint eta >= c(s) pushes every s_j and eta upwards (locks);
symmetry and dual reductions cannot see it and are off; it is enforced after integrality and
the linear rows (priorities below theirs).  Cuts are found in enforcement only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.master import Cut, Master, Separator, safe_bound
from polysharp.engines.root_cuts import prepare
from polysharp.engines.scip_model import STOPS, TROUBLE, add_rows, load_scip, optimise, quiet_model
from polysharp.problem.problem import Problem
from polysharp.typing import Array

BELOW_ALL = -9_999_999  # SCIP's integrality and linear handlers stand above this priority


@dataclass(frozen=True)
class CuttingPlanes(Engine):
    """Outer approximation with lazy cuts in SCIP.

    Parameters
    ----------
    root_cuts : bool
        Add tangents at fractional points, fix columns and raise the ridge at the root; False is
        the paper's pure form, with cuts at binary points only.
    """

    name: ClassVar[str] = "cutting-planes"
    root_cuts: bool = True

    def check(self, problem: Problem) -> None:
        """Refuse to start without SCIP."""
        del problem
        load_scip(self.name)

    def search(self, run: Run) -> Stop:
        """Strengthen the root, then let SCIP branch and ask for cuts."""
        master: Master | None = prepare(run, root_cuts=self.root_cuts)
        while not (run.proved or run.expired):
            if master is None:
                return Stop.STALLED
            tree = _ScipTree(load_scip(self.name), run, master, clip=self.root_cuts)
            status = tree.solve()
            if status in STOPS and not run.proved:
                return STOPS[status]
            master = master.renewed(run, tree.separator.added)
        return Stop.PROVED if run.proved else Stop.TIME


class _ScipTree:
    """One SCIP model of a master, with the plug-ins that talk to the run."""

    def __init__(self, scip: Any, run: Run, master: Master, *, clip: bool) -> None:
        self.scip, self.run, self.master = scip, run, master
        self.separator = Separator(run, master, clip=clip)
        self.model = quiet_model(scip, run.time_left)
        self.error: BaseException | None = None
        self._nodes_before = run.nodes
        self._configure()
        lower = master.rules.lower
        self.columns = [self.model.addVar(vtype="B", lb=float(low)) for low in lower]
        self.eta = self.model.addVar(lb=0.0, obj=1.0)
        add_rows(scip, self.model, self.columns, master.rules)
        for cut in master.cuts:
            self.add(cut)
        self._include_plugins()
        self._offer_start()

    def _configure(self) -> None:
        off, best = self.scip.SCIP_PARAMSETTING.OFF, self.run.best.objective
        for setting in (self.model.setPresolve, self.model.setSeparating, self.model.setHeuristics):
            setting(off)
        for name, value in {
            "misc/usesymmetry": 0,
            "misc/allowstrongdualreds": False,
            "misc/allowweakdualreds": False,
            "randomization/randomseedshift": self.run.seed % 2**31,
            "limits/absgap": 0.5 * self.run.limits.gap_tol * best / self.master.scale,
        }.items():
            self.model.setParam(name, value)

    def _include_plugins(self) -> None:
        handler = _minorant_handler(self)
        self.model.includeConshdlr(
            handler,
            "loss",
            "eta >= c(s)",
            enfopriority=BELOW_ALL,
            chckpriority=BELOW_ALL,
            needscons=True,
        )
        self.model.addPyCons(self.model.createCons(handler, "loss"))
        self.model.includeHeur(_messenger(self), "incumbent", "solutions found by cuts", "P")

    def _offer_start(self) -> None:
        self.model.addSol(self.solution_of_best())

    def solution_of_best(self) -> Any:
        """Return the run's incumbent as a SCIP solution."""
        best = self.run.best
        solution = self.model.createSol()
        point = self.master.point(best.support)
        for column in np.flatnonzero(point):
            self.model.setSolVal(solution, self.columns[column], 1.0)
        self.model.setSolVal(solution, self.eta, self.master.eta(best.objective))
        return solution

    def solve(self) -> str:
        """Run SCIP; an exception from a callback is raised again here."""
        status = optimise(self.model)
        if self.error is not None:
            raise self.error
        if status != TROUBLE:
            self.follow()
        return status

    def add(self, cut: Cut) -> None:
        """Add a cut for the whole tree."""
        where, values, side = self.master.row(cut)
        pairs = zip(values, where, strict=True)
        line = self.scip.quicksum(float(v) * self.columns[j] for v, j in pairs)
        self.model.addCons(self.eta + line >= side)

    def candidate(self, solution: Any) -> tuple[Array, float]:
        """Return (s, eta) of a SCIP solution, None for that of the node's LP."""
        terms = self.columns[: len(self.master.kept)]
        s = np.array([self.model.getSolVal(solution, column) for column in terms])
        return s, self.model.getSolVal(solution, self.eta)

    def follow(self) -> None:
        """Carry SCIP's bound and counters over to the run."""
        bound = safe_bound(self.run, self.master, self.model.getDualbound())
        self.run.raise_bound(min(bound, self.run.best.objective))
        self.run.nodes = self._nodes_before + int(self.model.getNTotalNodes())
        self.run.report("branch and cut")

    def guarded(self, answer: Callable[[], Any], otherwise: Any) -> dict[str, Any]:
        """Run a callback; keep its exception and stop SCIP, which would swallow it."""
        try:
            return {"result": answer()}
        except BaseException as error:
            self.error = self.error or error
            self.model.interruptSolve()
            return {"result": otherwise}

    def separate(self) -> Any:
        """Cut off the LP solution of the node, or accept it."""
        s, eta = self.candidate(None)
        cut = self.separator.cut(s, eta)
        self.follow()
        if cut is None:
            return self.scip.SCIP_RESULT.FEASIBLE
        self.add(cut)
        return self.scip.SCIP_RESULT.CONSADDED

    def verify(self, solution: Any) -> Any:
        """Say whether a solution from elsewhere satisfies eta >= c(s)."""
        accepted = self.separator.accepts(*self.candidate(solution))
        return self.scip.SCIP_RESULT.FEASIBLE if accepted else self.scip.SCIP_RESULT.INFEASIBLE

    def inject(self) -> Any:
        """Tell SCIP about an incumbent that only the cuts have found."""
        self.follow()
        best = self.master.eta(self.run.best.objective)
        if best >= self.model.getPrimalbound() - 1e-9:
            return self.scip.SCIP_RESULT.DIDNOTFIND
        found = self.model.trySol(self.solution_of_best(), printreason=False)
        return self.scip.SCIP_RESULT.FOUNDSOL if found else self.scip.SCIP_RESULT.DIDNOTFIND


def _minorant_handler(tree: _ScipTree) -> Any:
    """Return the constraint handler of eta >= c(s)."""
    result = tree.scip.SCIP_RESULT

    class Handler(tree.scip.Conshdlr):  # type: ignore[name-defined,misc]
        def consenfolp(self, *_: Any) -> dict[str, Any]:
            return tree.guarded(tree.separate, result.INFEASIBLE)

        def consenfops(self, *_: Any) -> dict[str, Any]:
            # Without an LP solution there is nothing to cut at: ask for the LP.
            return {"result": result.SOLVELP}

        def conscheck(self, constraints: Any, solution: Any, *_: Any) -> dict[str, Any]:
            return tree.guarded(lambda: tree.verify(solution), result.INFEASIBLE)

        def conslock(self, constraint: Any, locktype: Any, positive: int, negative: int) -> None:
            for column in (*tree.columns[: len(tree.master.kept)], tree.eta):
                self.model.addVarLocksType(column, locktype, positive, negative)

    return Handler()


def _messenger(tree: _ScipTree) -> Any:
    """Return the plug-in SCIP calls before each node: bounds out, incumbents in."""

    class Messenger(tree.scip.Heur):  # type: ignore[name-defined,misc]
        def heurexec(self, *_: Any) -> dict[str, Any]:
            return tree.guarded(tree.inject, tree.scip.SCIP_RESULT.DIDNOTFIND)

    return Messenger()
