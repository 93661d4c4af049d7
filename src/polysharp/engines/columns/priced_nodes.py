"""Parts of the search space over all monomials, and how pricing raises their bounds.

A node fixes monomials and inputs in or out; all other monomials are reached by pricing.  Nodes are
frozen: one of which more is proved is a new node with the same place in the proof.

To raise a bound the relaxation is solved on the pool and its residual is priced.  The residual of
the pool's optimum w* knows nothing of the monomials outside and is usually a poor point for them;
from a point w0 whose prices are known it is enough to go towards w* until the pool's bound passes
the incumbent (the dual function is concave), and to price there.  If even the pool's optimum does
not pass it, w* itself is priced, for the bound.  Monomials outside whose price exceeds the L-th
largest of the pool join it, and the step is repeated from the better point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from polysharp.certificate.proof import Proof
from polysharp.engines.columns.dual_point import Bounded, DualPoint, Survivors
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.engines.tree.relaxation import (
    PRUNED,
    SOLVED,
    Aim,
    Relaxed,
    fresh_warm,
    shares,
    solve_relaxation,
)
from polysharp.engines.tree.relaxation_sweeps import kernel
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.panels import Keep
from polysharp.problem.bounds import Quadratic, price, scaled_value, tangent_value
from polysharp.problem.propagation import FREE, IN, OUT, States
from polysharp.typing import Array, Monomial

kernel.compile()  # before any clock runs
STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # of the way from w0 to w*; never all of it
REACH = 0.3  # how far beyond the threshold to aim, as a share of the way there
MAX_PASSES = 12
HOPELESS_PASSES = 2  # where the relaxation itself is below the threshold
NEAR = 0.8  # monomials with this share of the L-th price join the pool as well


@dataclass(frozen=True, eq=False)
class SubproblemResult:
    """A bound of a node from an engine that has solved it over its survivors."""

    dual: DualPoint  # of the node then
    survivors: Survivors
    monomials: tuple[Monomial, ...]  # of the problem that was solved
    named: list[Monomial]  # these, and those that heredity takes out once they are named
    proof: Proof | None
    value: float


@dataclass(frozen=True, eq=False)
class PricedNode:
    """Monomials and inputs that are in or out, and a proved bound of their supports."""

    record: int  # number in the proof
    rules: TermRules
    dual: DualPoint
    bound: float = 0.0
    terms_in: frozenset[Monomial] = frozenset()
    terms_out: frozenset[Monomial] = frozenset()
    inputs_in: frozenset[int] = frozenset()
    inputs_out: frozenset[int] = frozenset()
    evaluated: bool = False
    closed: bool = False  # whether no division can raise the bound: it holds one support
    solved: SubproblemResult | None = None
    discarded: float = np.inf  # no support is, without being counted in the bound

    @cached_property
    def full(self) -> bool:
        """Whether k inputs are in, so that no other may be used."""
        k = self.rules.max_inputs
        return k is not None and len(self.inputs_in) >= k

    @cached_property
    def room(self) -> int:
        """Monomials that may still join."""
        return self.rules.max_terms - len(self.terms_in)

    @property
    def is_root(self) -> bool:
        """Whether nothing has been split off."""
        return not self.terms_out and not self.inputs_out

    def allows(self, m: Monomial) -> bool:
        """Whether a monomial may be in a support of this node."""
        if m in self.terms_out:
            return False
        library = self.rules.library
        inputs = library.inputs_of(m) if library else m
        return self.inputs_out.isdisjoint(inputs) and (
            not self.full or self.inputs_in.issuperset(inputs)
        )

    def is_free(self, m: Monomial) -> bool:
        """Whether a monomial may join."""
        return m not in self.terms_in and self.allows(m)

    def holds(self, monomials: tuple[Monomial, ...]) -> bool:
        """Whether a support lies in this node; inputs that are in need not be used."""
        return self.terms_in.issubset(monomials) and all(self.allows(m) for m in monomials)

    def keeps(self) -> Keep | None:
        """Return the rule about inputs for pricing; single monomials are taken out afterwards."""
        if not self.full and not self.inputs_out:
            return None
        columns = self.rules.library.columns_of
        chosen = np.array(columns(self.inputs_in if self.full else self.inputs_out), dtype=np.intp)
        full = self.full
        return lambda keys: np.asarray((np.isin(keys, chosen) == full).all(axis=1))

    def states(self, monomials: tuple[Monomial, ...]) -> States:
        """Return which of some monomials are in, out or free."""
        own = ((IN if m in self.terms_in else FREE if self.allows(m) else OUT) for m in monomials)
        return np.array(list(own), dtype=np.int8)

    def proved_by(self, dual: DualPoint) -> Bounded:
        """Return what a dual point says about this node."""
        return dual.bounded(self.terms_in, self.room, self.allows)

    def with_dual(self, dual: DualPoint) -> PricedNode:
        """Return the node with a dual point if that proves more than the one at hand."""
        bound = self.proved_by(dual).bound
        return replace(self, bound=bound, dual=dual) if bound > self.bound else self

    def with_solved(self, solved: SubproblemResult, *, closed: bool = False) -> PricedNode:
        """Return the node with what an engine has proved, where that is more than before."""
        kept = self.solved
        better = solved if kept is None or solved.value > kept.value else kept
        return replace(self, bound=max(self.bound, solved.value), solved=better, closed=closed)

    def survivors(self, search: PricedRun) -> Survivors | None:
        """Return the survivors of the node's dual point, if they are few."""
        proved = self.proved_by(self.dual)
        found = self.dual.survivors(proved, search.threshold, self.terms_in, self.allows)
        few = found is not None and len(found.monomials) <= search.sizes.subproblem
        return found if few else None

    def child(
        self,
        record: int,
        terms: tuple[list[Monomial], list[Monomial]] = ([], []),
        inputs: tuple[list[int], list[int]] = ([], []),
    ) -> PricedNode:
        """Return a node with more in and out, and what the node's dual point proves about it."""
        rules, inside = self.rules, self.terms_in.union(terms[0])
        if rules.heredity == "strong":
            inside = frozenset(rules.with_parents(inside))
        used = rules.library.inputs_of(chain.from_iterable(inside))
        child = PricedNode(
            record,
            rules,
            self.dual,
            np.inf,  # where no support lies in it
            inside,
            self.terms_out.union(terms[1]),
            self.inputs_in.union(inputs[0], used),
            self.inputs_out.union(inputs[1]),
        )
        k = rules.max_inputs
        contradiction = child.inputs_in & child.inputs_out or child.terms_in & child.terms_out
        if contradiction or child.room < 0 or (k is not None and len(child.inputs_in) > k):
            return child
        return replace(child, bound=max(self.bound, child.proved_by(self.dual).bound))


