"""Tangent cuts at fractional points, and their proofs before any branching.

The linear relaxation of the master asks for a point of small c; cuts at its own (extreme)
points stall, so the tangent is taken inside (in-out separation):

    x  <-  0.8 x + 0.2 x_LP,      cut at x,      solve the LP again.

Multipliers of its rows prove a bound and reduced costs d (``highs``).  A column is fixed at zero
(one) where moving it to one (zero) lifts the bound above the incumbent.  Once few monomials are
left, curvature of their Gram matrix goes into the ridge and the loop begins again on the stronger
c.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.base import Run
from polysharp.engines.cutting_planes.highs import LinearPoint, RootLP
from polysharp.engines.cutting_planes.master import Master
from polysharp.typing import Array

Mask = NDArray[np.bool_]

MAX_ROUNDS = 300
MAX_FAILURES = 3  # columns in a row that probing may fail to fix
PATIENCE = 12  # rounds over which the bound must move
STALL = 0.05  # share of the open gap below which that counts as standing still
SHRINK = 0.8  # rebuild the LP when this share of its columns is left


def prepare(run: Run, *, root_cuts: bool) -> Master:
    """Return the master an engine starts from; without root cuts it holds one cut, the start's."""
    master = Master.of(run)
    if root_cuts:
        return strengthen(run, master)
    run.cuts += 1
    return replace(master, cuts=(master.tangent(_indicator(run, master)).clipped(0.0),))


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
    """Fix in the columns of the incumbent that every better solution must have."""
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
    """Whether the last rounds closed too little of the open gap."""
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
