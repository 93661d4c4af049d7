"""The page: its head, the formula with the numbers that everybody asks for, and the sections."""

from __future__ import annotations

from importlib.resources import files

from polysharp._version import __version__
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import plural
from polysharp.report import words
from polysharp.report.facts import Facts
from polysharp.report.html import Html, code, h3, join, p, quiet, span, tag
from polysharp.report.sections import sections

MOST_FORMULAS = 12  # of several responses, that stand at the top
# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(facts: Facts) -> str:
    """Return the whole document."""
    parts = sections(facts)
    rows, inputs = plural(facts.n, "row"), plural(facts.p, "input")
    names = [tag("var", each.polynomial.response) for each in facts.shown]
    listed = join(names[0], [join(", ", other) for other in names[1:]])
    links = [tag("a", name, href=f"#{name.lower()}") for name, _, _ in parts]
    body = tag(
        "body",
        tag(
            "header",
            p("polysharp report", class_="mark"),
            tag("h1", facts.title),
            p(listed, f" from {inputs}, shown on {rows}", class_="lead"),
            tag("nav", links, aria_label="Contents"),
        ),
        tag("main", opening(facts), [_section(*part) for part in parts]),
        tag("footer", p(f"Written by polysharp {__version__} on {facts.written}.")),
    )
    return "<!DOCTYPE html>\n" + tag("html", _head(facts), body, lang="en") + "\n"


def opening(facts: Facts) -> Html:
    """The formula, the verdict and the numbers that everybody asks for."""
    laws = [each.polynomial for each in facts.shown]
    badge = p(words.verdict(facts), class_="badge good" if facts.proved else "badge open")
    kinds = ("label", "figure", "note")
    tiles = [
        tag("li", [span(part, class_=kind) for kind, part in zip(kinds, tile, strict=True)])
        for tile in _tiles(facts)
    ]
    names = [f"predict_{t}" for t in range(len(laws))] if facts.several else ["predict"]
    forms = [
        ("Text", "\n".join(law.formula(digits=17) for law in laws)),
        ("LaTeX", "\n".join(law.to_latex() for law in laws)),
        ("Python", "\n\n".join(map(Polynomial.to_python, laws, names))),
    ]
    copies = tag(
        "details",
        tag("summary", "Copy the formula: text, LaTeX, Python"),
        [join(h3(name), code(shown)) for name, shown in forms],
        class_="copies",
    )
    tiled = tag("ul", tiles, class_="tiles")
    shown = [words.formula(law) for law in laws[:MOST_FORMULAS]]
    if more := len(laws) - len(shown):
        shown.append(quiet(f"and {more} more, below and to copy"))
    return tag("section", badge, shown, tiled, copies, class_="opening", aria_label="The formula")


def _tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """Return name, value and note of each number at the top."""
    used, held_out = len(facts.polynomial.inputs), facts.held_out
    gap, asked = words.percent(facts.solution.gap), words.percent(facts.solution.gap_tol)
    size = ("terms", str(len(facts.polynomial)), f"in {used} of {plural(facts.p, 'input')}")
    last = ("gap", gap, f"asked for {asked}")
    if facts.several:
        found = [each.rows.r2 or 0.0 for each in facts.shown]
        means = f"from {words.r_squared(min(found))} to {words.r_squared(max(found))}"
        return [
            size,
            ("responses", str(len(found)), "with the same terms"),
            ("mean R²", words.r_squared(sum(found) / len(found)), means),
            last,
        ]
    tiles = [
        size,
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
    return [*tiles, last]


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


def _section(name: str, heading: str, content: Html) -> Html:
    anchor = name.lower()
    title = tag("h2", heading, id_=f"{anchor}-heading")
    return tag("section", title, content, id_=anchor, aria_labelledby=f"{anchor}-heading")
