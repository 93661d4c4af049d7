"""Numbers become lower bounds here, and nowhere else: every value is rounded downwards.

**What is bounded.**  The problem of the data themselves, not of their rounded moments: with
columns m_j and response y, the least cost  1/2 |y - M_S v|^2 + lam/2 |v|^2  over the supports S of
a part of the search space in which the monomials O are in and at most L others join them.

**The inequality.**  Take any w and any ridge_j > 0 such that Q = G + lam I - diag(ridge) is
positive semidefinite on the monomials in play (ridge = lam is always one; parts of the ridge may
lie below lam).  Then the smooth part lies above its tangent at w, and with rho = q - Qw and

    Z_j = max rho_j v - ridge_j v^2 / 2   over   low_j <= v <= high_j,

the price of monomial j: rho_j^2 / (2 ridge_j) where its coefficient is not bounded, and otherwise
r (rho_j - r/2) / ridge_j with r = rho_j brought between ridge_j low_j and ridge_j high_j,

    cost of S >= ya - aa/2 - sum_S Z_j,     ya = yy - q'w,  aa = yy - 2 q'w + w'Qw,

so that  ya - aa/2 - spent,  spent = sum_O Z_j + top_L(Z),  bounds the part.  With ridge = lam,
where aa = |a|^2 and rho_j = m_j'a for the residual a = y - Mw, a may be scaled by any t >= 0,
which gives  t ya - t^2 (aa/2 + spent),  at best  1/2 ya^2 / (aa + 2 spent), where no coefficient is
bounded, and  t ya - t^2 aa/2 - spent  with the prices at t rho otherwise.

**The rounding.**  All errors are worst cases: a sum of k products in any order errs by at most
k u |x|'|y| (u = 2^-53).  ``Accuracy`` says how well the moments are known,

    |G_ij - m_i'm_j| <= unit s_i s_j,   |q_j - m_j'y| <= unit s_j s_y,   |yy - y'y| <= unit s_y^2,

with sizes s_j >= |m_j|.  If rho was made from q by adding k products Q_ij dw_j, and
reach = s_y + sum |dw_j| s_j, then no intermediate value exceeds s_i reach, and with

    delta = (unit + (2 k + 32) u) reach

|error of rho_i| <= s_i delta, |error of ya| <= s_y delta, |error of aa| <= 2 reach delta.  So ya is
lowered, aa and every |rho_i| are raised by that much before anything else is computed from them
(``safe_sums``, ``price``), and no factor t can magnify what is left.  The last few operations are
covered by relative margins (``tangent_value``, ``scaled_value``), and so are the ends of boxes,
which may be wrong by 4 u: a price changes by no larger share than its box does.  Sizes are at least
FLOOR, which covers products that underflow; a response whose square underflows counts as zero.

NaN and infinities never pass: comparisons are written so that they mean "no bound".

The scalar functions are plain arithmetic: the relaxation compiles them as they stand, others hand
them arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from polysharp.typing import Array, Indices

UNIT = 2.0**-53
FLOOR = 1e-140
MOST_CENTRED = 1e6  # columns that centring has reduced further have sizes above their norms
ENTRY = 32.0  # roundings of an entry of a column of degree r: 3 r + 2, with room to spare
FEW_ROWS = 1024.0  # sums that moments of unknown origin are taken to be

NO_MATRIX = np.zeros((0, 0))
SHIFTED_UNIT = 8.0 * UNIT  # that subtracting a pairwise shift adds to the unit of moments


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How well moments are known: a relative unit, and the sizes of the columns and of each y."""

    unit: float
    sizes: Array
    response: Array  # (T,)

    @classmethod
    def of(
        cls,
        diagonal: Array,
        squares: Array | float,
        products: float = FEW_ROWS,
        *,
        weight: float = 0.0,
        mean: Array | float = 0.0,
        y_mean: Array | float = 0.0,
    ) -> Accuracy:
        """Return the accuracy of moments that are sums of ``products`` products.

        An entry of a column is wrong by ENTRY u times its size before means were taken away from
        rows of total ``weight``.  Where centring has left little of a column, that counts: with
        K >= (norm before) / (norm after) for most columns, ENTRY K joins the products, and the
        others get larger sizes.  Errors of the means are the same in every row and enter squared.
        ``squares`` are y'y, and ``y_mean`` the mean, of one response or of each.
        """
        norms = np.sqrt(np.maximum(diagonal, 0.0)) + FLOOR
        yy = np.atleast_1d(np.asarray(squares, dtype=np.float64))
        norm_y = np.where(yy > 0.0, np.sqrt(np.maximum(yy, 0.0)) + FLOOR, 0.0)
        raw = np.sqrt(norms**2 + weight * np.square(mean))
        ratios = raw / norms
        K = float(ratios[ratios <= MOST_CENTRED].max(initial=1.0))
        norms = np.maximum(norms, raw / K)
        raw_y = weight * np.square(y_mean) / np.where(norm_y > 0.0, norm_y, np.inf) ** 2
        K_y = float(np.sqrt(1.0 + raw_y.max(initial=0.0)))
        unit = 2.0 * (products + ENTRY * K) * UNIT
        return cls(unit + (unit * max(K, K_y)) ** 2, norms, norm_y)

    def with_ridge(self, lam: float, ridge: Array | float) -> Accuracy:
        """Return the accuracy where the ridge has changed from lam, and G by as much.

        That is rounded too, relative to all that stands on the diagonal.
        """
        return replace(self, sizes=np.sqrt(self.sizes**2 + lam + ridge))

    def shifted(self, diagonal: Array) -> Accuracy:
        """Return the accuracy of G less a pairwise shift with this diagonal.

        None of its entries exceeds the root of two of the diagonal (``pairwise_shift``), each
        is made by four operations, and taking it away is one more.
        """
        return replace(self, unit=self.unit + SHIFTED_UNIT, sizes=np.sqrt(self.sizes**2 + diagonal))

    def among(self, index: Indices) -> Accuracy:
        """Return the accuracy of the moments of some monomials."""
        return Accuracy(self.unit, self.sizes[index], self.response)


