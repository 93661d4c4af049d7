"""The record of a search over every monomial: pool, incumbent, bound, clock.

The pool holds the few thousand monomials in play, ``price`` reaches all others.  Whatever is
written here stays true: the bound holds over all f monomials, the incumbent is allowed by the
rules.  So a search may end at any moment, by the time limit (``OutOfTime``) or by Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.engines import local_search
from polysharp.engines.base import Engine, Run
from polysharp.engines.columns.dual_point import DualPoint, PriceRule
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import heredity_closed
from polysharp.monomials.term_rules import TermRules
from polysharp.pricing.design import Design, Pool
from polysharp.pricing.panels import Keep
from polysharp.problem.bounds import Accuracy, Quadratic
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Event
from polysharp.threads import one_blas_thread
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

    The design's pricer reaches all monomials that may be used, in the user's numbers; the engine
    solves what is left of the problem once it is small.
    """

    best: PricedFit

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
        self.dual: DualPoint | None = None  # what the bound rests on until it is proved
        self.pool = Pool(self.design, rules.with_parents(self._seeds()))
        self.fresh: dict[Monomial, int] = {}  # the pass that last wanted a monomial
        problem, basis = self.problem_on(self.pool, rules)
        super().__init__(problem, device=design.rows.place.device, **settings)
        self.best = _priced_fit(self.best, basis)

    def _seeds(self) -> list[Monomial]:
        """Monomials to begin with: what is required, and the best linear terms."""
        linear = [(int(i),) for i in self.inputs if self.rules.can_inherit((int(i),))]
        value = np.abs(self.design.correlations(linear, self.design.target))
        best = np.argsort(-value, kind="stable")[: self.sizes.added]
        return required_monomials(self.rules) + [linear[j] for j in best]

    @property
    def n_inputs(self) -> int:
        """How many inputs the columns that may be used are made of."""
        return len(self.rules.library.inputs_of(self.inputs))

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
        kind = PriceRule(
            self.lam, self.rules.max_terms, not self.rules.coefficients.bind, self.boxes
        )
        others = {*extra, *self.best.monomials}
        return DualPoint.of(self.design, w, a, priced, kind, others, self._reach(w))

    def _reach(self, w: dict[Monomial, float]) -> float:
        """Return |y| + sum |w_j| |m_j|: rounding of a residual is relative to that."""
        place, norms = self.pool.index, np.sqrt(np.maximum(np.diagonal(self.pool.G), 0.0))
        sizes = (abs(value) * norms[place[m]] for m, value in w.items() if m in place)
        return float(np.sqrt(self.design.yy) + sum(sizes))

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
            held = {*hold, *self.best.monomials, *monomials, *required_monomials(self.rules)}
            held = set(self.rules.with_parents(held))
            self._thin(held, max(0, self.sizes.pool // 2 - len(new)))
        self.pool.extend(new, self.on_block)

    def _thin(self, held: set[Monomial], room: int) -> None:
        """Keep what is held and, of the others, those that were wanted last."""
        others = [m for m in self.pool.monomials if m not in held]
        others.sort(key=lambda m: -self.fresh.get(m, -1))
        keep = held | set(self.rules.with_parents(others[:room]))
        where = [j for j, m in enumerate(self.pool.monomials) if m in keep]
        self.pool = self.pool.selected(np.array(where, dtype=np.intp))

    def problem_on(self, pool: Pool, rules: TermRules) -> tuple[Problem, Basis]:
        """Return the problem on a pool, over the inputs that it uses or that are required."""
        everything = rules.basis_of(pool.monomials, rules.required_inputs)
        basis = heredity_closed(everything, rules.heredity)
        if len(basis) < len(everything):
            kept = [everything.index[m] for m in basis.monomials]
            pool = pool.selected(np.array(kept, dtype=np.intp))
        known, design, structure = self._accuracy(pool), self.design, rules.structure(basis)
        problem = Problem.dense(
            pool.G, pool.q, design.yy, self.lam, structure, known, rank=design.n
        )
        return problem, basis

    def boxes(self, monomials: Sequence[Monomial]) -> Boxes:
        """Return the intervals that the coefficients of some monomials must keep to."""
        return self.rules.coefficients.boxes(Basis((), self.rules.degree, tuple(monomials)))

    @property
    def system(self) -> Quadratic:
        """The quadratic of the pool."""
        pool, known, yy = self.pool, self._accuracy(self.pool), self.design.yy
        ridge = np.full(len(pool), self.lam)
        scalable, boxes = not self.rules.coefficients.bind, self.boxes(pool.monomials)
        return Quadratic(
            pool.G,
            pool.q,
            ridge,
            known.sizes,
            *boxes,
            yy,
            float(known.response[0]),
            known.unit,
            scalable,
        )

    def _accuracy(self, pool: Pool) -> Accuracy:
        n, diagonal, design = self.design.n, np.diagonal(pool.G), self.design
        return Accuracy.of(
            diagonal, design.yy, n, weight=design.weight, mean=pool.mean, y_mean=design.y_mean
        )

    def offer_on(self, fit: Fit, basis: Basis) -> bool:
        """Make an allowed fit the incumbent if it is better; return whether it was."""
        return self.offer_fit(_priced_fit(fit, basis))

    def improve(self, start: Iterable[Monomial], *, walk: bool = False) -> bool:
        """Improve a support on the pool by local search; return whether the incumbent changed."""
        start = list(start)
        self.extend(start)
        problem, basis = self.problem_on(self.pool, self.rules)
        support = np.array([basis.index[m] for m in start], dtype=np.intp)
        if not problem.structure.allows(support):
            return False
        with one_blas_thread():
            fit = local_search.improve(problem, support, out_of_time=lambda: self.expired)
            if walk:
                rng = np.random.default_rng(self.seed)
                fit = local_search.restarts(
                    problem, fit.support, rng, WALKS, out_of_time=lambda: self.expired
                )
        return self.offer_on(fit, basis)

    def inner_listener(self, event: Event) -> None:
        """Show the progress of an engine on a part of the problem; its bound is not ours."""
        del event
        self.report("branching")


def _priced_fit(fit: Fit, basis: Basis) -> PricedFit:
    monomials = basis.select(fit.support).monomials
    return PricedFit(fit.support, fit.w, fit.objective, monomials)


def required_monomials(rules: TermRules) -> list[Monomial]:
    """Monomials that the pool must hold so that what is required can be met."""
    required = rules.required_inputs
    if rules.count(len(required)) > MOST_REQUIRED:
        raise InputError(
            "include_inputs and include_terms must name few inputs when every input is priced, "
            f"got {len(required)}"
        )
    return [*rules.include_terms, *(rules.monomials_of(required) if required else ())]
