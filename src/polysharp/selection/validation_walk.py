"""One split of the rows at one degree: models of every size from the training moments, judged.

The moments are those of the largest degree R.  A lower degree r is a selection of monomials, and
another gamma another ridge: monomial j of degree d has the scale t_j(r)^2 = r! / ((r - d)! ...), so
in the basis of degree R its ridge is

    ridge_j = lam t_j(R)^2 / t_j(r)^2,     t_j(r)^2 / t_j(R)^2 = (r! (R - d)!) / ((r - d)! R!).

Supports are those of local search: a proof would cost much and change nothing that validation can
see.  Plain budgets use the compiled ``growth``; rules beyond them ``local_search``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import factorial
from time import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.growth import System, sizes
from polysharp.engines.moves_search import forward, improve
from polysharp.errors import InfeasibleError
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
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
    parts: NDArray[np.int64]
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
        problem = self._training_problem()
        found = []
        for number, gamma in enumerate(self.gammas):
            spared = spare_first and number == 0
            system = self._system(problem, self.degree, gamma)
            found.append(self._along_sizes(system, None if spared else deadline))
        return found

    def mean(self, fits: Sequence[Fit]) -> Array:
        """Return the mean of the coefficients of some models, fitted on the training rows."""
        return self._mean(self._training_problem(), fits)

    def towards(self, fits: Sequence[Fit], gamma: float, deadline: float | None) -> Walked:
        """Walk over the monomials of some models with their mean as the response.

        Its values are M a with a the mean of the coefficients, so q = G a and yy = a'G a.  Of
        several limits on the inputs the widest is walked come what may.
        """
        problem = self._training_problem()
        a = self._mean(problem, fits)
        q = problem[0] @ a
        pool = np.unique(np.concatenate([fit.support for fit in fits])).astype(np.intp)
        own = replace(self, pool=pool)
        system = own._system((problem[0], q, float(a @ q)), self.degree, gamma)
        found = own._along_sizes(system, deadline, spare_widest=True)
        assert found is not None  # the widest is spared
        return found

    def _mean(self, problem: tuple[Array, Array, float], fits: Sequence[Fit]) -> Array:
        total = np.zeros(len(self.basis))
        for (degree, gamma), alike in groupby(fits, key=lambda fit: (fit.degree, fit.gamma)):
            system = self._system(problem, degree, gamma)
            for fit in alike:
                total[fit.support] += system.refit(fit.support)
        return total / len(fits)

    def _system(self, problem: tuple[Array, Array, float], degree: int, gamma: float) -> System:
        ridge = 1.0 / (gamma * _scale_ratios(self.basis, degree))
        return System(*problem, ridge, self.pool, self.parts, self.basis.n_inputs)

    def _training_problem(self) -> tuple[Array, Array, float]:
        if self.rules.constant:
            return self.train.uncentred()
        return self.train.scatter, self.train.cross, self.train.spread

    def _nothing(self) -> Walked:
        shape = (len(self.max_inputs), len(self.max_terms))
        error, n_terms, n_inputs = (np.full(shape, np.nan) for _ in range(3))
        return Walked(error, n_terms, n_inputs, [[] for _ in self.max_inputs])

    def _along_sizes(
        self, system: System, deadline: float | None, *, spare_widest: bool = False
    ) -> Walked | None:
        """Walk along the sizes for every k, the widest first.

        At the deadline nothing is returned; or, with ``spare_widest``, what there is by then.
        """
        out, wider = self._nothing(), None
        widest_first = sorted(
            range(len(self.max_inputs)), key=lambda a: -(self.max_inputs[a] or np.inf)
        )
        for number, a in enumerate(widest_first):
            until = None if spare_widest and number == 0 else deadline
            supports: list[Indices] = []
            late = _passed(until)
            for support in () if late else self._supports(system, self.max_inputs[a], wider):
                supports.append(support)
                late = _passed(until)
                if late:
                    break
            if late:
                return replace(out, limits=number) if spare_widest else None
            self._judge(system, supports, out, a)
            wider = supports
        return replace(out, limits=len(widest_first))

    def _supports(
        self, system: System, max_inputs: int | None, wider: list[Indices] | None
    ) -> Iterator[Indices]:
        largest, rules = max(self.max_terms), self.rules
        if rules.heredity is None and self._may_be_empty:
            return sizes(system, largest, max_inputs, wider=wider)
        structure = rules.structure(self.basis).restrict(self.pool)
        if max_inputs is not None:
            structure = replace(structure, max_inputs=min(max_inputs, structure.n_inputs))
        return ruled_sizes(system, structure, largest)

    def _judge(self, system: System, supports: list[Indices], out: Walked, a: int) -> None:
        """Write down error and size of the supports, under the a-th limit on inputs."""
        if not supports:
            supports = [self.pool[:0]]
        own = [supports[min(size, len(supports)) - 1] for size in self.max_terms]
        if self.keep_supports:
            out.supports[a][:] = [support.astype(np.int32) for support in own]
        models = {
            b: self._fitted(system, support)
            for b, support in enumerate(own)
            if len(support) or self._may_be_empty
        }
        if not models:
            return
        columns = list(models)
        out.error[a, columns] = self.judge.errors(list(models.values()))
        out.n_terms[a, columns] = [len(own[b]) for b in columns]
        out.n_inputs[a, columns] = [len(system.inputs_of(own[b])) for b in columns]

    def _fitted(self, system: System, support: Indices) -> Model:
        w = system.refit(support)
        if self.rules.constant:
            return Model(support, w, 0.0)
        return Model(support, w, self.train.y_mean - float(self.train.mean[support] @ w))

    @property
    def _may_be_empty(self) -> bool:
        return not self.rules.include_terms and not self.rules.include_inputs


def ruled_sizes(system: System, structure: Structure, largest: int) -> Iterator[Indices]:
    """Yield a support for each size under rules beyond the budgets; none where none is allowed."""
    pool = system.pool
    # Scaled so that the ridge is one for all: a problem knows a single lam.
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


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time() > deadline


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
