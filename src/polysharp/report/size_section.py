"""Accuracy against size: the curve people choose from, its numbers and its formulas.

It comes from a path, the best polynomial of every size; or, without one, from the search that
chose the budgets, which knows the validation errors alone.
"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from polysharp.plots.path_plots import SizeCurve
from polysharp.report.chart import Chart
from polysharp.report.markup import tag
from polysharp.report.report_data import ReportData
from polysharp.typing import Array
from polysharp.wording import DASH, number, percent, plural, plus_minus, rounded_up

SHADES = 6  # tones of several curves in style.css
NEAR = 5  # sizes to either side of the model's that are listed at once


def draw(report: ReportData) -> Markup:
    """Draw errors against size."""
    curves = report.curves
    alone = len(curves) == 1
    values = np.concatenate([part for curve in curves for part in _drawn(curve, alone)])
    sizes = np.concatenate([curve.sizes for curve in curves])
    name = f"error of {report.polynomial.response}"
    chart = Chart.over(sizes, values, "terms allowed", name, whole_x=True)
    marks = []
    if report.place is not None:
        at = chart.x(report.budget)
        marks.append(tag("path", d=f"M{at} {chart.y.start}V{chart.y.stop}", class_="chosen"))
    if alone:
        marks += _errors(chart, curves[0])
    else:
        marks += [
            _noted(chart, curve, curve.error, _shade(a), _budget(curve))
            for a, curve in enumerate(curves)
        ]
    return chart.draw(
        *marks,
        title="Accuracy against size",
        description=f"Error of the best polynomial found for each number of terms, from "
        f"{int(min(sizes))} to {int(max(sizes))}.",
    )


def _drawn(curve: SizeCurve, alone: bool) -> list[Array]:
    """Return all values that the chart must have room for."""
    if not alone or curve.validation_error is None:
        return [curve.error]
    parts = [curve.validation_error - curve.std_error, curve.validation_error + curve.std_error]
    return parts if curve.training_error is None else [*parts, curve.training_error]


def _errors(chart: Chart, curve: SizeCurve) -> list[Markup]:
    """Draw what is known of one curve: validation with its band, training."""
    marks = []
    if (error := curve.validation_error) is not None:
        low, high = error - curve.std_error, error + curve.std_error
        marks.append(chart.area(curve.sizes, low, high, "spread"))
        marks.append(_noted(chart, curve, error, "second", "validation"))
    if curve.training_error is not None:
        marks.append(_noted(chart, curve, curve.training_error, "first", "training"))
    return marks


def _noted(chart: Chart, curve: SizeCurve, error: Array, class_: str, what: str) -> Markup:
    """Draw a line with dots that tell their values."""
    notes = [
        f"{plural(size, 'term')}, {what}: {number(value, 4)}"
        for size, value in zip(curve.sizes.tolist(), error.tolist(), strict=True)
    ]
    dots = chart.dots(curve.sizes, error, f"points {class_}", 3.6, notes)
    return tag("g", chart.line(curve.sizes, error, class_), dots)


def keys(curves: list[SizeCurve]) -> list[tuple[str, str]]:
    """Return what the colours of the curves mean."""
    if len(curves) > 1:
        return [(_shade(a), _budget(curve)) for a, curve in enumerate(curves)]
    known = [("first", "training error")] if curves[0].training_error is not None else []
    validated = curves[0].validation_error is not None
    return [*known, ("second", "validation error")] if validated else known


def _shade(a: int) -> str:
    return f"shade-{min(a, SHADES - 1)}"


def _budget(curve: SizeCurve) -> str:
    return "any inputs" if curve.max_inputs is None else plural(curve.max_inputs, "input")


def numbers(report: ReportData) -> tuple[list[str], list[list[str]], int | None]:
    """Return the numbers behind the curves: names, rows, and the row of the model."""
    curves = report.curves
    head = ["terms"]
    head += ["training"] if curves[0].training_error is not None else []
    head += ["validation"] if curves[0].validation_error is not None else []
    places = [(curve, a) for curve in curves for a in range(len(curve.sizes))]
    rows = [_row(curve, a) for curve, a in places]
    if report.path is not None:
        head += ["R² at most", "gap"]
        gaps = {(point.max_inputs, point.max_terms): point.gap for point in report.path}
        own, better = (report.settings["max_inputs"], report.budget), {}
        if report.place is not None:  # its own proof had more time
            gaps[own], better[own] = report.solution.gap, report.solution.bound
        ceilings = report.path.r2_ceilings(better)
        for row, (curve, a) in zip(rows, places, strict=True):
            size = (curve.max_inputs, int(curve.sizes[a]))
            limit, gap = ceilings.get(size), gaps.get(size)
            row.append(DASH if limit is None else rounded_up(limit))
            row.append(DASH if gap is None else percent(gap))
    if report.place is None:
        return head, rows, None
    chosen = places.index(report.place)
    rows[chosen][0] = tag("b", rows[chosen][0], " (this model)")
    return head, rows, chosen


def _row(curve: SizeCurve, a: int) -> list[str]:
    row = [str(curve.sizes[a])]
    if curve.training_error is not None:
        row.append(number(float(curve.training_error[a]), 4))
    if curve.validation_error is not None:
        # A size that some split could not reach has no error.
        known = curve.measured(int(curve.sizes[a]))
        row.append(DASH if known is None else plus_minus(*known))
    return row
