"""The numbers of a proof in exact integers, from the floats or the decimals of the table.

Inputs x_ti - shift_i are integers N_ti over one denominator D_i per input, so that a plain
monomial is an integer P_tj times a rational g_j, and m_tj = sqrt(orderings_j) g_j P_tj.  Any
coefficients prove a bound: those of a vector are rounded so that w_j sqrt(orderings_j) g_j is
an integer over 2^s, and then a = y - Mw, y'a, |a|^2 and M'a / sqrt(orderings) come from products of
integer matrices, with no rounding at all.  Only a few sums of prices are left to floats, which are
rounded downwards.

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
from typing import Any, NamedTuple

import numpy as np

from polysharp.checker.checked_rows import TINY, CheckedRows, Point, U, scale_squared, sides
from polysharp.checker.claim import Statement, Term
from polysharp.checker.curvature import Curvature
from polysharp.checker.evidence import Floats, Positions
from polysharp.checker.inner_products import InnerProducts

EXTRA = 90  # bits of a vector's coefficients beyond those of y
FINE = 70  # bits of a factorisation
BATCH = 64  # vectors multiplied at a time

Key = tuple[int, bytes, bytes]


class Products(NamedTuple):
    """y'a and |a|^2 exactly, M'a and the coefficients of a = y - Mw to 4 roundings."""

    ya: Fraction
    aa: Fraction
    rho: Floats
    w: Floats


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
        self.orderings = [scale_squared(m, s.degree) for m in monomials]
        self._known: dict[Key, Products] = {}

    def learn(self, vectors: Sequence[list[tuple[Positions, Floats]]]) -> None:
        """Multiply vectors, given for each response, with all monomials, many at once."""
        for t in range(self.T):
            waiting = list({_key(t, *parts[t]): parts[t] for parts in vectors}.values())
            for start in range(0, len(waiting), BATCH):
                some = waiting[start : start + BATCH]
                for part, found in zip(some, self._products(t, some, None), strict=True):
                    self._known[_key(t, *part)] = found

    def at(
        self, t: int, index: Positions, w: Floats, moved: Curvature | None, alive: Positions
    ) -> Point:
        """Evaluate a vector exactly; one that was not learnt, for the monomials alive only."""
        found = self._known.get(_key(t, index, w))
        if found is None:
            found = self._products(t, [(index, w)], np.union1d(index, alive))[0]
        ya, aa, rho, rounded = found
        slack, own = 8.0 * U * np.abs(rho) + TINY, 0.0
        if moved is not None:
            more, doubt, own = moved.applied(index, rounded, len(rho))
            rho = rho + more
            slack += doubt + 4.0 * U * np.abs(more)
        base = _down(ya - aa / 2)
        return Point(
            base + 0.5 * own - 2.0 * U * (abs(base) + abs(own)),
            _down(ya),
            -_down(-aa),
            *sides(rho, slack),
        )

    def closer(
        self, t: int, index: Positions, w: Floats, alive: Positions, real: Any = None
    ) -> Point:
        """Evaluate a vector; nothing is closer than exact."""
        del real
        return self.at(t, index, w, None, alive)

    def closer_at(
        self, t: int, index: Positions, w: Floats, moved: Curvature, alive: Positions
    ) -> Point:
        """Evaluate a vector with what has been moved; nothing is closer than exact."""
        return self.at(t, index, w, moved, alive)

    def point_of(self, t: int, a: Floats, alive: Positions, real: Any = None) -> Point:
        """Evaluate any vector over the rows exactly."""
        del real
        numbers, scale = _integers([Fraction(x) for x in (a / self.root).tolist()])
        y, y_scale = self.y[t]
        b, unit = self._weighted(numbers), self.sum_v * self.v_scale * scale
        rho = np.zeros(len(self.P))
        rho[alive] = [self._in_floats(j, _dot(self.P[j], b), unit) for j in alive.tolist()]
        ya, aa = Fraction(_dot(y, b), unit * y_scale), Fraction(_dot(numbers, b), unit * scale)
        slack = 8.0 * U * np.abs(rho) + TINY
        return Point(_down(ya - aa / 2), _down(ya), -_down(-aa), *sides(rho, slack))

    def _in_floats(self, j: int, total: int, unit: int) -> float:
        """Return m_j'a, four roundings away, from a sum over the rows in units of 1 / unit."""
        g = self.g[j]
        return total * g.numerator / (g.denominator * unit) * sqrt(self.orderings[j])

    def loss_at_most(self, t: int, S: Positions, w: Floats) -> float:
        """Return an upper bound on |y - Mw|^2."""
        return float(self.at(t, S, w, None, S).aa)

    def _products(
        self, t: int, vectors: list[tuple[Positions, Floats]], columns: Positions | None
    ) -> list[Products]:
        """Return the products of some vectors with y_t, themselves and the monomials."""
        y, y_scale = self.y[t]
        y_bits = max(map(abs, y)).bit_length() - y_scale.bit_length()
        scales, coefficients = [], []
        for index, w in vectors:
            terms = dict(zip(index.tolist(), w.tolist(), strict=True))
            s = max([0, *(EXTRA + self.bits[j] - y_bits for j in terms)])
            coefficients.append({j: self._rounded(j, terms[j], s) for j in terms})
            scales.append(s)
        used = sorted({j for terms in coefficients for j in terms})
        flat = [terms.get(j, 0) for terms in coefficients for j in used]
        columns_used = self._stacked([self.P[j] for j in used])
        fitted = self._matrix(len(vectors), len(used), flat) * columns_used
        residuals = [
            [(own << s) - y_scale * int(x) for own, x in zip(y, row, strict=True)]
            for s, row in zip(scales, fitted.tolist(), strict=True)
        ]
        weighted = [self._weighted(a) for a in residuals]
        where = range(len(self.P)) if columns is None else columns.tolist()
        M = self._columns if columns is None else self._stacked([self.P[j] for j in where])
        sums = (M * self._matrix(weighted).transpose()).transpose().tolist()
        found = []
        for (index, _), c, a, b, row, s in zip(
            vectors, coefficients, residuals, weighted, sums, scales, strict=True
        ):
            scale = y_scale << s
            unit = self.sum_v * self.v_scale * scale
            rho = np.zeros(len(self.P))
            rho[np.array(where, dtype=np.intp)] = [
                self._in_floats(j, int(x), unit) for j, x in zip(where, row, strict=True)
            ]
            ya = Fraction(_dot(y, b), unit * y_scale)
            w = self._coefficients(index, c, s)
            found.append(Products(ya, Fraction(_dot(a, b), unit * scale), rho, w))
        return found

    def _stacked(self, columns: list[list[int]]) -> Any:
        """Return a matrix with these rows, as long as the table."""
        return self._matrix(len(columns), len(self.v), [x for column in columns for x in column])

    @cached_property
    def _columns(self) -> Any:
        return self._stacked(self.P)

    def _rounded(self, j: int, w: float, s: int) -> int:
        """Return w_j sqrt(orderings_j) g_j in units of 2^-s."""
        exact = Fraction(w) * Fraction(sqrt(self.orderings[j])) * self.g[j]
        return (exact.numerator << s) // exact.denominator

    def _coefficients(self, index: Positions, rounded: dict[int, int], s: int) -> Floats:
        """Return the w_j of integers w_j sqrt(orderings_j) g_j 2^s."""
        parts = [(rounded[j], self.g[j], sqrt(self.orderings[j])) for j in index.tolist()]
        w = [x * g.denominator / (g.numerator << s) / root for x, g, root in parts]
        return np.array(w, dtype=np.float64)

    def _weighted(self, a: list[int]) -> list[int]:
        """Return V (a - mean) in units of 1 / total."""
        if not self.s.fit_intercept:
            return [v * x for v, x in zip(self.v, a, strict=True)]
        mean = _dot(self.v, a)
        return [v * (self.sum_v * x - mean) for v, x in zip(self.v, a, strict=True)]

    def is_curvature(self, moved: Curvature, *, by_ridge: bool = False) -> bool:
        """Whether G - diag(d) - K >= 0 on some monomials, by an integer identity."""
        del by_ridge
        some = moved.index.tolist()
        columns = [self.P[j] for j in some]
        K = self._stacked(columns) * self._stacked([*map(self._weighted, columns)]).transpose()
        unit, one, size = self.sum_v * self.v_scale, 1 << (2 * FINE), len(some)
        # F = 2^-h brings the diagonal near one; a column of zeros keeps what d is.
        h = [(int(K[a, a]).bit_length() - unit.bit_length()) // 2 for a in range(size)]
        T = [[_shifted(int(K[a, b]), 2 * FINE - h[a] - h[b]) // unit for b in range(size)]
             for a in range(size)]  # fmt: skip
        for a, j in enumerate(some):
            entry = Fraction(float(moved.d[a])) / (self.orderings[j] * self.g[j] ** 2)
            T[a][a] -= _shifted(entry.numerator, 2 * FINE - 2 * h[a]) // entry.denominator
        places = moved.places.tolist()
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
