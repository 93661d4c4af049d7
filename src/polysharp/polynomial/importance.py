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
effect of one depends on the value of the other.  With mean(x_i^a_ij) mean(x_i^a_ik) in the place
of E_i only the part of A alone is left: for one input the first-order Sobol index, the share of the
variance that goes on average once the input is known.

Sobol indices vary the inputs independently, which rows seldom do.  Beside them stands the share
over the rows themselves: the variance of the predictions that is lost when all terms with an input
are left out and the others are fitted to the predictions anew.  An input that others can stand in
for has a small one, whatever its Sobol index.  None of them says what causes what, nor how well the
response itself is explained.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    first: Array  # (p,): first-order Sobol indices
    data: Array  # (p,): share of the variance that terms without the input cannot make up for

    @property
    def order(self) -> list[int]:
        """The inputs that matter, most important first."""
        return [int(i) for i in np.argsort(-self.inputs, kind="stable") if self.inputs[i] > 0.0]


def measure_importance(
    polynomial: Polynomial, X: Array, sample_weight: Array | None = None
) -> Importance:
    """Return the ``Importance`` of terms and inputs of a polynomial over the rows of a table.

    Parameters
    ----------
    polynomial : Polynomial
        ``model.polynomial_`` of a fitted model.
    X : array (n, p)
        Rows over which the inputs vary, usually those of the fit.
    sample_weight : array (n,) or None
        Weights of the rows.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 2.0], [-1.0, -1.0, 3.0]])
    >>> law = Polynomial(((0,), (0, 1)), np.array([3.0, 4.0]), 1.0, ("a", "b", "c"))
    >>> found = measure_importance(law, X)
    >>> found.inputs.round(2).tolist(), found.order
    ([1.0, 0.64, 0.0], [0, 1])
    >>> {pair: round(share, 2) for pair, share in found.pairs.items()}
    {(0, 1): 0.64}
    >>> found.first.round(2).tolist(), found.data.round(2).tolist()
    ([0.36, 0.0, 0.0], [1.0, 0.64, 0.0])
    """
    X = np.asarray(X, dtype=np.float64)
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    weights = weights / weights.sum()
    products = _Products.of(polynomial, X, weights)
    used = list(polynomial.inputs)
    inputs, first, data = np.zeros((3, len(polynomial.names)))
    inputs[used] = [products.share({i}) for i in used]
    first[used] = [products.share({i}, alone=True) for i in used]
    inputs_of = polynomial.library.inputs_of
    together = {
        pair for m in polynomial.monomials for pair in combinations(sorted(inputs_of(m)), 2)
    }
    pairs = {pair: products.share(set(pair)) for pair in sorted(together)}
    strongest = dict(sorted(pairs.items(), key=lambda item: -item[1]))
    predicted = polynomial(X)
    variance = float(weights @ (predicted - weights @ predicted) ** 2)
    count = len(polynomial)
    groups = [[j] for j in range(count)]
    groups += [[j for j, m in enumerate(polynomial.monomials) if i in inputs_of(m)] for i in used]
    _, lost = _left_over(polynomial, X, predicted, weights, True, groups)
    # A constant varies by its rounding alone.
    varies = variance > 1e-28 * float(weights @ predicted**2)
    shares = np.minimum(lost / variance, 1.0) if varies else np.zeros(len(lost))
    data[used] = shares[count:]
    return Importance(shares[:count], inputs, strongest, first, data)


@dataclass(frozen=True, eq=False)
class _Products:
    """E_i and C_i of every input in use, with the coefficients that go with them."""

    c: Array
    E: dict[int, Array]
    C: dict[int, Array]
    means: dict[int, Array]
    variance: float

    @classmethod
    def of(cls, polynomial: Polynomial, X: Array, weights: Array) -> _Products:
        library, blank = polynomial.library, replace(polynomial, coefficients=np.zeros(0))
        c = polynomial.coefficients.astype(np.float64)
        E, C, means = {}, {}, {}
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
            means[i] = mean[at]
            E[i] = C[i] + np.outer(means[i], means[i])
        c = c / (np.abs(c).max(initial=0.0) or 1.0)
        whole = np.prod([np.ones((len(c), len(c))), *E.values()], axis=0)
        product = np.prod([np.ones(len(c)), *means.values()], axis=0)
        return cls(c, E, C, means, float(c @ (whole - np.outer(product, product)) @ c))

    def share(self, inputs: Collection[int], *, alone: bool = False) -> float:
        """V_A / V for a set of inputs A, 0 for a constant; ``alone`` leaves larger sets out."""
        table = np.ones((len(self.c), len(self.c)))
        for i in self.E:
            others = np.outer(self.means[i], self.means[i]) if alone else self.E[i]
            table = table * (self.C[i] if i in inputs else others)
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


def without_ridge(
    polynomial: Polynomial,
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    *,
    free_intercept: bool = True,
) -> Array:
    """Return the coefficients that least squares gives the same terms on some rows.

    Beside those of the model they show how far its ridge shrinks them.  Of terms that cannot be
    told apart on these rows, all get a part.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> without_ridge(Polynomial(((0,),), np.array([1.8]), 0.3, ("a",)), X, 2.0 * X[:, 0]).round(9)
    array([2.])
    """
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    columns, last, lengths = _reduced(polynomial, X, y, weights / weights.sum(), free_intercept)
    factors = np.linalg.lstsq(columns, last)[0] / lengths
    return np.asarray(polynomial.coefficients * factors[1:])


def _left_over(
    polynomial: Polynomial,
    X: Array,
    target: Array,
    weights: Array,
    free_intercept: bool,
    groups: Sequence[Collection[int]] | None = None,
) -> tuple[float, Array]:
    """Return the mean squares that least squares on the terms leaves over.

    With all terms, and without each group of them; by default without each term.
    """
    columns, last, _ = _reduced(polynomial, X, target, weights, free_intercept)

    def left(kept: Array) -> float:
        return float(np.sum((last - kept @ np.linalg.lstsq(kept, last)[0]) ** 2))

    whole = left(columns)
    groups = [[j] for j in range(len(polynomial))] if groups is None else groups
    without = [left(np.delete(columns, [j + 1 for j in group], 1)) for group in groups]
    return whole, np.maximum(whole, without)


def _reduced(
    polynomial: Polynomial, X: Array, target: Array, weights: Array, free_intercept: bool
) -> tuple[Array, Array, Array]:
    """Return R of [1, terms, target], built up by blocks of rows; all that least squares needs.

    Its columns have length one, their lengths come last; the target's column stands between them.
    Leaving out a term is leaving out a column.
    """
    R = np.zeros((0, len(polynomial) + 2))
    for a in range(0, len(X), BLOCK_ROWS):
        rows = slice(a, a + BLOCK_ROWS)
        ones = np.full((len(X[rows]), 1), float(free_intercept))
        values = polynomial.products(X[rows]) * polynomial.coefficients
        block = np.hstack([ones, values, target[rows, None]])
        R = qr(np.vstack([R, block * np.sqrt(weights[rows, None])]), mode="r")[0]
    lengths = np.linalg.norm(R[:, :-1], axis=0)
    lengths[lengths == 0.0] = 1.0
    return R[:, :-1] / lengths, R[:, -1], lengths
