"""Values of vectors, and what moves from G into the ridge: a diagonal d, and a pairwise shift K.

A vector w has its value in parts (``Point``), each rounded to the side that lowers the value.  It
is evaluated with G, and ``shifted`` adds what has been moved.

With reach a_j >= 0 and ratios t_ij = t_ji = c_ij 2^-15, |c_ij| < 2^15 whole,

    K_jj = (T - 1) a_j^2,    K_ij = a_i a_j t_ij        over a list F of monomials, 0 elsewhere.

Of the (T - 1) a_j^2 v_j^2 of a term, a_j^2 v_j^2 goes to each of at most T - 1 pairs that it is
part of, and a_i^2 v_i^2 + a_j^2 v_j^2 >= 2 |a_i a_j v_i v_j|.  So v'Kv >= 0 for every v with at
most T entries other than zero in F: what is proved with G - K in place of G holds for every support
with at most T monomials of F.  Nothing is asked of K but that it is made like this; that
G - diag(d) - K >= 0 is for the moments to show.

In floats an entry of K is wrong by 3 roundings.  In exact arithmetic every reach may be another one
by one rounding (see ``Exact``), and coefficients of a vector are known up to 4: K is then one of
many that would do, and what is computed with the reach given is wrong by as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import demand
from polysharp.checker.evidence import Diagonal, Floats, Positions

U = 2.0**-53
SAFE = 1.001  # covers the rounding of the error bounds themselves
TINY = 1e-290  # covers underflow
STEPS = 2**15  # of a ratio of one
MOST_TERMS = 2**31


class Point(NamedTuple):
    """The value of a vector in parts, each number rounded to the side that lowers it."""

    base: Any  # <= yy/2 - w'Qw/2
    ya: Any  # <= y'a
    aa: Any  # >= |a|^2
    up: Floats  # >= m_j'a + d_j w_j, for every monomial that is alive
    down: Floats  # >= -(m_j'a + d_j w_j)

    def times(self, t: float) -> Point:
        """Return the same of t a; only where d = 0."""
        if t == 1.0:
            return self
        ya, aa, up, down = t * self.ya, t * (t * self.aa), t * self.up, t * self.down
        base = ya - 0.5 * aa - 8.0 * U * (abs(ya) + aa) - TINY
        up, down = (side + 4.0 * U * np.abs(side) + TINY for side in (up, down))
        return Point(base, ya - 4.0 * U * abs(ya) - TINY, aa * (1.0 + 8.0 * U) + TINY, up, down)

    def shifted(self, moved: Curvature, index: Positions, w: Floats) -> Point:
        """Return the same with diag(d) + K taken off G, each w_j known up to 4 roundings."""
        more, wrong, own = moved.applied(index, w, len(self.up))
        base = self.base + 0.5 * own - 4.0 * U * (abs(self.base) + abs(own))
        wrong = wrong + 8.0 * U * (np.abs(self.up) + np.abs(self.down) + np.abs(more) + wrong)
        return Point(base, self.ya, self.aa, self.up + more + wrong, self.down - more + wrong)


def sides(rho: Any, slack: Any) -> tuple[Floats, Floats]:
    """Return upper bounds on rho and on -rho, known up to a slack."""
    slack = slack + 4.0 * U * (np.abs(rho) + slack)
    return rho + slack, slack - rho


def rounded_sum(values: Sequence[float], side: float) -> float:
    """Add numbers up and round the sum down (side -1) or up (side 1)."""
    if len(values) == 1:
        return float(values[0])
    return float(sum(values) + side * 2.0 * len(values) * U * sum(map(abs, values)))


@dataclass(frozen=True, eq=False)
class Curvature:
    """d over the monomials ``index``, and K over those of them at ``places``.

    K is kept as it was given, since a proof may hold many that share their ratios: a monomial of F
    has its reach, and stands in one of the ``rows`` of all the ratios.
    """

    index: Positions
    d: Floats
    places: Positions
    reach: Floats
    rows: Positions
    ratios: NDArray[np.int16]
    terms: int

    @property
    def free(self) -> Positions:
        """F, on which K acts."""
        return self.index[self.places]

    def over_all(self, size: int) -> Floats:
        """Return d over all monomials, zero where it says nothing."""
        d = np.zeros(size)
        d[self.index] = self.d
        return d

    def own(self) -> Floats:
        """Return K_jj over the monomials of the diagonal."""
        found = np.zeros(len(self.index))
        found[self.places] = (self.terms - 1.0) * self.reach * self.reach
        return found

    def matrix(self, lengths: Any = 1.0) -> Floats:
        """Return K over F, where all monomials have these lengths."""
        reach = self.reach / np.broadcast_to(lengths, len(self.index))[self.places]
        ratios = self.ratios[np.ix_(self.rows, self.rows)] * (1.0 / STEPS)
        K = np.asarray(ratios * np.multiply.outer(reach, reach), dtype=np.float64)
        K[np.diag_indices(len(reach))] = (self.terms - 1.0) * reach * reach
        return K

    def applied(self, index: Positions, w: Floats, size: int) -> tuple[Floats, Floats, float]:
        """Return v = (diag(d) + K) w over all monomials, its error, and w'v rounded down."""
        full = np.zeros(size)
        full[index] = w
        found = self.over_all(size) * full
        parts, free, of = np.abs(found), self.free, full[self.free]
        if len(free):
            K = self.matrix()
            found[free] += K @ of
            parts[free] += np.abs(K) @ np.abs(of)
        sizes = np.abs(w)
        error = SAFE * (len(free) + 16.0) * U * parts + TINY
        doubt = error[index] + (len(index) + 8.0) * U * parts[index]
        return found, error, float(w @ found[index]) - SAFE * float(sizes @ doubt) - TINY

    def in_integers(self, units: Sequence[Fraction], bits: int) -> list[list[int]]:
        """Return K over F, each reach times its unit, in steps of 2^-bits: wrong by less than two.

        A reach x is rounded down to whole steps of 2^-e, e = bits + 8 + log2(T (x + 1)) for the
        largest x, which changes no entry by more than 2^-7; and then each entry is rounded down.
        """
        exact = [Fraction(a) * u for a, u in zip(self.reach.tolist(), units, strict=True)]
        e = bits + 8 + floor(self.terms * (max(exact, default=Fraction(0)) + 1)).bit_length()
        whole = [floor(x * 2**e) for x in exact]
        ratios, down = self.ratios[np.ix_(self.rows, self.rows)].tolist(), 2 * e + 15 - bits
        for a, row in enumerate(ratios):
            row[a] = STEPS * (self.terms - 1)
        return [
            [(x * z * c) >> down for z, c in zip(whole, row, strict=True)]
            for x, row in zip(whole, ratios, strict=True)
        ]


