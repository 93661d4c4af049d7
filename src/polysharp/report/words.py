"""Numbers, formulas and the certificate in plain words.

Nothing is claimed here that ``Solution`` does not hold: percentages are rounded away from zero and
bounds down, so that a sentence never says more than the bound allows.  A formula is text set for
reading: every term is one unbreakable piece, a long formula is set in columns, and screen readers
get the plain formula instead.
"""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any

import numpy as np

from polysharp.data.functions import INVERSE, Applied
from polysharp.estimators.fitted import ShownRows
from polysharp.polynomial.exports import text
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import plural, rounded_down, rounded_up
from polysharp.report.facts import Facts
from polysharp.report.html import Html, join, p, say, span, tag
from polysharp.typing import Monomial

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
INTERVAL = 0.9  # coverage of the prediction intervals that are spoken of
CLOSE = 1e-3  # gaps that need not be named beside "best"
LONG = 12  # terms that still read well as running text
DASH, MINUS, NBSP = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"
TIMES_TEN = f"{NBSP}\N{MULTIPLICATION SIGN}{NBSP}10"
DOT = span(f"{NBSP}\N{MIDDLE DOT} ", class_="sign")


def formula(polynomial: Polynomial, digits: int = 4) -> Html:
    """Return the whole formula."""

    def number(value: float) -> Html:
        mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
        if not exponent:
            return join(mantissa)
        return join(mantissa, TIMES_TEN, tag("sup", str(int(exponent)).replace("-", MINUS)))

    pieces: list[Html] = []
    for sign, term in text.signed(polynomial, number, lambda m: product(polynomial, m)):
        mark = MINUS if sign == "-" else "+"
        mark = f"{mark} " if pieces else mark.strip("+")
        pieces.append(span(span(mark, class_="sign"), Html(term), class_="term"))
    name = span(tag("var", polynomial.response), " = ", class_="term left")
    return p(
        span(name, [join(" ", piece) for piece in pieces], aria_hidden="true"),
        span(polynomial.formula(digits), class_="unseen"),
        class_="formula long" if len(pieces) > LONG else "formula",
    )


def product(polynomial: Polynomial, m: Monomial) -> Html:
    """Return the powers of one term; nothing stands for the constant."""
    return Html(text.product(polynomial, m, _power, DOT))  # pieces that are markup, joined


def _power(name: str, shift: float, applied: Applied | None, exponent: int) -> Html:
    base: Html = tag("var", name)
    if shift:
        base = join("(", base, f" {MINUS if shift > 0 else '+'} {abs(shift):.6g}", ")")
    raised = str(exponent) if exponent > 1 else None
    if applied is not None and applied.function.name == INVERSE:
        raised = f"{MINUS}{exponent}"
    elif applied is not None:
        base = join(applied.function.label or applied.function.name, "(", base, ")")
    return span(base, tag("sup", raised) if raised else None, class_="factor")


def best(facts: Facts) -> str:
    """Return what a proof shows the model to be."""
    if facts.several:
        return "best for all responses together"
    return "best" if facts.reference is None else "nearest to the mean of good models"


def verdict(facts: Facts) -> str:
    """Return the shortest true statement: the badge at the top."""
    gap = facts.solution.gap
    if facts.proved:
        close = "" if gap <= CLOSE else f"within {percent(gap)} of the "
        proved = f"Proved {close}{best(facts)}"
        return proved if facts.solution.scope == "all-inputs" else f"{proved} of the kept inputs"
    known = f": gap {percent(gap)}" if facts.solution.bound > 0.0 else ""
    return f"Not proved {best(facts)}{known}"


def statement(facts: Facts) -> list[Html]:
    """Return what the certificate says, one sentence after another."""
    solution, said = facts.solution, []
    if facts.several:
        said.append(say("joint", count=len(facts.shown)))
    if facts.reference is not None:
        said.append(say("reference", terms=plural(len(facts.reference), "term")))
    said.append(say("candidates", candidates=candidates(facts)))
    bound = at_most(solution.bound)
    said.append(say("bound", objective=number(solution.objective), bound=bound))
    gap, tolerance = percent(solution.gap), percent(solution.gap_tol)
    if facts.proved:
        named = f" The model counts as proved {best(facts)}." if solution.gap <= CLOSE else ""
        gap = gap.replace("<", "less than")
        said.append(say("proved", gap=gap, tolerance=tolerance, best=named))
    elif solution.bound > 0.0:
        said.append(say("open", gap=gap, tolerance=tolerance, stop=str(solution.stop)))
    else:
        said.append(say("unknown", stop=str(solution.stop)))
    if (limit := ceiling(facts)) is not None:
        said.append(say("ceiling", r2=r_squared(facts.rows.r2), limit=limit.split()[2]))
    return said


