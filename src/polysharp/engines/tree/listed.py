"""Bounding one node over listed monomials: fixings, relaxation, screening, exact ends.

A node fixes monomials and inputs in or out.  Evaluating it alternates what the rules force
(``propagation``), the relaxation's bound (``relaxation``) and screening: at a dual point with
bound B and prices Z, forcing a free monomial j outside the L largest costs at least
B + Z_(L) - Z_j, and leaving out one of the L largest at least B + Z_j - Z_(L+1); where that
reaches the threshold, j is fixed.  Three ends are exact: nothing left to choose, room for
everything that is left, and one monomial left to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from polysharp.certificate.proof import Kind, Screening, Vector
from polysharp.engines.tree.loop import Node
from polysharp.engines.tree.relaxation import (
    FREE,
    IN,
    OUT,
    PRUNED,
    Aim,
    Relaxed,
    States,
    Warm,
    fresh_warm,
    solve_relaxation,
)
from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import choice_bounds, forcing_costs, support_bound
from polysharp.problem.propagation import propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

MAX_SCREENINGS = 6


@dataclass(eq=False)
class ListedNode(Node):
    """Monomials and inputs that are in, out or free, and the relaxation of what is left."""

    core: Subproblem
    terms: States
    inputs: States
    warm: Warm | None  # the relaxation's last iterate; None once closed
    kind: Kind = "split"  # "split" while open
    vector: Vector | None = None  # proves the bound
    screenings: list[Screening] = field(default_factory=list)
    candidates: list[Indices] = field(default_factory=list)  # supports seen, problem positions
    record: int = 0  # number in the proof
    stored: tuple[Indices, Array] | None = None  # w of an open node that waits

    @property
    def budget(self) -> int:
        """Monomials that may still be chosen."""
        return self.core.structure.max_terms - int(np.count_nonzero(self.terms == IN))

    @property
    def closed(self) -> bool:
        """Whether the node needs no further search."""
        return self.kind != "split"

    def close(self, kind: Kind, bound: float, vector: Vector | None = None) -> None:
        """End the node with a bound and its proof."""
        self.kind = kind
        if kind in {"single", "void"} or (vector is not None and bound >= self.bound):
            self.bound, self.vector = bound, vector
        self.warm = self.stored = None

    def compress(self) -> None:
        """Keep only the nonzero coefficients while the node waits."""
        assert self.warm is not None
        support = np.flatnonzero(self.warm.w)
        self.stored = support, self.warm.w[support]
        self.warm = Warm(np.zeros(0), np.zeros(0), self.warm.nu)

    def expand(self) -> None:
        """Undo ``compress``, with rho computed afresh."""
        assert self.warm is not None
        assert self.stored is not None
        w = np.zeros(self.core.size)
        w[self.stored[0]] = self.stored[1]
        self.warm = fresh_warm(self.core.system, w, self.warm.nu)
        self.stored = None

    def shares(self) -> Array:
        """s_j of the relaxation: 1 for monomials in, 0 for those out."""
        assert self.warm is not None
        slope = np.sqrt(0.5 * self.core.system.ridge / max(self.warm.nu, 1e-300))
        s: Array = np.minimum(1.0, np.abs(self.warm.w) * slope)
        s[self.terms == OUT] = 0.0
        s[self.terms == IN] = 1.0
        return s

    def rates(self) -> Array:
        """Growth of the relaxation's value per unit of curvature moved (see ``curvature``)."""
        assert self.warm is not None
        share = self.shares()
        inverse = np.divide(1.0, share, out=np.ones_like(share), where=share > 0.0)
        return np.asarray(0.5 * self.warm.w**2 * np.maximum(inverse - 1.0, 0.0))


