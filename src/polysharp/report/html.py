"""Markup in which user text cannot become code, and what sections are made of.

``tag`` escapes every string that is not itself markup, in text and in attributes, so a column
named ``<script>`` is a name wherever it goes.  Only ``tag``, ``join``, ``say`` and constants of
this package make ``Html``; nothing else does.  The sentences of a report stand in ``words.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, partial
from html import escape
from importlib.resources import files

# HTML has no place for control characters and XML forbids them; halves of surrogate pairs are not
# text at all.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = frozenset({"meta", "br", "hr"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def text(value: object) -> Html:
    """Escape a value unless it is markup."""
    if isinstance(value, Html):
        return value
    return Html(escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True))


def join(*children: Child) -> Html:
    """Put pieces one after another; None is nothing, lists are opened."""
    return Html("".join(_pieces(children)))


def tag(name: str, *children: Child, **attributes: object) -> Html:
    """Return an element.

    Underscores in attributes stand for hyphens and one at the end for nothing; None and False
    leave an attribute out, True has no value.

    Examples
    --------
    >>> tag("p", "a < b & ", tag("b", 1), class_="x", title='"')
    '<p class="x" title="&quot;">a &lt; b &amp; <b>1</b></p>'
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{opening}>")
    return Html(f"<{opening}>{join(*children)}</{name}>")


def say(name: str, **values: Child) -> Html:
    """Return a text of ``words.toml`` with values put in, which are escaped unless they are markup.

    Examples
    --------
    >>> say("candidates", candidates="all <b>")
    'The candidates are all &lt;b&gt;.'
    """
    return Html(_texts()[name].format(**{key: join(value) for key, value in values.items()}))


@cache
def _texts() -> dict[str, str]:
    known = tomllib.loads(files("polysharp.report").joinpath("words.toml").read_text("utf-8"))
    return {name: text.replace("\n", " ") for name, text in known.items()}


p, div, span, h3 = (partial(tag, name) for name in ("p", "div", "span", "h3"))
quiet = partial(tag, "p", class_="quiet")  # a remark


def table(
    head: Sequence[Child], rows: Iterable[Sequence[Child]], caption: str, *, tall: bool = False
) -> Html:
    """Return a table that scrolls by itself where it is too wide, or ``tall``; heads come first."""
    body = [
        tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]])
        for row in rows
    ]
    whole = tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
        tag("tbody", body),
    )
    classes = "scroll tall" if tall else "scroll"
    return div(whole, class_=classes, tabindex="0", role="region", aria_label=caption)


def bars(
    rows: Sequence[tuple[Child, float, str]], caption: str, pale: frozenset[int] = frozenset()
) -> Html:
    """Return a table of names, bars relative to the longest, and their values; some are pale."""
    longest = max((abs(value) for _, value, _ in rows), default=0.0)
    body = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", bar(value, longest)),
            tag("td", shown, class_="value"),
            class_="unused" if a in pale else None,
        )
        for a, (name, value, shown) in enumerate(rows)
    ]
    head = tag("caption", caption, class_="unseen")
    return tag("table", head, tag("tbody", body), class_="ranked")


def bar(value: float, longest: float) -> Html:
    """Return a bar, relative to the longest."""
    width = 100.0 * min(1.0, abs(value) / longest) if longest > 0.0 else 0.0
    return span(span(style=f"width:{width:.1f}%"), class_="bar", aria_hidden="true")


def definitions(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Return names with their values."""
    return tag("dl", [div(tag("dt", name), tag("dd", value)) for name, value in pairs])


def figure(picture: Html, caption: str | None, key: Html | None = None) -> Html:
    """Return a figure with its caption below."""
    return tag("figure", key, picture, tag("figcaption", caption) if caption else None)


def keys(*entries: tuple[str, str]) -> Html:
    """Return what the colours of lines mean: classes and names."""
    return p([span(name, class_=f"key {class_}") for class_, name in entries], class_="keys")


def code(shown: str) -> Html:
    """Return text that one click selects whole."""
    return tag("pre", tag("code", shown), tabindex="0")


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    # Markup in an attribute is text again: str() takes the mark off.
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'


def _pieces(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str | int | float):
            yield text(child)
        else:
            yield from _pieces(child)
