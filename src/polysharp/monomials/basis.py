"""The scaled monomial basis of the paper.

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
from polysharp.typing import Array, Indices, Monomial

BLOCK_BYTES = 8 * 2**20  # of an evaluated block of rows, which fits the cache


def count_monomials(n_inputs: int, degree: int) -> int:
    """Return f = C(p + r, r), the number of monomials of degree at most r in p inputs."""
    return comb(n_inputs + degree, degree)


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
    def _levels(self) -> list[_Level]:
        """For each degree d = 1..r: the runs to compute, and their positions in the output."""
        wanted: list[set[Monomial]] = [set() for _ in range(self.degree + 1)]
        for m in self.monomials:
            wanted[len(m)].add(m)
        for d in range(self.degree, 1, -1):
            wanted[d - 1] |= {m[1:] for m in wanted[d]}
        levels = []
        previous: dict[Monomial, int] = {(): 0}
        for d in range(1, self.degree + 1):
            level = sorted(wanted[d])
            position = {m: a for a, m in enumerate(level)}
            in_basis = [m for m in level if m in self.index]
            source, target = (_where(m, in_basis) for m in (position, self.index))
            whole = len(in_basis) == len(level) and isinstance(target, slice)
            levels.append(_Level(_runs(level, previous), len(level), source, target, whole))
            previous = position
        return levels

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
        n = columns.shape[1]
        out = np.empty((len(self), n))
        if () in self.index:
            out[self.index[()]] = 1.0
        previous = np.ones((1, n))
        for level in self._levels:
            values = out[level.target] if level.whole else np.empty((level.size, n))
            for run in level.runs:
                np.multiply(previous[run.tails], column_of[run.first], out=values[run.rows])
            if not level.whole:
                out[level.target] = values[level.source]
            previous = values
        if scaled:
            out *= self.scales[:, None]
        return out.T

    def blocks(self, n: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
        """Row slices whose evaluated block stays near ``block_bytes``."""
        rows = max(64, block_bytes // (8 * max(1, len(self))))
        for start in range(0, n, rows):
            yield slice(start, min(start + rows, n))


@dataclass(frozen=True)
class _Level:
    """The monomials of one degree: how to compute them, and their positions in the basis."""

    runs: list[_Run]
    size: int
    source: slice | Indices
    target: slice | Indices
    whole: bool  # the basis holds all of them, consecutively: computed in place


@dataclass(frozen=True)
class _Run:
    """Consecutive monomials of one degree that share their first input."""

    first: int
    rows: slice
    tails: slice | Indices  # positions of their tails in the level below


def _runs(level: list[Monomial], below: dict[Monomial, int]) -> list[_Run]:
    runs, stop = [], 0
    for first, group in groupby(level, key=lambda m: m[0]):
        tails = [m[1:] for m in group]
        start, stop = stop, stop + len(tails)
        runs.append(_Run(first, slice(start, stop), _where(below, tails)))
    return runs


def _where(position: dict[Monomial, int], monomials: list[Monomial]) -> slice | Indices:
    """Return the positions of some monomials, as a slice if they are consecutive."""
    found = np.array([position[m] for m in monomials], dtype=np.intp)
    consecutive = len(found) and np.all(np.diff(found) == 1)
    return slice(int(found[0]), int(found[-1]) + 1) if consecutive else found
