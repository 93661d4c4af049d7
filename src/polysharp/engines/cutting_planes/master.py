"""The master problem of Algorithm 2: allowed supports under affine minorants of c.

    minimise  eta   over   (s, h) in S,   eta >= 0,   eta >= b_t + g_t's   for every cut t,

where S is the set of rules of the structure (budgets, hierarchy, requirements, heredity).  c
extends to fractional s in [0,1]^f, where it is convex (the paper's theorem),

    c(s) = 1/2 y'(I + gamma sum_j s_j m_j m_j')^-1 y,     slope_j = -(gamma/2) (m_j'a)^2,
    a = y - M w   with   (G_AA + lam diag(1/s_A)) w_A = q_A,  A = {s > 0},

and a further monomial never raises it.  So there are two kinds of cut:

    tangent at s0:   c(s) >= ya - aa/2 - sum_j s_j Z_j    (binary or fractional s0)
    corner at S:     c(s) >= c(S) - (c(S) - L) sum_{j not in S} s_j    with L <= min c

The tangent is written as the inequality of ``bounds``, which holds for any w: it is rounded as a
bound is, and holds for the data themselves.  The corner is much weaker, but exact at S with
coefficients near one: it settles a support whose tangent is too steep for a solver's tolerances.
For binary s and min c >= L a slope may be clipped at L - b: with s_j = 1 the cut then says no more
than eta >= L.

The master may live on fewer monomials (those not proved to be out), and with curvature moved into
their ridge: c is the same at binary s and larger in between, so every tangent is stronger.

A solver branches on the master and holds a ``Dialogue`` with the run: its candidates are answered
with the cuts that they break.  It begins again in smaller units if that closed most of the open
gap (``branch_again``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Run
from polysharp.engines.local_search.swap_state import SwapState
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import Structure
from polysharp.problem import bounds
from polysharp.problem.bounds import Quadratic
from polysharp.problem.problem import solve_in_boxes
from polysharp.problem.subproblem import Subproblem, least_cost
from polysharp.typing import Array, Indices

NEGLIGIBLE = 1e-8  # slopes below this, in the units of the solvers, leave a row
STEEPEST = 1e6  # and none is larger: more digits than that a solver does not keep apart
TOLERANCE = 1e-7  # of reduced costs, in the units of the solvers: what a solver is asked for
RESIDUAL = 1e-10  # of the rows that carry a linear programme, relative to their largest entry
LARGEST_SPECTRUM = 1500  # monomials above which an eigenvalue costs more than it gives
MOST_EXTENDED = 100  # monomials up to which sets larger than a support are worth a cut
ACCEPT = 1e-6  # shortfall of eta below c(S), relative to the open gap, that needs no cut
WORTHWHILE = 1.05  # factor by which curvature must raise the mean ridge to be moved


@dataclass(frozen=True, eq=False)
class Cut:
    """c(s) >= constant + slopes's for all allowed s."""

    constant: float
    slopes: Array

    @classmethod
    def at(cls, system: Quadratic, A: Indices, w: Array, terms: int) -> Cut:
        """Return the cut that coefficients w of the monomials A prove, for at most ``terms`` terms.

        Numbers that rounding has spoilt give the cut c >= 0.
        """
        rho = system.q - system.times(A, w)
        ya, aa, Z = bounds.dual_values(system, rho, A, w)
        prices = bounds.total(Z, terms)
        constant = bounds.admitted(float(bounds.tangent_value(ya, aa, 0.0)), system.yy)
        if not (np.isfinite(constant) and np.isfinite(prices).all()):
            return cls(0.0, np.zeros(len(rho)))
        return cls(constant, -prices)

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

    part: Subproblem
    rules: RuleRows
    cuts: tuple[Cut, ...] = ()
    floor: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, run: Run) -> Master:
        """Begin with every monomial and no cut."""
        structure = run.problem.structure
        return cls(Subproblem.of(run.problem), RuleRows.of(structure)).rescaled(run)

    @property
    def kept(self) -> Indices:
        """The places of the monomials among all."""
        return self.part.index

    @property
    def most_terms(self) -> int:
        """The budget l of the problem posed."""
        return self.part.problem.structure.max_terms

    def rescaled(self, run: Run) -> Master:
        """Return the master in the units of the gap open now."""
        best = run.best.objective
        least = max(1e-6 * best, 1e-9 * run.problem.yy, np.finfo(float).tiny)
        return replace(self, floor=run.bound, scale=max(best - run.bound, least))

    def eta(self, cost: float) -> float:
        """Return a cost in the units of the solvers."""
        return (cost - self.floor) / self.scale

    def safe_cost(self, run: Run, eta: float) -> float:
        """Return a solver's bound as a cost, less what its tolerances may have added.

        The objective of a linear programme differs from its dual value by the reduced costs of the
        wrong sign, TOLERANCE each where a column is one (at most l + k columns of an allowed point,
        and eta), and by what the rows that carry it are off.
        """
        structure = run.problem.structure
        columns = structure.max_terms + (structure.max_inputs if len(self.rules.inputs) else 0) + 1
        steepest = min(STEEPEST, 0.5 * run.problem.yy / self.scale)
        eta = min(eta, self.eta(run.best.objective))
        return self.floor + (eta - TOLERANCE * columns - RESIDUAL * steepest) * self.scale

    def row(self, cut: Cut) -> tuple[Indices, Array, float]:
        """Return columns j, values v and side b of a cut as  eta + sum_j v_j s_j >= b.

        With eta >= 0 the cut stays true where both b and every v_j are cut down to STEEPEST: one
        v_j = b leaves nothing to say.  A value left out counts as if its monomial were in.
        """
        side = min(self.eta(cut.constant), STEEPEST)
        values = np.minimum(-cut.slopes / self.scale, STEEPEST)
        where = np.flatnonzero(values > NEGLIGIBLE)
        left_out = np.delete(values, where)
        most = np.sort(left_out)[::-1][: self.most_terms].sum()
        return where, values[where], side - float(most)

    def tangent(self, s: Array) -> Cut:
        """Return the tangent of c at s (over the kept monomials)."""
        system, A = self.part.system, np.flatnonzero(s > 0.0)
        # (Q + diag(ridge/s)) w = q, scaled by sqrt(s) on both sides: well posed as s_j -> 0.
        # Within boxes  low_j s_j <= w_j <= high_j s_j.
        root = np.sqrt(s[A])
        boxes = Boxes(root * system.low[A], root * system.high[A])
        H = system.block(A, A) * np.multiply.outer(root, root)
        H[np.diag_indices_from(H)] += system.ridge[A]
        w = root * solve_in_boxes(H, root * system.q[A], boxes) if len(A) else root
        return Cut.at(system, A, w, self.most_terms)

    def point(self, support: Indices) -> Array:
        """Return the columns (s, h) of a support of the problem posed."""
        used = self.part.problem.structure.inputs_of(support)[self.rules.inputs]
        s = np.isin(self.kept, support)
        return np.maximum(np.concatenate([s, used]).astype(np.float64), self.rules.lower)

    def restrict(self, keep: NDArray[np.bool_], fixed_in: NDArray[np.bool_]) -> Master:
        """Drop the columns proved to be zero."""
        stay = np.flatnonzero(keep[: self.rules.n_terms])
        return replace(
            self,
            part=self.part.restrict(stay),
            rules=self.rules.restrict(keep, fixed_in),
            cuts=tuple(replace(cut, slopes=cut.slopes[stay]) for cut in self.cuts),
        )

    def ridge_raised(self) -> Master:
        """Move curvature into the ridge; the same master where there is too little."""
        if not 0 < len(self.kept) <= LARGEST_SPECTRUM:
            return self
        stronger, ridge = self.part.strengthened(0), self.part.system.ridge
        if stronger is None or stronger.system.ridge.mean() <= WORTHWHILE * ridge.mean():
            return self
        return replace(self, part=stronger)


