r"""Which monomials may join or leave a support, for all of them at once.

A search changes a support S one monomial at a time, and every support it keeps must satisfy the
structure.  ``entrants(S)`` marks the monomials j for which S + j is allowed:

    inputs      |A(j) \ I(S)| <= k - |I(S)|, and A(j) covers the required inputs that S leaves out;
    heredity    the parents of j are in S (all, or one), and j mends every orphan that S has.

S itself need not be allowed (it is what a swap leaves in between).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polysharp.monomials.structure import Structure
from polysharp.typing import Array, Indices

Mask = NDArray[np.bool_]


class Moves:
    """The moves a structure permits among the monomials of a mask."""

    def __init__(self, structure: Structure, among: Mask | None = None) -> None:
        f = structure.n_terms
        self.structure = structure
        self.among: Mask = np.ones(f, dtype=bool) if among is None else among.copy()
        self.free = structure.plain and not structure.inputs_bind
        self._fixed = np.zeros(f, dtype=bool)
        self._fixed[structure.required_terms] = True
        self._fitting: tuple[bytes, Mask] = (b"", self.among)
        if structure.heredity is not None:
            counts = [len(parents) for parents in structure.parents]
            columns = np.concatenate([*structure.parents, np.zeros(0, dtype=np.intp)])
            pointer = np.concatenate([[0], np.cumsum(counts)])
            self._wanted = np.array(counts)
            if structure.heredity == "weak":
                self._wanted = np.minimum(self._wanted, 1)
            self._parents = sparse.csr_array(
                (np.ones(len(columns)), columns, pointer), shape=(f, f)
            )

    def within(self, inputs: Mask) -> Moves:
        """Return the moves among the monomials of the given inputs only."""
        return Moves(self.structure, self.among & (self.structure.count_outside(inputs) == 0))

    def entrants(self, support: Indices) -> Mask:
        """Mark every j outside S for which S + j is allowed, the number of terms apart."""
        structure = self.structure
        mask = self.among.copy()
        mask[support] = False
        if self.free:
            return mask
        used = structure.inputs_of(support)
        if structure.inputs_bind:
            mask &= self._within_budget(used)
        for i in structure.required_inputs:
            if not used[i]:
                mask &= structure.uses[:, i]
        if structure.heredity is not None:
            mask &= self._inheriting(support)
        return mask

    def _within_budget(self, used: Mask) -> Mask:
        """Mark the monomials whose new inputs fit; most swaps ask about the same inputs again."""
        key = used.tobytes()
        if self._fitting[0] != key:
            room = self.structure.max_inputs - int(used.sum())
            self._fitting = key, self.structure.count_outside(used) <= room
        return self._fitting[1]

    def _inheriting(self, support: Indices) -> Mask:
        chosen = np.zeros(self.structure.n_terms)
        chosen[support] = 1.0
        mask: Mask = self._parents @ chosen >= self._wanted
        for orphan in support[~mask[support]]:
            parents = self.structure.parents[orphan]
            mends = np.zeros(len(mask), dtype=bool)
            mends[parents] = chosen[parents].sum() + 1 >= self._wanted[orphan]
            mask &= mends
        return mask

    def held(self, support: Indices) -> Mask:
        """Mark the members that may never leave."""
        return self._fixed[support]

    def may_lose(self, support: Indices, j: int) -> bool:
        """Whether S - j is allowed."""
        return not self._fixed[j] and (self.free or self.structure.allows(support[support != j]))

    def family(self, support: Indices, j: int, value: Array) -> Indices:
        """Return j with the ancestors that heredity wants and S lacks, oldest first.

        Weak heredity asks for one parent: the one of largest ``value``.
        """
        structure = self.structure
        chosen = set(support.tolist())
        missing: list[int] = []

        def bring(m: int) -> None:
            if m in chosen or m in missing:
                return
            parents = structure.parents[m] if structure.heredity is not None else support[:0]
            if structure.heredity == "weak" and len(parents):
                parents = parents[[np.argmax(value[parents])]]
                if not chosen.isdisjoint(structure.parents[m].tolist()):
                    parents = parents[:0]
            for parent in parents:
                bring(int(parent))
            missing.append(m)

        bring(j)
        return np.array(missing, dtype=np.intp)
