"""The paper's first formulation (eq. bigm:primal): a mixed-integer quadratic programme, in SCIP.

    minimise  1/2 |y - M w|^2 + lam/2 |w|^2   over   (s, h) in S,   -B_j s_j <= w_j <= B_j s_j,

and w within its boxes where coefficients are bounded.

The constants B_j (the paper's M) come from the data and are valid by proof.  With H = G + lam I,
w0 = H^-1 q the dense solution and c0 its cost, every w costs c0 + 1/2 (w - w0)'H(w - w0), so a
w no worse than an incumbent of cost U lies in an ellipsoid, whose extent along axis j is

    |w_j - w0_j| <= sqrt(2 (U - c0) (H^-1)_jj);      B_j = |w0_j| + that root,

and lam/2 w_j^2 <= U, which needs no inverse: it is all there is where H is nearly singular.

The cost enters as yy/2 - |t|^2/2 + 1/2 |R w - t|^2 with H = R'R, R't = q: squares of single
variables.  It is kept to compare the two formulations; experiment 7 does, against the pure binary
one of ``cutting_planes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.cutting_planes.master import (
    RESIDUAL,
    TOLERANCE,
    Dialogue,
    Master,
    branch_again,
)
from polysharp.engines.cutting_planes.scip import STOPS, ScipModel
from polysharp.errors import TooLargeError
from polysharp.problem.bounds import UNIT, support_bound, top_sum
from polysharp.problem.problem import Problem
from polysharp.typing import Array

LARGEST = 2000  # monomials: the programme has f dense rows
STEEPEST = 1e7  # numbers beyond this a solver does not keep apart
ACCURATE = 1e-5  # relative accuracy of H^-1 that the constants count on


@dataclass(frozen=True)
class BigM(Engine):
    """The mixed-integer quadratic formulation, with one proven constant per coefficient."""

    name: ClassVar[str] = "big-m"
    packages: ClassVar[tuple[str, ...]] = ("pyscipopt",)
    prices: ClassVar[bool] = False

    def check(self, problem: Problem) -> None:
        """Refuse to start without SCIP, or on more monomials than dense rows allow."""
        super().check(problem)
        if problem.size > LARGEST:
            raise TooLargeError(
                f"engine='big-m' takes at most {LARGEST} monomials, and this problem has "
                f"{problem.size}; use engine='tree' or 'cutting-planes'"
            )

    def search(self, run: Run) -> Stop:
        """Estimate the constants, then let SCIP solve the programme."""
        if not (run.proved or run.expired):
            ellipsoid = Ellipsoid.of(run.problem)
            run.raise_bound(ellipsoid.least)

        def branch(talk: Dialogue) -> Stop | None:
            formulation = _Formulation(talk, ellipsoid)
            return STOPS.get(formulation.solve()) if formulation.sound else Stop.STALLED

        return branch_again(run, Master.of(run), branch)


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """The cost of all w: yy/2 - |t|^2/2 + 1/2 |R w - t|^2, at least ``least``."""

    problem: Problem
    R: Array
    t: Array
    centre: Array
    least: float
    spread: Array  # square roots of the diagonal of H^-1; infinite where H is nearly singular

    @classmethod
    def of(cls, problem: Problem) -> Ellipsoid:
        """Factor the Gram matrix of all monomials, scaled so that one tolerance serves them all."""
        everything = np.arange(problem.size)
        G = problem.gram.block(everything, everything)
        H = G + problem.lam * np.eye(problem.size)
        root = np.sqrt(np.diagonal(H))
        C = H / np.multiply.outer(root, root)
        values, vectors = eigh(C)
        values = np.maximum(values, problem.size * UNIT)
        half = (vectors / np.sqrt(values)).T  # half'half = C^-1
        centre = half.T @ (half @ (problem.q[0] / root)) / root
        spread = np.sqrt((half**2).sum(axis=0)) / root
        if not values[0] ** 2 > problem.size * UNIT / ACCURATE:
            spread[:] = np.inf
        try:
            R = cholesky(H)
            t = solve_triangular(R, problem.q[0], trans="T")
        except np.linalg.LinAlgError:
            R = (vectors * np.sqrt(values)).T * root
            t = half @ (problem.q[0] / root)
        least = max(0.0, support_bound(problem.system(everything, G), centre))
        return cls(problem, R, t, centre, least, spread)

    def limits(self, cost: float, slack: float) -> Array:
        """Return B_j: no solution of at most this cost has a larger coefficient."""
        cost += slack
        reach = np.sqrt(2.0 * max(0.0, cost - self.least))
        own = np.abs(self.centre) + reach * self.spread
        own += ACCURATE * (own + float(np.linalg.norm(self.R @ self.centre)) * self.spread)
        most = np.sqrt(2.0 * cost / self.problem.lam) * (1.0 + 4.0 * UNIT)
        return np.asarray(np.minimum(np.where(np.isfinite(self.spread), own, np.inf), most))

    def error(self, limits: Array) -> float:
        """Return by how much rounding of R and t may change the cost of coefficients so large."""
        known, structure = self.problem.accuracy, self.problem.structure
        sizes = (known.sizes + np.sqrt(self.problem.lam)) * limits
        reach = (
            float(known.response[0])
            + float(np.linalg.norm(self.t))
            + top_sum(sizes, structure.max_terms)
        )
        return (known.unit + 8.0 * (len(limits) + 4.0) * UNIT) * reach**2


class _Formulation(ScipModel):
    """The programme in SCIP, in units of the open gap: eta = (cost - floor) / scale."""

    phase = "big-M programme"

    def __init__(self, talk: Dialogue, ellipsoid: Ellipsoid) -> None:
        super().__init__(talk)
        run, master, add = talk.run, talk.master, self.model.addVar
        self.ellipsoid, best = ellipsoid, run.best.objective
        # SCIP's perspective cuts stumble over multiply aggregated variables.
        self.model.setParam("presolving/donotmultaggr", True)
        self.limits = ellipsoid.limits(best, 1e-9 * best + 100.0 * run.problem.resolution)
        # Coefficients in units of their limits, so that every variable is of order one.
        self.rows = ellipsoid.R * self.limits / np.sqrt(master.scale)
        self.shift = ellipsoid.t / np.sqrt(master.scale)
        self.error = ellipsoid.error(self.limits) / master.scale
        steepest = max(np.abs(self.rows).max(), np.abs(self.shift).max())
        self.sound = bool(steepest < STEEPEST and self.error < 1.0)
        if not self.sound:
            return
        low, high = (rows[0] / self.limits for rows in run.problem.boxes)
        bounds = zip(np.maximum(low, -1.0), np.minimum(high, 1.0), strict=True)
        self.w = [add(lb=float(least), ub=float(most)) for least, most in bounds]
        self.v = [add(lb=None, ub=None) for _ in self.limits]
        self._add_loss()
        self._offer_start()
        self._watch()

    def _add_loss(self) -> None:
        model, s = self.model, self.columns
        for j, (row, v) in enumerate(zip(self.rows, self.v, strict=True)):
            model.addCons(self.w[j] <= s[j])
            model.addCons(self.w[j] >= -s[j])
            line = self.scip.quicksum(float(row[i]) * self.w[i] for i in np.flatnonzero(row))
            model.addCons(line - v == float(self.shift[j]))
        whole = self.talk.master.eta(0.5 * self.talk.run.problem.yy)
        offset = whole - 0.5 * float(self.shift @ self.shift)
        model.addCons(self.eta >= 0.5 * self.scip.quicksum(v * v for v in self.v) + offset)

    def _offer_start(self) -> None:
        best, solution = self.talk.run.best, self.model.createSol()
        point, eta = self.talk.start()
        w = np.zeros(len(self.w))
        w[best.support] = best.w[0] / self.limits[best.support]
        for variables, values in (
            (self.columns, point),
            (self.w, w),
            (self.v, self.rows @ w - self.shift),
            ([self.eta], [eta + TOLERANCE]),
        ):
            for variable, value in zip(variables, values, strict=True):
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
                programme.talk.guarded(programme.follow, None, self.model.interruptSolve)

        self.model.includeEventhdlr(Watcher(), "progress", "bounds and incumbents for the run")

    def follow(self) -> None:
        """Carry bounds and incumbents over to the run."""
        run, model = self.talk.run, self.model
        if model.getNSols():
            solution = model.getBestSol()
            s = [model.getSolVal(solution, x) for x in self.columns[: len(self.w)]]
            run.offer(np.flatnonzero(np.array(s) > 0.5))
        # The quadratic row may be broken by the tolerance, and so may each of its f definitions.
        slack = TOLERANCE * len(self.w) + RESIDUAL * float(np.abs(self.rows).max()) + self.error
        self.talk.follow(model.getDualbound() - slack, model.getNTotalNodes(), self.phase)
