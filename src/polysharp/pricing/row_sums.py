"""What column generation needs of rows in blocks: sums that add over the blocks.

A vector over the rows is never stored.  It is known by its formula,

    a_t = y_t - ybar + offset - m(u_t)'w,

and every block evaluates it anew.  With weights v (and M centred by the means mbar, where there is
a free intercept) the sums are

    powers          sum x^2, x^4, x^8, (v x)^2          norms for the error bounds of pricing
    residual        sum v a, v a^2, v a y, ...          y'Va, a'Va, and what offset must be
    correlations    sum v a m_j                         for a list of monomials
    cross moments   sum v (m_i - mbar_i)(m_j - mbar_j)  between old and new monomials of a pool
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.data.summary import Block
from polysharp.monomials.basis import Basis
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class Sums:
    """Named sums; ``a + b`` adds name by name."""

    of: dict[str, Array]

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over both sets of rows."""
        return Sums({name: value + other.of[name] for name, value in self.of.items()})

    def __getitem__(self, name: str) -> Array:
        return self.of[name]

    def number(self, name: str) -> float:
        """Return a sum that is a single number."""
        return float(self.of[name])


@dataclass(frozen=True, eq=False)
class Formula:
    """A vector over the rows, by its formula."""

    basis: Basis
    w: Array
    y_mean: float
    offset: float = 0.0

    def at(self, block: Block) -> Array:
        """Return the values at the rows of a block."""
        a = block.y - (self.y_mean - self.offset)
        if len(self.w):
            for rows in self.basis.blocks(len(a)):
                a[rows] -= self.basis.evaluate(block.X[rows]) @ self.w
        return a


def weights_of(block: Block) -> Array:
    """Return the weights as an array."""
    return np.ones(len(block)) if block.weights is None else block.weights


def power_sums(block: Block) -> Sums:
    """Sum even powers of the inputs."""
    with np.errstate(over="ignore"):
        square = block.X**2
        fourth = square**2
        return Sums(
            {
                "x2": square.sum(axis=0),
                "x4": fourth.sum(axis=0),
                "x8": (fourth**2).sum(axis=0),
                "vx2": weights_of(block) ** 2 @ square,
            }
        )


def residual_sums(block: Block, formula: Formula) -> Sums:
    """Sum what is needed to know about a vector."""
    a, v = formula.at(block), weights_of(block)
    va, t = v * a, block.y - formula.y_mean
    return Sums(
        {
            "va": np.asarray(va.sum()),
            "vaa": np.asarray(va @ a),
            "vat": np.asarray(va @ t),
            "vt": np.asarray(v @ t),
            "vtt": np.asarray((v * t) @ t),
            "|va|": np.asarray(np.abs(va).sum()),
            "(va)2": np.asarray(va @ va),
            "(vax)2": (va * va) @ block.X**2,
        }
    )


def correlations(block: Block, formula: Formula, basis: Basis) -> Array:
    """Return m_j'V a of one block."""
    va = weights_of(block) * formula.at(block)
    total = np.zeros(len(basis))
    for rows in basis.blocks(len(va)):
        total += va[rows] @ basis.evaluate(block.X[rows])
    return total


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Centred moments between all monomials of a pool and its new ones with y; ``a + b`` merges."""

    weight: float
    mean: Array  # (f,)
    right_mean: Array  # (m + 1,): the new monomials, and y
    cross: Array  # (f, m + 1)

    def __add__(self, other: CrossMoments) -> CrossMoments:
        """Return the moments of both sets of rows."""
        weight = self.weight + other.weight
        share = other.weight / weight
        step, right_step = other.mean - self.mean, other.right_mean - self.right_mean
        return CrossMoments(
            weight,
            self.mean + share * step,
            self.right_mean + share * right_step,
            self.cross + other.cross + np.multiply.outer(self.weight * share * step, right_step),
        )

    def uncentred(self) -> Array:
        """Return M'V [M_new, y]."""
        return self.cross + np.multiply.outer(self.weight * self.mean, self.right_mean)


def cross_moments(block: Block, basis: Basis, n_new: int, y_mean: float) -> CrossMoments:
    """Return the moments of one block; the last ``n_new`` monomials are the new ones."""
    total: CrossMoments | None = None
    v, t = weights_of(block), block.y - y_mean
    for rows in basis.blocks(len(t)):
        M = basis.evaluate(block.X[rows])
        right = np.column_stack([M[:, len(basis) - n_new :], t[rows]])
        weight = float(v[rows].sum())
        mean, right_mean = v[rows] @ M / weight, v[rows] @ right / weight
        right -= right_mean
        right *= v[rows, None]
        M -= mean
        part = CrossMoments(weight, mean, right_mean, M.T @ right)
        total = part if total is None else total + part
    assert total is not None, "empty blocks are left out"
    return total