class Quadratic(NamedTuple):
    """yy/2 - q'w + w'Qw/2 + sum_j ridge_j w_j^2/2 for low <= w <= high.

    Q is empty where it is not formed but FF', or not looked at.  Sizes include what ridge - lam
    adds to |m_j|.
    """

    Q: Array
    q: Array
    ridge: Array
    sizes: Array
    low: Array
    high: Array
    yy: float
    response: float
    unit: float
    scalable: bool  # whether ridge = lam and nothing is bounded, so that residuals may be scaled
    F: Array = NO_MATRIX  # one row for each monomial; empty where Q is formed

    @property
    def boxed(self) -> bool:
        """Whether any coefficient is bounded."""
        return bool(np.any(self.low > -np.inf) or np.any(self.high < np.inf))

    def prices(self, rho: Array, low: Array, high: Array, *, boxed: bool) -> Array:
        """Return Z of every monomial for each row of rho; quicker if nothing is ``boxed``."""
        if boxed:
            return np.asarray(price(rho, 0.0, self.ridge, low, high))
        return np.asarray(free_price(rho, 0.0, self.ridge))

    def rounding(self, products: float) -> float:
        """Return the rounding error of rho_j after some products, per unit of size."""
        return float(spread(self.unit, products, 1.0))

    def block(self, I: Indices, J: Indices) -> Array:  # noqa: E741
        """Return Q[I, J]."""
        if not len(self.F):
            return self.Q[I[:, None], J]
        if 2 * len(J) > len(self.F):  # most rows of F: no copy of them
            return (self.F[I] @ self.F.T)[:, J]
        return self.F[I] @ self.F[J].T

    def diagonal(self, J: Indices) -> Array:
        """Return Q_jj for some monomials."""
        if len(self.F):  # transposed: NumPy sums contiguous columns much faster than rows
            return np.asarray(np.einsum("tj,tj->j", self.F.T, self.F.T)[J])
        return self.Q[J, J]

    def times(self, J: Indices, W: Array) -> Array:
        """Return Q[:, J] w for every row w of W."""
        return (W @ self.F[J]) @ self.F.T if len(self.F) else W @ self.Q[J]

    def among(self, J: Indices) -> Quadratic:
        """Return the quadratic of some of the monomials."""
        return self._replace(
            Q=np.ascontiguousarray(self.block(J, J)),
            F=NO_MATRIX,
            q=self.q[J],
            ridge=self.ridge[J],
            sizes=self.sizes[J],
            low=self.low[J],
            high=self.high[J],
        )


