"""Sections on several responses: the terms they share, and how well each is predicted."""

from __future__ import annotations

from polysharp.progress import plural
from polysharp.report import figures, words
from polysharp.report.facts import Facts
from polysharp.report.formula import product
from polysharp.report.html import Child, Html, div, figure, join, keys, p, span, table, tag

MOST_FIGURES = 12  # responses whose predictions are drawn, the first ones


def shared_terms(facts: Facts) -> Html:
    """Every term with its coefficient in each response."""
    laws, first = [each.polynomial for each in facts.shown], facts.polynomial
    rows: list[list[Child]] = [
        [
            span(product(first, m) or "1", class_="maths"),
            *(words.number(float(law.coefficients[j])) for law in laws),
        ]
        for j, m in enumerate(first.monomials)
    ]
    intercepts = [words.number(law.intercept) for law in laws]
    rows.append([span("intercept", class_="quiet"), *intercepts])
    centred = "; in every product the means are subtracted first"
    return join(
        p(
            "One set of terms for all responses, each with coefficients of its own in the units of "
            "the table",
            centred if first.shifts is not None else None,
            ".",
        ),
        table(["term", *(tag("var", law.response) for law in laws)], rows, "Terms by response"),
    )


def accuracies(facts: Facts) -> Html:
    """Errors of each response, and its predictions against what was observed."""
    apart = facts.held_out is not None
    head: list[Child] = ["response", "R²", "typical error"]
    head += ["R², held-out rows", "typical error, held-out rows"] if apart else []
    said = words.intervals(facts)
    head += [] if said is None else ["nine of ten within ±"]
    rows: list[list[Child]] = []
    for each in facts.shown:
        rows.append([tag("var", each.polynomial.response)])
        for part in filter(None, (each.rows, each.held_out)):
            rows[-1] += [words.r_squared(part.r2), words.number(part.rmse, 4)]
        if (half := words.half_width(each)) is not None:
            rows[-1].append(words.number(half, 4))
    drawn = facts.shown[:MOST_FIGURES]
    more = len(facts.shown) - len(drawn)
    colours = keys(("first", "rows of the fit"), ("second", "held-out rows")) if apart else None
    return join(
        p(
            f"On the {plural(facts.n, 'row')} given to this report; typical errors are root mean "
            "squares in the units of the response. ",
            None
            if apart
            else "If the model was fitted to these rows, expect larger errors on new ones. ",
            f"Of {len(facts.shown)} responses the first {len(drawn)} are drawn." if more else None,
        ),
        table(head, rows, "Errors by response"),
        None if said is None else p(said),
        div(
            [
                figure(figures.predictions(each), each.polynomial.response, colours)
                for each in drawn
            ],
            class_="figures",
        ),
    )
