"""What else could it be: every formula that comes close to a fitted one.

A rival has exactly as many terms as the model, obeys the rules of its fit and costs at most

    (1 + within) c*,        c(S) = min_w 1/2 sum_t v_t (y_t - b - m_S(u_t)'w)^2 + lam/2 |w|^2,

with c* the least cost there is.  Smaller formulas are left out: adding a term never raises the
cost, so that one of them would bring all its supersets with it.  The search is the tree's with its
threshold moved (``engines.tree.census``), and its proof says that whatever is not listed costs at
least ``bound``.

Rivals are about these rows: which formulas they cannot tell apart by more than ``within``.  A term
that all rivals have is one that these data insist on, within this family of formulas and with this
ridge; that is no statement about causes, nor about other rows (``stability`` asks those).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose, isfinite
from numbers import Integral, Real
from os import PathLike
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from polysharp.certificate.proof import Proof
from polysharp.certificate.solution import Stop, certify
from polysharp.engines.tree import Tree
from polysharp.engines.tree.census import ROOM, Census, of_exact_size, take_census
from polysharp.errors import InputError, load_optional
from polysharp.estimators.fitted import fitted_polynomial
from polysharp.estimators.model import CertifiedModel
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.prepare import FitEffort, Opened, Prepared, open_fit, priced_search
from polysharp.files import check_targets, replacement
from polysharp.moments.gram import MAX_DENSE
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import open_progress, plural, rounded_down
from polysharp.ranking.extent import Extent
from polysharp.threads import limited_threads
from polysharp.typing import Array

SAME = 1e-6  # relative difference of costs on the same rows, at most
SHOWN = 10  # rivals and replacements that are printed


class Swap(NamedTuple):
    """What the nearest rivals without a term (or input) have in its place, and their excess."""

    out: tuple[str, ...]
    into: tuple[str, ...]
    excess: float


class Used(NamedTuple):
    """Something about terms, and the same about inputs."""

    terms: Any
    inputs: Any


@dataclass(frozen=True, eq=False)
class Rivals:
    """Formulas that come close to the best one, the best one first.

    Parameters
    ----------
    polynomials : tuple of Polynomial
        The best ``max_count`` of them, cheapest first; the first one is the best formula, which
        is the model unless the search has met a better one.
    objectives : ndarray
        What they cost.
    count : int
        How many there are, those beyond ``max_count`` included.
    within : float
        The share by which they may cost more than the best.
    complete : bool
        Whether it is proved that none is missing.
    bound : float
        What every formula that is not among them costs at least; where ``complete``, that is more
        than ``1 + within`` times the best.
    shares : Used
        ``shares.terms`` and ``shares.inputs``: the share of rivals that use each, by name, the
        most frequent first.
    proof : Proof or None
        The proof of ``bound``, which ``polysharp.verify`` checks; None where it was cut short in
        the middle of a step, has outgrown its limits, or there are more than ``max_count``.
    stop : Stop
        Why the search ended.
    nodes : int
        Cases of the search tree.
    seconds : float
        Time of the search.
    """

    polynomials: tuple[Polynomial, ...]
    objectives: Array
    count: int
    within: float
    complete: bool
    bound: float
    shares: Used
    proof: Proof | None
    stop: Stop
    nodes: int
    seconds: float

    def __len__(self) -> int:
        return len(self.polynomials)

    def __iter__(self) -> Iterator[Polynomial]:
        return iter(self.polynomials)

    @property
    def best(self) -> Polynomial:
        """The best formula."""
        return self.polynomials[0]

    @property
    def excess(self) -> Array:
        """By which share of the best cost each one costs more."""
        least = float(self.objectives[0])
        return self.objectives / least - 1.0 if least > 0.0 else np.zeros(len(self))

    @property
    def indispensable(self) -> Used:
        """Names of the terms and inputs that every rival uses."""
        return Used(
            *(tuple(n for n, share in part.items() if share == 1.0) for part in self.shares)
        )

    @cached_property
    def replaceable(self) -> Used:
        """What stands in for each term and input of the best formula that some rival lacks.

        ``replaceable.terms["a b"]`` has one ``Swap`` for each way in which the rivals without
        ``a b`` that are most like the best formula replace it, the cheapest first.
        """
        terms = [frozenset(p.term_names) for p in self.polynomials]
        inputs = [frozenset(p.names[i] for i in p.inputs) for p in self.polynomials]
        best, names = self.best, self.best.names
        order = list(best.term_names), [names[i] for i in best.inputs]
        return Used(
            *(_swaps(*part, self.excess) for part in zip(order, (terms, inputs), strict=True))
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per rival, and a column for each term."""
        pd = load_optional("pandas", "to_frame", "cli")

        has = [set(p.term_names) for p in self.polynomials]
        return pd.DataFrame(
            {
                "objective": self.objectives,
                "excess": self.excess,
                "formula": [str(p) for p in self.polynomials],
                **{name: [name in own for own in has] for name in self.shares.terms},
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the proof as dicts, lists, texts and numbers."""
        return {
            "claim": self.claim,
            "count": self.count,
            "within": self.within,
            "complete": self.complete,
            "bound": self.bound,
            "stop": str(self.stop),
            "shares": self.shares._asdict(),
            "indispensable": self.indispensable._asdict(),
            "replaceable": {
                what: {name: [swap._asdict() for swap in swaps] for name, swaps in part.items()}
                for what, part in self.replaceable._asdict().items()
            },
            "rivals": [
                _line(p, cost) for p, cost in zip(self, self.objectives.tolist(), strict=True)
            ],
        }

    @property
    def claim(self) -> str:
        """What is known, in one sentence."""
        what = f"{plural(self.count, 'formula')} of {plural(len(self.best), 'term')}"
        first = f"{what} within {100 * self.within:.3g} % of the best"
        if self.complete:
            return f"{first}, and it is proved that there are no others"
        return (
            f"{first} so far ({self.stop}): any other costs at least {rounded_down(self.bound)}, "
            f"the best {self.objectives[0]:.6g}"
        )

    def __str__(self) -> str:
        """Return the claim, the first rivals as differences from the best, and what all have."""
        lines = [self.claim, f"  {self.best}"]
        own = set(self.best.term_names)
        for polynomial, excess in zip(self.polynomials[1:SHOWN], self.excess[1:], strict=False):
            other = set(polynomial.term_names)
            out = ", ".join(n for n in self.best.term_names if n not in other)
            into = ", ".join(n for n in polynomial.term_names if n not in own)
            lines.append(f"  {100 * excess:+.3f} %: {into} in place of {out}")
        if self.count > SHOWN:
            lines.append(f"  ... and {plural(self.count - SHOWN, 'more formula')}")
        for what, names in zip(("terms", "inputs"), self.indispensable, strict=True):
            lines.append(f"{what} in all of them: {', '.join(names) or 'none'}")
        return "\n".join(lines)


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
    """Find every formula of the model's size that costs hardly more than the best one.

    Parameters
    ----------
    model : SparsePolynomialRegressor or SparsePolynomialRegressorCV
        A fitted model, whose settings say which formulas are meant: degree, inputs kept, limits on
        inputs, heredity, required and excluded terms, and the ridge.
    X, y, sample_weight : arrays or Dask collections
        The rows of the fit.
    within : float, default=0.01
        By which share of the best cost a rival may cost more.
    max_count : int, default=1000
        How many formulas are held, the best ones; all others are counted too.
    time_limit : float or None, default=60.0
        Seconds; at the limit, as on Ctrl-C, what has been found is returned with ``complete``
        false and the bound on what may be missing.
    path : str, path or None, default=None
        A file to write all rivals to, as JSON lines and the best first, however many there are.

    Returns
    -------
    Rivals

    Notes
    -----
    A rival has exactly as many terms as the model.  Costs include the ridge, as in ``solution_``.
    A model that was fitted to the mean of other models (``reference_``) has rivals as fits to that
    mean.  Where the monomials are too many to be listed, pricing shows which few of them a rival
    may have; if it cannot, rivals among the monomials in play are listed and ``complete`` is false.
    There is no proof to check then.

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
    _check(model, within, max_count, time_limit)
    if path is not None:
        check_targets({"path": path})
    began, solution = perf_counter(), model.solution_
    settings = clone(getattr(model, "best_estimator_", model))
    settings.set_params(gamma=float(model.gamma_), time_limit=time_limit)
    reference = model.reference_
    values = y if reference is None else model._values(reference, X)
    with open_progress(settings.verbose) as progress, limited_threads(settings.n_jobs) as threads:
        effort = FitEffort.of(settings, threads, progress, began)
        opened = _opened(model, open_fit(settings, X, values, sample_weight, progress))
        prepared, others = _prepared(model, opened, float(within), effort)
        start = np.array(
            sorted(prepared.basis.index[tuple(sorted(m))] for m in model.polynomial_.monomials),
            dtype=np.intp,
        )
        stated, here = solution.objective, prepared.problem.refit(start).objective
        if not isclose(here, stated, rel_tol=SAME, abs_tol=SAME * SAME * prepared.problem.yy):
            raise InputError(
                "X, y and sample_weight must be the rows of the fit, on which the model costs "
                f"{stated:.9g}, got rows on which it costs {here:.9g}"
            )
        census = take_census(
            prepared.problem,
            start,
            float(within),
            limits=effort.limits(),
            listener=progress.listener,
            seed=effort.seed,
            threads=threads,
            engine=effort.engine if isinstance(effort.engine, Tree) else Tree(),
        )
    if others < np.inf:  # there are monomials that the census does not know
        whole = census.complete and others >= (1.0 + within) * float(census.costs[0])
        bound = min(census.bound, others)
        census = replace(census, bound=bound, complete=whole, proof=None)
    response = model.polynomial_.response
    return _rivals(prepared, census, float(within), int(max_count), response, path)


def _check(model: Any, within: Any, max_count: Any, time_limit: Any) -> None:
    if not isinstance(model, CertifiedModel):
        raise InputError(
            "model must be a SparsePolynomialRegressor or SparsePolynomialRegressorCV, "
            f"got {type(model).__name__}"
        )
    fitted_polynomial(model)
    check_share(within)
    if isinstance(max_count, bool) or not isinstance(max_count, Integral) or max_count < 1:
        raise InputError(f"max_count must be an integer of at least 1, got {max_count!r}")
    check_parameters({"time_limit": time_limit})


def check_share(within: Any) -> None:
    """Refuse what is no share by which a formula may cost more."""
    real = isinstance(within, Real) and not isinstance(within, bool)
    if not (real and isfinite(within) and within >= 0.0):
        raise InputError(f"within must be a finite number of at least 0, got {within!r}")


def _opened(model: Any, opened: Opened) -> Opened:
    """Check the columns; the budget is the number of terms that the model has."""
    names = model.polynomial_.names
    if tuple(opened.table.names) != names:
        raise InputError(
            f"X must have the columns of the fit, {list(names)}, got {list(opened.table.names)}"
        )
    rules = replace(opened.rules, max_terms=max(1, len(model.polynomial_)))
    return replace(opened, rules=rules)


def _prepared(
    model: Any, opened: Opened, within: float, effort: FitEffort
) -> tuple[Prepared, float]:
    """Return the problem of the model's fit, and what formulas with other monomials cost.

    Where the monomials are too many to be listed, it has those that rivals may have.
    """
    inputs = np.asarray(model.kept_inputs_, dtype=np.intp)
    count = opened.rules.count(len(inputs))
    if count <= MAX_DENSE or not opened.rules.may_be_priced:
        extent = Extent(len(inputs), priced=False)
        prepared, others = opened.over(inputs, model.ranking_, extent, effort), np.inf
    else:
        from polysharp.engines.columns.narrowing import NarrowingSearch, narrowed

        extent = Extent(len(inputs), priced=True)
        search = priced_search(NarrowingSearch, opened, inputs, extent, effort)
        start = [tuple(sorted(m)) for m in model.polynomial_.monomials]
        few = narrowed(search, start, (1.0 + within) * (1.0 + ROOM))
        others = few.others
        prepared = Prepared(opened, few.basis, few.assembled, inputs, model.ranking_, extent)
    problem = of_exact_size(prepared.problem, len(model.polynomial_))
    return replace(prepared, assembled=replace(prepared.assembled, problem=problem)), others


def _rivals(
    prepared: Prepared,
    census: Census,
    within: float,
    max_count: int,
    response: str,
    path: str | PathLike[str] | None,
) -> Rivals:
    """Turn supports into formulas; those beyond the factor, named for want of proof, are left."""
    problem, limit = prepared.problem, (1.0 + within) * float(census.costs[0])
    count = max(1, int(np.searchsorted(census.costs, limit, side="right")))
    supports = census.supports[:count]

    def formulas(some: Iterable[Any]) -> Iterator[Polynomial]:
        for support in some:
            fit = problem.refit(support)
            formula = prepared.formula(tuple(fit.support.tolist()), fit.w)
            yield replace(formula, response=response)

    if path is not None:
        with replacement(path) as place, open(place, "w", encoding="utf-8") as file:
            for polynomial, cost in zip(formulas(supports), census.costs, strict=False):
                file.write(f"{json.dumps(_line(polynomial, float(cost)))}\n")
    held = tuple(formulas(supports[:max_count]))
    proof = None
    if census.proof is not None and count <= max_count and len(held[0]):
        solution = certify(
            problem,
            supports[0],
            min(census.bound, float(census.costs[0])),
            engine="tree",
            proof=census.proof,
            gap_tol=0.0,
            stop=census.stop,
        )
        proof = prepared.stated(solution).proof
    return Rivals(
        polynomials=held,
        objectives=census.costs[: len(held)],
        count=count,
        within=within,
        complete=census.complete,
        bound=census.bound,
        shares=_shares(prepared, supports, held[0]),
        proof=proof,
        stop=census.stop,
        nodes=census.counters.nodes,
        seconds=census.seconds,
    )


def _line(polynomial: Polynomial, cost: float) -> dict[str, Any]:
    """Return what one line of a file says."""
    return {
        "objective": cost,
        "formula": polynomial.formula(digits=6),
        "intercept": polynomial.intercept,
        "terms": dict(zip(polynomial.term_names, polynomial.coefficients.tolist(), strict=True)),
    }


def _shares(prepared: Prepared, supports: Any, best: Polynomial) -> Used:
    """Count terms and inputs over all rivals, the best formula's first among equals."""
    counts = np.bincount(supports.ravel(), minlength=prepared.problem.size)
    own = set(supports[0].tolist())
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda j: (-counts[j], j not in own, j))
    names = best.names_of(prepared.basis.monomials[j] for j in order)
    terms = dict(zip(names, (counts[order] / len(supports)).tolist(), strict=True))
    uses = prepared.problem.structure.uses
    used = np.zeros(uses.shape[1])
    for support in supports:
        used += uses[support].any(axis=0)
    inputs = {best.names[prepared.basis.inputs[a]]: float(used[a]) / len(supports)
              for a in np.argsort(-used, kind="stable") if used[a]}  # fmt: skip
    return Used(terms, inputs)


def _swaps(
    order: list[str], sets: list[frozenset[str]], excess: Array
) -> dict[str, tuple[Swap, ...]]:
    """Return how the sets most like the first one do without each of its members."""
    first, found = sets[0], dict[str, tuple[Swap, ...]]()
    changes = [(first - other, other - first) for other in sets]
    for member in order:
        lacking = [a for a, (out, _) in enumerate(changes) if member in out]
        if not lacking:
            continue
        fewest = min(sum(map(len, changes[a])) for a in lacking)
        cheapest: dict[Any, Swap] = {}
        for a in lacking:
            out, into = (tuple(sorted(part)) for part in changes[a])
            if len(out) + len(into) == fewest:
                cheapest.setdefault((out, into), Swap(out, into, float(excess[a])))
        found[member] = tuple(cheapest.values())
    return found
