"""From rows to a problem, and back from a solution to a formula: what every door does.

    X, y -> checks -> coded variables -> (triage) -> monomials -> moments -> problem

``open_fit`` goes as far as the coded variables, ``Opened.prepare`` the rest of the way.  ``fit``
and ``path`` do both; the search over budgets opens the rows and cuts them into folds.  ``solve``
adds the search, in one of two ways:

    two steps     rank the inputs, keep p' of them, list their monomials, search (the paper)
    priced        no list of monomials: columns are generated on demand; of all inputs, as a rule

``ranking.extent`` states which way is taken, and how many inputs and rows it takes into account.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polysharp.certificate.solution import Scope, Solution
from polysharp.certificate.statement import with_statement
from polysharp.data.checks import open_rows
from polysharp.data.rows import Rows
from polysharp.engines import make_engine
from polysharp.engines.base import Engine
from polysharp.engines.started_search import search
from polysharp.estimators.parameters import check_parameters, check_seed, read_rules
from polysharp.moments.gram import MAX_DENSE
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.pricing.design import Design
from polysharp.problem.assemble import Assembled, Held, assemble
from polysharp.problem.problem import Problem
from polysharp.progress import Pace, Progress, TooSlow, open_progress
from polysharp.ranking.extent import Extent, Machine, NCandidates, choose_extent, product_rate
from polysharp.ranking.ranking import Ranking
from polysharp.ranking.triage import choose_inputs, keep_best
from polysharp.selection.ridge import GammaChoice, choose_gamma
from polysharp.selection.split_models import Budgets
from polysharp.threads import limited_threads
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Array, Indices, Monomial, OnBlock

if TYPE_CHECKING:
    from polysharp.engines.columns.priced_run import PricedRun


PREPARATION = 0.7  # of the time left that a step of the preparation may turn out to take
LEAST_SECONDS = 0.5  # for the preparation, however small the limit is
LITTLE = 0.1  # of the limit, for a search that comes late
SURELY = 1.5  # times the time left: estimates that exceed it are hardly wrong


@dataclass(frozen=True, eq=False)
class FitEffort:
    """How an answer is searched for: engine, time, tolerance, seed, threads, and who watches."""

    engine: Engine
    time_limit: float | None
    gap_tol: float
    seed: int
    threads: int
    progress: Progress
    began: float  # on the clock of perf_counter
    hopeless_after: float | None = None  # seconds of search (``TimeBudget``)
    start: tuple[Monomial, ...] = ()  # terms to begin with, where they are allowed

    @classmethod
    @contextmanager
    def begun(cls, model: Any, **more: Any) -> Iterator[FitEffort]:
        """Check the parameters of an estimator and begin its work; ``more`` are further fields."""
        began = perf_counter()
        check_parameters(model.get_params(deep=False))
        engine = make_engine(model.engine) if isinstance(model.engine, str) else model.engine
        limit = None if model.time_limit is None else float(model.time_limit)
        seed, gap_tol = check_seed(model.random_state), float(model.gap_tol)
        with open_progress(model.verbose) as progress, limited_threads(model.n_jobs) as threads:
            yield cls(engine, limit, gap_tol, seed, threads, progress, began, **more)

    @property
    def options(self) -> dict[str, Any]:
        """What every engine is told besides its problem."""
        return {"listener": self.progress.listener, "seed": self.seed, "threads": self.threads}

    @property
    def left(self) -> float | None:
        """Seconds that are left of the time limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.spent)

    @property
    def spent(self) -> float:
        """Seconds since the fit began."""
        return perf_counter() - self.began

    def search_time(self) -> TimeBudget:
        """What is left of the time limit; a search that begins late is given a little."""
        if self.time_limit is None or self.left is None:
            return TimeBudget(None, self.hopeless_after)
        little = min(LEAST_SECONDS, LITTLE * self.time_limit)
        return TimeBudget(max(little, self.left), self.hopeless_after)

    def paced(self, stage: str, timed: bool) -> OnBlock | None:
        """Return a callback for work in blocks; where it is ``timed``, it must leave some time."""
        tell, left = self.progress.on_block(stage), self.left
        if left is None or not timed:
            return tell
        return Pace(PREPARATION * max(left, LEAST_SECONDS), tell)

    def searched(self, prepared: Prepared, solve: Callable[..., Solution]) -> Solution:
        """Solve and state the times."""
        preparation = self.spent
        solution = solve(time=self.search_time(), gap_tol=self.gap_tol)
        return self.timed(prepared.stated(solution), preparation)

    def timed(self, solution: Solution, preparation: float) -> Solution:
        """Say how long the preparation and the whole fit took."""
        search = solution.times or {"search": solution.seconds}
        return replace(solution, times={"preparation": preparation, **search, "total": self.spent})


