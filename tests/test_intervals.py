"""Prediction intervals: coverage, width outside the rows, and what is refused."""

import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, ShuffleSplit
from support import Calibration, UnseenErrors, _six_digits, inner, restore, stationary_points

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV, save_model, stability
from polysharp.cli import main
from polysharp.errors import InputError

describe = inner("describe", "estimators")


def law(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    noise = rng.standard_t(3, n) * (0.1 + 0.2 * np.abs(X[:, 2]))  # heavy tails, unequal spreads
    return X, X[:, 0] * X[:, 1] + X[:, 2] ** 2 + noise


def fitted(n=80, seed=0, **options):
    X, y = law(n, seed)
    settings = {"degree": 2, "max_terms": 3, "gamma": 1.0, "engine": "local-search", **options}
    return SparsePolynomialRegressor(**settings).fit(X, y), X, y


def covered(model, coverage, seed=99):
    X, y = law(20_000, seed)
    low, high = model.predict_interval(X, coverage).T
    return np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_unseen_rows_give_the_coverage_on_average_over_tables(coverage):
    shares = []
    for seed in range(40):
        model, _, _ = fitted(seed=seed % 5)
        model.calibrate(*law(99, 1000 + seed))
        shares.append(covered(model, coverage))
    # Exactly (n + 1) coverage / (n + 1) on average; the mean of 40 strays by about 0.008.
    assert np.mean(shares) == pytest.approx(coverage, abs=0.03)


def test_folds_of_the_fit_give_about_the_coverage():
    shares = []
    for seed in range(20):
        model, X, y = fitted(n=120, seed=seed)
        shares.append(covered(model.calibrate(X, y, cv=5), 0.9))
    assert 0.87 <= np.mean(shares) <= 0.94


def test_the_rows_of_the_fit_as_unseen_rows_would_be_too_narrow():
    model, X, y = fitted(n=30, max_terms=8)
    narrow = np.diff(model.calibrate(X, y).predict_interval(X, 0.8))
    wide = np.diff(model.calibrate(X, y, cv=5).predict_interval(X, 0.8))
    assert narrow.mean() < wide.mean()


def test_folds_are_shuffled():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1.0, 1.0, 100))
    y = x**3 + 0.01 * rng.standard_normal(100)
    model = SparsePolynomialRegressor(3, 1, gamma=1e3, engine="local-search").fit(x[:, None], y)
    ends = model.calibrate(x[:, None], y, cv=5).predict_interval([[0.0]], 0.9)
    assert np.diff(ends) < 0.1


def test_ends_are_the_quantiles_over_all_rows_and_folds():
    model, X, y = fitted(n=60, max_terms=5)
    found = model.calibrate(X, y, cv=4).calibration_
    new = law(50, 3)[0]
    lower, upper = [], []
    for fold in found.folds:
        f, u = fold.polynomial(new), fold.leverage(fold.polynomial, new)
        lower.append(f[:, None] - np.outer(u, fold.scores))
        upper.append(f[:, None] + np.outer(u, fold.scores))
    rank = int(np.ceil(61 * 0.8))
    expected = np.column_stack(
        [-np.sort(-np.hstack(lower))[:, rank - 1], np.sort(np.hstack(upper))[:, rank - 1]]
    )
    np.testing.assert_allclose(model.predict_interval(new, 0.8), expected, rtol=1e-9)
    assert len({fold.polynomial.monomials for fold in found.folds}) > 1  # folds choose anew


def test_the_leverage_is_the_leverage_of_the_rows_of_the_fit():
    model, X, _ = fitted(center=True)
    t = np.column_stack(
        [np.prod((X - model.polynomial_.shifts)[:, m], axis=1) for m in model.polynomial_.monomials]
    )
    hat = np.column_stack([np.ones(len(X)), t])
    leverage = np.einsum("ij,ji->i", hat, np.linalg.pinv(hat))
    got = model.leverage_(model.polynomial_, X) ** 2 - 1.0
    assert (got <= leverage + 1e-6).all()  # a ridge lowers it
    np.testing.assert_allclose(got, leverage, atol=0.03)


