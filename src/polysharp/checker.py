"""A checker of proofs that shares no code with the search: plain NumPy, and the records alone.

For any w and any diagonal d with G - diag(d) >= 0 on the monomials alive at a node, write
Q = G - diag(d), rho = q - Qw and Z_j = rho_j^2 / (2 (lam + d_j)).  With ``in`` fixed and at most
L more monomials, no support of the node costs less than

    yy/2 - w'Qw/2 - spent,                   spent = sum_in Z_j + top_L(Z_j, j free),
    1/2 (y'a)^2 / (|a|^2 + 2 spent)          where d = 0, with a = y - Mw.

The checker recomputes G, q, yy and the rules (``checker_problem``), walks the tree from its root,
deduces after every fixing what the rules force, and evaluates these values wherever the proof
relies on one.  Forcing a monomial in or out changes only ``spent``: that is screening.

Rounding: with reach = |y| + sum_j |w_j| |m_j|, rho_j is wrong by about u |m_j| reach,
u = eps (16 + sqrt(n)).  Every value is lowered by what such errors can add to it, so that a
vector of huge coefficients, which lives on cancellation, proves nothing.  The claim counts as
reached within 1e-9 of the objective and the rounding of yy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.checker_problem import (
    EPS,
    FREE,
    IN,
    OUT,
    Array,
    Empty,
    Indices,
    Pair,
    Rejected,
    States,
    Task,
    check_statement,
    demand,
    read_rows,
)

if TYPE_CHECKING:
    from polysharp.proof import Diagonal, Proof, ProofNode, Screening, Vector
    from polysharp.statement import Statement

TOLERANCE = 1e-9
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
        return f"valid: the model costs {self.objective:.9g}, and none costs below {self.bound:.9g}"


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
    slack = TOLERANCE * value + task.rounding + _margin(task, S, w, 0.0)
    demand(abs(value - s.objective) <= slack, f"the model costs {value:.9g}, not as stated")
    return value


def _walk(proof: Proof, task: Task, claim: float) -> float:
    """Check every node; return the least cost that the proof leaves possible."""
    demand(isfinite(proof.bound), "the bound is not a number")
    demand(len(proof.nodes) > 0, "the proof has no nodes")
    for number, diagonal in enumerate(proof.diagonals):
        _check_diagonal(task, diagonal, f"diagonal {number}")
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
    if states is not None:
        value = _leaf(task, proof, node, states[0])
        demand(value >= claim, f"proves {value:.12g}, less than the bound")
        least = min(least, value)
    return least, []


def _split(task: Task, node: ProofNode, states: Pair | None) -> list[Part]:
    """Return the children: the a-th has c_1..c_{a-1} in and c_a out, the last all of them in."""
    size = task.rules.uses.shape[1 if node.on_inputs else 0]
    chain = _indices(node.chain, size, "the chain")
    demand(len(node.children) == len(chain) + 1, "the children do not cover it")
    if states is None:
        return [(child, None) for child in node.children]
    return [
        (child, task.rules.split(states, node.on_inputs, chain, a))
        for a, child in enumerate(node.children)
    ]


def _leaf(task: Task, proof: Proof, node: ProofNode, terms: States) -> float:
    """Return a lower bound on the cost of every support of a closed node."""
    if node.kind == "dual":
        if node.vector is None:
            return 0.0
        tangent = _Tangent(task, proof, node.vector, terms)
        return float(tangent.value(tangent.spent))
    demand(node.kind == "single", f"is {node.kind!r} while supports are left")
    demand(_budget(task, terms) <= 1, "is 'single' with more than one monomial to choose")
    return _least_of_singles(task, terms)


def _screen(task: Task, proof: Proof, screening: Screening, terms: States, claim: float) -> float:
    """Check that what is fixed out (in) costs at least the claim when it is in (out); fix it."""
    out = _indices(screening.out, len(terms), "a screening")
    inn = _indices(screening.inn, len(terms), "a screening")
    tangent = _Tangent(task, proof, screening.vector, terms)
    costs = np.concatenate([tangent.value_with(out), tangent.value_without(inn)])
    worst = float(costs.min(initial=inf))
    demand(worst >= claim, f"screens out or in at {worst:.12g}, less than the bound")
    task.rules.screen(terms, out, inn)
    return worst


def _indices(given: Any, size: int, what: str) -> Indices:
    index = np.array(given, dtype=np.intp)
    demand(np.all((index >= 0) & (index < size)), f"{what} leaves the problem")
    demand(len(np.unique(index)) == len(index), f"{what} repeats itself")
    return index


def _budget(task: Task, terms: States) -> int:
    return task.rules.max_terms - int(np.count_nonzero(terms == IN))


def _margin(task: Task, index: Indices, w: Array, slopes: float) -> float:
    """What rounding may add to a value that grows by ``slopes`` per relative error of rho."""
    reach = sqrt(task.yy) + float(np.abs(w) @ task.norms[index])
    return task.unit * reach * (reach + slopes)


def _check_diagonal(task: Task, diagonal: Diagonal, what: str) -> None:
    """Check G - diag(d) >= 0 by a factorisation, columns scaled to unit length."""
    index, d = _indices(diagonal.index, len(task.q), what), diagonal.value
    demand(d.shape == index.shape and np.all(task.lam + d > 0.0), f"{what} is no ridge")
    size, norms = len(index), task.norms[index]
    demand(np.all(norms > 0.0), f"{what} moves curvature of a zero column")
    A = task.G[np.ix_(index, index)] / np.multiply.outer(norms, norms)
    # Margin: rounding of the factorisation and of G; d itself is a difference of two ridges.
    A[np.diag_indices(size)] -= d / norms**2 + size * (size * EPS + task.unit)
    A[np.diag_indices(size)] += 4.0 * EPS * task.lam / norms**2
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        raise Rejected(f"{what} exceeds the curvature there is") from None


class _Tangent:
    """The value of one vector at one node, and with one more monomial forced in or out."""

    def __init__(self, task: Task, proof: Proof, vector: Vector, terms: States) -> None:
        f, self.yy, self.terms = len(terms), task.yy, terms
        index = _indices(vector.index, f, "a vector")
        w, d = np.asarray(vector.value, dtype=np.float64), np.zeros(f)
        demand(w.shape == index.shape and np.isfinite(w).all(), "a vector is no list of numbers")
        alive = np.flatnonzero(terms != OUT)
        self.plain = vector.diagonal == -1
        if not self.plain:
            demand(0 <= vector.diagonal < len(proof.diagonals), "a diagonal does not exist")
            diagonal = proof.diagonals[vector.diagonal]
            within = np.zeros(f, dtype=bool)
            within[diagonal.index] = True
            demand(within[alive].all() and within[index].all(), "a diagonal does not cover it")
            d[diagonal.index] = diagonal.value
        Qw = np.zeros(f)
        both = np.union1d(alive, index)
        Qw[both] = w @ task.G[np.ix_(index, both)]
        Qw[index] -= d[index] * w
        rho, ridge = task.q - Qw, task.lam + d
        self.wQw, self.ya = float(w @ Qw[index]), task.yy - float(task.q[index] @ w)
        self.aa = self.ya - float(w @ rho[index])
        self.Z = 0.5 * rho**2 / ridge
        free, L = np.flatnonzero(terms == FREE), _budget(task, terms)
        fixed, slope = terms == IN, np.abs(rho) * task.norms / ridge
        order = np.sort(self.Z[free])[::-1]
        self.spent = float(self.Z[fixed].sum() + order[:L].sum())
        self.last = float(order[L - 1]) if 0 < L <= len(order) else 0.0  # Z_(L)
        self.next = float(order[L]) if len(order) > L else 0.0  # Z_(L+1)
        slopes = slope[fixed].sum() + np.sort(slope[free])[::-1][:L].sum()
        self.margin = _margin(task, index, w, float(slopes))

    def value(self, spent: Any) -> Any:
        """Return the lower bound for a sum of prices."""
        if not self.plain:
            return 0.5 * self.yy - 0.5 * self.wQw - spent - self.margin
        if self.ya <= 0.0:
            return 0.0 * spent
        # Any multiple t a of the residual will do; this one is best unless |a| is rounding.
        whole = self.aa + 2.0 * spent
        t = self.ya / np.maximum(whole, 1e-6 * self.ya)
        return t * self.ya - 0.5 * t**2 * whole - self.margin * np.maximum(1.0, t) ** 2

    def value_with(self, j: Indices) -> Array:
        """Return bounds over the supports of the node that contain each j."""
        saved = np.where(self.terms[j] == FREE, np.maximum(self.last - self.Z[j], 0.0), 0.0)
        return np.where(self.terms[j] == OUT, inf, self.value(self.spent - saved))

    def value_without(self, j: Indices) -> Array:
        """Return bounds over the supports of the node that leave each j out."""
        saved = np.where(self.terms[j] == FREE, np.maximum(self.Z[j] - self.next, 0.0), 0.0)
        return np.where(self.terms[j] == IN, inf, self.value(self.spent - saved))


def _least_of_singles(task: Task, terms: States) -> float:
    """Return the least cost of the monomials in, alone or with one of the free ones.

    The coefficients of all choices come from one factorisation by a Schur complement s_j; each
    cost is then the dual value yy/2 - w'Gw/2 - |rho|^2/(2 lam) at them, safe however they erred.
    """
    F, J = np.flatnonzero(terms == IN), np.flatnonzero(terms == FREE)
    G, q, lam = task.G, task.q, task.lam
    A, C, diagonal = G[np.ix_(F, F)], G[np.ix_(F, J)], np.diagonal(G)[J]
    solved = np.linalg.lstsq(A + lam * np.eye(len(F)), np.column_stack([q[F], C]), rcond=None)[0]
    base, B = solved[:, 0], solved[:, 1:]
    schur = np.maximum(diagonal + lam - np.einsum("ij,ij->j", C, B), lam)
    t = np.append((q[J] - base @ C) / schur, 0.0)  # the last choice: none
    B, C = np.column_stack([B, np.zeros(len(F))]), np.column_stack([C, np.zeros(len(F))])
    qj, diagonal = np.append(q[J], 0.0), np.append(diagonal, 0.0)
    W = base[:, None] - B * t
    rho, rho_j = q[F, None] - A @ W - C * t, qj - (C * W).sum(axis=0) - diagonal * t
    rho_j[-1] = 0.0
    wGw = (W * (q[F, None] - rho)).sum(axis=0) + t * (qj - rho_j)
    values = 0.5 * task.yy - 0.5 * wGw - 0.5 * ((rho**2).sum(axis=0) + rho_j**2) / lam
    reach = sqrt(task.yy) + task.norms[F] @ np.abs(W) + np.sqrt(diagonal) * np.abs(t)
    slopes = task.norms[F] @ np.abs(rho) / lam + np.sqrt(diagonal) * np.abs(rho_j) / lam
    return float((values - task.unit * reach * (reach + slopes)).min())