def evaluate(node: ListedNode, aim: Callable[[], Aim]) -> ListedNode:
    """Bound a node until it is closed, or open with its relaxation solved; return it.

    When the time is up the relaxation is left as it stands, with the bound that it has proved.
    """
    core = node.core
    for _ in range(MAX_SCREENINGS):
        if not propagate(core.structure, node.terms, node.inputs):
            node.close("void", np.inf)
            return node
        if _ended(node):
            return node
        assert node.warm is not None
        allowed = aim()
        relaxed = solve_relaxation(core.system, node.terms, node.budget, node.warm, allowed)
        support = np.flatnonzero(relaxed.w)
        vector = Vector(core.index[support], relaxed.w[support], core.diagonal)
        if relaxed.bound > node.bound:
            node.bound, node.vector = relaxed.bound, vector
        if relaxed.code == PRUNED:
            node.close("dual", node.bound)
            return node
        if not _screen(node, relaxed, vector, allowed.threshold):
            break
    # What screening fixed last may force more, and a smaller subproblem must not lose it.
    if not propagate(core.structure, node.terms, node.inputs):
        node.close("void", np.inf)
    return node


def _ended(node: ListedNode) -> bool:
    """Whether a node could be treated exactly: its few supports are bounded one by one.

    A node that rules of inputs or heredity keep from being one support stays open.
    """
    structure, budget = node.core.structure, node.budget
    free = int(np.count_nonzero(node.terms == FREE))
    if free <= budget or budget == 0:
        _finish(node, free)
        return True
    if budget == 1 and structure.plain and not structure.inputs_bind:
        _single(node)
        return True
    return False


def _screen(node: ListedNode, relaxed: Relaxed, vector: Vector, threshold: float) -> bool:
    """Fix what the dual point of the relaxation decides; return whether it is worth going on."""
    free = np.flatnonzero(node.terms == FREE)
    cost, top = forcing_costs(relaxed.bound, relaxed.Z[free], node.budget)
    sure = cost >= threshold
    if not sure.any():
        return False
    out, inn = free[sure & ~top], free[sure & top]
    index = node.core.index
    node.screenings.append(Screening(vector, index[out], index[inn]))
    node.set_aside = min(node.set_aside, float(cost[sure].min()))
    node.terms[out] = OUT
    node.terms[inn] = IN
    # Fixing out what the relaxation leaves at zero does not move its value.
    return len(inn) > 0 or bool(np.any(relaxed.warm.w[out] != 0.0))


def _finish(node: ListedNode, free: int) -> None:
    """Close a node whose best support is everything that is left (if the rules allow it)."""
    core = node.core
    alive = node.terms == IN
    if node.budget > 0:
        alive |= node.terms == FREE
    support = np.flatnonzero(alive)
    bound, vector = exact_bound(core, support)
    if core.structure.allows(support):
        node.candidates.append(core.index[support])
        node.close("dual", bound, vector)
    elif free == 0 or node.budget == 0:
        node.close("void", np.inf)
    elif bound > node.bound:
        node.bound, node.vector = bound, vector


def exact_bound(core: Subproblem, support: Indices) -> tuple[float, Vector]:
    """Return the dual value at the refitted coefficients: c(support), safely rounded down."""
    system = core.system.among(support)
    w = solve_spd(system.Q + np.diag(system.ridge), system.q) if len(support) else np.zeros(0)
    return support_bound(system, w), Vector(core.index[support], w, core.diagonal)


def _single(node: ListedNode) -> None:
    """Bound every choice of the one monomial left, with coefficients from one factorisation.

    With a fixed set F and H = Q_FF + ridge, the best coefficients with monomial j are
    w_F - t H^-1 Q_Fj and t = (q_j - Q_jF w_F) / (the Schur complement of j).
    """
    core, system = node.core, node.core.system
    fixed, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    cross = system.Q[fixed[:, None], free]
    H = system.Q[fixed[:, None], fixed] + np.diag(system.ridge[fixed])
    solved = solve_spd(H, np.column_stack([system.q[fixed], cross]))
    base, B = solved[:, :1], solved[:, 1:]
    schur = system.Q[free, free] + system.ridge[free] - np.einsum("if,if->f", cross, B)
    # It is at least the ridge that was there before any curvature moved.
    last = (system.q[free] - base[:, 0] @ cross) / np.maximum(schur, core.problem.lam)
    bounds = choice_bounds(system, fixed, free, np.vstack([base - B * last, last]))
    alone, vector = exact_bound(core, fixed)
    node.candidates.append(core.index[np.sort(np.append(fixed, free[np.argmin(bounds)]))])
    node.close("single", float(min(bounds.min(), alone)), vector)
