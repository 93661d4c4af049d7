"""What a fit has found: one record, which every estimator holds as ``fitted_``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking
from polysharp.selection.gamma_choice import GammaChoice
from polysharp.typing import Indices

if TYPE_CHECKING:
    from polysharp.estimators.intervals import Calibration
    from polysharp.estimators.leverage import Leverage


@dataclass(frozen=True, eq=False)
class FittedModel:
    """One formula for each response, their certificate, and what the choices rested on."""

    polynomials: tuple[Polynomial, ...]
    solution: Solution
    kept_inputs: Indices
    ranking: Ranking | None = None  # None if every input was kept
    gamma_choice: GammaChoice | None = None  # None if gamma was given
    leverage: Leverage | None = None  # None in files of earlier versions
    scales: Sequence[float] | None = None  # what several responses were divided by
    calibrations: tuple[Calibration, ...] = ()  # of each response, once it is calibrated

    @property
    def polynomial(self) -> Polynomial:
        """The formula of a single response."""
        if self.scales is not None:
            raise AttributeError("a model of several responses has polynomials_")
        return self.polynomials[0]

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
