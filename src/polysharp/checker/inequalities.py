"""The lower bounds that a proof rests on, evaluated afresh and rounded downwards.

For any w, any diagonal d and any pairwise shift K of as many terms as a node may have
(``curvature``), with Q = G - diag(d) - K >= 0 on the monomials alive there, write rho = q - Qw.
With ``in`` fixed and at most L more monomials, no support of the node costs less than

    yy/2 - w'Qw/2 - spent,                   spent = sum_in Z_j + top_L(Z_j, j free),
    t y'a - t^2 (|a|^2/2 + spent)            if Q = G, with a = y - Mw, for any t.

Z_j is the largest value of rho_j b - (lam + d_j) b^2/2 over the coefficients b that matter
(``CheckedBoxes``): rho_j^2 / (2 (lam + d_j)) if b = rho_j / (lam + d_j) is one of them; beyond the
end of their interval it grows like |rho_j|, whatever the sign of lam + d_j.  The second form, with
the best t, is for coefficients that nothing bounds; if some are bounded, t comes with the vector.

Several responses share one support, and costs are added: so are base, y'a, |a|^2 and Z over them,
with one d and one K for all.

Forcing a monomial in or out changes only ``spent``: that is what screening rests on.  Numbers
come as a ``Point``, already rounded to the safe side; here each further operation adds its own
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from polysharp.checker.allowed import FREE, IN, OUT, Fixings, Rejected
from polysharp.checker.curvature import SAFE, TINY, Curvature, Point, U, rounded_sum, sides
from polysharp.checker.evidence import Floats, Positions
from polysharp.checker.inner_products import InnerProducts

DAMPINGS = (0.0, 1e-15, 1e-12, 1e-9)  # relative to the diagonal
CLOSER = 100  # supports evaluated from the rows, at most, if G has too few digits


def certified(products: InnerProducts, moved: Curvature, what: str) -> Curvature:
    """Return d with G - diag(d) - K >= 0: as given, or a little less if rounding asks for it."""
    for times, by_ridge in product((0.0, 1.0, 4.0), (False, True)):
        step = products.slack(moved, by_ridge=by_ridge)
        step += 4.0 * U * products.lam  # d may be a difference of two ridges
        lowered = replace(moved, d=moved.d - times * step)
        left = times == 4.0 or np.all(lowered.d + products.lam > 0.0)  # or another way is better
        if left and products.is_curvature(lowered, by_ridge=by_ridge):
            return lowered
    raise Rejected(f"{what} exceeds the curvature there is")


def prices(lam: float, up: Floats, down: Floats, interval: Any = None, d: Any = 0.0) -> Floats:
    """Return upper bounds on Z_j within intervals; without any, for d = 0."""
    if interval is None:
        rho = np.maximum(up, down)
        return np.asarray(rho * rho * ((0.5 + 4.0 * U) / lam))
    ridge = lam + d - 4.0 * U * (lam + np.abs(d))
    right = _one_side(np.maximum(up, 0.0), ridge, interval[1])
    left = _one_side(np.maximum(down, 0.0), ridge, -interval[0])
    return np.asarray(np.maximum(right, left))


def _one_side(rho: Floats, ridge: Any, end: Any) -> Any:
    """Return upper bounds on the largest rho b - ridge b^2/2 for 0 <= b <= end."""
    beyond = end * (rho - 0.5 * ridge * end) + 4.0 * U * end * (rho + np.abs(ridge) * end)
    within = rho * rho * (0.5 + 4.0 * U) / np.maximum(ridge, TINY)
    return np.where((ridge > 0.0) & (rho <= ridge * end), within, np.maximum(beyond, 0.0))


def value(point: Point, spent: Any, *, scalable: bool) -> Any:
    """Return the lower bound for a sum of prices; the residual may be scaled if d = 0.

    No cost is negative; and it is never NaN, which would vanish in a minimum.
    """
    base, ya, aa = point[:3]
    plain = base - spent - 4.0 * U * (np.abs(base) + spent)
    if not scalable:
        return np.fmax(plain, 0.0)
    # Any multiple t a of the residual will do; this one is best unless |a| is rounding.
    whole, ya = aa + 2.0 * spent, np.maximum(ya, 0.0)
    t = np.divide(ya, np.maximum(whole, 1e-6 * ya + TINY))
    part = t * whole  # before another t, whose square may vanish when this does not
    scaled = t * ya - 0.5 * t * part - 8.0 * U * (t * ya + t * np.abs(part))
    return np.fmax(np.fmax(plain, scaled), 0.0)


def added(points: Sequence[Point]) -> Point:
    """Return the parts of several responses' values, added up."""
    base, ya, aa = zip(*(point[:3] for point in points), strict=True)
    low = rounded_sum(base, -1.0), rounded_sum(ya, -1.0)
    return Point(*low, rounded_sum(aa, 1.0), *points[0][3:])


