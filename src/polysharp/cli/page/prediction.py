"""What the page shows of a model file: its verdicts, and the prediction of one row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polysharp.cli.recipe import Recipe
from polysharp.errors import InputError

COVERAGE = 0.9  # of the intervals that the page shows
DIGITS = 4


def result_of(file: Path) -> dict[str, Any]:
    """Return formula, verdicts and inputs of a model."""
    from polysharp.certificate.solution import Status

    model, recipe, document = _loaded(file)
    polynomial = model.polynomial_
    used = [polynomial.names[i] for i in polynomial.inputs]
    return {
        "formula": polynomial.formula(DIGITS),
        "proved": model.solution_.status is Status.OPTIMAL,
        "certificate": str(model.solution_),
        "verdict": document.get("verdict"),
        "inputs": [
            {"name": name, "low": recipe.ranges[name][0], "high": recipe.ranges[name][1]}
            for name in used
            if name in recipe.ranges
        ],
    }


def predict_row(file: Path, values: Any) -> dict[str, Any]:
    """Return the prediction for values of the inputs in use, half its interval, or what is odd."""
    import numpy as np

    model, recipe, _ = _loaded(file)
    polynomial = model.polynomial_
    used = list(polynomial.inputs)
    numeric = isinstance(values, list) and all(type(v) in (int, float) for v in values)
    if not numeric or len(values) != len(used) or not np.isfinite(values).all():
        raise InputError(f"values must be {len(used)} finite numbers, got {values!r:.80}")
    row = np.zeros((1, len(polynomial.names)))
    row[0, used] = values
    outside = recipe.outside(row[:, used], [polynomial.names[i] for i in used])[0]
    half = None
    if model.fitted_.calibrations and not outside:
        own = model.fitted_.calibrations[0]
        if own.most >= COVERAGE:
            half = f"{0.5 * float(np.diff(own.limits(row, COVERAGE))[0, 0]):.3g}"
    value = float(polynomial(row)[0])
    shown = f"{value:.{DIGITS}g}"
    return {"response": polynomial.response, "value": shown, "half": half, "outside": outside}


def _loaded(file: Path) -> tuple[Any, Recipe, dict[str, Any]]:
    from polysharp.estimators.model_file.model_file import load_columns, load_model

    document = load_columns(file) or {}
    return load_model(file), Recipe.read(document or None), document
