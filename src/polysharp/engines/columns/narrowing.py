"""Which monomials may be part of a support that costs less than a threshold, of all there are.

With T = (1 + within) times the best cost known, a dual point that was priced against all monomials
shows of all but a few that no support with them costs less than T: the same step by which a proof
over all monomials is handed to an engine, with its threshold moved.  Where it leaves too many, the
pool takes their place, and the point's own bound is all that is proved of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from polysharp.engines.columns.branching import PricedKind
from polysharp.engines.columns.column_generation import find
from polysharp.engines.columns.priced import few_survivors, raise_bound
from polysharp.engines.columns.search import Search
from polysharp.monomials.basis import Basis
from polysharp.pricing.pool import Pool
from polysharp.problem.assemble import Assembled
from polysharp.time_budget import OutOfTime
from polysharp.typing import Monomial


class NarrowingSearch(Search):
    """A search whose bound has to reach T in place of the best cost."""

    factor = 1.0

    @property
    def objective(self) -> float:
        """T: what supports with other monomials must be proved to cost."""
        return self.best.objective * self.factor


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A problem over few monomials; supports with any other one cost ``others`` at least."""

    assembled: Assembled
    basis: Basis
    others: float


def narrowed(search: NarrowingSearch, start: Iterable[Monomial], factor: float) -> Narrowed:
    """Find the monomials that supports within a factor of the best one may have."""
    search.factor, search.gap_tol = factor, 0.0
    start, others = list(start), 0.0
    kept: Iterable[Monomial] = ()
    with suppress(OutOfTime), np.errstate(all="ignore"):
        search.improve(start)
        node = PricedKind(search, find(search)).root()
        raise_bound(search, node)
        left = few_survivors(search, node)
        kept, others = search.pool.monomials, node.bound
        if left is not None:
            kept, others = [*node.terms_in, *left[0]], left[1]
    pool = Pool.of(search.design, search.rules.with_parents([*start, *kept]))
    problem, basis = search.problem(pool, search.rules)
    mean = pool.mean[[pool.index[m] for m in basis.monomials]]
    return Narrowed(Assembled(problem, mean, np.array([search.design.y_mean])), basis, others)
