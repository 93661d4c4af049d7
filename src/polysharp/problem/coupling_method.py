"""A coupling that goes far: thousands of cheap steps over a diagonal and all pairs of monomials.

With shares s held fixed, L terms to come and R = H - diag(delta) - K, the method descends on

    1/2 b'(R + diag(delta/s))^-1 b - beta (logdet R + sum log delta)

over log delta, log mu (mu_j = a_j^2) and the ratios t_ij of ``coupling`` within -1..1, at which
three quarters of them end.  A step is a quasi-Newton one (L-BFGS) within these limits.  Two
factorisations and an inverse yield the value and all derivatives, with W = ww' + 2 beta R^-1 and
w = (R + diag(delta/s))^-1 b:

    by K_ij: W_ij,   by delta_j: beta V_jj + w_j^2 (1 - 1/s_j) / 2 - beta/delta_j,   V = R^-1,

and so does the diagonal of the second derivatives, V_ii V_jj + V_ij^2 for a pair, by which the
directions are scaled: without that hardly anything moves.  After a round of steps ``sharpen`` goes
some way to the best diagonal for the coupling so far, and with it to the shares of the next round,
in which beta is smaller.  What comes out is a proposal, which is rounded.

The method is written for a stack of nodes, of which a processor takes one at a time and a device
hundreds (``stacks``).  Nodes with fewer monomials are padded with H_jj = 1, b_j = 0, mu_j = 0 and
delta_j = s_j = 1/2, along which no step leads; sums leave these entries out.

Tried, and no better: a primal-dual method whose directions come from conjugate gradients with two
products of matrices each (on concrete, degree 3, 12 terms, the gap of the root falls from 45 to
37 %, where it stalls; here to 24 %); cutting planes, one sign pattern of W at a time (a tenth of
the way in fifteen rounds).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from polysharp.problem.coupling import Coupling
from polysharp.problem.diagonal import Start
from polysharp.problem.stacks import (
    Nodes,
    NumPyStacks,
    Stacks,
    diagonal,
    inner,
    outer,
    row_products,
    row_sums,
)
from polysharp.typing import Array, Indices

FIRST_REACH = 0.6  # of the diagonal, that goes to pairs at the start
KNOWN_DELTA, KNOWN_MU = 0.5, 0.7  # of a coupling that is known, which is where it starts then
LEAST_MU = 1e-4  # of what it is where nothing is known
FIRST_WEIGHT, KNOWN_WEIGHT, FALLS = 1.0, 0.4, 0.8  # of the barrier, from round to round
LATE_WEIGHT, LEAST_WEIGHT = 0.04, 0.005  # from the first on it falls only where nothing else helps
LITTLE = 0.01  # of what is missing, in so many rounds: nothing else helps
LATELY = 3  # rounds by which it is judged what a method brings
STEPS, LOOKS = 25, 4  # of a round: steps, and those of its diagonal
MOST_ROUNDS = 80
REMEMBERED = 5  # steps that a direction is made of
LIMIT = 0.9999  # of a ratio
SHARES = 1e-4, 0.999
HALVINGS = 16  # of a step that does not lead down


# Whether to go on with nodes: by gain, aim, what the last rounds have brought, and their seconds.
Worth = Callable[[Any, Any, Any, float], Any]


class Coupled(NamedTuple):
    """A proposal: mu and ratios as the method left them, and a diagonal near the best one."""

    gain: float
    mu: Array
    ratios: Array
    delta: Array
    shares: Array

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
    aim: float,
    worth: Worth,
    expired: Callable[[], bool] = lambda: False,
) -> Coupled | None:
    """Return a coupling for one node; None where the start is not feasible."""
    L, goal = np.array([[float(budget)]]), np.array([[aim]])
    first = Start(start.delta[None], start.inside[None], start.shares[None])
    own = None if K is None else K[None]
    nodes = Nodes(H[None], b[None], np.ones((1, len(b))), L, goal, first, own)
    with np.errstate(all="ignore"):
        return couple_stack(NumPyStacks(), nodes, worth, expired)[0]


def couple_stack(
    stacks: Stacks, nodes: Nodes, worth: Worth, expired: Callable[[], bool]
) -> list[Coupled | None]:
    """Return a coupling for each node with 1 < L < m; None where its start is not feasible.

    A node is done when its gain is at most the aim, or when what the last rounds have brought was
    not worth the seconds that they took.
    """
    method, times = _CoupledMethod(stacks, nodes, expired), deque[float](maxlen=LATELY)
    method.look()
    method.go_on_with(((method.gain > method.aim) & (method.gain < np.inf))[:, 0])
    for _ in range(MOST_ROUNDS):
        if not method.at_work or expired():
            break
        count, began = len(method.place), perf_counter()
        method.round()
        times.append((perf_counter() - began) / count)
        left = method.gain > method.aim
        if len(times) == LATELY:
            gain, aim, brought = map(stacks.numpy, (method.gain, method.aim, method.brought()))
            left = left & stacks.like(left, worth(gain, aim, brought, sum(times)))
        method.go_on_with(left[:, 0])
    return method.results()


class _Point(NamedTuple):
    """Where nodes stand: log delta, log mu and all ratios end to end; values and derivatives."""

    x: Any
    value: Any
    slope: Any
    curvature: Any

    def of(self, nodes: Any) -> _Point:
        """Return the part of some nodes."""
        return _Point(*(own[nodes] for own in self))


class _CoupledMethod:
    """State of the method, in coordinates in which H has unit diagonal.

    What is found is kept for all nodes that were begun, the rest for those at work.
    """

    AT_WORK = ("place", "real", "L", "m", "aim", "C", "c", "s", "x", "weight", "gain")

    def __init__(self, stacks: Stacks, nodes: Nodes, expired: Callable[[], bool]) -> None:
        self.stacks, self.expired = stacks, expired
        xp, self.L, self.real, self.aim = stacks.xp, nodes.budget, nodes.real, nodes.aim
        self.m = row_sums(self.real)
        self.sizes = [int(size) for size in self.m[:, 0]]
        self.place, self.size = stacks.places(self.real), self.real.shape[1]
        self.root = diagonal(nodes.H) ** 0.5
        scale = outer(self.root, self.root)
        self.C, self.c = nodes.H / scale, nodes.b / self.root
        self.s = xp.where(self.real > 0.0, xp.clip(nodes.start.shares, *SHARES), 0.5)
        delta = 0.5 * nodes.start.inside / self.root**2
        mu, ratios = FIRST_REACH / (self.L - 1.0) * delta, 0.0 * self.C
        self.weight = 0.0 * self.L + FIRST_WEIGHT
        if nodes.K is not None:
            known = diagonal(nodes.K) / (self.L - 1.0) / self.root**2
            mu, delta = xp.maximum(known, LEAST_MU * mu), KNOWN_DELTA * nodes.start.delta
            reach, delta = xp.where(mu > 0.0, mu, 1.0) ** 0.5, delta / self.root**2
            ratios = xp.clip(nodes.K / scale / outer(reach, reach), -LIMIT, LIMIT)
            diagonal(ratios)[:] = 0.0
            mu, self.weight = KNOWN_MU * mu, 0.0 * self.L + KNOWN_WEIGHT
        delta = xp.where(self.real > 0.0, delta, 0.5)
        mu = xp.where(self.real > 0.0, mu, 1.0)
        self.x = stacks.joined(xp.log(delta), xp.log(mu), ratios.reshape(len(mu), -1))
        self.gain, self.gains = 0.0 * self.L + np.inf, deque[Any](maxlen=LATELY + 1)
        found = mu, ratios, delta, self.s, self.gain
        self.found = [own + 0.0 for own in found]

    @property
    def at_work(self) -> bool:
        """Whether any node is."""
        return len(self.place) > 0

    def results(self) -> list[Coupled | None]:
        """Return what was found for every node that was begun."""
        parts = [self.stacks.numpy(own) for own in (*self.found, self.root)]
        results = list[Coupled | None]()
        for m, mu, ratios, delta, s, gain, root in zip(self.sizes, *parts, strict=True):
            square = root[:m] ** 2
            own = mu[:m] * square, ratios[:m, :m], delta[:m] * square, s[:m]
            results.append(Coupled(float(gain[0]), *own) if gain < np.inf else None)
        return results

    def go_on_with(self, which: Any) -> None:
        """Leave the other nodes as they are."""
        if bool(which.all()):
            return
        for name in self.AT_WORK:
            setattr(self, name, getattr(self, name)[which])
        self.gains = deque((gain[which] for gain in self.gains), maxlen=LATELY + 1)

    def brought(self) -> Any:
        """Return by how much the last rounds have lowered the gain."""
        return self.gains[0] - self.gain if len(self.gains) > LATELY else np.inf

    def round(self) -> None:
        """Take some steps at one weight of the barrier, then look how far that goes."""
        self._descend(self.weight * (self.gain - self.aim) / self.m)
        self.look()
        slow = self.brought() <= LITTLE * (self.gain - self.aim)
        falls = (self.weight > LATE_WEIGHT) | slow
        lower = self.stacks.xp.clip(self.weight * FALLS, LEAST_WEIGHT, None)
        self.weight = self.stacks.xp.where(falls, lower, self.weight)

    def look(self) -> None:
        """Go towards the best diagonals for the couplings as they are, and their shares."""
        xp, place = self.stacks.xp, self.place
        R, delta, mu, _ = self._matrices(self.x, self.L, self.real)
        diagonal(R)[:] += delta
        near = Start(0.98 * delta, 0.5 * delta, self.s)
        nodes = Nodes(R, self.c, self.real, self.L, self.aim, near)
        gain, delta, s = self.stacks.sharpened(nodes, LOOKS, self.expired)
        s = xp.where(gain < np.inf, xp.clip(0.5 * (self.s + s), *SHARES), self.s)
        self.s = xp.where(self.real > 0.0, s, 0.5)
        better = gain < self.gain
        self.gain = xp.where(better, gain, self.gain)
        self.gains.append(self.gain)
        ratios = self.x[:, 2 * self.size :].reshape(R.shape)
        for kept, own in zip(self.found, (mu, ratios, delta, self.s, self.gain), strict=True):
            taken = better[:, :, None] if own.ndim == 3 else better
            kept[place] = xp.where(taken, own, kept[place])

    def _matrices(self, x: Any, L: Any, real: Any, nodes: Any = slice(None)) -> Any:
        """Return R, delta, mu and K off its diagonal."""
        m = self.size
        delta, mu = self.stacks.xp.exp(x[:, :m]), real * self.stacks.xp.exp(x[:, m : 2 * m])
        K = x[:, 2 * m :].reshape(-1, m, m) * outer(mu**0.5, mu**0.5)
        R = self.C[nodes] - K
        diagonal(R)[:] -= delta + (L - 1.0) * mu
        return R, delta, mu, K

    def _at(self, x: Any, beta: Any, nodes: Any) -> tuple[_Point, Any]:
        """Return values with their derivatives, and where R is not positive definite."""
        L, real, c, s = (own[nodes] for own in (self.L, self.real, self.c, self.s))
        R, delta, mu, K = self._matrices(x, L, real, nodes)
        factor, failed = self.stacks.factored(R)
        diagonal(R)[:] += delta / s
        w = self.stacks.solve(self.stacks.factored(R)[0], c)
        V = self.stacks.inverse(factor)
        own, terms, wide = diagonal(V) + 0.0, L - 1.0, beta[:, :, None]
        logs = 2.0 * self.stacks.xp.log(diagonal(factor)) + x[:, : self.size]
        by_pair = V * (2.0 * wide)
        by_pair += outer(w, w)
        by_mu = 0.5 * (terms * diagonal(by_pair) * mu + row_products(by_pair, K))
        # Every pair stands there twice, and counts half each time.
        by_pair *= outer(0.5 * mu**0.5, mu**0.5)
        diagonal(by_pair)[:] = 0.0
        V *= V
        V += outer(own, own)
        V *= outer(beta * mu, mu)
        V += 1e-6 * wide
        K *= K
        ends = len(x), -1
        return _Point(
            x,
            0.5 * row_sums(c * w) - beta * row_sums(logs * real),
            self.stacks.joined(
                (beta * own + 0.5 * w * w * (1.0 - 1.0 / s)) * delta - beta,
                by_mu,
                by_pair.reshape(ends),
            ),
            self.stacks.joined(
                beta * ((own * delta) ** 2 + 1.0),
                beta
                * ((terms * mu * own) ** 2 + 0.5 * own * (K @ own[:, :, None])[:, :, 0] + 1e-3),
                V.reshape(ends),
            ),
        ), failed

    def _descend(self, beta: Any) -> None:
        """Take the steps of a round, as far as the time goes."""
        now, _ = self._at(self.x, beta, slice(None))
        seen = deque[tuple[Any, Any, Any]](maxlen=REMEMBERED)
        for _ in range(STEPS):
            if self.expired():
                break
            then, moved = self._stepped(now, seen, beta)
            if not bool(moved.any()):
                break
            step, change = then.x - now.x, then.slope - now.slope
            along = _along(step, change)
            sizes = _along(step, step) * _along(change, change)
            # Where a step says nothing of the curvature it is not counted.
            sound = along > 1e-12 * sizes**0.5
            seen.append((step, change, self.stacks.xp.where(sound, along, np.inf)))
            now = then
        self.x = now.x

    def _stepped(
        self, now: _Point, seen: deque[tuple[Any, Any, Any]], beta: Any
    ) -> tuple[_Point, Any]:
        """Return points that are better, and where there are any that rounding lets through."""
        xp, first = self.stacks.xp, 2 * self.size
        direction = self._direction(now, seen)
        fastest = xp.amax(abs(direction[:, :first]), 1)[:, None]
        length = 1.0 / xp.clip(fastest, 1.0, None)
        then, left = now, self.stacks.places(self.real)
        moved = left < 0
        for _ in range(HALVINGS):
            start = now.x[left]
            x = start + length[left] * direction[left]
            x[:, first:] = xp.clip(x[:, first:], -LIMIT, LIMIT)
            tried, failed = self._at(x, beta[left], left)
            allowed = now.value[left] + 1e-4 * _along(now.slope[left], x - start)
            better = ~failed & (tried.value <= allowed)[:, 0]
            if bool(better.all()) and len(left) == len(moved):
                return tried, better
            if then is now:
                then = _Point(*(own + 0.0 for own in now))
            for whole, own in zip(then, tried.of(better), strict=True):
                whole[left[better]] = own
            moved[left[better]] = True
            left = left[~better]
            if not len(left) or self.expired():
                break
            length[left] *= 0.5
        return then, moved

    def _direction(self, now: _Point, seen: deque[tuple[Any, Any, Any]]) -> Any:
        """Return directions that do not leave the limits of ratios."""
        xp, first = self.stacks.xp, 2 * self.size
        ratios, slope = now.x[:, first:], now.slope[:, first:]
        free = 0.0 * now.x + 1.0  # but not where a ratio is at its limit, and would leave it
        free[:, first:] = ~((abs(ratios) >= LIMIT) & (ratios * slope < 0.0))
        allowed = free * now.slope
        direction = free * self._towards(allowed, now.curvature, seen)
        down = _along(direction, now.slope) < 0.0
        return xp.where(down, direction, -allowed / now.curvature)

    def _towards(self, slope: Any, curvature: Any, seen: deque[tuple[Any, Any, Any]]) -> Any:
        """Return the direction of L-BFGS, with a diagonal as the first guess of the Hessian."""
        q, shares = slope, list[Any]()
        for moved, change, along in reversed(seen):
            shares.append(_along(moved, q) / along)
            q = q - shares[-1] * change
        q = q / curvature
        if seen:
            _, change, along = seen[-1]
            scale = along / _along(change, change / curvature)
            q = q * self.stacks.xp.where(along < np.inf, scale, 1.0)
        for (moved, change, along), share in zip(seen, reversed(shares), strict=True):
            q = q + (share - _along(change, q) / along) * moved
        return -q


def _along(v: Any, w: Any) -> Any:
    """Return the inner products of long rows, as a column."""
    return inner(v[:, :, None], w[:, :, None])
