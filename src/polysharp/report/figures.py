"""The figures of a report, each an SVG that states in words what it shows.

Of a long table evenly spaced rows are drawn, at most ``MAX_DOTS``; the captions say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from polysharp.data.rows import evenly_spaced
from polysharp.estimators.scored_rows import ScoredRows
from polysharp.plots.model_plots import HIGHEST, course
from polysharp.polynomial import stationary
from polysharp.report.chart import (
    BOTTOM,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    Scale,
    labels,
    region_above,
    shorten,
)
from polysharp.report.markup import tag
from polysharp.report.report_data import ReportData
from polysharp.report.sentences import accuracy
from polysharp.typing import Array, Indices
from polysharp.wording import number

MAX_DOTS = 600
BANDS = 9  # colours of a surface: --band-0 to --band-8 in style.css
LEGEND = 62  # room for a surface's colours and their numbers
LEFT_OVER = "observed \N{MINUS SIGN} predicted"


def drawn_rows(rows: ScoredRows) -> Indices:
    """Return the rows that figures draw."""
    return evenly_spaced(rows.n, MAX_DOTS)


def predictions(report: ReportData) -> Markup:
    """Predicted against observed."""
    said = f"on the diagonal the prediction is exact. {accuracy(report.rows)}."
    return _scatter(report, "observed", "predicted", "Observed against predicted", said)


def residuals(report: ReportData) -> Markup:
    """Residual against prediction."""
    largest = number(float(np.abs(report.rows.residuals).max()), 3)
    said = f"observed minus predicted, against the prediction. The largest is {largest}."
    return _scatter(report, "predicted", "residuals", "Residuals", said)


def _scatter(report: ReportData, along: str, up: str, title: str, said: str) -> Markup:
    """Draw two columns of the rows shown, and of those held out, with the line of exact rows."""
    kinds = ((report.rows, "dots"), (report.held_out, "dots held-out"))
    drawn = [(rows.take(drawn_rows(rows)), kind) for rows, kind in kinds if rows is not None]
    clouds = [(getattr(rows, along), getattr(rows, up), kind) for rows, kind in drawn]
    xs, ys = (np.concatenate([cloud[a] for cloud in clouds]) for a in (0, 1))
    name = report.polynomial.response
    if up == "residuals":
        chart = Chart.over(xs, np.append(ys, 0.0), f"{along} {name}", LEFT_OVER)
    else:
        both = np.append(xs, ys)
        chart = Chart.over(both, both, f"{along} {name}", f"{up} {name}")
    limits = np.array([chart.x.low, chart.x.high])
    exact = 0.0 * limits if up == "residuals" else limits
    marks = [chart.line(limits, exact, "reference"), *(chart.dots(*cloud) for cloud in clouds)]
    return chart.draw(*marks, title=title, description=f"One dot per row; {said}")


def residual_histogram(report: ReportData) -> Markup:
    """How the residuals are distributed."""
    left_over = report.rows.residuals
    bins = int(np.clip(2.0 * report.n ** (1 / 3), 8, 30))
    counts, edges = _histogram(left_over, bins)
    most = 1.08 * float(counts.max())
    chart = Chart.over(edges, [0.0, most], LEFT_OVER, "rows", margins=(0.04, 0.0))
    return chart.draw(
        chart.bars(edges, counts, "bars"),
        title="Distribution of the residuals",
        description=f"Histogram of the residuals of {report.n} rows in {bins} bins.",
    )


def gap(report: ReportData) -> Markup:
    """Objective and bound over the time of the search."""
    seconds, objective, bound = course(report.solution)
    objective = np.minimum(objective, HIGHEST)
    limits = [0.0, 1.04 * float(seconds[-1]) or 1.0], [0.0, HIGHEST]
    chart = Chart.over(*limits, "seconds", "objective (% of this model's)", margins=(0.0, 0.0))
    # Each keeps its value until the next event.
    corners = np.repeat(seconds, 2)[1:]
    lower, upper = (np.repeat(values, 2)[:-1] for values in (bound, objective))
    return chart.draw(
        chart.area(corners, lower, upper, "between"),
        chart.line(corners, upper, "first"),
        chart.line(corners, lower, "second"),
        title="The proof closing",
        description="Objective of the best model so far and proven lower bound over the seconds "
        f"of the search; the bound ends at {bound[-1]:.4g} % of the objective.",
    )


def response_curve(report: ReportData, i: int) -> tuple[Markup, str]:
    """The response over one input, and its range as the caption."""
    name, response = report.polynomial.names[i], report.polynomial.response
    curve = stationary.response_curve(report.polynomial, report.rows.X, i)
    chart = Chart.over(curve.x, curve.response, name, response, 250)
    limits = [number(float(v), 4) for v in (curve.response.min(), curve.response.max())]
    runs = f"between {limits[0]} and {limits[1]}"
    drawn = chart.draw(
        chart.rug(report.rows.X[drawn_rows(report.rows), i]),
        chart.line(curve.x, curve.response, "first thick"),
        title=f"{response} over {name}",
        description=f"All other inputs at their medians; the curve runs {runs}.",
    )
    return drawn, f"{shorten(name)}: {runs}"


def response_surface(report: ReportData, pair: tuple[int, int]) -> Markup:
    """The response over two inputs, as bands of colour with the rows on top."""
    names, (i, j) = report.polynomial.names, pair
    surface = stationary.response_surface(report.polynomial, report.rows.X, pair)
    height = 320
    # Without a margin, for colours reach to the frame.
    how: Any = {"margins": (0.0, 0.0), "right": RIGHT + LEGEND, "grid": False}
    chart = Chart.over(surface.x, surface.y, names[i], names[j], height, **how)
    low, high = float(surface.response.min()), float(surface.response.max())
    levels = np.linspace(low, high, BANDS + 1)[:-1]
    x, y = np.array(chart.x(surface.x)), np.array(chart.y(surface.y))
    bands = [
        tag("path", d=region_above(surface.response, level, x, y), class_=f"band-{a}")
        for a, level in enumerate(levels.tolist())
    ]
    rows = report.rows.X[drawn_rows(report.rows)[:: max(1, MAX_DOTS // 300)]]
    response = report.polynomial.response
    return chart.draw(
        tag("g", bands, class_="bands"),
        chart.dots(rows[:, i], rows[:, j], "cloud", r=2),
        _legend(low, high, height),
        title=f"{response} over {names[i]} and {names[j]}",
        description=f"All other inputs at their medians; {shorten(response)} runs from "
        f"{number(low, 4)} to {number(high, 4)}.",
    )


def _legend(low: float, high: float, height: int) -> Markup:
    """Colours with the numbers they stand for."""
    left, width, bottom, top = WIDTH - LEGEND, 12, height - BOTTOM, TOP + 14
    step = (bottom - top) / BANDS
    scale = Scale.over([low, high], bottom, top, margin=0.0)
    ticks = scale.ticks(5)
    texts, power = labels(ticks)
    boxes = [{"y": round(bottom - (a + 1) * step, 2), "class_": f"band-{a}"} for a in range(BANDS)]
    return tag(
        "g",
        [tag("rect", x=left, width=width, height=round(step + 0.4, 2), **box) for box in boxes],
        [
            tag("text", shown, x=left + width + 5, y=scale(t) + 4)
            for t, shown in zip(ticks, texts, strict=True)
        ],
        tag("text", power.strip(" ()"), x=left, y=top - 6) if power else None,
        class_="axes legend",
        aria_hidden="true",
    )


def column(values: Array) -> list[str]:
    """A column in numbers, with its distribution in front."""
    numbers = (values.min(), np.median(values), values.mean(), values.max(), values.std())
    return [_sparkline(values), *(number(float(v), 4) for v in numbers)]


def _sparkline(values: Array, bins: int = 16) -> Markup:
    """A histogram the size of a word."""
    counts, _ = _histogram(values, bins)
    tops = np.maximum(18.0 * counts / counts.max(), 0.6)
    d = "".join(f"M{4 * a} 19v-{top:.1f}h3v{top:.1f}z" for a, top in enumerate(tops))
    return tag(
        "svg",
        tag("path", d=d, class_="bars"),
        viewBox=f"0 0 {4 * bins} 20",
        preserveAspectRatio="xMinYMid",
        class_="spark",
        aria_hidden="true",
    )


def _histogram(values: Array, bins: int) -> tuple[Indices, Array]:
    """Count values in bins; where they differ by rounding alone, around them."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    return counts, edges
