"""The records of a proof: a tree that covers all supports, with evidence wherever it ends.

Node 0 is the whole problem.  A node is one of three kinds:

    split        along a chain c_1, ..., c_m of monomials (or of inputs) into m + 1 children: child
                 a has c_1..c_{a-1} in and c_a out, the last child all of them in;
    dual         a vector whose dual value reaches the claim (none is needed if the rules leave no
                 support there);
    enumeration  the reader goes through all supports of the node, or, ``on_inputs``, through all
                 sets of inputs that fill the budget, each bounded by the ridge regression on all of
                 its monomials.

Before that a node may fix monomials by screening, the fourth kind of evidence: a vector proves that
every support of the node that contains (leaves out) monomial j costs at least the claim.

A vector is a sparse w; it stands for the dual vector a = y - M w, and its value is

    1/2 yy - 1/2 w'Qw - sum_in Z_j - top_L(Z_j, j free),   rho = q - Qw,  Z_j = rho_j^2/(2 ridge_j),

with Q = G - diag(d) - K, ridge = lam + d > 0 (``inequalities`` has it with intervals, ``curvature``
has d and K).  Without a diagonal the residual may be scaled.

After every fixing the rules apply (``allowed``).  Monomials are named by their positions in the
statement's list.  If that list is not complete, top_L runs over the unlisted monomials too, until a
screening leaves ``only`` some listed ones alive; diagonals and enumeration come after that.  If one
or two monomials may join, such a screening may name columns ``along`` in place of its vector
(``point_pairs``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.claim import Statement

Kind = Literal["dual", "split", "enumeration"]
Floats = NDArray[np.float64]
Positions = NDArray[np.intp]


class ProofError(ValueError):
    """What was given is no proof, or no whole file of one."""


@dataclass(frozen=True, eq=False)
class Vector:
    """A sparse w, the number of its diagonal (-1: none) and, without one, what a is times.

    If there are several responses, position t f + j names monomial j of response t.
    """

    index: Positions
    value: Floats
    diagonal: int = -1
    multiple: float = 1.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """A pairwise shift over sorted monomials: reach a_j, and ratios t_ij in steps of 2^-15."""

    index: Positions
    reach: Floats
    ratios: NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Diagonal:
    """d on the monomials ``index``; G - diag(d) - K is positive semidefinite there.

    K is that of ``pairs`` (many diagonals share one), acting on the monomials ``free`` alone, of
    which a support has at most ``terms``.
    """

    index: Positions
    value: Floats
    pairs: Any = None  # a record with the fields of Pairs
    free: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    terms: int = 0


@dataclass(frozen=True, eq=False)
class Screening:
    """Monomials that one vector fixes out or in; with ``only``, all others are out too.

    That these are out is shown by the vector, or by the columns of the monomials ``along``.
    """

    vector: Vector
    out: Positions
    inn: Positions
    only: Positions | None = None
    along: Positions | None = None


@dataclass(frozen=True, eq=False)
class ProofNode:
    """One node; ``children`` are positions in the list of nodes."""

    kind: Kind
    screenings: tuple[Screening, ...] = ()
    vector: Vector | None = None
    chain: tuple[int, ...] = ()
    on_inputs: bool = False
    children: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ProofRecord:
    """The claim "no allowed support costs less than ``bound``", and the tree that proves it.

    ``statement`` says what the claim is about in terms of the data.  The claim leaves out the
    supports in ``exceptions``, which are named one by one.
    """

    bound: float
    nodes: tuple[ProofNode, ...]
    diagonals: tuple[Diagonal, ...] = ()
    statement: Statement | None = None
    exceptions: tuple[tuple[int, ...], ...] = ()

    @property
    def vectors(self) -> list[Vector]:
        """All vectors that it rests on."""
        own = [node.vector for node in self.nodes if node.vector is not None]
        return own + [screening.vector for node in self.nodes for screening in node.screenings]


def all_finite(proof: Any) -> bool:
    """Return whether every number of a proof is one; only intervals may be open."""
    stack, seen = [proof], set[int]()
    while stack:
        record = stack.pop()
        if isinstance(record, int | float):
            if not isfinite(record):
                return False
        elif isinstance(record, np.ndarray):
            if record.dtype.kind not in "biuf" or not np.isfinite(record).all():
                return False
        elif isinstance(record, tuple | list):
            stack += record
        elif is_dataclass(record) and id(record) not in seen:  # vectors are shared by nodes
            seen.add(id(record))
            stack += [getattr(record, f.name) for f in fields(record) if f.name != "coefficients"]
    return True
