"""What else could it be: the formulas that come close, as a picture of terms by formulas.

A row is a term, a column a formula, the cheapest to the left; a square says that the formula has
the term.  Rows that are full are terms that every formula needs; two rows of which one begins where
the other ends are terms that stand in for each other.
"""

from __future__ import annotations

from dataclasses import replace

from polysharp.estimators.rivals_found import Rivals
from polysharp.estimators.rivals_tally import Swap
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
    means = " In every product the means are subtracted first." if _centred(found) else ""
    return join(
        p(
            f"{found.claim}. A formula counts here if it has as many terms as this one, keeps the "
            "same rules and costs hardly more on the same rows, the penalty on large coefficients "
            f"included.{means}",
        ),
        p(
            "Terms that all of them have are those that these rows insist on. Where they differ, "
            "the rows cannot tell: the choice between them is a matter of taste, of other rows or "
            "of what is known about the subject. None of this says which of them is true.",
        ),
        _always(found),
        None if alone else div(_picture(found), _replaced(found), class_="beside even"),
    )


def _centred(found: Rivals) -> bool:
    return found.best.shifts is not None


def _short(found: Rivals) -> dict[str, str]:
    """Names of terms without the means, which would leave no room for anything else."""
    every = sorted({m for one in found for m in one.monomials})
    plain = replace(found.best, shifts=None)
    return dict(zip(found.best.names_of(every), plain.names_of(every), strict=True))


def _always(found: Rivals) -> Html:
    short = _short(found)
    terms = ", ".join(short.get(name, name) for name in found.indispensable.terms)
    inputs = ", ".join(found.indispensable.inputs)
    return p(f"In every one of them: the terms {terms or 'none'}; the inputs {inputs or 'none'}.")


def _replaced(found: Rivals) -> Html:
    """What stands in for what, terms first."""
    short = _short(found)
    rows: list[list[Child]] = [
        [short[name], f"+{percent(swaps[0].excess)}", _ways(swaps, short)]
        for name, swaps in found.replaceable.terms.items()
    ]
    rows += [
        [f"input {name}", f"+{percent(swaps[0].excess)}", _ways(swaps, {})]
        for name, swaps in found.replaceable.inputs.items()
    ]
    head = ["of the best formula", "for", "its place can be taken by"]
    return div(h3("What can stand in for what"), table(head, rows, "Replacements"))


def _ways(swaps: tuple[Swap, ...], short: dict[str, str]) -> str:
    said = [
        " and ".join(short.get(name, name) for name in swap.into) or "no further input"
        for swap in swaps[:WAYS]
    ]
    if len(swaps) > WAYS:
        said.append(f"{len(swaps) - WAYS} more")
    return ", or ".join(said)


def _picture(found: Rivals) -> Html:
    """Draw terms by formulas."""
    shown = found.polynomials[:COLUMNS]
    own, has = set(found.best.monomials), [set(one.monomials) for one in shown]
    every = sorted({m for terms in has for m in terms}, key=lambda m: (len(m), m))
    names = dict(zip(every, found.best.names_of(every), strict=True))
    share = {m: found.shares.terms[name] for m, name in names.items()}
    order = sorted(every, key=lambda m: (-share[m], m not in own))[:ROWS]
    short = _short(found)
    labels = [
        join(
            tag(
                "text",
                shorten(short[names[m]], 20),
                x=LABELS - 8,
                y=_row(a) + 15,
                text_anchor="end",
            ),
            tag("text", f"{100 * share[m]:.0f} %", x=WIDTH, y=_row(a) + 15, text_anchor="end"),
        )
        for a, m in enumerate(order)
    ]
    height, last = TOP + ROW * len(order) + FOOT, float(found.excess[len(shown) - 1])
    said = f"{plural(len(shown), 'formula')}, the best one first, the last at +{percent(last)}"
    title = "Terms by formulas"
    drawing = tag(
        "svg",
        tag("title", title),
        tag("desc", said),
        tag("path", d=_cells(order, has, own, True), class_="cells first"),
        tag("path", d=_cells(order, has, own, False), class_="cells second"),
        tag("g", labels, aria_hidden="true"),
        tag("text", said, x=WIDTH / 2, y=height - 14, text_anchor="middle", class_="name"),
        viewBox=f"0 0 {WIDTH} {height}",
        class_="chart",
        role="img",
        aria_label=f"{title}. {said}",
    )
    hidden = found.count - len(shown), len(every) - len(order)
    left = [plural(n, what) for n, what in zip(hidden, ("formula", "term"), strict=True) if n]
    caption = "Which formula has which term, and the share of all that have it."
    if left:
        caption += f" Not drawn: {' and '.join(left)}."
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
