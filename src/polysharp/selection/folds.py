"""Rows cut into folds, and their moments in one coding of the inputs at one degree.

Everything that the search over budgets, ``path`` and the choice of gamma know of the rows comes
from here:

    rows -> ``Folds`` -> ``FoldMoments`` (one degree, raw or centred inputs) -> ``SplitModels``.

Where the monomials are more than there is room or time for, each split works with those that its
own training rows point at (``screening``).  Inputs are coded once, with the scales and means of all
rows; the responses of the validation rows are never seen by the models they scorer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.rows import Rows
from polysharp.moments.moments import Moments, Parts, Plan, RandomFolds, fold_moments, merge
from polysharp.monomials.basis import Basis, Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.progress import Progress
from polysharp.selection.screening import screened, screening_work
from polysharp.selection.split_models import Budgets, PartedRows, SplitModels, edge_scorers, scorers
from polysharp.selection.splits import FEW_ROWS
from polysharp.time_budget import TimeBudget
from polysharp.typing import Indices

# G of f monomials takes 8 f^2 bytes, and every part, training and validation set has one.  So much
# for all of them leaves an ordinary machine room for everything else.
MOMENT_BYTES = 2**30
MOST_SCREENING = 1e14  # multiply-adds: an hour or two
# What one core does, stated and not measured; ordinary ones do twice as much.
RATE = 1e10  # multiply-adds a second in products of large matrices and in pricing
MODEL_SECONDS = 20e-9  # per monomial and square of the largest size, for models of every size
PAIR_SECONDS = 10e-9  # per entry of G, for the normal equations of a split
SPLIT_SECONDS = 5e-3  # for each split, whatever its size
HEAVY = 5.0  # standard deviations from the mean, of the farthest value of an input
SCREENED = 5  # responses whose residuals name monomials where these cannot be listed


@dataclass(frozen=True, eq=False)
class Folds:
    """Checked rows, cut into parts that every split treats alike, with the rules about terms."""

    rows: Rows  # as the user gave them
    parts: Parts
    plan: Plan  # which parts train and validate
    rules: TermRules  # of the largest degree and budgets
    scale: bool = True
    clamp: bool | None = False  # None where validation decides
    repeats: int = 1  # drawings of the folds, whose errors are not independent
    room: int = MOMENT_BYTES  # that the moments of all parts and sets may take

    @property
    def inputs(self) -> Indices:
        """Inputs that are not excluded."""
        return self.rules.allowed(self.rows.shape[1])

    @property
    def screens(self) -> bool:
        """Whether monomials that cannot be listed are screened, split by split.

        On Dask the rows would be read again in each split.
        """
        at_hand = self.parted is not None
        return at_hand and self.screening_work() <= MOST_SCREENING

    @property
    def parted(self) -> PartedRows | None:
        """The rows themselves, None if they are not in memory."""
        if isinstance(self.parts, RandomFolds) or self.rows.block is None:
            return None
        return PartedRows(self.rows.block, self.parts)

    @property
    def few_rows(self) -> bool:
        """Whether rows are so few that a formula must be clearly better than a linear one."""
        return self.rows.shape[0] < FEW_ROWS

    @cached_property
    def risky(self) -> bool:
        """Whether new rows may lie far outside the range: inputs of heavy tails, or few rows."""
        seen, own = self.rows.ranges, self.inputs
        far = np.maximum(seen.high - seen.mean, seen.mean - seen.low)[own]
        return self.few_rows or bool((far > HEAVY * np.sqrt(seen.variance[own])).any())

    def at(self, degree: int) -> Folds:
        """Return the same with another degree."""
        return replace(self, rules=lowered(self.rules, degree))

    @property
    def count(self) -> int:
        """Number of monomials."""
        return self.rules.count(len(self.inputs))

    def screening_work(self, *, few: bool = False) -> float:
        """Count the multiply-adds of a screening, for laws of few terms or any."""
        n, swept = self.rows.shape[0], self.rules.swept(len(self.inputs))
        return screening_work(n, swept, self.plan.n_splits, few=few)

    def capacity(self, n_codings: int = 1) -> int:
        """Return how many monomials the moments of all sets may have."""
        plan = self.plan
        sets = n_codings * (plan.n_parts + plan.n_splits + sum(len(t) > 1 for t in plan.test))
        return isqrt(self.room // (8 * sets))

    def moments(
        self,
        center: bool,
        limit: int,
        *,
        size: int,
        progress: Progress,
        few: bool = False,
        seconds: float = np.inf,
    ) -> FoldMoments:
        """Return the moments of the parts in raw or centred variables.

        Where there are more monomials than ``limit``, so many are screened with models of at most
        ``size`` terms, or of ``few``.  Screening and moments end with ``OutOfTime`` where either
        turns out to take longer than some ``seconds``.
        """
        scaling = Scaling.of(
            self.rows.ranges, scale=self.scale, center=center, library=self.rules.library
        )
        rows = self.rows.coded(scaling.apply)
        parted = replace(self, rows=rows).parted
        several, pools = None if parted is None else parted.rows.several, None
        if parted is None or self.count <= limit:
            basis = self.rules.basis(self.inputs)
        else:
            values = parted.rows.y[None] if several is None else several.values
            some = np.linspace(0, len(values) - 1, SCREENED).round().astype(int)
            basis, pools = screened(
                [replace(parted, rows=replace(parted.rows, y=values[t])) for t in np.unique(some)],
                self.plan,
                self.rules,
                self.inputs,
                limit,
                size,
                few=few,
                on_block=TimeBudget(seconds).callback(progress.on_block("screening monomials")),
            )
        stage = f"moments of the folds, {'centred' if center else 'raw'} inputs"
        on_block = TimeBudget(seconds).callback(progress.on_block(stage))
        joint = several is not None
        parts = fold_moments(rows, basis, self.parts, several=joint, on_block=on_block)
        return FoldMoments(self, center, basis, scaling, parts, parted, pools)


def lowered(rules: TermRules, degree: int) -> TermRules:
    """Return the rules with another degree; terms that are beyond it need not be included."""
    few = tuple(m for m in rules.include_terms if len(m) <= degree)
    return replace(rules, degree=degree, include_terms=few)


@dataclass
class WorkClock:
    """Seconds that the work done so far takes at the stated rates."""

    seconds: float = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.seconds

    def count_moments(self, folds: Folds, n_listed: int, *, few: bool = False) -> None:
        """Add the moments of so many monomials, and the screening that named them."""
        work = 0.5 * folds.rows.shape[0] * n_listed**2
        if n_listed < folds.count:
            work += folds.screening_work(few=few)
        self.seconds += work / RATE

    def count_models(self, splits: list[SplitModels], budgets: Budgets) -> None:
        """Add the models of every size in every split."""
        size = max(budgets.max_terms)
        for split in splits:
            f = len(split.pool)
            models = split.work * MODEL_SECONDS * f * min(size, f) ** 2
            each = models + PAIR_SECONDS * f**2 + SPLIT_SECONDS
            self.seconds += len(budgets.max_inputs) * each


class KnownSums(NamedTuple):
    """Moments of all rows over a list of monomials."""

    basis: Basis
    moments: Moments


@dataclass(frozen=True, eq=False)
class FoldMoments:
    """The moments of the parts at one degree, in one coding of the inputs.

    ``pools`` names the monomials that each split may use, None for all of them.  ``table`` has the
    rows themselves, where they are at hand.
    """

    folds: Folds
    center: bool
    basis: Basis
    scaling: Scaling
    parts: Sequence[Moments]
    table: PartedRows | None
    pools: Sequence[Indices] | None

    @property
    def rules(self) -> TermRules:
        """The rules about terms, in this coding."""
        return self.folds.rules.coded(self.scaling.unit)

    def splits(self) -> list[SplitModels]:
        """Return what finds and scorers the models of each split."""
        plan, table = self.folds.plan, self.table
        pools = self.pools or [np.arange(len(self.basis))] * plan.n_splits
        each = [(self.parts, table)]
        units: tuple[float, ...] = (1.0,)
        if table is not None and table.rows.several is not None:
            units = table.rows.several.units
            each = [
                ([part.response(t) for part in self.parts], replace(table, rows=own))
                for t, own in enumerate(table.rows.each)
            ]
        clamp, basis = self.folds.clamp, self.basis
        scored = (scorers(basis, a, plan, b, clamp=bool(clamp)) for a, b in each)
        edges: Any = (repeat(None, plan.n_splits) for _ in each)
        if clamp is None and self.rules.degree > 1 and table is not None:
            edges = (edge_scorers(basis, plan, b) for _, b in each if b is not None)
        of_responses = (zip(*own, strict=True) for own in (scored, edges))
        own = zip(plan.train, *of_responses, pools, strict=True)
        return [
            SplitModels(merge(self.parts, train), scorer, basis, self.rules, pool, units, edge)
            for train, scorer, edge, pool in own
        ]

    @property
    def y_scale(self) -> float:
        """Standard deviation of the response, of several their root mean square."""
        weights = np.array([part.weight for part in self.parts])
        means = np.array([part.y_mean for part in self.parts])
        within = sum(part.spread for part in self.parts)
        between = weights @ (means - np.average(means, axis=0, weights=weights)) ** 2
        return float(np.sqrt(np.mean((within + between) / weights.sum())))

    @property
    def whole(self) -> Moments | None:
        """The moments of all rows, None if the parts leave some out or have some twice."""
        if self.table is not None and not self.table.whole:
            return None
        return merge(self.parts, range(len(self.parts)))
