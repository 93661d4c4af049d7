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
from polysharp.engines.local_search import every_size
from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.estimators.preparation import CodedTable, FitContext, PreparedProblem
from polysharp.moments.gram import MAX_DENSE
from polysharp.problem.problem import Problem
from polysharp.selection.folds import Folds
from polysharp.selection.parallel import Workers
from polysharp.selection.scores import Case, Scores
from polysharp.selection.split_models import Budgets, SplitModels
from polysharp.selection.splits import read_parts
from polysharp.time_budget import TimeBudget
from polysharp.typing import Indices


@dataclass(frozen=True, eq=False)
class CertifiedSizes:
    """One certified solution after another; each gets an equal share of the time that is left."""

    prepared: PreparedProblem  # with the largest budgets
    budgets: Budgets
    context: FitContext
    share: float  # of the time limit; the rest is for the validation

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
                    continue
                finally:
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
        context = self.context
        seconds = max(0.0, self.share * context.time.seconds - context.time.spent()) / left
        if seconds == 0.0 and start is not None:
            # The time is up: what local search found, with the bound that its residual proves.
            return certify(
                problem, start, 0.0, gap_tol=context.gap_tol, stop=Stop.TIME,
                engine=context.engine.name, scope=self.prepared.scope,
            )  # fmt: skip
        return context.engine.solve(
            problem,
            start=start,
            time=TimeBudget(seconds),
            gap_tol=context.gap_tol,
            seed=context.seed,
            threads=context.threads,
            scope=self.prepared.scope,
            device=self.prepared.coded.rows.place.device,
        )

    def _local_search(self, k: int | None) -> dict[int, Indices]:
        """Supports of every size by local search, where G may be formed."""
        problem, time = self._problem(max(self.budgets.max_terms), k), self.context.time
        if problem.size > MAX_DENSE:
            return {}

        def out_of_time() -> bool:
            return time.spent() > self.share * time.seconds

        return dict(enumerate(every_size(problem, out_of_time=out_of_time), start=1))


def open_folds(
    coded: CodedTable, model: Any, cv: Any, given: tuple[Any, Any, Any], seed: int
) -> Folds:
    """Cut the rows as ``cv`` says: before the search, whose results a refusal would cost.

    ``given`` are X, y and sample_weight as the user gave them.
    """
    table, rules = coded.tables[0], coded.rules
    parts, plan = read_parts(cv, given, table.shape[0], seed=seed)
    folds = Folds(table, parts, plan, rules, bool(model.scale), bool(model.clamp))
    p, most = len(coded.allowed), folds.capacity()
    if isinstance(model.n_candidates, Integral):
        p = min(p, int(model.n_candidates))
    if rules.count(p) > most and not folds.screens:
        raise TooLargeError(
            f"cv must be None, or n_candidates smaller, for degree={rules.degree} and {p} "
            f"inputs: validation holds {rules.count(p):,} monomials there, and may hold {most:,}"
        )
    return folds


def validated_sizes(
    prepared: PreparedProblem, folds: Folds, budgets: Budgets, workers: Workers
) -> Scores:
    """Judge every size on held-out rows, by local search on the training moments.

    The inputs are those that the search had; a triage has seen all rows when it kept them.
    """
    coded = prepared.coded
    left_out = np.setdiff1d(np.arange(coded.rows.shape[1]), prepared.inputs)
    rules = replace(coded.rules, exclude_inputs=tuple(left_out.tolist()))
    folds, center = replace(folds, rules=rules), bool(coded.scaling.shift.any())
    largest = max(budgets.max_terms)
    moments = folds.moments(center, folds.capacity(), size=largest, progress=workers.progress)
    jobs = [(split, coded.gamma, budgets, None, coded.refit_gamma) for split in moments.splits()]
    found = workers.run(SplitModels.compare, jobs, "validation")
    return Scores.of(Case(rules.degree, coded.gamma, center), budgets, found, moments.y_scale)
