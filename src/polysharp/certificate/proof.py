"""A proof of a lower bound: the tree of a search, with one dual vector for each closed node.

Node 0 is the whole problem.  A node ends in one of these kinds:

    split      along a chain c_1, ..., c_m of monomials (or of inputs) into m + 1 children: child
               a has c_1..c_{a-1} in and c_a out, the last child all of them in;
    sets       into sets of undecided inputs that fill the budget k: ``chain`` lists some end to
               end, each is a child (the other undecided inputs are out); for any set not listed
               the ridge regression on all of its monomials costs at least the claim;
    dual       a vector whose dual value reaches the claim;
    exhausted  so few completions are left that all of them can be tried, and each costs at least
               the claim ("single" is the same where one monomial is left to choose);
    void       the rules leave no support.

Before it ends a node may fix monomials by screening: a vector proves that every support of the
node that contains (leaves out) monomial j costs at least the claimed bound.

A vector is a sparse w; it stands for the dual vector a = y - M w, and its value is

    1/2 yy - 1/2 w'Qw - sum_in Z_j - top_L(Z_j, j free),   rho = q - Qw,  Z_j = rho_j^2/(2 ridge_j),

with Q = G - diag(d) - K, ridge = lam + d > 0.  The diagonal d is 0 or one of ``diagonals``; its
entries may have any sign, and it needs Q >= 0 on the monomials alive at the node.  K is 0, or a
pairwise shift (``problem.pairwise_shift``) acting on the monomials F of the diagonal's ``free``:
v'Kv >= 0 for all v with at most T = ``terms`` entries other than zero in F, and no support of the
node may have more of them.  Without a diagonal the residual may be scaled:
1/2 (y'a)^2 / (|a|^2 + 2 sum_in Z + 2 top_L Z) with y'a = yy - q'w, |a|^2 = yy - 2 q'w + w'Qw.
Where coefficients are bounded, Z_j is the largest rho_j b - ridge_j b^2/2 within the bounds, and
the ``multiple`` that serves is the vector's own.

After every fixing the rules of the structure apply (``propagation``).  Indices of monomials are
positions in the basis of the problem, which the statement lists.  Where that list is not complete
(fits over all inputs), top_L runs over the unlisted monomials too, until a screening leaves
``only`` some listed ones alive; diagonals and exhausted ends come after that.  Where one or two
monomials may join, such a screening may name columns ``along`` in place of its vector: y and these
span vectors U, and every support of O and F has a combination of them that proves it to cost

    1/2 b'(N + sum_F c_j c_j' / lam)^-1 b,    b = U'y,  c_j = U'm_j,  N = U'U + U'M_O M_O'U / lam.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Literal

import numpy as np

from polysharp.problem.pairwise_shift import PairwiseMatrix
from polysharp.typing import Array, Indices, Monomial

if TYPE_CHECKING:
    from polysharp.certificate.statement import Statement

Kind = Literal["dual", "single", "void", "split", "sets", "exhausted"]

CLAIM_ROOM = 1e-9  # of the bound: a thousand times what rounding takes on ordinary data


@dataclass(frozen=True, eq=False)
class Vector:
    """A sparse w, the number of its diagonal (-1: none) and, without one, what a is times."""

    index: Indices
    value: Array
    diagonal: int = -1
    multiple: float = 1.0


@dataclass(frozen=True, eq=False)
class Diagonal:
    """d on the monomials ``index``; G - diag(d) - K is positive semidefinite there.

    K is that of the ``coupling``, acting on the monomials ``free`` alone, of which a support has at
    most so many ``terms``.  Many diagonals share one coupling.
    """

    index: Indices
    value: Array
    coupling: PairwiseMatrix | None = None
    free: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    terms: int = 0


@dataclass(frozen=True, eq=False)
class Screening:
    """Monomials that one vector fixes out or in; with ``only``, all others are out too.

    That these are out is shown by the vector, or by the columns of the monomials ``along``.
    """

    vector: Vector
    out: Indices
    inn: Indices
    only: Indices | None = None
    along: Indices | None = None


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
class Proof:
    """The claim "no allowed support costs less than ``bound``", and the tree that proves it.

    ``statement`` says what the claim is about in terms of the data; the estimator adds it.  The
    claim leaves out the supports in ``exceptions``, which are named one by one.
    """

    bound: float
    nodes: tuple[ProofNode, ...]
    diagonals: tuple[Diagonal, ...] = ()
    statement: Statement | None = None
    exceptions: tuple[tuple[int, ...], ...] = ()
    monomials: tuple[Monomial, ...] | None = None  # named in it, where not all are listed

    @property
    def vectors(self) -> list[Vector]:
        """All vectors that it rests on."""
        held = [node.vector for node in self.nodes if node.vector is not None]
        return held + [screening.vector for node in self.nodes for screening in node.screenings]

    def about(self, statement: Statement) -> Proof:
        """Return the proof with its statement."""
        return replace(self, statement=statement)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the proof to one small file, which ``load`` reads."""
        from polysharp.certificate.proof_file import save

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Proof:
        """Read a proof from a file; nothing in it is run."""
        from polysharp.certificate.proof_file import load

        return load(path)