def spread(unit: Any, products: Any, reach: Any) -> Any:
    """Return delta: the rounding error of rho_j, per unit of size."""
    return (unit + (2.0 * products + 32.0) * UNIT) * reach


def safe_sums(yy: Any, qw: Any, wrho: Any, response: Any, reach: Any, delta: Any) -> Any:
    """Return (ya, aa) from yy, q'w and w'rho: ya rounded down, aa rounded up."""
    ya = yy - qw
    return ya - response * delta, (ya - wrho) + 2.0 * reach * delta


def price(rho: Any, error: Any, ridge: Any, low: Any, high: Any) -> Any:
    """Return Z, the largest  rho v - ridge v^2/2  for low <= v <= high, rounded up."""
    up, down = rho + error, error - rho
    right = np.minimum(np.maximum(up, 0.0), ridge * high)
    left = np.minimum(np.maximum(down, 0.0), ridge * -low)
    right, left = right * ((up - 0.5 * right) / ridge), left * ((down - 0.5 * left) / ridge)
    return np.maximum(right, left) * (1.0 + 32.0 * UNIT)


def free_price(rho: Any, error: Any, ridge: Any) -> Any:
    """Return ``price`` without bounds on the coefficient: (|rho| + error)^2 / (2 ridge)."""
    size = abs(rho) + error
    return size * (0.5 * size / ridge) * (1.0 + 32.0 * UNIT)


def total(prices: Any, terms: Any) -> Any:
    """Return the sum of some prices, rounded up."""
    return prices * (1.0 + 2.0 * (terms + 2.0) * UNIT)


def tangent_value(ya: Any, aa: Any, spent: Any) -> Any:
    """Return ya - aa/2 - spent, rounded down."""
    rest = 0.5 * aa + spent
    return ya - rest - 8.0 * UNIT * (abs(ya) + abs(rest))


def scaled_value(ya: Any, aa: Any, spent: Any) -> Any:
    """Return (bound, t) of the best multiple t of a residual, rounded down; 0 without one."""
    whole = aa + 2.0 * spent
    if not (ya > 0.0 and whole > 0.0 and whole < 1e300):
        return 0.0, 0.0  # the best multiple is none of it
    t = ya / whole
    return 0.5 * ya * t * (1.0 - 8.0 * UNIT), t


def combined_level(T: float, excess: float, shift: float, error: float) -> float:
    """Return the level P that K vectors must show for a support to cost T, rounded up.

    For any vectors U, b = U'y, c_j = U'm_j and N = U'U + U'M_O M_O'U / lam <= (1 + excess) I, a
    support of O and F costs P(b, c) / (1 + excess) at least, P being the least value of
    1/2 |b - sum_F c_j v_j|^2 + lam/2 |v|^2.  Where b is known up to ``error`` and each c_j up to
    d_j, the best v of the true ones has |v| <= sqrt(2 P / lam), so that the root of 2 P is seen too
    large by ``error`` and a share of ``shift`` >= sqrt(sum_F d_j^2 / lam) at most.
    """
    root = np.sqrt(2.0 * T * (1.0 + excess)) * (1.0 + shift) + error
    return float(0.5 * root * root * (1.0 + 32.0 * UNIT))


