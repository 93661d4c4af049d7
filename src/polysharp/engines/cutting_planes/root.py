"""Tangent cuts at fractional points, and what they prove before any branching.

The linear relaxation of the master asks for a point of small c; cuts at its own (extreme)
points stall, so the tangent is taken inside (in-out separation):

    x  <-  0.8 x + 0.2 x_LP,      cut at x,      solve the LP again.

With multipliers y of the rows (cuts normalised to sum 1, so that eta drops out) and reduced
costs d = -A'y, every allowed (s, h) satisfies

    c(s) >= L + sum_j max(d_j, 0) (x_j - lower_j) + sum_j max(-d_j, 0) (1 - x_j),
    L    =  b'y + sum_j min(d_j lower_j, d_j),

whatever y is, so L, rounded down, is a bound however inexactly the LP was solved, and a column is
fixed at zero (one) where moving it to one (zero) lifts this above the incumbent.  Once few
monomials are left, curvature of their Gram matrix goes into the ridge and the loop begins again on
the stronger c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.base import Run
from polysharp.engines.cutting_planes.master import Cut, Master
from polysharp.errors import load_optional
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array

Mask = NDArray[np.bool_]

CENTRE_WEIGHT = 0.8
NEGLIGIBLE = 1e-5  # parts of the centre below this are left out of a tangent
MAX_ROUNDS = 300
MAX_FAILURES = 3  # columns in a row that probing may fail to fix
PATIENCE = 12  # rounds over which the bound must move
STALL = 0.05  # share of the open gap below which that counts as standing still
SHRINK = 0.8  # rebuild the LP when this share of its columns is left


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


def prepare(run: Run, *, root_cuts: bool) -> Master:
    """Return the master an engine starts from; without root cuts it holds one cut, the start's."""
    master = Master.of(run)
    if root_cuts:
        return strengthen(run, master)
    run.cuts += 1
    return master.with_cuts([master.tangent(_indicator(run, master)).clipped(0.0)])


def strengthen(run: Run, master: Master) -> Master:
    """Add root cuts, fix columns and raise the ridge until nothing moves any more."""
    before = None
    while master is not before and not (run.proved or run.expired):
        before = _in_out(run, master)
        master = before.ridge_raised()
        if master is before and not (run.proved or run.expired):
            master = _probe(run, master)
    return master.rescaled(run)


def _in_out(run: Run, master: Master) -> Master:
    """Run one in-out loop; returns the master with the cuts that carry the LP bound."""
    centre, lp, history = _indicator(run, master), RootLP(master), list[float]()
    relaxed = lp.solve_with(run, centre)
    while relaxed is not None:
        run.rounds += 1
        run.cuts += 1
        run.raise_bound(min(relaxed.bound, run.best.objective))
        _offer_rounding(run, master, relaxed.x, centre)
        run.report("root cuts")
        history.append(relaxed.bound)
        out, into = _fixings(run, master, relaxed)
        done = run.proved or run.expired or _stalled(history, run)
        if done or np.count_nonzero(~out) <= SHRINK * len(out):
            centre = centre[~out[: len(centre)]]
            master = replace(master, cuts=lp.carrying(relaxed)).restrict(~out, into).rescaled(run)
            lp = RootLP(master)
        else:
            centre = relaxed.nearer(centre)
        if done:
            break
        relaxed = lp.solve_with(run, centre)
    return replace(master, cuts=tuple(lp.cuts))


def _probe(run: Run, master: Master) -> Master:
    """Fix in what the incumbent has and no better solution can be without."""
    # Inputs come first: with k of them fixed in, all others leave.  The same master comes back
    # where nothing could be fixed.
    lp = RootLP(master)
    relaxed = lp.solve(run)
    if relaxed is None:
        return master
    f = len(master.kept)
    free = (master.point(run.best.support) > 0.5) & (master.rules.lower < 0.5)
    columns = np.flatnonzero(free)
    columns = columns[np.lexsort((relaxed.d[columns], columns < f))]
    into = np.zeros(len(free), dtype=bool)
    failures = 0
    for column in columns.tolist():
        if failures == MAX_FAILURES or run.expired:
            break
        into[column] = _refuted(run, lp, column, _indicator(run, master))
        lp.bind(column, float(into[column]), 1.0)
        failures = 0 if into[column] else failures + 1
        run.nodes += 1
    if not into.any():
        return master
    relaxed = lp.solve(run)
    cuts = master.cuts if relaxed is None else lp.carrying(relaxed)
    return replace(master, cuts=cuts).restrict(np.ones(len(into), dtype=bool), into)


