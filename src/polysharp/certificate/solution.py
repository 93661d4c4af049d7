"""What a search found and what it proved.

Status follows from objective and bound and is never assigned; why the search stopped is kept
apart from it.  ``certify`` recomputes the objective from the support alone, rounded up, checks that
the support is allowed, and refuses a bound above the objective.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polysharp.certificate.proved_at import proved_at
from polysharp.errors import CertificateError
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Event, relative_gap
from polysharp.typing import Array, Indices
from polysharp.wording import plural, r2_decimals, rounded_down, rounded_up

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof

Scope = Literal["all-inputs", "kept-inputs"]

BOUND_SLACK = 1e-6  # relative excess of a bound over the objective that is cut off silently


class Status(StrEnum):
    """What is proved about the objective."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


class Stop(StrEnum):
    """Why a search ended; the values are the user's messages."""

    PROVED = "the gap tolerance was reached"
    EXHAUSTED = "the whole search space was examined"
    LOCAL = "no single swap improves the model"
    TIME = "the time limit was reached"
    INTERRUPTED = "interrupted by the user"
    STALLED = "the solver could not make further progress within its tolerances"
    STEADY = "the bound had stopped moving in proportion to the time spent"


@dataclass(frozen=True)
class Counters:
    """How much work a search did.

    Parameters
    ----------
    nodes : int
        Cases of a search tree, or supports that enumeration has visited.
    cuts : int
        Inequalities that the cutting-plane engines have added.
    rounds : int
        Integer programmes of such an engine, linear ones at its root included; walks of the local
        search; passes over all monomials where they are priced.
    """

    nodes: int = 0
    cuts: int = 0
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class RidgeRefit:
    """Coefficients of the chosen terms, estimated with another ridge than chose them.

    Parameters
    ----------
    gamma : float
        The ridge is 1 / gamma.
    coefficients : ndarray
        In the scaled basis, as those of the solution.
    r2 : float or None
        R2 on the rows of the fit.
    """

    gamma: float
    coefficients: Array
    r2: float | None


