"""The paper's first formulation (eq. bigm:primal): a mixed-integer quadratic programme, in SCIP.

    minimise  1/2 |y - M w|^2 + lam/2 |w|^2   over   (s, h) in S,   -B_j s_j <= w_j <= B_j s_j.

The constants B_j (the paper's M) come from the data and are valid by proof.  With H = G + lam I,
w0 = H^-1 q the dense solution and c0 its cost, every w costs c0 + 1/2 (w - w0)'H(w - w0), so a
w no worse than an incumbent of cost U lies in an ellipsoid, whose extent along axis j is

    |w_j - w0_j| <= sqrt(2 (U - c0) (H^-1)_jj);      B_j = |w0_j| + that root.

The cost enters as c0 + 1/2 |v|^2 with v = R (w - w0), H = R'R: squares of single variables.  It
is kept to compare the two formulations; experiment 7 does, against the pure binary one of
``cutting_planes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.master import TOLERANCE, Master
from polysharp.engines.scip_model import STOPS, TROUBLE, add_rows, load_scip, optimise, quiet_model
from polysharp.errors import TooLargeError
from polysharp.problem.bounds import UNIT, support_bound
from polysharp.problem.problem import Problem
from polysharp.typing import Array

LARGEST = 2000  # monomials: the programme has f dense rows


@dataclass(frozen=True)
class BigM(Engine):
    """The mixed-integer quadratic formulation, with one proven constant per coefficient."""

    name: ClassVar[str] = "big-m"
    prices: ClassVar[bool] = False

    def check(self, problem: Problem) -> None:
        """Refuse to start without SCIP, or on more monomials than dense rows allow."""
        load_scip(self.name)
        if problem.size > LARGEST:
            raise TooLargeError(
                f"engine='big-m' takes at most {LARGEST} monomials, and this problem has "
                f"{problem.size}; use engine='tree' or 'cutting-planes'"
            )

    def search(self, run: Run) -> Stop:
        """Estimate the constants, then let SCIP solve the programme."""
        try:
            ellipsoid = Ellipsoid.of(run.problem)
        except np.linalg.LinAlgError:  # singular to rounding: no constant can be proved
            return Stop.STALLED
        run.raise_bound(ellipsoid.least)
        master: Master | None = Master.of(run)
        while not (run.proved or run.expired):
            if master is None:
                return Stop.STALLED
            status = _Formulation(load_scip(self.name), run, master, ellipsoid).solve()
            if status in STOPS and not run.proved:
                return STOPS[status]
            master = master.renewed(run, ())
        return Stop.PROVED if run.proved else Stop.TIME


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """The cost of all w: least + 1/2 |R (w - centre)|^2."""

    R: Array
    centre: Array
    least: float  # rounded down
    spread: Array  # square roots of the diagonal of H^-1

    @classmethod
    def of(cls, problem: Problem) -> Ellipsoid:
        """Factor the Gram matrix of all monomials."""
        everything = np.arange(problem.size)
        G = problem.gram.block(everything, everything)
        R = cholesky(G + problem.lam * np.eye(problem.size))
        half = solve_triangular(R, problem.q, trans="T")
        inverse = solve_triangular(R, np.eye(problem.size))
        centre: Array = solve_triangular(R, half)
        least = max(0.0, support_bound(problem.system(everything, G), centre))
        return cls(R, centre, least, np.sqrt((inverse**2).sum(axis=1)))

    def rounding(self, problem: Problem, limits: Array) -> float:
        """Return what rounding of R may add to the cost of a w within the limits."""
        known = problem.accuracy
        largest = np.sort(limits * known.sizes)[::-1][: problem.structure.max_terms].sum()
        reach = float(np.abs(self.centre) @ known.sizes + largest)
        return (known.unit + 2.0 * (problem.size + 16.0) * UNIT) * reach**2

    def limits(self, cost: float, slack: float) -> Array:
        """Return B_j: no solution of at most this cost has a larger coefficient."""
        reach = np.sqrt(2.0 * (max(0.0, cost - self.least) + slack))
        limits: Array = np.abs(self.centre) + reach * self.spread
        return limits


class _Formulation:
    """The programme in SCIP, in units of the open gap: eta = (cost - floor) / scale."""

    def __init__(self, scip: Any, run: Run, master: Master, ellipsoid: Ellipsoid) -> None:
        self.scip, self.run, self.master, self.ellipsoid = scip, run, master, ellipsoid
        self._nodes_before = run.nodes
        self.error: BaseException | None = None
        self.model = quiet_model(scip, run.time_left)
        # SCIP's perspective cuts stumble over multiply aggregated variables.
        self.model.setParam("presolving/donotmultaggr", True)
        best = run.best.objective
        self.limits = ellipsoid.limits(best, 1e-9 * best + 100.0 * run.problem.resolution)
        self.rounding = ellipsoid.rounding(run.problem, self.limits)
        add = self.model.addVar
        self.columns = [add(vtype="B", lb=float(low)) for low in master.rules.lower]
        # Coefficients in units of their limits, so that every variable is of order one.
        self.w = [add(lb=-1.0, ub=1.0) for _ in self.limits]
        self.v = [add(lb=None, ub=None) for _ in self.limits]
        self.eta = add(lb=0.0, obj=1.0)
        self._add_rows()
        self._offer_start()
        self._watch()

    def _add_rows(self) -> None:
        model, s, ellipsoid = self.model, self.columns, self.ellipsoid
        add_rows(self.scip, model, s, self.master.rules)
        rows = ellipsoid.R * self.limits / np.sqrt(self.master.scale)
        shift = ellipsoid.R @ ellipsoid.centre / np.sqrt(self.master.scale)
        for j in range(len(self.w)):
            model.addCons(self.w[j] <= s[j])
            model.addCons(self.w[j] >= -s[j])
            line = self.scip.quicksum(float(rows[j, i]) * self.w[i] for i in range(j, len(self.w)))
            model.addCons(line - self.v[j] == float(shift[j]))
        offset = self.master.eta(ellipsoid.least)
        model.addCons(self.eta >= 0.5 * self.scip.quicksum(v * v for v in self.v) + offset)

    def _offer_start(self) -> None:
        best, solution = self.run.best, self.model.createSol()
        w = np.zeros(len(self.w))
        w[best.support] = best.w
        v = self.ellipsoid.R @ (w - self.ellipsoid.centre) / np.sqrt(self.master.scale)
        values = [
            *zip(self.columns, self.master.point(best.support), strict=True),
            *zip(self.w, w / self.limits, strict=True),
            *zip(self.v, v, strict=True),
            (self.eta, self.master.eta(best.objective) + TOLERANCE),
        ]
        for variable, value in values:
            self.model.setSolVal(solution, variable, float(value))
        self.model.addSol(solution)

    def _watch(self) -> None:
        programme, kinds = self, self.scip.SCIP_EVENTTYPE
        events = kinds.NODESOLVED | kinds.BESTSOLFOUND

        class Watcher(self.scip.Eventhdlr):  # type: ignore[name-defined,misc]
            def eventinit(self) -> None:
                self.model.catchEvent(events, self)

            def eventexit(self) -> None:
                self.model.dropEvent(events, self)

            def eventexec(self, event: Any) -> None:
                programme.on_event()

        self.model.includeEventhdlr(Watcher(), "progress", "bounds and incumbents for the run")

    def on_event(self) -> None:
        """Carry bounds and incumbents over; keep an exception, which SCIP would swallow."""
        try:
            self._follow()
        except BaseException as error:
            self.error = self.error or error
            self.model.interruptSolve()

    def _follow(self) -> None:
        if self.model.getNSols():
            solution = self.model.getBestSol()
            s = [self.model.getSolVal(solution, x) for x in self.columns[: len(self.w)]]
            self.run.offer(np.flatnonzero(np.array(s) > 0.5))
        eta = min(self.model.getDualbound(), self.master.eta(self.run.best.objective))
        # The quadratic row may be broken by the tolerance, and so may each of its f definitions.
        slack = TOLERANCE * (len(self.w) + 1)
        bound = self.master.floor + (eta - slack) * self.master.scale
        self.run.raise_bound(bound - self.rounding)
        self.run.nodes = self._nodes_before + int(self.model.getNTotalNodes())
        self.run.report("big-M programme")

    def solve(self) -> str:
        """Run SCIP; an exception from the watcher is raised again here."""
        share = 0.5 * self.run.limits.gap_tol * self.run.best.objective / self.master.scale
        self.model.setParam("limits/absgap", share)
        status = optimise(self.model)
        if self.error is not None:
            raise self.error
        if status != TROUBLE:
            self._follow()
        return status
