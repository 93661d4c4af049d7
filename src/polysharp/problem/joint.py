"""Several responses, one support: the problem in which their costs add up.

    minimise  sum_t c_t(S)     over the supports S allowed,

with the same monomials, ridge and rules for all responses, and coefficients of its own for each,
whose boxes may differ as the units of the responses do.  What bounds one response carries over,
because everything adds: with a vector w_t and prices Z_tj for each response, no L monomials can
spend more than top_L(sum_t Z_tj).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from polysharp.moments.gram import solve_spd
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem import bounds
from polysharp.problem.bounds import Accuracy, Quadratic
from polysharp.problem.boxed_fit import solve_in_boxes
from polysharp.problem.diagonal import first_start
from polysharp.problem.problem import Fit, Problem
from polysharp.problem.propagation import States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

DENSE = 400  # monomials up to which curvature is looked for one by one
INWARDS = (0.98, 0.9, 0.5)  # multiples of a diagonal that are tried until one is proved


@dataclass(frozen=True, eq=False)
class JointProblem(Problem):
    """The problems of the responses; they share G, ridge and structure.

    Seen as one problem, yy is the sum of theirs and q_j the norm of (q_1j, q_2j, ...); coefficients
    are matrices with one row per response.
    """

    responses: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, responses: Sequence[Problem]) -> JointProblem:
        """Join problems that differ in their responses only."""
        first = responses[0]
        q = np.sqrt(np.sum([np.square(own.q) for own in responses], axis=0))
        yy = float(sum(own.yy for own in responses))
        return cls(first.gram, q, yy, first.lam, first.structure, responses=tuple(responses))

    @cached_property
    def rows(self) -> Array:
        """The q of all monomials, one row per response."""
        return np.array([own.q for own in self.responses])

    @cached_property
    def joint_boxes(self) -> Boxes:
        """The boxes of all monomials, one row per response."""
        low, high = zip(*(own.boxes for own in self.responses), strict=True)
        return Boxes(np.array(low), np.array(high))

    @cached_property
    def accuracy(self) -> Accuracy:
        """How well the moments are known, those of all responses taken together."""
        known = [own.accuracy for own in self.responses]
        unit = max(own.unit for own in known) + len(known) * bounds.UNIT  # sums over them round too
        response = float(np.sqrt(sum(own.response**2 for own in known)))
        return Accuracy(unit, known[0].sizes, response)

    def correlated(self, S: Indices) -> Array:
        """Return q of some monomials, one row per response."""
        return np.ascontiguousarray(self.rows[:, S])

    def refit(self, support: Indices) -> Fit:
        """Solve the ridge regressions on one support."""
        S = np.sort(np.asarray(support, dtype=np.intp))
        q = self.correlated(S)
        if not len(S):
            return Fit(S, q, 0.5 * self.yy)
        H = self.hessian(S)
        if self.structure.boxes is None:
            W = solve_spd(H, q.T).T
        else:
            each = zip(self.responses, q, strict=True)
            W = np.array([solve_in_boxes(H, row, own.boxes.among(S)) for own, row in each])
        value = 0.5 * (self.yy - 2.0 * float(np.vdot(q, W)) + float(np.vdot(W, W @ H)))
        if not value <= 0.5 * self.yy:  # no better than nothing, or no number at all
            return Fit(S, np.zeros_like(W), 0.5 * self.yy)
        return Fit(S, W, max(0.0, value))

    def cost_at_most(self, fit: Fit) -> float:
        """Return what a fit costs, rounded up."""
        S, H, costs = fit.support, self.hessian(fit.support), []
        for own, w in zip(self.responses, fit.w, strict=True):
            cost = 0.5 * (own.yy - float((2.0 * own.q[S] - H @ w) @ w))
            costs.append(own.cost_at_most(Fit(S, w, max(0.0, cost))))
        return float(bounds.total(sum(costs), len(costs)))

    def dual_bound(self, fit: Fit) -> float:
        """Return the lower bound that the residuals of a fit prove."""
        each = zip(self.responses, fit.w, strict=True)
        residuals = [own.residual(fit.support, w) for own, w in each]
        return bounds.residual_bound(residuals, self.structure.max_terms)


class JointCore(Subproblem):
    """A part of the monomials of a joint problem, with curvature moved to the ridge."""

    problem: JointProblem

    @cached_property
    def q(self) -> Array:
        """One row per response."""
        return self.problem.correlated(self.index)

    @cached_property
    def boxes(self) -> Boxes:
        """One row per response."""
        return self.problem.joint_boxes.among(self.index)

    @property
    def systems(self) -> list[Quadratic]:
        """The quadratics of the responses, which differ in q, boxes and what y is."""
        return [
            self.system._replace(
                q=q,
                low=low,
                high=high,
                yy=own.yy,
                response=own.accuracy.response,
                unit=own.accuracy.unit,
            )
            for q, low, high, own in zip(self.q, *self.boxes, self.problem.responses, strict=True)
        ]

    def strengthened(self, number: int) -> Subproblem | None:
        """Return the same monomials with curvature moved; few give as much as each can spare."""
        if self.size > DENSE:
            return super().strengthened(number)
        start = first_start(self.problem.hessian(self.index), 1)
        if start is None:
            return None
        for factor in INWARDS:
            # What was the best multiple is lowered until it is proved.
            system = self.curved(np.arange(self.size), factor * start.delta / 0.9)
            if system is not None:
                return replace(self, system=system, diagonal=number)
        return None

    def correlations(self, W: Array) -> Array:
        """Return rho = q - W Q."""
        A = np.flatnonzero(W.any(axis=0))
        return self.q - W[:, A] @ self.system.Q[A]

    def bound(self, W: Array, terms: States, budget: int) -> tuple[float, Array, Array, float]:
        """Return the bound that W proves, the prices it counts, rho, and aa.

        ``terms`` are 1 for monomials in, 0 for free ones, -1 for those out.
        """
        rho, A = self.correlations(W), np.flatnonzero(W.any(axis=0))
        ya, aa, Z = bounds.joint_values(
            bounds.dual_values(own, own_rho, A, w[A])
            for own, own_rho, w in zip(self.systems, rho, W, strict=True)
        )
        fixed = Z[terms == 1]
        spent = bounds.top_sum(fixed, len(fixed)) + bounds.top_sum(Z[terms == 0], budget)
        if self.system.scalable:
            value, t = bounds.scaled_value(ya, aa, spent)
        else:
            value, t = bounds.tangent_value(ya, aa, spent), 1.0
        return bounds.admitted(float(value), self.problem.yy), t * (t * Z), rho, aa
