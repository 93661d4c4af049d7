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

from polysharp.basis import Array, Indices
from polysharp.engines.base import Run
from polysharp.gram import DenseGram
from polysharp.problem import Problem
from polysharp.structure import Structure

ACCEPT = 1e-7  # relative shortfall of eta below c(S) that needs no cut
SLACK = 1e-7  # share of the master's scale given up for the tolerances of the solvers
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
class Rules:
    """Linear rules over binary columns: the monomials kept, then the inputs that matter."""

    A: sparse.csr_array
    low: Array
    high: Array
    lower: Array  # one where a column is fixed in
    n_terms: int
    inputs: Indices  # which inputs the columns after the monomials stand for

    @classmethod
    def of(cls, structure: Structure) -> Rules:
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

    def restrict(self, keep: NDArray[np.bool_], fixed_in: NDArray[np.bool_]) -> Rules:
        """Drop columns fixed to zero and the rows that can no longer bind."""
        A = sparse.csr_array(sparse.csc_array(self.A)[:, keep])
        lower = np.where(fixed_in, 1.0, self.lower)[keep]
        most = A.maximum(0.0).sum(axis=1) + A.minimum(0.0) @ lower
        least = A.minimum(0.0).sum(axis=1) + A.maximum(0.0) @ lower
        binding = (most > self.high + 1e-9) | (least < self.low - 1e-9)
        return Rules(
            A[np.flatnonzero(binding)],
            self.low[binding],
            self.high[binding],
            lower,
            int(keep[: self.n_terms].sum()),
            self.inputs[keep[self.n_terms :]],
        )


@dataclass(frozen=True, eq=False)
class Master:
    """Rules and cuts over the monomials kept; eta is solved for in units of ``scale``."""

    posed: Problem
    problem: Problem  # of the kept monomials, possibly with part of G moved into the ridge
    kept: Indices  # their places among all monomials
    rules: Rules
    cuts: tuple[Cut, ...]
    scale: float

    @classmethod
    def of(cls, run: Run) -> Master:
        """Begin with every monomial and no cut."""
        problem = run.problem
        rules = Rules.of(problem.structure)
        return cls(problem, problem, np.arange(problem.size), rules, (), scale_of(run))

    def tangent(self, s: Array) -> Cut:
        """Return the tangent of c at s (over the kept monomials)."""
        active = np.flatnonzero(s > 0.0)
        value, slopes = self.problem.tangent(active, s[active])
        return Cut(value - float(slopes[active] @ s[active]), slopes)

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
            replace(self.problem, gram=gram, q=self.problem.q[stay], structure=budgets),
            self.kept[stay],
            self.rules.restrict(keep, fixed_in),
            tuple(replace(cut, slopes=cut.slopes[stay]) for cut in self.cuts),
            self.scale,
        )

    def ridge_raised(self) -> Master:
        """Move the smallest eigenvalue of G into the ridge; the same master where it is 0."""
        f = len(self.kept)
        if not 0 < f <= LARGEST_SPECTRUM:
            return self
        G = self.problem.gram.block(np.arange(f), np.arange(f))
        values = np.linalg.eigvalsh(G)
        e = float(values[0] - 1e-13 * f * values[-1])
        if e <= 0.05 * self.problem.lam:
            return self
        G[np.diag_indices(f)] -= e
        problem = replace(self.problem, gram=DenseGram(G), lam=self.problem.lam + e)
        return replace(self, problem=problem)


class Separator:
    """Answers a solver's candidate (s, eta) with the cut it breaks, or with none."""

    def __init__(self, run: Run, master: Master) -> None:
        self.run = run
        self.master = master
        self.added: list[Cut] = []
        self._seen: dict[bytes, int] = {}

    def accepts(self, s: Array, eta: float) -> bool:
        """Whether eta (in units of the scale) is not below c(s); offers s as incumbent."""
        fit = self.run.problem.refit(self._support(s))
        if fit.objective < self.run.best.objective and self.run.problem.structure.allows(
            fit.support
        ):
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
        if visits == 1:
            cut = self.master.tangent(s)
        elif visits == 2:
            value = self.run.problem.refit(self._support(s)).objective
            cut = self.master.corner(s, value, self.run.bound)
        else:
            return None
        self.added.append(cut)
        self.run.cuts += 1
        return cut

    def _support(self, s: Array) -> Indices:
        return self.master.kept[s > 0.5]

    def _reaches(self, eta: float, value: float) -> bool:
        return eta * self.master.scale >= value - ACCEPT * max(value, 0.01 * self.master.scale)


def scale_of(run: Run) -> float:
    """Return the unit of eta: the incumbent, so that tolerances are relative to the answer."""
    return max(run.best.objective, 1e-9 * run.problem.yy, np.finfo(float).tiny)


def safe_bound(run: Run, master: Master, eta: float) -> float:
    """Return eta in the problem's units, less what solver tolerances and rounding may add."""
    return eta * master.scale - SLACK * master.scale - 10.0 * run.problem.resolution
