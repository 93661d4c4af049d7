"""Correlations with all monomials as sums of partial products, a tile of them at a time.

The f correlations M'a of a pass may be too many to hold.  They are cut into panels

    degree 0, 1, 2      one panel each: sum(a), X'a, (X * a)'X
    degree d >= 3       one panel per middle input j:  (X_{<=j} * (x_j a))' R_{>=j},
                        with R all monomials of degree d - 2 in inputs from j on,

and consecutive panels into tiles of at most 4 Mi entries (32 MiB).
Blocks of rows contribute partial products to a tile; these add, and only the largest entries of
the sum are kept (``largest``).  Everything is float64: with n rows the error of an entry is at most
(n + 16) u times the sum of magnitudes behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import factorial

import numpy as np

from polysharp.pricing.shortlist import Keys
from polysharp.pricing.sweep import Keep, scales
from polysharp.typing import Array, Indices

TILE_ENTRIES = 4 * 2**20
SLICE_ENTRIES = 2**22  # of the largest table that a slice of rows makes


@dataclass(frozen=True)
class Panel:
    """Monomials of one degree that come from one matrix product."""

    degree: int
    middle: int  # j of the monomials (i, j, rest), i <= j <= rest; unused below degree 3
    shape: tuple[int, int]

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def keys(self, entries: Indices, p: int) -> Keys:
        """Return the monomials at some entries, inputs in the order they were multiplied."""
        i, k = np.divmod(entries, self.shape[1])
        if self.degree == 0:
            return np.zeros((len(entries), 0), dtype=np.int32)
        if self.degree == 1:
            return k[:, None].astype(np.int32)
        if self.degree == 2:
            return np.column_stack([i, k]).astype(np.int32)
        rest = ends(self.degree - 2, self.middle, p)[k]
        middle = np.full(len(entries), self.middle)
        return np.column_stack([i, middle, rest]).astype(np.int32)


Tile = tuple[Panel, ...]


def panels(p: int, degree: int, *, constant: bool) -> Iterator[Panel]:
    """Yield all panels of p inputs."""
    if constant:
        yield Panel(0, 0, (1, 1))
    yield Panel(1, 0, (1, p))
    if degree >= 2:
        yield Panel(2, 0, (p, p))
    for d in range(3, degree + 1):
        for j in range(p):
            width = p - j if d == 3 else (p - j) * (p - j + 1) // 2
            yield Panel(d, j, (j + 1, width))


def tiles(p: int, degree: int, *, constant: bool, entries: int = TILE_ENTRIES) -> list[Tile]:
    """Cut the panels into tiles; a tile exceeds ``entries`` only where a single panel does."""
    found: list[list[Panel]] = [[]]
    size = 0
    for panel in panels(p, degree, constant=constant):
        if found[-1] and size + panel.size > entries:
            found.append([])
            size = 0
        found[-1].append(panel)
        size += panel.size
    return [tuple(tile) for tile in found]


def ends(d: int, first: int, p: int) -> Keys:
    """Return the monomials of degree d = 1 or 2 in the inputs ``first``, ..., p - 1."""
    k = np.arange(first, p, dtype=np.int32)
    if d == 1:
        return k[:, None]
    return np.column_stack(
        [np.repeat(k, p - k), np.concatenate([np.arange(a, p, dtype=np.int32) for a in k])]
    )


def partial_products(X: Array, a: Array, tile: Tile) -> Array:
    """Return what some rows contribute to the correlations of a tile, panel after panel."""
    p, degree = X.shape[1], max(panel.degree for panel in tile)
    widest = p * (p + 1) // 2 if degree == 4 else p
    rows = max(256, SLICE_ENTRIES // widest)
    offsets = _offsets(tile)
    total = np.zeros(offsets[-1])
    for start in range(0, len(a), rows):
        table = np.ascontiguousarray(X[start : start + rows].T)
        part = a[start : start + rows]
        pairs = _pairs(table) if degree == 4 else None
        for panel, (low, high) in zip(tile, pairwise(offsets), strict=True):
            total[low:high] += _product(table, pairs, part, panel).ravel()
    return total


def _offsets(tile: Tile) -> list[int]:
    return list(accumulate((panel.size for panel in tile), initial=0))


def _pairs(table: Array) -> Array:
    """Return all x_k x_l, k <= l, in lexicographic order."""
    return np.concatenate([table[k:] * table[k] for k in range(len(table))])


def _product(table: Array, pairs: Array | None, a: Array, panel: Panel) -> Array:
    d, j, p = panel.degree, panel.middle, len(table)
    if d == 0:
        return np.array([[a.sum()]])
    if d == 1:
        return np.asarray(table @ a)[None]
    if d == 2:
        return np.asarray((table * a) @ table.T)
    left = table[: j + 1] * (table[j] * a)
    if d == 3:
        return np.asarray(left @ table[j:].T)
    assert pairs is not None
    return np.asarray(left @ pairs[len(pairs) - (p - j) * (p - j + 1) // 2 :].T)


def largest(
    total: Array, tile: Tile, inputs: Indices, degree: int, keep: Keep | None, top: int
) -> tuple[Keys, Array]:
    """Return the ``top`` largest scaled correlations of a tile: keys padded with -1, and values.

    ``inputs`` are the user's numbers of the columns, in which ``keep`` and the keys are.
    """
    keys, values = np.zeros((0, degree), dtype=np.int32), np.zeros(0)
    threshold = 0.0
    for panel, (low, high) in zip(tile, pairwise(_offsets(tile)), strict=True):
        part = total[low:high]
        # Inputs that differ have the largest scale: what misses the threshold with it, misses it.
        most = np.sqrt(factorial(degree) / factorial(degree - panel.degree))
        entries = np.flatnonzero(np.abs(part) * most >= threshold)
        local = panel.keys(entries, len(inputs))
        named = inputs[local].astype(np.int32).reshape(local.shape)
        wanted = (np.diff(local, axis=1) >= 0).all(axis=1)  # degree 2 has both halves
        if keep is not None and len(named):
            wanted &= keep(named)
        padded = np.full((len(named), degree), -1, dtype=np.int32)
        padded[:, : panel.degree] = named
        keys = np.concatenate([keys, padded[wanted]])
        scaled = part[entries[wanted]] * scales(local[wanted], degree)
        values = np.concatenate([values, scaled])
        if len(values) > top:
            best = np.argpartition(-np.abs(values), top - 1)[:top]
            keys, values = keys[best], values[best]
            threshold = float(np.abs(values).min())
    return keys, values