@dataclass(frozen=True, eq=False)
class Solution:
    """A support, its coefficients and the certificate.

    Parameters
    ----------
    support : tuple of int
        Positions of the chosen monomials among those that were searched.
    coefficients : ndarray
        Their coefficients in the scaled basis; ``Polynomial`` has those in the user's units.
    objective : float
        Half the sum of squared errors plus the ridge, recomputed from the support, rounded up.
    bound : float
        Lower bound on the objective of every allowed polynomial.
    gap_tol : float
        The gap that counts as optimal.
    stop : Stop
        Why the search ended.
    engine : str
        Name of the engine.
    gamma : float
        The ridge is 1 / gamma.
    scope : {"all-inputs", "kept-inputs"}
        Whether the bound covers every input given, or only those that the triage kept.
    counters : Counters
        Work done.
    seconds : float
        Time of the search.
    times : dict
        Seconds of the stages of the fit, such as ``preparation``, ``search`` and ``total``.
    trace : tuple of Event
        The course of objective and bound.
    proof : Proof or None
        Proof of the bound, where the engine has written one.
    total_squares : float or None
        Sum of squares of the response on the rows of the fit, weighted, about its mean where the
        intercept is free; None where it is not known.
    max_terms, max_inputs : int or None
        The budgets that the bound is about; None if one is not known or excludes nothing.
    proved_at : tuple of float or None
        If the terms are not proved best: the least and largest gamma of a range throughout which
        they are.
    refit : RidgeRefit or None
        The coefficients shown, if another ridge than ``gamma`` was used for them.
    """

    support: tuple[int, ...]
    coefficients: Array
    objective: float
    bound: float
    gap_tol: float
    stop: Stop
    engine: str
    gamma: float
    scope: Scope = "all-inputs"
    counters: Counters = field(default_factory=Counters)
    seconds: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    trace: tuple[Event, ...] = ()
    proof: Proof | None = None
    total_squares: float | None = None
    max_terms: int | None = None
    max_inputs: int | None = None
    proved_at: tuple[float, float] | None = None
    refit: RidgeRefit | None = None

    @property
    def shown(self) -> Array:
        """The coefficients of the formula shown, in the scaled basis."""
        return self.coefficients if self.refit is None else self.refit.coefficients

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return relative_gap(self.objective, self.bound)

    @property
    def status(self) -> Status:
        """Optimal when the gap is within the tolerance, feasible otherwise."""
        return Status.OPTIMAL if self.gap <= self.gap_tol else Status.FEASIBLE

    @property
    def r2(self) -> float | None:
        """R2 on the rows of the fit, the penalty on the coefficients left out."""
        if not self.total_squares:
            return None
        penalty = float(np.vdot(self.coefficients, self.coefficients)) / self.gamma
        return 1.0 - (2.0 * self.objective - penalty) / self.total_squares

    @property
    def r2_ceiling(self) -> float | None:
        """The R2 that no allowed polynomial exceeds without larger coefficients.

        Where w are the coefficients of this model in the scaled basis and v those of another one
        with ``|v| <= |w|``, the sum of its squared errors is at least ``2 bound - |w|^2 / gamma``,
        since its objective is not below the bound.
        """
        if self.r2 is None or not self.total_squares:
            return None
        return min(1.0, self.r2 + 2.0 * (self.objective - self.bound) / self.total_squares)

    def in_words(self) -> str:
        """Return the claim of the certificate in one clause."""
        kind = self._budgets()
        if self.status is not Status.OPTIMAL:
            lower = f"could be up to {100.0 * self.gap:.3g} % lower"
            return f"Not proved best: {kind} the objective {lower}"
        if self.refit is not None:
            return (
                f"Proved best: no other formula {kind} has a smaller penalised error at "
                f"gamma {self.gamma:.4g}; coefficients were then estimated with gamma "
                f"{self.refit.gamma:.4g}"
            )
        other = "no formula" if self.coefficients.ndim == 1 else "no other choice of terms"
        return f"Proved best: {other} {kind} fits these rows better"

    def _budgets(self) -> str:
        """Return what the bound is about, as "with at most 5 terms in 4 inputs"."""
        kind = "within these budgets"
        if self.max_terms is not None:
            kind = f"with at most {plural(self.max_terms, 'term')}"
            if self.max_inputs is not None:
                kind += f" in {plural(self.max_inputs, 'input')}"
        return kind if self.scope == "all-inputs" else f"{kind} among the inputs kept"

    def _elsewhere(self) -> str | None:
        """Return at which ridges these terms are proved best, None if nothing is to be said."""
        if self.proved_at is None or self.status is Status.OPTIMAL:
            return None
        low, high = self.proved_at
        more = "" if low == high else f" and stronger ridges, down to {low:.2g}"
        return f"These terms are proved the best of their number at gamma {high:.2g}{more}"

    def in_r2(self) -> str | None:
        """Return the limit of other formulas in terms of R2, None if it is not known."""
        if self.r2 is None or self.r2_ceiling is None:
            return None
        if self.refit is not None:
            own = "not known" if self.refit.r2 is None else f"{self.refit.r2:.4f}"
            limit = rounded_up(min(1.0, self.r2_ceiling))
            return (
                f"R2 {own}; at gamma {self.gamma:.4g} these terms have {self.r2:.4f}, and others "
                f"at most {limit} without larger coefficients"
            )
        own = f"R2 {self.r2:.{r2_decimals(self.r2_ceiling)}f}"
        if self.coefficients.ndim > 1:  # a row for each response
            own = f"mean {own}"
        if own.endswith(" 1.000000"):
            return own  # nothing can be better
        if self.r2_ceiling >= 1.0:
            return f"{own}; how far another choice of terms could get is not known"
        return f"{own}; at most {rounded_up(self.r2_ceiling)} without larger coefficients"

    def _repr_html_(self) -> str:
        first, *others = str(self).splitlines()
        return f"<p><b>{escape(first)}</b><br>{'<br>'.join(map(escape, others))}</p>"

    def __repr__(self) -> str:
        return (
            f"<Solution {self.status}, objective {self.objective:.6g}, gap {100 * self.gap:.3g} %>"
        )

    def __str__(self) -> str:
        covers = "every input given" if self.scope == "all-inputs" else "the kept inputs only"
        lines = [
            self.in_words(),
            self.in_r2(),
            self._elsewhere(),
            f"{self.status}: objective {self.objective:.6g}, proven lower bound "
            f"{rounded_down(self.bound)}, gap {100.0 * self.gap:.3g} %, over {covers}",
            f"{self.engine}, gamma {self.gamma:.4g}, {plural(self.counters.nodes, 'node')}, "
            f"{plural(self.counters.cuts, 'cut')}, {self.seconds:.2f} s; stopped: {self.stop}",
        ]
        return "\n".join(line for line in lines if line is not None)


