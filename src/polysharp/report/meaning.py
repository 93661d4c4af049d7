"""What the formula means: which inputs matter, what it does as they move, which ones interact."""

from __future__ import annotations

from polysharp.polynomial.response import response_curve, response_surface
from polysharp.report import figures
from polysharp.report.facts import Facts
from polysharp.report.html import Html, bar, bars, div, figure, h3, join, p, quiet, say, table, tag

MAX_CURVES = 9
MAX_SURFACES = 3
MAX_RANKED = 15


def inputs(facts: Facts) -> Html:
    """Importance in the model, and the ranking before it."""
    return div(_in_formula(facts), _before_search(facts), class_="beside even")


def _in_formula(facts: Facts) -> Html:
    found, names = facts.importance, facts.polynomial.names
    if not found.order:
        return div(h3("In the formula"), quiet(say("constant")))
    rows = [
        [
            names[i],
            bar(found.inputs[i], found.inputs.max()),
            *(_percent(shares[i]) for shares in (found.inputs, found.first, found.data)),
        ]
        for i in found.order
    ]
    head = ["input", "", "in all", "alone", "over the rows"]
    shown = table(head, rows, "Importance of the inputs in the model")
    return div(h3("In the formula"), quiet(say("importance")), shown)


def _before_search(facts: Facts) -> Html:
    scores, names, used = facts.ranking.scores, facts.polynomial.names, facts.polynomial.inputs
    order = facts.ranking.order[:MAX_RANKED].tolist()
    total = float(scores.sum()) or 1.0
    given = "ranking_idle" if facts.model.ranking_ is None else "ranking_given"
    pale = say("ranking_pale") if len(used) < facts.p else None
    return div(
        h3("Before the search"),
        quiet(say("ranking", given=say(given), pale=pale)),
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
    lines = str(facts.stationary).splitlines()
    return join(
        p(say("response")),
        div([figures.response_curve(facts, curve) for curve in curves], class_="figures"),
        _interactions(facts),
        h3("Where it has no slope"),
        tag("ul", [tag("li", f"{line[0].upper()}{line[1:]}.") for line in lines]),
        quiet(say("stationary", search=None if facts.stationary.exact else say("numerical"))),
    )


def _interactions(facts: Facts) -> Html:
    names = facts.polynomial.names
    surfaces = []
    for pair, share in list(facts.importance.pairs.items())[:MAX_SURFACES]:
        surface = response_surface(facts.polynomial, facts.rows.X, pair)
        caption = f"{names[pair[0]]} with {names[pair[1]]}: {_percent(share)} of the variance."
        surfaces.append(figure(figures.response_surface(facts, surface), caption))
    if not surfaces:
        return quiet(say("no_interaction"))
    heading = h3("The strongest interactions")
    return join(heading, p(say("interactions")), div(surfaces, class_="figures"))


def _percent(share: float) -> str:
    return f"{100.0 * float(share):.1f}\N{NO-BREAK SPACE}%"
