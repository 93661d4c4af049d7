"""Ends that are checked by trying everything: few completions, or all sets of inputs.

An exhausted node has the monomials S in and room for L of the free ones.  Columns of H = G + lam I
and y are scaled to length one.  The members of a completion are eliminated one by one, depth first
(H and b = q become Schur complements), and the last two are treated together: with h = diag(H)
and T twice the gain that the claim still leaves to the others,

    b_j^2 > T h_j       or       b_j^2 h_k + b_k^2 h_j - 2 H_jk b_j b_k > T (h_j h_k - H_jk^2)

mark the completions that may cost less than the claim, and those are refitted one by one.  Members
come strongest first.  More members never gain less: where all those from one on gain too little
together, none of the completions among them is visited (leaps and bounds).  With several responses
b has a row for each, over the length of all of them together, and its squares and products are sums
over them.

Rounding: k eliminations are exact for data that are changed by at most eps in each entry,
eps = unit + 2 r + r_y + (k + 12) u, r = max error_j / sqrt(H_jj), r_y = error_y / |y|.  At the
optimum x of a support of size l, gain = b'x - x'Hx/2 changes by at most

    slack = eps (B + B^2/2) + (k + 12) u,       B = sum_j |x_j| <= sqrt(l / mu),

because x'Hx <= 1, if mu bounds the eigenvalues of H from below; lam over the largest G_jj + lam
does, and a factorisation may show a larger one.  So what is not marked at claim + slack costs at
least the claim.  The gain of one of T responses is wrong by at most its share of sum_t |y_t|^2
times that, hence the sum of them by no more than the largest slack; adding T squares takes T
further roundings, of which k eliminations have k T.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import comb, inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from polysharp.certificate.checker.bounds import costs
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.moments import is_definite
from polysharp.certificate.checker.rows import SAFE, U, rounded_sum
from polysharp.certificate.checker.rules import (
    FREE,
    IN,
    OUT,
    Array,
    Fixings,
    Indices,
    Rules,
    demand,
)

Support = tuple[int, ...]

MOST_CHOICES = 1e13  # below one node; most of them can be passed over, or it takes too long
MOST_PAIRS = 2e11  # in all exhausted ends of a proof together: about an hour
VISIT = 1e4  # pairs that take as long as a visit does by itself
MOST_HITS = 200_000  # refitted below one node
MOST_SETS = 1_000_000  # of inputs below one node
MOST_EIGENVALUES = 2000  # monomials beyond which mu is lam over the largest G_jj + lam
FEW = 2048  # completions that are all refitted, however ill-conditioned
CHUNK = 2048  # supports refitted at a time
TOGETHER = 2e6  # pairs tested at a time
TOO_MANY = "it has more completions than a reader can try"


class Cases(NamedTuple):
    """H, B and T of several beginnings of a completion, which differ in their last members.

    ``members`` has a row of positions in J for each; what follows stands behind them.
    """

    H: Array
    B: Array
    T: Array
    J: Indices
    members: Indices


class Exhaustion:
    """Goes through all completions of a node; ``pairs`` counts the work of all nodes."""

    def __init__(
        self, every: Sequence[Moments], rules: Rules, excepted: frozenset[Support]
    ) -> None:
        self.every, self.rules, self.pairs = every, rules, 0.0  # the moments of each response
        self.moments = max(every, key=lambda own: own.y_norm)
        self.excepted = excepted  # supports that the claim leaves out
        self.doubt = inf  # twice what rounding may take off the gain of all members together

    def least(self, at: Fixings, claim: float) -> float:
        """Return the claim, or what the cheapest completion costs if that is less."""
        S, J = np.flatnonzero(at.terms == IN), np.flatnonzero(at.terms == FREE)
        self.L, self.J = min(self.rules.room(at), len(J)), J
        if not (claim > 0.0 and self.moments.y_norm > 0.0):
            return 0.0
        few = self.L <= 1 or comb(len(J), self.L) <= FEW
        if few and self._least_of_few(S, claim, 0.0) >= claim:
            return claim
        H, B, T, mu = self._scaled(np.concatenate([S, J]), len(S) + self.L, claim)
        if few:
            return self._least_of_few(S, claim, mu)
        return self._least_of(S, self._hits(at, H, B, T, len(S)), claim, mu)[0]

    def _least_of_few(self, S: Indices, claim: float, mu: float) -> float:
        """Return the claim, or the least cost of all completions."""
        # A support costs no less than one that contains it: smaller ones are tried only where those
        # that contain them are forbidden or left out.
        size, least = self.L, claim
        sets: Collection[Support] = list(combinations(range(len(self.J)), size))
        while sets:
            hits = np.array(sorted(sets), dtype=np.intp).reshape(len(sets), size)
            value, forbidden = self._least_of(S, [hits], claim, mu)
            least, size = min(least, value), size - 1
            smaller = size >= 0 and not self.rules.exact_size
            sets = {part for one in forbidden if smaller for part in combinations(one, size)}
            demand(len(sets) <= MOST_HITS, TOO_MANY)
        return least

    def _hits(self, at: Fixings, H: Array, B: Array, T: float, fixed: int) -> list[Indices]:
        """Return the completions that may cost less than the claim."""
        self.uses = self.rules.uses[self.J] * (at.inputs != IN)
        self.room = self.rules.input_room(at)
        self.hits: list[Indices] = []
        binding = min(self.uses.sum(axis=1).max() * self.L, self.uses.shape[1]) > self.room
        demand(binding or comb(len(self.J), self.L) <= MOST_CHOICES, TOO_MANY)
        demand(self.moments.floats_hold, "its completions can be tried in floats only")
        for _ in range(fixed):
            H, B, T = _eliminated(H, B, T, 0, np.arange(1, len(H)))
        demand(isfinite(T), "its completions leave the floats")
        if 64.0 * len(B) * U >= T:
            self._mark((), np.zeros((1, 0), dtype=np.intp))
        order = np.argsort(-np.einsum("tj,tj->j", B, B) / np.diagonal(H), kind="stable")
        self._visit(H[np.ix_(order, order)], B[:, order], T, order, ())
        return self.hits

    def _scaled(self, index: Indices, k: int, claim: float) -> tuple[Array, Array, float, float]:
        """Return H and B with columns and y of length one, T less twice the slack, and mu."""
        m, size = self.moments, len(index)
        H = m.G[np.ix_(index, index)].copy()
        H[np.diag_indices(size)] += m.lam
        root, sizes = np.sqrt(np.diagonal(H)), [own.y_norm + own.y_error for own in self.every]
        y_size = sqrt(rounded_sum([one * one for one in sizes], 1.0)) or 1.0
        off = [own.y_error / one for own, one in zip(self.every, sizes, strict=True) if one]
        mu = m.lam / (SAFE * float(root.max(initial=sqrt(m.lam))) ** 2)
        r = float((m.error[index] / root).max(initial=0.0))
        eps = SAFE * (m.unit + 2.0 * r + max(off, default=0.0) + (k + 12.0) * U)
        H /= np.multiply.outer(root, root)
        if eps / mu > 1e-10 and 0 < size <= MOST_EIGENVALUES:
            # Definite after a shift: c as in ``slack`` of the moments, and eps in every entry.
            shift = size * eps + 4.0 * (size + 4.0) * U * size
            more = 0.5 * float(np.linalg.eigvalsh(H)[0]) - shift
            if more > mu and is_definite(H - (more + shift) * np.eye(size)):
                mu = more
        per_term = len(self.every) + 4.0 if len(self.every) > 1 else 1.0
        self.doubt = 2.0 * gain_slack(eps + SAFE * size * U, size, mu, per_term)
        none = index[:0]
        yy = rounded_sum([own.yy - own.margins(none, m.q[none])[2] for own in self.every], -1.0)
        T = (yy - 2.0 * claim) / y_size**2 - 2.0 * gain_slack(eps, k, mu, per_term)
        B = np.array([own.q[index] for own in self.every]) / (root * y_size)
        return H, B, T, mu

    def _visit(self, H: Array, B: Array, T: float, J: Indices, chosen: tuple[int, ...]) -> None:
        """Mark the completions that have ``chosen`` and one or more of J."""
        used = self.uses[list(chosen)].max(axis=0, initial=0.0)
        fits = np.flatnonzero(np.maximum(self.uses[J], used).sum(axis=1) <= self.room)
        if len(fits) < len(J):
            H, B, J = H[np.ix_(fits, fits)], B[:, fits], J[fits]
        left, none = self.L - len(chosen), np.zeros((1, 0), dtype=np.intp)
        self._test(Cases(H[None], B[None], np.array([T]), J, none), chosen, used)
        if left <= 2:
            return
        last = min(len(J) - 1, self._cut(H, B, T))
        if left > 3:
            for a in range(last):
                later = np.arange(a + 1, len(J))
                self._visit(*_eliminated(H, B, T, a, later), J[later], (*chosen, int(J[a])))
            return
        step = max(1, int(TOGETHER / len(J) ** 2))
        for first in range(0, last, step):
            members = np.arange(first, min(first + step, last))[:, None]
            self._test(_each_eliminated(H, B, T, J, members), chosen, used)

    def _test(self, cases: Cases, chosen: tuple[int, ...], used: Array) -> None:
        """Mark what may gain enough: one more member, and two where there is room for no more."""
        H, B, T, J, members = cases
        count, size = B.shape[1], len(J)
        self.pairs += 0.5 * H.size * (0.9 + 0.1 * count) + VISIT
        demand(self.pairs <= MOST_PAIRS, TOO_MANY)
        later = np.arange(size) > members.max(axis=1, initial=-1)[:, None]
        h = np.einsum("cjj->cj", H)
        demand(np.all(h[later] > 0.0), "its completions are too nearly dependent to be tried")
        h = np.where(later, h, 1.0)
        squares = np.einsum("ctj,ctj->cj", B, B)
        largest = np.where(later, squares / h, 0.0).max(axis=1, initial=0.0)
        lowered = (T - 64.0 * count * U * (largest + np.abs(T)))[:, None]
        found = [np.argwhere(later & ~(squares <= lowered * h))]
        if self.L - len(chosen) - members.shape[1] == 2:
            P = T[:, None, None] * H
            P -= 2.0 * np.matmul(B.transpose(0, 2, 1), B)
            P *= H
            P += (squares - lowered * h)[:, :, None] * h[:, None, :]
            P += h[:, :, None] * squares[:, None, :]
            found.append(np.argwhere(np.triu(~(P <= 0.0), 1) & later[:, :, None]))
        for hits in found:
            more = J[np.concatenate([members[hits[:, 0]], hits[:, 1:]], axis=1)]
            together = np.maximum(self.uses[more].max(axis=1, initial=0.0), used).sum(axis=1)
            self._mark(chosen, more[together <= self.room])

    def _cut(self, H: Array, B: Array, T: float) -> int:
        """Return the first position from which on all together gain less than T/2, rounding too."""
        try:
            root = np.linalg.cholesky(H[::-1, ::-1])
        except np.linalg.LinAlgError:
            return len(H)
        each = np.linalg.solve(root, B[:, ::-1].T)
        gains = np.cumsum(np.einsum("jt,jt->j", each, each))
        margin = self.doubt + 64.0 * len(B) * U * (abs(T) + gains)
        return len(H) - int(np.count_nonzero(gains < T - margin))

    def _mark(self, chosen: tuple[int, ...], more: Indices) -> None:
        short = len(chosen) + more.shape[1] < self.L
        if len(more) and not (short and self.rules.exact_size):
            first = np.broadcast_to(np.array(chosen, dtype=np.intp), (len(more), len(chosen)))
            self.hits.append(np.concatenate([first, more], axis=1))
            hits = sum(map(len, self.hits))
            demand(hits <= MOST_HITS, "too many of its completions come close to the bound")

    def _least_of(
        self, S: Indices, found: list[Indices], claim: float, mu: float
    ) -> tuple[float, list[Support]]:
        """Return the claim, or the least cost of what is allowed, and what else may cost less."""
        # Where H >= mu diag(H), mu diag(H) - lam I may move into the ridge.
        forbidden: list[Support] = []
        least = claim
        for hits in found:
            for start in range(0, len(hits), CHUNK):
                some = hits[start : start + CHUNK]
                first = np.broadcast_to(S, (len(some), len(S)))
                sets = np.concatenate([first, self.J[some]], axis=1)
                low = np.flatnonzero(~(self._costs(sets, 0.0, mu) >= claim))
                counts = np.array([self._counts(sets[a]) for a in low], dtype=bool)
                forbidden += map(tuple, some[low[~counts]].tolist())
                values = self._costs(sets[low[counts]], claim, mu)
                least = min(least, float(values.min(initial=inf)))
        return least, forbidden

    def _counts(self, support: Indices) -> bool:
        """Whether the claim speaks of a support."""
        excepted = bool(self.excepted) and tuple(sorted(support.tolist())) in self.excepted
        return not excepted and self.rules.allows(support)

    def _costs(self, sets: Indices, claim: float, mu: float) -> Array:
        """Return bounds on what supports cost; what is below a positive claim is tried again."""
        if len(self.every) == 1:
            return costs(self.moments, sets, True, 0, claim, mu)
        claim = inf if claim > 0.0 else 0.0  # which one response does not reach by itself
        each = np.array([costs(own, sets, True, 0, claim, mu) for own in self.every])
        total = each.sum(axis=0) - 2.0 * len(each) * U * np.abs(each).sum(axis=0)
        return np.asarray(np.fmax(total, -inf))  # never NaN, which would vanish in a minimum


def gain_slack(eps: float, k: int, mu: float, per_term: float) -> float:
    """Return the slack of a gain of k terms, with so many roundings for each, as at the head."""
    B2 = k / mu
    return SAFE * (eps * (sqrt(B2) + 0.5 * B2) + (k * per_term + 12.0) * U)


def _eliminated(
    H: Array, B: Array, T: float, j: int, others: Indices
) -> tuple[Array, Array, float]:
    """Take monomial j into the model: Schur complements on the others, and the gain off T."""
    demand(H[j, j] > 0.0, "its completions are too nearly dependent to be tried")
    row, rate = H[j, others], H[j, others] / H[j, j]
    rest = H[np.ix_(others, others)]
    rest -= np.multiply.outer(row, rate)
    own = B[:, j]
    return rest, B[:, others] - own[:, None] * rate, T - float(own @ own / H[j, j])


def _each_eliminated(H: Array, B: Array, T: float, J: Indices, members: Indices) -> Cases:
    """Take each of some monomials into the model, one at a time."""
    a = members[:, 0]
    own, rate = B[:, a].T, H[a] / H[a, a, None]
    rest = H - H[a][:, :, None] * rate[:, None, :]
    gained = np.einsum("ct,ct->c", own, own) / H[a, a]
    return Cases(rest, B - own[:, :, None] * rate[:, None, :], T - gained, J, members)


def least_of_sets(
    moments: Moments, rules: Rules, at: Fixings, listed: list[Indices], claim: float
) -> tuple[float, Indices]:
    """Return the least bound of the sets of inputs that are not listed, and the undecided inputs.

    A set fills the budget of inputs; it is bounded by the ridge regression on its monomials.
    """
    used = rules.uses[at.terms != OUT].any(axis=0)
    undecided = np.flatnonzero(used & (at.inputs == FREE))
    room = rules.input_room(at)
    demand(comb(len(undecided), room) <= MOST_SETS, "it has too many sets of inputs to check")
    known = {frozenset(one.tolist()) for one in listed}
    least, L = inf, rules.room(at)
    for one in combinations(undecided.tolist(), min(room, len(undecided))):
        chosen = frozenset(one)
        if chosen in known or (len(one) < room and any(chosen <= other for other in known)):
            continue
        outside = [i for i in undecided.tolist() if i not in chosen]
        J = np.flatnonzero((at.terms != OUT) & ~(rules.uses[:, outside] > 0.0).any(axis=1))
        value = float(costs(moments, J[None, :], at.terms[J] == IN, L, claim)[0])
        demand(value >= claim, f"inputs {one} prove {value:.12g}, less than the bound")
        least = min(least, value)
    return least, undecided
