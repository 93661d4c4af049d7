"""What sections are made of: tables, bars, figures with captions, code, pairs of name and value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polysharp.report.html import Child, Html, tag


def table(
    head: Sequence[Child], rows: Iterable[Sequence[Child]], caption: str, *, tall: bool = False
) -> Html:
    """Return a table that scrolls by itself where it is too wide, or ``tall``; heads come first."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="unseen"),
            tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
            tag(
                "tbody",
                [
                    tag("tr", tag("th", row[0], scope="row"), [tag("td", c) for c in row[1:]])
                    for row in rows
                ],
            ),
        ),
        class_="scroll tall" if tall else "scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def bar(share: float, largest: float) -> Html:
    """Return a bar for a share, relative to the largest; negative ones are hatched."""
    width = 100.0 * min(1.0, abs(share) / largest) if largest > 0.0 else 0.0
    return tag(
        "span",
        tag("span", style=f"width:{width:.1f}%", class_="minus" if share < 0 else None),
        class_="bar",
        aria_hidden="true",
    )


def definitions(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Return names with their values."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs])


def figure(picture: Html, caption: str | None, key: Html | None = None) -> Html:
    """Return a figure with its caption below."""
    words_ = tag("figcaption", caption) if caption else None
    return tag("figure", key, picture, words_)


def key(*entries: tuple[str, str]) -> Html:
    """Return what the colours of lines mean."""
    return tag(
        "p", [tag("span", name, class_=f"key {class_}") for class_, name in entries], class_="keys"
    )


def code(text: str) -> Html:
    """Return text that one click selects whole."""
    return tag("pre", tag("code", text), tabindex="0")
