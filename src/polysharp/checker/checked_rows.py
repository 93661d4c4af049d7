"""The columns that a statement speaks of, from the rows, with worst-case bounds on their rounding.

The columns are m_j = scale_j prod_i (x_i - shift_i) / unit_i over inputs and functions of them
(data here: the numbers that double precision makes of them), centred by their weighted means
if the intercept is free, and multiplied by the roots of the weights; the responses y_t stand beside
them as further columns.  With u = 2^-53, every number below is a worst case, and holds for sums in
any order.  Let c_j be the exact column and m_j the computed one, but for what centring leaves of a
mean (a mean must be a float; ``drift`` measures the rest, the same in every row):

    error_j >= |c_j - m_j|       3 deg + 3 roundings of its entries before centring;
    norms_j >= |m_j|, |c_j|
    unit    >= |fl(a'b) - a'b| / (|a| |b|)       B + n/B roundings, since products over the rows
                                 are summed in blocks of B = sqrt(n), and then the blocks.

Any vector a over the rows proves a bound with y'a, |a|^2 and m_j'a, of which only these products
are rounded.  That keeps all digits if |a| is much smaller than |y|, which products with
G = M'M (``inner_products``) do not; but it takes a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import factorial, inf, isfinite, isqrt, prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from polysharp.checker.allowed import demand, owner
from polysharp.checker.curvature import SAFE, TINY, Curvature, Point, U, rounded_sum, sides
from polysharp.checker.evidence import ANYTHING, Floats, Positions, Statement, Term

BLOCK = 4096  # rows of the design kept at once
REFINED = 3  # fits of what the last one leaves, which long doubles know
ROUNDS = 100  # of freeing and stopping coefficients, before any answer is taken
FUNCTIONS = {
    "inverse": lambda x: 1.0 / x,
    "square-root": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
}


class CheckedRows(NamedTuple):
    """Inputs and functions of them, responses and weights; rows of weight zero are left out."""

    X: Floats
    Y: Floats  # a column for each response, divided by its unit
    v: Floats
    units: Floats


def read_rows(
    s: Statement, X: Any, y: Any, weight: Any, functions: Mapping[str, Any] | None = None
) -> CheckedRows:
    """Check the table, divide responses by their scales, and compute functions of inputs."""
    X, Y, T = np.asarray(X, np.float64), np.asarray(y, np.float64), max(1, len(s.responses))
    if s.responses:
        demand(Y.ndim == 2 and Y.shape[1] == T, f"y is no table of {T} responses")
        demand(all(isfinite(u) and u > 0.0 for _, u in s.responses), "a response has no scale")
    units = np.array([unit for _, unit in s.responses] or [1.0])
    Y = Y.reshape(-1, T) / units
    v = np.asarray(1.0 if weight is None else weight, dtype=np.float64)
    v = v.reshape(-1) if v.ndim else np.full(len(Y), v)
    p = len(s.names)
    demand(X.shape == (len(Y), p), f"X is no table of {p} inputs by {len(Y)}")
    demand(len(Y) > 0 and len(v) == len(Y), "y and sample_weight do not have a value per row")
    demand(all(np.isfinite(a).all() for a in (X, Y, v)), "the data are not finite")
    total = float(v.sum())
    demand(np.all(v >= 0.0) and total > 0.0, "sample_weight is negative or all zero")
    size = sqrt(total) * np.abs(Y[v > 0.0]).max(axis=0)
    within = np.all((size == 0.0) | ((size >= 1e-75) & (size <= 1e75)))
    within &= 1e-30 <= total <= 1e30
    demand(within, "y or sample_weight is too large or too small: its powers leave the floats")
    agrees = abs(total - s.total_weight) <= len(Y) * 4.0 * U * total
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
    return CheckedRows(X, Y[v > 0.0], v[v > 0.0], units)


def blocks_of(n: int, size: int) -> Iterator[slice]:
    """Slices of at most this many rows."""
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


def scale_squared(m: Term, degree: int) -> int:
    """Return the number of orderings of a monomial padded with ones to the degree."""
    repeats = prod(factorial(m.count(i)) for i in set(m))
    return factorial(degree) // (factorial(degree - len(m)) * repeats)


def _sum_of_rows(A: Floats) -> Floats:
    """Add the rows up in pairs, so that each goes through log2(n) + 1 roundings at most."""
    while len(A) > 1:
        half = len(A) // 2
        A = np.concatenate([A[:half] + A[half : 2 * half], A[2 * half :]])
    return np.asarray(A[0])


class Columns:
    """Some monomials of a statement at the rows, and bounds on their errors; responses last."""

    def __init__(self, s: Statement, rows: CheckedRows, monomials: Sequence[Term]) -> None:
        n, f, T = len(rows.v), len(monomials), rows.Y.shape[1]
        self.s, self.rows, self.monomials, self.T = s, rows, monomials, T
        self.coded, self.root = (rows.X - s.shift) / s.scale, np.sqrt(rows.v)
        self.orderings = [scale_squared(m, s.degree) for m in monomials]
        self.block = min(n, max(16, isqrt(n)))
        self.lam, self.total = 1.0 / s.gamma, float(rows.v.sum())
        self.unit = SAFE * (self.block + n / self.block + 4.0) * U
        self.every = np.arange(f)
        self.mean, raw, squares, self.drift, peak = (np.zeros(f + T) for _ in range(5))
        if s.fit_intercept:
            first = self._plain(slice(0, 1), self.every)[0]
            for b in blocks_of(n, BLOCK):  # about the first row: constants centre to zeros
                self.mean += rows.v[b] @ (self._plain(b, self.every) - first) / self.total
            self.mean += first
        for b in blocks_of(n, BLOCK):
            plain = self._plain(b, self.every)
            raw, peak = raw + rows.v[b] @ plain**2, np.maximum(peak, np.abs(plain).max(axis=0))
            M = self._weighted(plain, b, self.every)
            squares += _sum_of_rows(M**2)
            if s.fit_intercept:
                self.drift += _sum_of_rows(self.root[b, None] * M)
        demand(np.isfinite(raw).all() and np.isfinite(squares).all(), "its powers leave the floats")
        # If squares are too small to be floats, the largest entry bounds them.
        peak *= sqrt(self.total) * np.where(raw < 1e-250, 2.0, 0.0)
        self.sizes = np.sqrt(squares) * (1.0 + (16.0 + n / BLOCK) * U) + peak
        roundings = np.array([*(3.0 * len(m) + 3.0 for m in monomials), *T * [0.0]])
        self.entries = roundings * U * (np.sqrt(raw) + peak)
        self.off = self.entries + 4.0 * U * self.sizes
        self.off[:f][raw[:f] < 1e-250] += 1e-120  # too small for its square to be a float
        self.off *= SAFE
        self.norms, self.error = self.sizes[:f], self.off[:f] + TINY
        self.y_norm, self.y_error = self.sizes[f:], self.off[f:]
        self.boxes = CheckedBoxes(self, monomials)

    def _plain(self, b: slice, index: Positions, real: Any = np.float64) -> Any:
        """Return the scaled monomials at a block of rows, and the responses."""
        coded = self.coded[b]
        if real is not np.float64:
            coded = (self.rows.X[b].astype(real) - self.s.shift) / self.s.scale.astype(real)
        M = np.empty((len(coded), len(index) + self.T), order="F", dtype=real)
        for a, j in enumerate(index.tolist()):
            M[:, a] = np.sqrt(real(self.orderings[j]))
            for c in self.monomials[j]:
                M[:, a] *= coded[:, c]
        M[:, len(index) :] = self.rows.Y[b]
        return M

    def _weighted(self, M: Any, b: slice, index: Positions) -> Any:
        """Centre some columns at a block of rows, and multiply them by the roots of weights."""
        M -= self.mean[self.with_responses(index)]
        M *= np.sqrt(self.rows.v[b].astype(M.dtype))[:, None]
        return M

    def centred(self, b: slice, index: Positions, real: Any = np.float64) -> Any:
        """Return some columns at a block of rows, the responses last, centred and weighted."""
        return self._weighted(self._plain(b, index, real), b, index)

    def with_responses(self, index: Positions) -> Positions:
        """Return positions of columns with those of the responses."""
        return np.append(index, len(self.monomials) + np.arange(self.T))

    def length(self, a: Floats) -> Any:
        """Return |a|, or the lengths of columns, rounded up."""
        return np.sqrt((a * a).sum(axis=0)) * (1.0 + (len(a) + 4.0) * U)

    def reach(self, t: int, index: Positions, w: Floats) -> float:
        """Return |y_t| + sum |w_j| norms_j."""
        return float(self.y_norm[t]) + float(np.abs(w) @ self.norms[index])

    # Vectors over the rows ------------------------------------------------------------------------

    def residual(self, t: int, index: Positions, w: Floats) -> Floats:
        """Return a = y_t - Mw, rounded somehow; in long doubles little of it is rounding."""
        parts, k = [], len(index)
        for b in blocks_of(len(self.root), BLOCK):
            M = self.centred(b, index, np.longdouble)
            parts.append(M[:, k + t] - M[:, :k] @ w.astype(np.longdouble))
        a = np.concatenate(parts)
        if self.s.fit_intercept:  # the means that were taken off are rounded
            root = np.sqrt(self.rows.v.astype(np.longdouble))
            a -= root * (root @ a / np.longdouble(self.total))
        return a.astype(np.float64)

    def residual_error(self, t: int, index: Positions, w: Floats, a: Floats) -> float:
        """Return by how much ``residual`` is wrong, but for a constant: entries, terms, storing."""
        u, entries = float(np.finfo(np.longdouble).eps) / 2, float(np.abs(w) @ self.entries[index])
        off = entries * (u / U) + (len(index) + 8.0) * u * self.reach(t, index, w)
        return SAFE * (off + 2.0 * U * float(self.length(a)))

    def by_rows(
        self, t: int, index: Positions, w: Floats, moved: Curvature | None, alive: Positions,
        real: Any,
    ) -> Point:  # fmt: skip
        """Evaluate a vector by the products of its residual with the columns that are alive.

        With something moved the residual must be that of w, and yy - w'Gw = 2 y'a - |a|^2.  If a is
        wrong by ``off``, that is by 2 |Mw| off, since a constant adds to |a|^2 only.
        """
        a = self.residual(t, index, w)
        point = self.point_of(t, a, alive, real)
        if moved is None:
            return point
        off = SAFE * self.residual_error(t, index, w, a)
        base, slack = point.base - self.reach(t, index, w) * off, (self.norms + self.error) * off
        point = Point(base, point.ya, point.aa, point.up + slack, point.down + slack)
        return point.shifted(moved, index, w)

    def point_of(self, t: int, a: Floats, alive: Positions, real: Any = np.longdouble) -> Point:
        """Evaluate any vector over the rows by its products with the columns that are alive."""
        f, k = len(self.monomials), len(alive)
        size, rho, off = float(self.length(a)), np.zeros(f), np.zeros(f)
        sums, slack = (part[:, 0] for part in self.products(a[:, None], alive, real))
        rho[alive], off[alive] = sums[:k].astype(np.float64), slack[alive]
        ya = float(sums[k + t]) * (1.0 - 4.0 * U) - float(slack[f + t])
        base = ya - 0.5 * size * size
        base -= 4.0 * U * (abs(ya) + size * size)
        return Point(base, ya, size * size * (1 + 4 * U), *sides(rho, off))

    def products(self, A: Floats, alive: Positions, real: Any = np.float64) -> tuple[Any, Floats]:
        """Return m_j'a for the columns a of A and all j alive, responses last, and all errors."""
        n, u = len(A), float(np.finfo(real).eps) / 2
        sums, size = np.zeros((len(alive) + self.T, A.shape[1]), dtype=real), self.length(A)
        left = np.zeros(len(alive) + self.T, dtype=real)
        for big in blocks_of(n, BLOCK):
            M, part = self.centred(big, alive, real), A[big]
            left += np.sqrt(self.rows.v[big].astype(real)) @ M
            for small in blocks_of(len(M), self.block):
                sums += M[small].T @ part[small]
        # A mean that centring left behind counts with the one that it left of a.  The means are
        # those of columns in double precision: others, and the exact ones, leave more.
        along = np.abs(self.root @ A) / self.total + n * U * size / sqrt(self.total)
        sizes, off = self.sizes + self.off, self.off * (u / U)
        drift = sqrt(self.total) * ((n + 16.0) * u * sizes + off)
        drift[self.with_responses(alive)] += np.abs(left).astype(np.float64)
        unit = self.unit * (u / U) * sizes + off
        mean = np.multiply.outer(drift, along) * self.s.fit_intercept
        return sums, SAFE * (np.multiply.outer(unit, size) + mean) + TINY

    # Models ---------------------------------------------------------------------------------------

    def _with_ridge(self, S: Positions) -> tuple[Floats, Floats]:
        """Return the columns of S over those of the ridge, and all responses over zeros."""
        M, k = self.centred(slice(None), S), len(S)
        A = np.vstack([M[:, :k], sqrt(self.lam) * np.eye(k)])
        return A, np.vstack([M[:, k:], np.zeros((k, self.T))])

    def best_residual(self, t: int, S: Positions) -> Floats:
        """Return about the residual of the ridge fit on S, all of its digits right.

        Coefficients of nearly equal columns may be so large that rounding them changes the
        residual by more than it is; taking off a projection leaves an error of a few u |y|.
        """
        A, Y = self._with_ridge(S)
        Q, a = np.linalg.qr(A / np.sqrt((A * A).sum(axis=0)))[0], Y[:, t]
        for _ in range(2):
            a = a - Q @ (Q.T @ a)
        return np.asarray(a[: len(self.root)])

    def cost_at_most(self, S: Positions) -> float:
        """Return an upper bound on the cost of a support, all responses added."""
        A, Y = self._with_ridge(S)
        return rounded_sum([self._cost_at_most(t, S, A, Y[:, t]) for t in range(self.T)], 1.0)

    def _cost_at_most(self, t: int, S: Positions, A: Floats, y: Floats) -> float:
        """Return the least upper bound that some coefficients show."""
        size, k, ways = np.sqrt((A * A).sum(axis=0)), len(S), [np.zeros(len(S))]
        for rcond in (1e-15, 1e-12, 1e-9):  # from the rows, which keep more digits than G does
            w = np.zeros(k)
            for _ in range(REFINED):
                left = np.append(self.residual(t, S, w), -sqrt(self.lam) * w)
                w = w + np.linalg.lstsq(A / size, left, rcond=rcond)[0] / size
            ways.append(w)
        if self.boxes.stated:
            ways.append(self.boxes.fit(t, A.T @ A, A.T @ y, S))
            ways = [np.clip(w, *self.boxes.inner[:, t, S]) for w in ways]
        ridges = [(0.5 + 8.0 * U) * self.lam * float(w @ w) for w in ways]
        losses = [0.5 * self.loss_at_most(t, S, w) for w in ways]
        return min(loss + ridge for loss, ridge in zip(losses, ridges, strict=True))

    def loss_at_most(self, t: int, S: Positions, w: Floats) -> float:
        """Return an upper bound on |y - Mw|^2, with whatever intercept the residual has."""
        a = self.residual(t, S, w)
        size = float(self.length(a)) + self.residual_error(t, S, w, a)
        return size * size * (1.0 + 8.0 * U)


