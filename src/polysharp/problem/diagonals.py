"""Best diagonals of many nodes at once: the method of ``diagonal`` in batches, on any device.

The nodes of a search share G and q, which stay on the device; a node names the monomials that are
in and those that are free, and gets back a diagonal, coefficients and shares.  H and b are Schur
complements made there.  Nodes of about the same size go together, padded to the largest with

    H_jj = 1,   b_j = 0,   delta_j = s_j = 1/2,

which leaves w_j = r_j = Z_j = 0 and no step along j; sums leave these entries out.  Matrices that a
step loses, and nodes that are finished, drop out of the batch.

Nothing in the method is rounded to any side: what it finds is a proposal.  That G + lam I less the
ridges is positive semidefinite is then proved on the device, by multiplying out an approximate
factor (``bounds.residual_margin``), and rho = q - Q w is summed there, which ``bounds`` allows in
any order; the bound itself is ``bounds``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from polysharp.moments.gram import DenseGram
from polysharp.problem.bounds import (
    UNIT,
    factorisation_margin,
    residual_margin,
    semidefinite_margin,
)
from polysharp.problem.diagonal import (
    FIRST_CENTRE,
    HELD_RIDGE,
    INSIDE,
    INWARDS,
    LIKELY,
    OLD_DIAGONAL,
    OLD_SHARES,
    SHRINKS,
    Proved,
    Sharpened,
    Start,
)
from polysharp.problem.problem import Problem
from polysharp.typing import Indices

MATRICES = 16  # of a node that are held at a time
MEMORY_SHARE = 0.4  # of what is free on the device
LEAST_FILLED = 0.85  # of the largest size in a batch, that the smallest has at least
RESIDUAL = 6.0  # room for the rounding of a factor that is multiplied out
STILL_WORTH = 0.8  # share of a batch that is left when the others are dropped


class Asked(NamedTuple):
    """A node: monomials that are in, those that are free, and how many of these may join."""

    held: Indices
    free: Indices
    budget: int
    start: Start
    threshold: float  # the cost that the node's bound should reach


class DeviceDiagonals:
    """Best diagonals of parts of one problem."""

    def __init__(self, problem: Problem, device: Any, most_memory: float = np.inf) -> None:
        every, gram = np.arange(problem.size), problem.gram
        G = gram.G if isinstance(gram, DenseGram) else gram.block(every, every)
        self.G = torch.as_tensor(G, device=device)
        self.q = torch.as_tensor(np.array(problem.q), device=device)
        self.lam, self.yy, self.device = problem.lam, float(problem.yy), device
        self.most_memory = most_memory
        known = problem.accuracy
        self.unit, self.sizes = known.unit, torch.as_tensor(np.array(known.sizes), device=device)

    def sharpened(
        self,
        parts: Sequence[Asked],
        *,
        tol: float = 0.1,
        max_steps: int = 40,
        chain: int = 0,
        expired: Callable[[], bool] = lambda: False,
    ) -> list[Proved | None]:
        """Return what ``sharpen`` returns for every part, with a proof and a chain to branch on.

        None where a start is not feasible or no coefficient can be anything but zero.
        """
        found: list[Proved | None] = [None] * len(parts)
        for places in self._groups(parts):
            group = [parts[i] for i in places]
            batch = self._begun(group)
            batch.run(tol, max_steps, expired)
            answers = batch.answers()
            sound = [i for i, answer in enumerate(answers) if answer is not None]
            proved = self._proved([group[i] for i in sound], [answers[i] for i in sound], chain)
            for i, proof in zip(sound, proved, strict=True):
                found[places[i]] = proof
        return found

    def _groups(self, parts: Sequence[Asked]) -> Iterator[list[int]]:
        """Yield positions of parts of about the same size, few enough for the memory."""
        order = sorted(range(len(parts)), key=lambda i: -len(parts[i].free))
        memory = min(self.most_memory, MEMORY_SHARE * _free_memory(self.device))
        while order:
            size = max(len(parts[order[0]].free), 1)
            most = max(1, int(memory // (8 * MATRICES * size * size)))
            count = 0
            while count < min(most, len(order)):
                if len(parts[order[count]].free) < LEAST_FILLED * size - 8:
                    break
                count += 1
            yield order[:count]
            order = order[count:]

    def _begun(self, parts: list[Asked]) -> _Methods:
        """Eliminate what is in, and start."""
        free, real = _padded([part.free for part in parts], self.device)
        held, used = _padded([part.held for part in parts], self.device)
        H = self.G[free[:, :, None], free[:, None, :]] * (real[:, :, None] * real[:, None, :])
        H.diagonal(dim1=1, dim2=2).add_(torch.where(real > 0.0, self.lam, 1.0))
        b, gained = self.q[free] * real, torch.zeros_like(real[:, 0])
        lost = torch.zeros_like(gained, dtype=torch.int32)
        if held.shape[1]:
            A = self.G[held[:, :, None], held[:, None, :]] * (used[:, :, None] * used[:, None, :])
            A.diagonal(dim1=1, dim2=2).add_(torch.where(used > 0.0, self.lam, 1.0))
            root, lost = torch.linalg.cholesky_ex(A)
            cross = self.G[held[:, :, None], free[:, None, :]]
            cross *= used[:, :, None] * real[:, None, :]
            right = torch.cat([cross, (self.q[held] * used)[:, :, None]], dim=2)
            V = torch.linalg.solve_triangular(root, right, upper=False)
            H -= V[:, :, :-1].mT @ V[:, :, :-1]
            b = b - (V[:, :, :-1].mT @ V[:, :, -1:])[:, :, 0]
            gained = (V[:, :, -1] ** 2).sum(1)
        wanted = (1.0 + 1e-7) * self._column([part.threshold for part in parts])
        starts = (_filled(vectors, real) for vectors in zip(*(p.start for p in parts), strict=True))
        budget = self._column([part.budget for part in parts])
        aim = 0.5 * (self.yy - gained) - wanted
        return _Methods(H, b, real, budget, aim, Start(*starts), lost == 0)

    def _proved(self, parts: list[Asked], answers: list[Any], chain: int) -> list[Proved]:
        """Prove the diagonals, moved inwards where that is needed, and sum rho."""
        if not parts:
            return []
        lam, device = self.lam, self.device
        index, real = _padded([np.concatenate([p.held, p.free]) for p in parts], device)
        held = [np.zeros(len(part.held)) for part in parts]
        delta, inside, w, shares = (
            _filled([np.append(none, v) for none, v in zip(held, vectors, strict=True)], real)
            for vectors in (
                [answer.delta for answer in answers],
                [part.start.inside for part in parts],
                [answer.w for answer in answers],
                [answer.shares for answer in answers],
            )
        )
        count = self._column([len(part.held) for part in parts])[:, None]
        inn = (torch.arange(index.shape[1], device=device) < count).double()
        G = self.G[index[:, :, None], index[:, None, :]] * (real[:, :, None] * real[:, None, :])
        chains = self._chains(G, self.q[index] * real, delta, shares, real * (1.0 - inn), chain)
        ridge = torch.full_like(delta, HELD_RIDGE * lam)
        left = torch.arange(len(parts), device=device)
        for inwards in INWARDS:
            tried = (1.0 - inwards) * delta[left] + inwards * inside[left]
            ridge[left] = torch.where(inn[left] > 0.0, ridge[left], tried)
            left = left[~self._semidefinite(G[left], ridge[left], index[left], real[left])]
            if not len(left):
                break
        w = w * real * (1.0 - inn)
        # Coefficients of what is in, given the others.
        A = G * (inn[:, :, None] * inn[:, None, :])
        _diagonal(A).add_(torch.where(inn > 0.0, lam, 1.0))
        right = inn * (self.q[index] - _times(G, w))
        w = w + _solved(torch.linalg.cholesky_ex(A)[0], right[:, :, None])[:, :, 0]
        _diagonal(G).sub_(real * (ridge - lam))
        rho = self.q[index] - _times(G, w)
        rows = ridge.cpu().numpy(), w.cpu().numpy(), rho.cpu().numpy()
        failed = set(left.tolist())
        found = []
        for i, answer in enumerate(answers):
            size = len(parts[i].held) + len(parts[i].free)
            own = [row[i, :size] for row in rows]
            places = chains[i, : len(parts[i].free)] - len(parts[i].held)
            found.append(Proved(answer, None if i in failed else own[0], own[1], own[2], places))
        return found

    def _chains(self, G: Any, q: Any, delta: Any, s: Any, free: Any, length: int) -> Any:
        """Return the monomials whose loss would hurt most (see ``listed.drop_chain``).

        The inverse of all that is in or free holds that of the Schur complement.
        """
        s, found = s.clamp(1e-6, 1.0), list[Any]()
        A = G.clone()
        _diagonal(A).add_(self.lam + free * delta * (1.0 / s - 1.0))
        inverse = _inverse(torch.linalg.cholesky_ex(A)[0])
        node, free = torch.arange(len(s), device=s.device), free.clone()
        for _ in range(length):
            likely = free * (s > LIKELY)
            drop = _times(inverse, q) ** 2 / _diagonal(inverse).clamp(min=1e-300)
            order = torch.where(_sum(likely) > 0.0, torch.where(likely > 0.0, drop, -1.0), s)
            j = torch.where(free > 0.0, order, -2.0).nan_to_num(-1.0).argmax(1)
            found.append(j)
            free[node, j] = 0.0
            column = inverse[node, :, j]
            change = delta[node, j] * (1.0 - 1.0 / s[node, j])
            factor = change / (1.0 + change * column[node, j])
            inverse.addcmul_((factor[:, None] * column)[:, :, None], column[:, None, :], value=-1.0)
        return torch.stack(found, dim=1).cpu().numpy() if found else np.zeros((len(s), 0), np.int64)

    def _semidefinite(self, G: Any, ridge: Any, index: Any, real: Any) -> Any:
        """Whether each G + lam I - diag(ridge) is proved to be, as in ``bounds.semidefinite``."""
        count, d = _sum(real), real * (ridge - self.lam)
        sizes = (self.sizes[index] ** 2 + (-d).clamp(min=0.0)).sqrt()
        A = G / (sizes[:, :, None] * sizes[:, None, :])
        scaled = d / sizes**2
        diagonal = _diagonal(A) - scaled
        larger = diagonal.abs().amax(1, keepdim=True).clamp(min=1.0)
        shift = larger * semidefinite_margin(count, self.unit, RESIDUAL) + 8.0 * UNIT * scaled.abs()
        _diagonal(A).copy_(torch.where(real > 0.0, diagonal - shift, 1.0))
        factor, info = torch.linalg.cholesky_ex(A)
        inside = real[:, :, None] * real[:, None, :]  # zeros are added without an error
        A, factor = A * inside, factor * inside
        norms = (torch.linalg.matrix_norm(M) for M in (A - factor @ factor.mT, A, factor))
        short = residual_margin(count[:, 0], *norms)
        room = (larger * factorisation_margin(count, RESIDUAL))[:, 0]
        # What is no number fails the comparison.
        return (info == 0) & (short <= room) & (ridge > 0.0).all(1)

    def _column(self, numbers: list[float]) -> Any:
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)


class _Methods:
    """State of the method (see ``diagonal``), a row per node, in units of unit diagonals.

    Vectors are (nodes, m), numbers (nodes, 1), matrices (nodes, m, m).  The best points are kept
    for all nodes that were begun, the rest for those at work.
    """

    AT_WORK = (
        *("place", "real", "L", "m", "aim", "C", "c", "delta", "s", "R", "V", "Y", "w", "r", "Z"),
        *("mu", "nu", "zeta", "eta", "RY", "centring", "gain", "least"),
    )

    def __init__(
        self, H: Any, b: Any, real: Any, budget: Any, aim: Any, start: Start, sound: Any
    ) -> None:
        self.root = _diagonal(H).clamp(min=1e-300).sqrt()
        self.C = H.div_(self.root[:, :, None]).div_(self.root[:, None, :])
        self.c, self.real, self.L, self.aim = b / self.root, real, budget[:, None], aim[:, None]
        self.m, self.place = _sum(real), torch.arange(len(b), device=b.device)
        self.sizes = [int(m) for m in self.m[:, 0].tolist()]
        mixed = OLD_DIAGONAL * start.delta + (1.0 - OLD_DIAGONAL) * start.inside
        self.delta = torch.where(real > 0.0, mixed / self.root**2, 0.5)
        s = (OLD_SHARES * start.shares + (1.0 - OLD_SHARES) * self.L / self.m).clamp(1e-9, 0.97)
        s = (s * (self.L / _sum(s * real))).clamp(max=0.97)
        self.s = torch.where(real > 0.0, s, 0.5)
        self.best = [self.delta.clone(), torch.zeros_like(s), self.s.clone()]
        none = torch.full_like(self.L, np.inf)
        self.gain, self.least, self.centring = none, -none, torch.full_like(none, 0.3)
        self.gains, self.leasts, self.steps = none.clone(), -none, torch.zeros_like(none)
        self.R, factor, info = _factored(self.C, self.delta)
        sound = sound & (info == 0) & ((self.c**2).sum(1) > 0.0)
        self._keep(sound)
        self.V = _inverse(factor[sound])
        if not len(self.place):
            return
        self._fit()
        last = torch.minimum(self.L, self.m - 1.0).long()
        nu = torch.where(self.real > 0.0, self.Z, -1.0).sort(dim=1, descending=True)[0]
        self.nu = torch.maximum(nu.gather(1, last), 1e-9 * _sum(self.c**2) / self.m)
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
        _diagonal(A).add_(self.delta * (1.0 / self.s - 1.0))
        self.w = _solved(torch.linalg.cholesky_ex(A)[0], self.c[:, :, None])[:, :, 0]
        self.r = self.w / self.s
        self.Z = 0.5 * self.delta * self.r**2

    def _measure(self) -> None:
        """Keep the points that are the best so far, and raise the values that none can beat."""
        w, place = self.w, self.place
        Rw = _times(self.R, w)
        ranked = self.Z.sort(dim=1, descending=True)[0].cumsum(1)  # padding is zero
        gain = 0.5 * _sum(w * Rw) + ranked.gather(1, self.L.long() - 1)
        better = gain < self.gain
        self.gain = torch.where(better, gain, self.gain)
        for kept, now in zip(self.best, (self.delta, w, self.s), strict=True):
            kept[place] = torch.where(better, now, kept[place])
        total = _sum(self.s * self.real)
        s, own = self.s * (self.L / total).clamp(max=1.0), _diagonal(self.Y)
        missing = (0.5 * w * w * (1.0 / s - 1.0) - own).clamp(min=0.0)
        padding = (1.0 - self.real) * _diagonal(self.R) * own
        self.RY = (self.R * self.Y).sum((1, 2))[:, None] - _sum(padding)
        CY = self.RY + _sum((self.delta * own + missing) * self.real)
        least = _sum(self.c * w) - 0.5 * _sum(w * (Rw + self.delta * w)) - CY
        self.least = torch.fmax(self.least, least)
        self.gains[place], self.leasts[place] = self.gain, self.least

    def _step(self) -> None:
        """Take one Newton step for every node."""
        s, delta, w, r, nu, real = self.s, self.delta, self.w, self.r, self.nu, self.real
        rest = 1.0 - s
        t, y = _slacks(self.Z - nu, self.mu)
        products = self.RY + _sum((delta * self.zeta + t * rest + y * s) * real) + nu * self.eta
        mu = self.mu = self.centring * products / (4.0 * self.m + 1.0)
        t, y = _slacks(self.Z - nu, mu)
        both = s * t + rest * y
        towards = real * (mu * (rest - s) + s * rest * (t - y)) / both
        k = real * s * rest / both
        near = s + towards
        g_u = w - near * r
        g_delta = 0.5 * w**2 + mu * (_diagonal(self.V) - 1.0 / delta) - 0.5 * near * r**2 - w * g_u
        g_nu = self.L - _sum(near * real) - mu / nu
        a, q = s / delta, r * w - 0.5 * r * r
        d_uu = a + k * r * r
        d_ud = a * (r - w) - k * r * q
        d_dd = 0.25 * a * k * r**4 / d_uu + self.zeta / delta
        E = d_uu.sqrt()
        B = E[:, :, None] * self.R * E[:, None, :]
        _diagonal(B).add_(1.0)
        B_root, B_info = torch.linalg.cholesky_ex(B)
        B_root = _inverse_root(B_root)
        f = d_ud / E
        S = f[:, :, None] * (B_root.mT @ B_root) * f[:, None, :]
        S += self.V * self.Y
        _diagonal(S).add_(d_dd)
        S_factor, S_info = torch.linalg.cholesky_ex(S)

        def without_delta(v: Any) -> Any:
            """Solve (R^-1 + diag(d_uu)) u = v."""
            return self.R @ (E[:, :, None] * (B_root.mT @ (B_root @ (v / E[:, :, None]))))

        u = without_delta(torch.stack([-g_u, -k * r], dim=2))
        right = torch.stack([-g_delta * real, k * q], dim=2) - d_ud[:, :, None] * u
        d = _solved(S_factor, right)
        u -= without_delta(d_ud[:, :, None] * d)
        border = [_sum(k * (r * u[:, :, i] - q * d[:, :, i])) for i in (0, 1)]
        d_nu = (-g_nu - border[0]) / (_sum(k) + self.eta / nu + border[1])
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
        primal = _longest((delta, d_delta), (nu, d_nu))
        dual = _longest((self.s, d_s), (1.0 - self.s, -d_s), (zeta, d_zeta), (eta, d_eta))
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
        self.R, self.V = R, _inverse(factor)
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


def _sum(v: Any) -> Any:
    return v.sum(1, keepdim=True)


def _diagonal(A: Any) -> Any:
    return A.diagonal(dim1=1, dim2=2)


def _times(A: Any, v: Any) -> Any:
    return (A @ v[:, :, None])[:, :, 0]


def _factored(C: Any, delta: Any) -> tuple[Any, Any, Any]:
    """Return R = C - diag(delta), its factor, and 0 where it has one."""
    R = C.clone()
    _diagonal(R).sub_(delta)
    factor, info = torch.linalg.cholesky_ex(R)
    return R, factor, info


def _inverse_root(factor: Any) -> Any:
    one = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, one.expand_as(factor), upper=False)


def _inverse(factor: Any) -> Any:
    root = _inverse_root(factor)
    return root.mT @ root


def _solved(factor: Any, right: Any) -> Any:
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


def _slacks(x: Any, mu: Any) -> tuple[Any, Any]:
    """Return t and t - x for the t > max(0, x) with mu/t + mu/(t - x) = 1."""
    size, root = x.abs(), (x * x + 4.0 * mu * mu).sqrt()
    far, near = 0.5 * (size + 2.0 * mu + root), mu + 2.0 * mu * mu / (root + size)
    return torch.where(x > 0.0, far, near), torch.where(x > 0.0, near, far)


def _longest(*pairs: tuple[Any, Any]) -> Any:
    """Return the longest steps, at most 1, that keep all values positive."""
    step = torch.ones_like(pairs[0][0][:, :1])
    for value, change in pairs:
        ratio = torch.where(change < 0.0, -value / change.clamp(max=-1e-300), np.inf)
        step = torch.minimum(step, INSIDE * ratio.amin(1, keepdim=True))
    return step


def _padded(rows: Sequence[Indices], device: Any) -> tuple[Any, Any]:
    """Return rows of indices filled up with zeros, and 1 where an index is one of the row."""
    sizes = np.array([len(row) for row in rows])
    real = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    index = np.zeros(real.shape, dtype=np.int64)
    index[real] = np.concatenate(rows)
    return torch.as_tensor(index, device=device), torch.as_tensor(real, device=device).double()


def _filled(rows: Sequence[Any], real: Any) -> Any:
    """Return rows of numbers filled up with ones."""
    values = torch.ones(real.shape, dtype=real.dtype)
    values[real.cpu() > 0.0] = torch.as_tensor(np.concatenate(rows))
    return values.to(real.device)


def _free_memory(device: Any) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 2.0**29