@dataclass(eq=False)
class Dialogue:
    """What a solver is told about the run, and the run about the solver.

    A candidate (s, eta) of the solver is answered with the cuts it breaks, or with none.
    """

    run: Run
    master: Master
    clip: bool = True
    error: BaseException | None = None
    added: list[Cut] = field(default_factory=list)
    nodes_before: int = field(init=False)
    _seen: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes_before = self.run.nodes

    def gap(self, share: float) -> float:
        """Return a share of the gap tolerance in the units of the solver."""
        return share * self.run.gap_tol * self.run.best.objective / self.master.scale

    def start(self) -> tuple[Array, float]:
        """Return the incumbent as columns and eta."""
        best = self.run.best
        return self.master.point(best.support), max(0.0, self.master.eta(best.objective))

    def follow(self, eta: float, nodes: float, phase: str = "branch and cut") -> None:
        """Carry a solver's bound and counters over to the run; it may have no bound yet."""
        if np.isfinite(eta) and abs(eta) < 1e20:  # what solvers take for infinite
            self.run.raise_bound(self.master.safe_cost(self.run, eta))
        self.run.nodes = self.nodes_before + max(0, int(nodes))
        self.run.report(phase)

    def guarded(self, answer: Callable[[], Any], otherwise: Any, end: Callable[[], Any]) -> Any:
        """Run a callback; keep its exception, which a solver would swallow, and end the solver."""
        try:
            return answer()
        except BaseException as error:
            self.error = self.error or error
            end()
            return otherwise

    def finish(self) -> None:
        """Raise the exception that a callback has kept."""
        if self.error is not None:
            raise self.error

    def accepts(self, s: Array, eta: float) -> bool:
        """Whether eta (in the units of the solvers) is not below c(s); offers s as incumbent."""
        fit = self.run.problem.refit(self.master.kept[s > 0.5])
        if fit.objective < self.run.best.objective:
            self.run.offer(fit.support)
        value = self.master.eta(fit.objective)
        return value - eta <= ACCEPT * max(1.0, abs(value))

    def cuts(self, s: Array, eta: float) -> list[Cut]:
        """Return cuts that remove (s, eta), none where no more can be said.

        A support gets its tangent and, among few monomials, the corner of a larger set that costs
        too much as well; if it comes back, its own corner.  If it comes back even then it is let
        pass, which costs tightness of the bound and never its validity.
        """
        if self.accepts(s, eta):
            return []
        key = np.packbits(s > 0.5).tobytes()
        visits = self._seen[key] = self._seen.get(key, 0) + 1
        s = np.where(s > 0.5, 1.0, 0.0)
        floor = self.run.bound if self.clip else 0.0
        cuts = list[Cut]()
        if visits == 1:
            cuts.append(self.master.tangent(s).clipped(floor))
            larger = self._extended(s) if self.clip and len(s) <= MOST_EXTENDED else s
            if larger.sum() > s.sum():
                cuts.append(self._corner(larger, floor))
        elif visits == 2:
            cuts.append(self._corner(s, floor))
        self.added += cuts
        self.run.cuts += len(cuts)
        return cuts

    def _corner(self, s: Array, floor: float) -> Cut:
        """Return the cut that is exact at a set of monomials and says c >= floor elsewhere.

        No part of the set costs less, whatever its size.
        """
        problem = self.run.problem
        value = least_cost(problem, problem.refit(self.master.kept[s > 0.5]))
        return Cut(value, np.where(s > 0.5, 0.0, min(0.0, floor - value)))

    def _extended(self, s: Array) -> Array:
        """Add the monomials that gain least to a support while it costs more than is sought.

        Nothing within such a set is a better model, so that one cut removes all supports in it:
        with little ridge and few rows, tangents alone would remove one after another.
        """
        kept, problem, more = self.master.kept, self.run.problem, s.copy()
        state = SwapState(problem, len(kept), kept[s > 0.5])
        while len(state.support) < len(kept):
            gains = np.where(more > 0.5, np.inf, state.gains()[kept])
            j = int(np.argmin(gains))
            if not state.objective - gains[j] > self.run.threshold:
                break
            more[j] = 1.0
            state.load(kept[more > 0.5])
        return more


Branch = Callable[[Dialogue], Stop | None]  # says why the solver ended, if not by itself


def branch_again(run: Run, master: Master, branch: Branch, clip: bool = True) -> Stop:
    """Let a solver branch on a master, again in smaller units as long as that closes the gap.

    A tree ends within tolerances relative to the gap open at its start.
    """
    stop: Stop | None = None
    while not (run.proved or run.expired):
        talk = Dialogue(run, master, clip)
        stop = branch(talk)
        if run.proved or run.expired or stop is not None:
            break
        renewed = replace(master, cuts=(*master.cuts, *talk.added)).rescaled(run)
        if renewed.scale > 0.5 * master.scale:
            return Stop.STALLED
        master = renewed
    return Stop.PROVED if run.proved else stop or Stop.TIME
