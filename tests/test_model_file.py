"""Models as JSON: the same bits come back, and what is wrong with a file is said."""

from __future__ import annotations

import json
import re
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from support import Enumeration, inner, restore

import polysharp
from polysharp import InputError, SparsePolynomialRegressor, load_model, save_model

VERSION = inner("VERSION", "estimators")
describe = inner("describe", "estimators")

NAMES = ["speed", "air gap", 'größe "µ"', "unused"]


def table(n=60, seed=0):
    X = pd.DataFrame(np.random.default_rng(seed).standard_normal((n, 4)) + 1.0, columns=NAMES)
    y = pd.Series(X["speed"] * X["air gap"] / 3.0 - X[NAMES[2]] ** 2 + 0.1, name="load")
    return X, y


@pytest.fixture(scope="module")
def model():
    X, y = table()
    return SparsePolynomialRegressor(
        2, 3, center=True, engine="enumeration", include_terms=[("speed", "air gap")]
    ).fit(X, y)


@pytest.fixture
def document(model):
    return json.loads(json.dumps(describe(model)))


def test_the_same_bits_come_back(model, tmp_path):
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    X, _ = table(seed=1)
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert again.polynomial_.shifts.tobytes() == model.polynomial_.shifts.tobytes()
    assert str(again.polynomial_) == str(model.polynomial_)
    assert str(again.solution_) == str(model.solution_)
    assert again.solution_.status is model.solution_.status
    assert again.solution_.times == model.solution_.times
    assert again.intercept_ == model.intercept_
    assert again.gamma_ == model.gamma_
    assert (again.powers_ == model.powers_).all()
    assert (again.kept_inputs_ == model.kept_inputs_).all()
    assert again.get_params() == model.get_params()
    assert (again.get_feature_names_out() == model.get_feature_names_out()).all()


def test_ranges_come_back(model):
    X, _ = table(seed=1)
    ranges = np.array([X.min(axis=0) + 0.5, X.max(axis=0) - 0.5])
    clamped = replace(model.polynomial_, ranges=ranges)
    model = copy(model)
    model.fitted_ = replace(model.fitted_, polynomials=(clamped,))
    again = restore(json.loads(json.dumps(describe(model))))
    assert again.predict(X).tobytes() == model.predict(X).tobytes()


def test_awkward_floats_come_back(model, document):
    values = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -1 / 3]
    for value in values:
        document["intercept"] = value
        assert restore(json.loads(json.dumps(document))).intercept_ == value


