"""Validation errors of many candidates, and which of them to use.

A candidate is a degree, a gamma, a coding of the inputs (raw or centred) and budgets; its error in
a split is the root mean squared error on the held-out rows.  The rules:

    shortest    the fewest terms that validation cannot tell from the best (below)
    one-se      the fewest terms within one standard error of the least error
    best        the least error

Validation cannot tell a candidate from the best where its error exceeds the least by at most one
standard error of the least, or by two of the difference between the two, split by split; and where
both errors are next to nothing beside the response: below that level validation compares the biases
of ridges, and the digits of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from polysharp.errors import InfeasibleError
from polysharp.selection.split_models import Budgets, SizeErrors
from polysharp.typing import Array, Indices

SelectionRule = Literal["shortest", "one-se", "best"]
RULES: tuple[SelectionRule, ...] = ("shortest", "one-se", "best")

NAMES = ("degree", "gamma", "center", "max_inputs", "max_terms")
# Of the response's standard deviation: weaker ridges would give coefficients no more digits that
# anybody reads, and leave a proof fewer than rounding takes.
EXACT = 1e-6
NOTHING = 1e-4  # of the response's standard deviation: a formula so near to it is the law
# Standard errors of a difference that a nat per row adds to the one a formula must gain over the
# linear one: of many models some are ahead by luck.
LUCK = 5.0
MOST_EXCESS = 0.1  # of the least error: what no rule accepts, however noisy the splits are
RIDGE_EXCESS = 0.005  # of the least error: what a stronger ridge may cost, however noisy they are
UNNOTICED = 0.001  # of the least error: what a stronger ridge may cost in any case
EDGE_EXCESS = 0.95  # standard errors of a difference; a split alone has 1
# Centred formulas must be shorter by a fifth, and by two terms: a formula in the inputs themselves
# is worth that to its reader.
CENTRED_SHARE, CENTRED_TERMS = 0.8, 2


@dataclass(frozen=True)
class Case:
    """What the models of one comparison have in common."""

    degree: int
    gamma: float
    center: bool


@dataclass(frozen=True)
class Candidate(Case):
    """A case and budgets."""

    max_inputs: int | None = None
    max_terms: int = 0


def standard_error(errors: Array) -> Array:
    """Return the standard error of the mean over splits, the last axis; 0 for a single one."""
    splits = errors.shape[-1]
    if splits < 2:
        return np.zeros(errors.shape[:-1])
    return np.asarray(errors.std(axis=-1, ddof=1) / np.sqrt(splits))


def strongest(errors: Array, scale: float) -> int:
    """Return the first of some ridges, the strongest first, that does as well as the best.

    Its error exceeds the least by at most one standard error of the difference, and by half a per
    cent of itself; or by a thousandth, which nobody would notice.  ``errors`` has one row for each
    ridge, and a column for each split; ``scale`` is the size of the response, beside which errors
    may be too small to matter.
    """
    errors = np.maximum(errors, EXACT * scale)
    mean = errors.mean(axis=1)
    best = int(np.nanargmin(mean))
    excess = errors - errors[best]
    room = np.minimum(standard_error(excess), RIDGE_EXCESS * mean[best])
    room = np.maximum(room, UNNOTICED * mean[best])
    return int(np.flatnonzero(excess.mean(axis=1) <= room + 1e-9 * scale)[0])


def clamping_pays(
    free: Array, clamped: Array, scale: float, repeats: int = 1, *, risky: bool = False
) -> NDArray[np.bool_]:
    """Say for each candidate whether clamped inputs predict held-out rows no worse than free ones.

    A polynomial may take any value beyond the range of its rows.  Where that is ``risky`` and few
    held-out rows show it, what a standard error of the difference cannot tell counts as no worse.
    """
    free, clamped = (np.maximum(errors, NOTHING * scale) for errors in (free, clamped))
    excess = clamped - free
    room = EDGE_EXCESS * np.sqrt(repeats) * standard_error(excess) if risky else 0.0
    return np.asarray((excess != 0.0).any(axis=1) & (excess.mean(axis=1) <= room))


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of all candidates; NaN where time ran out or no polynomial obeys the rules."""

    candidates: tuple[Candidate, ...]
    errors: Array  # (candidates, splits), root mean squared error on held-out rows
    n_terms: Array  # mean over the splits
    n_inputs: Array
    supports: tuple[tuple[Indices, ...], ...]  # of each candidate by split
    scale: float  # standard deviation of the response
    repeats: int = 1  # drawings of the folds
    clamps: tuple[bool, ...] = ()  # whether a candidate has clamped inputs, where that is a choice

    @classmethod
    def of(
        cls,
        case: Case,
        budgets: Budgets,
        splits: Sequence[SizeErrors],
        scale: float,
        repeats: int = 1,
        *,
        risky: bool = False,
    ) -> Self:
        """Bring the splits of one case together; ``risky`` is that of ``clamping_pays``."""
        limits, sizes = budgets.max_inputs, budgets.max_terms
        errors, clamped, terms, inputs = (
            np.stack(tables, axis=-1).reshape(-1, len(splits))
            for tables in zip(
                *((s.error, s.clamped, s.n_terms, s.n_inputs) for s in splits), strict=True
            )
        )
        clamps = clamping_pays(errors, clamped, scale, repeats, risky=risky)
        errors = np.where(clamps[:, None], clamped, errors)
        supports = tuple(
            tuple(s.supports[a][b] for s in splits if s.supports[a])
            for a, b in product(range(len(limits)), range(len(sizes)))
        )
        candidates = tuple(
            Candidate(**vars(case), max_inputs=k, max_terms=size)
            for k, size in product(limits, sizes)
        )
        means = terms.mean(axis=1), inputs.mean(axis=1)
        return cls(candidates, errors, *means, supports, scale, repeats, tuple(clamps.tolist()))

    @classmethod
    def joined(cls, parts: Sequence[Scores]) -> Scores:
        """Return the candidates of several comparisons over the same splits."""
        return Scores(
            tuple(c for part in parts for c in part.candidates),
            np.concatenate([part.errors for part in parts]),
            np.concatenate([part.n_terms for part in parts]),
            np.concatenate([part.n_inputs for part in parts]),
            tuple(s for part in parts for s in part.supports),
            parts[0].scale,
            parts[0].repeats,
            tuple(flag for part in parts for flag in part.clamps),
        )

    def select(self, chosen: NDArray[np.bool_]) -> Scores:
        """Return some of the candidates, the others with errors of NaN."""
        return replace(self, errors=np.where(chosen[:, None], self.errors, np.nan))

    @cached_property
    def mean(self) -> Array:
        """Mean error of each candidate over the splits."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def std_error(self) -> Array:
        """Standard error of that mean."""
        return self._standard_error(self.errors)

    def _standard_error(self, errors: Array) -> Array:
        """Return the standard error of means over the splits; repeated folds share their rows."""
        return np.asarray(standard_error(errors) * np.sqrt(self.repeats))

    @property
    def least(self) -> float:
        """The least mean error, infinite where nothing was compared."""
        return float(np.nanmin(np.append(self.mean, np.inf)))

    def _flags(self, name: str) -> NDArray[np.bool_]:
        return np.array([getattr(c, name) for c in self.candidates], dtype=bool)

    def by_size(self, largest: int) -> dict[int, float]:
        """Return the least error of each size up to the largest, where one was compared."""
        found: dict[int, float] = {}
        for candidate, error in zip(self.candidates, self.mean.tolist(), strict=True):
            size = candidate.max_terms
            if size <= largest and error < found.get(size, np.inf):  # not NaN
                found[size] = error
        return found

    def choose(self, rule: SelectionRule, *, nats: Array | None = None) -> int:
        """Return the place of the candidate to use.

        ``nats`` of each candidate make the shortest rule cautious: what it takes to name its terms,
        per row.
        """
        if np.isnan(self.mean).all():
            raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
        best = int(np.nanargmin(self.mean))
        if rule == "one-se":
            close = np.flatnonzero(self.mean <= self.mean[best] + self.std_error[best])
            return int(min(close, key=lambda a: self._simplicity(int(a))))
        if rule == "best":
            return best
        return self._shortest() if nats is None else self._cautious(nats)

    def _cautious(self, nats: Array) -> int:
        """Return the linear formula with every input, or a formula that is clearly better.

        Of the shortest formulas of each degree, that is the one whose gain is largest after as many
        standard errors of the difference are taken off as the luck of the search may explain.
        """
        degrees = np.array([c.degree for c in self.candidates])
        linear = self.select(degrees == 1)
        if np.isnan(linear.mean).all():
            return self._shortest()
        longest = np.nanmax(np.where(np.isnan(linear.mean), np.nan, linear.n_terms))
        chosen = linear.select(linear.n_terms == longest).choose("best")
        errors, most = np.maximum(self.errors, NOTHING * self.scale), 0.0
        usual = errors[chosen]
        for degree in sorted(set(degrees.tolist())):
            own = self.select(degrees == degree)
            if np.isnan(own.mean).all():
                continue
            new = own._shortest()
            gain, luck = usual - errors[new], 1.0 + LUCK * nats[new]
            left = float(gain.mean() - luck * self._standard_error(gain))
            if left > most:
                chosen, most = new, left
        return chosen

    def _simplicity(self, a: int) -> tuple[float, ...]:
        """Fewest terms, then inputs, then the lowest degree, then the strongest ridge."""
        c = self.candidates[a]
        inputs = np.inf if c.max_inputs is None else c.max_inputs
        return c.max_terms, inputs, c.degree, c.gamma, float(self.mean[a])

    def _shortest(self) -> int:
        """Return the shortest that validation cannot tell from the best, raw where that will do."""
        close, centred = self._not_dominated(self.indistinct()), self._flags("center")
        sizes = np.array([c.max_terms for c in self.candidates])
        raw, other = (sizes[close[centred[close] == flag]] for flag in (False, True))
        center = not len(raw)
        if len(raw) and len(other):
            center = other.min() <= min(CENTRED_SHARE * raw.min(), raw.min() - CENTRED_TERMS)
        # In order of their simplicity, those of one size and degree have the strongest ridge first.
        here: list[int] = sorted(close[centred[close] == center].tolist(), key=self._simplicity)
        few = self._simplicity(here[0])[:3]
        ridges = [a for a in here if self._simplicity(a)[:3] == few]
        return ridges[strongest(self.errors[ridges], self.scale)]

    def _not_dominated(self, places: Indices) -> Indices:
        """Leave out candidates that are both longer and worse than another in the same coding.

        The noise of a single split can let an unstable model pass as good as the best.
        """
        errors = np.maximum(self.errors, NOTHING * self.scale).mean(axis=1)
        sizes, centred = np.array([c.max_terms for c in self.candidates]), self._flags("center")

        def dominated(a: int) -> bool:
            shorter = (sizes < sizes[a]) & (centred == centred[a])
            return bool(np.nanmin(np.append(errors[shorter], np.inf)) < errors[a])

        return np.array([a for a in places.tolist() if not dominated(a)], dtype=np.intp)

    def indistinct(self) -> Indices:
        """Return the candidates that validation cannot tell from the best."""
        # Below the level of nothing all errors are alike.
        errors = np.maximum(self.errors, NOTHING * self.scale)
        mean = errors.mean(axis=1)
        best = int(np.nanargmin(mean))
        excess = errors - errors[best]
        own, others = self._standard_error(errors[best]), self._standard_error(excess)
        room = np.maximum(own, 2.0 * others)
        limit = np.minimum(room, MOST_EXCESS * mean[best])
        return np.flatnonzero(excess.mean(axis=1) <= limit)

    def clearly_below(self, usual: Array, share: float = 1.0) -> bool:
        """Whether the least error is below a share of others, and beyond two standard errors."""
        if not np.isfinite(self.least):
            return False
        gain = usual - self.errors[int(np.nanargmin(self.mean))]
        clear = gain.mean() > 2.0 * self._standard_error(gain)
        return bool(clear and self.least < share * usual.mean())

    def table(self) -> dict[str, Any]:
        """Return ``cv_results_``: the columns that scikit-learn's searches have.

        Scores are minus root mean squared errors, so that larger is better; candidates that were
        not compared are NaN and rank last.
        """
        from scipy.stats import rankdata

        params = [{name: getattr(c, name) for name in NAMES} for c in self.candidates]
        table: dict[str, Any] = {"params": params}
        for name in NAMES:
            kind = object if name == "max_inputs" else None
            table[f"param_{name}"] = np.ma.masked_array([p[name] for p in params], dtype=kind)
        for v, errors in enumerate(self.errors.T):
            table[f"split{v}_test_score"] = -errors
        # Equal scores share the best rank.
        ranks = rankdata(np.where(np.isnan(self.mean), np.inf, self.mean), method="min")
        return table | {
            "mean_test_score": -self.mean,
            "std_test_score": self.errors.std(axis=1),
            "rank_test_score": ranks.astype(np.int32),
            "clamped": np.array(self.clamps, dtype=bool),
            "mean_n_terms": self.n_terms,
            "mean_n_inputs": self.n_inputs,
        }
