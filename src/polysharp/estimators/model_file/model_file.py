"""A model as a JSON file: the formula, its certificate and the settings behind it.

JSON holds no code, so a file from a stranger can be loaded without fear; every field is checked
before it is used.  Numbers are written with Python's ``repr``, which reads back as the same
float64, so a loaded model predicts the same bits.  What follows from other fields (the formula
as text, status and gap) is written for readers and never trusted: it is computed anew.

Only the search's history stays behind: the trace of the gap and the proof, which has a file of
its own (``Proof.save``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from polysharp._version import __version__
from polysharp.certificate.solution import Counters, Scope, Solution, Status, Stop
from polysharp.data.functions import FUNCTIONS, Applied, Library
from polysharp.engines import ENGINES
from polysharp.engines.base import Engine
from polysharp.errors import InputError
from polysharp.estimators.fitted import laws_of, settings_of
from polysharp.estimators.intervals import Calibration
from polysharp.estimators.model_file.agreement import check_agreement
from polysharp.estimators.model_file.interval_fields import (
    describe_calibration,
    describe_spread,
    read_calibration,
    read_spread,
)
from polysharp.estimators.model_file.schema import Reader
from polysharp.estimators.multitask import MultiTaskSparsePolynomialRegressor
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.files import write_file
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

FORMAT = "polysharp-model"
VERSION = 3  # of models with several responses; 2 has one, 1 no ranges and no intervals


def save_model(model: Any, path: str | PathLike[str], *, columns: Any = None) -> None:
    """Write a fitted model to a JSON file.

    Parameters
    ----------
    model : SparsePolynomialRegressor, SparsePolynomialRegressorCV, or theirs for several responses
        A fitted model.
    path : str or path
        Where to write; an existing file is replaced.
    columns : dict, list or None
        How the columns were made from a table; kept as it is, for ``load_columns``.

    See Also
    --------
    load_model : Read it again.

    Examples
    --------
    >>> import tempfile
    >>> from polysharp import SparsePolynomialRegressor, load_model, save_model
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> model = SparsePolynomialRegressor(2, 1, engine="enumeration").fit(X, X[:, 0] * X[:, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model.json")
    ...     again = load_model(f"{folder}/model.json")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    document = {**describe(model), **({} if columns is None else {"columns": columns})}
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    try:  # here and now, while the model is still there
        restore(json.loads(text))
    except InputError as error:
        raise InputError(f"model must be as it was fitted: {error}") from error
    write_file(path, f"{text}\n")


def load_model(path: str | PathLike[str]) -> SparsePolynomialRegressor:
    """Read a model that ``save_model`` wrote; nothing in the file is run.

    Parameters
    ----------
    path : str or path
        A file of format ``polysharp-model``.

    Returns
    -------
    SparsePolynomialRegressor or MultiTaskSparsePolynomialRegressor
        A fitted model: it predicts, checks the names of columns, and can be fitted again with
        the settings of the file.  A model whose budgets were chosen by validation comes back
        with the budgets chosen.

    Raises
    ------
    InputError
        If the file is not such a file, or breaks one of its rules.
    """
    try:
        return restore(_read(path))
    except (ValueError, RecursionError) as error:  # InputError, and what json and UTF-8 refuse
        raise InputError(f"{str(path)!r} is not a polysharp model: {error}") from error


def load_columns(path: str | PathLike[str]) -> Any:
    """Return what ``save_model`` was told about the columns, None where it was told nothing."""
    found: dict[str, Any] = _read(path)
    return found.get("columns")


def _read(path: str | PathLike[str]) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse)


def describe(model: Any) -> dict[str, Any]:
    """Return the document of a fitted model, made of dicts, lists, texts and numbers only."""
    laws = laws_of(model)
    functions = laws[0].functions
    several = hasattr(model, "response_scales_")
    return {
        "format": FORMAT,
        "version": VERSION if several else 2,
        "polysharp": __version__,
        **({"responses": _responses(model)} if several else _law(laws[0])),
        "inputs": list(laws[0].names),
        "named": hasattr(model, "feature_names_in_"),
        **({"functions": [_known(a) for a in functions]} if functions else {}),
        "certificate": _certificate(model.solution_),
        "kept_inputs": np.asarray(model.kept_inputs_).tolist(),
        "ranking": _ranking(model.ranking_),
        "estimator": type(model).__name__,
        "parameters": _plain(_without_mappings(_settings(model))),
        **_beside(model, several),
    }


def _responses(model: Any) -> list[dict[str, Any]]:
    """Return the formulas of several responses, and what these were divided by."""
    laws, scales = model.polynomials_, np.asarray(model.response_scales_).tolist()
    found = getattr(model, "calibrations_", None) or [None] * len(laws)
    return [
        {**_law(law), "scale": scale, "calibration": _intervals(own, law)}
        for law, scale, own in zip(laws, scales, found, strict=True)
    ]


def _beside(model: Any, several: bool) -> dict[str, Any]:
    """Return what a formula of one response was fitted to, and what intervals need."""
    spread = getattr(model, "spread_", None)
    shared = {"spread": None if spread is None else describe_spread(spread)}
    if several:
        return shared
    reference, calibration = (
        getattr(model, "reference_", None),
        getattr(model, "calibration_", None),
    )
    return {
        "reference": None if reference is None else _terms(reference),
        **shared,
        "calibration": _intervals(calibration, model.polynomial_),
    }


def _intervals(calibration: Calibration | None, law: Polynomial) -> dict[str, Any] | None:
    return None if calibration is None else describe_calibration(calibration, law, _terms)


def _law(polynomial: Polynomial) -> dict[str, Any]:
    return {
        "formula": polynomial.formula(digits=6),
        "response": polynomial.response,
        **_terms(polynomial),
    }


def _terms(polynomial: Polynomial) -> dict[str, Any]:
    """Return what makes a polynomial, but for the names."""
    shifts, ranges = polynomial.shifts, polynomial.ranges
    return {
        "intercept": float(polynomial.intercept),
        "terms": [
            {"term": name, "inputs": [int(i) for i in m], "coefficient": c}
            for name, m, c in zip(
                polynomial.term_names,
                polynomial.monomials,
                polynomial.coefficients.tolist(),
                strict=True,
            )
        ],
        "shifts": None if shifts is None else shifts.tolist(),
        "ranges": None if ranges is None else ranges.tolist(),
    }


def restore(document: Any) -> SparsePolynomialRegressor:
    """Return the fitted model of a document, or raise InputError for the first rule it breaks."""
    root = Reader("", document)
    root["format"].one_of(FORMAT)
    version = root["version"].integer(1)
    if version > VERSION:
        raise InputError(
            f"version must be at most {VERSION}, the last that polysharp {__version__} reads, got "
            f"{version}"
        )
    names = tuple(item.text() for item in root["inputs"].items())
    if not names:
        raise root["inputs"].refusal("a list of at least one name")
    library = _read_functions(root, names)
    several = root.fields().get("responses")
    laws = [
        _read_polynomial(at, library, names, at["response"].text())
        for at in ([root] if several is None else several.items())
    ]
    settings = _read_parameters(root["parameters"])
    solution = _read_certificate(root["certificate"], None if several is None else len(laws))
    model = (
        _of_one(root, laws[0], library, settings)
        if several is None
        else _of_several(several, laws, settings)
    )
    model.solution_, model.powers_ = solution, laws[0].powers
    p = len(names)
    kept = [item.integer(0, p - 1) for item in root["kept_inputs"].items()]
    model.kept_inputs_ = np.array(kept, dtype=np.intp)
    model.ranking_ = _read_ranking(root["ranking"], p)
    model.gamma_, model.gamma_choice_ = model.solution_.gamma, None
    model.n_features_in_ = p
    if root["named"].flag():
        model.feature_names_in_ = np.array(names, dtype=object)
    check_agreement(model)
    _read_intervals(root, [root] if several is None else list(several.items()), model)
    return model


def _of_one(
    root: Reader, law: Polynomial, library: Library, settings: dict[str, Any]
) -> SparsePolynomialRegressor:
    model = SparsePolynomialRegressor(**settings)
    model.polynomial_, model.intercept_ = law, law.intercept
    reference, model.reference_ = root.fields().get("reference"), None
    if reference is not None and reference.value is not None:
        model.reference_ = _read_polynomial(reference, library, law.names, law.response)
    return model


def _of_several(
    at: Reader, laws: list[Polynomial], settings: dict[str, Any]
) -> SparsePolynomialRegressor:
    if not laws:
        raise at.refusal("a list of at least one response")
    model = MultiTaskSparsePolynomialRegressor(**settings)
    model.polynomials_ = tuple(laws)
    model.intercept_ = np.array([law.intercept for law in laws])
    model.response_scales_ = np.array([each["scale"].number(least=0) for each in at.items()])
    return model


def _read_intervals(root: Reader, each: list[Reader], model: SparsePolynomialRegressor) -> None:
    """Set what prediction intervals need, as far as the file has it; ``each`` is a response."""
    laws, spread = laws_of(model), root.fields().get("spread")  # not in version 1
    if spread is None or spread.value is None:
        return
    model.spread_ = read_spread(spread, len(laws[0]))

    def read(at: Reader, law: Polynomial) -> Calibration:
        def polynomial(at: Reader) -> Polynomial:
            return _read_polynomial(at, law.library, law.names, law.response)

        return read_calibration(at, law, model.spread_, polynomial)

    given = [at.fields().get("calibration") for at in each]
    found = [at for at in given if at is not None and at.value is not None]
    if len(found) == len(laws):
        model._set_calibrations(tuple(map(read, found, laws)))


def _known(applied: Applied) -> dict[str, Any]:
    """Return a function of an input that a file can name; code is never written."""
    name = applied.function.name
    if FUNCTIONS.get(name) is not applied.function:
        raise InputError(
            f"functions must be among {', '.join(FUNCTIONS)} for a model to be saved, got {name!r}"
        )
    return {"input": applied.input, "function": name}


def _read_functions(root: Reader, names: tuple[str, ...]) -> Library:
    given = root.fields().get("functions")  # not in files of models without any
    applied = [
        Applied(a["input"].integer(0, len(names) - 1), FUNCTIONS[a["function"].one_of(*FUNCTIONS)])
        for a in (() if given is None else given.items())
    ]
    return Library(len(names), tuple(applied))


def _read_polynomial(
    at: Reader, library: Library, names: tuple[str, ...], response: str
) -> Polynomial:
    terms, last = list(at["terms"].items()), len(library.owners) - 1
    monomials = tuple(tuple(i.integer(0, last) for i in term["inputs"].items()) for term in terms)
    shifts, ranges = None, None
    if at["shifts"].value is not None:
        shifts = _one_per_input(at["shifts"], len(names))
    given = at.fields().get("ranges")  # not in version 1
    if given is not None and given.value is not None:
        ends = [_one_per_input(end, len(names)) for end in given.items()]
        if len(ends) != 2 or not (ends[0] <= ends[1]).all():
            raise given.refusal("two lists, the least and the largest value of every input")
        ranges = np.array(ends)
    return Polynomial(
        monomials=monomials,
        coefficients=np.array([t["coefficient"].number() for t in terms], dtype=np.float64),
        intercept=at["intercept"].number(),
        names=names,
        shifts=shifts,
        response=response,
        ranges=ranges,
        functions=library.applied,
    )


def _one_per_input(at: Reader, p: int) -> Array:
    values = np.array([item.number() for item in at.items()])
    if len(values) != p:
        raise InputError(f"{at.place} must have one number per input, got {len(values)}")
    return values


def _certificate(solution: Solution) -> dict[str, Any]:
    return {
        "status": str(solution.status),
        "scope": solution.scope,
        "objective": float(solution.objective),
        "bound": float(solution.bound),
        "gap": float(solution.gap),
        "gap_tol": float(solution.gap_tol),
        "gamma": float(solution.gamma),
        "engine": solution.engine,
        "stopped": str(solution.stop),
        **{name: int(count) for name, count in asdict(solution.counters).items()},
        "seconds": float(solution.seconds),
        "times": {name: float(seconds) for name, seconds in solution.times.items()},
        "total_squares": solution.total_squares,
        "support": [int(j) for j in solution.support],
        "scaled_coefficients": solution.coefficients.tolist(),
    }


def _read_certificate(at: Reader, responses: int | None) -> Solution:
    """Read a certificate; of several responses each has coefficients of its own."""
    coefficients = np.array([c.number() for c in _flat(at["scaled_coefficients"], responses)])
    if responses is not None:
        coefficients = coefficients.reshape(responses, -1)
    scope: Scope = at["scope"].one_of("all-inputs", "kept-inputs")  # type: ignore[assignment]
    times, squares = at["times"].fields(), at.fields().get("total_squares")
    unknown = squares is None or squares.value is None  # as in files of version 0.1.0
    solution = Solution(
        support=tuple(item.integer(0) for item in at["support"].items()),
        coefficients=coefficients,
        objective=at["objective"].number(least=0),
        bound=at["bound"].number(least=0),
        gap_tol=at["gap_tol"].number(least=0),
        stop=Stop(at["stopped"].one_of(*map(str, Stop))),
        engine=at["engine"].text(),
        gamma=at["gamma"].number(least=0),
        scope=scope,
        counters=Counters(*(at[name].integer(0) for name in ("nodes", "cuts", "rounds"))),
        seconds=at["seconds"].number(least=0),
        times={name: seconds.number(least=0) for name, seconds in times.items()},
        total_squares=None if unknown else at["total_squares"].number(least=0),
    )
    if solution.bound > solution.objective:
        raise at["bound"].refusal(f"at most the objective {solution.objective!r}")
    # The words must say what the numbers say: somebody may have edited one of them.
    if at["status"].one_of(*map(str, Status)) != solution.status:
        raise at["status"].refusal(f"{str(solution.status)!r}, as the gap has it")
    return solution


def _flat(at: Reader, responses: int | None) -> list[Reader]:
    """Return the items of a list, or of so many lists of one length."""
    if responses is None:
        return list(at.items())
    rows = [list(row.items()) for row in at.items()]
    if len(rows) != responses or len({len(row) for row in rows}) > 1:
        raise InputError(f"{at.place} must have one list for each of {responses} responses")
    return [item for row in rows for item in row]


def _ranking(ranking: Ranking | None) -> dict[str, Any] | None:
    if ranking is None:
        return None
    return {
        "scores": ranking.scores.tolist(),
        "degree": int(ranking.degree),
        "gamma": float(ranking.gamma),
    }


def _read_ranking(at: Reader, p: int) -> Ranking | None:
    if at.value is None:
        return None
    scores = _one_per_input(at["scores"], p)
    return Ranking.of_scores(scores, at["degree"].integer(1), at["gamma"].number(least=0))


def _settings(model: Any) -> dict[str, Any]:
    """Return the parameters of the fit; a search over budgets has a model with those it chose."""
    known = SparsePolynomialRegressor().get_params(deep=False)
    given = settings_of(model)
    return {name: given[name] for name in known if name in given}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: engines of ours by name, no generators of random numbers."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Engine):
        return value.name if value.name in ENGINES else "auto"
    if isinstance(value, str | bool | int | float):
        return value
    return [_plain(item) for item in value] if isinstance(value, Iterable) else None


def _without_mappings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with bounds as pairs of what is bounded and its interval, ends finite."""

    def finite(pair: Any) -> Any:
        return [None if v is None or not isfinite(v) else float(v) for v in pair]

    given = settings.get("coefficient_bounds")
    if isinstance(given, Mapping):
        given = {"by": [[key, finite(pair)] for key, pair in given.items()]}
    elif given is not None:
        given = finite(given)
    return {**settings, "coefficient_bounds": given}


def _mapping(value: Any) -> Any:
    """Undo ``_without_mappings``; what it has not written is refused when it is read."""
    if not isinstance(value, dict) or not isinstance(value.get("by"), list):
        return value
    return {tuple(key) if isinstance(key, list) else key: pair for key, pair in value["by"]}


def _read_parameters(at: Reader) -> dict[str, Any]:
    known = SparsePolynomialRegressor().get_params(deep=False)
    if not isinstance(at.value, dict):
        raise at.refusal("an object")
    for name in at.value:
        if name not in known:
            raise InputError(f"{at.place}.{name} is not a parameter of SparsePolynomialRegressor")
    parameters = {**known, **{name: _tuples(value) for name, value in at.value.items()}}
    parameters["coefficient_bounds"] = _mapping(parameters["coefficient_bounds"])
    check_parameters(parameters)
    return parameters


def _tuples(value: Any) -> Any:
    """Undo what JSON does to the tuples inside a list of terms."""
    if not isinstance(value, list):
        return value
    return [tuple(item) if isinstance(item, list) else item for item in value]


def _refuse(constant: str) -> None:
    raise InputError(f"numbers must be finite, got {constant}")
