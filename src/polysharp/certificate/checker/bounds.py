"""The lower bounds that a proof rests on, evaluated afresh.

For any w and any diagonal d with G - diag(d) >= 0 on the monomials alive at a node, write
Q = G - diag(d), rho = q - Qw and Z_j = rho_j^2 / (2 (lam + d_j)).  With ``in`` fixed and at most
L more monomials, no support of the node costs less than

    yy/2 - w'Qw/2 - spent,                   spent = sum_in Z_j + top_L(Z_j, j free),
    t y'a - t^2 (|a|^2/2 + spent)            where d = 0, with a = y - Mw, for any t.

Forcing a monomial in or out changes only ``spent``: that is what screening rests on.

Rounding: with reach = |y| + sum_j |w_j| |m_j|, rho_j is wrong by about u |m_j| reach,
u = eps (16 + sqrt(n)).  Every value is lowered by what such errors can add to it, so that a
vector of huge coefficients, which lives on cancellation, proves nothing.

Part of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import norm

from polysharp.certificate.checker.task import (
    EPS,
    FREE,
    IN,
    OUT,
    Array,
    Indices,
    Rejected,
    States,
    Task,
    demand,
)

if TYPE_CHECKING:
    from polysharp.certificate.proof import Diagonal, Proof, Vector


def read_indices(given: Any, size: int, what: str) -> Indices:
    """Return positions below ``size``, all different."""
    index = np.array(given, dtype=np.intp)
    demand(np.all((index >= 0) & (index < size)), f"{what} leaves the problem")
    demand(np.all(np.diff(np.sort(index)) > 0), f"{what} repeats itself")
    return index


def budget_left(task: Task, terms: States) -> int:
    """Return L, how many monomials may still be chosen."""
    return task.rules.max_terms - int(np.count_nonzero(terms == IN))


def margin_of(task: Task, index: Indices, w: Array, slopes: float) -> float:
    """What rounding may add to a value that grows by ``slopes`` per relative error of rho."""
    reach = sqrt(task.yy) + float(np.abs(w) @ task.norms[index])
    return task.unit * reach * (reach + slopes)


def check_diagonal(task: Task, diagonal: Diagonal, what: str) -> None:
    """Check G - diag(d) >= 0 by a factorisation, columns scaled to unit length."""
    index, d = read_indices(diagonal.index, len(task.q), what), diagonal.value
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


class Tangent:
    """The value of one vector at one node, and with one more monomial forced in or out."""

    def __init__(self, task: Task, proof: Proof, vector: Vector, terms: States) -> None:
        f, self.yy, self.terms = len(terms), task.yy, terms
        index = read_indices(vector.index, f, "a vector")
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
        Qw = _product(task.G, index, w, alive)
        Qw[index] -= d[index] * w
        rho, ridge = task.q - Qw, task.lam + d
        self.wQw, self.ya = float(w @ Qw[index]), task.yy - float(task.q[index] @ w)
        self.aa = self.ya - float(w @ rho[index])
        self.Z = 0.5 * rho**2 / ridge
        free, L = np.flatnonzero(terms == FREE), budget_left(task, terms)
        fixed, slope = terms == IN, np.abs(rho) * task.norms / ridge
        order = np.sort(self.Z[free])[::-1]
        self.spent = float(self.Z[fixed].sum() + order[:L].sum())
        self.last = float(order[L - 1]) if 0 < L <= len(order) else 0.0  # Z_(L)
        self.next = float(order[L]) if len(order) > L else 0.0  # Z_(L+1)
        slopes = slope[fixed].sum() + np.sort(slope[free])[::-1][:L].sum()
        self.margin = margin_of(task, index, w, float(slopes))
        if not self.plain:  # what ``check_diagonal`` lets pass of the rounding of d
            self.margin += 4.0 * EPS * (sqrt(task.yy) + sqrt(task.lam) * float(norm(w))) ** 2

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


def _product(G: Array, index: Indices, w: Array, alive: Indices) -> Array:
    """Return G[:, index] w, at least on ``index`` and ``alive``."""
    if 4 * (len(alive) + len(index)) > len(G):
        return np.asarray(w @ G[index])
    Gw, where = np.zeros(len(G)), np.concatenate([index, alive])
    Gw[where] = w @ G[np.ix_(index, where)]
    return Gw


def least_of_singles(task: Task, terms: States) -> float:
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


def ridge_of_all(task: Task, terms: States, J: Indices) -> float:
    """Return a bound on every support within the monomials J: the value at their ridge fit."""
    G, q, lam = task.G[np.ix_(J, J)], task.q[J], task.lam
    w: Array = np.asarray(
        np.linalg.lstsq(G + lam * np.eye(len(J)), q, rcond=None)[0], dtype=np.float64
    )
    Gw = G @ w
    rho, fixed = q - Gw, terms[J] == IN
    Z, L = 0.5 * rho**2 / lam, budget_left(task, terms)
    spent = float(Z[fixed].sum() + np.sort(Z[~fixed])[::-1][:L].sum())
    slopes = float(np.abs(rho) @ task.norms[J]) / lam
    return 0.5 * task.yy - 0.5 * float(w @ Gw) - spent - margin_of(task, J, w, slopes)
