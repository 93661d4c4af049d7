"""The certificate in plain words: what was proved, about which polynomials, and what was not.

Nothing is claimed here that ``Solution`` does not hold: percentages are rounded away from zero and
bounds down, so that a sentence never says more than the bound allows.
"""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any

import numpy as np

from polysharp.estimators.fitted import ShownRows
from polysharp.progress import plural, rounded_down, rounded_up
from polysharp.report.facts import Facts

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


PROOF = (
    "The bound comes with a proof that others can check without the code that found it: "
    "model.solution_.proof, checked by polysharp.verify or on the command line by polysharp verify."
)
PEERS = (
    "Errors by cross-validation on the same rows: mean over the folds, and its standard error. "
    "Linear regression shows what products and powers buy; boosted trees show what a model that "
    "nobody can read would buy."
)
INTERVAL = 0.9  # coverage of the prediction intervals that are spoken of
CLOSE = 1e-3  # gaps that need not be named beside "best"


def best(facts: Facts) -> str:
    """Return what a proof shows the model to be."""
    if len(facts.shown) > 1:
        return "best for all responses together"
    return "best" if facts.reference is None else "nearest to the mean of good models"


def verdict(facts: Facts) -> str:
    """Return the shortest true statement: the badge at the top."""
    gap = facts.solution.gap
    if facts.proved:
        close = "" if gap <= CLOSE else f"within {percent(gap)} of the "
        proved = f"Proved {close}{best(facts)}"
        return proved if facts.solution.scope == "all-inputs" else f"{proved} of the kept inputs"
    if facts.solution.bound > 0.0:
        return f"Not proved {best(facts)}: gap {percent(gap)}"
    return f"Not proved {best(facts)}"


def statement(facts: Facts) -> list[str]:
    """Return what the certificate says, one sentence after another."""
    solution, reference = facts.solution, facts.reference
    sentences = []
    if len(facts.shown) > 1:
        sentences.append(
            f"One set of terms serves {len(facts.shown)} responses. Each response is divided by "
            "its standard deviation, and the objective below is the sum of theirs: the certificate "
            "is about that sum."
        )
    if reference is not None:
        sentences.append(
            "This model was not fitted to the observed response but to the mean of the models that "
            "validation could not tell from the best one, a formula of "
            f"{plural(len(reference), 'term')}: errors are measured against that mean, and the "
            "certificate says how near to it a formula within the budgets can be."
        )
    sentences += [
        f"The candidates are {candidates(facts)}.",
        f"This model's objective is {number(solution.objective)}. None of the candidates has an "
        f"objective below {at_most(solution.bound)}: that is the proven lower bound.",
    ]
    if facts.proved:
        sentences.append(
            f"So another choice of terms could improve on this model by "
            f"{percent(solution.gap).replace('<', 'less than')} of its objective at the most, "
            f"which is within the tolerance of {percent(solution.gap_tol)} that was asked for."
            f"{f' The model counts as proved {best(facts)}.' if solution.gap <= CLOSE else ''}"
        )
    elif solution.bound > 0.0:
        sentences.append(
            f"So another choice of terms might improve on this model, by no more than "
            f"{percent(solution.gap)} of its objective. The tolerance of "
            f"{percent(solution.gap_tol)} that was asked for was not reached, so the model is the "
            f"best one found, not a proved one. The search ended because {solution.stop}."
        )
    else:
        sentences.append(
            "That bound says nothing yet: the model is the best one found, and how far it is from "
            f"the best possible is not known. The search ended because {solution.stop}."
        )
    if (limit := ceiling(facts)) is not None:
        sentences.append(
            f"In terms of R²: this formula has {r_squared(facts.rows.r2)} on the rows of the fit, "
            f"and no candidate has more than {limit.split()[2]} unless its coefficients are larger "
            "(the sum of their squares in scaled terms): what larger ones would gain, the penalty "
            "takes away."
        )
    return sentences


