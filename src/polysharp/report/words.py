"""What the page says of a model; the sentences themselves stand in ``page.html``.

Nothing is claimed here that ``Solution`` does not hold: percentages are rounded away from zero and
bounds down, so that a sentence never says more than the bound allows.  A formula is text set for
reading: every term is one unbreakable piece, a long formula is set in columns, and screen readers
get the plain formula instead.
"""

from __future__ import annotations

import inspect
from math import ceil, floor, log10
from typing import Any

import numpy as np
from markupsafe import Markup

from polysharp.certificate.solution import Solution
from polysharp.data.functions import INVERSE
from polysharp.estimators.fitted import ShownRows
from polysharp.estimators.stability import Stability
from polysharp.polynomial.exports import text
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import plural, rounded_down, rounded_up
from polysharp.report.facts import Facts
from polysharp.report.html import join, tag
from polysharp.typing import Array, Monomial

RULES = {
    "max_interaction": "at most {} inputs in one term",
    "interaction_degree": "terms with several inputs of degree at most {}",
    "heredity": "{} heredity",
    "include_terms": "terms that must be in",
    "exclude_terms": "terms that must stay out",
    "include_inputs": "inputs that must be used",
    "exclude_inputs": "inputs that must not be used",
    "coefficient_bounds": "coefficients within stated intervals",
}
DEFINING = ("degree", "max_terms", "max_inputs", "gamma")
INTERVAL = 0.9  # coverage of the prediction intervals that are spoken of
CLOSE = 1e-3  # gaps that need not be named beside "best"
LONG = 12  # terms that still read well as running text
DASH, MINUS, NBSP = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"
TIMES_TEN = f"{NBSP}\N{MULTIPLICATION SIGN}{NBSP}10"
DOT = tag("span", f"{NBSP}\N{MIDDLE DOT} ", class_="sign")


def formula(polynomial: Polynomial, digits: int = 4) -> Markup:
    """Return the whole formula."""

    def number(value: float) -> Markup:
        mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
        if not exponent:
            return join(mantissa)
        return join(mantissa, TIMES_TEN, tag("sup", str(int(exponent)).replace("-", MINUS)))

    pieces: list[Markup] = []
    for sign, term in text.signed(polynomial, number, lambda m: product(polynomial, m)):
        mark = MINUS if sign == "-" else "+"
        mark = f"{mark} " if pieces else mark.strip("+")
        pieces.append(tag("span", tag("span", mark, class_="sign"), Markup(term), class_="term"))
    if mapping := text.mapped(polynomial, digits):
        pieces.append(tag("span", f"with {', '.join(mapping)}", class_="term"))
    name = tag("span", tag("var", polynomial.response), " = ", class_="term left")
    return tag(
        "p",
        tag("span", name, [join(" ", piece) for piece in pieces], aria_hidden="true"),
        tag("span", polynomial.formula(digits), class_="unseen"),
        class_="formula long" if len(pieces) > LONG else "formula",
    )


def product(polynomial: Polynomial, m: Monomial) -> Markup:
    """Return the powers of one term; nothing stands for the constant."""
    return Markup(text.product(polynomial, m, _power, DOT))  # pieces that are markup, joined


def coding(polynomial: Polynomial) -> str:
    """Return what is done to the inputs before they are multiplied, nothing where nothing is."""
    if polynomial.family.orthogonal:
        return "in every product the inputs are mapped first, as behind the formula"
    return "" if polynomial.shifts is None else "in every product the means are subtracted first"


def _power(factor: text.Factor) -> Markup:
    base: Markup = tag("var", factor.name)
    shift, applied, exponent = factor.shift, factor.applied, factor.order
    if factor.family.orthogonal:
        letter = join(factor.family.letter, tag("sub", str(exponent)))
        return tag("span", letter, "(", base, ")", class_="factor")
    if shift:
        base = join("(", base, f" {MINUS if shift > 0 else '+'} {abs(shift):.6g}", ")")
    raised = str(exponent) if exponent > 1 else None
    if applied is not None and applied.function.name == INVERSE:
        raised = f"{MINUS}{exponent}"
    elif applied is not None:
        base = join(applied.function.label or applied.function.name, "(", base, ")")
    return tag("span", base, tag("sup", raised) if raised else None, class_="factor")


