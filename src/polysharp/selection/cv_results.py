"""``cv_results_``: the errors of a grid in the columns that scikit-learn's searches have.

Scores are minus root mean squared errors, so that larger is better; candidates that were not
compared are NaN and rank last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from polysharp.selection.grid_search import Scores

NAMES = ("degree", "gamma", "center", "max_inputs", "max_terms")


def results_table(scores: Scores) -> dict[str, Any]:
    """Return the columns, one row for each candidate."""
    params = [{name: getattr(c, name) for name in NAMES} for c in scores.candidates]
    table: dict[str, Any] = {"params": params}
    for name in NAMES:
        values = [p[name] for p in params]
        kind = object if name == "max_inputs" else None
        table[f"param_{name}"] = np.ma.masked_array(np.array(values, dtype=kind))
    for v in range(scores.errors.shape[1]):
        table[f"split{v}_test_score"] = -scores.errors[:, v]
    mean = -scores.mean
    # Equal scores share the best rank.
    ranks = rankdata(-np.where(np.isnan(mean), -np.inf, mean), method="min")
    return table | {
        "mean_test_score": mean,
        "std_test_score": scores.errors.std(axis=1),
        "rank_test_score": ranks.astype(np.int32),
        "mean_n_terms": scores.n_terms,
        "mean_n_inputs": scores.n_inputs,
        "consensus": np.array([c.consensus for c in scores.candidates]),
    }