def candidates(facts: Facts) -> str:
    """Return which polynomials the certificate speaks of."""
    settings, p = facts.settings, facts.p
    terms = plural(int(settings["max_terms"]), "term")
    text = f"all polynomials of degree at most {settings['degree']} with at most {terms}"
    if settings.get("max_inputs") is not None:
        text += f" in at most {settings['max_inputs']} of the inputs"
    kept = len(facts.model.kept_inputs_)
    if facts.solution.scope == "all-inputs":
        text += f", taken from all {plural(p, 'input')} of the table" if p > 1 else ""
    else:
        text += (
            f", taken from the {plural(kept, 'input')} that a ranking kept of {p}; polynomials "
            "that use any other input were not examined"
        )
    rules = [
        wording.format(settings[name])
        for name, wording in RULES.items()
        if settings.get(name) is not None
    ]
    if settings.get("positive"):
        rules.append("no negative coefficient")
    return text + (f"; further rules: {', '.join(rules)}" if rules else "")


def limits(facts: Facts) -> list[str]:
    """Return what the certificate does not say."""
    joint = [
        "It is about all responses together. Other terms may suit one of them better, and it says "
        "nothing about any of them alone."
    ]
    return [
        *(joint if len(facts.shown) > 1 else []),
        "It is about the rows of the fit, not about new rows. A best fit can still predict badly: "
        "judge that on rows the model has not seen.",
        "It does not say that these terms are the true ones, or a cause of anything, nor that no "
        "other choice of terms comes close.",
        f"It holds for the settings below: degree, budgets, gamma = {number(facts.model.gamma_)} "
        "and the coding of the inputs define which model is best.",
        "It is computed in double precision, not in exact arithmetic.",
    ]


def objective(facts: Facts) -> str:
    """Return what the objective is."""
    what = "errors" if facts.reference is None else "differences from that mean"
    return (
        f"The objective is half the sum of squared {what} on the rows of the fit, plus a penalty "
        "of 1/(2 gamma) times the sum of squared coefficients of the scaled terms"
        f"{', added over the scaled responses' if len(facts.shown) > 1 else ''}; "
        f"gamma = {number(facts.model.gamma_)}."
    )


def without_search(facts: Facts) -> str:
    """Introduce the fit of the model that a search has chosen."""
    if facts.reference is None:
        return "The model chosen, without the search:"
    return "The model itself, without the search; reference is what its reference_(X) returns:"


def scope(facts: Facts) -> str:
    """Return which inputs the certificate covers."""
    if facts.solution.scope == "all-inputs":
        return f"all {plural(facts.p, 'input')}" if facts.p > 1 else "the one input"
    return f"{len(facts.model.kept_inputs_)} of {plural(facts.p, 'input')}"


def ceiling(facts: Facts) -> str | None:
    """Return what the certificate says about R2, for the rows of the fit; None where nothing.

    ShownRows that the model was not fitted to have another R2, and a mean of models is not y.
    """
    solution, rows = facts.solution, facts.rows
    limit = solution.r2_ceiling
    if facts.reference is not None or limit is None or limit >= 1.0 or rows.r2 is None:
        return None
    known = (solution.total_squares or 0.0, solution.r2 or 0.0)
    if not np.allclose(known, (rows.total_squares, rows.r2), rtol=1e-6, atol=0.0):
        return None
    return f"at most {rounded_up(limit)} within these budgets"


def resamples(facts: Facts) -> str:
    """Say what the shares of the resamples are, and are not."""
    picked = facts.stability
    if picked is None:
        return ""
    said = (
        f"{picked.n_resamples} bootstrap resamples of the rows were fitted like the model, their "
        "terms chosen anew. The last column is the share that has the term: a low one often means "
        f"that another term does nearly the same work; {100 * picked.same_model:.0f}"
        "\N{NO-BREAK SPACE}% chose exactly these terms. Between the two numbers lie the "
        "coefficients of the middle 90\N{NO-BREAK SPACE}%, zero where a resample has not the term, "
        "so that the choice of terms is taken into account. These shares are no probabilities that "
        "a term is true, and these intervals no confidence intervals of a true coefficient: the "
        "ridge shrinks all coefficients alike, which the column without ridge shows (least "
        "squares on the same terms)."
    )
    if facts.reference is None:
        return said
    return f"{said} They were fitted to the observed response, this model to a mean of models."


