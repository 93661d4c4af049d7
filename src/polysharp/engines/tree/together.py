"""Nodes bounded together: their best diagonals come from a device, many at a time.

The same as ``listed.evaluate`` for nodes that have a diagonal to start from, in rounds: those whose
supports can be tried, or that rules settle, are closed first; the others get their diagonals in one
call and are screened; those of which little is left go into the next round.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.listed import (
    MAX_SCREENINGS,
    ListedNode,
    fewer,
    forced,
    settled,
    use_proved,
)
from polysharp.engines.tree.relaxation import FREE, IN
from polysharp.problem.diagonals import Part


def evaluate_together(nodes: list[ListedNode], effort: Spending) -> None:
    """Bound nodes until they are closed, or open with their relaxations solved.

    At the time limit they are left as they are.
    """
    left = nodes
    for _ in range(MAX_SCREENINGS):
        left = [node for node in left if not (effort.expired() or settled(node, effort))]
        if not left or effort.expired():
            break
        sizes = [int(np.count_nonzero(node.terms == FREE)) for node in left]
        _sharpened(left, effort)
        left = [
            node
            for node, size in zip(left, sizes, strict=True)
            if not node.closed and fewer(node, size)
        ]
    for node in nodes:
        if not node.closed:
            forced(node)


def _sharpened(nodes: list[ListedNode], effort: Spending) -> None:
    """Bound nodes with their best diagonals, as far as these can be proved."""
    began = perf_counter()
    parts = [_part(node, effort.threshold) for node in nodes]
    found = effort.diagonals.sharpened(
        parts,
        tol=effort.settings.sharp_tol,
        chain=effort.settings.longest_chain,
        expired=effort.expired,
    )
    for node, part, proved in zip(nodes, parts, found, strict=True):
        if proved is not None:
            use_proved(node, part.start.inside, proved, effort)
    steps = [0 if proved is None else proved.result.steps for proved in found]
    effort.note_diagonals([len(part.free) for part in parts], steps, perf_counter() - began)


def _part(node: ListedNode, threshold: float) -> Part:
    index, point = node.core.index, node.point
    assert point is not None
    held, free = np.flatnonzero(node.terms == IN), np.flatnonzero(node.terms == FREE)
    return Part(index[held], index[free], node.budget, point.among(free), threshold)
