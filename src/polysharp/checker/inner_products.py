"""G, q and yy from the columns, on demand, with worst-case bounds on their rounding.

Rows are summed in blocks of sqrt(n), then the blocks, and what centring left of the means is
taken off, so that |G_ij - m_i'm_j| <= unit norms_i norms_j (``checked_rows`` has the terms).  For
coefficients w on k monomials, with reach = |y| + sum |w_j| norms_j, E = error_y +
sum |w_j| error_j and eps = unit + (2k + 8) u, this gives, with a = y - Mw,

    |error of yy, y'a, |a|^2, w'Gw|  <=  eps reach^2 + (2 reach + E) E
    |error of m_j'a|                 <=  norms_j (eps reach + E) + error_j (reach + E).

A row of G is computed when it is first needed: few monomials are in a vector or alive where one is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polysharp.checker.allowed import demand
from polysharp.checker.checked_rows import BLOCK, CheckedRows, Columns, blocks_of
from polysharp.checker.curvature import SAFE, TINY, Curvature, Point, U, sides
from polysharp.checker.evidence import Floats, Positions, Statement, Term


class InnerProducts(Columns):
    """G, q, yy of some monomials of a statement, and bounds on their errors."""

    is_exact = False
    floats_hold = True  # whether the bounds on errors cover what is to be proved

    def __init__(self, s: Statement, rows: CheckedRows, monomials: Sequence[Term]) -> None:
        super().__init__(s, rows, monomials)
        if s.fit_intercept:
            self.unit += SAFE * 2.0 * (20.0 + len(rows.v) / BLOCK) * U
        f = len(monomials)
        last = self._rows_of(f + np.arange(self.T))
        self.q, self.yy = last[:, :f].T.copy(), np.maximum(0.0, np.diagonal(last[:, f:]))
        self._G, self._place = np.zeros((0, f)), np.full(f, -1, dtype=np.intp)

    def _rows_of(self, columns: Positions) -> Floats:
        """Return the products of some columns with all."""
        whole = np.zeros((len(columns), len(self.sizes)))
        for big in blocks_of(len(self.root), BLOCK):
            M = self.centred(big, self.every)
            for small in blocks_of(len(M), self.block):
                whole += M[small][:, columns].T @ M[small]
        if self.s.fit_intercept:
            whole -= np.multiply.outer(self.drift[columns] / self.total, self.drift)
        demand(np.isfinite(whole).all(), "its powers leave the floats")
        return whole

    def need(self, index: Positions) -> None:
        """Compute rows of G that are not there yet."""
        new = np.unique(index[self._place[index] < 0])
        if len(new):
            self._place[new] = len(self._G) + np.arange(len(new))
            self._G = np.concatenate([self._G, self._rows_of(new)[:, : len(self.every)]])

    def G(self, rows: Any, columns: Any = slice(None)) -> Floats:
        """Return entries of G at arrays of positions that go together."""
        self.need(np.asarray(rows).ravel())
        return np.asarray(self._G[self._place[rows], columns])

    def margins(self, t: int, index: Positions, w: Floats) -> tuple[float, float, float]:
        """Return reach, eps reach + E and the error of a quadratic form, as at the head."""
        reach = self.reach(t, index, w)
        moved = float(self.y_error[t]) + float(np.abs(w) @ self.error[index])
        eps = self.unit + (2.0 * len(index) + 8.0) * U
        error = eps * reach * reach + (2.0 * reach + moved) * moved
        tiny = TINY if reach > 0.0 else 0.0  # no error where all is zero
        return SAFE * reach, SAFE * (eps * reach + moved), SAFE * error + tiny

    def at(
        self, t: int, index: Positions, w: Floats, moved: Curvature | None, alive: Positions,
        real: Any = None,
    ) -> Point:  # fmt: skip
        """Evaluate the vector w on ``index``: by the rows in a type of floats, or by G."""
        if real is not None:
            return self.by_rows(t, index, w, moved, alive, real)
        reach, step, error = self.margins(t, index, w)
        Gw = np.zeros(len(self.every))
        if 4 * (len(alive) + len(index)) > len(Gw):
            Gw = np.asarray(w @ self.G(index))
        else:
            where = np.concatenate([index, alive])
            Gw[where] = w @ self.G(index[:, None], where)
        wGw, qw, yy = float(w @ Gw[index]), float(self.q[index, t] @ w), float(self.yy[t])
        slack = self.norms * step + self.error * (reach + step) + TINY
        ya, aa = yy - qw - error, yy - 2.0 * qw + wGw + error
        point = Point(0.5 * (yy - wGw) - error, ya, aa, *sides(self.q[:, t] - Gw, slack))
        return point if moved is None else point.shifted(moved, index, w)

    def slack(self, moved: Curvature, *, by_ridge: bool) -> Floats:
        """By how much rounding may falsify G - diag(d) - K, on the diagonal.

        An entry of the matrix is wrong by at most E_ij = unit n_i n_j + e_i n_j + n_i e_j, n being
        norms and e errors.  For any weights c that is no more than the diagonal of
        sum_j E_ij c_j / c_i, since 2 |x_i x_j| <= x_i^2 c_j / c_i + x_j^2 c_i / c_j.  Weights that
        balance lengths serve most, those that balance the ridges, at least lam, do if some columns
        are little but rounding.  An entry of K goes through 4 roundings, and
        one more as it is taken off.  A Cholesky factorisation of the matrix with columns of unit
        length that succeeds shows A + c I >= 0 with c = 4 (s + 4) u trace(A) (Rump: its backward
        error is gamma_(s+1) trace(A), doubled for reciprocals of pivots, and again to be safe).
        """
        index, size, lengths = moved.index, len(moved.index), self.lengths(moved)
        e, ridge = self.error[index], self.lam + np.maximum(moved.d, 0.0)
        n, K = self.norms[index] + e, np.abs(moved.matrix())
        c = 1.0 / (np.sqrt(ridge) if by_ridge else lengths)
        rows = ((self.unit + 4.0 * U) * n + e) * float(n @ c) + n * float(e @ c)
        rows[moved.places] += 16.0 * U * (K @ c[moved.places])
        shift = rows / c
        shift += 8.0 * U * (lengths**2 + np.abs(moved.d) + shift)
        diagonal = np.maximum(self.G(index, index) - moved.d, 0.0)
        trace = float((diagonal / lengths**2).sum())
        return np.asarray(SAFE * (shift + 4.0 * (size + 4.0) * U * trace * lengths**2))

    def lengths(self, moved: Curvature) -> Floats:
        """Lengths of columns of G, d < 0 and K with all errors, none of them zero."""
        norms = np.maximum(self.norms[moved.index] + self.error[moved.index], 1e-140)
        return np.asarray(np.sqrt(norms**2 + np.maximum(-moved.d, 0.0) + moved.own()))

    def is_curvature(self, moved: Curvature, *, by_ridge: bool = False) -> bool:
        """Whether G - diag(d) - K >= 0 on some monomials, beyond the doubts of rounding."""
        index, norms = moved.index, self.lengths(moved)
        C = self.G(index[:, None], index) / np.multiply.outer(norms, norms)
        C[np.ix_(moved.places, moved.places)] -= moved.matrix(norms)
        C[np.diag_indices(len(index))] -= (
            moved.d + self.slack(moved, by_ridge=by_ridge)
        ) / norms**2 + TINY
        return is_definite(C)


def is_definite(A: Floats) -> bool:
    """Whether a Cholesky factorisation succeeds; NumPy's does not refuse NaN."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(A)).all())
    except np.linalg.LinAlgError:
        return False
