"""What else could it be: the formulas that come close, as a picture of terms by formulas.

A row is a term, a column a formula, the cheapest to the left; a square says that the formula has
the term.  Rows that are full are terms that every formula needs; two rows of which one begins where
the other ends are terms that stand in for each other.
"""

from __future__ import annotations

from dataclasses import replace

from polysharp.estimators.rivals import Rivals, Swap
from polysharp.progress import plural
from polysharp.report.chart import RIGHT, TOP, WIDTH, shorten
from polysharp.report.facts import Facts
from polysharp.report.html import Child, Html, div, figure, h3, join, keys, p, table, tag
from polysharp.report.words import percent
from polysharp.typing import Monomial

COLUMNS, ROWS = 50, 24  # formulas and terms that are drawn, at most
LABELS, SHARES, ROW, FOOT = 140, 44, 21, 42  # units of the drawing
WAYS = 3  # replacements named for each term


def rivals(facts: Facts) -> Html | None:
    """How many formulas come close, what they share and where they differ; if that was asked."""
    found = facts.rivals
    if found is None:
        return None
    alone = len(found.shares.terms) == len(found.best)
    return join(
        p(
            f"{found.claim}. A formula counts here if it has as many terms as this one, keeps the "
            "same rules and costs hardly more on the same rows, the penalty on large coefficients "
            "included.",
        ),
        p(
            "Terms that all of them have are those that these rows insist on. Where they differ, "
            "the rows cannot tell: the choice between them is a matter of taste, of other rows or "
            "of what is known about the subject. None of this says which of them is true.",
        ),
        None if alone else div(_picture(found), _replaced(facts, found), class_="beside even"),
        _always(found),
    )


def _always(found: Rivals) -> Html:
    terms, inputs = (", ".join(names) or "none" for names in found.indispensable)
    return p(f"In every one of them: the terms {terms}; the inputs {inputs}.")


def _replaced(facts: Facts, found: Rivals) -> Html:
    """What stands in for what, terms first."""
    rows: list[list[Child]] = [
        [name, _ways(swaps), f"+{percent(swaps[0].excess)}"]
        for name, swaps in {**found.replaceable.terms, **found.replaceable.inputs}.items()
    ]
    head = ["of the best formula", "can be replaced by", "at a cost of"]
    return div(
        h3("What can stand in for what"),
        table(head, rows, f"Replacements in the formula for {facts.polynomial.response}"),
    )


def _ways(swaps: tuple[Swap, ...]) -> str:
    said = f"{plural(len(shown), 'formula')}, the best one first, the last at +{percent(last)}"
    title = "Terms by formulas"
    drawing = tag(
        "svg",
        tag("title", title),
        tag("desc", said),
        tag("path", d=_cells(order, has, own, True), class_="cells first"),
        tag("path", d=_cells(order, has, own, False), class_="cells second"),
        tag("g", labels, aria_hidden="true"),
        tag("text", said, x=middle, y=height - 14, text_anchor="middle", class_="name"),
        viewBox=f"0 0 {WIDTH} {height}",
        class_="chart",
        role="img",
        aria_label=f"{title}. {said}",
    )
    more = f" {plural(found.count - len(shown), 'formula')} and " if found.count > COLUMNS else ""
    left = f"{more}{plural(len(every) - ROWS, 'term')} are not drawn." if len(every) > ROWS else ""
    if more and not left:
        left = f"{plural(found.count - len(shown), 'more formula')} are not drawn."
    caption = f"Which formula has which term, and the share of all that have it. {left}"
    return figure(drawing, caption, keys(("first", "in the best formula"), ("second", "not in it")))


def _row(a: int) -> int:
    return TOP + ROW * a


def _cells(order: list[Monomial], has: list[set[Monomial]], own: set[Monomial], mine: bool) -> str:
    """Return the squares of the terms that the best formula has, or of those that it has not."""
    width = (WIDTH - SHARES - RIGHT - LABELS) / len(has)
    gap = min(2.0, 0.2 * width)
    return "".join(
        f"M{LABELS + width * b:.2f} {_row(a) + 2}h{width - gap:.2f}v{ROW - 4}h{gap - width:.2f}z"
        for a, m in enumerate(order)
        for b, terms in enumerate(has)
        if m in terms and (m in own) == mine
    )
