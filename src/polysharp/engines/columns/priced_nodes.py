"""Raise the bound of one part of the search space, over all monomials.

The relaxation of the node is solved on the pool and its residual is priced.  The residual of the
pool's optimum w* knows nothing of the monomials outside and is usually a poor point for them;
from a point w0 whose prices are known it is enough to go towards w* until the pool's bound passes
the incumbent (the dual function is concave), and to price there; where even the pool's optimum
does not pass it, w* itself is priced, for the bound.  Monomials outside whose price exceeds the
L-th largest of the pool join it, and the step is repeated from the better point.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from polysharp.certificate.proof import Proof
from polysharp.data.functions import PLAIN, Library
from polysharp.engines.columns.dual_point import Bounded, DualPoint
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.engines.tree.relaxation import Aim, Relaxed, fresh_warm, shares, solve_relaxation
from polysharp.engines.tree.relaxation_kernel import PRUNED, SOLVED
from polysharp.engines.tree.relaxation_pricing import kernel
from polysharp.pricing.design import Pool
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
    """What an engine has proved over the monomials that a dual point, or columns, leave."""

    dual: DualPoint
    monomials: tuple[Monomial, ...]
    named: list[Monomial]  # these, and those that heredity takes out once they are named
    proof: Proof | None
    value: float
    along: list[Monomial] | None = None  # whose columns leave them, where the point does not


@dataclass(eq=False)
class PricedNode:
    """Monomials and inputs that are in or out; all others are reached by pricing."""

    bound: float
    terms_in: frozenset[Monomial]
    terms_out: frozenset[Monomial]
    inputs_in: frozenset[int]
    inputs_out: frozenset[int]
    full: bool  # whether k inputs are in, so that no other may be used
    room: int  # monomials that may still join
    dual: DualPoint
    library: Library = PLAIN
    evaluated: bool = False
    single: bool = False  # whether it holds one support, so that no split can raise its bound
    share: dict[Monomial, float] = field(default_factory=dict)  # s of the relaxation
    listed: list[Monomial] = field(default_factory=list)  # largest prices of the last pass
    solved: SubproblemResult | None = None
    record: int = 0  # number in the proof
    discarded: float = np.inf  # no support is, without being counted in the bound

    @property
    def closed(self) -> bool:
        """Whether no division can raise the bound."""
        return self.single

    @property
    def is_root(self) -> bool:
        """Whether nothing has been split off."""
        return not self.terms_out and not self.inputs_out

    def allows(self, m: Monomial) -> bool:
        """Whether a monomial may be in a support of this node."""
        if m in self.terms_out:
            return False
        inputs = self.library.inputs_of(m) if self.library else m
        return self.inputs_out.isdisjoint(inputs) and (
            not self.full or self.inputs_in.issuperset(inputs)
        )

    def holds(self, monomials: tuple[Monomial, ...]) -> bool:
        """Whether a support lies in this node; inputs that are in need not be used."""
        return self.terms_in.issubset(monomials) and all(self.allows(m) for m in monomials)

    def proved_by(self, dual: DualPoint) -> Bounded:
        """Return what a dual point says about this node."""
        return dual.bounded(self.terms_in, self.room, self.allows)

    def take(self, dual: DualPoint) -> None:
        """Keep a dual point if it proves more than the one at hand."""
        bound = self.proved_by(dual).bound
        if bound > self.bound:
            self.bound, self.dual = bound, dual


def raise_bound(search: PricedRun, node: PricedNode) -> None:
    """Step, price and extend the pool until the node is closed or nothing more can be proved."""
    relaxed: Relaxed | None = None
    for passes in range(MAX_PASSES):
        if node.bound >= search.threshold or few_survivors(search, node) is not None:
            break
        search.check_time()
        search.extend(list(node.dual.w), hold=node.dual.w)
        relaxed, w, level = _step(search, node, relaxed)
        decided = [*node.terms_in, *node.terms_out]
        dual = search.price(w, keep=inputs_kept(search, node), extra=decided)
        node.take(dual)
        node.listed = [m for m in dual.prices if m not in node.terms_in and node.allows(m)]
        if not node.listed:
            node.dual = dual  # which says that no monomial may join
            break
        outside = (m for m in node.listed if m not in search.pool.index)
        new = [m for m in outside if dual.prices[m] > NEAR * level]
        if not new or dual.prices[new[0]] <= level * (1.0 + 1e-3):
            if relaxed.code == SOLVED:
                break
        elif relaxed.primal < search.threshold and not node.is_root and passes >= HOPELESS_PASSES:
            break
        active = named(search.pool, relaxed.warm.w[0])
        search.extend(new[: search.sizes.added], hold={**active, **node.dual.w})
        relaxed = _moved(search, relaxed, active)
    if relaxed is not None:
        node.share = _shares(search, relaxed)


def few_survivors(search: PricedRun, node: PricedNode) -> tuple[list[Monomial], float] | None:
    """Return the survivors of the node's dual point, and what other monomials cost, if few."""
    left = node.dual.survivors(
        node.proved_by(node.dual), search.threshold, node.terms_in, node.allows
    )
    return left if left is not None and len(left[0]) <= search.sizes.subproblem else None


