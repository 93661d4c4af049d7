"""All monomials as entries of matrix products, every monomial in one of them.

With a vector a over the rows, a panel is a product whose entry (s, c) is the correlation of a with
the monomial made of row s and column c.  Degree 2 is (X * a)'X, in blocks of rows s and of the
columns up to them.  A monomial of degree d >= 3 is a sorted tuple (head, j, rest), head <= j <=
rest, with as many factors on either side of its middle input j, or one more in the rest; all with
the same j come from one product without waste,

    (L_{<=j} * (x_j a))' R_{>=j},

L and R all products of so many inputs, R in blocks: L = R = X for d = 3, and R = all x_k x_l for
d = 4.  In colexicographic order the heads of inputs up to j come first, in lexicographic order the
rests of inputs from j on come last.  For four inputs and d = 3 the products are, i the head and k
the rest,

        j = 0            j = 1          j = 2        j = 3
      k 0 1 2 3        k   1 2 3      k     2 3    k       3
    i 0 . . . .      i 0   . . .    i 0     . .  i 0       .
                       1   . . .      1     . .    1       .
                                      2     . .    2       .
                                                   3       .

which is flat at the one end and narrow at the other, and thin products are slow.  So several j
share a product.  At the left end the pairs (i, j) are stacked against all k from the first j on;
at the right end the pairs (j, k) are stacked against all i up to the last j.  Both form a few
entries that are not sorted (marked x: another panel has them sorted), which are dropped:

      stacked left, j = 0, 1            stacked right, j = 2, 3
             k 0 1 2 3                         i 0 1 2 3
    i, j = 0 0 . . . .                j, k = 2 2 . . . x
           0 1 x . . .                       2 3 . . . x
           1 1 x . . .                       3 3 . . . .
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import comb, factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import ROUNDOFF, Arrays, products
from polysharp.typing import Array, Indices, Monomial

Keys = NDArray[np.int32]  # (m, d): one monomial per row; of several degrees padded with -1
Keep = Callable[[Keys], NDArray[np.bool_]]


def halves(d: int) -> tuple[int, int]:
    """Return how many factors of a monomial stand before its middle input, and after it."""
    return (d - 1) // 2, d // 2


class PanelSizes(NamedTuple):
    """How large panels may be, in monomials."""

    columns: int  # rows of a panel of degree 2
    rests: int  # of one block, with as many heads as there are inputs
    stacked: int  # rows of a panel of degree 3 or more

    @classmethod
    def of(cls, n: int, p: int, stack: int) -> PanelSizes:
        """Return sizes for p inputs of n rows, ``stack`` rows making a product efficient."""
        # The rests take 128 MiB at most, their product 4 Mi entries, and the stack 512 MiB.
        rests = min(2**27 // (8 * n), 2**22 // p)
        return cls(1024, rests, min(stack, max(256, 2**29 // (8 * n))))


@dataclass(frozen=True)
class Panel:
    """Monomials of one degree that come from one matrix product."""

    p: int  # number of inputs
    degree: int
    middles: range = range(1)  # the inputs j; at degree 2 the stacked inputs themselves
    rests: range = range(0)  # places of the rests of this block among all of them
    left: bool = False  # whether pairs (head, j) are stacked, or (j, rest)

    def after(self, j: int) -> int:
        """Return how many rests of the block have inputs from j on only."""
        e = halves(self.degree)[1]
        first = comb(self.p + e - 1, e) - comb(self.p - j + e - 1, e)
        return max(0, self.rests.stop - max(self.rests.start, first))

    def before(self, j: int) -> int:
        """Return how many rests of the block come before those."""
        return len(self.rests) - self.after(j)

    def heads(self, j: int) -> int:
        """Return how many heads have inputs up to j only."""
        e = halves(self.degree)[0]
        return comb(j + e, e)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        j, d = self.middles, self.degree
        if d < 3:
            return len(j), (1, self.p, j.stop)[d]
        if self.left:
            return sum(map(self.heads, j)), self.after(j.start)
        return sum(map(self.after, j)), self.heads(j.stop - 1)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    @property
    def count(self) -> int:
        """Number of monomials: entries that are sorted."""
        j, d = self.middles, self.degree
        if d < 2:
            return self.size
        return sum(m + 1 if d == 2 else self.heads(m) * self.after(m) for m in j)

    def operands(self, factors: Factors, a: Any) -> tuple[list[tuple[Any, Any]], Any]:
        """Return tables with the vectors their rows are weighted by, and what multiplies them."""
        j, d, table = self.middles, self.degree, factors.table
        if d < 2:
            return [(factors.ones, a)], table if d else factors.ones
        if d == 2:
            return [(table[j.start : j.stop], a)], table[: j.stop]
        heads, rests = factors.heads, factors.rests
        if self.left:
            stacked = [(heads[: self.heads(m)], table[m] * a) for m in j]
            return stacked, rests[self.before(j.start) :]
        stacked = [(rests[self.before(m) :], table[m] * a) for m in j]
        return stacked, heads[: self.heads(j.stop - 1)]

    def head_keys(self) -> Keys:
        """Return all heads, in colexicographic order: mirrored, that is the other one backwards."""
        e = halves(self.degree)[0]
        return self.p - 1 - _tuples(self.p, e, range(comb(self.p + e - 1, e)))[::-1, ::-1]

    def rest_keys(self) -> Keys:
        """Return the rests of the block, in lexicographic order."""
        return _tuples(self.p, halves(self.degree)[1], self.rests)

    def keys(self, rows: Indices, columns: Indices) -> tuple[Keys, Indices]:
        """Return the monomials at some entries, and which of the entries are sorted."""
        j, d = self.middles, self.degree
        inputs: Keys = np.arange(self.p, dtype=np.int32)[:, None]
        if d < 2:
            parts = [inputs[columns][:, :d]]
        elif d == 2:
            parts = [inputs[columns], inputs[j.start + rows]]
        elif self.left:
            heads, rest = self.head_keys(), self.rest_keys()[self.before(j.start) :]
            stacked = [np.insert(heads[: self.heads(m)], heads.shape[1], m, axis=1) for m in j]
            parts = [np.concatenate(stacked)[rows], rest[columns]]
        else:
            rest = self.rest_keys()
            stacked = [np.insert(rest[self.before(m) :], 0, m, axis=1) for m in j]
            parts = [self.head_keys()[columns], np.concatenate(stacked)[rows]]
        keys = np.concatenate(parts, axis=1)
        once = np.flatnonzero((np.diff(keys, axis=1) >= 0).all(axis=1))
        return keys[once], once

    def every_key(self) -> tuple[Keys, Indices]:
        """Return the monomials of the panel, and the entry of each."""
        return self.keys(*np.divmod(np.arange(self.size), self.shape[1]))


@lru_cache(maxsize=4)  # the panels of a block come in a row
def _tuples(p: int, e: int, places: range) -> Keys:
    """Return some of the sorted tuples of e of p inputs, by their places in lexicographic order."""
    # C(p - j + e - 1, e) of them have inputs from j on only, and these come last: how many come
    # after a tuple says what its first input is, and the rest of it likewise.
    later = comb(p + e - 1, e) - 1 - np.arange(places.start, places.stop, dtype=np.int64)
    keys = np.empty((len(places), e), dtype=np.int32)
    for t in range(e):
        left = e - t
        counts = np.array([comb(m + left - 1, left) for m in range(p + 1)], dtype=np.int64)
        m = np.searchsorted(counts, later, side="right")
        keys[:, t] = p - m
        later -= counts[m - 1]
    return keys


def with_ones(arrays: Arrays, X: Any, inputs: Indices) -> Any:
    """Return some columns of X as rows, and ones after them, which -1 in padded keys names."""
    table = arrays.table(X, inputs, "float64")
    return arrays.join([table, table[:1] ** 0])


class Factors:
    """A table (inputs, rows) and the products of its inputs that a panel is made of.

    They are kept from one panel to the next, and so are bounds on their 4-norms where ``norms``
    has those of the inputs.
    """

    def __init__(self, arrays: Arrays, table: Any, norms: dict[int, Array] | None = None) -> None:
        self.arrays, self.table, self.norms = arrays, table, norms
        self.ones = table[:1] ** 0  # one row, where and in what precision the table is
        self.heads, self.rests, self._held = table, table, (0, range(0))
        self.head_norms = self.rest_norms = np.ones(0)

    def correlations(self, panel: Panel, a: Any) -> Any:
        """Return the product that is a panel: correlations of a vector over the rows."""
        degree, needed = panel.degree, (panel.degree, panel.rests)
        if degree >= 3 and needed != self._held:
            if degree != self._held[0]:
                self.heads, self.head_norms = self._formed(panel.head_keys())
            self.rests, self.rest_norms = self._formed(panel.rest_keys())
            self._held = needed
        return self.arrays.correlate(*panel.operands(self, a))

    def _formed(self, keys: Keys) -> tuple[Any, Array]:
        e = keys.shape[1]
        # All inputs one by one are the table.
        table = self.table if e == 1 else products(self.arrays, self.table, keys)
        norms = np.ones(0) if self.norms is None else self.norms[4 * e][keys].prod(axis=1)
        return table, norms


def panels(
    p: int, degree: int, sizes: PanelSizes, *, constant: bool, lowest: int = 0
) -> Iterator[Panel]:
    """Yield the panels of all monomials of p inputs, those with the same rests in a row.

    Monomials of degrees below ``lowest`` are left out.
    """
    if constant and lowest < 1:
        yield Panel(p, 0)
    if lowest < 2:
        yield Panel(p, 1)
    if degree >= 2 and lowest < 3:
        for start in range(0, p, sizes.columns):
            yield Panel(p, 2, range(start, min(start + sizes.columns, p)))
    for d in range(max(3, lowest), degree + 1):
        head, rest = halves(d)
        count = comb(p + rest - 1, rest)
        room = count if rest == 1 else max(1, sizes.rests * p // comb(p + head - 1, head))
        for start in range(0, count, room):
            rests = range(start, min(start + room, count))
            last = int(_tuples(p, rest, rests[-1:])[0, 0])
            yield from _grouped(Panel(p, d, range(last + 1), rests), sizes.stacked)


def _grouped(whole: Panel, most: int) -> Iterator[Panel]:
    """Group the middle inputs, the smaller of the two sides stacked."""
    # A group grows until it has ``most`` rows, or until an eighth of its product would be entries
    # that come out unsorted.
    first, last = 0, whole.middles.stop
    after, heads = [whole.after(j) for j in range(last)], [whole.heads(j) for j in range(last)]
    while first < last:
        left = heads[first] <= after[first]
        stop, rows = first + 1, min(heads[first], after[first])
        while stop < last:
            rows += heads[stop] if left else after[stop]
            unsorted = after[first] - after[stop] if left else heads[stop] - heads[first]
            width = after[first] if left else heads[stop]
            if rows > most or 8 * unsorted > width:
                break
            stop += 1
        yield Panel(whole.p, whole.degree, range(first, stop), whole.rests, left)
        first = stop


def largest_scale(degree: int, d: int) -> float:
    """Return the scale of monomials of degree d whose inputs differ: none is larger."""
    return float(np.sqrt(factorial(degree) / factorial(degree - d)))


def scales(keys: Keys, degree: int) -> Array:
    """Return the scales of monomials: square roots of numbers of orderings.

    Monomials of several degrees are padded to ``degree``.
    """
    m, d = keys.shape
    run, repeats = np.ones(m), np.ones(m)
    for t in range(1, d):
        run = np.where(keys[:, t] == keys[:, t - 1], run + 1.0, 1.0)
        repeats *= run
    return np.sqrt(factorial(degree) / factorial(degree - d) / repeats)


def padded(keys: Keys, degree: int) -> Keys:
    """Pad monomials of one degree with -1."""
    found = np.full((len(keys), degree), -1, dtype=np.int32)
    found[:, : keys.shape[1]] = keys
    return found


def named(keys: Keys) -> list[Monomial]:
    """Return padded keys as tuples."""
    return [tuple(i for i in key if i >= 0) for key in keys.tolist()]


def norm_powers(degree: int) -> list[int]:
    """Return which norms of the inputs the error bounds are made of, ascending.

    A product of e inputs has a 4-norm of at most the product of their 4e-norms (Hoelder).
    """
    return sorted({2, 4, 8, *(4 * e for d in range(3, degree + 1) for e in halves(d))})


def sum_error(
    n: int, norms: Mapping[int, Array], of_a: tuple[float, float, float], degree: int
) -> float:
    """Bound the rounding of any scaled correlation over n rows in float64.

    ``norms`` are those of the inputs by their powers, ``of_a`` are |a|_1, |a|_2 and the largest
    |x_j a|_2: Cauchy and Schwarz split the factors of a monomial among them.
    """
    total, plain, weighted = of_a
    largest = {power: float(of.max(initial=0.0)) for power, of in norms.items()}
    sums = [total, plain * largest[2], weighted * largest[2]]
    for d in range(3, degree + 1):
        sums.append(weighted * float(np.prod([largest[4 * e] ** e for e in halves(d)])))
    magnitude = float(np.sqrt(factorial(degree)) * max(sums[: degree + 1]))
    return (n + 12 + 2 * degree) * ROUNDOFF["float64"] * magnitude
