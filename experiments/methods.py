"""Methods: from a planted data set and a number of terms l to the monomials chosen.

    exact      our estimator with the tree engine; time from X to the certificate
    lasso      the Lasso path on standardised monomials, up to l terms (exact path, LARS)
    lasso-raw  the same on the scaled monomials as they stand, the paper's (abstract_l1_regression)
    omp        orthogonal matching pursuit, l steps
    abess      adaptive best-subset selection, where the package is installed

All but ``exact`` are handed the design matrix, and its time is not counted: the comparison of
times errs in their favour.  Only ``exact`` knows how far from the best it can be; the others have
no gap.  Its ridge is gamma = 1/sqrt(n), which the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter

import numpy as np

from experiments.data import Planted, planted
from polysharp import SparsePolynomialRegressor
from polysharp.certificate.solution import Stop
from polysharp.typing import Array, Indices, Monomial

NEEDS = {"abess": "abess"}


@dataclass(frozen=True)
class Found:
    """What a method chose, its seconds, and its certificate where it has one."""

    monomials: tuple[Monomial, ...]
    seconds: float
    gamma: float | None = None
    objective: float | None = None
    gap: float | None = None
    status: str = "heuristic"


def exact(data: Planted, terms: int, time_limit: float) -> Found:
    """Solve to proven optimality, or report the gap at the time limit."""
    model = SparsePolynomialRegressor(
        degree=data.degree,
        max_terms=terms,
        n_candidates=None,
        engine="tree",
        time_limit=time_limit,
        random_state=0,
    )
    started = perf_counter()
    model.fit(data.X, data.y)
    seconds = perf_counter() - started
    solution = model.solution_
    if solution.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return Found(
        model.polynomial_.monomials,
        seconds,
        model.gamma_,
        solution.objective,
        solution.gap,
        str(solution.status),
    )


def lasso(data: Planted, terms: int, time_limit: float) -> Found:
    """Follow the Lasso path on standardised monomials until it has more than l terms."""
    return _timed(data, lambda: _lasso_support(data.standardised, data.response, terms))


def lasso_raw(data: Planted, terms: int, time_limit: float) -> Found:
    """Follow the Lasso path on the scaled monomials as they are."""
    return _timed(data, lambda: _lasso_support(data.design, data.response, terms))


def omp(data: Planted, terms: int, time_limit: float) -> Found:
    """Add the monomial most correlated with the residual, l times."""
    from sklearn.linear_model import orthogonal_mp

    def support() -> Indices:
        w = orthogonal_mp(data.standardised, data.response, n_nonzero_coefs=terms)
        return np.flatnonzero(w)

    return _timed(data, support)


def abess(data: Planted, terms: int, time_limit: float) -> Found:
    """Run abess as its users do: normalised columns, intercept, no ridge."""
    from abess.linear import LinearRegression  # type: ignore[import-untyped]

    def support() -> Indices:
        model = LinearRegression(support_size=terms)
        return np.flatnonzero(model.fit(data.design, data.response).coef_)

    return _timed(data, support)


METHODS: dict[str, Callable[[Planted, int, float], Found]] = {
    "exact": exact,
    "lasso": lasso,
    "lasso-raw": lasso_raw,
    "omp": omp,
    "abess": abess,
}


def warm_up() -> None:
    """Run every method once on a small problem, so that no run pays for imports or compilation."""
    data = planted(60, 0, p=6, terms=4)
    for name, method in METHODS.items():
        if name not in NEEDS or find_spec(NEEDS[name]) is not None:
            method(data, 4, 5.0)


def _timed(data: Planted, support: Callable[[], Indices]) -> Found:
    _ = data.standardised, data.response  # made before the clock starts
    started = perf_counter()
    chosen = support()
    seconds = perf_counter() - started
    return Found(tuple(data.basis.monomials[j] for j in chosen), seconds)


def _lasso_support(M: Array, y: Array, terms: int) -> Indices:
    """Return the last support of the path before it has more than ``terms`` monomials.

    Monomials also leave the path, so it takes more steps than terms.
    """
    from sklearn.linear_model import lars_path

    steps = terms + 10
    while True:
        alphas, _, path = lars_path(M, y, method="lasso", max_iter=steps)
        sizes = np.count_nonzero(path, axis=0)
        beyond = np.flatnonzero(sizes > terms)
        # The path ends where it exceeds l, where it is complete, or where LARS gives up early.
        if len(beyond) or len(alphas) <= steps:
            last = beyond[0] - 1 if len(beyond) else len(sizes) - 1
            return np.flatnonzero(path[:, last])
        steps *= 2
