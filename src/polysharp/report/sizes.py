"""Accuracy against size: the curve people choose from, its numbers and its formulas.

It comes from a path, the best polynomial of every size; or, without one, from the search that
chose the budgets, which knows the validation errors alone.
"""

from __future__ import annotations

from math import isfinite

import numpy as np

from polysharp.plots.path import SizeCurve
from polysharp.progress import plural
from polysharp.report.chart import Chart
from polysharp.report.facts import Facts
from polysharp.report.html import Child, Html, join, tag
from polysharp.report.pieces import figure, key, table
from polysharp.report.words import number, percent
from polysharp.typing import Array

SHADES = 6  # tones of several curves in style.css


def size(facts: Facts) -> Html | None:
    """What every further term buys; only where that is known."""
    curves = facts.curves
    if not curves or not len(curves[0].sizes):
        return None
    note = (
        "These are errors on the rows of the fit; they say nothing about new rows. "
        if curves[0].validation_error is None
        else "Validation errors are means over rows that each fit had not seen; a band is one "
        "standard error to either side. "
    )
    return join(
        tag(
            "p",
            f"The error of the polynomial found {_aim(facts)} for each number of terms. ",
            note,
            "The dotted line marks the budget of this report's model." if facts.place else None,
        ),
        tag("div", figure(_chart(facts), None, _key(curves)), _table(facts), class_="beside even"),
        _formulas(facts),
    )


def _aim(facts: Facts) -> str:
    """Return what the curve's polynomials are: those of a path are fitted to the response."""
    to_response = facts.path is not None or facts.reference is None
    return "to be the best" if to_response else "to be nearest to the mean of good models"


def _chart(facts: Facts) -> Html:
    curves = facts.curves
    drawn = [part for curve in curves for part in _drawn(curve, alone=len(curves) == 1)]
    values = [value for part in drawn for value in part.tolist()]
    sizes = [float(size) for curve in curves for size in curve.sizes]
    name = f"error of {facts.polynomial.response}"
    chart = Chart.over(sizes, values, "terms allowed", name, whole_x=True)
    marks = [_chosen(chart, facts.budget)] if facts.place is not None else []
    if len(curves) == 1:
        marks += _errors(chart, curves[0])
    else:
        marks += [
            _noted(chart, curve, curve.error, _shade(a), _budget(curve))
            for a, curve in enumerate(curves)
        ]
    return chart.draw(
        *marks,
        title="Accuracy against size",
        description=f"Error of the polynomial found {_aim(facts)} for each number of terms, from "
        f"{int(min(sizes))} to {int(max(sizes))}.",
    )


def _drawn(curve: SizeCurve, *, alone: bool) -> list[Array]:
    """Return all values that the chart must have room for."""
    if not alone or curve.validation_error is None or curve.std_error is None:
        return [curve.error]
    parts = [curve.validation_error - curve.std_error, curve.validation_error + curve.std_error]
    return parts if curve.training_error is None else [*parts, curve.training_error]


def _errors(chart: Chart, curve: SizeCurve) -> list[Html]:
    """Draw what is known of one curve: validation with its band, training."""
    marks = []
    if curve.validation_error is not None and curve.std_error is not None:
        error, std = curve.validation_error, curve.std_error
        sizes = curve.sizes.astype(np.float64)
        marks.append(chart.area(sizes, error - std, error + std, "spread"))
        marks.append(_noted(chart, curve, error, "second", "validation"))
    if curve.training_error is not None:
        marks.append(_noted(chart, curve, curve.training_error, "first", "training"))
    return marks


def _noted(chart: Chart, curve: SizeCurve, error: Array, class_: str, what: str) -> Html:
    """Draw a line with dots that tell their values."""
    notes = [
        f"{plural(size, 'term')}, {what}: {number(value, 4)}"
        for size, value in zip(curve.sizes.tolist(), error.tolist(), strict=True)
    ]
    sizes = curve.sizes.astype(np.float64)
    return tag(
        "g",
        chart.line(sizes, error, class_),
        chart.noted_dots(sizes, error, notes, f"points {class_}"),
    )


def _chosen(chart: Chart, terms: int) -> Html:
    """Mark the budget of the model of this report."""
    at = chart.x(terms)
    return tag("path", d=f"M{at} {chart.y.start}V{chart.y.stop}", class_="chosen")


def _key(curves: list[SizeCurve]) -> Html:
    if len(curves) > 1:
        return key(*((_shade(a), _budget(curve)) for a, curve in enumerate(curves)))
    known = (
        ("first", "training error", curves[0].training_error),
        ("second", "validation error", curves[0].validation_error),
    )
    return key(*((class_, name) for class_, name, error in known if error is not None))


def _shade(a: int) -> str:
    return f"shade-{min(a, SHADES - 1)}"


def _budget(curve: SizeCurve) -> str:
    return "any inputs" if curve.max_inputs is None else plural(curve.max_inputs, "input")


def _table(facts: Facts) -> Html:
    """The numbers behind the curves; a path knows the inputs used and the gap as well."""
    curves = facts.curves
    trained = curves[0].training_error is not None
    judged = curves[0].validation_error is not None
    head = ["terms", *(["training"] if trained else []), *(["validation"] if judged else [])]
    rows: list[list[Child]] = []
    for curve in curves:
        for a, size in enumerate(curve.sizes.tolist()):
            row: list[Child] = [str(size)]
            if curve.training_error is not None:
                row.append(number(float(curve.training_error[a]), 4))
            if curve.validation_error is not None and curve.std_error is not None:
                error, std = float(curve.validation_error[a]), float(curve.std_error[a])
                # A size that some split could not reach has no error.
                known = f"{number(error, 4)} ± {number(std, 2)}"
                row.append(known if isfinite(error) else "\N{EN DASH}")
            rows.append(row)
    if facts.path is not None:
        head += ["inputs", "gap"]
        # Curves hold the points of the path in its own order.
        for row, point in zip(rows, facts.path.points, strict=True):
            row += [str(point.n_inputs), percent(point.gap)]
    return table(head, rows, "Error of the best polynomial of every size", tall=True)


def _formulas(facts: Facts) -> Html | None:
    if facts.path is None:
        return None
    items = [tag("li", tag("code", p.polynomial.formula(4))) for p in facts.path.points]
    summary = tag("summary", "The formula of every size")
    return tag("details", summary, tag("ol", items, class_="plain"))
