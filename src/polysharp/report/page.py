"""The page: its head, the formula with the numbers that everybody asks for, and the sections."""

from __future__ import annotations

from importlib.resources import files

from polysharp._version import __version__
from polysharp.progress import plural
from polysharp.report import words
from polysharp.report.facts import Facts
from polysharp.report.formula import formula
from polysharp.report.html import Html, code, h3, join, p, span, tag
from polysharp.report.sections import Section, sections

# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(facts: Facts) -> str:
    """Return the whole document."""
    parts = sections(facts)
    rows, inputs = plural(facts.n, "row"), plural(facts.p, "input")
    name = tag("var", facts.polynomial.response)
    links = [tag("a", part.name, href=f"#{part.name.lower()}") for part in parts]
    body = tag(
        "body",
        tag(
            "header",
            p("polysharp report", class_="mark"),
            tag("h1", facts.title),
            p(name, f" from {inputs}, shown on {rows}", class_="lead"),
            tag("nav", links, aria_label="Contents"),
        ),
        tag("main", opening(facts), [_section(part) for part in parts]),
        tag("footer", p(f"Written by polysharp {__version__} on {facts.written}.")),
    )
    return "<!DOCTYPE html>\n" + tag("html", _head(facts), body, lang="en") + "\n"


def opening(facts: Facts) -> Html:
    """The formula, the verdict and the numbers that everybody asks for."""
    polynomial = facts.polynomial
    badge = p(words.verdict(facts), class_="badge good" if facts.proved else "badge open")
    tiles = [
        tag(
            "li",
            span(name, class_="label"),
            span(value, class_="figure"),
            span(note, class_="note"),
        )
        for name, value, note in _tiles(facts)
    ]
    forms = [
        ("Text", polynomial.formula(digits=17)),
        ("LaTeX", polynomial.to_latex()),
        ("Python", polynomial.to_python()),
    ]
    copies = tag(
        "details",
        tag("summary", "Copy the formula: text, LaTeX, Python"),
        [join(h3(name), code(shown)) for name, shown in forms],
        class_="copies",
    )
    tiled = tag("ul", tiles, class_="tiles")
    shown = formula(polynomial)
    return tag("section", badge, shown, tiled, copies, class_="opening", aria_label="The formula")


def _tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """Return name, value and note of each number at the top."""
    used, held_out = len(facts.polynomial.inputs), facts.held_out
    tiles = [
        ("terms", str(len(facts.polynomial)), f"in {used} of {plural(facts.p, 'input')}"),
        ("R²", words.r_squared(facts.rows.r2), words.ceiling(facts) or ""),
        ("typical error", words.number(facts.rows.rmse, 3), "root mean square, rows shown"),
    ]
    if facts.validation is not None:
        error, std = facts.validation
        spread = f"± {words.number(std, 2)}, rows not seen"
        tiles.append(("validation error", words.number(error, 3), spread))
    if held_out is not None:
        shown = words.number(held_out.rmse, 3)
        tiles.append(("held-out error", shown, f"on {plural(held_out.n, 'held-out row')}"))
    gap, asked = words.percent(facts.solution.gap), words.percent(facts.solution.gap_tol)
    return [*tiles, ("gap", gap, f"asked for {asked}")]


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


def _section(part: Section) -> Html:
    anchor = part.name.lower()
    heading = tag("h2", part.heading, id_=f"{anchor}-heading")
    return tag("section", heading, part.content, id_=anchor, aria_labelledby=f"{anchor}-heading")
