"""Curvature that may move from the loss into the ridge.

On the monomials still alive, any diagonal d >= 0 with G - diag(d) >= 0 gives the same problem on
binary points and a tighter relaxation.  At the optimum (w, s) of the relaxation its value grows
at the rate 1/2 w_j^2 (1/s_j - 1) per unit of d_j, so those rates are the weights of the small
semidefinite programme

    max  sum_j rate_j d_j   s.t.  G - diag(d) >= 0,  d >= 0,

solved here to low accuracy by coordinate ascent on  rate'd + mu log det(G - diag(d)):  with
H = (G - diag(d))^-1 the best step of one coordinate is 1/H_jj - mu/rate_j, a rank-one change
of H.  What comes out is a proposal: ``bounds.semidefinite`` proves it or not.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, eigh, get_lapack_funcs

from polysharp.typing import Array

LARGEST = 1500  # beyond this many monomials even the eigenvalue costs more than it gives
LARGEST_ASCENT = 400


def curvature(G: Array, rates: Array | None, margin: float, sweeps: int = 4) -> Array:
    """Return d >= 0 with G - diag(d) positive semidefinite by about ``margin``; zeros if none.

    The margin is that of the matrix with unit diagonal.
    """
    size = G.shape[0]
    none = np.zeros(size)
    scale = np.diagonal(G).copy()
    if size == 0 or size > LARGEST or not np.all(scale > 0.0) or not np.isfinite(G).all():
        return none
    root = np.sqrt(scale)
    C = G / np.multiply.outer(root, root)  # unit diagonal, so one tolerance serves all columns
    smallest = float(eigh(C, eigvals_only=True, subset_by_index=[0, 0])[0])
    level = smallest - margin
    if level <= 10.0 * margin:
        return none
    d = np.full(size, 0.98 * level)
    if rates is not None and size <= LARGEST_ASCENT:
        d = _ascend(C, d, rates * scale, sweeps)
    return d * scale


def _ascend(C: Array, d: Array, rates: Array, sweeps: int) -> Array:
    """Coordinate ascent on the barrier problem, from a strictly feasible d."""
    top = float(rates.max())
    if top <= 0.0:
        return d
    rates = np.maximum(rates, 1e-3 * top)
    H = _inverse(C - np.diag(d))
    d = d.copy()
    mu = 0.3 * float(rates @ d) / len(d)
    for _ in range(sweeps):
        for j in range(len(d)):
            step = max(1.0 / H[j, j] - mu / rates[j], -d[j])
            if abs(step) * H[j, j] < 1e-6:
                continue
            column = H[:, j].copy()
            H += np.multiply.outer((step / (1.0 - step * H[j, j])) * column, column)
            d[j] += step
        mu *= 0.3
        try:
            H = _inverse(C - np.diag(d))
        except np.linalg.LinAlgError:  # at the boundary to rounding; the caller steps back
            break
    return d


def _inverse(A: Array) -> Array:
    (potri,) = get_lapack_funcs(("potri",), (A,))
    L = cholesky(A, lower=True)
    H, _ = potri(L, lower=True)
    return np.asarray(np.tril(H) + np.tril(H, -1).T)
