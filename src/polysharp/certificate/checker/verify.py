"""A checker of proofs that shares no code with the search: plain NumPy, and the records alone.

It recomputes monomials, moments and rules from the statement and the rows (``checker_problem``),
walks the tree from its root, deduces after every fixing what the rules force, and evaluates the
lower bound of a vector wherever the proof relies on one (``checker_bounds``).  A proof holds when

    - the model is allowed and costs what is stated,
    - every split is covered by its children: with chain c_1..c_m, either some c_a is the first
      one out, or all are in; with sets of inputs, every set that fills the budget is a child, or
      the ridge regression on all of its monomials costs at least the bound,
    - everything that screening fixes, and every leaf, costs at least the bound.

The bound counts as reached within 1e-9 of the objective and the rounding of yy.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from itertools import combinations
from math import comb, inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.checker.bounds import (
    Tangent,
    budget_left,
    check_diagonal,
    least_of_singles,
    margin_of,
    read_indices,
    ridge_of_all,
)
from polysharp.certificate.checker.task import (
    FREE,
    IN,
    OUT,
    Array,
    Empty,
    Pair,
    Rejected,
    States,
    Task,
    check_statement,
    demand,
    read_rows,
)

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof, ProofNode, Screening
    from polysharp.certificate.statement import Statement

TOLERANCE = 1e-9
MOST_SETS = 1_000_000  # of inputs below one node: a proof must not keep its reader for ever
Part = tuple[int, Pair | None]  # number of a node, with what is fixed; None: no support left


@dataclass(frozen=True)
class Verdict:
    """Whether a proof holds; ``bound`` and ``objective`` are recomputed, never copied.

    ``bound`` is 0 where the proof fails: that much is always true.
    """

    valid: bool
    bound: float
    objective: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        if not self.valid:
            return f"rejected: {self.reason}"
        # Rounded down: 9 digits of a bound may be more than the bound.
        bound = float(Context(prec=9, rounding=ROUND_FLOOR).create_decimal_from_float(self.bound))
        return f"valid: the model costs {self.objective:.9g}, and none costs below {bound:.9g}"


def verify(proof: Proof, X: Any, y: Any, sample_weight: Any = None) -> Verdict:
    """Check a proof against the data it speaks of.

    Parameters
    ----------
    proof : Proof
        ``model.solution_.proof``, or one read by ``Proof.load(path)``.
    X, y, sample_weight
        The rows that were given to ``fit``.

    Returns
    -------
    Verdict
        True or false as it stands; ``reason`` names the first thing that is wrong and where.
    """
    objective = nan
    try:
        statement = proof.statement
        if statement is None:
            raise Rejected("the proof has no statement")
        check_statement(statement)
        task = Task.of(statement, *read_rows(statement, X, y, sample_weight))
        objective = _objective(task, statement)
        claim = proof.bound - TOLERANCE * objective - task.rounding
        bound = _walk(proof, task, claim)
    except Rejected as failure:
        return Verdict(False, 0.0, objective, str(failure))
    return Verdict(True, min(bound, objective), objective)


def _objective(task: Task, s: Statement) -> float:
    """Return the cost of the model, which must be allowed and cost what is stated."""
    place = {m: j for j, m in enumerate(s.monomials)}
    demand(set(s.support) <= place.keys(), "the model has a term that is no candidate")
    S = np.array(sorted({place[m] for m in s.support}), dtype=np.intp)
    demand(len(S) == len(s.support) and task.rules.allows(S), "the model breaks the rules")
    H = task.G[np.ix_(S, S)] + task.lam * np.eye(len(S))
    w: Array = np.asarray(np.linalg.lstsq(H, task.q[S], rcond=None)[0], dtype=np.float64)
    value = max(0.0, 0.5 * float(task.yy - 2.0 * (task.q[S] @ w) + w @ (H @ w)))
    slack = TOLERANCE * value + task.rounding + margin_of(task, S, w, 0.0)
    demand(abs(value - s.objective) <= slack, f"the model costs {value:.9g}, not as stated")
    return value


def _walk(proof: Proof, task: Task, claim: float) -> float:
    """Check every node; return the least cost that the proof leaves possible."""
    demand(isfinite(proof.bound), "the bound is not a number")
    demand(len(proof.nodes) > 0, "the proof has no nodes")
    for number, diagonal in enumerate(proof.diagonals):
        check_diagonal(task, diagonal, f"diagonal {number}")
    least, seen = inf, {0}
    stack: list[Part] = [(0, task.rules.root())]
    while stack:
        number, states = stack.pop()
        try:
            value, parts = _visit(task, proof, proof.nodes[number], states, claim)
            for child, _ in parts:
                demand(0 < child < len(proof.nodes), f"child {child} does not exist")
                demand(child not in seen, f"child {child} is used twice")
                seen.add(child)
        except Rejected as failure:
            raise Rejected(f"node {number}: {failure}") from None
        least = min(least, value)
        stack += parts
    demand(len(seen) == len(proof.nodes), "some nodes are not part of the tree")
    return least


def _visit(
    task: Task, proof: Proof, node: ProofNode, states: Pair | None, claim: float
) -> tuple[float, list[Part]]:
    """Check one node; return the least cost it leaves possible, and its children."""
    least = inf
    try:
        if states is None:
            raise Empty
        task.rules.deduce(*states)
        for screening in node.screenings:
            least = min(least, _screen(task, proof, screening, states[0], claim))
            task.rules.deduce(*states)
    except Empty:
        states = None  # nothing is left to cover, whatever the node is
    if node.kind == "split":
        return least, _split(task, node, states)
    if node.kind == "sets":
        value, parts = _split_by_sets(task, node, states, claim)
        return min(least, value), parts
    if states is not None:
        value = _leaf(task, proof, node, states[0])
        demand(value >= claim, f"proves {value:.12g}, less than the bound")
        least = min(least, value)
    return least, []


def _split(task: Task, node: ProofNode, states: Pair | None) -> list[Part]:
    """Return the children: the a-th has c_1..c_{a-1} in and c_a out, the last all of them in."""
    size = task.rules.uses.shape[1 if node.on_inputs else 0]
    chain = read_indices(node.chain, size, "the chain")
    demand(len(node.children) == len(chain) + 1, "the children do not cover it")
    if states is None:
        return [(child, None) for child in node.children]
    return [
        (child, task.rules.split(states, node.on_inputs, chain, a))
        for a, child in enumerate(node.children)
    ]


def _split_by_sets(
    task: Task, node: ProofNode, states: Pair | None, claim: float
) -> tuple[float, list[Part]]:
    """Return the least bound of the sets of inputs that are no child, and the children."""
    count = len(node.children)
    if states is None:
        return inf, [(child, None) for child in node.children]
    terms, inputs = states
    room = task.rules.max_inputs - int(np.count_nonzero(inputs == IN))
    chain = np.array(node.chain, dtype=np.intp)
    demand(room > 0 and len(chain) == count * room, "its sets do not fill the budget of inputs")
    listed = [read_indices(one, len(inputs), "a set") for one in chain.reshape(count, room)]
    used = task.rules.uses[terms != OUT].any(axis=0)
    undecided = np.flatnonzero(used & (inputs == FREE))
    demand(comb(len(undecided), room) <= MOST_SETS, "it has too many sets of inputs to check")
    known = {frozenset(one.tolist()) for one in listed}
    least = inf
    for one in combinations(undecided.tolist(), min(room, len(undecided))):
        chosen = frozenset(one)
        if chosen in known or (len(one) < room and any(chosen <= other for other in known)):
            continue
        outside = [i for i in undecided.tolist() if i not in chosen]
        within = (terms != OUT) & ~(task.rules.uses[:, outside] > 0.0).any(axis=1)
        least = min(least, ridge_of_all(task, terms, np.flatnonzero(within)))
        demand(least >= claim, f"inputs {one} prove {least:.12g}, less than the bound")
    parts: list[Part] = []
    for child, kept in zip(node.children, listed, strict=True):
        both = terms.copy(), inputs.copy()
        both[1][np.setdiff1d(undecided, kept)] = OUT
        parts.append((child, both))
    return least, parts


def _leaf(task: Task, proof: Proof, node: ProofNode, terms: States) -> float:
    """Return a lower bound on the cost of every support of a closed node."""
    if node.kind == "dual":
        if node.vector is None:
            return 0.0
        tangent = Tangent(task, proof, node.vector, terms)
        return float(tangent.value(tangent.spent))
    demand(node.kind == "single", f"is {node.kind!r} while supports are left")
    demand(budget_left(task, terms) <= 1, "is 'single' with more than one monomial to choose")
    return least_of_singles(task, terms)


def _screen(task: Task, proof: Proof, screening: Screening, terms: States, claim: float) -> float:
    """Check that what is fixed out (in) costs at least the claim when it is in (out); fix it."""
    out = read_indices(screening.out, len(terms), "a screening")
    inn = read_indices(screening.inn, len(terms), "a screening")
    tangent = Tangent(task, proof, screening.vector, terms)
    costs = np.concatenate([tangent.value_with(out), tangent.value_without(inn)])
    worst = float(costs.min(initial=inf))
    demand(worst >= claim, f"screens out or in at {worst:.12g}, less than the bound")
    task.rules.screen(terms, out, inn)
    return worst
