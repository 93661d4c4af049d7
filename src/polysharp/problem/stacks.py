"""Stacks of nodes, and of matrices that are factorised one by one in NumPy or at once in PyTorch.

Matrices are (nodes, m, m), vectors (nodes, m), numbers (nodes, 1).  Here is what a method for many
nodes needs beyond the arithmetic that both libraries write alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from polysharp.problem.diagonal import Start, sharpen

LOOK = 0.5  # how near to the best a diagonal must be, as a share of the distance to the aim


class Nodes(NamedTuple):
    """Nodes to find diagonals or couplings for: H and b of ``diagonal``, 1 where not padded.

    L monomials may be chosen, and the gain should fall to ``aim``.  K are couplings that the nodes
    have, None where none has one.
    """

    H: Any
    b: Any
    real: Any
    budget: Any
    aim: Any
    start: Start
    K: Any = None


class NumPyStacks:
    """Stacks of NumPy arrays, for few nodes at a time."""

    xp: Any = np

    def numpy(self, v: Any) -> Any:
        """Return a stack as a NumPy array."""
        return v

    def like(self, stack: Any, v: Any) -> Any:
        """Return a NumPy array as a stack."""
        del stack
        return v

    def places(self, stack: Any) -> Any:
        """Return the places of all nodes."""
        return np.arange(len(stack))

    def factored(self, A: Any) -> tuple[Any, Any]:
        """Return lower factors, zero above, and which matrices have none."""
        factors, info = zip(*(dpotrf(one.T, lower=1) for one in A), strict=True)
        return np.array(factors), np.array(info) != 0

    def inverse(self, factors: Any) -> Any:
        """Return the inverses of matrices from their factors."""
        lower = np.array([dpotri(factor, lower=1)[0] for factor in factors])
        whole = lower + lower.mT
        diagonal(whole)[:] *= 0.5
        return whole

    def solve(self, factors: Any, v: Any) -> Any:
        """Return A^-1 v for each matrix and vector."""
        pairs = zip(factors, v, strict=True)
        return np.array([dpotrs(factor, own, lower=1)[0] for factor, own in pairs])

    def joined(self, *rows: Any) -> Any:
        """Return rows end to end."""
        return np.concatenate(rows, axis=1)

    def sharpened(
        self, nodes: Nodes, steps: int, expired: Callable[[], bool]
    ) -> tuple[Any, Any, Any]:
        """Return gains, diagonals and shares after so many steps; infinite gains where none is."""
        rest: Any = {"tol": LOOK, "max_steps": steps, "expired": expired}
        found = [
            sharpen(H, b, int(L[0]), Start(*own), aim=float(aim[0]), **rest)
            for H, b, L, aim, *own in zip(
                nodes.H, nodes.b, nodes.budget, nodes.aim, *nodes.start, strict=True
            )
        ]
        none = np.zeros(nodes.b.shape[1])
        gains = [[np.inf if one is None else one.gain] for one in found]
        delta, s = (
            np.array([none if one is None else getattr(one, name) for one in found])
            for name in ("delta", "shares")
        )
        return np.array(gains), delta, s


class TorchStacks:
    """Stacks of PyTorch tensors, on their device."""

    def __init__(self) -> None:
        import torch

        self.xp: Any = torch

    def numpy(self, v: Any) -> Any:
        """Return a stack as a NumPy array."""
        return v.cpu().numpy()

    def like(self, stack: Any, v: Any) -> Any:
        """Return a NumPy array as a stack on the device of another."""
        return self.xp.as_tensor(v, device=stack.device)

    def places(self, stack: Any) -> Any:
        """Return the places of all nodes."""
        return self.xp.arange(len(stack), device=stack.device)

    def factored(self, A: Any) -> tuple[Any, Any]:
        """Return lower factors, and which matrices have none."""
        factors, info = self.xp.linalg.cholesky_ex(A)
        return factors, info != 0

    def inverse(self, factors: Any) -> Any:
        """Return the inverses of matrices from their factors."""
        root = self.inverse_root(factors)
        return root.mT @ root

    def inverse_root(self, factors: Any) -> Any:
        """Return the inverses of the factors."""
        one = self.xp.eye(factors.shape[1], dtype=factors.dtype, device=factors.device)
        return self.xp.linalg.solve_triangular(factors, one.expand_as(factors), upper=False)

    def solve(self, factors: Any, v: Any) -> Any:
        """Return A^-1 v for each matrix and vector."""
        half = self.xp.linalg.solve_triangular(factors, v[:, :, None], upper=False)
        return self.xp.linalg.solve_triangular(factors.mT, half, upper=True)[:, :, 0]

    def joined(self, *rows: Any) -> Any:
        """Return rows end to end."""
        return self.xp.cat(rows, dim=1)

    def sharpened(
        self, nodes: Nodes, steps: int, expired: Callable[[], bool]
    ) -> tuple[Any, Any, Any]:
        """Return gains, diagonals and shares after so many steps; infinite gains where none is."""
        from polysharp.problem.diagonal_batch import Methods

        batch = Methods(nodes)
        batch.run(LOOK, steps, expired)
        delta, _, s = batch.best
        return batch.gains, delta * batch.root**2, s


Stacks = NumPyStacks | TorchStacks


def diagonal(A: Any) -> Any:
    """Return the diagonals of matrices, a view to be written to where they lie row by row."""
    return A.reshape(len(A), -1)[:, :: A.shape[1] + 1]


def row_sums(v: Any) -> Any:
    """Return the sums of rows, as a column."""
    return v.sum(1)[:, None]


def times(A: Any, v: Any) -> Any:
    """Return A v for each matrix and vector."""
    return (A @ v[:, :, None])[:, :, 0]


def outer(v: Any, w: Any) -> Any:
    """Return v w' for each pair of vectors."""
    return v[:, :, None] * w[:, None, :]


def inner(A: Any, B: Any) -> Any:
    """Return the inner products of matrices, as a column."""
    return (A.reshape(len(A), 1, -1) @ B.reshape(len(B), -1, 1))[:, :, 0]


def row_products(A: Any, B: Any) -> Any:
    """Return the inner products of their rows."""
    if isinstance(A, np.ndarray):
        return np.einsum("nij,nij->ni", A, B)  # several times as fast
    return (A * B).sum(2)
