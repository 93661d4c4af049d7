"""The problem every engine solves, from the moments alone.

    minimise  c(S) = sum_t min_w 1/2 |y_t - M_S w|^2 + lam/2 |w|^2    over the supports S allowed,

for T >= 1 responses y_t with one support, each with coefficients of its own, which may be bounded
(``Structure.boxes``).  With lam = 1/gamma, G = M'M, q_t = M'y_t and no bounds
w_t = (G_SS + lam I)^-1 q_t,S, and for any w_t on S

    c(S) <= sum_t 1/2 (y_t'y_t - 2 q_t,S'w_t + w_t'(G_SS + lam I) w_t)      (equal at the best).

Arrays about responses have one row per response; G, ridge and rules serve all of them.  Bounds on
the cost of one response carry over to several, because costs and prices add.

Within boxes, low <= w <= high, coefficients come from an active-set method unless the solution
without boxes keeps to them.  Members are free or stand at an end of their box; the free ones move
towards their own optimum as far as all boxes allow, and whichever meets an end stays there; once
all have arrived, the one at an end that would gain most by moving inwards is set free.  The
objective falls with every round, and the method ends when no member gains anything by moving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polysharp.moments.gram import DenseGram, Gram, solve_spd
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import Structure
from polysharp.problem import bounds
from polysharp.problem.bounds import Accuracy, Quadratic
from polysharp.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients of one support, a row per response, and the objective they reach."""

    support: Indices
    w: Array  # (T, |S|)
    objective: float


# For each response: the sum of squares of y - M_S w over the rows, and the norm of
# |y| + |M_S| |w| before centring.
Misfit = Callable[[Indices, Array], tuple[Array, Array]]
CLEAR = 1e-9  # share of an objective below which rounding of the moments is not worth a pass
NEGLIGIBLE = 1e-15  # gains below this share of the gain of the whole fit are rounding


@dataclass(frozen=True, eq=False)
class Problem:
    """Moments, ridge and structure: everything an engine may see."""

    gram: Gram
    q: Array  # (T, f)
    squares: Array  # (T,): y_t'y_t
    lam: float
    structure: Structure
    known: Accuracy | None = None  # None: as sums over a thousand rows are known
    misfit: Misfit | None = None  # where the rows can be asked once more

    def __post_init__(self) -> None:
        """Give q a row, and y'y a number, for each response; one response may come without."""
        q, squares = np.atleast_2d(self.q), np.atleast_1d(np.asarray(self.squares, np.float64))
        object.__setattr__(self, "q", np.ascontiguousarray(q, dtype=np.float64))
        object.__setattr__(self, "squares", squares)

    @classmethod
    def dense(cls, G: Array, *args: Any, rank: float = np.inf) -> Problem:
        """Build from an explicit Gram matrix of at most this rank."""
        return cls(DenseGram(G, rank), *args)

    @cached_property
    def accuracy(self) -> Accuracy:
        """How well the moments are known."""
        return self.known or Accuracy.of(self.gram.diagonal, self.squares)

    @property
    def size(self) -> int:
        """Number of monomials f."""
        return int(self.q.shape[1])

    @property
    def n_responses(self) -> int:
        """Number of responses T."""
        return len(self.q)

    @cached_property
    def yy(self) -> float:
        """Sum of y_t'y_t over the responses."""
        return float(self.squares.sum())

    @cached_property
    def norms(self) -> Array:
        """The norm of (q_1j, ..., q_Tj) for each monomial; the size of q_j for one response."""
        return np.asarray(np.abs(np.hypot.reduce(self.q, axis=0)))  # which squares nothing

    @property
    def gamma(self) -> float:
        """Ridge parameter of the paper, 1 / lam."""
        return 1.0 / self.lam

    @cached_property
    def boxes(self) -> Boxes:
        """The intervals of the coefficients, a row per response; infinite without bounds."""
        if self.structure.boxes is None:
            return Boxes.infinite(self.q.shape)
        return Boxes(*(np.broadcast_to(side, self.q.shape) for side in self.structure.boxes))

    @property
    def resolution(self) -> float:
        """Differences of objectives below this are rounding of the moments."""
        return 1e-14 * self.yy

    def refit(self, support: Indices) -> Fit:
        """Solve the ridge regressions on one support."""
        S = np.sort(np.asarray(support, dtype=np.intp))
        q = self.q[:, S]
        if not len(S):
            return Fit(S, q, 0.5 * self.yy)
        H = self.hessian(S)
        if self.structure.boxes is None:
            W = solve_spd(H, q.T).T
        else:
            each = zip(q, *self.boxes.among(S), strict=True)
            W = np.array([solve_in_boxes(H, row, Boxes(low, high)) for row, low, high in each])
        value = 0.5 * (self.yy - 2.0 * float(np.vdot(q, W)) + float(np.vdot(W, W @ H)))
        if not value <= 0.5 * self.yy:  # no better than nothing, or no number at all
            return Fit(S, np.zeros_like(q), 0.5 * self.yy)
        return Fit(S, W, max(0.0, value))

    def hessian(self, S: Indices) -> Array:
        """Return G + lam I over some monomials, as a new matrix."""
        H = self.gram.block(S, S)
        H.flat[:: len(S) + 1] += self.lam
        return H

    def system(
        self, S: Indices, G: Array, response: int = 0, F: Array = bounds.NO_MATRIX
    ) -> Quadratic:
        """Return the quadratic of a response over some monomials, given their block of G or FF'."""
        known, (low, high) = self.accuracy, self.boxes
        return Quadratic(
            G, self.q[response, S], np.full(len(S), self.lam), known.sizes[S],
            low[response, S], high[response, S], float(self.squares[response]),
            float(known.response[response]), known.unit, self.structure.boxes is None, F,
        )  # fmt: skip

    def cost_at_most(self, fit: Fit) -> float:
        """Return the cost of a fit, rounded up; from the rows if the moments say too little."""
        S, W, G = fit.support, fit.w, self.gram.block(fit.support, fit.support)
        costs = np.array([bounds.cost_above(self.system(S, G, t), w) for t, w in enumerate(W)])
        if self.misfit is not None and not costs.sum() <= fit.objective * (1.0 + CLEAR):
            products = 0.5 * self.accuracy.unit / bounds.UNIT
            penalties = 0.5 * self.lam * np.einsum("tj,tj->t", W, W)
            each = zip(*self.misfit(S, W), penalties, strict=True)
            exact = [bounds.cost_of_residual(a, reach, products, own) for a, reach, own in each]
            costs = np.fmin(costs, exact)
        return float(costs[0]) if len(W) == 1 else float(bounds.total(costs.sum(), len(W)))

    def dual_bound(self, fit: Fit) -> float:
        """Return the lower bound on the l-sparse optimum that the residuals of a fit prove.

        With a = y - M_S w, for one response and any w where coefficients are not bounded:
        ``1/2 (y'a)^2 / (|a|^2 + gamma top_l((m_j'a)^2))``.
        """
        every, rho = np.arange(self.size), self.correlations(fit)
        # Prices do not depend on G.
        systems = [self.system(every, bounds.NO_MATRIX, t) for t in range(len(self.q))]
        return bounds.residual_bound(systems, rho, fit.support, fit.w, self.structure.max_terms)

    def correlations(self, fit: Fit) -> Array:
        """Return m_j'a_t = q_tj - G_jS w_t for all j, a row per response."""
        return np.asarray(self.q - [self.gram.times(fit.support, w) for w in fit.w])


