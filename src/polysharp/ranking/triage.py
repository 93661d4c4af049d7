"""The first step of the two-step method: which p' of the p inputs the search is given.

The inputs that the user requires stay, then the best of the ranking (Algorithm 1) until p', which
``extent`` chooses.  A model found after a triage is the best over the inputs kept, and its
certificate says so.
"""

from __future__ import annotations

import numpy as np

from polysharp.data.rows import Rows
from polysharp.monomials.term_rules import TermRules
from polysharp.ranking.ranking import KernelSettings, Ranking
from polysharp.ranking.row_ranking import KernelRows, rank_rows
from polysharp.time_budget import OutOfTime
from polysharp.typing import Indices, OnBlock


def choose_inputs(
    size: int,
    rules: TermRules,
    rows: Rows,
    gamma: float,
    kernel: KernelRows | None = None,
    *,
    on_block: OnBlock | None = None,
) -> tuple[Indices, Ranking | None]:
    """Return the inputs kept, and the ranking where some had to go; excluded inputs score 0."""
    p = rows.shape[1]
    allowed = rules.allowed(p)
    if size >= len(allowed):
        return allowed, None
    settings = KernelSettings(rules.degree, gamma, fit_intercept=not rules.constant)
    columns = np.array(rules.library.columns_of(allowed), dtype=np.intp)
    try:
        part = rank_rows(rows, columns, settings, sizes=kernel, on_block=on_block)
    except OutOfTime:  # one small block is better than no ranking
        part = rank_rows(rows, columns, settings, sizes=KernelRows(0, 512, 0.0))
    scores = np.zeros(p)
    # An input is worth as much as the best of its columns.
    np.maximum.at(scores, rules.library.owners[columns] if rules.library else columns, part.scores)
    ranking = Ranking.of_scores(scores, part.degree, part.gamma, part.n_rows)
    return keep_best(ranking.order, rules, size), ranking


def keep_best(order: Indices, rules: TermRules, size: int) -> Indices:
    """Return the required inputs and then the best that are allowed until ``size``, sorted."""
    required = np.array(rules.required_inputs, dtype=np.intp)
    others = order[~np.isin(order, (*rules.required_inputs, *rules.exclude_inputs))]
    return np.sort(np.concatenate([required, others])[:size])