@dataclass(frozen=True, eq=False)
class Opened:
    """Checked rows in coded variables, and the rules about terms."""

    table: Rows
    rows: Rows
    scaling: Scaling
    rules: TermRules
    gamma: float
    choice: GammaChoice | None = None  # where gamma is "auto" and there are rows to choose it with
    ranges: Array | None = None  # that inputs are clamped to

    @property
    def allowed(self) -> Indices:
        """Inputs that are not excluded."""
        return self.rules.allowed(self.rows.shape[1])

    def extent(
        self, n_candidates: NCandidates, effort: FitEffort, *, prices: bool, most: int = MAX_DENSE
    ) -> Extent:
        """Choose what the fit works on; warn where that is the user's choice and takes too long."""
        machine, place = None, self.rows.place
        if effort.left is not None:
            seconds = max(effort.left, LEAST_SECONDS)
            machine = Machine(seconds, lambda: self.rows.workers * product_rate(place))
        shape = self.rows.shape[0], len(self.allowed)
        extent = choose_extent(
            n_candidates,
            self.rules,
            shape,
            prices=prices,
            machine=machine,
            most=most,
        )
        if effort.left is not None and extent.seconds > SURELY * effort.left + 1.0:
            warnings.warn(
                f"n_candidates={n_candidates!r} takes about {extent.seconds:.0f} s before the "
                f"search begins, more than time_limit={effort.time_limit:g}; n_candidates='auto' "
                "keeps to the limit.",
                ConvergenceWarning,
                stacklevel=6,
            )
        return extent

    def choose_inputs(
        self, extent: Extent, effort: FitEffort | None, known: Ranking | None = None
    ) -> tuple[Indices, Ranking | None]:
        """Return the inputs kept, and the ranking where some had to go."""
        if known is not None:
            return keep_best(known.order, self.rules, extent.n_inputs), known
        tell = None if effort is None else effort.paced("ranking inputs", extent.timed)
        size, kernel = extent.n_inputs, extent.kernel
        return choose_inputs(size, self.rules, self.rows, self.gamma, kernel, on_block=tell)

    def prepare(self, extent: Extent, effort: FitEffort, known: Ranking | None = None) -> Prepared:
        """Choose the inputs, list their monomials, and turn the rows into a problem.

        ``known`` is a ranking of the inputs where there is one already.  Where ``extent`` was
        chosen for the time there is and the moments turn out to take longer, fewer inputs are kept.
        """
        while True:
            inputs, known = self.choose_inputs(extent, effort, known)
            try:
                return self.over(inputs, known, extent, effort)
            except TooSlow as slow:
                extent = extent.smaller(self.rules, slow.seconds, effort.left)

    def over(
        self, inputs: Indices, ranking: Ranking | None, extent: Extent, effort: FitEffort | None
    ) -> Prepared:
        """List the monomials of some inputs, and turn the rows into a problem."""
        basis = self.rules.basis(inputs)
        assembled = assemble(
            self.rows,
            basis,
            self.rules.structure(basis),
            lam=1.0 / self.gamma,
            fit_intercept=not self.rules.constant,
            held=Held.on(self.rows.place.on_gpu),
            on_block=None if effort is None else effort.paced("moments", extent.timed),
        )
        return Prepared(self, basis, assembled, inputs, ranking, extent)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem, and what its indices mean."""

    opened: Opened
    basis: Basis
    assembled: Assembled
    inputs: Indices  # that the search is given
    ranking: Ranking | None  # where some inputs had to go
    extent: Extent

    @property
    def problem(self) -> Problem:
        """What an engine solves."""
        return self.assembled.problem

    @property
    def scope(self) -> Scope:
        """Which inputs a certificate covers."""
        return "all-inputs" if self.ranking is None else "kept-inputs"

    def remark(self, time_limit: float | None) -> str | None:
        """Say what the time limit has left out, None where it has left out nothing."""
        if not self.extent.shortened or time_limit is None or self.ranking is None:
            return None
        n, p = self.opened.rows.shape
        ranked = self.ranking.n_rows or n
        rows = "all rows" if ranked >= n else f"{ranked:,} of {n:,} rows"
        return (
            f"With time_limit={time_limit:g} the search was given {len(self.inputs)} of the {p} "
            f"inputs, the best in a ranking on {rows}; a longer time_limit takes more of them."
        )

    def formula(
        self, support: tuple[int, ...], w: Array, response: int = 0, table: Rows | None = None
    ) -> Polynomial:
        """Return the formula of a support and coefficients, in the user's names and units.

        ``table`` has the response, where it is another than the first.
        """
        table = self.opened.table if table is None else table
        intercept = table.y_unit * self.assembled.intercept(support, w, response)
        basis = self.basis.select(support)
        scaling, ranges = self.opened.scaling, self.opened.ranges
        found = Polynomial.from_scaled(
            basis, table.y_unit * w, intercept, scaling, table.names, table.response, ranges
        )
        # Rounding on the way to the user's units must not leave an interval that was stated there.
        kept = self.opened.rules.coefficients.kept(found.monomials, found.coefficients)
        return replace(found, coefficients=kept)

    def stated(self, solution: Solution, rules: TermRules | None = None) -> Solution:
        """Complete the statement of a solution's proof; ``rules`` may have other budgets."""
        own = self.opened.rules if rules is None else rules
        structure = self.problem.structure if rules is None else own.structure(self.basis)
        scaling, table = self.opened.scaling, self.opened.table
        return with_statement(solution, own, self.basis, structure, scaling, table)


