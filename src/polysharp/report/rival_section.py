"""What else could it be: the formulas that come close, as a picture of terms by formulas.

A row is a term, a column a formula, the cheapest to the left; a square says that the formula has
the term.  Rows that are full are terms that every formula needs; two rows of which one begins where
the other ends are terms that stand in for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from markupsafe import Markup

from polysharp.estimators.rivals_found import Rivals, Swap
from polysharp.report.chart import RIGHT, TOP, WIDTH, shorten, svg
from polysharp.report.markup import tag
from polysharp.typing import Monomial
from polysharp.wording import percent, plural

COLUMNS, ROWS = 50, 24  # formulas and terms that are drawn, at most
LABELS, SHARES, ROW, FOOT = 140, 44, 21, 42  # units of the drawing
WAYS = 3  # replacements named for each term


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
    ways = [(short[name], swaps, short) for name, swaps in terms.items()]
    ways += [(f"input {name}", swaps, {}) for name, swaps in inputs.items()]
    return [[name, f"+{percent(s[0].excess)}", _ways(s, known)] for name, s, known in ways]


def _ways(swaps: tuple[Swap, ...], short: Mapping[str, str]) -> str:
    said = [
        " and ".join(short.get(name, name) for name in swap.into) or "no further input"
        for swap in swaps[:WAYS]
    ]
    if len(swaps) > WAYS:
        said.append(f"{len(swaps) - WAYS} more")
    return ", or ".join(said)


def draw(found: Rivals, short: Mapping[str, str]) -> Markup:
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
