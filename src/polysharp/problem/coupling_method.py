"""A coupling that goes far: the primal-dual method of ``diagonal`` with all pairs as variables.

The further variables are mu_j = a_j^2 and the ratios t_ij of ``coupling``, each pair kept within
its limits by -log(mu_i mu_j - K_ij^2).  With W = ww' + 2Y, Y the dual of R >= 0, the best ratio at
barrier weight beta is known,

    t_ij = -W_ij sqrt(M) / (beta + sqrt(beta^2 + W_ij^2 M)),     M = mu_i mu_j,

and the barrier is expanded there.  Directions x are relative: mu_i changes by mu_i x_i, and K_ij by
sqrt(M) x_ij + K_ij (x_i + x_j) / 2, so that ratios stay where mu alone moves.  Then the second
derivatives of the barrier of a pair are, in units of beta and with e = t^2 / (1 - t^2),

    2 (1 + t^2) / (1 - t^2)^2 by x_ij,    1 + e/2 by x_i,    -e/2 by x_i and x_j,    -e/t across.

Newton's equations have m^2/2 unknowns and one part that couples them, N -> R^-1 N Y: conjugate
gradients need two products of m x m matrices for each iteration.  The directions are rough, and so
are the results; what comes out is a proposal, rounded to a byte for each pair, and ``sharpen``
finds the best diagonal that goes with it.

Tried, and no better: cutting planes, one sign pattern of W at a time (a tenth of the way in fifteen
rounds); conjugate gradients that go on until directions are accurate, and the large modes of R^-1
dealt with apart (fewer iterations, the same steps, more time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.problem.coupling import Coupling
from polysharp.problem.diagonal import (
    FIRST_CENTRE,
    Start,
    factor_inverse,
    longest_step,
    slacks,
    top_gain,
)
from polysharp.typing import Array, Indices

PAIR_WEIGHT = 0.07  # of the barrier of a pair: there are m/2 times as many pairs as monomials
NEAR_LIMIT = 0.999  # of a pair's limit, that it may reach
FIRST_REACH = 2.0  # of the diagonal, that goes to pairs at the start
ITERATIONS = 10  # of conjugate gradients for one step
FAST, MIDDLE, SLOW = 0.15, 0.3, 0.6  # shares of the centre after steps of such lengths
SHRINKS = 0.85  # a step that leaves the cone is shortened by this factor
JAMMED, SHORTEST = 0.15, 1e-4  # shares of a step
FIRST_LOOK, LATELY = 8, 4  # steps before it is judged, and those by which it is


class Coupled(NamedTuple):
    """A proposal: mu and ratios as the method left them, and a diagonal near the best one."""

    gain: float
    mu: Array
    ratios: Array
    delta: Array
    shares: Array
    steps: int

    def coupling(self, index: Indices) -> Coupling:
        """Return the coupling of monomials that it proposes."""
        return Coupling.rounded(index, self.mu, self.ratios)


def couple(
    H: Array,
    b: Array,
    budget: int,
    start: Start,
    *,
    K: Array | None = None,
    aim: float = -np.inf,
    max_steps: int = 24,
    expired: Callable[[], bool] | None = None,
) -> Coupled | None:
    """Return a coupling for 1 < L < m monomials to choose; None where the start is not feasible.

    It goes on from K, if there is one.  Ends when the gain is at most ``aim``, or falls too slowly.
    """
    with np.errstate(all="ignore"):
        method = _CoupledMethod(H, b, budget, start, K)
        if method.factor is None:
            return None
        seen = [method.gain]
        while method.gain > aim and method.steps < max_steps:
            if (expired is not None and expired()) or not method.step():
                break
            seen.append(method.gain)
            # Where it is going, it would not arrive.
            lately = seen[-1 - min(LATELY, method.steps)] - method.gain
            left = (max_steps - method.steps) / LATELY
            if method.steps >= FIRST_LOOK and lately * left < method.gain - aim:
                break
        return method.result()


class _Step(NamedTuple):
    """A direction, or a gradient: of delta, nu, mu (relative) and the ratios."""

    delta: Array
    nu: float
    mu: Array
    pairs: Array

    def dot(self, other: _Step) -> float:
        """Return the inner product; there are two copies of every pair."""
        return float(
            self.delta @ other.delta
            + self.nu * other.nu
            + self.mu @ other.mu
            + 0.5 * np.vdot(self.pairs, other.pairs)
        )

    def plus(self, t: float, other: _Step) -> _Step:
        """Return the sum with t times another."""
        return _Step(
            self.delta + t * other.delta,
            self.nu + t * other.nu,
            self.mu + t * other.mu,
            self.pairs + t * other.pairs,
        )

    def over(self, sizes: _Step) -> _Step:
        """Return it divided by what each entry is measured in."""
        return _Step(
            self.delta / sizes.delta,
            self.nu / sizes.nu,
            self.mu / sizes.mu,
            self.pairs / sizes.pairs,
        )


class _Matrix(NamedTuple):
    """How the matrix that is taken away from R depends on a direction."""

    mu: Array
    limit: Array  # sqrt(mu_i mu_j)
    K: Array
    terms: float  # L - 1

    def along(self, x: _Step) -> Array:
        """Return its change."""
        N = self.limit * x.pairs + self.K * np.add.outer(0.5 * x.mu, 0.5 * x.mu)
        N.ravel()[:: len(self.mu) + 1] = x.delta + self.terms * self.mu * x.mu
        return N

    def gradient(self, N: Array) -> _Step:
        """Return the derivatives of <N, its change>, N being symmetric."""
        own = np.diagonal(N)
        by_mu = self.terms * self.mu * own + np.einsum("ij,ij->i", self.K, N)
        pairs = 2.0 * self.limit * N
        pairs.ravel()[:: len(own) + 1] = 0.0
        return _Step(own, 0.0, by_mu, pairs)


class _Barrier(NamedTuple):
    """The barriers of all pairs, expanded where W would have the ratios."""

    ratios: Array
    by_pair: Array
    across: Array
    by_both: Array
    by_mu: Array
    weight: float

    @classmethod
    def at(cls, W: Array, limit: Array, weight: float) -> _Barrier:
        """Return it for barriers of this weight."""
        root = weight + np.sqrt(weight * weight + np.square(W * limit))
        ratios = -W * limit / root
        inverse = root / (2.0 * weight)  # 1 / (1 - t^2)
        square = ratios * ratios
        e = weight * square * inverse
        parts = ratios, 2.0 * weight * (1.0 + square) * inverse * inverse, ratios * inverse, e
        for part in parts:
            part.ravel()[:: len(W) + 1] = 0.0
        by_mu = weight * (len(W) - 1.0) + 0.5 * e.sum(axis=1)
        return cls(ratios, parts[1], -weight * parts[2], -0.5 * e, by_mu, weight)

    def times(self, x: _Step) -> tuple[Array, Array]:
        """Return the second derivatives times a direction, by mu and by pairs."""
        by_mu = self.by_mu * x.mu + self.by_both @ x.mu
        by_mu += np.einsum("ij,ij->i", self.across, x.pairs)
        return by_mu, self.by_pair * x.pairs + self.across * np.add.outer(x.mu, x.mu)


class _Response:
    """How the price of monomials answers when R changes by N, and delta and nu by some.

    With u = dp + Nw, (R^-1 + diag(d_uu)) u is known, as in ``diagonal``.
    """

    def __init__(self, R: Array, w: Array, r: Array, a: Array, k: Array) -> None:
        self.R, self.w, self.r, self.a, self.k, self.half = R, w, r, a, k, 0.5 * r * r
        self.d_uu = a + k * r * r
        self.E = np.sqrt(self.d_uu)
        B = R * self.E
        B *= self.E[:, None]
        B.ravel()[:: len(w) + 1] += 1.0
        self.factor, self.info = dpotrf(B.T, lower=1, overwrite_a=1)

    def p(self, N: Any, delta: Any, nu: float, g_u: Any = 0.0) -> tuple[Array, Array]:
        """Return dp and the gradient by p."""
        moved = N @ self.w if np.ndim(N) else np.zeros(len(self.w))
        e = self.r * (self.a * delta + self.k * (self.half * delta + nu))
        v = (self.d_uu * moved - e - g_u) / self.E
        u = self.R @ (self.E * dpotrs(self.factor, v, lower=1)[0])
        dp = u - moved
        return dp, self.d_uu * dp + e

    def price(self, dp: Array, delta: Any, nu: float) -> Array:
        """Return by how much prices fall below nu, to first order."""
        return np.asarray(self.r * dp + self.half * delta + nu)


class _CoupledMethod:
    """State of the method, in coordinates in which H has unit diagonal."""

    def __init__(self, H: Array, b: Array, budget: int, start: Start, K: Array | None) -> None:
        self.L, self.m = budget, len(b)
        self.root = np.sqrt(np.diagonal(H))
        scale = np.multiply.outer(self.root, self.root)
        self.C, self.c = H / scale, b / self.root
        self.delta = 0.5 * (start.delta + start.inside) / self.root**2
        self.mu, self.ratios = FIRST_REACH / (budget - 1.0) * self.delta, np.zeros_like(self.C)
        if K is not None:
            self.mu = np.maximum(np.diagonal(K) / (budget - 1.0) / self.root**2, 0.1 * self.mu)
            limit = np.sqrt(np.multiply.outer(self.mu, self.mu))
            self.ratios = np.clip(K / scale / limit, -NEAR_LIMIT, NEAR_LIMIT)
            self.ratios.ravel()[:: self.m + 1] = 0.0
        s = np.clip(0.75 * start.shares + 0.25 * budget / self.m, 1e-9, 0.97)
        self.s = np.minimum(s * (budget / s.sum()), 0.97)
        self.gain, self.steps = np.inf, 0
        self.best = self.mu, self.ratios, self.delta, self.s
        self.factor: Any = None
        for _ in range(20):
            self.R, self.factor = self._factored(self.delta, self.mu, self.ratios)
            self.delta, self.mu = 0.8 * self.delta, 0.8 * self.mu
            if self.factor is not None:
                break
        # Not just inside.
        self.R, self.factor = self._factored(self.delta, self.mu, self.ratios)
        if self.factor is None:
            return
        self._fit()
        last = self.m - 1 - min(budget, self.m - 1)
        least = 1e-9 * float(self.c @ self.c) / self.m
        self.nu = max(float(np.partition(self.Z, last)[last]), least)
        self.share_of_centre = 0.3
        self._centre(FIRST_CENTRE * self.nu * budget / self.m)
        self._measure()

    def result(self) -> Coupled:
        mu, ratios, delta, s = self.best
        square = self.root**2
        return Coupled(self.gain, mu * square, ratios, delta * square, s, self.steps)

    def _factored(self, delta: Array, mu: Array, ratios: Array) -> tuple[Array, Any]:
        R = self.C - np.sqrt(np.multiply.outer(mu, mu)) * ratios
        R.ravel()[:: self.m + 1] -= delta + (self.L - 1.0) * mu
        factor, info = dpotrf(R.T, lower=1)
        return R, None if info else factor

    def _fit(self) -> None:
        """Compute w, r and Z that belong to R, delta and s."""
        A = self.R.copy()
        A.ravel()[:: self.m + 1] += self.delta / self.s
        factor = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)[0]
        self.w = dpotrs(factor, self.c, lower=1)[0]
        self.r = self.w / self.s
        self.Z = 0.5 * self.delta * self.r * self.r

    def _centre(self, beta: float) -> None:
        self.beta, self.V = beta, factor_inverse(self.factor)
        self.Y, self.zeta, self.eta = beta * self.V, beta / self.delta, beta / self.nu

    def _measure(self) -> None:
        gain = 0.5 * float(self.w @ (self.R @ self.w)) + top_gain(self.Z, self.L)
        if gain < self.gain:
            self.gain, self.best = gain, (self.mu, self.ratios, self.delta, self.s)

    def step(self) -> bool:
        """Take one step; False where rounding lets none through."""
        s, delta, w, r, nu, mu = self.s, self.delta, self.w, self.r, self.nu, self.mu
        V, Y, L, zeta, eta = self.V, self.Y, self.L, self.zeta, self.eta
        rest, x = 1.0 - s, self.Z - nu
        t, y = slacks(x, self.beta)
        products = float(np.vdot(self.R, Y) + delta @ zeta + t @ rest + y @ s) + nu * eta
        beta = self.beta = self.share_of_centre * products / (4 * self.m + 1)
        t, y = slacks(x, beta)
        both, k = s * t + rest * y, s * rest
        towards = (beta * (rest - s) + k * x) / both  # ds while x = t - y stays
        k /= both
        near, a = s + towards, s / delta
        ar = a * r
        g_u = w - near * r
        answer = _Response(self.R, w, r, a, k)
        if answer.info:
            return False
        limit = np.sqrt(np.multiply.outer(mu, mu))
        taken = _Matrix(mu, limit, limit * self.ratios, L - 1.0)
        ww = np.multiply.outer(w, w)
        barrier = _Barrier.at(ww + 2.0 * Y, limit, PAIR_WEIGHT * beta)

        def product(x: _Step) -> _Step:
            """Multiply a direction with the second derivatives."""
            N = taken.along(x)
            dp, by_p = answer.p(N, x.delta, x.nu)
            spread = (V @ N) @ Y - np.multiply.outer(by_p, w)
            g = taken.gradient(0.5 * (spread + spread.T))
            dearer = k * answer.price(dp, x.delta, x.nu)
            by_mu, by_pairs = barrier.times(x)
            return _Step(
                g.delta + ar * (dp + r * x.delta) + answer.half * dearer + zeta / delta * x.delta,
                float(dearer.sum()) + eta / nu * x.nu,
                g.mu + by_mu,
                g.pairs + by_pairs,
            )

        dp, by_p = answer.p(0.0, 0.0, 0.0, g_u)
        G = beta * V + 0.5 * ww - np.multiply.outer(w, g_u + by_p)
        g, off = taken.gradient(0.5 * (G + G.T)), self.ratios - barrier.ratios
        weight, half = barrier.weight, answer.half
        downhill = _Step(
            near * half + beta / delta - g.delta - (ar + k * half * r) * dp,
            float(near.sum()) - L + beta / nu - float((k * r) @ dp),
            weight * (self.m - 1.0) - g.mu - np.einsum("ij,ij->i", barrier.across, off),
            limit * (ww + 2.0 * Y) - g.pairs - barrier.by_pair * off,
        )
        downhill.pairs.ravel()[:: self.m + 1] = 0.0
        own = np.diagonal(V) * np.diagonal(Y)
        sizes = _Step(
            own + zeta / delta + a * (r - w) ** 2 + k * (half - r * w) ** 2,
            float(k.sum()) + eta / nu,
            barrier.by_mu + np.square((L - 1.0) * mu) * own,
            barrier.by_pair + np.eye(self.m),
        )
        step = _conjugate_gradients(product, downhill, sizes)
        N = taken.along(step)
        dp, _ = answer.p(N, step.delta, step.nu, g_u)
        d_s = towards - k * answer.price(dp, step.delta, step.nu)
        if not np.isfinite(float(step.delta.sum() + step.mu.sum() + d_s.sum())):
            return False
        return self._advance(step, N, d_s)

    def _moved(self, step: _Step, primal: float) -> tuple[Array, Array, Array, Any] | None:
        """Return mu, ratios and R with its factor after a step of some length, if R allows it."""
        mu = self.mu * (1.0 + primal * step.mu)
        # A pair at its limit stops there; the others go on.
        ratios = np.clip(self.ratios + primal * step.pairs, -NEAR_LIMIT, NEAR_LIMIT)
        R, factor = self._factored(self.delta + primal * step.delta, mu, ratios)
        return None if factor is None else (mu, ratios, R, factor)

    def _advance(self, step: _Step, N: Array, d_s: Array) -> bool:
        """Go along a direction while all cones allow, primal and dual each as far as they can."""
        beta, delta, nu = self.beta, self.delta, self.nu
        spread = (self.V @ N) @ self.Y
        d_Y = 0.5 * (spread + spread.T) + beta * self.V - self.Y
        d_zeta = (beta - self.zeta * step.delta) / delta - self.zeta
        d_eta = (beta - self.eta * step.nu) / nu - self.eta
        primal = longest_step(step.nu / nu, step.delta / delta, step.mu)
        rates = d_s / self.s, d_s / (self.s - 1.0), d_zeta / self.zeta
        dual = longest_step(d_eta / self.eta, *rates)
        moved = self._moved(step, primal)
        while moved is None and primal > SHORTEST:
            primal *= SHRINKS
            # Not just inside: there directions lead nowhere.
            if self._moved(step, primal) is not None:
                primal *= SHRINKS
                moved = self._moved(step, primal)
        if moved is None:
            return False
        mu, ratios, R, factor = moved
        Y = self.Y + dual * d_Y
        while dual > SHORTEST and dpotrf(Y.T, lower=1, clean=0)[1]:
            dual *= SHRINKS**2
            Y = self.Y + dual * d_Y
        self.delta, self.nu = delta + primal * step.delta, nu + primal * step.nu
        self.mu, self.ratios, self.R, self.factor = mu, ratios, R, factor
        if dual > SHORTEST:
            self.V = factor_inverse(factor)
            self.Y, self.zeta = Y, self.zeta + dual * d_zeta
            self.eta, self.s = self.eta + dual * d_eta, self.s + dual * d_s
        else:  # Y has lost its definiteness to rounding: begin again from the primal point
            self._centre(beta)
        shortest = min(primal, dual)
        self.share_of_centre = FAST if shortest > 0.8 else MIDDLE if shortest > 0.4 else SLOW
        if shortest < JAMMED:  # far from the centre rough directions lead nowhere
            self._centre(beta)
            self.share_of_centre = 1.0
        self._fit()
        self.steps += 1
        self._measure()
        return bool(np.isfinite(self.w.sum()))


def _conjugate_gradients(product: Callable[[_Step], _Step], right: _Step, sizes: _Step) -> _Step:
    """Solve roughly; ``sizes`` is what the matrix is like."""
    found, residual, towards = right.plus(-1.0, right), right, right.over(sizes)
    size = residual.dot(towards)
    for _ in range(ITERATIONS):
        image = product(towards)
        curvature = towards.dot(image)
        if not curvature > 0.0:
            break
        found = found.plus(size / curvature, towards)
        residual = residual.plus(-size / curvature, image)
        scaled = residual.over(sizes)
        before, size = size, residual.dot(scaled)
        towards = scaled.plus(size / before, towards)
    return found
