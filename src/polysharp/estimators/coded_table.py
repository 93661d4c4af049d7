"""Checked rows in coded variables, with the rules about terms and the ridge; and their problem.

    rows -> CodedTable -> (triage) -> monomials -> moments -> PreparedProblem

Whoever has summed the rows already hands the sums over (``KnownSums``), and no row is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from polysharp.certificate.solution import Scope, Solution, with_refit
from polysharp.certificate.statement import with_statement
from polysharp.data.rows import Rows, evenly_spaced
from polysharp.estimators.fit_context import LEAST_SECONDS, FitContext, warn
from polysharp.moments.gram import MAX_DENSE, MAX_DENSE_GPU
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.problem.assemble import Assembled, assemble, with_responses
from polysharp.problem.problem import Fit, Problem
from polysharp.ranking.ranking import Ranking, choose_inputs, keep_best
from polysharp.ranking.work_plan import Machine, NCandidates, WorkPlan, plan_work, product_rate
from polysharp.selection.folds import KnownSums
from polysharp.time_budget import OutOfTime
from polysharp.typing import Array, Indices

RANKED_RESPONSES = 5  # evenly spaced among all, that rank the inputs
SURELY = 1.5  # times the time left: estimates that exceed it are hardly wrong


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Rows in the user's variables and in coded ones, with what the fit asks of terms."""

    tables: Sequence[Rows]  # as the user gave them, once for each response
    rows: Rows  # of the first response, coded
    scaling: Scaling
    rules: TermRules
    gamma: float  # that terms are chosen with
    refit_gamma: float  # that their coefficients are estimated with
    ranges: Array | None = None  # of the inputs, which predictions are clamped to
    sums: KnownSums | None = None
    several: bool = False  # whether responses share their terms, and costs are added

    @classmethod
    def of(
        cls,
        tables: Sequence[Rows],
        rules: TermRules,
        gamma: float,
        refit_gamma: float | None = None,
        *,
        scale: bool,
        center: bool,
        clamp: bool = False,
        sums: KnownSums | None = None,
        several: bool = False,
    ) -> CodedTable:
        """Code the inputs."""
        table = tables[0]
        seen, p = table.ranges, table.shape[1]
        scaling = Scaling.of(seen, scale=scale, center=center, library=rules.library)
        ranges = np.array([seen.low[:p], seen.high[:p]]) if clamp else None
        coded, rows = rules.coded(scaling.unit), table.coded(scaling.apply)
        refit = gamma if refit_gamma is None else refit_gamma
        return cls(tables, rows, scaling, coded, gamma, refit, ranges, sums, several)

    @property
    def allowed(self) -> Indices:
        """Inputs that are not excluded."""
        return self.rules.allowed(self.rows.shape[1])

    def plan(self, n_candidates: NCandidates, context: FitContext, *, prices: bool) -> WorkPlan:
        """Choose the inputs, listed or priced; warn if the user's choice takes too long."""
        machine, place, left = None, self.rows.place, context.time.remaining()
        if left < inf:
            machine = Machine(
                max(left, LEAST_SECONDS),
                lambda: self.rows.workers * product_rate(place),
                listing=context.time.seconds,
            )
        plan = plan_work(
            n_candidates,
            self.rules,
            (self.rows.shape[0], len(self.allowed)),
            prices=prices,
            machine=machine,
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
        self, plan: WorkPlan, context: FitContext | None, known: Ranking | None = None
    ) -> tuple[Indices, Ranking | None]:
        """Return the inputs kept, and the ranking if some had to go."""
        if known is not None:
            return keep_best(known.order, self.rules, plan.n_inputs), known
        if plan.n_inputs >= len(self.allowed):
            return self.allowed, None
        tell = None if context is None else context.on_block("ranking inputs", plan.timed)
        scores: list[Array] = []
        for t in evenly_spaced(len(self.tables), RANKED_RESPONSES):
            rows = self.rows if t == 0 else self.tables[t].coded(self.scaling.apply)
            size, kernel = plan.n_inputs, plan.kernel
            kept, known = choose_inputs(size, self.rules, rows, self.gamma, kernel, on_block=tell)
            if known is None or len(self.tables) == 1:
                return kept, known
            scores.append(known.scores / (float(known.scores.sum()) or 1.0))
        assert known is not None
        own = Ranking(np.sum(scores, axis=0), known.degree, known.gamma, known.n_rows)
        return keep_best(own.order, self.rules, plan.n_inputs), own

    def prepare(
        self, plan: WorkPlan, context: FitContext, known: Ranking | None = None
    ) -> PreparedProblem:
        """Choose the inputs and turn the rows into a problem over all their monomials.

        ``known`` is a ranking of the inputs.  Fewer inputs are kept if the plan was made for the
        time at hand and the moments turn out to take longer.
        """
        while True:
            inputs, known = self.choose_inputs(plan, context, known)
            try:
                return self.over(inputs, known, plan, context)
            except OutOfTime as slow:
                plan = plan.smaller(self.rules, slow.seconds, context.time.remaining())

    def over(
        self, inputs: Indices, ranking: Ranking | None, plan: WorkPlan, context: FitContext | None
    ) -> PreparedProblem:
        """Turn the rows into a problem over all monomials of some inputs."""
        basis, moments = self.rules.basis(inputs), None
        if self.sums is not None and self.sums.basis.monomials == basis.monomials:
            moments = self.sums.moments
            moments = moments.response(0) if np.ndim(moments.y_mean) else moments
        assembled = assemble(
            self.rows,
            basis,
            self.rules.structure(basis),
            lam=1.0 / self.gamma,
            fit_intercept=not self.rules.constant,
            on_block=None if context is None else context.on_block("moments", plan.timed),
            moments=moments,
        )
        if self.several:
            free = not self.rules.constant
            assembled = with_responses(assembled, basis, self.tables, self.rows, fit_intercept=free)
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
        table = self.coded.tables[response]
        intercept = table.y_unit * self.assembled.intercept(support, w, response)
        basis = self.basis.select(support)
        scaling, ranges = self.coded.scaling, self.coded.ranges
        found = Polynomial.from_scaled(
            basis, table.y_unit * w, intercept, scaling, table.names, table.response, ranges
        )
        # Rounding on the way to the user's units must not leave an interval that was stated there.
        kept = self.coded.rules.coefficients.kept(found.monomials, found.coefficients)
        return replace(found, coefficients=kept)

    def stated(self, solution: Solution, rules: TermRules | None = None) -> Solution:
        """Complete a solution: its proof's statement, and the coefficients that are shown.

        ``rules`` may have other budgets than those of the table.
        """
        own = self.coded.rules if rules is None else rules
        structure = self.problem.structure if rules is None else own.structure(self.basis)
        scaling, tables = self.coded.scaling, self.coded.tables
        if solution.refit is not None or self.coded.refit_gamma != solution.gamma:
            solution = with_refit(solution, self.problem, self.coded.refit_gamma)
        stated = with_statement(solution, own, self.basis, structure, scaling, tables[0])
        if not self.coded.several or stated.proof is None or stated.proof.statement is None:
            return stated
        named = tuple((table.response, table.y_unit) for table in tables)
        names = ", ".join(name for name, _ in named)
        statement = replace(stated.proof.statement, response=names, responses=named)
        return replace(stated, proof=stated.proof.about(statement))
