"""Good supports of every size, from moments: what a search over budgets runs thousands of times.

    up      to the support of l - 1 monomials add the best entrant, then take the best swap until
            none lowers c;
    back    the support of l + 1 without its cheapest member takes the place of that of l where it
            is better: the way up had missed two terms that only together beat a third.

Where at most k inputs may be used, the support of the same size with more inputs gives up those it
misses least, is improved, and competes with the one grown from l - 1.  No proof is attempted here;
engines do that for the model that is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polysharp.engines.local_search.boxed_rows import every_boxed_size, has_boxed_rows
from polysharp.engines.local_search.moves import cheapest, narrowed, settle
from polysharp.engines.local_search.swap_state import KEEP_NONE, SwapState, never
from polysharp.engines.local_search.tableau import BestBySize, SwapTask
from polysharp.engines.local_search.walks import smallest_support
from polysharp.errors import InfeasibleError
from polysharp.problem.problem import Problem
from polysharp.typing import Indices

LEAST_GAIN = 1e-9  # a swap must lower c by this share of it: less is no better on new rows


def every_size(
    problem: Problem,
    *,
    wider: Sequence[Indices] = (),
    out_of_time: Callable[[], bool] = never,
) -> list[Indices]:
    """Return a support for each size from 1 to ``max_terms``; empty ones where none is allowed.

    ``wider`` holds the supports of the same sizes with more inputs allowed.  If time runs out there
    are fewer supports.
    """
    structure, most = problem.structure, problem.structure.max_terms
    try:
        start = smallest_support(problem)
    except InfeasibleError:
        return [np.zeros(0, dtype=np.intp)] * most
    if has_boxed_rows(problem):
        return every_boxed_size(problem, start, LEAST_GAIN, out_of_time)
    first = max(1, len(start))
    state, kept = SwapState(problem, most, start, out_of_time), BestBySize.blank(most, most)
    sizes = _Sizes(state, kept)
    if structure.plain and not wider:
        sizes.fill_and_swap(first, most)
    else:
        sizes.grow(first, wider)
    done = first - 1 + int(np.isfinite(kept.value).sum())  # fewer where time ran out
    for size in range(done - 1, first - 1, -1):
        sizes.shorten(size)
    return [row[row >= 0].astype(np.intp) for row in kept.members[:done]]


@dataclass(frozen=True, eq=False)
class _Sizes:
    """A state that goes up and down the sizes, and the best supports that it met."""

    state: SwapState
    kept: BestBySize

    def fill_and_swap(self, first: int, last: int, *, drop: int = -1, keep: bool = True) -> None:
        """Fill up and swap until no swap gains more than new rows could tell, at every size."""
        state, best, kept = self.state, np.inf, self.kept if keep else KEEP_NONE
        task = SwapTask(first, last, state.problem.resolution, LEAST_GAIN, drop)
        while not state.fill_and_swap(task, kept) and not state.out_of_time():
            if state.progress == task.first and state.objective >= best:
                task = task._replace(needed=np.inf)  # rounding goes round in a circle
            best, task = state.objective, task._replace(first=state.progress, drop=-1)

    def grow(self, first: int, wider: Sequence[Indices]) -> None:
        """Keep a support of every size, grown from the one before or left of a wider one."""
        for size in range(first, len(self.kept.value) + 1):
            if not self.state.problem.structure.plain:
                settle(self.state, size)
            self.fill_and_swap(size, size)
            if self.state.out_of_time():
                return
            if size <= len(wider):
                self.narrow(size, wider[size - 1])

    def narrow(self, size: int, wide: Indices) -> None:
        """Keep what a support that uses more inputs leaves of itself, if that is better."""
        state, structure = self.state, self.state.problem.structure
        own, value = state.support, state.objective
        rest = narrowed(state, wide)
        if structure.plain or structure.allows(rest):
            state.load(rest)
            self.fill_and_swap(size, size, keep=False)
            if state.objective < value:
                self.fill_and_swap(size, size)
                return
        state.load(own)

    def shorten(self, size: int) -> None:
        """Keep the support of one more member without its cheapest, if that is better."""
        state, kept = self.state, self.kept
        longer, value = kept.members[size], kept.value[size - 1]
        if kept.without[size] >= value or longer[size] < 0:  # the rules may ask for even more
            return
        if not np.array_equal(longer[: size + 1], state.support):
            state.load(longer[: size + 1])
        slot = cheapest(state)
        if slot is not None and kept.value[size] + state.costs()[slot] < value:
            self.fill_and_swap(size, size, drop=slot)
