"""One split of the rows: models of every size from the training moments, and their errors.

Supports are those of local search: a proof would cost much and change nothing that validation can
see.  Models of several responses have one support for all of them, and their error is

    sqrt(mean_t  E_t),      E_t the mean squared error of response t on the held-out rows,

of responses that were divided by their standard deviations, so that all of them count alike.

E_t of y = b + m'w is a quadratic form in the moments of the rows (``moments.squared_error``),
whatever their number.  Few held-out rows are scored one by one, next to the exact formula that
loses no digits, and with their inputs clamped to the range of the training rows if ``predict`` does
that.  Where clamping is a choice, the rows outside that range, the only ones whose predictions
change, are scored a second time.  A prediction counts however absurd it is: a polynomial that takes
such a value at a held-out row will do so at new rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.rows import MemoryRows
from polysharp.errors import InfeasibleError
from polysharp.moments.moments import Moments, Plan, merge, squared_error
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.monomials.term_rules import TermRules
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Progress
from polysharp.threads import one_blas_thread
from polysharp.time_budget import TimeBudget
from polysharp.typing import Array, Indices

MANY_TERMS = 40  # from which on a single size is not reached by way of all the smaller ones
RESPONSE_WORK = 0.2  # what a further response adds to the work of one, scorers included
# Splits that hold out more rows are scored by moments: products with more would take longer than
# the searches for the models that they scorer.
MOST_ROWS = 10_000


class Model(NamedTuple):
    """Coefficients of some monomials of a basis, and the intercept."""

    support: Indices
    w: Array
    intercept: float


@dataclass(frozen=True, eq=False)
class MomentScorer:
    """Held-out rows known by their moments."""

    moments: Moments

    def errors(self, models: Sequence[Model], design: object = None) -> Array:
        """Return the root mean squared error of every model."""
        del design
        return np.sqrt([squared_error(self.moments, *model) for model in models])


@dataclass(frozen=True, eq=False)
class RowScorer:
    """Held-out rows themselves."""

    rows: MemoryRows
    basis: Basis
    small_design: int = 2**21  # bytes of all monomials at the rows that are kept between models

    def errors(self, models: Sequence[Model], design: tuple[Indices, Array] | None = None) -> Array:
        """Return the root mean squared error of every model, with the design of other scorers."""
        used, M = self.design(models) if design is None else design
        W = np.zeros((len(used), len(models)))
        for column, model in enumerate(models):
            W[np.searchsorted(used, model.support), column] = model.w
        intercepts = np.array([model.intercept for model in models])
        residuals = intercepts + M @ W - self.rows.y[:, None]
        return np.sqrt(np.average(residuals**2, axis=0, weights=self.rows.sample_weight))

    def design(self, models: Sequence[Model]) -> tuple[Indices, Array]:
        """Return the monomials that some model uses, and their values at the rows."""
        used = np.unique(np.concatenate([model.support for model in models]))
        if 8 * len(self.basis) * len(self.rows) <= self.small_design:
            return used, self._whole.T[used].T
        return used, self.basis.select(used).evaluate(self.rows.X)

    @cached_property
    def _whole(self) -> Array:
        """All monomials at the rows."""
        return self.basis.evaluate(self.rows.X)


Scorer = MomentScorer | RowScorer


class EdgeScorer(NamedTuple):
    """Held-out rows outside the range of the training rows, and the same rows moved into it."""

    outside: RowScorer
    within: RowScorer
    share: float  # of the weight of all held-out rows

    def changes(self, models: Sequence[Model]) -> Array:
        """Return what clamped inputs change about the mean squared error of every model."""
        free, clamped = (scorer.errors(models) for scorer in (self.outside, self.within))
        return np.asarray(self.share * (clamped**2 - free**2))


@dataclass(frozen=True, eq=False)
class PartedRows:
    """All rows, their inputs coded, and which of them are in which part."""

    rows: MemoryRows
    parts: Sequence[Indices]

    @property
    def whole(self) -> bool:
        """Whether every row is in one part, and in no other."""
        every = np.concatenate(self.parts)
        return len(every) == len(self.rows) == len(np.unique(every))

    def take(self, which: Sequence[int]) -> MemoryRows:
        """Return the rows of some parts."""
        return self.rows.take(np.concatenate([self.parts[a] for a in which]))


def scorers(
    basis: Basis,
    parts: Sequence[Moments],
    plan: Plan,
    table: PartedRows | None,
    *,
    clamp: bool = False,
    most_rows: int | None = None,
) -> Iterator[Scorer]:
    """Yield the scorer of every split: by moments where rows are not at hand, or too many."""
    most_rows = MOST_ROWS if most_rows is None else most_rows
    for train, test in zip(plan.train, plan.test, strict=True):
        if table is None or sum(len(table.parts[a]) for a in test) > most_rows:
            yield MomentScorer(merge(parts, test))
            continue
        held = table.take(test)
        yield RowScorer(_clamped(held, table.take(train)) if clamp else held, basis)


def edge_scorers(basis: Basis, plan: Plan, table: PartedRows) -> Iterator[EdgeScorer | None]:
    """Yield what clamping changes in every split, None where no held-out row is outside."""
    for train, test in zip(plan.train, plan.test, strict=True):
        held = table.take(test)
        within = _clamped(held, table.take(train))
        moved = np.flatnonzero((within.X != held.X).any(axis=1))
        if not len(moved):
            yield None
            continue
        share = float(held.weights[moved].sum() / held.weights.sum())
        free, clamped = (RowScorer(rows.take(moved), basis) for rows in (held, within))
        yield EdgeScorer(free, clamped, share)


def _clamped(rows: MemoryRows, seen: MemoryRows) -> MemoryRows:
    """Return rows whose inputs are moved into the range of others."""
    return replace(rows, X=rows.X.clip(seen.X.min(axis=0), seen.X.max(axis=0)))


@dataclass(frozen=True)
class Budgets:
    """Sizes to compare: every number of terms under every limit on the inputs."""

    max_terms: tuple[int, ...]  # ascending
    max_inputs: tuple[int | None, ...] = (None,)  # the widest first

    def __len__(self) -> int:
        return len(self.max_terms) * len(self.max_inputs)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of limits on the inputs, and of sizes."""
        return len(self.max_inputs), len(self.max_terms)


