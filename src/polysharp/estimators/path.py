"""The accuracy-versus-size curve: the best polynomial for every number of terms.

For l = 1, 2, ..., and for every k if several are asked for,

    min  1/2 sum_t v_t (y_t - b - m(u_t)'w)^2 + lam/2 |w|^2   with at most l monomials, k inputs.

The moments are computed once.  Local search finds a support for every size first, then the engine
takes the sizes one by one, each from the best of the supports at hand: that of local search, that
of one term less, and that of the same size under the wider limit on the inputs, if it uses few
enough.  The objective can therefore not rise with l.  A size gets an equal share of the time that
is left, and what it does not use goes to those after it.

With ``cv`` every size is also judged on rows it has not seen: in each split local search finds the
models on the training moments (no proof is needed there), and the validation rows judge them
(``split_models``).  Errors are root mean squares, in the units of y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.data.checks import open_rows
from polysharp.errors import InfeasibleError, InputError, TooLargeError, load_optional
from polysharp.estimators.fitting import certified_sizes, code_table
from polysharp.estimators.parameters import check_parameters, check_several, input_limits, sizes
from polysharp.estimators.preparation import CodedTable, FitContext, PreparedProblem
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.polynomial.polynomial import Polynomial
from polysharp.selection.folds import Folds
from polysharp.selection.scores import Case, Scores
from polysharp.selection.split_models import Budgets, SplitModels, Workers
from polysharp.selection.splits import read_parts
from polysharp.wording import r2_decimals, rounded_up

Size = tuple[int | None, int]  # max_inputs and max_terms

CERTIFIED_SHARE = 0.8  # of the time limit, if the rest is needed for the validation


@dataclass(frozen=True, eq=False)
class PathPoint:
    """The best polynomial of one size.

    Parameters
    ----------
    max_terms : int
        The budget l; the polynomial may have fewer terms.
    max_inputs : int or None
        The budget k, None for no limit.
    polynomial : Polynomial
        The formula, in the user's names and units.
    solution : Solution
        The certificate.
    training_error : float
        Root mean squared error on the rows of the fit.
    validation_error : float or None
        Mean over the splits of the root mean squared error on held-out rows; None without ``cv``.
    validation_std_error : float or None
        Standard error of that mean.
    """

    max_terms: int
    max_inputs: int | None
    polynomial: Polynomial
    solution: Solution
    training_error: float
    validation_error: float | None = None
    validation_std_error: float | None = None

    n_terms = property(lambda self: len(self.polynomial), doc="Number of terms.")
    n_inputs = property(lambda self: len(self.polynomial.inputs), doc="Number of inputs in use.")
    objective = property(lambda self: self.solution.objective, doc="Objective of the polynomial.")
    bound = property(
        lambda self: self.solution.bound, doc="Lower bound on every polynomial of this size."
    )
    gap = property(lambda self: self.solution.gap, doc="(objective - bound) / objective.")
    status = property(lambda self: self.solution.status, doc="What is proved of the objective.")


@dataclass(frozen=True, eq=False)
class Path(Sequence[PathPoint]):
    """Polynomials of growing size; an ordinary sequence of ``PathPoint``.

    Parameters
    ----------
    points : tuple of PathPoint
        By max_inputs, then by max_terms.
    degree : int
        Largest degree of a monomial.
    gamma : float
        The ridge is 1 / gamma.
    center : bool
        Whether the formulas are in coded variables (x - mean).
    n_splits : int
        Splits of the validation, 0 without.
    """

    points: tuple[PathPoint, ...]
    degree: int
    gamma: float
    center: bool
    n_splits: int = 0

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, a: Any) -> Any:
        return self.points[a]

    def best(self, rule: str = "one-se") -> PathPoint:
        """Return the point to use.

        Parameters
        ----------
        rule : {"one-se", "best"}
            "best" has the smallest validation error; "one-se" the fewest terms (then inputs) among
            those whose error is within one standard error of the smallest.
        """
        if rule not in ("one-se", "best"):
            raise InputError(f"rule must be 'one-se' or 'best', got {rule!r}")
        judged = [p for p in self.points if p.validation_error is not None]
        if not judged:
            raise InputError(
                "best needs validation errors: call path with cv=5, got a path without"
            )
        errors = np.array([p.validation_error for p in judged])
        lowest = judged[int(errors.argmin())]
        if rule == "best":
            return lowest
        most = errors.min() + (lowest.validation_std_error or 0.0)
        close = [p for p, error in zip(judged, errors, strict=True) if error <= most]
        return min(close, key=lambda p: (p.n_terms, p.n_inputs, p.validation_error))

    def r2_ceilings(self, bounds: Mapping[Size, float] | None = None) -> dict[Size, float | None]:
        """Return the R2 that no polynomial of a size exceeds without larger coefficients.

        Larger, that is, than the largest of all sizes here (sum of squares in the scaled basis, see
        ``Solution.r2_ceiling``), so that ceilings do not fall as terms are added.  A bound for
        more terms holds for fewer as well.  By (max_inputs, max_terms), as are better ``bounds``
        that are known; None where the ceiling is not known.
        """
        norms = [float(p.solution.coefficients @ p.solution.coefficients) for p in self.points]
        penalty = max(norms, default=0.0) / self.gamma
        best: dict[int | None, float] = {}  # bound by max_inputs, of the size at hand or more
        found: dict[Size, float | None] = {}
        for p in sorted(self.points, key=lambda p: -p.max_terms):
            size, total = (p.max_inputs, p.max_terms), p.solution.total_squares
            known = max(p.bound, (bounds or {}).get(size, 0.0), best.get(p.max_inputs, 0.0))
            best[p.max_inputs] = known
            found[size] = min(1.0, 1.0 - (2.0 * known - penalty) / total) if total else None
        return found

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per point."""
        pd, ceilings = load_optional("pandas", "to_frame", "cli"), self.r2_ceilings()
        names = "max_terms max_inputs n_terms n_inputs objective bound gap status r2 r2_ceiling"
        names += " training_error validation_error validation_std_error formula"
        rows = []
        for p in self.points:
            own = {"status": str(p.status), "r2": p.solution.r2, "formula": str(p.polynomial)}
            own["r2_ceiling"] = ceilings[p.max_inputs, p.max_terms]
            rows.append([own[n] if n in own else getattr(p, n) for n in names.split()])
        return pd.DataFrame(rows, columns=names.split())

    def __str__(self) -> str:
        """Return a table, one line per size; "at most" are the ``r2_ceilings``."""
        judged = any(p.validation_error is not None for p in self.points)
        limited = any(p.max_inputs is not None for p in self.points)
        head = f"{'terms':>5}" + (f" {'inputs':>6}" if limited else "")
        head += f" {'R2':>8} {'at most':>8} {'status':<8} {'train RMSE':>10}"
        head += f" {'validation RMSE':>18}" if judged else ""
        lines, ceilings = [head], self.r2_ceilings()
        for p in self.points:
            limit, own = ceilings[p.max_inputs, p.max_terms], p.solution.r2
            r2 = "-" if own is None or limit is None else f"{own:.{r2_decimals(limit)}f}"
            ceiling = "-" if limit is None or limit >= 1.0 else rounded_up(limit)
            text = f"{p.max_terms:>5}" + (f" {p.max_inputs or '-':>6}" if limited else "")
            text += f" {r2:>8} {ceiling:>8} {p.status:<8} {p.training_error:>10.4g}"
            if p.validation_error is not None:
                text += f" {p.validation_error:>10.4g} ± {p.validation_std_error or 0.0:.2g}"
            lines.append(text)
        return "\n".join(lines)


