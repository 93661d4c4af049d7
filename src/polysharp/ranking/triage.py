"""The first step of the two-step method: which p' of the p inputs the search is given.

The inputs that the user requires stay, then the best of the ranking (Algorithm 1) until p'.  A
model found after a triage is the best over the inputs kept, and its certificate says so.

With f(p) monomials of all inputs and n rows, ``n_candidates="auto"`` keeps every input

    while f(p) <= 8192: the monomials are listed;
    while PASSES n f(p) multiply-adds fit into the time limit at the rates below (degree <= 4):
    all of them are priced, columns are generated on demand (``column_generation``);

and beyond that the largest p' with f(p') <= 8192.  The rates are stated, not measured, so that
the same call makes the same choice everywhere.  None keeps every input whatever it costs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import numpy as np

from polysharp.data.rows import Rows
from polysharp.errors import InfeasibleError
from polysharp.moments.gram import MAX_DENSE
from polysharp.monomials.term_rules import TermRules
from polysharp.ranking.ranking import KernelSettings, Ranking
from polysharp.ranking.row_ranking import rank_rows
from polysharp.typing import Indices, OnBlock

PASSES = 5
CPU_RATE = 1e10  # multiply-adds per second of a pricing pass: one core, and a large GPU
GPU_RATE = 2e12

NCandidates = int | Literal["auto"] | None


def prices_all(
    n_candidates: NCandidates,
    rules: TermRules,
    n: int,
    p: int,
    *,
    listed: bool,
    time_limit: float | None,
    on_gpu: bool,
) -> bool:
    """Whether all monomials of the p inputs that are not excluded are priced.

    ``listed`` says that the engine needs them listed.
    """
    f = rules.count(p)
    if f <= MAX_DENSE or rules.degree > 4 or listed:
        return False
    if n_candidates == "auto" and time_limit is not None:
        return PASSES * n * f <= (GPU_RATE if on_gpu else CPU_RATE) * time_limit
    return n_candidates is None or n_candidates == "auto"


def choose_inputs(
    n_candidates: NCandidates,
    rules: TermRules,
    rows: Rows,
    *,
    gamma: float,
    fit_intercept: bool,
    on_block: OnBlock | None = None,
) -> tuple[Indices, Ranking | None]:
    """Return the inputs kept, and the ranking where some had to go; excluded inputs score 0."""
    p = rows.shape[1]
    allowed = np.setdiff1d(np.arange(p), rules.exclude_inputs)
    size = triage_size(n_candidates, rules, len(allowed))
    if size == len(allowed):
        return allowed, None
    settings = KernelSettings(rules.degree, gamma, fit_intercept)
    part = rank_rows(rows, allowed, settings, on_block=on_block)
    scores = np.zeros(p)
    scores[allowed] = part.scores
    kept = keep_best(allowed[part.order], rules.required_inputs, size)
    return kept, Ranking.of_scores(scores, part.degree, part.gamma)


def triage_size(n_candidates: NCandidates, rules: TermRules, p: int) -> int:
    """Return p', how many of the p inputs that are not excluded stay."""
    required = len(rules.required_inputs)
    if n_candidates is None:
        return p
    if n_candidates == "auto":
        fitting = bisect_right(range(1, p + 1), MAX_DENSE, key=rules.count)
        return max(1, fitting, required)
    if n_candidates < required:
        raise InfeasibleError(
            f"n_candidates must be at least the number of inputs in include_terms and "
            f"include_inputs ({required}), got {n_candidates}"
        )
    return min(int(n_candidates), p)


def keep_best(order: Indices, required: tuple[int, ...], size: int) -> Indices:
    """Return the required inputs and then the best of ``order`` until ``size``, sorted."""
    others = order[~np.isin(order, required)]
    return np.sort(np.concatenate([np.array(required, dtype=np.intp), others])[:size])
