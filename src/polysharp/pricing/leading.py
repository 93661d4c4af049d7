"""The monomials that correlate most with a vector, |m_j'a| / |m_j|, none of them formed.

What a bound needs is |m_j'a| (``pricer``), and large monomials lead in it.  A law that is one term
is found by its correlation, which is near to one whatever its size.  Squares of monomials are the
monomials of the squares, so that

    sum_t m_tj,     sum_t m_tj^2,     sum_t m_tj a_t

come from the same panels; the first two once for all vectors over the same rows.  In float32 and
without margins: this is for choosing what to look at, and proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import NumpyArrays
from polysharp.pricing.panels import Factors, Keep, Keys, Panel, PanelSizes, panels
from polysharp.typing import Array, Monomial

SPREAD = 1e-5  # of the mean square: what varies less is a constant, as far as float32 can tell


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
        keys, once = panel.keys(*np.divmod(np.arange(panel.size), panel.shape[1]))
        counts = np.zeros(panel.size, dtype=bool)
        counts[once] = keep(self.columns[keys].reshape(keys.shape))
        return counts.reshape(panel.shape)

    def see(self, rows: NDArray[np.bool_]) -> None:
        """Measure the monomials on some of the rows, which vectors to come are about."""
        self._rows = rows
        self._inverse = [
            self._inverse_norms(panel, counts)
            for panel, counts in zip(self._panels, self._counts, strict=True)
        ]

    def _inverse_norms(self, panel: Panel, counts: NDArray[np.bool_]) -> Array:
        """Return 1 / |m_j| of centred monomials; 0 for those that do not count."""
        square = self._sums(panel, self._squares, self._rows)
        total = self._sums(panel, self._factors, self._rows)
        spread = square - total * total / np.count_nonzero(self._rows)
        counts = counts & (spread > SPREAD * square)
        inverse = np.zeros_like(spread)
        inverse[counts] = spread[counts] ** -0.5
        return inverse

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
            first = np.arange(len(values))
            if len(values) > top:
                first = np.argpartition(-values, top)[:top]
            first = first[values[first] > 0.0]
            keys, _ = panel.keys(*np.divmod(first, inverse.shape[1]))
            found[panel.degree].append((values[first], keys))
        return [self._ordered(parts, top) for _, parts in sorted(found.items())]

    def _ordered(self, parts: list[tuple[Array, Keys]], top: int) -> list[Monomial]:
        values, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(-values, kind="stable")[:top]
        # Columns are ascending, so sorted keys name sorted monomials.
        return [tuple(m) for m in self.columns[keys[order]].tolist()]
