"""One or two monomials that may still join: each choice takes its own combination of vectors.

For any vectors U = (u_1, ..., u_K) and any combination a = U t the bound of ``dual_point`` holds.
One combination for all supports is what prices are about, and where the ridge is weak nothing comes
of it.  But t may be another for each support: with the monomials O in, F the ones that join,

    b = U'y,   c_j = U'm_j,   N = U'U + U'M_O M_O'U / lam,
    cost of O + F  >=  max_t  t'b - 1/2 t'(N + sum_F c_j c_j' / lam) t,

and for vectors with N = I the right-hand side is the ridge regression of the point b in K
dimensions on the points c_j,

    P(F) = min_v  1/2 |b - sum_F c_j v_j|^2 + lam/2 |v|^2.

One pass gives the points of all monomials (``pricing.coordinates``).  One that joins gains
(c_j'b)^2 / (2 (lam + |c_j|^2)).  Two, in units in which lam + |c_j|^2 = 1, h = c_i'c_j and
b_j = c_j'b, gain more than g/2 exactly when b_i^2 + b_j^2 - 2 b_i b_j h - g (1 - h^2) > 0.

Few pairs need that test.  With tau^2 = 2 T for a cost below T, p_j = c_j less its part along b, and
k_j = |c_j'b| / (|b| |p_j|): the parts of v_i c_i + v_j c_j along b and across it must come to |b|
and 0 within tau, so the angle between p_i and p_j, or -p_j, has a sine of at most
tau (k_i + k_j) / (|b| - tau).  In each coordinate of p_j / |p_j|, without its sign, the intervals
of half widths sqrt(2) tau k_j / (|b| - tau) must meet: a sweep along the coordinate in which the
fewest do.

Vectors are y, less what O explains, and what a sample of the monomials has in common beyond it
(leading singular vectors); then, for the monomials that are left, a sample of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import b1, f8, i8, void
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from polysharp.engines.columns.priced import PricedNode, inputs_kept
from polysharp.engines.columns.search import Search
from polysharp.engines.compiling import Compiler
from polysharp.pricing.coordinates import Coordinates, coordinates, rounding, size_of
from polysharp.pricing.panels import Keys
from polysharp.pricing.pricer import Pricer
from polysharp.problem.bounds import UNIT, combined_level
from polysharp.typing import Array, Indices, Monomial

MOST_TERMS = 2
VECTORS = 16  # that a round adds
ROUNDS = 3
SAMPLE = 512  # monomials that vectors are made from
LARGEST = 500_000  # monomials held as points
MOST_PAIRS = 1e11  # that may be looked at
AT_ONCE = 1e8  # pairs between two looks at the clock
FAINT = 1e-5  # singular values below this share of the first are not worth a vector
STEEP = 1e6  # a point so near to the line through b may pair with any other

kernel = Compiler(__file__, later=True)
VEC, MAT, INTS, MARKS = f8[::1], f8[:, ::1], i8[::1], b1[::1]


def few_joining(search: Search, node: PricedNode) -> tuple[list[Monomial], float] | None:
    """Return the monomials that may join at a cost below the threshold, and what others cost.

    None where more than two may join, or too many are left.
    """
    rules, pricer, T = search.rules, search.design.table_pricer, search.threshold
    p = len(rules.library.inputs_of(search.inputs))
    if pricer is None or not 1 <= node.room <= MOST_TERMS or rules.count(p) > LARGEST:
        return None
    by_inputs = inputs_kept(search, node)

    def keep(keys: Keys) -> NDArray[np.bool_]:
        allowed = rules.may_price(keys)
        return allowed if by_inputs is None else allowed & by_inputs(keys)

    space, left = _Space(search, pricer, sorted(node.terms_in)), list(search.pool.monomials)
    points: Coordinates | None = None
    U = space.extended(np.zeros((0, space.width)), space.target[None])
    for _ in range(ROUNDS):
        search.check_time()
        before = len(U)
        U = space.extended(U, space.columns(left[:: -(-len(left) // SAMPLE)]))
        if len(U) == before and points is not None:
            break
        frame = space.frame(U)
        new = frame.directions if points is None else frame.directions[before:]
        fresh = coordinates(pricer, new, keep, search.on_block)
        if points is None:
            names = _names(fresh)
            undecided = [m not in node.terms_in and node.allows(m) for m in names]
            where = np.flatnonzero(undecided)
            points = fresh.among(where)
        else:
            values = np.column_stack([points.values, fresh.values[where]])
            points = points._replace(values=values)
        level = combined_level(T, frame.excess, frame.shift(points.sizes, node.room), frame.error)
        marks = _alone(points.values, frame.b, search.lam, level)
        if node.room == 2:
            marks = _paired(search, points.values, frame.b, level, marks)
        if marks is None:
            return None
        chosen = np.flatnonzero(marks)
        where, points = where[chosen], points.among(chosen)
        left = _names(points)
        if len(left) <= search.sizes.handed:
            return left, T
    return None


def _names(points: Coordinates) -> list[Monomial]:
    return [tuple(i for i in key if i >= 0) for key in points.keys.tolist()]


class _Frame(NamedTuple):
    """Vectors over the rows, nearly orthonormal, y among them."""

    directions: Array  # (K, n): weighted and centred
    b: Array
    excess: float  # N <= (1 + excess) I
    error: float  # of b, in norm
    per_size: float  # error of a point, in norm, for a monomial of size 1
    lam: float

    def shift(self, sizes: Array, room: int) -> float:
        """Return by how much rounding of the points may lower the root of what they cost."""
        largest = float(sizes.max(initial=0.0))
        return self.per_size * largest * float(np.sqrt(room / self.lam)) * (1.0 + 1e-9)


class _Space:
    """Vectors over the rows, rows in the metric of the weights, less what O explains.

    To the n entries of a vector u come those of M_O'u / sqrt(lam): products are those of N.
    """

    def __init__(self, search: Search, pricer: Pricer, inside: list[Monomial]) -> None:
        rows = search.design.rows.block
        assert rows is not None, "rows are in memory"
        self.search, self.pricer, self.lam, self.names = search, pricer, search.lam, inside
        self.v, self.root = rows.weights, np.sqrt(rows.weights)
        self.y = rows.y - search.design.y_mean
        self.width = len(self.y) + len(inside)
        self.inside = self._rooted(inside)
        A = self.inside @ self.inside.T
        A.ravel()[:: len(A) + 1] += self.lam
        self._factor = cho_factor(A) if len(A) else None

    def _rooted(self, monomials: list[Monomial]) -> Array:
        """Return centred columns times the roots of the weights."""
        M = self.search.design.columns(monomials)
        if self.pricer.fit_intercept:
            M -= (M @ self.v / self.v.sum())[:, None]
        return M * self.root

    def _completed(self, E: Array) -> Array:
        """Take from vectors what O explains, and add the entries of O."""
        if self._factor is None:
            return E
        w = cho_solve(self._factor, self.inside @ E.T).T
        return np.column_stack([E - w @ self.inside, np.sqrt(self.lam) * w])

    @property
    def target(self) -> Array:
        """The response."""
        return self._completed((self.root * self.y)[None])[0]

    def columns(self, monomials: list[Monomial]) -> Array:
        """Return monomials as vectors of length one."""
        E = self._completed(self._rooted(monomials))
        length = np.sqrt((E * E).sum(axis=1))
        good = np.isfinite(length) & (length > 0.0)
        return E[good] / length[good, None]

    def extended(self, U: Array, E: Array) -> Array:
        """Return orthonormal vectors with those that have most in common with some more."""
        E = E - (E @ U.T) @ U
        values, rotation = np.linalg.eigh(E @ E.T)
        strong = np.flatnonzero(values > FAINT**2 * values.max(initial=0.0))[::-1][:VECTORS]
        found = np.vstack([U, (rotation[:, strong].T @ E) / np.sqrt(values[strong])[:, None]])
        return np.asarray(np.linalg.qr(found.T)[0].T)

    def frame(self, U: Array) -> _Frame:
        """Return vectors as they are priced, and what rounding has made of them."""
        n, K, design = len(self.y), len(U), self.search.design
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = np.where(self.root > 0.0, U[:, :n] / self.root, 0.0)
        D = np.array([self.pricer.direction(u) for u in plain])
        with np.errstate(divide="ignore", invalid="ignore"):
            rooted = np.where(self.root > 0.0, D / self.root, 0.0)
        unit, b = rounding(self.pricer), D @ self.y
        W = design.columns(self.names) @ D.T / np.sqrt(self.lam)
        sizes = np.array([size_of(self.pricer, m) for m in self.names])
        N = rooted @ rooted.T + W.T @ W
        length = float(np.sqrt(np.diagonal(N).max()))
        loose = unit * length * float(np.sqrt(K * (sizes @ sizes) / self.lam))
        excess = float(np.linalg.norm(N - np.eye(K))) + 2.0 * unit * K * length**2
        excess += (2.0 * float(np.linalg.norm(W)) + loose) * loose
        response = float(np.sqrt(design.yy)) + unit * np.sqrt(self.v.sum()) * abs(design.y_mean)
        error = 2.0 * unit * length * float(np.sqrt(K)) * response
        return _Frame(D, b, excess, error, 2.0 * unit * length * float(np.sqrt(K)), self.lam)


def _alone(C: Array, b: Array, lam: float, level: float) -> NDArray[np.bool_]:
    """Mark the points with which alone b may cost less than the level."""
    whole, H = float(b @ b), lam + np.einsum("jk,jk->j", C, C)
    gain = (C @ b) ** 2 / H
    slack = 64.0 * (len(b) + 8.0) * UNIT * whole
    return ~(whole - gain >= 2.0 * level + slack)


def _paired(
    search: Search, C: Array, b: Array, level: float, alone: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Mark the points that are part of a pair with which b may cost less than the level.

    None where any pair may, or too many would have to be looked at.
    """
    whole = float(b @ b)
    size, tau = float(np.sqrt(whole)), float(np.sqrt(2.0 * level)) * (1.0 + 1e-12)
    if alone.any() or not tau < 0.99 * size:
        return None
    scaled = C / np.sqrt(search.lam + np.einsum("jk,jk->j", C, C))[:, None]
    along = scaled @ b
    across = scaled - np.multiply.outer(along / whole, b)
    length = np.sqrt(np.einsum("jk,jk->j", across, across))
    steep = np.abs(along) >= STEEP * size * length
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(2.0) * tau * np.abs(along) / (size * length * (size - tau)) + 1e-8
        centre = np.abs(across / length[:, None])
    half[steep], centre[steep] = np.inf, 0.0
    first, count, stop = 0, np.inf, np.zeros(0, dtype=np.intp)
    order = np.zeros(0, dtype=np.intp)
    counts = []
    for k in range(len(b)):
        low = centre[:, k] - half
        by = np.argsort(low)
        end = np.searchsorted(low[by], (centre[:, k] + half)[by], side="right")
        counts.append(float((end - np.arange(len(end)) - 1).sum()))
        if counts[-1] < count:
            first, count, order, stop = k, counts[-1], by, end
    if count > MOST_PAIRS:
        return None
    k = [a for a in np.argsort(counts).tolist() if a != first][:3]
    k += [first] * (3 - len(k))
    windows = np.ascontiguousarray(np.column_stack([half, centre[:, k]])[order])
    slack = 64.0 * (len(b) + 8.0) * UNIT * whole
    marks = np.zeros(len(C), dtype=np.bool_)
    task = np.ascontiguousarray(scaled[order]), along[order], windows, stop.astype(np.int64)
    start, total = 0, np.cumsum(stop - np.arange(len(stop)))
    while start < len(C):
        reached = total[start - 1] if start else 0.0
        end = max(start + 1, int(np.searchsorted(total, reached + AT_ONCE)))
        _pairs(*task, whole - 2.0 * level, slack, start, min(end, len(C)), marks)
        search.check_time()
        start = end
    found = np.zeros(len(C), dtype=np.bool_)
    found[order] = marks
    return found


@kernel(void(MAT, VEC, MAT, INTS, f8, f8, i8, i8, MARKS), entry=True, any_order=True)
def _pairs(C, b, windows, stop, g, slack, start, end, marks):  # type: ignore[no-untyped-def]
    """Mark the members of pairs that may gain more than g / 2, the first from start to end."""
    K = C.shape[1]
    for i in range(start, end):
        wide, z1, z2, z3 = windows[i, 0], windows[i, 1], windows[i, 2], windows[i, 3]
        own = b[i] * b[i] - g + slack
        for j in range(i + 1, stop[i]):
            reach = wide + windows[j, 0]
            if (
                abs(z1 - windows[j, 1]) > reach
                or abs(z2 - windows[j, 2]) > reach
                or abs(z3 - windows[j, 3]) > reach
                or (marks[i] and marks[j])
            ):
                continue
            h = 0.0
            for k in range(K):
                h += C[i, k] * C[j, k]
            if own + b[j] * b[j] - 2.0 * b[i] * b[j] * h + g * h * h >= 0.0:
                marks[i] = True
                marks[j] = True
