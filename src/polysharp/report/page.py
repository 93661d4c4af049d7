"""The page around the sections: head, policy, style, header, contents, footer."""

from __future__ import annotations

from importlib.resources import files

from polysharp import __version__
from polysharp.progress import plural
from polysharp.report.facts import Facts
from polysharp.report.html import Html, join, tag
from polysharp.report.opening import opening
from polysharp.report.sections import sections

# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(facts: Facts) -> str:
    """Return the whole document."""
    parts = sections(facts)
    body = tag(
        "body",
        tag("header", _header(facts), _contents(parts)),
        tag("main", opening(facts), [_section(*part) for part in parts]),
        tag("footer", tag("p", f"Written by polysharp {__version__} on {facts.written}.")),
    )
    return "<!DOCTYPE html>\n" + tag("html", _head(facts), body, lang="en") + "\n"


def _head(facts: Facts) -> Html:
    # The style sheet is the package's own text; it holds no "</".
    style = Html(files("polysharp.report").joinpath("style.css").read_text(encoding="utf-8"))
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content=f"polysharp {__version__}"),
        tag("title", facts.title),
        tag("style", style),
    )


def _header(facts: Facts) -> Html:
    rows, inputs = plural(facts.n, "row"), plural(facts.p, "input")
    return join(
        tag("p", "polysharp report", class_="mark"),
        tag("h1", facts.title),
        tag(
            "p",
            tag("var", facts.polynomial.response),
            f" from {inputs}, shown on {rows}",
            class_="lead",
        ),
    )


def _contents(parts: list[tuple[str, str, Html]]) -> Html:
    links = [tag("a", name, href=f"#{name.lower()}") for name, _, _ in parts]
    return tag("nav", links, aria_label="Contents")


def _section(name: str, heading: str, content: Html) -> Html:
    anchor = name.lower()
    return tag(
        "section",
        tag("h2", heading, id_=f"{anchor}-heading"),
        content,
        id_=anchor,
        aria_labelledby=f"{anchor}-heading",
    )
