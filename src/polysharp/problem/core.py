"""The core: the monomials still alive below some node, with curvature moved into the ridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.moments.gram import DenseGram
from polysharp.monomials.structure import Structure
from polysharp.problem.curvature import LARGEST, curvature
from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class Core:
    """Q = G - diag(d) and ridge = lam + d over the monomials ``index`` of the problem."""

    index: Indices  # positions in the problem
    Q: Array
    q: Array
    ridge: Array
    norms: Array  # sqrt(G_jj), for the rounding margin
    yy: float
    lam: float
    structure: Structure
    diagonal: int = -1  # number of d in the proof; -1 while d = 0

    @classmethod
    def of(cls, problem: Problem, index: Indices) -> Core:
        """Gather the monomials ``index`` of a problem, with no curvature moved."""
        whole = len(index) == problem.size
        gram = problem.gram
        # The whole of a dense G is only read: no copy.
        G = gram.G if whole and isinstance(gram, DenseGram) else gram.block(index, index)
        if not G.flags.c_contiguous:
            G = G.T if G.flags.f_contiguous else np.ascontiguousarray(G)
        return cls(
            index=index,
            Q=G,
            q=np.ascontiguousarray(problem.q[index]),
            ridge=np.full(len(index), problem.lam),
            norms=np.sqrt(np.maximum(np.diagonal(G), 0.0)),
            yy=problem.yy,
            lam=problem.lam,
            structure=problem.structure if whole else problem.structure.restrict(index),
        )

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self.q)

    @property
    def d(self) -> Array:
        """The curvature moved."""
        return self.ridge - self.lam

    def restrict(self, keep: Indices) -> Core:
        """Return the core of a subset; its curvature stays valid (a principal submatrix)."""
        return Core(
            index=self.index[keep],
            Q=np.ascontiguousarray(self.Q[np.ix_(keep, keep)]),
            q=self.q[keep],
            ridge=self.ridge[keep],
            norms=self.norms[keep],
            yy=self.yy,
            lam=self.lam,
            structure=self.structure.restrict(keep),
            diagonal=self.diagonal,
        )

    def strengthened(self, rates: Array | None, number: int) -> Core | None:
        """Return the core with fresh curvature, listed as ``number``; None if there is none."""
        if self.size > LARGEST:
            return None
        G = self.Q.copy()
        G[np.diag_indices_from(G)] += self.d
        d = curvature(G, rates)
        if not d.any():
            return None
        G[np.diag_indices_from(G)] -= d
        return Core(
            index=self.index,
            Q=G,
            q=self.q,
            ridge=self.lam + d,
            norms=self.norms,
            yy=self.yy,
            lam=self.lam,
            structure=self.structure,
            diagonal=number,
        )
