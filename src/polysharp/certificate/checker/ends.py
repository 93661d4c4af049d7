"""Ends that are checked by trying everything: few completions, or all sets of inputs.

An exhausted node has the monomials S in and room for L of the free ones.  Its completions are gone
through (``completions``), columns of H = G + lam I and y scaled to length one; those that may cost
less than the claim are refitted one by one.

Rounding: k eliminations are exact for data that are changed by at most eps in each entry,
eps = unit + 2 r + r_y + (k + 12) u, r = max error_j / sqrt(H_jj), r_y = error_y / |y|.  At the
optimum x of a support of size l, gain = b'x - x'Hx/2 changes by at most

    slack = eps (B + B^2/2) + (k + 12) u,       B = sum_j |x_j| <= sqrt(l / mu),

because x'Hx <= 1, if mu bounds the eigenvalues of H from below; lam over the largest G_jj + lam
does, and a factorisation may show a larger one.  So what is not marked at claim + slack costs at
least the claim.  A factorisation of m columns rounds each entry m times more, and one more member
changes it on both sides of H by (m + 12) (1 + 2 sqrt(log(1/mu))) u at most (sigma and p are sums of
squares and of products that are no longer; sum u^2 / (sigma + u^2) is at most log(1/F_aa^2)).  The
gain of one of T responses is wrong by at most its share of sum_t |y_t|^2
times that, hence the sum of them by no more than the largest slack; adding T squares takes T
further roundings, of which k eliminations have k T.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import comb, inf, isfinite, log, sqrt

import numpy as np

from polysharp.certificate.checker.bounds import costs
from polysharp.certificate.checker.completions import (
    DEPENDENT,
    MOST_HITS,
    TOO_MANY,
    Sought,
    may_gain,
)
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
MOST_SETS = 1_000_000  # of inputs below one node
MOST_EIGENVALUES = 2000  # monomials beyond which mu is lam over the largest G_jj + lam
FEW = 2048  # completions that are all refitted, however ill-conditioned
CHUNK = 2048  # supports refitted at a time


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
        uses = (self.rules.uses[self.J] * (at.inputs != IN)) > 0.0
        room, exact_size = self.rules.input_room(at), self.rules.exact_size
        ruled = min(uses.sum(axis=1).max(initial=0) * self.L, uses.shape[1]) > room
        uses = np.ascontiguousarray(uses[:, : None if ruled else 0])
        sought = Sought(self.L, exact_size, uses, room, self.doubt)
        demand(ruled or comb(len(self.J), self.L) <= MOST_CHOICES, TOO_MANY)
        demand(self.moments.floats_hold, "its completions can be tried in floats only")
        for _ in range(fixed):
            H, B, T = _eliminated(H, B, T, 0, np.arange(1, len(H)))
        demand(isfinite(T), "its completions leave the floats")
        hits, self.pairs = may_gain(H, B, T, sought, self.pairs)
        return hits

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
        # A factorisation, and the change of it by one more member on both sides of H.
        changed = size + 2.0 * (size + 12.0) * (1.0 + 2.0 * sqrt(max(0.0, -log(mu))))
        self.doubt = 2.0 * gain_slack(eps + SAFE * changed * U, size, mu, per_term)
        none = index[:0]
        yy = rounded_sum([own.yy - own.margins(none, m.q[none])[2] for own in self.every], -1.0)
        T = (yy - 2.0 * claim) / y_size**2 - 2.0 * gain_slack(eps, k, mu, per_term)
        B = np.array([own.q[index] for own in self.every]) / (root * y_size)
        return H, B, T, mu

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
    demand(H[j, j] > 0.0, DEPENDENT)
    row, rate = H[j, others], H[j, others] / H[j, j]
    rest = H[np.ix_(others, others)]
    rest -= np.multiply.outer(row, rate)
    own = B[:, j]
    return rest, B[:, others] - own[:, None] * rate, T - float(own @ own / H[j, j])


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
