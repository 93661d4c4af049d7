"""Evaluation of one node of the tree: fixings, relaxation, screening, exact ends.

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
from polysharp.engines.relaxation import (
    EPS,
    FREE,
    IN,
    OUT,
    PRUNED,
    Relaxed,
    States,
    Warm,
    fresh_warm,
    solve_relaxation,
)
from polysharp.problem.core import Core
from polysharp.problem.problem import solve_spd
from polysharp.problem.propagation import propagate
from polysharp.typing import Array, Indices

MAX_SCREENINGS = 6


@dataclass(eq=False)
class Node:
    """An open or closed part of the search space."""

    core: Core
    terms: States
    inputs: States
    bound: float
    warm: Warm | None  # the relaxation's last iterate; None once closed
    kind: Kind = "split"  # "split" while open
    vector: Vector | None = None  # proves the bound
    screenings: list[Screening] = field(default_factory=list)
    screened: float = np.inf  # least cost among what screening fixed
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
        if kind == "single" or (vector is not None and bound >= self.bound):
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
        self.warm = fresh_warm(self.core.Q, self.core.q, w, self.core.norms, self.warm.nu)
        self.stored = None

    def rates(self) -> Array:
        """Growth of the relaxation's value per unit of curvature moved (see ``curvature``)."""
        assert self.warm is not None
        share = shares(self)
        inverse = np.divide(1.0, share, out=np.ones_like(share), where=share > 0.0)
        return np.asarray(0.5 * self.warm.w**2 * np.maximum(inverse - 1.0, 0.0))


def _endless() -> float:
    return np.inf


def shares(node: Node) -> Array:
    """s_j of the relaxation at a node: 1 for monomials in, 0 for those out."""
    assert node.warm is not None
    slope = np.sqrt(0.5 * node.core.ridge / max(node.warm.nu, 1e-300))
    s: Array = np.minimum(1.0, np.abs(node.warm.w) * slope)
    s[node.terms == OUT] = 0.0
    s[node.terms == IN] = 1.0
    return s


def evaluate(node: Node, threshold: float, time_left: Callable[[], float] = _endless) -> Node:
    """Bound a node until it is closed, or open with its relaxation solved; return it.

    When the time is up the relaxation is left as it stands, with the bound that it has proved.
    """
    core = node.core
    for _ in range(MAX_SCREENINGS):
        if not propagate(core.structure, node.terms, node.inputs):
            node.close("void", np.inf)
            return node
        free = int(np.count_nonzero(node.terms == FREE))
        budget = node.budget
        if free <= budget or budget == 0:
            return _finish(node, free)
        if budget == 1 and core.structure.plain and not core.structure.inputs_bind:
            return _single(node)
        relaxed = _relax(node, budget, threshold, time_left())
        vector = vector_of(core, relaxed.w)
        if relaxed.bound > node.bound:
            node.bound, node.vector = relaxed.bound, vector
        if relaxed.code == PRUNED:
            node.close("dual", node.bound)
            return node
        if not _screen(node, relaxed, vector, budget, threshold):
            break
    # What screening fixed last may force more, and a smaller core must not lose it.
    if not propagate(core.structure, node.terms, node.inputs):
        node.close("void", np.inf)
    return node


def vector_of(core: Core, w: Array) -> Vector:
    """Return the sparse dual vector of coefficients over a core."""
    support = np.flatnonzero(w)
    return Vector(core.index[support], w[support], core.diagonal)


def _relax(node: Node, budget: int, threshold: float, seconds: float) -> Relaxed:
    core = node.core
    assert node.warm is not None
    return solve_relaxation(
        core.Q, core.q, core.ridge, core.norms, core.yy,
        node.terms, budget, node.warm, threshold, scalable=core.diagonal < 0, seconds=seconds,
    )  # fmt: skip


def _screen(node: Node, relaxed: Relaxed, vector: Vector, budget: int, threshold: float) -> bool:
    """Fix what the dual point of the relaxation decides; return whether it is worth going on."""
    free = np.flatnonzero(node.terms == FREE)
    Z = relaxed.Z[free]
    order = np.argpartition(-Z, (budget - 1, budget))
    last, first = Z[order[budget - 1]], Z[order[budget]]  # Z_(L), Z_(L+1)
    top = np.zeros(len(free), dtype=bool)
    top[order[:budget]] = True
    cost = relaxed.bound + np.where(top, Z - first, last - Z)
    sure = cost >= threshold
    if not sure.any():
        return False
    out, inn = free[sure & ~top], free[sure & top]
    index = node.core.index
    node.screenings.append(Screening(vector, index[out], index[inn]))
    node.screened = min(node.screened, float(cost[sure].min()))
    node.terms[out] = OUT
    node.terms[inn] = IN
    # Fixing out what the relaxation leaves at zero does not move its value.
    return len(inn) > 0 or bool(np.any(relaxed.warm.w[out] != 0.0))


def _finish(node: Node, free: int) -> Node:
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
    return node


def exact_bound(core: Core, support: Indices) -> tuple[float, Vector]:
    """Return the dual value at the refitted coefficients: c(support), safely rounded down."""
    Q = core.Q[np.ix_(support, support)]
    ridge, q = core.ridge[support], core.q[support]
    w = solve_spd(Q + np.diag(ridge), q) if len(support) else np.zeros(0)
    Qw = Q @ w
    rho = q - Qw
    bound = 0.5 * core.yy - 0.5 * float(w @ Qw) - 0.5 * float(rho @ (rho / ridge))
    reach = np.sqrt(core.yy) + float(np.abs(w) @ core.norms[support])
    linear = float(np.abs(rho) @ (core.norms[support] / ridge))
    bound -= 4.0 * (len(support) + 16.0) * EPS * reach * (reach + linear)
    return bound, Vector(core.index[support], w, core.diagonal)


def _single(node: Node) -> Node:
    """Price every choice of the one monomial left exactly, from one factorisation."""
    core = node.core
    fixed, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    base, vector = exact_bound(core, fixed)
    w = vector.value
    rho = core.q[free] - core.Q[np.ix_(free, fixed)] @ w
    best = int(free[np.argmax(_gains(core, fixed, free, rho))])
    support = np.sort(np.append(fixed, best))
    bound, _ = exact_bound(core, support)
    node.candidates.append(core.index[support])
    # The gains are exact up to rounding that grows with the condition of the fixed block.
    bound = min(bound, base) - 1e-12 * base
    node.close("single", bound, vector)
    return node


def _gains(core: Core, fixed: Indices, free: Indices, rho: Array) -> Array:
    """Decrease of c when one free monomial joins the fixed ones."""
    diagonal = np.diagonal(core.Q)[free] + core.ridge[free]
    if not len(fixed):
        return 0.5 * rho**2 / diagonal
    H = core.Q[np.ix_(fixed, fixed)] + np.diag(core.ridge[fixed])
    cross = core.Q[np.ix_(fixed, free)]
    explained = np.einsum("if,if->f", cross, np.linalg.solve(H, cross))
    # The Schur complement is at least the ridge that was there before any curvature moved.
    return np.asarray(0.5 * rho**2 / np.maximum(diagonal - explained, core.lam))
