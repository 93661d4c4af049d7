"""What ``path`` computes: every size certified in turn over the same moments, and validated.

Each problem is handed to the engine with the best support at hand: that of the size before, that of
the same size under the wider limit on the inputs where it happens to use few enough, and what local
search finds for the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from polysharp.certificate.solution import Solution, Stop, certify
from polysharp.data.arrays import as_host
from polysharp.data.cluster import is_dask
from polysharp.engines.base import Limits
from polysharp.engines.local_search import every_size
from polysharp.errors import InfeasibleError, InputError, TooLargeError
from polysharp.estimators.prepare import Effort, Opened, Prepared
from polysharp.moments.folds import cut, read_splits
from polysharp.moments.gram import DenseGram
from polysharp.problem.problem import Problem
from polysharp.progress import Progress
from polysharp.selection.grid_search import Grid, Scores, grid_search
from polysharp.selection.preselection import HIGHEST_PRICED, FoldedRows, capacity, make_coding
from polysharp.typing import Indices


@dataclass(frozen=True)
class Budgets:
    """The sizes of a path: every number of terms under every limit on the inputs."""

    max_terms: tuple[int, ...]
    max_inputs: tuple[int | None, ...]  # widest first

    def __len__(self) -> int:
        return len(self.max_terms) * len(self.max_inputs)


@dataclass(frozen=True, eq=False)
class CertifiedSizes:
    """One certified solution after another.

    Parameters
    ----------
    prepared : Prepared
        The problem of the largest budgets.
    budgets : Budgets
        The sizes.
    effort : Effort
        Engine and time limit; a size gets an equal share of the time that is left.
    share : float
        Of the time limit; the rest is for the validation.
    """

    prepared: Prepared
    budgets: Budgets
    effort: Effort
    share: float

    def __iter__(self) -> Iterator[tuple[int, int | None, Solution]]:
        """Yield (max_terms, max_inputs, solution); sizes that no polynomial can have are missing.

        An interrupted size is the last.
        """
        left = len(self.budgets)
        wider: dict[int, Indices] = {}
        for k in self.budgets.max_inputs:
            local = self._local_search(k)
            support: Indices | None = None
            for size in self.budgets.max_terms:
                starts = [s for s in (support, local.get(size), wider.get(size)) if s is not None]
                try:
                    solution = self._solve(self._problem(size, k), starts, left)
                except InfeasibleError:
                    left -= 1
                    continue
                left -= 1
                yield size, k, solution
                if solution.stop is Stop.INTERRUPTED:
                    return
                support = wider[size] = np.array(solution.support, dtype=np.intp)

    def _problem(self, size: int, k: int | None) -> Problem:
        problem, structure = self.prepared.problem, self.prepared.problem.structure
        budgets = replace(
            structure,
            max_terms=min(size, problem.size),
            max_inputs=structure.n_inputs if k is None else min(k, structure.n_inputs),
        )
        return replace(problem, structure=budgets)

    def _solve(self, problem: Problem, starts: list[Indices], left: int) -> Solution:
        allowed = [start for start in starts if problem.structure.allows(start)]
        start = min(allowed, key=lambda s: problem.refit(s).objective, default=None)
        seconds, effort = self._seconds(left), self.effort
        if seconds == 0.0 and start is not None:
            # The time is up: what local search found, with the bound that its residual proves.
            return certify(
                problem, start, 0.0, gap_tol=effort.gap_tol, stop=Stop.TIME,
                engine=effort.engine.name, scope=self.prepared.scope,
            )  # fmt: skip
        return effort.engine.solve(
            problem,
            start=start,
            limits=Limits(seconds, effort.gap_tol),
            seed=effort.seed,
            threads=effort.threads,
            scope=self.prepared.scope,
        )

    def _seconds(self, left: int) -> float | None:
        limit = self.effort.time_limit
        return None if limit is None else max(0.0, self.share * limit - self.effort.spent) / left

    def _local_search(self, k: int | None) -> dict[int, Indices]:
        """Supports of every size by local search, where G is held and so is the time."""
        problem, limit = self._problem(max(self.budgets.max_terms), k), self.effort.time_limit
        if not isinstance(problem.gram, DenseGram):
            return {}

        def out_of_time() -> bool:
            return limit is not None and self.effort.spent > self.share * limit

        return dict(enumerate(every_size(problem, out_of_time=out_of_time), start=1))


def open_splits(
    opened: Opened, model: Any, cv: Any, X: Any, y: Any, sample_weight: Any, seed: int
) -> FoldedRows:
    """Cut the rows as ``cv`` says: before the search, whose results a refusal would cost."""
    if is_dask(X):
        raise InputError(f"cv must be None for Dask collections, got {cv!r}")
    splits = read_splits(
        cv, as_host(X), as_host(y), sample_weight=as_host(sample_weight), seed=seed
    )
    parts, plan = cut(splits, opened.rows.shape[0])
    p, most = len(opened.allowed), capacity(plan, 1)
    if isinstance(model.n_candidates, Integral):
        p = min(p, int(model.n_candidates))
    # Up to degree 4 only the linear monomials must be held; others are preselected.
    rules = opened.rules
    held = rules.count(p) if rules.degree > HIGHEST_PRICED else p + 1
    if held > most:
        raise TooLargeError(
            f"cv must be None, or n_candidates smaller, for degree={rules.degree} and {p} "
            f"inputs: validation holds {held:,} monomials there, and may hold {most:,}"
        )
    return FoldedRows(opened.table, parts, plan, rules, bool(model.scale))


def validated_sizes(
    prepared: Prepared, folds: FoldedRows, budgets: Budgets, model: Any, progress: Progress
) -> Scores:
    """Judge every size on held-out rows, by local search on the training moments.

    The inputs are those that the search had; a triage has seen all rows when it kept them.
    """
    opened = prepared.opened
    left_out = np.setdiff1d(np.arange(opened.rows.shape[1]), prepared.inputs)
    rules = replace(opened.rules, exclude_inputs=tuple(left_out.tolist()))
    folds = replace(folds, rules=rules)
    grid = Grid((rules.degree,), (opened.gamma,), budgets.max_terms, budgets.max_inputs)
    coding = make_coding(
        folds,
        bool(model.center),
        capacity(folds.plan, 1),
        max(grid.max_terms),
        opened.gamma,
        progress=progress,
    )
    return grid_search([coding], folds.plan, grid, rules, n_jobs=model.n_jobs)