def path(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    degree: int = 3,
    max_terms: Any = 20,
    max_inputs: Any = None,
    gamma: Any = "auto",
    center: bool = False,
    cv: Any = None,
    time_limit: float | None = 60.0,
    verbose: int = 0,
    **options: Any,
) -> Path:
    """Find the best polynomial for every number of terms.

    Parameters
    ----------
    X, y, sample_weight : arrays
        As in ``SparsePolynomialRegressor.fit``.
    degree : int, default=3
        Largest degree of a monomial.
    max_terms : int or sequence of int, default=20
        Maximum number of terms; every number up to it is solved, at most the number of monomials.
        Or the numbers of terms to solve.
    max_inputs : int, None or sequence of these, default=None
        Limits on the number of inputs; one curve for each.
    gamma : float or "auto", default="auto"
        The ridge on the coefficients of the scaled monomials is 1 / gamma.  "auto" chooses one for
        all sizes by validation, as in ``SparsePolynomialRegressor``.
    center : bool, default=False
        Subtract the means of the inputs first.
    cv : None, int, splitter or iterable of (train, test), default=None
        Also measure every size on held-out rows; a number means shuffled folds.
    time_limit : float or None, default=60.0
        Seconds for the searches, shared by the sizes; the gap of each size shows the state of its
        proof.  The validation is not cut short.
    verbose : int, default=0
        1 shows progress.
    **options
        Other parameters of ``SparsePolynomialRegressor``: engine, n_candidates, heredity, ...
        The monomials are listed, never priced: with ``n_candidates="auto"`` at most 8192 of them.

    Returns
    -------
    Path
        A sequence of ``PathPoint``.  Ctrl-C ends it early with the sizes that are done, and
        without validation errors if it comes during the validation.  Sizes for which no polynomial
        obeys the rules are omitted.

    Examples
    --------
    >>> import numpy as np
    >>> import polysharp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = 2.0 * X[:, 0] * X[:, 1] - X[:, 2] + 0.1 * rng.standard_normal(100)
    >>> curve = polysharp.path(X, y, degree=2, max_terms=4, cv=5, random_state=0)
    >>> [point.status.value for point in curve]
    ['optimal', 'optimal', 'optimal', 'optimal']
    >>> print(curve.best("one-se").polynomial.formula(1))
    y = -0.004 - 1 x2 + 2 x0 x1
    """
    for name, given in (("max_terms", max_terms), ("max_inputs", max_inputs)):
        check_several(name, given)
    budgets = Budgets(sizes(max_terms), input_limits(max_inputs))
    model = SparsePolynomialRegressor(
        degree=degree,
        max_terms=budgets.max_terms[-1],
        max_inputs=budgets.max_inputs[0],
        gamma=gamma,
        center=center,
        time_limit=time_limit,
        verbose=verbose,
        **options,
    )
    check_parameters(model.get_params(deep=False))
    with FitContext.of(model) as context:
        given = X, y, sample_weight
        tables = [open_rows(model, *given, context.progress)]
        coded, _ = code_table(model, tables, context, budgets)
        folds = None if cv is None else _open_folds(coded, model, cv, given, context.seed)
        plan = coded.plan(model.n_candidates, context, prices=False)
        prepared = coded.prepare(plan, context)
        if isinstance(max_terms, Integral):
            most = max(1, len(prepared.basis))  # of more terms there is no formula
            budgets = replace(budgets, max_terms=budgets.max_terms[:most])
        limit = (1.0 if cv is None else CERTIFIED_SHARE) * context.time.seconds
        tell = context.progress.on_block("sizes")
        points: list[PathPoint] = []
        for size, k, solution in certified_sizes(prepared, budgets, context, limit):
            points.append(_point(prepared, size, k, solution))
            if tell is not None:
                tell(len(points), len(budgets))
        if not points:
            raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
        curve = Path(tuple(points), coded.rules.degree, coded.gamma, bool(center))
        if folds is not None:
            with suppress(KeyboardInterrupt):  # the sizes are done, and must not be lost
                workers = Workers(model.n_jobs, context.progress)
                curve = validated_sizes(curve, prepared, folds, budgets, workers)
    return curve


