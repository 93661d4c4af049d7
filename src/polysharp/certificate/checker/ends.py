"""Ends that are checked by trying everything: few completions, or all sets of inputs.

An exhausted node has the monomials S in and room for L of the free ones.  Columns of H = G + lam I
and y are scaled to length one.  The members of a completion are eliminated one by one, depth first
(H and b = q become Schur complements), and the last two are treated together: with h = diag(H)
and T twice the gain that the claim still leaves to the others,

    b_j^2 > T h_j       or       b_j^2 h_k + b_k^2 h_j - 2 H_jk b_j b_k > T (h_j h_k - H_jk^2)

mark the completions that may cost less than the claim, and those are refitted one by one.  With
several responses b has a row for each, over the length of all of them together, and its squares and
products are sums over them.

Rounding: k eliminations are exact for data that are changed by at most eps in each entry,
eps = unit + 2 r + r_y + (k + 12) u, r = max error_j / sqrt(H_jj), r_y = error_y / |y|.  At the
optimum x of a support of size l, gain = b'x - x'Hx/2 changes by at most

    slack = eps (B + B^2/2) + (k + 12) u,       B = sum_j |x_j| <= sqrt(l / mu),

because x'Hx <= 1, if mu bounds the eigenvalues of H from below; lam over the largest G_jj + lam
does, and a factorisation may show a larger one.  So what is not marked at claim + slack costs at
least the claim.  The gain of one of T responses is wrong by at most its share of sum_t |y_t|^2
times that, hence the sum of them by no more than the largest slack; adding T squares takes T
further roundings, of which k eliminations have k T.

Part of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb, inf, isfinite, sqrt

import numpy as np

from polysharp.certificate.checker.bounds import CLOSER, costs
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

MOST_PAIRS = 2e11  # in all exhausted ends of a proof together: about an hour
VISIT = 1e4  # pairs that take as long as a visit does by itself
MOST_HITS = 200_000  # refitted below one node
MOST_SETS = 1_000_000  # of inputs below one node
MOST_EIGENVALUES = 2000  # monomials beyond which mu is lam over the largest G_jj + lam
FEW = 2048  # completions that are all refitted, however ill-conditioned
CHUNK = 2048  # supports refitted at a time
TOO_MANY = "it has more completions than a reader can try"


class Exhaustion:
    """Goes through all completions of a node; ``pairs`` counts the work of all nodes."""

    def __init__(
        self, every: Sequence[Moments], rules: Rules, excepted: frozenset[Support]
    ) -> None:
        self.every, self.rules, self.pairs = every, rules, 0.0  # the moments of each response
        self.moments = max(every, key=lambda own: own.y_norm)
        self.excepted = excepted  # supports that the claim leaves out

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
        hits, least = all_choices(len(self.J), self.L), claim
        while len(hits):
            value, forbidden = self._least_of(S, [hits], claim, mu)
            least, size = min(least, value), hits.shape[1] - 1
            smaller = size >= 0 and not self.rules.exact_size
            parts = {part for one in forbidden if smaller for part in combinations(one, size)}
            demand(len(parts) <= MOST_HITS, TOO_MANY)
            hits = np.array(sorted(parts), dtype=np.intp).reshape(len(parts), max(size, 0))
        return least

    def _hits(self, at: Fixings, H: Array, B: Array, T: float, fixed: int) -> list[Indices]:
        """Return the completions that may cost less than the claim."""
        self.uses = self.rules.uses[self.J] * (at.inputs != IN)
        self.room = self.rules.max_inputs - int(np.count_nonzero(at.inputs == IN))
        self.hits: list[Indices] = []
        binding = min(self.uses.sum(axis=1).max() * self.L, self.uses.shape[1]) > self.room
        demand(binding or comb(len(self.J), self.L) <= MOST_PAIRS, TOO_MANY)
        demand(self.moments.floats_hold, "its completions can be tried in floats only")
        for _ in range(fixed):
            H, B, T = _eliminated(H, B, T, 0, np.arange(1, len(H)))
        demand(isfinite(T), "its completions leave the floats")
        if 64.0 * len(B) * U >= T:
            self._mark((), np.zeros((1, 0), dtype=np.intp))
        self._visit(H, B, T, np.arange(len(self.J)), ())
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
        B2, count = k / mu, len(self.every)
        roundings = k * (count + 4.0 if count > 1 else 1.0) + 12.0
        slack = SAFE * (eps * (sqrt(B2) + 0.5 * B2) + roundings * U)
        none = index[:0]
        yy = rounded_sum([own.yy - own.margins(none, m.q[none])[2] for own in self.every], -1.0)
        B = np.array([own.q[index] for own in self.every]) / (root * y_size)
        return H, B, (yy - 2.0 * claim) / y_size**2 - 2.0 * slack, mu

    def _visit(self, H: Array, B: Array, T: float, J: Indices, chosen: tuple[int, ...]) -> None:
        """Mark the completions that have ``chosen`` and one or more of J."""
        used = self.uses[list(chosen)].max(axis=0, initial=0.0)
        room, new = self.room - int(used.sum()), self.uses[J] * (1.0 - used)
        fits = np.flatnonzero(new.sum(axis=1) <= room)
        if len(fits) < len(J):
            H, B, J, new = H[np.ix_(fits, fits)], B[:, fits], J[fits], new[fits]
        h, left = np.diagonal(H).copy(), self.L - len(chosen)
        demand(np.all(h > 0.0), "its completions are too nearly dependent to be tried")
        squares = np.einsum("tj,tj->j", B, B)
        tol = 64.0 * len(B) * U * (float((squares / h).max(initial=0.0)) + abs(T))
        self._mark(chosen, J[np.flatnonzero(~(squares <= (T - tol) * h))][:, None])
        self.pairs += 0.5 * len(J) ** 2 * (0.9 + 0.1 * len(B)) + VISIT
        demand(self.pairs <= MOST_PAIRS, TOO_MANY)
        if left == 2:
            P = T * H
            P -= 2.0 * (B.T @ B)
            P *= H
            P += np.stack([squares - (T - tol) * h, h], axis=1) @ np.stack([h, squares])
            if not P.max(initial=-inf) <= 0.0:
                pairs = np.argwhere(np.triu(~(P <= 0.0), 1))
                together = np.maximum(new[pairs[:, 0]], new[pairs[:, 1]]).sum(axis=1)
                self._mark(chosen, J[pairs[together <= room]])
        elif left > 2:
            for a in range(len(J) - 1):
                later = np.arange(a + 1, len(J))
                self._visit(*_eliminated(H, B, T, a, later), J[later], (*chosen, int(J[a])))

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
        """Return the claim, or the least cost of what is allowed, and what else costs less."""
        # Where H >= mu diag(H), mu diag(H) - lam I may move into the ridge.
        least, forbidden = claim, []
        for hits in found:
            for start in range(0, len(hits), CHUNK):
                some = hits[start : start + CHUNK]
                first = np.broadcast_to(S, (len(some), len(S)))
                sets = np.concatenate([first, self.J[some]], axis=1)
                values = self._costs(sets, claim, mu)
                for a in np.flatnonzero(~(values >= claim)).tolist():
                    excepted = bool(self.excepted) and tuple(sorted(sets[a])) in self.excepted
                    if excepted or not self.rules.allows(sets[a]):
                        forbidden.append(tuple(some[a].tolist()))
                    else:
                        least = min(least, float(values[a]))
        return least, forbidden

    def _costs(self, sets: Indices, claim: float, mu: float) -> Array:
        """Return bounds on what supports cost, all responses together."""
        if len(self.every) == 1:
            return costs(self.moments, sets, True, 0, claim, mu)

        def added(some: Indices, closely: float) -> Array:
            each = np.array([costs(own, some, True, 0, closely, mu) for own in self.every])
            total = each.sum(axis=0) - 2.0 * len(each) * U * np.abs(each).sum(axis=0)
            return np.asarray(np.fmax(total, -inf))  # never NaN, which would vanish in a minimum

        values = added(sets, 0.0)
        low = np.flatnonzero(~(values >= claim))[: CLOSER if sets.shape[1] else 0]
        if len(low):
            values[low] = np.maximum(values[low], added(sets[low], inf))
        return values


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


def all_choices(size: int, k: int) -> Indices:
    """Return all sets of k of so many positions, one row each."""
    return np.array(list(combinations(range(size), k)), dtype=np.intp).reshape(comb(size, k), k)


def least_of_sets(
    moments: Moments, rules: Rules, at: Fixings, listed: list[Indices], claim: float
) -> tuple[float, Indices]:
    """Return the least bound of the sets of inputs that are not listed, and the undecided inputs.

    A set fills the budget of inputs; it is bounded by the ridge regression on its monomials.
    """
    used = rules.uses[at.terms != OUT].any(axis=0)
    undecided = np.flatnonzero(used & (at.inputs == FREE))
    room = rules.max_inputs - int(np.count_nonzero(at.inputs == IN))
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
