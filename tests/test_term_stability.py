"""Shares of bootstrap resamples: counted right, reproducible, and honest about what they are."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import Ridge
from support import bootstrap

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    rivals,
    stability,
)
from polysharp.errors import InputError


def law(n=100, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, X[:, 0] * X[:, 1] - X[:, 2] + noise * rng.standard_normal(n)


def model(**options):
    return SparsePolynomialRegressor(**{"degree": 2, "max_terms": 2, "gamma": 1.0, **options})


def test_a_clear_law_is_picked_every_time():
    X, y = law()
    fitted = model().fit(X, y)
    found = stability(fitted, X, y, n_resamples=30, random_state=0)
    assert found.n_resamples == 30
    assert found.share_of((1, 0)) == found.share_of((2,)) == found.same_model == 1.0
    assert found.share_of((3, 3)) == 0.0
    assert found.input_shares.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert found.in_model.all()
    assert "100 %" in str(found)


def test_noise_has_no_firm_terms():
    X, y = law(noise=30.0)
    found = stability(model(max_terms=3), X, y, n_resamples=40, random_state=0)
    assert found.same_model < 0.5
    assert found.shares.max() < 1.0
    # Every resample has three terms.
    assert found.shares.sum() == pytest.approx(3.0)
    assert (np.diff(found.shares) <= 0.0).all()
    assert found.in_model.sum() == 3
    assert "(not in the model)" in str(found)


def test_shares_are_those_of_fits_to_resampled_rows():
    X, y = law(n=40, noise=2.0)
    fitted = model(engine="enumeration").fit(X, y)
    found = stability(fitted, X, y, n_resamples=15, random_state=4, engine="enumeration")
    rng = np.random.default_rng(np.random.RandomState(4).randint(2**31 - 1))
    counts = {}
    for _ in range(15):
        rows = rng.choice(np.arange(40), size=40)
        rng.integers(2**31 - 1)
        for m in model(engine="enumeration").fit(X[rows], y[rows]).polynomial_.monomials:
            counts[m] = counts.get(m, 0) + 1
    got = {m: s for m, s in zip(found.monomials, found.shares, strict=True) if s > 0}
    assert got == pytest.approx({m: c / 15 for m, c in counts.items()})


def test_the_same_seed_gives_the_same_shares_with_any_number_of_jobs():
    X, y = law(noise=3.0)
    a = stability(model(), X, y, n_resamples=10, random_state=1)
    with parallel_config(backend="threading"):
        b = stability(model(), X, y, n_resamples=10, random_state=1, n_jobs=2)
    assert a.monomials == b.monomials
    np.testing.assert_array_equal(a.shares, b.shares)


def test_coefficients_of_resamples_and_the_shrinkage_of_the_ridge():
    X, y = law(n=60, noise=0.5)
    fitted = model(gamma=0.02, center=True, engine="enumeration").fit(X + 3.0, y)
    found = stability(fitted, X + 3.0, y, n_resamples=40, random_state=0, engine="enumeration")
    own = [found.monomials.index(m) for m in fitted.polynomial_.monomials]
    assert found.coefficients[own].tolist() == fitted.polynomial_.coefficients.tolist()
    t = np.column_stack(
        [
            np.prod((X + 3.0 - fitted.polynomial_.shifts)[:, m], axis=1)
            for m in fitted.polynomial_.monomials
        ]
    )
    plain = np.linalg.lstsq(np.c_[t, np.ones(60)], y)[0][:2]
    np.testing.assert_allclose(found.without_ridge[own], plain, rtol=1e-9)
    assert (np.abs(found.coefficients[own]) < np.abs(found.without_ridge[own])).all()
    # A term that a resample does not pick has the coefficient zero there.
    np.testing.assert_array_equal(np.mean(found.resampled != 0.0, axis=0), found.shares)
    low, high = found.intervals(0.9).T
    assert ((low <= found.coefficients) & (found.coefficients <= high))[own].all()
    others = found.shares < 0.05
    assert not low[others].any()
    assert not high[others].any()
    narrow = found.intervals(0.5)
    assert (np.diff(narrow) <= (high - low)[:, None]).all()


@pytest.mark.needs("pandas")
def test_terms_as_a_table():
    X, y = law(noise=30.0)
    found = stability(model(max_terms=3), X, y, n_resamples=5, random_state=0)
    frame = found.to_frame()
    assert frame["term"].tolist() == list(found.term_names)
    assert frame["share"].tolist() == found.shares.tolist()
    assert frame[["lower", "upper"]].to_numpy().tolist() == found.intervals().tolist()
    with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
        found.intervals(1.5)


def test_resamples_begin_from_the_terms_of_the_model():
    X, y = law(n=40, noise=2.0)
    fitted = model(max_terms=3).fit(X, y)
    warm = stability(fitted, X, y, n_resamples=10, random_state=1)
    best = stability(fitted, X, y, n_resamples=10, random_state=1, engine="enumeration")
    assert warm.monomials == best.monomials
    np.testing.assert_allclose(warm.resampled, best.resampled, atol=1e-9)


def test_rows_of_weight_zero_are_never_drawn():
    X, y = law()
    weights = np.ones(len(y))
    weights[50:] = 0.0
    y = np.where(weights > 0, y, 1e3 * X[:, 3])
    found = stability(model(), X, y, weights, n_resamples=10, random_state=0)
    assert found.share_of((3,)) == 0.0
    assert found.share_of((0, 1)) == 1.0


def test_budgets_chosen_by_validation_are_kept():
    X, y = law()
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=4, center=False, rule="one-se", random_state=0
    ).fit(X, y)
    found = stability(search, X, y, n_resamples=5, random_state=0)
    assert found.shares.sum() == pytest.approx(search.best_params_["max_terms"])


def test_time_ends_it_early():
    X, y = law()
    assert stability(model(), X, y, n_resamples=50, time_limit=0.0).n_resamples == 1


@pytest.mark.needs("dask")
def test_rows_on_dask_are_refused():
    import dask.array as dask_array

    X, y = law()
    with pytest.raises(InputError, match="X must be in memory to be resampled"):
        stability(model(), dask_array.from_array(X), y)


def test_bad_input_gets_one_sentence():
    X, y = law()
    with pytest.raises(InputError, match="estimator must be a SparsePolynomialRegressor"):
        stability(Ridge(), X, y)
    with pytest.raises(InputError, match="n_resamples must be an integer of at least 1"):
        stability(model(), X, y, n_resamples=2.5)
    with pytest.raises(InputError, match="n_resamples must be an integer of at least 1, got 0"):
        stability(model(), X, y, n_resamples=0)


@pytest.mark.parametrize("fitted", [False, True])
def test_several_responses_are_refused_before_any_fit(fitted, monkeypatch):
    X = np.random.default_rng(0).standard_normal((30, 2))
    Y = X @ [[1.0, 2.0], [3.0, 4.0]]
    model = MultiTaskSparsePolynomialRegressor(degree=1, max_terms=1)
    model = model.fit(X, Y) if fitted else model
    monkeypatch.setattr(type(model), "fit", lambda *_: pytest.fail("it was fitted"))
    rule = "estimator must be a SparsePolynomialRegressor .* one response, got MultiTaskSparse"
    with pytest.raises(InputError, match=rule):
        stability(model, X, Y, n_resamples=3)


def test_rivals_of_every_resample_count_in_equal_parts():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 3))
    X[:, 2] = X[:, 1] + 0.1 * rng.standard_normal(60)  # either can stand in for the other
    y = X[:, 0] ** 2 + X[:, 1] + 0.4 * rng.standard_normal(60)
    fitted = model(max_terms=2, gamma=10.0).fit(X, y)
    alone = stability(fitted, X, y, n_resamples=8, random_state=0)
    found = stability(fitted, X, y, n_resamples=8, within=0.3, random_state=0)
    assert found.n_resamples == alone.n_resamples == 8
    assert len(found.resampled) == len(found.weights) > 8
    assert found.weights.sum() == pytest.approx(1.0)
    # By hand: the rivals of each weighted fit.
    shares = dict.fromkeys(found.monomials, 0.0)
    for weights, _ in bootstrap(0, 60, 8):
        one = model(max_terms=2, gamma=10.0).fit(X, y, weights)
        laws = rivals(one, X, y, weights, within=0.3).polynomials
        for m in (m for law in laws for m in law.monomials):
            shares[m] += 1.0 / (8 * len(laws))
    np.testing.assert_allclose(found.shares, list(shares.values()))
    assert found.share_of((1,)) < alone.share_of((1,))
    assert found.share_of((2,)) > alone.share_of((2,))
    # The interval knows that a rival does without the term.
    low, high = found.intervals(0.9)[found.monomials.index((1,))]
    assert low == 0.0 < high
    np.testing.assert_allclose(alone.intervals(0.8), np.quantile(alone.resampled, [0.1, 0.9], 0).T)
    assert "within 30 % of the best of each" in str(found)
    with pytest.raises(InputError, match="within must be a finite number"):
        stability(fitted, X, y, within=-1.0)