def solve_in_boxes(H: Array, q: Array, boxes: Boxes) -> Array:
    """Return the best coefficients within their boxes."""
    low, high = boxes
    w = solve_spd(H, q)
    if np.all((low <= w) & (w <= high)):
        return w
    w = boxes.clip(w)
    free = (low < w) & (w < high)
    for _ in range(20 * len(q) + 20):
        while free.any():
            F = np.flatnonzero(free)
            goal = solve_spd(H[F[:, None], F], q[F] - H[F][:, ~free] @ w[~free])
            step = goal - w[F]
            with np.errstate(all="ignore"):
                room = np.where(step > 0.0, high[F] - w[F], low[F] - w[F]) / step
            room = np.where(step == 0.0, np.inf, room)
            reach = float(room.min())
            if not reach < 1.0:
                w[F] = goal
                break
            met = room <= reach
            w[F] += reach * step
            w[F[met]] = np.where(step[met] > 0.0, high[F[met]], low[F[met]])
            free[F[met]] = False
        pull = q - H @ w
        inwards = ~free & (((w <= low) & (pull > 0.0)) | ((w >= high) & (pull < 0.0)))
        inwards &= low < high
        gain = np.where(inwards, pull * pull / np.diagonal(H), 0.0)
        if not gain.max(initial=0.0) > NEGLIGIBLE * float(np.abs(q) @ np.abs(w)):
            break
        free[np.argmax(gain)] = True
    return boxes.clip(w)


def solve_many_in_boxes(H: Array, q: Array, boxes: Boxes) -> Array:
    """Return good coefficients of many supports within their boxes, one row each.

    All at once, and so without the care of ``solve_in_boxes``: in each round the member that is
    furthest outside its box is stopped at its end, or the one that pulls most is set free.
    """
    low, high = boxes
    W, stopped, moving = np.zeros_like(q), np.zeros(q.shape, dtype=bool), np.arange(len(q))
    own = np.diagonal(H, axis1=1, axis2=2)
    for _ in range(6 * q.shape[1] + 6):
        if not q[moving].size:  # all have settled, or there is nothing to fit
            break
        A, held, least, most = H[moving], stopped[moving], low[moving], high[moving]
        fixed = np.where(held, W[moving], 0.0)
        right = np.where(held, fixed, q[moving] - np.einsum("sij,sj->si", A, fixed))
        masked = np.where(held[:, :, None] | held[:, None, :], 0.0, A)
        masked += held[:, :, None] * np.eye(q.shape[1])
        try:
            w = np.linalg.solve(masked, right[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        near, each = np.clip(w, least, most), np.arange(len(moving))
        off = np.where(held, 0.0, np.square(w - near) * own[moving])
        worst = np.argmax(off, axis=1)
        outside = off[each, worst] > 0.0
        pull = q[moving] - np.einsum("sij,sj->si", A, w)
        back = held & (((w <= least) & (pull > 0.0)) | ((w >= most) & (pull < 0.0)))
        gain = np.where(back & (least < most), np.square(pull) / own[moving], 0.0)
        best = np.argmax(gain, axis=1)
        scale = NEGLIGIBLE * (np.abs(q[moving]) * np.abs(w)).sum(axis=1)
        freed = ~outside & (gain[each, best] > scale)
        w[each[outside], worst[outside]] = near[each[outside], worst[outside]]
        W[moving] = w
        stopped[moving[outside], worst[outside]] = True
        stopped[moving[freed], best[freed]] = False
        moving = moving[outside | freed]
    return np.clip(np.nan_to_num(W), low, high)
