"""The problem every engine solves, from the moments alone.

    minimise  c(S) = min_w 1/2 |y - M_S w|^2 + lam/2 |w|^2     over the supports S allowed,

where w may be bounded (``Structure.boxes``).  With lam = 1/gamma, G = M'M, q = M'y and no bounds
w_S = (G_SS + lam I)^-1 q_S, and for any w on S

    c(S) <= 1/2 (yy - 2 q_S'w + w'(G_SS + lam I) w)            (equal at w_S).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polysharp.moments.gram import DenseGram, Gram
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import Structure
from polysharp.problem import bounds
from polysharp.problem.bounds import Accuracy, Quadratic, Residual
from polysharp.problem.boxed_fit import solve_in_boxes
from polysharp.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients of one support and the objective they reach."""

    support: Indices
    w: Array
    objective: float


# Sum of squares of y - M_S w over the rows, and of |y| + |M_S| |w| before centring.
Misfit = Callable[[Indices, Array], tuple[float, float]]
CLEAR = 1e-9  # share of an objective below which rounding of the moments is not worth a pass


@dataclass(frozen=True, eq=False)
class Problem:
    """Moments, ridge and structure: everything an engine may see."""

    gram: Gram
    q: Array
    yy: float
    lam: float
    structure: Structure
    known: Accuracy | None = None  # None: as sums over a thousand rows are known
    misfit: Misfit | None = None  # where the rows can be asked once more

    @classmethod
    def dense(
        cls,
        G: Array,
        q: Array,
        yy: float,
        lam: float,
        structure: Structure,
        known: Accuracy | None = None,
        *,
        rank: float = np.inf,
    ) -> Problem:
        """Build from an explicit Gram matrix, of so many rows at most."""
        return cls(DenseGram(G, rank), q, yy, lam, structure, known)

    @cached_property
    def accuracy(self) -> Accuracy:
        """How well the moments are known."""
        return self.known or Accuracy.of(self.gram.diagonal, self.yy)

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return len(self.q)

    @property
    def gamma(self) -> float:
        """Ridge parameter of the paper, 1 / lam."""
        return 1.0 / self.lam

    @property
    def boxes(self) -> Boxes:
        """The intervals that coefficients must keep to, infinite ones where they need not."""
        return self.structure.boxes or self._infinite

    @cached_property
    def _infinite(self) -> Boxes:
        return Boxes.infinite(self.size)

    @property
    def resolution(self) -> float:
        """Differences of objectives below this are rounding of the moments."""
        return 1e-14 * self.yy

    def refit(self, support: Indices) -> Fit:
        """Solve the ridge regression on one support."""
        S = np.sort(np.asarray(support, dtype=np.intp))
        if not len(S):
            return Fit(S, np.zeros(0), 0.5 * self.yy)
        H = self.hessian(S)
        w = solve_in_boxes(H, self.q[S], self.boxes.among(S))
        value = 0.5 * (self.yy - 2.0 * float(self.q[S] @ w) + float(w @ (H @ w)))
        if not value <= 0.5 * self.yy:  # no better than nothing, or no number at all
            return Fit(S, np.zeros(len(S)), 0.5 * self.yy)
        return Fit(S, w, max(0.0, value))

    def hessian(self, S: Indices) -> Array:
        """Return G + lam I over some monomials, as a new matrix."""
        H = self.gram.block(S, S)
        H.flat[:: len(S) + 1] += self.lam
        return H

    def system(self, S: Indices, G: Array) -> Quadratic:
        """Return the quadratic of some monomials, given their block of G."""
        known = self.accuracy
        ridge = np.full(len(S), self.lam)
        low, high = self.boxes.among(S)
        scalable = self.structure.boxes is None
        return Quadratic(
            G, self.q[S], ridge, known.sizes[S], low, high,
            self.yy, known.response, known.unit, scalable,
        )  # fmt: skip

    @property
    def prices_of(self) -> Quadratic:
        """The quadratic of all monomials without its matrix: all that prices depend on."""
        return self.system(np.arange(self.size), np.zeros((0, 0)))

    def cost_at_most(self, fit: Fit) -> float:
        """Return what a fit costs, rounded up; from the rows where the moments say too little."""
        S, w = fit.support, fit.w
        cost = bounds.cost_above(self.system(S, self.gram.block(S, S)), w)
        if self.misfit is None or cost <= fit.objective * (1.0 + CLEAR):
            return cost
        squares, reach = self.misfit(S, w)
        products = 0.5 * self.accuracy.unit / bounds.UNIT
        exact = bounds.cost_of_residual(squares, reach, products, 0.5 * self.lam * float(w @ w))
        return min(cost, exact)

    def dual_bound(self, fit: Fit) -> float:
        """Return the lower bound on the l-sparse optimum that the residual of a fit proves.

        With a = y - M_S w, for any w: ``1/2 (y'a)^2 / (|a|^2 + gamma top_l((m_j'a)^2))`` where
        coefficients are not bounded.
        """
        residual = self.residual(fit.support, fit.w)
        return bounds.residual_bound([residual], self.structure.max_terms)

    def residual(self, support: Indices, w: Array) -> Residual:
        """Return the residual of a fit, as far as bounds need it."""
        return Residual(self.prices_of, self.correlations(support, w), support, w)

    def correlations(self, support: Indices, w: Array) -> Array:
        """Return m_j'a = q_j - G_jS w for all j, the correlations of the residual."""
        return self.q - self.gram.times(support, w)
