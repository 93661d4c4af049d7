"""Markup in which user text cannot become code.

``tag`` escapes every string that is not itself markup, in text and in attributes, and so does the
template of the page: a column named ``<script>`` is a name wherever it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

# HTML has no place for control characters and XML forbids them; halves of surrogate pairs are not
# text at all.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

Child = str | int | float | None | Iterable["Child"]


def printable(value: Any) -> Any:
    """Return what can be shown of a value: None is nothing, unprintable characters are marked."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


def join(*children: Child) -> Markup:
    """Put pieces one after another; None is nothing, lists are opened."""
    return Markup("").join(
        join(*child)
        if isinstance(child, Iterable) and not isinstance(child, str)
        else escape(printable(child))
        for child in children
    )


def tag(name: str, *children: Child, **attributes: object) -> Markup:
    """Return an element.

    Underscores in attributes stand for hyphens and one at the end for nothing.

    Examples
    --------
    >>> tag("p", "a < b & ", tag("b", 1), class_="x", title='"')
    Markup('<p class="x" title="&#34;">a &lt; b &amp; <b>1</b></p>')
    """
    # Markup in an attribute is text again: str() takes the mark off.
    given = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
    ]
    return Markup(f"<{name}{''.join(given)}>{join(*children)}</{name}>")
