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
from polysharp.engines.cutting_planes.master import Cut
from polysharp.engines.cutting_planes.outer import Dialogue, OuterApproximation
from polysharp.engines.cutting_planes.scip_model import STOPS, ScipModel
from polysharp.typing import Array

BELOW_ALL = -9_999_999  # SCIP's integrality and linear handlers stand above this priority


@dataclass(frozen=True)
class CuttingPlanes(OuterApproximation):
    """Outer approximation with lazy cuts in SCIP."""

    name: ClassVar[str] = "cutting-planes"
    packages: ClassVar[tuple[str, ...]] = ("pyscipopt", "highspy")

    def branch(self, talk: Dialogue) -> Stop | None:
        """Let SCIP branch and ask for cuts."""
        return STOPS.get(_ScipTree(talk).solve())


class _ScipTree(ScipModel):
    """One SCIP model of a master, with the plug-ins that talk to the run."""

    def __init__(self, talk: Dialogue) -> None:
        super().__init__(talk)
        for setting in (self.model.setPresolve, self.model.setSeparating, self.model.setHeuristics):
            setting(self.scip.SCIP_PARAMSETTING.OFF)
        for name, value in {
            "misc/usesymmetry": 0,
            "misc/allowstrongdualreds": False,
            "misc/allowweakdualreds": False,
            "randomization/randomseedshift": talk.run.seed % 2**31,
        }.items():
            self.model.setParam(name, value)
        for cut in talk.master.cuts:
            self.add(cut)
        self._include_plugins()
        self.model.addSol(self.solution_of_best())

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

    def solution_of_best(self) -> Any:
        """Return the run's incumbent as a SCIP solution."""
        solution, (point, eta) = self.model.createSol(), self.talk.start()
        for column in np.flatnonzero(point):
            self.model.setSolVal(solution, self.columns[column], 1.0)
        self.model.setSolVal(solution, self.eta, eta)
        return solution

    def add(self, cut: Cut) -> None:
        """Add a cut for the whole tree."""
        where, values, side = self.talk.master.row(cut)
        pairs = zip(values, where, strict=True)
        line = self.scip.quicksum(float(v) * self.columns[j] for v, j in pairs)
        self.model.addCons(self.eta + line >= side)

    def candidate(self, solution: Any) -> tuple[Array, float]:
        """Return (s, eta) of a SCIP solution, None for that of the node's LP."""
        terms = self.columns[: len(self.talk.master.kept)]
        s = np.array([self.model.getSolVal(solution, column) for column in terms])
        return s, self.model.getSolVal(solution, self.eta)

    def reply(self, answer: Callable[[], Any], otherwise: Any) -> dict[str, Any]:
        """Answer a call of SCIP."""
        return {"result": self.talk.guarded(answer, otherwise, self.model.interruptSolve)}

    def separate(self) -> Any:
        """Cut off the LP solution of the node, or accept it."""
        cut = self.talk.separator.cut(*self.candidate(None))
        self.follow()
        if cut is None:
            return self.scip.SCIP_RESULT.FEASIBLE
        self.add(cut)
        return self.scip.SCIP_RESULT.CONSADDED

    def verify(self, solution: Any) -> Any:
        """Say whether a solution from elsewhere satisfies eta >= c(s)."""
        accepted = self.talk.separator.accepts(*self.candidate(solution))
        return self.scip.SCIP_RESULT.FEASIBLE if accepted else self.scip.SCIP_RESULT.INFEASIBLE

    def inject(self) -> Any:
        """Tell SCIP about an incumbent that only the cuts have found."""
        self.follow()
        if self.talk.start()[1] >= self.model.getPrimalbound() - 1e-9:
            return self.scip.SCIP_RESULT.DIDNOTFIND
        found = self.model.trySol(self.solution_of_best(), printreason=False)
        return self.scip.SCIP_RESULT.FOUNDSOL if found else self.scip.SCIP_RESULT.DIDNOTFIND


def _minorant_handler(tree: _ScipTree) -> Any:
    """Return the constraint handler of eta >= c(s)."""
    result = tree.scip.SCIP_RESULT

    class Handler(tree.scip.Conshdlr):  # type: ignore[name-defined,misc]
        def consenfolp(self, *_: Any) -> dict[str, Any]:
            return tree.reply(tree.separate, result.INFEASIBLE)

        def consenfops(self, *_: Any) -> dict[str, Any]:
            # Without an LP solution there is nothing to cut at: ask for the LP.
            return {"result": result.SOLVELP}

        def conscheck(self, constraints: Any, solution: Any, *_: Any) -> dict[str, Any]:
            return tree.reply(lambda: tree.verify(solution), result.INFEASIBLE)

        def conslock(self, constraint: Any, locktype: Any, positive: int, negative: int) -> None:
            for column in (*tree.columns[: len(tree.talk.master.kept)], tree.eta):
                self.model.addVarLocksType(column, locktype, positive, negative)

    return Handler()


def _messenger(tree: _ScipTree) -> Any:
    """Return the plug-in SCIP calls before each node: bounds out, incumbents in."""

    class Messenger(tree.scip.Heur):  # type: ignore[name-defined,misc]
        def heurexec(self, *_: Any) -> dict[str, Any]:
            return tree.reply(tree.inject, tree.scip.SCIP_RESULT.DIDNOTFIND)

    return Messenger()
