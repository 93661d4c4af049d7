"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from polysharp.polynomial.response import response_curve, response_surface
from polysharp.progress import plural
from polysharp.report import figures, sizes, tables, words
from polysharp.report.facts import Facts
from polysharp.report.html import Child, Html, join, tag
from polysharp.report.pieces import code, definitions, figure, key

MAX_CURVES = 9
MAX_SURFACES = 3
DEFINING = ("degree", "max_terms", "max_inputs", "gamma")


def sections(facts: Facts) -> list[tuple[str, str, Html]]:
    """Return (name, heading, content) of every section that has something to say."""
    written: list[tuple[str, str, Callable[[Facts], Html | None]]] = [
        ("Certificate", "What was proved", certificate),
        ("Terms", "The terms", terms),
        ("Size", "Accuracy against size", sizes.size),
        ("Accuracy", "How well it predicts", accuracy),
        ("Inputs", "Which inputs matter", inputs),
        ("Response", "What the formula does", response),
        ("Data", "The data", data),
        ("Reproduce", "How to reproduce it", reproduce),
    ]
    found = [(name, heading, write(facts)) for name, heading, write in written]
    return [(name, heading, content) for name, heading, content in found if content is not None]


def certificate(facts: Facts) -> Html:
    """What the proof covers, and what it does not say."""
    solution = facts.solution
    words_ = tag(
        "div",
        [tag("p", sentence) for sentence in words.statement(facts)],
        tag("h3", "What this does not say"),
        tag("ul", [tag("li", sentence) for sentence in words.limits(facts)]),
        tag("p", words.objective(facts), class_="quiet"),
        tag("p", words.effort(facts), class_="quiet"),
        _proof(facts),
    )
    lines = key(("first", "best model so far"), ("second", "proven lower bound"))
    traced = solution.trace  # a model that was read from a file has none
    numbers = tag(
        "div",
        definitions(
            [
                ("objective", words.number(solution.objective)),
                ("proven lower bound", words.at_most(solution.bound)),
                ("gap", words.percent(solution.gap)),
                ("covers", _scope(facts)),
            ]
        ),
        figure(figures.gap(facts), "Where the best objective could be, over time.", lines)
        if traced
        else None,
    )
    return tag("div", words_, numbers, class_="beside")


def terms(facts: Facts) -> Html:
    """The terms with their coefficients and shares."""
    return join(
        tag(
            "p",
            "Coefficients are in the units of the table",
            "; in every product the means are subtracted first"
            if facts.polynomial.shifts is not None
            else None,
            ". The share of a term is its covariance with the prediction over the rows, in parts "
            "of the variance of the prediction: shares add up to 100\N{NO-BREAK SPACE}%, and a "
            "negative one belongs to a term that mostly cancels others.",
        ),
        _stability(facts),
        tables.terms(facts),
    )


def _stability(facts: Facts) -> Html | None:
    if facts.stability is None:
        return None
    return tag(
        "p",
        f"The last column is the share of {facts.stability.n_resamples} bootstrap resamples of the "
        "rows whose best model found has the term. A low share often means that another term does "
        f"nearly the same work. {100 * facts.stability.same_model:.0f}\N{NO-BREAK SPACE}% of the "
        "resamples chose exactly these terms. These shares are no probabilities that a term is "
        "true.",
        None
        if facts.reference is None
        else " The resamples were fitted to the observed response, this model to a mean of models.",
    )


def accuracy(facts: Facts) -> Html:
    """Observed, predicted and what is left over."""
    shown = len(figures.drawn_rows(facts))
    rows = (
        f"{shown:,} evenly spaced rows of {facts.n:,} are drawn; the figures are of all."
        if shown < facts.n
        else f"All {facts.n:,} rows are drawn."
    )
    r2 = "" if facts.r2 is None else f"R² is {words.r_squared(facts.r2)}; the "
    return join(
        tag(
            "p",
            f"{r2 or 'The '}root mean squared error is {words.number(facts.rmse, 4)}, the largest "
            f"error {words.number(facts.largest_error, 4)}, on the {plural(facts.n, 'row')} "
            "given to this report. If the model was fitted to these rows, expect larger errors on "
            f"new ones. {rows}",
        ),
        tag(
            "div",
            figure(
                figures.predictions(facts),
                "Observed against predicted: the nearer to the line, the better.",
            ),
            figure(
                figures.residuals(facts),
                "Residuals: a pattern here is something the formula misses.",
            ),
            figure(figures.residual_histogram(facts), "How the residuals are distributed."),
            class_="figures",
        ),
    )


def inputs(facts: Facts) -> Html:
    """Importance in the model, and the ranking before it."""
    return tag("div", _in_formula(facts), _before_search(facts), class_="beside even")


def _in_formula(facts: Facts) -> Html:
    if not facts.importance.order:
        constant = "The formula is a constant: no input matters to it."
        return tag("div", tag("h3", "In the formula"), tag("p", constant, class_="quiet"))
    return tag(
        "div",
        tag("h3", "In the formula"),
        tag(
            "p",
            "The share of the variance of the predictions that would go if the input were held "
            "fixed, were the inputs to vary independently (total Sobol index). Interactions count "
            "for each of their inputs, so shares may add up to more than 100\N{NO-BREAK SPACE}%.",
            class_="quiet",
        ),
        tables.importance(facts),
    )


