"""How other methods do on the same rows: the mean of the responses, linear regression, boosting.

A formula that is no better than the mean has found nothing; linear regression says what terms of
higher degree buy, boosted trees what a model that nobody can read would buy.  All are measured as
the sizes of a path are: the mean over the splits of the root mean squared error on the rows that
the split left out.

One error counts as below another where the difference exceeds the smaller standard error and a
hundredth of the larger error: folds share rows, so that their errors rise and fall together.
Held-out rows come first where there are some: a formula that predicts them worse than their mean
has failed, whatever the folds say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from polysharp.data.rows import evenly_spaced
from polysharp.selection.splits import read_splits
from polysharp.threads import limited_threads
from polysharp.typing import Array

MEAN, LINEAR, BOOSTING = "the mean", "linear regression", "boosting"
HARDLY = 0.01  # part of an error that nobody would choose a method by
MOST_ROWS = 20_000  # boosting takes a second or two for so many; of more, evenly spaced ones


Error = tuple[float, float]  # and its standard error


@dataclass(frozen=True)
class Peer:
    """A method and its error on rows it has not seen."""

    name: str
    error: float
    std_error: float


def compare_peers(
    X: Any, y: Any, sample_weight: Any = None, *, cv: int = 5, seed: int = 0
) -> tuple[Peer, ...]:
    """Cross-validate the mean, linear regression and boosting on ``cv`` folds of the rows.

    ``seed`` shuffles the rows into folds, and is that of boosting.  More than 20,000 rows are
    thinned to evenly spaced ones.
    """
    methods = {
        MEAN: DummyRegressor(),
        LINEAR: LinearRegression(),
        BOOSTING: HistGradientBoostingRegressor(random_state=seed),
    }
    table, observed = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weights = np.ones(len(table)) if sample_weight is None else np.asarray(sample_weight, float)
    some = np.flatnonzero(weights > 0.0)
    some = some[evenly_spaced(len(some), MOST_ROWS)]
    rows = table[some], observed[some], weights[some]
    splits = read_splits(min(cv, len(some)), rows[0], rows[1], seed=seed)
    found = []
    for name, method in methods.items():
        # Tables of this size are not worth waking threads for.
        with limited_threads(1):
            errors = np.array(list(_errors(method, splits, *rows)))
        found.append(
            Peer(name, float(errors.mean()), float(errors.std() / np.sqrt(max(1, len(errors) - 1))))
        )
    return tuple(found)


def _errors(method: Any, splits: Any, X: Array, y: Array, weights: Array) -> Iterator[float]:
    for train, test in splits:
        method.fit(X[train], y[train], sample_weight=weights[train])
        squares = (y[test] - method.predict(X[test])) ** 2
        yield float(np.sqrt(np.average(squares, weights=weights[test])))


class Grade(StrEnum):
    """How a badge is coloured."""

    GOOD = "good"
    OPEN = "open"


@dataclass(frozen=True)
class Assessment:
    """A judgement of a formula's predictions, short for a badge and in a sentence."""

    grade: Grade
    badge: str
    sentence: str


def is_below(one: Error, other: Error) -> bool:
    """Whether an error is smaller than another by more than chance and by enough to matter.

    Examples
    --------
    >>> is_below((1.0, 0.1), (2.0, 0.1)), is_below((1.95, 0.1), (2.0, 0.1))
    (True, False)
    """
    margin = max(min(one[1], other[1]), HARDLY * other[0])
    return one[0] < other[0] - margin


def assess(
    polynomial: Any, error: Error | None, peers: Sequence[Peer], held_out: Any = None
) -> Assessment | None:
    """Return what to make of a formula with this error beside others; None where nothing is known.

    ``held_out`` are rows with predictions that the fit has not seen, as ``rows_of`` returns them.
    """
    if held_out is not None and held_out.r2 is not None and held_out.r2 <= 0.0:
        return Assessment(
            Grade.OPEN,
            "Fails on held-out rows",
            f"On {held_out.n:,} held-out rows it predicts worse than their mean would (R2 "
            f"{held_out.r2:.3g}): do not use it to predict.",
        )
    others = {peer.name: (peer.error, peer.std_error) for peer in peers}
    if error is None or not {MEAN, LINEAR} <= set(others):
        return None
    return _beside(polynomial, error, others)


def _beside(polynomial: Any, own: Error, others: dict[str, Error]) -> Assessment:
    mean, linear, boosting = (others.get(name) for name in (MEAN, LINEAR, BOOSTING))
    assert mean is not None
    assert linear is not None
    measured = f"error {own[0]:.3g} on rows not seen"
    if not is_below(own, mean):
        return Assessment(
            Grade.OPEN,
            "Predicts no better than the mean",
            f"It predicts no better than the mean of {polynomial.response} ({measured}, the mean "
            f"{mean[0]:.3g}): these inputs explain little, or there are too few rows.",
        )
    if is_below(linear, own):
        return Assessment(
            Grade.OPEN,
            "Linear regression predicts better",
            f"Linear regression predicts better: use that ({measured}, linear regression "
            f"{linear[0]:.3g}).",
        )
    straight = all(len(m) <= 1 for m in polynomial.monomials) and not polynomial.functions
    if not is_below(own, linear) and straight:
        used, all_of = len(polynomial.inputs), len(polynomial.names)
        fewer = f" with {used} of its {all_of} inputs" if used < all_of else ""
        return Assessment(
            Grade.GOOD,
            "As good as linear regression",
            f"It is a straight line and predicts as well as linear regression{fewer} "
            f"({measured}, linear regression {linear[0]:.3g}).",
        )
    if not is_below(own, linear):
        return Assessment(
            Grade.OPEN,
            "No better than a straight line",
            f"It predicts no better than a straight line: use that ({measured}, linear regression "
            f"{linear[0]:.3g}).",
        )
    said = f"It predicts better than linear regression ({measured}, linear regression "
    said += f"{linear[0]:.3g}"
    if boosting is None:
        return Assessment(Grade.GOOD, "Better than linear regression", f"{said}).")
    if is_below(boosting, own):
        said += f"), but boosted trees predict better still ({boosting[0]:.3g})."
        return Assessment(Grade.GOOD, "Better than linear regression", said)
    how = "better than" if is_below(own, boosting) else "as well as"
    badge = "Better than boosting" if how == "better than" else "As good as boosting"
    return Assessment(Grade.GOOD, badge, f"{said}), and {how} boosted trees ({boosting[0]:.3g}).")
