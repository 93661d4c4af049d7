"""Everything a report states, computed once: the sections only arrange it.

Errors are weighted by the sample weights; R^2 is 1 - sum v e^2 / sum v (y - mean y)^2.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.solution import Solution, Status
from polysharp.estimators.fitted import Rows, fitted_polynomial, ranking_of, rows_of, settings_of
from polysharp.plots.path import SizeCurve, search_curve, size_curves
from polysharp.polynomial.importance import Importance, measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

if TYPE_CHECKING:
    from polysharp.estimators.path import Path
    from polysharp.estimators.stability import Stability

LIBRARIES = ("polysharp", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True, eq=False)
class Facts:
    """A fitted model, the rows it is shown on, and what the user said about it."""

    model: Any
    polynomial: Polynomial
    solution: Solution
    rows: Rows
    settings: dict[str, Any]
    path: Path | None
    title: str
    command: str | None
    stability: Stability | None

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        path: Path | None,
        title: str | None,
        command: str | None,
        sample_weight: Any,
        stability: Stability | None = None,
    ) -> Facts:
        """Check the model and the rows."""
        polynomial = fitted_polynomial(model)
        return cls(
            model=model,
            polynomial=polynomial,
            solution=model.solution_,
            rows=rows_of(model, X, y, sample_weight),
            settings=settings_of(model),
            path=path,
            title=f"A formula for {polynomial.response}" if title is None else title,
            command=command,
            stability=stability,
        )

    @property
    def n(self) -> int:
        """Number of rows shown."""
        return len(self.rows.X)

    @property
    def p(self) -> int:
        """Number of inputs of the table."""
        return len(self.polynomial.names)

    @property
    def budget(self) -> int:
        """Number of terms that were allowed."""
        return int(self.settings["max_terms"])

    @cached_property
    def curves(self) -> list[SizeCurve]:
        """Errors against size: of the path given, or of the search that chose the budgets."""
        if self.path is not None:
            return size_curves(self.path)
        return [search_curve(self.model)] if hasattr(self.model, "cv_results_") else []

    @cached_property
    def place(self) -> tuple[SizeCurve, int] | None:
        """The model's curve and its position there, where one has the model's budgets.

        The curve of another degree, gamma or coding says nothing about this model.
        """
        if self.path is not None and (
            self.path.degree != self.settings["degree"]
            or self.path.center != self.settings["center"]
            or not np.isclose(self.path.gamma, self.model.gamma_)
        ):
            return None
        for curve in self.curves:
            if curve.max_inputs == self.settings["max_inputs"] and self.budget in curve.sizes:
                return curve, int(np.flatnonzero(curve.sizes == self.budget)[0])
        return None

    @property
    def reference(self) -> Polynomial | None:
        """The mean of models that this one was fitted to, None where it was fitted to y."""
        return getattr(self.model, "reference_", None)

    @property
    def proved(self) -> bool:
        """Whether the gap is within its tolerance."""
        return self.solution.status is Status.OPTIMAL

    @cached_property
    def weights(self) -> Array:
        """Weights of the rows; they add up to one."""
        v = np.ones(self.n) if self.rows.weights is None else self.rows.weights
        return np.asarray(v / v.sum())

    @property
    def rmse(self) -> float:
        """Root mean squared error on the rows shown."""
        return float(np.sqrt(self.weights @ self.rows.residuals**2))

    @property
    def largest_error(self) -> float:
        """Largest absolute residual."""
        return float(np.abs(self.rows.residuals).max())

    @property
    def r2(self) -> float | None:
        """Share of the variance explained, None where the response does not vary."""
        y = self.rows.observed
        spread = float(self.weights @ (y - self.weights @ y) ** 2)
        return 1.0 - self.rmse**2 / spread if spread > 0.0 else None

    @cached_property
    def importance(self) -> Importance:
        """Shares of terms, inputs and pairs over the rows shown."""
        return measure_importance(self.polynomial, self.rows.X, self.rows.weights)

    @cached_property
    def ranking(self) -> Ranking:
        """Scores of Algorithm 1."""
        return ranking_of(self.model, self.rows)

    @cached_property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the rows shown, X before y, as little-endian doubles."""
        digest = sha256()
        for table in (self.rows.X, self.rows.observed):
            digest.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def versions(self) -> list[tuple[str, str]]:
        """What the model was, or could be, made with."""
        found = [(name, version(name)) for name in LIBRARIES]
        system = f"{platform.system()} {platform.machine()}"
        return [*found, ("Python", platform.python_version()), ("system", system)]

    @cached_property
    def written(self) -> str:
        """Date of the report."""
        return datetime.now().astimezone().strftime("%Y-%m-%d")
