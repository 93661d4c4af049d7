"""The fields of a model file, each with the one function that reads it; every one is checked.

A ``Reader`` stands at one place of a JSON document, which somebody else may have written, and hands
out what it finds there, or says which place breaks which rule::

    terms[2].coefficient must be a finite number, got '1.5'

A field of ``FIELDS`` bears the name of the attribute that is written, so that one table says what
is written and how it is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from sys import float_info
from typing import Any

import numpy as np

from polysharp.certificate.solution import Counters, RidgeRefit, Solution, Status, Stop
from polysharp.data.functions import FUNCTIONS, Library
from polysharp.engines import ENGINES
from polysharp.engines.base import Engine
from polysharp.errors import InputError
from polysharp.estimators.fitted_model import Leverage
from polysharp.estimators.intervals import Calibration, UnseenErrors
from polysharp.estimators.model import settings_of
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array


@dataclass(frozen=True)
class Reader:
    """One place of a document, and what stands there."""

    place: str
    value: Any

    def __getitem__(self, name: str) -> Reader:
        """Enter a field of an object; a field that is not there is refused."""
        self._must_be(dict, "an object")
        inside = f"{self.place}.{name}" if self.place else name
        if name not in self.value:
            raise InputError(f"{inside} is missing")
        return Reader(inside, self.value[name])

    def __contains__(self, name: str) -> bool:
        self._must_be(dict, "an object")
        return name in self.value

    def fields(self) -> dict[str, Reader]:
        """Enter all fields of an object."""
        self._must_be(dict, "an object")
        return {name: self[name] for name in self.value}

    def items(self) -> Iterator[Reader]:
        """Enter the items of a list."""
        self._must_be(list, "a list")
        return (Reader(f"{self.place}[{i}]", item) for i, item in enumerate(self.value))

    def text(self) -> str:
        """Return a text."""
        return str(self._must_be(str, "a text"))

    def one_of(self, *words: str) -> str:
        """Return one of the words."""
        if self.value not in words:
            raise self.refusal(f"one of {', '.join(map(repr, words))}")
        return self.text()

    def flag(self) -> bool:
        """Return true or false."""
        return bool(self._must_be(bool, "true or false"))

    def integer(self, least: int = 0, most: int | None = None) -> int:
        """Return an integer within limits."""
        value = self.value
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not good or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise self.refusal(f"an integer {limits}")
        return int(value)

    def number(self, least: float = -inf) -> float:
        """Return a finite number."""
        value = self.value
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not max(least, -float_info.max) <= value <= float_info.max:
            at_least = f" of at least {least:g}" if least == 0 else ""
            raise self.refusal(f"a finite number{at_least}")
        return float(value)

    def size(self) -> float:
        """Return a finite number of at least 0."""
        return self.number(least=0)

    def numbers(self) -> Array:
        """Return a list of finite numbers."""
        return np.array([item.number() for item in self.items()], dtype=np.float64)

    def table(self) -> Array:
        """Return a list of finite numbers, or rows of them."""
        if not any(isinstance(row.value, list) for row in self.items()):
            return self.numbers()
        rows = [row.numbers() for row in self.items()]
        if len({len(row) for row in rows}) > 1:
            raise self.refusal("rows of one length")
        return np.array(rows)

    def _must_be(self, kind: type, words: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.refusal(words)
        return self.value

    def refusal(self, rule: str) -> InputError:
        """Return the error for a value that breaks a rule."""
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return InputError(f"{self.place or 'the document'} must be {rule}, got {shown}")


def record(at: Reader, kind: type) -> dict[str, Any]:
    """Read the fields of an object as ``FIELDS`` lists them."""
    return {name: read(at[name]) for name, read in FIELDS[kind].items()}


def optional(read: Callable[[Reader], Any]) -> Callable[[Reader], Any]:
    """Return a reader that takes null as well."""
    return lambda at: None if at.value is None else read(at)


def _triangle(at: Reader) -> Array:
    rows = [row.numbers() for row in at.items()]
    root = np.zeros((len(rows), len(rows)))
    for j, row in enumerate(rows):
        if len(row) != j + 1:
            raise InputError(f"{at.place}[{j}] must be a list of {j + 1} numbers, got {len(row)}")
        root[j, : j + 1] = row
    return root


def _gammas(at: Reader) -> tuple[float, ...]:
    found = tuple(at.numbers().tolist())
    if len(found) != 2 or not 0.0 < found[0] <= found[1]:
        raise at.refusal("two positive numbers, the smaller one first")
    return found


FIELDS: dict[type, dict[str, Callable[[Reader], Any]]] = {
    Counters: dict.fromkeys(("nodes", "cuts", "rounds"), Reader.integer),
    RidgeRefit: {
        "gamma": Reader.size,
        "coefficients": Reader.table,
        "r2": optional(Reader.number),
    },
    Solution: {
        "scope": lambda at: at.one_of("all-inputs", "kept-inputs"),
        **dict.fromkeys(("objective", "bound", "gap_tol", "gamma", "seconds"), Reader.size),
        "engine": Reader.text,
        "stop": lambda at: Stop(at.one_of(*map(str, Stop))),
        "times": lambda at: {name: s.size() for name, s in at.fields().items()},
        "support": lambda at: tuple(item.integer() for item in at.items()),
        "counters": lambda at: Counters(**record(at, Counters)),
        "total_squares": optional(Reader.size),
        "coefficients": Reader.table,
        **dict.fromkeys(("max_terms", "max_inputs"), optional(lambda at: at.integer(1))),
        "proved_at": optional(_gammas),
        "refit": optional(lambda at: RidgeRefit(**record(at, RidgeRefit))),
    },
    Ranking: {
        "scores": Reader.numbers,
        "degree": lambda at: at.integer(1),
        "gamma": Reader.size,
    },
    Leverage: {"base": Reader.size, "mean": Reader.numbers, "root": _triangle},
    UnseenErrors: {"scores": Reader.numbers, "weights": Reader.numbers},
}


def plain(value: Any) -> Any:
    """Return what JSON can hold: engines of ours by name, no generators of random numbers."""
    if type(value) in FIELDS:
        found = {name: getattr(value, name) for name in FIELDS[type(value)]}
        if "root" in found:  # rows of a lower triangle
            found["root"] = [row[: j + 1] for j, row in enumerate(value.root)]
        return found
    if isinstance(value, Engine):
        return value.name if value.name in ENGINES else "auto"
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, Iterable) else None


def read_certificate(at: Reader) -> Solution:
    """Read a certificate, whose words must say what its numbers say."""
    solution = Solution(**record(at, Solution))
    if solution.bound > solution.objective:
        raise at["bound"].refusal(f"at most the objective {solution.objective!r}")
    if at["status"].one_of(*map(str, Status)) != solution.status:  # somebody may have edited it
        raise at["status"].refusal(f"{str(solution.status)!r}, as the gap has it")
    return solution


def describe_polynomial(polynomial: Polynomial) -> dict[str, Any]:
    """Return what makes a polynomial, but for the names."""
    parts = zip(polynomial.term_names, polynomial.monomials, polynomial.coefficients, strict=True)
    return {
        "intercept": polynomial.intercept,
        "terms": [{"term": name, "inputs": m, "coefficient": c} for name, m, c in parts],
        "shifts": polynomial.shifts,
        "ranges": polynomial.ranges,
    }


def read_polynomial(at: Reader, library: Library, names: tuple[str, ...], name: str) -> Polynomial:
    """Return the polynomial of some terms; ``name`` is that of its response."""
    terms, last = list(at["terms"].items()), len(library.owners) - 1
    shifts, ranges = (optional(Reader.table)(at[what]) for what in ("shifts", "ranges"))
    if shifts is not None and shifts.shape != (len(names),):
        raise InputError(f"{at['shifts'].place} must have one number per input, got {len(shifts)}")
    if not (ranges is None or (ranges.shape == (2, len(names)) and (ranges[0] <= ranges[1]).all())):
        raise at["ranges"].refusal("two lists, the least and the largest value of every input")
    return Polynomial(
        tuple(tuple(i.integer(0, last) for i in term["inputs"].items()) for term in terms),
        np.array([term["coefficient"].number() for term in terms], dtype=np.float64),
        at["intercept"].number(),
        names,
        shifts=shifts,
        response=name,
        ranges=ranges,
        functions=library.applied,
    )


def describe_functions(library: Library) -> list[dict[str, Any]]:
    """Return functions of inputs that a file can name; code is never written."""
    for applied in library.applied:
        if FUNCTIONS.get(applied.function.name) is not applied.function:
            raise InputError(
                f"functions must be among {', '.join(FUNCTIONS)} for a model to be saved, got "
                f"{applied.function.name!r}"
            )
    return [{"input": a.input, "function": a.function.name} for a in library.applied]


def read_leverage(at: Reader, terms: int) -> Leverage:
    """Return the leverage of a formula of so many terms."""
    found = Leverage(**record(at, Leverage))
    if found.mean.shape != (terms,) or len(found.root) != terms:
        raise at.refusal(f"a mean and a root of {terms} terms")
    return found


def describe_calibration(calibration: Calibration, own: Polynomial) -> dict[str, Any]:
    """Return the fields of a calibration; the model's own formula is not written again."""
    folds = [
        {
            "formula": None if same else describe_polynomial(fold.polynomial),
            "leverage": None if same else fold.leverage,
            **plain(fold),
        }
        for fold in calibration.folds
        for same in [fold.polynomial is own]
    ]
    return {"heaviest": calibration.heaviest, "folds": folds}


