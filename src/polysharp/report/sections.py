"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polysharp.estimators.stability import Stability
from polysharp.progress import plural
from polysharp.report import figures, words
from polysharp.report.facts import Facts
from polysharp.report.formula import coding, product
from polysharp.report.html import (
    Child,
    Html,
    bar,
    code,
    definitions,
    div,
    figure,
    h3,
    join,
    keys,
    p,
    quiet,
    span,
    table,
    tag,
)
from polysharp.report.meaning import inputs, response
from polysharp.report.responses import accuracies, shared_terms
from polysharp.report.rivals import rivals
from polysharp.report.sizes import size
from polysharp.typing import Monomial

DEFINING = ("degree", "max_terms", "max_inputs", "gamma")
MAX_ROWS = 40  # inputs of the data listed one by one


class Section(NamedTuple):
    """What the contents call it, its heading and its content."""

    name: str
    heading: str
    content: Html


def sections(facts: Facts) -> list[Section]:
    """Return every section that has something to say."""
    written: list[tuple[str, str, Callable[[Facts], Html | None]]] = [
        ("Certificate", "What was proved", certificate),
        ("Terms", "The terms", terms),
        ("Rivals", "What else could it be", rivals),
        ("Size", "Accuracy against size", size),
        ("Accuracy", "How well it predicts", accuracy),
        ("Inputs", "Which inputs matter", inputs),
        ("Response", "What the formula does", response),
        ("Data", "The data", data),
        ("Reproduce", "How to reproduce it", reproduce),
    ]
    if len(facts.shown) > 1:
        written = [
            ("Certificate", "What was proved", certificate),
            ("Terms", "The terms", shared_terms),
            ("Accuracy", "How well it predicts", accuracies),
            ("Data", "The data", data),
            ("Reproduce", "How to reproduce it", reproduce),
        ]
    found = [(name, heading, write(facts)) for name, heading, write in written]
    return [Section(name, head, content) for name, head, content in found if content is not None]


def certificate(facts: Facts) -> Html:
    """What the proof covers, and what it does not say."""
    solution = facts.solution
    said = div(
        [p(sentence) for sentence in words.statement(facts)],
        h3("What this does not say"),
        tag("ul", [tag("li", sentence) for sentence in words.limits(facts)]),
        quiet(words.objective(facts)),
        quiet(words.effort(facts)),
        None if solution.proof is None else quiet(words.PROOF),
    )
    numbers = [
        ("objective", words.number(solution.objective)),
        ("proven lower bound", words.at_most(solution.bound)),
        ("gap", words.percent(solution.gap)),
        ("covers", words.scope(facts)),
    ]
    lines = keys(("first", "best model so far"), ("second", "proven lower bound"))
    # A model that was read from a file has no course of its search.
    course = None
    if solution.trace:
        caption = "Where the best objective could be, over time."
        course = figure(figures.gap(facts), caption, lines)
    return div(said, div(definitions(numbers), course), class_="beside")


def terms(facts: Facts) -> Html:
    """Every term with its coefficient, what goes wrong without it, and how often it is picked."""
    polynomial, picked = facts.polynomial, facts.stability
    whole, without = facts.without
    largest = float((without - whole).max(initial=0.0))
    rows: list[list[Child]] = []
    given = facts.settings.get("units")
    units = None if given is None else polynomial.coefficient_units(given)
    for j in np.argsort(-without, kind="stable").tolist():
        name = span(product(polynomial, polynomial.monomials[j]) or "1", class_="maths")
        number = words.number(float(polynomial.coefficients[j]))
        rows.append([name, number if units is None else join(number, f" {units[j]}")])
        rows[-1] += [bar(without[j] - whole, largest), words.number(float(without[j]), 4)]
        if picked is not None:
            rows[-1] += _over_resamples(picked, polynomial.monomials[j])
    if polynomial.intercept != 0.0 or not rows:
        nothing = [None] * (5 if picked else 2)
        rows.append(
            [span("intercept", class_="quiet"), words.number(polynomial.intercept), *nothing]
        )
    head: list[Child] = ["term", "coefficient", "", "error without it"]
    head += ["without ridge", "90\N{NO-BREAK SPACE}% of resamples", "picked"] if picked else []
    return join(
        p(
            "Coefficients are in the units of the table",
            f"; {coding(polynomial)}" if coding(polynomial) else None,
            ". Beside each stands the typical error, in the units of ",
            tag("var", polynomial.response),
            ", that remains when the term is left out and all others are fitted anew to the rows "
            f"shown; with all terms it is {words.number(whole, 4)}. A term that costs little to "
            "leave out may still be needed: others may only be able to stand in for it here.",
        ),
        None if picked is None else p(words.resamples(facts)),
        table(head, rows, "Terms of the formula"),
    )


def _over_resamples(picked: Stability, monomial: Monomial) -> list[Child]:
    """Return the coefficient without ridge, its interval over the resamples, and its share."""
    if monomial not in picked.monomials:
        return [None, None, words.percent(0.0)]
    at = picked.monomials.index(monomial)
    low, high = (words.number(float(end), 4) for end in picked.intervals()[at])
    share = f"{100 * float(picked.shares[at]):.0f}\N{NO-BREAK SPACE}%"
    return [words.number(float(picked.without_ridge[at]), 4), f"{low} to {high}", share]


