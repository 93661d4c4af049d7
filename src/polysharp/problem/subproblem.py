"""A part of the monomials of a problem, with curvature moved from its Gram matrix to the ridge.

Moving a diagonal d leaves Q = G - diag(d), which must be proved positive semidefinite though G is
known with errors (``semidefinite``).  A Cholesky factorisation of A of order n that runs to its end
proves that no eigenvalue lies below -(n + 2) u trace(A) (Rump); margins for that, and for how well
A is known, are taken from its diagonal first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from polysharp.moments.gram import DenseGram, DesignGram, solve_spd
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import (
    NO_MATRIX,
    UNIT,
    Accuracy,
    Quadratic,
    choice_bounds,
    member_bounds,
    support_bound,
)
from polysharp.problem.diagonal import first_start
from polysharp.problem.problem import CLEAR, Fit, Problem, solve_in_boxes, solve_many_in_boxes
from polysharp.typing import Array, Indices

FEW = 4  # columns of a Q that is not formed; more of them cost more than a product with F
RETREAT, RETREATS = 0.9, 10  # a diagonal that is not proved shrinks by this factor, so often
DENSE = 400  # monomials of several responses up to which curvature is moved for each by itself
LOWERED = (0.98, 0.9, 0.5)  # multiples of such a diagonal that are tried until one is proved


@dataclass(frozen=True, eq=False)
class Subproblem:
    """The monomials ``index`` of a problem; ``system`` has Q = G - diag(d), ridge = lam + d.

    ``system`` is the quadratic of the first response; those of the others share Q and ridge.  Any d
    will do for which Q is proved positive semidefinite and the ridge is positive; parts of it may
    be negative.
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
        gram, structure = problem.gram, problem.structure
        if whole and isinstance(gram, DesignGram):
            system = problem.system(index, NO_MATRIX, F=gram.M.T)
            return cls(problem, index, system, structure)
        # The whole of a dense G is only read: no copy.
        G = gram.G if whole and isinstance(gram, DenseGram) else gram.block(index, index)
        if whole and not isinstance(gram, DenseGram):
            problem = replace(problem, gram=DenseGram(G, gram.rank))  # not to be made again
        if not whole:
            structure = structure.restrict(index)
        return cls(problem, index, problem.system(index, _in_rows(G)), structure)

    def read_once_more(self, *, slow: bool = False) -> Subproblem:
        """Return the same with Q formed, if relaxations have read F often enough for this to pay.

        It pays at once if sweeps over F were ``slow``.
        """
        gram = self.problem.gram
        read = len(self.system.F) > 0 and isinstance(gram, DesignGram)
        G = cast("DesignGram", gram).relaxed(slow=slow) if read else None
        if G is None:
            return self
        return replace(self, system=self.system._replace(Q=_in_rows(G), F=NO_MATRIX))

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self.index)

    @cached_property
    def q(self) -> Array:
        """Inner products with y, a row per response."""
        return np.ascontiguousarray(self.problem.q[:, self.index])

    @cached_property
    def boxes(self) -> Boxes:
        """The intervals of their coefficients, a row per response."""
        return self.problem.boxes.among(self.index)

    @cached_property
    def systems(self) -> list[Quadratic]:
        """The quadratic of each response."""
        problem, boxes = self.problem, self.boxes
        numbers = problem.squares.tolist(), problem.accuracy.response.tolist()
        return [
            self.system._replace(q=q, low=low, high=high, yy=yy, response=response)
            for q, low, high, yy, response in zip(self.q, *boxes, *numbers, strict=True)
        ]

    @property
    def summed(self) -> Quadratic:
        """The quadratic whose unit and response bound the rounding of sums over responses."""
        response = float(np.linalg.norm(self.problem.accuracy.response))
        return self.system._replace(response=response, unit=self.system.unit + len(self.q) * UNIT)

    @property
    def d(self) -> Array:
        """The curvature moved."""
        return self.system.ridge - self.problem.lam

    def times(self, J: Indices, W: Array) -> Array:
        """Return Q[:, J] w for every row w of W, by columns that are kept where they are few."""
        if len(self.system.F) and len(J) <= FEW:
            return np.asarray(W @ self.problem.gram.columns(J).T)
        return self.system.times(J, W)

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
        """Return H and b on the free monomials once the held ones are in, and the cost of these.

        b has a row per response.  None if the held ones are so nearly dependent that only rounding
        would remain.
        """
        q, cost = self.q, 0.5 * self.problem.yy
        H, b = self.problem.hessian(self.index[free]), q[:, free]
        if len(held):
            root, info = dpotrf(self.problem.hessian(self.index[held]), lower=1)
            if info:
                return None
            cross = self.system.block(held, free)
            V = solve_triangular(root, np.column_stack([cross, q[:, held].T]), lower=True)
            V, z = V[:, : len(free)], V[:, len(free) :]
            H -= V.T @ V
            b = b - z.T @ V
            cost -= 0.5 * float(np.vdot(z, z))
        return H, b, cost

    def refitted(self, support: Indices) -> tuple[float, Array]:
        """Return the cost of a support, rounded down, and coefficients that show it, a row each."""
        each = [system.among(support) for system in self.systems]
        H, W = each[0].Q + np.diag(each[0].ridge), np.zeros((len(each), len(support)))
        if len(support):
            W[:] = [solve_in_boxes(H, own.q, Boxes(own.low, own.high)) for own in each]
        return _cost_below(each, W), W

    def support_bounds(self, sets: Indices) -> Array:
        """Return bounds on the costs of supports, one row each, near their best coefficients."""
        if len(self.system.F):
            used, where = np.unique(sets, return_inverse=True)
            return self.restrict(used).support_bounds(where.reshape(sets.shape))
        Q, every = self.system.Q[sets[:, :, None], sets[:, None, :]], np.arange(sets.shape[1])
        H = Q.copy()
        H[:, every, every] += self.system.ridge[sets]
        costs = []
        for own in self.systems:
            W = solve_many_in_boxes(H, own.q[sets], Boxes(own.low[sets], own.high[sets]))
            rho = own.q[sets] - np.einsum("sij,sj->si", Q, W)
            costs.append(member_bounds(own, sets, W, rho))
        return np.asarray(_sum_below(costs))

    def with_each(self, held: Indices, free: Indices) -> Array:
        """Return bounds on the cost of the held monomials with each of the free ones.

        With H = Q + ridge over the held ones, the best coefficients with monomial j are
        w - t H^-1 Q_:j and t = (q_j - Q_j: w) / (the Schur complement of j).
        """
        system, several = self.system, self.q
        Q, cross = system.block(held, held), system.block(held, free)
        diagonal = system.diagonal(free)
        H = Q + np.diag(system.ridge[held])
        solved = solve_spd(H, np.column_stack([several[:, held].T, cross]))
        base, B = solved[:, : len(several)], solved[:, len(several) :]
        schur = diagonal + system.ridge[free] - np.einsum("if,if->f", cross, B)
        costs = []
        for w, own in zip(base.T, self.systems, strict=True):
            # It is at least the ridge that was there before any curvature moved.
            last = (own.q[free] - w @ cross) / np.maximum(schur, self.problem.lam)
            W = np.vstack([w[:, None] - B * last, last])
            costs.append(choice_bounds(own, held, free, W, (Q, cross, diagonal)))
        return np.asarray(_sum_below(costs))

    def curved(self, among: Indices, ridge: Array, K: Array | None = None) -> Quadratic | None:
        """Return the quadratic of some monomials with these ridges; None if that is not proved.

        A pairwise shift K, which the supports in question do not feel, is taken from G as well.
        """
        G, known = self.gram(among), self.problem.accuracy.among(self.index[among])
        if K is not None:
            G -= K
            known = known.shifted(np.diagonal(K))
        if not (np.all(ridge > 0.0) and semidefinite(G, ridge - self.problem.lam, known)):
            return None
        lam = self.problem.lam
        G.ravel()[:: len(among) + 1] -= ridge - lam
        sizes = known.with_ridge(lam, ridge).sizes
        return self.problem.system(self.index[among], G)._replace(
            ridge=ridge, sizes=sizes, unit=known.unit, scalable=False
        )

    def least_eigenvalue(self) -> float:
        """Return a proved bound on the eigenvalues of G + lam I, scaled to unit diagonal.

        It also holds after some monomials are taken out or eliminated.
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
        """Return the same monomials with curvature moved, listed as ``number``; None without any.

        That is G's smallest eigenvalue; or, for few monomials of several responses, for which no
        best diagonals are made, the curvature that each monomial can spare.
        """
        every = np.arange(self.size)
        for ridge in self._stronger_ridges():
            system = self.curved(every, ridge) if np.any(ridge > self.problem.lam) else None
            if system is not None:
                return replace(self, system=system, diagonal=number)
        return None

    def _stronger_ridges(self) -> Iterator[Array]:
        """Yield ridges that may be proved, each lower than the one before."""
        if len(self.q) > 1 and self.size <= DENSE:
            start = first_start(self.problem.hessian(self.index), 1)
            if start is not None:
                yield from (factor * start.delta / 0.9 for factor in LOWERED)
        elif self.problem.gram.rank >= self.size:  # else the smallest eigenvalue is zero
            G = self.gram()
            level = 0.98 * smallest_eigenvalue(G, 0.0)
            for times in range(RETREATS):
                yield self.problem.lam + level * RETREAT**times * np.diagonal(G)


def _sum_below(costs: Sequence[Any]) -> Any:
    """Return the sum of the costs of the responses, rounded down."""
    return sum(costs) - 2.0 * len(costs) * UNIT * sum(map(abs, costs))


def least_cost(problem: Problem, fit: Fit) -> float:
    """Return the least cost of the support of a fit, rounded down."""
    S, W = fit.support, fit.w
    G = problem.gram.block(S, S)
    bound = _cost_below([problem.system(S, G, t) for t in range(len(W))], W)
    if bound < fit.objective * (1.0 - CLEAR):
        # Divided by a tiny ridge, rounding of rho looms large: less so with curvature in the ridge.
        stronger = Subproblem.of(problem, S).strengthened(0)
        if stronger is not None:
            bound = max(bound, _cost_below(stronger.systems, W))
    return max(0.0, bound)


def _cost_below(systems: Sequence[Quadratic], W: Array) -> float:
    """Return the sum of the dual values at W where all monomials are in."""
    return float(_sum_below(list(map(support_bound, systems, W))))


def semidefinite_margin(size: int, unit: float) -> float:
    """Return how far above 0 the eigenvalues of a matrix of unit diagonal must lie to be proved.

    A factorisation as here takes a factor of 1.1; the checker, which does not know how a library
    factorises, allows for 4 and would refuse what has less room.
    """
    return size * (unit + 4.0 * UNIT) + 4.5 * (size + 4.0) * UNIT * size


def semidefinite(G: Array, d: Array, accuracy: Accuracy) -> bool:
    """Whether M'M - diag(d) is proved positive semidefinite, M'M being known as G.

    In units of the sizes, rounding of G and of the scaling has norm size (unit + 4u) at most.
    Sizes include a negative d: a column of zeros with all of its ridge moved is no obstacle.
    """
    size = len(d)
    if size == 0:
        return True
    sizes = np.sqrt(accuracy.sizes**2 + np.maximum(-d, 0.0))
    A = G / np.multiply.outer(sizes, sizes)
    diagonal, scaled = np.diagonal(A).copy(), d / sizes**2
    larger = max(1.0, float(np.abs(diagonal - scaled).max()))
    shift = larger * semidefinite_margin(size, accuracy.unit) + 8.0 * UNIT * np.abs(scaled)
    A.ravel()[:: size + 1] = diagonal - scaled - shift
    return bool(np.isfinite(A).all()) and not dpotrf(A.T, lower=1, overwrite_a=1)[1]


def smallest_eigenvalue(G: Array, lam: float) -> float:
    """Return about the smallest eigenvalue of G + lam I scaled to unit diagonal, a little above it.

    Lanczos on the inverse, from one factorisation: an eighth of the work of a full decomposition.
    """
    size = len(G)
    if size == 0:
        return 1.0
    if not (np.all(np.diagonal(G) + lam > 0.0) and np.isfinite(G).all()):
        return 0.0
    root = np.sqrt(np.diagonal(G) + lam)
    C = G / np.multiply.outer(root, root)
    C.ravel()[:: size + 1] = 1.0
    if size < 64:
        return float(np.linalg.eigvalsh(C)[0])
    factor, info = dpotrf(C, lower=1, clean=0)
    if info:
        return 0.0
    inverse = LinearOperator(C.shape, lambda v: dpotrs(factor, v, lower=1)[0], dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    try:
        largest = eigsh(inverse, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False)
    except ArpackError:
        return 0.0
    return 1.0 / float(largest[0])


def _in_rows(G: Array) -> Array:
    """Return a symmetric matrix with contiguous rows, a view if its columns are contiguous."""
    if G.flags.c_contiguous:
        return G
    return G.T if G.flags.f_contiguous else np.ascontiguousarray(G)
