"""A polynomial in the user's variables and units.

    y = intercept + sum_j coefficients_j prod_{i in monomials_j} (x_i - shifts_i)

Every coefficient is a float64 rounded once from the coded variables, and a product of powers
keeps its relative precision whatever the units, so evaluating this form loses no digits against
the coded one: the formula shown is the model that predicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polysharp.basis import Array, Basis, Monomial
from polysharp.errors import InputError, MissingSolverError

PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of few monomials.

    Parameters
    ----------
    monomials : tuple of tuples of int
        Inputs of each term with repetition: ``(0, 0, 3)`` is ``x0^2 x3``, ``()`` the constant.
    coefficients : ndarray of shape (n_terms,)
        In the user's units.
    intercept : float
        Added to every prediction.
    names : tuple of str
        Names of all inputs.
    shifts : ndarray of shape (p,) or None
        Subtracted from the inputs before anything else; None for no shift.
    response : str
        Name of the left-hand side.

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

    def __len__(self) -> int:
        return len(self.monomials)

    @property
    def degree(self) -> int:
        """Largest degree of a term, 0 for a constant."""
        return max((len(m) for m in self.monomials), default=0)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Indices of the inputs that some term uses."""
        return tuple(sorted({i for m in self.monomials for i in m}))

    @property
    def powers(self) -> NDArray[np.intp]:
        """Exponent of input i in term j, shape (n_terms, p)."""
        table = np.zeros((len(self), len(self.names)), dtype=np.intp)
        for j, m in enumerate(self.monomials):
            np.add.at(table[j], list(m), 1)
        return table

    @property
    def term_names(self) -> tuple[str, ...]:
        """Readable name of every term, as the formula shows it."""
        return tuple(self._term(m, _plain_power, " ") or "1" for m in self.monomials)

    def __call__(self, X: ArrayLike) -> Array:
        """Evaluate at the rows of X, shape (n, p)."""
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise InputError(
                f"X must have shape (n, {len(self.names)}), one column per input, "
                f"got shape {table.shape}"
            )
        used = list(self.inputs)
        position = {i: a for a, i in enumerate(used)}
        local = tuple(tuple(position[i] for i in m) for m in self.monomials)
        basis = Basis(len(used), self.degree, local)
        y = np.full(table.shape[0], self.intercept)
        for rows in basis.blocks(table.shape[0]):
            block = table[rows][:, used]
            if self.shifts is not None:
                block = block - self.shifts[used]
            y[rows] += basis.evaluate(block, scaled=False) @ self.coefficients
        return y

    def __str__(self) -> str:
        return self.formula()

    def formula(self, digits: int = 4) -> str:
        """Return the formula as text, coefficients with so many significant digits."""
        return self._write(
            lambda c: f"{c:.{digits}g}", lambda m: self._term(m, _plain_power, " "), self.response
        )

    def to_latex(self, digits: int = 4) -> str:
        r"""Return the formula in LaTeX mathematics.

        Examples
        --------
        >>> Polynomial(((0, 0),), np.array([2.0]), 1e-6, ("x0",)).to_latex()
        '\\mathrm{y} = 1 \\times 10^{-6} + 2\\, \\mathrm{x0}^{2}'
        """

        def number(c: float) -> str:
            mantissa, _, exponent = f"{c:.{digits}g}".partition("e")
            return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else mantissa

        def term(m: Monomial) -> str:
            return (r"\, " if m else "") + self._term(m, _latex_power, r"\, ")

        return self._write(number, term, _latex_name(self.response), glue="")

    def to_sympy(self) -> Any:
        """Return the right-hand side as a SymPy expression in symbols of the inputs' names."""
        try:
            import sympy
        except ImportError as error:
            raise MissingSolverError("to_sympy needs the package sympy: pip install sympy") from (
                error
            )
        symbols = [sympy.Symbol(name) for name in self.names]
        shifts = np.zeros(len(self.names)) if self.shifts is None else self.shifts
        expression = sympy.Float(self.intercept)
        for m, c in zip(self.monomials, self.coefficients, strict=True):
            factors = [symbols[i] - float(shifts[i]) if shifts[i] else symbols[i] for i in m]
            expression += float(c) * sympy.Mul(*factors)
        return expression

    def _write(
        self,
        number: Callable[[float], str],
        term: Callable[[Monomial], str],
        response: str,
        glue: str = " ",
    ) -> str:
        """Join signed terms; the intercept stands first unless it is zero and others exist."""
        parts: list[tuple[float, str]] = []
        if self.intercept != 0.0 or not self.monomials:
            parts.append((self.intercept, number(abs(self.intercept))))
        for m, c in zip(self.monomials, self.coefficients, strict=True):
            parts.append((float(c), (number(abs(float(c))) + glue + term(m)).rstrip()))
        first = "-" if parts[0][0] < 0 else ""
        rest = "".join(f" {'-' if c < 0 else '+'} {text}" for c, text in parts[1:])
        return f"{response} = {first}{parts[0][1]}{rest}"

    def _term(self, m: Monomial, power: Callable[[str, float, int], str], glue: str) -> str:
        shifts = self.shifts
        return glue.join(
            power(self.names[i], 0.0 if shifts is None else float(shifts[i]), m.count(i))
            for i in dict.fromkeys(m)
        )


def _plain_power(name: str, shift: float, exponent: int) -> str:
    base = name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
    if shift:
        base = f"({base} {'-' if shift > 0 else '+'} {abs(shift):.6g})"
    return base if exponent == 1 else f"{base}^{exponent}"


def _latex_name(name: str) -> str:
    text = re.sub(r"([_%&#$ {}])", r"\\\1", name)
    return rf"\mathrm{{{text}}}"


def _latex_power(name: str, shift: float, exponent: int) -> str:
    base = _latex_name(name)
    if shift:
        base = rf"({base} {'-' if shift > 0 else '+'} {abs(shift):.6g})"
    return base if exponent == 1 else f"{base}^{{{exponent}}}"
