"""A model as a JSON file: the formula, its certificate and the settings behind it.

JSON holds no code, so a file from a stranger can be loaded without fear; every field is checked
before it is used.  Numbers are written with Python's ``repr``, which reads back as the same
float64, so a loaded model predicts the same bits.  What follows from other fields (the formula
as text, status and gap) is written for readers and never trusted: it is computed anew.

Only the search's history stays behind: the trace of the gap and the proof, which has a file of
its own (``Proof.save``).

A certificate says "no polynomial that obeys these rules costs less than the bound"; it says nothing
about a formula that breaks the rules, or with a tolerance that nobody gave for it.  So a model file
must agree with itself (``check_agreement``):

    terms          within degree and budgets, of kept inputs, as include, exclude and heredity say
    coefficients   one in the scaled basis for each term
    gamma, gap_tol those of the settings
    scope          "all-inputs" only where no input was left out by the triage

Whether the numbers are right only the data can tell: ``polysharp.verify`` asks them.
"""

from __future__ import annotations

import json
from itertools import chain
from math import isclose
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from polysharp._version import __version__
from polysharp.data.files import write_file
from polysharp.data.functions import read_functions
from polysharp.errors import InputError
from polysharp.estimators.fitted_model import FittedModel
from polysharp.estimators.model import formulas_of
from polysharp.estimators.model_file import fields
from polysharp.estimators.model_file.fields import Reader
from polysharp.estimators.multitask import MultiTaskSparsePolynomialRegressor
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.monomials.structure import inherits
from polysharp.monomials.term_rules import TermRules, read_rules
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Monomial

FORMAT = "polysharp-model"
VERSION = 4


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
    formulas_of(model)  # refuses what is no fitted model of ours
    found = model.fitted_
    calibrations = found.calibrations or [None] * len(found.polynomials)
    responses = [
        {
            "formula": polynomial.formula(digits=6),
            "response": polynomial.response,
            **fields.describe_polynomial(polynomial),
            "calibration": own and fields.describe_calibration(own, polynomial),
        }
        for polynomial, own in zip(found.polynomials, calibrations, strict=True)
    ]
    solution, polynomial = found.solution, found.polynomials[0]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "polysharp": __version__,
        "inputs": polynomial.names,
        "named": hasattr(model, "feature_names_in_"),
        "certificate": {**fields.plain(solution), "status": solution.status, "gap": solution.gap},
        "kept_inputs": found.kept_inputs,
        "ranking": found.ranking,
        "estimator": type(model).__name__,
        "parameters": fields.describe_parameters(model),
        "leverage": found.leverage,
        "functions": fields.describe_functions(polynomial.library),
    }
    if found.scales is None:
        document = {**responses[0], **document}
    else:
        pairs = zip(responses, found.scales, strict=True)
        document["responses"] = [{**own, "scale": scale} for own, scale in pairs]
    plain: dict[str, Any] = json.loads(json.dumps(document, default=fields.plain))
    return plain


def restore(document: Any) -> SparsePolynomialRegressor:
    """Return the fitted model of a document, or raise InputError for the first rule it breaks."""
    root = Reader("", document)
    root["format"].one_of(FORMAT)
    if (version := root["version"].integer(1)) != VERSION:
        age = "a later" if version > VERSION else "an earlier"
        raise InputError(
            f"version must be {VERSION}, got {version} of {age} polysharp than {__version__}; "
            "fit again"
        )
    names = tuple(item.text() for item in root["inputs"].items())
    if not names:
        raise root["inputs"].refusal("a list of at least one name")
    several, p = "responses" in root, len(names)
    each = list(root["responses"].items()) if several else [root]
    if not each:
        raise root["responses"].refusal("a list of at least one response")
    settings = fields.read_parameters(root["parameters"])
    library = read_functions(settings["functions"], names)
    if root["functions"].value != fields.describe_functions(library):
        raise InputError("functions must be those that the parameters ask for, and are not")
    formulas = [fields.read_polynomial(at, library, names, at["response"].text()) for at in each]
    kind = MultiTaskSparsePolynomialRegressor if several else SparsePolynomialRegressor
    leverage = fields.read_leverage(root["leverage"], len(formulas[0]))
    calibrations = [
        fields.read_calibration(at["calibration"], formula, leverage)
        for at, formula in zip(each, formulas, strict=True)
        if at["calibration"].value is not None
    ]
    ranking = None
    if root["ranking"].value is not None:
        ranking = Ranking(**fields.record(root["ranking"], Ranking))
    kept = [i.integer(0, p - 1) for i in root["kept_inputs"].items()]
    model = kind(**settings)
    model.fitted_ = FittedModel(
        tuple(formulas),
        fields.read_certificate(root["certificate"]),
        np.array(kept, dtype=np.intp),
        leverage,
        ranking,
        scales=tuple(at["scale"].size() for at in each) if several else None,
        calibrations=tuple(calibrations),
    )
    model.n_features_in_ = p
    if root["named"].flag():
        model.feature_names_in_ = np.array(names, dtype=object)
    check_agreement(model)
    return model


