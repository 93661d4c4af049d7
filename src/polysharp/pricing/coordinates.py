"""Every monomial as a point: its products with a few vectors over the rows, none of them formed.

    C_jk = m_j'V u_k,        k = 1..K,

come from the same panels as prices do, in float64.  Sums over n rows of products of r inputs and
u_k, in any order, and what centring has left of the mean of u_k, err together by at most

    (n + 2 r + ROUNDINGS) u |m_j| |u_k|,      |m_j| <= s_j = scale_j prod_i (v'x_i^(2d))^(1/2d)

for a monomial of degree d (Hoelder), the norms being those of the weights v before centring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polysharp.data.arrays import ROUNDOFF
from polysharp.pricing.panels import Factors, Keep, Keys, scales
from polysharp.pricing.pricer import Pricer
from polysharp.typing import Array, Indices, Monomial, OnBlock

ROUNDINGS = 256.0  # of a sum made in pairs, of its mean and of taking that away; of scales


class Coordinates(NamedTuple):
    """Monomials, their products with K vectors, and their sizes s_j."""

    keys: Keys  # columns of the table, padded with -1
    values: Array  # (m, K)
    sizes: Array  # (m,)

    @property
    def monomials(self) -> list[Monomial]:
        """The monomials."""
        return [tuple(i for i in key if i >= 0) for key in self.keys.tolist()]

    def among(self, kept: Indices) -> Coordinates:
        """Return those of some monomials."""
        return Coordinates(self.keys[kept], self.values[kept], self.sizes[kept])


def rounding(pricer: Pricer) -> float:
    """Return the error of m_j'V u for vectors of length one, per unit of size."""
    return (pricer.n + 2.0 * pricer.degree + ROUNDINGS) * ROUNDOFF["float64"]


def coordinates(
    pricer: Pricer, directions: Array, keep: Keep, on_block: OnBlock | None = None
) -> Coordinates:
    """Return the products of all monomials that pass ``keep`` with some ``Pricer.direction``s."""
    arrays, found = pricer.arrays, list[Coordinates]()
    vectors = [arrays.array(direction) for direction in directions]
    factors = Factors(arrays, pricer.exact_table)
    for panel in pricer.panels(on_block):
        local, once = panel.keys(*np.divmod(np.arange(panel.size), panel.shape[1]))
        named = pricer.inputs[local].astype(np.int32).reshape(local.shape)
        kept = np.flatnonzero(keep(named))
        local, once = local[kept], once[kept]
        values = np.empty((len(once), len(vectors)))
        for k, vector in enumerate(vectors):
            values[:, k] = arrays.numpy(factors.correlations(panel, vector)).ravel()[once]
        scale, keys = scales(local, pricer.degree), np.full((len(local), pricer.degree), -1)
        keys[:, : panel.degree] = named[kept]
        values *= scale[:, None]
        found.append(Coordinates(keys.astype(np.int32), values, scale * norms(pricer, local)))
    return Coordinates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def norms(pricer: Pricer, keys: Keys) -> Array:
    """Bound the norms of plain monomials of one degree, rounded up."""
    d = keys.shape[1]
    v = np.ones(pricer.n) if pricer.weight is None else pricer.weight
    if d == 0:
        return np.full(len(keys), np.sqrt(v.sum()) * (1.0 + 1e-9))
    squares = pricer.arrays.numpy(pricer.squares)
    return np.asarray(((squares**d @ v) ** (0.5 / d) * (1.0 + 1e-9))[keys].prod(axis=1))


def size_of(pricer: Pricer, m: Monomial) -> float:
    """Return the size of one monomial."""
    keys = np.searchsorted(pricer.inputs, np.array([m], dtype=np.intp).reshape(1, len(m)))
    local = keys.astype(np.int32)
    return float(scales(local, pricer.degree)[0] * norms(pricer, local)[0])
