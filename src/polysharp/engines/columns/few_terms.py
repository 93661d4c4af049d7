"""One or two monomials that may still join: each choice takes its own combination of vectors.

For any vectors U = (u_1, ..., u_K) and any combination a = U t the bound of ``dual_point`` holds.
One combination for all supports is what prices are about, and a weak ridge leaves little of that
bound.  But t may be another for each support: with the monomials O in, F the ones that join,

    b = U'y,   c_j = U'm_j,   N = U'U + U'M_O M_O'U / lam,
    cost of O + F  >=  max_t  t'b - 1/2 t'(N + sum_F c_j c_j' / lam) t,

and for vectors with N = I the right-hand side is the ridge regression of the point b in K
dimensions on the points c_j,

    P(F) = min_v  1/2 |b - sum_F c_j v_j|^2 + lam/2 |v|^2.

One pass gives the points of all monomials (``coordinates``), and their singles and pairs can be
gone through.  The engine solves what remains, with its columns.  Vectors are y and a few monomials,
all less what O explains: of a sample those that stand out most from the ones before.  The sample is
from the pool first, and then from the monomials that remain.

One point gains (c_j'b)^2 / (2 (lam + |c_j|^2)).  Two, in units in which lam + |c_j|^2 = 1, gain
more than g/2 exactly when  b_i^2 + b_j^2 - 2 b_i b_j h > g (1 - h^2),  h = c_i'c_j, b_j = c_j'b.

Few pairs need that test.  For a cost below tau^2 / 2 let p_j be c_j less its part along b, and
k_j = |c_j'b| / (|b| |p_j|).  The parts of v_i c_i + v_j c_j along b and across it must come to |b|
and 0 within tau.  By the first, |v_i p_i| or |v_j p_j| is at least (|b| - tau) / (k_i + k_j), and
by the second the angle between the lines of p_i and p_j has a sine of at most tau divided by that.
So p_i/|p_i| and p_j/|p_j|, or its opposite, lie within half_i + half_j,

    half_j = sqrt(2) tau k_j / (|b| - tau),

and in every coordinate, without its sign, the intervals of these half widths meet: a sweep along
the coordinate in which fewest do, and a look at three others, leave few pairs.  All tests err
towards marking more: they are rounded by less than 64 (K + 8) u |b|^2.

A small cost leaves fewer pairs than a large one.  So if many may cost less than the threshold,
those below a part of it are looked at first: often the best model is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import b1, f8, i8, void
from numpy.typing import NDArray

from polysharp.engines.columns.dual_point import Survivors
from polysharp.engines.columns.priced_nodes import PricedNode
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.engines.compiling import Compiler
from polysharp.pricing.panels import Keys
from polysharp.pricing.pricer import Pricer
from polysharp.pricing.products import Coordinates, coordinates, rounding, size_of
from polysharp.problem.bounds import UNIT, combined_level
from polysharp.typing import Array, Indices, Monomial

EASY, MOST = 1e10, 1e11  # pairs that are looked at gladly, and at most
RATE = 2e8  # pairs a second where most of them must be looked at closely
AT_ONCE = 1e8  # pairs between two looks at the clock
LOW = 1.0 / 64.0  # share of the threshold that is asked about first where pairs are many
VECTORS = 16  # that a round adds
ROUNDS = 3
SAMPLE = 512  # monomials that vectors are chosen from
LARGEST = 1_000_000  # products swept
MOST_READ = 300_000  # monomials that a reader of a proof goes through
FAINT = 1e-6  # of the square of a vector: more of it must be new
READER = 4.0  # a reader of the proof rounds in a way of its own
STEEP = 1e6  # a point so near to the line through b may pair with any other

kernel = Compiler(__file__, later=True)
MAT = f8[:, ::1]
Marks = NDArray[np.bool_]


def readable(search: PricedRun) -> bool:
    """Whether a reader of a proof can go through all monomials."""
    return search.rules.count(search.n_inputs) <= MOST_READ


class FewTerms:
    """The monomials that may join one node, if that is one monomial or two."""

    def __init__(self, search: PricedRun, node: PricedNode) -> None:
        self.search, self.node, self.inside = search, node, sorted(node.terms_in)

    def steps(self, seconds: float) -> Iterator[tuple[float, float]]:
        """Yield one question after the other: costs, and how many pairs to look at."""
        search, room, affordable = self.search, self.node.room, RATE * seconds
        swept = search.rules.swept(search.n_inputs)
        if search.design.table_pricer is not None and swept <= LARGEST and room in (1, 2):
            yield search.objective, min(EASY, affordable)
            if room == 2:
                yield LOW * search.threshold, min(MOST, affordable)
            yield search.threshold, min(MOST, affordable)

    def below(self, cost: float, most_pairs: float) -> Survivors | None:
        """Return what may join at less than a cost; None where too many are left."""
        search, room = self.search, self.node.room
        vectors, points = self._first
        for _ in range(ROUNDS):
            shift = READER * vectors.unit * float(points.sizes.max(initial=0.0))
            shift *= float(np.sqrt(room * len(vectors.b) / search.lam))
            level = combined_level(cost, vectors.excess, shift, vectors.error)
            task = points.values, vectors.b, search.lam, level
            marks: Marks | None = mark_alone(*task)
            if room == 2:
                alone = marks is not None and marks.any()
                marks = None if alone else mark_pairs(*task, most_pairs, search.check_time)
            if marks is None:
                return None
            points = points.among(np.flatnonzero(marks))
            left = points.monomials
            if len(left) <= search.sizes.subproblem:
                return Survivors(left, cost, vectors.names)
            known, vectors = len(vectors.b), self._extended(vectors, left)
            if len(vectors.b) == known:
                break
            points = self._with(points, vectors.directions[known:])
        return None

    @property
    def _pricer(self) -> Pricer:
        pricer = self.search.design.table_pricer
        assert pricer is not None, "there are steps"
        return pricer

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """The weights of the rows, and y less its mean."""
        rows = self.search.design.rows.block
        assert rows is not None, "rows are in memory"
        return rows.weights, rows.y - self.search.design.y_mean

    @cached_property
    def _first(self) -> tuple[_Vectors, Coordinates]:
        """The first vectors, y and some of the pool, and the points of all monomials."""
        v, y = self._rows
        left = self._cleared((np.sqrt(v) * y)[None])
        none = np.zeros((0, left.shape[1]))
        U, _ = _with_most_new(none, left / (np.linalg.norm(left) or 1.0))
        vectors = self._extended(self._vectors([], U), list(self.search.pool.monomials))
        task = self._pricer, vectors.directions, self._keep, self.search.on_block
        points = coordinates(*task)
        self.search.rounds += 1
        return vectors, points

    def _keep(self, keys: Keys) -> Marks:
        """Which monomials of one degree may join."""
        node, kept = self.node, self.search.rules.may_price(keys)
        if (by_inputs := node.keeps()) is not None:
            kept &= by_inputs(keys)
        for m in node.terms_in | node.terms_out:
            if len(m) == keys.shape[1]:
                kept &= (keys != np.array(m, dtype=np.int32)).any(axis=1)
        return kept

    def _with(self, points: Coordinates, directions: Array) -> Coordinates:
        """Return points with further coordinates."""
        columns, names = self.search.design.columns, points.monomials
        parts = [np.zeros((0, len(directions)))]
        for start in range(0, len(names), SAMPLE):
            self.search.check_time()
            parts.append(columns(names[start : start + SAMPLE]) @ directions.T)
        return points._replace(values=np.column_stack([points.values, np.concatenate(parts)]))

    def _extended(self, vectors: _Vectors, monomials: list[Monomial]) -> _Vectors:
        """Return vectors with those of a sample of monomials that stand out most."""
        sample = monomials[:: max(1, -(-len(monomials) // SAMPLE))]
        E = self._rooted(sample)
        length = np.sqrt(np.einsum("jt,jt->j", E, E))
        E /= np.where((length > 0.0) & np.isfinite(length), length, np.inf)[:, None]
        U, chosen = _with_most_new(vectors.U, self._cleared(E))
        return self._vectors([*vectors.names, *(sample[j] for j in chosen)], U)

    def _rooted(self, monomials: list[Monomial]) -> Array:
        """Return centred columns times the roots of the weights."""
        design, (v, _) = self.search.design, self._rows
        M = design.columns(monomials)
        if design.fit_intercept:
            M -= (M @ v / v.sum())[:, None]
        return np.asarray(M * np.sqrt(v))

    def _cleared(self, E: Array) -> Array:
        """Take from vectors what O explains, and complete them."""
        if not self.inside:
            return E
        lam, kept = self.search.lam, self._rooted(self.inside)
        A = kept @ kept.T
        A.flat[:: len(A) + 1] += lam
        w = np.linalg.lstsq(A, kept @ E.T, rcond=None)[0].T
        return np.column_stack([E - w @ kept, np.sqrt(lam) * w])

    def _vectors(self, names: list[Monomial], U: Array) -> _Vectors:
        """Return vectors as they are priced."""
        design, pricer, (v, y) = self.search.design, self._pricer, self._rows
        root, lam, K = np.sqrt(v), self.search.lam, len(U)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        D = np.array([pricer.direction(u) for u in U[:, : len(v)] * inverse])
        D = D.reshape(K, len(v))
        plain = D * inverse
        W = design.columns(self.inside) @ D.T / np.sqrt(lam)
        N = plain @ plain.T + W.T @ W
        length = float(np.sqrt(np.diagonal(N).max(initial=1.0)))
        unit = 2.0 * rounding(pricer) * length
        size = float(np.linalg.norm([size_of(pricer, m) for m in self.inside]))
        loose = unit * size * float(np.sqrt(K / lam))  # error of W
        excess = float(np.linalg.norm(N - np.eye(K))) + unit * length * K
        excess += (2.0 * float(np.linalg.norm(W)) + loose) * loose
        response = float(np.sqrt(design.yy) + unit * np.sqrt(v.sum()) * abs(design.y_mean))
        error = unit * float(np.sqrt(K)) * response
        return _Vectors(names, U, D, D @ y, READER * excess, READER * error, unit)


class _Vectors(NamedTuple):
    """Vectors that are orthonormal in the sense of N, y first.

    In the metric of the weights, a vector u has the n entries sqrt(v_t) u_t, and after them
    M_O'u / sqrt(lam), so that N is made of plain products.
    """

    names: list[Monomial]  # what the vectors after the first were made of
    U: Array
    directions: Array  # (K, n): the vectors as they are priced, weighted and centred
    b: Array
    excess: float  # N <= (1 + excess) I
    error: float  # of b, in norm
    unit: float  # error of a coordinate, for a monomial of size 1


def _with_most_new(U: Array, E: Array) -> tuple[Array, list[int]]:
    """Add those of some vectors that stand out most, one after the other; say which."""
    chosen = list[int]()
    E = E - (E @ U.T) @ U
    for _ in range(VECTORS):
        left = np.einsum("jt,jt->j", E, E)
        if not left.max(initial=0.0) > FAINT:
            break
        chosen.append(int(np.argmax(left)))
        u = E[chosen[-1]] - (E[chosen[-1]] @ U.T) @ U
        u /= np.linalg.norm(u)
        U = np.vstack([U, u])
        E -= np.multiply.outer(E @ u, u)
    return U, chosen


def mark_alone(C: Array, b: Array, lam: float, level: float) -> Marks:
    """Mark the points that alone may cost less than the level."""
    H = lam + np.einsum("jk,jk->j", C, C)
    marks: Marks = ~(float(b @ b) - (C @ b) ** 2 / H >= 2.0 * level + _slack(b, lam))
    marks |= ~np.isfinite(H)
    return marks


def mark_pairs(
    C: Array, b: Array, lam: float, level: float, most: float, check_time: Callable[[], None]
) -> Marks | None:
    """Mark the points of all pairs that may cost less than the level, where none does alone.

    None where more than ``most`` pairs would have to be looked at.
    """
    whole, tau = float(b @ b), float(np.sqrt(2.0 * level)) * (1.0 + 1e-12)
    size = float(np.sqrt(whole))
    if not tau < 0.99 * size:
        return None
    scaled = C / np.sqrt(lam + np.einsum("jk,jk->j", C, C))[:, None]
    along = scaled @ b
    across = scaled - np.multiply.outer(along / whole, b)
    length = np.sqrt(np.einsum("jk,jk->j", across, across))
    steep = ~(np.abs(along) < STEEP * size * length)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(2.0) * tau * np.abs(along) / (size * length * (size - tau)) + 1e-8
        places = np.abs(across / length[:, None])
    half[steep], places[steep] = 1.0, 0.0
    sweeps = [_sweep(places[:, k], half) for k in range(len(b))]
    counts = np.array([float((stop - np.arange(len(stop)) - 1).sum()) for _, stop in sweeps])
    best = np.argsort(counts)[[0, 1, 2, 3] if len(b) > 3 else [0, 0, 0, 0]]
    if counts[best[0]] > most:
        return None
    order, stop = sweeps[best[0]]
    windows = np.ascontiguousarray(np.column_stack([along, half, places[:, best[1:]]])[order])
    task = np.ascontiguousarray(scaled[order]), windows, stop
    marks, start, total = np.zeros(len(C), dtype=np.bool_), 0, np.cumsum(stop - np.arange(len(C)))
    while start < len(C):
        check_time()
        reached = total[start - 1] if start else 0
        end = min(len(C), max(start + 1, int(np.searchsorted(total, reached + AT_ONCE))))
        _mark(*task, whole - 2.0 * level, _slack(b, lam), start, end, marks)
        start = end
    found = np.zeros(len(C), dtype=np.bool_)
    found[order] = marks
    return found


def _slack(b: Array, lam: float) -> float:
    """Bound the rounding of a test; products may underflow, which a tiny ridge would magnify."""
    whole = float(b @ b)
    return 64.0 * (len(b) + 8.0) * UNIT * whole + 1e-250 * (1.0 + whole) / lam


def _sweep(places: Array, half: Array) -> tuple[Indices, Indices]:
    """Order intervals by their lower ends; return up to which one each may meet those after it."""
    low = places - half
    order = np.argsort(low)
    stop = np.searchsorted(low[order], (places + half)[order], side="right")
    return order, stop.astype(np.int64)


@kernel(void(MAT, MAT, i8[::1], f8, f8, i8, i8, b1[::1]), entry=True, any_order=True)
def _mark(C, windows, stop, g, slack, start, end, marks):  # type: ignore[no-untyped-def]
    """Mark the members of pairs that may gain more than g / 2, the first from start to end.

    ``windows`` has c_j'b, half widths, and places in three coordinates.
    """
    for i in range(start, end):
        own, wide = windows[i, 0], windows[i, 1]
        one, two, three = windows[i, 2], windows[i, 3], windows[i, 4]
        for j in range(i + 1, stop[i]):
            reach = wide + windows[j, 1]
            if (
                abs(one - windows[j, 2]) > reach
                or abs(two - windows[j, 3]) > reach
                or abs(three - windows[j, 4]) > reach
                or (marks[i] and marks[j])
            ):
                continue
            h = 0.0
            for k in range(C.shape[1]):
                h += C[i, k] * C[j, k]
            other = windows[j, 0]
            gain = own * own + other * other - 2.0 * own * other * h
            if not gain + slack < g * (1.0 - h * h):
                marks[i] = True
                marks[j] = True