def read_curvature(given: Diagonal, read: Callable[[Any, str], Positions], what: str) -> Curvature:
    """Read a diagonal with its pairwise shift, if it has one, which ``check_pairs`` has passed."""
    index, d = read(given.index, what), np.asarray(given.value, dtype=np.float64)
    demand(d.shape == index.shape and np.isfinite(d).all(), f"{what} is no list of numbers")
    if given.pairs is None:
        nothing = np.zeros(0, dtype=np.intp)
        return Curvature(index, d, nothing, d[:0], nothing, np.zeros((0, 0), dtype=np.int16), 1)
    pairs, T, named = given.pairs, given.terms, given.free
    counts = isinstance(T, int | np.integer) and not isinstance(T, bool)
    demand(counts and 1 <= T <= MOST_TERMS, f"{what} has a pairwise shift of no number of terms")
    demand(_is_list(named, np.intp), f"{what} has a pairwise shift of no list of monomials")
    places = _found(read(named, what), index, f"{what} does not cover its pairwise shift")
    rows = _found(named, pairs.index, f"{what} leaves its pairwise shift")
    return Curvature(index, d, places, pairs.reach[rows], rows, pairs.ratios, int(T))


def check_pairs(given: Any, size: int, what: str) -> None:
    """Reject a pairwise shift that is not made as at the head, of monomials below ``size``."""
    parts: list[Any] = [getattr(given, name, None) for name in ("index", "reach", "ratios")]
    index, reach, ratios = parts
    lists = _is_list(index, np.intp) and _is_list(reach, np.float64)
    demand(lists, f"{what} has a pairwise shift of no numbers")
    within = np.all(np.diff(index) > 0) and np.all((index >= 0) & (index < size))
    demand(within, f"{what} has a pairwise shift of monomials that are not in order")
    demand(reach.shape == index.shape, f"{what} has a pairwise shift of another length")
    # Powers of these stay within the floats; NaN is neither.
    fits = np.all((reach == 0.0) | ((reach >= 1e-100) & (reach <= 1e100)))
    demand(fits, f"{what} has a pairwise shift with a reach that is negative or leaves the floats")
    whole = isinstance(ratios, np.ndarray) and ratios.dtype == np.int16
    demand(
        whole and ratios.shape == (len(index),) * 2,
        f"{what} has a pairwise shift whose ratios are no 16-bit integers",
    )
    demand(np.all(ratios > -STEPS), f"{what} has a pairwise shift with a ratio of one")
    demand(np.array_equal(ratios, ratios.T), f"{what} has a pairwise shift that is not symmetric")
    demand(not np.diagonal(ratios).any(), f"{what} pairs monomials with themselves")


def _is_list(given: Any, kind: type) -> bool:
    return isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype == kind


def _found(wanted: Positions, among: Positions, fault: str) -> Positions:
    """Return where numbers stand in a list that must have them all."""
    order = np.argsort(among)
    at = np.searchsorted(among, wanted, sorter=order)
    demand(np.all(at < len(among)), fault)
    demand(np.array_equal(among[order[at]], wanted), fault)
    return order[at]
