"""Proofs over monomials that nobody lists, with functions of inputs and bounded coefficients.

Small problems with every rule are searched as if they were too large to list, with a pool much too
small; enumeration is the referee, and the checker must accept what the search has written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polysharp import SparsePolynomialRegressor, verify
from polysharp.certificate.solution import Solution
from polysharp.certificate.statement import with_statement
from polysharp.engines import make_engine
from polysharp.engines.base import Limits
from polysharp.engines.columns.column_generation import search_all_inputs
from polysharp.engines.columns.search import Search, Sizes
from polysharp.errors import InputError
from polysharp.estimators.prepare import open_fit
from polysharp.pricing.design import Design
from polysharp.progress import open_progress

SMALL = Sizes(first=5, added=4, listed=25, pool=12, handed=12)
FUNCTIONS = ("inverse", "square-root", "log", "exp", "sin", "cos")
SHAPES = ((2, 2, 2), (3, 2, 1), (4, 2, 0), (3, 3, 0), (2, 3, 1), (1, 4, 2), (5, 1, 2), (6, 2, 0))


class Drawn:
    """Rows, rules, functions and intervals from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([91, seed])
        p, degree, most = SHAPES[seed % len(SHAPES)]
        n = int(rng.integers(10, 60))
        self.X = rng.uniform(0.4, 3.0, (n, p))
        if seed % 7 == 0:
            self.X[:, 0] = rng.integers(1, 3, n)
        self.weights = rng.uniform(0.3, 2.0, n) if seed % 3 == 0 else None
        chosen = [str(name) for name in rng.choice(FUNCTIONS, most, replace=False)]
        self.options: dict[str, Any] = {
            "degree": degree,
            "max_terms": int(rng.integers(1, 4)),
            "max_inputs": [None, 1, 2][int(rng.integers(3))],
            "heredity": [None, None, "weak", "strong"][int(rng.integers(4))],
            "max_interaction": [None, 1, 2][int(rng.choice(3, p=[0.7, 0.15, 0.15]))],
            "interaction_degree": [None, 2][int(rng.random() < 0.15)],
            "fit_intercept": bool(rng.random() < 0.7),
            "center": bool(rng.random() < 0.3),
            "gamma": float(10.0 ** rng.uniform(-3, 2)),
            "functions": chosen if rng.random() < 0.7 or not most else {f"x{p - 1}": chosen},
            "gap_tol": 1e-6,
        }
        if rng.random() < 0.2:
            self.options["exclude_terms"] = [
                (int(rng.integers(p)),) * int(rng.integers(1, degree + 1))
            ]
        if rng.random() < 0.15:
            self.options["include_inputs"] = [int(rng.integers(p))]
        if rng.random() < 0.1 and p > 2:
            self.options["exclude_inputs"] = [p - 2]
        self._bound(rng, p)
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        U = (self.X - low) / (high - low)
        law = U @ rng.standard_normal(p) + U[:, 0] / (1.0 + U[:, -1]) + np.log(self.X[:, 0])
        self.y = law + 0.3 * rng.standard_normal(n) + 1.0

    def _bound(self, rng: np.random.Generator, p: int) -> None:
        size = float(10.0 ** rng.uniform(-2, 1))
        one = [(-size, size), (0.0, size), (-size, None), (None, 0.0)][int(rng.integers(4))]
        kind = int(rng.integers(7))
        if kind == 0:
            self.options["positive"] = True
        elif kind == 1:
            self.options["coefficient_bounds"] = one
        elif kind == 2:
            self.options["coefficient_bounds"] = {"x0": one, "*": (-2.0 * size, 3.0 * size)}
        elif kind == 3:
            self.options["coefficient_bounds"] = {"x0": one, f"x{p - 1}^1": (-size, 0.1)}
        elif kind == 4:
            self.options["coefficient_bounds"] = {(0,): (-size, size), "*": (0.0, None)}


def priced(case: Drawn, **settings: Any) -> Solution:
    """Search as if no monomial could be listed."""
    model = SparsePolynomialRegressor(**case.options, n_candidates=None)
    with open_progress(0) as progress:
        opened = open_fit(model, case.X, case.y, case.weights, progress)
    rules = opened.rules
    columns = np.array(rules.library.columns_of(opened.allowed), dtype=np.intp)
    search = Search(
        Design(opened.rows, columns, rules.degree, fit_intercept=not rules.constant),
        rules,
        lam=1.0 / opened.gamma,
        limits=Limits(20.0, case.options["gap_tol"]),
        **{"engine": make_engine("tree"), "sizes": SMALL} | settings,
    )
    found = search_all_inputs(search)
    structure = found.assembled.problem.structure
    return with_statement(
        found.solution, rules, found.basis, structure, opened.scaling, opened.table
    )


def check(seed: int) -> str:
    case = Drawn(seed)
    label = f"{seed}: {case.options}"
    try:
        best = (
            SparsePolynomialRegressor(**case.options, engine="enumeration")
            .fit(case.X, case.y, case.weights)
            .solution_.objective
        )
    except InputError:
        with pytest.raises(InputError):
            priced(case)
        return "refused"
    found = priced(case)
    slack = 1e-6 * best + 1e-12
    assert found.bound <= best + slack, label
    assert found.objective >= best - slack, label
    assert found.proof is not None, label
    verdict = verify(found.proof, case.X, case.y, case.weights)
    assert verdict, f"{label}: {verdict}"
    assert verdict.bound <= best + slack
    assert verdict.bound >= found.bound * (1 - 1e-6) - slack, (label, verdict.bound, found.bound)
    return f"{found.status} gap {found.gap:.1e}"
