"""Validation errors over a grid of degrees, ridges, codings and sizes, from moments alone.

A case is a coding of the inputs (raw or centred), a degree r and a gamma.  In every split it is
one walk along the sizes l (and the budgets k): the supports come from the moments of the training
parts, their errors from those of the validation parts.  With the moments of the largest degree at
hand a lower degree is a selection of monomials, and another gamma another ridge: monomial j of
degree d has the scale t_j(r)^2 = r! / ((r - d)! ...), so in the basis of degree R its ridge is

    ridge_j = lam t_j(R)^2 / t_j(r)^2,     t_j(r)^2 / t_j(R)^2 = (r! (R - d)!) / ((r - d)! R!).

Supports inside the splits are those of local search: a proof would cost much and change nothing
that validation can see.  Plain budgets use the compiled ``growth``; rules beyond them
``local_search``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import factorial
from time import time
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polysharp.basis import Array, Basis, Indices
from polysharp.candidates import TermRules
from polysharp.errors import InfeasibleError
from polysharp.fold_moments import Plan, merge, squared_error
from polysharp.growth import System, parts_of, sizes
from polysharp.local_search import forward, improve
from polysharp.moments import Moments
from polysharp.problem import Problem
from polysharp.structure import Structure

Rule = Literal["one-se", "best"]
OnBatch = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Coding:
    """The moments of the parts in one coding of the inputs.

    ``basis`` has the largest degree of the grid; its inputs are numbered within ``inputs``, the
    user's numbers.  ``pools`` names the monomials that each split may use, None for all of them.
    """

    center: bool
    basis: Basis
    inputs: Indices
    parts: Sequence[Moments]
    pools: Sequence[Indices] | None = None


@dataclass(frozen=True)
class Grid:
    """What is compared: every combination."""

    degrees: tuple[int, ...]
    gammas: tuple[float, ...]
    max_terms: tuple[int, ...]
    max_inputs: tuple[int | None, ...] = (None,)


@dataclass(frozen=True)
class Candidate:
    """One combination of the grid."""

    degree: int
    gamma: float
    center: bool
    max_inputs: int | None
    max_terms: int


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of all candidates; NaN where time ran out or no polynomial obeys the rules."""

    candidates: tuple[Candidate, ...]
    errors: Array  # (candidates, splits), root mean squared error on held-out rows
    n_terms: Array  # mean over the splits
    n_inputs: Array
    finished: int  # cases compared, of
    cases: int

    @property
    def mean(self) -> Array:
        """Mean error of each candidate over the splits."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def std_error(self) -> Array:
        """Standard error of that mean."""
        splits = self.errors.shape[1]
        if splits < 2:
            return np.zeros(len(self.errors))
        return np.asarray(self.errors.std(axis=1, ddof=1) / np.sqrt(splits))

    def choose(self, rule: Rule) -> int:
        """Return the place of the candidate to use.

        "best" has the smallest mean error; "one-se" the fewest terms, then inputs, then the lowest
        degree, then the strongest ridge, among those within one standard error of it.
        """
        mean = self.mean
        if np.isnan(mean).all():
            raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
        best = int(np.nanargmin(mean))
        if rule == "best":
            return best
        close = np.flatnonzero(mean <= mean[best] + self.std_error[best])
        return int(min(close, key=lambda a: self._simplicity(int(a))))

    def _simplicity(self, a: int) -> tuple[float, ...]:
        c = self.candidates[a]
        inputs = np.inf if c.max_inputs is None else c.max_inputs
        return c.max_terms, inputs, c.degree, c.gamma, float(self.mean[a])


def grid_search(
    codings: Sequence[Coding],
    plan: Plan,
    grid: Grid,
    rules: TermRules,
    *,
    n_jobs: int | None = None,
    deadline: float | None = None,
    on_batch: OnBatch | None = None,
) -> Scores:
    """Compare the whole grid on held-out parts.

    Parameters
    ----------
    codings : sequence of Coding
        Moments of the parts, one entry for each coding of the inputs.
    plan : Plan
        Which parts train and validate.
    grid : Grid
        Degrees, gammas, sizes.
    rules : TermRules
        The user's other rules; degree and budgets are those of the grid.
    n_jobs : int or None
        Passed to joblib, whose backends decide where the walks run.
    deadline : float or None
        On the clock of ``time.time``; walks that have not begun by then are left out, except for
        those of the first case.
    on_batch : callable or None
        Called with (walks done, walks).
    """
    from joblib import Parallel, delayed

    walks = _walks(codings, plan, grid, rules)
    batch = len(grid.gammas) * plan.n_splits
    found: list[Walked | None] = []
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for start in range(0, len(walks), batch):
            found += parallel(
                delayed(Walk.run)(walk, None if start + a < plan.n_splits else deadline)
                for a, walk in enumerate(walks[start : start + batch])
            )
            if on_batch is not None:
                on_batch(min(start + batch, len(walks)), len(walks))
    return _collect(walks, found, plan, grid)


@dataclass(frozen=True, eq=False)
class Walked:
    """Errors and sizes along one walk, by (k, l) of the grid."""

    error: Array
    n_terms: Array
    n_inputs: Array


@dataclass(frozen=True, eq=False)
class Walk:
    """One case in one split."""

    train: Moments
    test: Moments
    coding: Coding
    parts: NDArray[np.int64]
    pool: Indices
    degree: int
    gamma: float
    grid: Grid
    rules: TermRules

    def run(self, deadline: float | None) -> Walked | None:
        """Walk along the sizes for every k, largest first; None if it cannot be done (in time)."""
        if self.degree > self.coding.basis.degree:
            return None
        shape = (len(self.grid.max_inputs), len(self.grid.max_terms))
        out = Walked(*(np.full(shape, np.nan) for _ in range(3)))
        if any(len(m) > self.degree for m in self.rules.include_terms):
            return out
        system, wider = self.system(), None
        # Python's order: None, the widest budget, before the numbers from large to small.
        order = sorted(range(shape[0]), key=lambda a: -(self.grid.max_inputs[a] or np.inf))
        for a in order:
            supports: list[Indices] = []
            for support in self._supports(system, self.grid.max_inputs[a], wider):
                if deadline is not None and time() > deadline:
                    return None
                supports.append(support)
            for b, size in enumerate(self.grid.max_terms):
                self._judge(system, supports[min(size, len(supports)) - 1], out, (a, b))
            wider = supports
        return out

    def system(self) -> System:
        """Return the training problem of this case over the monomials of its degree."""
        if self.rules.constant:
            G, q, yy = self.train.uncentred()
        else:
            G, q, yy = self.train.scatter, self.train.cross, self.train.spread
        basis = self.coding.basis
        ridge = 1.0 / (self.gamma * _scale_ratios(basis, self.degree))
        return System(G, q, yy, ridge, self.pool, self.parts, basis.n_inputs)

    def _supports(
        self, system: System, max_inputs: int | None, wider: list[Indices] | None
    ) -> Iterator[Indices]:
        largest = max(self.grid.max_terms)
        rules = self.rules
        if rules.heredity is None and not rules.include_terms and not rules.include_inputs:
            return sizes(system, largest, max_inputs, wider=wider)
        structure = rules.structure(self.coding.basis, self.coding.inputs).restrict(self.pool)
        if max_inputs is not None:
            structure = replace(structure, max_inputs=min(max_inputs, structure.n_inputs))
        return ruled_sizes(system, structure, largest)

    def _judge(self, system: System, support: Indices, out: Walked, place: tuple[int, int]) -> None:
        if not len(support) and not self._may_be_empty:
            return
        w = system.refit(support)
        intercept = 0.0
        if not self.rules.constant:
            intercept = self.train.y_mean - float(self.train.mean[support] @ w)
        out.error[place] = np.sqrt(squared_error(self.test, support, w, intercept))
        out.n_terms[place] = len(support)
        out.n_inputs[place] = len(system.inputs_of(support))

    @property
    def _may_be_empty(self) -> bool:
        return not self.rules.include_terms and not self.rules.include_inputs


def ruled_sizes(system: System, structure: Structure, largest: int) -> Iterator[Indices]:
    """Yield a support for each size under rules beyond the budgets; none where none is allowed."""
    pool = system.pool
    # Scaled so that the ridge is one for all: engines know a single lam.
    unit = 1.0 / np.sqrt(system.ridge[pool])
    G = system.G[np.ix_(pool, pool)] * np.multiply.outer(unit, unit)
    support: Indices | None = None
    for size in range(1, min(largest, len(pool)) + 1):
        problem = Problem.dense(
            G, system.q[pool] * unit, system.yy, 1.0, replace(structure, max_terms=size)
        )
        try:
            start = forward(problem).support if support is None else support
            support = improve(problem, start).support
        except InfeasibleError:
            yield np.zeros(0, dtype=np.intp)
        else:
            yield pool[support]


def _walks(codings: Sequence[Coding], plan: Plan, grid: Grid, rules: TermRules) -> list[Walk]:
    """List the walks: by degree, then coding, then gamma, then split."""
    sets = [
        [
            (merge(coding.parts, plan.train[v]), merge(coding.parts, plan.test[v]))
            for v in range(plan.n_splits)
        ]
        for coding in codings
    ]
    tables = [parts_of(coding.basis) for coding in codings]
    lengths = [np.array([len(m) for m in coding.basis.monomials]) for coding in codings]
    walks = []
    for degree in grid.degrees:
        for a, coding in enumerate(codings):
            every = np.flatnonzero(lengths[a] <= degree)
            for gamma in grid.gammas:
                for v, (train, test) in enumerate(sets[a]):
                    pool = every
                    if coding.pools is not None:
                        pool = np.intersect1d(every, coding.pools[v])
                    walks.append(
                        Walk(train, test, coding, tables[a], pool, degree, gamma, grid, rules)
                    )
    return walks


def _scale_ratios(basis: Basis, degree: int) -> Array:
    """Return t_j(r)^2 / t_j(R)^2; 1 for monomials beyond degree r, which nobody asks for."""
    R = basis.degree
    by_length = [
        factorial(degree) * factorial(R - d) / (factorial(degree - d) * factorial(R))
        if d <= degree
        else 1.0
        for d in range(R + 1)
    ]
    return np.array([by_length[len(m)] for m in basis.monomials])


def _collect(walks: list[Walk], found: list[Walked | None], plan: Plan, grid: Grid) -> Scores:
    """Bring the walks of each case together; a case counts when all its splits are done."""
    candidates: list[Candidate] = []
    errors, terms, inputs = [], [], []
    finished = 0
    for start in range(0, len(walks), plan.n_splits):
        walk, group = walks[start], found[start : start + plan.n_splits]
        done = [walked for walked in group if walked is not None]
        complete = len(done) == plan.n_splits
        finished += complete
        for a, k in enumerate(grid.max_inputs):
            for b, size in enumerate(grid.max_terms):
                candidates.append(Candidate(walk.degree, walk.gamma, walk.coding.center, k, size))
                row = np.full((3, plan.n_splits), np.nan)
                if complete:
                    row = np.array([(x.error, x.n_terms, x.n_inputs) for x in done])[:, :, a, b].T
                errors.append(row[0])
                terms.append(float(row[1].mean()))
                inputs.append(float(row[2].mean()))
    return Scores(
        tuple(candidates),
        np.array(errors),
        np.array(terms),
        np.array(inputs),
        finished,
        len(walks) // plan.n_splits,
    )
