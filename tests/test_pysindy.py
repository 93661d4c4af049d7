"""The optimizer for pysindy: its contract, certificates, and joint budgets by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from polysharp.errors import InputError

pysindy = pytest.importorskip("pysindy")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

from polysharp.pysindy import ExactOptimizer, divide  # noqa: E402


def lorenz(n=600, dt=0.005):
    def slope(v):
        x, y, z = v
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    states = np.empty((n, 3))
    v = np.array([-8.0, 8.0, 27.0])
    for a in range(n):
        states[a] = v
        k1 = slope(v)
        k2 = slope(v + 0.5 * dt * k1)
        k3 = slope(v + 0.5 * dt * k2)
        v = v + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(v + dt * k3))
    return states, np.array([slope(v) for v in states]), dt


def test_lorenz_is_found_and_proved():
    states, slopes, dt = lorenz()
    optimizer = ExactOptimizer(max_terms=(2, 3, 2))
    model = pysindy.SINDy(optimizer=optimizer, feature_library=pysindy.PolynomialLibrary(degree=3))
    model.fit(states, t=dt, x_dot=slopes)
    names = model.get_feature_names()
    terms = [{names[j] for j in np.flatnonzero(row)} for row in optimizer.coef_]
    assert terms == [{"x0", "x1"}, {"x0", "x1", "x0 x2"}, {"x2", "x0 x1"}]
    assert all(solution.status == "optimal" for solution in optimizer.solutions_)
    assert optimizer.coef_[0][names.index("x1")] == pytest.approx(10.0, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.* axes labeled")  # pysindy's own, about its weak library
def test_the_weak_form_needs_no_derivatives():
    """Integrals over short windows stand in for derivatives, which noise would drown."""
    states, _, dt = lorenz(2000, 0.002)
    rng = np.random.default_rng(0)
    noisy = states + 0.01 * states.std(axis=0) * rng.standard_normal(states.shape)
    library = pysindy.WeakPDELibrary(
        pysindy.PolynomialLibrary(degree=3, include_bias=False),
        spatiotemporal_grid=dt * np.arange(len(states)),
        K=200,
    )
    optimizer = ExactOptimizer(max_terms=(2, 3, 2))
    np.random.seed(0)  # noqa: NPY002 -- pysindy draws its windows from the global generator
    model = pysindy.SINDy(optimizer=optimizer, feature_library=library).fit(noisy, t=dt)
    names = model.get_feature_names()
    terms = [{names[j] for j in np.flatnonzero(row)} for row in optimizer.coef_]
    assert terms == [{"x0", "x1"}, {"x0", "x1", "x0 x2"}, {"x2", "x0 x1"}]
    assert all(solution.status == "optimal" for solution in optimizer.solutions_)
    assert optimizer.coef_[0][names.index("x1")] == pytest.approx(10.0, rel=0.05)


def test_a_joint_budget_is_divided_as_enumeration_does():
    rng = np.random.default_rng(3)
    theta, lam = rng.standard_normal((30, 5)), 0.5
    theta /= np.sqrt(np.mean(theta**2, axis=0))
    dx = theta @ rng.standard_normal((5, 2)) + 0.3 * rng.standard_normal((30, 2))
    optimizer = ExactOptimizer(max_terms=3, joint_terms=4, gamma=1 / lam, unbias=False)
    optimizer.fit(theta, dx)

    def cost(columns, y):
        A = theta[:, columns]
        w = np.linalg.solve(A.T @ A + lam * np.eye(len(columns)), A.T @ y)
        return 0.5 * np.sum((y - A @ w) ** 2) + 0.5 * lam * w @ w

    sets = [list(s) for size in range(4) for s in combinations(range(5), size)]
    least = min(
        cost(a, dx[:, 0]) + cost(b, dx[:, 1])
        for a, b in product(sets, sets)
        if len(a) + len(b) <= 4
    )
    assert optimizer.objective_ == pytest.approx(least, rel=1e-9)
    assert least * (1 - 2e-4) <= optimizer.bound_ <= least * (1 + 1e-12)
    assert np.count_nonzero(optimizer.coef_) <= 4


def test_pysindy_treats_it_as_one_of_its_own():
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((40, 6))
    dx = theta[:, [1]] - 2 * theta[:, [4]]
    optimizer = ExactOptimizer(max_terms=2).fit(theta, dx)
    assert optimizer.coef_.shape == (1, 6)
    assert optimizer.complexity == 2
    assert optimizer.ind_.tolist() == [[False, True, False, False, True, False]]
    np.testing.assert_allclose(optimizer.predict(theta), dx, atol=1e-8)
    assert pysindy.optimizers.EnsembleOptimizer(
        ExactOptimizer(max_terms=2), bagging=True, n_models=2
    ).fit(theta, dx).coef_.shape == (1, 6)


def test_an_equation_without_motion_has_no_terms():
    theta = np.random.default_rng(0).standard_normal((20, 3))
    optimizer = ExactOptimizer(max_terms=1).fit(
        theta, np.column_stack([theta[:, 0], 0 * theta[:, 0]])
    )
    assert np.count_nonzero(optimizer.coef_[1]) == 0
    assert optimizer.solutions_[1] is None


@pytest.mark.parametrize("options", [{"max_terms": 0}, {"max_terms": (1, 2)}, {"joint_terms": 0}])
def test_bad_budgets_are_refused(options):
    theta = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(InputError, match=r"_terms must be .*, got "):
        ExactOptimizer(**options).fit(theta, theta[:, [0]])


def test_divide_prefers_the_cheapest_sum():
    assert divide([np.array([3.0, 2.0]), np.array([3.0, 0.0])], 1) == (3.0, [0, 1])
