"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from polysharp.progress import plural
from polysharp.report import figures, words
from polysharp.report import html as h
from polysharp.report.facts import Facts
from polysharp.report.html import Child, Html, say, span, tag
from polysharp.report.meaning import inputs, response
from polysharp.report.rivals import rivals
from polysharp.report.sizes import size
from polysharp.typing import Monomial

DEFINING = ("degree", "max_terms", "max_inputs", "gamma")
MAX_ROWS = 40  # inputs of the data listed one by one
MOST_FIGURES = 12  # responses whose predictions are drawn, the first ones


def sections(facts: Facts) -> list[tuple[str, str, Html]]:
    """Return name, heading and content of every section that has something to say."""
    written: list[tuple[str, str, Callable[[Facts], Html | None] | None]] = [
        ("Certificate", "What was proved", certificate),
        ("Terms", "The terms", shared_terms if facts.several else terms),
        ("Rivals", "What else could it be", None if facts.several else rivals),
        ("Size", "Accuracy against size", None if facts.several else size),
        ("Accuracy", "How well it predicts", accuracies if facts.several else accuracy),
        ("Inputs", "Which inputs matter", None if facts.several else inputs),
        ("Response", "What the formula does", None if facts.several else response),
        ("Data", "The data", data),
        ("Reproduce", "How to reproduce it", reproduce),
    ]
    found = [(name, heading, write and write(facts)) for name, heading, write in written]
    return [(name, heading, content) for name, heading, content in found if content is not None]


def certificate(facts: Facts) -> Html:
    """What the proof covers, and what it does not say."""
    solution = facts.solution
    said = h.div(
        [h.p(sentence) for sentence in words.statement(facts)],
        h.h3("What this does not say"),
        tag("ul", [tag("li", sentence) for sentence in words.limits(facts)]),
        h.quiet(words.objective(facts)),
        h.quiet(words.effort(facts)),
        None if solution.proof is None else h.quiet(say("proof")),
    )
    numbers = [
        ("objective", words.number(solution.objective)),
        ("proven lower bound", words.at_most(solution.bound)),
        ("gap", words.percent(solution.gap)),
        ("covers", words.scope(facts)),
    ]
    course = None
    if solution.trace:  # a model that was read from a file has no course of its search
        lines = h.keys(("first", "best model so far"), ("second", "proven lower bound"))
        caption = "Where the best objective could be, over time."
        course = h.figure(figures.gap(facts), caption, lines)
    return h.div(said, h.div(h.definitions(numbers), course), class_="beside")


def terms(facts: Facts) -> Html:
    """Every term with its coefficient, what goes wrong without it, and how often it is picked."""
    polynomial, picked = facts.polynomial, facts.stability
    whole, without = facts.without
    largest = float((without - whole).max(initial=0.0))
    rows: list[list[Child]] = []
    given = facts.settings.get("units")
    units = None if given is None else polynomial.coefficient_units(given)
    for j in np.argsort(-without, kind="stable").tolist():
        number = words.number(float(polynomial.coefficients[j]))
        unit = None if units is None else f" {units[j]}"
        rows.append([_term(facts, polynomial.monomials[j]), h.join(number, unit)])
        rows[-1] += [h.bar(without[j] - whole, largest), words.number(float(without[j]), 4)]
        rows[-1] += _over_resamples(facts, polynomial.monomials[j])
    if polynomial.intercept != 0.0 or not rows:
        nothing = [None] * (5 if picked else 2)
        rows.append([_intercept(), words.number(polynomial.intercept), *nothing])
    head: list[Child] = ["term", "coefficient", "", "error without it"]
    head += ["without ridge", f"90{words.NBSP}% of resamples", "picked"] if picked else []
    response, error = tag("var", polynomial.response), words.number(whole, 4)
    return h.join(
        h.p(say("terms", centred=_centred(facts), response=response, whole=error)),
        words.resamples(facts),
        h.table(head, rows, "Terms of the formula"),
    )


def shared_terms(facts: Facts) -> Html:
    """Every term with its coefficient in each of several responses."""
    laws = [each.polynomial for each in facts.shown]
    rows: list[list[Child]] = [
        [_term(facts, m), *(words.number(float(law.coefficients[j])) for law in laws)]
        for j, m in enumerate(facts.polynomial.monomials)
    ]
    rows.append([_intercept(), *(words.number(law.intercept) for law in laws)])
    head = ["term", *(tag("var", law.response) for law in laws)]
    return h.join(
        h.p(say("shared_terms", centred=_centred(facts))), h.table(head, rows, "Terms by response")
    )


def _term(facts: Facts, monomial: Monomial) -> Html:
    return span(words.product(facts.polynomial, monomial) or "1", class_="maths")


def _intercept() -> Html:
    return span("intercept", class_="quiet")


def _centred(facts: Facts) -> Html | None:
    return None if facts.polynomial.shifts is None else say("centred")


def _over_resamples(facts: Facts, monomial: Monomial) -> list[Child]:
    """Return the coefficient without ridge, its interval over the resamples, and its share."""
    picked = facts.stability
    if picked is None:
        return []
    if monomial not in picked.monomials:
        return [None, None, words.percent(0.0)]
    at = picked.monomials.index(monomial)
    low, high = (words.number(float(end), 4) for end in picked.intervals()[at])
    share = f"{100 * float(picked.shares[at]):.0f}{words.NBSP}%"
    return [words.number(float(picked.without_ridge[at]), 4), f"{low} to {high}", share]


