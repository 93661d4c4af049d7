"""The master problem of Algorithm 2: allowed supports under affine minorants of c.

    minimise  eta   over   (s, h) in S,   eta >= 0,   eta >= b_t + g_t's   for every cut t,

where S is the set of rules of the structure (budgets, hierarchy, requirements, heredity).  Two
kinds of cut are used, c being convex and never raised by a further monomial:

    tangent at s0:   b = c(s0) - g's0,  g = slopes of c at s0      (binary or fractional s0)
    corner at S:     eta >= c(S) - (c(S) - L) sum_{j not in S} s_j  with L <= min c

The corner is much weaker, but exact at S with coefficients near one, so it settles a support
whose tangent is too steep for a solver's tolerances.  For binary s and min c >= L a slope may
be clipped at L - b: with s_j = 1 the cut then says no more than eta >= L.

The master may live on fewer monomials (those not proved to be out) and on a larger ridge: with
e the smallest eigenvalue of their Gram matrix, (G - e I, lam + e) has the same c at binary s
and a larger one in between, so every tangent is stronger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polysharp.engines.base import Run
from polysharp.moments.gram import DenseGram
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import semidefinite
from polysharp.problem.problem import Problem
from polysharp.problem.subproblem import least_cost
from polysharp.typing import Array, Indices

ACCEPT = 1e-6  # shortfall of eta below c(S), relative to the open gap, that needs no cut
NEGLIGIBLE = 1e-8  # slopes below this, in the units of the solvers, leave a row
TOLERANCE = 1e-7  # of reduced costs, in the units of the solvers: what a solver is asked for
LARGEST_SPECTRUM = 1500  # monomials above which no eigenvalue is computed


@dataclass(frozen=True, eq=False)
class Cut:
    """c(s) >= constant + slopes's for all allowed s."""

    constant: float
    slopes: Array

    def clipped(self, floor: float) -> Cut:
        """Return the cut with slopes no steeper than binary s and c >= floor ask for."""
        return replace(self, slopes=np.maximum(self.slopes, min(0.0, floor - self.constant)))


