"""Algorithm 2 in one tree: branch and bound in SCIP, with cuts added as they are broken.

SCIP solves the master (see ``master``).  Wherever the linear relaxation of a node has an
integral solution (s, eta) with eta < c(s), the tangent of c at s is added for the whole tree
and the node is solved again.  So the paper's sequence of integer programmes becomes one.

What SCIP must be told: the constraint eta >= c(s) pushes every s_j and eta upwards (locks);
symmetry and dual reductions cannot see it and are off; it is enforced after integrality and
the linear rows (priorities below theirs).  Cuts are found in enforcement only.  ``ScipModel`` is
SCIP as other engines use it, too: a quiet model with the rules of a master, run so that it can end.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.cutting_planes.master import TOLERANCE, Cut, Dialogue
from polysharp.errors import load_optional
from polysharp.typing import Array

STOPS = {"timelimit": Stop.TIME, "userinterrupt": Stop.INTERRUPTED}
TROUBLE = "numerical trouble"

BELOW_ALL = -9_999_999  # SCIP's integrality and linear handlers stand above this priority


class ScipModel:
    """A SCIP model with binary columns, eta and the rules low <= A x <= high of a master."""

    phase = "branch and cut"

    def __init__(self, talk: Dialogue) -> None:
        self.scip = load_optional("pyscipopt", "SCIP", "solvers")
        self.talk, run, rules = talk, talk.run, talk.master.rules
        self.model = model = self.scip.Model()
        model.hideOutput()
        for name in ("numerics/feastol", "numerics/dualfeastol"):
            model.setParam(name, TOLERANCE)
        model.setParam("limits/absgap", talk.gap(0.5))
        model.setParam("misc/catchctrlc", False)
        if np.isfinite(run.time_left):
            model.setParam("limits/time", run.time_left)
        self.columns = [model.addVar(vtype="B", lb=float(low)) for low in rules.lower]
        self.eta = model.addVar(lb=0.0, obj=1.0)
        A = rules.A
        for row in range(A.shape[0]):
            entries = slice(A.indptr[row], A.indptr[row + 1])
            pairs = zip(A.data[entries], A.indices[entries], strict=True)
            line = self.scip.quicksum(float(a) * self.columns[c] for a, c in pairs)
            if np.isfinite(rules.high[row]):
                model.addCons(line <= float(rules.high[row]))
            if np.isfinite(rules.low[row]):
                model.addCons(line >= float(rules.low[row]))

    def follow(self) -> None:
        """Carry bound and counters over to the run."""
        self.talk.follow(self.model.getDualbound(), self.model.getNTotalNodes(), self.phase)

    def solve(self) -> str:
        """Run SCIP and return its status; an exception from a callback is raised again here."""
        status = self._run()
        self.talk.finish()
        if status != TROUBLE:
            self.follow()
        return status

    def _run(self) -> str:
        """Run SCIP; its proofs stay true if an LP defeats it."""
        # SCIP looks up for Ctrl-C only now and then, and not for half a minute while it presolves.
        # So it runs in a thread of its own; if it does not end soon after the signal, it is left
        # alone.
        _IDLE[:] = [idle for idle in _IDLE if idle.is_alive()]  # not so in a forked process
        worker, done = _IDLE.pop() if _IDLE else _Worker(), Future[None]()
        worker.tasks.put((self.model.optimizeNogil, done))
        try:
            while not done.done():
                wait([done], timeout=0.1)
        except KeyboardInterrupt:
            with suppress(Exception):  # SCIP may be between two stages
                self.model.interruptSolve()
            if wait([done], timeout=1.0).done:
                _IDLE.append(worker)
            raise
        _IDLE.append(worker)
        return str(self.model.getStatus()) if done.exception() is None else TROUBLE


class _Worker(Thread):
    """A thread that does one task after another.

    SCIP's nonlinear part numbers the threads it meets and has room for 64: a new one for every
    programme crashes it sooner or later.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.tasks: SimpleQueue[tuple[Callable[[], object], Future[None]]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        """Do tasks as long as the process lives, and keep the exceptions."""
        while True:
            task, done = self.tasks.get()
            try:
                with np.errstate(all="ignore"):
                    task()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)
            del task, done


