"""The top of a report: formula, verdict, and the numbers that everybody asks for."""

from __future__ import annotations

from math import isfinite

from polysharp.report import words
from polysharp.report.facts import Facts
from polysharp.report.formula import formula
from polysharp.report.html import Html, join, tag
from polysharp.report.pieces import code


def opening(facts: Facts) -> Html:
    """The formula, the verdict and the numbers that everybody asks for."""
    polynomial = facts.polynomial
    tiles = [
        ("terms", str(len(polynomial)), None),
        ("inputs used", str(len(polynomial.inputs)), f"of {facts.p}"),
        ("R²", words.r_squared(facts.r2), None),
        ("typical error", words.number(facts.rmse, 3), "root mean square"),
        *_validation(facts),
        (
            "gap",
            words.percent(facts.solution.gap),
            f"asked for {words.percent(facts.solution.gap_tol)}",
        ),
    ]
    return tag(
        "section",
        tag(
            "p",
            words.verdict(facts),
            class_="badge good" if facts.proved else "badge open",
        ),
        formula(polynomial),
        tag(
            "ul",
            [
                tag(
                    "li",
                    tag("span", name, class_="label"),
                    tag("span", value, class_="figure"),
                    tag("span", note, class_="note") if note else None,
                )
                for name, value, note in tiles
            ],
            class_="tiles",
        ),
        copies(facts),
        class_="opening",
        aria_label="The formula",
    )


def copies(facts: Facts) -> Html:
    """The formula to take away, as text, LaTeX and Python."""
    polynomial = facts.polynomial
    forms = [
        ("Text", polynomial.formula(digits=17)),
        ("LaTeX", polynomial.to_latex()),
        ("Python", polynomial.to_python()),
    ]
    return tag(
        "details",
        tag("summary", "Copy the formula: text, LaTeX, Python"),
        [join(tag("h3", name), code(text)) for name, text in forms],
        class_="copies",
    )


def _validation(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the error on rows not seen, where it was estimated."""
    if facts.place is None:
        return []
    curve, at = facts.place
    if curve.validation_error is None or curve.std_error is None:
        return []
    if not isfinite(curve.validation_error[at]):
        return []
    spread = f"± {words.number(float(curve.std_error[at]), 2)}, rows not seen"
    return [("validation error", words.number(float(curve.validation_error[at]), 3), spread)]
