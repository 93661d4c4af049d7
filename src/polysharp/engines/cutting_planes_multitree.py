"""Algorithm 2 as the paper writes it: one integer programme after another, in HiGHS.

    solve the master  ->  (s, eta);     eta is a lower bound, c(s) an upper one;
    add the tangent at s;               until both meet.

HiGHS has no lazy constraints, so every round is a tree of its own; each starts from the
incumbent.  The bound of a round is HiGHS's own dual bound, which stands whether or not the
round was solved to the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.interrupts import DeferredInterrupt
from polysharp.engines.master import TOLERANCE, Cut, Master, Separator, safe_bound
from polysharp.engines.root_cuts import linear_model, load_highs, prepare
from polysharp.problem.problem import Problem
from polysharp.typing import Array


@dataclass(frozen=True)
class CuttingPlanesMultitree(Engine):
    """Outer approximation by a sequence of integer programmes in HiGHS.

    Parameters
    ----------
    root_cuts : bool
        Add tangents at fractional points, fix columns and raise the ridge first; False is the
        paper's pure form, with cuts at binary points only.
    """

    name: ClassVar[str] = "cutting-planes-multitree"
    root_cuts: bool = True

    def check(self, problem: Problem) -> None:
        """Refuse to start without HiGHS."""
        del problem
        load_highs()

    def search(self, run: Run) -> Stop:
        """Solve, cut, solve again until bound and incumbent meet."""
        master: Master | None = prepare(run, root_cuts=self.root_cuts)
        while not (run.proved or run.expired):
            if master is None:
                return Stop.STALLED
            separator = Separator(run, master, clip=self.root_cuts)
            self._sequence(_Programme(run, master), separator)
            master = master.renewed(run, separator.added)
        return Stop.PROVED if run.proved else Stop.TIME

    @staticmethod
    def _sequence(programme: _Programme, separator: Separator) -> None:
        """Add cuts until the last programme needs none, or the time is over."""
        run = separator.run
        while not (run.proved or run.expired):
            answer = programme.solve()
            run.rounds += 1
            run.report("integer programme")
            cut = None if answer is None else separator.cut(*answer)
            if cut is None:
                return
            programme.add(cut)


@dataclass(eq=False)
class _Programme:
    """The master in HiGHS, growing by one cut a round."""

    run: Run
    master: Master
    error: BaseException | None = field(init=False, default=None)
    ctrl_c: DeferredInterrupt = field(init=False, default_factory=DeferredInterrupt)
    _api: Any = field(init=False, default_factory=load_highs)
    _highs: Any = field(init=False)

    def __post_init__(self) -> None:
        highspy = self._api
        model = linear_model(self.master, least_eta=0.0)
        binary = [highspy.HighsVarType.kInteger] * self.master.rules.size
        model.integrality_ = [*binary, highspy.HighsVarType.kContinuous]
        self._highs = highspy.Highs()
        for name, value in {
            "output_flag": False,
            "threads": self.run.threads,
            "random_seed": self.run.seed % 2**31,
            "mip_feasibility_tolerance": TOLERANCE,
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
            "mip_rel_gap": 0.0,
        }.items():
            self._highs.setOptionValue(name, value)
        self._highs.passModel(model)
        # HiGHS asks now and then whether to go on.
        self._highs.cbMipInterrupt.subscribe(self._listen)
        for cut in self.master.cuts:
            self.add(cut)

    def add(self, cut: Cut) -> None:
        """Add a cut."""
        where, values, side = self.master.row(cut)
        index = np.append(where, self.master.rules.size).astype(np.int32)
        row = np.append(values, 1.0)
        self._highs.addRow(side, self._api.kHighsInf, len(index), index, row)

    def solve(self) -> tuple[Array, float] | None:
        """Return (s, eta) of the best solution, None where the time ran out before one."""
        if np.isfinite(self.run.time_left):
            self._highs.setOptionValue("time_limit", max(0.0, self.run.time_left))
        share = 0.25 * self.run.limits.gap_tol * self.run.best.objective / self.master.scale
        self._highs.setOptionValue("mip_abs_gap", share)
        self._start()
        with DeferredInterrupt() as self.ctrl_c:
            self._highs.run()
        if self.error is not None:
            raise self.error
        info = self._highs.getInfo()
        self._raise_bound(info.mip_dual_bound)
        self.run.nodes += max(0, int(info.mip_node_count))
        if self._highs.getModelStatus() != self._api.HighsModelStatus.kOptimal:
            return None
        x = np.array(self._highs.getSolution().col_value)
        return x[: len(self.master.kept)], float(x[-1])

    def _start(self) -> None:
        """Give HiGHS the incumbent."""
        solution = self._api.HighsSolution()
        best = self.run.best
        eta = max(0.0, self.master.eta(best.objective))
        solution.col_value = np.append(self.master.point(best.support), eta)
        self._highs.setSolution(solution)

    def _raise_bound(self, eta: float) -> None:
        if np.isfinite(eta):
            self.run.raise_bound(safe_bound(self.run, self.master, eta))

    def _listen(self, event: Any) -> None:
        try:
            self._raise_bound(event.data_out.mip_dual_bound)
            self.run.report("integer programme")
            if self.ctrl_c.pending:
                event.interrupt()
        except BaseException as error:
            self.error = self.error or error
            event.interrupt()
