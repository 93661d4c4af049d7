"""The ridges at which a support is proved the best of its size, by its own residual.

For the ridge fit w of a support S of l monomials at lam, with a = y - M_S w, m_i'a = lam w_i on S.
If no other monomial has a larger product,

    max_{j not in S} |m_j'a|  <=  lam min_{i in S} |w_i|,

then top_l of the squared products is that of S, and the dual bound of a,
y'a - |a|^2/2 - top_l((m_j'a)^2) / (2 lam), is the cost of S: no l monomials cost less at this
ridge.  That takes one pass over the monomials for each ridge.  The bound is evaluated as everywhere
(``Problem.dual_bound``), so that rounding and several responses are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polysharp.problem.problem import Problem
from polysharp.typing import Indices

STEPS_PER_DECADE = 8  # ridges tried from the problem's own to stronger ones
DECADES = 6  # beyond that a ridge leaves little of any model
HALVINGS = 6  # of the last step, on either side: a boundary within 5 %


def proved_at(problem: Problem, support: Indices, gap_tol: float) -> tuple[float, float] | None:
    """Return the least and largest gamma of a range throughout which a support is proved best.

    The range is the one of the largest gammas, among those not above the problem's own that are
    tried; None if there is none, or the support is smaller than the budget.
    """
    if len(support) < problem.structure.max_terms:
        return None

    def passes(gamma: float) -> bool:
        own = replace(problem, lam=1.0 / gamma)
        fit = own.refit(support)
        cost = own.cost_at_most(fit)
        # A strong ridge brings all costs near yy/2: the gap must be small beside what S explains.
        scale = min(cost, 0.5 * own.yy - cost)
        return bool(cost - own.dual_bound(fit) <= gap_tol * scale)

    steps = np.arange(STEPS_PER_DECADE * DECADES) / STEPS_PER_DECADE
    gammas = (problem.gamma * 10.0**-steps).tolist()
    with np.errstate(all="ignore"):
        first = next((a for a, gamma in enumerate(gammas) if passes(gamma)), None)
        if first is None:
            return None
        behind = range(first + 1, len(gammas))
        beyond = next((a for a in behind if not passes(gammas[a])), len(gammas))
        high, low = gammas[first], gammas[beyond - 1]
        if first > 0:
            high = _boundary(passes, high, gammas[first - 1])
        if beyond < len(gammas):
            low = _boundary(passes, low, gammas[beyond])
    return low, high


def _boundary(passes: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return a gamma that passes, near the last one on the way to one that does not."""
    for _ in range(HALVINGS):
        middle = float(np.sqrt(inside * outside))
        inside, outside = (middle, outside) if passes(middle) else (inside, middle)
    return inside
