"""Nodes of the search for several responses: bounded by the joint relaxation, split along terms.

A node is split as in ``tree.branching``: child a of a chain c_1, ..., c_m has c_1..c_{a-1} in and
c_a out, the last child has all of them in; where the incumbent lies in the node, the chain is the
incumbent.  Screening, ends and curvature are those of the tree for one response, with prices that
add over the responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from polysharp.certificate.proof import (
    Diagonal,
    Kind,
    Proof,
    ProofNode,
    ProofWriter,
    Screening,
    Vector,
)
from polysharp.engines.base import Run
from polysharp.engines.joint import ends
from polysharp.engines.joint.relaxation import JointIterate, JointRelaxed, relax, shares
from polysharp.engines.joint.supports import improve
from polysharp.engines.tree.ends import rounding_slack
from polysharp.engines.tree.loop import Node, NodeKind
from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import choice_bounds, forcing_costs
from polysharp.problem.diagonal import first_start
from polysharp.problem.joint import JointCore, JointProblem
from polysharp.problem.propagation import FREE, IN, OUT, States, propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

ROUNDS = 4  # of screening and solving again
SHRINK, SMALLEST = 0.5, 40  # a node moves to its own core when this share is left of more than that
DENSE = 400  # monomials up to which curvature is looked for one by one
ENDS_SECONDS, ENDS_SHARE = 0.02, 0.1  # for trying all supports: at least, and of the time spent
INWARDS = (0.98, 0.9, 0.5)  # multiples of a diagonal that are tried until one is proved


@dataclass(eq=False)
class JointNode(Node):
    """Monomials and inputs that are in, out or free."""

    core: JointCore
    terms: States
    inputs: States
    at: JointIterate
    done: bool = False
    kind: Kind = "dual"  # how the proof ends it
    vector: Vector | None = None  # that proves its bound, where it is dual
    moved: Diagonal | None = None  # the curvature that the vector counts on
    curve: Diagonal | None = None  # that of the core
    screenings: tuple[tuple[Screening, Diagonal | None], ...] = ()
    record: int = 0  # number in the proof

    @property
    def closed(self) -> bool:
        """Whether no division can raise the bound."""
        return self.done

    @property
    def budget(self) -> int:
        """Monomials that may still be chosen."""
        chosen = int(np.count_nonzero(self.terms == IN))
        return self.core.part.structure.max_terms - chosen

    def end(self, kind: Kind, bound: float) -> None:
        """Close the node with the bound of all that is left in it."""
        self.bound, self.done, self.kind = bound, True, kind

    def written(self, W: Array) -> Vector:
        """Return coefficients as the proof lists them: response t of monomial j at t f + j."""
        t, j = np.nonzero(W)
        f = self.core.problem.size
        return Vector(t * f + self.core.part.index[j], W[t, j])


@dataclass(eq=False)
class JointKind(NodeKind[JointNode]):
    """Makes and splits the nodes of one search."""

    problem: JointProblem
    record: Run
    writer: ProofWriter

    @cached_property
    def level(self) -> float:
        """A proved bound on the eigenvalues of G + lam I, scaled to unit diagonal."""
        return Subproblem.of(self.problem.responses[0]).least_eigenvalue()

    def root(self) -> JointNode:
        """Evaluate the whole problem."""
        core = JointCore.of(self.problem)
        best = improve(self.problem, self.record.best.support, self._expired)
        self.record.offer_fit(best)
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.part.structure.required_terms] = IN
        inputs = np.zeros(core.part.structure.n_inputs, dtype=np.int8)
        W = np.zeros_like(core.q)
        W[:, best.support] = best.w
        at = JointIterate(W, 0.0)
        node = JointNode(0.0, core, terms, inputs, at, record=self.writer.reserve())
        self._evaluate(node)
        self.record.nodes += 1
        if not node.closed:
            self._round(node, walk=True)
            node = self._moved(node, force=True)
        return node

    def divide(self, node: JointNode) -> Iterator[JointNode]:
        """Split a node along a chain of terms and evaluate its children."""
        node = self._moved(node)
        if node.closed:
            yield node
            return
        chain = self._chain(node)
        numbers = tuple(self.writer.reserve() for _ in range(len(chain) + 1))
        names = tuple(node.core.part.index[chain].tolist())
        self._write(node, ProofNode("split", chain=names, children=numbers))
        for a, number in enumerate(numbers):
            terms, inputs = node.terms.copy(), node.inputs.copy()
            terms[chain[:a]] = IN
            terms[chain[a : a + 1]] = OUT
            child = replace(node, terms=terms, inputs=inputs, screenings=(), record=number)
            self.record.nodes += 1
            if not self.record.expired:
                self._evaluate(child)
                if not child.closed:
                    self._round(child)
            yield child

    def close(self, node: JointNode) -> None:
        """Write a closed node into the proof."""
        vector = node.vector if node.kind == "dual" else None
        if vector is not None and node.moved is not None:
            vector = replace(vector, diagonal=self.writer.listed(node.moved))
        self._write(node, ProofNode(node.kind, vector=vector))

    def proof(self, left: list[JointNode]) -> Proof | None:
        """Return the proof, with nodes that are left open as they stand."""
        for node in left:
            self.close(node)
        return self.writer.proof(self.record.bound)

    def _write(self, node: JointNode, end: ProofNode) -> None:
        screenings = tuple(
            screening
            if moved is None
            else replace(
                screening, vector=replace(screening.vector, diagonal=self.writer.listed(moved))
            )
            for screening, moved in node.screenings
        )
        self.writer.write(node.record, replace(end, screenings=screenings))

    def _expired(self) -> bool:
        return self.record.expired

    def _evaluate(self, node: JointNode) -> None:
        """Bound a node until it is closed, or open with its relaxation solved."""
        structure = node.core.part.structure
        for _ in range(ROUNDS):
            if not propagate(structure, node.terms, node.inputs):
                node.end("void", np.inf)
            elif not (self._ended(node) or self._tried_all(node)):
                threshold = self.record.threshold
                found = relax(node.core, node.terms, node.budget, node.at, threshold, self._expired)
                node.at, vector = found.last, node.written(found.W)
                if found.bound > node.bound:
                    node.bound, node.kind = found.bound, "dual"
                    node.vector, node.moved = vector, node.curve
                if node.bound >= threshold:
                    node.done = True
                elif self._screen(node, found, vector, threshold):
                    continue
            return

    def _tried_all(self, node: JointNode) -> bool:
        """Whether a node could be ended by trying all of its supports."""
        core, structure = node.core, node.core.part.structure
        held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
        worth = max(ENDS_SECONDS, ENDS_SHARE * self.record.seconds)
        if ends.seconds(len(free), node.budget, len(core.q)) > worth:
            return False
        left = core.eliminated(held, free)
        if left is None:
            return False
        H, b, cost = left
        size = float(np.sqrt(sum(own.accuracy.response**2 for own in core.problem.responses)))
        system = core.system._replace(response=size)
        slack = rounding_slack(system, self.level, structure.max_terms)
        need = cost - self.record.threshold - 2.0 * slack
        hits = ends.exhaust(H, b, node.budget, need)
        if hits is None:
            return False
        supports = np.sort(np.hstack([np.tile(held, (len(hits), 1)), free[hits]]), axis=1)
        if not all(structure.allows(support) for support in supports):
            return False  # a part of such a support may be allowed
        costs = core.support_bounds(supports)
        for support in supports[costs < self.record.objective]:
            self.record.offer(core.part.index[support])
        node.end("exhausted", float(min(cost - need - slack, costs.min(initial=np.inf))))
        return True

    def _screen(
        self, node: JointNode, found: JointRelaxed, vector: Vector, threshold: float
    ) -> bool:
        """Fix what prices decide; return whether the relaxation changes by it."""
        free = np.flatnonzero(node.terms == FREE)
        cost, top = forcing_costs(found.bound, found.Z[free], node.budget)
        sure = cost >= threshold
        if not sure.any():
            return False
        node.set_aside = min(node.set_aside, float(cost[sure].min()))
        inn, out = free[sure & top], free[sure & ~top]
        node.terms[inn], node.terms[out] = IN, OUT
        index = node.core.part.index
        node.screenings += ((Screening(vector, index[out], index[inn]), node.curve),)
        return len(inn) > 0 or bool(node.at.W[:, out].any())

    def _ended(self, node: JointNode) -> bool:
        """Whether so few supports are left that no relaxation is needed."""
        structure, budget = node.core.part.structure, node.budget
        held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
        if len(free) <= budget or budget == 0:
            whole = held if budget == 0 else np.sort(np.append(held, free))
            bound = float(node.core.support_bounds(whole[None])[0])
            if structure.allows(whole):
                self.record.offer(node.core.part.index[whole])
                node.end("exhausted", bound)
            elif not len(free) or budget == 0:
                node.end("exhausted", np.inf)
            elif bound > node.bound:  # rules forbid all of it together: it is split
                node.bound, node.kind = bound, "exhausted"
            return True
        if budget == 1 and structure.plain and not structure.inputs_bind:
            costs = _single_bounds(node.core, held, free)
            low = np.flatnonzero(~(costs >= self.record.threshold))
            if structure.boxes is not None:  # what keeps to the boxes may cost more
                with_each = np.column_stack([np.tile(held, (len(low), 1)), free[low]])
                costs[low] = np.fmax(costs[low], node.core.support_bounds(with_each))
            self.record.offer(node.core.part.index[np.append(held, free[np.argmin(costs)])])
            held_alone = float(node.core.support_bounds(held[None])[0])
            node.end("exhausted", float(min(costs.min(), held_alone)))
            return True
        return False

    def _chain(self, node: JointNode) -> Indices:
        """The incumbent's terms where it lies in the node, else those with the largest shares."""
        s = self._shares(node)
        free = np.flatnonzero(node.terms == FREE)
        mine = np.flatnonzero(np.isin(node.core.part.index, self.record.best.support))
        held = np.flatnonzero(node.terms == IN)
        if (
            len(mine) == len(self.record.best.support)
            and np.all(node.terms[mine] != OUT)
            and len(held) < len(mine)
            and np.isin(held, mine).all()
        ):
            free = np.intersect1d(free, mine)
            return free[np.argsort(-s[free], kind="stable")]
        return free[np.argsort(-s[free], kind="stable")[: min(node.budget, 2)]]

    @staticmethod
    def _shares(node: JointNode) -> Array:
        core = node.core
        return shares(node.at.W, core.system.ridge, core.boxes, node.terms, node.at.nu)

    def _round(self, node: JointNode, *, walk: bool = False) -> None:
        """Offer the support that a relaxation points at, or what swaps make of it."""
        s = self._shares(node)
        order = np.argsort(-np.where(node.terms == IN, np.inf, s), kind="stable")
        chosen = node.core.part.structure.greedy(order[s[order] > 0.0])
        support = np.sort(node.core.part.index[chosen])
        if not self.problem.structure.allows(support):
            return
        if walk:
            self.record.offer_fit(improve(self.problem, support, self._expired))
        else:
            self.record.offer(support)

    def _moved(self, node: JointNode, *, force: bool = False) -> JointNode:
        """Give a node a core of its own, with curvature, when few monomials are left."""
        # What the last screening fixed has consequences, and a smaller core would not know of them.
        if not propagate(node.core.part.structure, node.terms, node.inputs):
            node.end("void", np.inf)
            return node
        alive = np.flatnonzero(node.terms != OUT)
        if not len(alive):
            self._evaluate(node)
            return node
        few = node.core.size > SMALLEST and len(alive) <= SHRINK * node.core.size
        if not (few or force):
            return node
        core = node.core.restrict(alive)
        stronger = _strengthened(core.part, node.budget)
        core = core if stronger is None else core.curved(stronger)
        d = core.part.d
        curve = Diagonal(core.part.index, d) if d.any() else None
        at = node.at.among(alive)
        moved = replace(node, core=core, terms=node.terms[alive], at=at, curve=curve)
        self._evaluate(moved)
        return moved