def _point(prepared: PreparedProblem, size: int, k: int | None, solution: Solution) -> PathPoint:
    """Write the formula, complete the proof's statement, measure the error."""
    coded, fit = prepared.coded, prepared.refitted(np.array(solution.support, dtype=np.intp))
    squares = 2.0 * fit.objective - float(np.vdot(fit.w, fit.w)) / coded.refit_gamma
    rules = replace(coded.rules, max_terms=size, max_inputs=k)
    return PathPoint(
        size,
        k,
        prepared.formulas(solution.support)[0],
        prepared.stated(solution, rules),
        float(np.sqrt(max(0.0, squares) / coded.rows.total_weight)),
    )


def _open_folds(
    coded: CodedTable, model: Any, cv: Any, given: tuple[Any, Any, Any], seed: int
) -> Folds:
    """Cut the rows as ``cv`` says: before the search, whose results a refusal would cost.

    ``given`` are X, y and sample_weight as the user gave them.
    """
    table, rules = coded.tables[0], coded.rules
    parts, plan = read_parts(cv, given, table.shape[0], seed=seed)
    folds = Folds(table, parts, plan, rules, bool(model.scale), bool(model.clamp))
    p, most = len(coded.allowed), folds.capacity()
    if isinstance(model.n_candidates, Integral):
        p = min(p, int(model.n_candidates))
    if rules.count(p) > most and not folds.screens:
        raise TooLargeError(
            f"cv must be None, or n_candidates smaller, for degree={rules.degree} and {p} "
            f"inputs: validation holds {rules.count(p):,} monomials there, and may hold {most:,}"
        )
    return folds


def validated_sizes(
    curve: Path, prepared: PreparedProblem, folds: Folds, budgets: Budgets, workers: Workers
) -> Path:
    """Judge every size on held-out rows, by local search on the training moments.

    The inputs are those that the search had; a triage has seen all rows when it kept them.
    """
    coded = prepared.coded
    left_out = np.setdiff1d(np.arange(coded.rows.shape[1]), prepared.inputs)
    folds = replace(folds, rules=replace(coded.rules, exclude_inputs=tuple(left_out.tolist())))
    case = Case(coded.rules.degree, coded.gamma, bool(coded.scaling.shift.any()))
    moments = folds.moments(
        case.center, folds.capacity(), size=budgets.max_terms[-1], progress=workers.progress
    )
    jobs = [(split, coded.gamma, budgets, None, coded.refit_gamma) for split in moments.splits()]
    found = workers.run(SplitModels.compare, jobs, "validation")
    scores = Scores.of(case, budgets, found, moments.y_scale)
    place = {(c.max_inputs, c.max_terms): a for a, c in enumerate(scores.candidates)}
    points = []
    for point in curve:
        a = place[point.max_inputs, point.max_terms]
        error, std_error = float(scores.mean[a]), float(scores.std_error[a])
        judged = replace(point, validation_error=error, validation_std_error=std_error)
        points.append(point if np.isnan(error) else judged)
    return replace(curve, points=tuple(points), n_splits=len(found))
