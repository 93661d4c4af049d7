"""Ranking, moments and pricing on tensors equal those on arrays."""

import sys

import numpy as np
import pytest
from support import (
    Basis,
    KernelSettings,
    MemoryRows,
    Place,
    Pricer,
    TorchArrays,
    accumulate,
    is_tensor,
    rank_rows,
)

from polysharp import Ranking, rank_inputs
from polysharp.errors import InputError, MissingSolverError


def draw(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] * X[:, -1] + rng.standard_normal(n), rng.uniform(0.0, 2.0, n)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def rank_on_torch(X, y, degree=3, gamma=1e-3, *, on_block=None, **options) -> Ranking:
    """Rank on PyTorch's CPU, which runs the code of a GPU."""
    rows = MemoryRows(X, y, options.get("sample_weight"), place=Place.find(X, None))
    settings = KernelSettings(degree, gamma, options.get("fit_intercept", False))
    return rank_rows(rows, np.arange(X.shape[1]), settings, on_block=on_block)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_pricing(torch, degree):
    X, a, v = draw(degree, 70, 9)
    X[:, 4] = X[:, 2]
    for inputs in (None, [0, 2, 4, 7]):
        options = {"inputs": inputs, "sample_weight": v, "fit_intercept": degree % 2 == 0}
        expected = Pricer(X, degree, **options).price(a, 40)
        arrays = TorchArrays(torch.device("cpu"))
        found = Pricer(torch.as_tensor(X), degree, arrays=arrays, **options).price(a, 40)
        assert found.monomials == expected.monomials
        np.testing.assert_allclose(found.correlations, expected.correlations, atol=1e-10)
        assert found.threshold == pytest.approx(expected.threshold, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p", "degree"), [(40, 6, 3), (300, 3, 2), (30, 5, 1), (25, 4, 4)])
def test_ranking(torch, n, p, degree, weighted, fit_intercept):
    X, y, v = draw(n, n, p)
    options = {"sample_weight": v if weighted else None, "fit_intercept": fit_intercept}
    expected = rank_inputs(X, y, degree, 0.05, **options)
    found = rank_on_torch(X, y, degree, 0.05, **options)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9 * expected.scores.max())
    assert found.order.tolist() == expected.order.tolist()


def test_ranking_of_a_kernel_beyond_double_precision(torch):
    X, y, _ = draw(0, 60, 2)
    found = rank_on_torch(1e4 * X, y, degree=7, gamma=1e8)
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_moments(torch, weighted, constant):
    arrays = TorchArrays(torch.device("cpu"), block_bytes=1)
    X, y, v = draw(3, 200, 4)
    basis = Basis.full(4, 3, constant=constant).filter(lambda m: m != (1, 2))
    weight = v if weighted else None
    expected = accumulate(basis, X + 5.0, y, weight)
    found = accumulate(basis, torch.as_tensor(X + 5.0), y, weight, arrays=arrays)
    size = np.abs(expected.scatter).max()
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-12 * size)
    np.testing.assert_allclose(found.cross, expected.cross, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert found.spread == pytest.approx(expected.spread)
    assert found.weight == pytest.approx(expected.weight)


def test_callbacks_may_stop_the_work(torch):
    X, y, _ = draw(4, 40, 6)

    def stop(done, total):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        rank_on_torch(X, y, on_block=stop)
    arrays = TorchArrays(torch.device("cpu"))
    with pytest.raises(TimeoutError):
        accumulate(Basis.full(6, 2), X, y, arrays=arrays, on_block=stop)


def test_devices(torch):
    X = torch.zeros(3, 2)
    assert Place.find(X, None).device == torch.device("cpu")
    assert is_tensor(X)
    assert not is_tensor(np.zeros(3))
    with pytest.raises(InputError, match="device must be a PyTorch device"):
        Place.find(X, "no-such-device")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="needs a CUDA GPU"):
            Place.find(X, "cuda")
    with pytest.raises(InputError, match="precision must be 'float64'"):
        Pricer(X, 2, precision="float32", arrays=TorchArrays(torch.device("cpu")))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingSolverError, match=r"pip install polysharp\[torch\]"):
        Place.find(np.zeros(3), "cuda")
