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

from polysharp.data.rows import MemoryRows
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

    def at(self, rows: MemoryRows) -> Array:
        """Return the values at the rows of a rows."""
        a = rows.y - (self.y_mean - self.offset)
        if len(self.w):
            for some in self.basis.blocks(len(a)):
                a[some] -= self.basis.evaluate(rows.X[some]) @ self.w
        return a


def power_sums(rows: MemoryRows) -> Sums:
    """Sum even powers of the inputs."""
    with np.errstate(over="ignore"):
        square = rows.X**2
        fourth = square**2
        return Sums(
            {
                "x2": square.sum(axis=0),
                "x4": fourth.sum(axis=0),
                "x8": (fourth**2).sum(axis=0),
                "vx2": rows.weights**2 @ square,
            }
        )


def residual_sums(rows: MemoryRows, formula: Formula) -> Sums:
    """Sum what is needed to know about a vector."""
    a, v = formula.at(rows), rows.weights
    va, t = v * a, rows.y - formula.y_mean
    return Sums(
        {
            "va": np.asarray(va.sum()),
            "vaa": np.asarray(va @ a),
            "vat": np.asarray(va @ t),
            "vt": np.asarray(v @ t),
            "vtt": np.asarray((v * t) @ t),
            "|va|": np.asarray(np.abs(va).sum()),
            "(va)2": np.asarray(va @ va),
            "(vax)2": (va * va) @ rows.X**2,
        }
    )


def correlations(rows: MemoryRows, formula: Formula, basis: Basis) -> Array:
    """Return m_j'V a of one rows."""
    va = rows.weights * formula.at(rows)
    total = np.zeros(len(basis))
    for some in basis.blocks(len(va)):
        total += va[some] @ basis.evaluate(rows.X[some])
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


def cross_moments(rows: MemoryRows, basis: Basis, n_new: int, y_mean: float) -> CrossMoments:
    """Return the moments of one block; the last ``n_new`` monomials are the new ones."""
    total: CrossMoments | None = None
    v, t = rows.weights, rows.y - y_mean
    for some in basis.blocks(len(t)):
        M = basis.evaluate(rows.X[some])
        right = np.column_stack([M[:, len(basis) - n_new :], t[some]])
        weight = float(v[some].sum())
        mean, right_mean = v[some] @ M / weight, v[some] @ right / weight
        right -= right_mean
        right *= v[some, None]
        M -= mean
        part = CrossMoments(weight, mean, right_mean, M.T @ right)
        total = part if total is None else total + part
    assert total is not None, "empty blocks are left out"
    return total
