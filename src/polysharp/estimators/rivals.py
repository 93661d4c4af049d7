"""What else could it be: every formula that comes close to a fitted one.

A rival has exactly as many terms as the model, obeys the rules of its fit and costs at most

    (1 + within) c*,        c(S) = min_w 1/2 sum_t v_t (y_t - b - m_S(u_t)'w)^2 + lam/2 |w|^2,

with c* the least cost there is.  Smaller formulas are left out: adding a term never raises the
cost, so that one of them would bring all its supersets with it.  The search is the tree's with its
threshold moved (``engines.tree.near_optimal``), and its proof says that whatever is not listed
costs at least ``bound``.  The set of rivals is what others call the complete Rashomon set.

Rivals are about these rows: which formulas they cannot tell apart by more than ``within``.  A term
that all rivals have is one that these data insist on, within this family of formulas and with this
ridge; that is no statement about causes, nor about other rows (``stability`` asks those).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import isclose
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from polysharp.certificate.solution import certify
from polysharp.data.checks import open_rows
from polysharp.data.files import check_targets, replacement
from polysharp.data.rows import Rows
from polysharp.engines.tree import Tree
from polysharp.engines.tree.near_optimal import (
    ROOM,
    NearOptimal,
    of_exact_size,
    search_near_optimal,
)
from polysharp.errors import InputError
from polysharp.estimators.fitting import code_table, priced_run
from polysharp.estimators.model import check_single
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.preparation import CodedTable, FitContext, PreparedProblem
from polysharp.estimators.rivals_found import Rivals, UsageCounts, Used, line
from polysharp.moments.gram import MAX_DENSE
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import Progress
from polysharp.ranking.work_plan import WorkPlan
from polysharp.typing import Array, Indices

SAME = 1e-6  # relative difference of costs on the same rows, at most
BLOCK_SIZE = 4_000_000  # truth values of one block of rivals


def rivals(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    within: float = 0.01,
    max_count: int = 1000,
    time_limit: float | None = 60.0,
    path: str | PathLike[str] | None = None,
) -> Rivals:
    """Find every formula of the model's size that fits nearly as well as the best one.

    Parameters
    ----------
    model : SparsePolynomialRegressor or SparsePolynomialRegressorCV
        A fitted model.  Its settings define the formulas: degree, inputs kept, limits on inputs,
        heredity, required and excluded terms, and the ridge.
    X, y, sample_weight : arrays or Dask collections
        The rows of the fit.
    within : float, default=0.01
        How much worse than the best a rival may be: 0.01 is 1 % of the objective.
    max_count : int, default=1000
        Number of formulas to keep, the best ones; all others are counted too.
    time_limit : float or None, default=60.0
        Seconds.  At the limit, as on Ctrl-C, the rivals found so far are returned, with
        ``complete`` false and a lower bound for all others.
    path : str, path or None, default=None
        A file for all rivals, written after the search as JSON lines, the best first; the first
        line holds count, completeness and bound.

    Returns
    -------
    Rivals

    Notes
    -----
    A rival has exactly as many terms as the model.  The objective includes the ridge, as in
    ``solution_``.  If there are too many monomials to list, pricing finds the few that a rival may
    contain; if it cannot, only rivals among the monomials in play are listed, ``complete`` is
    false, and there is no proof to check.

    Examples
    --------
    >>> import numpy as np
    >>> import polysharp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> X[:, 2] = X[:, 1] + 0.05 * rng.standard_normal(60)
    >>> y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.standard_normal(60)
    >>> model = polysharp.SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0).fit(X, y)
    >>> found = polysharp.rivals(model, X, y, within=0.2)
    >>> print(found)
    2 formulas of 2 terms within 20 % of the best, and it is proved that there are no others
      y = -0.01128 + 0.9728 x2 + 0.9963 x0^2
      +8.931 %: x1 in place of x2
    terms in all of them: x0^2
    inputs in all of them: x0
    >>> found.replaceable.inputs["x2"][0].into
    ('x1',)
    """
    check_single(model, "model")
    check_is_fitted(model)
    check_parameters({"within": within, "max_count": max_count, "time_limit": time_limit})
    if path is not None:
        check_targets({"path": path})
    settings = clone(getattr(model, "best_estimator_", model))
    table = open_rows(settings, X, y, sample_weight, Progress())
    return rivals_of(model, table, float(within), int(max_count), time_limit, path)


def rivals_of(
    model: Any,
    table: Rows,
    within: float,
    max_count: int,
    time_limit: float | None,
    path: str | PathLike[str] | None = None,
) -> Rivals:
    """Find the rivals on rows that have been checked."""
    settings = clone(getattr(model, "best_estimator_", model)).set_params(
        gamma=float(model.gamma_), refit_gamma=float(model.refit_gamma_), time_limit=time_limit
    )
    law = model.polynomial_
    if tuple(table.names) != law.names:
        raise InputError(
            f"X must have the columns of the fit, {list(law.names)}, got {list(table.names)}"
        )
    with FitContext.of(settings) as context:
        coded, _ = code_table(settings, [table], context)
        coded = replace(coded, rules=replace(coded.rules, max_terms=max(1, len(law))))
        prepared, others = _prepared(model, coded, within, context)
        result = search_near_optimal(
            prepared.problem,
            _start(model, prepared),
            within,
            time=context.search_time(),
            **context.options,
            engine=context.engine if isinstance(context.engine, Tree) else Tree(),
            max_excepted=max_count,
        )
        if others < np.inf:  # there are monomials that the search does not know
            whole = result.complete and others >= result.limit
            bound = min(result.bound, others)
            result = replace(result, bound=bound, complete=whole, proof=None)
        return _found(prepared, result, law.response, within, max_count, path)


def _start(model: Any, prepared: PreparedProblem) -> Indices:
    """Return the support of the model; on these rows it must cost what it cost in the fit."""
    index, monomials = prepared.basis.index, model.polynomial_.monomials
    start = np.array(sorted(index[tuple(sorted(m))] for m in monomials), dtype=np.intp)
    stated, here = model.solution_.objective, prepared.problem.refit(start).objective
    if not isclose(here, stated, rel_tol=SAME, abs_tol=SAME * SAME * prepared.problem.yy):
        raise InputError(
            "X, y and sample_weight must be the rows of the fit, on which the model costs "
            f"{stated:.9g}, got rows on which it costs {here:.9g}"
        )
    return start


def _prepared(
    model: Any, coded: CodedTable, within: float, context: FitContext
) -> tuple[PreparedProblem, float]:
    """Return the problem of the model's fit, and what formulas with other monomials cost.

    If the monomials are too many to be listed, it has those that rivals may have.
    """
    inputs, law = np.asarray(model.kept_inputs_, dtype=np.intp), model.polynomial_
    priced = coded.rules.count(len(inputs)) > MAX_DENSE
    plan, others = WorkPlan(len(inputs), priced=priced), np.inf
    if not priced:
        prepared = coded.over(inputs, model.ranking_, plan)
    else:
        from polysharp.engines.columns.priced_search import near_optimal_pool

        search = priced_run(coded, inputs, plan, context)
        start = [tuple(sorted(m)) for m in law.monomials]
        few, others = near_optimal_pool(search, start, (1.0 + within) * (1.0 + ROOM))
        prepared = PreparedProblem(coded, few.basis, few.assembled, inputs, model.ranking_, plan)
    problem = of_exact_size(prepared.problem, len(law))
    return replace(prepared, assembled=replace(prepared.assembled, problem=problem)), others


def _found(
    prepared: PreparedProblem,
    result: NearOptimal,
    response: str,
    within: float,
    max_count: int,
    path: str | PathLike[str] | None,
) -> Rivals:
    """Turn the best supports into formulas, count over all of them, and write them to ``path``."""
    supports, costs = result.store.cheapest(result.limit)
    polynomials = tuple(_formulas(prepared, supports[:max_count], response))
    best, basis, least = polynomials[0], prepared.basis, float(costs[0])
    terms, inputs = _usage(prepared, supports, costs, max_count)
    any_has = np.flatnonzero(terms.having).tolist()
    names = best.names_of(basis.monomials[j] for j in any_has)
    of_terms = dict(zip(any_has, names, strict=True))
    of_inputs = {a: best.names[basis.inputs[a]] for a in np.flatnonzero(inputs.having).tolist()}
    proof, first = None, supports[0].astype(np.intp)
    if result.proof is not None and len(first):  # its statement is about the best formula
        bound = min(result.bound, least)
        about: dict[str, Any] = {"proof": result.proof, "gap_tol": 0.0, "stop": result.stop}
        solution = certify(prepared.problem, first, bound, engine="tree", **about)
        proof = prepared.stated(solution).proof
    found = Rivals(
        polynomials=polynomials,
        objectives=costs[:max_count],
        count=terms.count,
        within=within,
        complete=result.complete,
        bound=result.bound,
        shares=Used(terms.shares(of_terms), inputs.shares(of_inputs)),
        replaceable=Used(terms.swaps(of_terms, least), inputs.swaps(of_inputs, least)),
        proof=proof,
        stop=result.stop,
        nodes=result.counters.nodes,
        seconds=result.seconds,
    )
    if path is None:
        return found
    lines = zip(_formulas(prepared, supports, response), costs.tolist(), strict=True)
    return replace(found, written=_write(path, found, lines))


def _formulas(prepared: PreparedProblem, supports: Indices, response: str) -> Iterator[Polynomial]:
    for support in supports.astype(np.intp):
        (formula,) = prepared.formulas(support.tolist())
        yield replace(formula, response=response)


def _usage(
    prepared: PreparedProblem, supports: Indices, costs: Array, most: int
) -> tuple[UsageCounts, UsageCounts]:
    """Count terms and inputs over all supports, block by block."""
    structure, first = prepared.problem.structure, supports[0]
    uses = structure.uses
    size, inputs = uses.shape
    own = np.isin(np.arange(size), first)
    terms, used = UsageCounts(own, most), UsageCounts(structure.inputs_of(first), most)
    rows = 1 + BLOCK_SIZE // (size + len(first) * inputs)
    for start in range(0, len(costs), rows):
        some, theirs = supports[start : start + rows], costs[start : start + rows]
        has = np.zeros((len(some), size), dtype=bool)
        np.put_along_axis(has, some.astype(np.intp), True, axis=1)
        terms.add(has, theirs)
        used.add(np.asarray(uses[some].any(axis=1)), theirs)
    return terms, used


def _write(
    path: str | PathLike[str], found: Rivals, formulas: Iterable[tuple[Polynomial, float]]
) -> int:
    """Write the summary and a line for each, the cheapest first; return how many.

    Ctrl-C ends the file after a whole line: the first one says how many there would be.
    """
    written = 0
    with replacement(path) as place, open(place, "w", encoding="utf-8") as file:
        file.write(f"{json.dumps(found.summary)}\n")
        with suppress(KeyboardInterrupt):
            for formula, cost in formulas:
                file.write(f"{json.dumps(line(formula, cost))}\n")
                written += 1
    return written