def candidates(facts: Facts) -> Html:
    """Return which polynomials the certificate speaks of."""
    settings, p = facts.settings, facts.p
    terms = plural(int(settings["max_terms"]), "term")
    degree = f"all polynomials of degree at most {settings['degree']}"
    said: list[str] = [f"{degree} with at most {terms}"]
    if settings.get("max_inputs") is not None:
        said.append(f" in at most {settings['max_inputs']} of the inputs")
    if facts.solution.scope != "all-inputs":
        said.append(say("kept", inputs=plural(len(facts.model.kept_inputs_), "input"), p=p))
    elif p > 1:
        said.append(f", taken from all {plural(p, 'input')} of the table")
    rules = [
        wording.format(settings[name])
        for name, wording in RULES.items()
        if settings.get(name) is not None
    ]
    if settings.get("positive"):
        rules.append("no negative coefficient")
    return join(said, f"; further rules: {', '.join(rules)}" if rules else "")


def limits(facts: Facts) -> list[Html]:
    """Return what the certificate does not say."""
    joint = ["limit_joint"] if facts.several else []
    names = [*joint, "limit_rows", "limit_truth", "limit_settings", "limit_precision"]
    return [say(name, gamma=number(facts.model.gamma_)) for name in names]


def objective(facts: Facts) -> Html:
    """Return what the objective is."""
    what = "errors" if facts.reference is None else "differences from that mean"
    joint = ", added over the scaled responses" if facts.several else ""
    return say("objective", what=what, joint=joint, gamma=number(facts.model.gamma_))


def scope(facts: Facts) -> str:
    """Return which inputs the certificate covers."""
    if facts.solution.scope == "all-inputs":
        return f"all {plural(facts.p, 'input')}" if facts.p > 1 else "the one input"
    return f"{len(facts.model.kept_inputs_)} of {plural(facts.p, 'input')}"


def ceiling(facts: Facts) -> str | None:
    """Return what the certificate says about R2, for the rows of the fit; None where nothing.

    Rows that the model was not fitted to have another R2, and a mean of models is not y.
    """
    solution, rows = facts.solution, facts.rows
    limit = solution.r2_ceiling
    if facts.reference is not None or limit is None or limit >= 1.0 or rows.r2 is None:
        return None
    known = (solution.total_squares or 0.0, solution.r2 or 0.0)
    if not np.allclose(known, (rows.total_squares, rows.r2), rtol=1e-6, atol=0.0):
        return None
    return f"at most {rounded_up(limit)} within these budgets"


def resamples(facts: Facts) -> Html | None:
    """Say what the shares of the resamples are, and are not."""
    picked = facts.stability
    if picked is None:
        return None
    more = None if facts.reference is None else say("resamples_reference")
    same = f"{100 * picked.same_model:.0f}"
    return p(say("resamples", count=picked.n_resamples, same=same, reference=more))


def intervals(facts: Facts) -> Html | None:
    """Say how wide the prediction intervals are, and what they promise; None without any."""
    found = getattr(facts.model, "calibration_", None)
    if found is None or found.most < INTERVAL:
        return None
    rows = facts.rows if facts.held_out is None else facts.held_out
    half, folds = 0.5 * np.median(np.diff(found.ends(rows.X, INTERVAL))), len(found.folds)
    source = f"{folds} folds of the rows of the fit" if folds > 1 else "held-out rows"
    share = f"{100 * INTERVAL:.0f}"
    return p(say("intervals", share=share, half=number(float(half), 4), source=source))


def accuracy(rows: ShownRows) -> str:
    """Return R2 and typical error of some rows."""
    error = f"root mean squared error is {number(rows.rmse, 4)}"
    return f"The {error}" if rows.r2 is None else f"R² is {r_squared(rows.r2)}; the {error}"


def effort(facts: Facts) -> Html:
    """Return how the search went."""
    solution, counters = facts.solution, facts.solution.counters
    counted = {"node": counters.nodes, "cut": counters.cuts, "round": counters.rounds}
    work = ", ".join(plural(count, word) for word, count in counted.items() if count)
    return say(
        "effort",
        engine=solution.engine,
        seconds=f"{solution.seconds:.3g}",
        work=f" ({work})" if work else "",
        stop=str(solution.stop),
    )


def number(value: float, digits: int = 6) -> str:
    """Write a number for reading, with a true minus sign."""
    return f"{value:.{digits}g}".replace("-", MINUS)


def at_most(value: float, digits: int = 6) -> str:
    """Write a number that is proved as a lower bound: rounded down.

    Examples
    --------
    >>> number(36.16988), at_most(36.16988), at_most(0.25)
    ('36.1699', '36.1698', '0.25')
    """
    return rounded_down(value, digits).replace("-", MINUS)


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


def shown(value: Any) -> str:
    """Write a parameter's value as Python would take it."""
    return repr(value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value)
