"""All monomials of degree at most 4 as entries of matrix products, every monomial in one of them.

With a vector a over the rows, a panel is a product whose entry (s, c) is the correlation of a with
the monomial made of row s and column c.  Degree 2 is (X * a)'X, in blocks of rows s and of the
columns up to them.  A monomial of degree d >= 3 is a sorted tuple (i, j, rest), i <= j <= rest,
and all with the same middle input j come from one product without waste,

    (X_{<=j} * (x_j a))' R_{>=j},     R = X for d = 3,  R = all x_k x_l (in blocks) for d = 4.

For four inputs and d = 3 these are, with k = rest,

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.errors import InputError
from polysharp.typing import Array, Indices

Keys = NDArray[np.int32]  # (m, d): one monomial per row; of several degrees padded with -1
Keep = Callable[[Keys], NDArray[np.bool_]]
Stack = list[tuple[Any, Any]]  # tables, each with the vector that its rows are multiplied by


def check_degree(degree: int) -> None:
    """Refuse degrees that have no panels."""
    if degree not in (1, 2, 3, 4):
        raise InputError(f"degree must be 1, 2, 3 or 4 to price all monomials, got {degree!r}")


class PanelSizes(NamedTuple):
    """How large panels may be, in monomials."""

    columns: int  # rows of a panel of degree 2
    rests: int  # products x_k x_l of one block
    stacked: int  # rows of a panel of degree 3 or 4

    @classmethod
    def of(cls, n: int, p: int, stack: int) -> PanelSizes:
        """Return sizes for p inputs of n rows, ``stack`` rows making a product efficient.

        The products x_k x_l take 128 MiB at most, and the product with them 4 Mi entries: what is
        looked at after it.  What is stacked takes 512 MiB.
        """
        rests = min(2**27 // (8 * n), 2**22 // p)
        return cls(1024, rests, min(stack, max(256, 2**29 // (8 * n))))


@dataclass(frozen=True)
class Panel:
    """Monomials of one degree that come from one matrix product."""

    p: int  # number of inputs
    degree: int
    middles: range = range(1)  # the inputs j; at degree 2 the stacked inputs themselves
    rests: range = range(0)  # the first inputs k of the rests of this block
    left: bool = False  # whether pairs (i, j) are stacked, or (j, rest)

    def after(self, j: int) -> int:
        """Return how many rests of the block have inputs from j on only."""
        low, high = self.p - max(j, self.rests.start), self.p - self.rests.stop
        if self.degree == 3:
            return low - high
        return (low * (low + 1) - high * (high + 1)) // 2

    def before(self, j: int) -> int:
        """Return how many rests of the block come before those."""
        return self.after(0) - self.after(j)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        j, d = self.middles, self.degree
        if d < 3:
            return len(j), (1, self.p, j.stop)[d]
        if self.left:
            return sum(m + 1 for m in j), self.after(j.start)
        return sum(map(self.after, j)), j.stop

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
        return sum((m + 1) * (1 if d == 2 else self.after(m)) for m in j)

    def operands(self, table: Any, rests: Any, ones: Any, a: Any) -> tuple[Stack, Any]:
        """Return what is stacked and what it is multiplied with, from a table (inputs, rows).

        ``rests`` has the products x_k x_l of the block at degree 4, ``ones`` is one row of ones.
        """
        j, d = self.middles, self.degree
        if d < 2:
            return [(ones, a)], table if d else ones
        if d == 2:
            return [(table[j.start : j.stop], a)], table[: j.stop]
        if self.left:
            return [(table[: m + 1], table[m] * a) for m in j], rests[self.before(j.start) :]
        return [(rests[self.before(m) :], table[m] * a) for m in j], table[: j.stop]

    def rest_keys(self) -> Keys:
        """Return the rests of the block, in lexicographic order."""
        if self.degree == 3:
            return np.arange(self.p, dtype=np.int32)[:, None]
        return _pairs(self.p, self.rests)

    def keys(self, rows: Indices, columns: Indices) -> tuple[Keys, Indices]:
        """Return the monomials at some entries, and which of the entries are sorted."""
        j, d = self.middles, self.degree
        inputs: Keys = np.arange(self.p, dtype=np.int32)[:, None]
        if d < 2:
            halves = [np.zeros((len(rows), 0), dtype=np.int32), inputs[columns][:, :d]]
        elif d == 2:
            halves = [inputs[columns], inputs[j.start + rows]]
        elif self.left:
            stacked = np.concatenate([np.insert(inputs[: m + 1], 1, m, axis=1) for m in j])
            halves = [stacked[rows], self.rest_keys()[self.before(j.start) + columns]]
        else:
            ends = self.rest_keys()
            stacked = np.concatenate([np.insert(ends[self.before(m) :], 0, m, axis=1) for m in j])
            halves = [inputs[columns], stacked[rows]]
        keys = np.concatenate(halves, axis=1)
        once = np.flatnonzero((np.diff(keys, axis=1) >= 0).all(axis=1))
        return keys[once], once


@lru_cache(maxsize=2)  # the panels of a block come in a row
def _pairs(p: int, firsts: range) -> Keys:
    """Return all pairs (k, l), k <= l < p, with k in a range."""
    k = np.array(firsts, dtype=np.int32)
    ends = [np.arange(first, p, dtype=np.int32) for first in firsts]
    return np.column_stack([np.repeat(k, p - k), np.concatenate(ends)])


def panels(p: int, degree: int, sizes: PanelSizes, *, constant: bool) -> Iterator[Panel]:
    """Yield the panels of all monomials of p inputs, those with the same rests in a row."""
    if constant:
        yield Panel(p, 0)
    yield Panel(p, 1)
    if degree >= 2:
        for start in range(0, p, sizes.columns):
            yield Panel(p, 2, range(start, min(start + sizes.columns, p)))
    for d in range(3, degree + 1):
        for rests in [range(p)] if d == 3 else _rest_blocks(p, max(p, sizes.rests)):
            yield from _grouped(Panel(p, d, range(rests.stop), rests), sizes.stacked)


def _rest_blocks(p: int, room: int) -> Iterator[range]:
    """Cut the inputs k into ranges whose products x_k x_l, l >= k, are at most ``room``."""
    start = 0
    while start < p:
        stop, count = start + 1, p - start
        while stop < p and count + p - stop <= room:
            count, stop = count + p - stop, stop + 1
        yield range(start, stop)
        start = stop


def _grouped(whole: Panel, most: int) -> Iterator[Panel]:
    """Group the middle inputs, the smaller of the two sides stacked.

    A group grows until it has ``most`` rows, or until an eighth of its product would be entries
    that come out unsorted.
    """
    first, last = 0, whole.middles.stop
    after = [whole.after(j) for j in range(last)]
    while first < last:
        left = first + 1 <= after[first]
        stop, rows = first + 1, min(first + 1, after[first])
        while stop < last:
            rows += stop + 1 if left else after[stop]
            unsorted = after[first] - after[stop] if left else stop - first
            width = after[first] if left else stop + 1
            if rows > most or 8 * unsorted > width:
                break
            stop += 1
        yield Panel(whole.p, whole.degree, range(first, stop), whole.rests, left)
        first = stop


def largest_scale(degree: int, d: int) -> float:
    """Return the scale of monomials of degree d whose inputs differ: none is larger."""
    return float(np.sqrt(factorial(degree) / factorial(degree - d)))


def scales(keys: Keys, degree: int) -> Array:
    """Return the scales of monomials of one degree: square roots of numbers of orderings."""
    m, d = keys.shape
    run, repeats = np.ones(m), np.ones(m)
    for t in range(1, d):
        run = np.where(keys[:, t] == keys[:, t - 1], run + 1.0, 1.0)
        repeats *= run
    return np.sqrt(factorial(degree) / factorial(degree - d) / repeats)


def largest_sum(norms: Array, of_a: tuple[float, float, float], degree: int) -> float:
    """Bound the sum of magnitudes behind any scaled correlation by the norms of its factors.

    ``norms`` are the largest 2-, 4- and 8-norms of the inputs, ``of_a`` are |a|_1, |a|_2 and the
    largest |x_j a|_2: Cauchy and Schwarz split the factors of a monomial among them.
    """
    two, four, eight = norms
    total, plain, weighted = of_a
    sums = (total, plain * two, weighted * two, weighted * four**2, weighted * four * eight**2)
    return float(np.sqrt(factorial(degree)) * max(sums[: degree + 1]))
