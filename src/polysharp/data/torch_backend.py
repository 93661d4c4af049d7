"""Ranking, moments and pricing on PyTorch tensors: on a GPU, or on the CPU.

The same mathematics as ``ranking``, ``moments`` and ``pricing``, where the work is in float64
matrix products that a GPU does fast.  Data may be NumPy arrays or tensors; results are the
same NumPy records that the CPU code returns, so nothing after them knows where they come from.

PyTorch is imported only when one of these functions is used.  Everything runs in float64: on
data-centre GPUs it is as fast as float32, and float32 products may silently be rounded to
fewer digits (TF32), which would break the error bounds of pricing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from polysharp.data.arrays import Precision
from polysharp.errors import InputError, MissingSolverError
from polysharp.moments.moments import Moments, ShiftedSums
from polysharp.monomials.basis import Basis
from polysharp.ranking.ranking import Ranking, checked, prefers_moments, scores_from_moments
from polysharp.typing import Array, Indices, OnBlock

BLOCK_BYTES = 512 * 2**20


def torch_module() -> Any:
    """Import PyTorch, or say that it is missing."""
    try:
        import torch
    except ImportError as missing:
        raise MissingSolverError(
            "device needs the package 'torch', which is not installed: pip install torch"
        ) from missing
    return torch


def is_tensor(X: object) -> bool:
    """Whether X is a PyTorch tensor, found out without importing PyTorch."""
    return type(X).__module__.split(".")[0] == "torch"


def find_device(X: object, device: str | None = None) -> Any:
    """Return the device asked for, or the one the tensor X is on."""
    torch = torch_module()
    if device is None:
        return X.device if is_tensor(X) else torch.device("cpu")  # type: ignore[attr-defined]
    try:
        found = torch.device(device)
    except RuntimeError as unknown:
        raise InputError(f"device must be a PyTorch device, got {device!r}") from unknown
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r} needs a CUDA GPU, and PyTorch sees none")
    return found


def on_host(X: Any) -> Array:
    """Return X as a float64 NumPy array."""
    return np.asarray(X.detach().cpu().numpy() if is_tensor(X) else X, dtype=np.float64)


class TorchArrays:
    """Pricing on tensors: pass an instance to ``Pricer``."""

    best_precision: Precision = "float64"
    stack = 4096  # few large products: between two of them the device waits for the host

    def __init__(self, device: Any) -> None:
        self.torch = torch_module()
        self.device = device
        self.chunk = 2**62  # one product over all rows

    def _dtype(self, precision: Precision) -> Any:
        if precision != "float64":
            raise InputError(f"precision must be 'float64' on tensors, got {precision!r}")
        return self.torch.float64

    def table(self, X: Any, inputs: Indices, precision: Precision) -> Any:
        """Return the chosen columns of X as rows."""
        X = self.torch.as_tensor(X, dtype=self._dtype(precision), device=self.device)
        return X[:, self.torch.as_tensor(inputs, device=self.device)].T.contiguous()

    def vector(self, a: Array, precision: Precision) -> Any:
        """Return a on the device."""
        return self.torch.as_tensor(a, dtype=self._dtype(precision), device=self.device)

    def rows(self, table: Any, which: Indices) -> Any:
        """Return a copy of some rows."""
        return table[self.torch.as_tensor(which.astype(np.int64), device=self.device)]

    def pairs(self, table: Any, start: int, stop: int) -> Any:
        """Return x_k x_l, one row each."""
        return self.torch.cat([table[k:] * table[k] for k in range(start, stop)])

    def correlate(self, parts: list[tuple[Any, Any]], table: Any) -> Any:
        """Return stack(part * weight) table'."""
        weighted = [part * weight for part, weight in parts]
        return (weighted[0] if len(weighted) == 1 else self.torch.cat(weighted)) @ table.T

    def above(self, P: Any, limits: Array) -> tuple[Indices, Indices, Array]:
        """Return where |P_sc| >= limits_s."""
        P = P.abs_()
        least = self.torch.as_tensor(limits, device=self.device)
        rows, columns = self.torch.nonzero(least[:, None] <= P, as_tuple=True)
        return rows.cpu().numpy(), columns.cpu().numpy(), self.numpy(P[rows, columns])

    def numpy(self, values: Any) -> Array:
        """Return values on the host."""
        return np.asarray(values.cpu().numpy(), dtype=np.float64)


