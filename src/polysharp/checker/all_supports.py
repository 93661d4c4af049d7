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
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from math import comb, inf, isnan, log, sqrt

import numpy as np

from polysharp.checker.allowed import FREE, IN, OUT, Fixings, Rules, demand
from polysharp.checker.checked_rows import blocks_of
from polysharp.checker.curvature import SAFE, U, rounded_sum
from polysharp.checker.evidence import Floats, Positions
from polysharp.checker.inequalities import set_costs
from polysharp.checker.inner_products import InnerProducts, is_definite
from polysharp.checker.marking import MOST_HITS, TOO_MANY, Marking, Support

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