def test_weights_count_and_their_unit_does_not():
    model, _, _ = fitted()
    X, y = law(60, 8)
    weights = np.arange(60) % 3.0
    some = model.calibrate(X, y, weights).predict_interval(X, 0.7)
    np.testing.assert_array_equal(
        model.calibrate(X, y, 5.0 * weights).predict_interval(X, 0.7), some
    )
    rows = np.repeat(np.arange(60), weights.astype(int))
    repeated = UnseenErrors.of(
        model.polynomial_, model.leverage_, model_rows(model, X[rows], y[rows]), 1000
    )
    # A new row counts as much as the heaviest, of weight two.
    same = Calibration((repeated,), 2.0).limits(X, 0.7)
    np.testing.assert_allclose(same, some, rtol=1e-12)


def model_rows(model, X, y):
    from support import score_rows

    return score_rows(model, X, y)


def test_many_errors_are_kept_as_few_that_are_no_smaller():
    model, _, _ = fitted()
    rows = model_rows(model, *law(500, 1))
    whole, few = (
        UnseenErrors.of(model.polynomial_, model.leverage_, rows, most) for most in (500, 60)
    )
    assert len(few.scores) == 60
    assert few.weights.sum() == 500
    for coverage in (0.3, 0.9, 0.95):
        exact, rounded = (Calibration((one,), 1.0).quantile(coverage) for one in (whole, few))
        assert exact <= rounded <= Calibration((whole,), 1.0).quantile(coverage + 0.02)


def test_a_new_fit_has_no_intervals_of_the_old_one():
    model, X, y = fitted()
    model.calibrate(X, y, cv=3).fit(X, y)
    with pytest.raises(InputError, match="call calibrate first"):
        model.predict_interval(X)


def test_intervals_come_back_from_a_file():
    new = law(30, 5)[0]
    for cv, rows in ((None, law(70, 6)), (4, law(80, 0))):
        model, _, _ = fitted(center=True)
        model.calibrate(*rows, cv=cv)
        document = json.loads(json.dumps(describe(model)))
        again = restore(document)
        assert again.predict_interval(new).tobytes() == model.predict_interval(new).tobytes()
        again.calibrate(*law(50, 9))
    document["calibration"]["folds"][1]["scores"][0] = 1e9
    with pytest.raises(InputError, match=r"calibration.folds\[1\] must have scores in ascending"):
        restore(document)


@pytest.mark.needs("pandas")
def test_the_command_line_writes_intervals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = law(80, 0)
    np.savetxt("t.csv", np.c_[X, y], delimiter=",", header="a,b,c,load", comments="")
    options = ["-t", "load", "-r", "2", "-l", "3", "-g", "1", "--engine", "local-search", "-q"]
    for more, how in (([], "10 folds"), (["--holdout", "0.5"], "40 held-out rows")):
        assert main(["fit", "t.csv", *options, "--brief", "-o", "m.json", *more]) == 0
        assert f"of the prediction, by {how}" in capsys.readouterr().out
        assert main(["predict", "m.json", "t.csv", "--interval", "0.8", "-o", "p.csv"]) == 0
        with open("p.csv") as file:
            assert file.readline() == "prediction,lower,upper\n"
        middle, low, high = np.loadtxt("p.csv", delimiter=",", skiprows=1).T
        assert (low < middle).all()
        assert (middle < high).all()
        assert 0.7 < np.mean((low <= y) & (y <= high)) < 0.95
    capsys.readouterr()
    assert main(["predict", "m.json", "t.csv", "--interval", "0.99"]) == 2
    assert "coverage must be at most 0.9756 with the 40 rows" in capsys.readouterr().err
    assert main(["explain", "m.json", "t.csv", "--resamples", "5"]) == 0
    said = capsys.readouterr().out
    assert "5 bootstrap resamples, the terms of each chosen anew" in said
    assert "alone   in all  over the rows" in said
    assert " at a = " in said  # a stationary point
    assert main(["explain", "m.json", "t.csv", "--resamples", "2", "--within", "0.1"]) == 0
    assert "within 10 % of the best of each" in capsys.readouterr().out
    assert main(["explain", "m.json", "t.csv", "--resamples", "0"]) == 0
    assert "Coefficients" not in capsys.readouterr().out
    assert main(["explain", "m.json", "t.csv", "--resamples", "-1"]) == 2
    assert "--resamples must not be negative" in capsys.readouterr().err
    save_model(fitted()[0], "bare.json")
    assert main(["predict", "bare.json", "t.csv", "--interval", "0.9", "--ignore-unknown"]) == 2
    assert "--interval needs errors on unseen rows, which 'bare.json'" in capsys.readouterr().err


