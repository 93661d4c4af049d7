"""The sections of a model file: how each is written, and how it is read again.

formula       intercept, terms, shifts and ranges of a ``Polynomial``, but for its names
certificate   the fields of a ``Solution``; what follows from others is written for readers alone
spread        base, mean and root (the rows of its lower triangle) of ``Leverage``
calibration   heaviest weight, and for every fold its formula (null for the model's own), its
              spread (null likewise), its errors in order and the weights behind them
parameters    those of the fit, mappings of terms to bounds as pairs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from polysharp.certificate.solution import Counters, RidgeRefit, Solution, Status, Stop
from polysharp.data.functions import FUNCTIONS, Applied, Library
from polysharp.engines import ENGINES
from polysharp.engines.base import Engine
from polysharp.errors import InputError
from polysharp.estimators.intervals import Calibration, UnseenErrors
from polysharp.estimators.leverage import Leverage
from polysharp.estimators.model import settings_of
from polysharp.estimators.model_file.schema import Reader
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking


def describe_terms(polynomial: Polynomial) -> dict[str, Any]:
    """Return what makes a polynomial, but for the names."""
    parts = zip(polynomial.term_names, polynomial.monomials, polynomial.coefficients, strict=True)
    return {
        "intercept": polynomial.intercept,
        "terms": [{"term": name, "inputs": m, "coefficient": c} for name, m, c in parts],
        "shifts": polynomial.shifts,
        "ranges": polynomial.ranges,
    }


def read_polynomial(
    at: Reader, library: Library, names: tuple[str, ...], response: str
) -> Polynomial:
    """Return the polynomial of some terms."""
    terms, last = list(at["terms"].items()), len(library.owners) - 1
    ranges, shifts = at.get("ranges"), at["shifts"]  # no ranges in version 1
    if ranges is not None:
        limits = [end.numbers(len(names), "input") for end in ranges.items()]
        if len(limits) != 2 or not (limits[0] <= limits[1]).all():
            raise ranges.refusal("two lists, the least and the largest value of every input")
    return Polynomial(
        tuple(tuple(i.integer(0, last) for i in term["inputs"].items()) for term in terms),
        np.array([term["coefficient"].number() for term in terms], dtype=np.float64),
        at["intercept"].number(),
        names,
        shifts=None if shifts.value is None else shifts.numbers(len(names), "input"),
        response=response,
        ranges=None if ranges is None else np.array(limits),
        functions=library.applied,
    )


def describe_function(applied: Applied) -> dict[str, Any]:
    """Return a function of an input that a file can name; code is never written."""
    name = applied.function.name
    if FUNCTIONS.get(name) is not applied.function:
        raise InputError(
            f"functions must be among {', '.join(FUNCTIONS)} for a model to be saved, got {name!r}"
        )
    return {"input": applied.input, "function": name}


def read_library(root: Reader, n_inputs: int) -> Library:
    """Return the columns of a model; files of models without functions name none."""
    functions = root.get("functions")
    applied = [
        Applied(a["input"].integer(0, n_inputs - 1), FUNCTIONS[a["function"].one_of(*FUNCTIONS)])
        for a in (() if functions is None else functions.items())
    ]
    return Library(n_inputs, tuple(applied))


# Field by field of a certificate: the attribute of a solution, and how it is read.
CERTIFICATE: dict[str, tuple[str, Callable[[Reader], Any]]] = {
    "scope": ("scope", lambda at: at.one_of("all-inputs", "kept-inputs")),
    "objective": ("objective", Reader.size),
    "bound": ("bound", Reader.size),
    "gap_tol": ("gap_tol", Reader.size),
    "gamma": ("gamma", Reader.size),
    "engine": ("engine", Reader.text),
    "stopped": ("stop", lambda at: Stop(at.one_of(*map(str, Stop)))),
    "seconds": ("seconds", Reader.size),
    "times": ("times", lambda at: {name: s.size() for name, s in at.fields().items()}),
    "support": ("support", lambda at: tuple(item.integer(0) for item in at.items())),
}


def describe_certificate(solution: Solution) -> dict[str, Any]:
    """Return the fields of a certificate."""
    return {
        "status": solution.status,
        "gap": solution.gap,
        **{name: getattr(solution, own) for name, (own, _) in CERTIFICATE.items()},
        **asdict(solution.counters),
        "total_squares": solution.total_squares,
        "scaled_coefficients": solution.coefficients,
        "max_terms": solution.max_terms,
        "max_inputs": solution.max_inputs,
        "proved_at": solution.proved_at,
        "refit": None if solution.refit is None else _describe_refit(solution.refit),
    }


def _describe_refit(refit: RidgeRefit) -> dict[str, Any]:
    return {"gamma": refit.gamma, "scaled_coefficients": refit.coefficients, "r2": refit.r2}


def read_certificate(at: Reader, responses: int | None) -> Solution:
    """Read a certificate; of several responses each has coefficients of its own."""
    squares, refit, proved_at = map(at.get, ("total_squares", "refit", "proved_at"))
    solution = Solution(
        coefficients=_scaled_coefficients(at, responses),
        refit=None if refit is None else _read_refit(refit, responses),
        proved_at=None if proved_at is None else _gammas(proved_at),
        max_terms=_budget(at.get("max_terms")),
        max_inputs=_budget(at.get("max_inputs")),
        counters=Counters(*(at[name].integer(0) for name in ("nodes", "cuts", "rounds"))),
        total_squares=None if squares is None else squares.size(),
        **{own: read(at[name]) for name, (own, read) in CERTIFICATE.items()},
    )
    if solution.bound > solution.objective:
        raise at["bound"].refusal(f"at most the objective {solution.objective!r}")
    # The words must say what the numbers say: somebody may have edited one of them.
    if at["status"].one_of(*map(str, Status)) != solution.status:
        raise at["status"].refusal(f"{str(solution.status)!r}, as the gap has it")
    return solution


def _scaled_coefficients(at: Reader, responses: int | None) -> Any:
    """Read scaled coefficients; several responses have a list each."""
    given = at["scaled_coefficients"]
    rows = [given.numbers()] if responses is None else [row.numbers() for row in given.items()]
    if len(rows) != (responses or 1) or len({len(row) for row in rows}) > 1:
        raise InputError(f"{given.place} must have one list for each of {responses} responses")
    return rows[0] if responses is None else np.array(rows)


def _read_refit(at: Reader, responses: int | None) -> RidgeRefit:
    r2 = at.get("r2")
    coefficients = _scaled_coefficients(at, responses)
    return RidgeRefit(at["gamma"].size(), coefficients, None if r2 is None else r2.number())


def _budget(at: Reader | None) -> int | None:
    return None if at is None else at.integer(1)


def _gammas(at: Reader) -> tuple[float, float]:
    low, high = at.numbers(2, "end of the range", least=0.0).tolist()
    if not 0.0 < low <= high:
        raise at.refusal("two positive numbers, the smaller one first")
    return low, high


def describe_ranking(ranking: Ranking) -> dict[str, Any]:
    """Return the fields of a ranking."""
    return {"scores": ranking.scores, "degree": ranking.degree, "gamma": ranking.gamma}


def read_ranking(at: Reader, p: int) -> Ranking | None:
    """Return the ranking of p inputs, None where there is none."""
    if at.value is None:
        return None
    scores = at["scores"].numbers(p, "input")
    return Ranking(scores, at["degree"].integer(1), at["gamma"].size())


def describe_leverage(leverage: Leverage) -> dict[str, Any]:
    """Return the fields of a leverage."""
    lower = [row[: j + 1] for j, row in enumerate(leverage.root)]
    return {"base": leverage.base, "mean": leverage.mean, "root": lower}


def read_leverage(at: Reader, terms: int) -> Leverage:
    """Return a leverage with one line for each term."""
    mean, lines = at["mean"].numbers(), list(at["root"].items())
    root = np.zeros((terms, terms))
    if len(mean) != terms or len(lines) != terms:
        raise at.refusal(f"a mean and a root of {terms} terms")
    for j, line in enumerate(lines):
        values = line.numbers()
        if len(values) != j + 1:
            raise line.refusal(f"a list of {j + 1} numbers")
        root[j, : j + 1] = values
    return Leverage(at["base"].size(), mean, root)


def describe_calibration(calibration: Calibration, own: Polynomial) -> dict[str, Any]:
    """Return the fields of a calibration."""
    folds = []
    for fold in calibration.folds:
        same = fold.polynomial is own
        equal = bool((fold.weights == fold.weights[0]).all())
        folds.append(
            {
                "formula": None if same else describe_terms(fold.polynomial),
                "spread": None if same else describe_leverage(fold.leverage),
                "errors": fold.scores,
                "weights": fold.weights[0] if equal else fold.weights,
            }
        )
    return {"heaviest": calibration.heaviest, "folds": folds}


def read_calibration(at: Reader, own: Polynomial, leverage: Leverage) -> Calibration:
    """Return the calibration of a model with its own formula and leverage."""
    folds = []
    for fold in at["folds"].items():
        formula, unit = own, leverage
        if fold["formula"].value is not None:
            formula = read_polynomial(fold["formula"], own.library, own.names, own.response)
            unit = read_leverage(fold["spread"], len(formula))
        errors, weights = fold["errors"].numbers(least=0), fold["weights"]
        listed = isinstance(weights.value, list)
        shares = weights.numbers(least=0) if listed else np.full(len(errors), weights.size())
        if not len(errors) or len(shares) != len(errors) or not (np.diff(errors) >= 0.0).all():
            raise InputError(
                f"{fold.place} must have errors in ascending order, each with a weight"
            )
        if not (shares > 0.0).all():
            raise weights.refusal("positive")
        folds.append(UnseenErrors(formula, unit, errors, shares))
    heaviest = at["heaviest"].size()
    if not folds or heaviest == 0.0:
        raise at.refusal("of at least one fold, with a positive heaviest weight")
    return Calibration(tuple(folds), heaviest)


def describe_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of the fit; a search over budgets has a model with those it chose."""

    def finite(pair: Any) -> Any:
        return [None if v is None or not isfinite(v) else float(v) for v in pair]

    given = settings_of(model)
    known = SparsePolynomialRegressor().get_params(deep=False)
    bounds = given.get("coefficient_bounds")
    if isinstance(bounds, Mapping):
        bounds = {"by": [[key, finite(pair)] for key, pair in bounds.items()]}
    elif bounds is not None:
        bounds = finite(bounds)
    own = {name: given[name] for name in known if name in given}
    return own | {"coefficient_bounds": bounds}


def read_parameters(at: Reader) -> dict[str, Any]:
    """Return parameters, checked, tuples of terms being lists in JSON."""

    def tuples(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [tuple(item) if isinstance(item, list) else item for item in value]

    known = SparsePolynomialRegressor().get_params(deep=False)
    given = at.fields()
    for name, field in given.items():
        if name not in known:
            raise InputError(f"{field.place} is not a parameter of SparsePolynomialRegressor")
    parameters = {**known, **{name: tuples(field.value) for name, field in given.items()}}
    bounds = parameters["coefficient_bounds"]
    if isinstance(bounds, dict) and isinstance(bounds.get("by"), list):
        pairs = {tuple(key) if isinstance(key, list) else key: pair for key, pair in bounds["by"]}
        parameters["coefficient_bounds"] = pairs
    check_parameters(parameters)
    return parameters


def plain(value: Any) -> Any:
    """Return what JSON can hold: engines of ours by name, no generators of random numbers."""
    if isinstance(value, Engine):
        return value.name if value.name in ENGINES else "auto"
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, Iterable) else None
