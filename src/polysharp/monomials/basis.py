"""Coded variables, and the scaled monomial basis of the paper over them.

The variables are u_i = (x_i - shift_i) / unit_i.  Without a shift a monomial of u is a multiple of
the same monomial of x, so sparsity in u is sparsity in x, and

    w prod_i u_i  =  (w / prod_i unit_i) prod_i (x_i - shift_i)

gives back the coefficient in the user's units.  The units are weighted root mean squares (of
x - shift), which keeps every monomial near size one.

A monomial is the sorted tuple of the inputs it multiplies, with repetition: ``(0, 0, 3)`` is
``x0^2 x3`` and ``()`` the constant.  That tuple is the paper's multiset A(j); the indices of
the monomials that contain input i are its dependents D(i).  With degree r, monomial j carries
the scale

    m_j(1, ..., 1)^2 = number of orderings of A(j) padded with r - |A(j)| ones
                     = r! / ((r - |A(j)|)! * prod_i mult_i!),

so that m(x)'m(x') = (1 + x'x')^r exactly: the Mercer identity behind Algorithm 1.

Monomials multiply columns of a table: inputs, and functions of inputs (``library``).  Every module
names an input by its column in the user's table.  A basis over some of the columns keeps these
numbers and evaluates the whole table; only ``uses`` and ``place`` number the inputs in play from 0.

Columns are evaluated degree by degree, x_i times a monomial of one degree less: one vectorised
multiplication per monomial, for a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, groupby
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray

from polysharp.data.functions import PLAIN, Library
from polysharp.data.rows import Ranges
from polysharp.typing import Array, Indices, Monomial

BLOCK_BYTES = 8 * 2**20  # of an evaluated block of rows, which fits the cache


def count_monomials(n_inputs: int, degree: int) -> int:
    """Return f = C(p + r, r), the number of monomials of degree at most r in p inputs."""
    return comb(n_inputs + degree, degree)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and unit of every column."""

    shift: Array
    unit: Array

    @classmethod
    def of(cls, ranges: Ranges, *, scale: bool, center: bool, library: Library = PLAIN) -> Scaling:
        """Code measured columns; one that is constantly zero after the shift keeps unit 1.

        Only inputs are shifted, and no functions of them.
        """
        p = len(ranges.low)
        shift = ranges.centers if center else np.zeros(p)
        shift[p - len(library.applied) :] = 0.0
        return cls(shift, ranges.sizes(shift) if scale else np.ones(p))

    def apply(self, X: Array) -> Array:
        """Return the coded variables."""
        if not self.shift.any():
            return X / self.unit
        coded = X - self.shift
        coded /= self.unit
        return coded

    def invert(self, monomials: Iterable[Monomial], w: Array) -> Array:
        """Turn coefficients of plain monomials of u into those of the formula."""
        factors = [np.prod(self.unit[list(m)]) for m in monomials]
        return w / np.array(factors, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Basis:
    """An ordered set of scaled monomials.

    Examples
    --------
    The paper's example, p = 3 and r = 2 (inputs counted from 0 here):

    >>> basis = Basis.full(3, 2)
    >>> basis.monomials[:6]
    ((), (0,), (1,), (2,), (0, 0), (0, 1))
    >>> basis.dependents(0).tolist()
    [1, 4, 5, 6]
    """

    inputs: Sequence[int]  # in play, ascending, as columns of the user's table
    degree: int  # largest; the scales depend on it
    monomials: tuple[Monomial, ...]  # in the columns of these inputs
    library: Library = PLAIN  # the functions of inputs that are columns

    @classmethod
    def full(cls, inputs: int | Sequence[int], degree: int, *, constant: bool = True) -> Basis:
        """Return all monomials of some inputs (a number: of 0, 1, ...), graded lexicographic."""
        chosen = range(inputs) if isinstance(inputs, int) else tuple(int(i) for i in inputs)
        monomials = tuple(
            m
            for d in range(0 if constant else 1, degree + 1)
            for m in combinations_with_replacement(chosen, d)
        )
        return cls(chosen, degree, monomials)

    def filter(self, keep: Callable[[Monomial], bool]) -> Basis:
        """Return the basis of the monomials for which ``keep`` is true, in the same order."""
        return replace(self, monomials=tuple(m for m in self.monomials if keep(m)))

    def select(self, columns: Iterable[int]) -> Basis:
        """Return the basis of the monomials at some positions."""
        return replace(self, monomials=tuple(self.monomials[j] for j in columns))

    def __len__(self) -> int:
        return len(self.monomials)

    @property
    def n_inputs(self) -> int:
        """Number of inputs in play."""
        return len(self.inputs)

    @cached_property
    def place(self) -> dict[int, int]:
        """Position of each input among those in play."""
        return {i: a for a, i in enumerate(self.inputs)}

    @cached_property
    def index(self) -> dict[Monomial, int]:
        """Position of each monomial."""
        return {m: j for j, m in enumerate(self.monomials)}

    @cached_property
    def scales(self) -> Array:
        """Square roots of the numbers of orderings."""
        r = self.degree
        return np.sqrt(
            [
                factorial(r) / (factorial(r - len(m)) * prod(factorial(m.count(i)) for i in set(m)))
                for m in self.monomials
            ]
        )

    @cached_property
    def uses(self) -> NDArray[np.bool_]:
        """Incidence matrix (f, inputs in play): whether monomial j contains an input."""
        incidence = np.zeros((len(self), self.n_inputs), dtype=bool)
        for j, m in enumerate(self.monomials):
            incidence[j, [self.place[i] for i in self.library.inputs_of(m)]] = True
        return incidence

    def dependents(self, i: int) -> Indices:
        """D(i): the indices of the monomials that contain input i."""
        return np.flatnonzero(self.uses[:, self.place[i]])

    def ancestors(self, j: int) -> Monomial:
        """A(j): the multiset of inputs of monomial j."""
        return self.monomials[j]

    @cached_property
    def _plan(self) -> tuple[int, list[_Run], slice | Indices]:
        """How many monomials to form, in runs that share degree and first factor; those to keep."""
        needed = {(), *(m[a:] for m in self.monomials for a in range(len(m)))}
        ordered = sorted(needed, key=lambda m: (len(m), m))
        position = {m: a for a, m in enumerate(ordered)}
        runs: list[_Run] = []
        for (_, first), members in groupby(ordered[1:], key=lambda m: (len(m), m[0])):
            run = list(members)
            tails = [m[1:] for m in run]
            runs.append((first, _places(position, run), _places(position, tails)))
        return len(ordered), runs, _places(position, self.monomials)

    @cached_property
    def used(self) -> Indices:
        """The columns that occur in a monomial."""
        return np.array(sorted({i for m in self.monomials for i in m}), dtype=np.intp)

    def evaluate(self, X: Array, *, scaled: bool = True) -> Array:
        """Return M (n, f), columns contiguous, for rows of the user's table."""
        every = len(self.used) == X.shape[1]
        return self.products(X.T if every else X.T[self.used], scaled=scaled)

    def products(self, columns: Array, *, scaled: bool = True) -> Array:
        """Return M (n, f) from the columns ``used``, one in each row."""
        columns = np.ascontiguousarray(columns, dtype=np.float64)
        column_of = dict(zip(self.used.tolist(), columns, strict=True))
        size, runs, kept = self._plan
        values = np.empty((size, columns.shape[1]))
        values[0] = 1.0
        for first, places, tails in runs:
            np.multiply(values[tails], column_of[first], out=values[places])
        out = values[kept]
        if scaled:
            out *= self.scales[:, None]
        return out.T

    def blocks(self, n: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
        """Row slices whose evaluated block stays near ``block_bytes``."""
        rows = max(64, block_bytes // (8 * max(1, len(self))))
        for start in range(0, n, rows):
            yield slice(start, min(start + rows, n))


_Run = tuple[int, slice | Indices, slice | Indices]  # first factor, places, places of the tails


def _places(position: dict[Monomial, int], monomials: Sequence[Monomial]) -> slice | Indices:
    """Return the positions of some monomials, as a slice if they are consecutive."""
    found = np.array([position[m] for m in monomials], dtype=np.intp)
    consecutive = len(found) and np.all(np.diff(found) == 1)
    return slice(int(found[0]), int(found[-1]) + 1) if consecutive else found
