"""Products of every monomial with a few vectors over the rows, none of the monomials formed.

``coordinates`` makes points of them, C_jk = m_j'V u_k for k = 1..K, in float64.  Sums over n rows
of products of r inputs and u_k, in any order, and what centring has left of the mean of u_k, err
together by at most

    (n + 2 r + ROUNDINGS) u |m_j| |u_k|,      |m_j| <= s_j = scale_j prod_i (v'x_i^(2d))^(1/2d)

for a monomial of degree d (Hoelder), the norms being those of the weights v before centring.

``Leading`` finds the largest correlations |m_j'a| / |m_j|.  A bound needs |m_j'a| (``pricer``), in
which large monomials lead; a law that is one term has a correlation near to one whatever its size.
Squares of monomials are the monomials of the squares, so that sum_t m_tj, sum_t m_tj^2 and
sum_t m_tj a_t come from the same panels, the first two once for all vectors over the same rows.  It
works in float32 and without margins: it chooses what to look at, and proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import ROUNDOFF, NumpyArrays
from polysharp.pricing.panels import (
    Factors,
    Keep,
    Keys,
    Panel,
    PanelSizes,
    named,
    padded,
    panels,
    scales,
)
from polysharp.pricing.pricer import Pricer
from polysharp.typing import Array, Indices, Monomial, OnBlock

ROUNDINGS = 256.0  # of a sum made in pairs, of its mean and of taking that away; of scales
SPREAD = 1e-5  # of the mean square: what varies less is a constant, as far as float32 can tell


class Coordinates(NamedTuple):
    """Monomials, their products with K vectors, and their sizes s_j."""

    keys: Keys  # columns of the table, padded with -1
    values: Array  # (m, K)
    sizes: Array  # (m,)

    @property
    def monomials(self) -> list[Monomial]:
        """The monomials."""
        return named(self.keys)

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
    factors = Factors(arrays, pricer.exact_table[:-1])
    for panel in pricer.panels(on_block):
        local, once = panel.every_key()
        keys = pricer.inputs[local].astype(np.int32).reshape(local.shape)
        kept = np.flatnonzero(keep(keys))
        local, once = local[kept], once[kept]
        values = np.empty((len(once), len(vectors)))
        for k, vector in enumerate(vectors):
            values[:, k] = arrays.numpy(factors.correlations(panel, vector)).ravel()[once]
        values *= scales(local, pricer.degree)[:, None]
        keys = padded(keys[kept], pricer.degree)
        found.append(Coordinates(keys, values, _sizes(pricer, local)))
    return Coordinates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def size_of(pricer: Pricer, m: Monomial) -> float:
    """Return the size of one monomial."""
    local = np.searchsorted(pricer.inputs, np.array([m], dtype=np.intp).reshape(1, len(m)))
    return float(_sizes(pricer, local.astype(np.int32))[0])


def _sizes(pricer: Pricer, keys: Keys) -> Array:
    """Return the sizes of monomials of one degree, rounded up."""
    d, v = keys.shape[1], pricer.weight
    if d:
        norms = (pricer.arrays.numpy(pricer.squares) ** d @ v) ** (0.5 / d) * (1.0 + 1e-9)
        return np.asarray(scales(keys, pricer.degree) * norms[keys].prod(axis=1))
    return np.full(len(keys), np.sqrt(v.sum()) * (1.0 + 1e-9))


class Leading:
    """All monomials of some columns of a table, ascending, asked about one vector after another."""

    def __init__(self, X: Array, degree: int, columns: Sequence[int], keep: Keep) -> None:
        self.columns, arrays = np.array(columns, dtype=np.int32), NumpyArrays()
        table = arrays.table(X, np.array(columns, dtype=np.intp), "float32")
        p, n = table.shape
        self._factors, self._squares = Factors(arrays, table), Factors(arrays, table * table)
        sizes = PanelSizes.of(n, p, arrays.stack)
        self._panels = list(panels(p, degree, sizes, constant=False))
        self._counts = [self._counting(panel, keep) for panel in self._panels]
        self.see(np.ones(n, dtype=bool))

    def _counting(self, panel: Panel, keep: Keep) -> NDArray[np.bool_]:
        """Return which entries of a panel are monomials that count."""
        keys, once = panel.every_key()
        counts = np.zeros(panel.size, dtype=bool)
        counts[once] = keep(self.columns[keys].reshape(keys.shape))
        return counts.reshape(panel.shape)

    def see(self, rows: NDArray[np.bool_]) -> None:
        """Measure the monomials on some of the rows, which vectors to come are about."""
        self._rows, self._inverse = rows, list[Array]()  # 1 / |m_j| of centred monomials, or 0
        for panel, counts in zip(self._panels, self._counts, strict=True):
            square = self._sums(panel, self._squares, rows)
            total = self._sums(panel, self._factors, rows)
            spread = square - total * total / np.count_nonzero(rows)
            counted = counts & (spread > SPREAD * square)
            inverse = np.zeros_like(spread)
            inverse[counted] = spread[counted] ** -0.5
            self._inverse.append(inverse)

    def _sums(self, panel: Panel, factors: Factors, a: Array | NDArray[np.bool_]) -> Array:
        return np.array(factors.correlations(panel, a.astype(np.float32)), dtype=np.float32)

    def best(self, a: Array, top: int) -> list[list[Monomial]]:
        """Return the monomials that correlate most with a vector over the rows seen, by degree.

        Its mean must be 0.
        """
        vector = np.zeros(len(self._rows))
        vector[self._rows] = a
        found: dict[int, list[tuple[Array, Keys]]] = defaultdict(list)
        for panel, inverse in zip(self._panels, self._inverse, strict=True):
            values = (np.abs(self._sums(panel, self._factors, vector)) * inverse).ravel()
            first = np.argpartition(-values, min(top, len(values) - 1))[:top]
            first = first[values[first] > 0.0]
            keys, _ = panel.keys(*np.divmod(first, inverse.shape[1]))
            found[panel.degree].append((values[first], keys))
        lists = list[list[Monomial]]()
        for _, parts in sorted(found.items()):
            values, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
            order = np.argsort(-values, kind="stable")[:top]
            # Columns are ascending, so sorted keys name sorted monomials.
            lists.append([tuple(m) for m in self.columns[keys[order]].tolist()])
        return lists
