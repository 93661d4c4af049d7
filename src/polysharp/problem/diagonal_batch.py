"""The method of ``diagonal`` for many nodes at once, in batches of PyTorch tensors.

Nodes of about the same size go together, padded to the largest with

    H_jj = 1,   b_j = 0,   delta_j = s_j = 1/2,

which leaves w_j = r_j = Z_j = 0 and no step along j; sums leave these entries out.  Nodes that are
finished, or whose next step rounding does not let through, drop out of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch

from polysharp.problem.diagonal import (
    FIRST_CENTRE,
    INSIDE,
    OLD_DIAGONAL,
    OLD_SHARES,
    SHRINKS,
    Sharpened,
    slacks,
)
from polysharp.problem.stacks import Nodes, TorchStacks, row_sums, times

STACKS = TorchStacks()
STILL_WORTH = 0.8  # share of a batch that is left when the others are dropped


class Methods:
    """State of the method (see ``diagonal``), a row per node, in units of unit diagonals.

    Vectors are (nodes, m), numbers (nodes, 1), matrices (nodes, m, m).  The best points are kept
    for all nodes that were begun, the rest for those at work.
    """

    AT_WORK = (
        *("place", "real", "L", "m", "aim", "C", "c", "delta", "s", "R", "V", "Y", "w", "r", "Z"),
        *("mu", "nu", "zeta", "eta", "RY", "centring", "gain", "least"),
    )

    def __init__(self, nodes: Nodes) -> None:
        H, b, real, self.L, self.aim, start, K = nodes
        H = H - K if K is not None else H.clone()
        self.root = diagonal_of(H).clamp(min=1e-300).sqrt()
        self.C = H.div_(self.root[:, :, None]).div_(self.root[:, None, :])
        self.c, self.real = b / self.root, real
        self.m, self.place = row_sums(real), torch.arange(len(b), device=b.device)
        self.sizes = [int(m) for m in self.m[:, 0].tolist()]
        mixed = OLD_DIAGONAL * start.delta + (1.0 - OLD_DIAGONAL) * start.inside
        self.delta = torch.where(real > 0.0, mixed / self.root**2, 0.5)
        s = (OLD_SHARES * start.shares + (1.0 - OLD_SHARES) * self.L / self.m).clamp(1e-9, 0.97)
        s = (s * (self.L / row_sums(s * real))).clamp(max=0.97)
        self.s = torch.where(real > 0.0, s, 0.5)
        self.best = [self.delta.clone(), torch.zeros_like(s), self.s.clone()]
        none = torch.full_like(self.L, np.inf)
        self.gain, self.least, self.centring = none, -none, torch.full_like(none, 0.3)
        self.gains, self.leasts, self.steps = none.clone(), -none, torch.zeros_like(none)
        self.R, factor, info = _factored(self.C, self.delta)
        sound = (info == 0) & ((self.c**2).sum(1) > 0.0)
        self._keep(sound)
        self.V = STACKS.inverse(factor[sound])
        if not len(self.place):
            return
        self._fit()
        last = torch.minimum(self.L, self.m - 1.0).long()
        nu = torch.where(self.real > 0.0, self.Z, -1.0).sort(dim=1, descending=True)[0]
        self.nu = torch.maximum(nu.gather(1, last), 1e-9 * row_sums(self.c**2) / self.m)
        self.mu = FIRST_CENTRE * self.nu * self.L / self.m
        self.Y, self.zeta, self.eta = self._central()
        self._measure()

    def run(self, tol: float, max_steps: int, expired: Callable[[], bool]) -> None:
        """Take steps until all nodes are finished."""
        for _ in range(max_steps):
            if not len(self.place):
                return
            close = self.gain - self.least <= tol * (self.gain - self.aim)
            left = ~((self.gain <= self.aim) | close)[:, 0]
            count = int(left.sum())
            if count == 0 or expired():
                return
            if count <= STILL_WORTH * len(left):
                self._keep(left)
            self._step()

    def answers(self) -> list[Sharpened | None]:
        """Return what was found for every node that was begun."""
        delta, w, s = (v.cpu().numpy() for v in self.best)
        root = self.root.cpu().numpy()
        gains, leasts, steps = (v[:, 0].tolist() for v in (self.gains, self.leasts, self.steps))
        found = list[Sharpened | None]()
        for i, m in enumerate(self.sizes):
            d, v, unit = delta[i, :m], w[i, :m], root[i, :m]
            found.append(
                Sharpened(gains[i], leasts[i], d * unit**2, v / unit, s[i, :m], int(steps[i]))
                if gains[i] < np.inf
                else None
            )
        return found

    def _keep(self, which: Any) -> None:
        """Go on with some of the nodes only."""
        for name in self.AT_WORK:
            if hasattr(self, name):
                setattr(self, name, getattr(self, name)[which])

    def _central(self) -> tuple[Any, Any, Any]:
        """Return Y, zeta and eta where the barrier of weight mu has them."""
        return self.mu[:, :, None] * self.V, self.mu / self.delta, self.mu / self.nu

    def _fit(self) -> None:
        """Compute w, p = R w, r and Z that belong to delta and s."""
        A = self.C.clone()
        diagonal_of(A).add_(self.delta * (1.0 / self.s - 1.0))
        self.w = solved(torch.linalg.cholesky_ex(A)[0], self.c[:, :, None])[:, :, 0]
        self.r = self.w / self.s
        self.Z = 0.5 * self.delta * self.r**2

    def _measure(self) -> None:
        """Keep the points that are the best so far, and raise the values that none can beat."""
        w, place = self.w, self.place
        Rw = times(self.R, w)
        ranked = self.Z.sort(dim=1, descending=True)[0].cumsum(1)  # padding is zero
        gain = 0.5 * row_sums(w * Rw) + ranked.gather(1, self.L.long() - 1)
        better = gain < self.gain
        self.gain = torch.where(better, gain, self.gain)
        for kept, now in zip(self.best, (self.delta, w, self.s), strict=True):
            kept[place] = torch.where(better, now, kept[place])
        total = row_sums(self.s * self.real)
        s, own = self.s * (self.L / total).clamp(max=1.0), diagonal_of(self.Y)
        missing = (0.5 * w * w * (1.0 / s - 1.0) - own).clamp(min=0.0)
        padding = (1.0 - self.real) * diagonal_of(self.R) * own
        self.RY = (self.R * self.Y).sum((1, 2))[:, None] - row_sums(padding)
        CY = self.RY + row_sums((self.delta * own + missing) * self.real)
        least = row_sums(self.c * w) - 0.5 * row_sums(w * (Rw + self.delta * w)) - CY
        self.least = torch.fmax(self.least, least)
        self.gains[place], self.leasts[place] = self.gain, self.least

    def _step(self) -> None:
        """Take one Newton step for every node."""
        s, delta, w, r, nu, real = self.s, self.delta, self.w, self.r, self.nu, self.real
        rest = 1.0 - s
        t, y = slacks(self.Z - nu, self.mu, torch.hypot)
        products = self.RY + row_sums((delta * self.zeta + t * rest + y * s) * real) + nu * self.eta
        mu = self.mu = self.centring * products / (4.0 * self.m + 1.0)
        t, y = slacks(self.Z - nu, mu, torch.hypot)
        both = s * t + rest * y
        towards = real * (mu * (rest - s) + s * rest * (t - y)) / both
        k = real * s * rest / both
        near = s + towards
        g_u = w - near * r
        g_delta = (
            0.5 * w**2 + mu * (diagonal_of(self.V) - 1.0 / delta) - 0.5 * near * r**2 - w * g_u
        )
        g_nu = self.L - row_sums(near * real) - mu / nu
        a, q = s / delta, r * w - 0.5 * r * r
        d_uu = a + k * r * r
        d_ud = a * (r - w) - k * r * q
        d_dd = 0.25 * a * k * r**4 / d_uu + self.zeta / delta
        E = d_uu.sqrt()
        B = E[:, :, None] * self.R * E[:, None, :]
        diagonal_of(B).add_(1.0)
        B_root, B_info = torch.linalg.cholesky_ex(B)
        B_root = STACKS.inverse_root(B_root)
        f = d_ud / E
        S = f[:, :, None] * (B_root.mT @ B_root) * f[:, None, :]
        S += self.V * self.Y
        diagonal_of(S).add_(d_dd)
        S_factor, S_info = torch.linalg.cholesky_ex(S)

        def without_delta(v: Any) -> Any:
            """Solve (R^-1 + diag(d_uu)) u = v."""
            return self.R @ (E[:, :, None] * (B_root.mT @ (B_root @ (v / E[:, :, None]))))

        u = without_delta(torch.stack([-g_u, -k * r], dim=2))
        right = torch.stack([-g_delta * real, k * q], dim=2) - d_ud[:, :, None] * u
        d = solved(S_factor, right)
        u -= without_delta(d_ud[:, :, None] * d)
        border = [row_sums(k * (r * u[:, :, i] - q * d[:, :, i])) for i in (0, 1)]
        d_nu = (-g_nu - border[0]) / (row_sums(k) + self.eta / nu + border[1])
        d_delta = d[:, :, 0] + d_nu * d[:, :, 1]
        d_s = towards + k * (q * d_delta - r * (u[:, :, 0] + d_nu * u[:, :, 1]) - d_nu)
        sound = torch.isfinite(d_delta.sum(1) + d_s.sum(1) + d_nu[:, 0])
        sound &= (B_info == 0) & (S_info == 0)
        if not bool(sound.all()):  # rounding lets no step through
            self._keep(sound)
            d_delta, d_nu, d_s = d_delta[sound], d_nu[sound], d_s[sound]
        if len(self.place):
            self._advance(d_delta, d_nu, d_s)

    def _advance(self, d_delta: Any, d_nu: Any, d_s: Any) -> None:
        """Go along directions while all cones allow, primal and dual each as far as they can."""
        mu, delta, nu, zeta, eta = self.mu, self.delta, self.nu, self.zeta, self.eta
        spread = (self.V * d_delta[:, None, :]) @ self.Y
        d_Y = mu[:, :, None] * self.V - self.Y + 0.5 * (spread + spread.mT)
        d_zeta = self.real * (mu / delta - zeta - zeta / delta * d_delta)
        d_eta = mu / nu - eta - eta / nu * d_nu
        primal = _longest_steps(d_delta / delta, d_nu / nu)
        rates = d_s / self.s, d_s / (self.s - 1.0), d_zeta / zeta, d_eta / eta
        dual = _longest_steps(*rates)
        C, R = self.C, torch.empty_like(self.C)
        factor = torch.empty_like(self.C)
        bad = torch.arange(len(delta), device=delta.device)
        for _ in range(40):
            R[bad], factor[bad], info = _factored(C[bad], (delta + primal * d_delta)[bad])
            bad = bad[info > 0]
            if not len(bad):
                break
            primal[bad] *= SHRINKS
        Y, lost = self.Y + dual[:, :, None] * d_Y, torch.arange(len(delta), device=delta.device)
        for _ in range(12):
            lost = lost[torch.linalg.cholesky_ex(Y[lost])[1] > 0]
            if not len(lost):
                break
            dual[lost] *= SHRINKS
            Y[lost] = self.Y[lost] + dual[lost, :, None] * d_Y[lost]
        dual[lost] = 0.0
        self.delta, self.nu = delta + primal * d_delta, nu + primal * d_nu
        self.R, self.V = R, STACKS.inverse(factor)
        self.zeta, self.eta = zeta + dual * d_zeta, eta + dual * d_eta
        self.s, self.Y = self.s + dual * d_s, Y
        if len(lost):  # Y has lost its definiteness to rounding: begin again from the primal point
            central = self._central()
            self.Y[lost], self.zeta[lost], self.eta[lost] = (v[lost] for v in central)
        shortest = torch.minimum(primal, dual)
        self.centring = torch.where(shortest > 0.8, 0.1, torch.where(shortest > 0.4, 0.3, 0.6))
        if len(bad):
            sound = torch.ones_like(nu[:, 0], dtype=torch.bool)
            sound[bad] = False
            self._keep(sound)
        if len(self.place):
            self._fit()
            self.steps[self.place] += 1.0
            self._measure()


def _longest_steps(*rates: Any) -> Any:
    """Return the longest steps, at most 1, that keep values positive which change at such rates."""
    fastest = reduce(torch.maximum, (-own.amin(1, keepdim=True) for own in rates))
    return torch.where(fastest > INSIDE, INSIDE / fastest.clamp(min=INSIDE), 1.0)


def diagonal_of(A: Any) -> Any:
    """Return the diagonals of matrices, to be written to as well."""
    return A.diagonal(dim1=1, dim2=2)


def _factored(C: Any, delta: Any) -> tuple[Any, Any, Any]:
    """Return R = C - diag(delta), its factor, and 0 where it has one."""
    R = C.clone()
    diagonal_of(R).sub_(delta)
    factor, info = torch.linalg.cholesky_ex(R)
    return R, factor, info


def solved(factor: Any, right: Any) -> Any:
    """Solve with matrices given by their lower factors."""
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)
