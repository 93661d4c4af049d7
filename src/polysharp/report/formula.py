"""The formula as text set for reading: it wraps between terms and needs no script.

Every term is one unbreakable piece: sign, number, powers of the names.  Screen readers get the
plain formula instead.
"""

from __future__ import annotations

from polysharp.polynomial.polynomial import Polynomial
from polysharp.report.html import Html, join, tag
from polysharp.typing import Monomial

MINUS = "\N{MINUS SIGN}"
TIMES_TEN = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}10"

DOT = tag("span", "\N{NO-BREAK SPACE}\N{MIDDLE DOT} ", class_="sign")


def formula(polynomial: Polynomial, digits: int = 4) -> Html:
    """Return the whole formula."""
    parts = []
    if polynomial.intercept != 0.0 or not polynomial.monomials:
        parts.append((polynomial.intercept, _number(polynomial.intercept, digits)))
    for m, c in zip(polynomial.monomials, polynomial.coefficients.tolist(), strict=True):
        parts.append((c, join(_number(c, digits), " " if m else None, product(polynomial, m))))
    pieces = [
        tag("span", tag("span", sign, class_="sign") if sign else None, piece, class_="term")
        for sign, piece in (
            (_sign(value, first=not a), piece) for a, (value, piece) in enumerate(parts)
        )
    ]
    return tag(
        "p",
        tag(
            "span",
            tag("span", tag("var", polynomial.response), " = ", class_="term"),
            [join(" ", piece) for piece in pieces],
            aria_hidden="true",
        ),
        tag("span", polynomial.formula(digits), class_="unseen"),
        class_="formula",
    )


def product(polynomial: Polynomial, m: Monomial) -> Html:
    """Return the powers of one term; 1 stands for none."""
    return join(
        [
            join(DOT if a else None, _power(polynomial, i, m.count(i)))
            for a, i in enumerate(dict.fromkeys(m))
        ]
    )


def _power(polynomial: Polynomial, i: int, exponent: int) -> Html:
    name = tag("var", polynomial.names[i])
    shift = 0.0 if polynomial.shifts is None else float(polynomial.shifts[i])
    if shift:
        sign = f" {MINUS if shift > 0 else '+'} {abs(shift):.6g}"
        name = join("(", name, sign, ")")
    return tag("span", name, tag("sup", exponent) if exponent > 1 else None, class_="factor")


def _number(value: float, digits: int) -> Html:
    """Write the absolute value, a power of ten raised."""
    mantissa, _, exponent = f"{abs(value):.{digits}g}".partition("e")
    if not exponent:
        return join(mantissa)
    raised = str(int(exponent)).replace("-", MINUS)
    return join(mantissa, TIMES_TEN, tag("sup", raised))


def _sign(value: float, *, first: bool) -> str:
    if first:
        return MINUS if value < 0 else ""
    return f"{MINUS if value < 0 else '+'} "
