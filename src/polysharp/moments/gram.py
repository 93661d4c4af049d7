"""Two questions an engine may ask about G = M'M, and three ways to answer them.

    block(I, J)   = G[I, J]
    times(J, w)   = G[:, J] w        (a correlation: M' of the prediction M_J w)

``DenseGram`` holds G.  ``DesignGram`` holds the (weighted, centred) design M, n x f, where there
are more monomials than G may take memory for, or so few rows that M is smaller than G: products
with M then answer as fast, and most columns of G are never formed.  ``StreamedGram`` holds only X
and evaluates monomials block by block: slow to answer, but its memory is one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from scipy.linalg.lapack import dposv

from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices

MAX_DENSE = 8192  # monomials up to which G is held: 512 MiB
KEPT_BYTES = 64 * 2**20  # of columns of G that were asked for
# A relaxation reads an n x f design about four times, at the 0.3 ns that a number takes from
# memory, and its sweeps as much again; forming G takes n f^2 multiplications and additions of
# 0.02 ns: as much as f / 128 of them.
MONOMIALS_READ = 128
DESIGN_READ = 15  # the same for one pass over the design, which a product with few columns is
MAX_DENSE_GPU = 20_000  # and where a GPU makes it and works with it: 3 GiB


@dataclass(frozen=True, eq=False)
class DenseGram:
    """G held as a symmetric matrix."""

    G: Array
    rank: float = np.inf  # at most; the number of rows, where that is known

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return int(self.G.shape[0])

    @property
    def diagonal(self) -> Array:
        """G_jj for all j."""
        return np.diagonal(self.G)

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        return self.G[I[:, None], J]

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        return self.G[:, J]

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        return self.G[:, J] @ w


@dataclass(eq=False)
class DesignGram:
    """G answered from the design M (n, f), which is held with contiguous columns.

    Columns are kept once they were asked for, up to KEPT_BYTES.  G itself is formed, and kept, once
    the answers so far have cost as much as that.
    """

    M: Array
    diagonal: Array
    spent: float = 0.0  # on answers, as a share of what forming G costs
    _columns: dict[int, Array] = field(default_factory=dict)
    _formed: Array | None = None
    _forming: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, M: Array) -> DesignGram:
        """Build from the design."""
        M = np.asfortranarray(M)
        return cls(M, np.einsum("tj,tj->j", M, M))

    @property
    def rank(self) -> float:
        """The number of rows, which the rank of G does not exceed."""
        return len(self.M)

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return len(self.diagonal)

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        G = self.matrix(len(I) / self.size * len(J) / self.size)
        return np.asarray(self.M.T[I] @ self.M[:, J]) if G is None else G[I[:, None], J]

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]; new columns are computed in one product."""
        kept, J = self._columns, np.asarray(J, dtype=np.intp)
        new = [j for j in J.tolist() if j not in kept]
        G = self.matrix((DESIGN_READ + len(new)) / self.size if new else 0.0)
        if G is not None:
            return np.asarray(G[:, J])
        if 8 * self.size * (len(kept) + len(new)) > KEPT_BYTES:
            kept.clear()
            new = J.tolist()
        if new:
            kept.update(zip(new, self.M.T[new] @ self.M, strict=True))
        return np.array([kept[j] for j in J.tolist()]).reshape(len(J), self.size).T

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        return np.asarray((self.M[:, J] @ w) @ self.M)

    def relaxed(self, *, slow: bool = False) -> Array | None:
        """Return G where it is formed; form it where a relaxation would rather read it than M."""
        return self.matrix(1.0 if slow else MONOMIALS_READ / self.size)

    def matrix(self, share: float) -> Array | None:
        """Return G where it is formed, or formed now that a share of its cost is spent anew."""
        with self._forming:
            self.spent += share
            if self._formed is None and self.spent > 1.0 and self.size <= MAX_DENSE:
                self._columns.clear()
                self._formed = self.M.T @ self.M
            return self._formed


@dataclass(frozen=True, eq=False)
class StreamedGram:
    """G answered from X, whose monomials are evaluated when they are asked for."""

    basis: Basis
    X: Array
    root_weight: Array  # sqrt of the sample weights
    mean: Array  # subtracted from every row of M; zero without a free intercept
    diagonal: Array

    @property
    def rank(self) -> float:
        """The number of rows, which the rank of G does not exceed."""
        return len(self.X)

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return len(self.diagonal)

    def design(self, J: Indices | None = None) -> Iterator[Array]:
        """Yield the columns J of M, evaluated anew."""
        basis, mean = self.basis, self.mean
        if J is not None:
            basis, mean = basis.select(J), mean[J]
        for rows in basis.blocks(len(self.X)):
            M = basis.evaluate(self.X[rows])
            M -= mean
            M *= self.root_weight[rows, None]
            yield M

    def _summed(self, product: Callable[[Array], Array], J: Indices | None = None) -> Array:
        """Add up a product over the blocks of the columns J."""
        return np.asarray(sum(map(product, self.design(J))))

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        both, where = np.unique(np.concatenate([I, J]), return_inverse=True)
        left, right = np.split(where, [len(I)])
        return self._summed(lambda M: M[:, left].T @ M[:, right], both)

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        return self._summed(lambda M: M.T @ M[:, J])

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        return self._summed(lambda M: M.T @ (M[:, J] @ w))


Gram = DenseGram | DesignGram | StreamedGram


def solve_spd(H: Array, b: Array) -> Array:
    """Solve H x = b for symmetric H >= 0; least squares where H is singular to rounding."""
    if not len(b):
        return np.zeros_like(b)
    _, x, singular = dposv(H, b, lower=1)
    if singular:
        if not np.isfinite(H).all():
            return np.zeros_like(b)
        values, vectors = np.linalg.eigh(H)
        keep = values > len(b) * np.finfo(float).eps * values[-1]
        x = (vectors[:, keep] / values[keep]) @ (vectors[:, keep].T @ b)
    result: Array = x
    return result
