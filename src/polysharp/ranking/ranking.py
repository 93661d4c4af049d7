"""Input ranking: Algorithm 1 of the paper, with r matrix products instead of p kernels.

With B = 1 + XX' and powers taken entry by entry, polynomial kernel regression solves

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
When f is small beside n the same w comes from the moments, which need no n x n matrix.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.data.rows import MemoryRows
from polysharp.data.torch_arrays import TorchArrays
from polysharp.errors import InputError, TooLargeError
from polysharp.moments.gram import solve_spd
from polysharp.moments.moments import Moments, accumulate
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.typing import Array, Indices, OnBlock

PANEL = 512  # columns of the n x n matrix that are worked on at a time


@dataclass(frozen=True, eq=False)
class Ranking:
    """The inputs in order of their scores, with the settings behind them."""

    scores: Array  # (p,): sum of squares of the coefficients of D(i)
    order: Indices  # (p,): inputs, best first; equal scores in order of index
    degree: int
    gamma: float
    n_rows: int | None = None  # that were ranked; None where that is not known

    @classmethod
    def of_scores(
        cls, scores: Array, degree: int, gamma: float, n_rows: int | None = None
    ) -> Ranking:
        """Order the inputs by score."""
        return cls(scores, np.argsort(-scores, kind="stable"), degree, gamma, n_rows)


def rank_inputs(
    X: Array,
    y: Array,
    degree: int = 3,
    gamma: float = 1e-3,
    *,
    sample_weight: Array | None = None,
    fit_intercept: bool = False,
    on_block: OnBlock | None = None,
) -> Ranking:
    """Rank the inputs by polynomial kernel regression (Algorithm 1).

    Parameters
    ----------
    X : array (n, p)
        Inputs.  Scores compare coefficients, so bring the inputs to one scale first.
    y : array (n,)
        Response.
    degree : int, default=3
        Degree r of the polynomial kernel.
    gamma : float, default=1e-3
        Regularisation: the ridge on the coefficients is 1 / gamma.
    sample_weight : array (n,) or None, default=None
        Non-negative weights of the rows.
    fit_intercept : bool, default=False
        Fit a free, unpenalised intercept beside the kernel.  False is the paper's form.
    on_block : callable or None, default=None
        Called with (done, total) between blocks of work; an exception it raises ends the
        ranking, which is how time limits and interrupts come in.

    Returns
    -------
    Ranking
        ``scores`` and ``order``, best first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> ranking = rank_inputs(X, X[:, 2] ** 2 + X[:, 0] * X[:, 2], degree=2)
    >>> ranking.order[:2].tolist()
    [2, 0]
    """
    settings = KernelSettings(degree, gamma, fit_intercept)
    rows = MemoryRows(X, y, sample_weight)
    return Ranking.of_scores(scores_of(rows, None, settings, on_block), degree, gamma, len(X))


class KernelSettings(NamedTuple):
    """Degree, regularisation and intercept of a kernel regression."""

    degree: int
    gamma: float
    fit_intercept: bool


def scores_of(
    rows: MemoryRows,
    inputs: Indices | None,
    settings: KernelSettings,
    on_block: OnBlock | None = None,
) -> Array:
    """Score some inputs (None for all) on rows in memory: through moments or one kernel."""
    X = rows.X if inputs is None else rows.columns(inputs)
    (degree, gamma, fit_intercept), arrays = settings, rows.place.arrays()
    X, y, v = checked(X, rows.y, degree, gamma, rows.sample_weight)
    n, p = X.shape
    if prefers_moments(n, p, degree):
        basis = Basis.full(p, degree)
        moments = accumulate(basis, X, y, v, arrays=arrays, on_block=on_block)
        return scores_from_moments(basis, moments, gamma, fit_intercept)
    if isinstance(arrays, TorchArrays):
        from polysharp.ranking.torch_kernel import kernel_scores

        return kernel_scores(arrays, (X, y, v), settings, on_block)
    system = KernelSystem(X, v, degree, gamma, on_block)
    return system.scores(system.solve(y, fit_intercept)[0])


def checked(
    X: Array, y: Array, degree: int, gamma: float, sample_weight: Array | None
) -> tuple[Array, Array, Array]:
    """Return X, y and the weights as float arrays, or say which rule they break."""
    if not isinstance(degree, int | np.integer) or degree < 1:
        raise InputError(f"degree must be an integer of at least 1, got {degree!r}")
    if not (np.isfinite(gamma) and gamma > 0):
        raise InputError(f"gamma must be positive and finite, got {gamma!r}")
    X = np.ascontiguousarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"X must be a table with at least one row and column, got {X.shape}")
    v = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for name, array in (("y", y), ("sample_weight", v)):
        if array.shape != (len(X),):
            raise InputError(f"{name} has {array.size:,} values, X has {len(X):,} rows")
    for name, array in (("X", X), ("y", y), ("sample_weight", v)):
        if not np.isfinite(array).all():
            first = array[~np.isfinite(array)][0]
            raise InputError(f"{name} must have neither NaN nor inf, got {first}")
    if (v < 0).any() or not v.any():
        raise InputError(f"sample_weight must be >= 0 and not all 0, got minimum {v.min()}")
    with np.errstate(over="ignore"):
        largest = gamma * v.max() * (1.0 + np.einsum("ti,ti->t", X, X).max()) ** degree
    if not largest < 1e150:  # squares of kernel entries appear in the scores
        raise InputError(f"X must be small enough that its powers stay finite, got {abs(X).max()}")
    return X, y, v


def prefers_moments(n: int, p: int, degree: int) -> bool:
    """Whether G (f x f) is the smaller matrix by far: many rows and few monomials."""
    return 2 * count_monomials(p, degree) <= n


def scores_from_moments(basis: Basis, moments: Moments, gamma: float, fit_intercept: bool) -> Array:
    """Score from the coefficients w themselves."""
    w = coefficients_from_moments(moments, gamma, fit_intercept)
    return np.asarray((w * w) @ basis.uses)


def coefficients_from_moments(moments: Moments, gamma: float, fit_intercept: bool) -> Array:
    """Return w, the ridge regression on all monomials; the scatter's diagonal is overwritten."""
    G, q, _ = moments.normal_equations(centred=fit_intercept)
    G[np.diag_indices_from(G)] += 1.0 / gamma
    return solve_spd(G, q)


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