def named(pool: Pool, w: Array) -> dict[Monomial, float]:
    """Return the coefficients that are not zero by monomial."""
    return {pool.monomials[j]: float(w[j]) for j in np.flatnonzero(w)}


def _step(
    search: PricedRun, node: PricedNode, last: Relaxed | None
) -> tuple[Relaxed, dict[Monomial, float], float]:
    """Solve the relaxation on the pool; return it, the point to price, and its L-th price."""
    pool, system = search.pool, search.system
    state = np.array([_state(node, m) for m in pool.monomials], dtype=np.int8)
    start = _Guide.of(system, pool.vector(node.dual.w))
    if last is None:
        warm = fresh_warm([system], start.w[None], max(start.bound(state, node.room)[1], 1e-300))
    else:
        warm = last.warm
    aim = Aim(1.05 * search.threshold, slack=0.02, seconds=search.time_left)
    relaxed = solve_relaxation([system], state, node.room, warm, aim)
    point = goal = _Guide.of(system, relaxed.w[0])
    if relaxed.code == PRUNED:
        target = search.threshold + REACH * (search.threshold - node.bound)
        for step in STEPS:
            point = start.towards(goal, step)
            if point.bound(state, node.room)[0] >= target:
                break
    return relaxed, named(pool, point.w), point.bound(state, node.room)[1]


def _state(node: PricedNode, m: Monomial) -> int:
    if m in node.terms_in:
        return IN
    return FREE if node.allows(m) else OUT


def inputs_kept(search: PricedRun, node: PricedNode) -> Keep | None:
    """Return the rule about inputs for pricing; single monomials are taken out afterwards."""
    if not node.full and not node.inputs_out:
        return None
    columns_of = search.rules.library.columns_of
    width = int(search.inputs.max(initial=0)) + 1
    mask = np.full(width, not node.full)
    mask[[c for c in columns_of(node.inputs_in) if c < width]] = True
    mask[[c for c in columns_of(node.inputs_out) if c < width]] = False
    return lambda keys: np.asarray(mask[keys].all(axis=1))


def _moved(search: PricedRun, relaxed: Relaxed, active: dict[Monomial, float]) -> Relaxed:
    """Carry the last iterate over to a pool that has changed."""
    warm = fresh_warm([search.system], search.pool.vector(active)[None], relaxed.warm.nu)
    return replace(relaxed, w=warm.w, warm=warm)


def _shares(search: PricedRun, relaxed: Relaxed) -> dict[Monomial, float]:
    """Return s_j of the relaxation, largest first."""
    w = named(search.pool, relaxed.warm.w[0])
    monomials, ridge = list(w), np.full(len(w), search.lam)
    s = shares(np.array([list(w.values())]), ridge, search.boxes(monomials), relaxed.warm.nu)
    return {monomials[j]: float(s[j]) for j in np.argsort(-s, kind="stable")}


@dataclass(frozen=True, eq=False)
class _Guide:
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
        scalable = system.scalable
        value = scaled_value(ya, aa, spent)[0] if scalable else tangent_value(ya, aa, spent)
        return value, float(free[-1]) if len(free) == room else 0.0
