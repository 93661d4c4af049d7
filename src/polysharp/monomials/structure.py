"""The set of allowed supports: the paper's S_{l,k}, and the options built on it.

A support s (monomials) with inputs h is allowed when

    sum_j s_j <= l,   sum_i h_i <= k,   s_j <= h_i  for every input i of monomial j.

Options add: required monomials are in, a monomial uses every required input, heredity holds, and
with ``exact_size`` sum_j s_j = l.  The parents of a monomial are the monomials of the basis with
one factor less; the constant is always present.  Strong heredity asks for all parents, weak
heredity for at least one.  ``boxes`` are the intervals of the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from polysharp.errors import InfeasibleError
from polysharp.monomials.basis import Basis
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.typing import Array, Indices, Monomial

Heredity = Literal["strong", "weak"] | None


def _indices(values: Sequence[int] = ()) -> Indices:
    return np.array(values, dtype=np.intp)


def parents_of(monomial: Monomial) -> list[Monomial]:
    """Return the monomials with one factor less, without the constant."""
    if len(monomial) < 2:
        return []
    return sorted({monomial[:a] + monomial[a + 1 :] for a in range(len(monomial))})


def inherits(m: Monomial, heredity: Heredity, there: Callable[[Monomial], bool]) -> bool:
    """Whether enough parents of a monomial are present for heredity."""
    parents = parents_of(m) if heredity is not None else []
    enough = any if heredity == "weak" else all
    return not parents or enough(map(there, parents))


@dataclass(frozen=True, eq=False)
class Structure:
    """Budgets, hierarchy and requirements over f monomials of p inputs."""

    uses: NDArray[np.bool_]  # (f, p)
    max_terms: int
    max_inputs: int
    required_terms: Indices = field(default_factory=_indices)
    required_inputs: Indices = field(default_factory=_indices)
    heredity: Heredity = None
    parents: tuple[Indices, ...] = ()  # per monomial; only with heredity
    exact_size: bool = False  # whether there must be exactly l terms
    boxes: Boxes | None = None  # of the scaled coefficients, for all or each response

    @classmethod
    def of_basis(
        cls,
        basis: Basis,
        max_terms: int,
        max_inputs: int | None = None,
        *,
        required_terms: Sequence[Monomial] = (),
        required_inputs: Sequence[int] = (),
        heredity: Heredity = None,
        boxes: Boxes | None = None,
    ) -> Structure:
        """Build the structure of a basis, whose inputs it numbers from 0.

        With heredity the basis must already be free of orphans (``heredity_closed``).
        """
        places, p = basis.index, basis.n_inputs
        families = basis.monomials if heredity else ()
        parents = ([places[q] for q in parents_of(m) if q in places] for m in families)
        return cls(
            uses=basis.uses,
            max_terms=min(max_terms, len(basis)),
            max_inputs=p if max_inputs is None else min(max_inputs, p),
            required_terms=_indices(sorted(places[m] for m in required_terms)),
            required_inputs=_indices(sorted(basis.place[i] for i in required_inputs)),
            heredity=heredity,
            parents=tuple(map(_indices, parents)),
            boxes=boxes,
        )

    @property
    def n_terms(self) -> int:
        """Number of monomials f."""
        return int(self.uses.shape[0])

    @property
    def n_inputs(self) -> int:
        """Number of inputs p."""
        return int(self.uses.shape[1])

    @cached_property
    def inputs_bind(self) -> bool:
        """Whether k can exclude a support that l allows."""
        widest = np.sort(self.uses.sum(axis=1))[::-1][: self.max_terms]
        most = min(int(self.uses.any(axis=0).sum()), int(widest.sum()))
        return self.max_inputs < most

    @cached_property
    def plain(self) -> bool:
        """Whether budgets are all there is: no choice of monomials asks for another one."""
        return (
            self.heredity is None and not len(self.required_terms) and not len(self.required_inputs)
        )

    @cached_property
    def input_table(self) -> Indices:
        """The inputs of every monomial, one row each, padded with p."""
        counts = self.uses.sum(axis=1)
        table = np.full((self.n_terms, max(1, int(counts.max(initial=0)))), self.n_inputs)
        rows, columns = np.nonzero(self.uses)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        table[rows, np.arange(len(rows)) - starts] = columns
        return table.astype(np.intp)

    @cached_property
    def parent_table(self) -> Indices:
        """The parents of every monomial, one row each, padded with f."""
        most = max((len(parents) for parents in self.parents), default=0)
        table = np.full((self.n_terms, most), self.n_terms, dtype=np.intp)
        for row, parents in zip(table, self.parents, strict=False):
            row[: len(parents)] = parents
        return table

    def count_outside(self, inputs: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return how many inputs each monomial uses beyond the given ones."""
        outside = np.append(~inputs, False)
        return np.asarray(outside[self.input_table].sum(axis=1), dtype=np.intp)

    def in_units(self, units: Sequence[float]) -> Structure:
        """Return the structure for responses that were divided by these units."""
        return self if self.boxes is None else replace(self, boxes=self.boxes.divided(units))

    def inputs_of(self, support: Indices) -> NDArray[np.bool_]:
        """Return the mask of the inputs used by a support."""
        return np.asarray(self.uses[support].any(axis=0))

    def allows(self, support: Indices) -> bool:
        """Whether a support satisfies every rule."""
        chosen = np.zeros(self.n_terms, dtype=bool)
        chosen[support] = True
        used = self.inputs_of(support)
        enough = np.any if self.heredity == "weak" else np.all
        elders = (self.parents[j] for j in support) if self.heredity else ()
        return (
            len(support) == int(chosen.sum()) <= self.max_terms
            and (len(support) == self.max_terms or not self.exact_size)
            and int(used.sum()) <= self.max_inputs
            and bool(chosen[self.required_terms].all())
            and bool(used[self.required_inputs].all())
            and all(not len(parents) or enough(chosen[parents]) for parents in elders)
        )

    def greedy(self, order: Indices) -> Indices:
        """Take monomials in order while both budgets allow it; ignore requirements."""
        chosen: list[int] = []
        used = np.zeros(self.n_inputs, dtype=bool)
        for j in order:
            if len(chosen) == self.max_terms:
                break
            both = used | self.uses[j]
            if int(both.sum()) <= self.max_inputs:
                chosen.append(int(j))
                used = both
        return np.array(chosen, dtype=np.intp)

    def restrict(self, keep: Indices) -> Structure:
        """Return the structure over the monomials ``keep``; the others count as out."""
        place = np.full(self.n_terms, -1, dtype=np.intp)
        place[keep] = np.arange(len(keep))
        parents = tuple(place[self.parents[j]] for j in keep) if self.heredity else ()
        return replace(
            self,
            uses=self.uses[keep],
            max_terms=self.max_terms if self.exact_size else min(self.max_terms, len(keep)),
            required_terms=place[self.required_terms],
            parents=tuple(ranks[ranks >= 0] for ranks in parents),
            boxes=None if self.boxes is None else self.boxes.among(keep),
        )

    @cached_property
    def constraints(self) -> LinearConstraint:
        """The rules as rows over the variables (s, h); required terms are ``lower`` bounds.

        Rows for the inputs h exist only if k can bind.
        """
        f, p = self.n_terms, self.n_inputs
        unit = sparse.eye_array(f + p, format="csr")
        terms = np.repeat([[1.0, 0.0]], [f, p], axis=1)
        fewest = self.max_terms if self.exact_size else -np.inf
        rules: list[tuple[Any, float, float]] = [(terms, fewest, self.max_terms)]
        if self.inputs_bind:
            child, parent = np.nonzero(self.uses)
            links = unit[child] - unit[f + parent]
            rules += [(1.0 - terms, -np.inf, self.max_inputs), (links, -np.inf, 0.0)]
        if len(self.required_inputs):
            users = self.uses[:, self.required_inputs].T.astype(float)
            rules.append((np.pad(users, ((0, 0), (0, p))), 1.0, np.inf))
        heirs, parent = np.nonzero(self.parent_table < f)
        parent = self.parent_table[heirs, parent]
        if self.heredity == "strong":
            rules.append((unit[heirs] - unit[parent], -np.inf, 0.0))
        elif self.heredity == "weak":
            heirs, row = np.unique(heirs, return_inverse=True)
            any_parent = sparse.csr_array((np.ones(len(row)), (row, parent)), (len(heirs), f + p))
            rules.append((unit[heirs] - any_parent, -np.inf, 0.0))
        blocks, lower, upper = zip(*rules, strict=True)
        count = [block.shape[0] for block in blocks]
        rows = sparse.vstack([sparse.csr_array(block) for block in blocks], format="csr")
        return LinearConstraint(rows, np.repeat(lower, count), np.repeat(upper, count))

    @cached_property
    def lower(self) -> Array:
        """Lower bounds of (s, h): 1 for required terms and inputs."""
        bound = np.zeros(self.n_terms + self.n_inputs)
        bound[self.required_terms] = 1.0
        bound[self.n_terms + self.required_inputs] = 1.0
        return bound

    def best_linear(self, value: Array) -> Indices:
        """Return an allowed support of largest total ``value`` (a small integer programme)."""
        if not self.n_terms and not len(self.required_inputs):
            return _indices()
        # Solvers take costs beyond about 1e20 for infinite; only their ratios matter.
        largest = float(np.abs(value).max(initial=0.0)) or 1.0
        cost = np.concatenate([-value / largest, np.zeros(self.n_inputs)])
        answer = milp(
            cost,
            integrality=np.ones(len(cost)),
            bounds=Bounds(self.lower, np.ones(len(cost))),
            constraints=self.constraints,
            options={"time_limit": 10.0},
        )
        if answer.x is not None:
            return np.flatnonzero(answer.x[: self.n_terms] > 0.5)
        if answer.status != 2:  # HiGHS gave up
            raise InfeasibleError("no polynomial that satisfies all the rules was found in 10 s")
        raise InfeasibleError(
            "no polynomial satisfies all the rules together: "
            f"max_terms={self.max_terms}, max_inputs={self.max_inputs}, "
            f"heredity={self.heredity!r}, {len(self.required_terms)} required terms, "
            f"{len(self.required_inputs)} required inputs"
        )


def heredity_closed(basis: Basis, heredity: Heredity) -> Basis:
    """Drop the monomials that can never satisfy heredity because of parents not in the basis."""
    if heredity is None:
        return basis
    kept: set[Monomial] = set()
    for m in sorted(basis.monomials, key=len):
        if inherits(m, heredity, kept.__contains__):
            kept.add(m)
    return basis.filter(kept.__contains__)
