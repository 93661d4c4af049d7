"""Two sections that people choose from: sizes, and formulas that come close.

Accuracy against size, with its numbers and formulas, comes from a path, the best polynomial of
every size; or, without one, from the search that chose the budgets, which knows the validation
errors alone.

Rivals are drawn as terms by formulas: a row is a term, a column a formula, the cheapest to the
left; a square says that the formula has the term.  Rows that are full are terms that every formula
needs; two rows of which one begins where the other ends are terms that stand in for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from polysharp.estimators.rivals_found import Rivals
from polysharp.plots.path_plots import SizeCurve
from polysharp.report.chart import RIGHT, TOP, WIDTH, Chart, shorten, svg
from polysharp.report.markup import tag
from polysharp.report.report_data import ReportData
from polysharp.typing import Array, Monomial
from polysharp.wording import DASH, number, percent, plural, plus_minus, rounded_up

SHADES = 6  # tones of several curves in style.css
COLUMNS, ROWS = 50, 24  # formulas and terms that are drawn, at most
LABELS, SHARES, ROW, FOOT = 140, 44, 21, 42  # units of the drawing
WAYS = 3  # replacements named for each term


class Line(NamedTuple):
    """A line of the chart of sizes."""

    curve: SizeCurve
    kind: str  # its class
    name: str
    error: Array


def lines(curves: list[SizeCurve]) -> list[Line]:
    """Return what is drawn: both errors of one curve, or the curve of every budget of inputs."""
    if len(curves) == 1:
        own = curves[0]
        errors = {"training": own.training_error, "validation": own.validation_error}
        both = zip(("first", "second"), *zip(*errors.items(), strict=True), strict=True)
        return [Line(own, *line) for line in both if line[-1] is not None]
    limits = [c.max_inputs for c in curves]
    names = ["any inputs" if k is None else plural(k, "input") for k in limits]
    pairs = enumerate(zip(curves, names, strict=True))
    return [Line(c, f"shade-{min(a, SHADES - 1)}", name, c.error) for a, (c, name) in pairs]


def keys(curves: list[SizeCurve]) -> list[tuple[str, str]]:
    """Return what the colours of the curves mean."""
    more = " error" if len(curves) == 1 else ""
    return [(line.kind, f"{line.name}{more}") for line in lines(curves)]


def draw_sizes(report: ReportData) -> Markup:
    """Draw errors against size."""
    curves, drawn = report.curves, lines(report.curves)
    sizes, values = [c.sizes for c in curves], [line.error for line in drawn]
    bands: list[Array] = []
    if len(curves) == 1 and (error := curves[0].validation_error) is not None:
        bands = [error - curves[0].std_error, error + curves[0].std_error]
    every = np.concatenate(sizes)
    y_name = f"error of {report.polynomial.response}"
    chart = Chart.over(every, np.concatenate(values + bands), "terms allowed", y_name, whole_x=True)
    marks = []
    if report.place is not None:
        at = chart.x(report.settings["max_terms"])
        marks.append(tag("path", d=f"M{at} {chart.y.start}V{chart.y.stop}", class_="chosen"))
    if bands:
        marks.append(chart.area(curves[0].sizes, bands[0], bands[1], "spread"))
    for curve, kind, name, error in drawn:
        pairs = zip(curve.sizes.tolist(), error.tolist(), strict=True)
        notes = [f"{plural(size, 'term')}, {name}: {number(value, 4)}" for size, value in pairs]
        dots = chart.dots(curve.sizes, error, f"points {kind}", 3.6, notes)
        marks.append(tag("g", chart.line(curve.sizes, error, kind), dots))
    return chart.draw(
        *marks,
        title="Accuracy against size",
        description=f"Error of the best polynomial found for each number of terms, from "
        f"{min(every)} to {max(every)}.",
    )


def numbers(report: ReportData) -> tuple[list[str], list[list[str]], int | None]:
    """Return the numbers behind the curves: names, rows, and the row of the model."""
    curves, path, own = report.curves, report.path, report.settings
    limits: dict[Any, float | None] = {}
    gaps: dict[Any, float] = {}
    if path is not None:
        gaps, better = {(point.max_inputs, point.max_terms): point.gap for point in path}, {}
        if report.place is not None:  # its own proof had more time
            size = own["max_inputs"], own["max_terms"]
            gaps[size], better[size] = report.solution.gap, report.solution.bound
        limits = path.r2_ceilings(better)
    trained, validated = (
        curves[0].training_error is not None,
        curves[0].validation_error is not None,
    )
    head = ["terms", *["training"] * trained, *["validation"] * validated]
    head += [] if path is None else ["R² at most", "gap"]
    places = [(curve, a) for curve in curves for a in range(len(curve.sizes))]
    rows: list[list[str]] = []
    for curve, a in places:
        size = curve.max_inputs, int(curve.sizes[a])
        row = [str(size[1])]
        if curve.training_error is not None:
            row.append(number(float(curve.training_error[a]), 4))
        if (
            curve.validation_error is not None
        ):  # a size that some split could not reach has no error
            known = curve.measured(size[1])
            row.append(DASH if known is None else plus_minus(*known))
        if path is not None:
            limit, gap = limits.get(size), gaps.get(size)
            row.append(DASH if limit is None else rounded_up(limit))
            row.append(DASH if gap is None else percent(gap))
        rows.append(row)
    if report.place is None:
        return head, rows, None
    chosen = places.index(report.place)
    rows[chosen][0] = tag("b", rows[chosen][0], " (this model)")
    return head, rows, chosen


def short_names(found: Rivals) -> dict[str, str]:
    """Return names of terms without the means, which would leave no room for anything else."""
    every = sorted({m for one in found for m in one.monomials})
    plain = replace(found.best, shifts=None)
    return dict(zip(found.best.names_of(every), plain.names_of(every), strict=True))


def listed(names: Iterable[str], short: Mapping[str, str]) -> str:
    """Return names as the text lists them."""
    return ", ".join(short.get(name, name) for name in names) or "none"


def replaced(found: Rivals, short: Mapping[str, str]) -> list[list[str]]:
    """Return what stands in for what, terms first."""
    terms, inputs = found.replaceable
    table = []
    for name, swaps in [*terms.items(), *((f"input {i}", own) for i, own in inputs.items())]:
        known = short if name in terms else {}
        ways = [" and ".join(known.get(n, n) for n in s.into) or "no further input" for s in swaps]
        more = [f"{len(ways) - WAYS} more"] if len(ways) > WAYS else []
        said = ", or ".join([*ways[:WAYS], *more])
        table.append([known.get(name, name), f"+{percent(swaps[0].excess)}", said])
    return table


def draw_rivals(found: Rivals, short: Mapping[str, str]) -> Markup:
    """Draw terms by formulas."""
    has = [set(one.monomials) for one in found.polynomials[:COLUMNS]]
    own, order = set(found.best.monomials), _order(found)[:ROWS]
    names = dict(zip(order, found.best.names_of(order), strict=True))
    labels = [
        tag("text", words, x=x, y=TOP + ROW * a + 15, text_anchor="end")
        for a, m in enumerate(order)
        for words, x in (
            (shorten(short[names[m]], 20), LABELS - 8),
            (f"{100 * found.shares.terms[names[m]]:.0f} %", WIDTH),
        )
    ]
    height, last = TOP + ROW * len(order) + FOOT, float(found.excess[len(has) - 1])
    said = f"{plural(len(has), 'formula')}, the best one first, the last at +{percent(last)}"
    return svg(
        height,
        tag("path", d=_cells(order, has, own, True), class_="cells first"),
        tag("path", d=_cells(order, has, own, False), class_="cells second"),
        tag("g", labels, aria_hidden="true"),
        tag("text", said, x=WIDTH / 2, y=height - 14, text_anchor="middle", class_="name"),
        title="Terms by formulas",
        description=said,
    )


def caption(found: Rivals) -> str:
    """Say what is drawn, and what is not."""
    hidden = {"formula": found.count - COLUMNS, "term": len(_order(found)) - ROWS}
    left = [plural(n, what) for what, n in hidden.items() if n > 0]
    more = f" Not drawn: {' and '.join(left)}." if left else ""
    return f"Which formula has which term, and the share of all that have it.{more}"


def _order(found: Rivals) -> list[Monomial]:
    """Return the terms of the formulas drawn, those that most have in front."""
    shown = found.polynomials[:COLUMNS]
    every = sorted({m for one in shown for m in one.monomials}, key=lambda m: (len(m), m))
    names = dict(zip(every, found.best.names_of(every), strict=True))
    own = set(found.best.monomials)
    return sorted(every, key=lambda m: (-found.shares.terms[names[m]], m not in own))


def _cells(order: list[Monomial], has: list[set[Monomial]], own: set[Monomial], mine: bool) -> str:
    """Return the squares of the terms that the best formula has, or of those that it has not."""
    width = (WIDTH - SHARES - RIGHT - LABELS) / len(has)
    side = width - min(2.0, 0.2 * width)
    return "".join(
        f"M{LABELS + width * b:.2f} {TOP + ROW * a + 2}h{side:.2f}v{ROW - 4}h{-side:.2f}z"
        for a, m in enumerate(order)
        for b, terms in enumerate(has)
        if m in terms and (m in own) == mine
    )