def copies(facts: Facts) -> list[tuple[str, str]]:
    """Return the formulas as text, LaTeX and Python, by the names of these."""
    laws = [each.polynomial for each in facts.shown]
    names = [f"predict_{t}" for t in range(len(laws))] if facts.several else ["predict"]
    return [
        ("Text", "\n".join(law.formula(digits=17) for law in laws)),
        ("LaTeX", "\n".join(law.to_latex() for law in laws)),
        ("Python", "\n\n".join(map(Polynomial.to_python, laws, names))),
    ]


def best(facts: Facts) -> str:
    """Return what a proof shows the model to be."""
    return "best for all responses together" if facts.several else "best"


def verdict(facts: Facts) -> str:
    """Return the shortest true statement: the badge at the top."""
    gap = facts.solution.gap
    if facts.proved:
        close = "" if gap <= CLOSE else f"within {percent(gap)} of the "
        proved = f"Proved {close}{best(facts)}"
        return proved if facts.solution.scope == "all-inputs" else f"{proved} of the kept inputs"
    known = f": gap {percent(gap)}" if facts.solution.bound > 0.0 else ""
    return f"Not proved {best(facts)}{known}"


def candidates(facts: Facts) -> str:
    """Return which polynomials the certificate speaks of."""
    settings, p = facts.settings, facts.p
    terms = plural(int(settings["max_terms"]), "term")
    said = f"all polynomials of degree at most {settings['degree']} with at most {terms}"
    if settings.get("max_inputs") is not None:
        said += f" in at most {settings['max_inputs']} of the inputs"
    if facts.solution.scope != "all-inputs":
        kept = plural(len(facts.model.kept_inputs_), "input")
        said += (
            f", taken from the {kept} that a ranking kept of {p}; polynomials that use any other "
            "input were not examined"
        )
    elif p > 1:
        said += f", taken from all {plural(p, 'input')} of the table"
    rules = [
        wording.format(settings[name])
        for name, wording in RULES.items()
        if settings.get(name) is not None
    ]
    if (basis := settings.get("basis", "monomials")) != "monomials":
        rules.append(f"{basis.capitalize()} polynomials in place of powers")
    if settings.get("positive"):
        rules.append("no negative coefficient")
    return said + (f"; further rules: {', '.join(rules)}" if rules else "")


def scope(facts: Facts) -> str:
    """Return which inputs the certificate covers."""
    if facts.solution.scope == "all-inputs":
        return f"all {plural(facts.p, 'input')}" if facts.p > 1 else "the one input"
    return f"{len(facts.model.kept_inputs_)} of {plural(facts.p, 'input')}"


def ceiling(facts: Facts) -> str | None:
    """Return what the certificate says about R2, for the rows of the fit; None where nothing.

    Rows that the model was not fitted to have another R2.
    """
    solution, rows = facts.solution, facts.rows
    limit = solution.r2_ceiling
    if limit is None or limit >= 1.0 or rows.r2 is None:
        return None
    known = (solution.total_squares or 0.0, solution.r2 or 0.0)
    if not np.allclose(known, (rows.total_squares, rows.r2), rtol=1e-6, atol=0.0):
        return None
    return f"at most {rounded_up(limit)} within these budgets"


def interval(facts: Facts) -> tuple[float | None, str]:
    """Return half the usual width of the prediction intervals, None without any, and its source."""
    found = facts.calibration
    if found is None or found.most < INTERVAL:
        return None, ""
    rows = facts.rows if facts.held_out is None else facts.held_out
    half, folds = 0.5 * np.median(np.diff(found.ends(rows.X, INTERVAL))), len(found.folds)
    return float(half), f"{folds} folds of the rows of the fit" if folds > 1 else "held-out rows"


def accuracy(rows: ShownRows) -> str:
    """Return R2 and typical error of some rows."""
    error = f"root mean squared error is {number(rows.rmse, 4)}"
    return f"The {error}" if rows.r2 is None else f"R² is {r_squared(rows.r2)}; the {error}"


