"""Coded variables: u_i = (x_i - shift_i) / unit_i.

Engines see monomials of u.  Without a shift a monomial of u is a multiple of the same monomial
of x, so sparsity in u is sparsity in x, and

    w prod_i u_i  =  (w / prod_i unit_i) prod_i (x_i - shift_i)

gives back the coefficient in the user's units.  The units are weighted root mean squares (of
x - shift), which keeps every monomial near size one.

Orthogonal polynomials (``data.families``) are polynomials of u itself, of which shift and unit make
what their family is for: the range of an input becomes [-1, 1], or mean and spread 0 and 1.  The
unit is then part of the formula, and not of coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polysharp.data.families import MONOMIALS, Family
from polysharp.data.functions import PLAIN, Library
from polysharp.data.summary import Ranges
from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and unit of every column."""

    shift: Array
    unit: Array
    family: Family = MONOMIALS

    @classmethod
    def of(cls, ranges: Ranges, *, scale: bool, center: bool, library: Library = PLAIN) -> Scaling:
        """Code measured columns; one that is constantly zero after the shift keeps unit 1.

        Only inputs are shifted, and no functions of them.
        """
        if library.family.orthogonal:
            return cls._mapped(ranges, library.family)
        constant, p = ranges.low == ranges.high, len(ranges.low)
        # The mean of equal numbers may round to another number: take the number itself.
        mean = np.where(constant, ranges.low, ranges.mean)
        shift = mean.copy() if center else np.zeros(p)
        shift[p - len(library.applied) :] = 0.0
        if not scale:
            return cls(shift, np.ones(p))
        # About its own number a constant has no spread, whatever rounding left of it.
        unit = np.sqrt(np.where(constant, 0.0, ranges.variance) + (mean - shift) ** 2)
        unit[unit == 0.0] = 1.0
        return cls(shift, unit)

    @classmethod
    def _mapped(cls, ranges: Ranges, family: Family) -> Scaling:
        """Map columns to where a family is orthogonal; one that is constant keeps unit 1."""
        constant = ranges.low == ranges.high
        shift = 0.5 * ranges.low + 0.5 * ranges.high
        unit = 0.5 * ranges.high - 0.5 * ranges.low
        if not family.spans:
            shift, unit = ranges.mean.copy(), np.sqrt(ranges.variance)
        shift[constant] = ranges.low[constant]
        unit[constant | (unit == 0.0)] = 1.0
        return cls(shift, unit, family)

    @property
    def absorbed(self) -> Array:
        """The units that go into coefficients."""
        return np.ones_like(self.unit) if self.family.orthogonal else self.unit

    def apply(self, X: Array) -> Array:
        """Return the coded variables."""
        if not self.shift.any():
            return X / self.unit
        coded = X - self.shift
        coded /= self.unit
        return coded

    def invert(self, monomials: Iterable[Monomial], w: Array) -> Array:
        """Turn coefficients of plain monomials of u into those of the formula."""
        unit = self.absorbed
        factors = [np.prod(unit[list(m)]) for m in monomials]
        return w / np.array(factors, dtype=np.float64)
