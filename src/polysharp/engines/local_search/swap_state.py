"""The state that a local search moves: a support with its regressions, and the rows of G it needs.

``swap_kernel`` makes the moves, and ``tableau`` has the formulas.  Here a support is loaded afresh,
from nothing, which also wipes out the rounding of the moves; rows of G that are not in memory are
computed when a move needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.local_search import swap_kernel
from polysharp.engines.local_search.tableau import (
    COLLINEAR,
    DONE,
    FLOOR,
    LEAST,
    NAMED,
    REFRESH,
    RIDGED,
    BestBySize,
    Boxed,
    Cursor,
    D,
    Equations,
    RuleTable,
    State,
    SwapTask,
    TabuTask,
)
from polysharp.moments.gram import DenseGram, DesignGram
from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices

CACHE_BYTES = 64 * 2**20  # for rows of a G that is not in memory
AHEAD = 11  # rows that are formed beside one that is needed
LOAD_ONLY = SwapTask(0, 0, np.inf, 0.0)
KEEP_NONE = BestBySize.blank(0, 0)
EMPTY: Indices = np.zeros(0, dtype=np.intp)


def never() -> bool:
    """Say that time is never up."""
    return False


class SwapState:
    """The ridge regressions on one support of at most ``slots`` members, with some at first.

    Searches that move it go on until it is ``out_of_time``.
    """

    def __init__(
        self,
        problem: Problem,
        slots: int,
        start: Indices = EMPTY,
        out_of_time: Callable[[], bool] = never,
    ) -> None:
        f, responses = problem.size, problem.n_responses
        self.problem, self.slots, self.out_of_time = problem, slots, out_of_time
        self.rules = _rule_table(problem)
        self._rows = _GramRows(problem, slots)
        T = np.zeros((slots + responses + NAMED, f + slots))
        self.state = State(np.full(slots, -1), T, f)
        self.state.named(RIDGED)[:] = problem.gram.diagonal + problem.lam
        self.boxes: Boxed | None = None
        if problem.structure.boxes is not None:
            (low,), (high,) = problem.boxes  # several responses: ``moves``
            parked, broken = np.zeros(slots, dtype=bool), np.empty(REFRESH, dtype=np.int64)
            self.boxes = Boxed(low, high, parked, broken)
        self.confine()
        self.load(start)

    @property
    def support(self) -> Indices:
        """The members."""
        return self.state.members[: self.count].astype(np.intp)

    def load(self, support: Indices) -> None:
        """Start afresh from a support."""
        members, m = self.state.members, len(support)
        members[:m], members[m:] = support, -1
        self._rows.fetch(members[:m], members)
        # Of the objective and the moves, what the moves since the last load have made of them;
        # progress is the size that was filled last, or the steps of a walk.
        self.count, self.progress, self.objective, self.moves = m, 0, 0.0, REFRESH
        self.fill_and_swap(LOAD_ONLY)

    def confine(self, among: NDArray[np.bool_] | None = None) -> None:
        """Let only the monomials of a mask join, all by default, from the next load on."""
        floor = self.state.named(FLOOR)
        floor[:] = COLLINEAR * self.state.named(RIDGED)
        if among is not None:
            floor[~among] = np.inf

    def gains(self) -> Array:
        """Return how much each monomial would lower c by joining, the rules apart."""
        d, able = self.state.named(D), self.state.named(D) > self.state.named(LEAST)
        z, d = self.state.z[:, able], d[able]
        gains = np.zeros(self.state.f)
        with np.errstate(all="ignore"):  # a gain that overflows is infinite
            step = free = z / d
            if self.boxes is not None:
                step = np.clip(free, self.boxes.low[able], self.boxes.high[able])
            each = np.where(step == free, 0.5 * z * free, step * (z - 0.5 * d * step))
            gains[able] = each.sum(axis=0)
        return gains

    def costs(self) -> Array:
        """Return how much each member would raise c by leaving."""
        W, H = self.state.w[:, : self.count], np.diagonal(self.state.H)[: self.count]
        if self.boxes is None:
            return np.asarray((0.5 * W * (W / H)).sum(axis=0))
        (w,), (z,), S = W, self.state.z, self.support
        parked, d = self.boxes.parked[: self.count], self.state.named(D)[S]
        stopped = (z[S] - self.problem.lam * w) * w + 0.5 * d * w * w
        return np.asarray(np.where(parked, stopped, 0.5 * w * (w / np.where(parked, 1.0, H))))

    def _run(self, kernel: Any, *task: Any) -> int:
        """Let a kernel go on from here, and see that the row of G it needs is at hand."""
        cursor = Cursor(self.count, self.objective, self.moves)
        found = kernel(self._rows.equations, self.boxes, self.rules, self.state, cursor, *task)
        self.count, self.progress, self.objective, self.moves, need = found
        if need >= 0:
            self._rows.fetch_more(need, self.gains, self.state.members)
        return int(need)

    def fill_and_swap(self, task: SwapTask, kept: BestBySize = KEEP_NONE) -> bool:
        """Add and swap for a while; return whether nothing is left to do."""
        if task.drop >= 0:
            self._put_last(task.drop)
        if self.moves >= REFRESH:
            self._empty()
        while (need := self._run(swap_kernel.fill_and_swap, task, kept)) >= 0:
            task = task._replace(first=self.progress, drop=-1)
        return need == DONE

    def _empty(self) -> None:
        """Take all members out of the regressions; the kernel lets them join afresh."""
        T, f = self.state.T, self.state.f
        T[:-NAMED] = 0.0
        T[self.slots : -NAMED, :f] = self.problem.q
        T[[D, LEAST]] = T[[RIDGED, FLOOR]]
        if self.rules is not None:
            self.rules.inside[:], self.rules.used[:-1], self.rules.used[-1] = 0, 0, 1

    def _put_last(self, slot: int) -> None:
        """Let a member change places with the last one."""
        members, T, f = self.state
        if (last := self.count - 1) != slot:
            pair, turned = [slot, last], [last, slot]
            members[pair], T[pair] = members[turned], T[turned]
            T[:, f + slot], T[:, f + last] = T[:, f + last], T[:, f + slot].copy()
            if self.boxes is not None:
                self.boxes.parked[pair] = self.boxes.parked[turned]

    def walk(self, task: TabuTask) -> tuple[int, bool]:
        """Walk on; return the steps made, and whether nothing may move any more."""
        made = 0
        while (need := self._run(swap_kernel.tabu_walk, task)) >= 0:
            made += self.progress
            left = task.draws[self.progress :]
            task = task._replace(step=task.step + self.progress, draws=left)
        return made + self.progress, need == DONE


class _GramRows:
    """The rows of G that kernels read: G itself where it is in memory, or else a table of some."""

    def __init__(self, problem: Problem, slots: int) -> None:
        self._gram, f = problem.gram, problem.size
        self.equations = Equations(np.empty((0, f)), np.full(f, -1), problem.yy, problem.lam)
        self._next, self._dense = 0, False
        self._read_whole()
        if not self._dense:
            kept = min(f, max(2 * slots, CACHE_BYTES // (8 * f)))
            self.equations = self.equations._replace(table=np.empty((kept, f)))
            self._owner = np.full(kept, -1)  # the monomial of each row of the table

    def _read_whole(self) -> None:
        """Read G itself if it is in memory by now."""
        G: Array | None = self._gram.G if isinstance(self._gram, DenseGram) else None
        if isinstance(self._gram, DesignGram):
            G = self._gram.matrix(0.0)
        if G is not None:
            rows = G if G.flags.c_contiguous else np.ascontiguousarray(G.T)
            self.equations = self.equations._replace(table=rows, place=np.arange(len(rows)))
            self._dense = True

    def fetch_more(self, j: int, gains: Callable[[], Array], members: Indices) -> None:
        """See that a row is at hand, and those that are likely to be needed next."""
        # One product forms several rows in little more time than one.
        likely = EMPTY if self._dense else np.argsort(-gains())[:AHEAD]
        self.fetch(np.append(likely[likely != j], j), members)

    def fetch(self, S: Indices, members: Indices) -> None:
        """See that some rows are at hand, in place of the oldest ones; members' rows stay."""
        if self._dense:
            return
        table, place = self.equations.table, self.equations.place
        missing = S[place[S] < 0]
        columns = self._gram.columns(missing)
        self._read_whole()  # which the columns may have formed
        if self._dense:
            return
        for j, row in zip(missing, columns.T, strict=True):
            while self._owner[self._next] >= 0 and self._owner[self._next] in members:
                self._next = (self._next + 1) % len(table)
            place[self._owner[self._next]] = -1
            table[self._next], place[j], self._owner[self._next] = row, self._next, j
            self._next = (self._next + 1) % len(table)


def _rule_table(problem: Problem) -> RuleTable | None:
    """Return the rules beyond the number of terms, None where there are none."""
    # Bounded coefficients come with a table in any case: one variant of the kernels less to
    # compile.
    structure, f = problem.structure, problem.size
    if structure.plain and not structure.inputs_bind and structure.boxes is None:
        return None
    parents = structure.parent_table
    wanted = (parents < f).sum(axis=1)
    fixed = np.zeros(f, dtype=bool)
    fixed[structure.required_terms] = True
    return RuleTable(
        k=structure.max_inputs,
        inputs=structure.input_table,
        required=structure.required_inputs,
        parents=parents,
        wanted=np.minimum(wanted, 1) if structure.heredity == "weak" else wanted,
        fixed=fixed,
        used=np.empty(structure.n_inputs + 1, dtype=np.int64),
        inside=np.empty(f + 1, dtype=np.int64),
        orphans=np.empty(f, dtype=np.int64),
    )
