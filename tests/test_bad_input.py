"""Bad input: every case has a defined answer, and every refusal is one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from support import read_terms

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV, path, verify
from polysharp.engines import make_engine
from polysharp.errors import InfeasibleError, InputError, TooLargeError


def model(degree=2, max_terms=2, engine="enumeration", **options):
    return SparsePolynomialRegressor(degree, max_terms, engine=engine, **options)


def data(n=30, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("degree", 0),
        ("degree", 2.0),
        ("degree", True),
        ("max_terms", 0),
        ("max_terms", "many"),
        ("max_inputs", 0),
        ("max_inputs", 1.5),
        ("gamma", 0.0),
        ("gamma", -1.0),
        ("gamma", np.inf),
        ("gamma", np.nan),
        ("gamma", "best"),
        ("gamma", None),
        ("n_candidates", 0),
        ("n_candidates", "all"),
        ("fit_intercept", "yes"),
        ("scale", 2),
        ("center", None),
        ("device", 0),
        ("engine", "magic"),
        ("engine", 3),
        ("time_limit", 0),
        ("time_limit", -1.0),
        ("time_limit", np.nan),
        ("gap_tol", -1e-9),
        ("gap_tol", 1.0),
        ("gap_tol", np.nan),
        ("n_jobs", 0),
        ("n_jobs", -2),
        ("verbose", -1),
        ("max_interaction", 0),
        ("interaction_degree", 0),
        ("heredity", "some"),
        ("heredity", True),
    ],
)
def test_parameters(name, value):
    X, y = data()
    with pytest.raises(InputError) as caught:
        model().set_params(**{name: value}).fit(X, y)
    message = str(caught.value)
    assert message.startswith(f"{name} must be ")
    assert message.endswith(f"got {value!r}")
    assert "\n" not in message


@pytest.mark.parametrize("digits", [400, 5000])
def test_integers_beyond_all_floats(digits):
    with pytest.raises(InputError, match=rf"gamma must be .*, got an integer of about {digits}"):
        model(gamma=10 ** (digits - 1)).fit(*data())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include_terms": ["x9"]}, "include_terms must hold products .* got 'x9'"),
        ({"include_terms": ["x0 + x1"]}, "include_terms must hold products"),
        ({"include_terms": "x0"}, "include_terms must be a list, got 'x0'"),
        ({"include_terms": (0, 1)}, "include_terms must list terms, .* got 0"),
        ({"include_terms": [("x0", "z")]}, "include_terms must name inputs of X, got 'z'"),
        ({"include_terms": [(0, 3)]}, "include_terms must hold indices from 0 to 2, got 3"),
        ({"include_terms": [(0, -1)]}, "include_terms must hold indices from 0 to 2, got -1"),
        ({"include_terms": [(0, 0.5)]}, "include_terms must hold names or indices"),
        ({"include_terms": [()]}, "must not hold the constant with fit_intercept=True"),
        ({"exclude_terms": ["1"]}, "must not hold the constant with fit_intercept=True"),
        ({"include_terms": ["x0^3"]}, r"must keep to degree=2, .* got 'x0\^3'"),
        ({"include_terms": ["x0 x1"], "max_interaction": 1}, "must keep to .*max_interaction=1"),
        ({"exclude_terms": [7]}, "exclude_terms must list terms"),
        ({"include_inputs": ["z"]}, "include_inputs must name inputs of X, got 'z'"),
        ({"include_inputs": 1}, "include_inputs must be a list, got 1"),
        ({"exclude_inputs": [3]}, "exclude_inputs must hold indices from 0 to 2, got 3"),
        ({"exclude_inputs": [0, 1, 2]}, "exclude_inputs must leave at least one input, got all 3"),
        ({"include_inputs": [0], "exclude_inputs": ["x0"]}, r"must not share inputs, got \['x0'\]"),
        ({"include_terms": ["x0 x1"], "exclude_terms": [(1, 0)]}, "must not share terms"),
        ({"include_terms": ["x0 x1"], "exclude_inputs": [1]}, "must not use exclude_inputs"),
    ],
)
def test_rules_about_terms(options, message):
    X, y = data()
    with pytest.raises(InputError, match=message):
        model(**options).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include_terms": [(0,), (1,), (2,)]}, r"max_terms .* include_terms \(3\), got 2"),
        ({"include_inputs": [0, 1], "max_inputs": 1}, r"max_inputs .* \(2\), got 1"),
        ({"include_inputs": [0, 1], "n_candidates": 1}, r"n_candidates .* \(2\), got 1"),
        ({"include_terms": ["x0 x1"], "heredity": "strong"}, "no polynomial satisfies all"),
        ({"include_inputs": [0, 1, 2], "max_terms": 2, "degree": 1}, "no polynomial satisfies"),
        (
            {"include_terms": ["x0^2"], "exclude_terms": ["x0"], "heredity": "strong"},
            "parents allowed under heredity='strong'",
        ),
        (
            {"degree": 1, "exclude_terms": ["x0", "x1", "x2"]},
            "leave no monomial to choose",
        ),
        ({"degree": 1, "include_inputs": [0], "exclude_terms": ["x0"]}, "no polynomial satisfies"),
    ],
)
def test_impossible_together(options, message):
    X, y = data()
    with pytest.raises(InfeasibleError, match=message):
        model(**options).fit(X, y)


def test_too_many_monomials():
    X, y = data(20, 60)
    with pytest.raises(TooLargeError, match=r"n_candidates must leave at most 1,000,000 monomials"):
        model(6, 2, n_candidates=None).fit(X, y)
    with pytest.raises(TooLargeError, match="visits at most 2,000,000 supports"):
        model(2, 5, n_candidates=None).fit(X, y)


@pytest.mark.parametrize("heredity", [None, "strong"])
def test_a_degree_too_high_to_be_compared(heredity):
    X, y = data(20, 12)
    message = r"degree must have at most .*, and degree 40 of 12 inputs has 206,379,406,870"
    with pytest.raises(TooLargeError, match=message):
        SparsePolynomialRegressorCV(degree=40, heredity=heredity).fit(X, y)


def test_more_folds_than_rows():
    X, y = data(4)
    for fit in (SparsePolynomialRegressorCV(cv=5).fit, partial(path, max_terms=2, cv=5)):
        with pytest.raises(InputError, match="cv must be at most the number of rows, 4, got 5"):
            fit(X, y)


@pytest.mark.parametrize("terms", [["a"], ["a b"], [("b", "a")]])
def test_ambiguous_names(terms):
    names = ("a", "a", "b")
    assert read_terms([(0, "b")], names, "include_terms") == ((0, 2),)
    with pytest.raises(InputError, match=r"must name each column of X once.* got 'a'"):
        read_terms(terms, names, "include_terms")


# Data


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad):
    X, y = data()
    fitted = model().fit(X, y)
    X[4, 1] = bad
    message = rf"X must have neither NaN nor inf, got {bad} in row 4 of column 'x1'"
    with pytest.raises(InputError, match=message):
        model().fit(X, y)
    with pytest.raises(InputError, match=message):
        fitted.predict(X)
    X[4, 1], y[0] = 0.0, bad
    with pytest.raises(ValueError, match="Input y contains"):
        model().fit(X, y)


def test_opposite_infinities_are_seen():
    X, y = data()
    X[0, 0], X[1, 0] = np.inf, -np.inf
    with pytest.raises(InputError, match="neither NaN nor inf"):
        model().fit(X, y)


def test_strings_and_shapes():
    X, y = data()
    with pytest.raises(ValueError, match="could not convert string to float: 'a'"):
        model().fit([["a", "b"], ["c", "d"]], [1.0, 2.0])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model().fit(X[:, 0], y)
    with pytest.raises(ValueError, match="dim 3"):
        model().fit(X[:, :, None], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model().fit(X, y[:-1])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="expecting 3 features"):
        model().fit(X, y).predict(X[:, :2])
    with pytest.raises(ValueError, match="0 feature"):
        model().fit(X[:, :0], y)


@pytest.mark.needs("pandas")
@pytest.mark.parametrize(
    ("kind", "cells", "got"),
    [
        ("object", ["1", None, "low"], r"'low' in row 2"),
        ("category", ["u", "v", "u"], r"'u' in row 0"),
        ("datetime64[ns]", ["2026-05-01", "2026-05-02", "2026-05-03"], r".*2026-05-01.* in row 0"),
    ],
)
def test_columns_that_hold_no_numbers_are_named(kind, cells, got):
    import pandas as pd

    cells = pd.Series(cells, dtype=kind)
    numbers = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 0.0, 1.0]})
    fitted = model().fit(numbers, [1.0, 2.0, 4.0])
    message = rf"X must hold numbers, got {got} of column 'b'"
    with pytest.raises(InputError, match=message):
        model().fit(numbers.assign(b=cells), [1.0, 2.0, 4.0])
    with pytest.raises(InputError, match=message):
        fitted.predict(numbers.assign(b=cells))
    with pytest.raises(InputError, match="a name of its own for each column, got 'a' more than"):
        model().fit(numbers.set_axis(["a", "a"], axis=1), [1.0, 2.0, 4.0])


def test_one_row():
    X, y = data()
    with pytest.raises(ValueError, match="1 sample"):
        model().fit(X[:1], y[:1])
    with pytest.raises(InputError, match="positive for at least 2 rows, got 1 row"):
        model().fit(X, y, sample_weight=np.eye(30)[0])


def test_two_rows():
    X, y = data()
    fitted = model().fit(X[:2], y[:2])
    assert fitted.solution_.status == "optimal"


def test_weights():
    X, y = data()
    v = np.ones(30)
    v[3] = -0.5
    with pytest.raises(InputError, match=r"sample_weight must not be negative, got -0.5"):
        model().fit(X, y, sample_weight=v)
    with pytest.raises(InputError, match="sample_weight must have a positive value"):
        model().fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match=r"sample_weight.shape"):
        model().fit(X, y, sample_weight=np.ones(29))
    v[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model().fit(X, y, sample_weight=v)


def test_the_key_of_a_dask_array_is_no_name():
    dask_array = pytest.importorskip("dask.array")
    X, y = data()
    fitted = model().fit(X, dask_array.from_array(y, chunks=7))
    assert fitted.polynomial_.response == "y"


def test_one_weight_for_all_rows():
    X, y = data()
    fitted = model(engine="tree").fit(X, y, sample_weight=2.0)
    assert fitted.solution_.objective == model().fit(X, y, np.full(30, 2.0)).solution_.objective
    assert verify(fitted.solution_.proof, X, y, 2.0)
    search = SparsePolynomialRegressorCV(1, 2, gamma=1.0, center=False, cv=3, random_state=0)
    scores = [
        search.fit(X, y, sample_weight=weight).best_score_ for weight in (2.0, np.full(30, 2.0))
    ]
    assert scores[0] == scores[1]
    assert len(path(X, y, 2.0, degree=1, max_terms=2, cv=3)) == 2


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("value", [1e200, 1e80, 1e-200])
def test_powers_out_of_range(scale, value):
    X, y = data()
    X[:, 2] *= value
    with pytest.raises(InputError, match=r"X must have powers up to degree=2 .* column 'x2'"):
        model(scale=scale).fit(X, y)


@pytest.mark.parametrize("value", [1e200, 1e100, 1e-100])
def test_responses_and_weights_out_of_range(value):
    """Squared twice, as bounds do, they would leave the floats: no certificate could be right."""
    X, y = data()
    with pytest.raises(InputError, match=r"y must lie within 1e-60 and 1e\+60, got the largest"):
        model().fit(X, y * value)
    with pytest.raises(InputError, match=r"sample_weight must have a sum within 1e-20 and 1e\+20"):
        model().fit(X, y, sample_weight=np.full(len(y), value))


@pytest.mark.parametrize(("value", "weight"), [(1e59, 1e18), (1e-59, 1e-18), (1e59, 1e-18)])
def test_proofs_hold_up_to_the_ends_of_the_range(value, weight):
    X, y = data()
    v = np.full(len(y), weight)
    for engine in ("tree", "enumeration"):
        settings = {"engine": engine, "gamma": 0.2 / weight}
        fitted = model(**settings).fit(X, y * value, v)
        same = model(engine="enumeration", gamma=0.2).fit(X, y)
        assert fitted.polynomial_.monomials == same.polynomial_.monomials
        assert fitted.solution_.status == "optimal"
        proof = fitted.solution_.proof
        assert proof is None or verify(proof, X, y * value, v)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("value", [1e60, 1e-60])
def test_powers_within_range_stay_finite(scale, value):
    X, y = data()
    fitted = model(scale=scale, gamma=1.0).fit(X * value, y)
    assert np.isfinite(fitted.polynomial_.coefficients).all()
    assert np.isfinite(fitted.predict(X * value)).all()
    if scale:
        same = model(gamma=1.0).fit(X, y)
        assert fitted.polynomial_.monomials == same.polynomial_.monomials
        np.testing.assert_allclose(fitted.predict(X * value), same.predict(X), rtol=1e-10)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("constant", [0.0, 0.1, 5.0])
def test_constant_column(center, fit_intercept, constant):
    X, y = data()
    X[:, 1] = constant
    fitted = model(center=center, fit_intercept=fit_intercept, gamma=10.0).fit(X, y)
    assert np.isfinite(fitted.polynomial_.coefficients).all()
    assert fitted.score(X, y) > 0.9
    assert fitted.solution_.status == "optimal"


def test_all_columns_constant():
    _, y = data()
    fitted = model(1, 1).fit(np.ones((30, 2)), y)
    np.testing.assert_allclose(fitted.predict(np.ones((30, 2))), y.mean())


def test_duplicate_columns():
    X, y = data()
    twice = np.column_stack([X, X])
    fitted = model(1, 1).fit(twice, y)
    assert fitted.polynomial_.monomials in {((0,),), ((3,),)}
    both = model(1, 2, gamma=1e8).fit(twice, y)
    assert np.isfinite(both.polynomial_.coefficients).all()
    assert both.solution_.objective <= fitted.solution_.objective


@pytest.mark.parametrize("level", [0.0, 0.1, -3e7])
def test_constant_response(level):
    X, _ = data()
    fitted = model().fit(X, np.full(30, level))
    assert fitted.solution_.objective == 0.0
    assert fitted.solution_.status == "optimal"
    assert fitted.intercept_ == level
    np.testing.assert_array_equal(fitted.predict(X), np.full(30, level))


# Solvers


@pytest.mark.parametrize(
    ("engine", "package"), [("big-m", "pyscipopt"), ("cutting-planes-multitree", "highspy")]
)
def test_missing_solver(engine, package):
    """In a process of its own, where that package cannot be had."""
    code = (
        "import sys; import numpy as np; from polysharp import SparsePolynomialRegressor\n"
        f"sys.modules[{package!r}] = None\n"
        "X = np.random.default_rng(0).standard_normal((30, 2))\n"
        "SparsePolynomialRegressor(2, 1).fit(X, X[:, 0])  # the default needs none\n"
        f"SparsePolynomialRegressor(2, 1, engine={engine!r}).fit(X, X[:, 0])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert re.match(
        rf"polysharp\.errors\.MissingSolverError: .* needs the package {package}, which is not "
        r"installed; run 'pip install polysharp\[solvers\]'",
        last,
    )


def test_unknown_engine_by_name():
    with pytest.raises(InputError, match=r"engine must be one of 'auto', 'tree'.*got 'magic'"):
        make_engine("magic")
