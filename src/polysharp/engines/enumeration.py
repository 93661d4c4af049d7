"""Enumeration: the referee.

Every allowed support of maximal size is refitted.  Adding a monomial never raises c, so smaller
supports need no visit unless a rule (k, heredity) keeps them from growing; visiting all sizes
covers that case too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.errors import TooLargeError
from polysharp.problem.problem import Problem
from polysharp.problem.subproblem import least_cost


@dataclass(frozen=True)
class Enumeration(Engine):
    """Visit every allowed support; refuses more than ``max_supports`` candidates."""

    name: ClassVar[str] = "enumeration"
    needs_start: ClassVar[bool] = False
    prices: ClassVar[bool] = False
    max_supports: int = 2_000_000

    def candidates(self, problem: Problem) -> int:
        """Number of supports that would be looked at."""
        structure = problem.structure
        sizes = self._sizes(problem)
        free = structure.n_terms - len(structure.required_terms)
        return sum(comb(free, size - len(structure.required_terms)) for size in sizes)

    @staticmethod
    def _sizes(problem: Problem) -> range:
        structure = problem.structure
        required = len(structure.required_terms)
        only_largest = structure.heredity is None and not structure.inputs_bind
        smallest = structure.max_terms if only_largest else required
        return range(max(smallest, required), structure.max_terms + 1)

    def check(self, problem: Problem) -> None:
        """Refuse problems beyond the stated count."""
        count = self.candidates(problem)
        if count > self.max_supports:
            raise TooLargeError(
                f"engine='enumeration' visits at most {self.max_supports:,} supports, and this "
                f"problem has {count:,}; use engine='tree' or 'cutting-planes'"
            )

    def search(self, run: Run) -> Stop:
        """Visit every support, largest sizes first."""
        structure = run.problem.structure
        required = structure.required_terms
        free = np.setdiff1d(np.arange(structure.n_terms), required)
        least = np.inf
        for size in reversed(self._sizes(run.problem)):
            for chosen in combinations(free.tolist(), size - len(required)):
                support = np.concatenate([required, np.array(chosen, dtype=np.intp)])
                run.nodes += 1
                if structure.allows(support):
                    fit = run.problem.refit(support)
                    run.offer_fit(fit)
                    least = min(least, least_cost(run.problem, fit))
                if run.nodes % 256 == 0:
                    run.report("enumerating")
                    if run.expired:
                        return Stop.TIME
        run.raise_bound(least)
        return Stop.EXHAUSTED
