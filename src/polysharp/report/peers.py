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
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from polysharp.data.rows import evenly_spaced
from polysharp.estimators.intervals import refit_folds
from polysharp.estimators.model import formulas_of
from polysharp.estimators.scored_rows import ScoredRows, score_rows
from polysharp.selection.splits import read_splits
from polysharp.threads import limited_threads
from polysharp.typing import Array

MEAN, LINEAR, BOOSTING = "the mean", "linear regression", "boosting"
HARDLY = 0.01  # part of an error that nobody would choose a method by
MOST_BOOSTED = 5  # responses, of which each takes boosting a second or two
MOST_ROWS = 20_000  # boosting takes a second or two for so many; of more, evenly spaced ones

Error = tuple[float, float]  # and its standard error


@dataclass(frozen=True)
class Peer:
    """A method and its error on rows it has not seen."""

    name: str
    error: float
    std_error: float


def compare_peers(
    X: Any, y: Any, sample_weight: Any = None, *, cv: int = 5, seed: int = 0, boosted: bool = True
) -> tuple[Peer, ...]:
    """Cross-validate the mean, linear regression and boosting on ``cv`` folds of the rows.

    ``seed`` shuffles the rows into folds, and is that of boosting.  More than 20,000 rows are
    thinned to evenly spaced ones.  Without ``boosted`` there is no boosting.
    """
    methods = {MEAN: DummyRegressor(), LINEAR: LinearRegression()}
    if boosted:
        methods[BOOSTING] = HistGradientBoostingRegressor(random_state=seed)
    table, observed = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weights = np.ones(len(table)) if sample_weight is None else np.asarray(sample_weight, float)
    some = np.flatnonzero(weights > 0.0)
    some = some[evenly_spaced(len(some), MOST_ROWS)]
    rows = table[some], observed[some], weights[some]
    splits = read_splits(min(cv, len(some)), rows[0], rows[1], seed=seed)
    # Tables of this size are not worth waking threads for.
    with limited_threads(1):
        errors = {name: list(_errors(method, splits, *rows)) for name, method in methods.items()}
    return tuple(Peer(name, *_mean(own)) for name, own in errors.items())


def _errors(method: Any, splits: Any, X: Array, y: Array, weights: Array) -> Iterator[float]:
    for train, test in splits:
        method.fit(X[train], y[train], sample_weight=weights[train])
        yield ScoredRows(X[test], y[test], method.predict(X[test]), weights[test]).rmse


def _mean(errors: Sequence[float]) -> Error:
    return float(np.mean(errors)), float(np.std(errors) / np.sqrt(max(1, len(errors) - 1)))


class Grade(StrEnum):
    """How a badge is coloured."""

    GOOD = "good"
    OPEN = "open"


@dataclass(frozen=True)
class Assessment:
    """A judgement of a formula's predictions, short for a badge and in sentences."""

    grade: Grade
    badge: str
    sentence: str  # of several responses a line for each


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
    polynomial: Any, error: Error | None, peers: Sequence[Peer], held_out: ScoredRows | None = None
) -> Assessment | None:
    """Return what to make of a formula with this error beside others; None where nothing is known.

    ``held_out`` are rows with predictions that the fit has not seen.
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
    mean, linear, boosting = others[MEAN], others[LINEAR], others.get(BOOSTING)
    measured = f"error {error[0]:.3g} on rows not seen"
    beside = f"({measured}, linear regression {linear[0]:.3g})"
    straight = all(len(m) <= 1 for m in polynomial.monomials) and not polynomial.functions
    grade = Grade.OPEN
    if not is_below(error, mean):
        badge = "Predicts no better than the mean"
        said = (
            f"It predicts no better than the mean of {polynomial.response} ({measured}, the mean "
            f"{mean[0]:.3g}): these inputs explain little, or there are too few rows."
        )
    elif is_below(linear, error):
        badge = "Linear regression predicts better"
        said = f"{badge}: use that {beside}."
    elif is_below(error, linear):
        grade, badge, more = Grade.GOOD, "Better than linear regression", ""
        if boosting is not None and is_below(boosting, error):
            more = f", but boosted trees predict better still ({boosting[0]:.3g})"
        elif boosting is not None:
            how = "better than" if is_below(error, boosting) else "as well as"
            badge = "Better than boosting" if how == "better than" else "As good as boosting"
            more = f", and {how} boosted trees ({boosting[0]:.3g})"
        said = f"It predicts better than linear regression {beside}{more}."
    elif straight:
        used, all_of = len(polynomial.inputs), len(polynomial.names)
        fewer = f" with {used} of its {all_of} inputs" if used < all_of else ""
        grade, badge = Grade.GOOD, "As good as linear regression"
        said = f"It is a straight line and predicts as well as linear regression{fewer} {beside}."
    else:
        badge = "No better than a straight line"
        said = f"It predicts no better than a straight line: use that {beside}."
    return Assessment(grade, badge, said)


def assess_responses(
    model: Any, rows: Sequence[Any] | None, held_out: Sequence[Any] | None = None, **how: int
) -> Assessment | None:
    """Assess the formula of every response; None where nothing is known.

    ``rows`` are those of the fit and ``held_out`` others, each as X, y and weights; ``how`` are
    ``cv`` and ``seed``, as in ``compare_peers``.  In every fold the model is fitted anew with its
    budgets and ridge.
    """
    formulas = formulas_of(model)
    errors: list[Any] = [None] * len(formulas)
    peers: list[Sequence[Peer]] = [()] * len(formulas)
    others = errors if held_out is None else score_rows(model, *held_out).each
    if rows is not None:
        X, y, weights = rows
        scored = score_rows(model, *rows)
        folds = refit_folds(model, (X, y, weights), scored, min(how["cv"], scored.n))
        unseen = [
            [
                replace(own, predicted=law(own.X)).rmse
                for law, own in zip(laws, some.each, strict=True)
            ]
            for laws, _, some in folds
        ]
        errors = [_mean(own) for own in zip(*unseen, strict=True)]
        boosted = len(formulas) <= MOST_BOOSTED
        columns = np.asarray(y, dtype=np.float64).T
        peers = [compare_peers(X, own, weights, boosted=boosted, **how) for own in columns]
    found = list(map(assess, formulas, errors, peers, others))
    known = [(one, law.response) for one, law in zip(found, formulas, strict=True) if one]
    if not known:
        return None
    good = sum(one.grade is Grade.GOOD for one, _ in known)
    badges = {one.badge for one, _ in known}
    badge = f"As good as linear regression or better for {good} of {len(known)} responses"
    if len(badges) == 1:
        (badge,) = badges
        badge += "" if len(known) == len(formulas) else f" ({len(known)} of {len(formulas)})"
    grade = Grade.GOOD if good == len(known) else Grade.OPEN
    return Assessment(grade, badge, "\n".join(f"{name}: {one.sentence}" for one, name in known))
