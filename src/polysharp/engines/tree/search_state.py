"""What all parts of one tree search share: settings, nodes, starting points, the proof.

A node over listed monomials fixes monomials and inputs in or out, and what the rules force follows
(``propagation``).  A dual point proves a bound B with prices Z.  If B falls short of the threshold,
screening follows: forcing a free monomial j outside the L largest costs at least B + Z_(L) - Z_j,
and leaving out one of the L largest at least B + Z_j - Z_(L+1); if that reaches the threshold, j is
fixed.

Nodes are frozen: a bounder that proves more returns a new node of the same number.  A
``StartingPoint`` is kept beside each node, by number: it says where relaxations start.

Nodes are bounded in threads; the supports they find wait in a sink until the search takes them,
between two steps, so that the threshold moves only there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polysharp.certificate.proof import ProofWriter
from polysharp.checker.evidence import Diagonal, Kind, ProofNode, Screening, Vector
from polysharp.engines.base import Run
from polysharp.engines.tree.relaxation import RATE, Aim, Warm, fresh_warm, shares
from polysharp.problem.bounds import forcing_costs
from polysharp.problem.diagonal import DiagonalStart
from polysharp.problem.pairwise_shift import PairwiseMatrix
from polysharp.problem.propagation import FREE, IN, OUT, States, propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

WITHOUT_LIMIT = 1800.0  # seconds left that a search without a time limit plans with
MOST_STORED = 5_000_000  # numbers beyond which a proof is given up


@dataclass(frozen=True)
class Settings:
    """How nodes over listed monomials are treated.

    Parameters
    ----------
    relaxation_rate : float
        Multiplications per second left that a relaxation may make.
    explore_after : int
        Nodes branched on or strengthened after which other basins are explored: an easy proof is
        done by then.
    shrink : float
        A node moves to a subproblem of its own when this share of the monomials is left.
    smallest : int
        Subproblems of this many monomials are not worth making smaller.
    diagonal_shifts : bool
        Whether relaxations are solved together with their best diagonals.
    diagonal_seconds : float
        Seconds that a first best diagonal may take, or a share of the time spent so far if that is
        more: if coordinate descent and screening close everything soon, large matrices are not
        worth it.
    diagonal_tol : float
        How near to the best a diagonal must be, as a share of the distance to the threshold.
    pairwise_shifts : bool
        Whether a pairwise shift is looked for when a best diagonal falls short.
    pairwise_worth : float
        How many times its time a pairwise shift has to save, by the branching so far.  That
        estimate is rough, and a part of what a shift brings is lost on the nodes below.
    leaf_worth : float
        A node is ended by leaf enumeration if that takes no longer than this many relaxations
        with their best diagonals; closing it by relaxations takes about ten of them.
    outright_share : float
        Share of the time left that enumerating the supports of the root may take if it has too
        many monomials for a best diagonal.
    late_share : float
        Share of the time spent that enumerating the supports of all open nodes may take; then it
        is done.
    longest_chain : int
        Most terms that one branching decides if shares come from the best diagonal.
    width : int
        Nodes that are branched on at a time if a device relaxes them.
    device_from : int
        Monomials from which a device relaxes nodes.
    device_types : tuple of str
        Kinds of device that do.
    """

    relaxation_rate: float = RATE
    explore_after: int = 4
    shrink: float = 0.5
    smallest: int = 40
    diagonal_shifts: bool = True
    diagonal_seconds: float = 0.5
    diagonal_tol: float = 0.5
    pairwise_shifts: bool = True
    pairwise_worth: float = 16.0
    leaf_worth: float = 4.0
    outright_share: float = 0.3
    late_share: float = 0.5
    longest_chain: int = 4
    width: int = 512
    device_from: int = 1500
    device_types: tuple[str, ...] = ("cuda",)


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


class SupportSink:
    """Offers supports to a run as incumbents."""

    wants_all: ClassVar[bool] = False  # or only the best support of a node
    most_listed: ClassVar[int] = 5_000  # supports below one node: with more, it is split first

    def __init__(self, run: Run) -> None:
        self.run = run
        self._found = deque[Indices]()

    def take(self, support: Indices, cost: float) -> bool:
        """Take a support that costs at least ``cost``; return whether bounds need not cover it."""
        del cost
        self._found.append(support)
        return False

    def drain(self) -> None:
        """Offer what was taken."""
        while self._found:
            self.run.offer(self._found.popleft())


@dataclass(eq=False)
class SearchState:
    """The run of one search, its starting points by node, and its proof."""

    settings: Settings
    run: Run
    sink: SupportSink
    starts: dict[int, StartingPoint] = field(default_factory=dict)
    cancelled: bool = False  # for threads that still bound nodes when the search has ended
    writer: ProofWriter = field(init=False)
    numbering: Lock = field(default_factory=Lock)  # of diagonals in the proof
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.writer = ProofWriter(MOST_STORED)

    @property
    def threshold(self) -> float:
        """A node with this bound is closed."""
        return self.run.threshold

    @property
    def left(self) -> float:
        """Seconds left to plan with."""
        return min(self.run.time_left, WITHOUT_LIMIT)

    def expired(self) -> bool:
        """Whether the time is up."""
        return self.cancelled or self.run.expired

    def aim(self) -> Aim:
        """How far relaxations go: to the threshold of now, within the time left."""
        return Aim(
            self.run.threshold,
            seconds=self.run.time_left,
            rate=self.settings.relaxation_rate,
            cancelled=lambda: self.cancelled,
        )

    def new_node(self, start: StartingPoint, **fields: Any) -> ListedNode:
        """Return a new node with its starting point and its place in the proof."""
        node = ListedNode(next(self._numbers), self.writer.reserve(), **fields)
        self.starts[node.number] = start
        return node

    def child(self, node: ListedNode, start: StartingPoint, **changes: Any) -> ListedNode:
        """Return a part of a node as a new node."""
        number, record = next(self._numbers), self.writer.reserve()
        self.starts[number] = start
        return replace(node, number=number, record=record, screenings=(), **changes)

    def write(self, node: ListedNode, ending: Kind, **rest: Any) -> None:
        """Write a node into the proof; one that is divided needs no evidence of its own."""
        needed = None if ending == "split" else node.evidence
        vector = None if needed is None else self._numbered(*needed)
        self.writer.write(node.record, ProofNode(ending, self.screenings(node), vector, **rest))

    def screenings(self, node: ListedNode) -> tuple[Screening, ...]:
        """Return what was fixed on the way to a node, as the proof lists it."""
        return tuple(
            replace(screening, vector=self._numbered(screening.vector, shift))
            for screening, shift in node.screenings
        )

    def _numbered(self, vector: Vector, shift: Diagonal | None) -> Vector:
        """Return a vector with the number of its diagonal in the proof."""
        return vector if shift is None else replace(vector, diagonal=self.writer.listed(shift))
