"""The search over budgets for several responses that share their terms.

Everything is as for one response: folds, ridges, sizes, rules.  What differs stands here: the
models of a split have one support for all responses, and their error is

    sqrt(mean_t  E_t),      E_t the mean squared error of response t on the held-out rows,

of responses that were divided by their standard deviations, so that all of them count alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from polysharp.data.rows import Responses, Rows
from polysharp.moments.folds import Dealt
from polysharp.moments.gram import solve_spd
from polysharp.moments.joint import JointMoments
from polysharp.problem.boxed_fit import solve_in_boxes
from polysharp.problem.joint import JointProblem
from polysharp.problem.problem import Problem
from polysharp.progress import Progress
from polysharp.selection.folds import FoldMoments, Folds
from polysharp.selection.judges import Judge, Model, PartedRows, RowJudge, judges
from polysharp.selection.split_models import Budgets, Late, SplitModels
from polysharp.typing import Array, Indices

SCREENED = 5  # responses whose residuals name monomials where these cannot be listed
# Of the work on models for one response: a sweep goes through the whole table, and each response
# has rows of its own in it and on the side of the judges.
BASE_WORK, RESPONSE_WORK = 4.0, 0.2


@dataclass(frozen=True, eq=False)
class JointFolds(Folds):
    """Folds of rows in memory with several responses, scaled; ``rows`` are those of the first."""

    @property
    def responses(self) -> Responses:
        """All of them."""
        assert self.rows.block is not None
        assert self.rows.block.several is not None
        return self.rows.block.several

    def screening_tables(self, parted: PartedRows) -> list[PartedRows]:
        """Return the rows with some of the responses, evenly spaced among all."""
        values = self.responses.values
        chosen = np.unique(np.linspace(0, len(values) - 1, SCREENED).round().astype(int))
        return [replace(parted, rows=replace(parted.rows, y=values[t])) for t in chosen]

    def moments(
        self,
        center: bool,
        limit: int,
        *,
        size: int,
        progress: Progress,
        few: bool = False,
        seconds: float = np.inf,
    ) -> JointFoldMoments:
        """Return the moments of the parts, with those of all responses."""
        found = super().moments(
            center, limit, size=size, progress=progress, few=few, seconds=seconds
        )
        table, (_, units, Y) = found.table, self.responses
        assert table is not None
        assert not isinstance(self.parts, Dealt)
        joint = tuple(
            JointMoments.of(first, table.rows.take(rows), found.basis)
            for first, rows in zip(found.parts, self.parts, strict=True)
        )
        own = {field.name: getattr(found, field.name) for field in fields(FoldMoments)}
        return JointFoldMoments(**own, joint=joint, values=Y, units=units)


def folds_of(rows: Rows, *how: Any) -> Folds:
    """Return folds of rows with one response or several."""
    block = rows.block
    return (Folds if block is None or block.several is None else JointFolds)(rows, *how)


@dataclass(frozen=True, eq=False)
class JointFoldMoments(FoldMoments):
    """The moments of the parts with those of all responses."""

    joint: tuple[JointMoments, ...]
    values: Array
    units: tuple[float, ...]  # of the responses

    def splits(self) -> list[SplitModels]:
        """Return what finds and judges the models of each split."""
        plan, table = self.folds.plan, self.table
        assert table is not None
        judged = [
            judges(
                self.basis,
                [part.response(t) for part in self.joint],
                plan,
                replace(table, rows=replace(table.rows, y=y)),
                clamp=self.folds.clamp,
            )
            for t, y in enumerate(self.values)
        ]
        every = np.arange(len(self.basis))
        pools = [every] * plan.n_splits if self.pools is None else self.pools
        found: list[SplitModels] = []
        for train, pool, *own in zip(plan.train, pools, *judged, strict=True):
            joint = JointMoments.merged([self.joint[a] for a in train])
            found.append(
                JointSplitModels(
                    joint.first, own[0], self.basis, self.rules, pool, joint, tuple(own), self.units
                )
            )
        return found

    @property
    def y_scale(self) -> float:
        """Root mean square of the responses' standard deviations."""
        weights = None if self.table is None else self.table.rows.sample_weight
        mean = np.average(self.values, axis=1, weights=weights)
        squares = (self.values - mean[:, None]) ** 2
        return float(np.sqrt(np.average(squares, axis=1, weights=weights).mean()))


@dataclass(frozen=True, eq=False)
class JointSplitModels(SplitModels):
    """One split: models of every size with one support for all responses."""

    joint: JointMoments  # ``train`` is that of the first response
    judges: tuple[Judge, ...]
    units: tuple[float, ...]

    @property
    def work(self) -> float:
        """How long models take, beside those of one response."""
        return BASE_WORK + RESPONSE_WORK * len(self.judges)

    def problem(self, gamma: float, max_terms: int, max_inputs: int | None) -> Problem:
        """Return the training problem of all responses over the pool."""
        first = super().problem(gamma, max_terms, max_inputs)
        q, yy = self.joint.correlations(centred=not self.rules.constant)
        q = np.ascontiguousarray(q[:, self.pool])
        return JointProblem.of(
            [
                replace(first, q=own, yy=float(size), structure=first.structure.of_response(unit))
                for own, size, unit in zip(q, yy, self.units, strict=True)
            ]
        )

    def _sizes(
        self, problem: Problem, budgets: Budgets, wider: list[Indices], late: Late
    ) -> list[Indices]:
        from polysharp.engines.joint.supports import every_size

        del budgets, wider  # limits on the inputs are kept to from the first term on
        assert isinstance(problem, JointProblem)
        return every_size(problem, late)

    def _errors(self, supports: list[Indices], gamma: float) -> Array:
        each = list(zip(*(self._models(support, gamma) for support in supports), strict=True))
        first = self.judges[0]
        if isinstance(first, RowJudge):  # all responses have the same rows: one design serves them
            used, M = first.design(each[0])
            judged = [
                judge.errors_at(used, M, own)
                for judge, own in zip(self.judges, each, strict=True)
                if isinstance(judge, RowJudge)
            ]
        else:
            judged = [judge.errors(own) for judge, own in zip(self.judges, each, strict=True)]
        return np.asarray(np.sqrt(np.mean(np.square(judged), axis=0)))

    def _models(self, support: Indices, gamma: float) -> list[Model]:
        """Fit one support to the training rows, response by response."""
        S, centred = np.sort(support), not self.rules.constant
        part = self.joint.select(S)
        q, _ = part.correlations(centred=centred)
        W = q
        if len(S):
            G = part.first.normal_equations(centred=centred)[0].copy()
            G[np.diag_indices_from(G)] += 1.0 / gamma
            W = solve_spd(G, q.T).T
            if self.rules.coefficients.bind:
                boxes = self.rules.coefficients.boxes(self.basis.select(S))
                each = zip(q, self.units, strict=True)
                W = np.array([solve_in_boxes(G, own, boxes.divided(unit)) for own, unit in each])
        intercepts = part.y_mean - W @ part.first.mean if centred else np.zeros(len(q))
        return [Model(S, w, float(b)) for w, b in zip(W, intercepts, strict=True)]