@dataclass(frozen=True, eq=False)
class SizeErrors:
    """Error and size of one model for each of the budgets; NaN where rules or time allow none."""

    error: Array  # root mean squared error on the validation rows
    clamped: Array  # the same with inputs moved into the range of the training rows
    n_terms: Array
    n_inputs: Array
    supports: list[list[Indices]]  # by limit, then size; empty where nothing was found


@dataclass(frozen=True, eq=False)
class SplitModels:
    """What one job needs, and nothing more: it may run in another process."""

    train: Moments
    scorers: tuple[Scorer, ...]  # of each response
    basis: Basis
    rules: TermRules
    pool: Indices  # the monomials that the split may use, ascending
    units: tuple[float, ...] = (1.0,)  # what the responses were divided by
    edges: tuple[EdgeScorer | None, ...] = (None,)  # of each response, where clamping is a choice

    def compare(
        self,
        gamma: float,
        budgets: Budgets,
        time: TimeBudget | None = None,
        refit_gamma: float | None = None,
    ) -> SizeErrors:
        """Find and score a model for each of the budgets, NaN for those after the time is up.

        Coefficients are estimated with ``refit_gamma``, by default with the gamma of the terms.
        """
        time = TimeBudget() if time is None else time
        error, clamped, n_terms, n_inputs = np.full((4, *budgets.shape), np.nan)
        supports: list[list[Indices]] = [[] for _ in budgets.max_inputs]
        wider: list[Indices] = []
        for a, k in enumerate(budgets.max_inputs):
            problem = self.problem(gamma, max(budgets.max_terms), k)
            refitted = replace(problem, lam=1.0 / (refit_gamma or gamma))
            wider = [] if time.expired else self._sizes(problem, budgets, wider, time)
            if time.expired:
                break
            found = wider or [self.pool[:0]]
            own = [found[min(size, len(found)) - 1] for size in budgets.max_terms]
            required = self.rules.include_terms or self.rules.include_inputs
            allowed = [b for b, places in enumerate(own) if len(places) or not required]
            if not allowed:
                continue
            supports[a] = [self.pool[places] for places in own]
            fits = [refitted.refit(own[b]) for b in allowed]
            error[a, allowed], clamped[a, allowed] = self._errors(fits)
            uses = problem.structure.uses
            n_terms[a, allowed] = [len(own[b]) for b in allowed]
            n_inputs[a, allowed] = [uses[own[b]].any(axis=0).sum() for b in allowed]
        return SizeErrors(error, clamped, n_terms, n_inputs, supports)

    def refit_errors(self, support: Indices, gammas: Sequence[float], budgets: Budgets) -> Array:
        """Return the errors of some terms whose coefficients are estimated with each gamma."""
        problem = self.problem(1.0, max(budgets.max_terms), budgets.max_inputs[0])
        places = np.searchsorted(self.pool, support)
        return self._errors([replace(problem, lam=1.0 / g).refit(places) for g in gammas])[0]

    @property
    def work(self) -> float:
        """How long models take, beside those of one response."""
        return 1.0 + RESPONSE_WORK * (len(self.scorers) - 1)

    def _errors(self, fits: list[Fit]) -> tuple[Array, Array]:
        """Return the errors of some models, with their inputs as they are and clamped."""
        each = list(zip(*map(self.models, fits), strict=True))
        # All responses have the same rows: one design serves them.
        first, design = self.scorers[0], None
        if len(each) > 1 and isinstance(first, RowScorer):
            design = first.design(each[0])
        found = [scorer.errors(own, design) for scorer, own in zip(self.scorers, each, strict=True)]
        squares = np.mean(np.square(found), axis=0)
        pairs = zip(self.edges, each, strict=True)
        changes = sum(edge.changes(own) for edge, own in pairs if edge) / len(each)
        return np.sqrt(squares), np.sqrt(np.maximum(squares + changes, 0.0))

    def _sizes(
        self, problem: Problem, budgets: Budgets, wider: list[Indices], time: TimeBudget
    ) -> list[Indices]:
        """Return a support for every size up to the largest; for one size alone, only for that."""
        # Here and not above: the compiler is loaded when it is needed.
        from polysharp.engines.local_search import every_size, forward, improve

        def out_of_time() -> bool:
            return time.expired

        if len(budgets.max_terms) > 1 or max(budgets.max_terms) < MANY_TERMS or wider:
            return every_size(problem, wider=wider, out_of_time=out_of_time)
        try:
            last = improve(problem, forward(problem).support, out_of_time=out_of_time).support
        except InfeasibleError:
            return []
        return [last] * max(1, len(last))

    def problem(self, gamma: float, max_terms: int, max_inputs: int | None) -> Problem:
        """Return the training problem over the pool."""
        G, q, yy = self._equations
        budgets = max_terms, max_inputs
        if budgets not in self._structures:
            rules = replace(self.rules, max_terms=max_terms, max_inputs=max_inputs)
            structure = rules.structure(self.basis)
            if len(self.pool) < len(self.basis):
                structure = structure.restrict(self.pool)
            self._structures[budgets] = structure
        structure, lam = self._structures[budgets], 1.0 / gamma
        if q.ndim > 1:
            structure = structure.in_units(self.units)
        return Problem.dense(G, q, yy, lam, structure)

    @cached_property
    def _equations(self) -> tuple[Array, Array, Any]:
        """G, q and y'y of the training rows over the pool."""
        whole = len(self.pool) == len(self.basis)
        train = self.train if whole else self.train.select(self.pool)
        return train.normal_equations(centred=not self.rules.constant)

    @cached_property
    def _structures(self) -> dict[tuple[int, int | None], Structure]:
        """The structures of the budgets asked for so far, which every gamma shares."""
        return {}

    def models(self, fit: Fit) -> list[Model]:
        """Return a fit to the training rows over the pool as models, one for each response."""
        S, train, centred = self.pool[fit.support], self.train, not self.rules.constant
        intercepts = np.zeros(len(fit.w))
        if centred:
            intercepts = train.y_mean - fit.w @ train.mean[S]
        return [Model(S, *own) for own in zip(fit.w, intercepts.tolist(), strict=True)]


@dataclass(frozen=True)
class Workers:
    """How many jobs run at a time, where joblib's backend says, and who watches them."""

    n_jobs: int | None = None
    progress: Progress = field(default_factory=Progress)

    def run(self, job: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], stage: str) -> Any:
        """Return what the job returns for each of the arguments, in their order."""
        from joblib import Parallel, delayed

        with one_blas_thread(), Parallel(n_jobs=self.n_jobs, prefer="threads") as parallel:
            results = parallel(delayed(job)(*own) for own in arguments)
        if (tell := self.progress.on_block(stage)) is not None:
            tell(1, 1)
        return results