def accuracy(facts: Facts) -> Html:
    """Observed, predicted and what is left over; held-out rows and other methods beside them."""
    rows = facts.rows
    shown = len(figures.drawn_rows(rows))
    drawn = (
        f"{shown:,} evenly spaced rows of {facts.n:,} are drawn; the figures are of all."
        if shown < facts.n
        else f"All {facts.n:,} rows are drawn."
    )
    largest = words.number(float(np.abs(rows.residuals).max()), 4)
    colours = None
    if facts.held_out is not None:
        colours = keys(("first", "rows of the fit"), ("second", "held-out rows"))
    return join(
        p(
            f"{words.accuracy(rows)}, the largest error {largest}, on the "
            f"{plural(facts.n, 'row')} given to this report. ",
            "If the model was fitted to these rows, expect larger errors on new ones. "
            if facts.held_out is None
            else f"On {plural(facts.held_out.n, 'held-out row')}, which the fit has not seen: "
            f"{words.accuracy(facts.held_out)}. ",
            drawn,
        ),
        None if (said := words.intervals(facts)) is None else p(said),
        _peers(facts),
        div(
            figure(
                figures.predictions(facts),
                "Observed against predicted: the nearer to the line, the better.",
                colours,
            ),
            figure(
                figures.residuals(facts),
                "Residuals: a pattern here is something the formula misses.",
                colours,
            ),
            figure(figures.residual_histogram(facts), "How the residuals are distributed."),
            class_="figures",
        ),
    )


def _peers(facts: Facts) -> Html | None:
    """Errors of other methods on the same rows, all by cross-validation."""
    if not facts.peers:
        return None
    found = [(peer.name, peer.error, peer.std_error) for peer in facts.peers]
    if facts.validation is not None:
        found.insert(
            0, (f"this formula, {plural(len(facts.polynomial), 'term')}", *facts.validation)
        )
    rows = [[name, f"{words.number(e, 4)} ± {words.number(s, 2)}"] for name, e, s in found]
    return join(
        h3("Beside other methods"),
        p(words.PEERS),
        table(["method", "error on rows not seen"], rows, "Errors of other methods"),
    )


def data(facts: Facts) -> Html:
    """The columns in numbers: those of the formula and then the others, as far as they fit."""
    polynomial, X = facts.polynomial, facts.rows.X
    used = list(polynomial.inputs)
    others = [i for i in range(facts.p) if i not in set(used)]
    listed = [*used, *others][: max(MAX_ROWS, len(used))]
    rows = [
        _column(f"{each.polynomial.response} (response)", each.rows.observed, "")
        for each in facts.shown
    ]
    rows += [_column(polynomial.names[i], X[:, i], "yes" if i in used else "no") for i in listed]
    more = facts.p - len(listed)
    head = ("column", "distribution", "minimum", "median", "mean", "maximum", "std", "in formula")
    return join(
        p(
            f"{plural(facts.n, 'row')} and {plural(facts.p, 'input')}",
            ", weighted" if facts.rows.weights is not None else None,
            f"; {plural(more, 'further input')} not listed" if more > 0 else None,
            ". Fingerprint of the rows: ",
            tag("code", facts.fingerprint),
            ".",
        ),
        table(head, rows, "Columns of the data"),
    )


def _column(name: str, values: np.ndarray, used: str) -> list[Child]:
    numbers = (values.min(), np.median(values), values.mean(), values.max(), values.std())
    return [name, figures.sparkline(values), *(words.number(float(v), 4) for v in numbers), used]


def reproduce(facts: Facts) -> Html:
    """Parameters, versions, command."""
    chosen = getattr(facts.model, "best_estimator_", None)
    weighted = facts.rows.weights is not None
    target = "y" if facts.reference is None else "reference"
    kind = type(facts.model if chosen is None else chosen)
    own = [code(_python(kind, facts.settings, weighted, target))]
    if chosen is not None or facts.reference is not None:
        own.insert(0, p(words.without_search(facts)))
    search = facts.model.get_params(deep=False)
    parameters = [*facts.settings.items(), ("gamma used", facts.model.gamma_)]
    return join(
        [h3("Command"), code(facts.command)] if facts.command else None,
        h3("Python"),
        None if chosen is None else code(_python(type(facts.model), search, weighted)),
        own,
        tag(
            "details",
            tag("summary", "All parameters"),
            definitions((name, tag("code", words.shown(value))) for name, value in parameters),
        ),
        h3("Versions"),
        definitions(facts.versions),
    )


def _python(kind: type, given: dict[str, Any], weighted: bool, response: str = "y") -> str:
    """Return the fit in Python, with what defines the model and all that is not at its default."""
    name = kind.__name__
    changed = [
        f"    {key}={words.shown(given[key])},\n"
        for key, known in inspect.signature(kind).parameters.items()
        if key in DEFINING or words.shown(given[key]) != words.shown(known.default)
    ]
    fit = f"model.fit(X, {response}{', sample_weight=weights' if weighted else ''})"
    call = f"model = {name}(\n{''.join(changed)})"
    return f"from polysharp import {name}\n\n{call}\n{fit}"