def accuracy(facts: Facts) -> Html:
    """Observed, predicted and what is left over; held-out rows and other methods beside them."""
    rows, held_out, shown = facts.rows, facts.held_out, len(figures.drawn_rows(facts.rows))
    said: dict[str, Child] = {
        "accuracy": words.accuracy(rows),
        "largest": words.number(float(np.abs(rows.residuals).max()), 4),
        "rows": plural(facts.n, "row"),
        "new": say("new_rows"),
        "drawn": f"{shown:,} evenly spaced rows of {facts.n:,} are drawn; the figures are of all."
        if shown < facts.n
        else f"All {facts.n:,} rows are drawn.",
    }
    if held_out is not None:
        seen = plural(held_out.n, "held-out row")
        said["new"] = say("held_out", rows=seen, accuracy=words.accuracy(held_out))
    drawn = [
        (figures.predictions, "Observed against predicted: the nearer to the line, the better."),
        (figures.residuals, "Residuals: a pattern here is something the formula misses."),
    ]
    histogram = figures.residual_histogram(facts)
    return h.join(
        h.p(say("accuracy", **said)),
        words.intervals(facts),
        _peers(facts),
        h.div(
            [h.figure(draw(facts), caption, _colours(facts)) for draw, caption in drawn],
            h.figure(histogram, "How the residuals are distributed."),
            class_="figures",
        ),
    )


def accuracies(facts: Facts) -> Html:
    """Errors of each of several responses, and predictions against what was observed."""
    head: list[Child] = ["response", "R²", "typical error"]
    head += ["R², held-out rows", "typical error, held-out rows"] if facts.held_out else []
    rows: list[list[Child]] = []
    for each in facts.shown:
        rows.append([tag("var", each.polynomial.response)])
        for part in filter(None, (each.rows, each.held_out)):
            rows[-1] += [words.r_squared(part.r2), words.number(part.rmse, 4)]
    some = facts.shown[:MOST_FIGURES]
    drawn = f"Of {len(facts.shown)} responses the first {len(some)} are drawn."
    said: dict[str, Child] = {
        "rows": plural(facts.n, "row"),
        "new": None if facts.held_out else say("new_rows"),
        "drawn": drawn if len(some) < len(facts.shown) else None,
    }
    pictures = [
        h.figure(figures.predictions(each), each.polynomial.response, _colours(facts))
        for each in some
    ]
    return h.join(
        h.p(say("accuracies", **said)),
        h.table(head, rows, "Errors by response"),
        h.div(pictures, class_="figures"),
    )


def _colours(facts: Facts) -> Html | None:
    if facts.held_out is None:
        return None
    return h.keys(("first", "rows of the fit"), ("second", "held-out rows"))


def _peers(facts: Facts) -> Html | None:
    """Errors of other methods on the same rows, all by cross-validation."""
    if not facts.peers:
        return None
    found = [(peer.name, peer.error, peer.std_error) for peer in facts.peers]
    if facts.validation is not None:
        own = f"this formula, {plural(len(facts.polynomial), 'term')}"
        found.insert(0, (own, *facts.validation))
    rows = [[name, f"{words.number(e, 4)} ± {words.number(s, 2)}"] for name, e, s in found]
    return h.join(
        h.h3("Beside other methods"),
        h.p(say("peers")),
        h.table(["method", "error on rows not seen"], rows, "Errors of other methods"),
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
    said: dict[str, Child] = {
        "rows": plural(facts.n, "row"),
        "inputs": plural(facts.p, "input"),
        "weighted": ", weighted" if facts.rows.weights is not None else None,
        "more": f"; {plural(more, 'further input')} not listed" if more > 0 else None,
        "fingerprint": tag("code", facts.fingerprint),
    }
    head = ("column", "distribution", "minimum", "median", "mean", "maximum", "std", "in formula")
    return h.join(h.p(say("data", **said)), h.table(head, rows, "Columns of the data"))


def _column(name: str, values: np.ndarray, used: str) -> list[Child]:
    numbers = (values.min(), np.median(values), values.mean(), values.max(), values.std())
    return [name, figures.sparkline(values), *(words.number(float(v), 4) for v in numbers), used]


def reproduce(facts: Facts) -> Html:
    """Parameters, versions, command."""
    chosen = getattr(facts.model, "best_estimator_", None)
    weighted = facts.rows.weights is not None
    target = "y" if facts.reference is None else "reference"
    kind = type(facts.model if chosen is None else chosen)
    own = [h.code(_python(kind, facts.settings, weighted, target))]
    if chosen is not None or facts.reference is not None:
        own.insert(0, h.p(say("chosen" if facts.reference is None else "chosen_reference")))
    search = facts.model.get_params(deep=False)
    parameters = [*facts.settings.items(), ("gamma used", facts.model.gamma_)]
    return h.join(
        [h.h3("Command"), h.code(facts.command)] if facts.command else None,
        h.h3("Python"),
        None if chosen is None else h.code(_python(type(facts.model), search, weighted)),
        own,
        tag(
            "details",
            tag("summary", "All parameters"),
            h.definitions((name, tag("code", words.shown(value))) for name, value in parameters),
        ),
        h.h3("Versions"),
        h.definitions(facts.versions),
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
