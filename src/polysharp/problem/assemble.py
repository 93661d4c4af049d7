"""From data to the problem: y, M -> q = M'y, y'y and a way to ask about G = M'M.

With a free intercept b the best b for given w is ybar - mbar'w, and what remains is the same
problem in the centred y and M; weights v enter as rows multiplied by sqrt(v):

    sum_t v_t (y_t - b - m_t'w)^2  =  |sqrt(v) (y - ybar) - sqrt(v) (M - mbar) w|^2.

Three forms of G, by the memory they take (f monomials, n rows):

    f <= 8192                G itself, at most 512 MiB            (DenseGram)
    8 n f <= 2 GiB           the centred, weighted design         (DesignGram)
    otherwise                X, monomials evaluated when asked    (StreamedGram)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polysharp.moments.gram import DenseGram, DesignGram, Gram, StreamedGram
from polysharp.moments.moments import Moments
from polysharp.moments.moments import accumulate as accumulate_on_cpu
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import Accuracy
from polysharp.problem.problem import Problem
from polysharp.typing import Array, OnBlock

MAX_DENSE = 8192
MAX_DESIGN_BYTES = 2 * 2**30

Accumulate = Callable[..., Moments]


@dataclass(frozen=True, eq=False)
class Assembled:
    """A problem with the means that centring took away (zero without a free intercept)."""

    problem: Problem
    mean: Array
    y_mean: float

    def intercept(self, support: tuple[int, ...], w: Array) -> float:
        """Return b = ybar - mbar_S'w, the intercept that belongs to the coefficients."""
        return self.y_mean - float(self.mean[list(support)] @ w)


def assemble(
    basis: Basis,
    structure: Structure,
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    *,
    lam: float,
    fit_intercept: bool,
    accumulate: Accumulate = accumulate_on_cpu,
    on_block: OnBlock | None = None,
) -> Assembled:
    """Build the problem from rows; ``on_block(rows_done, n)`` follows the pass over them.

    ``accumulate`` makes the moments where G is held.
    """
    y_mean = weighted_mean(y, sample_weight) if fit_intercept else 0.0
    target = y - y_mean
    if len(basis) <= MAX_DENSE:
        moments = accumulate(basis, X, target, sample_weight, on_block=on_block)
        return assemble_moments(
            moments, structure, lam=lam, fit_intercept=fit_intercept, y_mean=y_mean
        )
    gram, q, yy, mean = _implicit(basis, X, target, sample_weight, fit_intercept, on_block)
    weight = float(len(y) if sample_weight is None else sample_weight.sum())
    known = _accuracy(gram, yy, len(y), weight, mean, y_mean)
    return Assembled(Problem(gram, q, yy, lam, structure, known), mean, y_mean)


def assemble_moments(
    moments: Moments, structure: Structure, *, lam: float, fit_intercept: bool, y_mean: float
) -> Assembled:
    """Build the problem from the moments of the monomials and of y - ``y_mean``."""
    gram, q, yy, mean = _dense(moments, fit_intercept)
    known = _accuracy(gram, yy, moments.n_rows, moments.weight, mean, y_mean)
    return Assembled(Problem(gram, q, yy, lam, structure, known), mean, y_mean)


def _accuracy(gram: Gram, yy: float, n: int, weight: float, mean: Array, y_mean: float) -> Accuracy:
    """Return how well the moments of n rows are known, given the means that were taken away."""
    raw = np.sqrt(np.maximum(gram.diagonal, 0.0) + weight * mean**2)
    raw_y = float(np.sqrt(max(yy, 0.0) + weight * y_mean**2))
    return Accuracy.of(gram.diagonal, yy, n, raw=raw, raw_y=raw_y)


def weighted_mean(y: Array, sample_weight: Array | None) -> float:
    """Return the mean; of equal numbers that number itself, so that they centre to zeros."""
    if y.min() == y.max():
        return float(y[0])
    return float(np.average(y, weights=sample_weight))


def _dense(moments: Moments, centred: bool) -> tuple[Gram, Array, float, Array]:
    if not centred:
        G, q, yy = moments.uncentred()
        return DenseGram(G), q, yy, np.zeros(len(q))
    return DenseGram(moments.scatter), moments.cross, moments.spread, moments.mean


def _implicit(
    basis: Basis,
    X: Array,
    target: Array,
    sample_weight: Array | None,
    centred: bool,
    on_block: OnBlock | None,
) -> tuple[Gram, Array, float, Array]:
    """Answer from the design where it fits and from X where it does not."""
    n, f = X.shape[0], len(basis)
    v = np.ones(n) if sample_weight is None else sample_weight
    root, weighted = np.sqrt(v), v * target
    mean = np.zeros(f)
    if centred:
        for rows in basis.blocks(n):
            mean += v[rows] @ basis.evaluate(X[rows])
        mean /= v.sum()
    keep = 8 * n * f <= MAX_DESIGN_BYTES
    design = np.empty((f if keep else 0, n)).T
    q, diagonal = np.zeros(f), np.zeros(f)
    for rows in basis.blocks(n):
        M = basis.evaluate(X[rows])
        M -= mean
        q += weighted[rows] @ M
        M *= root[rows, None]
        diagonal += np.einsum("tj,tj->j", M, M)
        if keep:
            design[rows] = M
        if on_block is not None:
            on_block(rows.stop, n)
    yy = float(weighted @ target)
    if keep:
        return DesignGram(design, diagonal), q, yy, mean
    return StreamedGram(basis, X, root, mean, diagonal), q, yy, mean
