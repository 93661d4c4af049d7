"""One or two monomials that may still join: each choice takes its own combination of vectors.

For any vectors U = (u_1, ..., u_K) and any combination a = U t the bound of ``dual_point`` holds.
One combination for all supports is what prices are about, and where the ridge is weak nothing comes
of it.  But t may be another for each support: with the monomials O in, F the ones that join,

    b = U'y,   c_j = U'm_j,   N = U'U + U'M_O M_O'U / lam,
    cost of O + F  >=  max_t  t'b - 1/2 t'(N + sum_F c_j c_j' / lam) t,

and for vectors with N = I the right-hand side is the ridge regression of the point b in K
dimensions on the points c_j.  One pass gives the points of all monomials (``coordinates``), and
their singles and pairs can be gone through (``last_pairs``).  The engine solves what is left, with
its columns.

Vectors are y and a few monomials, all less what O explains: of a sample those that stand out most
from the ones before.  The sample is from the pool first, and then from what is left.

Fewer pairs can cost little than much, and are looked at sooner.  So where many may cost less than
the threshold, those below a part of it come first: often the best model is among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.columns.last_pairs import mark_alone, mark_pairs
from polysharp.engines.columns.priced_nodes import PricedNode, inputs_kept
from polysharp.engines.columns.priced_run import PricedRun
from polysharp.pricing.panels import Keys
from polysharp.pricing.pricer import Pricer
from polysharp.pricing.products import Coordinates, coordinates, rounding, size_of
from polysharp.problem.bounds import combined_level
from polysharp.typing import Array, Indices, Monomial

EASY, MOST = 1e10, 1e11  # pairs that are looked at gladly, and at most
RATE = 2e8  # pairs a second where most of them must be looked at closely
LOW = 1.0 / 64.0  # share of the threshold that is asked about first where pairs are many
VECTORS = 16  # that a round adds
ROUNDS = 3
SAMPLE = 512  # monomials that vectors are chosen from
LARGEST = 1_000_000  # products swept
MOST_READ = 300_000  # monomials that a reader of a proof goes through
FAINT = 1e-6  # of the square of a vector: more of it must be new
READER = 4.0  # a reader of the proof rounds in a way of its own


class FewLeft(NamedTuple):
    """Monomials that may join below a cost, and those whose columns show it of all others."""

    monomials: list[Monomial]
    along: list[Monomial]


def readable(search: PricedRun) -> bool:
    """Whether a reader of a proof can go through all monomials."""
    return search.rules.count(search.n_inputs) <= MOST_READ


class FewTerms:
    """What may join one node, where that is one monomial or two."""

    def __init__(self, search: PricedRun, node: PricedNode) -> None:
        self.search, self.node = search, node
        self.pricer = search.design.table_pricer

    def steps(self, seconds: float) -> Iterator[tuple[float, float]]:
        """What to ask, one after the other: costs, and how many pairs to look at."""
        search, room, affordable = self.search, self.node.room, RATE * seconds
        swept = search.rules.swept(search.n_inputs)
        if self.pricer is not None and swept <= LARGEST and room in (1, 2):
            yield search.objective, min(EASY, affordable)
            if room == 2:
                yield LOW * search.threshold, min(MOST, affordable)
            yield search.threshold, min(MOST, affordable)

    def below(self, cost: float, most_pairs: float) -> FewLeft | None:
        """Return what may join at less than a cost; None where too many are left."""
        search, room = self.search, self.node.room
        vectors, points = self._first
        for _ in range(ROUNDS):
            frame = vectors.frame
            shift = READER * frame.unit * float(points.sizes.max(initial=0.0))
            shift *= float(np.sqrt(room * len(frame.b) / search.lam))
            level = combined_level(cost, frame.excess, shift, frame.error)
            marks = mark_alone(points.values, frame.b, search.lam, level)
            if room == 2 and marks.any():
                return None
            if room == 2:
                work = most_pairs, search.check_time
                paired = mark_pairs(points.values, frame.b, search.lam, level, *work)
                if paired is None:
                    return None
                marks = paired
            points = points.among(np.flatnonzero(marks))
            left = points.monomials
            if len(left) <= search.sizes.subproblem:
                return FewLeft(left, vectors.names)
            vectors = vectors.extended(left)
            new = vectors.frame.directions[len(frame.b) :]
            if not len(new):
                break
            points = self._with(points, new)
        return None

    @cached_property
    def _first(self) -> tuple[_Vectors, Coordinates]:
        """The first vectors, and the points of all monomials."""
        assert self.pricer is not None, "there are steps"
        vectors = _Vectors.of(self.search, self.pricer, sorted(self.node.terms_in))
        vectors = vectors.extended(list(self.search.pool.monomials))
        directions = vectors.frame.directions
        points = coordinates(self.pricer, directions, self._keep, self.search.on_block)
        self.search.rounds += 1
        return vectors, points

    def _keep(self, keys: Keys) -> NDArray[np.bool_]:
        """Which monomials of one degree may join."""
        search, node = self.search, self.node
        kept, by_inputs = search.rules.may_price(keys), inputs_kept(search, node)
        if by_inputs is not None:
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


class _Frame(NamedTuple):
    """Vectors as they are priced, and what rounding has made of them."""

    directions: Array  # (K, n): weighted and centred
    b: Array
    excess: float  # N <= (1 + excess) I
    error: float  # of b, in norm
    unit: float  # error of a coordinate, for a monomial of size 1


class _Vectors(NamedTuple):
    """Vectors that are orthonormal in the sense of N, y first.

    In the metric of the weights, a vector u has the n entries sqrt(v_t) u_t, and after them
    M_O'u / sqrt(lam), so that N is made of plain products.
    """

    search: PricedRun
    pricer: Pricer
    inside: list[Monomial]  # O
    names: list[Monomial]  # what the vectors after the first were made of
    U: Array

    @classmethod
    def of(cls, search: PricedRun, pricer: Pricer, inside: list[Monomial]) -> _Vectors:
        """Return y alone."""
        none = cls(search, pricer, inside, [], np.zeros((0, search.design.n + len(inside))))
        v, y = none._rows
        left = none._cleared((np.sqrt(v) * y)[None])
        return none._replace(U=none._added(left / (np.linalg.norm(left) or 1.0))[0])

    def extended(self, monomials: list[Monomial]) -> _Vectors:
        """Return them with some of a sample of monomials."""
        sample = monomials[:: max(1, -(-len(monomials) // SAMPLE))]
        E = self._rooted(sample)
        length = np.sqrt(np.einsum("jt,jt->j", E, E))
        E /= np.where((length > 0.0) & np.isfinite(length), length, np.inf)[:, None]
        U, chosen = self._added(self._cleared(E))
        return self._replace(names=[*self.names, *(sample[j] for j in chosen)], U=U)

    def _rooted(self, monomials: list[Monomial]) -> Array:
        """Return centred columns times the roots of the weights."""
        design, (v, _) = self.search.design, self._rows
        M = design.columns(monomials)
        if design.fit_intercept:
            M -= (M @ v / v.sum())[:, None]
        return np.asarray(M * np.sqrt(v))

    @property
    def _rows(self) -> tuple[Array, Array]:
        """The weights of the rows, and y less its mean."""
        rows = self.search.design.rows.block
        assert rows is not None, "rows are in memory"
        return rows.weights, rows.y - self.search.design.y_mean

    def _cleared(self, E: Array) -> Array:
        """Take from vectors what O explains, and complete them."""
        if not self.inside:
            return E
        lam, held = self.search.lam, self._rooted(self.inside)
        A = held @ held.T
        A.ravel()[:: len(A) + 1] += lam
        w = np.linalg.lstsq(A, held @ E.T, rcond=None)[0].T
        return np.column_stack([E - w @ held, np.sqrt(lam) * w])

    def _added(self, E: Array) -> tuple[Array, Indices]:
        """Add those of some vectors that stand out most, one after the other; say which."""
        U, chosen = self.U, list[int]()
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
        return U, np.array(chosen, dtype=np.intp)

    @property
    def frame(self) -> _Frame:
        """The vectors as they are priced."""
        design, (v, y), K = self.search.design, self._rows, len(self.U)
        root = np.sqrt(v)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        D = np.array([self.pricer.direction(u) for u in self.U[:, : len(v)] * inverse])
        D = D.reshape(K, len(v))
        plain, lam = D * inverse, self.search.lam
        W = design.columns(self.inside) @ D.T / np.sqrt(lam)
        N = plain @ plain.T + W.T @ W
        length = float(np.sqrt(np.diagonal(N).max(initial=1.0)))
        unit = 2.0 * rounding(self.pricer) * length
        size = float(np.linalg.norm([size_of(self.pricer, m) for m in self.inside]))
        loose = unit * size * float(np.sqrt(K / lam))  # error of W
        excess = float(np.linalg.norm(N - np.eye(K))) + unit * length * K
        excess += (2.0 * float(np.linalg.norm(W)) + loose) * loose
        response = float(np.sqrt(design.yy) + unit * np.sqrt(v.sum()) * abs(design.y_mean))
        error = unit * float(np.sqrt(K)) * response
        return _Frame(D, D @ y, READER * excess, READER * error, unit)
