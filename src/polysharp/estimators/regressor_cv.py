"""The estimator that chooses its own budgets: degree, terms, inputs, gamma, coding, by validation.

    rows -> folds -> moments of the folds -> errors of many models -> choice -> refit with proof

The rows are read once for each degree and coding of the inputs (raw, centred); every model comes
from the moments, whose size does not depend on n, and held-out rows judge it (``selection``).  The
models compared inside the splits come from local search and prove nothing; the model chosen is
refitted on all rows by ``SparsePolynomialRegressor`` and carries its certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from polysharp.data.cluster import is_dask
from polysharp.data.rows import Rows
from polysharp.errors import InputError
from polysharp.estimators.fitting import StartTerms, formulas_by_size
from polysharp.estimators.model import CertifiedModel
from polysharp.estimators.parameters import (
    check_parameters,
    check_several,
    input_limits,
    several,
    sizes,
)
from polysharp.estimators.preparation import FitContext, warn
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.monomials.term_rules import read_rules
from polysharp.progress import Progress
from polysharp.selection.budget_search import HIGHEST, BudgetSearch, Wanted
from polysharp.selection.folds import Folds, KnownSums
from polysharp.selection.function_hints import HELPS, domains, try_functions
from polysharp.selection.scores import RULES, Scores, standard_error
from polysharp.selection.split_models import Budgets, Workers
from polysharp.selection.splits import random_folds, read_parts, repeated
from polysharp.time_budget import TimeBudget
from polysharp.wording import plural

SEARCH_SHARE = 0.75  # of the time limit; the refit gets the rest
REFIT_SHARE = 0.1  # of the time limit that the refit has in any case: the search may end late
LONGER = 4  # terms more than the model has, up to which formulas are kept
AGAIN = 1.0  # seconds at least for a second search, after one that came out worse than validation
TOLERATED = 1.05  # times the error of cross-validation, for that on the rows of the fit
HINT_SECONDS = 1.0  # for each function that is tried after the refit
# Seconds of the refit's search, after which a wide gap ends it; all sets of few inputs take longer.
HOPELESS_AFTER, HOPELESS_IN_SETS = 3.0, 10.0
COMPARED = ("degree", "max_terms", "max_inputs", "gamma", "center")  # one value, or several


@dataclass(eq=False, repr=False)
class SparsePolynomialRegressorCV(CertifiedModel):
    """The best sparse polynomial with its budgets chosen by cross-validation.

    Parameters
    ----------
    degree : int, sequence of int or "auto", default="auto"
        Degrees to compare.  "auto" goes from 1 up to 5, as far as time and memory allow, and ends
        when the law is found.  Beyond, it compares models of at most 5 terms degree by degree as
        long as errors fall, for laws that are long products.
    max_terms : int or sequence of int, default=100
        Maximum number of terms; every number up to it is compared, beyond 30 only as long as
        errors fall.  Or the numbers of terms to compare.
    max_inputs : int, None, sequence of these or "auto", default="auto"
        Limits on the number of inputs to compare; None for no limit.  "auto" compares formulas in
        at most 5, at most 10 and any number of inputs, if there are 10 inputs or more: a formula in
        few inputs is easier to prove.
    gamma : float, sequence of float or "auto", default="auto"
        Ridges 1 / gamma to compare.  "auto": gamma = 1 / (s n) with s = 1e-3, and a decade further
        in either direction as long as errors fall; n is the sum of the weights.  The terms of the
        refit are then chosen and proved with the ridge at which that is easiest, if it is stronger,
        and their coefficients estimated with the gamma chosen.
    center : bool or sequence of bool, default=(False, True)
        Compare raw inputs (False), centred ones (True), or both.
    cv : int, "auto", splitter or iterable of (train, test), default="auto"
        Number of shuffled folds; or a scikit-learn splitter, or the splits themselves.  "auto": ten
        folds for at most 2,000 rows, drawn three times for fewer than 100, otherwise (and for Dask
        collections) five.
    rule : {"shortest", "one-se", "best"}, default="shortest"
        "shortest" takes the fewest terms among formulas as good as the best, in raw inputs unless
        centring saves a fifth of the terms; below 100 rows a linear formula, unless another one is
        better beyond the luck of a search.  "best" takes the smallest mean validation error.
        "one-se" takes the fewest terms, then the fewest inputs, the lowest degree and the
        strongest ridge, within one standard error of the smallest error.
    n_candidates, fit_intercept, scale, device, engine, gap_tol : optional
        As in ``SparsePolynomialRegressor``; engine, gap_tol and n_candidates serve the refit.
    time_limit : float or None, default=60.0
        Seconds for everything.  The search may take three quarters; if its time runs out, the best
        candidate so far is used, and a warning names the candidates that were not compared.  The
        refit searches for a proof for three seconds, and continues to the limit if the gap is small
        by then.  Passes over the rows and the first candidate are not cut short; the refit has a
        tenth of the limit in any case.
    n_jobs : int or None, default=None
        Jobs of joblib for the search (``joblib.parallel_config`` chooses where they run), threads
        of the refit; -1 for all cores.
    verbose : int, default=0
        1 shows progress.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds and of the engine; None draws one.
    refit : bool, default=True
        False only compares: ``best_params_`` and ``cv_results_`` are set, and there is no model to
        predict with.
    max_interaction, interaction_degree, heredity, include_terms, exclude_terms, include_inputs, \
