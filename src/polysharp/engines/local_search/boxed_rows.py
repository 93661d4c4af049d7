"""Local search for several responses whose coefficients are bounded.

A tableau serves one set of free members, and boxes stop other members in each response.  So terms
are added and swapped by what they gain while the coefficients of the others stay where they are,

    sum_t max_v  rho_tj v - (G_jj + lam) v^2 / 2    over the box of (t, j),     rho = q - G w,

and the few that gain most are fitted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import price
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Array, Indices

TRIED = 64  # newcomers that rules are asked about, best first
FITTED = 8  # of them, as gains are estimates
CHEAPEST = 3  # terms of a support of each size that a swap may replace


def has_boxed_rows(problem: Problem) -> bool:
    """Whether a problem has several responses and bounded coefficients."""
    return problem.n_responses > 1 and problem.structure.boxes is not None


def forward_boxed(problem: Problem, start: Indices) -> Fit:
    """Add the best term until the budget is spent or none gains."""
    best = problem.refit(start)
    while len(best.support) < problem.structure.max_terms:
        grown = _with_best(problem, best.support)
        if grown is None or not grown.objective < best.objective - problem.resolution:
            break
        best = grown
    return best


def improve_boxed(problem: Problem, support: Indices, out_of_time: Callable[[], bool]) -> Fit:
    """Fill a support up to the budget and swap its terms while that lowers the cost."""
    if out_of_time():
        return problem.refit(support)
    best = forward_boxed(problem, support)
    return _swapped(problem, best, len(best.support), 0.0, out_of_time)


def every_boxed_size(
    problem: Problem, start: Indices, least_gain: float, out_of_time: Callable[[], bool]
) -> list[Indices]:
    """Return a support for each size, grown from the one before; fewer where time runs out."""
    best, most = problem.refit(start), problem.structure.max_terms
    found = [np.zeros(0, dtype=np.intp)] * max(0, len(start) - 1)
    for size in range(max(1, len(start)), most + 1):
        if len(best.support) < size:
            grown = _with_best(problem, best.support)
            if grown is None:
                return found + [best.support] * (most - len(found))
            best = grown
        best = _swapped(problem, best, CHEAPEST, least_gain, out_of_time)
        found.append(best.support)
        if out_of_time():
            break
    return found


def _swapped(
    problem: Problem, best: Fit, tried: int, gain: float, out_of_time: Callable[[], bool]
) -> Fit:
    """Swap the cheapest terms for better ones while that gains more than a share of the cost."""
    improved = True
    while improved and not out_of_time():
        improved = False
        least = best.objective - max(gain * best.objective, problem.resolution)
        for j in best.support[np.argsort(_costs(problem, best))[:tried]].tolist():
            swapped = _with_best(problem, best.support[best.support != j], without=j)
            if swapped is not None and swapped.objective < least:
                best, improved = swapped, True
                break
    return best


def _costs(problem: Problem, fit: Fit) -> Array:
    """Return about what leaving out each term costs: 1/2 sum_t w_tj^2 / (H^-1)_jj."""
    H = problem.hessian(fit.support)
    inverse = np.diagonal(solve_spd(H, np.eye(len(H))))
    return np.asarray(0.5 * np.einsum("tj,tj->j", fit.w, fit.w) / inverse)


def _with_best(problem: Problem, stay: Indices, without: int = -1) -> Fit | None:
    """Return the fit of the terms that stay with the one that gains most, None if none may join."""
    curvature = problem.gram.diagonal + problem.lam
    rho = problem.correlations(problem.refit(stay))
    gains = price(rho, 0.0, curvature, *problem.boxes).sum(axis=0)
    gains[stay] = -np.inf
    if without >= 0:
        gains[without] = -np.inf
    count, fits = min(TRIED, len(gains)), list[Fit]()
    largest = np.argpartition(-gains, count - 1)[:count]
    for j in largest[np.argsort(-gains[largest], kind="stable")]:
        support = np.append(stay, j)
        if gains[j] > 0.0 and problem.structure.allows(support):
            fits.append(problem.refit(support))
        if len(fits) == FITTED:
            break
    return min(fits, key=lambda fit: fit.objective, default=None)
