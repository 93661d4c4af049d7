"""Functions of inputs that are tried after a search over budgets, for a hint and not for its model.

    square-root    x >= 0        inverse    x of one sign        log    x > 0

A short search with one ridge, raw inputs and degrees up to 3 has the same splits as the search
over budgets, so that errors can be compared split by split.
"""

from __future__ import annotations

import numpy as np

from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.selection.budget_search import MIDDLE, SHARES, BudgetSearch, Wanted
from polysharp.selection.folds import RATE, Folds
from polysharp.selection.scores import Scores
from polysharp.selection.split_models import Budgets, Workers
from polysharp.time_budget import TimeBudget
from polysharp.typing import Array, Indices

HIGHEST = 3  # degree
MOST = 2_000  # monomials
HELPS = 0.8  # of the error: what a function must reach to be named


def domains(low: Array, high: Array) -> dict[str, Indices]:
    """Return each function that is defined on all values of some inputs, and these inputs.

    Examples
    --------
    >>> own = domains(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 3.0, 3.0]))
    >>> {name: inputs.tolist() for name, inputs in own.items()}
    {'square-root': [1, 2], 'inverse': [2], 'log': [2]}
    """
    where = {"square-root": low >= 0.0, "inverse": low * high > 0.0, "log": low > 0.0}
    varies = low < high
    found = {name: np.flatnonzero(inside & varies) for name, inside in where.items()}
    return {name: inputs for name, inputs in found.items() if len(inputs)}


def try_functions(folds: Folds, size: int, seconds: float) -> Scores | None:
    """Return the errors of models of at most so many terms, None where none can be compared."""
    n = folds.rows.shape[0]
    counts = {r: folds.at(r).count for r in range(1, HIGHEST + 1)}
    affordable = RATE * seconds / 4.0
    degrees = [r for r, f in counts.items() if f <= MOST and 0.5 * n * f**2 <= affordable]
    if not degrees:
        return None
    gamma = 1.0 / (SHARES[MIDDLE] * folds.rows.total_weight)
    wanted = Wanted(tuple(degrees), (gamma,), (False,), Budgets(tuple(range(1, size + 1))))
    search = BudgetSearch(folds, wanted, Workers(), TimeBudget(seconds), seconds)
    try:
        return search.run()
    except (InfeasibleError, TooLargeError):
        return None
