"""Markup in which user text cannot become code, and the formula set for reading.

``tag`` escapes every string that is not itself markup, in text and in attributes, and so does the
template of the page: a column named ``<script>`` is a name wherever it goes.  Every term of a
formula is one piece that does not break, a long formula is set in columns, and screen readers get
the plain formula instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

from polysharp.data.functions import INVERSE
from polysharp.polynomial import text
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Monomial
from polysharp.wording import MINUS, NBSP

# HTML has no place for control characters and XML forbids them; halves of surrogate pairs are not
# text at all.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
LONG = 12  # terms that still read well as running text
TIMES_TEN = f"{NBSP}\N{MULTIPLICATION SIGN}{NBSP}10"

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


DOT = tag("span", f"{NBSP}\N{MIDDLE DOT} ", class_="sign")


def formula(polynomial: Polynomial, digits: int = 4) -> Markup:
    """Return the whole formula."""

    def shown(value: float) -> Markup:
        mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
        if not exponent:
            return join(mantissa)
        return join(mantissa, TIMES_TEN, tag("sup", str(int(exponent)).replace("-", MINUS)))

    pieces: list[Markup] = []
    for sign, term in text.signed(
        polynomial, shown, lambda m: [product(polynomial, m)] if m else [], " "
    ):
        mark = sign.replace("-", MINUS)
        pieces.append(tag("span", tag("span", mark, class_="sign"), Markup(term), class_="term"))
    name = tag("span", tag("var", polynomial.response), " = ", class_="term left")
    return tag(
        "p",
        tag("span", name, [join(" ", piece) for piece in pieces], aria_hidden="true"),
        tag("span", polynomial.formula(digits), class_="unseen"),
        class_="formula long" if len(pieces) > LONG else "formula",
    )


def product(polynomial: Polynomial, m: Monomial) -> Markup:
    """Return the powers of one term; nothing stands for the constant."""
    return DOT.join(text.powers(polynomial, m, _power))


def _power(factor: text.Factor) -> Markup:
    base: Markup = tag("var", factor.name)
    shift, applied, exponent = factor.shift, factor.applied, factor.exponent
    if shift:
        base = join("(", base, f" {MINUS if shift > 0 else '+'} {abs(shift):.6g}", ")")
    raised = str(exponent) if exponent > 1 else None
    if applied is not None and applied.function.name == INVERSE:
        raised = f"{MINUS}{exponent}"
    elif applied is not None:
        base = join(applied.function.label or applied.function.name, "(", base, ")")
    return tag("span", base, tag("sup", raised) if raised else None, class_="factor")
