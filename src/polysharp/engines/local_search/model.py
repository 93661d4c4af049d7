"""The model that a search moves: a support with its regression, and the rows of G it needs.

``kernel`` makes the moves and knows the formulas.  Here a support is loaded afresh, from a
factorisation, which also wipes out the rounding of the moves; rows of G that are not held in memory
are computed when a move needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.local_search import kernel
from polysharp.engines.local_search.kernel import FLOOR, LEAST, NAMED, REFRESH, RIDGED, D, Q, Z
from polysharp.moments.gram import DenseGram
from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices

CACHE_BYTES = 64 * 2**20  # for rows of a G that is not held
NO_CLIMB = kernel.Climb(0, 0, np.inf, 0.0)
EMPTY: Indices = np.zeros(0, dtype=np.intp)
OutOfTime = Callable[[], bool]


def never() -> bool:
    """Say that time is never up."""
    return False


def blank_book(sizes: int, slots: int) -> kernel.Book:
    """Return a book with room for so many sizes."""
    return kernel.Book(np.full((sizes, slots), -1), *np.full((2, sizes), np.inf))


NO_BOOK = blank_book(0, 0)


class RidgeModel:
    """The ridge regression on one support of at most ``slots`` members, with some at first.

    Searches that move it go on until it is ``out_of_time``.
    """

    def __init__(
        self, problem: Problem, slots: int, start: Indices = EMPTY, out_of_time: OutOfTime = never
    ) -> None:
        f = problem.size
        self.problem, self.slots, self.out_of_time = problem, slots, out_of_time
        self.rules = _rules(problem)
        self._rows = _Rows(problem, slots)
        self.state = kernel.State(np.full(slots, -1), np.empty((slots + NAMED, f + slots)), f)
        self.state.T[slots:] = 0.0
        self.state.named(Q)[:] = problem.q[0]
        self.state.named(RIDGED)[:] = problem.gram.diagonal + problem.lam
        self.boxes: kernel.Boxed | None = None
        if problem.structure.boxes is not None:
            parked, broken = np.zeros(slots, dtype=bool), np.empty(REFRESH, dtype=np.int64)
            low, high = (ends[0] for ends in problem.boxes)
            self.boxes = kernel.Boxed(low, high, parked, broken)
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
        self._rows.hold(members[:m], members)
        self.count = m
        self.progress = 0  # the size that the last climb came to, or the steps of a walk
        self.objective = 0.0  # c, as the moves since the last load have changed it
        self.moves = REFRESH  # since the last load
        self.climb(NO_CLIMB)

    def refresh(self) -> None:
        """Wipe out the rounding of the moves."""
        self.load(self.support)

    def confine(self, among: NDArray[np.bool_] | None = None) -> None:
        """Let only the monomials of a mask join, all by default, from the next load on."""
        floor = self.state.named(FLOOR)
        floor[:] = kernel.COLLINEAR * self.state.named(RIDGED)
        if among is not None:
            floor[~among] = np.inf

    def gains(self) -> Array:
        """How much each monomial would lower c by joining, the rules apart."""
        z, d, least = map(self.state.named, (Z, D, LEAST))
        low, high = (ends[0] for ends in self.problem.boxes)
        step = np.clip(z / np.maximum(d, least), low, high)
        return step * (z - 0.5 * d * step) * (d > least)

    def costs(self) -> Array:
        """How much each member would raise c by leaving."""
        S, w, H = self.support, self.state.w[: self.count], np.diagonal(self.state.H)[: self.count]
        if self.boxes is None:
            return 0.5 * w * w / H
        parked = self.boxes.parked[: self.count]
        z, d = self.state.z[S], self.state.named(D)[S]
        stopped = (z - self.problem.lam * w) * w + 0.5 * d * w * w
        return np.where(parked, stopped, 0.5 * w * w / np.where(parked, 1.0, H))

    def _run(self, function: Any, *task: Any) -> int:
        """Let a kernel go on from here, and see that the row of G it needs is at hand."""
        stand = kernel.Stand(self.count, self.progress, self.objective, self.moves, kernel.DONE)
        parts = self._rows.equations, self.boxes, self.rules, self.state
        found = function(*parts, stand, *task)
        self.count, self.progress, self.objective, self.moves, need = found
        if need >= 0:
            self._rows.hold(np.array([need]), self.state.members)
        return int(need)

    def climb(self, task: kernel.Climb, book: kernel.Book = NO_BOOK) -> bool:
        """Climb on, for a while; return whether nothing is left to do."""
        if task.drop >= 0:
            self._put_last(task.drop)
        if self.moves >= REFRESH:
            self._empty()
        while (need := self._run(kernel.climb, task, book)) >= 0:
            task = task._replace(first=self.progress, drop=-1)
        return need == kernel.DONE

    def _empty(self) -> None:
        """Take all members out of the regression; the kernel lets them join afresh."""
        self.state.T[: self.slots] = 0.0
        self.state.T[[Z, D, LEAST]] = self.state.T[[Q, RIDGED, FLOOR]]
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

    def walk(self, chase: kernel.Chase) -> tuple[int, bool]:
        """Walk on; return the steps made, and whether nothing may move any more."""
        made = 0
        while (need := self._run(kernel.walk, chase)) >= 0:
            made += self.progress
            left = chase.draws[self.progress :]
            chase = chase._replace(step=chase.step + self.progress, draws=left)
        return made + self.progress, need == kernel.DONE


class _Rows:
    """The rows of G that kernels read: G itself where it is held, or else a table of some."""

    def __init__(self, problem: Problem, slots: int) -> None:
        gram, f = problem.gram, problem.size
        self._gram, self._dense = gram, isinstance(gram, DenseGram)
        if isinstance(gram, DenseGram):
            table = gram.G if gram.G.flags.c_contiguous else np.ascontiguousarray(gram.G.T)
            place = np.arange(f)
        else:
            table = np.empty((min(f, max(2 * slots, CACHE_BYTES // (8 * f))), f))
            place = np.full(f, -1)
        self._owner = np.full(len(table), -1)  # the monomial of each row of the table
        self._next = 0
        self.equations = kernel.Equations(table, place, float(problem.yy), problem.lam)

    def hold(self, S: Indices, members: Indices) -> None:
        """See that some rows are at hand, in place of the longest held ones; members' stay."""
        if self._dense:
            return
        table, place = self.equations.table, self.equations.place
        missing = S[place[S] < 0]
        for j, row in zip(missing, self._gram.columns(missing).T, strict=True):
            while self._owner[self._next] >= 0 and self._owner[self._next] in members:
                self._next = (self._next + 1) % len(table)
            place[self._owner[self._next]] = -1
            table[self._next], place[j], self._owner[self._next] = row, self._next, j
            self._next = (self._next + 1) % len(table)


def _rules(problem: Problem) -> kernel.RuleTable | None:
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
    return kernel.RuleTable(
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
