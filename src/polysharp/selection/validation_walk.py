"""One split of the rows at one degree: models of every size from the training moments, judged.

The moments are those of the largest degree R.  A lower degree r is a selection of monomials, and
another gamma another ridge: monomial j of degree d has the scale t_j(r)^2 = r! / ((r - d)! ...), so
in the basis of degree R its ridge is

    ridge_j = lam t_j(R)^2 / t_j(r)^2,     t_j(r)^2 / t_j(R)^2 = (r! (R - d)!) / ((r - d)! R!).

In variables scaled by t_j(r) / t_j(R) the ridge is lam for all, as a ``Problem`` has it.

Supports are those of local search: a proof would cost much and change nothing that validation can
see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import factorial
from time import time
from typing import NamedTuple

import numpy as np

from polysharp.engines.local_search import every_size
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.monomials.term_rules import TermRules
from polysharp.problem.problem import Problem
from polysharp.selection.judges import Judge, Model
from polysharp.typing import Array, Indices


class Fit(NamedTuple):
    """What tells one model of a walk from the others."""

    degree: int
    gamma: float
    support: Indices


@dataclass(frozen=True, eq=False)
class Walked:
    """Error and size of every model of a walk, by (k, l); NaN where the rules allow none."""

    error: Array  # root mean squared error on the validation rows
    n_terms: Array
    n_inputs: Array
    supports: list[list[Indices]]  # empty lists unless the walk was to keep them
    limits: int = 0  # limits on the inputs that were walked under, the widest first


@dataclass(frozen=True, eq=False, kw_only=True)
class Walk:
    """What one job needs, and nothing more: it may run in another process."""

    train: Moments
    judge: Judge
    basis: Basis
    pool: Indices  # the monomials of this degree that the split may use
    rules: TermRules
    degree: int
    gammas: tuple[float, ...]
    max_terms: tuple[int, ...]
    max_inputs: tuple[int | None, ...]
    keep_supports: bool = False

    def run(self, deadline: float | None, *, spare_first: bool = False) -> list[Walked | None]:
        """Walk once for each gamma; None for those that time, or a basis too small, left out.

        ``deadline`` is on the clock of ``time.time``; the first gamma may ignore it.
        """
        if self.degree > self.basis.degree:
            return [None] * len(self.gammas)
        if not len(self.pool) or any(len(m) > self.degree for m in self.rules.include_terms):
            return [self._nothing() for _ in self.gammas]
        posed = self._posed(self._training_moments(), self.degree, self.pool)
        found = []
        for number, gamma in enumerate(self.gammas):
            spared = spare_first and number == 0
            found.append(self._along_sizes(posed.ridged(gamma), None if spared else deadline))
        return found

    def mean(self, fits: Sequence[Fit]) -> Array:
        """Return the mean of the coefficients of some models, fitted on the training rows."""
        return self._mean(self._training_moments(), fits)

    def towards(self, fits: Sequence[Fit], gamma: float, deadline: float | None) -> Walked:
        """Walk over the monomials of some models with their mean as the response.

        Its values are M a with a the mean of the coefficients, so q = G a and yy = a'G a.  Of
        several limits on the inputs the widest is walked come what may.
        """
        G, q, yy = self._training_moments()
        a = self._mean((G, q, yy), fits)
        q = G @ a
        pool = np.unique(np.concatenate([fit.support for fit in fits])).astype(np.intp)
        posed = self._posed((G, q, float(a @ q)), self.degree, pool).ridged(gamma)
        found = self._along_sizes(posed, deadline, spare_widest=True)
        assert found is not None  # the widest is spared
        return found

    def _mean(self, moments: tuple[Array, Array, float], fits: Sequence[Fit]) -> Array:
        total = np.zeros(len(self.basis))
        for degree, group in groupby(fits, key=lambda fit: fit.degree):
            alike = list(group)
            pool = np.unique(np.concatenate([fit.support for fit in alike])).astype(np.intp)
            posed = self._posed(moments, degree, pool)
            for fit in alike:
                support, w = posed.ridged(fit.gamma).refit(fit.support)
                total[support] += w
        return total / len(fits)

    def _posed(self, moments: tuple[Array, Array, float], degree: int, pool: Indices) -> Posed:
        """Return the problem of some monomials at a degree, with a ridge of one."""
        G, q, yy = moments
        unit = np.sqrt(_scale_ratios(self.basis, degree)[pool])
        if len(pool) < len(q) or not np.all(unit == 1.0):
            G = G[np.ix_(pool, pool)] * np.multiply.outer(unit, unit)
        rules = replace(self.rules, max_terms=max(self.max_terms), max_inputs=None)
        structure = rules.structure(self.basis).restrict(pool)
        return Posed(Problem.dense(G, q[pool] * unit, yy, 1.0, structure), pool, unit)

    def _training_moments(self) -> tuple[Array, Array, float]:
        if self.rules.constant:
            return self.train.uncentred()
        return self.train.scatter, self.train.cross, self.train.spread

    def _nothing(self) -> Walked:
        shape = (len(self.max_inputs), len(self.max_terms))
        error, n_terms, n_inputs = (np.full(shape, np.nan) for _ in range(3))
        return Walked(error, n_terms, n_inputs, [[] for _ in self.max_inputs])

    def _along_sizes(
        self, posed: Posed, deadline: float | None, *, spare_widest: bool = False
    ) -> Walked | None:
        """Find the models of all sizes for every k, the widest first.

        At the deadline nothing is returned; or, with ``spare_widest``, what there is by then.
        """
        out = self._nothing()
        wider: list[Indices] = []
        widest_first = sorted(
            range(len(self.max_inputs)), key=lambda a: -(self.max_inputs[a] or np.inf)
        )
        for number, a in enumerate(widest_first):

            def late(
                until: float | None = None if spare_widest and not number else deadline,
            ) -> bool:
                return until is not None and time() > until

            problem = posed.within(self.max_inputs[a])
            wider = [] if late() else every_size(problem, wider=wider, out_of_time=late)
            if late():
                return replace(out, limits=number) if spare_widest else None
            self._judge(replace(posed, problem=problem), wider, out, a)
        return replace(out, limits=len(widest_first))

    def _judge(self, posed: Posed, supports: list[Indices], out: Walked, a: int) -> None:
        """Write down error and size of the supports, under the a-th limit on inputs."""
        own = [supports[min(size, len(supports)) - 1] for size in self.max_terms]
        if self.keep_supports:
            out.supports[a][:] = [posed.pool[support].astype(np.int32) for support in own]
        columns = [b for b, support in enumerate(own) if len(support) or self._may_be_empty]
        if not columns:
            return
        out.error[a, columns] = self.judge.errors([self._fitted(posed, own[b]) for b in columns])
        out.n_terms[a, columns] = [len(own[b]) for b in columns]
        uses = posed.problem.structure.uses
        out.n_inputs[a, columns] = [uses[own[b]].any(axis=0).sum() for b in columns]

    def _fitted(self, posed: Posed, places: Indices) -> Model:
        support, w = posed.refit(posed.pool[places])
        if self.rules.constant:
            return Model(support, w, 0.0)
        return Model(support, w, self.train.y_mean - float(self.train.mean[support] @ w))

    @property
    def _may_be_empty(self) -> bool:
        return not self.rules.include_terms and not self.rules.include_inputs


@dataclass(frozen=True, eq=False)
class Posed:
    """The problem of some monomials of a basis, scaled so that the ridge is one for all."""

    problem: Problem
    pool: Indices  # the monomials
    unit: Array  # their scales

    def ridged(self, gamma: float) -> Posed:
        """Return the problem with another ridge."""
        return replace(self, problem=replace(self.problem, lam=1.0 / gamma))

    def within(self, max_inputs: int | None) -> Problem:
        """Return the problem with a limit on the inputs."""
        structure = self.problem.structure
        k = structure.n_inputs if max_inputs is None else min(max_inputs, structure.n_inputs)
        return replace(self.problem, structure=replace(structure, max_inputs=k))

    def refit(self, support: Indices) -> tuple[Indices, Array]:
        """Return a support of the basis, sorted, and its coefficients there."""
        fit = self.problem.refit(np.searchsorted(self.pool, support))
        return self.pool[fit.support], fit.w * self.unit[fit.support]


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