def _refuted(run: Run, lp: RootLP, column: int, centre: Array) -> bool:
    """Whether in-out cuts prove that a column at zero is worse than the incumbent."""
    lp.bind(column, 0.0, 0.0)
    relaxed, history = lp.solve(run), list[float]()
    while relaxed is not None:
        history.append(relaxed.bound)
        if relaxed.bound > _limit(run):
            return True
        if run.expired or _stalled(history, run):
            return False
        run.rounds += 1
        run.cuts += 1
        run.report("probing")
        centre = relaxed.nearer(centre)
        relaxed = lp.solve_with(run, centre)
    return False


def _limit(run: Run) -> float:
    """The cost above which a solution is surely worse than the incumbent."""
    return run.best.objective * (1.0 + 1e-9) + 10.0 * run.problem.resolution


def _indicator(run: Run, master: Master) -> Array:
    """Return the incumbent as a point over the kept monomials."""
    return np.isin(master.kept, run.best.support).astype(np.float64)


def _stalled(history: list[float], run: Run) -> bool:
    """Whether the last rounds closed too little of what is still open."""
    if len(history) <= PATIENCE:
        return False
    if len(history) >= MAX_ROUNDS:
        return True
    gained = history[-1] - history[-1 - PATIENCE]
    return not gained >= STALL * (run.best.objective - history[-1])


def _fixings(run: Run, master: Master, relaxed: LinearPoint) -> tuple[Mask, Mask]:
    """Columns that no better solution has at one, and those that every better one has."""
    limit = _limit(run)
    out = relaxed.bound + relaxed.d > limit
    into = relaxed.bound - relaxed.d > limit
    best = master.point(run.best.support) > 0.5
    # Rounding may not cut off the incumbent itself.
    out, into = out & ~best & (master.rules.lower < 0.5), into & best
    return master.rules.implied_out(out), into


def _offer_rounding(run: Run, master: Master, x: Array, centre: Array) -> None:
    """Offer allowed supports near the LP's point and near the centre."""
    f = len(master.kept)
    structure = run.problem.structure
    if np.all(np.minimum(x, 1.0 - x) < 1e-6):
        run.offer(master.kept[x[:f] > 0.5])
    if not structure.plain:
        return
    for s in (centre, x[:f]):
        order = np.argsort(-s, kind="stable")[: max(4 * structure.max_terms, 50)]
        run.offer(structure.greedy(master.kept[order]))


class HighsModel:
    """A master in HiGHS: its columns and eta, the rows of its rules, then one row for each cut.

    Where columns are not ``binary`` eta is free, which guides early rounds.
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
        self.add(self.master.tangent(np.where(centre < NEGLIGIBLE, 0.0, centre)).clipped(run.bound))
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
        # Every number above is a sum of so many products, each of them wrong by a rounding.
        size = float(weights @ np.abs(constants) + np.abs(y[given]) @ np.abs(side[given]))
        size += float((reach + np.abs(d)).sum())
        margin = 2.0 * (len(y) + len(d) + len(weights) + 16.0) * UNIT * size
        return LinearPoint(x, bound - margin if np.isfinite(bound) else -np.inf, d, weights)

    def carrying(self, relaxed: LinearPoint) -> tuple[Cut, ...]:
        """The cuts with a positive multiplier, and the latest ones."""
        keep = relaxed.weights > 0.0
        keep[-5:] = True
        return tuple(cut for cut, kept in zip(self.cuts, keep, strict=True) if kept)
