"""The lower bounds that a proof rests on, evaluated afresh and rounded downwards.

For any w, any diagonal d and any coupling K of as many terms as a node may have (``curvature``),
with Q = G - diag(d) - K >= 0 on the monomials alive there, write rho = q - Qw.  With ``in`` fixed
and at most L more monomials, no support of the node costs less than

    yy/2 - w'Qw/2 - spent,                   spent = sum_in Z_j + top_L(Z_j, j free),
    t y'a - t^2 (|a|^2/2 + spent)            where Q = G, with a = y - Mw, for any t.

Z_j is the largest value of rho_j b - (lam + d_j) b^2/2 over the coefficients b that matter
(``boxes``): rho_j^2 / (2 (lam + d_j)) where b = rho_j / (lam + d_j) is one of them; beyond the end
of their interval it grows like |rho_j|, whatever the sign of lam + d_j.  The second form, with the
best t, is for coefficients that nothing bounds; where some are bounded, t comes with the vector.

Forcing a monomial in or out changes only ``spent``: that is what screening rests on.  Numbers
come as a ``Point``, already rounded to the safe side; here each further operation adds its own
rounding.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from polysharp.certificate.checker.boxes import CheckedBoxes
from polysharp.certificate.checker.curvature import Curvature
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.rows import SAFE, TINY, Point, U, sides
from polysharp.certificate.checker.rules import FREE, IN, OUT, Array, Fixings, Indices, Rejected

DAMPINGS = (0.0, 1e-12, 1e-9)  # relative to the diagonal
CLOSER = 100  # supports of which the rows are asked, at most, where G has too few digits


def certified(moments: Moments, moved: Curvature, what: str) -> Curvature:
    """Return d with G - diag(d) - K >= 0: as given, or a little less where rounding asks for it."""
    step = moments.slack(moved) * moments.lengths(moved) ** 2
    step += 4.0 * U * moments.lam  # d may be a difference of two ridges
    for times in (0.0, 1.0, 4.0):
        lowered = replace(moved, d=moved.d - times * step)
        if moments.is_curvature(lowered):
            return lowered
    raise Rejected(f"{what} exceeds the curvature there is")


def prices(
    lam: float, boxes: CheckedBoxes, up: Array, down: Array, *, d: Any = None, of: Any = slice(None)
) -> Array:
    """Return upper bounds on Z_j; up, down and d are those of monomials ``of`` the boxes."""
    if d is None and not boxes.stated:
        return free_prices(np.maximum(up, down), lam)
    ridge: Any = lam * (1.0 - 4.0 * U)
    if d is not None:
        ridge = lam + d - 4.0 * U * (lam + np.abs(d))
    right = _one_side(np.maximum(up, 0.0), ridge, boxes.high[of])
    left = _one_side(np.maximum(down, 0.0), ridge, -boxes.low[of])
    Z: Array = np.maximum(right, left)
    return Z


def free_prices(rho: Array, lam: float) -> Array:
    """Return upper bounds on Z_j, d = 0 and nothing being bounded, from those on |rho_j|."""
    return rho * rho * ((0.5 + 4.0 * U) / lam)


def _one_side(rho: Array, ridge: Any, end: Array) -> Any:
    """Return upper bounds on the largest rho b - ridge b^2/2 for 0 <= b <= end."""
    beyond = end * (rho - 0.5 * ridge * end) + 4.0 * U * end * (rho + np.abs(ridge) * end)
    within = rho * rho * (0.5 + 4.0 * U) / np.maximum(ridge, TINY)
    return np.where((ridge > 0.0) & (rho <= ridge * end), within, np.maximum(beyond, 0.0))


def value(point: Point, spent: Any, *, scalable: bool) -> Any:
    """Return the lower bound for a sum of prices; the residual may be scaled where d = 0.

    No cost is negative; and it is never NaN, which would vanish in a minimum.
    """
    base, ya, aa = point[:3]
    plain = base - spent - 4.0 * U * (np.abs(base) + spent)
    if not scalable:
        return np.fmax(plain, 0.0)
    # Any multiple t a of the residual will do; this one is best unless |a| is rounding.
    whole, ya = aa + 2.0 * spent, np.maximum(ya, 0.0)
    t = np.divide(ya, np.maximum(whole, 1e-6 * ya + TINY))
    part = t * whole  # before another t, whose square may vanish where this does not
    scaled = t * ya - 0.5 * t * part - 8.0 * U * (t * ya + t * np.abs(part))
    return np.fmax(np.fmax(plain, scaled), 0.0)


class Tangent:
    """The value of one vector at one node, and with one more monomial forced in or out."""

    def __init__(
        self, point: Point, Z: Array, at: Fixings, L: int, *, scalable: bool, others: Array
    ) -> None:
        """Take the prices of the listed monomials, and of the dearest ``others`` alive."""
        self.point, self.Z, self.terms, self.scalable = point, Z, at.terms, scalable
        self.others = float(others.max(initial=-inf))
        fixed, free = Z[at.terms == IN], np.sort(np.append(Z[at.terms == FREE], others))[::-1]
        self.spent = float(fixed.sum() + free[:L].sum()) * (1.0 + (len(fixed) + L + 8.0) * U)
        self.last = float(free[L - 1]) if 0 < L <= len(free) else 0.0  # Z_(L)
        self.next = float(free[L]) if len(free) > L else 0.0  # Z_(L+1)

    @property
    def bound(self) -> float:
        """The value at the node itself."""
        return float(value(self.point, self.spent, scalable=self.scalable))

    def with_each(self, j: Indices) -> Array:
        """Return bounds over the supports of the node that contain each j."""
        return self._less(j, np.maximum(self.last - self.Z[j], 0.0), OUT)

    def with_others(self) -> float:
        """Return a bound over the supports of the node that contain an unlisted monomial."""
        if self.others < 0.0:
            return inf
        saved = max(self.last - self.others, 0.0) * (1.0 - 4.0 * U)
        return float(value(self.point, self.spent - saved, scalable=self.scalable))

    def without_each(self, j: Indices) -> Array:
        """Return bounds over the supports of the node that leave each j out."""
        return self._less(j, np.maximum(self.Z[j] - self.next, 0.0), IN)

    def _less(self, j: Indices, saved: Array, never: int) -> Array:
        """Return the bounds when less is spent; there is no support where j is ``never``."""
        saved = np.where(self.terms[j] == FREE, saved * (1.0 - 4.0 * U), 0.0)
        bounds = value(self.point, self.spent - saved, scalable=self.scalable)
        return np.where(self.terms[j] == never, inf, bounds)


def costs(
    moments: Moments, sets: Indices, fixed: Any, L: int, claim: float, mu: float = 0.0
) -> Array:
    """Return, for each row of ``sets``, a bound on every support within these monomials.

    It is the value at their ridge regression; with all of them ``fixed`` it bounds the cost of
    the one support that they are.  At most L are chosen of those that are not fixed.  Where
    G + lam I >= mu diag(G + lam I) on all of them, d = mu diag(G + lam I) - lam is tried as well.
    What stays below the claim is tried again, with smaller coefficients or exactly.
    """
    values, boxes = np.full(len(sets), -inf), moments.boxes
    G, lam, size = moments.G, moments.lam, int(sets.shape[1])

    def tried(w: Array, some: Indices) -> None:
        values[some] = np.maximum(values[some], _costs(moments, sets[some], w, fixed, L, mu))

    for damping in DAMPINGS if moments.floats_hold else ():
        low = np.flatnonzero(values < claim)
        if len(low):
            H = G[sets[low][:, :, None], sets[low][:, None, :]] + lam * np.eye(size)
            tried(_solved(H, moments.q[sets[low]], damping), low)
    low = np.flatnonzero(values < claim)
    if boxes.stated and moments.floats_hold:
        for a in low:
            S = sets[a]
            H = G[np.ix_(S, S)] + lam * np.eye(size)
            tried(boxes.fit(H, moments.q[S], S)[None], np.array([a]))
        low = np.flatnonzero(values < claim)
    for a in low if moments.is_exact else low[:CLOSER]:
        values[a] = max(values[a], _closer_cost(moments, sets[a], fixed, L))
    return values


def _costs(moments: Moments, sets: Indices, w: Array, fixed: Any, L: int, mu: float) -> Array:
    """Bound many sets of one size together, each at coefficients of its own."""
    G = moments.G[sets[:, :, None], sets[:, None, :]]
    q, n, e = moments.q[sets], moments.norms[sets], moments.error[sets]
    size, lam = int(sets.shape[1]), moments.lam
    Gw = np.einsum("sij,sj->si", G, w)
    reach = moments.y_norm + np.einsum("si,si->s", np.abs(w), n)
    moved = moments.y_error + np.einsum("si,si->s", np.abs(w), e)
    eps = moments.unit + (2.0 * size + 8.0) * U
    error = SAFE * (eps * reach * reach + (2.0 * reach + moved) * moved) + TINY
    step = eps * reach + moved
    slack = SAFE * (n * step[:, None] + e * (reach + step)[:, None])
    wGw, ya = np.einsum("si,si->s", w, Gw), moments.yy - np.einsum("si,si->s", q, w)
    base, aa = 0.5 * (moments.yy - wGw) - error, 2.0 * ya - moments.yy + wGw + error
    point = Point(base, ya - error, aa, *sides(q - Gw, slack))
    spent = _spent(prices(lam, moments.boxes, point.up, point.down, of=sets), fixed, L)
    values = value(point, spent, scalable=not moments.boxes.stated)
    if mu > 0.0:
        d = _moved(np.diagonal(G, axis1=1, axis2=2), lam, mu)
        dw = d * w
        slack += 4.0 * U * (np.abs(dw) + np.abs(q))
        extra = 0.5 * np.einsum("si,si->s", dw, w)
        extra -= (size + 4.0) * U * np.einsum("si,si->s", np.abs(dw), np.abs(w))
        point = Point(base + extra, ya, aa, *sides(q - Gw + dw, slack))
        spent = _spent(prices(lam, moments.boxes, point.up, point.down, d=d, of=sets), fixed, L)
        values = np.fmax(values, value(point, spent, scalable=False))
    return np.asarray(values)


def _closer_cost(moments: Moments, J: Indices, fixed: Any, L: int) -> float:
    """Bound one set by products with the residual, from the rows or exactly."""
    boxes, w = moments.boxes, moments.refit(J)
    if boxes.stated:
        w = boxes.fit(moments.G[np.ix_(J, J)] + moments.lam * np.eye(len(J)), moments.q[J], J)
    point = moments.closer(J, w, J)
    spent = _spent(prices(moments.lam, boxes, point.up[J], point.down[J], of=J)[None], fixed, L)
    return float(value(point, spent[0], scalable=not boxes.stated))


def _moved(diagonal: Array, lam: float, mu: float) -> Array:
    """Return d = mu diag(G + lam I) - lam, rounded down."""
    d: Array = (1.0 - 8.0 * U) * mu * (diagonal + lam) - lam
    return d - 8.0 * U * (lam + np.abs(d))


def _spent(Z: Array, fixed: Any, L: int) -> Array:
    """Return the prices of what is fixed and of the L dearest others, for each row, rounded up."""
    inside, size = np.broadcast_to(fixed, Z.shape), Z.shape[1]
    largest: Array = np.sort(np.where(inside, 0.0, Z), axis=1)[:, ::-1][:, :L]
    whole: Array = np.where(inside, Z, 0.0).sum(axis=1) + largest.sum(axis=1)
    return whole * (1.0 + (float(size) + 8.0) * U)


def _solved(H: Array, q: Array, damping: float = 0.0) -> Array:
    """Solve a stack of systems, columns scaled to length one; any answer will do."""
    root = np.sqrt(np.diagonal(H, axis1=1, axis2=2))
    A = H / (root[:, :, None] * root[:, None, :]) + damping * np.eye(q.shape[1])
    try:
        w = np.linalg.solve(A, (q / root)[..., None])[..., 0] / root
    except np.linalg.LinAlgError:
        w = np.zeros_like(q)
    return np.where(np.isfinite(w), w, 0.0).astype(np.float64)