def certify(
    problem: Problem,
    support: Indices,
    bound: float,
    *,
    engine: str,
    proof: Proof | None = None,
    whole: bool = True,
    **facts: Any,
) -> Solution:
    """Recompute the certificate from the problem and the support, or raise.

    The bound is the better of the engine's and the one that the residual of the final model
    proves by itself; the latter only where the problem is the ``whole`` one that the
    certificate speaks of, and not a part of its monomials.  With a proof it is the bound proved.
    ``facts`` are further fields of the solution.  A model of which rounding leaves no proof that it
    costs less than none is given up for none, if the rules allow that.
    """
    if not problem.structure.allows(support):
        raise CertificateError(f"{engine} returned a support that breaks the rules: {support}")
    fit = _needed(problem, problem.refit(support))
    objective, nothing = problem.cost_at_most(fit), problem.refit(support[:0])
    if objective > nothing.objective and problem.structure.allows(nothing.support):
        fit, objective = nothing, problem.cost_at_most(nothing)
    best = bound if bound > 0.0 else 0.0  # not a number: nothing is proved
    if whole and proof is None:
        best = max(best, problem.dual_bound(fit))
    # The bounds of foreign solvers hold within their own tolerances.
    if not best <= objective * (1.0 + BOUND_SLACK) + problem.resolution:
        raise CertificateError(
            f"{engine} reported the lower bound {best!r} above the objective {objective!r}"
        )
    if whole:
        structure = problem.structure
        facts = {
            "max_terms": structure.max_terms,
            "max_inputs": structure.max_inputs if structure.inputs_bind else None,
        } | facts
    solution = Solution(
        support=tuple(int(j) for j in fit.support),
        coefficients=fit.w[0] if len(fit.w) == 1 else fit.w,
        objective=objective,
        bound=min(best, objective),
        engine=engine,
        gamma=problem.gamma,
        proof=proof,
        total_squares=problem.yy,
        **facts,
    )
    if whole and solution.status is not Status.OPTIMAL:
        at = proved_at(problem, fit.support, solution.gap_tol)
        solution = replace(solution, proved_at=at)
    return solution


def with_refit(solution: Solution, problem: Problem, gamma: float) -> Solution:
    """Return a solution with coefficients of its terms estimated with another ridge.

    The problem is the one that the positions of the support are about.  Objective and bound stay
    those at which the terms were chosen.
    """
    if gamma == solution.gamma:
        return replace(solution, refit=None)
    other = replace(problem, lam=1.0 / gamma)
    fit = other.refit(np.array(solution.support, dtype=np.intp))
    loss = 2.0 * fit.objective - other.lam * float(np.vdot(fit.w, fit.w))
    r2 = 1.0 - loss / solution.total_squares if solution.total_squares else None
    w = fit.w[0] if len(fit.w) == 1 else fit.w
    return replace(solution, refit=RidgeRefit(gamma, w, r2))


def _needed(problem: Problem, fit: Fit) -> Fit:
    """Leave out terms that a box has brought to zero, where the rules can do without them."""
    if problem.structure.boxes is None:
        return fit
    chosen = fit.w.any(axis=0)  # in any response
    if chosen.all() or not problem.structure.allows(fit.support[chosen]):
        return fit
    return Fit(fit.support[chosen], fit.w[:, chosen], fit.objective)
