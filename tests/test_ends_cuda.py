"""Exhaustive ends on a CUDA device against the processor; skipped where there is none."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from polysharp import SparsePolynomialRegressor, verify
from polysharp.engines.tree.ends_kernel import Quest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


def gains(H: np.ndarray, b: np.ndarray, supports: np.ndarray) -> np.ndarray:
    blocks = H[supports[:, :, None], supports[:, None, :]]
    return 0.5 * np.einsum(
        "ij,ij->i", b[supports], np.linalg.solve(blocks, b[supports][..., None])[..., 0]
    )


@pytest.mark.parametrize(("size", "terms"), [(70, 3), (33, 4), (20, 5), (14, 6)])
@pytest.mark.parametrize("share", [1.0, 0.999, 0.97])
def test_what_gains_more_is_listed(size: int, terms: int, share: float) -> None:
    """No support that is not listed gains more than the gain that is reported."""
    from polysharp.engines.tree.ends_cuda import exhaust_on_device

    rng = np.random.default_rng([size, terms])
    M = rng.standard_normal((3 * size, size)) @ rng.standard_normal((size, size))
    H, b = M.T @ M + np.eye(size), M.T @ rng.standard_normal(3 * size)
    every = np.array(list(combinations(range(size), terms)))
    gain = gains(H, b, every)
    cost = 1.1 * float(gain.max())
    task = Quest(share * float(gain.max()) - 1e-9 * cost, cost, 1e-4, 1e-9 * cost)
    ended = exhaust_on_device(H, b, terms, task, torch.device("cuda"))
    assert ended is not None
    listed = {tuple(hit) for hit in ended.hits.tolist()}
    assert tuple(every[gain.argmax()].tolist()) in listed
    left = [g for S, g in zip(every.tolist(), gain, strict=True) if tuple(S) not in listed]
    assert max(left) <= ended.need + 1e-9 * cost


def test_a_fit_is_proved_with_the_device() -> None:
    """The device ends what the processor would, and the proof is verified on the processor."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 8))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 3 + X[:, 5] + 2.0 * rng.standard_normal(200)
    model = SparsePolynomialRegressor(3, 4, gamma=1.0, n_candidates=None, engine="tree")
    here = model.fit(X, y).solution_
    there = model.set_params(device="cuda").fit(X, y)
    assert there.solution_.status == here.status == "optimal"
    assert there.solution_.objective == pytest.approx(here.objective, rel=1e-9)
    assert verify(there.solution_.proof, X, y)