def admitted(value: float, yy: float) -> float:
    """Return a bound; -inf where it is no number or more than the empty model costs."""
    return value if value <= 0.5 * yy * (1.0 + 1e-12) + FLOOR else -np.inf


def top_sum(prices: Array, count: int) -> float:
    """Return the sum of the ``count`` largest prices, rounded up."""
    if count < len(prices):
        prices = np.partition(prices, len(prices) - count)[len(prices) - count :]
    return float(total(prices.sum(), len(prices)))


def dual_values(
    system: Quadratic, rho: Array, A: Indices, w: Array, t: float = 1.0
) -> tuple[float, float, Array]:
    """Return ya, aa and all prices of t times a point, each rounded so as to lower a bound.

    w are the coefficients of the monomials A, and rho = q - Q_:A w; Q itself is not looked at.
    """
    response, sizes = system.response, system.sizes
    reach = response + float(np.abs(w) @ sizes[A])
    delta = spread(system.unit, len(A), reach)
    qw, wrho = float(system.q[A] @ w), float(w @ rho[A])
    ya, aa = safe_sums(system.yy, qw, wrho, response, reach, delta)
    prices = price(t * rho, t * sizes * delta, system.ridge, system.low, system.high)
    return t * ya, t * (t * aa), prices


def residual_bound(
    systems: Sequence[Quadratic], rho: Array, A: Indices, W: Array, budget: int
) -> float:
    """Return the bound that residuals prove for all models of at most ``budget`` terms.

    Each response has one residual, y - M_A w with rho = q - Q_:A w; all have one support.  The best
    multiple of them is known if nothing is bounded; otherwise a good one is taken.
    """

    def at(systems: Sequence[Quadratic], t: float = 1.0) -> tuple[float, float, Array]:
        points = zip(systems, rho, W, strict=True)
        return joint_values(dual_values(own, row, A, w, t) for own, row, w in points)

    wide = np.full(rho.shape[1], np.inf)
    ya, aa, Z = at([own._replace(low=-wide, high=wide) for own in systems])
    bound, t = scaled_value(ya, aa, top_sum(Z, budget))
    if not systems[0].scalable:
        ya, aa, Z = at(systems)
        points = map(at, [systems] * 3, [1.0, t, scaled_value(ya, aa, top_sum(Z, budget))[1]])
        bound = max(float(tangent_value(ya, aa, top_sum(Z, budget))) for ya, aa, Z in points)
    return max(0.0, admitted(bound, sum(own.yy for own in systems)))


def joint_values(
    points: Iterable[tuple[float, float, Array]],
) -> tuple[float, float, Array]:
    """Add the ``dual_values`` of several responses with one support, rounded to the same sides."""
    ya, aa, Z = zip(*points, strict=True)
    margin = 2.0 * (len(ya) + 2.0) * UNIT
    low = sum(ya) - margin * sum(map(abs, ya))
    high = sum(aa) + margin * sum(map(abs, aa))
    return low, high, total(np.sum(Z, axis=0), len(Z))


def priced_bound(
    system: Quadratic, w: Array, fixed_in: Any, budget: int, rho: Array | None = None
) -> tuple[float, Array]:
    """Return the dual value at w with ``budget`` monomials to join the fixed ones, and all prices.

    rho = q - Q w may be given, summed in any order; Q is then not looked at.
    """
    every = np.arange(len(w))
    rho = system.q - system.times(every, w) if rho is None else rho
    ya, aa, Z = dual_values(system, rho, every, w)
    fixed = Z[fixed_in]
    spent = top_sum(fixed, len(fixed)) + top_sum(Z[~fixed_in], budget)
    return admitted(float(tangent_value(ya, aa, spent)), system.yy), Z


def support_bound(system: Quadratic, w: Array) -> float:
    """Return the dual value at w where all monomials are in: their cost, rounded down."""
    return priced_bound(system, w, np.ones(len(w), dtype=bool), 0)[0]


