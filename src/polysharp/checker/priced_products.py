"""The monomials with the largest products with a vector, of all that a statement allows.

For a vector a over the rows and b = sqrt(v) a, made to sum to zero where the intercept is free,

    m_j'a = scale_j sum_t b_t prod_{c in j} x_tc,

which for all monomials of degree 2 is the matrix X'diag(b)X, for degree 3 one such matrix per
column c with b x_c in place of b, and so on; columns are inputs and functions of them.  The vector
that is multiplied is the one that b stands for exactly, so only these sums are rounded: by at most
(n + 4 d + 24) u |m_j| |a|, with |m_j| <= scale_j prod_c (sum_t v_t x_tc^(2d))^(1/2d) by Hoelder's
inequality; and what is left of the sum of b counts with the mean of the monomial, which is at most
|m_j| / sqrt(sum v).

Rules about terms are about pairs of columns (an input and its own inverse, a square root twice,
powers of inputs of two values) or count inputs; both are looked up for a whole matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import columns_of, demand, is_trivial, owner, shape_allowed
from polysharp.checker.checked_rows import Columns, scale_squared
from polysharp.checker.curvature import SAFE, TINY, U
from polysharp.checker.evidence import Floats, Positions, Statement, Term

KEPT = 8192  # monomials that a pass names


class Correlated(NamedTuple):
    """A monomial, and bounds on |m_j'a|, on m_j'a and on -m_j'a."""

    size: float
    up: float
    down: float
    monomial: Term


def largest_products(
    columns: Columns, a: Floats, inputs: Positions
) -> tuple[list[Correlated], float]:
    """Return the monomials of some inputs with the largest |m_j'a|, and what others reach."""
    s, v, n = columns.s, columns.rows.v, len(a)
    b = columns.root * a
    if s.fit_intercept:
        b -= v * (b.sum() / columns.total)
    size = sqrt(float((b * b / v).sum())) * (1.0 + n * U)
    left = abs(float(b.sum())) + n * U * float(np.abs(b).sum())
    whole = left + (n + 12.0) * U * size * sqrt(columns.total)  # of the constant
    found = [] if s.fit_intercept else [Correlated(whole, whole, whole, ())]
    rest, products = 0.0, _ColumnProducts(s, inputs)
    X = columns.coded[:, products.columns]
    for d in range(1, s.degree + 1) if len(inputs) and X.size else ():
        if s.heredity is not None and d > s.max_terms:
            break  # ancestors down to degree one would be d terms
        norms = _norms(X, v, d)
        off = left / sqrt(columns.total) if s.fit_intercept else 0.0
        unit = SAFE * ((n + 4.0 * d + 24.0) * U * size + off)
        for head in products.heads(d):
            sums, tail = _sums(X, b, head, d), norms[_first(head) :]
            scales = _scales(s, head, sums.shape[1], d)
            across = tail[None] if d == 1 else np.multiply.outer(tail, tail)
            error = scales * across * (unit * float(np.prod(norms[list(head)]))) + TINY
            rho = sums * scales
            sizes = np.abs(rho) + error
            demand(np.isfinite(sizes).all(), "its powers leave the floats")
            sizes = np.where(products.allowed(head, d), sizes, -1.0).ravel()
            top = np.flatnonzero(sizes > rest)
            if len(top) > KEPT:
                top = top[np.argpartition(-sizes[top], KEPT)]
                rest = max(rest, float(sizes[top[KEPT]]))
                top = top[:KEPT]
            own, wrong = rho.ravel()[top], error.ravel()[top]
            parts = sizes[top], wrong + own, wrong - own
            names = products.names(head, d, *np.divmod(top, sums.shape[1]))
            found += map(Correlated, *(part.tolist() for part in parts), names)
            if len(found) > 4 * KEPT:
                rest = max(rest, _cut(found))
    return found, max(rest, _cut(found)) if len(found) > KEPT else rest