_IDLE: list[_Worker] = []


def branch(talk: Dialogue) -> Stop | None:
    """Let SCIP branch and ask for cuts."""
    return STOPS.get(_ScipTree(talk).solve())


class _ScipTree(ScipModel):
    """One SCIP model of a master, with the plug-ins that talk to the run."""

    def __init__(self, talk: Dialogue) -> None:
        super().__init__(talk)
        model, off = self.model, self.scip.SCIP_PARAMSETTING.OFF
        for setting in (model.setPresolve, model.setSeparating, model.setHeuristics):
            setting(off)
        for name, value in {
            "misc/usesymmetry": 0,
            "misc/allowstrongdualreds": False,
            "misc/allowweakdualreds": False,
            "randomization/randomseedshift": talk.run.seed % 2**31,
        }.items():
            model.setParam(name, value)
        for cut in talk.master.cuts:
            self.add(cut)
        handler, messenger = _plugins(self)
        below_all = {"enfopriority": BELOW_ALL, "chckpriority": BELOW_ALL}
        model.includeConshdlr(handler, "loss", "eta >= c(s)", needscons=True, **below_all)
        model.addPyCons(model.createCons(handler, "loss"))
        model.includeHeur(messenger, "incumbent", "solutions found by cuts", "P")
        model.addSol(self.solution_of_best())

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

    def candidate(self, solution: Any = None) -> tuple[Array, float]:
        """Return (s, eta) of a SCIP solution, by default of the LP of the node."""
        terms = self.columns[: len(self.talk.master.kept)]
        s = np.array([self.model.getSolVal(solution, column) for column in terms])
        return s, self.model.getSolVal(solution, self.eta)

    def reply(self, answer: Callable[[], Any], otherwise: Any) -> dict[str, Any]:
        """Answer a call of SCIP."""
        return {"result": self.talk.guarded(answer, otherwise, self.model.interruptSolve)}

    def separate(self) -> Any:
        """Cut off the LP solution of the node, or accept it."""
        cuts = self.talk.cuts(*self.candidate())
        self.follow()
        for cut in cuts:
            self.add(cut)
        result = self.scip.SCIP_RESULT
        return result.CONSADDED if cuts else result.FEASIBLE

    def inject(self) -> Any:
        """Tell SCIP about an incumbent that only the cuts have found."""
        self.follow()
        better = self.talk.start()[1] < self.model.getPrimalbound() - 1e-9
        found = better and self.model.trySol(self.solution_of_best(), printreason=False)
        result = self.scip.SCIP_RESULT
        return result.FOUNDSOL if found else result.DIDNOTFIND


def _plugins(tree: _ScipTree) -> tuple[Any, Any]:
    """Return the handler of eta >= c(s), and the messenger that SCIP calls before each node."""
    result, talk = tree.scip.SCIP_RESULT, tree.talk

    class Handler(tree.scip.Conshdlr):  # type: ignore[name-defined,misc]
        def consenfolp(self, *_: Any) -> dict[str, Any]:
            return tree.reply(tree.separate, result.INFEASIBLE)

        def consenfops(self, *_: Any) -> dict[str, Any]:
            # Without an LP solution there is nothing to cut at: ask for the LP.
            return {"result": result.SOLVELP}

        def conscheck(self, constraints: Any, solution: Any, *_: Any) -> dict[str, Any]:
            def verify() -> Any:
                accepted = talk.accepts(*tree.candidate(solution))
                return result.FEASIBLE if accepted else result.INFEASIBLE

            return tree.reply(verify, result.INFEASIBLE)

        def conslock(self, constraint: Any, locktype: Any, positive: int, negative: int) -> None:
            for column in (*tree.columns[: len(talk.master.kept)], tree.eta):
                self.model.addVarLocksType(column, locktype, positive, negative)

    class Messenger(tree.scip.Heur):  # type: ignore[name-defined,misc]
        def heurexec(self, *_: Any) -> dict[str, Any]:
            return tree.reply(tree.inject, result.DIDNOTFIND)

    return Handler(), Messenger()
