"""A coupling that goes as far as couplings go: for the root, from which all nodes inherit.

``coupling_method`` takes a few costly steps, to close one node.  Where monomials are nearly
collinear it stalls: on concrete (degree 3, 12 terms) the gap of the root falls from 45 to 37 %,
and the best coupling leaves 24 %.  Here thousands of cheap steps are taken instead, on the same
function: with shares s held fixed and R = H - diag(delta) - K,

    1/2 b'(R + diag(delta/s))^-1 b - beta (logdet R + sum log delta),

over log delta, log mu and the ratios t_ij within -1..1, at which three quarters of them end.  A
step is a quasi-Newton one (L-BFGS) within these limits.  Two factorisations and an inverse yield
the value and all derivatives, with W = ww' + 2 beta R^-1 and w = (R + diag(delta/s))^-1 b:

    by K_ij: W_ij,   by delta_j: beta V_jj + w_j^2 (1 - 1/s_j) / 2 - beta/delta_j,   V = R^-1,

and so does the diagonal of the second derivatives, V_ii V_jj + V_ij^2 for a pair, by which the
directions are scaled: without that hardly anything moves.  After a round of steps ``sharpen`` finds
the best diagonal that goes with the coupling so far, and with it the shares of the next round, in
which beta is smaller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.problem.coupling_method import Coupled
from polysharp.problem.diagonal import Sharpened, Start, factor_inverse, sharpen
from polysharp.typing import Array

FIRST_REACH = 0.6  # of the diagonal, that goes to pairs at the start
LEAST_REACH, WARM_WEIGHT = 0.01, 0.2
FIRST_WEIGHT, LEAST_WEIGHT, FALLS = 1.0, 0.04, 0.7  # of the barrier, from round to round
STEPS = 25  # of a round
REMEMBERED = 10  # steps that a direction is made of
LIMIT = 0.9999  # of a ratio
LEAST_SHARE, MOST_SHARE = 1e-4, 0.999
LATELY = 6  # rounds by which it is judged whether it goes on
LEAST_PROGRESS = 0.04  # of what is missing, in these rounds
MOST_ROUNDS = 80


class _Point(NamedTuple):
    """Where the method stands; x has log delta, log mu and all ratios end to end."""

    x: Array
    value: float
    slope: Array
    curvature: Array


def far_coupling(
    H: Array,
    b: Array,
    budget: int,
    start: Start,
    *,
    K: Array | None = None,
    aim: float,
    expired: Callable[[], bool] = lambda: False,
) -> Coupled | None:
    """Return a coupling for 1 < L < m monomials to choose; None where the start is not feasible.

    Ends when the gain is at most ``aim``, or comes hardly closer to it.
    """
    with np.errstate(all="ignore"):
        method = _FarMethod(H, b, budget, start, K, aim)
        while method.going and not expired():
            method.round()
        return method.found


class _FarMethod:
    """State of the method, in coordinates in which H has unit diagonal."""

    def __init__(
        self, H: Array, b: Array, budget: int, start: Start, K: Array | None, aim: float
    ) -> None:
        self.L, self.m, self.aim = budget, len(b), aim
        self.root = np.sqrt(np.diagonal(H))
        self.C, self.c = H / np.multiply.outer(self.root, self.root), b / self.root
        self.diagonal = slice(None, None, self.m + 1)
        self.s = np.clip(start.shares, LEAST_SHARE, MOST_SHARE)
        self.found: Coupled | None = None
        self.gains, self.steps = list[float](), 0
        delta = 0.5 * start.inside / self.root**2
        mu = FIRST_REACH / (budget - 1.0) * delta
        ratios, self.weight = np.zeros_like(H), FIRST_WEIGHT
        if K is not None:
            mu = np.maximum(np.diagonal(K) / (budget - 1.0) / self.root**2, LEAST_REACH * mu)
            reach = self.root * np.sqrt(mu)
            ratios = np.clip(K / np.multiply.outer(reach, reach), -LIMIT, LIMIT)
            ratios.ravel()[self.diagonal] = 0.0
            delta, self.weight = 0.5 * start.delta / self.root**2, WARM_WEIGHT
        self.x = np.concatenate([np.log(delta), np.log(mu), ratios.ravel()])
        self._look()

    @property
    def going(self) -> bool:
        """Whether the next round may be worth it."""
        if self.found is None or self.found.gain <= self.aim or len(self.gains) > MOST_ROUNDS:
            return False
        missing = self.found.gain - self.aim
        before = self.gains[-1 - min(LATELY, len(self.gains) - 1)]
        return len(self.gains) <= LATELY or before - self.found.gain > LEAST_PROGRESS * missing

    def round(self) -> None:
        """Take some steps at one weight of the barrier, then look how far that goes."""
        assert self.found is not None
        self._descend(self.weight * (self.found.gain - self.aim) / self.m)
        self.weight = max(self.weight * FALLS, LEAST_WEIGHT)
        self._look()

    def _look(self) -> None:
        """Find the best diagonal for the coupling as it is, and the shares."""
        R, delta, mu, _ = self._matrices(self.x)
        R.ravel()[self.diagonal] += delta
        near = Start(0.98 * delta, 0.5 * delta, self.s)
        result = sharpen(R, self.c, self.L, near, aim=self.aim)
        if result is not None:
            self.s = np.clip(0.5 * (self.s + result.shares), LEAST_SHARE, MOST_SHARE)
            if self.found is None or result.gain < self.found.gain:
                self._keep(result, mu)
        if self.found is not None:
            self.gains.append(self.found.gain)

    def _keep(self, result: Sharpened, mu: Array) -> None:
        square, ratios = self.root**2, self.x[2 * self.m :].reshape(self.m, self.m)
        self.found = Coupled(
            result.gain, mu * square, ratios.copy(), result.delta * square, result.shares,
            self.steps,
        )  # fmt: skip

    def _matrices(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return R, delta, mu and K off its diagonal."""
        delta, mu = np.exp(x[: 2 * self.m]).reshape(2, self.m)
        reach = np.sqrt(mu)
        K = x[2 * self.m :].reshape(self.m, self.m) * reach
        K *= reach[:, None]
        R = self.C - K
        R.ravel()[self.diagonal] -= delta + (self.L - 1.0) * mu
        return R, delta, mu, K

    def _at(self, x: Array, beta: float) -> _Point | None:
        """Return the value with its derivatives; None where R is not positive definite."""
        self.steps += 1
        R, delta, mu, K = self._matrices(x)
        factor, info = dpotrf(R.T, lower=1)
        if info:
            return None
        R.ravel()[self.diagonal] += delta / self.s
        w = dpotrs(dpotrf(R.T, lower=1, clean=0, overwrite_a=1)[0], self.c, lower=1)[0]
        V = factor_inverse(factor)
        own, reach, terms = np.diagonal(V).copy(), np.sqrt(mu), self.L - 1.0
        logs = 2.0 * np.log(np.diagonal(factor)).sum() + x[: self.m].sum()
        by_pair, pairs = V * (2.0 * beta), V
        by_pair += np.multiply.outer(w, w)
        by_mu = 0.5 * (terms * np.diagonal(by_pair) * mu + np.einsum("ij,ij->i", by_pair, K))
        # Every pair stands there twice, and counts half each time.
        by_pair *= 0.5 * reach
        by_pair *= reach[:, None]
        by_pair.ravel()[self.diagonal] = 0.0
        pairs *= V
        pairs += np.multiply.outer(own, own)
        pairs *= beta * mu
        pairs *= mu[:, None]
        pairs += 1e-6 * beta
        K *= K
        by_delta = (beta * own + 0.5 * w * w * (1.0 - 1.0 / self.s)) * delta - beta
        return _Point(
            x,
            0.5 * float(self.c @ w) - beta * float(logs),
            np.concatenate([by_delta, by_mu, by_pair.ravel()]),
            np.concatenate(
                [
                    beta * ((own * delta) ** 2 + 1.0),
                    beta * ((terms * mu * own) ** 2 + 0.5 * own * (K @ own) + 1e-3),
                    pairs.ravel(),
                ]
            ),
        )

    def _descend(self, beta: float) -> None:
        """Take the steps of a round."""
        now = self._at(self.x, beta)
        seen = deque[tuple[Array, Array, float]](maxlen=REMEMBERED)
        for _ in range(STEPS):
            then = None if now is None else self._step(now, seen, beta)
            if now is None or then is None:
                break
            moved, change = then.x - now.x, then.slope - now.slope
            along = float(moved @ change)
            if along > 1e-12 * np.sqrt(float(moved @ moved) * float(change @ change)):
                seen.append((moved, change, along))
            now = then
        if now is not None:
            self.x = now.x

    def _step(
        self, now: _Point, seen: deque[tuple[Array, Array, float]], beta: float
    ) -> _Point | None:
        """Return a point that is better; None where rounding lets none through."""
        ratios, slope = now.x[2 * self.m :], now.slope[2 * self.m :]
        held = np.zeros(len(now.x), dtype=bool)  # at a limit, and would leave it
        held[2 * self.m :] = (np.abs(ratios) >= LIMIT) & (ratios * slope < 0.0)
        direction = _towards(np.where(held, 0.0, now.slope), now.curvature, seen)
        direction[held] = 0.0
        if not float(direction @ now.slope) < 0.0:
            direction = np.where(held, 0.0, -now.slope / now.curvature)
        length = 1.0 / max(1.0, float(np.abs(direction[: 2 * self.m]).max()))
        while length > 1e-10:
            x = now.x + length * direction
            np.clip(x[2 * self.m :], -LIMIT, LIMIT, out=x[2 * self.m :])
            then = self._at(x, beta)
            if then is not None:
                allowed = now.value + 1e-4 * float(now.slope @ (x - now.x))
                if then.value <= allowed:
                    return then
            length *= 0.5
        return None


def _towards(slope: Array, curvature: Array, seen: deque[tuple[Array, Array, float]]) -> Array:
    """Return the direction of L-BFGS, with a diagonal as the first guess of the Hessian."""
    q, shares = slope, list[float]()
    for moved, change, along in reversed(seen):
        shares.append(float(moved @ q) / along)
        q = q - shares[-1] * change
    q = q / curvature
    if seen:
        _, change, along = seen[-1]
        q *= along / float(change @ (change / curvature))
    for (moved, change, along), share in zip(seen, reversed(shares), strict=True):
        q += (share - float(change @ q) / along) * moved
    return -q
