"""The columns that a statement speaks of, from the rows, with worst-case bounds on their rounding.

The columns are m_j = scale_j prod_i (x_i - shift_i) / unit_i over inputs and functions of them
(data here: the numbers that double precision makes of them), centred by their weighted means
where the intercept is free, and multiplied by the roots of the weights; y stands beside them as
one more column.  With u = 2^-53, every number
below is a worst case, and holds for sums in any order.  Let c_j be the exact column and m_j the
computed one, but for what centring leaves of a mean (a mean must be a float; ``drift`` measures the
rest, the same in every row):

    error_j >= |c_j - m_j|       3 deg + 3 roundings of its entries before centring;
    norms_j >= |m_j|, |c_j|
    unit    >= |fl(a'b) - a'b| / (|a| |b|)       B + n/B roundings, since products over the rows
                                 are summed in blocks of B = sqrt(n), and then the blocks.

Any vector a over the rows proves a bound with y'a, |a|^2 and m_j'a, of which only these products
are rounded.  That keeps all digits where |a| is much smaller than |y|, which products with
G = M'M (``moments``) do not; but it takes a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import factorial, isqrt, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polysharp.certificate.checker.boxes import CheckedBoxes
from polysharp.certificate.checker.rules import Array, Indices, Monomial, demand

if TYPE_CHECKING:
    from polysharp.certificate.statement import Statement

U = 2.0**-53
SAFE = 1.001  # covers the rounding of the error bounds themselves
TINY = 1e-290  # covers underflow
BLOCK = 4096  # rows of the design held at once
FUNCTIONS = {
    "inverse": lambda x: 1.0 / x,
    "square-root": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
}


class Point(NamedTuple):
    """What a vector's value is made of, each number rounded to the side that lowers it."""

    base: Any  # <= yy/2 - w'Qw/2
    ya: Any  # <= y'a
    aa: Any  # >= |a|^2
    up: Array  # >= m_j'a + d_j w_j, for every monomial that was asked for
    down: Array  # >= -(m_j'a + d_j w_j)

    def times(self, t: float) -> Point:
        """Return the same of t a; only where d = 0."""
        if t == 1.0:
            return self
        ya, aa, up, down = t * self.ya, t * (t * self.aa), t * self.up, t * self.down
        base = ya - 0.5 * aa - 8.0 * U * (abs(ya) + aa) - TINY
        up, down = (side + 4.0 * U * np.abs(side) + TINY for side in (up, down))
        return Point(base, ya - 4.0 * U * abs(ya) - TINY, aa * (1.0 + 8.0 * U) + TINY, up, down)


class CheckedRows(NamedTuple):
    """Inputs and functions of them, response and weights; rows of weight zero are left out."""

    X: Array
    y: Array
    v: Array
    unit: float = 1.0  # what y was divided by


def read_rows(
    s: Statement,
    X: Any,
    y: Any,
    weight: Any,
    functions: Mapping[str, Any] | None = None,
    unit: float = 1.0,
) -> CheckedRows:
    """Check the table, y divided by ``unit``, and compute the functions of its inputs."""
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
    X = X[v > 0.0]
    known = {**(functions or {}), **FUNCTIONS}
    for i, name in s.functions:
        demand(
            name in known, f"the function {name!r} is not known; give it as functions={{name: f}}"
        )
        column = np.asarray(known[name](X[:, i]), dtype=np.float64)
        fits = column.shape == (len(X),) and bool(np.isfinite(column).all())
        demand(fits, f"the function {name!r} of input {s.names[i]!r} is not defined at every row")
        X = np.column_stack([X, column])
    return CheckedRows(X, y[v > 0.0], v[v > 0.0], unit)


def scale_squared(m: Monomial, degree: int) -> int:
    """The number of orderings of a monomial padded with ones to the degree."""
    repeats = prod(factorial(m.count(i)) for i in set(m))
    return factorial(degree) // (factorial(degree - len(m)) * repeats)


def design(s: Statement, monomials: Sequence[Monomial], coded: Array) -> Array:
    """The scaled monomials at rows of coded inputs, column by column."""
    M = np.empty((len(coded), len(monomials)), order="F", dtype=coded.dtype)
    for j, m in enumerate(monomials):
        M[:, j] = np.sqrt(coded.dtype.type(scale_squared(m, s.degree)))
        for i in m:
            M[:, j] *= coded[:, i]
    return M


