"""The estimator that chooses its own budgets: degree, terms, inputs, gamma, coding, by validation.

    rows -> parts -> moments of the parts -> errors of the whole grid -> choice -> refit with proof

The rows are read once for each coding of the inputs (raw, centred); every model comes from the
moments, whose size does not depend on n (``fold_moments``, ``grid_search``), and held-out rows
judge it (``judges``).  The models compared inside the splits come from local search and prove
nothing; the model chosen is refitted on all rows by ``SparsePolynomialRegressor`` with the time
that is left, and carries its certificate.

Inputs are coded once, with the scales and means of all rows; the responses of the validation rows
are never seen by the models they judge.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from time import perf_counter, time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from polysharp.data.arrays import as_host
from polysharp.data.checks import open_rows
from polysharp.data.cluster import is_dask
from polysharp.errors import InputError, TooLargeError
from polysharp.estimators.model import CertifiedModel
from polysharp.estimators.parameters import (
    check_parameters,
    check_seed,
    check_several,
    input_limits,
    read_rules,
    several,
    sizes,
)
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.moments.folds import Dealt, Plan, chosen_cv, cut, dealt_folds, read_splits
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import Progress, open_progress
from polysharp.selection.consensus import find_consensus
from polysharp.selection.cv_results import results_table
from polysharp.selection.grid_search import Grid, Scores, grid_search
from polysharp.selection.preselection import (
    TIME_SHARE,
    FoldedRows,
    capacity,
    make_coding,
    reachable,
)
from polysharp.threads import limited_threads

SEARCH_SHARE = 0.75  # of the time limit; the refit gets the rest and what the search leaves
CONSENSUS_SHARE = 0.1  # of the time limit; for the averaging of models after the search
SHARES = (1.0, 1e-2, 1e-3, 1e-4, 1e-6)  # gammas="auto": ridges relative to the number of rows

# Handed to the refit as they are.
SHARED = (
    "n_candidates", "fit_intercept", "scale", "device", "engine", "gap_tol", "n_jobs", "verbose",
    "random_state", "max_interaction", "interaction_degree", "heredity", "include_terms",
    "exclude_terms", "include_inputs", "exclude_inputs",
)  # fmt: skip


def _of_refit(name: str) -> Any:
    """Return a property with the attribute of ``best_estimator_``, missing as long as that is."""
    return property(lambda search: getattr(search.best_estimator_, name))


class SparsePolynomialRegressorCV(CertifiedModel):
    """The best sparse polynomial with its budgets chosen by cross-validation.

    Parameters
    ----------
    degrees : int or sequence of int, default=(1, 2, 3, 4)
        Degrees to compare.  Those with too many monomials for the time limit are left out, with a
        warning (see Notes).
    max_terms : int or sequence of int, default=100
        Every number of terms up to this one is compared; or those of the sequence.
    max_inputs : int, None, or sequence of these, default=None
        Limits on the number of inputs to compare; None for no limit.
    gammas : float, sequence of float or "auto", default="auto"
        Ridges 1 / gamma to compare.  "auto": gamma = 1 / (s n) for s in 1, 0.01, 1e-3, 1e-4
        and 1e-6, with n the sum of the weights.
    centers : bool or sequence of bool, default=(False, True)
        Compare raw inputs (False), centred ones (True), or both.
    cv : int, "auto", splitter or iterable of (train, test), default="auto"
        Number of shuffled folds; or a scikit-learn splitter, or the splits themselves.  "auto": ten
        folds for at most 2,000 rows and 1,000 monomials of the largest degree, otherwise (and
        for Dask collections) five.
    rule : {"consensus", "best", "one-se"}, default="consensus"
        "consensus" averages the models that do as well as the best, as far as validation can
        tell, and takes the polynomial nearest to their mean, its size by validation too: the
        smallest errors on new rows; see Notes.  "best" takes the smallest mean validation error;
        "one-se" the fewest terms, then inputs, then the lowest degree, then the strongest ridge,
        within one standard error of it: shorter formulas that are proved more easily, with
        somewhat larger errors.
    n_candidates, fit_intercept, scale, device, engine, gap_tol : optional
        As in ``SparsePolynomialRegressor``; engine, gap_tol and n_candidates serve the refit.
    time_limit : float or None, default=60.0
        Seconds for everything.  The search may take three quarters; when its time is up the best of
        what was compared is used, with a warning that says how much that was.  The refit gets the
        time that is left.  The passes over the rows, the first case and the averaging of
        "consensus" are not cut short.
    n_jobs : int or None, default=None
        Jobs of joblib for the search (``joblib.parallel_config`` chooses where they run), threads
        of the refit; -1 for all cores.
    verbose : int, default=0
        1 shows progress.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the folds and of the engine.
    refit : bool, default=True
        False only compares: ``best_params_`` and ``cv_results_`` are there, a model to predict with
        is not.
    max_interaction, interaction_degree, heredity : optional
        As in ``SparsePolynomialRegressor``.
    include_terms, exclude_terms, include_inputs, exclude_inputs : optional
        As in ``SparsePolynomialRegressor``.

    Attributes
    ----------
    polynomial_, solution_, intercept_, powers_, gamma_, kept_inputs_, ranking_
        Of ``best_estimator_``, as in ``SparsePolynomialRegressor``.
    best_estimator_ : SparsePolynomialRegressor
        The refitted model.
    best_params_ : dict
        Its degree, gamma, center, max_inputs and max_terms.  With ``rule="consensus"`` they are
        those of a fit to ``reference_(X)``, with hardly any ridge; for parameters to fit other
        rows with, use "best" or "one-se".
    best_index_ : int
        Its row in ``cv_results_``.
    reference_ : Polynomial or None
        With ``rule="consensus"``, the mean of the models that do equally well; None where the
        model is fitted to y itself.
    best_score_ : float
        Its mean score: minus the root mean squared error on held-out rows, mean over the splits;
        see Notes.
    cv_results_ : dict of arrays
        ``params``, ``param_degree`` and so on, ``split0_test_score`` and so on,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score``, ``mean_n_terms``,
        ``mean_n_inputs``, and ``consensus``, whether the model was fitted to the mean of others;
        NaN for candidates that were not reached in time or that no polynomial can obey.
    n_splits_ : int
        Number of splits.
    search_time_, refit_time_ : float
        Seconds spent on the search, passes over the rows included, and on the refit.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of str
        Names of the inputs, where X had them.

    Notes
    -----
    The certificate in ``solution_`` is about the refit: no polynomial of the chosen degree and
    budgets has an objective below the bound, at the chosen gamma, on these rows.  It says nothing
    about the choice of the budgets, which validation made, nor about new rows.  Large budgets are
    rarely proved within the time limit; the gap is then stated and no warning raised.

    The smallest of thousands of validation errors is smallest partly by luck, and its model has
    terms that other rows would not have chosen.  ``rule="consensus"`` averages all models, with
    inputs raw or centred as in the best, whose error exceeds the smallest by at most two standard
    errors, of the difference and of the smallest error itself; this mean, ``reference_``, varies
    less from sample to sample but has many terms.  The final model is the polynomial within the
    budgets whose values at the rows of X are nearest to those of the mean, and **its certificate
    is about these values in place of y**: ``polysharp.verify`` takes ``reference_(X)`` as the
    response.  Degrees whose monomials had to be preselected (see below) take no part; where no
    other degree does as well as the best model, that is used as it is, and there is no
    ``reference_``.  Standard errors shrink with the number of splits, so many repeated splits
    leave few models to average.  On seven of the eight tables of the evidence page the errors on
    new rows are smaller than those of "best", on the eighth the same.

    In the errors of validation a prediction beyond the range of the responses counts as the end of
    that range, so that no absurd value at a single row decides the choice.  Where a split holds
    out more than 10,000 rows, and on Dask collections, errors come from moments, without a cut.
    ``predict`` cuts nothing.

    Where the moments of all monomials would take more than 2 GiB, those of high degree are
    preselected in each split (``polysharp.selection.preselection``).  A polynomial of high degree
    may take extreme values outside the range of the rows it was fitted to; compare
    ``degrees=(1, 2)`` where that matters.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import SparsePolynomialRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = 1.0 + 2.0 * X[:, 0] * X[:, 1] - X[:, 2] ** 2 + 0.1 * rng.standard_normal(200)
    >>> search = SparsePolynomialRegressorCV(
    ...     degrees=(1, 2), max_terms=5, centers=False, rule="one-se", random_state=0
    ... ).fit(X, y)
    >>> search.best_params_["degree"], search.best_params_["max_terms"]
    (2, 2)
    >>> print(search.polynomial_.formula(2))
    y = 0.97 + 2 x0 x1 - 0.99 x2^2
    """

    def __init__(
        self,
        degrees: Any = (1, 2, 3, 4),
        max_terms: Any = 100,
        max_inputs: Any = None,
        gammas: Any = "auto",
        centers: Any = (False, True),
        cv: Any = "auto",
        rule: Any = "consensus",
        n_candidates: Any = "auto",
        fit_intercept: bool = True,
        scale: bool = True,
        device: Any = None,
        engine: Any = "auto",
        time_limit: float | None = 60.0,
        gap_tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        *,
        refit: bool = True,
        max_interaction: int | None = None,
        interaction_degree: int | None = None,
        heredity: Any = None,
        include_terms: Any = None,
        exclude_terms: Any = None,
        include_inputs: Any = None,
        exclude_inputs: Any = None,
    ) -> None:
        self.degrees = degrees
        self.max_terms = max_terms
        self.max_inputs = max_inputs
        self.gammas = gammas
        self.centers = centers
        self.cv = cv
        self.rule = rule
        self.n_candidates = n_candidates
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.device = device
        self.engine = engine
        self.time_limit = time_limit
        self.gap_tol = gap_tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.refit = refit
        self.max_interaction = max_interaction
        self.interaction_degree = interaction_degree
        self.heredity = heredity
        self.include_terms = include_terms
        self.exclude_terms = exclude_terms
        self.include_inputs = include_inputs
        self.exclude_inputs = exclude_inputs

    @property
    def degree(self) -> int:
        """The largest degree compared."""
        return max(map(int, several(self.degrees)))

    # What a fitted SparsePolynomialRegressor has, this one has of its refit.
    polynomial_ = _of_refit("polynomial_")
    solution_ = _of_refit("solution_")
    intercept_ = _of_refit("intercept_")
    powers_ = _of_refit("powers_")
    gamma_ = _of_refit("gamma_")
    kept_inputs_ = _of_refit("kept_inputs_")
    ranking_ = _of_refit("ranking_")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: Any = None
    ) -> Self:
        """Compare the grid on held-out rows, then refit the choice on all of them.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            Inputs; a Dask array or DataFrame is read in blocks and never gathered, with ``cv`` a
            number of folds.
        y : array of shape (n,)
            Response; with Dask, a Dask array or Series in the blocks of X.
        sample_weight : array of shape (n,) or None
            Weights of the rows, in the fits and in the errors.
        groups : array of shape (n,) or None
            Handed to the splitter.

        Returns
        -------
        self
        """
        began = perf_counter()
        parameters = self._checked_parameters()
        seed = check_seed(self.random_state)
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        with open_progress(self.verbose) as progress, limited_threads(self.n_jobs):
            rows = self._open(X, y, sample_weight, groups, seed, parameters, progress)
            scores = self._search(rows, progress, began)
        self.n_splits_ = rows.plan.n_splits
        self._choose(scores)
        self.search_time_ = perf_counter() - began
        if self.refit:
            self._refit(X, y, sample_weight, seed, began)
            self.refit_time_ = perf_counter() - began - self.search_time_
        return self

    def _open(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        seed: int,
        parameters: dict[str, Any],
        progress: Progress,
    ) -> FoldedRows:
        """Check the data and cut them into the parts that the splits treat alike."""
        folds = dealt_folds(self.cv, groups) if is_dask(X) else None
        rows = open_rows(self, X, y, sample_weight, progress)
        rules, scale, n = read_rules(parameters, rows.names), bool(self.scale), rows.shape[0]
        if folds is not None:
            return FoldedRows(rows, Dealt(folds, seed), Plan.k_fold(folds), rules, scale)
        cv = chosen_cv(self.cv, n, rules.count(len(rules.allowed(rows.shape[1]))))
        X, y, sample_weight = as_host(X), as_host(y), as_host(sample_weight)
        splits = read_splits(cv, X, y, groups=groups, sample_weight=sample_weight, seed=seed)
        return FoldedRows(rows, *cut(splits, n), rules, scale)

    def _checked_parameters(self) -> dict[str, Any]:
        """Check everything; return the parameters of the estimator with the largest budgets."""
        own = self.get_params(deep=False)
        for plural, single in (
            ("degrees", "degree"),
            ("max_terms", "max_terms"),
            ("max_inputs", "max_inputs"),
            ("gammas", "gamma"),
            ("centers", "center"),
        ):
            check_several(plural, single, own[plural])
        if self.rule not in ("consensus", "best", "one-se"):
            raise InputError(f"rule must be 'consensus', 'best' or 'one-se', got {self.rule!r}")
        if not isinstance(self.refit, (bool, np.bool_)):
            raise InputError(f"refit must be True or False, got {self.refit!r}")
        limits = several(self.max_inputs)
        parameters = {name: own[name] for name in SHARED} | {
            "degree": self.degree,
            "max_terms": max(several(self.max_terms)),
            "max_inputs": _widest(limits),
            "gamma": "auto",
            "center": False,
            "time_limit": self.time_limit,
        }
        check_parameters(parameters)
        return parameters

    def _search(self, rows: FoldedRows, progress: Progress, began: float) -> Scores:
        """Compare the grid within the search's share of the time."""
        centers = tuple(dict.fromkeys(bool(c) for c in several(self.centers)))
        limit = capacity(rows.plan, len(centers))
        wanted = sorted({int(r) for r in several(self.degrees)})
        degrees = reachable(rows, wanted, limit, len(centers), self.time_limit)
        highest = max(map(len, rows.rules.include_terms), default=0)
        if max(degrees) < highest <= max(wanted):
            raise TooLargeError(
                f"include_terms has a term of degree {highest}, and degree {highest} has too many "
                f"monomials to be compared, at most {limit:,}"
            )
        rows = replace(rows, rules=replace(rows.rules, degree=max(degrees)))
        limits = input_limits(self.max_inputs)
        grid = Grid(
            degrees,
            self._gammas(rows.rows.total_weight),
            sizes(self.max_terms),
            # The models averaged are as wide as may be; limits are for the polynomial nearest.
            (_widest(limits),) if self.rule == "consensus" else limits,
        )
        middle = float(np.median(grid.gammas))
        codings = [
            make_coding(
                rows,
                center,
                limit,
                max(grid.max_terms),
                middle,
                progress=progress,
                seconds=TIME_SHARE * (self.time_limit or np.inf) / len(centers),
            )
            for center in centers
        ]
        deadline, later = None, None
        if self.time_limit is not None:
            deadline = time() + SEARCH_SHARE * self.time_limit - (perf_counter() - began)
            later = deadline + CONSENSUS_SHARE * self.time_limit
        scores = grid_search(
            codings,
            rows.plan,
            grid,
            rows.rules,
            n_jobs=self.n_jobs,
            deadline=deadline,
            on_batch=progress.on_block("comparing budgets"),
            keep_supports=self.rule == "consensus",
        )
        left_out = sorted(set(wanted) - set(degrees))
        if remark := scores.shortfall(left_out, self.time_limit, time_helps=rows.prices):
            warnings.warn(remark, ConvergenceWarning, stacklevel=3)
        self.reference_: Polynomial | None = None
        if self.rule != "consensus":
            return scores
        consensus = find_consensus(
            scores,
            codings,
            rows.plan,
            grid,
            rows.rules,
            limits,
            n_jobs=self.n_jobs,
            deadline=later,
            on_batch=progress.on_block("averaging models that do equally well"),
        )
        if consensus is None:
            return scores
        if remark := consensus.shortfall(len(limits), self.time_limit):
            warnings.warn(remark, ConvergenceWarning, stacklevel=3)
        self.reference_ = consensus.polynomial(rows.rows.names, rows.rows.response)
        return scores.joined(consensus.projections)

    def _gammas(self, n: float) -> tuple[float, ...]:
        if several(self.gammas) == ("auto",):
            return tuple(1.0 / (share * n) for share in SHARES)
        return tuple(dict.fromkeys(float(g) for g in several(self.gammas)))

    def _choose(self, scores: Scores) -> None:
        """Set what scikit-learn's searches set."""
        self.cv_results_ = results_table(scores)
        self.best_index_ = scores.choose(self.rule)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def _refit(self, X: Any, y: Any, sample_weight: Any, seed: int, began: float) -> None:
        """Fit the choice to all rows with the time that is left, and take its attributes over."""
        own = self.get_params(deep=False)
        left = None
        if self.time_limit is not None:
            left = max(1e-3, self.time_limit - (perf_counter() - began))
        model = SparsePolynomialRegressor(
            **{name: own[name] for name in SHARED},
            **self.best_params_,
        ).set_params(random_state=seed, time_limit=left)
        reference = self.reference_
        with warnings.catch_warnings():
            # The gap is stated; large budgets are rarely proved, and that is no reason to warn.
            warnings.simplefilter("ignore", ConvergenceWarning)
            values = y if reference is None else self._values(reference, X)
            model._fit(X, values, sample_weight, reference)
        # What is shown, saved and cloned is the user's limit, not what happened to be left of it.
        self.best_estimator_ = model.set_params(time_limit=self.time_limit)


def _widest(limits: tuple[int | None, ...]) -> int | None:
    """Return the widest of some limits, None for no limit."""
    return None if None in limits else max(k for k in limits if k is not None)
