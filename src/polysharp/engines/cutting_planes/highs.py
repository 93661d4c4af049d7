"""Masters in HiGHS: the linear relaxation of the root, and one integer programme after another.

With multipliers y of the rows (cuts normalised to sum 1, so that eta drops out) and reduced
costs d = -A'y, every allowed (s, h) satisfies

    c(s) >= L + sum_j max(d_j, 0) (x_j - lower_j) + sum_j max(-d_j, 0) (1 - x_j),
    L    =  b'y + sum_j min(d_j lower_j, d_j),

whatever y is, so that L, rounded down, is a bound however inexactly the LP was solved.

Algorithm 2 as the paper writes it solves the master to (s, eta), where eta is a lower bound and
c(s) an upper one, and adds the tangent at s until both meet.  HiGHS has no lazy constraints, so
every round is a tree of its own; each starts from the incumbent.  The bound of a round is HiGHS's
own, which stands whether or not the round was solved to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.engines import DeferredInterrupt
from polysharp.engines.base import Run
from polysharp.engines.cutting_planes.master import TOLERANCE, Cut, Dialogue, Master
from polysharp.errors import load_optional
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array

CENTRE_WEIGHT = 0.8
NEGLIGIBLE_PART = 1e-5  # parts of the centre below this are left out of a tangent


class HighsModel:
    """A master in HiGHS: its columns and eta, the rows of its rules, then one row for each cut.

    Unless columns are ``binary``, eta is free, which guides early rounds.
    """

    def __init__(self, master: Master, options: dict[str, Any], *, binary: bool) -> None:
        self.api = api = load_optional("highspy", "an engine of cutting planes", "solvers")
        self.master, rules, n = master, master.rules, master.rules.size
        self.cuts: list[Cut] = []
        lp = api.HighsLp()
        lp.num_col_, lp.num_row_ = n + 1, rules.A.shape[0]
        lp.col_cost_ = np.append(np.zeros(n), 1.0)
        lp.col_lower_ = np.append(rules.lower, 0.0 if binary else -api.kHighsInf)
        lp.col_upper_ = np.append(np.ones(n), api.kHighsInf)
        lp.row_lower_ = np.maximum(rules.low, -api.kHighsInf)
        lp.row_upper_ = np.minimum(rules.high, api.kHighsInf)
        lp.a_matrix_.format_ = api.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = rules.A.indptr
        lp.a_matrix_.index_ = rules.A.indices
        lp.a_matrix_.value_ = rules.A.data
        if binary:
            kinds = api.HighsVarType
            lp.integrality_ = [*[kinds.kInteger] * n, kinds.kContinuous]
        self.highs = api.Highs()
        for name, value in {"output_flag": False, **options}.items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(lp)
        for cut in master.cuts:
            self.add(cut)

    def add(self, cut: Cut) -> None:
        """Add a cut."""
        where, values, side = self.master.row(cut)
        index = np.append(where, self.master.rules.size).astype(np.int32)
        values = np.append(values, 1.0)
        self.highs.addRow(side, self.api.kHighsInf, len(index), index, values)
        self.cuts.append(cut)

    def run(self, run: Run) -> bool:
        """Solve in the time that is left; return whether it is solved."""
        if np.isfinite(run.time_left):
            self.highs.setOptionValue("time_limit", run.time_left)
        self.highs.run()
        return bool(self.highs.getModelStatus() == self.api.HighsModelStatus.kOptimal)


@dataclass(frozen=True, eq=False)
class LinearPoint:
    """The LP's answer: a point, a safe bound, reduced costs, and which cuts carry it."""

    x: Array
    bound: float
    d: Array
    weights: Array

    def nearer(self, centre: Array) -> Array:
        """Return a centre that has moved a little towards the point."""
        return CENTRE_WEIGHT * centre + (1.0 - CENTRE_WEIGHT) * self.x[: len(centre)]


