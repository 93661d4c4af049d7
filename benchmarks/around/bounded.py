"""Bounds on coefficients, and several responses, against all supports tried one by one.

The referee shares no code with the library: it lists the monomials itself, and solves

    min 1/2 |y - M w|^2 + 1/(2 gamma) |w|^2,  low <= w scale <= high

for each support by bounded least squares (SciPy), or in closed form for several responses.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement
from math import factorial, prod
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from polysharp import MultiTaskSparsePolynomialRegressor, SparsePolynomialRegressor

ENGINES = ("tree", "tree", "enumeration", "local-search")
ROUNDING = 1e-7  # relative error of the referee's bounded least squares


def columns(X: np.ndarray, degree: int, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the scaled monomials at the rows, and their scales."""
    terms = [
        m
        for size in range(int(intercept), degree + 1)
        for m in combinations_with_replacement(range(X.shape[1]), size)
    ]

    def orderings(m: tuple[int, ...]) -> float:
        repeats = [m.count(i) for i in set(m)] + [degree - len(m)]
        return factorial(degree) / prod(map(factorial, repeats))

    scales = np.sqrt([orderings(m) for m in terms])
    M = np.column_stack([X[:, list(m)].prod(axis=1) for m in terms]) * scales
    return (M - M.mean(axis=0) if intercept else M), scales


def least(
    M: np.ndarray, Y: np.ndarray, terms: int, gamma: float, ends: tuple[Any, Any] | None
) -> float:
    """Return the least cost over all supports."""
    best = 0.5 * float((Y * Y).sum())
    for size in range(1, min(terms, M.shape[1]) + 1):
        for S in combinations(range(M.shape[1]), size):
            A = np.vstack([M[:, S], np.eye(size) / np.sqrt(gamma)])
            B = np.vstack([Y, np.zeros((size, Y.shape[1]))])
            if ends is None:
                W = np.linalg.lstsq(A, B, rcond=None)[0]
            else:
                low, high = ends[0][list(S)], ends[1][list(S)]
                W = lsq_linear(A, B[:, 0], (low, high), method="bvls", tol=1e-14).x[:, None]
            best = min(best, 0.5 * float(((B - A @ W) ** 2).sum()))
    return best


def check(seed: int, tally: Any) -> None:
    """Fit one small problem and compare its certificate."""
    rng = np.random.default_rng([53, seed])
    p, degree = [(2, 2), (3, 1), (2, 3), (3, 2), (5, 1)][int(rng.integers(5))]
    n, terms = int(rng.integers(5, 40)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 1, p)
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(n)
    intercept, gamma = bool(rng.random() < 0.5), float(10.0 ** rng.uniform(-4, 3))
    several = rng.random() < 0.4
    Y = rng.standard_normal((n, int(rng.integers(2, 4)) if several else 1)) + X[:, :1] ** 2
    M, scales = columns(X, degree, intercept)
    options = {
        "degree": degree, "max_terms": terms, "gamma": gamma, "fit_intercept": intercept,
        "scale": False, "gap_tol": float(rng.choice([1e-4, 1e-8])), "time_limit": 5.0,
        "random_state": seed, "n_candidates": None,
    }  # fmt: skip
    ends = None
    if several:
        model = MultiTaskSparsePolynomialRegressor(**options).fit(X, Y)
        engine = "several responses"
        target = Y - Y.mean(axis=0) if intercept else Y
        units = np.sqrt((target**2).mean(axis=0))
        target = target / units
    else:
        engine = ENGINES[int(rng.integers(len(ENGINES)))]
        size = 10.0 ** rng.uniform(-3, 1)
        low, high = [(0, np.inf), (-size, size), (-np.inf, 0), (0, size), (-size, np.inf)][
            int(rng.integers(5))
        ]
        options |= {"engine": engine, "coefficient_bounds": (low, high)}
        model = SparsePolynomialRegressor(**options).fit(X, Y[:, 0])
        ends = np.full(len(scales), low) / scales, np.full(len(scales), high) / scales
        if not intercept:  # the constant is the first monomial, and nothing bounds it
            ends[0][0], ends[1][0] = -np.inf, np.inf
        target = Y - Y.mean(axis=0) if intercept else Y
        found = model.polynomial_
        named = zip(found.monomials, found.coefficients, strict=True)
        w = np.array([value for m, value in named if m])
        if not ((w >= low * (1 + 1e-9)) & (w <= high * (1 + 1e-9))).all():
            tally.find("coefficient outside its bounds", f"seed {seed}", repr(w))
    best, found = least(M, target, terms, gamma, ends), model.solution_
    tally.count(f"{engine}: {found.status}")
    where = f"seed {seed} {engine} n={n} p={p} r={degree}"
    if found.bound > best * (1.0 + ROUNDING) + 1e-12:
        tally.find("wrong bound", where, f"{found.bound!r} above {best!r}")
    if found.objective < best * (1.0 - ROUNDING) - 1e-12:
        tally.find("objective too low", where, f"{found.objective!r} below {best!r}")
    if found.status == "optimal":
        worst = best * (1.0 + 2.0 * options["gap_tol"] + ROUNDING) + 1e-12
        if found.objective > worst:
            tally.find("wrong optimal", where, f"{found.objective!r} above {best!r}")
