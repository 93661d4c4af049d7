"""The unit that the errors of a fit are measured in at x: the leverage of x, from the moments.

    u(x) = sqrt(1 + h(x)),     h(x) = 1/n + (t(x) - tbar)' A^-1 (t(x) - tbar),

with t the products of inputs in the formula, tbar their mean and A their scatter over the rows of
the fit, ridge included.  h is about (terms + 1) / n among these rows, and grows without limit
outside of them, where a polynomial is no guide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.estimators.coded_table import PreparedProblem
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class Leverage:
    """u(x) of one fit: the unit that errors at x are measured in."""

    base: float  # 1/n, 0 without a free intercept
    mean: Array  # of the products of inputs
    root: Array  # (terms, terms), lower triangular: h(x) = base + |root (t(x) - mean)|^2

    @classmethod
    def of(cls, prepared: PreparedProblem, solution: Solution) -> Leverage:
        """Read it off the moments of the fit; rows are taken to weigh alike on average."""
        problem, S = prepared.problem, np.array(solution.support, dtype=np.intp)
        rows, basis = prepared.coded.rows, prepared.basis.select(solution.support)
        # Products of x - shift, in the units of the scaled monomials.
        unit = prepared.coded.scaling.invert(basis.monomials, basis.scales)
        problem = replace(problem, lam=1.0 / prepared.coded.refit_gamma)
        A = problem.hessian(S)
        # No eigenvalue lies below lam; where terms repeat each other, rounding says otherwise.
        values, vectors = np.linalg.eigh(A)
        n = rows.shape[0]
        turned = (vectors / np.sqrt(np.maximum(values, problem.lam))).T * unit
        _, upper = np.linalg.qr(turned[:, ::-1])
        root = upper[::-1, ::-1] * np.sqrt(rows.total_weight / n)
        free = not prepared.coded.rules.constant
        return cls(free / n, _six_digits(prepared.assembled.mean[S] / unit), _six_digits(root))

    def __call__(self, polynomial: Polynomial, X: Array) -> Array:
        """Return u(x) at the rows of X."""
        offset = (self._unbounded(polynomial).products(X) - self.mean) @ self.root.T
        return np.asarray(np.sqrt(1.0 + self.base + np.sum(offset**2, axis=1)))

    @staticmethod
    def _unbounded(polynomial: Polynomial) -> Polynomial:
        """Clamped inputs go on growing here, unless a function may not be defined."""
        return polynomial if polynomial.functions else replace(polynomial, ranges=None)


def _six_digits(values: Array) -> Array:
    """Round to six significant digits: the leverage is a unit, and files need not hold more."""
    return np.array([float(f"{v:.6g}") for v in values.ravel()]).reshape(values.shape)
