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

The method is written for a stack of nodes, of which a processor takes one at a time and a device
hundreds (``stacks``).  Nodes with fewer monomials are padded with H_jj = 1, b_j = 0, mu_j = 0 and
delta_j = s_j = 1/2, along which no step leads; sums leave these entries out.

Tried, and no better: cutting planes, one sign pattern of W at a time (a tenth of the way in fifteen
rounds); conjugate gradients that go on until directions are accurate, and the large modes of R^-1
dealt with apart (fewer iterations, the same steps, more time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polysharp.problem.coupling import Coupling
from polysharp.problem.diagonal import FIRST_CENTRE, Start, slacks
from polysharp.problem.stacks import (
    Nodes,
    NumPyStacks,
    Stacks,
    diagonal,
    inner,
    longest_steps,
    outer,
    row_products,
    row_sums,
    times,
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
MAX_STEPS = 24


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
    max_steps: int = MAX_STEPS,
    expired: Callable[[], bool] = lambda: False,
) -> Coupled | None:
    """Return a coupling for one node; None where the start is not feasible."""
    L, goal = np.array([[float(budget)]]), np.array([[aim]])
    first = Start(start.delta[None], start.inside[None], start.shares[None])
    own = None if K is None else K[None]
    nodes = Nodes(H[None], b[None], np.ones((1, len(b))), L, goal, first, own)
    with np.errstate(all="ignore"):
        return couple_stack(NumPyStacks(), nodes, max_steps, expired)[0]


def couple_stack(
    stacks: Stacks, nodes: Nodes, max_steps: int, expired: Callable[[], bool]
) -> list[Coupled | None]:
    """Return a coupling for each node; None where its start is not feasible.

    A node is done when its gain is at most the aim, or falls too slowly to get there.
    """
    method = _CoupledMethod(stacks, nodes)
    while method.at_work and method.steps < max_steps and not expired():
        method.step()
        seen, now = method.seen, method.gain
        lately = seen[-1 - min(LATELY, method.steps)] - now
        left = (max_steps - method.steps) / LATELY if method.steps >= FIRST_LOOK else np.inf
        method.go_on_with(((now > method.aim) & (lately * left >= now - method.aim))[:, 0])
    return method.results()


class _Step(NamedTuple):
    """Directions, or gradients: of delta, nu, mu (relative) and the ratios."""

    delta: Any
    nu: Any
    mu: Any
    pairs: Any

    def dot(self, other: _Step) -> Any:
        """Return the inner products; there are two copies of every pair."""
        pairs = inner(self.pairs, other.pairs)
        vectors = row_sums(self.delta * other.delta + self.mu * other.mu)
        return vectors + self.nu * other.nu + 0.5 * pairs

    def plus(self, t: Any, other: _Step) -> _Step:
        """Return the sum with t times another."""
        return _Step(
            self.delta + t * other.delta,
            self.nu + t * other.nu,
            self.mu + t * other.mu,
            self.pairs + t[:, :, None] * other.pairs,
        )

    def over(self, sizes: _Step) -> _Step:
        """Return it divided by what each entry is measured in."""
        return _Step(*(own / size for own, size in zip(self, sizes, strict=True)))


class _Matrix(NamedTuple):
    """How the matrix that is taken away from R depends on a direction."""

    mu: Any
    limit: Any  # sqrt(mu_i mu_j)
    K: Any
    terms: Any  # L - 1

    def along(self, x: _Step) -> Any:
        """Return its change."""
        half = 0.5 * x.mu
        N = self.limit * x.pairs + self.K * (half[:, :, None] + half[:, None, :])
        diagonal(N)[:] = x.delta + self.terms * self.mu * x.mu
        return N

    def gradient(self, N: Any) -> _Step:
        """Return the derivatives of <N, its change>, N being symmetric."""
        own = diagonal(N)
        by_mu = self.terms * self.mu * own + row_products(self.K, N)
        pairs = 2.0 * self.limit * N
        diagonal(pairs)[:] = 0.0
        return _Step(own, 0.0, by_mu, pairs)


class _Barrier(NamedTuple):
    """The barriers of all pairs, expanded where W would have the ratios."""

    ratios: Any
    by_pair: Any
    across: Any
    by_both: Any
    by_mu: Any
    weight: Any

    @classmethod
    def at(cls, W: Any, limit: Any, weight: Any, others: Any) -> _Barrier:
        """Return it for barriers of this weight; a monomial has so many ``others``."""
        wide, pull = weight[:, :, None], W * limit
        root = wide + (wide * wide + pull * pull) ** 0.5
        ratios = -pull / root
        inverse = root / (2.0 * wide)  # 1 / (1 - t^2)
        square = ratios * ratios
        e = wide * square * inverse
        by_pair = 2.0 * wide * (1.0 + square) * inverse * inverse
        across = -wide * ratios * inverse
        for part in (ratios, across, e):
            diagonal(part)[:] = 0.0
        return cls(ratios, by_pair, across, -0.5 * e, weight * others + 0.5 * e.sum(2), weight)

    def times(self, x: _Step) -> tuple[Any, Any]:
        """Return the second derivatives times a direction, by mu and by pairs."""
        by_mu = self.by_mu * x.mu + times(self.by_both, x.mu) + row_products(self.across, x.pairs)
        both = x.mu[:, :, None] + x.mu[:, None, :]
        return by_mu, self.by_pair * x.pairs + self.across * both


class _Response:
    """How the price of monomials answers when R changes by N, and delta and nu by some.

    With u = dp + Nw, (R^-1 + diag(d_uu)) u is known, as in ``diagonal``.
    """

    def __init__(self, stacks: Stacks, R: Any, r: Any, a: Any, k: Any) -> None:
        self.solve, self.R = stacks.solve, R
        self.r, self.a, self.k, self.half = r, a, k, 0.5 * r * r
        self.d_uu = a + k * r * r
        self.E = self.d_uu**0.5
        B = outer(self.E, self.E) * R
        diagonal(B)[:] += 1.0
        self.factor, self.failed = stacks.factored(B)

    def p(self, moved: Any, delta: Any, nu: Any, g_u: Any = 0.0) -> tuple[Any, Any]:
        """Return dp and the gradient by p; ``moved`` is Nw."""
        e = self.r * (self.a * delta + self.k * (self.half * delta + nu))
        v = (self.d_uu * moved - e - g_u) / self.E
        dp = times(self.R, self.E * self.solve(self.factor, v)) - moved
        return dp, self.d_uu * dp + e

    def price(self, dp: Any, delta: Any, nu: Any) -> Any:
        """Return by how much prices fall below nu, to first order."""
        return self.r * dp + self.half * delta + nu


class _CoupledMethod:
    """State of the method, in coordinates in which H has unit diagonal.

    What is found is kept for all nodes that were begun, the rest for those at work.
    """

    AT_WORK = (
        *("place", "real", "L", "m", "aim", "C", "c", "delta", "s", "mu", "ratios", "R", "factor"),
        *("V", "Y", "w", "r", "Z", "nu", "beta", "zeta", "eta", "gain", "share_of_centre"),
    )

    def __init__(self, stacks: Stacks, nodes: Nodes) -> None:
        self.stacks, self.steps, self.seen = stacks, 0, list[Any]()
        xp, L, real = stacks.xp, nodes.budget, nodes.real
        self.L, self.real, self.aim, self.m = L, real, nodes.aim, row_sums(real)
        self.sizes = [int(size) for size in self.m[:, 0]]
        self.place = stacks.places(real)
        self.root = diagonal(nodes.H) ** 0.5
        scale = outer(self.root, self.root)
        self.C, self.c = nodes.H / scale, nodes.b / self.root
        middle = 0.5 * (nodes.start.delta + nodes.start.inside) / self.root**2
        self.delta = xp.where(real > 0.0, middle, 0.5)
        self.mu, self.ratios = real * FIRST_REACH / (L - 1.0) * self.delta, 0.0 * self.C
        if nodes.K is not None:
            known = diagonal(nodes.K) / (L - 1.0) / self.root**2
            self.mu = xp.maximum(known, 0.1 * self.mu)
            reach = xp.where(self.mu > 0.0, self.mu, 1.0) ** 0.5
            self.ratios = xp.clip(nodes.K / scale / outer(reach, reach), -NEAR_LIMIT, NEAR_LIMIT)
            diagonal(self.ratios)[:] = 0.0
        s = xp.clip(0.75 * nodes.start.shares + 0.25 * L / self.m, 1e-9, 0.97)
        s = xp.clip(s * (L / row_sums(s * real)), 0.0, 0.97)
        self.s = xp.where(real > 0.0, s, 0.5)
        self.gain = 0.0 * L + np.inf
        found = self.mu, self.ratios, self.delta, self.s, self.gain, 0.0 * L
        self.found = [own + 0.0 for own in found]  # the last ones: gains, and steps taken
        self._retreat()
        if self.at_work:
            self._begin()

    @property
    def at_work(self) -> bool:
        """Whether any node is."""
        return len(self.place) > 0

    def results(self) -> list[Coupled | None]:
        """Return what was found for every node that was begun."""
        parts = [self.stacks.numpy(own) for own in (*self.found, self.root)]
        results = list[Coupled | None]()
        for size, mu, ratios, delta, s, gain, steps, root in zip(self.sizes, *parts, strict=True):
            square = root[:size] ** 2
            own = Coupled(
                float(gain[0]), mu[:size] * square, ratios[:size, :size], delta[:size] * square,
                s[:size], int(steps[0]),
            )  # fmt: skip
            results.append(own if own.gain < np.inf else None)
        return results

    def go_on_with(self, which: Any) -> None:
        """Leave the other nodes as they are."""
        if bool(which.all()):
            return
        for name in self.AT_WORK:
            if hasattr(self, name):
                setattr(self, name, getattr(self, name)[which])
        self.seen = [gain[which] for gain in self.seen]

    def _retreat(self) -> None:
        """Go inwards until R has a factor, and a little further: just inside leads nowhere."""
        left = self.place
        for _ in range(20):
            left = left[self._started(left)[-1]]
            if not len(left):
                break
            self._shrink(left)
        self._shrink(self.place)
        self.R, self.factor, failed = self._started(self.place)
        self.go_on_with(~failed)

    def _started(self, nodes: Any) -> tuple[Any, Any, Any]:
        return self._factored(nodes, self.delta[nodes], self.mu[nodes], self.ratios[nodes])

    def _shrink(self, nodes: Any) -> None:
        self.delta[nodes] *= self.stacks.xp.where(self.real[nodes] > 0.0, 0.8, 1.0)
        self.mu[nodes] *= 0.8

    def _begin(self) -> None:
        xp = self.stacks.xp
        self._fit()
        ranked = self.stacks.sorted(xp.where(self.real > 0.0, self.Z, -1.0))
        last = self.stacks.at(ranked, xp.minimum(self.L, self.m - 1.0))
        self.nu = xp.maximum(last, 1e-9 * row_sums(self.c**2) / self.m)
        self.share_of_centre = 0.0 * self.nu + 0.3
        self.beta = FIRST_CENTRE * self.nu * self.L / self.m
        self.V = self.stacks.inverse(self.factor)
        self.Y, self.zeta, self.eta = self._central()
        self._measure()
        self.seen = [self.gain]

    def _factored(self, nodes: Any, delta: Any, mu: Any, ratios: Any) -> tuple[Any, Any, Any]:
        """Return R of some nodes with its factors, and where it has none."""
        reach = mu**0.5
        R = self.C[nodes] - outer(reach, reach) * ratios
        diagonal(R)[:] -= delta + (self.L[nodes] - 1.0) * mu
        return (R, *self.stacks.factored(R))

    def _fit(self) -> None:
        """Compute w, r and Z that belong to R, delta and s."""
        A = self.R + 0.0
        diagonal(A)[:] += self.delta / self.s
        self.w = self.stacks.solve(self.stacks.factored(A)[0], self.c)
        self.r = self.w / self.s
        self.Z = 0.5 * self.delta * self.r * self.r

    def _central(self) -> tuple[Any, Any, Any]:
        """Return Y, zeta and eta where the barrier of weight beta has them."""
        return self.beta[:, :, None] * self.V, self.beta / self.delta, self.beta / self.nu

    def _measure(self) -> None:
        """Keep the points that are the best so far."""
        xp, place = self.stacks.xp, self.place
        top = self.stacks.at(self.stacks.sorted(self.Z).cumsum(1), self.L - 1.0)
        gain = 0.5 * row_sums(self.w * times(self.R, self.w)) + top
        better = gain < self.gain
        self.gain = xp.where(better, gain, self.gain)
        now = self.mu, self.ratios, self.delta, self.s, self.gain
        for kept, own in zip(self.found, now, strict=False):
            taken = better[:, :, None] if own.ndim == 3 else better
            kept[place] = xp.where(taken, own, kept[place])

    def step(self) -> None:
        """Take one step for every node; those that rounding lets none through are unsound."""
        s, delta, w, r, nu, mu = self.s, self.delta, self.w, self.r, self.nu, self.mu
        V, Y, zeta, eta, real = self.V, self.Y, self.zeta, self.eta, self.real
        terms, others = self.L - 1.0, self.m - 1.0
        rest, x = 1.0 - s, self.Z - nu
        t, y = slacks(x, self.beta, self.stacks.xp.hypot)
        padding = row_sums((1.0 - real) * diagonal(self.R) * diagonal(Y))
        RY = inner(self.R, Y) - padding
        products = RY + row_sums((delta * zeta + t * rest + y * s) * real) + nu * eta
        beta = self.beta = self.share_of_centre * products / (4.0 * self.m + 1.0)
        t, y = slacks(x, beta, self.stacks.xp.hypot)
        both = s * t + rest * y
        towards = real * (beta * (rest - s) + s * rest * x) / both  # ds while x = t - y stays
        k = real * s * rest / both
        near, a = s + towards, s / delta
        ar = a * r
        g_u = w - near * r
        answer = _Response(self.stacks, self.R, r, a, k)
        reach = mu**0.5
        limit = outer(reach, reach)
        taken = _Matrix(mu, limit, limit * self.ratios, terms)
        ww = outer(w, w)
        barrier = _Barrier.at(ww + 2.0 * Y, limit, PAIR_WEIGHT * beta, others)

        def product(x: _Step) -> _Step:
            """Multiply a direction with the second derivatives."""
            N = taken.along(x)
            dp, by_p = answer.p(times(N, w), x.delta, x.nu)
            spread = (V @ N) @ Y - outer(by_p, w)
            g = taken.gradient(0.5 * (spread + spread.mT))
            dearer = k * answer.price(dp, x.delta, x.nu)
            by_mu, by_pairs = barrier.times(x)
            return _Step(
                g.delta + ar * (dp + r * x.delta) + answer.half * dearer + zeta / delta * x.delta,
                row_sums(dearer) + eta / nu * x.nu,
                g.mu + by_mu,
                g.pairs + by_pairs,
            )

        dp, by_p = answer.p(0.0, 0.0, 0.0, g_u)
        G = beta[:, :, None] * V + 0.5 * ww - outer(w, g_u + by_p)
        g, off = taken.gradient(0.5 * (G + G.mT)), self.ratios - barrier.ratios
        weight, half = barrier.weight, answer.half
        downhill = _Step(
            real * (near * half + beta / delta - g.delta - (ar + k * half * r) * dp),
            row_sums(near * real) - self.L + beta / nu - row_sums(k * r * dp),
            real * (weight * others - g.mu - row_products(barrier.across, off)),
            limit * (ww + 2.0 * Y) - g.pairs - barrier.by_pair * off,
        )
        diagonal(downhill.pairs)[:] = 0.0
        own = diagonal(V) * diagonal(Y)
        sizes = _Step(
            own + zeta / delta + a * (r - w) ** 2 + k * (half - r * w) ** 2,
            row_sums(k) + eta / nu,
            barrier.by_mu + (terms * mu) ** 2 * own,
            barrier.by_pair,
        )
        step = _conjugate_gradients(self.stacks.xp, product, downhill, sizes)
        N = taken.along(step)
        dp, _ = answer.p(times(N, w), step.delta, step.nu, g_u)
        d_s = towards - k * answer.price(dp, step.delta, step.nu)
        sums = row_sums(step.delta + step.mu + d_s) + step.nu
        sound = self.stacks.xp.isfinite(sums)[:, 0] & ~answer.failed
        if not bool(sound.all()):
            self.go_on_with(sound)
            step, N, d_s = _Step(*(own[sound] for own in step)), N[sound], d_s[sound]
        if self.at_work:
            self._advance(step, N, d_s)

    def _advance(self, step: _Step, N: Any, d_s: Any) -> None:
        """Go along directions while all cones allow, primal and dual each as far as they can."""
        xp, beta, delta, nu = self.stacks.xp, self.beta, self.delta, self.nu
        spread = (self.V @ N) @ self.Y
        d_Y = 0.5 * (spread + spread.mT) + beta[:, :, None] * self.V - self.Y
        d_zeta = (beta - self.zeta * step.delta) / delta - self.zeta
        d_eta = (beta - self.eta * step.nu) / nu - self.eta
        primal = longest_steps(xp, step.nu / nu, step.delta / delta, step.mu)
        rates = d_s / self.s, d_s / (self.s - 1.0), d_zeta / self.zeta
        dual = longest_steps(xp, d_eta / self.eta, *rates)
        lost = self._take(step, primal)
        Y = self._dual_step(dual, d_Y)
        self.delta, self.nu = delta + primal * step.delta, nu + primal * step.nu
        self.V = self.stacks.inverse(self.factor)
        self.Y, self.zeta = Y, self.zeta + dual * d_zeta
        self.eta, self.s = self.eta + dual * d_eta, self.s + dual * d_s
        shortest = xp.minimum(primal, dual)
        slow = xp.where(shortest > 0.4, MIDDLE, SLOW)
        self.share_of_centre = xp.where(shortest > 0.8, FAST, slow)
        # Far from the centre rough directions lead nowhere, nor where Y is lost to rounding.
        jammed = shortest < JAMMED
        Y, zeta, eta = self._central()
        self.Y = xp.where(jammed[:, :, None], Y, self.Y)
        self.zeta, self.eta = xp.where(jammed, zeta, self.zeta), xp.where(jammed, eta, self.eta)
        self.share_of_centre = xp.where(jammed, 1.0, self.share_of_centre)
        self._fit()
        self.steps += 1
        self.found[-1][self.place] = 0.0 * self.gain + self.steps
        self._measure()
        self.seen.append(self.gain)
        self.go_on_with(~lost & xp.isfinite(self.w.sum(1)))

    def _take(self, step: _Step, primal: Any) -> Any:
        """Go along directions, shortened in place until R has a factor; return where none is."""
        every = self.stacks.places(self.real)
        mu, ratios, self.R, self.factor, failed = self._after(step, primal, every)
        short = left = every[failed]
        while len(left):
            primal[left] *= SHRINKS
            failed = self._after(step, primal, left)[-1]
            left = left[failed & (primal[left, 0] > SHORTEST)]
        lost = every < 0
        if len(short):
            primal[short] *= SHRINKS  # not just inside: there directions lead nowhere
            again = self._after(step, primal, short)
            for whole, own in zip((mu, ratios, self.R, self.factor, lost), again, strict=True):
                whole[short] = own
        self.mu, self.ratios = mu, ratios
        return lost

    def _after(self, step: _Step, primal: Any, nodes: Any) -> tuple[Any, ...]:
        """Return mu, ratios, R and its factors after steps of some nodes, and where R has none."""
        nodes = slice(None) if len(nodes) == len(primal) else nodes  # nothing is copied
        length = primal[nodes]
        mu = self.mu[nodes] * (1.0 + length * step.mu[nodes])
        # A pair at its limit stops there; the others go on.
        ratios = self.ratios[nodes] + length[:, :, None] * step.pairs[nodes]
        ratios = self.stacks.xp.clip(ratios, -NEAR_LIMIT, NEAR_LIMIT)
        delta = self.delta[nodes] + length * step.delta[nodes]
        return (mu, ratios, *self._factored(nodes, delta, mu, ratios))

    def _dual_step(self, dual: Any, d_Y: Any) -> Any:
        """Return Y after steps that are shortened, in place, until it is definite, to 0 at last."""
        Y, left = self.Y + dual[:, :, None] * d_Y, self.stacks.places(self.real)
        while True:
            left = left[self.stacks.factored(Y[left])[1]]
            if not len(left):
                return Y
            shorter = dual[left] * SHRINKS**2
            dual[left] = shorter * (shorter > SHORTEST)
            Y[left] = self.Y[left] + dual[left][:, :, None] * d_Y[left]
            left = left[dual[left, 0] > 0.0]


def _conjugate_gradients(
    xp: Any, product: Callable[[_Step], _Step], right: _Step, sizes: _Step
) -> _Step:
    """Solve roughly; ``sizes`` is what the matrix is like."""
    residual, towards = right, right.over(sizes)
    size = residual.dot(towards)
    found = right.plus(0.0 * size - 1.0, right)
    for _ in range(ITERATIONS):
        image = product(towards)
        curvature = towards.dot(image)
        # Where rounding has taken over, and ever after, nothing is added.
        length = xp.where(curvature > 0.0, size / curvature, 0.0)
        found = found.plus(length, towards)
        residual = residual.plus(-length, image)
        scaled = residual.over(sizes)
        before, size = size, residual.dot(scaled)
        towards = scaled.plus(xp.where(curvature > 0.0, size / before, 0.0), towards)
    return found
