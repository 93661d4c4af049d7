"""What a fit has found: one record, which every estimator holds as ``fitted_``.

It includes the unit that errors of the fit are measured in at x, the leverage of x:

    u(x) = sqrt(1 + h(x)),     h(x) = 1/n + (t(x) - tbar)' A^-1 (t(x) - tbar),

with t the products of inputs in the formula, tbar their mean and A their scatter over the rows of
the fit, ridge included.  h is about (terms + 1) / n among these rows, and grows without limit
outside of them, where a polynomial is no guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.estimators.preparation import PreparedProblem
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking
from polysharp.selection.gamma_choice import GammaChoice
from polysharp.typing import Array, Indices

if TYPE_CHECKING:
    from polysharp.estimators.intervals import Calibration


@dataclass(frozen=True, eq=False)
class Leverage:
    """u(x) of one fit: the unit that errors at x are measured in."""

    base: float  # 1/n, 0 without a free intercept
    mean: Array  # of the products of inputs
    root: Array  # (terms, terms), lower triangular: h(x) = base + |root (t(x) - mean)|^2

    @classmethod
    def of(cls, prepared: PreparedProblem, solution: Solution) -> Leverage:
        """Read it off the moments of the fit; rows are taken to weigh alike on average."""
        S, coded = np.array(solution.support, dtype=np.intp), prepared.coded
        basis = prepared.basis.select(solution.support)
        # Products of x - shift, in the units of the scaled monomials.
        unit = coded.scaling.invert(basis.monomials, basis.scales)
        problem = replace(prepared.problem, lam=1.0 / coded.refit_gamma)
        # No eigenvalue lies below lam; where terms repeat each other, rounding says otherwise.
        values, vectors = np.linalg.eigh(problem.hessian(S))
        n = coded.rows.shape[0]
        turned = (vectors / np.sqrt(np.maximum(values, problem.lam))).T * unit
        _, upper = np.linalg.qr(turned[:, ::-1])
        root = upper[::-1, ::-1] * np.sqrt(coded.rows.total_weight / n)
        base = 0.0 if coded.rules.constant else 1.0 / n
        return cls(base, _six_digits(prepared.assembled.mean[S] / unit), _six_digits(root))

    def __call__(self, polynomial: Polynomial, X: Array) -> Array:
        """Return u(x) at the rows of X."""
        if not polynomial.functions:  # u goes on growing where inputs are clamped
            polynomial = replace(polynomial, ranges=None)
        offset = (polynomial.products(X) - self.mean) @ self.root.T
        return np.asarray(np.sqrt(1.0 + self.base + np.sum(offset**2, axis=1)))


def _six_digits(values: Array) -> Array:
    """Round to six significant digits: the leverage is a unit, and files need not hold more."""
    return np.array([float(f"{v:.6g}") for v in values.ravel()]).reshape(values.shape)


@dataclass(frozen=True, eq=False)
class FittedModel:
    """One formula for each response, their certificate, and what the choices rested on."""

    polynomials: tuple[Polynomial, ...]
    solution: Solution
    kept_inputs: Indices
    leverage: Leverage
    ranking: Ranking | None = None  # None if every input was kept
    gamma_choice: GammaChoice | None = None  # None if gamma was given
    scales: Sequence[float] | None = None  # what several responses were divided by
    calibrations: tuple[Calibration, ...] = ()  # of each response, once it is calibrated

    @property
    def polynomial(self) -> Polynomial:
        """The formula of a single response."""
        if self.scales is not None:
            raise AttributeError("a model of several responses has polynomials_")
        return self.polynomials[0]

    @property
    def coef(self) -> Array:
        """The coefficients of the terms, in the user's units; of several responses a row each."""
        rows = np.array([formula.coefficients for formula in self.polynomials])
        return rows if self.scales is not None else rows[0]

    @property
    def intercept(self) -> Any:
        """The free intercept, of several responses an array."""
        found = [formula.intercept for formula in self.polynomials]
        return found[0] if self.scales is None else np.array(found)

    @property
    def calibration(self) -> Calibration:
        """What ``calibrate`` has measured for a single response."""
        if self.scales is not None or not self.calibrations:
            raise AttributeError("calibration_ is there after calibrate, for one response")
        return self.calibrations[0]

    def training_error(self, total_weight: float) -> float:
        """Return the root mean squared error on the rows of the fit; 0 if it is not known.

        Several responses are scaled.
        """
        solution = self.solution
        r2 = solution.r2 if solution.refit is None else solution.refit.r2
        if r2 is None or not solution.total_squares:
            return 0.0
        each = len(self.polynomials) * total_weight
        return float(np.sqrt(max(0.0, 1.0 - r2) * solution.total_squares / each))

    @property
    def refit_gamma(self) -> float:
        """The gamma that the coefficients shown were estimated with."""
        return self.gamma if self.solution.refit is None else self.solution.refit.gamma

    @property
    def gamma(self) -> float:
        """The gamma of the objective that the certificate is about."""
        return self.solution.gamma
