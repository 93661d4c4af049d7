"""Before the search: how a fit is done, its rows in coded variables, and the problem they make.

    rows -> CodedTable -> (triage) -> monomials -> moments -> PreparedProblem

Whoever has summed the rows already hands the sums over (``KnownSums``), and no row is read again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polysharp.certificate.solution import Scope, Solution, with_refit
from polysharp.certificate.statement import with_statement
from polysharp.data.rows import Rows, evenly_spaced
from polysharp.engines import make_engine
from polysharp.engines.base import Engine
from polysharp.estimators.parameters import check_seed
from polysharp.moments.gram import MAX_DENSE, MAX_DENSE_GPU
from polysharp.monomials.basis import Basis, Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.problem.assemble import Assembled, assemble
from polysharp.problem.problem import Fit, Problem
from polysharp.progress import Progress, open_progress
from polysharp.ranking.ranking import Ranking, choose_inputs, keep_best
from polysharp.ranking.work_plan import Machine, NCandidates, WorkPlan, plan_work, product_rate
from polysharp.selection.folds import KnownSums
from polysharp.threads import limited_threads
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Array, Indices, OnBlock

PREPARATION = 0.7  # of the time left that a step of the preparation may turn out to take
LEAST_SECONDS = 0.5  # for the preparation, however small the limit is
LATE_SHARE = 0.1  # of the limit, for a search that begins when the limit has passed
RANKED_RESPONSES = 5  # evenly spaced among all, that rank the inputs
SURELY = 1.5  # times the time left: estimates that exceed it are hardly wrong


@dataclass(frozen=True, eq=False)
class FitContext:
    """Settings of a fit that its steps share.

    ``hopeless_after`` is the number of seconds after which a search ends if its gap is still wide.
    """

    engine: Engine
    time: TimeBudget  # of the whole fit
    gap_tol: float
    seed: int
    threads: int
    progress: Progress
    hopeless_after: float | None = None

    @classmethod
    @contextmanager
    def of(cls, model: Any) -> Iterator[FitContext]:
        """Begin the work of an estimator whose parameters have been checked."""
        time = TimeBudget(model.time_limit)
        engine = make_engine(model.engine) if isinstance(model.engine, str) else model.engine
        seed, gap_tol = check_seed(model.random_state), float(model.gap_tol)
        with open_progress(model.verbose) as progress, limited_threads(model.n_jobs) as threads:
            yield cls(engine, time, gap_tol, seed, threads, progress)

    @property
    def options(self) -> dict[str, Any]:
        """What every engine is told besides its problem, the time and the tolerance."""
        return {"listener": self.progress.listener, "seed": self.seed, "threads": self.threads}

    def search_time(self) -> TimeBudget:
        """Return what a search may take that begins now; one that begins late has a little time."""
        little = min(LEAST_SECONDS, LATE_SHARE * self.time.seconds)
        return TimeBudget(max(little, self.time.remaining()), self.hopeless_after)

    def on_block(self, stage: str, timed: bool) -> OnBlock | None:
        """Return a callback for work in blocks; if ``timed``, the work must leave some time."""
        tell, left = self.progress.on_block(stage), self.time.remaining()
        if not timed or left == inf:
            return tell
        return TimeBudget(PREPARATION * max(left, LEAST_SECONDS)).callback(tell)

    def timed(self, solution: Solution, preparation: float) -> Solution:
        """State how long the preparation and the whole fit took."""
        search, total = solution.times or {"search": solution.seconds}, self.time.spent()
        return replace(solution, times={"preparation": preparation, **search, "total": total})


def warn(message: str) -> None:
    """Raise a warning that points at the line that called into this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("polysharp"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Rows in the user's variables and in coded ones, with what the fit asks of terms."""

    tables: Sequence[Rows]  # as the user gave them, once for each response
    rows: Rows  # of the first response, coded
    scaling: Scaling
    rules: TermRules
    gamma: float  # that terms are chosen with
    refit_gamma: float  # that their coefficients are estimated with
    ranges: Array | None  # of the inputs, which predictions are clamped to
    sums: KnownSums | None
    several: bool  # whether responses share their terms, and costs are added

    @classmethod
    def of(
        cls,
        model: Any,
        tables: Sequence[Rows],
        rules: TermRules,
        gamma: float,
        refit_gamma: float | None = None,
        sums: KnownSums | None = None,
    ) -> CodedTable:
        """Code the inputs as an estimator asks for."""
        table, scale, center = tables[0], bool(model.scale), bool(model.center)
        seen, p = table.ranges, table.shape[1]
        scaling = Scaling.of(seen, scale=scale, center=center, library=rules.library)
        return cls(
            tables,
            table.coded(scaling.apply),
            scaling,
            rules.coded(scaling.unit),
            float(gamma),
            float(gamma if refit_gamma is None else refit_gamma),
            np.array([seen.low[:p], seen.high[:p]]) if getattr(model, "clamp", False) else None,
            sums,
            model._several,
        )

    @property
    def allowed(self) -> Indices:
        """Inputs that are not excluded."""
        return self.rules.allowed(self.rows.shape[1])

    def plan(self, n_candidates: NCandidates, context: FitContext, *, prices: bool) -> WorkPlan:
        """Choose the inputs, listed or priced; warn if the user's choice takes too long."""
        rows, place, left = self.rows, self.rows.place, context.time.remaining()
        machine = Machine(
            max(left, LEAST_SECONDS),
            lambda: rows.workers * product_rate(place),
            listing=context.time.seconds,
        )
        plan = plan_work(
            n_candidates,
            self.rules,
            (rows.shape[0], len(self.allowed)),
            prices=prices,
            machine=machine if left < inf else None,
            # A GPU makes a larger matrix for a single fit.  Several would not fit into memory.
            most=MAX_DENSE_GPU if prices and place.on_gpu else MAX_DENSE,
        )
        if plan.seconds > SURELY * left + 1.0:
            warn(
                f"n_candidates={n_candidates!r} takes about {plan.seconds:.0f} s before the "
                f"search begins, more than time_limit={context.time.seconds:g}; "
                "n_candidates='auto' keeps to the limit."
            )
        return plan

    def choose_inputs(
        self, plan: WorkPlan, known: Ranking | None = None, on_block: OnBlock | None = None
    ) -> tuple[Indices, Ranking | None]:
        """Return the inputs kept, and the ranking if some had to go; it may be ``known``."""
        if plan.n_inputs >= len(self.allowed):
            return self.allowed, None
        if known is not None:
            return keep_best(known.order, self.rules, plan.n_inputs), known
        scores: list[Array] = []
        for t in evenly_spaced(len(self.tables), RANKED_RESPONSES):
            rows = self.rows if t == 0 else self.tables[t].coded(self.scaling.apply)
            kept, known = choose_inputs(
                plan.n_inputs, self.rules, rows, self.gamma, plan.kernel, on_block=on_block
            )
            if len(self.tables) == 1:
                return kept, known
            scores.append(known.scores / (float(known.scores.sum()) or 1.0))
        assert known is not None
        own = Ranking(np.sum(scores, axis=0), known.degree, known.gamma, known.n_rows)
        return keep_best(own.order, self.rules, plan.n_inputs), own

    def prepare(self, plan: WorkPlan, context: FitContext) -> PreparedProblem:
        """Choose the inputs and turn the rows into a problem over all their monomials.

        Fewer inputs are kept if the plan was made for the time at hand and the moments turn out to
        take longer.
        """
        ranking = None
        while True:
            tell = context.on_block("ranking inputs", plan.timed)
            inputs, ranking = self.choose_inputs(plan, ranking, tell)
            try:
                return self.over(inputs, ranking, plan, context.on_block("moments", plan.timed))
            except OutOfTime as slow:
                plan = plan.smaller(self.rules, slow.seconds, context.time.remaining())

    def over(
        self,
        inputs: Indices,
        ranking: Ranking | None,
        plan: WorkPlan,
        on_block: OnBlock | None = None,
    ) -> PreparedProblem:
        """Turn the rows into a problem over all monomials of some inputs."""
        basis, moments = self.rules.basis(inputs), None
        if self.sums is not None and self.sums.basis.monomials == basis.monomials:
            moments = self.sums.moments
        assembled = assemble(
            self.rows,
            basis,
            self.rules.structure(basis),
            lam=1.0 / self.gamma,
            fit_intercept=not self.rules.constant,
            tables=self.tables if self.several else (),
            on_block=on_block,
            moments=moments,
        )
        return PreparedProblem(self, basis, assembled, inputs, ranking, plan)


@dataclass(frozen=True, eq=False)
class PreparedProblem:
    """A problem, and what its indices mean."""

    coded: CodedTable
    basis: Basis
    assembled: Assembled
    inputs: Indices  # that the search is given
    ranking: Ranking | None  # None if every input was kept
    plan: WorkPlan

    @property
    def problem(self) -> Problem:
        """What an engine solves."""
        return self.assembled.problem

    def at(self, gamma: float) -> PreparedProblem:
        """Return the problem with another ridge."""
        if gamma == self.coded.gamma:
            return self
        problem = replace(self.problem, lam=1.0 / gamma)
        assembled = replace(self.assembled, problem=problem)
        return replace(self, coded=replace(self.coded, gamma=gamma), assembled=assembled)

    @property
    def scope(self) -> Scope:
        """Which inputs a certificate covers."""
        return "all-inputs" if self.ranking is None else "kept-inputs"

    def remark(self, time_limit: float | None) -> str | None:
        """Say what the time limit has left out, None if it has left out nothing."""
        if not self.plan.shortened or time_limit is None or self.ranking is None:
            return None
        n, p = self.coded.rows.shape
        ranked = self.ranking.n_rows or n
        rows = "all rows" if ranked >= n else f"{ranked:,} of {n:,} rows"
        return (
            f"With time_limit={time_limit:g} the search was given {len(self.inputs)} of the {p} "
            f"inputs, the best in a ranking on {rows}; a longer time_limit takes more of them."
        )

    def refitted(self, support: Indices) -> Fit:
        """Return the coefficients of some terms, estimated with the ridge that is for them."""
        return replace(self.problem, lam=1.0 / self.coded.refit_gamma).refit(support)

    def formulas(self, support: Sequence[int]) -> tuple[Polynomial, ...]:
        """Return the formula of each response for some terms."""
        fit = self.refitted(np.array(support, dtype=np.intp))
        places = tuple(fit.support.tolist())
        return tuple(self.formula(places, w, t) for t, w in enumerate(fit.w))

    def formula(self, support: tuple[int, ...], w: Array, response: int = 0) -> Polynomial:
        """Return the formula of a support and coefficients, in the user's names and units."""
        coded, table = self.coded, self.coded.tables[response]
        found = Polynomial.from_scaled(
            self.basis.select(support),
            table.y_unit * w,
            table.y_unit * self.assembled.intercept(support, w, response),
            coded.scaling,
            table.names,
            table.response,
            coded.ranges,
        )
        # Rounding on the way to the user's units must not leave an interval that was stated there.
        kept = coded.rules.coefficients.kept(found.monomials, found.coefficients)
        return replace(found, coefficients=kept)

    def stated(self, solution: Solution, rules: TermRules | None = None) -> Solution:
        """Complete a solution: its proof's statement, and the coefficients that are shown.

        ``rules`` may have other budgets than those of the table.
        """
        coded = self.coded
        own = coded.rules if rules is None else rules
        structure = self.problem.structure if rules is None else own.structure(self.basis)
        if solution.refit is not None or coded.refit_gamma != solution.gamma:
            solution = with_refit(solution, self.problem, coded.refit_gamma)
        stated = with_statement(
            solution, own, self.basis, structure, coded.scaling, coded.tables[0]
        )
        if not coded.several or stated.proof is None or stated.proof.statement is None:
            return stated
        named = tuple((table.response, table.y_unit) for table in coded.tables)
        names = ", ".join(name for name, _ in named)
        statement = replace(stated.proof.statement, response=names, responses=named)
        return replace(stated, proof=stated.proof.about(statement))
