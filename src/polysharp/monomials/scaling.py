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

from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and unit of every input."""

    shift: Array
    unit: Array

    @classmethod
    def of(cls, X: Array, weights: Array, *, scale: bool, center: bool) -> Scaling:
        """Measure the inputs; a column that is constantly zero after the shift keeps unit 1."""
        low, high = X.min(axis=0), X.max(axis=0)
        shift = np.zeros(X.shape[1])
        if center:
            # The mean of equal numbers may round to another number: take the number itself.
            shift = np.where(low == high, low, weights @ X / weights.sum())
        if not scale:
            return cls(shift, np.ones(X.shape[1]))
        peak = np.maximum(np.abs(low - shift), np.abs(high - shift))
        peak[peak == 0.0] = 1.0
        # Relative to the largest value, so that squares neither overflow nor vanish.
        ratio = (X - shift) / peak
        unit = peak * np.sqrt(weights @ ratio**2 / weights.sum())
        unit[unit == 0.0] = 1.0
        return cls(shift, unit)

    @classmethod
    def measured(
        cls,
        low: Array,
        high: Array,
        mean: Array,
        variance: Array,
        *,
        scale: bool,
        center: bool,
    ) -> Scaling:
        """Return what ``of`` returns from the ranges, means and variances of the inputs."""
        constant = low == high
        shift = np.where(constant, low, mean) if center else np.zeros(len(mean))
        if not scale:
            return cls(shift, np.ones(len(mean)))
        # About its own number a constant has no spread, whatever rounding left of it.
        square = np.where(constant, (low - shift) ** 2, variance + (mean - shift) ** 2)
        unit = np.sqrt(square)
        unit[unit == 0.0] = 1.0
        return cls(shift, unit)

    def apply(self, X: Array) -> Array:
        """Return the coded variables."""
        return (X - self.shift) / self.unit

    def invert(self, monomials: Iterable[Monomial], w: Array) -> Array:
        """Turn coefficients of plain monomials of u into those of the monomials of x - shift."""
        factors = [np.prod(self.unit[list(m)]) for m in monomials]
        return w / np.array(factors, dtype=np.float64)
