"""What the formula means: which inputs matter, what it does as they move, which ones interact."""

from __future__ import annotations

from polysharp.polynomial.response import response_curve, response_surface
from polysharp.report import figures
from polysharp.report.facts import Facts
from polysharp.report.html import Html, bar, bars, div, figure, h3, join, p, quiet, table, tag

MAX_CURVES = 9
MAX_SURFACES = 3
MAX_RANKED = 15


def inputs(facts: Facts) -> Html:
    """Importance in the model, and the ranking before it."""
    return div(_in_formula(facts), _before_search(facts), class_="beside even")


def _in_formula(facts: Facts) -> Html:
    found, names = facts.importance, facts.polynomial.names
    if not facts.importance.order:
        constant = "The formula is a constant: no input matters to it."
        return div(h3("In the formula"), quiet(constant))
    return div(
        h3("In the formula"),
        quiet(
            "In all: the share of the variance of the predictions that would go if the input were "
            "held fixed, were the inputs to vary independently (total Sobol index). Interactions "
            "count for each of their inputs, so shares may add up to more than "
            "100\N{NO-BREAK SPACE}%. Alone: what the input does by itself (first-order index). "
            "Over the rows: what terms without the input cannot make up for on the rows as they "
            "are; small where other inputs stand in for this one. None of them is about causes."
        ),
        table(
            ["input", "", "in all", "alone", "over the rows"],
            [
                [
                    names[i],
                    bar(found.inputs[i], found.inputs.max()),
                    *(_percent(shares[i]) for shares in (found.inputs, found.first, found.data)),
                ]
                for i in found.order
            ],
            "Importance of the inputs in the model",
        ),
    )


def _before_search(facts: Facts) -> Html:
    scores, names, used = facts.ranking.scores, facts.polynomial.names, facts.polynomial.inputs
    order = facts.ranking.order[:MAX_RANKED].tolist()
    total = float(scores.sum()) or 1.0
    return div(
        h3("Before the search"),
        quiet(
            "The score of each input in a kernel regression on all monomials (Algorithm 1 of the "
            "paper), in parts of their sum. ",
            "The search was given the best of these. "
            if facts.model.ranking_ is not None
            else "The search did not depend on it: every input was kept. ",
            "Inputs outside the formula are pale." if len(used) < facts.p else None,
        ),
        bars(
            [(names[i], float(scores[i]), _percent(scores[i] / total)) for i in order],
            "Ranking of the inputs",
            frozenset(a for a, i in enumerate(order) if i not in used),
        ),
    )


def response(facts: Facts) -> Html | None:
    """Response curves and the strongest interactions."""
    order = facts.importance.order[:MAX_CURVES]
    if not order:
        return None
    curves = [response_curve(facts.polynomial, facts.rows.X, i) for i in order]
    return join(
        p(
            "One input moves over its observed range, all others stay at their medians. Every "
            "curve has a vertical scale of its own: its caption says how far it runs. The strokes "
            "at the foot are rows: where there are none, the curve is a guess."
        ),
        div([figures.response_curve(facts, curve) for curve in curves], class_="figures"),
        _interactions(facts),
        _stationary(facts),
    )


def _stationary(facts: Facts) -> Html:
    lines = str(facts.stationary).splitlines()
    return join(
        h3("Where it has no slope"),
        tag("ul", [tag("li", f"{line[0].upper()}{line[1:]}.") for line in lines]),
        quiet(
            "Of the formula, not of the process: outside the range seen such a point is a guess, "
            "and where the surface is nearly flat a little noise moves it far. ",
            None if facts.stationary.exact else "Found by numerical search: there may be others.",
        ),
    )


def _interactions(facts: Facts) -> Html:
    names = facts.polynomial.names
    surfaces = []
    for pair, share in list(facts.importance.pairs.items())[:MAX_SURFACES]:
        surface = response_surface(facts.polynomial, facts.rows.X, pair)
        caption = f"{names[pair[0]]} with {names[pair[1]]}: {_percent(share)} of the variance."
        surfaces.append(figure(figures.response_surface(facts, surface), caption))
    if not surfaces:
        return quiet("No term joins two inputs: their effects simply add up.")
    return join(
        h3("The strongest interactions"),
        p(
            "Two inputs move together. The strength of an interaction is the share of the variance "
            "of the predictions that involves both inputs jointly, were the inputs to vary "
            "independently. Dots are rows: away from them the surface is a guess."
        ),
        div(surfaces, class_="figures"),
    )


def _percent(share: float) -> str:
    return f"{100.0 * float(share):.1f}\N{NO-BREAK SPACE}%"
