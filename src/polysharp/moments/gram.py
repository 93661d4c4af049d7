"""Two questions an engine may ask about G = M'M, and three ways to answer them.

    block(I, J)   = G[I, J]
    times(J, w)   = G[:, J] w        (a correlation: M' of the prediction M_J w)

``DenseGram`` holds G.  ``DesignGram`` holds the (weighted, centred) design M, n x f, for
problems with more monomials than G may take memory for.  ``StreamedGram`` holds only X and
evaluates monomials block by block: slow per question, but its memory is one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices


class Gram(Protocol):
    """What an engine may know about M'M."""

    @property
    def size(self) -> int:
        """Number of monomials f."""
        ...

    @property
    def diagonal(self) -> Array:
        """G_jj for all j."""
        ...

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741 (the paper's letters)
        """Return G[I, J]."""
        ...

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        ...

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        ...


@dataclass(frozen=True, eq=False)
class DenseGram:
    """G held as a symmetric matrix."""

    G: Array

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
        return self.G[np.ix_(I, J)]

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        return self.G[:, J]

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        return self.G[:, J] @ w


@dataclass(frozen=True, eq=False)
class DesignGram:
    """G = M'M answered from the design M (n, f), already weighted and centred."""

    M: Array
    diagonal: Array

    @classmethod
    def of(cls, M: Array) -> DesignGram:
        """Build from the design."""
        return cls(M, np.einsum("tj,tj->j", M, M))

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return int(self.M.shape[1])

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        return self.M[:, I].T @ self.M[:, J]

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        return self.M.T @ self.M[:, J]

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        return self.M.T @ (self.M[:, J] @ w)


@dataclass(frozen=True, eq=False)
class StreamedGram:
    """G = M'M answered from X, one block of rows of M at a time."""

    basis: Basis
    X: Array
    root_weight: Array  # sqrt of the sample weights
    mean: Array  # subtracted from every row of M; zero without a free intercept
    diagonal: Array

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return len(self.basis)

    def _design(self, rows: slice) -> Array:
        M = self.basis.evaluate(self.X[rows])
        M -= self.mean
        M *= self.root_weight[rows, None]
        return M

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return G[I, J]."""
        both = np.concatenate([I, J])
        part = self.basis.select(dict.fromkeys(both.tolist()))
        at = {j: a for a, j in enumerate(dict.fromkeys(both.tolist()))}
        left = np.array([at[int(j)] for j in I], dtype=np.intp)
        right = np.array([at[int(j)] for j in J], dtype=np.intp)
        shift = self.mean[list(at)]
        total = np.zeros((len(I), len(J)))
        for rows in part.blocks(self.X.shape[0]):
            M = part.evaluate(self.X[rows])
            M -= shift
            M *= self.root_weight[rows, None]
            total += M[:, left].T @ M[:, right]
        return total

    def columns(self, J: Indices) -> Array:
        """Return G[:, J]."""
        total = np.zeros((self.size, len(J)))
        for rows in self.basis.blocks(self.X.shape[0]):
            M = self._design(rows)
            total += M.T @ M[:, J]
        return total

    def times(self, J: Indices, w: Array) -> Array:
        """Return G[:, J] w."""
        total = np.zeros(self.size)
        for rows in self.basis.blocks(self.X.shape[0]):
            M = self._design(rows)
            total += M.T @ (M[:, J] @ w)
        return total