def _cut(found: list[Correlated]) -> float:
    """Leave the largest ones in place; return the size of the largest that goes."""
    found.sort(reverse=True)
    gone = found[KEPT].size
    del found[KEPT:]
    return gone


def _first(head: Term) -> int:
    """The first column that may follow."""
    return head[-1] if head else 0


class _ColumnProducts:
    """The columns of some inputs, numbered anew, and which products of them the rules allow.

    A monomial is a head, all its columns but the last two, and an entry (j, k) of a matrix.
    """

    def __init__(self, s: Statement, inputs: Positions) -> None:
        of_inputs = columns_of(inputs.tolist(), s)
        self.s, self.columns = s, sorted(c for own in of_inputs.values() for c in own)
        self.owners = np.array([owner(c, s) for c in self.columns], dtype=np.intp)
        place = {c: j for j, c in enumerate(self.columns)}
        self.clash = np.zeros((len(place), len(place)), dtype=np.bool_)
        for own in of_inputs.values():
            for a, b in product(own, own):
                self.clash[place[a], place[b]] = is_trivial((a, b), s)

    def heads(self, d: int) -> Iterator[Term]:
        """Return the heads of monomials of degree d."""
        for head in combinations_with_replacement(range(len(self.columns)), max(d - 2, 0)):
            if shape_allowed(tuple(self.columns[j] for j in head), self.s):
                yield head

    def names(self, head: Term, d: int, j: Positions, k: Positions) -> Iterator[Term]:
        """Return the monomials at some entries of a matrix."""
        named, columns = [self.columns[c] for c in head], np.array(self.columns[_first(head) :])
        tails = [columns[k]] if d == 1 else [columns[j], columns[k]]
        return ((*named, *tail) for tail in zip(*(one.tolist() for one in tails), strict=True))

    def allowed(self, head: Term, d: int) -> NDArray[np.bool_]:
        """Which entries of a matrix are monomials that the rules allow, each once."""
        s, h, first = self.s, list(head), _first(head)
        owners, within = self.owners[first:], self.owners[h]
        new = np.not_equal(owners, within[:, None]).all(axis=0, keepdims=True)
        good = np.asarray(~self.clash[h, first:].any(axis=0, keepdims=True))
        count = len(set(within.tolist())) + new.astype(np.intp)
        if d > 1:
            count = count.T + (new & (owners[:, None] != owners))
            good = np.triu(good & good.T & ~self.clash[first:, first:])
        return good & (count <= s.max_interaction) & ((count < 2) | (d <= s.interaction_degree))


def _sums(X: Floats, b: Floats, head: Term, d: int) -> Floats:
    """Sums of the monomials of degree d with a head: a matrix over the last two columns."""
    if d == 1:
        return np.asarray(b @ X)[None]
    weight = b * np.prod(X[:, list(head)], axis=1) if head else b
    tail = X[:, _first(head) :]
    return np.asarray((tail * weight[:, None]).T @ tail)


def _scales(s: Statement, head: Term, size: int, d: int) -> Floats:
    """The scales of the monomials of degree d with a head, where j <= k."""
    # Equal factors are those with j = 0 (equal to the last of the head) and with j = k.
    repeated, different = head.count(_first(head)), (*head, *((-1, -2)[: d - len(head)]))
    scale = sqrt(scale_squared(different, s.degree))
    scales = np.full((1 if d == 1 else size, size), scale)
    if d > 1:
        scales[np.diag_indices(size)] /= sqrt(2.0)
        scales[0, 1:] /= sqrt(repeated + 1.0)
        scales[0, 0] = sqrt(scale_squared((*head, *(2 * (_first(head),))), s.degree))
    return scales


def _norms(X: Floats, v: Floats, d: int) -> Floats:
    """(sum_t v_t x_tc^(2d))^(1/2d) of every column, rounded up."""
    peak = np.abs(X).max(axis=0)
    peak[peak == 0.0] = 1.0
    return np.asarray(SAFE * peak * (v @ (X / peak) ** (2 * d)) ** (0.5 / d))
