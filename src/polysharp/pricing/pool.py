"""The pool: the few monomials of a huge basis that a search works with, and their moments.

A new monomial costs one product of its column with those already there, and nothing of G is
computed twice while the pool grows.  Columns are kept while they fit into a gigabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polysharp.pricing.columns import ColumnBlock
from polysharp.pricing.design import Design
from polysharp.typing import Array, Indices, Monomial, OnBlock


@dataclass(frozen=True, eq=False)
class Pool:
    """Monomials with their block of G and of q, and the means that were taken from them."""

    monomials: tuple[Monomial, ...]
    G: Array
    q: Array
    mean: Array
    blocks: tuple[ColumnBlock, ...] = ()  # the same monomials in the same order

    @classmethod
    def of(cls, design: Design, monomials: Sequence[Monomial]) -> Pool:
        """Build a pool from nothing."""
        return cls((), np.zeros((0, 0)), np.zeros(0), np.zeros(0)).extended(design, monomials)

    def __len__(self) -> int:
        return len(self.monomials)

    @cached_property
    def index(self) -> dict[Monomial, int]:
        """Position of each monomial."""
        return {m: j for j, m in enumerate(self.monomials)}

    def extended(
        self, design: Design, monomials: Sequence[Monomial], on_block: OnBlock | None = None
    ) -> Pool:
        """Return the pool with those of ``monomials`` that it does not hold yet."""
        wanted = [m for m in dict.fromkeys(monomials) if m not in self.index]
        if not wanted:
            return self
        columns, blocks = design.gram(self.blocks, sorted(wanted, key=len), on_block)
        old, names = len(self), tuple(m for block in blocks for m in block.monomials)
        G = np.empty((len(names), len(names)))
        G[:old, :old] = self.G
        G[:, old:] = columns
        G[old:, :old] = columns[:old].T
        q, mean = design.moments(names[old:])
        q, mean = np.concatenate([self.q, q]), np.concatenate([self.mean, mean])
        return Pool(names, G, q, mean, blocks)

    def selected(self, keep: Indices) -> Pool:
        """Return the pool of some of its monomials, given in ascending order."""
        names = tuple(self.monomials[j] for j in keep)
        kept = set(names)
        blocks = (block.part(kept) for block in self.blocks)
        return Pool(
            names,
            self.G[np.ix_(keep, keep)],
            self.q[keep],
            self.mean[keep],
            tuple(block for block in blocks if block.monomials),
        )

    def vector(self, w: dict[Monomial, float]) -> Array:
        """Return coefficients by monomial as an array; all of them must be in the pool."""
        values = np.zeros(len(self))
        values[[self.index[m] for m in w]] = list(w.values())
        return values
