"""SCIP as the engines use it: a quiet model with the rules of a master, run so that it can end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.cutting_planes.master import TOLERANCE
from polysharp.engines.cutting_planes.outer import Dialogue
from polysharp.errors import load_optional

STOPS = {"timelimit": Stop.TIME, "userinterrupt": Stop.INTERRUPTED}
TROUBLE = "numerical trouble"


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
            model.setParam("limits/time", max(0.0, run.time_left))
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
        """Run SCIP; what it had proved stays true if an LP defeats it.

        SCIP looks up for Ctrl-C only now and then, and not for half a minute while it presolves.
        So it runs in a thread of its own; if it does not end soon after the signal, it is left
        alone.
        """
        worker = _idle_worker()
        worker.tasks.put(self.model.optimizeNogil)
        try:
            while True:
                with suppress(Empty):
                    error = worker.done.get(timeout=0.1)
                    break
        except KeyboardInterrupt:
            with suppress(Exception):  # SCIP may be between two stages
                self.model.interruptSolve()
            with suppress(Empty):
                worker.done.get(timeout=1.0)
                _IDLE.append(worker)
            raise
        _IDLE.append(worker)
        return str(self.model.getStatus()) if error is None else TROUBLE


class _Worker(Thread):
    """A thread that does one task after another.

    SCIP's nonlinear part numbers the threads it meets and has room for 64: a new one for every
    programme crashes it sooner or later.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.tasks: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.done: SimpleQueue[Exception | None] = SimpleQueue()
        self.start()

    def run(self) -> None:
        """Do tasks as long as the process lives, and hand back what they raise."""
        while True:
            task = self.tasks.get()
            with np.errstate(all="ignore"):
                try:
                    task()
                except Exception as error:
                    self.done.put(error)
                else:
                    self.done.put(None)
            del task


_IDLE: list[_Worker] = []


def _idle_worker() -> _Worker:
    while _IDLE:
        worker = _IDLE.pop()
        if worker.is_alive():  # not so in a process that was forked
            return worker
    return _Worker()