def open_fit(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress, **options: Any
) -> Opened:
    """Check the rows of a fit, read the rules about terms, code the inputs and choose gamma.

    Sets ``n_features_in_`` and ``feature_names_in_`` on the model; ``options`` as ``open_table``.
    """
    return open_table(model, open_rows(model, X, y, sample_weight, progress), progress, **options)


def open_table(
    model: Any, table: Rows, progress: Progress, budgets: Budgets | None = None
) -> Opened:
    """Do the same for rows that have been checked, with one response or the first of several.

    ``budgets`` are the sizes that gamma is for, by default those of the model.
    """
    rules = read_rules(model.get_params(deep=False), table.names, table.ranges)
    scale, center = bool(model.scale), bool(model.center)
    choice = None
    if model.gamma == "auto":
        budgets = budgets or Budgets((rules.max_terms,), (rules.max_inputs,))
        choice = choose_gamma(
            table,
            rules,
            budgets,
            scale=scale,
            center=center,
            progress=progress,
            time_limit=model.time_limit,
        )
        gamma = table.total_weight**-0.5 if choice is None else choice.gamma
    else:
        gamma = float(model.gamma)
    measured = table.ranges
    p = table.shape[1]
    scaling = Scaling.of(measured, scale=scale, center=center, library=rules.library)
    ranges = np.array([measured.low[:p], measured.high[:p]]) if model.clamp else None
    coded = rules.coded(scaling.unit)
    return Opened(table, table.coded(scaling.apply), scaling, coded, gamma, choice, ranges)


def solve(
    opened: Opened, n_candidates: NCandidates, effort: FitEffort
) -> tuple[Prepared, Solution]:
    """Search by listing the monomials or by pricing them all, whichever the sizes call for."""
    # One matrix of a single fit may be larger where a GPU makes it; folds would hold many.
    most = Held.on(opened.rows.place.on_gpu).monomials
    extent = opened.extent(n_candidates, effort, prices=effort.engine.prices, most=most)
    if extent.priced:
        return _search_priced(opened, extent, effort)
    prepared = opened.prepare(extent, effort)
    index = prepared.basis.index if effort.start else {}
    start = np.array(sorted(index[m] for m in effort.start if m in index), dtype=np.intp)
    known = len(start) > 0 and prepared.problem.structure.allows(start)
    solve = partial(
        search,
        effort.engine,
        prepared.problem,
        **effort.options,
        scope=prepared.scope,
        device=opened.rows.place.device,
        start=start if known else None,
    )
    return prepared, effort.searched(prepared, solve)


def _search_priced(opened: Opened, extent: Extent, effort: FitEffort) -> tuple[Prepared, Solution]:
    """Generate columns on demand; the certificate covers every input that the extent has."""
    from polysharp.engines.columns.priced_search import search_all_inputs

    inputs, ranking = opened.choose_inputs(extent, effort)
    search = priced_run(opened, inputs, extent, effort)
    seconds = effort.spent
    if effort.start:
        with suppress(OutOfTime):
            search.improve(effort.start)
    found = search_all_inputs(search)
    prepared = Prepared(opened, found.basis, found.assembled, inputs, ranking, extent)
    solution = replace(found.solution, scope=prepared.scope)
    others = tuple(np.setdiff1d(np.arange(opened.rows.shape[1]), inputs).tolist())
    stated = prepared.stated(solution, replace(opened.rules, exclude_inputs=others))
    return prepared, effort.timed(stated, seconds)


def priced_run(opened: Opened, inputs: Indices, extent: Extent, effort: FitEffort) -> PricedRun:
    """Open a search over all monomials of some inputs, none of them listed."""
    from polysharp.engines.columns.priced_run import PricedRun, Sizes

    rules = opened.rules
    columns = np.array(rules.library.columns_of(inputs), dtype=np.intp)
    return PricedRun(
        Design(opened.rows, columns, rules.degree, fit_intercept=not rules.constant),
        rules,
        lam=1.0 / opened.gamma,
        engine=effort.engine,
        time=effort.search_time(),
        gap_tol=effort.gap_tol,
        **effort.options,
        sizes=Sizes(
            first=extent.pool,
            added=min(Sizes.added, extent.pool),
            listed=extent.pool + extent.pool // 2,
        ),
    )
