"""Polynomial kernel regression in one n x n matrix, and the scores of its inputs.

With B = 1 + XX' and powers taken entry by entry, it solves

    alpha = (I + gamma B^(r))^-1 y,      w_j = gamma m_j'alpha,

and the score of input i is the sum of squares of the coefficients of its dependents,

    score_i = |w_D(i)|^2 = gamma^2 alpha'(B^(r) - (B - x_i x_i')^(r)) alpha
            = gamma^2 sum_{d=1..r} (-1)^(d+1) C(r,d) q_di,
    q_di = (alpha * x_i^d)' B^(r-d) (alpha * x_i^d).

Let e_t be the sum of squares over the monomials with x_i exactly t times: C(r,d) q_di is
sum_t C(t,d) e_t, so the alternating sum loses at most a factor 2^r - 1 of relative accuracy.
d = r needs no product at all and d = r - 1 only X'(alpha * x^d), since B is 1 + XX'.

Sample weights v scale the rows of M and y by sqrt(v).  A free intercept b adds the row
sqrt(v)'alpha = 0 and the unknown b to the system; the kernel's own constant is then idle.
"""

from __future__ import annotations

import os
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.data.arrays import TorchArrays
from polysharp.errors import TooLargeError
from polysharp.typing import Array, OnBlock

PANEL = 512  # columns of the n x n matrix that are worked on at a time


class KernelSettings(NamedTuple):
    """Degree, regularisation and intercept of a kernel regression."""

    degree: int
    gamma: float
    fit_intercept: bool


def _refuse_beyond_memory(n: int) -> None:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on every system
        return
    if 8 * n * n > memory:
        raise TooLargeError(
            f"X: {n} rows take an n x n kernel of {8 * n * n / 2**30:.0f} GiB, more than "
            "this machine's memory; pass a sample of the rows, fewer inputs or a lower degree"
        )


class KernelSystem:
    """(I + gamma (ss') * B^(r)) alpha = s * y, s = sqrt(v), factorised in one n x n matrix.

    Columns come in panels.  The factorisation needs the triangle on and below the diagonal blocks
    only; above them the matrix keeps B itself for the scores.  ``work`` is the one block of memory
    used besides: fresh memory for each panel would cost more than the arithmetic on it.
    """

    def __init__(
        self,
        X: Array,
        v: Array,
        degree: int,
        gamma: float,
        on_block: OnBlock | None = None,
        *,
        panel: int = PANEL,
    ) -> None:
        n = len(X)
        _refuse_beyond_memory(n)
        self.X, self.s, self.degree, self.gamma = X, np.sqrt(v), degree, gamma
        self.A = np.empty((n, n), order="F")
        self.panels = [slice(a, min(a + panel, n)) for a in range(0, n, panel)]
        self.work = np.empty((2, min(n, panel) * n))
        self.on_block = on_block
        ridge = 1.0
        self._fill(ridge)
        while not self._factorise():
            # Rounding of a huge kernel hides the identity: raise it to what can be represented.
            diagonal = (1.0 + np.einsum("ti,ti->t", X, X)) ** degree
            rounding = n * 1e-16 * gamma * float((self.s**2 * diagonal).max())
            ridge = max(10.0 * ridge, rounding)
            self._fill(ridge)

    def _block(self, which: int, rows: int, columns: int) -> Array:
        return self.work[which, : rows * columns].reshape(rows, columns)

    def _tick(self) -> None:
        self.done += 1
        if self.on_block is not None:
            self.on_block(self.done, max(self.done, 3 * len(self.panels)))

    def _fill(self, ridge: float) -> None:
        """Fill A with the system's matrix below and B above the diagonal blocks."""
        A, X, s = self.A, self.X, self.s
        self.done = 0
        for cols in self.panels:
            width = cols.stop - cols.start
            base, kernel = (self._block(b, width, len(X) - cols.start) for b in (0, 1))
            np.matmul(X[cols], X[cols.start :].T, out=base)
            base += 1.0
            A[cols, cols.stop :] = base[:, width:]
            entrywise_power(base, self.degree, kernel)
            kernel *= s[cols.start :]
            kernel *= (self.gamma * s[cols])[:, None]
            A[cols.start :, cols] = kernel.T
            self._tick()
        A[np.diag_indices_from(A)] += ridge

    def _factorise(self) -> bool:
        """Put the Cholesky factor into the lower triangle, or return False.

        Left-looking: each panel takes the product of all finished ones, so nearly all work is
        one large matrix product per panel, and nothing above the diagonal blocks is touched.
        """
        A = self.A
        for cols in self.panels:
            width = cols.stop - cols.start
            finished = A[cols.start :, : cols.start]
            panel = self._block(0, width, len(A) - cols.start)
            np.matmul(finished[:width], finished.T, out=panel)
            np.subtract(A[cols.start :, cols].T, panel, out=panel)
            corner, info = dpotrf(panel[:, :width].T, lower=1, clean=1)
            if info != 0:
                return False
            A[cols.start :, cols] = dtrsm(
                1.0, corner, panel.T, side=1, lower=1, trans_a=1, overwrite_b=1
            )
            A[cols, cols] = corner
            self._tick()
        return True

    def solve(self, y: Array, fit_intercept: bool) -> tuple[Array, float]:
        """Return a = s * alpha and b; a free intercept b obeys A alpha + s b = s * y, s'alpha = 0.

        The regressor is b + gamma sum_t a_t (1 + x_t'x)^r.
        """
        s = self.s
        if not fit_intercept:
            return s * dpotrs(self.A, s * y, lower=1)[0], 0.0
        y_mean = float((s * s) @ y / (s @ s))
        of_y, of_s = dpotrs(self.A, np.column_stack([s * (y - y_mean), s]), lower=1)[0].T
        b = float((s @ of_y) / (s @ of_s))
        return s * (of_y - b * of_s), y_mean + b

    def scores(self, a: Array) -> Array:
        """Sum the r terms; blocks of B beside the diagonal stand for their mirror image too."""
        X, r = self.X, self.degree
        factor = {d: comb(r, d) * (-1.0) ** (d + 1) for d in range(1, r + 1)}
        total = factor[r] * (a @ entrywise_power(X, r)) ** 2
        through_kernel = range(1, r)
        if r > 1 and 2 * X.shape[1] <= len(X):
            total += factor[r - 1] * _linear_term(X, a, r - 1)
            through_kernel = range(1, r - 1)
        U = {d: entrywise_power(X, d) * a[:, None] for d in through_kernel}
        for rows in self.panels:
            corner = X[rows] @ X[rows].T + 1.0
            beside = self.A[rows, rows.stop :].T
            for d in through_kernel:
                power = entrywise_power(beside, r - d, self._block(0, *beside.shape))
                left = entrywise_power(corner, r - d) @ U[d][rows]
                left += 2.0 * (power.T @ U[d][rows.stop :])
                total += factor[d] * np.einsum("ti,ti->i", U[d][rows], left)
            self._tick()
        return np.asarray(self.gamma**2 * np.maximum(total, 0.0))