def test_a_loaded_model_is_an_estimator(model, tmp_path):
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    X, y = table()
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X.rename(columns={"speed": "sped"}))
    assert again.score(X, y) == model.score(X, y)
    refitted = clone(again).fit(X, y)
    assert str(refitted.polynomial_) == str(model.polynomial_)
    save_model(again, tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_text() == (tmp_path / "model.json").read_text()


def test_without_names_and_after_a_triage(tmp_path):
    X = np.random.default_rng(3).standard_normal((80, 6))
    model = SparsePolynomialRegressor(2, 2, n_candidates=3, engine="enumeration")
    model.fit(X, X[:, 2] * X[:, 4])
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert not hasattr(again, "feature_names_in_")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert again.solution_.scope == "kept-inputs"
    assert again.ranking_.scores.tobytes() == model.ranking_.scores.tobytes()
    assert (again.ranking_.order == model.ranking_.order).all()


def test_settings_that_json_cannot_hold(tmp_path):
    X, y = table()
    model = SparsePolynomialRegressor(
        np.int64(2),
        1,
        gamma=np.float64(0.5),
        engine=Enumeration(),
        random_state=np.random.default_rng(0),
        exclude_inputs=np.array([0]),
    ).fit(X, y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert again.engine == "enumeration"
    assert again.random_state is None
    assert (again.degree, again.gamma, again.exclude_inputs) == (2, 0.5, [0])


@pytest.mark.parametrize(
    "options",
    [
        {"heredity": "strong", "max_inputs": 2},
        {"heredity": "weak", "exclude_terms": ["speed^2"], "max_interaction": 2},
        {"fit_intercept": False, "include_terms": [(), ("speed",)], "center": True},
        {"include_inputs": pd.Index(["unused"]), "exclude_inputs": [1], "interaction_degree": 2},
        {"n_candidates": 2, "gamma": 3, "gap_tol": 0},
        {"max_terms": 100, "max_inputs": 9},
    ],
)
def test_every_kind_of_fit_agrees_with_its_file(options, tmp_path):
    X, y = table()
    settings = {"degree": 2, "max_terms": 3, "engine": "tree", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparsePolynomialRegressor(**settings).fit(X, y)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert str(again.polynomial_) == str(model.polynomial_)
    assert [again.get_params()[name] for name in options] == [
        list(value) if isinstance(value, pd.Index) else value for value in options.values()
    ]


def test_settings_changed_after_the_fit_are_told_when_saving(tmp_path):
    X, y = table()
    model = SparsePolynomialRegressor(2, 3, engine="enumeration").fit(X, y).set_params(max_terms=1)
    with pytest.raises(InputError, match="model must be as it was fitted: terms must keep to max"):
        save_model(model, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_for_people_too(model, tmp_path):
    save_model(model, tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["formula"] == model.polynomial_.formula(6)
    assert "größe" in text
    assert document["polysharp"] == polysharp.__version__
    assert document["certificate"]["status"] == "optimal"
    assert [t["term"] for t in document["terms"]] == list(model.polynomial_.term_names)


def test_only_fitted_models_of_ours_are_written(tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LinearRegression

    with pytest.raises(NotFittedError):
        save_model(SparsePolynomialRegressor(), tmp_path / "model.json")
    with pytest.raises(InputError, match="must be a fitted polysharp model, got LinearRegression"):
        save_model(LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]), tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


DELETE = object()

BROKEN = [
    (("format",), "other", "format must be one of 'polysharp-model', got 'other'"),
    (("version",), VERSION + 1, f"version must be {VERSION}, got {VERSION + 1} of a later"),
    (("version",), 2, f"version must be {VERSION}, got 2 of an earlier .*; fit again"),
    (("version",), "1", "version must be an integer of at least 1, got '1'"),
    (("terms",), DELETE, "terms is missing"),
    (("terms",), {}, "terms must be a list, got {}"),
    (("terms", 1, "coefficient"), "1.5", r"terms\[1\].coefficient must be a finite number"),
    (("terms", 1, "coefficient"), True, r"terms\[1\].coefficient must be a finite number"),
    (("terms", 1, "coefficient"), 10**400, r"terms\[1\].coefficient must be a finite number"),
    (("terms", 0, "inputs", 0), 4, r"terms\[0\].inputs\[0\] must be an integer from 0 to 3, got 4"),
    (("terms", 0, "inputs", 0), -1, r"terms\[0\].inputs\[0\] must be an integer from 0 to 3"),
    (("terms", 0, "inputs"), [1] * 2, None),
    (("terms", 0), 3, r"terms\[0\] must be an object, got 3"),
    (("inputs",), [], "inputs must be a list of at least one name"),
    (("inputs", 2), None, r"inputs\[2\] must be a text, got None"),
    (("shifts",), [1.0], "shifts must have one number per input, got 1"),
    (("ranges",), [[0.0] * 4], "ranges must be two lists"),
    (("ranges",), [[1.0] * 4, [0.0] * 4], "ranges must be two lists"),
    (("ranges",), [[0.0] * 3, [1.0] * 4], "ranges must be rows of one length"),
    (("named",), "yes", "named must be true or false, got 'yes'"),
    (("kept_inputs", 0), 9, r"kept_inputs\[0\] must be an integer from 0 to 3, got 9"),
    (("ranking",), {"scores": [1.0], "degree": 2, "gamma": 1.0}, "one number per input, 4"),
    (("certificate", "status"), "feasible", "certificate.status must be 'optimal', as the gap has"),
    (("certificate", "bound"), 1e9, "certificate.bound must be at most the objective"),
    (("certificate", "scope"), "everything", "certificate.scope must be one of"),
    (("certificate", "stop"), "tired", "certificate.stop must be one of"),
    (("certificate", "objective"), -1.0, "certificate.objective must be a finite number of at"),
    (("certificate", "gap_tol"), 0.9, "certificate.gap_tol must be that of the parameters, 0.0001"),
    (("certificate", "gamma"), 0.0, "certificate.gamma must be positive, got 0.0"),
    (("certificate", "times"), None, "certificate.times must be an object, got None"),
    (("certificate", "support"), [1], "one value for each of 3 terms, got 1 and 3"),
    (("certificate", "coefficients"), [], "one value for each of 3 terms, got 3 and 0"),
    (("kept_inputs",), [0, 1, 2], "certificate.scope must be 'kept-inputs' where"),
    (("kept_inputs",), [3], "terms must use kept_inputs alone"),
    (("terms", 0, "inputs"), [0, 0, 0], r"terms must be those that the .* allow, got \(0, 0, 0\)"),
    (("parameters", "max_terms"), 2, "terms must keep to max_terms=2 and .* got 3 terms"),
    (("parameters", "max_inputs"), 2, "terms must keep to .* max_inputs=2, got 3 terms in"),
    (("parameters", "include_inputs"), ["unused"], "terms must hold include_terms and include_in"),
    (("parameters", "include_terms"), 5, "include_terms must be a list, got 5"),
    (("parameters", "exclude_terms"), [[2, 2]], r"terms must be those .* allow, got \(2, 2\)"),
    (("parameters", "heredity"), "strong", "terms must meet heredity='strong', got "),
    (("parameters", "gamma"), 7.0, "certificate.gamma must be that of the parameters, 7.0"),
    (("certificate", "counters", "nodes"), 1.5, "counters.nodes must be an integer of at least 0"),
    (("parameters", "degree"), 0, "degree must be an integer of at least 1, got 0"),
    (("parameters", "colour"), 1, "parameters.colour is not a parameter"),
    (("parameters",), [], r"parameters must be an object, got \[\]"),
]


@pytest.mark.parametrize(("place", "value", "message"), BROKEN)
def test_what_is_wrong_with_a_file_is_said(document, place, value, message, tmp_path):
    at = document
    for step in place[:-1]:
        at = at[step]
    if value is DELETE:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    if message is None:
        load_model(path)
        return
    with pytest.raises(InputError, match=message) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{str(path)!r} is not a polysharp model: ")


def test_a_term_twice(document):
    document["terms"][1]["inputs"] = list(reversed(document["terms"][0]["inputs"]))
    with pytest.raises(InputError, match="monomials must be distinct"):
        restore(document)


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "null", "[" * 100_000, '{"format": NaN}', "cos\nsystem\n."]
)
def test_files_of_another_kind(text, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{str(path)!r} is not a polysharp model")):
        load_model(path)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(b"\x80\x04\x95 a pickle")
    with pytest.raises(InputError, match="is not a polysharp model"):
        load_model(path)


def test_every_field_is_needed_or_for_readers_only(document):
    """A file without one of its fields is refused, unless the field follows from the others."""
    for_readers = {"polysharp", "formula", "estimator"}
    for name in document:
        without = {key: value for key, value in document.items() if key != name}
        if name in for_readers:
            restore(without)
        else:
            with pytest.raises(InputError, match=f"^{name} is missing"):
                restore(without)
