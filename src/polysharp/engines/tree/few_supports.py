"""Nodes of which few supports are left: these are bounded one by one.

With everything that is left in, or one monomial to choose, that takes no search.  Else all supports
are gone through (``ends``); those that may cost less than the threshold are refitted, and what the
others cost at least is known.
"""

from __future__ import annotations

import numpy as np

from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.ends import doubt_of_all, exhaust, rounding_slack, term_rules
from polysharp.engines.tree.listed import ListedNode
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Indices

MOST_BOXED = 50_000  # supports below one node that are fitted within boxes, TOGETHER at a time
TOGETHER = 4096


def ended(node: ListedNode, effort: Spending) -> bool:
    """Whether a node could be treated exactly: its few supports are bounded one by one.

    A node that rules of inputs or heredity keep from being one support stays open.
    """
    structure, budget = node.core.structure, node.budget
    free = len(node.free)
    if free <= budget or budget == 0:
        _finish(node, free, effort)
        return True
    if budget == 1 and structure.plain and not structure.inputs_bind:
        _single(node, effort)
        return True
    return False


def _finish(node: ListedNode, free: int, effort: Spending) -> None:
    """Close a node whose best support is everything that is left (if the rules allow it)."""
    core = node.core
    support = node.alive if node.budget > 0 else node.held
    bound, w = core.refitted(support)
    vector = node.written(w, support)
    if core.structure.allows(support):
        if effort.sink.take(core.index[support], bound):
            node.close("enumeration", np.inf)
        else:
            node.close("dual", bound, vector)
    elif free == 0 or node.budget == 0:
        node.close("dual", np.inf)
    else:
        node.raise_bound(bound, vector)


def _single(node: ListedNode, effort: Spending) -> None:
    """Bound every choice of the one monomial left."""
    core, fixed, free = node.core, node.held, node.free
    bounds = np.nan_to_num(core.with_each(fixed, free), nan=-np.inf)  # NaN proves nothing
    bounded, left = core.structure.boxes is not None, np.inf
    for j in np.argsort(bounds, kind="stable"):
        if bounds[j] >= left:
            break
        support = np.sort(np.append(fixed, free[j]))
        # What keeps to the boxes may cost more.
        cost = core.refitted(support)[0] if bounded else float(bounds[j])
        if not effort.sink.take(core.index[support], cost):
            left = min(left, cost, effort.threshold if bounded else cost)
    if core.structure.exact_size:
        node.close("enumeration", left)
    else:
        node.close("enumeration", min(left, core.refitted(fixed)[0]))


def try_all(node: ListedNode, effort: Spending) -> bool:
    """Close a node by trying all of its supports; False where too many come close, or none can."""
    core, held, free = node.core, node.held, node.free
    left = core.eliminated(held, free) if len(free) else None  # else it is for ``ended``
    if left is None:
        return False
    (H, b, cost), budget = left, min(node.budget, len(free))
    order = np.argsort(-(b * b).sum(axis=0) / np.diagonal(H), kind="stable")
    H, b, free = H[order[:, None], order], b[:, order], free[order]
    slack = rounding_slack(core.summed, effort.level, core.structure.max_terms)
    if not slack < np.inf:
        return False  # rounding may hide any gain
    rules = term_rules(core.structure, node.terms, node.inputs, free)
    task = effort.quest(cost, slack, node.budget if core.structure.exact_size else 0)
    doubt = doubt_of_all(core.summed, effort.level, core.size, core.structure.max_terms)
    task = task._replace(doubt=doubt, work=effort.work(len(free), budget))
    bounded = core.structure.boxes is not None
    sink = effort.sink
    most = MOST_BOXED if bounded and not sink.wants_all else sink.most_listed
    if len(b) > 1:
        from polysharp.engines.tree.leaf_rows import exhaust_rows

        result = exhaust_rows(H, b, budget, task, most)
    else:
        result = exhaust(H, b[0], budget, task, rules, most, effort.expired)
    chosen = [] if result is None else [free[hit[hit >= 0]] for hit in result.hits]
    supports = [np.sort(np.append(held, some)) for some in chosen]
    if not (rules.plain or all(map(core.structure.allows, supports))):
        result = None  # a part of such a support may be allowed
    effort.note_ends(len(free), budget, result)
    if result is None:
        return False
    bound = cost - result.need - slack
    if not rules.plain and core.structure.allows(held):
        supports.append(held)  # alone it may be all that the rules allow
    if bounded:
        supports, least = _within_boxes(core, supports, effort.threshold)
        bound = min(bound, least)
    for support in supports:
        cost = core.refitted(support)[0]
        if not sink.take(core.index[support], cost):
            bound = min(bound, cost)
    node.close("enumeration", bound)
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
            costs = core.support_bounds(sets)
            low = costs < threshold
            left += list(sets[low])
            least = min(least, float(costs[~low].min(initial=np.inf)))
    return left, least
