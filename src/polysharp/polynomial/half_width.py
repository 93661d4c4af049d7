"""Half the width of a prediction interval, as an export can carry it.

    half(x) = q sqrt(c + sum_i row_i(x)^2),

with row_i polynomials in the products of the formula itself: the spread of the rows of the fit
(``polysharp.estimators.spread``) times the error that a share ``coverage`` of the rows held out
does not exceed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class HalfWidth:
    """What an export needs beside the formula to give intervals."""

    coverage: float  #: share of new rows that the intervals are to hold
    factor: float  #: q
    constant: float  #: c
    rows: tuple[Polynomial, ...]  #: in the inputs of the formula; none where it has no terms

    def __call__(self, X: Array) -> Array:
        """Return half the width at the rows of X."""
        squares = sum((row(X) ** 2 for row in self.rows), np.full(len(X), self.constant))
        return np.asarray(self.factor * np.sqrt(squares))
