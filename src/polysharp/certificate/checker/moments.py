"""G, q and yy from the rows, with worst-case bounds on their rounding.

The columns are m_j = scale_j prod_i (x_i - shift_i) / unit_i, centred by their weighted means
where the intercept is free, and multiplied by the roots of the weights; y stands beside them as
one more column.  With u = 2^-53, every number below is a worst case, and holds for sums in any
order.  Let c_j be the exact column and m_j the computed one:

    error_j >= |c_j - m_j|       3 deg + 3 roundings of its entries before centring;
    norms_j >= |m_j|, |c_j|
    unit    >= |G_ij - m_i'm_j| / (norms_i norms_j)       B + n/B roundings, since the rows are
                                 summed in blocks of B = sqrt(n), and then the blocks.

What centring leaves of a mean, since that must be a float, is the same in every row: it is
measured, and its square taken off G (40 roundings more).

For coefficients w on k monomials, with reach = |y| + sum |w_j| norms_j, E = error_y +
sum |w_j| error_j and eps = unit + (2k + 8) u, this gives, with a = y - Mw,

    |error of yy, y'a, |a|^2, w'Gw|  <=  eps reach^2 + (2 reach + E) E
    |error of m_j'a|                 <=  norms_j (eps reach + E) + error_j (reach + E).

Part of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from math import factorial, isqrt, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polysharp.certificate.checker.rules import Array, Indices, Monomial, demand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polysharp.certificate.statement import Statement

U = 2.0**-53
SAFE = 1.001  # covers the rounding of the error bounds themselves
TINY = 1e-290  # covers underflow
BLOCK = 4096  # rows of the design held at once


class Point(NamedTuple):
    """What a vector's value is made of, each number rounded to the side that lowers it."""

    base: Any  # <= yy/2 - w'Qw/2
    ya: Any  # <= y'a
    aa: Any  # >= |a|^2
    rho: Array  # >= |m_j'a + d_j w_j|, for every monomial that was asked for


class Rows(NamedTuple):
    """The table as numbers, rows of weight zero left out."""

    X: Array
    y: Array
    v: Array


