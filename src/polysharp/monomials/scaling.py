"""Coded variables: u_i = (x_i - shift_i) / unit_i.

Engines see monomials of u.  Without a shift a monomial of u is a multiple of the same monomial
of x, so sparsity in u is sparsity in x, and

    w prod_i u_i  =  (w / prod_i unit_i) prod_i (x_i - shift_i)

gives back the coefficient in the user's units.  The units are weighted root mean squares (of
x - shift), which keeps every monomial near size one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polysharp.data.functions import PLAIN, Library
from polysharp.data.rows import Ranges
from polysharp.typing import Array, Monomial


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
