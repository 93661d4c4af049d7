"""The numbers of a proof in exact integers, from the floats or the decimals of the table.

Inputs x_ti - shift_i are integers N_ti over one denominator D_i per input, so that a plain
monomial is an integer P_tj times a rational g_j, and m_tj = sqrt(orderings_j) g_j P_tj.  Any
coefficients prove a bound: those of a vector are rounded so that w_j sqrt(orderings_j) g_j is
an integer over 2^s, and then a = y - Mw, y'a, |a|^2 and M'a / sqrt(orderings) come from products of
integer matrices, with no rounding at all.  Only what is left, a few sums of prices, is done in
floats, rounded downwards.

G - diag(d) - K >= 0 is shown by an integer identity: for a lower triangular L (from a factorisation
in floats) the rest R = F (G - diag(d) - K) F - L L', F a positive diagonal, is computed exactly and
is diagonally dominant.  A coupling K is one whatever its reach is; so each is taken times
sqrt(orderings_j) over the nearest float, and products with K allow for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from math import inf, lcm, nextafter, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polysharp.certificate.checker.curvature import Curvature
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.rows import (
    TINY,
    CheckedRows,
    Point,
    U,
    scale_squared,
    sides,
)
from polysharp.certificate.checker.rules import Array, Indices, Monomial
from polysharp.errors import MissingSolverError

if TYPE_CHECKING:
    from polysharp.certificate.statement import Statement

EXTRA = 90  # bits of a vector's coefficients beyond those of y
FINE = 70  # bits of a factorisation
TOGETHER = 64  # vectors multiplied at a time

Key = tuple[bytes, bytes]


class Products(NamedTuple):
    """y'a and |a|^2 exactly, M'a and the coefficients of a = y - Mw to 4 roundings."""

    ya: Fraction
    aa: Fraction
    rho: Array
    w: Array


def rationals(values: Any) -> list[Fraction]:
    """Read numbers as they stand: floats as binary fractions, texts and decimals as decimals."""
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind in "OUS":
        return [Fraction(str(value).strip()) for value in flat.tolist()]
    return [Fraction(value) for value in flat.astype(np.float64).tolist()]


class Exact(Moments):
    """The moments of floats as a first guess, and exact products where they decide."""

    is_exact = True

    def __init__(
        self,
        s: Statement,
        rows: CheckedRows,
        monomials: Sequence[Monomial],
        table: tuple[Any, Any, Any],
    ) -> None:
        super().__init__(s, rows, monomials)
        self._matrix = _flint().fmpz_mat
        X, y, v = (rationals(part) for part in table)
        p, kept = len(s.names), [t for t in range(len(y)) if v[t] > 0]
        self.floats_hold = all(part.dtype.kind not in "OUS" for part in table)
        self.v, self.v_scale = _integers([v[t] for t in kept])
        self.y, self.y_scale = _integers([y[t] for t in kept])
        self.sum_v = sum(self.v) if s.fit_intercept else 1
        numbers: dict[tuple[int, int], list[int]] = {}
        unit: dict[tuple[int, int], Fraction] = {}
        for i in sorted({i for m in monomials for i in m}):
            shift, scale = Fraction(float(s.shift[i])), Fraction(float(s.scale[i]))
            if i < p:
                given = [X[t * p + i] for t in kept]
            else:  # a function is what double precision makes of it
                given = [Fraction(value) for value in rows.X[:, i].tolist()]
            highest = max(m.count(i) for m in monomials)
            for d, own in enumerate(_factors(given, shift, scale, highest), start=1):
                numbers[i, d], unit[i, d] = own
        factors = [[(i, m.count(i)) for i in sorted(set(m))] for m in monomials]
        columns = [[numbers[pair] for pair in pairs] or [[1] * len(kept)] for pairs in factors]
        self.P = [[prod(row) for row in zip(*parts, strict=True)] for parts in columns]
        self.g = [prod((unit[pair] for pair in pairs), start=Fraction(1)) for pairs in factors]
        self.bits = [max(map(abs, column)).bit_length() for column in self.P]
        self.orderings = [scale_squared(m, s.degree) for m in monomials]
        self._known: dict[Key, Products] = {}

    def learn(self, vectors: Iterable[tuple[Indices, Array]]) -> None:
        """Multiply vectors with all monomials, many at once."""
        waiting = list({_key(index, w): (index, w) for index, w in vectors}.values())
        for start in range(0, len(waiting), TOGETHER):
            some = waiting[start : start + TOGETHER]
            for (index, w), products in zip(some, self._products(some, None), strict=True):
                self._known[_key(index, w)] = products

    def at(self, index: Indices, w: Array, moved: Curvature | None, alive: Indices) -> Point:
        """Evaluate a vector exactly; one that was not learnt, for the monomials alive only."""
        found = self._known.get(_key(index, w))
        if found is None:
            found = self._products([(index, w)], np.union1d(index, alive))[0]
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

    def closer(self, index: Indices, w: Array, alive: Indices, real: Any = None) -> Point:
        """Evaluate a vector; nothing is closer than exact."""
        del real
        return self.at(index, w, None, alive)

    def loss_at_most(self, S: Indices, w: Array) -> float:
        """Return an upper bound on |y - Mw|^2."""
        return float(self.at(S, w, None, S).aa)

    def _products(
        self, vectors: list[tuple[Indices, Array]], columns: Indices | None
    ) -> list[Products]:
        """Return the products of some vectors with y, themselves and the monomials."""
        y_bits = max(map(abs, self.y)).bit_length() - self.y_scale.bit_length()
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
            [(y << s) - self.y_scale * int(x) for y, x in zip(self.y, row, strict=True)]
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
            scale = self.y_scale << s
            unit = self.sum_v * self.v_scale * scale
            rho = np.zeros(len(self.P))
            rho[np.array(where, dtype=np.intp)] = [
                int(x) * self.g[j].numerator / (self.g[j].denominator * unit)
                * sqrt(self.orderings[j])
                for j, x in zip(where, row, strict=True)
            ]  # fmt: skip
            ya = Fraction(_dot(self.y, b), unit * self.y_scale)
            w = self._coefficients(index, c, s)
            found.append(Products(ya, Fraction(_dot(a, b), unit * scale), rho, w))
        return found

    def _stacked(self, columns: list[list[int]]) -> Any:
        """Return a matrix with so many rows, as long as the table."""
        return self._matrix(len(columns), len(self.y), [x for column in columns for x in column])

    @cached_property
    def _columns(self) -> Any:
        return self._stacked(self.P)

    def _rounded(self, j: int, w: float, s: int) -> int:
        """Return w_j sqrt(orderings_j) g_j in units of 2^-s."""
        exact = Fraction(w) * Fraction(sqrt(self.orderings[j])) * self.g[j]
        return (exact.numerator << s) // exact.denominator

    def _coefficients(self, index: Indices, rounded: dict[int, int], s: int) -> Array:
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

    def is_curvature(self, moved: Curvature) -> bool:
        """Whether G - diag(d) - K >= 0 on some monomials, by an integer identity."""
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


def _factors(
    given: list[Fraction], shift: Fraction, scale: Fraction, highest: int
) -> list[tuple[list[int], Fraction]]:
    """Return t^d, t = (x - shift) / scale, for every power d: integers and their unit."""
    numbers, denominator = _integers([value - shift for value in given])
    unit = 1 / (denominator * scale)
    return [([number**d for number in numbers], unit**d) for d in range(1, highest + 1)]


def _shifted(value: int, bits: int) -> int:
    return value << bits if bits >= 0 else value >> -bits


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise MissingSolverError(
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


def _key(index: Indices, w: Array) -> Key:
    return index.tobytes(), w.tobytes()


def read_table(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return the table as it was given, one weight per row."""
    y = np.asarray(y).reshape(-1)
    return np.asarray(X), y, np.broadcast_to(np.asarray(1.0 if weight is None else weight), y.shape)
