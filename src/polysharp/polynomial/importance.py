"""How much each term, each input and each pair of inputs matters in a polynomial.

A term's share is the part of the variance of the predictions over the data that is lost when the
term is dropped and the other terms are refitted to the predictions: 1 for a formula of one term,
near 0 for a term that the others can replace.

The importance of a set A of inputs is the variance of the predictions that involves all inputs of A
at once, with the inputs varying independently, each as in its own column.  With c the coefficients
and a_ij the exponent of input i in term j,

    V_A = c' [ prod_{i in A} C_i * prod_{i not in A} E_i ] c,     entry by entry,
    E_i = mean(x_i^a_ij x_i^a_ik),     C_i = cov(x_i^a_ij, x_i^a_ik).

If functions of x_i are factors, their product with the power of x_i takes the place of x_i^a_ij.

V_A is a sum of squared components of the functional analysis of variance, all those whose set
contains A.  It is never negative, does not depend on units or origins, and is exact for a
polynomial.  For one input V_A / V is the total Sobol index: the share of the variance that vanishes
if the input is held fixed.  For two it is the strength of their interaction: zero unless the effect
of one depends on the value of the other.  With mean(x_i^a_ij) mean(x_i^a_ik) in place of E_i only
the component of A itself remains; for one input this is the first-order Sobol index, the share of
the variance that vanishes on average once the input is known.

Sobol indices assume independent inputs, and rows seldom have them.  ``data`` therefore holds the
share over the rows themselves: the variance of the predictions that is lost when all terms with an
input are dropped and the others are refitted.  It is small for an input that others can replace,
whatever its Sobol index.  None of these numbers shows a cause, or how well the response itself is
explained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.linalg import qr

from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array

BLOCK_ROWS = 65_536  # rows that are evaluated at a time

Pair = tuple[int, int]
Triangle = tuple[Array, Array, Array]  # columns at length 1, the target, and their lengths before


@dataclass(frozen=True, eq=False)
class Importance:
    """Shares of the terms, of the inputs and of their interactions in the predictions."""

    terms: Array  # (n_terms,): share of the variance that the other terms cannot replace
    inputs: Array  # (p,): total Sobol indices, 0 for inputs that are not in use
    pairs: dict[Pair, float]  # pairs of inputs in one term, the strongest first
    first: Array  # (p,): first-order Sobol indices
    data: Array  # (p,): share of the variance that terms without the input cannot replace

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
    weights, used = _shares(X, sample_weight), list(polynomial.inputs)
    share, inputs_of = _shares_of_inputs(polynomial, X, weights), polynomial.library.inputs_of
    inputs, first, data = np.zeros((3, len(polynomial.names)))
    inputs[used] = [share({i}) for i in used]
    first[used] = [share({i}, alone=True) for i in used]
    joint = {pair for m in polynomial.monomials for pair in combinations(sorted(inputs_of(m)), 2)}
    pairs = {pair: share(set(pair)) for pair in sorted(joint)}
    strongest = dict(sorted(pairs.items(), key=lambda item: -item[1]))
    predicted = polynomial(X)
    variance = float(weights @ (predicted - weights @ predicted) ** 2)
    terms = np.zeros(len(polynomial))
    # The predictions of a constant vary by rounding alone.
    if variance > 1e-28 * float(weights @ predicted**2):
        fit = _triangle(polynomial, X, predicted, weights, True)
        groups = {
            i: [j for j, m in enumerate(polynomial.monomials) if i in inputs_of(m)] for i in used
        }
        terms = np.array([min(1.0, _residual(fit, [j]) / variance) for j in range(len(terms))])
        data[used] = [min(1.0, _residual(fit, groups[i]) / variance) for i in used]
    return Importance(terms, inputs, strongest, first, data)


def _shares_of_inputs(polynomial: Polynomial, X: Array, weights: Array) -> Callable[..., float]:
    """Return the function of a set of inputs A that gives V_A / V."""
    library, blank = polynomial.library, replace(polynomial, coefficients=np.zeros(0))
    c = polynomial.coefficients.astype(np.float64)
    E, C, apart = {}, {}, {}  # of every input in use; the third has E_i without the covariance
    for i in polynomial.inputs:
        own = set(library.columns_of([i]))
        parts = [tuple(a for a in m if a in own) for m in polynomial.monomials]
        factors = tuple(dict.fromkeys(parts))
        at = np.array([factors.index(part) for part in parts], dtype=np.intp)
        columns = replace(blank, monomials=factors).products(X)
        # Divided by their largest value, powers cannot overflow.
        peaks = np.abs(columns).max(axis=0)
        peaks[peaks == 0.0] = 1.0
        c, columns = c * peaks[at], columns / peaks
        mean = weights @ columns
        centred = columns - mean
        C[i] = (centred.T @ (centred * weights[:, None]))[np.ix_(at, at)]
        apart[i] = np.outer(mean[at], mean[at])
        E[i] = C[i] + apart[i]
    c = c / (np.abs(c).max(initial=0.0) or 1.0)
    ones = np.ones((len(c), len(c)))
    whole = np.prod([ones, *E.values()], axis=0) - np.prod([ones, *apart.values()], axis=0)
    variance = float(c @ whole @ c)

    def share(inputs: Collection[int], *, alone: bool = False) -> float:
        """Return V_A / V; with ``alone`` the component of A itself."""
        others = apart if alone else E
        table = np.prod([ones, *(C[i] if i in inputs else others[i] for i in E)], axis=0)
        # Rounding may make a zero negative.
        return max(0.0, float(c @ table @ c)) / variance if variance > 0.0 else 0.0

    return share


def errors_without(
    polynomial: Polynomial, X: Array, y: Array, sample_weight: Array | None = None
) -> tuple[float, Array]:
    """Return the error of least squares on all terms, and on all but each one in turn.

    Errors are root mean squares on these rows.  Dropping a term never lowers the error, and hardly
    raises it if the other terms can replace the term.
    """
    fit = _triangle(polynomial, X, y, _shares(X, sample_weight), polynomial.intercept != 0)
    without = [_residual(fit, [j]) for j in range(len(polynomial))]
    return float(np.sqrt(_residual(fit))), np.sqrt(without)


def without_ridge(
    polynomial: Polynomial,
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    *,
    free_intercept: bool = True,
) -> Array:
    """Return the least-squares coefficients of the same terms on some rows.

    The difference to the model's coefficients is the effect of its ridge.  Terms that are equal on
    these rows share the coefficient.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> without_ridge(Polynomial(((0,),), np.array([1.8]), 0.3, ("a",)), X, 2.0 * X[:, 0]).round(9)
    array([2.])
    """
    columns, target, lengths = _triangle(
        polynomial, X, y, _shares(X, sample_weight), free_intercept
    )
    factors = np.linalg.lstsq(columns, target)[0] / lengths
    return np.asarray(polynomial.coefficients * factors[1:])


def _shares(X: Array, sample_weight: Array | None) -> Array:
    """Return the weights of the rows, with sum 1."""
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    return np.asarray(weights / weights.sum())


def _triangle(
    polynomial: Polynomial, X: Array, target: Array, weights: Array, free_intercept: bool
) -> Triangle:
    """Return R of [1, terms, target], all that least squares needs, updated by blocks of rows."""
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


def _residual(triangle: Triangle, dropped: Collection[int] = ()) -> float:
    """Return the mean squared residual of a fit without some terms."""
    columns, target, _ = triangle
    kept = np.delete(columns, [j + 1 for j in dropped], 1)
    left = float(np.sum((target - kept @ np.linalg.lstsq(kept, target)[0]) ** 2))
    return max(left, _residual(triangle)) if dropped else left  # rounding may lower it
