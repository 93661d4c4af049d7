"""Which budgets to use, given the validation errors of many.

The least of thousands of errors, each with its own noise, flatters itself.  Errors of neighbouring
sizes are about nearly the same formula, and their mean is the steadier figure.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, get_args

import numpy as np

from polysharp.basis import Array, Indices
from polysharp.errors import InfeasibleError
from polysharp.grid_search import Candidate, Scores

Rule = Literal["smooth", "best", "one-se"]
RULES: tuple[str, ...] = get_args(Rule)
NEAR = 0.2  # sizes that differ by at most this share are neighbours


def choose(scores: Scores, rule: Rule) -> int:
    """Return the place of the candidate to use.

    "best" has the least mean error.  "smooth" finds the size whose mean error, averaged with those
    of its neighbours, is least, and takes the best of these neighbours: an error that is low by
    luck stands alone.  "one-se" has the fewest terms, then inputs, then the lowest degree, then
    the strongest ridge, among those within one standard error of the best.
    """
    mean = scores.mean
    if np.isnan(mean).all():
        raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
    best = int(np.nanargmin(mean))
    if rule == "best":
        return best
    if rule == "one-se":
        close = np.flatnonzero(mean <= mean[best] + scores.std_error[best])
        return int(min(close, key=lambda a: _simplicity(scores.candidates[a], float(mean[a]))))
    near = _neighbours(scores.candidates)
    steady = int(np.nanargmin(_averaged(mean, near)))
    return int(near[steady][np.nanargmin(mean[near[steady]])])


def _simplicity(c: Candidate, error: float) -> tuple[float, ...]:
    inputs = np.inf if c.max_inputs is None else c.max_inputs
    return c.max_terms, inputs, c.degree, c.gamma, error


def _averaged(mean: Array, near: list[Indices]) -> Array:
    """Return the mean over the neighbours that have an error; NaN where a candidate has none."""
    averages = np.full(len(mean), np.nan)
    for a in np.flatnonzero(~np.isnan(mean)):
        averages[a] = np.nanmean(mean[near[a]])
    return averages


def _neighbours(candidates: tuple[Candidate, ...]) -> list[Indices]:
    """Return for each candidate those that differ from it in the number of terms, and little."""
    curves: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for a, c in enumerate(candidates):
        curves[c.degree, c.gamma, c.center, c.max_inputs].append(a)
    near = [np.zeros(0, dtype=np.intp)] * len(candidates)
    for curve in curves.values():
        places = np.array(curve, dtype=np.intp)
        terms = np.array([candidates[a].max_terms for a in curve])
        for a, size in zip(curve, terms.tolist(), strict=True):
            near[a] = places[np.abs(terms - size) <= NEAR * size]
    return near
