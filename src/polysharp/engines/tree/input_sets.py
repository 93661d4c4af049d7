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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from polysharp.checker.evidence import Vector
from polysharp.engines.tree.bounder import Bounder
from polysharp.engines.tree.input_set_kernel import bound_sets
from polysharp.engines.tree.listed_node import Evidence, ListedNode, StartingPoint
from polysharp.engines.tree.relaxation import fresh_warm
from polysharp.engines.tree.relaxation_pricing import Part
from polysharp.problem.bounds import Quadratic, priced_bound
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.typing import Array, Indices

MOST_WORK = 2e10  # multiply-adds of all factorisations together: some seconds
WORK_RATE = 2e9  # multiply-adds a second
MOST_SETS = 100_000
MOST_BITS = 62  # undecided inputs, which a mask has bits for
AT_ONCE = 4096  # sets between two looks at the clock
MOST_LEFT = 2_000  # sets kept; more, and the bound was of no use


@dataclass(frozen=True, eq=False)
class InputSet:
    """A set of undecided inputs, the monomials alive with it, and their bound."""

    inputs: Indices
    terms: Indices  # positions in the core
    w: Array
    bound: float


@dataclass(frozen=True, eq=False)
class Sifted:
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
        every, left, closed = np.arange(self.core.size), list[InputSet](), np.inf
        system = self.core.without_curvature(every)
        part = Part(np.where(self.fixed_in, 1.0, 0.0), self.budget, system.boxed)
        sets = combinations(range(len(self.undecided)), self.room)
        while some := list(islice(sets, AT_ONCE)):
            if expired():
                return None
            places = np.array(some, dtype=np.int64).reshape(len(some), self.room)
            bounds = np.empty(len(places))
            bound_sets(system, part, self.masks, (1 << places).sum(axis=1), bounds)
            closed = min(closed, float(bounds[bounds >= threshold].min(initial=np.inf)))
            left += [self._left(own) for own in places[~(bounds >= threshold)]]
            if len(left) > MOST_LEFT:
                return None
        return Sifted(left, closed)

    def _left(self, places: Indices) -> InputSet:
        """Return a set with its coefficients and its bound."""
        inside = (self.masks >= 0) & (self.masks & ~int((1 << places).sum()) == 0)
        terms = np.flatnonzero(inside)
        system = self.core.without_curvature(terms)
        w = _ridge_fit(system)
        bound, _ = priced_bound(system, w, self.fixed_in[terms], self.budget)
        return InputSet(self.undecided[places], terms, w, bound)


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


def _ridge_fit(system: Quadratic) -> Array:
    """Return the ridge regression on all monomials; zeros if that fails, as any w will do."""
    if not len(system.q):  # inputs whose only monomials need another input: the response alone
        return np.zeros(0)
    H = system.Q + np.diag(system.ridge)
    _, w, failed = dposv(H, system.q, lower=1, overwrite_a=1)
    return np.zeros(len(w)) if failed else np.asarray(w)
