"""Methods: from a planted data set and a number of terms l to the monomials chosen.

    exact      our estimator with the tree engine; time from X to the certificate
    strong     the same at gamma = 0.01/sqrt(n), a ridge at which most sizes are proved
    local      its local search alone, without a proof
    cuts       the paper's Algorithm 2, cuts at binary points only, in one tree of SCIP
    cuts-multi the same, one integer programme of HiGHS after another
    lasso      the Lasso path on standardised monomials, up to l terms (exact path, LARS)
    lasso-raw  the same on the scaled monomials as they stand, the paper's (abstract_l1_regression)
    omp        orthogonal matching pursuit, l steps
    abess      adaptive best-subset selection, where the package is installed

The Lasso, OMP and abess are handed the design matrix, and the time to make it is not counted: the
comparison of times errs in their favour.  Only ``exact`` and ``cuts`` know how far from the best
they can be; the others have no gap.  The paper leaves the ridge open: gamma = 1/sqrt(n) for
``exact`` and ``local``, and 0.1/sqrt(n) for ``cuts``, which prove hardly anything at a weaker one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter

import numpy as np

from experiments.data import Planted, planted
from experiments.solvers import engine_of
from polysharp import SparsePolynomialRegressor
from polysharp.certificate.solution import Stop
from polysharp.typing import Array, Indices, Monomial

NEEDS = {"abess": "abess", "cuts": "pyscipopt", "cuts-multi": "highspy"}
# gamma times sqrt(n)
SHARES = {"exact": 1.0, "strong": 0.01, "local": 1.0, "cuts": 0.1, "cuts-multi": 0.1}
ENGINES = {
    **{"exact": "tree", "strong": "tree", "local": "local-search"},
    **{"cuts": "pure", "cuts-multi": "pure-multi"},
}
PROVING = ("exact", "strong", "cuts", "cuts-multi")


@dataclass(frozen=True)
class Found:
    """What a method chose, its seconds, and its certificate where it has one."""

    monomials: tuple[Monomial, ...]
    seconds: float
    gamma: float | None = None
    objective: float | None = None
    gap: float | None = None
    status: str = "heuristic"


def fitted(method: str, data: Planted, terms: int, time_limit: float) -> Found:
    """Fit with one engine of ours, and report the gap if the time ends before the proof."""
    model = SparsePolynomialRegressor(
        degree=data.degree,
        max_terms=terms,
        gamma=SHARES[method] / len(data.y) ** 0.5,
        n_candidates=None,
        engine=engine_of(ENGINES[method]),
        time_limit=time_limit,
        random_state=0,
    )
    started = perf_counter()
    model.fit(data.X, data.y)
    seconds = perf_counter() - started
    solution = model.solution_
    if solution.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    proving = method in PROVING
    return Found(
        model.polynomial_.monomials,
        seconds,
        model.gamma_,
        solution.objective,
        solution.gap if proving else None,
        str(solution.status) if proving else "heuristic",
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
    **{method: partial(fitted, method) for method in SHARES},
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
