"""Everything a report states, computed once: the sections only arrange it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp._version import __version__
from polysharp.certificate.solution import Solution, Status
from polysharp.estimators.model import formulas_of, settings_of
from polysharp.estimators.scored_rows import ScoredRows, ranking_of, score_rows
from polysharp.plots.path_plots import SizeCurve, curves_of
from polysharp.polynomial.importance import Importance, errors_without, measure_importance
from polysharp.polynomial.polynomial import Polynomial
from polysharp.polynomial.stationary import StationaryPoints, stationary_points
from polysharp.ranking.ranking import Ranking
from polysharp.report.peers import Assessment, assess
from polysharp.typing import Array

if TYPE_CHECKING:
    from polysharp.estimators.path import Path
    from polysharp.estimators.resampling import Stability
    from polysharp.estimators.rivals_found import Rivals
    from polysharp.report.peers import Peer

MAX_LISTED = 40  # inputs of the data listed one by one
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True, eq=False)
class ReportData:
    """A fitted model, the rows it is shown on, and what the user said about it."""

    model: Any
    rows: ScoredRows
    title: str
    path: Path | None = None
    command: str | None = None
    stability: Stability | None = None
    held_out: ScoredRows | None = None
    peers: Sequence[Peer] = ()
    rivals: Rivals | None = None
    given: Assessment | None = None  # verdict on several responses
    responses: tuple[ReportData, ...] = ()  # of a model for several responses, those of each
    at: int = 0  # which of several responses

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
        verdict: Assessment | None = None,
        **about: Any,
    ) -> ReportData:
        """Check the model and the rows; of several responses, the rows of each."""
        formulas = formulas_of(model)
        rows = score_rows(model, X, y, sample_weight).each
        others = [None] * len(formulas) if held_out is None else score_rows(model, *held_out).each
        if title is None:
            *names, last = (formula.response for formula in formulas)
            few = f"{', '.join(names)} and {last}"
            listed = few if len(formulas) < 5 else f"{len(formulas)} responses"
            title = f"Formulas for {listed}" if names else f"A formula for {last}"
        whole = cls(model, rows[0], title, held_out=others[0], given=verdict, **about)
        if model.fitted_.scales is None:
            return whole
        pairs = enumerate(zip(rows, others, strict=True))
        responses = [replace(whole, rows=own, held_out=other, at=t) for t, (own, other) in pairs]
        return replace(whole, responses=tuple(responses))

    @property
    def polynomial(self) -> Polynomial:
        """The formula; of several responses the first, whose terms and inputs are those of all."""
        return formulas_of(self.model)[self.at]

    @property
    def shown(self) -> tuple[ReportData, ...]:
        """The report of each response."""
        return self.responses or (self,)

    @property
    def several(self) -> bool:
        """Whether the model is for several responses, which are scaled, if there be only one."""
        return bool(self.responses)

    @property
    def sections(self) -> list[str]:
        """The names of the sections that have something to say."""
        single = not self.several
        known = {
            "Accuracy": True,
            "Response": single and bool(self.importance.order),
            "Terms": True,
            "Certificate": True,
            "Size": single and bool(self.curves) and len(self.curves[0].sizes) > 0,
            "Rivals": single and self.rivals is not None,
            "Inputs": single,
            "Data": True,
            "Reproduce": True,
        }
        return [name for name, there in known.items() if there]

    @property
    def listed_inputs(self) -> list[int]:
        """Inputs whose columns are listed: those of the formula, others as far as they fit."""
        used = self.polynomial.inputs
        others = [i for i in range(self.p) if i not in used]
        return [*used, *others][: max(MAX_LISTED, len(used))]

    @property
    def solution(self) -> Solution:
        """The certificate."""
        found: Solution = self.model.solution_
        return found

    @property
    def proved(self) -> bool:
        """Whether the gap is within its tolerance."""
        return self.solution.status is Status.OPTIMAL

    @cached_property
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

    @cached_property
    def curves(self) -> list[SizeCurve]:
        """Errors against size: of the path given, or of the search that chose the budgets."""
        return curves_of(self.model, self.path)

    @cached_property
    def place(self) -> tuple[SizeCurve, int] | None:
        """The model's curve and its position there, where one has the model's budgets.

        The curve of another degree, gamma or coding says nothing about this model.
        """
        path, own, size = self.path, self.settings, self.settings["max_terms"]
        if path is not None and (
            (path.degree, path.center) != (own["degree"], own["center"])
            or not np.isclose(path.gamma, self.model.gamma_)
        ):
            return None
        for curve in self.curves:
            if curve.max_inputs == own["max_inputs"] and size in curve.sizes:
                return curve, curve.sizes.tolist().index(size)
        return None

    @property
    def validation(self) -> tuple[float, float] | None:
        """Mean and standard error of the model's error on rows not seen, where they are known."""
        return None if self.place is None else self.place[0].measured(self.settings["max_terms"])

    @cached_property
    def verdict(self) -> Assessment | None:
        """What to make of the predictions, where other methods or held-out rows tell."""
        if self.several:
            return self.given
        return assess(self.polynomial, self.validation, self.peers, self.held_out)

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

    @property
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