@dataclass(eq=False)
class ProofWriter:
    """Collects nodes while a search runs; gives up beyond ``limit`` stored numbers.

    A search over unlisted monomials names those that it writes about, in ``names``.
    """

    limit: int
    nodes: list[ProofNode] = field(default_factory=list)
    diagonals: list[Diagonal] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    couplings: set[int] = field(default_factory=set)  # by id, of diagonals that are listed
    stored: int = 0
    names: dict[Monomial, int] | None = None

    @property
    def full(self) -> bool:
        """Whether the proof has outgrown its limit and is no longer kept."""
        return self.stored > self.limit

    def reserve(self) -> int:
        """Return the number of a new node."""
        self.nodes.append(ProofNode("split"))
        return len(self.nodes) - 1

    def listed(self, diagonal: Diagonal) -> int:
        """Return the number of a diagonal, which is listed when it is first asked for."""
        if id(diagonal) not in self.numbers:
            self.numbers[id(diagonal)] = len(self.diagonals)
            self._list(diagonal)
        return self.numbers[id(diagonal)]

    def _list(self, diagonal: Diagonal) -> None:
        """Keep a diagonal, and with it its id; a coupling counts once, two bytes a pair."""
        self.diagonals.append(diagonal)
        self.stored += len(diagonal.index)
        coupling = diagonal.coupling
        if coupling is not None and id(coupling) not in self.couplings:
            self.couplings.add(id(coupling))
            self.stored += len(coupling.index) ** 2 // 8 + len(coupling.index)

    def places(self, monomials: Iterable[Monomial]) -> Indices:
        """Return the positions of monomials, naming new ones."""
        names = self.names if self.names is not None else {}
        return np.array([names.setdefault(m, len(names)) for m in monomials], dtype=np.intp)

    def graft(self, number: int, first: Screening, inner: Proof, places: Indices) -> None:
        """Go on, after a screening, with a proof about monomials that stand at ``places``."""
        shift, moved = len(self.nodes), len(self.diagonals)
        self.nodes += [ProofNode("split")] * (len(inner.nodes) - 1)
        shared = {id(d.coupling): d.coupling for d in inner.diagonals}
        placed = {key: _placed(own, places) for key, own in shared.items() if own is not None}
        for d in inner.diagonals:
            coupling = placed.get(id(d.coupling))
            self._list(replace(d, index=places[d.index], coupling=coupling, free=places[d.free]))
        seen: dict[int, Vector] = {}

        def vector(v: Vector) -> Vector:
            diagonal = v.diagonal + moved if v.diagonal >= 0 else -1
            return seen.setdefault(id(v), replace(v, index=places[v.index], diagonal=diagonal))

        for a, node in enumerate(inner.nodes):
            screenings = tuple(
                Screening(vector(s.vector), places[s.out], places[s.inn]) for s in node.screenings
            )
            chain = node.chain if node.on_inputs else tuple(places[list(node.chain)].tolist())
            moved_node = ProofNode(
                node.kind,
                screenings if a else (first, *screenings),
                None if node.vector is None else vector(node.vector),
                chain,
                node.on_inputs,
                tuple(shift + child - 1 for child in node.children),
            )
            self.write(shift + a - 1 if a else number, moved_node)

    def write(self, number: int, node: ProofNode) -> None:
        """Set a node; screenings and vectors count towards the limit."""
        if self.full:
            self.nodes.clear()
            return
        self.nodes[number] = node
        lists: list[Indices | None] = [None if node.vector is None else node.vector.index]
        for s in node.screenings:
            lists += s.vector.index, s.out, s.inn, s.only, s.along
        self.stored += sum(len(part) for part in lists if part is not None)

    def proof(self, bound: float) -> Proof | None:
        """Return the finished proof, or None if it was given up.

        A reader lowers every value by what rounding can add at worst, in sums of an order of its
        own, so the claim stays a little below what the search has reached.
        """
        if self.full:
            return None
        claim, names = bound - CLAIM_ROOM * abs(bound), self.names
        named = None if names is None else tuple(names)
        return Proof(claim, tuple(self.nodes), tuple(self.diagonals), monomials=named)


def _placed(coupling: PairwiseMatrix, places: Indices) -> PairwiseMatrix:
    """Return a coupling of monomials that stand at ``places``, in their order there."""
    index = places[coupling.index]
    order = np.argsort(index)
    ratios = coupling.ratios[np.ix_(order, order)]
    return PairwiseMatrix(index[order], coupling.reach[order], ratios)
