"""The kernel system of ``ranking`` on PyTorch tensors, where a GPU does its large products."""

from __future__ import annotations

from math import comb
from typing import Any

from polysharp.data.torch_arrays import TorchArrays
from polysharp.ranking.ranking import KernelSettings
from polysharp.typing import Array, OnBlock


def kernel_scores(
    arrays: TorchArrays,
    rows: tuple[Array, Array, Array],
    settings: KernelSettings,
    on_block: OnBlock | None = None,
) -> Array:
    """Score the inputs of rows (X, y, weights); powers of the kernel are held one at a time."""
    torch, (degree, gamma, fit_intercept) = arrays.torch, settings
    X, y, v = map(arrays.array, rows)
    s, base = torch.sqrt(v), (X @ X.T).add_(1.0)
    L = _factor(torch, base, s, settings)
    level = (v @ y) / v.sum() if fit_intercept else 0.0
    alpha, of_s = torch.cholesky_solve(torch.stack([s * (y - level), s], 1), L).T
    if fit_intercept:
        alpha = alpha - (s @ alpha) / (s @ of_s) * of_s
    del L
    a = (s * alpha)[:, None]
    total = (X**degree * a).sum(0) ** 2 * (-1.0) ** (degree + 1)
    for d in range(1, degree):
        U = X**d * a
        total += comb(degree, d) * (-1.0) ** (d + 1) * (base ** (degree - d) @ U).mul_(U).sum(0)
        if on_block is not None:
            on_block(d, degree - 1)
    return gamma**2 * arrays.numpy(total.clamp_(min=0.0))


def _factor(torch: Any, base: Any, s: Any, settings: KernelSettings) -> Any:
    """Return the Cholesky factor of I + gamma (ss') * B^(r), the identity raised if need be."""
    ridge = 1.0
    while True:
        A = (base**settings.degree).mul_(settings.gamma * s[:, None]).mul_(s)
        largest = float(A.diagonal().max())
        A.diagonal().add_(ridge)
        L, info = torch.linalg.cholesky_ex(A)
        if int(info) == 0:
            return L
        ridge = max(10.0 * ridge, len(s) * 1e-16 * largest)