def _refuse(constant: str) -> None:
    raise InputError(f"numbers must be finite, got {constant}")


def check_agreement(model: SparsePolynomialRegressor) -> None:
    """Raise InputError for the first thing that cannot come from one fit."""
    polynomial, *others = formulas_of(model)
    solution = model.solution_
    _demand(
        all(formula.monomials == polynomial.monomials for formula in others),
        "responses must have the same terms, and do not",
    )
    rules = read_rules(model.get_params(deep=False), polynomial.names)
    kept = {int(i) for i in model.kept_inputs_}
    _check_terms(polynomial.monomials, rules, kept)
    for formula in (polynomial, *others):
        within = rules.coefficients.kept(formula.monomials, formula.coefficients)
        _demand(
            np.array_equal(within, formula.coefficients),
            "terms must have coefficients within coefficient_bounds and positive, and do not",
        )
    count, each = len(polynomial), (len(others) + 1,) if model._several else ()
    for w in [solution.coefficients] + ([solution.refit.coefficients] if solution.refit else []):
        _demand(
            len(set(solution.support)) == count and w.shape == (*each, count),
            f"certificate.support and coefficients must have one value for each of {count} terms, "
            f"got {len(set(solution.support))} and {' x '.join(map(str, w.shape))}",
        )
    all_or_none = len(model.fitted_.calibrations) in (0, len(others) + 1)
    _demand(all_or_none, "calibration must be there for all responses or none")
    ranking, p = model.ranking_, len(polynomial.names)
    good = ranking is None or len(ranking.scores) == p
    _demand(good, f"ranking.scores must have one number per input, {p}")
    for name, given in (("gamma", model.gamma), ("gap_tol", model.gap_tol)):
        stated = float(getattr(solution, name))
        _demand(
            # gamma comes back as 1 / (1 / gamma)
            given == "auto" or isclose(stated, float(given), rel_tol=1e-12),
            f"certificate.{name} must be that of the parameters, {given!r}, got {stated!r}",
        )
    _demand(solution.gamma > 0.0, f"certificate.gamma must be positive, got {solution.gamma!r}")
    allowed = set(range(p)) - set(rules.exclude_inputs)
    _demand(
        solution.scope != "all-inputs" or kept == allowed,
        "certificate.scope must be 'kept-inputs' where kept_inputs are not all that are allowed, "
        f"got {solution.scope!r}",
    )


def _check_terms(terms: tuple[Monomial, ...], rules: TermRules, kept: set[int]) -> None:
    """Check the terms one by one, then all together."""
    chosen = {tuple(sorted(m)) for m in terms}
    for m in chosen:
        _demand(
            rules.shape_allows(m) and (rules.constant or bool(m)) and m not in rules.exclude_terms,
            f"terms must be those that the parameters allow, got {m}",
        )
        _demand(rules.library.inputs_of(m) <= kept, f"terms must use kept_inputs alone, got {m}")
        _demand(
            inherits(m, rules.heredity, chosen.__contains__),
            f"terms must meet heredity={rules.heredity!r}, got {m} without its parents",
        )
    inputs = rules.library.inputs_of(chain.from_iterable(chosen))
    limit = len(inputs) if rules.max_inputs is None else rules.max_inputs
    _demand(
        len(chosen) <= rules.max_terms and len(inputs) <= limit,
        f"terms must keep to max_terms={rules.max_terms} and max_inputs={rules.max_inputs}, "
        f"got {len(chosen)} terms in {len(inputs)} inputs",
    )
    _demand(
        chosen.issuperset(rules.include_terms) and inputs.issuperset(rules.include_inputs),
        "terms must hold include_terms and include_inputs of the parameters, and do not",
    )


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(otherwise)
