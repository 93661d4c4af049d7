"""The record of a search over every monomial: pool, incumbent, bound, clock.

The pool holds the few thousand monomials in play, ``price`` reaches all others.  Whatever is
written here stays true: the bound holds over all f monomials, the incumbent is allowed by the
rules.  So a search may end at any moment, by the time limit (``OutOfTime``) or by Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.engines import local_search
from polysharp.engines.base import Engine, Run
from polysharp.engines.columns.dual_point import DualPoint
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import heredity_closed
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.design import Design, Pool
from polysharp.pricing.panels import Keep
from polysharp.problem.bounds import Accuracy
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Event
from polysharp.threads import one_blas_thread
from polysharp.time_budget import OutOfTime
from polysharp.typing import Monomial

WALKS = 2  # walks without improvement before the search for a model ends
MOST_REQUIRED = 2000


@dataclass(frozen=True)
class Sizes:
    """How many monomials are held where."""

    first: int = 2000  # taken from the first pass
    added: int = 500  # taken from each later pass
    listed: int = 3000  # returned by a pass
    pool: int = 6144  # beyond this the pool is thinned
    subproblem: int = 3000  # survivors that an engine takes over


@dataclass(frozen=True, eq=False)
class PricedFit(Fit):
    """A fit with its monomials; its support is that of the problem it was found on."""

    monomials: tuple[Monomial, ...] = ()

    @property
    def coefficients(self) -> dict[Monomial, float]:
        """Coefficients by monomial."""
        return dict(zip(self.monomials, self.w[0].tolist(), strict=True))


class PricedRun(Run):
    """The record of a search over all monomials, and the pool that it works on.

    The design reaches all monomials that may be used, in the user's numbers; the engine solves
    what is left of the problem once it is small.
    """

    best: PricedFit
    interrupted: bool = False  # whether Ctrl-C has ended a step of which the result is kept

    def __init__(
        self,
        design: Design,
        rules: TermRules,
        *,
        lam: float,
        engine: Engine,
        sizes: Sizes | None = None,
        **settings: Any,  # of the run: time, gap_tol, listener, seed, threads
    ) -> None:
        self.design, self.inputs, self.rules, self.lam = design, design.inputs, rules, lam
        self.engine, self.sizes = engine, Sizes() if sizes is None else sizes
        self.n_inputs = len(rules.library.inputs_of(self.inputs))  # that the columns are made of
        self.dual: DualPoint | None = None  # what the bound rests on until it is proved
        self.fresh: dict[Monomial, int] = {}  # the pass that last wanted a monomial
        self.required = self._required()  # monomials without which no support meets the rules
        linear = [(int(i),) for i in self.inputs if rules.can_inherit((int(i),))]
        value = np.abs(design.correlations(linear, design.target))
        best = np.argsort(-value, kind="stable")[: self.sizes.added]
        seeds = rules.with_parents(self.required + [linear[j] for j in best])
        self.pool = Pool(design, seeds)
        problem, self.basis = self.problem_on(self.pool, rules)  # of the pool
        super().__init__(problem, device=design.rows.place.device, **settings)
        self.best = _priced_fit(self.best, self.basis)

    def _required(self) -> list[Monomial]:
        rules, inputs = self.rules, self.rules.required_inputs
        if rules.count(len(inputs)) > MOST_REQUIRED:
            raise InputError(
                "include_inputs and include_terms must name few inputs when every input is priced, "
                f"got {len(inputs)}"
            )
        return [*rules.include_terms, *(rules.monomials_of(inputs) if inputs else ())]

    def price(
        self, w: dict[Monomial, float], *, keep: Keep | None = None, extra: Sequence[Monomial] = ()
    ) -> DualPoint:
        """Price the residual of some coefficients against all monomials: one pass.

        Only monomials that pass ``keep`` count; ``extra`` ones are priced in any case, and do
        not take the places of others in the list.
        """
        a = self.design.residual(list(w), np.array(list(w.values())))
        allowed, top = self.rules.may_price, self.sizes.listed + len(extra)
        both = allowed if keep is None else lambda keys: allowed(keys) & keep(keys)
        self.check_time()
        priced = self.design.price(a, top, both, on_block=self.on_block)
        self.rounds += 1
        # Rounding of a residual is relative to |y| + sum |w_j| |m_j|.
        place, norms = self.pool.index, np.sqrt(np.maximum(np.diagonal(self.pool.G), 0.0))
        norm = sum(abs(value) * norms[place[m]] for m, value in w.items() if m in place)
        reach = float(np.sqrt(self.design.yy) + norm)
        others = {*extra, *self.best.monomials}
        return DualPoint.of(self, w, a, priced, others, reach)

    def check_time(self) -> None:
        """End the work in hand when the time is over, or after Ctrl-C."""
        if self.interrupted:
            raise KeyboardInterrupt
        super().check_time()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """End a step when the time is over or at Ctrl-C; what it has proved so far is kept."""
        try:
            yield
        except OutOfTime:
            pass  # the loop will look at the clock
        except KeyboardInterrupt:
            self.interrupted = True

    def on_block(self, done: int, total: int) -> None:
        """Show that a pass goes on, and look at the clock."""
        del done, total
        self.report("pricing")
        self.check_time()

    def extend(self, monomials: Sequence[Monomial], hold: Iterable[Monomial] = ()) -> None:
        """Take monomials into the pool; thin it where it grows too large, ``hold`` excepted."""
        self.fresh.update(dict.fromkeys(monomials, self.rounds))
        new = [m for m in self.rules.with_parents(monomials) if m not in self.pool.index]
        if not new:
            return
        if len(self.pool) + len(new) > self.sizes.pool:
            self._thin([*hold, *monomials], max(0, self.sizes.pool // 2 - len(new)))
        self.pool.extend(new, self.on_block)
        self.problem, self.basis = self.problem_on(self.pool, self.rules)

    def _thin(self, hold: list[Monomial], room: int) -> None:
        """Keep what is to be held and, of the others, those that were wanted last."""
        keep = set(self.rules.with_parents([*hold, *self.best.monomials, *self.required]))
        others = [m for m in self.pool.monomials if m not in keep]
        others.sort(key=lambda m: -self.fresh.get(m, -1))
        keep.update(self.rules.with_parents(others[:room]))
        where = [j for j, m in enumerate(self.pool.monomials) if m in keep]
        self.pool = self.pool.selected(np.array(where, dtype=np.intp))

    def problem_on(self, pool: Pool, rules: TermRules) -> tuple[Problem, Basis]:
        """Return the problem on a pool, over the inputs that it uses or that are required."""
        everything = rules.basis_of(pool.monomials, rules.required_inputs)
        basis = heredity_closed(everything, rules.heredity)
        if len(basis) < len(everything):
            kept = [everything.index[m] for m in basis.monomials]
            pool = pool.selected(np.array(kept, dtype=np.intp))
        design, structure = self.design, rules.structure(basis)
        known = Accuracy.of(
            np.diagonal(pool.G),
            design.yy,
            design.n,
            weight=design.weight,
            mean=pool.mean,
            y_mean=design.y_mean,
        )
        moments = pool.G, pool.q, design.yy
        return Problem.dense(*moments, self.lam, structure, known, rank=design.n), basis

    def boxes(self, monomials: Sequence[Monomial]) -> Boxes:
        """Return the intervals that the coefficients of some monomials must keep to."""
        return self.rules.coefficients.boxes(Basis((), self.rules.degree, tuple(monomials)))

    def offer_on(self, fit: Fit, basis: Basis) -> bool:
        """Make an allowed fit the incumbent if it is better; return whether it was."""
        return self.offer_fit(_priced_fit(fit, basis))

    def improve(self, start: Iterable[Monomial], *, walk: bool = False) -> bool:
        """Improve a support on the pool by local search; return whether the incumbent changed."""
        start = list(start)
        self.extend(start)
        support = np.array([self.basis.index[m] for m in start], dtype=np.intp)
        if not self.problem.structure.allows(support):
            return False
        with one_blas_thread():
            fit = local_search.improve(self.problem, support, out_of_time=lambda: self.expired)
            if walk:
                rng = np.random.default_rng(self.seed)
                walks = self.problem, fit.support, rng, WALKS
                fit = local_search.restarts(*walks, out_of_time=lambda: self.expired)
        return self.offer_on(fit, self.basis)

    def find(self) -> DualPoint:
        """Price the residual and improve on the pool until neither brings anything new.

        Returns the last residual that was priced.
        """
        self.improve(self.best.monomials)
        wanted = self.sizes.first
        w: dict[Monomial, float] = {}  # the first residual is y itself
        inside = frozenset(self.rules.include_terms)
        free = self.rules.max_terms - len(inside)
        while True:
            self.check_time()
            dual = self.price(w)
            proved = dual.bounded(inside, free, lambda _: True).bound
            if self.dual is None or proved > self.bound:
                self.dual = dual
            self.raise_bound(min(proved, self.objective))
            if self.proved:
                return dual
            self.extend(list(dual.prices)[:wanted])
            wanted = self.sizes.added
            better = self.improve(self.best.monomials)
            if w and not better and not self.improve(self.best.monomials, walk=True):
                return dual
            w = self.best.coefficients

    def inner_listener(self, event: Event) -> None:
        """Show the progress of an engine on a part of the problem; its bound is not ours."""
        del event
        self.report("branching")


def _priced_fit(fit: Fit, basis: Basis) -> PricedFit:
    return PricedFit(fit.support, fit.w, fit.objective, basis.select(fit.support).monomials)