def test_intervals_grow_outside_the_rows():
    model, _, _ = fitted()
    model.calibrate(*law(200, 7))
    widths = np.diff(model.predict_interval([[0.0] * 3, [1.0] * 3, [10.0] * 3, [100.0] * 3]))
    assert np.all(np.diff(widths.ravel()) > 0.0)
    assert widths[3] > 100 * widths[0]


def test_equal_terms_and_constants_do_no_harm():
    X = np.ones((30, 2))
    y = np.random.default_rng(0).standard_normal(30)
    model = SparsePolynomialRegressor(degree=1, max_terms=1, gamma=1.0).fit(X, y)
    ends = model.calibrate(X, y).predict_interval(X, 0.9)
    assert np.isfinite(ends).all()


def test_functions_of_inputs_and_clamped_ones_have_intervals_and_resamples():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (80, 2))
    y = np.log(X[:, 0]) * X[:, 1] + 0.05 * rng.standard_normal(80)
    model = SparsePolynomialRegressor(
        2, 1, gamma=1e3, engine="local-search", functions=("log",), center=True, clamp=True
    ).fit(X, y)
    ends = model.calibrate(X, y, cv=5).predict_interval(np.vstack([X, [[-1.0, 9.0]]]), 0.9)
    assert np.isfinite(ends).all()
    assert "are not computed" in str(stationary_points(model.polynomial_, X))
    again = restore(json.loads(json.dumps(describe(model))))
    assert again.predict_interval(X).tobytes() == ends[:-1].tobytes()
    assert stability(model, X, y, n_resamples=3, random_state=0).shares[0] > 0.0
    plain = SparsePolynomialRegressor(2, 2, gamma=1e3, engine="local-search", clamp=True)
    widths = np.diff(
        plain.fit(X, y).calibrate(X, y, cv=5).predict_interval([[2.0, 2.0], [9.0, 9.0]])
    )
    assert widths[1] > 2.0 * widths[0]


def test_a_search_over_budgets_has_intervals_too():
    X, y = law(60, 0)
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=3, gamma=(1.0,), cv=3, engine="local-search"
    ).fit(X, y)
    assert search.calibrate(X, y, cv=3).predict_interval(X[:5]).shape == (5, 2)


def test_what_is_refused():
    model, X, y = fitted()
    with pytest.raises(InputError, match="call calibrate first"):
        model.predict_interval(X)
    model.calibrate(X[:9], y[:9])
    with pytest.raises(InputError, match=r"coverage must be at most 0.9 with the 9 rows"):
        model.predict_interval(X, 0.95)
    for coverage in (0.0, 1.0, np.nan, "most"):
        with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
            model.predict_interval(X, coverage)
    with pytest.raises(InputError, match="cv must hold out every row once at most"):
        model.calibrate(X, y, cv=ShuffleSplit(3, random_state=0))
    groups = np.arange(len(X)) % 4
    assert len(model.calibrate(X, y, cv=GroupKFold(4), groups=groups).calibration_.folds) == 4


def test_files_hold_six_digits_of_any_size():
    values = np.array([0.0, 123456789.0, -1.23456789e-310, 1e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounded = _six_digits(values)
    assert rounded.tolist() == [0.0, 123457000.0, -1.23457e-310, 1e308]