def _strengthened(part: Subproblem, budget: int) -> Subproblem | None:
    """Return a part with curvature moved into the ridge, if there is any."""
    if part.size > DENSE:
        return part.strengthened(0)
    H = part.gram()
    H.ravel()[:: len(H) + 1] += part.problem.lam
    start = first_start(H, max(budget, 1))
    if start is None:
        return None
    every = np.arange(part.size)
    for factor in INWARDS:
        # What was the best multiple is lowered until it is proved.
        system = part.curved(every, factor * start.delta / 0.9)
        if system is not None:
            return replace(part, system=system, diagonal=0)
    return None


def _single_bounds(core: JointCore, held: Indices, free: Indices) -> Array:
    """Return bounds on the cost of the terms in with each of the free ones."""
    system = core.system
    cross = system.Q[held[:, None], free]
    H = system.Q[held[:, None], held] + np.diag(system.ridge[held])
    solved = solve_spd(H, np.column_stack([core.q[:, held].T, cross]))
    base, B = solved[:, : len(core.q)], solved[:, len(core.q) :]
    schur = system.Q[free, free] + system.ridge[free] - np.einsum("if,if->f", cross, B)
    costs = np.zeros(len(free))
    for own, system in zip(base.T, core.systems, strict=True):
        last = (system.q[free] - own @ cross) / np.maximum(schur, core.problem.lam)
        costs += choice_bounds(system, held, free, np.vstack([own[:, None] - B * last, last]))
    return costs - 1e-13 * np.abs(costs)
