"""One sweep over all monomials against one vector, as a sequence of matrix products.

Degree 2 goes by blocks of columns; degrees 3 and 4 by the middle input j, whose product
(X_{<=j} * (x_j a))' R_{>=j} holds exactly the monomials (i, j, rest), i <= j <= rest, once.
Its smaller side is weighted; where that has few rows, those of several j are stacked against
one table that serves them all, and the few entries that come out unsorted are dropped.
Entries that may exceed the shortlist's threshold, given the error of the working precision,

    error_ik <= unit * |x_i|_4 |x_j a|_2 |rest_k|_4     (degree 2: |x_i|_2 |x_k a|_2),

are offered to it; nothing else leaves the product.  The scale of a monomial is largest when
its inputs differ, so comparing with that scale first is safe for all patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import ROUNDOFF, products
from polysharp.pricing.shortlist import Keys, Shortlist
from polysharp.typing import Array, Indices, OnBlock

if TYPE_CHECKING:
    from polysharp.pricing.pricer import Pricer

Keep = Callable[[Keys], NDArray[np.bool_]]

COLUMNS = 1024  # columns of one block of degree 2
REST_BYTES = 128 * 2**20  # largest block of products x_k x_l
ENTRIES = 2**22  # largest product of degree 4
STACK_BYTES = 2**29  # of the weighted rows of one product


class Sweep:
    """One pass over all monomials against one vector."""

    def __init__(
        self, pricer: Pricer, a: Array, top: int, floor: float, on_block: OnBlock | None
    ) -> None:
        self.pricer, self.on_block, self.done = pricer, on_block, 0
        self.everything: Keys = np.arange(len(pricer.inputs), dtype=np.int32)[:, None]
        arrays, r, n = pricer.arrays, pricer.degree, pricer.n
        self.exact_a = arrays.array(a)
        self.a = arrays.array(a, pricer.precision)
        squares = arrays.numpy(pricer.squares @ (self.exact_a * self.exact_a))
        self.weighted_norm = np.sqrt(squares)  # |x_j a|_2
        chunk = min(n, arrays.chunk)
        self.unit = (chunk + 16) * ROUNDOFF[pricer.precision] + n / chunk * ROUNDOFF["float64"]
        # In float32 products may underflow, which a relative error does not cover.
        self.underflow = 1.2e-38 * n * pricer.reach**r if pricer.precision == "float32" else 0.0
        self.exact_error = (n + 16) * ROUNDOFF["float64"] * self._largest_sum(a)
        self.shortlist = Shortlist(top, r, floor, self.exact, self.exact_error)

    def _largest_sum(self, a: Array) -> float:
        """Bound the sum of magnitudes behind any scaled correlation, by the norms of factors."""
        two, four, eight = (
            float(norms.max(initial=0.0))
            for norms in (self.pricer.norm2, self.pricer.norm4, self.pricer.norm8)
        )
        weighted = float(self.weighted_norm.max(initial=0.0))
        sums = [
            float(np.abs(a).sum()),
            float(np.linalg.norm(a)) * two,
            weighted * two,
            weighted * four * four,
            weighted * four * eight * eight,
        ]
        return float(np.sqrt(factorial(self.pricer.degree))) * max(sums[: self.pricer.degree + 1])

    def run(self) -> tuple[Keys, Array]:
        """Offer every monomial, degree by degree, and return the shortlist."""
        self._constant()
        self._linear()
        if self.pricer.degree >= 2:
            self._quadratic()
        for d in range(3, self.pricer.degree + 1):
            for rest in self._rest_blocks(d - 2):
                self._beside(rest)
        return self.shortlist.result()

    def exact(self, keys: Keys) -> Array:
        """Return the scaled correlations of monomials in float64."""
        arrays, table = self.pricer.arrays, self.pricer.exact_table
        values = np.zeros(len(keys))
        degree = (keys >= 0).sum(axis=1)
        at_a_time = max(1, 2**22 // self.pricer.n)
        for d in range(self.pricer.degree + 1):
            where = np.flatnonzero(degree == d)
            for start in range(0, len(where), at_a_time):
                some = where[start : start + at_a_time]
                values[some] = arrays.numpy(products(arrays, table, keys[some, :d]) @ self.exact_a)
            values[where] *= scales(keys[where, :d], self.pricer.degree)
        return values

    def _constant(self) -> None:
        if not self.pricer.fit_intercept:
            key = np.zeros((1, 0), dtype=np.int32)
            self._offer(key, np.abs(self.exact(np.full((1, 1), -1, dtype=np.int32))), np.zeros(1))

    def _linear(self) -> None:
        pricer = self.pricer
        keys = self.everything
        value = np.abs(pricer.arrays.numpy(pricer.exact_table @ self.exact_a))
        value *= scales(keys, pricer.degree)
        self._offer(keys, value, np.full(len(keys), self.exact_error))
        self._tell(len(keys) + (not pricer.fit_intercept))

    def _quadratic(self) -> None:
        """Offer (i, j), i <= j, a block of columns j at a time."""
        pricer, p = self.pricer, len(self.pricer.inputs)
        for start in range(0, p, COLUMNS):
            stop = min(start + COLUMNS, p)
            product = _Product(
                parts=[(pricer.table[start:stop], self.a)],
                stacked=self.everything[start:stop],
                bound=self.weighted_norm[start:stop] * pricer.norm2[:stop].max(),
                table=pricer.table[:stop],
                common=self.everything[:stop],
                stacked_first=False,
            )
            self._take(product)
            self._tell((stop - start) * (stop + start + 1) // 2)

    def _rest_blocks(self, d: int) -> Iterator[_Rest]:
        """Yield the monomials of degree d = 1 or 2 that end a larger one, in blocks."""
        pricer, p = self.pricer, len(self.pricer.inputs)
        if d == 1:
            yield _Rest(pricer.table, self.everything, pricer.norm4)
            return
        room = max(p, min(REST_BYTES // (8 * pricer.n), ENTRIES // p))
        start = 0
        while start < p:
            stop, count = start + 1, p - start
            while stop < p and count + p - stop <= room:
                count, stop = count + p - stop, stop + 1
            k = np.repeat(np.arange(start, stop), p - np.arange(start, stop))
            ends = np.concatenate([np.arange(s, p) for s in range(start, stop)])
            keys = np.column_stack([k, ends]).astype(np.int32)
            norms = pricer.norm8[k] * pricer.norm8[ends]
            yield _Rest(pricer.arrays.pairs(pricer.table, start, stop), keys, norms)
            start = stop

    def _beside(self, rest: _Rest) -> None:
        """Offer (i, j, rest) for every middle input j."""
        starts = np.searchsorted(rest.keys[:, 0], np.arange(rest.keys[-1, 0] + 1))
        ends = len(rest.keys) - starts
        most = min(self.pricer.arrays.stack, max(256, STACK_BYTES // (8 * self.pricer.n)))
        for middles, left in _groups(starts, ends, most):
            stack = self._left_stacked if left else self._right_stacked
            self._take(stack(rest, middles, starts))
            self._tell(sum((j + 1) * int(ends[j]) for j in middles))

    def _left_stacked(self, rest: _Rest, middles: range, starts: Indices) -> _Product:
        """Stack (i, j), i <= j, for some j against the rests of the first of them on."""
        pricer, start = self.pricer, starts[middles.start]
        largest = rest.norms[start:].max()
        return _Product(
            parts=[(pricer.table[: j + 1], pricer.table[j] * self.a) for j in middles],
            stacked=np.concatenate([_with_input(self.everything[: j + 1], j) for j in middles]),
            bound=np.concatenate(
                [pricer.norm4[: j + 1] * (self.weighted_norm[j] * largest) for j in middles]
            ),
            table=rest.table[start:],
            common=rest.keys[start:],
            stacked_first=True,
        )

    def _right_stacked(self, rest: _Rest, middles: range, starts: Indices) -> _Product:
        """Stack (j, rest), j <= rest, for some j against the inputs up to the last of them."""
        pricer = self.pricer
        largest = pricer.norm4[: middles.stop].max()
        return _Product(
            parts=[(rest.table[starts[j] :], pricer.table[j] * self.a) for j in middles],
            stacked=np.concatenate(
                [_with_input(rest.keys[starts[j] :], j, before=True) for j in middles]
            ),
            bound=np.concatenate(
                [rest.norms[starts[j] :] * (self.weighted_norm[j] * largest) for j in middles]
            ),
            table=pricer.table[: middles.stop],
            common=self.everything[: middles.stop],
            stacked_first=False,
        )

    def _take(self, product: _Product) -> None:
        """Offer the entries of a product that may exceed the threshold."""
        r = self.pricer.degree
        d = product.stacked.shape[1] + product.common.shape[1]
        largest_scale = np.sqrt(factorial(r) / factorial(r - d))
        error = self.unit * product.bound + self.underflow
        P = self.pricer.arrays.correlate(product.parts, product.table)
        limits = self.shortlist.threshold / largest_scale - error
        rows, columns, value = self.pricer.arrays.above(P, limits)
        if not len(rows):
            return
        halves = [product.stacked[rows], product.common[columns]]
        keys = np.concatenate(halves if product.stacked_first else halves[::-1], axis=1)
        once = np.flatnonzero((np.diff(keys, axis=1) >= 0).all(axis=1))
        keys, scale = keys[once], scales(keys[once], r)
        self._offer(keys, scale * value[once], scale * error[rows[once]])

    def _offer(self, keys: Keys, value: Array, margin: Array) -> None:
        kept = self.pricer.kept(keys)
        self.shortlist.offer(keys[kept], value[kept], margin[kept])

    def _tell(self, count: int) -> None:
        self.done += count
        if self.on_block is not None:
            self.on_block(self.done, self.pricer.n_monomials)


@dataclass(frozen=True, eq=False)
class _Rest:
    """A block of monomials of degree 1 or 2, sorted by their first input."""

    table: Any  # (m, n)
    keys: Keys
    norms: Array  # bounds on their 4-norms


@dataclass(frozen=True, eq=False)
class _Product:
    """Weighted rows against a common table; entry (s, c) is the monomial of both their keys."""

    parts: list[tuple[Any, Any]]  # tables that are stacked, each with the weight on its rows
    stacked: Keys
    bound: Array  # per stacked row: on the sum of magnitudes behind any of its entries
    table: Any
    common: Keys
    stacked_first: bool  # whether the stacked key comes first in the monomial


def _groups(starts: Indices, ends: Indices, most: int) -> Iterator[tuple[range, bool]]:
    """Group middle inputs j, j + 1 inputs to their left and ends[j] rests to their right.

    Yields each group and whether its left sides are the ones to stack.  A group grows until it
    has ``most`` rows, or until an eighth of its product would be entries that come out unsorted.
    """
    first, last = 0, len(starts)
    while first < last:
        left = first + 1 <= ends[first]
        stop, rows = first + 1, min(first + 1, ends[first])
        while stop < last:
            rows += stop + 1 if left else ends[stop]
            unsorted = starts[stop] - starts[first] if left else stop - first
            width = ends[first] if left else stop + 1
            if rows > most or 8 * unsorted > width:
                break
            stop += 1
        yield range(first, stop), left
        first = stop


def _with_input(keys: Keys, j: int, *, before: bool = False) -> Keys:
    """Put the input j after, or before, every key."""
    m, d = keys.shape
    both = np.full((m, d + 1), j, dtype=np.int32)
    both[:, int(before) : d + int(before)] = keys
    return both


def scales(keys: Keys, degree: int) -> Array:
    """Return the scales of monomials of one degree: square roots of numbers of orderings."""
    m, d = keys.shape
    run, repeats = np.ones(m), np.ones(m)
    for t in range(1, d):
        run = np.where(keys[:, t] == keys[:, t - 1], run + 1.0, 1.0)
        repeats *= run
    return np.sqrt(factorial(degree) / factorial(degree - d) / repeats)
