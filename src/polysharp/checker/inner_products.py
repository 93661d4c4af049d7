"""G, q and yy from the columns, on demand, with worst-case bounds on their rounding.

Rows are summed in blocks of sqrt(n), then the blocks, and what centring left of the means is
taken off, so that |G_ij - m_i'm_j| <= unit norms_i norms_j (``checked_rows`` has the terms).  For
coefficients w on k monomials, with reach = |y| + sum |w_j| norms_j, E = error_y +
sum |w_j| error_j and eps = unit + (2k + 8) u, this gives, with a = y - Mw,

    |error of yy, y'a, |a|^2, w'Gw|  <=  eps reach^2 + (2 reach + E) E
    |error of m_j'a|                 <=  norms_j (eps reach + E) + error_j (reach + E).

A row of G is computed when it is first needed: few monomials are in a vector or alive where one is
needed.

``Exact`` has the same numbers in integers, from the floats or the decimals of the table.  Inputs
x_ti - shift_i are integers N_ti over one denominator D_i per input, so that a plain monomial is an
integer P_tj times a rational g_j, and m_tj = sqrt(orderings_j) g_j P_tj.  Any coefficients prove a
bound: those of a vector are rounded so that w_j sqrt(orderings_j) g_j is an integer over 2^s, and
then a = y - Mw, y'a, |a|^2 and M'a / sqrt(orderings) come from products of integer matrices, with
no rounding at all.  Only a few sums of prices are left to floats, which are rounded downwards.

G - diag(d) - K >= 0 is shown by an integer identity: for a lower triangular L (from a factorisation
in floats) the rest R = F (G - diag(d) - K) F - L L', F a positive diagonal, is computed exactly and
is diagonally dominant.  A pairwise shift K is one for any reach; so each reach is taken
times sqrt(orderings_j) over the nearest float, and products with K allow for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import inf, lcm, nextafter, prod, sqrt
from typing import Any

import numpy as np

from polysharp.checker.allowed import demand
from polysharp.checker.checked_rows import BLOCK, CheckedRows, Columns, blocks_of
from polysharp.checker.curvature import SAFE, TINY, Curvature, Point, U, sides
from polysharp.checker.evidence import Floats, Positions, Statement, Term, VectorPart

EXTRA = 90  # bits of a vector's coefficients beyond those of y
FINE = 70  # bits of a factorisation
BATCH = 64  # vectors multiplied at a time

Key = tuple[int, bytes, bytes]


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


def rationals(values: Any) -> list[Fraction]:
    """Read numbers as they stand: floats as binary fractions, texts and decimals as decimals."""
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind in "OUS":
        return [Fraction(str(value).strip()) for value in flat.tolist()]
    return [Fraction(value) for value in flat.astype(np.float64).tolist()]


class Exact(InnerProducts):
    """The moments of floats as a first guess, and exact products where they decide."""

    is_exact = True

    def __init__(
        self,
        s: Statement,
        rows: CheckedRows,
        monomials: Sequence[Term],
        table: tuple[Any, Any, Any],
    ) -> None:
        super().__init__(s, rows, monomials)
        self._matrix = _flint().fmpz_mat
        X, y, weight = (np.asarray(1.0 if part is None else part) for part in table)
        self.floats_hold = all(part.dtype.kind not in "OUS" for part in (X, y, weight))
        weights = rationals(np.broadcast_to(weight, (len(y),)))
        kept, p, inputs = [t for t in range(len(weights)) if weights[t] > 0], len(s.names), {}
        self.v, self.v_scale = _integers([weights[t] for t in kept])
        exactly = rationals(y)
        given = [[exactly[t] for t in kept]]
        if s.responses:  # the floats that dividing by their scales gives
            given = [rationals(own) for own in rows.Y.T]
        self.y = [_integers(own) for own in given]
        self.sum_v, entries = sum(self.v) if s.fit_intercept else 1, rationals(X)
        for i in {i for m in monomials for i in m}:
            shift, scale = Fraction(float(s.shift[i])), Fraction(float(s.scale[i]))
            if i < p:
                numbers, denominator = _integers([entries[t * p + i] - shift for t in kept])
            else:  # a function is what double precision makes of it
                numbers, denominator = _integers([Fraction(x) for x in rows.X[:, i].tolist()])
            inputs[i] = numbers, 1 / (denominator * scale)
        one = [[1] * len(kept)]
        self.P = [
            [prod(row) for row in zip(*([inputs[i][0] for i in m] or one), strict=True)]
            for m in monomials
        ]
        self.g = [prod((inputs[i][1] for i in m), start=Fraction(1)) for m in monomials]
        self.bits = [max(map(abs, column)).bit_length() for column in self.P]
        self._known: dict[Key, tuple[Point, Floats]] = {}

    def learn(self, vectors: Sequence[list[VectorPart]]) -> None:
        """Multiply vectors, given for each response, with all monomials, many at once."""
        for t in range(self.T):
            waiting = list({_key(t, *parts[t]): parts[t] for parts in vectors}.values())
            for start in range(0, len(waiting), BATCH):
                some = waiting[start : start + BATCH]
                found = self._evaluated(t, some, self.every)
                self._known.update(zip((_key(t, *part) for part in some), found, strict=True))

    def at(
        self, t: int, index: Positions, w: Floats, moved: Curvature | None, alive: Positions,
        real: Any = None,
    ) -> Point:  # fmt: skip
        """Evaluate a vector exactly; one that was not learnt, for the monomials alive only."""
        del real  # nothing is closer than exact
        point, rounded = (
            self._known.get(_key(t, index, w)) or (self._evaluated(t, [(index, w)], alive)[0])
        )
        return point if moved is None else point.shifted(moved, index, rounded)

    def point_of(self, t: int, a: Floats, alive: Positions, real: Any = None) -> Point:
        """Evaluate any vector over the rows exactly."""
        del real
        return self._points(t, [_integers([*map(Fraction, (a / self.root).tolist())])], alive)[0]

    def loss_at_most(self, t: int, S: Positions, w: Floats) -> float:
        """Return an upper bound on |y - Mw|^2."""
        return float(self.at(t, S, w, None, S).aa)

    def _evaluated(
        self, t: int, vectors: list[VectorPart], where: Positions
    ) -> list[tuple[Point, Floats]]:
        """Return the values of a = y_t - Mw for some w, and these w as rounded, to 4 roundings."""
        y, y_scale = self.y[t]
        y_bits = max(map(abs, y)).bit_length() - y_scale.bit_length()
        used = sorted({j for index, _ in vectors for j in index.tolist()})
        scales, rounded, flat = list[int](), list[Floats](), list[int]()
        for index, w in vectors:
            s = max([0, *(EXTRA + self.bits[j] - y_bits for j in index.tolist())])
            terms = {
                j: self._rounded(j, x, s) for j, x in zip(index.tolist(), w.tolist(), strict=True)
            }
            flat += [terms.get(j, 0) for j in used]
            parts = [(x, self.g[j], sqrt(self.orderings[j])) for j, x in terms.items()]
            own = [x * g.denominator / (g.numerator << s) / root for x, g, root in parts]
            rounded.append(np.array(own, dtype=np.float64))
            scales.append(s)
        fitted = self._matrix(len(vectors), len(used), flat) * self._stacked(used)
        residuals = [
            ([(own << s) - y_scale * int(x) for own, x in zip(y, row, strict=True)], y_scale << s)
            for s, row in zip(scales, fitted.tolist(), strict=True)
        ]
        return list(zip(self._points(t, residuals, where), rounded, strict=True))

    def _points(
        self, t: int, residuals: list[tuple[list[int], int]], where: Positions
    ) -> list[Point]:
        """Return the values of vectors over the rows, each of integers over one denominator."""
        y, y_scale = self.y[t]
        weighted, index = [self._centred_by_weight(a) for a, _ in residuals], where.tolist()
        M = self._columns if len(index) == len(self.P) else self._stacked(index)
        sums = (M * self._matrix(weighted).transpose()).transpose().tolist()
        points = []
        for (a, scale), b, row in zip(residuals, weighted, sums, strict=True):
            unit, rho = self.sum_v * self.v_scale * scale, np.zeros(len(self.P))
            for j, x in zip(index, row, strict=True):  # four roundings
                g = self.g[j]
                root = sqrt(self.orderings[j])
                rho[j] = int(x) * g.numerator / (g.denominator * unit) * root
            ya, aa = Fraction(_dot(y, b), unit * y_scale), Fraction(_dot(a, b), unit * scale)
            both = sides(rho, 8.0 * U * np.abs(rho) + TINY)
            points.append(Point(_down(ya - aa / 2), _down(ya), -_down(-aa), *both))
        return points

    def _stacked(self, index: Sequence[int]) -> Any:
        """Return a matrix whose rows are the columns of some monomials."""
        flat = [x for j in index for x in self.P[j]]
        return self._matrix(len(index), len(self.v), flat)

    @cached_property
    def _columns(self) -> Any:
        return self._stacked(range(len(self.P)))

    def _rounded(self, j: int, w: float, s: int) -> int:
        """Return w_j sqrt(orderings_j) g_j in units of 2^-s."""
        exact = Fraction(w) * Fraction(sqrt(self.orderings[j])) * self.g[j]
        return (exact.numerator << s) // exact.denominator

    def _centred_by_weight(self, a: list[int]) -> list[int]:
        """Return V (a - mean) in units of 1 / total."""
        mean = _dot(self.v, a) if self.s.fit_intercept else 0
        return [v * (self.sum_v * x - mean) for v, x in zip(self.v, a, strict=True)]

    def is_curvature(self, moved: Curvature, *, by_ridge: bool = False) -> bool:
        """Whether G - diag(d) - K >= 0 on some monomials, by an integer identity."""
        del by_ridge
        some, places = moved.index.tolist(), moved.places.tolist()
        weighted = [self._centred_by_weight(self.P[j]) for j in some]
        products = self._stacked(some) * self._matrix(weighted).transpose()
        unit, one, size = self.sum_v * self.v_scale, 1 << (2 * FINE), len(some)
        # F = 2^-h brings the diagonal near one; a column of zeros keeps what d is.
        h = [(int(products[a, a]).bit_length() - unit.bit_length()) // 2 for a in range(size)]
        T = [[_shifted(int(products[a, b]), 2 * FINE - h[a] - h[b]) // unit for b in range(size)]
             for a in range(size)]  # fmt: skip
        for a, j in enumerate(some):
            entry = Fraction(float(moved.d[a])) / (self.orderings[j] * self.g[j] ** 2)
            T[a][a] -= _shifted(entry.numerator, 2 * FINE - 2 * h[a]) // entry.denominator
        roots = [Fraction(sqrt(self.orderings[some[a]])) * self.g[some[a]] for a in places]
        units = [1 / (Fraction(2) ** h[a] * root) for a, root in zip(places, roots, strict=True)]
        for a, row in zip(places, moved.in_integers(units, 2 * FINE), strict=True):
            for b, x in zip(places, row, strict=True):
                T[a][b] -= x
        try:
            A = np.array([[x / one for x in row] for row in T]).reshape(size, size)
        except OverflowError:
            return False
        for shift in (4.0, 64.0):
            try:
                lower = np.linalg.cholesky(A - shift * size**1.5 * U * np.eye(size))
            except np.linalg.LinAlgError:
                return False
            if not np.isfinite(lower).all():
                return False
            L = self._matrix([[int(x * 2.0**FINE) for x in row] for row in lower.tolist()])
            rest = (self._matrix(T) - L * L.transpose()).tolist()
            # Entries of T were rounded by less than four units, six on the diagonal.
            if all(int(2 * row[a]) - sum(abs(int(x)) + 4 for x in row) >= 4
                   for a, row in enumerate(rest)):  # fmt: skip
                return True
        return False


def _shifted(value: int, bits: int) -> int:
    return value << bits if bits >= 0 else value >> -bits


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise ImportError(
            "exact=True needs the package python-flint, which is not installed; "
            "run 'pip install polysharp[exact]'"
        ) from error
    return flint


def _integers(values: list[Fraction]) -> tuple[list[int], int]:
    """Return numbers as integers over one denominator."""
    denominator = lcm(*(value.denominator for value in values))
    return [value.numerator * (denominator // value.denominator) for value in values], denominator


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * z for x, z in zip(a, b, strict=True))


def _down(value: Fraction) -> float:
    return nextafter(float(value), -inf)


def _key(t: int, index: Positions, w: Floats) -> Key:
    return t, index.tobytes(), w.tobytes()