def _before_search(facts: Facts) -> Html:
    ranked = facts.model.ranking_ is not None
    return tag(
        "div",
        tag("h3", "Before the search"),
        tag(
            "p",
            "The score of each input in a kernel regression on all monomials (Algorithm 1 of the "
            "paper), in parts of their sum. ",
            "The search was given the best of these. "
            if ranked
            else "The search did not depend on it: every input was kept. ",
            "Inputs outside the formula are pale."
            if len(facts.polynomial.inputs) < facts.p
            else None,
            class_="quiet",
        ),
        tables.ranking(facts),
    )


def response(facts: Facts) -> Html | None:
    """Response curves and the strongest interactions."""
    order = facts.importance.order[:MAX_CURVES]
    if not order:
        return None
    curves = [response_curve(facts.polynomial, facts.rows.X, i) for i in order]
    return join(
        tag(
            "p",
            "One input moves over its observed range, all others stay at their medians; all curves "
            "share the vertical scale. The strokes at the foot are rows: where there are none, the "
            "curve is a guess.",
        ),
        tag(
            "div",
            [figure(figures.response_curve(facts, curve, curves), None) for curve in curves],
            class_="figures",
        ),
        _interactions(facts),
    )


def _interactions(facts: Facts) -> Html:
    names = facts.polynomial.names
    surfaces = []
    for pair, share in list(facts.importance.pairs.items())[:MAX_SURFACES]:
        surface = response_surface(facts.polynomial, facts.rows.X, pair)
        part = f"{100 * share:.1f}\N{NO-BREAK SPACE}% of the variance."
        caption = f"{names[pair[0]]} with {names[pair[1]]}: {part}"
        surfaces.append(figure(figures.response_surface(facts, surface), caption))
    if not surfaces:
        alone = "No term joins two inputs: their effects simply add up."
        return tag("p", alone, class_="quiet")
    return join(
        tag("h3", "The strongest interactions"),
        tag(
            "p",
            "Two inputs move together. The strength of an interaction is the share of the variance "
            "of the predictions that involves both inputs jointly, were the inputs to vary "
            "independently. Dots are rows: away from them the surface is a guess.",
        ),
        tag("div", surfaces, class_="figures"),
    )


def data(facts: Facts) -> Html:
    """The columns in numbers."""
    listed = max(tables.MAX_ROWS, len(facts.polynomial.inputs))
    more = facts.p - listed
    return join(
        tag(
            "p",
            f"{plural(facts.n, 'row')} and {plural(facts.p, 'input')}",
            ", weighted" if facts.rows.weights is not None else None,
            f"; {plural(more, 'further input')} not listed" if more > 0 else None,
            ". Fingerprint of the rows: ",
            tag("code", facts.fingerprint),
            ".",
        ),
        tables.data(facts),
    )


def reproduce(facts: Facts) -> Html:
    """Parameters, versions, command."""
    chosen = getattr(facts.model, "best_estimator_", None)
    weighted = facts.rows.weights is not None
    response = "y" if facts.reference is None else "reference"
    alone = facts.model if chosen is None else chosen
    own = [code(_python(alone, weighted, response))]
    if chosen is not None or facts.reference is not None:
        own.insert(0, tag("p", words.without_search(facts)))
    return join(
        [tag("h3", "Command"), code(facts.command)] if facts.command else None,
        tag("h3", "Python"),
        code(_python(facts.model, weighted)) if chosen is not None else None,
        own,
        tag(
            "details",
            tag("summary", "All parameters"),
            definitions(
                (name, tag("code", words.shown(value)))
                for name, value in [*facts.settings.items(), ("gamma used", facts.model.gamma_)]
            ),
        ),
        tag("h3", "Versions"),
        definitions(facts.versions),
    )


def _python(model: Any, weighted: bool, response: str = "y") -> str:
    """Return the fit in Python, with what defines the model and all that is not at its default."""
    name, given = type(model).__name__, model.get_params(deep=False)
    changed = [
        f"    {key}={words.shown(given[key])},\n"
        for key, known in inspect.signature(type(model)).parameters.items()
        if key in DEFINING or words.shown(given[key]) != words.shown(known.default)
    ]
    fit = f"model.fit(X, {response}{', sample_weight=weights' if weighted else ''})"
    call = f"model = {name}(\n{''.join(changed)})"
    return f"from polysharp import {name}\n\n{call}\n{fit}"


def _scope(facts: Facts) -> Child:
    if facts.solution.scope == "all-inputs":
        return f"all {plural(facts.p, 'input')}" if facts.p > 1 else "the one input"
    return f"{len(facts.model.kept_inputs_)} of {plural(facts.p, 'input')}"


def _proof(facts: Facts) -> Html | None:
    if facts.solution.proof is None:
        return None
    return tag(
        "p",
        "The bound comes with a proof that others can check without the code that found it: ",
        tag("code", "model.solution_.proof"),
        ", checked by ",
        tag("code", "polysharp.verify"),
        ".",
        class_="quiet",
    )
