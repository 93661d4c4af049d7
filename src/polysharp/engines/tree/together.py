"""Nodes bounded together: their best diagonals come from a device, many at a time.

The same as ``bounding.evaluate`` in rounds: nodes whose supports can be tried, or that rules
settle, are closed first; those that have a diagonal to start from get their diagonals in one call,
those with thousands of monomials their relaxations (``descents``), and are screened; those of which
little is left go into the next round.  What the processor does for each node, it does side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from polysharp.engines.tree.bounding import MAX_SCREENINGS, fewer, finish, settled, use_descent
from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.listed import ListedNode
from polysharp.engines.tree.relaxation import Descent, Warm
from polysharp.engines.tree.sharpening import (
    Relaxation,
    after_coupling,
    inherited,
    sharpened,
    use_proved,
)
from polysharp.problem.coupling import Coupling
from polysharp.problem.diagonal import Start
from polysharp.problem.diagonals import Answer, Asked
from polysharp.problem.propagation import OUT

Each = Callable[[Callable[[ListedNode], Any], list[ListedNode]], list[Any]]  # applied side by side


def evaluate_together(nodes: list[ListedNode], effort: Spending, each: Each) -> None:
    """Bound nodes until they are closed, or open with their relaxations solved.

    At the time limit they are left as they are.
    """
    left = nodes
    for _ in range(MAX_SCREENINGS):
        over = each(lambda node: effort.expired() or settled(node, effort), left)
        left = [node for node, done in zip(left, over, strict=True) if not done]
        if not left or effort.expired():
            break
        sizes = [len(node.free) for node in left]
        many = [node for node in left if node.point is None]
        few, began = [node for node in left if node.point is not None], perf_counter()
        _sharpened(few, effort, each)
        effort.note_together(len(few), perf_counter() - began)
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


def couple_together(nodes: list[ListedNode], effort: Spending) -> None:
    """Look for better couplings of nodes that are to be split, and bound the nodes with them."""
    parts = list[Asked]()
    for node in nodes:
        assert node.point is not None
        parts.append(_asked(node, node.coupling, node.point.among(node.free), effort))
    found = effort.diagonals.coupled(parts, worth=effort.going_on_pays, expired=effort.expired)
    starts: list[tuple[ListedNode, Coupling | None, Start]] = [
        (node, *after_coupling(node, proposal))
        for node, proposal in zip(nodes, found, strict=True)
        if proposal is not None
    ]
    answers = _diagonals(starts, effort)
    better = {
        node: Relaxation(answer.result, coupling, start.inside)
        for (node, coupling, start), answer in zip(starts, answers, strict=True)
        if answer is not None and answer.short < effort.threshold - node.bound
    }
    _prove(better, effort)


def _sharpened(nodes: list[ListedNode], effort: Spending, each: Each) -> None:
    """Bound nodes with their best diagonals, from where the nodes above have left them."""
    relaxed, left = dict[ListedNode, Relaxation](), [(node, inherited(node)) for node in nodes]
    while left:
        begun = [(node, starts, next(starts, None)) for node, starts in left]
        tried = [(node, starts, start) for node, starts, start in begun if start is not None]
        answers = _diagonals([(node, *start) for node, _, start in tried], effort)
        left = []
        for (node, starts, (coupling, start)), answer in zip(tried, answers, strict=True):
            if answer is None:
                left.append((node, starts))
            else:
                relaxed[node] = Relaxation(answer.result, coupling, start.inside)
    _prove(relaxed, effort)
    # What a coupling has left cannot always be gone on from.
    lost = [node for node in nodes if node.coupling is not None and node not in relaxed]
    each(lambda node: sharpened(node, effort), lost)


def _prove(relaxed: dict[ListedNode, Relaxation], effort: Spending) -> None:
    """Bound nodes with diagonals that were proposed, where they can be proved."""
    results = [own.result for own in relaxed.values()]
    parts = [
        _asked(node, own.coupling, Start(own.result.delta, own.inside, own.result.shares), effort)
        for node, own in relaxed.items()
    ]
    proofs = effort.diagonals.proved(parts, results, effort.settings.longest_chain)
    for (node, own), proved in zip(relaxed.items(), proofs, strict=True):
        use_proved(node, own, proved, effort)


def _diagonals(
    starts: list[tuple[ListedNode, Coupling | None, Start]], effort: Spending
) -> list[Answer | None]:
    parts, tol = [_asked(*start, effort) for start in starts], effort.settings.sharp_tol
    answers: list[Answer | None] = effort.diagonals.sharpened(
        parts, tol=tol, expired=effort.expired
    )
    return answers


def _asked(node: ListedNode, coupling: Coupling | None, start: Start, effort: Spending) -> Asked:
    held = node.core.index[node.held]
    return Asked(held, node.listed_free, node.budget, start, effort.threshold, coupling)
