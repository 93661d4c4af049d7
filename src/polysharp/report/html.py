"""Markup in which user text cannot become code.

``tag`` escapes every string that is not itself markup, in text and in attributes, so a column
named ``<script>`` is a name wherever it goes.  Only ``tag``, ``join`` and constants of this package
make ``Html``; nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

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
