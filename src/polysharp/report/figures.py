"""The figures of a report, each an SVG that states in words what it shows.

Of a long table evenly spaced rows are drawn, at most ``MAX_DOTS``; the captions say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polysharp.estimators.fitted import spread
from polysharp.plots.gap import course
from polysharp.polynomial.response import Curve, Surface
from polysharp.report.chart import BOTTOM, LEFT, TOP, WIDTH, Chart, Scale, labels, shorten
from polysharp.report.contours import region_above
from polysharp.report.facts import Facts
from polysharp.report.html import Html, tag
from polysharp.report.words import number
from polysharp.typing import Array, Indices

MAX_DOTS = 600
BANDS = 9  # colours of a surface: --band-0 to --band-8 in style.css
LEGEND = 62  # room for a surface's colours and their numbers


def drawn_rows(facts: Facts) -> Indices:
    """Return the rows that figures draw."""
    return spread(facts.n, MAX_DOTS)


def predictions(facts: Facts) -> Html:
    """Predicted against observed."""
    rows, name = facts.rows, facts.polynomial.response
    some = drawn_rows(facts)
    both = [*rows.observed[some].tolist(), *rows.predicted[some].tolist()]
    chart = Chart.over(both, both, f"observed {name}", f"predicted {name}")
    ends = np.array([chart.x.low, chart.x.high])
    return chart.draw(
        chart.line(ends, ends, "reference"),
        chart.dots(rows.observed[some], rows.predicted[some], "dots"),
        title="Observed against predicted",
        description=f"One dot per row; on the diagonal the prediction is exact. {_accuracy(facts)}",
    )


def residuals(facts: Facts) -> Html:
    """Residual against prediction."""
    rows, name = facts.rows, facts.polynomial.response
    some = drawn_rows(facts)
    left_over = rows.residuals[some]
    chart = Chart.over(
        rows.predicted[some].tolist(),
        [*left_over.tolist(), 0.0],
        f"predicted {name}",
        "observed \N{MINUS SIGN} predicted",
    )
    return chart.draw(
        chart.line(np.array([chart.x.low, chart.x.high]), np.zeros(2), "reference"),
        chart.dots(rows.predicted[some], left_over, "dots"),
        title="Residuals",
        description="Observed minus predicted for one dot per row, against the prediction. "
        f"The largest is {number(facts.largest_error, 3)}.",
    )


def residual_histogram(facts: Facts) -> Html:
    """How the residuals are distributed."""
    left_over = facts.rows.residuals
    bins = int(np.clip(2.0 * facts.n ** (1 / 3), 8, 30))
    low, high = float(left_over.min()), float(left_over.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(left_over, bins=bins, range=(low, high))
    chart = Chart(
        Scale.over(edges.tolist(), LEFT, WIDTH - 12),
        Scale(0.0, 1.08 * float(counts.max()), 300 - BOTTOM, TOP),
        "observed \N{MINUS SIGN} predicted",
        "rows",
    )
    return chart.draw(
        chart.bars(edges, counts.astype(np.float64), "bars"),
        title="Distribution of the residuals",
        description=f"Histogram of the residuals of {facts.n} rows in {bins} bins.",
    )


def gap(facts: Facts) -> Html:
    """Objective and bound over the time of the search."""
    seconds, objective, bound = course(facts.solution)
    # First guesses may be a thousand times worse; the end of the search is what matters.
    top = 150.0
    objective = np.minimum(objective, top)
    chart = Chart(
        Scale(0.0, 1.04 * float(seconds[-1]) or 1.0, LEFT, WIDTH - 12),
        Scale(0.0, top, 300 - BOTTOM, TOP),
        "seconds",
        "objective (% of this model's)",
    )
    corners = np.repeat(seconds, 2)[1:]
    between = chart.area(corners, np.repeat(bound, 2)[:-1], np.repeat(objective, 2)[:-1], "between")
    return chart.draw(
        between,
        chart.steps(seconds, objective, "first"),
        chart.steps(seconds, bound, "second"),
        title="The proof closing",
        description="Objective of the best model so far and proven lower bound over the seconds "
        f"of the search; the bound ends at {bound[-1]:.4g} % of the objective.",
    )


def response_curve(facts: Facts, curve: Curve, others: Sequence[Curve]) -> Html:
    """The response over one input; all curves of a report share their vertical scale."""
    names, response = facts.polynomial.names, facts.polynomial.response
    values = [v for each in others for v in each.response.tolist()]
    chart = Chart.over(curve.x.tolist(), values, names[curve.input], response, height=250)
    low, high = float(curve.response.min()), float(curve.response.max())
    return chart.draw(
        chart.rug(facts.rows.X[drawn_rows(facts), curve.input]),
        chart.line(curve.x, curve.response, "first thick"),
        title=f"{response} over {names[curve.input]}",
        description=f"All other inputs at their medians; the curve runs between {number(low, 4)} "
        f"and {number(high, 4)}.",
    )


def response_surface(facts: Facts, surface: Surface) -> Html:
    """The response over two inputs, as bands of colour with the rows on top."""
    names, (i, j) = facts.polynomial.names, surface.inputs
    height = 320
    chart = Chart(
        _exactly(surface.x, LEFT, WIDTH - 12 - LEGEND),
        _exactly(surface.y, height - BOTTOM, TOP),
        names[i],
        names[j],
        height,
        grid=False,
    )
    low, high = float(surface.response.min()), float(surface.response.max())
    levels = np.linspace(low, high, BANDS + 1)[:-1]
    x, y = np.array(chart.x.of(surface.x)), np.array(chart.y.of(surface.y))
    bands = [
        tag("path", d=region_above(surface.response, level, x, y), class_=f"band-{a}")
        for a, level in enumerate(levels.tolist())
    ]
    rows = facts.rows.X[drawn_rows(facts)[:: max(1, MAX_DOTS // 300)]]
    response = facts.polynomial.response
    return chart.draw(
        tag("g", bands, class_="bands"),
        chart.dots(rows[:, i], rows[:, j], "cloud", r=2),
        _legend(low, high, height),
        title=f"{response} over {names[i]} and {names[j]}",
        description=f"All other inputs at their medians; {shorten(response)} runs from "
        f"{number(low, 4)} to {number(high, 4)}.",
    )


def _exactly(values: Array, start: float, stop: float) -> Scale:
    """Span the values without a margin, for colours reach to the frame."""
    if values[0] < values[-1]:
        return Scale(float(values[0]), float(values[-1]), start, stop)
    return Scale.over(values.tolist(), start, stop)


def _legend(low: float, high: float, height: int) -> Html:
    """Colours with the numbers they stand for."""
    left, width, bottom, top = WIDTH - LEGEND, 12, height - BOTTOM, TOP + 14
    step = (bottom - top) / BANDS
    scale = Scale(low, high, bottom, top) if low < high else Scale.over([low], bottom, top)
    ticks = scale.ticks(5)
    texts, power = labels(ticks)
    return tag(
        "g",
        [
            tag(
                "rect",
                x=left,
                y=round(bottom - (a + 1) * step, 2),
                width=width,
                height=round(step + 0.4, 2),
                class_=f"band-{a}",
            )
            for a in range(BANDS)
        ],
        [
            tag("text", text, x=left + width + 5, y=scale(t) + 4)
            for t, text in zip(ticks, texts, strict=True)
        ],
        tag("text", power.strip(" ()"), x=left, y=top - 6) if power else None,
        class_="axes legend",
        aria_hidden="true",
    )


def sparkline(values: Array, bins: int = 16) -> Html:
    """A histogram the size of a word."""
    low, high = float(values.min()), float(values.max())
    flat = high - low <= 1e-12 * max(abs(low), abs(high))
    counts, _ = np.histogram(values, bins=bins, range=(low - 1, high + 1) if flat else (low, high))
    tops = 18.0 * counts / counts.max()
    d = "".join(
        f"M{4 * a} 19v-{max(top, 0.6):.1f}h3v{max(top, 0.6):.1f}z" for a, top in enumerate(tops)
    )
    return tag(
        "svg",
        tag("path", d=d, class_="bars"),
        viewBox=f"0 0 {4 * bins} 20",
        preserveAspectRatio="xMinYMid",
        class_="spark",
        aria_hidden="true",
    )


def _accuracy(facts: Facts) -> str:
    r2 = "" if facts.r2 is None else f"R² is {facts.r2:.3f}, the "
    return f"{r2 or 'The '}root mean squared error {number(facts.rmse, 4)}."
