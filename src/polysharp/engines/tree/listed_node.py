"""A node over listed monomials: its fixed monomials, its bound and the evidence for that.

A node fixes monomials and inputs in or out, and what the rules force follows (``propagation``).  A
dual point proves a bound B with prices Z.  If B falls short of the threshold, screening follows:
forcing a free monomial j outside the L largest costs at least B + Z_(L) - Z_j, and leaving out one
of the L largest at least B + Z_j - Z_(L+1); if that reaches the threshold, j is fixed.

Nodes are frozen: a bounder that proves more returns a new node of the same number.  A
``StartingPoint`` is kept beside each node, by number: it says where relaxations start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polysharp.checker.evidence import Diagonal, Kind, Screening, Vector
from polysharp.engines.tree.relaxation import Warm, fresh_warm, shares
from polysharp.problem.bounds import forcing_costs
from polysharp.problem.diagonal import DiagonalStart
from polysharp.problem.pairwise_shift import PairwiseMatrix
from polysharp.problem.propagation import FREE, IN, OUT, States, propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices


class Evidence(NamedTuple):
    """A vector that proves a bound, with the diagonal that it is used with."""

    vector: Vector
    shift: Diagonal | None = None


class PricedPoint(NamedTuple):
    """A dual point: its bound, the prices of all monomials, and the evidence for them."""

    bound: float
    Z: Array
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class ListedNode:
    """Monomials and inputs that are in, out or free, and a proved bound of their supports."""

    number: int
    record: int  # place in the proof
    core: Subproblem
    terms: States
    inputs: States
    bound: float = 0.0
    evidence: Evidence | None = None  # proves the bound
    screenings: tuple[tuple[Screening, Diagonal | None], ...] = ()  # that fixed monomials
    # Least cost of the supports that screening has discarded on the way to this node.
    discarded: float = np.inf
    ending: Kind = "split"  # how the node has ended, "split" while it is open
    by_inputs: bool = False  # whether it has ended by its sets of inputs

    @cached_property
    def fixed_in(self) -> Indices:
        """Monomials that are in."""
        return np.flatnonzero(self.terms == IN)

    @cached_property
    def free(self) -> Indices:
        """Monomials that are neither in nor out."""
        return np.flatnonzero(self.terms == FREE)

    @property
    def listed_free(self) -> Indices:
        """The free monomials as positions in the problem."""
        return self.core.index[self.free]

    @property
    def alive(self) -> Indices:
        """Monomials that are not out."""
        return np.flatnonzero(self.terms != OUT)

    @cached_property
    def budget(self) -> int:
        """Monomials that may still be chosen."""
        return self.core.structure.max_terms - len(self.fixed_in)

    @property
    def closed(self) -> bool:
        """Whether the node needs no further search."""
        return self.ending != "split"

    def propagated(self) -> ListedNode:
        """Return the node with what the rules force, or closed if they leave no support."""
        terms, inputs = self.terms.copy(), self.inputs.copy()
        if not propagate(self.core.structure, terms, inputs):
            return self.ended("dual", np.inf)  # without evidence
        return replace(self, terms=terms, inputs=inputs)

    def bounded(self, bound: float, evidence: Evidence) -> ListedNode:
        """Return the node with a bound, if that is better."""
        return replace(self, bound=bound, evidence=evidence) if bound > self.bound else self

    def ended(self, ending: Kind, bound: float, evidence: Evidence | None = None) -> ListedNode:
        """Return the node closed; a dual bound without evidence keeps that of the node."""
        better = bound == np.inf or (evidence is not None and bound >= self.bound)
        if ending == "dual" and not better:
            return replace(self, ending=ending)
        return replace(self, ending=ending, bound=bound, evidence=evidence)

    def screened(self, at: PricedPoint, threshold: float) -> ListedNode:
        """Return the node closed by a dual point, or with monomials fixed.

        Prices of monomials that are in or out do not matter.
        """
        node = self.bounded(at.bound, at.evidence)
        if node.bound >= threshold:
            return node.ended("dual", node.bound)
        cost, top = forcing_costs(at.bound, at.Z[self.free], self.budget)
        sure = cost >= threshold
        if not sure.any():
            return node
        terms, index = self.terms.copy(), self.core.index
        out, inn = self.free[sure & ~top], self.free[sure & top]
        terms[out], terms[inn] = OUT, IN
        screening = Screening(at.evidence.vector, index[out], index[inn])
        return replace(
            node,
            terms=terms,
            screenings=(*self.screenings, (screening, at.evidence.shift)),
            discarded=min(self.discarded, float(cost[sure].min())),
        )

    def written(self, W: Array, among: Indices | slice = slice(None)) -> Vector:
        """Return coefficients as a proof lists them: of response t and monomial j at t f + j."""
        core, (t, j) = self.core, np.nonzero(W)
        return Vector(t * core.problem.size + core.index[among][j], W[t, j], core.diagonal)


@dataclass(eq=False)
class StartingPoint:
    """The point from which the bounders of a node start, left by those of the node above.

    ``warm`` is the relaxation's last iterate; once a best diagonal was found, its solution over the
    core takes the place of that, with the pairwise shift that goes with it.
    """

    warm: Warm | None
    diagonal: DiagonalStart | None = None
    pairs: PairwiseMatrix | None = None
    paired: bool = False  # whether the node has looked for a pairwise shift of its own
    leaf_seconds: float = 0.0  # to enumerate the node's supports, while it waits
    _stored: tuple[tuple[Indices, ...], Array] | None = None

    def child(self) -> StartingPoint:
        """Return the starting point of a child."""
        warm = self.warm.copy() if self.warm else None
        return StartingPoint(warm, self.diagonal, self.pairs)

    def among(self, alive: Indices) -> StartingPoint:
        """Return the starting point over some monomials of the core, without an iterate."""
        diagonal = None if self.diagonal is None else self.diagonal.among(alive)
        return StartingPoint(None, diagonal, self.pairs, self.paired, self.leaf_seconds)

    def keep(self, diagonal: DiagonalStart, pairs: PairwiseMatrix | None) -> None:
        """Take a solution with a best diagonal in place of what was there."""
        self.warm, self.diagonal, self.pairs = None, diagonal, pairs

    def compress(self) -> None:
        """Keep only the nonzero coefficients while the node waits."""
        if self.warm is not None and self._stored is None:
            support = np.nonzero(self.warm.w)
            self._stored = support, self.warm.w[support]
            self.warm = Warm(np.zeros((0, 0)), np.zeros((0, 0)), self.warm.nu)

    def expand(self, core: Subproblem) -> None:
        """Undo ``compress``, with rho computed afresh."""
        if self.warm is not None and self._stored is not None:
            W = np.zeros_like(core.q)
            W[self._stored[0]] = self._stored[1]
            self.warm, self._stored = fresh_warm(core.systems, W, self.warm.nu), None

    def shares(self, node: ListedNode) -> Array:
        """Return s_j of the relaxation: 1 for monomials in, 0 for those out."""
        if self.diagonal is not None:
            s = self.diagonal.shares.copy()
        else:
            core, warm = node.core, self.warm
            assert warm is not None
            s = shares(warm.w, core.system.ridge, core.boxes, warm.nu)
        s[node.terms == OUT] = 0.0
        s[node.terms == IN] = 1.0
        return s
