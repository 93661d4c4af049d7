"""The estimator: the paper's two-step method behind scikit-learn's interface.

    X, y -> checks -> coded variables -> (triage) -> monomials -> problem -> engine -> formula

``fit`` reads in that order; ``method`` holds the middle, which is the paper's two steps or, with
every input priced, column generation.  With u the coded variables,
m_j the scaled monomials of the inputs kept, and lam = 1 / gamma, it solves

    min  1/2 sum_t v_t (y_t - b - m(u_t)'w)^2 + lam/2 |w|^2

over w with at most ``max_terms`` monomials in at most ``max_inputs`` inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from os import cpu_count
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from polysharp.certificate.solution import Solution, Status
from polysharp.certificate.statement import with_statement
from polysharp.data.checks import check_finite, input_names, named_columns
from polysharp.data.cluster import is_dask
from polysharp.data.place import as_host
from polysharp.data.rows import Table, open_table
from polysharp.estimators.fitted import fitted_to
from polysharp.estimators.method import Answer, Task, solve
from polysharp.monomials.scaling import Scaling
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import open_progress
from polysharp.validation import check_parameters, check_rules, check_seed


class SparsePolynomialRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The best polynomial with few terms in few inputs, with a certificate.

    Parameters
    ----------
    degree : int, default=3
        Largest degree of a monomial.
    max_terms : int, default=10
        At most so many monomials, the paper's l; the free intercept is not counted.  A number
        beyond the count of monomials limits nothing.  Terms whose best coefficient is zero
        (those of a constant input) stay in the formula; fewer terms than allowed are used
        where more cannot improve the fit.
    max_inputs : int or None, default=None
        At most so many inputs in all terms together, the paper's k; None for no limit.  A
        number beyond the count of inputs limits nothing.
    gamma : float or "auto", default="auto"
        The ridge on the coefficients of the scaled monomials is 1 / gamma.  "auto" is
        1 / sqrt(n), with n the sum of the weights.
    n_candidates : int, "auto" or None, default="auto"
        Inputs kept by the triage (Algorithm 1) before the search; None keeps all: their
        monomials are listed up to 8192, and beyond that priced without being formed
        (``degree`` up to 4), so that p in the thousands is no obstacle; higher degrees, "big-m"
        and "enumeration" always list them, and refuse a list that is too long.  "auto" keeps
        all where they can be listed, or priced well within ``time_limit`` (see
        ``polysharp.ranking.triage``), and otherwise as many as have 8192 monomials; ``scope``
        says which inputs the certificate covers.
    fit_intercept : bool, default=True
        Fit a free, unpenalised intercept.  False is the paper's form: the constant is one of
        the monomials.
    scale : bool, default=True
        Divide the inputs by their (weighted) root mean squares before the fit.  Coefficients
        are always shown in the units of X.
    center : bool, default=False
        Subtract the means first.  The formula is then in coded variables (x - mean).
    device : None, "cpu", "cuda" or another PyTorch device, default=None
        Where inputs are ranked, moments accumulated and monomials priced.  None is the CPU, or
        the device of X where X is a PyTorch tensor.
    engine : str, default="auto"
        "auto", which is "tree"; "tree", "cutting-planes", "cutting-planes-multitree",
        "cutting-planes-gurobi", "big-m", "enumeration", "local-search"; or an ``Engine`` object
        with settings of its own.
    time_limit : float or None, default=60.0
        Seconds for the whole fit; the search gets what the preparation leaves.  The triage and
        the pass over the rows are not cut short.
    gap_tol : float, default=1e-4
        Relative gap between objective and proven bound at which a model counts as optimal.
    n_jobs : int or None, default=None
        Threads of the matrix products and the engine; -1 for all cores.  None leaves the matrix
        products as they are set and gives the engine one.
    verbose : int, default=0
        1 shows a live line: objective, bound, gap, cuts or nodes, time.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the engines' random choices.
    max_interaction : int or None, default=None
        Largest number of distinct inputs in one term; 1 for an additive model.
    interaction_degree : int or None, default=None
        Largest total degree of a term with two inputs or more.
    heredity : None, "weak" or "strong", default=None
        A term needs one ("weak") or all ("strong") of its parents, the terms with one factor
        less, in the model.
    include_terms, exclude_terms : list or None, default=None
        Terms that must be in, or must stay out: tuples of names or indices with repetition,
        or products such as "x0^2 x3".
    include_inputs, exclude_inputs : list or None, default=None
        Inputs, by name or index, that some term must use, or that no term may use.

    Attributes
    ----------
    polynomial_ : Polynomial
        The formula, in the user's names and units.
    solution_ : Solution
        Objective, bound, gap, status, scope, counters and times.
    intercept_ : float
        The free intercept, 0.0 without one.
    powers_ : ndarray of shape (n_terms, p)
        Exponents of the inputs in every term.
    gamma_ : float
        The gamma used.
    kept_inputs_ : ndarray
        Indices of the inputs that the search was given.
    ranking_ : Ranking or None
        Scores of the triage; excluded inputs score 0.  None where every input was kept.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of str
        Names of the inputs, where X had them.

    Notes
    -----
    When the engine ends without a proof, at the time limit or on Ctrl-C, the best model found is
    kept with its honest gap and a ``ConvergenceWarning`` is raised; ``engine="local-search"``
    never proves and does not warn.  Ctrl-C before the search begins ends the fit as usual.

    At least 2 rows are needed.  A constant y gives the constant polynomial, proved.  Of equal
    columns either may be chosen.  Refused are X with powers beyond 1e140 or below 1e-140, y beyond
    1e60 or below 1e-60, and weights with a sum beyond 1e20 or below 1e-20.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import SparsePolynomialRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> y = 2.0 + 3.0 * X[:, 0] ** 2 - X[:, 1] * X[:, 2]
    >>> model = SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e6, engine="enumeration")
    >>> print(model.fit(X, y).polynomial_)
    y = 2 + 3 x0^2 - 1 x1 x2
    >>> model.solution_.status
    <Status.OPTIMAL: 'optimal'>
    """

    def __init__(
        self,
        degree: int = 3,
        max_terms: int = 10,
        max_inputs: int | None = None,
        gamma: Any = "auto",
        n_candidates: Any = "auto",
        fit_intercept: bool = True,
        scale: bool = True,
        center: bool = False,
        device: Any = None,
        engine: Any = "auto",
        time_limit: float | None = 60.0,
        gap_tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        *,
        max_interaction: int | None = None,
        interaction_degree: int | None = None,
        heredity: Any = None,
        include_terms: Any = None,
        exclude_terms: Any = None,
        include_inputs: Any = None,
        exclude_inputs: Any = None,
    ) -> None:
        self.degree = degree
        self.max_terms = max_terms
        self.max_inputs = max_inputs
        self.gamma = gamma
        self.n_candidates = n_candidates
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.center = center
        self.device = device
        self.engine = engine
        self.time_limit = time_limit
        self.gap_tol = gap_tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.max_interaction = max_interaction
        self.interaction_degree = interaction_degree
        self.heredity = heredity
        self.include_terms = include_terms
        self.exclude_terms = exclude_terms
        self.include_inputs = include_inputs
        self.exclude_inputs = exclude_inputs

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Find the best polynomial.

        Parameters
        ----------
        X : array, data frame or PyTorch tensor of shape (n, p)
            Inputs; a Dask array or DataFrame is read in blocks and never gathered.
        y : array of shape (n,)
            Response; with Dask, a Dask array or Series in the blocks of X.
        sample_weight : array of shape (n,) or None
            Weights of the rows; weight two is the same row twice, weight zero no row.

        Returns
        -------
        self
        """
        began = perf_counter()
        check_parameters(self.get_params(deep=False))
        with open_progress(self.verbose) as progress, _threads(self.n_jobs) as threads:
            table = open_table(self, X, y, sample_weight, progress)
            rules = check_rules(self.get_params(deep=False), table.names)
            gamma = table.total_weight**-0.5 if self.gamma == "auto" else float(self.gamma)
            scaling = table.scaling(scale=self.scale, center=self.center)
            answer = solve(
                Task(
                    rows=table.coded(scaling),
                    rules=rules,
                    gamma=gamma,
                    fit_intercept=self.fit_intercept,
                    n_candidates=self.n_candidates,
                    engine=self.engine,
                    time_limit=None if self.time_limit is None else float(self.time_limit),
                    gap_tol=float(self.gap_tol),
                    seed=check_seed(self.random_state),
                    threads=threads,
                    progress=progress,
                    began=began,
                )
            )
        structure = answer.assembled.problem.structure
        solution = with_statement(answer.solution, rules, answer.basis, structure, scaling)
        times = {**solution.times, "total": perf_counter() - began}
        self.solution_ = replace(solution, times={"preparation": answer.prepared, **times})
        self.polynomial_ = _formula(answer, scaling, table)
        self.intercept_ = self.polynomial_.intercept
        self.powers_ = self.polynomial_.powers
        self.kept_inputs_ = answer.kept
        self.ranking_ = answer.ranking
        self.gamma_ = gamma
        self.__dict__.pop("reference_", None)  # of a search's model: this fit is to y itself
        if self.solution_.engine != "local-search":
            _warn_if_unproved(self.solution_)
        return self

    def predict(self, X: Any) -> Any:
        """Return the polynomial's value at the rows of X.

        A Dask array gives a Dask array, a Dask DataFrame a Dask Series, and neither computes
        anything yet.
        """
        check_is_fitted(self)
        return self._values(self.polynomial_, X)

    def _values(self, law: Polynomial, X: Any) -> Any:
        """Return the values of a polynomial at rows whose columns are those of the fit."""
        if is_dask(X):
            from polysharp.estimators.lazy_prediction import predict_collection

            return predict_collection(self, law, X)
        with named_columns(X):
            X = validate_data(
                self, as_host(X), dtype=np.float64, ensure_all_finite=False, reset=False
            )
        check_finite(X, input_names(self))
        return law(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the terms; ``input_features`` is there for API compatibility."""
        del input_features
        check_is_fitted(self)
        return np.array(self.polynomial_.term_names, dtype=object)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, followed by formula and certificate once fitted."""
        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "polynomial_"):
            return diagram
        said = filter(None, (str(self.solution_), fitted_to(self)))
        formula, certificate = escape(str(self.polynomial_)), escape("; ".join(said))
        return f"{diagram}<p><code>{formula}</code></p><p>{certificate}</p>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def _formula(answer: Answer, scaling: Scaling, table: Table) -> Polynomial:
    """Undo centring, scales and units, in that order."""
    solution, basis = answer.solution, answer.basis
    support, w = list(solution.support), solution.coefficients
    intercept = answer.assembled.intercept(solution.support, w)
    monomials = basis.select(support).monomials
    coefficients = scaling.invert(monomials, w * basis.scales[support])
    shifts = scaling.shift if scaling.shift.any() else None
    return Polynomial(monomials, coefficients, intercept, table.names, shifts, table.response)


def _warn_if_unproved(solution: Solution) -> None:
    if solution.status is not Status.OPTIMAL:
        warnings.warn(
            f"The model is not proved to be the best: {solution}; a longer time_limit, "
            "a smaller gamma or a larger gap_tol may help.",
            ConvergenceWarning,
            stacklevel=3,
        )


@contextmanager
def _threads(n_jobs: int | None) -> Iterator[int]:
    """Limit the threads of matrix products; yield how many the engine may use."""
    if n_jobs is None:
        yield 1
        return
    from threadpoolctl import threadpool_limits

    count = (cpu_count() or 1) if n_jobs == -1 else int(n_jobs)
    with threadpool_limits(limits=count):
        yield count
