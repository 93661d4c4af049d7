"""Data: the paper's planted polynomials, in the form every method receives them.

    X   (n, p) Gaussian inputs (AR(1) with correlation rho), divided by their root mean squares
    M   (n, f) the scaled monomials of degree 1 to r of X, columns centred;  y centred
    law the planted monomials, coefficients -1 or +1 on the scaled monomials

The paper's f counts the constant as well; here it is the free intercept, which centring removes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polysharp.monomials.basis import Basis
from polysharp.synthetic import make_sparse_polynomial
from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Planted:
    """One data set and the law behind it."""

    X: Array
    y: Array
    degree: int
    law: tuple[Monomial, ...]

    @cached_property
    def basis(self) -> Basis:
        """All monomials of degree 1 to r."""
        return Basis.full(self.X.shape[1], self.degree, constant=False)

    @cached_property
    def design(self) -> Array:
        """M with centred columns, stored by columns."""
        M = self.basis.evaluate(self.X)
        M -= M.mean(axis=0)
        return np.asfortranarray(M)

    @cached_property
    def standardised(self) -> Array:
        """M with columns of unit norm; a constant column stays zero."""
        norms = np.linalg.norm(self.design, axis=0)
        return np.asfortranarray(self.design / np.where(norms > 0.0, norms, 1.0))

    @cached_property
    def response(self) -> Array:
        """Centred y."""
        centred: Array = self.y - self.y.mean()
        return centred

    @property
    def inputs(self) -> set[int]:
        """The inputs of the law."""
        return {i for monomial in self.law for i in monomial}


def planted(
    n: int,
    seed: int,
    *,
    p: int = 25,
    degree: int = 3,
    k: int | None = None,
    terms: int = 20,
    rho: float = 0.0,
    snr_sqrt: float = 20.0,
) -> Planted:
    """Draw one data set; the defaults are the paper's phase-transition problem."""
    data = make_sparse_polynomial(n, p, degree, k, terms, snr_sqrt, seed, rho=rho)
    X = data.X / np.sqrt(np.mean(data.X**2, axis=0))
    return Planted(X, data.y, degree, data.monomials)
