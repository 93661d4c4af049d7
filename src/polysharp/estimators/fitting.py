"""From a coded table to a fitted model: choose what to search, search it, write the formula.

The search goes one of two ways, which ``ranking.work_plan`` chooses:

    two steps     rank the inputs, keep p' of them, list their monomials, search (the paper)
    priced        no list of monomials: columns are generated on demand, as a rule of all inputs

For a path of sizes the problem of the largest is searched again and again (``certified_sizes``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polysharp.certificate.solution import Solution, Status, Stop, certify
from polysharp.data.rows import Rows
from polysharp.engines.base import START_SHARE, search
from polysharp.errors import InfeasibleError
from polysharp.estimators.preparation import CodedTable, FitContext, PreparedProblem
from polysharp.moments.gram import MAX_DENSE
from polysharp.monomials.term_rules import read_rules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.pricing.design import Design
from polysharp.problem.problem import Problem
from polysharp.ranking.work_plan import NCandidates, WorkPlan
from polysharp.selection.folds import KnownSums
from polysharp.selection.gamma_choice import GammaChoice, choose_gamma, provable_gamma
from polysharp.selection.split_models import Budgets
from polysharp.time_budget import OutOfTime, TimeBudget
from polysharp.typing import Indices, Monomial

if TYPE_CHECKING:
    from polysharp.engines.columns.priced_run import PricedRun

# A proof at the ridge of the coefficients says the most; if it is easy, it is found at once.
FIRST_SECONDS, FIRST_SHARE = 2.0, 0.025  # of the time limit, whichever is less
SPOILED = 1e-3  # share by which the fit of other terms may be worse

StartTerms = Collection[Sequence[Monomial]]  # sets of terms that a search may begin with


def code_table(
    model: Any,
    tables: Sequence[Rows],
    context: FitContext,
    budgets: Budgets | None = None,
    sums: KnownSums | None = None,
) -> tuple[CodedTable, GammaChoice | None]:
    """Read the rules about terms, choose gamma if it is "auto", and code the inputs.

    ``budgets`` are the sizes that gamma is chosen for, by default those of the model.
    """
    table = tables[0]
    rules = read_rules(model.get_params(deep=False), table.names, table.ranges)
    gamma, refit_gamma, choice = model.gamma, model.refit_gamma, None
    if gamma == "auto":
        gamma = table.total_weight**-0.5  # if there are too few rows to hold any out
        choice = choose_gamma(
            table,
            rules,
            budgets or Budgets((rules.max_terms,), (rules.max_inputs,)),
            scale=bool(model.scale),
            center=bool(model.center),
            progress=context.progress,
            time_limit=context.time.seconds,
            refit_gamma=refit_gamma,
        )
        if choice is not None:
            gamma, refit_gamma = choice.gamma, choice.refit_gamma
    return CodedTable.of(model, tables, rules, gamma, refit_gamma, sums), choice


def solve(
    coded: CodedTable,
    n_candidates: NCandidates,
    context: FitContext,
    starts: StartTerms = (),
    *,
    strengthen: bool = False,
) -> tuple[PreparedProblem, Solution]:
    """Search all monomials, listed or priced, from the best of some sets of terms.

    With ``strengthen`` the first search is short and has the ridge of the coefficients.  If that
    proves nothing, the next one has the ridge at which the terms known are easiest to prove.
    """
    prices = context.engine.prices and not coded.several
    plan = coded.plan(n_candidates, context, prices=prices)
    if plan.priced:
        return _search_priced(coded, plan, context, starts)
    prepared = coded.prepare(plan, context)
    preparation = context.time.spent()
    start = best_start(prepared, starts, context)
    chosen, time = prepared, context.search_time()
    if strengthen and start is not None and context.engine.proves:
        from polysharp.engines.compiling import working_clock  # loads the compiler

        own = prepared.at(coded.refit_gamma)
        seconds = min(FIRST_SECONDS, FIRST_SHARE * context.time.seconds, time.remaining())
        first = TimeBudget(seconds, clock=working_clock)
        solution = _search_listed(own, start, context, first)
        if solution.status is Status.OPTIMAL or solution.stop is Stop.INTERRUPTED:
            return own, context.timed(own.stated(solution), preparation)
        time = context.search_time()
        chosen = prepared.at(provable_gamma(prepared.problem, start, time.share(START_SHARE)))
    solution = _search_listed(chosen, start, context, time)
    again = chosen is not prepared and solution.stop is not Stop.INTERRUPTED
    if again and start is not None and _spoiled(prepared, start, solution):
        chosen, solution = prepared, _search_listed(prepared, start, context, context.search_time())
    return chosen, context.timed(chosen.stated(solution), preparation)


def _search_listed(
    prepared: PreparedProblem, start: Indices | None, context: FitContext, time: TimeBudget
) -> Solution:
    """Search listed monomials."""
    return search(
        context.engine,
        prepared.problem,
        time,
        start,
        gap_tol=context.gap_tol,
        **context.options,
        scope=prepared.scope,
        device=prepared.coded.rows.place.device,
    )


def _spoiled(prepared: PreparedProblem, start: Indices, solution: Solution) -> bool:
    """Whether a stronger ridge led to other terms that fit worse than those known before."""
    found = prepared.refitted(np.array(solution.support, dtype=np.intp)).objective
    return found > (1.0 + SPOILED) * prepared.refitted(start).objective


def best_start(
    prepared: PreparedProblem, starts: StartTerms, context: FitContext
) -> Indices | None:
    """Improve the sets of terms that are listed and allowed by local search; return the best."""
    problem, index = prepared.problem, prepared.basis.index if starts else {}
    listed = [terms for terms in starts if terms and all(m in index for m in terms)]
    supports = [np.array(sorted(index[m] for m in terms), dtype=np.intp) for terms in listed]
    allowed = [support for support in supports if problem.structure.allows(support)]
    if not allowed:
        return None
    # The compiler is loaded only if there is something to improve.
    from polysharp.engines.local_search import improve

    fits = sorted(map(problem.refit, allowed), key=lambda fit: fit.objective)
    time, best = context.search_time().share(START_SHARE), fits[0]
    for fit in fits:
        better = improve(problem, fit.support, out_of_time=lambda: time.expired)
        best = min(best, better, key=lambda fit: fit.objective)
    return best.support


def _search_priced(
    coded: CodedTable, plan: WorkPlan, context: FitContext, starts: StartTerms
) -> tuple[PreparedProblem, Solution]:
    """Generate columns on demand; the certificate covers every input that the plan has."""
    from polysharp.engines.columns.priced_search import search_all_inputs

    tell = context.on_block("ranking inputs", plan.timed)
    inputs, ranking = coded.choose_inputs(plan, on_block=tell)
    priced = priced_run(coded, inputs, plan, context)
    preparation = context.time.spent()
    for terms in starts:
        with suppress(OutOfTime):
            priced.improve(terms)
    found = search_all_inputs(priced)
    prepared = PreparedProblem(coded, found.basis, found.assembled, inputs, ranking, plan)
    solution = replace(found.solution, scope=prepared.scope)
    others = tuple(np.setdiff1d(np.arange(coded.rows.shape[1]), inputs).tolist())
    stated = prepared.stated(solution, replace(coded.rules, exclude_inputs=others))
    return prepared, context.timed(stated, preparation)


def priced_run(
    coded: CodedTable, inputs: Indices, plan: WorkPlan, context: FitContext
) -> PricedRun:
    """Open a search over all monomials of some inputs, none of them listed."""
    from polysharp.engines.columns.priced_run import PricedRun, Sizes

    rules = coded.rules
    columns = np.array(rules.library.columns_of(inputs), dtype=np.intp)
    return PricedRun(
        Design(coded.rows, columns, rules.degree, fit_intercept=not rules.constant),
        rules,
        lam=1.0 / coded.gamma,
        engine=context.engine,
        time=context.search_time(),
        gap_tol=context.gap_tol,
        **context.options,
        sizes=Sizes(
            first=plan.pool, added=min(Sizes.added, plan.pool), listed=plan.pool + plan.pool // 2
        ),
    )


def certified_sizes(
    prepared: PreparedProblem, budgets: Budgets, context: FitContext, limit: float
) -> Iterator[tuple[int, int | None, Solution]]:
    """Yield (max_terms, max_inputs, solution); sizes that no polynomial can have are missing.

    Until ``limit`` seconds have passed, each gets an equal part of the time that is left.  An
    interrupted size is the last.
    """
    from polysharp.engines.local_search import every_size  # loads the compiler

    left, time = len(budgets), context.time
    wider: dict[int, Indices] = {}
    for k in budgets.max_inputs:
        local: dict[int, Indices] = {}
        if prepared.problem.size <= MAX_DENSE:  # G may be formed
            largest = _of_size(prepared.problem, budgets.max_terms[-1], k)
            found = every_size(largest, out_of_time=lambda: time.spent() > limit)
            local = dict(enumerate(found, start=1))
        support: Indices | None = None
        for size in budgets.max_terms:
            seconds = max(0.0, limit - time.spent()) / left
            left -= 1
            starts = [s for s in (support, local.get(size), wider.get(size)) if s is not None]
            try:
                problem = _of_size(prepared.problem, size, k)
                solution = _solve(prepared, problem, starts, seconds, context)
            except InfeasibleError:
                continue
            yield size, k, solution
            if solution.stop is Stop.INTERRUPTED:
                return
            support = wider[size] = np.array(solution.support, dtype=np.intp)


class SizedFormula(NamedTuple):
    """A formula of one size, as local search finds it: not proved the best."""

    n_terms: int
    validation_error: float  # root mean squared, of the best candidate of this size
    formula: Polynomial | tuple[Polynomial, ...]  # a tuple for several responses


def formulas_by_size(
    prepared: PreparedProblem,
    errors: Mapping[int, float],
    own: tuple[Polynomial, ...],
    time: TimeBudget,
) -> tuple[SizedFormula, ...]:
    """Return a formula of every size that has an error; ``own`` is the model's of its size."""
    problem, known = prepared.problem, {len(own[0]): own}
    if errors and problem.size <= MAX_DENSE:  # else the monomials were priced, and few are listed
        from polysharp.engines.local_search import every_size  # loads the compiler

        largest = _of_size(problem, max(errors), problem.structure.max_inputs)
        for support in every_size(largest, out_of_time=lambda: time.expired):
            known.setdefault(len(support), prepared.formulas(support.tolist()))
    several = prepared.coded.several
    return tuple(
        SizedFormula(size, errors[size], known[size] if several else known[size][0])
        for size in sorted(known.keys() & errors.keys())
    )


def _of_size(problem: Problem, size: int, k: int | None) -> Problem:
    structure = problem.structure
    limit = structure.n_inputs if k is None else min(k, structure.n_inputs)
    size = min(size, problem.size)
    return replace(problem, structure=replace(structure, max_terms=size, max_inputs=limit))


def _solve(
    prepared: PreparedProblem,
    problem: Problem,
    starts: list[Indices],
    seconds: float,
    context: FitContext,
) -> Solution:
    """Certify one size from the best of some supports."""
    allowed = [start for start in starts if problem.structure.allows(start)]
    start = min(allowed, key=lambda s: problem.refit(s).objective, default=None)
    common: dict[str, Any] = {"gap_tol": context.gap_tol, "scope": prepared.scope}
    if seconds == 0.0 and start is not None:
        # The time is up: what local search found, with the bound that its residual proves.
        name = context.engine.name
        return certify(problem, start, 0.0, stop=Stop.TIME, engine=name, **common)
    return context.engine.solve(
        problem,
        start=start,
        time=TimeBudget(seconds),
        seed=context.seed,
        threads=context.threads,
        device=prepared.coded.rows.place.device,
        **common,
    )
