"""The ranking equals the literal Algorithm 1 and the explicit coefficients of the basis."""

import numpy as np
import pytest
from support import Basis, KernelSystem, _refuse_beyond_memory

from polysharp import rank_inputs
from polysharp.errors import InputError, TooLargeError
from polysharp.synthetic import make_sparse_polynomial


def literal_scores(X, y, degree, gamma):
    """Algorithm 1 as printed: one kernel per input."""
    n, p = X.shape
    base = 1.0 + X @ X.T
    K = base**degree
    alpha = np.linalg.solve(np.eye(n) + gamma * K, y)
    return np.array(
        [
            gamma**2 * alpha @ (K - (base - np.outer(X[:, i], X[:, i])) ** degree) @ alpha
            for i in range(p)
        ]
    )


def explicit_scores(X, y, degree, gamma, weight=None, fit_intercept=False):
    """Sum of squares of the ridge coefficients of D(i), on the monomials themselves."""
    basis = Basis.full(X.shape[1], degree)
    v = np.ones(len(X)) if weight is None else weight
    M, t = basis.evaluate(X), y.copy()
    if fit_intercept:
        M, t = M - v @ M / v.sum(), t - v @ t / v.sum()
    G = M.T @ (v[:, None] * M) + np.eye(len(basis)) / gamma
    w = np.linalg.solve(G, M.T @ (v * t))
    return np.array([np.sum(w[basis.dependents(i)] ** 2) for i in range(X.shape[1])])


def draw(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.5, 1.5, p)
    return X, X[:, 0] ** 2 - X[:, -1] + 3.0 + 0.1 * rng.standard_normal(n)


def agree(scores, reference, tol=1e-8):
    np.testing.assert_allclose(scores, reference, rtol=0, atol=tol * reference.max())


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("n", "p"), [(40, 3), (25, 8), (9, 12), (1, 2), (600, 2)])
def test_equals_the_literal_algorithm(degree, n, p):
    X, y = draw(degree, n, p)
    for gamma in (1e-3, 0.3):
        ranking = rank_inputs(X, y, degree=degree, gamma=gamma)
        agree(ranking.scores, literal_scores(X, y, degree, gamma))
        assert np.all(np.diff(ranking.scores[ranking.order]) <= 0)
        assert (ranking.degree, ranking.gamma) == (degree, gamma)


@pytest.mark.parametrize("panel", [1, 3, 7, 64])
def test_panels_do_not_matter(panel):
    X, y = draw(3, 50, 30)
    for p, degree in ((30, 3), (5, 4)):
        table = np.ascontiguousarray(X[:, :p])
        system = KernelSystem(table, np.ones(50), degree, 0.01, panel=panel)
        scores = system.scores(system.solve(y, fit_intercept=False)[0])
        agree(scores, literal_scores(table, y, degree, 0.01))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p", "degree"), [(30, 5, 3), (200, 3, 2), (30, 20, 2), (20, 3, 4)])
def test_proposition_on_coefficient_norms(n, p, degree, weighted, fit_intercept):
    X, y = draw(n + p, n, p)
    weight = np.random.default_rng(1).integers(0, 4, n).astype(float) if weighted else None
    ranking = rank_inputs(X, y, degree, 0.02, sample_weight=weight, fit_intercept=fit_intercept)
    agree(ranking.scores, explicit_scores(X, y, degree, 0.02, weight, fit_intercept))


@pytest.mark.parametrize("n", [30, 300])
def test_whole_weights_are_repeated_rows(n):
    X, y = draw(5, n, 4)
    weight = np.random.default_rng(2).integers(0, 3, n)
    repeated = rank_inputs(np.repeat(X, weight, axis=0), np.repeat(y, weight), fit_intercept=True)
    weighted = rank_inputs(X, y, sample_weight=weight, fit_intercept=True)
    agree(weighted.scores, repeated.scores)


def test_free_intercept_forgets_the_level_of_y():
    X, y = draw(6, 30, 6)
    low = rank_inputs(X, y, gamma=0.1, fit_intercept=True)
    high = rank_inputs(X, y + 1e6, gamma=0.1, fit_intercept=True)
    agree(high.scores, low.scores, 1e-6)


def test_planted_inputs_come_first_and_ties_keep_their_order():
    data = make_sparse_polynomial(800, 30, 2, 3, 5, 20.0, random_state=0)
    ranking = rank_inputs(data.X, data.y, degree=2, gamma=0.03)
    assert set(ranking.order[:3].tolist()) == set(data.inputs)
    X, y = draw(7, 20, 4)
    X[:, 1] = X[:, 3] = 0.0
    assert rank_inputs(X, y).order.tolist()[2:] == [1, 3]


def test_a_kernel_beyond_double_precision_gives_finite_scores():
    X = 1e4 * np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(np.eye(60) + 1e8 * (1.0 + X @ X.T) ** 7)
    ranking = rank_inputs(X, X[:, 0] ** 3, degree=7, gamma=1e8)
    assert np.isfinite(ranking.scores).all()


@pytest.mark.parametrize(("n", "p"), [(30, 5), (3000, 2)])
def test_a_callback_sees_progress_and_may_stop_the_work(n, p):
    X, y = draw(8, n, p)
    seen = []
    rank_inputs(X, y, on_block=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def stop(done, total):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        rank_inputs(X, y, on_block=stop)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"degree": 0}, "degree"),
        ({"degree": 1.5}, "degree"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": np.inf}, "gamma"),
        ({"X": np.zeros(3)}, "X must be a table"),
        ({"X": np.full((4, 2), np.nan)}, "X must have neither NaN nor inf, got nan"),
        ({"X": np.full((4, 2), 1e60)}, "X must be small"),
        ({"y": np.zeros(3)}, "y has 3 values, X has"),
        ({"y": np.array([0.0, np.inf, 0.0, 0.0])}, "y must have neither NaN nor inf, got inf"),
        ({"sample_weight": -np.ones(4)}, "sample_weight"),
        ({"sample_weight": np.zeros(4)}, "sample_weight"),
    ],
)
def test_bad_input_is_named(change, word):
    good = {"X": np.ones((4, 2)), "y": np.arange(4.0), "degree": 2, "gamma": 1.0}
    with pytest.raises(InputError, match=word):
        rank_inputs(**{**good, **change})


def test_a_kernel_beyond_memory_is_refused():

    with pytest.raises(TooLargeError, match="n x n kernel"):
        _refuse_beyond_memory(10_000_000)
