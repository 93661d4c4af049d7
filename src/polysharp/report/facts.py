"""Everything a report states, computed once: the sections only arrange it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp._version import __version__
from polysharp.certificate.solution import Solution, Status
from polysharp.errors import InputError
from polysharp.estimators.fitted import (
    ShownRows,
    fitted_polynomial,
    laws_of,
    ranking_of,
    rows_of,
    settings_of,
)
from polysharp.estimators.intervals import calibrations
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.plots.path import SizeCurve, search_curve, size_curves
from polysharp.polynomial.importance import Importance, errors_without, measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.stationary import StationaryPoints, stationary_points
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

if TYPE_CHECKING:
    from polysharp.estimators.path import Path
    from polysharp.estimators.rivals_found import Rivals
    from polysharp.estimators.stability import Stability
    from polysharp.report.peers import Peer

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True, eq=False)
class Facts:
    """A fitted model, the rows it is shown on, and what the user said about it."""

    model: Any
    rows: ShownRows
    title: str
    path: Path | None = None
    command: str | None = None
    stability: Stability | None = None
    held_out: ShownRows | None = None
    peers: Sequence[Peer] = ()
    rivals: Rivals | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        title: str | None = None,
        sample_weight: Any = None,
        held_out: Sequence[Any] | None = None,
        **about: Any,
    ) -> Facts:
        """Check the model and the rows."""
        if hasattr(model, "polynomials_"):
            return JointFacts.of_all(model, X, y, title, sample_weight, held_out, about)
        if title is None:
            title = f"A formula for {fitted_polynomial(model).response}"
        others = None if held_out is None else rows_of(model, *held_out)
        return cls(model, rows_of(model, X, y, sample_weight), title, held_out=others, **about)

    @property
    def polynomial(self) -> Polynomial:
        """The formula."""
        return fitted_polynomial(self.model)

    @property
    def shown(self) -> tuple[Facts, ...]:
        """The facts of each response."""
        return (self,)

    @property
    def solution(self) -> Solution:
        """The certificate."""
        found: Solution = self.model.solution_
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of the fit; of a search over budgets, those of the model chosen."""
        return settings_of(self.model)

    @property
    def n(self) -> int:
        """Number of rows shown."""
        return self.rows.n

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
        searched = hasattr(self.model, "cv_results_")
        if self.path is not None and (self.path.n_splits or not searched):
            return size_curves(self.path)
        return [search_curve(self.model)] if searched else []

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
    def validation(self) -> tuple[float, float] | None:
        """Mean and standard error of the model's error on rows not seen, where they are known."""
        if self.place is None:
            return None
        curve, at = self.place
        if curve.validation_error is None or curve.std_error is None:
            return None
        error = float(curve.validation_error[at])
        return (error, float(curve.std_error[at])) if np.isfinite(error) else None

    @property
    def reference(self) -> Polynomial | None:
        """The mean of models that this one was fitted to, None where it was fitted to y."""
        return getattr(self.model, "reference_", None)

    @property
    def proved(self) -> bool:
        """Whether the gap is within its tolerance."""
        return self.solution.status is Status.OPTIMAL

    @cached_property
    def importance(self) -> Importance:
        """Shares of terms, inputs and pairs over the rows shown."""
        return measure_importance(self.polynomial, self.rows.X, self.rows.weights)

    @cached_property
    def stationary(self) -> StationaryPoints:
        """Where the formula has no slope."""
        return stationary_points(self.polynomial, self.rows.X)

    @cached_property
    def without(self) -> tuple[float, Array]:
        """Error that the terms can reach on the rows shown, and that without each of them."""
        rows = self.rows
        return errors_without(self.polynomial, rows.X, rows.observed, rows.weights)

    @cached_property
    def ranking(self) -> Ranking:
        """Scores of Algorithm 1."""
        return ranking_of(self.model, self.rows)

    @cached_property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the rows shown, X before y, as little-endian doubles."""
        digest = sha256()
        for table in (self.rows.X, *(each.rows.observed for each in self.shown)):
            digest.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    @property
    def versions(self) -> list[tuple[str, str]]:
        """What the model was, or could be, made with."""
        # A source tree may be newer than what was installed from it.
        found = [("polysharp", __version__), *((name, version(name)) for name in LIBRARIES)]
        system = f"{platform.system()} {platform.machine()}"
        return [*found, ("Python", platform.python_version()), ("system", system)]

    @cached_property
    def written(self) -> str:
        """Date of the report."""
        return datetime.now().astimezone().strftime("%Y-%m-%d")


@dataclass(frozen=True, eq=False)
class JointFacts(Facts):
    """A model of several responses; ``rows`` are those of the first."""

    faces: tuple[Facts, ...] = ()

    @classmethod
    def of_all(
        cls,
        model: Any,
        X: Any,
        y: Any,
        title: str | None,
        sample_weight: Any,
        held_out: Sequence[Any] | None,
        about: dict[str, Any],
    ) -> JointFacts:
        """Check the rows of every response."""
        laws, Y = laws_of(model), _columns(y, len(laws_of(model)))
        given: list[Any] = [None] * len(laws)
        if held_out is not None:
            other, observed, *weights = held_out
            given = [(other, column, *weights) for column in _columns(observed, len(laws)).T]
        faces = tuple(
            Facts.of(_face(model, t), X, own, sample_weight=sample_weight, held_out=apart)
            for t, (own, apart) in enumerate(zip(Y.T, given, strict=True))
        )
        names = [law.response for law in laws]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if 1 < len(names) < 5 else names[0]
        if len(names) >= 5:
            listed = f"{len(names)} responses"
        title = f"Formulas for {listed}" if title is None else title
        first = faces[0]
        return cls(model, first.rows, title, held_out=first.held_out, **about, faces=faces)

    @property
    def polynomial(self) -> Polynomial:
        """The formula of the first response: terms and inputs are those of all."""
        return self.faces[0].polynomial

    @property
    def shown(self) -> tuple[Facts, ...]:
        """The facts of each response."""
        return self.faces


def _columns(y: Any, count: int) -> Array:
    """Return the responses as columns."""
    Y = np.asarray(y, dtype=np.float64)
    if Y.ndim != 2 or Y.shape[1] != count:
        raise InputError(f"y must have {count} columns, one per response, got shape {Y.shape}")
    return Y


def _face(model: Any, t: int) -> SparsePolynomialRegressor:
    """Return one response of a model as a model of its own, to predict and to draw with."""
    law, found = laws_of(model)[t], calibrations(model)
    known = SparsePolynomialRegressor().get_params(deep=False)
    settings = settings_of(model)
    face = SparsePolynomialRegressor(**{name: settings[name] for name in known})
    face.polynomial_, face.solution_, face.gamma_ = law, model.solution_, model.gamma_
    face.n_features_in_ = model.n_features_in_
    if found:
        face.calibration_ = found[t]
    if hasattr(model, "feature_names_in_"):
        face.feature_names_in_ = model.feature_names_in_
    return face
