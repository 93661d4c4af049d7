"""The ridge regression on a support that changes one monomial at a time.

For a support S with H = (G_SS + lam I)^-1, B = H G_S: (one row per member), w = H q_S,

    z = q - G_:S w   (residual correlations),   d_j = G_jj + lam - G_jS H G_Sj   (Schur),

adding j lowers c by z_j^2 / (2 d_j), removing i raises it by w_i^2 / (2 H_ii), and after the
removal of i

    z_j <- z_j + B_ij w_i / H_ii,   d_j <- d_j + B_ij^2 / H_ii,

so the gain of every swap (i, j) is at hand without a new factorisation.  A move costs one or two
passes over B.  Rounding grows slowly with the number of moves: ``load`` starts afresh, and the
model does so by itself every ``REFRESH`` moves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.linalg.blas import dger

from polysharp.moments.gram import DenseGram
from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices

REFRESH = 64
COLLINEAR = 1e-9  # a monomial keeping less than this share of its norm is explained by S
CACHE_BYTES = 64 * 2**20


class WorkingModel:
    """Coefficients, gains and costs of one support, under ``add`` and ``drop``.

    Members live in numbered slots; an empty slot has index -1 and zero rows everywhere.
    """

    def __init__(self, problem: Problem, slots: int) -> None:
        f = problem.size
        self.problem = problem
        self.members: Indices = np.full(slots, -1, dtype=np.intp)
        self.outside: NDArray[np.bool_] = np.ones(f, dtype=bool)
        self.objective = 0.0
        self._ridged = problem.gram.diagonal + problem.lam
        self._least = COLLINEAR * self._ridged
        self._H, self._B, self._w = np.zeros((slots, slots)), np.zeros((slots, f)), np.zeros(slots)
        self._z, self._d = np.empty(f), np.empty(f)
        self._num, self._den = np.empty(f), np.empty(f)
        self._rows: dict[int, Array] = {}
        self._moves = 0
        self.load(self.members[:0])

    @property
    def support(self) -> Indices:
        """The members, in slot order."""
        return self.members[self.members >= 0]

    @property
    def empty_slots(self) -> Indices:
        """Slots without a member."""
        return np.flatnonzero(self.members < 0)

    @property
    def w(self) -> Array:
        """Coefficients by slot, 0 where empty."""
        return self._w

    @property
    def correlations(self) -> Array:
        """m_j'a for all j."""
        return self._z

    def load(self, support: Indices) -> None:
        """Start afresh from a support of at most as many members as there are slots."""
        S, m = np.asarray(support, dtype=np.intp), len(support)
        self._load_slots(np.concatenate([S, np.full(len(self.members) - m, -1, dtype=np.intp)]))

    def _load_slots(self, members: Indices) -> None:
        problem, full = self.problem, np.flatnonzero(members >= 0)
        S = members[full]
        self.members, self._moves = members.copy(), 0
        self.outside[:] = True
        self.outside[S] = False
        for array in (self._H, self._B, self._w):
            array.fill(0.0)
        self._z[:], self._d[:], self.objective = problem.q, self._ridged, 0.5 * problem.yy
        if not len(S):
            return
        C = np.stack([self._row(int(j)) for j in S])
        A = C[:, S].copy()
        A[np.diag_indices_from(A)] += problem.lam
        H = _inverse(A)
        w = H @ problem.q[S]
        B = H @ C
        self._H[np.ix_(full, full)], self._B[full], self._w[full] = H, B, w
        self._z -= w @ C
        self._d -= np.einsum("ij,ij->j", C, B)
        self.objective = 0.5 * float(problem.yy - 2.0 * (problem.q[S] @ w) + w @ (A @ w))

    def refresh(self) -> None:
        """Recompute everything, slots kept."""
        self._load_slots(self.members)

    def gains(self) -> Array:
        """How much adding each monomial lowers c; 0 for those that S explains.  Overwritten."""
        np.multiply(self._z, self._z, out=self._num)
        return self._divided(self._num, self._d)

    def swap_gains(self, slot: int) -> Array:
        """How much swapping the slot's member for each monomial lowers c.  Overwritten."""
        h, b, w = self._H[slot, slot], self._B[slot], self._w[slot]
        np.multiply(b, b, out=self._den)
        self._den *= 1.0 / h
        self._den += self._d
        np.multiply(b, w / h, out=self._num)
        self._num += self._z
        self._num *= self._num
        gains = self._divided(self._num, self._den)
        gains -= w * w / (2.0 * h)
        return gains

    def _divided(self, squares: Array, d: Array) -> Array:
        """Return squares / (2 d), 0 where d is rounding; ``squares`` is overwritten."""
        squares *= d > self._least
        squares /= np.maximum(d, self._least)
        squares *= 0.5
        return squares

    def costs(self) -> Array:
        """How much removing each slot's member raises c; infinite for empty slots."""
        h = np.diagonal(self._H)
        costs = np.full(len(h), np.inf)
        np.divide(self._w**2, 2.0 * h, out=costs, where=h > 0.0)
        return costs

    def drop(self, slot: int) -> int:
        """Remove the slot's member and return it."""
        j, h, w = int(self.members[slot]), self._H[slot, slot], self._w[slot]
        column, b = self._H[:, slot] / h, self._B[slot].copy()
        self.objective += w * w / (2.0 * h)
        self._z += b * (w / h)
        self._d += b * b * (1.0 / h)
        self._w -= column * w
        self._H -= np.multiply.outer(column, column * h)
        dger(-1.0, b, column, a=self._B.T, overwrite_a=1)
        self._H[slot], self._H[:, slot], self._B[slot], self._w[slot] = 0.0, 0.0, 0.0, 0.0
        self.members[slot] = -1
        self.outside[j] = True
        return j

    def add(self, slot: int, j: int) -> None:
        """Put monomial j, which has a positive gain, into an empty slot."""
        full, lam = self.members >= 0, self.problem.lam
        z, d, step = float(self._z[j]), max(float(self._d[j]), lam), self._B[:, j].copy()
        step[slot] = -1.0
        row = self._row(j)
        e = row - row[np.where(full, self.members, 0)] @ self._B
        e *= 1.0 / d
        self.objective -= z * z / (2.0 * d)
        self._z -= e * z
        self._d -= e * e * d
        self._w -= step * (z / d)
        self._H += np.multiply.outer(step, step / d)
        dger(-1.0, e, step, a=self._B.T, overwrite_a=1)
        self.members[slot] = j
        self.outside[j] = False
        self._moves += 1
        if self._moves >= REFRESH:
            self.refresh()

    def _row(self, j: int) -> Array:
        """G_j:, a view where G is held and from a bounded cache where it is computed."""
        gram = self.problem.gram
        if isinstance(gram, DenseGram):
            return gram.G[j] if gram.G.flags.c_contiguous else gram.G[:, j]
        if j not in self._rows:
            if len(self._rows) * 8 * gram.size > CACHE_BYTES:
                self._rows.pop(next(iter(self._rows)))
            self._rows[j] = gram.columns(np.array([j], dtype=np.intp))[:, 0]
        return self._rows[j]


def _inverse(A: Array) -> Array:
    """Inverse of a positive definite matrix; pseudo-inverse where it is singular to rounding."""
    try:
        np.linalg.cholesky(A)
        return np.linalg.inv(A).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        inverse: Array = pinvh(A)
        return inverse
