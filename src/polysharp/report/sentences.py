"""Sentences of the report that need a computation; all others stand in ``page.html``.

Nothing is claimed here that ``Solution`` does not hold: percentages are rounded away from zero and
bounds down, so that a sentence never says more than the bound allows.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.errors import InputError
from polysharp.estimators.resampling import Stability
from polysharp.estimators.scored_rows import ScoredRows
from polysharp.polynomial.polynomial import Polynomial
from polysharp.report.report_data import ReportData
from polysharp.typing import Monomial
from polysharp.wording import number, percent, plural, r_squared, rounded_up, share

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


def coding(polynomial: Polynomial) -> str:
    """Say that means are subtracted before inputs are multiplied; nothing where they are not."""
    return "" if polynomial.shifts is None else "in every product the means are subtracted first"


def copies(report: ReportData) -> list[tuple[str, str]]:
    """Return the formulas as text, LaTeX and Python, by the names of these."""
    each = [response.polynomial for response in report.shown]
    names = [f"predict_{t}" for t in range(len(each))] if report.several else ["predict"]
    used = [each[0].names[i] for i in each[0].inputs]
    try:
        cells = [polynomial.to_excel() for polynomial in each]
    except InputError as error:  # a function that Excel has no name for
        cells = [str(error)]
    return [
        ("Text", "\n".join(polynomial.formula(digits=17) for polynomial in each)),
        ("LaTeX", "\n".join(polynomial.to_latex() for polynomial in each)),
        ("Python", "\n\n".join(map(Polynomial.to_python, each, names))),
        (f"Excel, with {', '.join(used)} in the cells A2, B2, ...", "\n".join(cells)),
    ]


def best(report: ReportData) -> str:
    """Return what a proof shows the model to be."""
    return "best for all responses together" if report.several else "best"


def verdict(report: ReportData) -> str:
    """Return the shortest true statement: the badge at the top."""
    gap = report.solution.gap
    if report.proved:
        close = "" if gap <= CLOSE else f"within {percent(gap)} of the "
        proved = f"Proved {close}{best(report)}"
        return proved if report.solution.scope == "all-inputs" else f"{proved} of the kept inputs"
    known = f": gap {percent(gap)}" if report.solution.bound > 0.0 else ""
    return f"Not proved {best(report)}{known}"


def candidates(report: ReportData) -> str:
    """Return which polynomials the certificate speaks of."""
    settings, p = report.settings, report.p
    terms = plural(int(settings["max_terms"]), "term")
    said = f"all polynomials of degree at most {settings['degree']} with at most {terms}"
    if settings.get("max_inputs") is not None:
        said += f" in at most {settings['max_inputs']} of the inputs"
    if report.solution.scope != "all-inputs":
        kept = plural(len(report.model.kept_inputs_), "input")
        said += (
            f", taken from the {kept} that a ranking kept of {p}; polynomials that use any other "
            "input were not examined"
        )
    elif p > 1:
        said += f", taken from all {plural(p, 'input')} of the table"
    given = {name: settings[name] for name in RULES if settings.get(name) is not None}
    rules = [RULES[name].format(value) for name, value in given.items()]
    rules += ["no negative coefficient"] if settings.get("positive") else []
    return said + (f"; further rules: {', '.join(rules)}" if rules else "")


def scope(report: ReportData) -> str:
    """Return which inputs the certificate covers."""
    if report.solution.scope == "all-inputs":
        return f"all {plural(report.p, 'input')}" if report.p > 1 else "the one input"
    return f"{len(report.model.kept_inputs_)} of {plural(report.p, 'input')}"


def ceiling(report: ReportData) -> str | None:
    """Return what the certificate says about R2, for the rows of the fit; None where nothing.

    Rows that the model was not fitted to have another R2.
    """
    solution, rows = report.solution, report.rows
    limit = solution.r2_ceiling
    if limit is None or limit >= 1.0 or rows.r2 is None:
        return None
    known = (solution.total_squares or 0.0, solution.r2 or 0.0)
    if not np.allclose(known, (rows.total_squares, rows.r2), rtol=1e-6, atol=0.0):
        return None
    return f"at most {rounded_up(limit)} within these budgets"


def interval(report: ReportData) -> tuple[float | None, str]:
    """Return half the usual width of the prediction intervals, None without any, and its source."""
    found = report.model.fitted_.calibrations[report.at :]
    if not found or found[0].most < INTERVAL:
        return None, ""
    rows = report.rows if report.held_out is None else report.held_out
    limits, folds = found[0].limits(rows.X, INTERVAL), len(found[0].folds)
    half = 0.5 * np.median(np.diff(limits))
    return float(half), f"{folds} folds of the rows of the fit" if folds > 1 else "held-out rows"


def accuracy(rows: ScoredRows) -> str:
    """Return R2 and typical error of some rows."""
    error = f"root mean squared error is {number(rows.rmse, 4)}"
    return f"The {error}" if rows.r2 is None else f"R² is {r_squared(rows.r2)}; the {error}"


def work(solution: Solution) -> str:
    """Return what the search did, in counts."""
    counters = solution.counters
    counted = {"node": counters.nodes, "cut": counters.cuts, "round": counters.rounds}
    done = ", ".join(plural(count, word) for word, count in counted.items() if count)
    return f" ({done})" if done else ""


def over_resamples(picked: Stability, monomial: Monomial) -> list[str | None]:
    """Return the coefficient without ridge, its interval over the resamples, and its share."""
    if monomial not in picked.monomials:
        return [None, None, percent(0.0)]
    at = picked.monomials.index(monomial)
    low, high = (number(float(end), 4) for end in picked.intervals()[at])
    return [number(picked.without_ridge[at], 4), f"{low} to {high}", share(picked.shares[at], 0)]


def in_python(report: ReportData, *, search: bool = False) -> str:
    """Return the fit of the model itself as Python, or the search that chose it.

    It holds what defines the model and all that is not at its default.
    """
    kind, given = type(report.model), report.model.get_params(deep=False)
    if not search:
        kind, given = type(getattr(report.model, "best_estimator_", report.model)), report.settings
    changed = [
        f"    {key}={_python(given[key])},\n"
        for key, known in inspect.signature(kind).parameters.items()
        if key in DEFINING or _python(given[key]) != _python(known.default)
    ]
    weighted = "" if report.rows.weights is None else ", sample_weight=weights"
    call = f"model = {kind.__name__}(\n{''.join(changed)})"
    return f"from polysharp import {kind.__name__}\n\n{call}\nmodel.fit(X, y{weighted})"


def parameters(report: ReportData) -> list[tuple[str, str]]:
    """Return all parameters of the fit as Python would take them."""
    given = report.settings | {"gamma used": report.model.gamma_}
    return [(name, _python(value)) for name, value in given.items()]


def _python(value: Any) -> str:
    return repr(value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value)
