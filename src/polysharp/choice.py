"""Which budgets to use, given the validation errors of many.

The least of thousands of errors, each with its own noise, flatters itself.  Errors of neighbouring
sizes are about nearly the same formula, and their mean is the steadier figure.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, get_args

import numpy as np

from polysharp.basis import Indices
from polysharp.errors import InfeasibleError
from polysharp.grid_search import Candidate, Scores

Rule = Literal["smooth", "best", "one-se", "long"]
RULES: tuple[str, ...] = get_args(Rule)
NEAR = 0.2  # sizes that differ by at most this share are neighbours


def choose(scores: Scores, rule: Rule) -> int:
    """Return the place of the candidate to use.

    "best" has the least mean error.  "smooth" finds the size whose mean error, averaged with those
    of its neighbours, is least, and takes the best of these neighbours: an error that is low by
    luck stands alone.  "long" goes on from there to the largest size whose averaged error is not
    larger by more than one standard error of the difference.  "one-se" has the fewest terms, then
    inputs, then the lowest degree, then the strongest ridge, among those within one standard error
    of the best.
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
    curves = [Curve(scores, places) for places in _curves(scores.candidates)]
    curve = min(curves, key=lambda each: each.least)
    return curve.longest() if rule == "long" else curve.steadiest()


def _simplicity(c: Candidate, error: float) -> tuple[float, ...]:
    inputs = np.inf if c.max_inputs is None else c.max_inputs
    return c.max_terms, inputs, c.degree, c.gamma, error


def _curves(candidates: tuple[Candidate, ...]) -> list[Indices]:
    """Return the groups of candidates that differ in the number of terms alone."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for a, c in enumerate(candidates):
        groups[c.degree, c.gamma, c.center, c.max_inputs].append(a)
    return [np.array(group, dtype=np.intp) for group in groups.values()]


class Curve:
    """Errors along the number of terms, all else equal, averaged over neighbouring sizes."""

    def __init__(self, scores: Scores, places: Indices) -> None:
        compared = ~np.isnan(scores.errors[places]).any(axis=1)
        self.places = places[compared]
        self.errors = scores.errors[self.places]
        self.sizes = np.array([scores.candidates[a].max_terms for a in self.places])
        self.near = np.abs(self.sizes - self.sizes[:, None]) <= NEAR * self.sizes[:, None]
        self.averaged = (self.near @ self.errors) / self.near.sum(axis=1, keepdims=True)

    @property
    def least(self) -> float:
        """The least averaged error, infinite where nothing was compared."""
        return float(self.averaged.mean(axis=1).min(initial=np.inf))

    def steadiest(self) -> int:
        """Return the best among the neighbours of the size whose averaged error is least."""
        near = np.flatnonzero(self.near[np.argmin(self.averaged.mean(axis=1))])
        return int(self.places[near[np.argmin(self.errors[near].mean(axis=1))]])

    def longest(self) -> int:
        """Return the largest size that validation cannot tell from the steadiest."""
        excess = self.averaged - self.averaged[np.argmin(self.averaged.mean(axis=1))]
        splits = excess.shape[1]
        noise = excess.std(axis=1, ddof=1) / np.sqrt(splits) if splits > 1 else 0.0
        close = np.flatnonzero(excess.mean(axis=1) <= noise)
        return int(self.places[close[np.argmax(self.sizes[close])]])
