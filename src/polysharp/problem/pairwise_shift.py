"""The pairwise shift: curvature between pairs that supports of few terms do not feel.

A diagonal moved into the ridge must leave H - diag(delta) positive semidefinite in all directions.
On real tables it is held back by directions in which dozens of collinear monomials cancel each
other, and no support of L terms has such a direction.  So take any reach a_j >= 0 and any ratios
-1 <= t_ij = t_ji <= 1, and let

    K_jj = (L - 1) a_j^2,      K_ij = a_i a_j t_ij.

For every v with at most L entries other than zero, v'Kv >= 0: of the (L - 1) a_j^2 v_j^2 of a term,
a_j^2 v_j^2 goes to each of the L - 1 pairs that it is part of, and a_i^2 v_i^2 + a_j^2 v_j^2 makes
up for 2 a_i a_j t_ij v_i v_j.  Hence v'Hv >= v'(H - K)v for the supports of a node, and whatever is
proved with H - K in place of H holds for them: no L free monomials gain more than

    1/2 p'R^-1 p + top_L((b_j - p_j)^2 / (2 delta_j)),     R = H - diag(delta) - K >= 0.

Nothing has to be proved about K itself; ``subproblem.semidefinite`` proves R >= 0.  A ratio is
a whole number of steps of 2^-15, so that K is stored in two bytes for each pair.  One byte is not
enough: if monomials are nearly collinear, R has eigenvalues of a millionth, and steps of 1/128
undo a part of what the shift has gained.

**Method.**  With shares s held fixed and L terms to come, the method descends on

    1/2 b'(R + diag(delta/s))^-1 b - beta (logdet R + sum log delta)

over log delta, log mu (mu_j = a_j^2) and the ratios t_ij within -1..1; three
quarters of the ratios end at these limits.  A step is a quasi-Newton one (L-BFGS) within them.  Two
factorisations and an inverse yield the value and all derivatives, with W = ww' + 2 beta R^-1 and
w = (R + diag(delta/s))^-1 b:

    by K_ij: W_ij,   by delta_j: beta V_jj + w_j^2 (1 - 1/s_j) / 2 - beta/delta_j,   V = R^-1,

and so does the diagonal of the second derivatives, V_ii V_jj + V_ij^2 for a pair, by which the
directions are scaled: without that hardly anything moves.  After a round of steps
``best_diagonal`` goes some way to the best diagonal for K so far, and with it to the shares of the
next round, in which beta is smaller.  The result is a proposal, which is rounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.problem.diagonal import DiagonalStart, best_diagonal, factor_inverse
from polysharp.typing import Array, Indices

RATIO_STEPS = 32768.0  # ratios are whole numbers of such steps
MOST_STEPS = 32767  # that a ratio may have: one less than 1
LEAST_REACH, MOST_REACH = 1e-90, 1e90  # beyond these the squares leave the floats
FIRST_REACH = 0.6  # share of the diagonal that goes to pairs at the start
KNOWN_DELTA, KNOWN_MU = 0.5, 0.7  # shares of a known diagonal and K from which the method goes on
LEAST_MU = 1e-4  # share of the first mu from nothing that every mu starts with
FIRST_WEIGHT, KNOWN_WEIGHT, FALLS = 1.0, 0.4, 0.8  # of the barrier, from round to round
LATE_WEIGHT, LEAST_WEIGHT = 0.04, 0.005  # from the first on it falls only if progress is slow:
LITTLE = 0.01  # share of the missing gain, over ROUNDS_JUDGED rounds
ROUNDS_JUDGED = 3  # rounds by which progress is judged
STEPS, DIAGONAL_STEPS = 25, 4  # of a round: steps, and those of its diagonal
CLOSE = 0.5  # distance from the best diagonal, as a share of the distance to the aim
MOST_ROUNDS = 80
REMEMBERED = 5  # steps that a direction is made of
LIMIT = 0.9999  # of a ratio
LEAST_SHARE, MOST_SHARE = 1e-4, 0.999
HALVINGS = 16  # of a step that does not lead down

# Whether to go on: by gain, aim, what the last rounds have brought, and the seconds they took.
Worthwhile = Callable[[float, float, float, float], bool]


@dataclass(frozen=True, eq=False)
class PairwiseMatrix:
    """K over the sorted monomials ``index``: reach a, and the ratios t_ij in steps of 2^-15."""

    index: Indices
    reach: Array
    ratios: NDArray[np.int16]

    @classmethod
    def rounded(cls, index: Indices, mu: Array, ratios: Array) -> PairwiseMatrix:
        """Return K with a^2 = mu and about these ratios, of which the upper ones count."""
        whole = np.clip(np.rint(RATIO_STEPS * ratios), -MOST_STEPS, MOST_STEPS)
        steps = np.triu(whole.astype(np.int16), 1)
        steps += steps.T
        reach = np.sqrt(mu)
        sound = (reach > LEAST_REACH) & (reach < MOST_REACH)
        return cls(index, np.where(sound, reach, 0.0), steps)

    def matrix(self, monomials: Indices, free: Any, terms: int) -> Array:
        """Return K over sorted monomials, acting on those that are ``free`` alone.

        At most ``terms`` of these join.
        """
        place = np.minimum(np.searchsorted(self.index, monomials), len(self.index) - 1)
        known = (self.index[place] == monomials) & free
        reach = np.where(known, self.reach[place], 0.0)
        K: Array = self.ratios[place[:, None], place] / RATIO_STEPS
        K *= reach
        K *= reach[:, None]
        K.ravel()[:: len(place) + 1] = (terms - 1.0) * reach * reach
        return K

    def times(self, factor: float) -> PairwiseMatrix:
        """Return a multiple of K."""
        return replace(self, reach=np.sqrt(factor) * self.reach)


class ProposedShift(NamedTuple):
    """A proposal: mu and ratios as the method left them, and a diagonal near the best one."""

    gain: float
    mu: Array
    ratios: Array
    delta: Array
    shares: Array

    def matrix_over(self, index: Indices) -> PairwiseMatrix:
        """Return K over these monomials."""
        return PairwiseMatrix.rounded(index, self.mu, self.ratios)


def find_pairwise_shift(
    H: Array,
    b: Array,
    budget: int,
    start: DiagonalStart,
    *,
    K: Array | None = None,
    aim: float,
    worthwhile: Worthwhile,
    expired: Callable[[], bool] = lambda: False,
) -> ProposedShift | None:
    """Return a pairwise shift for 1 < L < m monomials; None if the start is not feasible.

    The method goes on from K if there is one.  It ends when the gain is at most the aim, or when
    the last rounds were not worth the seconds that they took.
    """
    with np.errstate(all="ignore"):
        method = _PairwiseMethod(H, b, budget, start, aim, expired)
        if K is not None:
            method.go_on_from(K, start.delta)
        method.look()
        for _ in range(MOST_ROUNDS):
            if method.gain <= aim or method.gain == np.inf or expired():
                break
            method.round()
            lowered, seconds = method.progress()
            if lowered < np.inf and not worthwhile(method.gain, aim, lowered, seconds):
                break
        return method.best


class _Point(NamedTuple):
    """log delta, log mu and all ratios end to end; the value and its derivatives there."""

    x: Array
    value: float
    slope: Array
    curvature: Array


class _PairwiseMethod:
    """State of the method, in coordinates in which H has unit diagonal."""

    def __init__(
        self,
        H: Array,
        b: Array,
        budget: int,
        start: DiagonalStart,
        aim: float,
        expired: Callable[[], bool],
    ) -> None:
        self.L, self.m, self.aim, self.expired = budget, len(b), aim, expired
        self.root = np.sqrt(np.diagonal(H))
        self.C, self.c = H / np.multiply.outer(self.root, self.root), b / self.root
        self.s = np.clip(start.shares, LEAST_SHARE, MOST_SHARE)
        self.weight = FIRST_WEIGHT
        delta = 0.5 * start.inside / self.root**2
        self.x = self._joined(delta, FIRST_REACH / (budget - 1.0) * delta, 0.0 * self.C)
        self.gain = np.inf
        self.looks = deque[tuple[float, float]](maxlen=ROUNDS_JUDGED + 1)  # gain and time of each
        self.best: ProposedShift | None = None

    def go_on_from(self, K: Array, known_delta: Array) -> None:
        """Start from a K that is known, and the diagonal that goes with it."""
        known = np.diagonal(K) / (self.L - 1.0) / self.root**2
        mu = np.maximum(known, LEAST_MU * np.exp(self.x[self.m : 2 * self.m]))
        reach = np.where(mu > 0.0, mu, 1.0) ** 0.5 * self.root
        ratios = np.clip(K / np.multiply.outer(reach, reach), -LIMIT, LIMIT)
        np.fill_diagonal(ratios, 0.0)
        self.x = self._joined(KNOWN_DELTA * known_delta / self.root**2, KNOWN_MU * mu, ratios)
        self.weight = KNOWN_WEIGHT

    def progress(self) -> tuple[float, float]:
        """Return by how much the last rounds have lowered the gain, and the seconds they took."""
        (gain, began), (_, now) = self.looks[0], self.looks[-1]
        return gain - self.gain if len(self.looks) > ROUNDS_JUDGED else np.inf, now - began

    def round(self) -> None:
        """Take some steps at one weight of the barrier, then look how far that goes."""
        self._descend(self.weight * (self.gain - self.aim) / self.m)
        self.look()
        slow = self.progress()[0] <= LITTLE * (self.gain - self.aim)
        if self.weight > LATE_WEIGHT or slow:
            self.weight = max(FALLS * self.weight, LEAST_WEIGHT)

    def look(self) -> None:
        """Go towards the best diagonal for K as it is, and its shares."""
        R, delta, mu, _ = self._matrices(self.x)
        R.ravel()[:: self.m + 1] += delta
        near = DiagonalStart(0.98 * delta, 0.5 * delta, self.s)
        found = best_diagonal(
            R, self.c, self.L, near, aim=self.aim, tol=CLOSE, max_steps=DIAGONAL_STEPS,
            expired=self.expired,
        )  # fmt: skip
        if found is not None and found.gain < np.inf:
            self.s = np.clip(0.5 * (self.s + found.shares), LEAST_SHARE, MOST_SHARE)
            if found.gain < self.gain:
                self.gain, square = found.gain, self.root**2
                ratios = self.x[2 * self.m :].reshape(self.m, self.m).copy()
                self.best = ProposedShift(
                    found.gain, mu * square, ratios, found.delta * square, self.s
                )
        self.looks.append((self.gain, perf_counter()))

    def _joined(self, delta: Array, mu: Array, ratios: Array) -> Array:
        return np.concatenate([np.log(delta), np.log(mu), ratios.ravel()])

    def _matrices(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return R, delta, mu and K off its diagonal."""
        m = self.m
        delta, mu = np.exp(x[:m]), np.exp(x[m : 2 * m])
        reach = np.sqrt(mu)
        K = x[2 * m :].reshape(m, m) * np.multiply.outer(reach, reach)
        R = self.C - K
        R.ravel()[:: m + 1] -= delta + (self.L - 1.0) * mu
        return R, delta, mu, K

    def _at(self, x: Array, beta: float) -> _Point | None:
        """Return the value with its derivatives; None if R is not positive definite."""
        R, delta, mu, K = self._matrices(x)
        factor, failed = dpotrf(R.T, lower=1)
        if failed:
            return None
        R.ravel()[:: self.m + 1] += delta / self.s
        w = dpotrs(dpotrf(R.T, lower=1)[0], self.c, lower=1)[0]
        V = factor_inverse(factor)
        own, terms = np.diagonal(V).copy(), self.L - 1.0
        logs = 2.0 * np.log(np.diagonal(factor)) + x[: self.m]
        by_pair = V * (2.0 * beta)
        by_pair += np.multiply.outer(w, w)
        by_mu = 0.5 * (terms * np.diagonal(by_pair) * mu + np.einsum("ij,ij->i", by_pair, K))
        # The matrix holds every pair twice; each copy counts half.
        reach = np.sqrt(mu)
        by_pair *= np.multiply.outer(0.5 * reach, reach)
        np.fill_diagonal(by_pair, 0.0)
        V *= V
        V += np.multiply.outer(own, own)
        V *= np.multiply.outer(beta * mu, mu)
        V += 1e-6 * beta
        K *= K
        by_delta = (beta * own + 0.5 * w * w * (1.0 - 1.0 / self.s)) * delta - beta
        twice_by_mu = (terms * mu * own) ** 2 + 0.5 * own * (K @ own) + 1e-3
        return _Point(
            x,
            float(0.5 * (self.c @ w) - beta * logs.sum()),
            np.concatenate([by_delta, by_mu, by_pair.ravel()]),
            np.concatenate([beta * ((own * delta) ** 2 + 1.0), beta * twice_by_mu, V.ravel()]),
        )

    def _descend(self, beta: float) -> None:
        """Take the steps of a round, as far as the time goes."""
        now = self._at(self.x, beta)
        seen = deque[tuple[Array, Array, float]](maxlen=REMEMBERED)
        for _ in range(STEPS):
            then = None if now is None or self.expired() else self._stepped(now, seen, beta)
            if then is None or now is None:
                break
            step, change = then.x - now.x, then.slope - now.slope
            along = float(step @ change)
            # A step that says nothing of the curvature is not remembered.
            if along > 1e-12 * float((step @ step) * (change @ change)) ** 0.5:
                seen.append((step, change, along))
            now = then
        if now is not None:
            self.x = now.x

    def _stepped(
        self, now: _Point, seen: deque[tuple[Array, Array, float]], beta: float
    ) -> _Point | None:
        """Return a better point; None if rounding lets none through."""
        first = 2 * self.m
        direction = self._direction(now, seen)
        length = 1.0 / max(float(np.abs(direction[:first]).max()), 1.0)
        for _ in range(HALVINGS):
            x = now.x + length * direction
            x[first:] = np.clip(x[first:], -LIMIT, LIMIT)
            tried = self._at(x, beta)
            allowed = now.value + 1e-4 * float(now.slope @ (x - now.x))
            if tried is not None and tried.value <= allowed:
                return tried
            if self.expired():
                break
            length *= 0.5
        return None

    def _direction(self, now: _Point, seen: deque[tuple[Array, Array, float]]) -> Array:
        """Return a direction that does not leave the limits of the ratios."""
        first = 2 * self.m
        ratios, slope = now.x[first:], now.slope[first:]
        free = np.ones(len(now.x))
        free[first:] = ~((np.abs(ratios) >= LIMIT) & (ratios * slope < 0.0))
        allowed = free * now.slope
        direction = free * _quasi_newton(allowed, now.curvature, seen)
        if direction @ now.slope < 0.0:
            return direction
        return -allowed / now.curvature


def _quasi_newton(slope: Array, curvature: Array, seen: deque[tuple[Array, Array, float]]) -> Array:
    """Return the direction of L-BFGS, with a diagonal as the first guess of the Hessian."""
    q, shares = slope, list[float]()
    for step, change, along in reversed(seen):
        shares.append(float(step @ q) / along)
        q = q - shares[-1] * change
    q = q / curvature
    if seen:
        _, change, along = seen[-1]
        q *= along / float(change @ (change / curvature))
    for (step, change, along), share in zip(seen, reversed(shares), strict=True):
        q += (share - float(change @ q) / along) * step
    return -q