class RootLP(HighsModel):
    """The linear relaxation of a master."""

    def __init__(self, master: Master) -> None:
        super().__init__(master, {"threads": 1}, binary=False)
        self._lower, self._upper = master.rules.lower.copy(), np.ones(master.rules.size)

    def bind(self, column: int, low: float, high: float) -> None:
        """Change the bounds of a column."""
        self._lower[column], self._upper[column] = low, high
        self.highs.changeColBounds(int(column), low, high)

    def solve(self, run: Run) -> LinearPoint | None:
        """Solve; None where HiGHS has no answer (time, or numerical trouble)."""
        if not self.run(run):
            return None
        answer = self.highs.getSolution()
        x = np.clip(np.array(answer.col_value)[:-1], 0.0, 1.0)
        return self.safe(x, np.array(answer.row_dual))

    def solve_with(self, run: Run, centre: Array) -> LinearPoint | None:
        """Solve with the tangent at a centre added."""
        centre = np.where(centre < NEGLIGIBLE_PART, 0.0, centre)
        self.add(self.master.tangent(centre).clipped(run.bound))
        return self.solve(run)

    def safe(self, x: Array, y: Array) -> LinearPoint:
        """Bound and reduced costs from the multipliers alone, rounded down."""
        rules, f = self.master.rules, len(self.master.kept)
        split = rules.A.shape[0]
        weights = np.maximum(y[split:], 0.0)
        total = weights.sum()
        weights = weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
        y = y[:split] * self.master.scale
        y = np.where(np.isfinite(rules.low), y, np.minimum(y, 0.0))
        y = np.where(np.isfinite(rules.high), y, np.maximum(y, 0.0))
        side = np.where(y > 0.0, rules.low, rules.high)
        constants = np.array([cut.constant for cut in self.cuts])
        slopes = np.array([cut.slopes for cut in self.cuts])
        d = -(rules.A.T @ y)
        d[:f] += weights @ slopes
        reach = abs(rules.A).T @ np.abs(y)
        reach[:f] -= weights @ slopes  # slopes are never positive
        given = y != 0.0
        bound = float(weights @ constants) + float(y[given] @ side[given])
        bound += float(np.minimum(d * self._lower, d * self._upper).sum())
        # Every number above is a sum of products, each of them wrong by a rounding.
        size = float(weights @ np.abs(constants) + np.abs(y[given]) @ np.abs(side[given]))
        size += float((reach + np.abs(d)).sum())
        margin = 2.0 * (len(y) + len(d) + len(weights) + 16.0) * UNIT * size
        return LinearPoint(x, bound - margin if np.isfinite(bound) else -np.inf, d, weights)

    def carrying(self, relaxed: LinearPoint) -> tuple[Cut, ...]:
        """The cuts with a positive multiplier, and the latest ones."""
        keep = relaxed.weights > 0.0
        keep[-5:] = True
        return tuple(cut for cut, kept in zip(self.cuts, keep, strict=True) if kept)


def branch(talk: Dialogue) -> None:
    """Solve integer programmes, each with more cuts, until one needs none or the time is over."""
    run, master, phase = talk.run, talk.master, "integer programme"
    options = {
        "threads": run.threads,
        "random_seed": run.seed % 2**31,
        "mip_feasibility_tolerance": TOLERANCE,
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        "mip_rel_gap": 0.0,
    }
    programme = HighsModel(master, options, binary=True)
    highs = programme.highs

    def listen(event: Any) -> None:
        bound, nodes = event.data_out.mip_dual_bound, event.data_out.mip_node_count
        talk.guarded(lambda: talk.follow(bound, nodes, phase), None, event.interrupt)
        if ctrl_c.pending:
            event.interrupt()

    highs.cbMipInterrupt.subscribe(listen)  # HiGHS asks now and then whether to go on
    while not (run.proved or run.expired):
        highs.setOptionValue("mip_abs_gap", talk.gap(0.25))
        start = programme.api.HighsSolution()
        start.col_value = np.append(*talk.start())
        highs.setSolution(start)
        with DeferredInterrupt() as ctrl_c:
            solved = programme.run(run)
        talk.finish()
        info, x = highs.getInfo(), np.array(highs.getSolution().col_value)
        talk.follow(info.mip_dual_bound, info.mip_node_count, phase)
        talk.nodes_before = run.nodes
        run.rounds += 1
        run.report(phase)
        cuts = talk.cuts(x[: len(master.kept)], float(x[-1])) if solved else []
        if not cuts:
            break
        for cut in cuts:
            programme.add(cut)
