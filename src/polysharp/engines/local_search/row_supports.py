"""Supports for several responses: one term after another, then swaps while they improve.

With R the terms that stay and V = L^-1 G_R: for a factor L of their block, adding monomial j gains

    1/2 sum_t rho_tj^2 / (G_jj + lam - |V_:j|^2),      rho = q - (q_R L^-T) V,

for all j at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from polysharp.engines.local_search.row_growth import CHEAPEST, LARGEST, grow
from polysharp.errors import InfeasibleError
from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import price
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Array, Indices

LEAST_GAIN = 1e-9  # a swap must lower c by this share of it: less is no better on new rows
TRIED = 64  # newcomers that rules are asked about, best first
FITTED = 8  # of them, where gains are estimates


def smallest_support(problem: Problem) -> Indices:
    """Return the smallest support that meets the rules, of largest correlations among equals."""
    structure = problem.structure
    if not len(structure.required_terms) and not len(structure.required_inputs):
        return np.zeros(0, dtype=np.intp)
    share = (problem.norms / np.sqrt(problem.gram.diagonal + problem.lam)) ** 2
    return structure.best_linear(0.5 * share / (1.0 + share.sum()) - 1.0)


def improve_rows(problem: Problem, support: Indices, expired: Callable[[], bool]) -> Fit:
    """Fill a support up to the budget and swap its terms while that lowers the cost."""
    best = problem.refit(support)
    while len(best.support) < problem.structure.max_terms and not expired():
        grown = _with_best(problem, best.support)
        if grown is None or not grown.objective < best.objective - problem.resolution:
            break
        best = grown
    return _settled(problem, best, len(best.support), 0.0, expired)


def every_row_size(problem: Problem, out_of_time: Callable[[], bool]) -> list[Indices]:
    """Return a support for each size from 1 to ``max_terms``; empty ones where none is allowed.

    Each grows from the one before, and then swaps its cheapest terms while that lowers the cost.
    Where time runs out there are fewer.
    """
    structure, most = problem.structure, problem.structure.max_terms
    if structure.plain and structure.boxes is None and problem.size <= LARGEST:
        return grow(problem, LEAST_GAIN)
    empty = np.zeros(0, dtype=np.intp)
    try:
        best = problem.refit(smallest_support(problem))
    except InfeasibleError:
        return [empty] * most
    found = [empty] * max(0, len(best.support) - 1)
    for size in range(max(1, len(best.support)), most + 1):
        if len(best.support) < size:
            grown = _with_best(problem, best.support)
            if grown is None:
                return found + [best.support] * (most - len(found))
            best = grown
        best = _settled(problem, best, CHEAPEST, LEAST_GAIN, out_of_time)
        found.append(best.support)
        if out_of_time():
            break
    return found


def _settled(
    problem: Problem, best: Fit, tried: int, gain: float, out_of_time: Callable[[], bool]
) -> Fit:
    """Swap the cheapest terms for better ones while that gains more than a share of the cost."""
    improved = True
    while improved and not out_of_time():
        improved = False
        least = best.objective - max(gain * best.objective, problem.resolution)
        for j in best.support[np.argsort(_worth(problem, best))[:tried]].tolist():
            swapped = _with_best(problem, best.support[best.support != j], without=j)
            if swapped is not None and swapped.objective < least:
                best, improved = swapped, True
                break
    return best


def _worth(problem: Problem, fit: Fit) -> Array:
    """Return what leaving out each term costs: 1/2 sum_t w_tj^2 / (H^-1)_jj."""
    H = problem.hessian(fit.support)
    inverse = np.diagonal(solve_spd(H, np.eye(len(H))))
    return np.asarray(0.5 * np.einsum("tj,tj->j", fit.w, fit.w) / inverse)


def _with_best(problem: Problem, stay: Indices, without: int = -1) -> Fit | None:
    """Return the fit of the terms that stay with the one that gains most, None if none may join.

    Within boxes what terms gain is estimated, and the best few are fitted.
    """
    bounded = problem.structure.boxes is not None
    gains = _gains_in_boxes(problem, stay) if bounded else _gains(problem, stay)
    gains[stay] = -np.inf
    if without >= 0:
        gains[without] = -np.inf
    count = min(TRIED, len(gains))
    dearest = np.argpartition(-gains, count - 1)[:count]
    best, left = None, FITTED if bounded else 1
    for j in dearest[np.argsort(-gains[dearest], kind="stable")]:
        support = np.append(stay, j)
        if gains[j] > 0.0 and problem.structure.allows(support):
            fit, left = problem.refit(support), left - 1
            best = fit if best is None or fit.objective < best.objective else best
        if left == 0:
            break
    return best


def _gains_in_boxes(problem: Problem, stay: Indices) -> Array:
    """Return what each term gains while the coefficients of those that stay do not move."""
    fit = problem.refit(stay)
    left = problem.gram.diagonal + problem.lam
    return np.asarray(price(problem.correlations(fit), 0.0, left, *problem.boxes).sum(axis=0))


def _gains(problem: Problem, stay: Indices) -> Array:
    q, left = problem.q, problem.gram.diagonal + problem.lam
    if len(stay):
        root, cross = np.linalg.cholesky(problem.hessian(stay)), problem.gram.columns(stay).T
        V = solve_triangular(root, np.hstack([cross, q[:, stay].T]), lower=True)
        V, z = V[:, : problem.size], V[:, problem.size :]
        q, left = q - z.T @ V, left - np.einsum("ij,ij->j", V, V)
    return np.asarray(np.einsum("tj,tj->j", q, q) / np.maximum(left, problem.lam))
