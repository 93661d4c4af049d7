"""The diagonal that makes a relaxation as tight as a diagonal can make it.

H is the Schur complement of G + lam I on the free monomials once those that are in have been
eliminated, b the rest of q, L the number of terms that may still join.  For any delta > 0 with
R = H - diag(delta) positive semidefinite and any p, no L free monomials gain more than

    1/2 p'R^-1 p + top_L(Z),    Z_j = (b_j - p_j)^2 / (2 delta_j),

which is convex in (delta, p) together.  Its least value is a semidefinite programme; entries of the
best delta often lie below lam (a third to two thirds of them on real tables).

**Method.**  A primal-dual interior-point method.  The dual variables are shares s in [0, 1] with
sum s <= L (of the maximum over L monomials) and a matrix Y (of R >= 0); for given (delta, s) the
best p is R w with (R + diag(delta/s)) w = b, and is recomputed after every step.  With
r = (b - p)/delta, u = dp + w o d(delta), the Newton equations need matrices of size m x m only:

    R,   I + E R E  with E^2 = s/delta + k r^2,   R^-1 o Y + diag + f (I + E R E)^-1 f.

Every step yields a bound, and the dual variables yield the value that no diagonal can beat; the
method ends when the aim is reached, or the two are close compared with the distance to the aim:
about 15 steps from scratch, 4 to 8 from the parent's solution.

The result is a proposal: ``subproblem.semidefinite`` proves it or not.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from polysharp.typing import Array

OLD_DIAGONAL = 0.95  # weight of the parent's diagonal in a start; the rest is the interior one
OLD_SHARES = 0.75  # weight of the parent's shares; the rest is spread evenly
INSIDE = 0.95  # how much of the way to the boundary a step may go
FIRST_CENTRE = 0.3  # first barrier weight, in units of nu L / m
SHRINKS = 0.75  # a step that leaves the cone is shortened by this factor
FIXED_RIDGE = 1e-6  # of lam, for monomials that are in: none is best, but a ridge is positive
LIKELY = 0.2  # shares from here on are candidates for branching
INWARDS = (1e-9, 1e-6, 1e-4, 1e-2, 0.2)  # ways to the interior that a diagonal goes to be proved


class DiagonalStart(NamedTuple):
    """The start of the method: a feasible diagonal, one well inside, and shares."""

    delta: Array
    inside: Array
    shares: Array

    def among(self, J: Any) -> DiagonalStart:
        """Return the start for some of the monomials."""
        return DiagonalStart(self.delta[J], self.inside[J], self.shares[J])


class BestDiagonal(NamedTuple):
    """A diagonal, the coefficients w = R^-1 p and the shares that go with it."""

    gain: float  # the most that L free monomials can gain, not rounded
    least: float  # no diagonal can bring the gain below this
    delta: Array
    w: Array
    shares: Array
    steps: int


def first_start(H: Array, budget: int) -> DiagonalStart | None:
    """Return a start from nothing: the largest multiple of 1/(H^-1)_jj; None if H is singular.

    Monomials that others hardly explain get large entries at once.  A multiple of the identity
    would have to serve the most collinear ones, and leaves the method twice as many steps to make.
    """
    size = len(H)
    if not np.all(np.diagonal(H) > 0.0):  # rounding has left nothing of a monomial
        return None
    root = np.sqrt(np.diagonal(H))
    C = H / np.multiply.outer(root, root)
    factor, info = dpotrf(C, lower=1, clean=0)
    if info:
        return None
    inverse = np.sqrt(np.diagonal(dpotri(factor, lower=1)[0]))
    scaled = C * np.multiply.outer(inverse, inverse)
    level = float(np.linalg.eigvalsh(scaled)[0]) if np.isfinite(scaled).all() else 0.0
    if not level > 0.0:
        return None
    delta = level * (root / inverse) ** 2
    return DiagonalStart(0.9 * delta, 0.5 * delta, np.full(size, min(1.0, budget / size)))


def best_diagonal(
    H: Array,
    b: Array,
    budget: int,
    start: DiagonalStart,
    *,
    aim: float = -np.inf,
    tol: float = 0.1,
    max_steps: int = 40,
    expired: Callable[[], bool] | None = None,
) -> BestDiagonal | None:
    """Return a diagonal for 0 < L < m monomials to choose; None if the start is not feasible.

    Ends when the gain is at most ``aim``, or when no diagonal could bring it closer to the aim than
    by a share ``tol`` of the distance.
    """
    with np.errstate(all="ignore"):
        method = _Method(H, b, budget, start)
        if method.factor is None:
            return None
        while not method.done(aim, tol) and method.steps < max_steps:
            if (expired is not None and expired()) or not method.step():
                break
        return method.result()


class _Method:
    """State of the method, in coordinates in which H has unit diagonal."""

    def __init__(self, H: Array, b: Array, budget: int, start: DiagonalStart) -> None:
        self.L, self.m = budget, len(b)
        self.root = np.sqrt(np.diagonal(H))
        self.C, self.c = H / np.multiply.outer(self.root, self.root), b / self.root
        mixed = OLD_DIAGONAL * start.delta + (1.0 - OLD_DIAGONAL) * start.inside
        self.delta = mixed / self.root**2
        s = OLD_SHARES * start.shares + (1.0 - OLD_SHARES) * budget / self.m
        s = np.clip(s, 1e-9, 0.97)
        self.s = np.minimum(s * (budget / s.sum()), 0.97)
        self.gain, self.least, self.steps = np.inf, -np.inf, 0
        self.best: tuple[Array, Array, Array] = self.delta, np.zeros(self.m), self.s
        self.R, self.factor = self._factored(self.delta)
        if self.factor is None:
            return
        self._fit()
        last = self.m - 1 - min(budget, self.m - 1)
        least = 1e-9 * float(self.c @ self.c) / self.m
        self.nu = max(float(np.partition(self.Z, last)[last]), least)
        self._centre(FIRST_CENTRE * self.nu * budget / self.m)
        self.share_of_centre = 0.3
        self._measure()

    def result(self) -> BestDiagonal:
        delta, w, s = self.best
        return BestDiagonal(
            self.gain, self.least, delta * self.root**2, w / self.root, s, self.steps
        )

    def done(self, aim: float, tol: float) -> bool:
        return self.gain <= aim or self.gain - self.least <= tol * (self.gain - aim)

    def _factored(self, delta: Array) -> tuple[Array, Array | None]:
        R = self.C.copy()
        R.ravel()[:: self.m + 1] -= delta
        factor, info = dpotrf(R.T, lower=1)
        return R, None if info else factor

    def _fit(self) -> None:
        """Compute w, p = R w, r and Z that belong to delta and s."""
        A = self.C.copy()
        A.ravel()[:: self.m + 1] += self.delta * (1.0 / self.s - 1.0)
        factor = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)[0]
        self.w = dpotrs(factor, self.c, lower=1)[0]
        self.r = self.w / self.s  # (c - p) / delta, since c - p = delta w / s
        self.Z = 0.5 * self.delta * self.r * self.r

    def _centre(self, mu: float) -> None:
        """Set the dual variables of R, delta and nu to the central point of barrier weight mu."""
        assert self.factor is not None
        self.mu, self.V = mu, factor_inverse(self.factor)
        self.Y, self.zeta, self.eta = mu * self.V, mu / self.delta, mu / self.nu

    def _measure(self) -> None:
        """Keep the point if it is the best so far, and raise the value that none can beat."""
        w, Y = self.w, self.Y
        Rw = self.R @ w
        gain = 0.5 * float(w @ Rw) + top_gain(self.Z, self.L)
        if gain < self.gain:
            self.gain, self.best = gain, (self.delta, w, self.s)
        # W = ww' + 2Y with s_j W_jj >= w_j^2 is feasible for the dual; its value is c'w - <C, W>/2.
        s, own = self.s * (self.L / max(float(self.s.sum()), self.L)), np.diagonal(Y)
        missing = np.maximum(0.5 * w * w * (1.0 / s - 1.0) - own, 0.0)
        self.RY = float(np.vdot(self.R, Y))
        CY = self.RY + float(self.delta @ own + missing.sum())
        least = float(self.c @ w) - 0.5 * float(w @ (Rw + self.delta * w)) - CY
        self.least = max(self.least, least)

    def step(self) -> bool:
        """Take one Newton step; False if rounding lets none through."""
        s, delta, w, r, nu = self.s, self.delta, self.w, self.r, self.nu
        rest, x = 1.0 - s, self.Z - nu
        t, y = slacks(x, self.mu)
        products = self.RY + float(delta @ self.zeta + t @ rest + y @ s) + nu * self.eta
        mu = self.mu = self.share_of_centre * products / (4 * self.m + 1)
        t, y = slacks(x, mu)
        both = s * t + rest * y
        k = s * rest
        towards = (mu * (rest - s) + k * x) / both  # ds while x = t - y stays
        k /= both
        # Gradients with respect to u, d(delta), d(nu), once s has gone towards its centre.
        near, half = s + towards, 0.5 * r * r
        g_u = w - near * r
        g_delta = w * (0.5 * w - g_u) + mu * (np.diagonal(self.V) - 1.0 / delta) - near * half
        g_nu = self.L - float(near.sum()) - mu / nu
        # Second derivatives: a (u + (r - w) d)^2 + k (q d - r u - d_nu)^2 for each monomial.
        a, q, kr = s / delta, r * w - half, k * r
        d_uu = a + kr * r
        d_ud = a * (r - w) - kr * q
        d_dd = a * k * half * half / d_uu + self.zeta / delta  # the rest without u
        E = np.sqrt(d_uu)
        B = self.R * E
        B *= E[:, None]
        B.ravel()[:: self.m + 1] += 1.0
        B_factor, B_info = dpotrf(B.T, lower=1, overwrite_a=1)
        f = d_ud / E
        S = factor_inverse(B_factor)
        S *= f
        S *= f[:, None]
        S += self.V * self.Y
        S.ravel()[:: self.m + 1] += d_dd
        S_factor, S_info = dpotrf(S.T, lower=1, clean=0, overwrite_a=1)
        if B_info or S_info:
            return False

        def without_delta(v: Array) -> Array:
            """Solve (R^-1 + diag(d_uu)) u = v."""
            solved = dpotrs(B_factor, v / E[:, None], lower=1)[0]
            solved *= E[:, None]
            return np.asarray(self.R @ solved)

        # Two right-hand sides: the gradient, and the border of nu.
        border_u, border_d = kr, -k * q
        u = without_delta(-np.array((g_u, border_u)).T)
        right = -np.array((g_delta, border_d)).T - d_ud[:, None] * u
        d = dpotrs(S_factor, right, lower=1)[0]
        u -= without_delta(d_ud[:, None] * d)
        top, below = border_u @ u + border_d @ d
        d_nu = float((-g_nu - top) / (k.sum() + self.eta / nu + below))
        d_delta, d_u = d[:, 0] + d_nu * d[:, 1], u[:, 0] + d_nu * u[:, 1]
        d_s = towards + k * (q * d_delta - r * d_u - d_nu)
        if not isfinite(float(d_delta.sum() + d_s.sum())):
            return False
        return self._advance(d_delta, d_nu, d_s)

    def _advance(self, d_delta: Array, d_nu: float, d_s: Array) -> bool:
        """Go along a direction while all cones allow, primal and dual each as far as they can."""
        mu, delta, nu = self.mu, self.delta, self.nu
        spread = (self.V * d_delta) @ self.Y
        d_Y = spread + spread.T
        d_Y *= 0.5
        d_Y += mu * self.V
        d_Y -= self.Y
        d_zeta = (mu - self.zeta * d_delta) / delta - self.zeta
        d_eta = (mu - self.eta * d_nu) / nu - self.eta
        primal = longest_step(d_nu / nu, d_delta / delta)
        dual = longest_step(
            d_eta / self.eta, d_s / self.s, d_s / (self.s - 1.0), d_zeta / self.zeta
        )
        for _ in range(40):
            R, factor = self._factored(delta + primal * d_delta)
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
        self.delta, self.nu = delta + primal * d_delta, nu + primal * d_nu
        self.R, self.factor = R, factor
        if dual > 0.0:
            self.V = factor_inverse(factor)
            self.Y, self.zeta = Y, self.zeta + dual * d_zeta
            self.eta, self.s = self.eta + dual * d_eta, self.s + dual * d_s
        else:  # Y has lost its definiteness to rounding: begin again from the primal point
            self._centre(mu)
        shortest = min(primal, dual)
        self.share_of_centre = 0.1 if shortest > 0.8 else 0.3 if shortest > 0.4 else 0.6
        self._fit()
        self.steps += 1
        self._measure()
        return isfinite(float(self.w.sum()))


def top_gain(Z: Array, count: int) -> float:
    """Return the sum of the ``count`` largest prices."""
    if count >= len(Z):
        return float(Z.sum())
    return float(np.partition(Z, len(Z) - count)[len(Z) - count :].sum())


def factor_inverse(factor: Array) -> Array:
    """Return the inverse of a matrix from its lower factor, with zeros above."""
    lower = dpotri(factor, lower=1)[0]
    inverse: Array = lower + lower.T
    inverse.ravel()[:: len(lower) + 1] *= 0.5
    return inverse


def slacks(x: Array, mu: float) -> tuple[Array, Array]:
    """Return t and t - x for the t > max(0, x) with mu/t + mu/(t - x) = 1."""
    size = abs(x)
    less = mu + 2.0 * mu * mu / (np.hypot(x, 2.0 * mu) + size)
    above = 0.5 * (x + size)
    return less + above, less + (size - above)


def longest_step(rate: float, *rates: Array) -> float:
    """Return the longest step, at most 1, that keeps values positive which change at such rates."""
    fastest = -min(rate, *(float(own.min()) for own in rates))
    return min(1.0, INSIDE / fastest) if fastest > 0.0 else 1.0
