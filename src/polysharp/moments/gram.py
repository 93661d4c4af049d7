"""Two questions an engine may ask about G = M'M, and three ways to answer them.

    block(I, J)   = G[I, J]
    times(J, w)   = G[:, J] w        (a correlation: M' of the prediction M_J w)

``DenseGram`` holds G.  ``DesignGram`` holds the (weighted, centred) design M, n x f, for
problems with more monomials than G may take memory for.  ``StreamedGram`` holds only X and
evaluates monomials block by block: slow to answer, but its memory is one block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv

from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices

MAX_DENSE = 8192  # monomials up to which G is held: 512 MiB
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


class ImplicitGram(ABC):
    """G = M'M as a sum over blocks of rows of the design M, weighted and centred."""

    diagonal: Array

    @abstractmethod
    def design(self, J: Indices | None = None) -> Iterator[Array]:
        """Yield the columns J of M, all without, a block of rows at a time."""

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return len(self.diagonal)

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        both, where = np.unique(np.concatenate([I, J]), return_inverse=True)
        left, right = np.split(where, [len(I)])
        total = np.zeros((len(I), len(J)))
        for M in self.design(both):
            total += M[:, left].T @ M[:, right]
        return total

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        total = np.zeros((self.size, len(J)))
        for M in self.design():
            total += M.T @ M[:, J]
        return total

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        total = np.zeros(self.size)
        for M in self.design():
            total += M.T @ (M[:, J] @ w)
        return total


@dataclass(frozen=True, eq=False)
class DesignGram(ImplicitGram):
    """G answered from the design M (n, f), which is held."""

    M: Array
    diagonal: Array

    @classmethod
    def of(cls, M: Array) -> DesignGram:
        """Build from the design."""
        return cls(M, np.einsum("tj,tj->j", M, M))

    @property
    def rank(self) -> float:
        """The number of rows, which the rank of G does not exceed."""
        return len(self.M)

    def design(self, J: Indices | None = None) -> Iterator[Array]:
        """Yield the columns J of M in one block."""
        yield self.M if J is None else self.M[:, J]


@dataclass(frozen=True, eq=False)
class StreamedGram(ImplicitGram):
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
