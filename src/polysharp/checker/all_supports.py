"""Leaves that are checked by going through everything: all supports, or all sets of inputs.

A node has the monomials S in and room for L of the free ones.  At most ``FEW`` completions of S are
all refitted.  Otherwise columns of H = G + lam I and the responses are scaled to length one, S is
eliminated (H and b become Schur complements), and the completions that may cost less than the claim
are marked (``marking``) and refitted one by one.

Rounding: k eliminations are exact for data that are changed by at most eps in each entry,
eps = unit + 2 r + r_y + (k + 12) u, r = max error_j / sqrt(H_jj), r_y = error_y / |y|.  At the
optimum x of a support of size l, gain = b'x - x'Hx/2 changes by at most

    slack = eps (B + B^2/2) + (k + 12) u,       B = sum_j |x_j| <= sqrt(l / mu),

because x'Hx <= 1, if mu bounds the eigenvalues of H from below; lam over the largest G_jj + lam
does, and a factorisation may show a larger one.  So a completion that is not marked at claim +
slack costs at least the claim.  A factorisation of m columns rounds each entry m times more, and
one more member changes it on both sides of H by (m + 12) (1 + 2 sqrt(log(1/mu))) u at most (sigma
and p are sums of squares and of products that are no longer; sum u^2 / (sigma + u^2) is at most
log(1/F_aa^2)).  The gain of one of T responses is wrong by at most its share of sum_t |y_t|^2
times that, hence the sum of them by no more than the largest slack; adding T squares takes T
further roundings, of which k eliminations have k T.

Marking is a search depth first.  H and b are now those that the members so far leave.  With
h = diag(H) and T twice the gain that the claim still leaves to the members to come, the last two
are treated together:

    b_j^2 > T h_j       or       x (T x - 2 b_j b_k) + b_j^2 h_k + b_k^2 h_j > T h_j h_k,  x = H_jk,

mark the completions that may cost less than the claim.  If there are several responses, b has a row
for each, and its squares and products are sums over them.

More members never gain less: if all those from one on gain too little together, no completion
among them is looked at (leaps and bounds).  If four members or more are to come, the last one is
that which gains least, the one before it that which gains least beside it, and so on.  The gains of
the last ones together are sums of squares of z, F z = b, F F' = H a factor from the last member on.
Once member a is in, with u its row of F, sigma = F_aa^2 plus the squares of u up to a column and
p = F_aa z_a plus the products u z up to there, the z of that column is

    (sigma z - u p) / sqrt(sigma (sigma + u^2)).

If rounding leaves no pivot of a candidate, all completions with it are marked.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from math import comb, inf, isnan, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.allowed import FREE, IN, OUT, Fixings, Rules, demand
from polysharp.checker.checked_rows import blocks_of
from polysharp.checker.curvature import SAFE, U, rounded_sum
from polysharp.checker.evidence import Floats, Positions
from polysharp.checker.inequalities import set_costs
from polysharp.checker.inner_products import InnerProducts, is_definite

Support = tuple[int, ...]

MOST_PAIRS = 2e12  # in all leaves of a proof together: an hour or two
MOST_HITS = 200_000  # refitted below one node
ENTRIES = 2**16  # of matrices formed at a time, which stay in a cache
BORDER = 1e30  # more than any response leaves, so that a factorisation solves with them
SORTED = 4  # members to come from which an order of their own is worth it
TOO_MANY = "it has more completions than a reader can try"
TOO_CLOSE = "too many of its completions come close to the bound"
MOST_CHOICES = 1e13  # below one node; most of them can be passed over, or it takes too long
MOST_SETS = 1_000_000  # of inputs below one node
MOST_EIGENVALUES = 2000  # monomials beyond which mu is lam over the largest G_jj + lam
FEW = 2048  # completions that are all refitted, however ill-conditioned
AT_ONCE = 2048  # supports refitted at a time


class Completions:
    """Goes through all completions of nodes; ``work`` counts the pairs of all of them."""

    def __init__(
        self, products: InnerProducts, rules: Rules, exceptions: frozenset[Support]
    ) -> None:
        self.products, self.rules, self.work = products, rules, 0.0
        self.exceptions = exceptions  # supports that the claim leaves out
        self.doubt = inf  # twice what rounding may take off the gain of all members together

    def least(self, at: Fixings, claim: float) -> float:
        """Return the claim, or the cost of the cheapest completion if that is less."""
        S, J = np.flatnonzero(at.terms == IN), np.flatnonzero(at.terms == FREE)
        self.L, self.J = min(self.rules.room(at), len(J)), J
        if not (claim > 0.0 and self.products.y_norm.max() > 0.0):
            return 0.0
        few = self.L <= 1 or comb(len(J), self.L) <= FEW
        if few and self._least_of_few(S, claim, 0.0) >= claim:
            return claim
        H, B, T, mu = self._scaled(np.concatenate([S, J]), len(S) + self.L, claim)
        if few:
            return self._least_of_few(S, claim, mu)
        return self._least_of(S, self._hits(at, H, B, T, len(S)), claim, mu)[0]

    def _least_of_few(self, S: Positions, claim: float, mu: float) -> float:
        """Return the claim, or the least cost of all completions."""
        # A support costs no less than one that contains it: smaller ones are tried only if those
        # that contain them are forbidden or left out.
        size, least = self.L, claim
        sets: Collection[Support] = list(combinations(range(len(self.J)), size))
        while sets:
            hits = np.array(sorted(sets), dtype=np.intp).reshape(len(sets), size)
            found, forbidden = self._least_of(S, [hits], claim, mu)
            least, size = min(least, found), size - 1
            smaller = size >= 0 and not self.rules.exact_size
            sets = {part for one in forbidden if smaller for part in combinations(one, size)}
            demand(len(sets) <= MOST_HITS, TOO_MANY)
        return least

    def _hits(self, at: Fixings, H: Floats, B: Floats, T: float, fixed: int) -> list[Positions]:
        """Return the completions that may cost less than the claim."""
        uses = (self.rules.uses[self.J] * (at.inputs != IN)) > 0.0
        room = self.rules.input_room(at)
        ruled = min(uses.sum(axis=1).max(initial=0) * self.L, uses.shape[1]) > room
        demand(ruled or comb(len(self.J), self.L) <= MOST_CHOICES, TOO_MANY)
        demand(self.products.floats_hold, "its completions can be tried in floats only")
        for _ in range(fixed):
            if not H[0, 0] > 0.0:  # rounding has left no pivot: all may do
                T = -inf
                break
            rate, own = H[0, 1:] / H[0, 0], B[:, 0]
            T -= float(own @ own / H[0, 0])
            H, B = H[1:, 1:] - np.multiply.outer(H[0, 1:], rate), B[:, 1:] - own[:, None] * rate
        demand(not isnan(T), "its completions leave the floats")
        search = Marking(self.L, uses if ruled else uses[:, :0], room, self.doubt, self.work)
        found = search.run(H, B, T, exact_size=self.rules.exact_size)
        self.work = search.work
        return found

    def _scaled(
        self, index: Positions, k: int, claim: float
    ) -> tuple[Floats, Floats, float, float]:
        """Return H and B with columns and y of length one, T less twice the slack, and mu."""
        m, size = self.products, len(index)
        H = m.G(index[:, None], index)
        H[np.diag_indices(size)] += m.lam
        root, sizes = np.sqrt(np.diagonal(H)), m.y_norm + m.y_error
        y_size = sqrt(rounded_sum((sizes * sizes).tolist(), 1.0)) or 1.0
        off = float(np.max(m.y_error / np.where(sizes > 0.0, sizes, 1.0)))
        mu = m.lam / (SAFE * float(root.max(initial=sqrt(m.lam))) ** 2)
        r = float((m.error[index] / root).max(initial=0.0))
        eps = SAFE * (m.unit + 2.0 * r + off + (k + 12.0) * U)
        H /= np.multiply.outer(root, root)
        if eps / mu > 1e-10 and 0 < size <= MOST_EIGENVALUES:
            # Definite after a shift: c as in ``slack`` of the products, and eps in every entry.
            shift = size * eps + 4.0 * (size + 4.0) * U * size
            more = 0.5 * float(np.linalg.eigvalsh(H)[0]) - shift
            if more > mu and is_definite(H - (more + shift) * np.eye(size)):
                mu = more
        per_term = m.T + 4.0 if m.T > 1 else 1.0
        # A factorisation, and the change of it by one more member on both sides of H.
        changed = size + 2.0 * (size + 12.0) * (1.0 + 2.0 * sqrt(max(0.0, -log(mu))))
        self.doubt = 2.0 * gain_slack(eps + SAFE * changed * U, size, mu, per_term)
        none = np.zeros(0)
        errors = [m.margins(t, index[:0], none)[2] for t in range(m.T)]
        yy = rounded_sum((m.yy - errors).tolist(), -1.0)
        T = (yy - 2.0 * claim) / y_size**2 - 2.0 * gain_slack(eps, k, mu, per_term)
        return H, m.q[index].T / (root * y_size), T, mu

    def _least_of(
        self, S: Positions, found: list[Positions], claim: float, mu: float
    ) -> tuple[float, list[Support]]:
        """Return the claim, or the least cost of an allowed one, and forbidden ones below it."""
        # If H >= mu diag(H), mu diag(H) - lam I may move into the ridge.
        forbidden: list[Support] = []
        least = claim
        for hits in found:
            for b in blocks_of(len(hits), AT_ONCE):
                some = hits[b]
                first = np.broadcast_to(S, (len(some), len(S)))
                sets = np.concatenate([first, self.J[some]], axis=1)
                quick = set_costs(self.products, sets, True, 0, claim, mu, quick=True)
                low = np.flatnonzero(~(quick >= claim))
                counts = np.array([self._counts(sets[a]) for a in low], dtype=bool)
                forbidden += map(tuple, some[low[~counts]].tolist())
                values = set_costs(self.products, sets[low[counts]], True, 0, claim, mu)
                least = min(least, float(values.min(initial=inf)))
        return least, forbidden

    def _counts(self, support: Positions) -> bool:
        """Whether the claim speaks of a support."""
        excepted = bool(self.exceptions) and tuple(sorted(support.tolist())) in self.exceptions
        return not excepted and self.rules.allows(support)


def gain_slack(eps: float, k: int, mu: float, per_term: float) -> float:
    """Return the slack of a gain of k terms, with ``per_term`` roundings each, as at the head."""
    B2 = k / mu
    return SAFE * (eps * (sqrt(B2) + 0.5 * B2) + (k * per_term + 12.0) * U)


def least_of_input_sets(products: InnerProducts, rules: Rules, at: Fixings, claim: float) -> float:
    """Return the least bound of all sets of inputs that fill the budget, at least the claim.

    A set is bounded by the ridge regression on its monomials.
    """
    used = rules.uses[at.terms != OUT].any(axis=0)
    undecided = np.flatnonzero(used & (at.inputs == FREE))
    room = rules.input_room(at)
    demand(comb(len(undecided), room) <= MOST_SETS, "it has too many sets of inputs to check")
    least, L = inf, rules.room(at)
    for one in combinations(undecided.tolist(), min(room, len(undecided))):
        outside = np.setdiff1d(undecided, one)
        J = np.flatnonzero((at.terms != OUT) & ~(rules.uses[:, outside] > 0.0).any(axis=1))
        found = float(set_costs(products, J[None, :], at.terms[J] == IN, L, claim)[0])
        demand(found >= claim, f"inputs {one} prove {found:.12g}, less than the bound")
        least = min(least, found)
    return least


class Marking:
    """Marks the completions by up to L members that may gain T / 2, depth first."""

    def __init__(
        self, L: int, uses: NDArray[np.bool_], room: int, doubt: float, work: float = 0.0
    ) -> None:
        self.L, self.uses, self.room, self.doubt, self.work = L, uses, room, doubt, work
        self.found: dict[int, list[Any]] = {}  # by size
        self.count = 0

    def run(self, H: Floats, B: Floats, T: float, *, exact_size: bool) -> list[Positions]:
        """Return the marked completions, one array for each size."""
        self.least_size = self.L if exact_size else 0
        self.rounding = 128.0 * len(B) * U
        if self.rounding >= T:
            self._note((), np.zeros((1, 0), dtype=np.intp))  # no member at all
        self._go(H, np.diagonal(H), B, T, np.arange(len(H)), ())
        return [np.concatenate(parts) for _, parts in sorted(self.found.items())]

    def _note(self, members: Support, more: Positions) -> None:
        """Take down members with each row of further ones, if the rules allow it."""
        size = len(members) + more.shape[1]
        if size < self.least_size or not len(more):
            return
        first = np.broadcast_to(np.array(members, dtype=np.intp), (len(more), len(members)))
        sets = np.concatenate([first, more], axis=1)
        sets = sets[self.uses[sets].any(axis=1).sum(axis=1) <= self.room]
        self.count += len(sets)
        demand(self.count <= MOST_HITS, TOO_CLOSE)
        self.found.setdefault(size, []).append(sets)

    def _note_all(self, members: Support, J: Positions, least: int = 0) -> None:
        """Take down members with any of the candidates J, at least some and as many as may join."""
        for k in range(least, min(self.L - len(members), len(J)) + 1):
            demand(self.count + comb(len(J), k) <= MOST_HITS, TOO_CLOSE)
            more = np.array(list(combinations(J.tolist(), k)), dtype=np.intp)
            self._note(members, more.reshape(-1, k))

    def _go(
        self, H: Floats, h: Floats, B: Floats, T: float, J: Positions, members: Support
    ) -> None:
        """Mark what comes after some members; H, its diagonal h, B and T are what those leave.

        If two are to come, H has the rows of those only that may be the first of them.
        """
        self.work += float(H.size + h.size)
        demand(self.work <= MOST_PAIRS, TOO_MANY)
        used = self.uses[list(members)].any(axis=0)
        fits = (self.uses[J] | used).sum(axis=1) <= self.room
        left = self.L - len(members)
        if not T > 0.0 or not left:  # with nothing left to gain all may do
            self._note_all(members, J[fits], 1)
            return
        lost = fits & ~(h > 0.0)  # rounding has left no pivot: it may gain anything
        for a in np.flatnonzero(lost).tolist():
            fits[a] = False
            self._note_all((*members, int(J[a])), J[fits])
        if not fits.all():
            rest = np.flatnonzero(fits)
            H, h, B, J = H[np.ix_(rest[rest < len(H)], rest)], h[rest], B[:, rest], J[rest]
        if not len(J):
            return
        S = (B * B).sum(axis=0)
        lowered = T - self.rounding * (float((S / h).max()) + T)
        self._note(members, J[~(lowered * h >= S)][:, None])
        if left == 2:
            own = np.stack([S - lowered * h, h], axis=1) / T
            self._mark_pairs(H, B, own, np.stack([h, S]), 2.0 * B / T, J, members)
        elif left > 2:
            self._go_on(H, B, T, J, members, left)

    def _go_on(
        self, H: Floats, B: Floats, T: float, J: Positions, members: Support, left: int
    ) -> None:
        """Take each candidate in that may gain enough with those behind it."""
        m, last = len(J), len(J)
        self.work += 0.5 * m**3
        factor, cuts = _factor(H, B, greedy=left >= SORTED or not members), np.full(m, m)
        if factor is not None:
            order, F, z = factor
            H, B, J = H[np.ix_(order, order)], B[:, order], J[order]
            last = int(_cut((z * z).sum(axis=0)[None], np.array([T]), self.doubt)[0])
        h, S = np.diagonal(H), (B * B).sum(axis=0)
        if factor is not None and left == 3:
            cuts = _cut(_squares_with(F[:last], z), (T - S / h)[:last], self.doubt)
        for a in range(last):
            v, b, left_T = H[a, a + 1 :] / sqrt(h[a]), B[:, a] / sqrt(h[a]), T - S[a] / h[a]
            top = slice(a + 1, max(a + 1, int(cuts[a])))
            rest = H[top, a + 1 :] - np.multiply.outer(v[: top.stop - top.start], v)
            left_B = B[:, a + 1 :] - np.multiply.outer(b, v)
            self._go(rest, h[a + 1 :] - v * v, left_B, left_T, J[a + 1 :], (*members, int(J[a])))

    def _mark_pairs(
        self, H: Floats, B: Floats, own: Floats, other: Floats, twice: Floats, J: Positions,
        members: Support,
    ) -> None:  # fmt: skip
        """Mark completions by j < k, j one of the rows of H."""
        m = len(J)
        for rows in blocks_of(min(m - 1, len(H)), max(1, ENTRIES // m)):
            behind = slice(rows.start + 1, m)
            x = H[rows, behind]
            e = x - twice[:, rows].T @ B[:, behind]
            e *= x
            e += own[rows] @ other[:, behind]
            e[np.arange(1, len(e)), np.arange(len(e) - 1)] = -1.0  # j with itself
            if e.max(initial=-1.0) <= 0.0:
                continue
            one, two = np.nonzero(np.triu(~(e <= 0.0)))
            self._note(members, np.column_stack([J[rows.start + one], J[rows.start + 1 + two]]))


def _cut(squares: Floats, T: Floats, doubt: float) -> Positions:
    """Return, row by row, from which place on all together gain less than T/2, rounding too."""
    gains = np.cumsum(squares[:, ::-1], axis=1)[:, ::-1]
    bar = T[:, None] - doubt - 64.0 * U * (np.abs(T)[:, None] + gains)
    enough = ~(gains < bar)
    places = np.arange(1, squares.shape[1] + 1)
    return np.asarray(np.where(enough, places, 0).max(axis=1))


def _factor(H: Floats, B: Floats, *, greedy: bool) -> tuple[Positions, Floats, Floats] | None:
    """Return an order, and F and z of it; None if rounding leaves no F.

    With ``greedy`` the order is the one that passes most over.
    """
    m = len(H)
    rest, left, order = np.diagonal(H).copy(), B.copy(), np.arange(m)
    C, z = np.zeros((m, m)), np.zeros(B.shape)
    if not greedy:
        whole = np.full((m + len(B), m + len(B)), 0.0)  # from the last member on, then responses
        whole[:m, :m], whole[m:, :m] = H[::-1, ::-1], B[:, ::-1]
        whole[m:, m:] = BORDER * np.eye(len(B))
        try:
            lower = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return None
        F, z = lower[:m, :m][::-1, ::-1], lower[m:, :m][:, ::-1]
        return (order, F, z) if np.isfinite(lower).all() else None
    for t in range(m - 1, -1, -1):
        some = order[: t + 1]
        a = int(np.argmin((left[:, some] ** 2).sum(axis=0) / rest[some]))
        order[[a, t]] = order[[t, a]]
        j = order[t]
        if not rest[j] > 0.0:
            return None
        root = sqrt(rest[j])
        C[t] = (H[j] - C[t + 1 :, j] @ C[t + 1 :]) / root
        rest = rest - C[t] * C[t]
        z[:, t] = left[:, j] / root
        left = left - np.multiply.outer(z[:, t], C[t])
    return order, np.triu(C[:, order].T), z


def _squares_with(F: Floats, z: Floats) -> Floats:
    """Return the squares of z, summed over responses, once member a (a row) is in."""
    u = np.triu(F)
    squares, behind = np.zeros(F.shape), np.triu(np.ones(F.shape, dtype=bool), 1)
    more = np.cumsum(u * u, axis=1)
    before = np.concatenate([np.zeros((len(F), 1)), more[:, :-1]], axis=1)
    for row in z:
        p = np.cumsum(u * row, axis=1)
        p = np.concatenate([np.zeros((len(F), 1)), p[:, :-1]], axis=1)
        x = before * row - u * p
        with np.errstate(all="ignore"):
            squares += np.where(behind, x * x / (before * more), 0.0)
    return squares