@dataclass(frozen=True, eq=False)
class RuleRows:
    """Linear rules over binary columns: the monomials kept, then the inputs that matter."""

    A: sparse.csr_array
    low: Array
    high: Array
    lower: Array  # one where a column is fixed in
    n_terms: int
    inputs: Indices  # which inputs the columns after the monomials stand for

    @classmethod
    def of(cls, structure: Structure) -> RuleRows:
        """Read the rules off a structure; inputs without a rule have no column."""
        rows = structure.constraints
        A = sparse.csc_array(rows.A)
        used = np.diff(A.indptr) > 0
        used[: structure.n_terms] = True
        return cls(
            sparse.csr_array(A[:, used]),
            np.asarray(rows.lb, dtype=np.float64),
            np.asarray(rows.ub, dtype=np.float64),
            structure.lower[used],
            structure.n_terms,
            np.flatnonzero(used[structure.n_terms :]),
        )

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.A.shape[1])

    def implied_out(self, out: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Extend a set of columns fixed to zero by those that a row then forces to zero."""
        A = sparse.coo_array(self.A)
        while True:
            upper = np.where(out, 0.0, 1.0)
            least = np.minimum(A.data * self.lower[A.col], A.data * upper[A.col])
            activity = np.bincount(A.row, weights=least, minlength=A.shape[0])
            raised = activity[A.row] - least + A.data
            blocked = (A.data > 0) & (raised > self.high[A.row] + 0.5) & ~out[A.col]
            if not blocked.any():
                return out
            out = out.copy()
            out[A.col[blocked]] = True

    def restrict(self, keep: NDArray[np.bool_], fixed_in: NDArray[np.bool_]) -> RuleRows:
        """Drop columns fixed to zero and the rows that can no longer bind."""
        A = sparse.csr_array(sparse.csc_array(self.A)[:, keep])
        lower = np.where(fixed_in, 1.0, self.lower)[keep]
        most = A.maximum(0.0).sum(axis=1) + A.minimum(0.0) @ lower
        least = A.minimum(0.0).sum(axis=1) + A.maximum(0.0) @ lower
        binding = (most > self.high + 1e-9) | (least < self.low - 1e-9)
        return RuleRows(
            A[np.flatnonzero(binding)],
            self.low[binding],
            self.high[binding],
            lower,
            int(keep[: self.n_terms].sum()),
            self.inputs[keep[self.n_terms :]],
        )


@dataclass(frozen=True, eq=False)
class Master:
    """Rules and cuts over the monomials kept.

    Solvers see eta = (cost - floor) / scale: the proven bound is 0 and the incumbent 1, so their
    tolerances are relative to the gap still open.
    """

    posed: Problem
    problem: Problem  # of the kept monomials, possibly with part of G moved into the ridge
    kept: Indices  # their places among all monomials
    rules: RuleRows
    cuts: tuple[Cut, ...] = ()
    floor: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, run: Run) -> Master:
        """Begin with every monomial and no cut."""
        problem = run.problem
        rules = RuleRows.of(problem.structure)
        return cls(problem, problem, np.arange(problem.size), rules).rescaled(run)

    def rescaled(self, run: Run) -> Master:
        """Return the master in the units of the gap open now."""
        best = run.best.objective
        least = max(1e-6 * best, 1e-9 * run.problem.yy, np.finfo(float).tiny)
        return replace(self, floor=run.bound, scale=max(best - run.bound, least))

    def renewed(self, run: Run, cuts: Iterable[Cut]) -> Master | None:
        """Return the master for another tree, or None where the open gap hardly shrank.

        A tree ends within tolerances relative to the gap open at its start: where it closed
        most of it and the run wants more, the rest is worth a tree in smaller units.
        """
        renewed = replace(self, cuts=(*self.cuts, *cuts)).rescaled(run)
        return renewed if renewed.scale <= 0.5 * self.scale else None

    def eta(self, cost: float) -> float:
        """Return a cost in the units of the solvers."""
        return (cost - self.floor) / self.scale

    def row(self, cut: Cut) -> tuple[Indices, Array, float]:
        """Return columns j, values v and side b of a cut as  eta + sum_j v_j s_j >= b."""
        values = -cut.slopes / self.scale
        where = np.flatnonzero(values > NEGLIGIBLE)
        # What is left out counts as if its monomial were in, at most l of them.
        left_out = np.delete(values, where)
        most = np.sort(left_out)[::-1][: self.posed.structure.max_terms].sum()
        return where, values[where], self.eta(cut.constant) - float(most)

    def tangent(self, s: Array) -> Cut:
        """Return the tangent of c at s (over the kept monomials)."""
        active = np.flatnonzero(s > 0.0)
        return Cut(*self.problem.tangent(active, s[active]))

    def corner(self, s: Array, value: float, floor: float) -> Cut:
        """Return the cut that is exact at binary s and says eta >= floor elsewhere."""
        return Cut(value, np.where(s > 0.5, 0.0, min(0.0, floor - value)))

    def point(self, support: Indices) -> Array:
        """Return the columns (s, h) of a support of the problem posed."""
        used = self.posed.structure.inputs_of(support)[self.rules.inputs]
        s = np.isin(self.kept, support)
        return np.maximum(np.concatenate([s, used]).astype(np.float64), self.rules.lower)

    def with_cuts(self, cuts: Iterable[Cut]) -> Master:
        """Return the master with more cuts."""
        return replace(self, cuts=(*self.cuts, *cuts))

    def restrict(self, keep: NDArray[np.bool_], fixed_in: NDArray[np.bool_]) -> Master:
        """Drop the columns proved to be zero."""
        stay = np.flatnonzero(keep[: self.rules.n_terms])
        structure = self.problem.structure
        # Only budgets here: all other rules stay rows of the master.
        budgets = Structure(
            structure.uses[stay], min(structure.max_terms, len(stay)), structure.max_inputs
        )
        gram = DenseGram(self.problem.gram.block(stay, stay))
        return Master(
            self.posed,
            replace(
                self.problem,
                gram=gram,
                q=self.problem.q[stay],
                structure=budgets,
                known=self.problem.accuracy.among(stay),
                misfit=None,
            ),
            self.kept[stay],
            self.rules.restrict(keep, fixed_in),
            tuple(replace(cut, slopes=cut.slopes[stay]) for cut in self.cuts),
            self.floor,
            self.scale,
        )

    def ridge_raised(self) -> Master:
        """Move the smallest eigenvalue of G into the ridge; the same master where it is 0."""
        f, lam, known = len(self.kept), self.problem.lam, self.problem.accuracy
        if not 0 < f <= LARGEST_SPECTRUM:
            return self
        G = self.problem.gram.block(np.arange(f), np.arange(f))
        values = np.linalg.eigvalsh(G)
        ridge = lam + 0.999 * float(values[0])
        e = ridge - lam
        if not (e > 0.05 * lam and semidefinite(G, np.full(f, e), known)):
            return self
        G[np.diag_indices(f)] -= e
        known = known.with_ridge(lam, ridge)
        problem = replace(self.problem, gram=DenseGram(G), lam=ridge, known=known, misfit=None)
        return replace(self, problem=problem)


class Separator:
    """Answers a solver's candidate (s, eta) with the cut it breaks, or with none."""

    def __init__(self, run: Run, master: Master, *, clip: bool) -> None:
        self.run, self.master, self.clip = run, master, clip
        self.added: list[Cut] = []
        self._seen: dict[bytes, int] = {}

    def accepts(self, s: Array, eta: float) -> bool:
        """Whether eta (in the units of the solvers) is not below c(s); offers s as incumbent."""
        fit = self.run.problem.refit(self.master.kept[s > 0.5])
        if fit.objective < self.run.best.objective and self._allows(fit.support):
            self.run.offer_fit(fit)
        return self._reaches(eta, fit.objective)

    def cut(self, s: Array, eta: float) -> Cut | None:
        """Return a cut that removes (s, eta), or None where nothing more can be asked.

        A support that comes back gets its corner; one that comes back even then is let pass,
        which costs tightness of the bound and never its validity.
        """
        if self.accepts(s, eta):
            return None
        key = np.packbits(s > 0.5).tobytes()
        visits = self._seen[key] = self._seen.get(key, 0) + 1
        s = np.where(s > 0.5, 1.0, 0.0)
        floor = self.run.bound if self.clip else 0.0
        if visits == 1:
            cut = self.master.tangent(s).clipped(floor)
        elif visits == 2:
            fit = self.run.problem.refit(self.master.kept[s > 0.5])
            cut = self.master.corner(s, least_cost(self.run.problem, fit), floor)
        else:
            return None
        self.added.append(cut)
        self.run.cuts += 1
        return cut

    def _allows(self, support: Indices) -> bool:
        return self.run.problem.structure.allows(support)

    def _reaches(self, eta: float, value: float) -> bool:
        return self.master.eta(value) - eta <= ACCEPT * max(1.0, abs(self.master.eta(value)))


def safe_bound(run: Run, master: Master, eta: float) -> float:
    """Return eta as a cost, less what solver tolerances and rounding may add.

    A reduced cost wrong by the tolerance moves a bound by that much for each column at one, and
    an allowed point has at most l + k of them (and eta).
    """
    structure = run.problem.structure
    columns = structure.max_terms + (structure.max_inputs if len(master.rules.inputs) else 0) + 1
    eta = min(eta, master.eta(run.best.objective))
    return master.floor + (eta - TOLERANCE * columns) * master.scale - 10.0 * run.problem.resolution