exclude_inputs, refit_gamma, coefficient_bounds, positive, clamp, functions, units, constants : \
optional
        As in ``SparsePolynomialRegressor``, for every model that is compared; errors computed from
        moments clamp no inputs (see Notes).

    Attributes
    ----------
    polynomial_, solution_, intercept_, powers_, gamma_, kept_inputs_, ranking_
        Of ``best_estimator_``, as in ``SparsePolynomialRegressor``.
    best_estimator_ : SparsePolynomialRegressor
        The refitted model.
    best_params_ : dict
        Its degree, gamma, center, max_inputs and max_terms.
    best_index_ : int
        Its row in ``cv_results_``.
    best_score_ : float
        Its mean score: minus the root mean squared error on held-out rows, mean over the splits.
    cv_results_ : dict
        One row for each candidate, with the keys of scikit-learn's searches, ``mean_n_terms``,
        ``mean_n_inputs`` and ``clamped`` (whether inputs are moved into the range of the training
        rows, which ``clamp=None`` does where held-out rows are predicted no worse); NaN for
        candidates that were not reached in time or that no polynomial can obey.
    remarks_ : tuple of str
        Sentences about candidates that were not compared.
    formulas_ : tuple of (n_terms, validation_error, formula)
        A formula of every size up to four terms more than the model's, by local search with the
        model's degree and ridge and without a proof; ``pandas.DataFrame(search.formulas_)`` is a
        table.  ``polysharp.path`` proves each size.
    hints_ : tuple of str
        What would lower the error clearly: square roots, inverses or logarithms of inputs, tried
        briefly after the refit where they are defined.  They are not used by themselves.
    interrupted_ : bool
        Whether Ctrl-C ended the comparison; the best candidate so far was then refitted.
    n_splits_ : int
        Number of splits.
    search_time_, refit_time_ : float
        Seconds spent on the search, passes over the rows included, and on the refit.
    n_features_in_, feature_names_in_
        Number and names of the inputs, as in ``SparsePolynomialRegressor``.

    Notes
    -----
    The certificate in ``solution_`` is about the refit: no polynomial of the chosen degree and
    budgets has an objective below the bound, at the chosen gamma, on these rows.  It says nothing
    about the choice of the budgets, which validation made, or about new rows.  Large budgets are
    rarely proved within the time limit; the certificate then states the gap without a warning.

    Two models count as equally good if their errors differ by at most one standard error of the
    smaller one, or two of their difference, or if both errors are below 1e-4 of the standard
    deviation of y, so that laws without noise are found exactly.

    Predictions at held-out rows are those of ``predict``, not clipped to any range.  If a split
    holds out more than 10,000 rows, and on Dask collections, errors come from moments, and inputs
    are not clamped.

    If there are too many monomials for memory and time, each split works with those that its own
    training rows suggest (``polysharp.selection.screening``).

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import SparsePolynomialRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = 1.0 + 2.0 * X[:, 0] * X[:, 1] - X[:, 2] ** 2 + 0.1 * rng.standard_normal(200)
    >>> search = SparsePolynomialRegressorCV(max_terms=10, random_state=0).fit(X, y)
    >>> search.best_params_["degree"], search.best_params_["max_terms"]
    (2, 2)
    >>> print(search.polynomial_.formula(2))
    y = 0.98 + 2 x0 x1 - 0.99 x2^2
    """

    degree: Any = "auto"
    max_terms: Any = 100
    max_inputs: Any = "auto"
    gamma: Any = "auto"
    center: Any = (False, True)
    cv: Any = "auto"
    rule: Any = "shortest"
    n_candidates: Any = "auto"
    fit_intercept: bool = True
    scale: bool = True
    device: Any = None
    engine: Any = "auto"
    time_limit: float | None = 60.0
    gap_tol: float = 1e-4
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = 0
    refit: bool = field(default=True, kw_only=True)

    _kind: ClassVar[type[SparsePolynomialRegressor]] = SparsePolynomialRegressor  # of the refit

    @property
    def _largest_degree(self) -> int:
        """The largest degree that is compared for models of any size."""
        degrees = several(self.degree)
        return HIGHEST if degrees == ("auto",) else max(map(int, degrees))

    @property
    def _shared(self) -> dict[str, Any]:
        """Parameters that are handed to the refit as they are."""
        known = self._kind().get_params(deep=False).keys() - {*COMPARED, "time_limit"}
        return {name: v for name, v in self.get_params(deep=False).items() if name in known}

    @property
    def _limits(self) -> tuple[int | None, ...]:
        """The limits on the number of inputs that the user wants compared."""
        return (None,) if self.max_inputs == "auto" else input_limits(self.max_inputs)

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: Any = None
    ) -> Self:
        """Compare models on held-out rows, then refit the choice on all of them.

        Parameters
        ----------
        X, y, sample_weight : arrays, data frames or Dask collections
            As in ``SparsePolynomialRegressor.fit``; weights count in the errors as well.  Dask
            collections take ``cv`` a number of folds, and one response.
        groups : array of shape (n,) or None
            Handed to the splitter.

        Returns
        -------
        self
        """
        parameters = self._checked_parameters()
        for name in ("best_estimator_", "fitted_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        with FitContext.of(self) as context:
            given = X, y, sample_weight
            if is_dask(X):
                random_folds(self.cv, groups)  # refused before any row is read
            tables = self._open(given, context.progress)
            folds = self._folds(tables[0], given, groups, context.seed, parameters)
            search = self._search(folds, context)
            scores = search.run()
            self.n_splits_, self.cv_results_ = folds.plan.n_splits, scores.table()
            self.best_index_ = search.choose(scores, self.rule)
            self.best_params_ = self.cv_results_["params"][self.best_index_]
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            self.search_time_ = context.time.spent()
            self.interrupted_ = search.interrupted
            self.hints_: tuple[str, ...] = ()
            if self.refit:
                self._refit(tables, context, search, scores)
                self.refit_time_ = context.time.spent() - self.search_time_
                if not (search.interrupted or search.found or folds.parted is None):
                    with suppress(KeyboardInterrupt):  # the model is there
                        self.hints_ = self._try_functions(tables, given, groups, context, scores)
        self.remarks_ = tuple(search.remarks)
        for remark in self.remarks_:
            warn(remark)
        return self

    def _try_functions(
        self,
        tables: Sequence[Rows],
        given: tuple[Any, Any, Any],
        groups: Any,
        context: FitContext,
        scores: Scores,
    ) -> tuple[str, ...]:
        """Say which function of inputs makes the error on held-out rows clearly less."""
        size = self.best_params_["max_terms"]
        usual, best, hint = scores.errors[self.best_index_], np.inf, ""
        seen = tables[0].ranges
        tried = {} if self.functions is not None else domains(seen.low, seen.high)
        for name, inputs in tried.items():
            if context.time.remaining() < HINT_SECONDS:
                break
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_)).tolist()
            functions: Any = [name]
            option = f"--functions {name}"
            if len(inputs) < self.n_features_in_:
                functions = {names[i]: [name] for i in inputs}
                option = " ".join(["--functions", *(f"'{own}={name}'" for own in functions)])
            twin = clone(self).set_params(functions=functions, time_limit=HINT_SECONDS)
            parameters = twin._checked_parameters()
            folds = twin._folds(
                twin._open(given, Progress())[0], given, groups, context.seed, parameters
            )
            new = try_functions(folds, size, HINT_SECONDS)
            if new is None or new.least >= best or not new.clearly_below(usual, HELPS):
                continue
            best, place = new.least, new.choose("shortest")
            own, error = new.candidates[place], new.mean[place]
            hint = (
                f"{option} (functions={functions!r}) lowers the error of "
                f"cross-validation from {usual.mean():.4g} to {error:.4g}, with "
                f"{plural(own.max_terms, 'term')} of degree {own.degree} at most"
            )
        return (hint,) if hint else ()

    def _checked_parameters(self) -> dict[str, Any]:
        """Check everything; return the parameters of the estimator with the largest budgets."""
        for name in COMPARED:
            check_several(name, getattr(self, name), auto=name in ("degree", "max_inputs"))
        if self.rule not in RULES:
            known = ", ".join(map(repr, RULES))
            raise InputError(f"rule must be one of {known}, got {self.rule!r}")
        parameters = self._shared | {
            "refit": self.refit,
            "degree": self._largest_degree,
            "max_terms": max(several(self.max_terms)),
            "max_inputs": self._limits[0],
            "time_limit": self.time_limit,
        }
        check_parameters(parameters)
        return parameters

    def _folds(
        self,
        rows: Rows,
        given: tuple[Any, Any, Any],
        groups: Any,
        seed: int,
        parameters: dict[str, Any],
    ) -> Folds:
        """Cut the rows into the parts that the splits treat alike."""
        rules = read_rules(parameters, rows.names, rows.ranges)
        n, repeats = rows.shape[0], repeated(self.cv, rows.shape[0])
        parts, plan = read_parts(self.cv, given, n, groups=groups, seed=seed, repeats=repeats)
        return Folds(rows, parts, plan, rules, bool(self.scale), self.clamp, repeats)

    def _search(self, folds: Folds, context: FitContext) -> BudgetSearch:
        """Prepare the comparison, within its share of the time."""
        degrees, gammas = several(self.degree), several(self.gamma)
        wanted = Wanted(
            None if degrees == ("auto",) else tuple(sorted({int(r) for r in degrees})),
            None if gammas == ("auto",) else tuple(dict.fromkeys(float(g) for g in gammas)),
            tuple(dict.fromkeys(map(bool, several(self.center)))),
            Budgets(sizes(self.max_terms), self._limits),
            limits=self.max_inputs == "auto",
        )
        seconds = SEARCH_SHARE * context.time.seconds
        time = TimeBudget(seconds - context.time.spent())
        return BudgetSearch(folds, wanted, Workers(self.n_jobs, context.progress), time, seconds)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def _refit(
        self, tables: Sequence[Rows], context: FitContext, search: BudgetSearch, scores: Scores
    ) -> None:
        """Fit the choice to all rows, from the terms and the sums that the search has found."""
        limit = context.time.seconds
        if search.interrupted:  # whoever stops a search waits for no long proof
            short = TimeBudget(min(HOPELESS_AFTER, context.time.remaining()))
            context = replace(context, time=short)
        elif limit < inf:
            time = context.time.share(1.0, at_least=REFIT_SHARE * limit)
            limited = self.best_params_["max_inputs"] is not None
            hopeless = HOPELESS_IN_SETS if limited else HOPELESS_AFTER
            context = replace(context, time=time, hopeless_after=hopeless)
        own = {"random_state": context.seed, "time_limit": self.time_limit}
        if self.clamp is None:
            own["clamp"] = scores.clamps[self.best_index_]
        model = self._kind(**(self._shared | self.best_params_ | own))
        columns = {"n_features_in_", "feature_names_in_"} & vars(self).keys()
        model.__dict__.update({name: getattr(self, name) for name in columns})
        starts, sums = search.for_refit(scores, self.best_index_)
        auto = several(self.gamma) == ("auto",)
        prepared = model._fit_tables(tables, context, starts, sums, strengthen=auto)
        self._check_error(model, tables, (context, starts, sums), search, scores)
        model.set_params(gamma=model.gamma_, refit_gamma=model.refit_gamma_)
        self.best_estimator_, self.fitted_ = model, model.fitted_
        near = (
            {} if search.interrupted else scores.by_size(len(model.fitted_.polynomials[0]) + LONGER)
        )
        self.formulas_ = formulas_by_size(prepared, near, self.fitted_.polynomials, context.time)

    def _check_error(
        self,
        model: SparsePolynomialRegressor,
        tables: Sequence[Rows],
        given: tuple[FitContext, StartTerms, KnownSums | None],
        search: BudgetSearch,
        scores: Scores,
    ) -> None:
        """Search once more if models of the splits did better on rows that they had not seen."""
        found, weight = model.fitted_, tables[0].total_weight
        errors = scores.errors[self.best_index_]
        # Of all held-out rows together, as the error on the rows of the fit is.
        validated = float(np.sqrt(np.mean(errors**2)))
        most = TOLERATED * validated + float(standard_error(errors))
        if found.training_error(weight) <= most:
            return
        from polysharp.engines.local_search import LocalSearch  # loads the compiler

        context, starts, sums = given
        again = replace(context, engine=LocalSearch(), time=context.time.share(1.0, AGAIN))
        model._fit_tables(tables, again, starts, sums)
        if model.fitted_.training_error(weight) >= found.training_error(weight):
            model.fitted_ = found
        own = model.fitted_.training_error(weight)
        if own > most:
            search.remarks.append(
                f"The formula has an error of {own:.4g} on the rows of the fit, more than the "
                f"{validated:.4g} of cross-validation; a longer time_limit may help."
            )
