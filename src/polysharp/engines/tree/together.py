"""Nodes bounded together: their best diagonals come from a device, many at a time.

The same as ``bounding.evaluate`` in rounds: nodes whose supports can be tried, or that rules
settle, are closed first; those that have a diagonal to start from get their diagonals in one call,
those with thousands of monomials their relaxations (``descents``), and are screened; those of which
little is left go into the next round.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from polysharp.engines.tree.bounding import MAX_SCREENINGS, fewer, finish, settled, use_descent
from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.listed import ListedNode
from polysharp.engines.tree.relaxation import Descent, Warm
from polysharp.engines.tree.sharpening import use_proved
from polysharp.problem.diagonals import Asked
from polysharp.problem.propagation import OUT


def evaluate_together(nodes: list[ListedNode], effort: Spending) -> None:
    """Bound nodes until they are closed, or open with their relaxations solved.

    At the time limit they are left as they are.
    """
    left = nodes
    for _ in range(MAX_SCREENINGS):
        left = [node for node in left if not (effort.expired() or settled(node, effort))]
        if not left or effort.expired():
            break
        sizes = [len(node.free) for node in left]
        many = [node for node in left if node.point is None]
        _sharpened([node for node in left if node.point is not None], effort)
        _descended(many, effort)
        left = [
            node
            for node, size in zip(left, sizes, strict=True)
            if not node.closed and fewer(node, size)
        ]
    for node in nodes:
        finish(node, effort)


def on_device(node: ListedNode, effort: Spending) -> bool:
    """Whether a node is relaxed on the device: with a diagonal to start from, or of many terms."""
    if node.point is not None:
        return True
    few = len(node.free) < effort.settings.descents_from
    return effort.descents is not None and node.core.diagonal < 0 and not few


def _descended(nodes: list[ListedNode], effort: Spending) -> None:
    """Bound nodes with their relaxations over thousands of monomials."""
    if not nodes:
        return
    began = perf_counter()
    size, threshold, tasks = effort.run.problem.size, effort.threshold, list[Descent]()
    for node in nodes:
        terms, w = np.full(size, OUT, dtype=np.int8), np.zeros(size)
        terms[node.core.index] = node.terms
        if node.warm is not None:
            w[node.core.index] = node.warm.w
        tasks.append(Descent(terms, node.budget, w, threshold))
    found = effort.descents.solved(tasks, expired=effort.expired)
    for node, (w, rho, nu) in zip(nodes, found, strict=True):
        use_descent(node, Warm(w[node.core.index], rho[node.core.index], nu), effort)
    effort.note_descents([len(node.free) for node in nodes], perf_counter() - began)


def _sharpened(nodes: list[ListedNode], effort: Spending) -> None:
    """Bound nodes with their best diagonals, as far as these can be proved."""
    if not nodes:
        return
    parts = [_asked(node, effort.threshold) for node in nodes]
    found = effort.diagonals.sharpened(
        parts,
        tol=effort.settings.sharp_tol,
        chain=effort.settings.longest_chain,
        expired=effort.expired,
    )
    for node, part, proved in zip(nodes, parts, found, strict=True):
        if proved is not None:
            use_proved(node, part.start.inside, proved, effort)


def _asked(node: ListedNode, threshold: float) -> Asked:
    index, point = node.core.index, node.point
    assert point is not None
    return Asked(index[node.held], index[node.free], node.budget, point.among(node.free), threshold)
