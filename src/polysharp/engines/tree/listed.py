"""A node over listed monomials: what it fixes, what is proved about it, and how it waits.

A node fixes monomials and inputs in or out, and what the rules force follows (``propagation``).  A
dual point proves a bound B with prices Z.  Where B falls short of the threshold, screening follows:
forcing a free monomial j outside the L largest costs at least B + Z_(L) - Z_j, and leaving out one
of the L largest at least B + Z_j - Z_(L+1); where that reaches the threshold, j is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polysharp.checker.evidence import Diagonal, Kind, Screening, Vector
from polysharp.engines.tree.loop import Node
from polysharp.engines.tree.relaxation import (
    Aim,
    Relaxed,
    Warm,
    fresh_warm,
    shares,
    solve_relaxation,
)
from polysharp.problem.bounds import forcing_costs
from polysharp.problem.diagonal import Start
from polysharp.problem.pairwise_shift import PairwiseMatrix
from polysharp.problem.propagation import FREE, IN, OUT, States, propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices


class PricedPoint(NamedTuple):
    """A dual point: its bound, the prices of all monomials, and what proves them."""

    bound: float
    Z: Array
    vector: Vector
    moved: Diagonal | None = None


@dataclass(eq=False)
class ListedNode(Node):
    """Monomials and inputs that are in, out or free, and the relaxation of what is left."""

    core: Subproblem
    terms: States
    inputs: States
    warm: Warm | None  # the relaxation's last iterate; None once closed or sharp
    kind: Kind = "split"  # "split" while open
    vector: Vector | None = None  # proves the bound
    moved: Diagonal | None = None  # with this diagonal, if there is one
    point: Start | None = None  # the best diagonal's solution, over the core, once it was asked for
    coupling: PairwiseMatrix | None = None  # that goes with the point
    coupled: bool = False  # whether a coupling of its own has been looked for
    # What was fixed on the way, with the diagonals that the vectors are used with.
    screenings: list[tuple[Screening, Diagonal | None]] = field(default_factory=list)
    record: int = 0  # number in the proof
    stored: tuple[tuple[Indices, ...], Array] | None = None  # w of an open node that waits
    ends: float = 0.0  # seconds to try its supports, while it is open

    @property
    def held(self) -> Indices:
        """Monomials that are in."""
        return np.flatnonzero(self.terms == IN)

    @property
    def free(self) -> Indices:
        """Monomials that are neither in nor out."""
        return np.flatnonzero(self.terms == FREE)

    @property
    def listed_free(self) -> Indices:
        """The same, as positions in the problem."""
        return self.core.index[self.free]

    @property
    def alive(self) -> Indices:
        """Monomials that are not out."""
        return np.flatnonzero(self.terms != OUT)

    @property
    def budget(self) -> int:
        """Monomials that may still be chosen."""
        return self.core.structure.max_terms - len(self.held)

    @property
    def closed(self) -> bool:
        """Whether the node needs no further search."""
        return self.kind != "split"

    def forced(self) -> bool:
        """Fix what the rules force; False, and the node is closed, where they leave nothing."""
        possible = propagate(self.core.structure, self.terms, self.inputs)
        if not possible:
            self.close("dual", np.inf)  # and no vector
        return possible

    def raise_bound(self, bound: float, vector: Vector, moved: Diagonal | None = None) -> None:
        """Take a bound with its proof where it is better."""
        if bound > self.bound:
            self.bound, self.vector, self.moved = bound, vector, moved

    def take(self, at: PricedPoint, threshold: float) -> tuple[Indices, Indices]:
        """Let a dual point close the node or fix monomials; return what came in and what went out.

        Prices of monomials that are in or out do not matter.
        """
        self.raise_bound(at.bound, at.vector, at.moved)
        free = self.free
        if self.bound >= threshold:
            self.close("dual", self.bound)
            return free[:0], free[:0]
        cost, top = forcing_costs(at.bound, at.Z[free], self.budget)
        sure = cost >= threshold
        out, inn = free[sure & ~top], free[sure & top]
        if sure.any():
            index = self.core.index
            self.screenings.append((Screening(at.vector, index[out], index[inn]), at.moved))
            self.set_aside = min(self.set_aside, float(cost[sure].min()))
            self.terms[out] = OUT
            self.terms[inn] = IN
        return inn, out

    def close(self, kind: Kind, bound: float, vector: Vector | None = None) -> None:
        """End the node with a bound and its proof."""
        self.kind = kind
        better = bound == np.inf or (vector is not None and bound >= self.bound)
        if kind == "enumeration" or better:
            self.bound, self.vector, self.moved = bound, vector, None
        self.warm = self.stored = self.point = self.coupling = None

    def compress(self) -> None:
        """Keep only the nonzero coefficients while the node waits."""
        if self.warm is None:
            return
        support = np.nonzero(self.warm.w)
        self.stored = support, self.warm.w[support]
        self.warm = Warm(np.zeros(0), np.zeros(0), self.warm.nu)

    def expand(self) -> None:
        """Undo ``compress``, with rho computed afresh."""
        if self.warm is None or self.stored is None:
            return
        w = np.zeros_like(self.core.q)
        w[self.stored[0]] = self.stored[1]
        self.start_at(w, self.warm.nu)
        self.stored = None

    def start_at(self, W: Array, nu: float) -> None:
        """Let the relaxation start at some coefficients."""
        self.warm = fresh_warm(self.core.systems, W, nu)

    def relaxed(self, aim: Aim) -> Relaxed:
        """Solve the relaxation from where it stands."""
        if self.warm is None:
            self.start_at(np.zeros_like(self.core.q), 1.0)
        assert self.warm is not None
        self.core = self.core.read_once_more()
        core = self.core
        return solve_relaxation(core.systems, self.terms, self.budget, self.warm, aim, core.times)

    def written(self, W: Array, among: Indices | slice = slice(None)) -> Vector:
        """Return coefficients as a proof lists them: of response t and monomial j at t f + j."""
        core = self.core
        t, j = np.nonzero(W)
        return Vector(t * core.problem.size + core.index[among][j], W[t, j], core.diagonal)

    def shares(self) -> Array:
        """s_j of the relaxation: 1 for monomials in, 0 for those out."""
        if self.point is not None:
            s = self.point.shares.copy()
        else:
            assert self.warm is not None
            s = shares(self.warm.w, self.core.system.ridge, self.core.boxes, self.warm.nu)
        s[self.terms == OUT] = 0.0
        s[self.terms == IN] = 1.0
        return s
