"""Branch and bound on the perspective relaxation: polysharp's own engine.

Best-first search over nodes that fix monomials (and inputs) in or out.  A node is split along a
chain c_1, ..., c_m of its most promising monomials: child a has c_1..c_{a-1} in and c_a out, the
last child has all of them in.  Where the incumbent lies in the node the chain is the incumbent,
strongest terms first, so that every child asks "can the model do without this term?" and is
closed as soon as its dual bound says no: a proof by probing.  Children are independent and are
evaluated side by side.

When most monomials of a node have been screened out, the node moves to a core of its own:
smaller matrices, and curvature of the surviving Gram matrix moved into the ridge.

The open nodes hold a byte per monomial and a sparse vector each; beyond ``max_open`` of them the
search turns depth-first, which keeps the store from growing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import ClassVar

import numpy as np

from polysharp import local_search
from polysharp.basis import Array, Indices
from polysharp.core import Core
from polysharp.engines.base import Engine, Run
from polysharp.node import Node, evaluate
from polysharp.relaxation import FREE, IN, OUT, States, fresh_warm
from polysharp.solution import Stop

SMALLEST_CORE = 40
SHRINK = 0.5  # a node moves to its own core when this share of the monomials is left


@dataclass(frozen=True)
class Tree(Engine):
    """Settings of the branch and bound."""

    name: ClassVar[str] = "tree"
    max_open: int = 100_000
    restarts: int = 8

    def search(self, run: Run) -> Stop:
        """Prove the incumbent or improve it until the gap is closed."""
        with ThreadPoolExecutor(max(1, run.threads)) as pool:
            return _TreeSearch(self, run, pool).run()


@dataclass(eq=False)
class _TreeSearch:
    """State of one search: the open nodes and the least bound of the closed ones."""

    settings: Tree
    state: Run
    pool: ThreadPoolExecutor
    open: list[tuple[float, int, Node]] = field(default_factory=list)
    closed_bound: float = np.inf
    tickets: count[int] = field(default_factory=count)
    tried: set[bytes] = field(default_factory=set)

    def run(self) -> Stop:
        self._first_incumbent()
        self._settle(self._root())
        while self.open:
            self.state.raise_bound(min(self.open[0][0], self.closed_bound))
            self.state.report("branching")
            if self.state.proved:
                return Stop.PROVED
            if self.state.expired:
                return Stop.TIME
            node = self._next()
            if node.bound >= self.threshold:
                self.closed_bound = min(self.closed_bound, node.bound)
                continue
            for child in self._split(node):
                self._settle(child)
        self.state.raise_bound(min(self.closed_bound, self.state.best.objective))
        return Stop.PROVED

    @property
    def threshold(self) -> float:
        """A node with this bound needs no further search."""
        return self.state.best.objective * (1.0 - 0.99 * self.state.limits.gap_tol)

    def _next(self) -> Node:
        if len(self.open) > self.settings.max_open:
            return self.open.pop()[2]  # the tail of a heap: deep nodes, and the heap stays a heap
        return heappop(self.open)[2]

    def _first_incumbent(self) -> None:
        support = local_search.improve(
            self.state.problem, self.state.best.support, out_of_time=lambda: self.state.expired
        )
        self.state.offer(support)

    def _root(self) -> Node:
        """Evaluate the whole problem, strengthen it and round its relaxation."""
        problem, best = self.state.problem, self.state.best
        core = Core.of(problem, np.arange(problem.size))
        terms = np.zeros(core.size, dtype=np.int8)
        terms[core.structure.required_terms] = IN
        inputs = np.zeros(core.structure.n_inputs, dtype=np.int8)
        w = np.zeros(core.size)
        w[best.support] = best.w
        warm = fresh_warm(core.Q, core.q, w, core.norms, 1.0)
        warm.nu = _first_price(warm.rho**2 / (2.0 * core.ridge), core.structure.max_terms)
        root = evaluate(Node(core, terms, inputs, 0.0, warm), self.threshold)
        self.state.nodes += 1
        for _ in range(3):
            if root.closed:
                break
            self._round(root)
            before = root.bound
            root = self._move(root, force=True)
            if root.bound <= before * (1.0 + 1e-3):
                break
        return root

    def _settle(self, node: Node) -> None:
        """Take the supports a node has seen, then keep it open or count it as closed."""
        for support in node.candidates:
            self.state.offer(support)
        node.candidates = []
        self.closed_bound = min(self.closed_bound, node.screened)
        if node.kind != "void" and (node.closed or node.bound >= self.threshold):
            self.closed_bound = min(self.closed_bound, node.bound)
        elif not node.closed:
            heappush(self.open, (node.bound, next(self.tickets), self._store(node)))

    def _store(self, node: Node) -> Node:
        """Keep the coefficients only: rho is recomputed when the node is split."""
        assert node.warm is not None
        node.warm.rho = np.zeros(0)
        return node

    def _split(self, node: Node) -> Iterable[Node]:
        """Split a node along its chain and evaluate the children."""
        core = node.core
        assert node.warm is not None
        node.warm = fresh_warm(core.Q, core.q, node.warm.w, core.norms, node.warm.nu)
        node = self._move(node)
        if node.closed:
            return [node]
        self._round(node)
        chain, on_inputs = self._chain(node)
        children = [
            self._child(node, chain[:a], chain[a : a + 1], on_inputs) for a in range(len(chain))
        ]
        children.append(self._child(node, chain, chain[:0], on_inputs))
        self.state.nodes += len(children)
        threshold = self.threshold
        return self._map(lambda child: evaluate(child, threshold), children)

    def _map(self, function: Callable[[Node], Node], nodes: list[Node]) -> list[Node]:
        if self.state.threads <= 1:
            return [function(node) for node in nodes]
        return list(self.pool.map(function, nodes))

    def _child(self, node: Node, inn: Indices, out: Indices, on_inputs: bool) -> Node:
        assert node.warm is not None
        terms, inputs = node.terms.copy(), node.inputs.copy()
        fixed = inputs if on_inputs else terms
        fixed[inn] = IN
        fixed[out] = OUT
        return Node(
            node.core, terms, inputs, node.bound, node.warm.copy(), node.depth + 1,
            vector=node.vector,
        )  # fmt: skip

    def _chain(self, node: Node) -> tuple[Indices, bool]:
        """Choose what to split on: inputs while k is undecided, then monomials."""
        core, structure = node.core, node.core.structure
        share = _shares(node)
        undecided = np.flatnonzero(node.inputs == FREE)
        if structure.inputs_bind and len(undecided):
            weight = share @ structure.uses[:, undecided]
            room = structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
            return undecided[np.argsort(-weight, kind="stable")[:room]], True
        best = np.zeros(self.state.problem.size, dtype=bool)
        best[self.state.best.support] = True
        mine = best[core.index]
        if mine.sum() == best.sum() and not np.any(mine & (node.terms == OUT)):
            if not np.any(~mine & (node.terms == IN)):
                rest = np.flatnonzero(mine & (node.terms == FREE))
                return rest[np.argsort(-share[rest], kind="stable")], False
        free = np.flatnonzero(node.terms == FREE)
        length = min(node.budget, 2 * max(1, self.state.threads))
        return free[np.argsort(-share[free], kind="stable")[:length]], False

    def _round(self, node: Node) -> None:
        """Offer the support the relaxation points at, improved by swaps when it is new."""
        structure = node.core.structure
        share = _shares(node)
        share[node.terms == IN] = np.inf
        order = np.argsort(-share, kind="stable")
        chosen = _greedy(structure.uses, order[share[order] > 0.0], structure)
        support = np.sort(node.core.index[chosen])
        key = support.tobytes()
        if key in self.tried or not self.state.problem.structure.allows(support):
            return
        self.tried.add(key)
        fit = self.state.problem.refit(support)
        if fit.objective < 1.5 * self.state.best.objective:
            self.state.offer(
                local_search.improve(
                    self.state.problem, support, out_of_time=lambda: self.state.expired
                )
            )

    def _move(self, node: Node, *, force: bool = False) -> Node:
        """Give a node a core of its own, with fresh curvature, when few monomials are left."""
        core = node.core
        alive = np.flatnonzero(node.terms != OUT)
        small = SMALLEST_CORE < core.size and len(alive) <= SHRINK * core.size
        if not (small or force) or node.warm is None:
            return node
        if len(alive) < core.size:
            core = core.restrict(alive)
        share = _shares(node)[alive]
        w = node.warm.w[alive]
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.where(share > 0.0, 0.5 * w**2 * (1.0 / share - 1.0), 0.0)
        core = core.strengthened(np.maximum(rates, 0.0), 0) or core
        moved = Node(
            core, node.terms[alive], node.inputs, node.bound,
            fresh_warm(core.Q, core.q, w, core.norms, node.warm.nu), node.depth,
            vector=node.vector, screenings=node.screenings, screened=node.screened,
        )  # fmt: skip
        return evaluate(moved, self.threshold)


def _first_price(Z: Array, budget: int) -> float:
    """A first guess of nu: the budget-th largest price."""
    return max(float(np.sort(Z)[-min(budget, len(Z))]), 1e-300)


def _shares(node: Node) -> Array:
    """s_j of the relaxation at a node, for the free monomials; 1 for those in."""
    assert node.warm is not None
    s = np.minimum(1.0, np.abs(node.warm.w) * np.sqrt(0.5 * node.core.ridge / node.warm.nu))
    s[node.terms == OUT] = 0.0
    s[node.terms == IN] = 1.0
    return s


def _greedy(uses: States, order: Indices, structure: object) -> Indices:
    """Take monomials in order while the budgets allow."""
    chosen: list[int] = []
    used = np.zeros(uses.shape[1], dtype=bool)
    for j in order:
        if len(chosen) == structure.max_terms:
            break
        both = used | uses[j]
        if both.sum() <= structure.max_inputs:
            chosen.append(int(j))
            used = both
    return np.array(chosen, dtype=np.intp)
