"""What a factor of order d of an input is: its power, or an orthogonal polynomial of it.

A term multiplies factors P_d(t) of inputs t = (x - shift) / unit, one for each of its inputs, and
its degree is the sum of their orders: a monomial that holds an input d times holds P_d of it.  With
P_0 = 1 and P_1 = t, the families obey recurrences in whole numbers,

    c P_{d+1} = a t P_d - b P_{d-1},

                  a        b    c        the inputs that they are orthogonal for
    monomials     1        0    1        none: t^d
    legendre      2d + 1   d    d + 1    those spread evenly over [-1, 1]
    chebyshev     2        1    1        those that crowd towards -1 and 1
    hermite       1        d    1        normal ones, of mean 0 and variance 1

Polynomials of degree r are the same in all of them; which of these have few terms is not.  Powers
of x / unit are multiples of powers of x, so that the unit of a monomial goes into its coefficient;
the arguments of other families stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# In powers, which exports write, polynomials of higher order lose too many digits.
HIGHEST = 10


@dataclass(frozen=True)
class Family:
    """The polynomials of one variable that terms multiply."""

    name: str
    letter: str  # as formulas show them, P2(x); "" for powers
    recurrence: tuple[tuple[int, int], ...]  # a, b and c above, u + v d as (u, v)
    spans: bool = False  # whether the range of an input is mapped to [-1, 1], not mean and spread

    @property
    def orthogonal(self) -> bool:
        """Whether they are other polynomials than powers."""
        return bool(self.letter)

    @property
    def highest(self) -> float:
        """The highest degree."""
        return HIGHEST if self.orthogonal else np.inf

    def step(self, d: int) -> tuple[int, ...]:
        """Return a, b and c, with which P_{d+1} follows from P_d and P_{d-1}."""
        return tuple(u + v * d for u, v in self.recurrence)

    def values(self, t: Any, highest: int) -> list[Any]:
        """Return P_1(t), P_2(t), ... for numbers of any kind."""
        found = [t]
        for d in range(1, highest):
            more, (a, b, c) = found[-1] * t, self.step(d)
            if self.orthogonal:
                more = (a * more - b * (found[-2] if d > 1 else 1.0)) / c
            found.append(more)
        return found

    def coefficients(self, order: int) -> tuple[float, ...]:
        """Return P_d in powers of t, the constant first; these numbers are exact.

        Examples
        --------
        >>> FAMILIES["legendre"].coefficients(3)
        (0.0, -1.5, 0.0, 2.5)
        """
        t = np.polynomial.Polynomial([0.0, 1.0])
        return tuple(self.values(t, order)[-1].coef.tolist()) if order else (1.0,)

    def written(self, column: str, order: int) -> str:
        """Return a factor; powers of ``x^-1`` have one exponent.

        Examples
        --------
        >>> FAMILIES["legendre"].written("a", 2), MONOMIALS.written("a", 2)
        ('P2(a)', 'a^2')
        >>> MONOMIALS.written("a^-1", 2), MONOMIALS.written("log(a)", 1)
        ('a^-2', 'log(a)')
        """
        if self.orthogonal:
            return f"{self.letter}{order}({column})"
        if order == 1:
            return column
        return f"{column[:-1]}{order}" if column.endswith("^-1") else f"{column}^{order}"

    def mapped(self, column: str, shift: float, unit: float, digits: int = 6) -> str:
        """Say which numbers of an input are mapped to -1 and 1.

        Examples
        --------
        >>> FAMILIES["legendre"].mapped("a", 3.0, 2.0), FAMILIES["hermite"].mapped("a", 3.0, 2.0)
        ('a mapped from [1, 5]', 'a mapped from 3 ± 2')
        """
        if not self.spans:
            return f"{column} mapped from {shift:.{digits}g} ± {unit:.{digits}g}"
        return f"{column} mapped from [{shift - unit:.{digits}g}, {shift + unit:.{digits}g}]"


MONOMIALS = Family("monomials", "", ((1, 0), (0, 0), (1, 0)))
FAMILIES = {
    family.name: family
    for family in (
        MONOMIALS,
        Family("legendre", "P", ((1, 2), (0, 1), (1, 1)), spans=True),
        Family("chebyshev", "T", ((2, 0), (1, 0), (1, 0)), spans=True),
        Family("hermite", "He", ((1, 0), (0, 1), (1, 0))),
    )
}
