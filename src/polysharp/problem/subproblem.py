"""A part of the monomials of a problem, with curvature moved from its Gram matrix to the ridge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polysharp.moments.gram import DenseGram
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import Quadratic, semidefinite, semidefinite_margin, support_bound
from polysharp.problem.curvature import LARGEST, curvature
from polysharp.problem.problem import CLEAR, Fit, Problem
from polysharp.typing import Array, Indices

RETREAT, RETREATS = 0.9, 40  # a diagonal that is not proved shrinks by this factor, so often


@dataclass(frozen=True, eq=False)
class Subproblem:
    """The monomials ``index`` of a problem; ``system`` has Q = G - diag(d), ridge = lam + d.

    Any d will do for which Q is proved positive semidefinite and the ridge is positive; parts of it
    may be negative.
    """

    problem: Problem
    index: Indices
    system: Quadratic
    structure: Structure
    diagonal: int = -1  # number of d in the proof; -1 while d = 0

    @classmethod
    def of(cls, problem: Problem, index: Indices | None = None) -> Subproblem:
        """Gather some monomials of a problem, all by default, with no curvature moved."""
        whole = index is None
        index = np.arange(problem.size) if index is None else index
        gram = problem.gram
        # The whole of a dense G is only read: no copy.
        G = gram.G if whole and isinstance(gram, DenseGram) else gram.block(index, index)
        if not G.flags.c_contiguous:
            G = G.T if G.flags.f_contiguous else np.ascontiguousarray(G)
        structure = problem.structure if whole else problem.structure.restrict(index)
        return cls(problem, index, problem.system(index, G), structure)

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self.index)

    @property
    def d(self) -> Array:
        """The curvature moved."""
        return self.system.ridge - self.problem.lam

    def gram(self, among: Indices | None = None) -> Array:
        """Return G over some of the monomials, all by default, as a new matrix."""
        J = np.arange(self.size) if among is None else among
        G = self.system.Q[J[:, None], J]
        G.ravel()[:: len(J) + 1] += self.d[J]
        return G

    def restrict(self, keep: Indices) -> Subproblem:
        """Return the part of a subset; its curvature stays valid (a principal submatrix)."""
        return replace(
            self,
            index=self.index[keep],
            system=self.system.among(keep),
            structure=self.structure.restrict(keep),
        )

    def without_curvature(self, among: Indices) -> Quadratic:
        """Return the quadratic of some monomials with no curvature moved."""
        return self.problem.system(self.index[among], self.gram(among))

    def strengthened(self, rates: Array | None, number: int) -> Subproblem | None:
        """Return the same monomials with fresh curvature, listed as ``number``; None without."""
        if self.size > LARGEST:
            return None
        G, unit = self.gram(), self.problem.accuracy.unit
        d = curvature(G, rates, semidefinite_margin(self.size, unit))
        for _ in range(RETREATS):
            if not d.any():
                break
            stronger = self.with_diagonal(G, d, number)
            if stronger is not None:
                return stronger
            d *= RETREAT
        return None

    def with_diagonal(self, G: Array, d: Array, number: int) -> Subproblem | None:
        """Return the same monomials, of Gram matrix G, with d moved; None if that is not proved."""
        lam = self.problem.lam
        ridge = lam + d
        d = ridge - lam  # what the ridge holds of it: exact where lam is the larger part
        if not np.all(ridge > 0.0):
            return None
        known = self.problem.accuracy.among(self.index)
        if not semidefinite(G, d, known):
            return None
        Q = G.copy()
        Q.ravel()[:: self.size + 1] -= d
        # Subtracting d from G is rounded too, relative to all that stands on the diagonal.
        sizes = np.sqrt(known.sizes**2 + lam + ridge)
        system = self.system._replace(Q=Q, ridge=ridge, sizes=sizes, plain=False)
        return replace(self, system=system, diagonal=number)


def least_cost(problem: Problem, fit: Fit) -> float:
    """Return what the support of a fit costs with any coefficients, rounded down."""
    S = fit.support
    bound = support_bound(problem.system(S, problem.gram.block(S, S)), fit.w)
    if bound < fit.objective * (1.0 - CLEAR):
        # Divided by a tiny ridge, rounding of rho looms large: less so with curvature in the ridge.
        stronger = Subproblem.of(problem, S).strengthened(None, 0)
        if stronger is not None:
            bound = max(bound, support_bound(stronger.system, fit.w))
    return max(0.0, bound)
