"""The bound that uses the input budget: every set of k inputs with all of its monomials.

Below a node that has decided some inputs, a support lies in the monomials J(T) of one set
T of the undecided inputs that fills the budget k.  For the ridge regression on all of them,
w = (G_JJ + lam I)^-1 q_J, the dual value

    yy/2 - w'G w/2 - sum_in Z_j - top_L(Z_j, j free),   rho = q - G w,  Z_j = rho_j^2 / (2 lam)

(``bounds``) holds for every support in J(T): at least the cost of all of J(T) together, since top_L
leaves out what the budget l does.  With few inputs to choose, going through all sets costs far less
than closing them one fractional relaxation after another, because a relaxation spreads its shares
over all inputs and the links s_j <= h_i hardly cut it.  The sets that stay below the threshold
become nodes of their own, each with a few dozen monomials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import NamedTuple

import numpy as np
from numba import f8, i8, void
from numpy.typing import NDArray

from polysharp.checker.evidence import Vector
from polysharp.engines.compiling import Compiler
from polysharp.engines.tree.bounder import Bounder
from polysharp.engines.tree.relaxation import fresh_warm
from polysharp.engines.tree.search_state import Evidence, ListedNode, StartingPoint
from polysharp.problem.bounds import member_bounds
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.typing import Array, Indices

MOST_WORK = 2e10  # multiply-adds of all factorisations together: some seconds
WORK_RATE = 2e9  # multiply-adds a second
MOST_SETS = 100_000
MOST_BITS = 62  # undecided inputs, which a mask has bits for
AT_ONCE = 1024  # sets between two looks at the clock
MOST_LEFT = 2_000  # sets kept; more, and the bound was of no use


kernel = Compiler(__file__, later=True)
VEC, MAT = f8[::1], f8[:, ::1]


class InputSet(NamedTuple):
    """A set of undecided inputs, the monomials alive with it, and their bound."""

    inputs: Indices
    terms: Indices  # positions in the core
    w: Array
    bound: float


class Sifted(NamedTuple):
    """The sets that may hold a better model, and the least bound of all others."""

    left: list[InputSet]
    closed: float


class SetsBelow:
    """The sets of inputs that fill the budget below a node."""

    def __init__(self, node: ListedNode) -> None:
        self.core, self.budget = node.core, node.budget
        uses = node.core.structure.uses
        alive = node.alive
        self.fixed_in = node.terms == IN
        self.undecided = np.flatnonzero(uses[alive].any(axis=0) & (node.inputs == FREE))
        room = node.core.structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
        self.room = min(room, len(self.undecided))
        self.alive = alive

    @cached_property
    def masks(self) -> NDArray[np.int64]:
        """The undecided inputs of each monomial, as bits; -1 for monomials that are out."""
        uses = self.core.structure.uses[:, self.undecided].astype(np.int64)
        masks = uses @ (1 << np.arange(len(self.undecided)))
        alive = np.isin(np.arange(self.core.size), self.alive)
        return np.asarray(np.where(alive, masks, -1))

    @property
    def count(self) -> int:
        """Number of sets, which may be astronomical."""
        return comb(len(self.undecided), self.room)

    @property
    def work(self) -> float:
        """Multiply-adds that bound all sets, each as if it were the largest of them."""
        keys, counts = np.unique(self.masks[self.alive], return_counts=True)
        widths = np.array([int(key).bit_count() for key in keys.tolist()], dtype=np.intp)
        sizes = np.zeros(int(widths.max(initial=0)) + 1)  # of the largest group with so many inputs
        np.maximum.at(sizes, widths, counts)
        largest = sum(comb(self.room, d) * size for d, size in enumerate(sizes))
        return float(self.count * (largest**3 / 6.0 + 4.0 * largest**2 + len(self.masks) + 1e3))

    @property
    def affordable(self) -> bool:
        """Whether all sets can be bounded within the work allowed."""
        few = self.room < len(self.undecided) <= MOST_BITS and self.count <= MOST_SETS
        return few and self.work <= MOST_WORK

    def sift(self, threshold: float, expired: Callable[[], bool]) -> Sifted | None:
        """Bound every set; None where too many are left or the time has run out."""
        left, closed = list[InputSet](), np.inf
        system = self.core.without_curvature(np.arange(self.core.size))
        sets = combinations(range(len(self.undecided)), self.room)
        while some := list(islice(sets, AT_ONCE)):
            if expired():
                return None
            places = np.array(some, dtype=np.int64).reshape(len(some), self.room)
            masks = (1 << places).sum(axis=1)[:, None]
            members, there = _members((self.masks >= 0) & (self.masks & ~masks == 0))
            W, rho = np.zeros(members.shape), np.zeros(members.shape)
            sizes = there.sum(axis=1)
            _ridge_fits(system.Q, system.ridge, system.q, members, sizes, W, rho)
            bounds = member_bounds(system, members, W, rho, there, self.fixed_in, self.budget)
            closed = min(closed, float(bounds[bounds >= threshold].min(initial=np.inf)))
            for s in np.flatnonzero(~(bounds >= threshold)):
                own = there[s]
                terms, w = members[s, own], W[s, own]
                left.append(InputSet(self.undecided[places[s]], terms, w, float(bounds[s])))
            if len(left) > MOST_LEFT:
                return None
        return Sifted(left, closed)


class InputSets(Bounder):
    """Divides nodes into the sets of inputs that may hold a better model."""

    most_sets = MOST_SETS

    def estimate(self, nodes: Sequence[ListedNode]) -> float:
        """Return the seconds that it takes; infinite if there are too many sets.

        Sets are bounded for one response only.
        """
        if self.state.run.problem.n_responses > 1:
            return np.inf
        return sum(self._seconds(SetsBelow(node)) for node in nodes)

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Return the parts of nodes, or nodes as they are if too many sets are left."""
        return [part for node in nodes for part in self._divided(node)]

    def _seconds(self, sets: SetsBelow) -> float:
        able = sets.count <= self.most_sets and sets.affordable
        return sets.work / WORK_RATE if able else np.inf

    def _divided(self, node: ListedNode) -> list[ListedNode]:
        state, sets = self.state, SetsBelow(node)
        sifted = sets.sift(state.threshold, lambda: state.run.expired)
        if sifted is None:
            self.most_sets = MOST_LEFT  # next time only if no more than that can be left
            return [node]
        node = replace(node, discarded=min(node.discarded, sifted.closed))
        if not sifted.left:
            return [replace(node.ended("enumeration", sifted.closed), by_inputs=True)]
        children = [self._child(node, sets.undecided, left) for left in sifted.left]
        state.writer.write_input_sets(
            node.record,
            state.screenings(node),
            [tuple(left.inputs.tolist()) for left in sifted.left],
            [child.record for child in children],
        )
        return children

    def _child(self, node: ListedNode, undecided: Indices, left: InputSet) -> ListedNode:
        """Return the part of a node that lies in one set of inputs, on a subproblem of its own."""
        core, warm = node.core.restrict(left.terms), self.state.starts[node.number].warm
        inputs = node.inputs.copy()
        inputs[np.setdiff1d(undecided, left.inputs)] = OUT
        start = StartingPoint(fresh_warm(core.systems, left.w[None], warm.nu if warm else 1.0))
        terms = node.terms[left.terms]
        child = self.state.child(node, start, core=core, terms=terms, inputs=inputs)
        return child.bounded(left.bound, Evidence(Vector(core.index, left.w)))


