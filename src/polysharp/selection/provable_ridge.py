"""The ridge at which given terms are easiest to prove the best of their number.

For the perspective relaxation, terms S with ridge regression w and residual r at ridge lam are
proved the best at once if

    rho(lam) = lam min_{i in S} |w_i| / max_{j not in S} |m_j'r|  >=  1,

and the larger rho is, the fewer nodes a proof takes.  rho vanishes for weak ridges, because w and r
hardly change, and for strong ones no terms are far ahead of the others.  Among ridges from a given
one to stronger ones, at which no swap of terms pays, the weakest is returned whose rho suffices for
a proof of few nodes, or else that of the largest rho.  Several responses enter by the roots of the
sums of their squares.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polysharp.problem.problem import Problem
from polysharp.time_budget import TimeBudget
from polysharp.typing import Indices

ENOUGH = 0.7  # of rho: proofs on planted data have one node then
STEPS = tuple(10.0 ** (e / 4.0) for e in range(1, 13))  # times the given ridge
BEYOND = 2  # steps without a larger rho after which no more are tried


def provable_gamma(problem: Problem, support: Indices, time: TimeBudget) -> float:
    """Return a gamma, at most that of the problem, at which some terms are easy to prove."""
    # Here and not above: the compiler is loaded when it is needed.
    from polysharp.engines.local_search import improve

    best, found, behind = _rho(problem, support), problem.lam, 0
    for step in STEPS if best < ENOUGH else ():
        stronger = replace(problem, lam=step * problem.lam)
        rho = _rho(stronger, support)
        if rho <= best:
            behind += 1
        else:
            kept = improve(stronger, support, out_of_time=lambda: time.expired).support
            if time.expired or not np.array_equal(kept, support):
                break
            best, found, behind = rho, stronger.lam, 0
        if behind > BEYOND or best >= ENOUGH:
            break
    return 1.0 / found


def _rho(problem: Problem, support: Indices) -> float:
    """Return rho of some terms, infinite if no other could take their place."""
    fit, every = problem.refit(support), np.arange(problem.size)
    free = np.setdiff1d(fit.support, problem.structure.required_terms)
    rest = problem.q - fit.w @ problem.gram.block(fit.support, every)
    rest[:, fit.support] = 0.0
    own = fit.w[:, np.isin(fit.support, free)]
    least = problem.lam * float(np.sqrt((own**2).sum(axis=0)).min(initial=np.inf))
    return least / max(float(np.sqrt((rest**2).sum(axis=0)).max()), 1e-300)