def entrywise_power(base: Array, exponent: int, out: Array | None = None) -> Array:
    """Return the entrywise power by multiplication, which is far faster than ``**``."""
    power = np.empty_like(base) if out is None else out
    if exponent == 1:
        power[...] = base
        return power
    np.multiply(base, base, out=power)
    for _ in range(exponent - 2):
        power *= base
    return power


def _linear_term(X: Array, a: Array, d: int) -> Array:
    """Return u_i'(1 + XX')u_i with u_i = a * x_i^d, from X'u_i: p x p, in column blocks."""
    U = entrywise_power(X, d) * a[:, None]
    total = U.sum(axis=0) ** 2
    for start in range(0, U.shape[1], PANEL):
        cols = slice(start, start + PANEL)
        T = X.T @ U[:, cols]
        total[cols] += np.einsum("ji,ji->i", T, T)
    return np.asarray(total)


def torch_scores(
    arrays: TorchArrays,
    rows: tuple[Array, Array, Array],
    settings: KernelSettings,
    on_block: OnBlock | None = None,
) -> Array:
    """Score the inputs of rows (X, y, weights) on tensors, one power of the kernel at a time."""
    torch, (degree, gamma, fit_intercept) = arrays.torch, settings
    X, y, v = map(arrays.array, rows)
    s, base, ridge = torch.sqrt(v), (X @ X.T).add_(1.0), 1.0
    while True:
        A = (base**degree).mul_(gamma * s[:, None]).mul_(s)
        largest = float(A.diagonal().max())
        A.diagonal().add_(ridge)
        L, info = torch.linalg.cholesky_ex(A)
        if int(info) == 0:
            break
        ridge = max(10.0 * ridge, len(s) * 1e-16 * largest)  # as in ``KernelSystem``
    level = (v @ y) / v.sum() if fit_intercept else 0.0
    alpha, of_s = torch.cholesky_solve(torch.stack([s * (y - level), s], 1), L).T
    if fit_intercept:
        alpha = alpha - (s @ alpha) / (s @ of_s) * of_s
    del A, L
    a = (s * alpha)[:, None]
    total = (X**degree * a).sum(0) ** 2 * (-1.0) ** (degree + 1)
    for d in range(1, degree):
        U = X**d * a
        total += comb(degree, d) * (-1.0) ** (d + 1) * (base ** (degree - d) @ U).mul_(U).sum(0)
        if on_block is not None:
            on_block(d, degree - 1)
    return gamma**2 * arrays.numpy(total.clamp_(min=0.0))