@kernel(f8(VEC, VEC, i8), contracting=True)
def _dot(u, v, count):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(count):
        total += u[k] * v[k]
    return total


def _members(inside: NDArray[np.bool_]) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the members of sets, a row each, filled up to the largest, and which are real."""
    terms = np.nonzero(inside)[1]
    sizes = inside.sum(axis=1)
    there = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    members = np.zeros(there.shape, dtype=np.intp)
    members[there] = terms
    return members, there


@kernel(void(MAT, VEC, VEC, i8[:, ::1], i8[::1], MAT, MAT), entry=True)
def _ridge_fits(Q, ridge, q, members, sizes, W, rho):  # type: ignore[no-untyped-def]
    """Write the ridge regression on each set into W, and rho = q - Q w; zeros if that fails.

    A matrix has Q above its diagonal and becomes its Cholesky factor below.
    """
    A = np.empty((members.shape[1], members.shape[1]))
    for s in range(len(sizes)):
        size, J, w = sizes[s], members[s], W[s]
        for i in range(size):
            for j in range(i + 1, size):
                A[i, j] = Q[J[i], J[j]]
        failed = False
        for i in range(size):
            for j in range(i):
                A[i, j] = (A[j, i] - _dot(A[i], A[j], j)) / A[j, j]
            pivot = Q[J[i], J[i]] + ridge[J[i]] - _dot(A[i], A[i], i)
            failed = failed or not pivot > 0.0
            A[i, i] = np.sqrt(pivot) if pivot > 0.0 else 1.0
            w[i] = (q[J[i]] - _dot(A[i], w, i)) / A[i, i]
        for i in range(size - 1, -1, -1):
            for k in range(i + 1, size):
                w[i] -= A[k, i] * w[k]
            w[i] /= A[i, i]
        for i in range(size):
            w[i] = 0.0 if failed else w[i]
        for i in range(size):
            rho[s, i] = q[J[i]]
            for k in range(size):
                rho[s, i] -= Q[J[i], J[k]] * w[k]