class Promising(NamedTuple):
    """Monomials that a node may be split along."""

    share: dict[Monomial, float]  # s of the relaxation, largest first
    listed: list[Monomial]  # largest prices of the last pass


NOTHING = Promising({}, [])


def raise_bound(search: PricedRun, node: PricedNode) -> tuple[PricedNode, Promising]:
    """Step, price and extend the pool until the node is closed or nothing more can be proved."""
    relaxed: Relaxed | None = None
    listed, patience = list[Monomial](), MAX_PASSES if node.is_root else HOPELESS_PASSES
    promising = NOTHING
    with search.keeping():
        for passes in range(MAX_PASSES):
            if node.bound >= search.threshold or node.survivors(search) is not None:
                break
            search.check_time()
            search.extend(list(node.dual.w), hold=node.dual.w)
            relaxed, w, level = _step(search, node, relaxed)
            decided = [*node.terms_in, *node.terms_out]
            dual = search.price(w, keep=node.keeps(), extra=decided)
            node = node.with_dual(dual)
            listed = [m for m in dual.prices if node.is_free(m)]
            if not listed:
                node = replace(node, dual=dual)  # which says that no monomial may join
                break
            outside = (m for m in listed if m not in search.pool.index)
            new = [m for m in outside if dual.prices[m] > NEAR * level]
            if not new or dual.prices[new[0]] <= level * (1.0 + 1e-3):
                if relaxed.code == SOLVED:
                    break
            elif relaxed.primal < search.threshold and passes >= patience:
                break
            active = search.pool.coefficients(relaxed.warm.w[0])
            search.extend(new[: search.sizes.added], hold={**active, **node.dual.w})
            # Carry the last iterate over to a pool that has changed.
            W = search.pool.vector(active)[None]
            warm = fresh_warm([_system(search)], W, relaxed.warm.nu)
            relaxed = replace(relaxed, w=warm.w, warm=warm)
        promising = Promising({} if relaxed is None else _shares(search, relaxed), listed)
    return node, promising