class Tangent:
    """The value of one vector at one node, and with one more monomial forced in or out."""

    def __init__(
        self, point: Point, Z: Floats, at: Fixings, L: int, *, scalable: bool, others: Floats
    ) -> None:
        """Take the prices of the listed monomials, and the largest of the ``others`` alive."""
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

    def with_each(self, j: Positions) -> Floats:
        """Return bounds over the supports of the node that contain each j."""
        return self._less(j, np.maximum(self.last - self.Z[j], 0.0), OUT)

    def with_others(self) -> float:
        """Return a bound over the supports of the node that contain an unlisted monomial."""
        if self.others < 0.0:
            return inf
        saved = max(self.last - self.others, 0.0) * (1.0 - 4.0 * U)
        return float(value(self.point, self.spent - saved, scalable=self.scalable))

    def without_each(self, j: Positions) -> Floats:
        """Return bounds over the supports of the node that leave each j out."""
        return self._less(j, np.maximum(self.Z[j] - self.next, 0.0), IN)

    def _less(self, j: Positions, saved: Floats, never: int) -> Floats:
        """Return the bounds when less is spent; there is no support where j is ``never``."""
        saved = np.where(self.terms[j] == FREE, saved * (1.0 - 4.0 * U), 0.0)
        bounds = value(self.point, self.spent - saved, scalable=self.scalable)
        return np.where(self.terms[j] == never, inf, bounds)


def set_costs(
    products: InnerProducts, sets: Positions, fixed: Any, L: int, claim: float, mu: float = 0.0,
    *, quick: bool = False,
) -> Floats:  # fmt: skip
    """Return, for each row of ``sets``, a bound on every support within these monomials.

    It is the value at their ridge regression; with all of them ``fixed`` it bounds the cost of
    the one support that they are.  At most L are chosen of those that are not fixed.  If
    G + lam I >= mu diag(G + lam I) on all of them, d = mu diag(G + lam I) - lam is tried as well.
    A set whose bound stays below the claim is tried again, with smaller coefficients or from the
    residual, unless a ``quick`` look is enough.
    """
    values, boxes, T = np.full(len(sets), -inf), products.boxes, products.T
    lam, size = products.lam, int(sets.shape[1])
    for damping in DAMPINGS[: 1 if quick else None] if products.floats_hold else ():
        low = np.flatnonzero(values < claim)
        if len(low):
            some = sets[low]
            G = products.G(some[:, :, None], some[:, None, :])
            w = _solved(G + lam * np.eye(size), products.q[some], damping)
            values[low] = np.maximum(values[low], _costs(products, some, G, w, fixed, L, mu))
    low = np.flatnonzero(values < claim)
    for number, a in enumerate([] if quick else low):
        S, J = sets[a], sets[a : a + 1]
        G, w = products.G(S[:, None], S), np.zeros((size, T))
        for damping in DAMPINGS if boxes.stated else DAMPINGS[:1]:
            if boxes.stated:
                H = G + lam * np.eye(size) + damping * np.diag(np.diagonal(G))
                w = np.column_stack([boxes.fit(t, H, products.q[S, t], S) for t in range(T)])
                if products.floats_hold:
                    own = _costs(products, J, G[None], w[None], fixed, L, mu)
                    values[a] = max(values[a], float(own[0]))
            if values[a] < claim and (products.is_exact or number < CLOSER):
                values[a] = max(values[a], _closer_cost(products, S, w, fixed, L))
            if values[a] >= claim:
                break
    return values


