"""Tables of a report: terms, inputs, data and the sizes of a path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polysharp.report.facts import Facts
from polysharp.report.figures import sparkline
from polysharp.report.formula import product
from polysharp.report.html import Child, Html, join, tag
from polysharp.report.pieces import bar, table
from polysharp.report.words import number

MAX_ROWS = 40  # inputs listed one by one


def terms(facts: Facts) -> Html:
    """Every term with its coefficient, its share of the variance, and how often it is picked."""
    polynomial, shares, picked = facts.polynomial, facts.importance.terms, facts.stability
    largest = float(np.abs(shares).max(initial=0.0))
    rows: list[list[Child]] = []
    for j in np.argsort(-np.abs(shares), kind="stable").tolist():
        monomial, share = polynomial.monomials[j], float(shares[j])
        rows.append(
            [
                tag("span", product(polynomial, monomial) or "1", class_="maths"),
                number(float(polynomial.coefficients[j])),
                join(bar(share, largest), tag("span", _signed(share), class_="value")),
            ]
        )
        if picked is not None:
            rows[-1].append(f"{100 * picked.share_of(monomial):.0f}\N{NO-BREAK SPACE}%")
    if polynomial.intercept != 0.0 or not rows:
        name = tag("span", "intercept", class_="quiet")
        rows.append([name, number(polynomial.intercept), None, *([None] if picked else [])])
    head = ["term", "coefficient", "share of the variance", *(["resamples"] if picked else [])]
    return table(head, rows, "Terms of the formula")


def importance(facts: Facts) -> Html:
    """Inputs by their part in the model."""
    shares, names = facts.importance.inputs, facts.polynomial.names
    return _bars(
        [(names[i], float(shares[i]), _signed(shares[i])) for i in facts.importance.order],
        "Importance of the inputs in the model",
    )


def ranking(facts: Facts, most: int = 15) -> Html:
    """Inputs by their scores before the search."""
    scores, names = facts.ranking.scores, facts.polynomial.names
    total = float(scores.sum())
    rows = [
        (names[i], float(scores[i]), _signed(scores[i] / total) if total else "0")
        for i in facts.ranking.order[:most].tolist()
    ]
    return _bars(rows, "Ranking of the inputs", used={names[i] for i in facts.polynomial.inputs})


def _bars(
    rows: Sequence[tuple[str, float, str]], caption: str, used: set[str] | None = None
) -> Html:
    largest = max((abs(value) for _, value, _ in rows), default=0.0)
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag(
            "tbody",
            [
                tag(
                    "tr",
                    tag("th", name, scope="row"),
                    tag("td", bar(value, largest), tag("span", text, class_="value")),
                    class_="unused" if used is not None and name not in used else None,
                )
                for name, value, text in rows
            ],
        ),
        class_="ranked",
    )


def data(facts: Facts) -> Html:
    """The columns in numbers: those of the formula and then the others, as far as they fit."""
    polynomial, X = facts.polynomial, facts.rows.X
    used = list(polynomial.inputs)
    others = [i for i in range(facts.p) if i not in set(used)]
    rows = [_column(f"{polynomial.response} (response)", facts.rows.observed, "")]
    for i in [*used, *others][: max(MAX_ROWS, len(used))]:
        rows.append(_column(polynomial.names[i], X[:, i], "yes" if i in used else "no"))
    head = ("column", "distribution", "minimum", "median", "mean", "maximum", "std", "in formula")
    return table(head, rows, "Columns of the data")


def _column(name: str, values: np.ndarray, used: str) -> tuple[Child, ...]:
    figures = (values.min(), np.median(values), values.mean(), values.max(), values.std())
    return (name, sparkline(values), *(number(float(v), 4) for v in figures), used)


def _signed(share: float) -> str:
    return f"{100.0 * float(share):.1f}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")
