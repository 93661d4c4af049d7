"""Good supports of every size, from moments: what a search over budgets runs thousands of times.

    up      to the support of l - 1 monomials add the best entrant, then take the best swap until
            none lowers c;
    back    where the support of l + 1 without its cheapest member is better than that of l, the
            way up had missed it (two terms that only together beat a third): it takes its place.

Where at most k inputs may be used, the support of the same size with more inputs gives up those it
misses least, is improved, and competes with the one grown from l - 1.  No proof is attempted here;
engines do that for the model that is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polysharp.engines.local_search.kernel import Book, Climb
from polysharp.engines.local_search.model import NO_BOOK, OutOfTime, RidgeModel, blank_book, never
from polysharp.engines.local_search.moves import cheapest, narrowed, settle
from polysharp.engines.local_search.row_supports import (
    LEAST_GAIN,
    every_row_size,
    smallest_support,
)
from polysharp.errors import InfeasibleError
from polysharp.problem.problem import Problem
from polysharp.typing import Indices


def every_size(
    problem: Problem, *, wider: Sequence[Indices] = (), out_of_time: OutOfTime = never
) -> list[Indices]:
    """Return a support for each size from 1 to ``max_terms``; empty ones where none is allowed.

    ``wider`` holds the supports of the same sizes with more inputs allowed.  Where time runs out
    there are fewer.
    """
    if problem.n_responses > 1:
        return every_row_size(problem, out_of_time)
    structure, most = problem.structure, problem.structure.max_terms
    try:
        start = smallest_support(problem)
    except InfeasibleError:
        return [np.zeros(0, dtype=np.intp)] * most
    first = max(1, len(start))
    ladder = _Ladder(RidgeModel(problem, most, start, out_of_time), blank_book(most, most))
    if structure.plain and not wider:
        ladder.climb(first, most)
    else:
        ladder.grow(first, wider)
    done = first - 1 + int(np.isfinite(ladder.book.value).sum())  # fewer where time ran out
    for size in range(done - 1, first - 1, -1):
        ladder.shorten(size)
    return [row[row >= 0].astype(np.intp) for row in ladder.book.members[:done]]


@dataclass(frozen=True, eq=False)
class _Ladder:
    """A model that goes up and down the sizes, and the book of the best supports met."""

    model: RidgeModel
    book: Book

    def climb(self, first: int, last: int, *, drop: int = -1, note: bool = True) -> None:
        """Fill up and swap until no swap gains more than new rows could tell, at every size."""
        model, best = self.model, np.inf
        task = Climb(first, last, model.problem.resolution, LEAST_GAIN, drop)
        while not model.climb(task, self.book if note else NO_BOOK) and not model.out_of_time():
            if model.progress == task.first and model.objective >= best:
                task = task._replace(needed=np.inf)  # rounding goes round in a circle
            best, task = model.objective, task._replace(first=model.progress, drop=-1)

    def grow(self, first: int, wider: Sequence[Indices]) -> None:
        """Note every size, each grown from the one before or left of a wider one."""
        for size in range(first, len(self.book.value) + 1):
            if not self.model.problem.structure.plain:
                settle(self.model, size)
            self.climb(size, size)
            if self.model.out_of_time():
                return
            if size <= len(wider):
                self.narrow(size, wider[size - 1])

    def narrow(self, size: int, wide: Indices) -> None:
        """Note what a support that uses more inputs leaves of itself, if that is better."""
        model, structure = self.model, self.model.problem.structure
        own, value = model.support, model.objective
        rest = narrowed(model, wide)
        if structure.plain or structure.allows(rest):
            model.load(rest)
            self.climb(size, size, note=False)
            if model.objective < value:
                self.climb(size, size)
                return
        model.load(own)

    def shorten(self, size: int) -> None:
        """Note the support of one more member without its cheapest, if that is better."""
        model, book = self.model, self.book
        longer, bar = book.members[size], book.value[size - 1]
        if book.without[size] >= bar or longer[size] < 0:  # the rules may ask for even more
            return
        if not np.array_equal(longer[: size + 1], model.support):
            model.load(longer[: size + 1])
        slot = cheapest(model)
        if slot is not None and book.value[size] + model.costs()[slot] < bar:
            self.climb(size, size, drop=slot)
