"""A node's relaxation solved together with its best diagonal, and what follows from that.

The diagonal is looked for once what is in has been eliminated (``diagonal``)
by second-order steps; where it falls short, a pairwise shift takes it further before a node is
split, and serves the nodes below.  What it proves is a bound like any other; its solution is where
children start, and says which monomials to branch on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from polysharp.checker.evidence import Diagonal, Vector
from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.listed import ListedNode, PricedPoint
from polysharp.engines.tree.relaxation import fresh_warm, solve_relaxation
from polysharp.moments.gram import solve_spd
from polysharp.problem.bounds import Quadratic, priced_bound
from polysharp.problem.diagonal import (
    HELD_RIDGE,
    INWARDS,
    LIKELY,
    Sharpened,
    Start,
    first_start,
    sharpen,
)
from polysharp.problem.pairwise_shift import PairwiseMatrix
from polysharp.problem.pairwise_shift_method import find_pairwise_shift
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.typing import Array, Indices

RETREATS = (0.7, 0.4)  # multiples of a coupling that are tried where it is too much as it is


class Relaxation(NamedTuple):
    """A relaxation with its best diagonal, the coupling it goes with, a diagonal well inside."""

    result: Sharpened
    coupling: PairwiseMatrix | None
    inside: Array


def sharpened(node: ListedNode, effort: Spending) -> bool:
    """Solve the relaxation with its best diagonal and bound the node; False where that fails.

    It goes on from what the node above has left.
    """
    core, held, free, began = node.core, node.held, node.free, perf_counter()
    left = core.eliminated(held, free)
    if left is None or not np.any(left[1]):
        return False
    H, (b,), cost = left
    aim = cost - effort.threshold * (1.0 + 1e-7)
    relaxed = _relaxed(node, H, b, aim, effort)
    if relaxed is None:
        return False
    effort.note_diagonal(len(free), relaxed.result.steps, perf_counter() - began)
    use_diagonal(node, relaxed, effort)
    return True


def inherited(node: ListedNode) -> Iterator[tuple[PairwiseMatrix | None, Start]]:
    """Yield couplings and diagonals to start from that the node above has left, until one will do.

    With a monomial taken in, less of the curvature among the others is left.
    """
    if node.point is None or (node.coupling is not None and node.budget == 1):
        return
    own = node.point.among(node.free)
    if node.coupling is None:
        yield None, own
        return
    for factor in (1.0, *RETREATS):
        start = own._replace(delta=factor * own.delta, inside=factor * own.inside)
        yield node.coupling if factor == 1.0 else node.coupling.times(factor), start


def _relaxed(
    node: ListedNode, H: Array, b: Array, aim: float, effort: Spending
) -> Relaxation | None:
    """Return the best diagonal from where the node above has left it, or from nothing."""
    found = _first(node, H, b, inherited(node), aim, effort)
    if found is not None or (node.point is not None and node.coupling is None):
        return found
    first = first_start(H, node.budget)  # a diagonal that goes with a coupling may be too much
    if first is None:
        return None
    start = first._replace(shares=0.5 * (first.shares + node.shares()[node.free]))
    return _first(node, H, b, iter([(None, start)]), aim, effort)


def _first(
    node: ListedNode,
    H: Array,
    b: Array,
    starts: Iterable[tuple[PairwiseMatrix | None, Start]],
    aim: float,
    effort: Spending,
) -> Relaxation | None:
    """Return the best diagonal from the first start that will do."""
    settings: Any = {"aim": aim, "tol": effort.settings.sharp_tol, "expired": effort.expired}
    for coupling, start in starts:
        K = None if coupling is None else coupling.matrix(node.listed_free, True, node.budget)
        result = sharpen(H if K is None else H - K, b, node.budget, start, **settings)
        if result is not None:
            return Relaxation(result, coupling, start.inside)
    return None


def couple_further(node: ListedNode, effort: Spending) -> None:
    """Look for a better coupling of a node that is to be split, and bound the node with it."""
    assert node.point is not None
    budget, left, K = node.budget, node.core.eliminated(node.held, node.free), None
    if left is None or not np.any(left[1]):
        return
    H, (b,), cost = left
    if node.coupling is not None:
        K = node.coupling.matrix(node.listed_free, True, budget)
    start, aim = node.point.among(node.free), cost - effort.threshold * (1.0 + 1e-7)
    found = find_pairwise_shift(
        H, b, budget, start, K=K, aim=aim, worthwhile=effort.going_on_pays, expired=effort.expired
    )
    if found is not None and cost - found.gain > node.bound:
        near = Start(0.98 * found.delta, 0.5 * found.delta, found.shares)
        pairs = found.matrix_over(node.listed_free)
        relaxed = _first(node, H, b, [(pairs, near)], aim, effort)
        if relaxed is not None and cost - relaxed.result.gain > node.bound:
            use_diagonal(node, relaxed, effort)


def use_diagonal(node: ListedNode, relaxed: Relaxation, effort: Spending) -> None:
    """Bound a node with a diagonal that was proposed, if it can be proved."""
    core, held, free = node.core, node.held, node.free
    result, coupling, inside = relaxed
    _keep_point(node, free, inside, result)
    node.coupling = coupling
    among, w, K = node.alive, np.zeros(core.size), None
    w[free] = result.w
    if len(held):
        rest = core.system.q[held] - core.system.Q[held[:, None], free] @ result.w
        w[held] = solve_spd(core.problem.hessian(core.index[held]), rest)
    if coupling is not None:
        K = coupling.matrix(core.index[among], node.terms[among] == FREE, node.budget)
    ridge = np.full(core.size, HELD_RIDGE * core.problem.lam)
    # What is not proved as it stands is moved inwards.
    for inwards in INWARDS:
        ridge[free] = (1.0 - inwards) * result.delta + inwards * inside
        system = core.curved(among, ridge[among], K)
        if system is not None:
            _use(node, among, _priced(system, w[among], node, effort), system.ridge, effort)
            break


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
    core, prices = node.core, np.zeros(node.core.size)
    bound, at, prices[among] = priced
    vector = Vector(core.index[among], at)
    moved = Diagonal(core.index[among], ridge - core.problem.lam)
    if node.coupling is not None:
        coupled = np.intersect1d(core.index[node.free], node.coupling.index, assume_unique=True)
        moved = replace(moved, pairs=node.coupling, free=coupled, terms=node.budget)
    node.take(PricedPoint(bound, prices, vector, moved), effort.threshold)


def _priced(
    system: Quadratic, w: Array, node: ListedNode, effort: Spending
) -> tuple[float, Array, Array]:
    """Return a bound, the point that proves it and its prices: at w, or better within boxes.

    w is best where nothing is bounded; with this diagonal the boxes ask for another point.
    """
    terms, budget = node.terms[node.terms != OUT], node.budget
    bound, Z = priced_bound(system, w, terms == IN, budget)
    if np.all(np.isinf(system.low)) and np.all(np.isinf(system.high)):
        return bound, w, Z
    nu = float(np.sort(Z[terms == FREE])[-budget])
    warm = fresh_warm([system], w[None], max(nu, 1e-300))
    relaxed = solve_relaxation([system], terms, budget, warm, effort.aim())
    return (relaxed.bound, relaxed.w[0], relaxed.Z) if relaxed.bound > bound else (bound, w, Z)


def drop_chain(node: ListedNode, length: int) -> Indices | None:
    """Return monomials whose loss would hurt most, each with those before it taken in.

    With A = H + diag(delta (1/s - 1)) and omega = A^-1 b, leaving j out lowers the gain of the
    relaxation by omega_j^2 / (2 (A^-1)_jj) while the shares stay; taking it in makes its share 1.
    """
    assert node.point is not None
    free = node.free
    left = node.core.eliminated(node.held, free)
    if left is None:
        return None
    H, (b,), _ = left
    if node.coupling is not None:
        H -= node.coupling.matrix(node.core.index[free], True, node.budget)
    delta, _, s = node.point.among(free)
    s = np.clip(s, 1e-6, 1.0)
    H.ravel()[:: len(free) + 1] += delta * (1.0 / s - 1.0)
    try:
        inverse, chain = np.linalg.inv(H), list[int]()
    except np.linalg.LinAlgError:  # singular to rounding
        return None
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
        j = int(np.argmax(np.nan_to_num(order, nan=-0.5)))  # none of those chosen before
        chain.append(j)
        change, s[j] = -delta[j] * (1.0 / s[j] - 1.0), 1.0
        column = inverse[:, j].copy()
        inverse -= np.multiply.outer(column, column) * (change / (1.0 + change * column[j]))
    return free[chain]
