"""Bounding one node over listed monomials: rules, few supports, relaxation, screening.

First what the rules force is fixed.  Few supports are tried one by one (``few_supports``).  Else,
with few monomials left, the relaxation is solved together with its best diagonal (``sharpening``);
with many, by coordinate descent (``relaxation``).  Where what its dual point fixes changes the
relaxation, all of that is done again.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.few_supports import ended, try_all
from polysharp.engines.tree.listed import ListedNode, PricedPoint
from polysharp.engines.tree.relaxation import Descent, Warm
from polysharp.engines.tree.sharpening import sharpened
from polysharp.problem.bounds import priced_bound
from polysharp.problem.propagation import IN, OUT

MAX_SCREENINGS = 6
WORTH_SOLVING_AGAIN = 0.85  # when no more than this share of the monomials is left


def evaluate(node: ListedNode, effort: Spending) -> ListedNode:
    """Bound a node until it is closed, or open with its relaxation solved; return it.

    When the time is up the relaxation is left as it stands, with the bound that it has proved.
    """
    for _ in range(MAX_SCREENINGS):
        if settled(node, effort):
            return node
        free = len(node.free)
        if node.point is None:
            again = _descend(node, effort)
            if not (again or node.closed) and effort.sharpens(free):
                again = sharpened(node, effort) and fewer(node, free)
        else:
            again = sharpened(node, effort) and fewer(node, free)
        if node.closed:
            return node
        if not again:
            break
    finish(node, effort)
    return node


def finish(node: ListedNode, effort: Spending) -> None:
    """Take what follows from what was fixed last, which a smaller subproblem must not lose."""
    if not node.closed and node.forced():
        ended(node, effort)


def settled(node: ListedNode, effort: Spending) -> bool:
    """Whether a node needs no relaxation: by the rules, or because its supports can be tried."""
    if not node.forced() or ended(node, effort):
        return True
    return effort.ends_pay(len(node.free), node.budget) and try_all(node, effort)


def fewer(node: ListedNode, before: int) -> bool:
    """Whether so few monomials are left that the relaxation is worth solving again."""
    return len(node.free) <= WORTH_SOLVING_AGAIN * before


def _descend(node: ListedNode, effort: Spending) -> bool:
    """Solve the relaxation by coordinate descent; return whether what it fixed changes it."""
    aim, free, began = effort.aim(), len(node.free), perf_counter()
    relaxed = node.relaxed(aim)
    effort.note_descents([free], perf_counter() - began)
    node.warm, vector = relaxed.warm, node.written(relaxed.w)
    inn, out = node.take(PricedPoint(relaxed.bound, relaxed.Z, vector), aim.threshold)
    # Fixing out what the relaxation leaves at zero does not move its value.
    return len(inn) > 0 or bool(np.any(relaxed.warm.w[:, out] != 0.0))


def descended(nodes: list[ListedNode], effort: Spending, each: Any) -> None:
    """Relax the nodes of thousands of monomials on the device, until they are closed or small."""
    left = [node for node in nodes if large(node, effort)]
    for _ in range(MAX_SCREENINGS):
        over = each(lambda node: effort.expired() or settled(node, effort), left)
        left = [node for node, done in zip(left, over, strict=True) if not done]
        if not left or effort.expired():
            break
        sizes, began = [len(node.free) for node in left], perf_counter()
        size, threshold, tasks = effort.run.problem.size, effort.threshold, list[Descent]()
        for node in left:
            terms, w = np.full(size, OUT, dtype=np.int8), np.zeros(size)
            terms[node.core.index] = node.terms
            if node.warm is not None:
                w[node.core.index] = node.warm.w[0]
            tasks.append(Descent(terms, node.budget, w, threshold))
        found = effort.descents.solved(tasks, expired=effort.expired)
        for node, (w, rho, nu) in zip(left, found, strict=True):
            index = node.core.index[None]
            use_descent(node, Warm(w[index], rho[index], nu), effort)
        effort.note_descents(sizes, perf_counter() - began)
        left = [
            node
            for node, before in zip(left, sizes, strict=True)
            if not node.closed and fewer(node, before) and large(node, effort)
        ]
    for node in nodes:
        if large(node, effort):
            finish(node, effort)


def large(node: ListedNode, effort: Spending) -> bool:
    """Whether the device relaxes a node."""
    few = len(node.free) < effort.settings.descents_from
    there = effort.descents is not None and not node.closed
    return there and node.point is None and node.core.diagonal < 0 and not few


def use_descent(node: ListedNode, warm: Warm, effort: Spending) -> None:
    """Bound a node with a point of its relaxation, no curvature moved, and keep it as a start."""
    core, alive = node.core, node.alive
    system = core.problem.system(core.index[alive], np.zeros((0, 0)))
    inn, Z = node.terms[alive] == IN, np.zeros(core.size)
    (w,), (rho,) = warm.w, warm.rho
    bound, Z[alive] = priced_bound(system, w[alive], inn, node.budget, rho[alive])
    warm.products = float(np.count_nonzero(w))
    warm.mass = float(np.abs(w) @ core.system.sizes)
    node.warm = warm
    node.take(PricedPoint(bound, Z, node.written(warm.w)), effort.threshold)