def read_rows(s: Statement, X: Any, y: Any, weight: Any) -> Rows:
    """Check the table against the statement."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(-1)
    v = np.asarray(1.0 if weight is None else weight, dtype=np.float64)
    v = v.reshape(-1) if v.ndim else np.full(len(y), v)
    p = len(s.names)
    demand(X.shape == (len(y), p), f"X is no table of {p} inputs by {len(y)}")
    demand(len(y) > 0 and v.shape == y.shape, "y and sample_weight do not have a value per row")
    demand(all(np.isfinite(a).all() for a in (X, y, v)), "the data are not finite")
    total = float(v.sum())
    demand(np.all(v >= 0.0) and total > 0.0, "sample_weight is negative or all zero")
    size = sqrt(total) * float(np.abs(y[v > 0.0]).max())
    within = 1e-30 <= total <= 1e30 and (size == 0.0 or 1e-75 <= size <= 1e75)
    demand(within, "y or sample_weight is too large or too small: its powers leave the floats")
    agrees = abs(total - s.total_weight) <= len(y) * 4.0 * U * total
    demand(agrees, f"the rows have total weight {total!r}, and not {s.total_weight!r} as stated")
    return Rows(X[v > 0.0], y[v > 0.0], v[v > 0.0])


def scale_squared(m: Monomial, degree: int) -> int:
    """The number of orderings of a monomial padded with ones to the degree."""
    repeats = prod(factorial(m.count(i)) for i in set(m))
    return factorial(degree) // (factorial(degree - len(m)) * repeats)


def design(monomials: Sequence[Monomial], degree: int, coded: Array) -> Array:
    """The scaled monomials at rows of coded inputs, column by column."""
    M = np.empty((len(coded), len(monomials)), order="F")
    for j, m in enumerate(monomials):
        M[:, j] = sqrt(scale_squared(m, degree))
        for i in m:
            M[:, j] *= coded[:, i]
    return M


def blocks_of(n: int, size: int) -> Iterator[slice]:
    """Slices of so many rows."""
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


def _sum_of_rows(A: Array) -> Array:
    """Add the rows up in pairs, so that each goes through log2(n) + 1 roundings at most."""
    while len(A) > 1:
        half = len(A) // 2
        A = np.concatenate([A[:half] + A[half : 2 * half], A[2 * half :]])
    return np.asarray(A[0])


class Moments:
    """G, q, yy of some monomials of a statement, and bounds on their errors."""

    is_exact = False
    floats_hold = True  # whether the bounds on errors cover what is to be proved

    def __init__(self, s: Statement, rows: Rows, monomials: Sequence[Monomial]) -> None:
        n, f, root = len(rows.y), len(monomials), np.sqrt(rows.v)
        coded = (rows.X - s.shift) / s.scale
        block = min(n, max(16, isqrt(n)))
        mean, total = np.zeros(f + 1), float(rows.v.sum())
        if s.fit_intercept:
            first = self._columns(s, coded[:1], rows.y[:1], monomials)[0]
            for b in blocks_of(n, BLOCK):  # about the first row: constants centre to zeros
                M = self._columns(s, coded[b], rows.y[b], monomials) - first
                mean += rows.v[b] @ M / total
            mean += first
        whole, drift, raw = np.zeros((f + 1, f + 1)), np.zeros(f + 1), np.zeros(f + 1)
        for big in blocks_of(n, BLOCK):
            M = self._columns(s, coded[big], rows.y[big], monomials)
            raw += rows.v[big] @ M**2
            M -= mean
            M *= root[big, None]
            drift += _sum_of_rows(root[big, None] * M)
            for small in blocks_of(len(M), block):
                whole += M[small].T @ M[small]
        demand(np.isfinite(whole).all() and np.isfinite(raw).all(), "its powers leave the floats")
        self.lam, roundings = 1.0 / s.gamma, block + n / block + 4.0
        if s.fit_intercept:
            roundings += 2.0 * (20.0 + n / BLOCK)
        self.unit = SAFE * roundings * U
        norms = np.sqrt(np.diagonal(whole)) * (1.0 + self.unit)
        if s.fit_intercept:
            whole -= np.multiply.outer(drift / total, drift)
        self.G, self.q, self.yy = whole[:f, :f], whole[f, :f], max(0.0, float(whole[f, f]))
        entries = np.array([*(3.0 * len(m) + 3.0 for m in monomials), 0.0])
        error = entries * U * np.sqrt(raw) + 4.0 * U * norms
        error[:f][raw[:f] < 1e-250] += 1e-120  # too small for its square to be a float
        self.norms, self.error = norms[:f], SAFE * error[:f] + TINY
        self.y_norm, self.y_error = float(norms[f]), SAFE * float(error[f])
        self.box = SAFE * (self.y_norm + self.y_error) / sqrt(self.lam)  # no better |w_j|

    @staticmethod
    def _columns(s: Statement, coded: Array, y: Array, monomials: Sequence[Monomial]) -> Array:
        return np.column_stack([design(monomials, s.degree, coded), y])

    def margins(self, index: Indices, w: Array) -> tuple[float, float, float]:
        """Return reach, eps reach + E and the error of a quadratic form, as at the head."""
        size = np.abs(w)
        reach = self.y_norm + float(size @ self.norms[index])
        moved = self.y_error + float(size @ self.error[index])
        eps = self.unit + (2.0 * len(index) + 8.0) * U
        error = eps * reach * reach + (2.0 * reach + moved) * moved
        tiny = TINY if reach > 0.0 else 0.0  # no error where all is zero
        return SAFE * reach, SAFE * (eps * reach + moved), SAFE * error + tiny

    def at(self, index: Indices, w: Array, d: Array | None, alive: Indices) -> Point:
        """Evaluate the vector w on ``index``, with the diagonal d of all monomials if given."""
        reach, step, error = self.margins(index, w)
        Qw = _product(self.G, index, w, alive)
        wGw, qw = float(w @ Qw[index]), float(self.q[index] @ w)
        rho, moved = self.q - Qw, 0.0
        slack = self.norms * step + self.error * (reach + step) + TINY
        if d is not None:
            dw = d[index] * w
            rho[index] += dw
            slack[index] += 4.0 * U * (np.abs(dw) + np.abs(rho[index]))
            moved = float(dw @ w) - 2.0 * (len(index) + 2.0) * U * float(np.abs(dw) @ np.abs(w))
        return Point(
            0.5 * (self.yy - wGw + moved) - error - 4.0 * U * abs(moved),
            self.yy - qw - error,
            self.yy - 2.0 * qw + wGw + error,
            (np.abs(rho) + slack) * (1.0 + 4.0 * U),
        )

    def slack(self, index: Indices, d: Array) -> Array:
        """By how much rounding may falsify G - diag(d), on the diagonal, in units of the norms.

        Columns are scaled to unit length.  The matrix is then wrong by at most unit + r_i + r_j in
        each entry, r = error / norms, hence by no more than the row sums on the diagonal; and a
        Cholesky factorisation that succeeds shows A + c I >= 0 with c = 4 (s + 4) u trace(A)
        (Rump: its backward error is gamma_(s+1) trace(A), doubled for reciprocals of pivots, and
        again to be safe).
        """
        size, norms = len(index), self.lengths(index)
        ratio, part = self.error[index] / norms, d / norms**2
        slack = size * (self.unit + 4.0 * U + ratio) + ratio.sum()
        slack += 8.0 * U * (1.0 + np.abs(part) + slack)
        trace = float(np.maximum(self.G[index, index] / norms**2 - part, 0.0).sum())
        return np.asarray(SAFE * (slack + 4.0 * (size + 4.0) * U * trace) + TINY)

    def lengths(self, index: Indices) -> Array:
        """Lengths of columns, errors included, none of them zero."""
        return np.maximum(self.norms[index] + self.error[index], 1e-140)

    def is_curvature(self, index: Indices, d: Array) -> bool:
        """Whether G - diag(d) >= 0 on some monomials, beyond the doubts of rounding."""
        norms = self.lengths(index)
        C = self.G[np.ix_(index, index)] / np.multiply.outer(norms, norms)
        C[np.diag_indices(len(index))] -= d / norms**2 + self.slack(index, d)
        return is_definite(C)


def is_definite(A: Array) -> bool:
    """Whether a Cholesky factorisation succeeds; NumPy's does not refuse NaN."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(A)).all())
    except np.linalg.LinAlgError:
        return False


def _product(G: Array, index: Indices, w: Array, alive: Indices) -> Array:
    """Return G[:, index] w, at least on ``index`` and ``alive``."""
    if 4 * (len(alive) + len(index)) > len(G):
        return np.asarray(w @ G[index])
    Gw, where = np.zeros(len(G)), np.concatenate([index, alive])
    Gw[where] = w @ G[np.ix_(index, where)]
    return Gw
