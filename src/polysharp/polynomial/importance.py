"""How much each term, each input and each pair of inputs matters in a polynomial.

A term's share is the part of the variance of the predictions, over the data, that is lost when the
term is left out and the other terms are fitted to the predictions anew: 1 for a formula of one
term, near 0 for a term that the others can stand in for.

The importance of a set A of inputs is the variance of the predictions that involves all of A
together, when the inputs vary independently, each as in its own column.  With c the coefficients
and a_ij the exponent of input i in term j,

    V_A = c' [ prod_{i in A} C_i * prod_{i not in A} E_i ] c,     entry by entry,
    E_i = mean(x_i^a_ij x_i^a_ik),     C_i = cov(x_i^a_ij, x_i^a_ik),

and with functions of x_i among the factors, what they and the power of x_i make in place of it.

It is a sum of squared parts of the functional analysis of variance (all parts whose set contains
A), so it is never negative, does not change with units or origins, and is exact for a
polynomial.  For one input V_A / V is the total Sobol index: the share of the variance that goes
when the input is held fixed.  For two it is the strength of their interaction: zero unless the
effect of one depends on the value of the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.linalg import qr

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array

BLOCK_ROWS = 65_536

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Importance:
    """Shares of the terms, of the inputs and of their interactions in the predictions."""

    terms: Array  # (n_terms,): share of the variance that the other terms cannot make up for
    inputs: Array  # (p,): total Sobol indices, 0 for inputs that no term uses
    pairs: dict[Pair, float]  # strongest first; the pairs that share a term

    @property
    def order(self) -> list[int]:
        """The inputs that matter, most important first."""
        return [int(i) for i in np.argsort(-self.inputs, kind="stable") if self.inputs[i] > 0.0]


def measure_importance(
    polynomial: Polynomial, X: Array, sample_weight: Array | None = None
) -> Importance:
    """Measure what matters in a polynomial over the rows of a table.

    Parameters
    ----------
    polynomial : Polynomial
        ``model.polynomial_`` of a fitted model.
    X : array (n, p)
        Rows over which the inputs vary, usually those of the fit.
    sample_weight : array (n,) or None
        Weights of the rows.

    Returns
    -------
    Importance

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 2.0], [-1.0, -1.0, 3.0]])
    >>> law = Polynomial(((0,), (0, 1)), np.array([3.0, 4.0]), 1.0, ("a", "b", "c"))
    >>> found = measure_importance(law, X)
    >>> found.inputs.round(2).tolist(), found.order
    ([1.0, 0.64, 0.0], [0, 1])
    >>> {pair: round(share, 2) for pair, share in found.pairs.items()}
    {(0, 1): 0.64}
    """
    X = np.asarray(X, dtype=np.float64)
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    weights = weights / weights.sum()
    products = _Products.of(polynomial, X, weights)
    inputs = np.zeros(len(polynomial.names))
    for i in polynomial.inputs:
        inputs[i] = products.share({i})
    inputs_of = polynomial.library.inputs_of
    together = {
        pair for m in polynomial.monomials for pair in combinations(sorted(inputs_of(m)), 2)
    }
    pairs = {pair: products.share(set(pair)) for pair in sorted(together)}
    strongest = dict(sorted(pairs.items(), key=lambda item: -item[1]))
    predicted = polynomial(X)
    variance = float(weights @ (predicted - weights @ predicted) ** 2)
    _, lost = _left_over(polynomial, X, predicted, weights, free_intercept=True)
    # A constant varies by its rounding alone.
    varies = variance > 1e-28 * float(weights @ predicted**2)
    terms = np.minimum(lost / variance, 1.0) if varies else np.zeros(len(polynomial))
    return Importance(terms, inputs, strongest)


@dataclass(frozen=True, eq=False)
class _Products:
    """E_i and C_i of every input in use, with the coefficients that go with them."""

    c: Array
    E: dict[int, Array]
    C: dict[int, Array]
    variance: float

    @classmethod
    def of(cls, polynomial: Polynomial, X: Array, weights: Array) -> _Products:
        library, blank = polynomial.library, replace(polynomial, coefficients=np.zeros(0))
        c = polynomial.coefficients.astype(np.float64)
        E, C, means = {}, {}, np.ones(len(c))
        for i in polynomial.inputs:
            own = set(library.columns_of([i]))
            parts = [tuple(a for a in m if a in own) for m in polynomial.monomials]
            factors = tuple(dict.fromkeys(parts))
            at = np.array([factors.index(part) for part in parts], dtype=np.intp)
            columns = replace(blank, monomials=factors).products(X)
            # In parts of the largest value no power overflows.
            peaks = np.abs(columns).max(axis=0)
            peaks[peaks == 0.0] = 1.0
            c, columns = c * peaks[at], columns / peaks
            mean = weights @ columns
            centred = columns - mean
            C[i] = (centred.T @ (centred * weights[:, None]))[np.ix_(at, at)]
            mean = mean[at]
            E[i] = C[i] + np.outer(mean, mean)
            means = means * mean
        c = c / (np.abs(c).max(initial=0.0) or 1.0)
        whole = np.ones((len(c), len(c)))
        for table in E.values():
            whole = whole * table
        return cls(c, E, C, float(c @ (whole - np.outer(means, means)) @ c))

    def share(self, inputs: Collection[int]) -> float:
        """V_A / V for a set of inputs A, 0 for a constant."""
        table = np.ones((len(self.c), len(self.c)))
        for i in self.E:
            table = table * (self.C[i] if i in inputs else self.E[i])
        part = float(self.c @ table @ self.c)
        # Rounding may leave a negative nothing.
        return max(0.0, part) / self.variance if self.variance > 0.0 else 0.0


def errors_without(
    polynomial: Polynomial, X: Array, y: Array, sample_weight: Array | None = None
) -> tuple[float, Array]:
    """Return how well the terms can fit y: all of them, and all but each one in turn.

    Errors are root mean squares of least squares fits to these rows, so that the second ones are
    never below the first; a term that the others can stand in for has an error near it.
    """
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    whole, without = _left_over(
        polynomial, X, y, weights / weights.sum(), polynomial.intercept != 0
    )
    return float(np.sqrt(whole)), np.sqrt(without)


def _left_over(
    polynomial: Polynomial, X: Array, target: Array, weights: Array, free_intercept: bool
) -> tuple[float, Array]:
    """Return the mean squares that least squares on the terms leaves over, and without each term.

    R of a QR factorisation of [1, terms, target], built up by blocks of rows, holds all that is
    needed: leaving out a term is leaving out a column of R.
    """
    count = len(polynomial)
    R = np.zeros((0, count + 2))
    for a in range(0, len(X), BLOCK_ROWS):
        rows = slice(a, a + BLOCK_ROWS)
        ones = np.full((len(X[rows]), 1), float(free_intercept))
        block = np.hstack([ones, term_values(polynomial, X[rows]), target[rows, None]])
        R = qr(np.vstack([R, block * np.sqrt(weights[rows, None])]), mode="r")[0]
    lengths = np.linalg.norm(R[:, :-1], axis=0)
    columns, last = R[:, :-1] / np.where(lengths > 0.0, lengths, 1.0), R[:, -1]

    def left(kept: Array) -> float:
        return float(np.sum((last - kept @ np.linalg.lstsq(kept, last)[0]) ** 2))

    whole = left(columns)
    return whole, np.array([max(whole, left(np.delete(columns, j + 1, 1))) for j in range(count)])


def term_values(polynomial: Polynomial, X: Array) -> Array:
    """Return the value of every term, coefficient included, at the rows of X."""
    return polynomial.products(X) * polynomial.coefficients