def work(solution: Solution) -> str:
    """Return what the search did, in counts."""
    counters = solution.counters
    counted = {"node": counters.nodes, "cut": counters.cuts, "round": counters.rounds}
    done = ", ".join(plural(count, word) for word, count in counted.items() if count)
    return f" ({done})" if done else ""


def worst_first(without: Array) -> list[int]:
    """Return the terms, first those without which the error is largest."""
    return [int(j) for j in np.argsort(-without, kind="stable")]


def over_resamples(picked: Stability, monomial: Monomial) -> list[str | None]:
    """Return the coefficient without ridge, its interval over the resamples, and its share."""
    if monomial not in picked.monomials:
        return [None, None, percent(0.0)]
    at = picked.monomials.index(monomial)
    low, high = (number(float(end), 4) for end in picked.intervals()[at])
    return [number(picked.without_ridge[at], 4), f"{low} to {high}", share(picked.shares[at], 0)]


def in_python(facts: Facts, *, search: bool = False) -> str:
    """Return the fit of the model itself as Python, or the search that chose it.

    It holds what defines the model and all that is not at its default.
    """
    kind, given = type(facts.model), facts.model.get_params(deep=False)
    if not search:
        kind, given = type(getattr(facts.model, "best_estimator_", facts.model)), facts.settings
    changed = [
        f"    {key}={_python(given[key])},\n"
        for key, known in inspect.signature(kind).parameters.items()
        if key in DEFINING or _python(given[key]) != _python(known.default)
    ]
    weighted = "" if facts.rows.weights is None else ", sample_weight=weights"
    call = f"model = {kind.__name__}(\n{''.join(changed)})"
    return f"from polysharp import {kind.__name__}\n\n{call}\nmodel.fit(X, y{weighted})"


def parameters(facts: Facts) -> list[tuple[str, str]]:
    """Return all parameters of the fit as Python would take them."""
    given = facts.settings | {"gamma used": facts.model.gamma_}
    return [(name, _python(value)) for name, value in given.items()]


def _python(value: Any) -> str:
    return repr(value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value)


def number(value: float, digits: int = 6) -> str:
    """Write a number for reading, with a true minus sign."""
    return f"{value:.{digits}g}".replace("-", MINUS)


def plus_minus(value: float, error: float) -> str:
    """Write a number with its standard error."""
    return f"{number(value, 4)} ± {number(error, 2)}"


def at_most(value: float, digits: int = 6) -> str:
    """Write a number that is proved as a lower bound: rounded down.

    Examples
    --------
    >>> number(36.16988), at_most(36.16988), at_most(0.25)
    ('36.1699', '36.1698', '0.25')
    """
    return rounded_down(value, digits).replace("-", MINUS)


def share(value: float, decimals: int = 1) -> str:
    """Write a share in percent."""
    return f"{100.0 * float(value):.{decimals}f}{NBSP}%"


def percent(share: float) -> str:
    r"""Write a share in percent, two digits, rounded up in size.

    Examples
    --------
    >>> percent(0.03141), percent(0.0), percent(1e-9), percent(0.5)
    ('3.2\xa0%', '0\xa0%', '<\xa00.0001\xa0%', '50\xa0%')
    """
    value = 100.0 * share
    if value <= 0.0:
        return f"0{NBSP}%"
    if value < 1e-4:
        return f"<{NBSP}0.0001{NBSP}%"
    unit = 10.0 ** (floor(log10(value)) - 1)
    # What is a round number but for the last bit stays that number.
    return f"{ceil(value / unit - 1e-9) * unit:.12g}{NBSP}%"


def r_squared(value: float | None) -> str:
    """Write R^2 with as many digits as tell it from 1, rounded down.

    Examples
    --------
    >>> r_squared(0.87654), r_squared(0.999871), r_squared(None)
    ('0.8765', '0.99987', '\N{EN DASH}')
    """
    if value is None:
        return DASH
    digits = 4 if value < 0.999 or value >= 1.0 else min(6, 1 + ceil(-log10(1.0 - value) - 1e-9))
    return f"{floor(value * 10**digits) / 10**digits:.{digits}f}".replace("-", MINUS)


def width(value: float, longest: float) -> str:
    """Return the length of a bar in percent of the longest."""
    return f"{100.0 * min(1.0, abs(value) / longest) if longest > 0.0 else 0.0:.1f}"