def _system(search: PricedRun) -> Quadratic:
    """Return the quadratic of the pool."""
    return search.problem.system(np.arange(len(search.pool)), search.pool.G)


def _step(
    search: PricedRun, node: PricedNode, last: Relaxed | None
) -> tuple[Relaxed, dict[Monomial, float], float]:
    """Solve the relaxation on the pool; return it, the point to price, and its L-th price."""
    pool, system, room = search.pool, _system(search), node.room
    state = node.states(pool.monomials)
    start = _Guide.of(system, pool.vector(node.dual.w))
    if last is None:
        warm = fresh_warm([system], start.w[None], max(start.bound(state, room)[1], 1e-300))
    else:
        warm = last.warm
    aim = Aim(1.05 * search.threshold, slack=0.02, seconds=search.time_left)
    relaxed = solve_relaxation([system], state, room, warm, aim)
    point = goal = _Guide.of(system, relaxed.w[0])
    if relaxed.code == PRUNED:
        target = search.threshold + REACH * (search.threshold - node.bound)
        for step in STEPS:
            point = start.towards(goal, step)
            if point.bound(state, room)[0] >= target:
                break
    return relaxed, pool.coefficients(point.w), point.bound(state, room)[1]


def _shares(search: PricedRun, relaxed: Relaxed) -> dict[Monomial, float]:
    """Return s_j of the relaxation, largest first."""
    w = search.pool.coefficients(relaxed.warm.w[0])
    monomials, ridge = list(w), np.full(len(w), search.lam)
    s = shares(np.array([list(w.values())]), ridge, search.boxes(monomials), relaxed.warm.nu)
    return {monomials[j]: float(s[j]) for j in np.argsort(-s, kind="stable")}


class _Guide(NamedTuple):
    """Coefficients on the pool with rho = M'(y - M w), and the bound they promise."""

    system: Quadratic
    w: Array
    rho: Array

    @classmethod
    def of(cls, system: Quadratic, w: Array) -> _Guide:
        return cls(system, w, fresh_warm([system], w[None], 0.0).rho[0])

    def towards(self, goal: _Guide, step: float) -> _Guide:
        """Return the point part of the way to another; everything is linear in w."""
        w, rho = self.w + step * (goal.w - self.w), self.rho + step * (goal.rho - self.rho)
        return _Guide(self.system, w, rho)

    def bound(self, state: States, room: int) -> tuple[float, float]:
        """Return the dual bound over the pool, with no care for rounding, and Z_(L)."""
        system = self.system
        Z = price(self.rho, 0.0, system.ridge, system.low, system.high)
        free = np.sort(Z[state == FREE])[::-1][:room]
        ya = system.yy - float(system.q @ self.w)
        spent = float(Z[state == IN].sum() + free.sum())
        aa = ya - float(self.w @ self.rho)
        value = scaled_value(ya, aa, spent)[0] if system.scalable else tangent_value(ya, aa, spent)
        return value, float(free[-1]) if len(free) == room else 0.0
