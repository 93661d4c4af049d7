"""What a search found and what it proved.

Status follows from objective and bound and is never assigned; why the search stopped is kept
apart from it.  ``certify`` recomputes the objective from the support alone, checks that the
support is allowed, and refuses a bound above the objective.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

from polysharp.errors import CertificateError
from polysharp.problem.problem import Problem
from polysharp.progress import Event, plural, relative_gap, rounded_down
from polysharp.typing import Array, Indices

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof

Scope = Literal["all-inputs", "kept-inputs"]

BOUND_SLACK = 1e-6  # relative excess of a bound over the objective that rounding may cause


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
class Solution:
    """A support, its coefficients and the certificate.

    Parameters
    ----------
    support : tuple of int
        Positions of the chosen monomials among those that were searched.
    coefficients : ndarray
        Their coefficients in the scaled basis; ``Polynomial`` has those in the user's units.
    objective : float
        Half the sum of squared errors plus the ridge, recomputed from the support.
    bound : float
        What no allowed polynomial can go below.
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
    """

    support: tuple[int, ...]
    coefficients: Array
    objective: float
    bound: float
    gap_tol: float
    stop: Stop
    engine: str
    gamma: float
    scope: Scope
    counters: Counters = field(default_factory=Counters)
    seconds: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    trace: tuple[Event, ...] = ()
    proof: Proof | None = None

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return relative_gap(self.objective, self.bound)

    @property
    def status(self) -> Status:
        """Optimal when the gap is within the tolerance, feasible otherwise."""
        return Status.OPTIMAL if self.gap <= self.gap_tol else Status.FEASIBLE

    def __str__(self) -> str:
        covers = (
            "over every input given" if self.scope == "all-inputs" else "over the kept inputs only"
        )
        return (
            f"{self.status} {covers}: objective {self.objective:.6g}, proven lower bound "
            f"{rounded_down(self.bound)}, gap {100 * self.gap:.3g} % "
            f"({self.engine}, gamma {self.gamma:.4g}, "
            f"{plural(self.counters.nodes, 'node')}, {plural(self.counters.cuts, 'cut')}, "
            f"{self.seconds:.2f} s; "
            f"stopped: {self.stop})"
        )


def rounding(problem: Problem, support: Indices, w: Array, linear: float | None = None) -> float:
    """Return by how much rounding may falsify c(S), or a dual value at a = y - M_S w.

    ``linear`` is the sum of |m_j'a| |m_j| / lam over the monomials that the value counts; those of
    S, where it is |w|'|m|, if not given.
    """
    norms = np.sqrt(np.maximum(problem.gram.diagonal[support], 0.0))
    fitted = float(np.abs(w) @ norms)
    reach = float(np.sqrt(problem.yy)) + fitted
    linear = fitted if linear is None else linear
    return 4.0 * (len(support) + 16.0) * float(np.finfo(float).eps) * reach * (reach + linear)


def dual_bound(problem: Problem, support: Indices, w: Array) -> float:
    """Lower bound on the l-sparse optimum from one residual a = y - M_S w, safely rounded down.

    Valid for any w, the dual of the perspective relaxation at the best multiple t of a::

        1/2 (y'a)^2 / (|a|^2 + gamma top_l((m_j'a)^2)),    t = y'a / (the same denominator)
    """
    ya = problem.yy - float(problem.q[support] @ w)
    z = problem.correlations(support, w)
    # |a|^2 = y'a - w'M'a, with M'a at hand.
    aa = ya - float(w @ z[support])
    top = problem.structure.max_terms
    z2 = z * z
    largest = np.argpartition(z2, len(z2) - top)[len(z2) - top :]
    denominator = aa + float(z2[largest].sum()) / problem.lam
    if ya <= 0.0 or denominator <= 0.0:
        return 0.0
    norms = np.sqrt(np.maximum(problem.gram.diagonal[largest], 0.0))
    margin = rounding(problem, support, w, float(np.abs(z[largest]) @ norms) / problem.lam)
    return max(0.0, 0.5 * ya * ya / denominator - max(1.0, ya / denominator) ** 2 * margin)


def certify(
    problem: Problem,
    support: Indices,
    bound: float,
    *,
    gap_tol: float,
    stop: Stop,
    engine: str,
    scope: Scope = "all-inputs",
    counters: Counters | None = None,
    seconds: float = 0.0,
    trace: tuple[Event, ...] = (),
    proof: Proof | None = None,
    whole: bool = True,
) -> Solution:
    """Recompute the certificate from the problem and the support, or raise.

    The bound is the better of the engine's and the one that the residual of the final model
    proves by itself; the latter only where the problem is the ``whole`` one that the
    certificate speaks of, and not a part of its monomials.  With a proof it is the bound proved.
    """
    if not problem.structure.allows(support):
        raise CertificateError(f"{engine} returned a support that breaks the rules: {support}")
    fit = problem.refit(support)
    best = max(0.0, bound)
    slack = BOUND_SLACK * fit.objective + problem.resolution
    if whole and proof is None:
        own = dual_bound(problem, fit.support, fit.w)
        # It is there to help: above the objective it is rounding, and no reason to raise.
        best = max(best, own) if own <= fit.objective + slack else best
    if not best <= fit.objective + slack:
        raise CertificateError(
            f"{engine} reported the lower bound {best!r} above the objective {fit.objective!r}"
        )
    return Solution(
        support=tuple(int(j) for j in fit.support),
        coefficients=fit.w,
        objective=fit.objective,
        bound=min(best, fit.objective),
        gap_tol=gap_tol,
        stop=stop,
        engine=engine,
        gamma=problem.gamma,
        scope=scope,
        counters=counters or Counters(),
        seconds=seconds,
        trace=trace,
        proof=proof,
    )