def sides(rho: Array, slack: Array) -> tuple[Array, Array]:
    """Return upper bounds on rho and on -rho, known up to a slack."""
    slack = slack + 4.0 * U * (np.abs(rho) + slack)
    return rho + slack, slack - rho


def rounded_sum(values: Sequence[float], side: float) -> float:
    """Add numbers up and round the sum down (side -1) or up (side 1)."""
    if len(values) == 1:
        return values[0]
    return float(sum(values) + side * 2.0 * len(values) * U * sum(map(abs, values)))


def blocks_of(n: int, size: int) -> Iterator[slice]:
    """Slices of so many rows."""
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


def _sum_of_rows(A: Array) -> Array:
    """Add the rows up in pairs, so that each goes through log2(n) + 1 roundings at most."""
    while len(A) > 1:
        half = len(A) // 2
        A = np.concatenate([A[:half] + A[half : 2 * half], A[2 * half :]])
    return np.asarray(A[0])


class Columns:
    """Some monomials of a statement at the rows, and bounds on their errors."""

    def __init__(self, s: Statement, rows: CheckedRows, monomials: Sequence[Monomial]) -> None:
        n, f = len(rows.y), len(monomials)
        self.s, self.rows, self.monomials = s, rows, monomials
        self.coded, self.root = (rows.X - s.shift) / s.scale, np.sqrt(rows.v)
        self.block = min(n, max(16, isqrt(n)))
        self.lam, self.total = 1.0 / s.gamma, float(rows.v.sum())
        self.unit = SAFE * (self.block + n / self.block + 4.0) * U
        every = np.arange(f)
        self.mean, raw, squares, self.drift = (np.zeros(f + 1) for _ in range(4))
        if s.fit_intercept:
            first = self._plain(slice(0, 1), every)[0]
            for b in blocks_of(n, BLOCK):  # about the first row: constants centre to zeros
                self.mean += rows.v[b] @ (self._plain(b, every) - first) / self.total
            self.mean += first
        for b in blocks_of(n, BLOCK):
            raw += rows.v[b] @ self._plain(b, every) ** 2
            M = self.centred(b, every)
            squares += _sum_of_rows(M**2)
            if s.fit_intercept:
                self.drift += _sum_of_rows(self.root[b, None] * M)
        demand(np.isfinite(raw).all() and np.isfinite(squares).all(), "its powers leave the floats")
        norms = np.sqrt(squares) * (1.0 + (16.0 + n / BLOCK) * U)
        self.entries = np.array([*(3.0 * len(m) + 3.0 for m in monomials), 0.0]) * U * np.sqrt(raw)
        error = self.entries + 4.0 * U * norms
        error[:f][raw[:f] < 1e-250] += 1e-120  # too small for its square to be a float
        self.norms, self.error = norms[:f], SAFE * error[:f] + TINY
        self.y_norm, self.y_error = float(norms[f]), SAFE * float(error[f])
        self.off, self.sizes = SAFE * error, norms
        self.boxes = self.boxes_of(monomials)

    def boxes_of(self, monomials: Sequence[Monomial]) -> CheckedBoxes:
        """Return the intervals of the coefficients of some monomials."""
        most = SAFE * (self.y_norm + self.y_error) / sqrt(self.lam)  # no better |w_j|
        scale = np.sqrt([float(scale_squared(m, self.s.degree)) for m in monomials])
        return CheckedBoxes(self.s, monomials, scale * self.rows.unit, most)

    def _plain(self, b: slice, index: Indices, real: Any = np.float64) -> Any:
        names = [self.monomials[j] for j in index.tolist()]
        coded = self.coded[b]
        if real is not np.float64:
            coded = (self.rows.X[b].astype(real) - self.s.shift) / self.s.scale.astype(real)
        return np.column_stack([design(self.s, names, coded), self.rows.y[b]])

    def centred(self, b: slice, index: Indices, real: Any = np.float64) -> Any:
        """Return some columns at a block of rows, y last, centred and weighted."""
        M = self._plain(b, index, real)
        M -= self.mean[np.append(index, len(self.monomials))]
        M *= np.sqrt(self.rows.v[b].astype(real))[:, None]
        return M

    def residual(self, index: Indices, w: Array) -> Array:
        """Return a = y - Mw, rounded somehow; in long doubles little of it is rounding."""
        parts = [self.centred(b, index, np.longdouble) for b in blocks_of(len(self.root), BLOCK)]
        a = np.concatenate([M[:, -1] - M[:, :-1] @ w.astype(np.longdouble) for M in parts])
        return np.asarray(a, dtype=np.float64)

    def closer(self, index: Indices, w: Array, alive: Indices, real: Any = np.longdouble) -> Point:
        """Evaluate a vector by the products of its residual with the columns that are alive."""
        a, f = self.residual(index, w), len(self.monomials)
        size, rho, off = self.length(a), np.zeros(f), np.zeros(f)
        sums, slack = (part[:, 0] for part in self.products(a[:, None], alive, real))
        rho[alive], off[alive] = sums[:-1].astype(np.float64), slack[alive]
        ya = float(sums[-1]) * (1.0 - 4.0 * U) - float(slack[f])
        base = ya - 0.5 * size * size
        base -= 4.0 * U * (abs(ya) + size * size)
        return Point(base, ya, size * size * (1 + 4 * U), *sides(rho, off))

    def length(self, a: Array) -> Any:
        """Return |a|, or the lengths of columns, rounded up."""
        return np.sqrt((a * a).sum(axis=0)) * (1.0 + (len(a) + 4.0) * U)

    def products(self, A: Array, alive: Indices, real: Any = np.float64) -> tuple[Any, Array]:
        """Return m_j'a for the columns a of A and those that are alive, y last, and all errors."""
        n, u = len(A), float(np.finfo(real).eps) / 2
        sums, size = np.zeros((len(alive) + 1, A.shape[1]), dtype=real), self.length(A)
        left = np.zeros(len(alive) + 1, dtype=real)
        for big in blocks_of(n, BLOCK):
            M, part = self.centred(big, alive, real), A[big]
            left += np.sqrt(self.rows.v[big].astype(real)) @ M
            for small in blocks_of(len(M), self.block):
                sums += M[small].T @ part[small]
        # What centring left of a mean counts with what it left of that of a.  The means are those
        # of columns in double precision: of others, and of the exact ones, more is left.
        along = np.abs(self.root @ A) / self.total + n * U * size / sqrt(self.total)
        sizes, off = self.sizes + self.off, self.off * (u / U)
        drift = sqrt(self.total) * ((n + 16.0) * u * sizes + off)
        drift[np.append(alive, len(self.monomials))] += np.abs(left).astype(np.float64)
        unit = self.unit * (u / U) * sizes + off
        mean = np.multiply.outer(drift, along) * self.s.fit_intercept
        return sums, SAFE * (np.multiply.outer(unit, size) + mean) + TINY

    def refit(self, S: Indices, rcond: float = 1e-15) -> Array:
        """Return coefficients of a support from the rows, which keeps more digits than G does."""
        M, k = self.centred(slice(None), S), len(S)
        A = np.vstack([M[:, :k], sqrt(self.lam) * np.eye(k)])
        size = np.sqrt((A * A).sum(axis=0))
        w = np.linalg.lstsq(A / size, np.append(M[:, k], np.zeros(k)), rcond=rcond)[0] / size
        return np.asarray(w, dtype=np.float64)

    def cost_at_most(self, S: Indices) -> float:
        """Return an upper bound on the cost of a support: the least of some coefficients."""
        ways = [np.zeros(len(S)), *(self.refit(S, rcond) for rcond in (1e-15, 1e-12, 1e-9))]
        if self.boxes.stated:
            M, k = self.centred(slice(None), S), len(S)
            H = M[:, :k].T @ M[:, :k] + self.lam * np.eye(k)
            ways.append(self.boxes.fit(H, M[:, :k].T @ M[:, k], S))
            ways = [self.boxes.clip(S, w) for w in ways]
        ridges = [(0.5 + 8.0 * U) * self.lam * float(w @ w) for w in ways]
        return min(0.5 * self.loss_at_most(S, w) + r for w, r in zip(ways, ridges, strict=True))

    def loss_at_most(self, S: Indices, w: Array) -> float:
        """Return an upper bound on |y - Mw|^2, with whatever intercept the residual has."""
        a = self.residual(S, w)
        reach = self.y_norm + float(np.abs(w) @ self.norms[S])
        off = float(np.abs(w) @ self.entries[S]) + (len(S) + 8.0) * U * reach
        size = sqrt(float(a @ a)) * (1.0 + len(a) * U) + SAFE * off
        return size * size * (1.0 + 8.0 * U)