class CheckedBoxes:
    """The intervals of a statement in the scaled basis, by side, response and monomial.

    A coefficient c of prod_i (x_i - shift_i) is w = c prod_i scale_i / sqrt(orderings) in the
    scaled basis, over the unit of the response.  A term's own interval counts before those of its
    inputs, of which all hold together, and those before the one for every term; the constant has
    its own or none.  Besides, a model with lam w_j^2 > yy costs more than no model at all, so that
    |w_j| <= ``most`` = sqrt(yy / lam) in any case.  Bounds on costs are taken over intervals that
    are a little too long (``low``, ``high``), models over some that are a little too short
    (``inner``).
    """

    def __init__(self, columns: Columns, monomials: Sequence[Term]) -> None:
        s, units = columns.s, columns.rows.units
        most = SAFE * (columns.y_norm + columns.y_error) / sqrt(columns.lam)
        scale = np.sqrt([float(scale_squared(m, s.degree)) for m in monomials])
        everywhere, inputs, terms = s.coefficients
        self.stated = bool(inputs or terms or everywhere != ANYTHING)
        own, of_inputs = dict(terms), dict(inputs)
        interval = np.full((len(monomials), 2), inf) * [-1.0, 1.0]
        for j, m in enumerate(monomials if self.stated else ()):
            if m in own:
                interval[j] = own[m]
            elif m:
                used = {owner(c, s) for c in m} & of_inputs.keys()
                among = [of_inputs[i] for i in used] or [everywhere]
                interval[j] = max(low for low, _ in among), min(high for _, high in among)
        unit = np.array([np.prod(s.scale[list(m)]) for m in monomials], dtype=np.float64)
        factor = (unit / scale) / units[:, None]
        # A factor that is lost would make nothing of any interval; one too large leaves it open.
        demand(not self.stated or np.all(factor >= 1e-290), "its coefficients leave the floats")
        both = interval.T[:, None, :]  # by side, then response and monomial
        scaled = np.where(both == 0.0, 0.0, both * factor)
        margin = (4.0 * s.degree + 32.0) * U
        tiny = np.where(scaled == 0.0, 0.0, np.copysign(TINY, scaled))
        limit = np.broadcast_to(most[:, None], factor.shape)
        self.low, self.high = np.clip(scaled * (1.0 + margin) + tiny, -limit, limit)
        low, high = scaled * (1.0 - margin) - tiny
        self.inner = np.array([np.clip(low, -limit, 0.0), np.clip(high, 0.0, limit)])

    def fit(self, t: int, H: Floats, q: Floats, S: Positions) -> Floats:
        """Return about the best coefficients of a support within their intervals.

        Those that leave their interval are stopped at its end and the others solved again; one
        that is stopped but pulls back is set free.
        """
        (low, high), w = self.inner[:, t, S], np.zeros(len(S))
        stopped = np.zeros(len(S), dtype=bool)
        for _ in range(ROUNDS):
            free = np.flatnonzero(~stopped)
            try:
                w[free] = np.linalg.solve(
                    H[np.ix_(free, free)], q[free] - H[free][:, stopped] @ w[stopped]
                )
            except np.linalg.LinAlgError:
                w[free] = 0.0
            w[~np.isfinite(w)] = 0.0
            off = np.abs(w - np.clip(w, low, high)) * np.sqrt(np.diagonal(H))
            if off.max(initial=0.0) > 0.0:
                worst = int(np.argmax(off))
                w[worst], stopped[worst] = np.clip(w[worst], low[worst], high[worst]), True
                continue
            pull = q - H @ w
            back = stopped & (((w == low) & (pull > 0.0)) | ((w == high) & (pull < 0.0)))
            gain = np.where(back & (low < high), pull * pull / np.diagonal(H), 0.0)
            if not gain.max(initial=0.0) > 1e-14 * float(np.abs(q) @ np.abs(w)):
                break
            stopped[int(np.argmax(gain))] = False
        return np.clip(w, low, high)
