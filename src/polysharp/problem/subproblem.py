"""A part of the monomials of a problem, with curvature moved from its Gram matrix to the ridge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from polysharp.moments.gram import DenseGram
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import Quadratic, semidefinite, support_bound
from polysharp.problem.diagonal import positive_definite, smallest_eigenvalue
from polysharp.problem.problem import CLEAR, Fit, Problem
from polysharp.typing import Array, Indices

FIRST_LOOK = 256  # monomials that are looked at first, then twice as many, and so on
RETREAT, RETREATS = 0.9, 10  # a diagonal that is not proved shrinks by this factor, so often


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
        if whole and not isinstance(gram, DenseGram):
            problem = replace(problem, gram=DenseGram(G))  # not to be made again
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
        J = self.index if among is None else self.index[among]
        return self.problem.gram.block(J, J)  # Q + diag(d) would be rounded twice

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

    def eliminated(self, held: Indices, free: Indices) -> tuple[Array, Array, float] | None:
        """Return H and b on the free monomials once the held ones are in, and what those cost.

        None where the held ones are so nearly dependent that only rounding would be left.
        """
        lam, q = self.problem.lam, self.system.q
        H, b, cost = self.gram(free), q[free], 0.5 * self.system.yy
        H.ravel()[:: len(free) + 1] += lam
        if len(held):
            A = self.gram(held)
            A.ravel()[:: len(held) + 1] += lam
            root, info = dpotrf(A, lower=1)
            if info:
                return None
            cross = self.system.Q[held[:, None], free]
            V = solve_triangular(root, np.column_stack([cross, q[held]]), lower=True)
            H -= V[:, :-1].T @ V[:, :-1]
            b = b - V[:, :-1].T @ V[:, -1]
            cost -= 0.5 * float(V[:, -1] @ V[:, -1])
        return H, b, cost

    def curved(self, among: Indices, ridge: Array) -> Quadratic | None:
        """Return the quadratic of some monomials with these ridges; None if that is not proved."""
        G, known = self.gram(among), self.problem.accuracy.among(self.index[among])
        if not (np.all(ridge > 0.0) and semidefinite(G, ridge - self.problem.lam, known)):
            return None
        return self.with_ridge(among, ridge, G)

    def with_ridge(self, among: Indices, ridge: Array, G: Array) -> Quadratic:
        """Return the quadratic of some monomials with ridges that are proved; G is written to.

        Where Q is not looked at, G may be empty.
        """
        lam, known = self.problem.lam, self.problem.accuracy.among(self.index[among])
        if len(G):
            G.ravel()[:: len(among) + 1] -= ridge - lam
        sizes = known.with_ridge(lam, ridge).sizes
        return self.problem.system(self.index[among], G)._replace(
            ridge=ridge, sizes=sizes, scalable=False
        )

    def least_eigenvalue(self) -> float:
        """Return a proved bound on the eigenvalues of G + lam I, scaled to unit diagonal.

        It holds for what is left when monomials are taken out or eliminated too.
        """
        lam, G = self.problem.lam, self.gram()
        H = np.diagonal(G) + lam
        proved = lam / float(H.max(initial=lam))
        level = 0.5 * smallest_eigenvalue(G, lam)
        known = self.problem.accuracy.among(self.index)
        if level > 2.0 * proved and semidefinite(G, level * H - lam, known):
            return level
        return proved

    def strengthened(self, number: int) -> Subproblem | None:
        """Return the same monomials with G's smallest eigenvalue moved, listed as ``number``."""
        # With fewer rows than monomials a part of them shows that there is none, at less cost.
        look = FIRST_LOOK
        while look < self.size:
            if not positive_definite(self.gram(np.arange(look))):
                return None
            look *= 2
        lam, G = self.problem.lam, self.gram()
        level = 0.98 * smallest_eigenvalue(G, 0.0)
        for _ in range(RETREATS):
            ridge = lam + level * np.diagonal(G)
            if not np.any(ridge > lam):
                break
            system = self.curved(np.arange(self.size), ridge)
            if system is not None:
                return replace(self, system=system, diagonal=number)
            level *= RETREAT
        return None


def least_cost(problem: Problem, fit: Fit) -> float:
    """Return what the support of a fit costs with any coefficients, rounded down."""
    S = fit.support
    bound = support_bound(problem.system(S, problem.gram.block(S, S)), fit.w)
    if bound < fit.objective * (1.0 - CLEAR):
        # Divided by a tiny ridge, rounding of rho looms large: less so with curvature in the ridge.
        stronger = Subproblem.of(problem, S).strengthened(0)
        if stronger is not None:
            bound = max(bound, support_bound(stronger.system, fit.w))
    return max(0.0, bound)
