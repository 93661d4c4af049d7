"""The Lasso path over monomials, and ridge refits on its supports, from the moments alone.

    min_w  1/2 |y - M w|^2 + alpha sum_j d_j |w_j|,      alpha from alpha_max downwards,

has supports that grow as alpha falls.  d_j = |m_j| makes the path the one of standardised
monomials, d_j = 1 the paper's.  scikit-learn's coordinate descent needs G, q and y'y only, so
nothing here depends on n.  For every number of terms l the path offers one support, the last
with at most l monomials; on it ridge regression with parameter gamma is

    w_S = Q (E + I / gamma)^-1 Q'q_S,      G_SS = Q E Q',

one eigendecomposition for all gammas.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Supports along falling alphas, as indices into the monomials of a problem."""

    alphas: Array
    supports: tuple[Indices, ...]

    @cached_property
    def sizes(self) -> Indices:
        """Number of monomials at each alpha."""
        return np.array([len(support) for support in self.supports], dtype=np.intp)

    def support(self, max_terms: int) -> Indices:
        """Return the last support along the path that has at most so many monomials."""
        return self.supports[int(np.flatnonzero(self.sizes <= max_terms)[-1])]


def follow(
    problem: Problem, max_terms: int, *, standardize: bool, n_alphas: int, eps: float
) -> LassoPath:
    """Follow the path from the empty support until it has more than ``max_terms`` monomials.

    The alphas fall geometrically to ``eps`` times the largest.  Where coordinate descent stops
    at its limit of iterations, as it does for nearly collinear monomials, the support it has
    reached counts.
    """
    G = problem.gram.block(np.arange(problem.size), np.arange(problem.size))
    norms = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    d = np.where(norms > 0.0, norms, 1.0) if standardize else np.ones(problem.size)
    G /= np.multiply.outer(d, d)
    q = problem.q[0] / d
    largest = float(np.abs(q).max(initial=0.0))
    alphas, supports = [largest], [np.zeros(0, dtype=np.intp)]
    w = np.zeros(problem.size)
    for alpha in largest * np.geomspace(1.0, eps, n_alphas)[1:]:
        if len(supports[-1]) > max_terms or alpha == 0.0:
            break
        w = _descend(G, q, problem.yy, float(alpha), w)
        alphas.append(float(alpha))
        supports.append(np.flatnonzero(w))
    return LassoPath(np.array(alphas), tuple(supports))


def _descend(G: Array, q: Array, yy: float, alpha: float, start: Array) -> Array:
    """Return the Lasso's coefficients at one alpha, from those at the last one."""
    # With G and q given, lasso_path takes from X only its shape and from y only y'y; one row
    # makes its alpha, which it multiplies by the number of rows, ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefficients, _ = lasso_path(
            np.zeros((1, len(q)), order="F"),
            np.array([np.sqrt(yy)]),
            alphas=np.array([alpha]),
            precompute=G,
            Xy=q,
            coef_init=start,
            check_input=False,
        )
    return np.asarray(coefficients[:, 0], dtype=np.float64)


def ridge_coefficients(problem: Problem, support: Indices, gammas: Array) -> Array:
    """Return the ridge regressions on one support, one column for each gamma."""
    values, Q = np.linalg.eigh(problem.gram.block(support, support))
    # Zero to rounding is zero: at huge gammas the inverse of rounding would be a coefficient.
    least = len(support) * np.finfo(float).eps * values.max(initial=0.0)
    values = np.where(values > least, values, np.inf)
    return np.asarray(
        Q @ ((Q.T @ problem.q[0, support])[:, None] / (values[:, None] + 1.0 / gammas))
    )
