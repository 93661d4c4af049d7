"""Whether a matrix known with errors is proved positive semidefinite: what rounding may hide.

A Cholesky factorisation of A of order n that runs to its end proves that no eigenvalue lies below
-(n + 2) u trace(A) (Rump); margins for that, and for how well A is known, are taken from its
diagonal first.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky

from polysharp.problem.bounds import UNIT, Accuracy
from polysharp.typing import Array


def semidefinite_margin(size: int, unit: float) -> float:
    """Return how far above 0 the eigenvalues of a matrix of unit diagonal must lie to be proved.

    A factorisation as here takes a factor of 1.1.  The checker, which does not know how a library
    factorises, allows for 4: what has not as much room would be proved here and refused there.
    """
    return size * (unit + 4.0 * UNIT) + 4.5 * (size + 4.0) * UNIT * size


def semidefinite(G: Array, d: Array, accuracy: Accuracy) -> bool:
    """Whether M'M - diag(d) is proved positive semidefinite, M'M being known as G.

    In units of the sizes, rounding of G and of the scaling has norm size (unit + 4u) at most, and a
    factorisation of A that runs through proves A >= -(size + 2) u trace(A) (Rump).  All of that is
    taken from the diagonal first.  Sizes include what a negative d adds, so that a column of zeros
    with all of its ridge moved is no obstacle.
    """
    size = len(d)
    if size == 0:
        return True
    sizes = np.sqrt(accuracy.sizes**2 + np.maximum(-d, 0.0))
    A = G / np.multiply.outer(sizes, sizes)
    diagonal, scaled = np.diagonal(A).copy(), d / sizes**2
    larger = max(1.0, float(np.abs(diagonal - scaled).max()))
    shift = larger * semidefinite_margin(size, accuracy.unit) + 8.0 * UNIT * np.abs(scaled)
    A.ravel()[:: size + 1] = diagonal - scaled - shift
    if not np.isfinite(A).all():
        return False
    try:
        cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True
