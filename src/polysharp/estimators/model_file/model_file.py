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
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from polysharp._version import __version__
from polysharp.data.file_writing import write_file
from polysharp.errors import InputError
from polysharp.estimators.fitted_model import FittedModel
from polysharp.estimators.intervals import Calibration
from polysharp.estimators.leverage import Leverage
from polysharp.estimators.model import formulas_of
from polysharp.estimators.model_file import fields
from polysharp.estimators.model_file.agreement import check_agreement
from polysharp.estimators.model_file.schema import Reader
from polysharp.estimators.multitask import MultiTaskSparsePolynomialRegressor
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.polynomial.polynomial import Polynomial

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
    formulas_of(model)  # refuses what is no fitted model of ours
    found = model.fitted_
    calibrations = found.calibrations or [None] * len(found.polynomials)
    responses = [
        {
            "formula": polynomial.formula(digits=6),
            "response": polynomial.response,
            **fields.describe_terms(polynomial),
            "calibration": own and fields.describe_calibration(own, polynomial),
        }
        for polynomial, own in zip(found.polynomials, calibrations, strict=True)
    ]
    functions = found.polynomials[0].functions
    document = {
        "format": FORMAT,
        "version": 2 if found.scales is None else VERSION,
        "polysharp": __version__,
        "inputs": found.polynomials[0].names,
        "named": hasattr(model, "feature_names_in_"),
        "certificate": fields.describe_certificate(found.solution),
        "kept_inputs": found.kept_inputs,
        "ranking": found.ranking and fields.describe_ranking(found.ranking),
        "estimator": type(model).__name__,
        "parameters": fields.describe_parameters(model),
        "spread": found.leverage and fields.describe_leverage(found.leverage),
        **({"functions": list(map(fields.describe_function, functions))} if functions else {}),
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
    version = root["version"].integer(1)
    if version > VERSION:
        raise InputError(
            f"version must be at most {VERSION}, the last that polysharp {__version__} reads, got "
            f"{version}"
        )
    names = tuple(item.text() for item in root["inputs"].items())
    if not names:
        raise root["inputs"].refusal("a list of at least one name")
    library = fields.read_library(root, len(names))
    several = root.fields().get("responses")
    each = [root] if several is None else list(several.items())
    if several is not None and not each:
        raise several.refusal("a list of at least one response")
    formulas = [fields.read_polynomial(at, library, names, at["response"].text()) for at in each]
    settings = fields.read_parameters(root["parameters"])
    kind = SparsePolynomialRegressor
    scales: tuple[float, ...] | None = None
    if several is not None:
        kind, scales = MultiTaskSparsePolynomialRegressor, tuple(at["scale"].size() for at in each)
    model, p = kind(**settings), len(names)
    kept = [item.integer(0, p - 1) for item in root["kept_inputs"].items()]
    spread = root.get("spread")  # not in version 1
    leverage = None if spread is None else fields.read_leverage(spread, len(formulas[0]))
    certificate = fields.read_certificate(
        root["certificate"], None if several is None else len(formulas)
    )
    model.fitted_ = FittedModel(
        tuple(formulas),
        certificate,
        np.array(kept, dtype=np.intp),
        fields.read_ranking(root["ranking"], p),
        leverage=leverage,
        scales=scales,
        calibrations=_calibrations(each, formulas, leverage),
    )
    model.n_features_in_ = p
    if root["named"].flag():
        model.feature_names_in_ = np.array(names, dtype=object)
    check_agreement(model)
    return model


def _calibrations(
    each: list[Reader], formulas: list[Polynomial], leverage: Leverage | None
) -> tuple[Calibration, ...]:
    """Return the calibration of each response, none unless the file has all of them."""
    found = [own for at in each if (own := at.get("calibration")) is not None]
    if leverage is None or len(found) < len(formulas):
        return ()
    pairs = zip(found, formulas, strict=True)
    return tuple(fields.read_calibration(at, formula, leverage) for at, formula in pairs)


def _refuse(constant: str) -> None:
    raise InputError(f"numbers must be finite, got {constant}")