def _costs(
    products: InnerProducts, sets: Positions, G: Floats, w: Floats, fixed: Any, L: int, mu: float
) -> Floats:
    """Bound many sets of one size at once, each at coefficients of its own for each response."""
    n, e, lam, size = products.norms[sets], products.error[sets], products.lam, int(sets.shape[1])
    eps, boxes = products.unit + (2.0 * size + 8.0) * U, products.boxes
    # d = mu diag(G + lam I) - lam, rounded down.
    d = (1.0 - 8.0 * U) * mu * (np.diagonal(G, axis1=1, axis2=2) + lam) - lam
    d -= 8.0 * U * (lam + np.abs(d))
    plain, shifted = list[Any](), list[Any]()
    for t in range(products.T):
        v, q, yy = w[:, :, t], products.q[sets, t], products.yy[t]
        interval = boxes.low[t, sets], boxes.high[t, sets]
        Gv = np.einsum("sij,sj->si", G, v)
        reach = products.y_norm[t] + np.einsum("si,si->s", np.abs(v), n)
        moved = products.y_error[t] + np.einsum("si,si->s", np.abs(v), e)
        error = SAFE * (eps * reach * reach + (2.0 * reach + moved) * moved) + TINY
        step = eps * reach + moved
        slack = SAFE * (n * step[:, None] + e * (reach + step)[:, None])
        vGv, ya = np.einsum("si,si->s", v, Gv), yy - np.einsum("si,si->s", q, v)
        base, aa = 0.5 * (yy - vGv) - error, 2.0 * ya - yy + vGv + error
        Z = prices(lam, *sides(q - Gv, slack), interval if boxes.stated else None)
        plain.append((base, ya - error, aa, Z))
        if mu > 0.0:
            dv = d * v
            slack = slack + 4.0 * U * (np.abs(dv) + np.abs(q))
            extra = 0.5 * np.einsum("si,si->s", dv, v)
            extra -= (size + 4.0) * U * np.einsum("si,si->s", np.abs(dv), np.abs(v))
            Z = prices(lam, *sides(q - Gv + dv, slack), interval, d)
            shifted.append((base + extra, ya, aa, Z))
    values = _value_of(plain, fixed, L, scalable=not boxes.stated)
    if mu > 0.0:
        values = np.fmax(values, _value_of(shifted, fixed, L, scalable=False))
    return np.asarray(values)


def _value_of(parts: Sequence[Any], fixed: Any, L: int, *, scalable: bool) -> Any:
    """Return the values of sets from base, y'a, |a|^2 and prices of each response."""
    T = len(parts)
    base, ya, aa, Z = (sum(part) for part in zip(*parts, strict=True))
    off: Any = sum(np.abs(part[row]) for part in parts for row in range(3)) if T > 1 else 0.0
    off, Z = 2.0 * T * U * off, Z * (1.0 + (T + 4.0) * U)
    # The prices of fixed monomials and the L largest others, rounded up.
    inside, size = np.broadcast_to(fixed, Z.shape), Z.shape[1]
    largest: Floats = np.sort(np.where(inside, 0.0, Z), axis=1)[:, ::-1][:, :L]
    spent = np.where(inside, Z, 0.0).sum(axis=1) + largest.sum(axis=1)
    spent = spent * (1.0 + (float(size) + 8.0) * U)
    return value(Point(base - off, ya - off, aa + off, Z, Z), spent, scalable=scalable)


def _closer_cost(products: InnerProducts, J: Positions, w: Floats, fixed: Any, L: int) -> float:
    """Bound one set by products with the residuals, from the rows or exactly."""
    boxes, parts, interval = products.boxes, list[Any](), None
    for t in range(products.T):
        if boxes.stated:
            interval = boxes.low[t, J], boxes.high[t, J]
            point = products.at(t, J, w[:, t], None, J, np.longdouble)
        else:
            point = products.point_of(t, products.best_residual(t, J), J)
        Z = prices(products.lam, point.up[J], point.down[J], interval)
        parts.append((*(np.array([part]) for part in point[:3]), Z[None]))
    return float(_value_of(parts, fixed, L, scalable=not boxes.stated)[0])


def _solved(H: Floats, q: Floats, damping: float = 0.0) -> Floats:
    """Solve a stack of systems, columns scaled to length one; any answer will do."""
    root = np.sqrt(np.diagonal(H, axis1=1, axis2=2))
    A = H / (root[:, :, None] * root[:, None, :]) + damping * np.eye(q.shape[1])
    try:
        w = np.linalg.solve(A, q / root[:, :, None]) / root[:, :, None]
    except np.linalg.LinAlgError:
        w = np.zeros_like(q)
    return np.where(np.isfinite(w), w, 0.0).astype(np.float64)
