"""The formula as text set for reading: it wraps between terms and needs no script.

Every term is one unbreakable piece: sign, number, powers of the names.  A long formula is set in
columns, one term below the other.  Screen readers get the plain formula instead.
"""

from __future__ import annotations

from polysharp.data.functions import INVERSE
from polysharp.polynomial.exports import text
from polysharp.polynomial.polynomial import Polynomial
from polysharp.report.html import Html, join, p, span, tag
from polysharp.typing import Monomial

MINUS = "\N{MINUS SIGN}"
TIMES_TEN = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}10"
DOT = span("\N{NO-BREAK SPACE}\N{MIDDLE DOT} ", class_="sign")
LONG = 12  # terms that still read well as running text


def formula(polynomial: Polynomial, digits: int = 4) -> Html:
    """Return the whole formula."""

    def number(value: float) -> Html:
        mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
        if not exponent:
            return join(mantissa)
        return join(mantissa, TIMES_TEN, tag("sup", str(int(exponent)).replace("-", MINUS)))

    terms = text.signed(polynomial, number, lambda m: product(polynomial, m))
    pieces = [
        span(span(_sign(sign, first=not a), class_="sign"), Html(term), class_="term")
        for a, (sign, term) in enumerate(terms)
    ]
    name = span(tag("var", polynomial.response), " = ", class_="term left")
    if mapping := text.mapped(polynomial, digits):
        pieces.append(span(f"with {', '.join(mapping)}", class_="term"))
    return p(
        span(name, [join(" ", piece) for piece in pieces], aria_hidden="true"),
        span(polynomial.formula(digits), class_="unseen"),
        class_="formula long" if len(pieces) > LONG else "formula",
    )


def product(polynomial: Polynomial, m: Monomial) -> Html:
    """Return the powers of one term; nothing stands for the constant."""
    return Html(text.product(polynomial, m, _power, DOT))  # pieces that are markup, joined


def coding(polynomial: Polynomial) -> str:
    """Say what is done to the inputs before they are multiplied, nothing where nothing is."""
    if polynomial.family.orthogonal:
        return "in every product the inputs are mapped first, as behind the formula"
    return "" if polynomial.shifts is None else "in every product the means are subtracted first"


def _power(factor: text.Factor) -> Html:
    base: Html = tag("var", factor.name)
    shift, applied, exponent = factor.shift, factor.applied, factor.order
    if factor.family.orthogonal:
        letter = join(factor.family.letter, tag("sub", str(exponent)))
        return span(letter, "(", base, ")", class_="factor")
    if shift:
        base = join("(", base, f" {MINUS if shift > 0 else '+'} {abs(shift):.6g}", ")")
    raised = str(exponent) if exponent > 1 else None
    if applied is not None and applied.function.name == INVERSE:
        raised = f"{MINUS}{exponent}"
    elif applied is not None:
        base = join(applied.function.label or applied.function.name, "(", base, ")")
    return span(base, tag("sup", raised) if raised else None, class_="factor")


def _sign(sign: str, *, first: bool) -> str:
    if first:
        return MINUS if sign == "-" else ""
    return f"{MINUS if sign == '-' else '+'} "
