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
from polysharp.problem.bounds import Quadratic
from polysharp.problem.boxed_fit import solve_in_boxes, solve_many_in_boxes
from polysharp.problem.problem import Fit, Problem
from polysharp.problem.propagation import States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices


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

    def correlated(self, S: Indices) -> Array:
        """Return q of some monomials, one row per response."""
        return np.ascontiguousarray(self.rows[:, S])

    def refit(self, support: Indices) -> Fit:
        """Solve the ridge regressions on one support."""
        S = np.sort(np.asarray(support, dtype=np.intp))
        q = self.correlated(S)
        if not len(S):
            return Fit(S, q, 0.5 * self.yy)
        H = self.gram.block(S, S)
        H[np.diag_indices_from(H)] += self.lam
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
        S, costs = fit.support, []
        H = self.gram.block(S, S)
        H[np.diag_indices_from(H)] += self.lam
        for own, w in zip(self.responses, fit.w, strict=True):
            cost = 0.5 * (own.yy - float((2.0 * own.q[S] - H @ w) @ w))
            costs.append(own.cost_at_most(Fit(S, w, max(0.0, cost))))
        return float(bounds.total(sum(costs), len(costs)))

    def dual_bound(self, fit: Fit) -> float:
        """Return the lower bound that the residuals of a fit prove."""
        each = zip(self.responses, fit.w, strict=True)
        residuals = [own.residual(fit.support, w) for own, w in each]
        return bounds.residual_bound(residuals, self.structure.max_terms)


@dataclass(frozen=True, eq=False)
class JointCore:
    """A part of the monomials of a joint problem, with curvature moved to the ridge."""

    problem: JointProblem
    part: Subproblem  # of the first response: G and curvature are those of all
    q: Array  # one row per response
    boxes: Boxes  # and these too

    @classmethod
    def of(cls, problem: JointProblem) -> JointCore:
        """Gather all monomials."""
        return cls(problem, Subproblem.of(problem.responses[0]), problem.rows, problem.joint_boxes)

    @property
    def system(self) -> Quadratic:
        """Q, ridge and sizes, which all responses share; q and boxes are those of the first."""
        return self.part.system

    @property
    def size(self) -> int:
        """Number of monomials."""
        return self.part.size

    def restrict(self, keep: Indices) -> JointCore:
        """Return the part of a subset."""
        q = np.ascontiguousarray(self.q[:, keep])
        return JointCore(self.problem, self.part.restrict(keep), q, self.boxes.of_columns(keep))

    def curved(self, part: Subproblem) -> JointCore:
        """Return the same monomials with the curvature of a part of the first response."""
        return replace(self, part=part)

    @property
    def systems(self) -> list[Quadratic]:
        """The quadratics of the responses."""
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

    def support_bounds(self, sets: Indices) -> Array:
        """Return what supports, one in a row, cost with all responses, rounded down."""
        H = self.system.Q[sets[:, :, None], sets[:, None, :]]
        every = np.arange(sets.shape[1])
        H[:, every, every] += self.system.ridge[sets]
        costs = np.zeros(len(sets))
        for own in self.systems:
            boxes = Boxes(own.low[sets], own.high[sets])
            W = solve_many_in_boxes(H, own.q[sets], boxes)
            costs += bounds.support_bounds(own, sets, W)
        return costs - 1e-13 * np.abs(costs)

    def eliminated(self, held: Indices, free: Indices) -> tuple[Array, Array, float] | None:
        """Return H and b on the free monomials once the held ones are in, and what those cost."""
        left = self.part.eliminated(held, free)
        if left is None:
            return None
        H, b, cost = left[0], self.q[:, free], 0.5 * self.problem.yy
        if len(held):
            A = self.part.gram(held)
            A.ravel()[:: len(held) + 1] += self.problem.lam
            solved = solve_spd(A, self.q[:, held].T)
            b = b - solved.T @ self.system.Q[held[:, None], free]
            cost -= 0.5 * float(np.vdot(self.q[:, held].T, solved))
        return H, np.ascontiguousarray(b), cost

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
        return bounds.admitted(float(value), self.problem.yy), t * t * Z, rho, aa
