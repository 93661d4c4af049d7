"""A polynomial in the user's variables and units.

    y = intercept + sum_j coefficients_j prod_{i in monomials_j} (x_i - shifts_i)

Functions of the p inputs are factors too: they are numbered from p, and take the inputs without a
shift.

Every coefficient is a float64 rounded once from the coded variables, and a product of powers
keeps its relative precision whatever the units.  Evaluating this form therefore loses no digits
against the coded form: the formula shown is the model that predicts.

With ranges, an input outside its range is replaced by the nearer end, because a power that fits
well within the rows seen can take any value a little outside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from math import comb, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polysharp.data.functions import Applied, Library
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis, Scaling
from polysharp.monomials.units import Units
from polysharp.polynomial import code, onnx_graph, text
from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sparse polynomial: an intercept and a few terms.

    Parameters
    ----------
    monomials : tuple of tuples of int
        Inputs of each term with repetition: ``(0, 0, 3)`` is ``x0^2 x3``, ``()`` the constant.
        Numbers from p on are ``functions``.
    coefficients : ndarray of shape (n_terms,)
        In the user's units.
    intercept : float
        Added to every prediction.
    names : tuple of str
        Names of all inputs.
    shifts : ndarray of shape (p,) or None
        Subtracted from the inputs first; None for no shift.
    response : str
        Name of the left-hand side.
    ranges : ndarray of shape (2, p) or None
        Least and largest value of every input; values outside are clamped to them first.  None
        clamps nothing.
    functions : tuple of Applied
        Functions of the inputs, numbered from p.

    Examples
    --------
    >>> law = Polynomial(((0, 0, 1), (1,)), np.array([1.5, -0.7]), 3.2, ("x0", "x1"))
    >>> print(law)
    y = 3.2 + 1.5 x0^2 x1 - 0.7 x1
    >>> law([[1.0, 2.0]]).tolist()
    [4.8...]
    """

    monomials: tuple[Monomial, ...]
    coefficients: Array
    intercept: float
    names: tuple[str, ...]
    shifts: Array | None = None
    response: str = "y"
    ranges: Array | None = None
    functions: tuple[Applied, ...] = ()

    def __post_init__(self) -> None:
        seen: set[Monomial] = set()
        for m in self.monomials:
            if tuple(sorted(m)) in seen:
                raise InputError(f"monomials must be distinct, got {m} twice")
            seen.add(tuple(sorted(m)))

    @classmethod
    def from_scaled(
        cls,
        basis: Basis,
        w: Array,
        intercept: float,
        scaling: Scaling,
        names: tuple[str, ...],
        response: str = "y",
        ranges: Array | None = None,
    ) -> Polynomial:
        """Return to the user's units from coefficients w of scaled monomials of coded variables."""
        coefficients = scaling.invert(basis.monomials, w * basis.scales)
        shifts = scaling.shift[: len(names)] if scaling.shift.any() else None
        given = coefficients, float(intercept), names, shifts, response, ranges
        return cls(basis.monomials, *given, basis.library.applied)

    def __len__(self) -> int:
        return len(self.monomials)

    @property
    def degree(self) -> int:
        """Largest degree of a term, 0 for a constant."""
        return max((len(m) for m in self.monomials), default=0)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Indices of the inputs in use."""
        return tuple(sorted(self.library.inputs_of(chain.from_iterable(self.monomials))))

    @property
    def library(self) -> Library:
        """Inputs and functions of them, as columns."""
        return Library(len(self.names), self.functions)

    @property
    def powers(self) -> NDArray[np.intp]:
        """Exponent of input i in term j, shape (n_terms, p); functions are further columns."""
        table = np.zeros((len(self), len(self.names) + len(self.functions)), dtype=np.intp)
        for j, m in enumerate(self.monomials):
            np.add.at(table[j], list(m), 1)
        return table

    @property
    def term_names(self) -> tuple[str, ...]:
        """Readable name of every term, as the formula shows it."""
        return self.names_of(self.monomials)

    def __call__(self, X: ArrayLike) -> Array:
        """Evaluate at the rows of X, shape (n, p)."""
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise InputError(
                f"X must have shape (n, {len(self.names)}), one column per input, "
                f"got shape {table.shape}"
            )
        y = np.full(table.shape[0], self.intercept)
        for rows in self.basis.blocks(table.shape[0]):
            y[rows] += self.products(table[rows]) @ self.coefficients
        return y

    @cached_property
    def basis(self) -> Basis:
        """The monomials as a basis."""
        return Basis(self.inputs, self.degree, self.monomials, self.library)

    def products(self, X: Array) -> Array:
        """Return the monomials at the rows of X, without coefficients."""
        used = self.basis.used.tolist()
        X = X if self.ranges is None else X.clip(*self.ranges)
        columns = np.empty((len(used), len(X)))
        for column, c in zip(columns, used, strict=True):
            column[:] = self.basis.library.values(c, X, self.names) - self.shift(c)
        return self.basis.products(columns, scaled=False)

    def outside(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Return which rows of X have an input in use outside its range; none without ranges."""
        table = np.asarray(X, dtype=np.float64)
        if self.ranges is None:
            return np.zeros(len(table), dtype=bool)
        used, (low, high) = list(self.inputs), self.ranges
        beyond = (table[:, used] < low[used]) | (table[:, used] > high[used])
        return np.asarray(beyond.any(axis=1))

    def coefficient_units(self, units: Mapping[str, str]) -> tuple[str, ...]:
        """Return the units of the coefficients, given those of the inputs and of the response.

        ``units`` maps names to units that pint reads; the name that is not an input is the
        response.

        Examples
        --------
        >>> law = Polynomial(((0, 0, 0), (0,)), np.array([0.4, 5.0]), 0.0, ("speed",))
        >>> law.coefficient_units({"speed": "m/s", "power": "W"})  # doctest: +SKIP
        ('W·s³/m³', 'W·s/m')
        """
        return Units.read(units, self.names, self.library).written(self.monomials)

    def to_raw(self) -> Polynomial:
        """Return the same polynomial in powers of x, with products of x - shift multiplied out.

        A formula in x - mean usually gets more terms.  They nearly cancel if the shifts are large
        beside the spread of the inputs, and digits are lost then.

        Examples
        --------
        >>> law = Polynomial(((0, 1), (0,)), np.array([2.0, 1.0]), 0.5, ("a", "b"), np.ones(2))
        >>> print(law)
        y = 0.5 + 2 (a - 1) (b - 1) + 1 (a - 1)
        >>> print(law.to_raw())
        y = 1.5 - 1 a - 2 b + 2 a b
        """
        return self.about(None)

    def about(self, shifts: Array | None) -> Polynomial:
        """Return the same polynomial in products of x less other shifts.

        Each factor is multiplied out, with s the old shift and s' the new one:

            (x - s)^d = sum_{e <= d} binom(d, e) (s' - s)^(d - e) (x - s')^e.
        """
        if self.shifts is shifts:
            return self
        moved = replace(self, shifts=shifts)
        total: dict[Monomial, float] = {}
        for m, c in zip(self.monomials, self.coefficients.tolist(), strict=True):
            expansions = []  # of each factor: (its column repeated e times, coefficient)
            for i, d in Counter(m).items():
                step = moved.shift(i) - self.shift(i)
                powers = range(d + 1) if step else (d,)
                expansions.append([((i,) * e, comb(d, e) * step ** (d - e)) for e in powers])
            for chosen in product(*expansions):
                term = tuple(sorted(chain.from_iterable(own for own, _ in chosen)))
                total[term] = total.get(term, 0.0) + c * prod(share for _, share in chosen)
        intercept = self.intercept + total.pop((), 0.0)
        terms = sorted((m for m, c in total.items() if c), key=lambda m: (len(m), m))
        coefficients = np.array([total[m] for m in terms])
        return replace(
            moved, monomials=tuple(terms), coefficients=coefficients, intercept=intercept
        )

    def shift(self, column: int) -> float:
        """Return the number subtracted from an input; 0 for a function of one."""
        if self.shifts is None or column >= len(self.names):
            return 0.0
        return float(self.shifts[column])

    names_of = text.names_of
    formula = text.formula
    to_latex = text.to_latex
    to_sympy = code.to_sympy
    to_python = code.to_python
    to_c = code.to_c
    to_excel = code.to_excel
    to_sql = code.to_sql
    to_onnx = onnx_graph.to_onnx

    def __str__(self) -> str:
        return self.formula()

    def __repr__(self) -> str:
        return f"<Polynomial {self}>"

    def _repr_latex_(self) -> str:
        return f"${self.to_latex(wrap=4)}$"
