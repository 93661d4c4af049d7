"""What all parts of one tree search share: settings, the run, starting points, the proof."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock
from typing import Any

from polysharp.certificate.proof import ProofWriter
from polysharp.checker.evidence import Diagonal, Kind, ProofNode, Screening, Vector
from polysharp.engines.base import Run
from polysharp.engines.tree.listed_node import ListedNode, StartingPoint
from polysharp.engines.tree.relaxation import RATE, Aim
from polysharp.engines.tree.support_store import SupportSink

WITHOUT_LIMIT = 1800.0  # seconds left that a search without a time limit plans with


@dataclass(frozen=True)
class Settings:
    """How nodes over listed monomials are treated.

    Parameters
    ----------
    max_proof : int
        Stored numbers beyond which the proof is given up.
    relaxation_rate : float
        Multiplications per second left that a relaxation may make.
    walks : int
        Idle walks of the local search from each exploration.
    explore_after : int
        Nodes branched on or strengthened after which other basins are explored: an easy proof is
        done by then.
    shrink : float
        A node moves to a subproblem of its own when this share of the monomials is left.
    smallest : int
        Subproblems of this many monomials are not worth making smaller.
    diagonal_shifts : bool
        Whether relaxations are solved together with their best diagonals.
    diagonal_seconds, diagonal_share : float
        Seconds, or share of the time spent so far, that a first best diagonal may take: if
        coordinate descent and screening close everything soon, large matrices are not worth it.
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
    leaf_seconds : float
        Seconds that leaf enumeration may always take if no best diagonal would be made.
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

    max_proof: int = 5_000_000
    relaxation_rate: float = RATE
    walks: int = 2
    explore_after: int = 4
    shrink: float = 0.5
    smallest: int = 40
    diagonal_shifts: bool = True
    diagonal_seconds: float = 0.5
    diagonal_share: float = 0.05
    diagonal_tol: float = 0.5
    pairwise_shifts: bool = True
    pairwise_worth: float = 16.0
    leaf_worth: float = 4.0
    leaf_seconds: float = 0.0
    outright_share: float = 0.3
    late_share: float = 0.5
    longest_chain: int = 4
    width: int = 512
    device_from: int = 1500
    device_types: tuple[str, ...] = ("cuda",)


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
        self.writer = ProofWriter(self.settings.max_proof)

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
