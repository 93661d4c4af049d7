"""What a node is branched on: a chain of inputs, or of monomials."""

from __future__ import annotations

import numpy as np

from polysharp.engines.tree.listed_node import ListedNode, StartingPoint
from polysharp.engines.tree.scheduler import Scheduler
from polysharp.engines.tree.shifts import drop_chain
from polysharp.problem.propagation import FREE, IN, OUT
from polysharp.typing import Indices

LONG = 6  # terms that one branching decides if a device bounds many nodes at a time


def inputs_decide(node: ListedNode, start: StartingPoint) -> bool:
    """Whether the strongest monomials of the relaxation together use too many inputs.

    If they do not, the input budget is met by itself, and monomials decide the node.
    """
    structure = node.core.structure
    undecided = node.inputs == FREE
    if not structure.inputs_bind or not undecided.any():
        return False
    share = start.shares(node)
    strongest = np.argsort(-share, kind="stable")[: structure.max_terms]
    used = structure.inputs_of(strongest[share[strongest] > 0.0]) | (node.inputs == IN)
    return int(used.sum()) > structure.max_inputs or not len(node.free)


def input_chain(node: ListedNode, start: StartingPoint) -> Indices:
    """Return the undecided inputs with the largest shares, as many as the budget has room for."""
    structure = node.core.structure
    undecided = np.flatnonzero(node.inputs == FREE)
    weight = start.shares(node) @ structure.uses[:, undecided]
    room = structure.max_inputs - int(np.count_nonzero(node.inputs == IN))
    return undecided[np.argsort(-weight, kind="stable")[:room]]


def term_chain(node: ListedNode, start: StartingPoint, scheduler: Scheduler) -> Indices:
    """Return the incumbent's terms if it lies in the node, else those with the largest shares.

    If the best diagonal is known, return the terms that the relaxation could least do without, as
    many as it takes until leaf enumeration closes the last child.
    """
    state, free, share = scheduler.state, node.free, start.shares(node)
    if start.diagonal is not None:
        longest = min(node.budget, state.settings.longest_chain)
        pays = scheduler.leaves_pay
        enough = (k for k in range(1, longest) if pays(len(free) - k, node.budget - k))
        K = None
        if start.pairs is not None:
            K = start.pairs.matrix(node.listed_free, True, node.budget)
        chain = drop_chain(node, start.diagonal, K, next(enough, longest))
        if chain is not None:
            return chain
    best = state.run.best.support
    wide = max(2 * max(1, state.run.threads), LONG if scheduler.device else 0)
    length = min(node.budget, wide)
    mine = np.flatnonzero(np.isin(node.core.index, best, assume_unique=True))
    if _holds(node, mine, len(best)):
        free = np.intersect1d(free, mine)
        length = len(free)
    return free[np.argsort(-share[free], kind="stable")[:length]]


def _holds(node: ListedNode, terms: Indices, count: int) -> bool:
    """Whether ``count`` terms are one of the node's supports, with a term left to decide."""
    return (
        len(terms) == count
        and bool(np.all(node.terms[terms] != OUT))
        and len(node.fixed_in) < count
        and bool(np.isin(node.fixed_in, terms).all())
    )