def intervals(facts: Facts) -> str | None:
    """Say how wide the prediction intervals are, and what they promise; None without any."""
    halves = [half_width(each) for each in facts.shown]
    if halves[0] is None:
        return None
    folds = len(facts.shown[0].model.calibration_.folds)
    source = f"{folds} folds of the rows of the fit" if folds > 1 else "held-out rows"
    wide, of = f"± {number(halves[0], 4)}", "the prediction"
    if len(halves) > 1:
        wide, of = "the distances of the last column", "the prediction, of each response by itself"
    return (
        f"About {100 * INTERVAL:.0f}\N{NO-BREAK SPACE}% of new rows like those of the fit lie "
        f"within {wide} of {of}, whatever the distribution of the errors (conformal intervals, "
        f"from {source}). That is an average over rows: it may hold more often for some inputs and "
        "less often for others. The intervals grow outside the rows of the fit, where nothing is "
        "promised."
    )


def half_width(facts: Facts) -> float | None:
    """Return half the width of prediction intervals at most rows; None without any."""
    found = getattr(facts.model, "calibration_", None)
    if found is None or found.most < INTERVAL:
        return None
    rows = facts.rows if facts.held_out is None else facts.held_out
    return 0.5 * float(np.median(np.diff(found.ends(rows.X, INTERVAL))))


def accuracy(rows: ShownRows) -> str:
    """Return R2 and typical error of some rows."""
    error = f"root mean squared error is {number(rows.rmse, 4)}"
    return f"The {error}" if rows.r2 is None else f"R² is {r_squared(rows.r2)}; the {error}"


def effort(facts: Facts) -> str:
    """Return how the search went."""
    solution, counters = facts.solution, facts.solution.counters
    work = [
        plural(count, word)
        for count, word in (
            (counters.nodes, "node"),
            (counters.cuts, "cut"),
            (counters.rounds, "round"),
        )
        if count
    ]
    done = f" ({', '.join(work)})" if work else ""
    return (
        f"Searched by the engine “{solution.engine}” for {solution.seconds:.3g} s{done}; it ended "
        f"because {solution.stop}."
    )


def number(value: float, digits: int = 6) -> str:
    """Write a number for reading, with a true minus sign."""
    return f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def at_most(value: float, digits: int = 6) -> str:
    """Write a number that is proved as a lower bound: rounded down.

    Examples
    --------
    >>> number(36.16988), at_most(36.16988), at_most(0.25)
    ('36.1699', '36.1698', '0.25')
    """
    return rounded_down(value, digits).replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    r"""Write a share in percent, two digits, rounded up in size.

    Examples
    --------
    >>> percent(0.03141), percent(0.0), percent(1e-9), percent(0.5)
    ('3.2\xa0%', '0\xa0%', '<\xa00.0001\xa0%', '50\xa0%')
    """
    value = 100.0 * share
    if value <= 0.0:
        return "0\N{NO-BREAK SPACE}%"
    if value < 1e-4:
        return "<\N{NO-BREAK SPACE}0.0001\N{NO-BREAK SPACE}%"
    unit = 10.0 ** (floor(log10(value)) - 1)
    # What is a round number but for the last bit stays that number.
    return f"{ceil(value / unit - 1e-9) * unit:.12g}\N{NO-BREAK SPACE}%"


def r_squared(value: float | None) -> str:
    """Write R^2 with as many digits as tell it from 1, rounded down.

    Examples
    --------
    >>> r_squared(0.87654), r_squared(0.999871), r_squared(None)
    ('0.8765', '0.99987', '\N{EN DASH}')
    """
    if value is None:
        return "\N{EN DASH}"
    digits = 4 if value < 0.999 or value >= 1.0 else min(6, 1 + ceil(-log10(1.0 - value) - 1e-9))
    return f"{floor(value * 10**digits) / 10**digits:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def shown(value: Any) -> str:
    """Write a parameter's value as Python would take it."""
    return repr(value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value)
