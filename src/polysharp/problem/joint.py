"""Several responses, one support: the problem in which their costs add up.

    minimise  sum_t c_t(S)     over the supports S allowed,

with the same monomials, ridge and rules for all responses, and coefficients of its own for each.
What bounds one response carries over, because everything adds: with a vector w_t and prices Z_tj
for each response, no L monomials can spend more than top_L(sum_t Z_tj).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polysharp.moments.gram import solve_spd
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic
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
        W = solve_spd(H, q.T).T
        value = 0.5 * (self.yy - 2.0 * float(np.vdot(q, W)) + float(np.vdot(W, W @ H)))
        if not value <= 0.5 * self.yy:  # no better than nothing, or no number at all
            return Fit(S, np.zeros_like(W), 0.5 * self.yy)
        return Fit(S, W, max(0.0, value))

    def cost_at_most(self, fit: Fit) -> float:
        """Return what a fit costs, rounded up."""
        S, costs = fit.support, []
        for own, w in zip(self.responses, fit.w, strict=True):
            cost = max(0.0, 0.5 * (own.yy - float(own.q[S] @ w)))
            costs.append(own.cost_at_most(Fit(S, w, cost)))
        return float(bounds.total(sum(costs), len(costs)))

    def dual_bound(self, fit: Fit) -> float:
        """Return the lower bound that the residuals of a fit prove."""
        S = fit.support
        ya, aa, prices = bounds.joint_values(
            bounds.dual_values(own.prices_of, own.correlations(S, w), S, w)
            for own, w in zip(self.responses, fit.w, strict=True)
        )
        spent = bounds.top_sum(prices, self.structure.max_terms)
        return max(0.0, bounds.admitted(bounds.scaled_value(ya, aa, spent)[0], self.yy))


@dataclass(frozen=True, eq=False)
class JointCore:
    """A part of the monomials of a joint problem, with curvature moved to the ridge."""

    problem: JointProblem
    part: Subproblem  # of the first response: G and curvature are those of all
    q: Array  # one row per response

    @classmethod
    def of(cls, problem: JointProblem) -> JointCore:
        """Gather all monomials."""
        part = Subproblem.of(problem.responses[0])
        return cls(problem, part, problem.correlated(part.index))

    @property
    def system(self) -> Quadratic:
        """Q, ridge and sizes, which all responses share; q is that of the first."""
        return self.part.system

    @property
    def size(self) -> int:
        """Number of monomials."""
        return self.part.size

    def restrict(self, keep: Indices) -> JointCore:
        """Return the part of a subset."""
        return JointCore(self.problem, self.part.restrict(keep), self.q[:, keep])

    def curved(self, part: Subproblem) -> JointCore:
        """Return the same monomials with the curvature of a part of the first response."""
        return JointCore(self.problem, part, self.q)

    def systems(self, among: Indices) -> list[Quadratic]:
        """Return the quadratics of the responses over some monomials."""
        part = JointCore(self.problem, self.part, self.q[:, among])
        return part._own_systems(self.system.among(among))

    def _own_systems(self, shared: Quadratic) -> list[Quadratic]:
        return [
            shared._replace(q=q, yy=own.yy, response=own.accuracy.response, unit=own.accuracy.unit)
            for q, own in zip(self.q, self.problem.responses, strict=True)
        ]

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
        system, rho, A = self.system, self.correlations(W), np.flatnonzero(W.any(axis=0))
        ya, aa, Z = bounds.joint_values(
            bounds.dual_values(own, own_rho, A, w[A])
            for own, own_rho, w in zip(self._own_systems(system), rho, W, strict=True)
        )
        fixed = Z[terms == 1]
        spent = bounds.top_sum(fixed, len(fixed)) + bounds.top_sum(Z[terms == 0], budget)
        if system.scalable:
            value, t = bounds.scaled_value(ya, aa, spent)
        else:
            value, t = bounds.tangent_value(ya, aa, spent), 1.0
        return bounds.admitted(float(value), self.problem.yy), t * t * Z, rho, aa