def member_bounds(
    system: Quadratic,
    sets: Indices,
    W: Array,
    rho: Array,
    there: Any = True,
    fixed_in: Any = None,
    budget: int = 0,
) -> Array:
    """Return the dual values of many sets of monomials, one row each, at coefficients of their own.

    rho has q - Q w of the members.  Entries that are not ``there`` only fill up the rows; W is zero
    in them.  If some monomials are ``fixed_in``, at most ``budget`` of the others join them; else
    all of a set are in.
    """
    sizes, yy = system.sizes[sets], system.yy
    reach = system.response + (sizes * np.abs(W)).sum(axis=1)
    delta = spread(system.unit, W.shape[1], reach)
    qw, wrho = (system.q[sets] * W).sum(axis=1), (W * rho).sum(axis=1)
    ya, aa = safe_sums(yy, qw, wrho, system.response, reach, delta)
    boxes = system.ridge[sets], system.low[sets], system.high[sets]
    Z = np.where(there, price(rho, sizes * delta[:, None], *boxes), 0.0)
    if fixed_in is not None and budget < Z.shape[1]:
        free, left = np.where(fixed_in[sets], 0.0, Z), Z.shape[1] - budget
        Z = np.hstack([Z - free, np.partition(free, left - 1, axis=1)[:, left:]])
    values = tangent_value(ya, aa, total(Z.sum(axis=1), Z.shape[1]))
    return np.where(values <= 0.5 * yy * (1.0 + 1e-12) + FLOOR, values, -np.inf)


def choice_bounds(
    system: Quadratic, fixed: Indices, free: Indices, W: Array, blocks: tuple[Array, Array, Array]
) -> Array:
    """Return bounds on the cost of the fixed monomials with each one of the free ones.

    Column j of W holds coefficients of the fixed monomials and, last, of the j-th free one.  The
    blocks of Q are those of the fixed ones, of these with the free ones, and the free diagonal.
    """
    (Q, cross, own), base, last = blocks, W[:-1], W[-1]
    sets = np.vstack([np.broadcast_to(fixed[:, None], base.shape), free])
    Qw = np.vstack([Q @ base + cross * last, np.einsum("ij,ij->j", cross, base) + own * last])
    return member_bounds(system, sets.T, W.T, (system.q[sets] - Qw).T)


def forcing_costs(bound: float, Z: Array, budget: int) -> tuple[Array, Any]:
    """Return the least cost of forcing each free monomial, and which are the ``budget`` largest.

    Z are prices as the bound counted them.  Bringing in one beyond the L largest costs
    bound + Z_(L) - Z_j at least, leaving out one of the L largest bound + Z_j - Z_(L+1).
    """
    order = np.argpartition(-Z, (budget - 1, budget))
    last, first = Z[order[budget - 1]], Z[order[budget]]  # Z_(L), Z_(L+1)
    top = np.zeros(len(Z), dtype=bool)
    top[order[:budget]] = True
    extra = np.where(top, Z - first, last - Z)
    return bound + extra - 8.0 * UNIT * (abs(bound) + np.abs(extra)), top


def cost_above(system: Quadratic, w: Array) -> float:
    """Return the cost of coefficients, rounded up: yy/2 - q'w + w'(Q + ridge)w/2."""
    every = np.arange(len(w))
    _, aa, _ = dual_values(system, system.q - system.times(every, w), every, w)
    cost = 0.5 * aa + float(total(0.5 * (system.ridge @ (w * w)), len(w)))
    return cost * (1.0 + 4.0 * UNIT) if cost < np.inf else np.inf  # and where it is no number


def cost_of_residual(squares: float, reach: float, products: float, penalty: float) -> float:
    """Return half the squared residual, as summed over the rows, plus a penalty, rounded up.

    ``reach`` is the norm of its summands: of |y_t| + sum_j |w_j| |m_tj| before any centring.
    """
    norm = np.sqrt(squares) + 2.0 * ENTRY * UNIT * reach
    cost = 0.5 * norm * norm * (1.0 + 2.0 * products * UNIT) + penalty * (1.0 + ENTRY * UNIT)
    return float(cost) if cost >= 0.0 else np.inf
