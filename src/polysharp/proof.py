"""A proof of a lower bound: the tree of a search, with one dual vector for each closed node.

The root is the whole problem.  An inner node is split along a chain of monomials (or inputs)
c_1, ..., c_m into m + 1 children: child a has c_1..c_{a-1} in and c_a out, the last child has all
of them in; together they cover the node.  Before it is split or closed, a node may fix monomials
by screening: a vector w proves that every support of the node with (without) monomial j costs at
least the claimed bound.  A closed node carries a vector w whose dual value reaches the claim, or
is void (the rules leave no support), or is a single (one monomial is left to choose, and each
choice is priced exactly).

``w`` stands for the dual vector a = y - M w; see ``relaxation`` for the inequality.  A dual value
may use a diagonal d with G - diag(d) >= 0 on the monomials alive: diagonals are listed once and
referred to by number.  All indices are positions in ``monomials``, the basis of the proof.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from polysharp.basis import Array, Indices, Monomial

Kind = Literal["dual", "void", "single", "split"]
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Vector:
    """A sparse w and the diagonal it is used with (-1: none); prices of links where k binds."""

    index: Indices
    value: Array
    diagonal: int = -1
    prices: int = -1


@dataclass(frozen=True, eq=False)
class Diagonal:
    """d on the monomials ``index``; G - diag(d) is positive semidefinite there."""

    index: Indices
    value: Array


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices u_ji >= 0 of links s_j <= h_i, as parallel arrays."""

    term: Indices
    input: Indices
    value: Array


@dataclass(frozen=True, eq=False)
class Screening:
    """Monomials that one vector fixes out or in."""

    vector: Vector
    out: Indices
    inn: Indices


@dataclass(eq=False)
class Node:
    """One node of the proof; ``children`` are numbers of nodes."""

    kind: Kind = "split"
    screenings: list[Screening] = field(default_factory=list)
    vector: Vector | None = None
    chain: tuple[int, ...] = ()
    on_inputs: bool = False
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Proof:
    """The claim "no allowed support costs less than ``bound``" and the tree that proves it."""

    bound: float
    nodes: tuple[Node, ...]
    diagonals: tuple[Diagonal, ...] = ()
    prices: tuple[Prices, ...] = ()