def read_calibration(at: Reader, own: Polynomial, leverage: Leverage) -> Calibration:
    """Return the calibration of a model with its own formula and leverage."""
    folds = []
    for each in at["folds"].items():
        formula, unit = own, leverage
        if each["formula"].value is not None:
            formula = read_polynomial(each["formula"], own.library, own.names, own.response)
            unit = read_leverage(each["leverage"], len(formula))
        fold = UnseenErrors(formula, unit, **record(each, UnseenErrors))
        ascending = len(fold.scores) and fold.scores[0] >= 0.0 and (np.diff(fold.scores) >= 0).all()
        if not ascending or len(fold.weights) != len(fold.scores) or not (fold.weights > 0).all():
            raise InputError(
                f"{each.place} must have scores in ascending order, each with a positive weight"
            )
        folds.append(fold)
    heaviest = at["heaviest"].size()
    if not folds or heaviest == 0.0:
        raise at.refusal("of at least one fold, with a positive heaviest weight")
    return Calibration(tuple(folds), heaviest)


def describe_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of the fit; a search over budgets has a model with those it chose."""

    def finite(pair: Any) -> Any:
        return [None if v is None or not isfinite(v) else float(v) for v in pair]

    given = settings_of(model)
    bounds = given["coefficient_bounds"]
    if isinstance(bounds, Mapping):
        bounds = {"by": [[key, finite(pair)] for key, pair in bounds.items()]}
    elif bounds is not None:
        bounds = finite(bounds)
    return {**given, "coefficient_bounds": bounds}


def read_parameters(at: Reader) -> dict[str, Any]:
    """Return parameters, checked, tuples of terms being lists in JSON."""

    def tuples(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [tuple(item) if isinstance(item, list) else item for item in value]

    parameters: dict[str, Any] = SparsePolynomialRegressor().get_params(deep=False)
    for name, field in at.fields().items():
        if name not in parameters:
            raise InputError(f"{field.place} is not a parameter of SparsePolynomialRegressor")
        parameters[name] = tuples(field.value)
    bounds = parameters["coefficient_bounds"]
    if isinstance(bounds, dict) and isinstance(bounds.get("by"), list):
        pairs = {tuple(key) if isinstance(key, list) else key: pair for key, pair in bounds["by"]}
        parameters["coefficient_bounds"] = pairs
    check_parameters(parameters)
    return parameters