def accumulate(
    basis: Basis,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    device: str | None = None,
    on_block: OnBlock | None = None,
) -> Moments:
    """Accumulate the moments of ``basis`` over row blocks, as ``moments`` does."""
    torch, where = torch_module(), find_device(X, device)
    used = X if len(basis.used) == X.shape[1] else X[:, basis.used]
    X = torch.as_tensor(used, dtype=torch.float64, device=where)
    y = torch.as_tensor(y, dtype=torch.float64, device=where)
    v = torch.ones_like(y) if sample_weight is None else torch.as_tensor(sample_weight)
    v = v.to(dtype=torch.float64, device=where)
    n, f = X.shape[0], len(basis)
    evaluate = _evaluator(basis, torch, where)
    scatter = torch.zeros((f, f), dtype=torch.float64, device=where)
    cross, first = torch.zeros((2, f), dtype=torch.float64, device=where)
    shift, y_shift, spread, y_first = None, 0.0, 0.0, 0.0
    for rows in basis.blocks(n, BLOCK_BYTES):
        M, weight = evaluate(X[rows]), v[rows]
        if shift is None:
            shift, y_shift = M.mean(1), float(y[rows].mean())
        M -= shift[:, None]
        t = y[rows] - y_shift
        cross += M @ (weight * t)
        first += M @ weight
        spread += float(weight @ (t * t))
        y_first += float(weight @ t)
        M *= torch.sqrt(weight)
        scatter.addmm_(M, M.T)
        if on_block is not None:
            on_block(rows.stop, n)
    sums = ShiftedSums(
        n_rows=n,
        weight=float(v.sum()),
        shift=on_host(shift),
        first=on_host(first),
        scatter=on_host(scatter),
        y_shift=y_shift,
        y_first=y_first,
        cross=on_host(cross),
        spread=spread,
    )
    return sums.moments(basis.scales)


def _evaluator(basis: Basis, torch: Any, device: Any) -> Callable[[Any], Any]:
    """Return a function from rows of the inputs used to the plain monomials (f, rows)."""
    by_degree = []
    for d in range(basis.degree + 1):
        where = [j for j, m in enumerate(basis.monomials) if len(m) == d]
        factors = np.array([basis.monomials[j] for j in where], dtype=np.int64)
        factors = np.searchsorted(basis.used, factors.reshape(len(where), d))
        tensors = (
            torch.as_tensor(part, device=device)
            for part in (np.array(where, dtype=np.int64), factors.T)
        )
        by_degree.append(tuple(tensors))

    def evaluate(X: Any) -> Any:
        inputs = X.T.contiguous()
        M = torch.ones((len(basis), X.shape[0]), dtype=torch.float64, device=device)
        for where, factors in by_degree:
            for factor in factors:
                M[where] *= inputs[factor]
        return M

    return evaluate


def rank_inputs(
    X: Any,
    y: Any,
    degree: int = 3,
    gamma: float = 1e-3,
    *,
    sample_weight: Any = None,
    fit_intercept: bool = False,
    device: str | None = None,
    on_block: OnBlock | None = None,
) -> Ranking:
    """Rank the inputs (Algorithm 1), as ``polysharp.rank_inputs`` does."""
    torch, where = torch_module(), find_device(X, device)
    weights = None if sample_weight is None else on_host(sample_weight)
    arrays = checked(on_host(X), on_host(y), degree, gamma, weights)
    X, y, v = (torch.as_tensor(array, device=where) for array in arrays)
    n, p = X.shape
    if prefers_moments(n, p, degree):
        basis = Basis.full(p, degree)
        moments = accumulate(basis, X, y, v, on_block=on_block)
        scores = scores_from_moments(basis, moments, gamma, fit_intercept)
    else:
        scores = _scores_from_kernel(X, y, v, degree, gamma, fit_intercept, on_block)
    return Ranking.of_scores(scores, degree, gamma)


def _scores_from_kernel(
    X: Any,
    y: Any,
    v: Any,
    degree: int,
    gamma: float,
    fit_intercept: bool,
    on_block: OnBlock | None,
) -> Array:
    """Score through the n x n kernel, whose powers are held one at a time beside it."""
    torch = torch_module()
    s, base = torch.sqrt(v), (X @ X.T).add_(1.0)
    L = _factor(base, s, degree, gamma)
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
    return gamma**2 * on_host(total.clamp_(min=0.0))


def _factor(base: Any, s: Any, degree: int, gamma: float) -> Any:
    """Return the Cholesky factor of I + gamma (ss') * B^(r), the identity raised if need be."""
    torch = torch_module()
    ridge = 1.0
    while True:
        A = (base**degree).mul_(gamma * s[:, None]).mul_(s)
        largest = float(A.diagonal().max())
        A.diagonal().add_(ridge)
        L, info = torch.linalg.cholesky_ex(A)
        if int(info) == 0:
            return L
        ridge = max(10.0 * ridge, len(s) * 1e-16 * largest)
