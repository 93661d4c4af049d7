"""Bounding one node over listed monomials: fixings, relaxation, screening, exact ends.

A node fixes monomials and inputs in or out, and first what the rules force (``propagation``).  Few
supports are tried one by one (``ends``).  Else, with few monomials left, the relaxation is solved
together with its best diagonal (``sharp``); with many, by coordinate descent (``relaxation``), and
then screening follows: at a dual point with bound B and prices Z, forcing a free monomial j outside
the L largest costs at least B + Z_(L) - Z_j, and leaving out one of the L largest at least
B + Z_j - Z_(L+1); where that reaches the threshold, j is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import NamedTuple

import numpy as np

from polysharp.certificate.proof import Diagonal, Kind, Screening, Vector
from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.ends import MOST_HITS, exhaust, rounding_slack, term_rules
from polysharp.engines.tree.loop import Node
from polysharp.engines.tree.relaxation import (
    FREE,
    IN,
    OUT,
    PRUNED,
    States,
    Warm,
    fresh_warm,
    solve_relaxation,
)
from polysharp.moments.gram import solve_spd
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.problem.bounds import (
    Quadratic,
    choice_bounds,
    forcing_costs,
    priced_bound,
    support_bound,
    support_bounds,
)
from polysharp.problem.boxed_fit import solve_in_boxes, solve_many_in_boxes
from polysharp.problem.diagonal import (
    HELD_RIDGE,
    INWARDS,
    LIKELY,
    Proved,
    Sharpened,
    Start,
    first_start,
    sharpen,
)
from polysharp.problem.propagation import propagate
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices

MAX_SCREENINGS = 6
MOST_BOXED = 50_000  # supports below one node that are fitted within boxes, TOGETHER at a time
TOGETHER = 4096
MOST_NAMED = 100_000  # supports below one node; with more to name it is split first
WORTH_SOLVING_AGAIN = 0.85  # when no more than this share of the monomials is left


@dataclass(eq=False)
class ListedNode(Node):
    """Monomials and inputs that are in, out or free, and the relaxation of what is left."""

    core: Subproblem
    terms: States
    inputs: States
    warm: Warm | None  # the relaxation's last iterate; None once closed or sharp
    kind: Kind = "split"  # "split" while open
    vector: Vector | None = None  # proves the bound
    moved: Diagonal | None = None  # with this diagonal, if there is one
    point: Start | None = None  # the best diagonal's solution, over the core, once it was asked for
    chain: Indices | None = None  # what to branch on, problem positions, where a device has said so
    # What was fixed on the way, with the diagonals that the vectors are used with.
    screenings: list[tuple[Screening, Diagonal | None]] = field(default_factory=list)
    candidates: list[Indices] = field(default_factory=list)  # supports seen, problem positions
    named: list[Indices] = field(default_factory=list)  # those that the bound does not cover
    record: int = 0  # number in the proof
    stored: tuple[Indices, Array] | None = None  # w of an open node that waits
    ends: float = 0.0  # seconds to try its supports, while it is open

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
        if kind in {"single", "void", "exhausted"} or (vector is not None and bound >= self.bound):
            self.bound, self.vector, self.moved = bound, vector, None
        self.warm = self.stored = self.point = None

    def compress(self) -> None:
        """Keep only the nonzero coefficients while the node waits."""
        if self.warm is None:
            return
        support = np.flatnonzero(self.warm.w)
        self.stored = support, self.warm.w[support]
        self.warm = Warm(np.zeros(0), np.zeros(0), self.warm.nu)

    def expand(self) -> None:
        """Undo ``compress``, with rho computed afresh."""
        if self.warm is None or self.stored is None:
            return
        w = np.zeros(self.core.size)
        w[self.stored[0]] = self.stored[1]
        self.warm = fresh_warm(self.core.system, w, self.warm.nu)
        self.stored = None

    def shares(self) -> Array:
        """s_j of the relaxation: 1 for monomials in, 0 for those out."""
        if self.point is not None:
            s = self.point.shares.copy()
        else:
            assert self.warm is not None
            system, w = self.core.system, self.warm.w
            slope = np.sqrt(0.5 * system.ridge / max(self.warm.nu, 1e-300))
            end = np.where(w > 0.0, system.high, np.where(w < 0.0, -system.low, 1.0))
            s = np.minimum(1.0, np.abs(w) * np.maximum(slope, 1.0 / end))
        s[self.terms == OUT] = 0.0
        s[self.terms == IN] = 1.0
        return s


class PricedPoint(NamedTuple):
    """A dual point: its bound, the prices of all monomials, and what proves them."""

    bound: float
    Z: Array
    vector: Vector
    moved: Diagonal | None


def evaluate(node: ListedNode, effort: Spending) -> ListedNode:
    """Bound a node until it is closed, or open with its relaxation solved; return it.

    When the time is up the relaxation is left as it stands, with the bound that it has proved.
    """
    for _ in range(MAX_SCREENINGS):
        if settled(node, effort):
            return node
        free = int(np.count_nonzero(node.terms == FREE))
        if node.point is None:
            again = _descend(node, effort)
            if not (again or node.closed) and effort.diagonal_pays(free):
                again = sharpened(node, effort) and fewer(node, free)
        else:
            again = sharpened(node, effort) and fewer(node, free)
        if node.closed:
            return node
        if not again:
            break
    forced(node)
    return node


def settled(node: ListedNode, effort: Spending) -> bool:
    """Whether a node needs no relaxation: by the rules, or because its supports can be tried."""
    if not forced(node) or _ended(node, effort):
        return True
    free = int(np.count_nonzero(node.terms == FREE))
    return effort.ends_pay(free, node.budget) and try_all(node, effort)


def forced(node: ListedNode) -> bool:
    """Fix what the rules force; False, and the node is closed, where they leave nothing.

    What screening fixed last may force more, and a smaller subproblem must not lose it.
    """
    possible = propagate(node.core.structure, node.terms, node.inputs)
    if not possible:
        node.close("void", np.inf)
    return possible


def fewer(node: ListedNode, before: int) -> bool:
    """Whether so few monomials are left that the relaxation is worth solving again."""
    return int(np.count_nonzero(node.terms == FREE)) <= WORTH_SOLVING_AGAIN * before


def _descend(node: ListedNode, effort: Spending) -> bool:
    """Solve the relaxation by coordinate descent; return whether what it fixed changes it."""
    core, aim, began = node.core, effort.aim(), perf_counter()
    if node.warm is None:
        node.warm = fresh_warm(core.system, np.zeros(core.size), 1.0)
    relaxed = solve_relaxation(core.system, node.terms, node.budget, node.warm, aim)
    effort.note_descents(1, perf_counter() - began)
    support = np.flatnonzero(relaxed.w)
    vector = Vector(core.index[support], relaxed.w[support], core.diagonal)
    if relaxed.bound > node.bound:
        node.bound, node.vector, node.moved = relaxed.bound, vector, None
    if relaxed.code == PRUNED:
        node.close("dual", node.bound)
        return False
    inn, out = _screen(node, PricedPoint(relaxed.bound, relaxed.Z, vector, None), aim.threshold)
    # Fixing out what the relaxation leaves at zero does not move its value.
    return len(inn) > 0 or bool(np.any(relaxed.warm.w[out] != 0.0))


def use_descent(node: ListedNode, warm: Warm, effort: Spending) -> None:
    """Bound a node with a point of its relaxation, no curvature moved, and keep it as a start."""
    core, threshold = node.core, effort.threshold
    alive, support = np.flatnonzero(node.terms != OUT), np.flatnonzero(warm.w)
    system = core.problem.system(core.index[alive], np.zeros((0, 0)))
    inn = node.terms[alive] == IN
    bound, prices = priced_bound(system, warm.w[alive], inn, node.budget, warm.rho[alive])
    vector = Vector(core.index[support], warm.w[support], core.diagonal)
    warm.products, warm.mass = float(len(support)), float(np.abs(warm.w) @ core.system.sizes)
    node.warm = warm
    if bound > node.bound:
        node.bound, node.vector, node.moved = bound, vector, None
    if node.bound >= threshold:
        node.close("dual", node.bound)
        return
    Z = np.zeros(core.size)
    Z[alive] = prices
    _screen(node, PricedPoint(bound, Z, vector, None), threshold)


def sharpened(node: ListedNode, effort: Spending) -> bool:
    """Solve the relaxation with its best diagonal and bound the node; False where that fails."""
    core, began = node.core, perf_counter()
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    left = core.eliminated(held, free)
    if left is None or not np.any(left[1]):
        return False
    H, b, cost = left
    if node.point is None:
        start = first_start(H, node.budget)
        if start is None:
            return False
        start = start._replace(shares=0.5 * (start.shares + node.shares()[free]))
    else:
        start = node.point.among(free)
    result = sharpen(
        H, b, node.budget, start,
        aim=cost - effort.threshold * (1.0 + 1e-7),
        tol=effort.settings.sharp_tol, expired=effort.expired,
    )  # fmt: skip
    if result is None:
        return False
    effort.note_diagonal(len(free), result.steps, perf_counter() - began)
    use_diagonal(node, start.inside, result, effort)
    return True


def use_diagonal(node: ListedNode, inside: Array, result: Sharpened, effort: Spending) -> None:
    """Bound a node with a diagonal that was proposed, if it can be proved."""
    core = node.core
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    _keep_point(node, free, inside, result)
    among = np.sort(np.concatenate([held, free]))
    w = np.zeros(core.size)
    w[free] = result.w
    if len(held):
        A = core.gram(held)
        A.ravel()[:: len(held) + 1] += core.problem.lam
        w[held] = solve_spd(A, core.system.q[held] - core.system.Q[held[:, None], free] @ result.w)
    ridge = np.full(core.size, HELD_RIDGE * core.problem.lam)
    # What is not proved as it stands is moved inwards.
    for inwards in INWARDS:
        ridge[free] = (1.0 - inwards) * result.delta + inwards * inside
        system = core.curved(among, ridge[among])
        if system is not None:
            _use(node, among, _priced(system, w[among], node, effort), system.ridge, effort)
            break


def use_proved(node: ListedNode, inside: Array, proved: Proved, effort: Spending) -> None:
    """Bound a node with a diagonal that has been proved elsewhere."""
    core = node.core
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    _keep_point(node, free, inside, proved.result)
    node.chain = core.index[free[proved.chain]]
    if proved.ridge is None:
        return
    both = np.concatenate([held, free])
    order = np.argsort(both)
    among, ridge, w = both[order], proved.ridge[order], proved.w[order]
    boxed = core.structure.boxes is not None
    system = core.with_ridge(among, ridge, core.gram(among) if boxed else np.zeros((0, 0)))
    _use(node, among, _priced(system, w, node, effort, proved.rho[order]), ridge, effort)


def _keep_point(node: ListedNode, free: Indices, inside: Array, result: Sharpened) -> None:
    """Keep a solution as the start of children."""
    point = Start(*np.zeros((3, node.core.size)))
    point.delta[free], point.inside[free], point.shares[free] = result.delta, inside, result.shares
    node.point, node.warm = point, None


def _use(
    node: ListedNode,
    among: Indices,
    priced: tuple[float, Array, Array],
    ridge: Array,
    effort: Spending,
) -> None:
    """Take a bound and its prices over a node."""
    core, threshold = node.core, effort.threshold
    bound, at, Z = priced
    vector = Vector(core.index[among], at)
    moved = Diagonal(core.index[among], ridge - core.problem.lam)
    if bound > node.bound:
        node.bound, node.vector, node.moved = bound, vector, moved
    if node.bound >= threshold:
        node.close("dual", node.bound)
    else:
        prices = np.zeros(core.size)
        prices[among] = Z
        _screen(node, PricedPoint(bound, prices, vector, moved), threshold)


def _priced(
    system: Quadratic, w: Array, node: ListedNode, effort: Spending, rho: Array | None = None
) -> tuple[float, Array, Array]:
    """Return a bound, the point that proves it and its prices: at w, or better within boxes.

    w is best where nothing is bounded; with this diagonal the boxes ask for another point.
    """
    terms, budget = node.terms[node.terms != OUT], node.budget
    bound, Z = priced_bound(system, w, terms == IN, budget, rho)
    if np.all(np.isinf(system.low)) and np.all(np.isinf(system.high)):
        return bound, w, Z
    nu = float(np.sort(Z[terms == FREE])[-budget])
    warm = fresh_warm(system, w, max(nu, 1e-300))
    relaxed = solve_relaxation(system, terms, budget, warm, effort.aim())
    return (relaxed.bound, relaxed.w, relaxed.Z) if relaxed.bound > bound else (bound, w, Z)


def try_all(node: ListedNode, effort: Spending) -> bool:
    """Close a node by trying all of its supports; False where too many come close, or none can."""
    core, began = node.core, perf_counter()
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    left = core.eliminated(held, free)
    if left is None:
        return False
    H, b, cost = left
    order = np.argsort(-b * b / np.diagonal(H), kind="stable")
    H, b, free = H[order[:, None], order], b[order], free[order]
    slack = rounding_slack(core.system, effort.level, core.structure.max_terms)
    if not slack < np.inf:
        return False  # rounding may hide any gain
    rules = term_rules(core.structure, node.terms, node.inputs, free)
    task = effort.quest(cost, slack, node.budget if core.structure.exact_size else 0)
    doubt = rounding_slack(core.system, effort.level, core.size)
    task = task._replace(doubt=doubt, work=effort.work(len(free), node.budget))
    bounded = core.structure.boxes is not None
    most = MOST_NAMED if effort.run.names else MOST_BOXED if bounded else MOST_HITS
    # The device's test needs a gain that rounding cannot hide.
    there = rules.plain and task.need > 0.0 and effort.on_device(len(free), node.budget)
    if there:
        from polysharp.engines.tree.ends_cuda import exhaust_on_device

        result = exhaust_on_device(H, b, node.budget, task, effort.device, most)
    else:
        result = exhaust(H, b, node.budget, task, rules, most, effort.expired)
    took, given_up = perf_counter() - began, result is None
    effort.note_ends(len(free), node.budget, took, there=there, given_up=given_up)
    if result is None:
        return False
    bound = cost - result.need - slack
    supports = [np.sort(np.append(held, free[hit[hit >= 0]])) for hit in result.hits]
    if not rules.plain and core.structure.allows(held):
        supports.append(held)  # alone it may be all that the rules allow
    if bounded:
        supports, least = _within_boxes(core, supports, effort.threshold)
        bound = min(bound, least)
    for support in supports:
        if effort.run.names:
            node.named.append(core.index[support])
        else:
            bound = min(bound, exact_bound(core, support)[0])
            node.candidates.append(core.index[support])
    node.close("exhausted", bound)
    return True


def _within_boxes(
    core: Subproblem, supports: list[Indices], threshold: float
) -> tuple[list[Indices], float]:
    """Return the supports that may stay below a threshold within boxes, and what others cost."""
    left, least = list[Indices](), np.inf
    for size in sorted(set(map(len, supports))):
        own = [support for support in supports if len(support) == size]
        for start in range(0, len(own), TOGETHER):
            sets = np.array(own[start : start + TOGETHER], dtype=np.intp)
            system = core.system
            H = system.Q[sets[:, :, None], sets[:, None, :]]
            H[:, np.arange(size), np.arange(size)] += system.ridge[sets]
            boxes = Boxes(system.low[sets], system.high[sets])
            W = solve_many_in_boxes(H, system.q[sets], boxes)
            costs = support_bounds(system, sets, W)
            low = costs < threshold
            left += list(sets[low])
            least = min(least, float(costs[~low].min(initial=np.inf)))
    return left, least


def drop_chain(node: ListedNode, length: int) -> Indices | None:
    """Return monomials whose loss would hurt most, each with those before it taken in.

    With A = H + diag(delta (1/s - 1)) and omega = A^-1 b, leaving j out lowers the gain of the
    relaxation by omega_j^2 / (2 (A^-1)_jj) while the shares stay; taking it in makes its share 1.
    """
    assert node.point is not None
    if node.chain is not None:
        index = node.core.index
        places = np.minimum(np.searchsorted(index, node.chain), len(index) - 1)
        still = (index[places] == node.chain) & (node.terms[places] == FREE)
        if still.any():
            return np.asarray(places[still][:length])
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    left = node.core.eliminated(held, free)
    if left is None:
        return None
    H, b, _ = left
    delta, _, s = node.point.among(free)
    s = np.clip(s, 1e-6, 1.0)
    H.ravel()[:: len(free) + 1] += delta * (1.0 / s - 1.0)
    inverse, chain = np.linalg.inv(H), list[int]()
    for _ in range(length):
        omega = inverse @ b
        drop = omega**2 / np.diagonal(inverse)
        likely = s > LIKELY
        likely[chain] = False
        order = (
            np.where(likely, drop, -1.0)
            if likely.any()
            else np.where(np.isin(np.arange(len(free)), chain), -1.0, s)
        )
        j = int(np.argmax(order))
        chain.append(j)
        change, s[j] = -delta[j] * (1.0 / s[j] - 1.0), 1.0
        column = inverse[:, j].copy()
        inverse -= np.multiply.outer(column, column) * (change / (1.0 + change * column[j]))
    return free[chain]


def _ended(node: ListedNode, effort: Spending) -> bool:
    """Whether a node could be treated exactly: its few supports are bounded one by one.

    A node that rules of inputs or heredity keep from being one support stays open.
    """
    structure, budget = node.core.structure, node.budget
    free = int(np.count_nonzero(node.terms == FREE))
    if free <= budget or budget == 0:
        _finish(node, free, effort)
        return True
    if budget == 1 and structure.plain and not structure.inputs_bind:
        _single(node, effort)
        return True
    return False


def _screen(node: ListedNode, at: PricedPoint, threshold: float) -> tuple[Indices, Indices]:
    """Fix what a dual point decides; return what came in and what went out."""
    free = np.flatnonzero(node.terms == FREE)
    cost, top = forcing_costs(at.bound, at.Z[free], node.budget)
    sure = cost >= threshold
    out, inn = free[sure & ~top], free[sure & top]
    if sure.any():
        index = node.core.index
        node.screenings.append((Screening(at.vector, index[out], index[inn]), at.moved))
        node.set_aside = min(node.set_aside, float(cost[sure].min()))
        node.terms[out] = OUT
        node.terms[inn] = IN
    return inn, out


def _finish(node: ListedNode, free: int, effort: Spending) -> None:
    """Close a node whose best support is everything that is left (if the rules allow it)."""
    core = node.core
    alive = node.terms == IN
    if node.budget > 0:
        alive |= node.terms == FREE
    support = np.flatnonzero(alive)
    bound, vector = exact_bound(core, support)
    if core.structure.allows(support) and effort.names(bound):
        node.named.append(core.index[support])
        node.close("exhausted", np.inf)
    elif core.structure.allows(support):
        node.candidates.append(core.index[support])
        node.close("dual", bound, vector)
    elif free == 0 or node.budget == 0:
        node.close("void", np.inf)
    elif bound > node.bound:
        node.bound, node.vector = bound, vector


def exact_bound(core: Subproblem, support: Indices) -> tuple[float, Vector]:
    """Return the dual value at the refitted coefficients: c(support), safely rounded down."""
    system = core.system.among(support)
    w, boxes = np.zeros(0), Boxes(system.low, system.high)
    if len(support):
        w = solve_in_boxes(system.Q + np.diag(system.ridge), system.q, boxes)
    return support_bound(system, w), Vector(core.index[support], w, core.diagonal)


def _single(node: ListedNode, effort: Spending) -> None:
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
    if effort.run.names:
        low = ~(bounds >= effort.threshold)
        node.named += [core.index[np.sort(np.append(fixed, j))] for j in free[low]]
        node.close("exhausted", float(bounds[~low].min(initial=np.inf)))
        return
    alone, vector = exact_bound(core, fixed)
    order = np.argsort(bounds, kind="stable")
    with_each = (np.sort(np.append(fixed, free[j])) for j in order)
    best, least = next(with_each), float(bounds.min())
    if core.structure.boxes is not None:  # what keeps to the boxes may cost more
        least = effort.threshold
        for j, support in zip(order, chain([best], with_each), strict=True):
            if bounds[j] >= least:
                break
            if (cost := exact_bound(core, support)[0]) < least:
                best, least = support, cost
    node.candidates.append(core.index[best])
    node.close("single", min(least, alone), vector)
