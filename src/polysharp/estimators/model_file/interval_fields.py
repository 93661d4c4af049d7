"""Prediction intervals in a model file: spread, errors on unseen rows, models of the folds.

spread        base, mean and root (the rows of its lower triangle) of ``Spread``
calibration   heaviest weight, and for every fold its formula (null for the model's own), its
              spread (null likewise), its errors in order and the weights behind them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polysharp.errors import InputError
from polysharp.estimators.intervals import Calibration, Judged
from polysharp.estimators.model_file.schema import Reader
from polysharp.estimators.spread import Spread
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


def describe_spread(spread: Spread) -> dict[str, Any]:
    """Return the fields of a spread."""
    lower = [row[: j + 1] for j, row in enumerate(spread.root.tolist())]
    return {"base": spread.base, "mean": spread.mean.tolist(), "root": lower}


def read_spread(at: Reader, terms: int) -> Spread:
    """Return a spread with one line for each term."""
    mean, lines = _numbers(at["mean"]), list(at["root"].items())
    root = np.zeros((terms, terms))
    if len(mean) != terms or len(lines) != terms:
        raise at.refusal(f"a mean and a root of {terms} terms")
    for j, line in enumerate(lines):
        values = _numbers(line)
        if len(values) != j + 1:
            raise line.refusal(f"a list of {j + 1} numbers")
        root[j, : j + 1] = values
    return Spread(at["base"].number(least=0), mean, root)


def describe_calibration(
    calibration: Calibration, own: Polynomial, terms: Callable[[Polynomial], dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields of a calibration; ``terms`` describes a formula."""
    folds = []
    for fold in calibration.folds:
        same = fold.polynomial is own
        equal = bool((fold.weights == fold.weights[0]).all())
        folds.append(
            {
                "formula": None if same else terms(fold.polynomial),
                "spread": None if same else describe_spread(fold.spread),
                "errors": fold.scores.tolist(),
                "weights": float(fold.weights[0]) if equal else fold.weights.tolist(),
            }
        )
    return {"heaviest": calibration.heaviest, "folds": folds}


def read_calibration(
    at: Reader, own: Polynomial, spread: Spread, polynomial: Callable[[Reader], Polynomial]
) -> Calibration:
    """Return a calibration; ``polynomial`` reads a formula."""
    folds = []
    for fold in at["folds"].items():
        law, unit = own, spread
        if fold["formula"].value is not None:
            law = polynomial(fold["formula"])
            unit = read_spread(fold["spread"], len(law))
        errors = _numbers(fold["errors"], least=0)
        weights = fold["weights"]
        if isinstance(weights.value, list):
            shares = _numbers(weights, least=0)
        else:
            shares = np.full(len(errors), weights.number(least=0))
        if not len(errors) or len(shares) != len(errors) or not (np.diff(errors) >= 0.0).all():
            raise InputError(
                f"{fold.place} must have errors in ascending order, each with a weight"
            )
        if not (shares > 0.0).all():
            raise weights.refusal("positive")
        folds.append(Judged(law, unit, errors, shares))
    heaviest = at["heaviest"].number(least=0)
    if not folds or heaviest == 0.0:
        raise at.refusal("of at least one fold, with a positive heaviest weight")
    return Calibration(tuple(folds), heaviest)


def _numbers(at: Reader, least: float = -float("inf")) -> Array:
    return np.array([item.number(least=least) for item in at.items()], dtype=np.float64)
