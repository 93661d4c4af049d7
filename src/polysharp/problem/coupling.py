"""Curvature that only supports of few terms have: a matrix that vectors of L terms never feel.

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

Nothing has to be proved about K itself; R >= 0 is what ``bounds.semidefinite`` proves.

**Method.**  The primal-dual method of ``diagonal`` with mu_j = a_j^2 and all K_ij as further
variables, each pair kept within its limits by -log(mu_i mu_j - K_ij^2).  With W = ww' + 2Y, Y the
dual of R >= 0, the best K_ij at barrier weight beta is known,

    K_ij = -W_ij M / (beta + sqrt(beta^2 + W_ij^2 M)),     M = mu_i mu_j,

and Newton's equations are linearised there, where they are symmetric and positive definite.  They
have m^2/2 unknowns and one part that couples them, N -> R^-1 N Y: conjugate gradients need two
products of m x m matrices for each iteration.  The directions are rough, and so are the results;
what comes out is a proposal, rounded to a byte for each pair, and ``sharpen`` finds the best
diagonal that goes with it.

Where twenty of 160 monomials may join, there is little to gain; where six may, gaps of ten per cent
at a node vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polysharp.problem.diagonal import (
    FIRST_CENTRE,
    SHRINKS,
    Start,
    factor_inverse,
    longest_step,
    slacks,
    top_gain,
)
from polysharp.typing import Array, Indices

STEPS = 128.0  # ratios are whole numbers of such steps
MOST = 127  # of them
PAIR_WEIGHT = 0.2  # of the barrier of a pair: there are m/2 times as many pairs as monomials
NEAR_LIMIT = 0.999  # of a pair's limit, that it may reach
FIRST_REACH = 0.1  # of the diagonal, that goes to pairs at the start
ITERATIONS = 60  # of conjugate gradients for one step
ACCURACY = 1e-4  # at which they end, of the squared residual
STALLED = 0.02  # share of the distance to the aim that PATIENCE steps must gain
PATIENCE = 6


class Coupling(NamedTuple):
    """K over some monomials: their reach a, and the ratios t_ij in steps of 1/128."""

    index: Indices
    reach: Array
    ratios: NDArray[np.int8]

    def matrix(self, among: Indices, free: Any, terms: int) -> Array:
        """Return K over the monomials ``among``, acting on those that are ``free`` alone.

        At most ``terms`` of these join; both lists of monomials are sorted.
        """
        place = np.minimum(np.searchsorted(self.index, among), len(self.index) - 1)
        known = (self.index[place] == among) & free
        reach = np.where(known, self.reach[place], 0.0)
        K: Array = self.ratios[place[:, None], place] * (1.0 / STEPS)
        K *= reach
        K *= reach[:, None]
        K.ravel()[:: len(among) + 1] = (terms - 1.0) * reach * reach
        return K

    def times(self, factor: float) -> Coupling:
        """Return a multiple of K."""
        return self._replace(reach=np.sqrt(factor) * self.reach)


class Coupled(NamedTuple):
    """A proposal: mu and K as the method left them, and where the best diagonal may be near."""

    gain: float
    mu: Array
    K: Array
    delta: Array
    shares: Array
    steps: int

    def coupling(self, index: Indices) -> Coupling:
        """Return K rounded to whole steps."""
        reach = np.sqrt(self.mu)
        ratios = np.rint(self.K * (STEPS / np.multiply.outer(reach, reach)))
        return Coupling(index, reach, np.clip(ratios, -MOST, MOST).astype(np.int8))


def couple(
    H: Array,
    b: Array,
    budget: int,
    start: Start,
    *,
    K: Array | None = None,
    aim: float = -np.inf,
    max_steps: int = 40,
    expired: Callable[[], bool] | None = None,
) -> Coupled | None:
    """Return a coupling for 1 < L < m monomials to choose; None where the start is not feasible.

    It goes on from K, if there is one.  Ends when the gain is at most ``aim``, or hardly falls.
    """
    with np.errstate(all="ignore"):
        method = _Method(H, b, budget, start, K)
        if method.factor is None:
            return None
        seen = [method.gain]
        while method.gain > aim and method.steps < max_steps:
            if (expired is not None and expired()) or not method.step():
                break
            seen.append(method.gain)
            past = seen[-PATIENCE - 1] if len(seen) > PATIENCE else np.inf
            if past - method.gain < STALLED * (method.gain - aim):
                break
        return method.result()


class _Step(NamedTuple):
    """A direction, or a residual: of delta, nu, mu and the pairs."""

    delta: Array
    nu: float
    mu: Array
    K: Array

    def dot(self, other: _Step) -> float:
        """Return the inner product; of every pair K holds two copies."""
        return float(
            self.delta @ other.delta
            + self.nu * other.nu
            + self.mu @ other.mu
            + 0.5 * np.vdot(self.K, other.K)
        )

    def plus(self, t: float, other: _Step) -> _Step:
        return _Step(*(mine + t * its for mine, its in zip(self, other, strict=True)))

    def over(self, scale: _Step) -> _Step:
        return _Step(*(mine / its for mine, its in zip(self, scale, strict=True)))


class _Method:
    """State of the method, in coordinates in which H has unit diagonal."""

    def __init__(self, H: Array, b: Array, budget: int, start: Start, K: Array | None) -> None:
        self.L, self.m = budget, len(b)
        self.root = np.sqrt(np.diagonal(H))
        scale = np.multiply.outer(self.root, self.root)
        self.C, self.c = H / scale, b / self.root
        mixed = 0.5 * (start.delta + start.inside) / self.root**2
        if K is None:
            self.K, self.mu = np.zeros_like(self.C), FIRST_REACH / (budget - 1.0) * mixed
        else:
            self.K = K / scale
            self.mu = np.diagonal(self.K) / (budget - 1.0) + 1e-3 / (budget - 1.0) * mixed
            self.K.ravel()[:: self.m + 1] = 0.0
        self.delta = mixed
        s = np.clip(0.75 * start.shares + 0.25 * budget / self.m, 1e-9, 0.97)
        self.s = np.minimum(s * (budget / s.sum()), 0.97)
        self.gain, self.steps, self.factor = np.inf, 0, None
        self.best = self.mu, self.K, self.delta, self.s
        for _ in range(20):
            self.R, self.factor = self._factored(self.delta, self.mu, self.K)
            if self.factor is not None:
                break
            self.delta, self.mu, self.K = 0.8 * self.delta, 0.8 * self.mu, 0.8 * self.K
        else:
            return
        self._fit()
        last = self.m - 1 - min(budget, self.m - 1)
        least = 1e-9 * float(self.c @ self.c) / self.m
        self.nu = max(float(np.partition(self.Z, last)[last]), least)
        self.share_of_centre = 0.3
        self._centre(FIRST_CENTRE * self.nu * budget / self.m)
        self._measure()

    def result(self) -> Coupled:
        mu, K, delta, s = self.best
        square = self.root**2
        scale = np.multiply.outer(self.root, self.root)
        return Coupled(self.gain, mu * square, K * scale, delta * square, s, self.steps)

    def _factored(self, delta: Array, mu: Array, K: Array) -> tuple[Array, Any]:
        R = self.C - K
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
            self.gain, self.best = gain, (self.mu, self.K, self.delta, self.s)

    def step(self) -> bool:
        """Take one step; False where rounding lets none through."""
        s, delta, w, r, nu = self.s, self.delta, self.w, self.r, self.nu
        mu, K, V, Y, L, every = (
            self.mu,
            self.K,
            self.V,
            self.Y,
            self.L,
            slice(None, None, self.m + 1),
        )
        R, zeta, eta = self.R, self.zeta, self.eta
        rest, x = 1.0 - s, self.Z - nu
        t, y = slacks(x, self.beta)
        products = float(np.vdot(R, Y) + delta @ zeta + t @ rest + y @ s) + nu * eta
        beta = self.beta = self.share_of_centre * products / (4 * self.m + 1)
        t, y = slacks(x, beta)
        both, k = s * t + rest * y, s * rest
        towards = (beta * (rest - s) + k * x) / both  # ds while x = t - y stays
        k /= both
        near, half = s + towards, 0.5 * r * r
        g_u, a, kr = w - near * r, s / delta, k * r
        d_uu = a + kr * r
        E = np.sqrt(d_uu)
        B = R * E
        B *= E[:, None]
        B.ravel()[every] += 1.0
        B_factor, info = dpotrf(B.T, lower=1, overwrite_a=1)
        if info:
            return False

        def without_N(v: Array) -> Array:
            """Solve (R^-1 + diag(d_uu)) u = v."""
            return np.asarray(R @ (E * dpotrs(B_factor, v / E, lower=1)[0]))

        # Second derivatives of the pairs' barriers, where W would have them.
        W = np.multiply.outer(w, w) + 2.0 * Y
        weight, limit = PAIR_WEIGHT * beta, np.multiply.outer(mu, mu)
        root = weight + np.sqrt(weight * weight + W * W * limit)
        there = -W * limit / root
        inverse = root / (2.0 * weight * limit)  # 1 / (mu_i mu_j - K_ij^2)
        square = weight * inverse * inverse
        p_KK = 2.0 * weight * inverse + 4.0 * there * there * square
        p_Kj = -2.0 * there * square * mu  # by K_ij and mu_i
        p_ij = there * there * square
        p_jj = square * (mu * mu)
        first = weight * inverse * mu
        for part in (there, p_KK, p_Kj, p_ij, p_jj, first):
            part.ravel()[every] = 0.0
        own = p_jj.sum(axis=1)

        ar, kh = a * r, k * half

        def response(N: Array, d_delta: Array, d_nu: float, g: Any = 0.0) -> tuple[Array, Array]:
            """Return dp and the gradient by p where N = diag(...) + dK has been added."""
            moved = N @ w
            e = ar * d_delta + kr * (half * d_delta + d_nu)
            dp = without_N(d_uu * moved - e - g) - moved
            return dp, d_uu * dp + e

        def product(step: _Step) -> _Step:
            """Multiply a direction with the second derivatives."""
            N = step.K.copy()
            N.ravel()[every] = step.delta + (L - 1.0) * step.mu
            dp, by_p = response(N, step.delta, step.nu)
            O = (V @ N) @ Y - np.multiply.outer(by_p, w)
            O += O.T  # twice the symmetric part
            on_diagonal = 0.5 * np.diagonal(O)
            dearer = r * dp + half * step.delta + step.nu
            O += p_KK * step.K
            O += p_Kj * step.mu[:, None]
            O += (p_Kj * step.mu[:, None]).T
            O.ravel()[every] = 0.0
            by_delta = on_diagonal + ar * (dp + r * step.delta) + kh * dearer
            by_mu = (L - 1.0) * on_diagonal + own * step.mu + p_ij @ step.mu
            by_mu += np.einsum("ij,ij->i", p_Kj, step.K)
            by_nu = float(k @ dearer) + eta / nu * step.nu
            return _Step(by_delta + zeta / delta * step.delta, by_nu, by_mu, O)

        # The gradient, its sign turned.
        none = np.zeros_like(R)
        dp, by_p = response(none, np.zeros(self.m), 0.0, g_u)
        G = beta * V + 0.5 * np.multiply.outer(w, w) - np.multiply.outer(w, g_u + by_p)
        G = 0.5 * (G + G.T)
        on_diagonal, beyond = np.diagonal(G), K - there
        by_K = 2.0 * G - W + p_KK * beyond
        by_K.ravel()[every] = 0.0
        downhill = _Step(
            near * half + beta / delta - on_diagonal - (ar + kh * r) * dp,
            float(near.sum()) - L + beta / nu - float(kr @ dp),
            first.sum(axis=1) - (L - 1.0) * on_diagonal - np.einsum("ij,ij->i", p_Kj, beyond),
            -by_K,
        )
        v, y_own = np.diagonal(V), np.diagonal(Y)
        crossed = np.multiply.outer(v, y_own)
        sizes = p_KK + crossed + crossed.T + 2.0 * V * Y
        sizes.ravel()[every] = 1.0
        scale = _Step(
            v * y_own + zeta / delta + a * (r - w) ** 2 + k * (half - r * w) ** 2,
            float(k.sum()) + eta / nu,
            (L - 1.0) ** 2 * v * y_own + own,
            sizes,
        )
        step = _conjugate_gradients(product, downhill, scale)
        N = step.K.copy()
        N.ravel()[every] = step.delta + (L - 1.0) * step.mu
        dp, _ = response(N, step.delta, step.nu, g_u)
        d_s = towards - k * (r * dp + half * step.delta + step.nu)
        if not np.isfinite(float(step.delta.sum() + step.mu.sum() + d_s.sum())):
            return False
        return self._advance(step, N, d_s)

    def _advance(self, step: _Step, N: Array, d_s: Array) -> bool:
        """Go along a direction while all cones allow, primal and dual each as far as they can."""
        beta, delta, nu, mu = self.beta, self.delta, self.nu, self.mu
        spread = (self.V @ N) @ self.Y
        d_Y = 0.5 * (spread + spread.T) + beta * self.V - self.Y
        d_zeta = (beta - self.zeta * step.delta) / delta - self.zeta
        d_eta = (beta - self.eta * step.nu) / nu - self.eta
        primal = longest_step(step.nu / nu, step.delta / delta, step.mu / mu)
        dual = longest_step(
            d_eta / self.eta, d_s / self.s, d_s / (self.s - 1.0), d_zeta / self.zeta
        )
        for _ in range(40):
            longer = mu + primal * step.mu
            limit = NEAR_LIMIT * np.sqrt(np.multiply.outer(longer, longer))
            # A pair at its limit stops there; the others go on.
            K = np.clip(self.K + primal * step.K, -limit, limit)
            R, factor = self._factored(delta + primal * step.delta, longer, K)
            if factor is not None:
                break
            primal *= SHRINKS
        else:
            return False
        for _ in range(12):
            Y = self.Y + dual * d_Y
            if not dpotrf(Y.T, lower=1, clean=0)[1]:
                break
            dual *= SHRINKS
        else:
            dual = 0.0
        self.delta, self.nu = delta + primal * step.delta, nu + primal * step.nu
        self.mu, self.K, self.R, self.factor = longer, K, R, factor
        if dual > 0.0:
            self.V = factor_inverse(factor)
            self.Y, self.zeta = Y, self.zeta + dual * d_zeta
            self.eta, self.s = self.eta + dual * d_eta, self.s + dual * d_s
        else:  # Y has lost its definiteness to rounding: begin again from the primal point
            self._centre(beta)
        shortest = min(primal, dual)
        self.share_of_centre = 0.1 if shortest > 0.8 else 0.3 if shortest > 0.4 else 0.6
        self._fit()
        self.steps += 1
        self._measure()
        return bool(np.isfinite(self.w.sum()))


def _conjugate_gradients(product: Callable[[_Step], _Step], right: _Step, scale: _Step) -> _Step:
    """Solve roughly, with ``scale`` as what the matrix is like."""
    found = right.plus(-1.0, right)
    residual, towards = right, right.over(scale)
    size = first = residual.dot(towards)
    for _ in range(ITERATIONS):
        image = product(towards)
        curvature = towards.dot(image)
        if not curvature > 0.0:
            break
        found = found.plus(size / curvature, towards)
        residual = residual.plus(-size / curvature, image)
        scaled = residual.over(scale)
        before, size = size, residual.dot(scaled)
        if not size > ACCURACY * first:
            break
        towards = scaled.plus(size / before, towards)
    return found
