"""The estimator: the paper's two-step method behind scikit-learn's interface.

    X, y -> checks -> coded variables -> (triage) -> monomials -> problem -> engine -> formula

``fit`` reads in that order; ``fitting`` holds the middle, which is the paper's two steps or, with
every input priced, column generation.  With u the coded variables, m_j the scaled monomials of the
inputs that the search is given, and lam = 1 / gamma, it solves

    min  1/2 sum_t v_t (y_t - b - m(u_t)'w)^2 + lam/2 |w|^2

over w with at most ``max_terms`` monomials in at most ``max_inputs`` inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polysharp.certificate.solution import Status
from polysharp.data.rows import Rows
from polysharp.estimators.fitted_model import FittedModel, Leverage
from polysharp.estimators.fitting import StartTerms, code_table, solve
from polysharp.estimators.model import CertifiedModel
from polysharp.estimators.parameters import check_parameters
from polysharp.estimators.preparation import FitContext, PreparedProblem, warn
from polysharp.selection.folds import KnownSums

FAR = 1e6  # standard deviations of an input from zero: squares of 12 digits in common


@dataclass(eq=False, repr=False)
class SparsePolynomialRegressor(CertifiedModel):
    """The best polynomial with few terms in few inputs, with a certificate.

    Parameters
    ----------
    degree : int, default=3
        Largest degree of a monomial.  An input with two values occurs at most once in a monomial,
        unless ``include_terms`` has a power of it.
    max_terms : int, default=10
        Maximum number of monomials, the paper's l; the free intercept does not count.  Larger than
        the number of monomials means no limit.  Fewer terms are used if more cannot improve the
        fit; terms whose best coefficient is zero (of a constant input) may stay in the formula.
    max_inputs : int or None, default=None
        Maximum number of different inputs in the formula, the paper's k; None for no limit.
    gamma : float or "auto", default="auto"
        The terms are chosen with the ridge 1 / gamma on the coefficients of the scaled monomials,
        and the certificate is about this choice.  "auto" chooses it by cross-validation, for the
        given degree and size: the strongest ridge whose terms predict as well as the best, with
        coefficients estimated with ``refit_gamma`` (``gamma_choice_``).  A strong ridge makes the
        proof easy.
    n_candidates : int, "auto" or None, default="auto"
        Number of inputs that the triage (Algorithm 1) keeps before the search.  None keeps all:
        their monomials are listed up to 8192 (20,000 on a GPU) and priced beyond that, without
        being formed; "big-m" and "enumeration" always list them, and refuse lists that are too
        long.  "auto" keeps all if they can be listed or priced well within ``time_limit``;
        otherwise it keeps the number of inputs with 8192 monomials, or fewer for lack of time
        (see ``polysharp.ranking.work_plan``).  ``scope`` says which inputs the certificate covers.
    fit_intercept : bool, default=True
        Fit a free, unpenalised intercept.  False is the paper's form: the constant is one of the
        monomials.
    scale : bool, default=True
        Divide the inputs by their (weighted) root mean squares before the fit.  Coefficients are
        always in the units of X.
    center : bool, default=False
        Subtract the means first.  The formula is then in coded variables (x - mean).
    device : None, "cpu", "cuda" or another PyTorch device, default=None
        Device that ranks inputs, accumulates moments and prices monomials, and on a GPU also
        relaxes nodes.  None is the CPU, or the device of X if X is a PyTorch tensor.
    engine : str, default="auto"
        "auto", which is "tree"; "tree", "cutting-planes", "cutting-planes-multitree",
        "cutting-planes-gurobi", "big-m", "enumeration", "local-search"; or an ``Engine`` object
        with its own settings.
    time_limit : float or None, default=60.0
        Seconds for the whole fit; the search gets the time that preparation leaves.  With
        ``n_candidates="auto"`` preparation keeps to the limit too, and a warning names the inputs
        that were left out; if your own ``n_candidates`` takes longer, a warning says so at once.
    gap_tol : float, default=1e-4
        Relative gap between objective and proven bound at which a model counts as optimal.
    n_jobs : int or None, default=None
        Threads of the matrix products and the engine; -1 for all cores.  None leaves the setting
        of the matrix products unchanged and gives the engine one thread.
    verbose : int, default=0
        1 shows a live line: objective, bound, gap, cuts or nodes, time.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the engines' random choices; None draws one.
    max_interaction : int or None, default=None
        Largest number of different inputs in one term; 1 for an additive model.
    interaction_degree : int or None, default=None
        Largest total degree of a term with two or more inputs.
    heredity : None, "weak" or "strong", default=None
        A term needs one ("weak") or all ("strong") of its parents, the terms with one factor less,
        in the model.
    include_terms, exclude_terms : list or None, default=None
        Terms that must or must not occur: tuples of names or indices with repetition, or products
        such as "x0^2 x3".
    include_inputs, exclude_inputs : list or None, default=None
        Inputs, by name or index, that a term must use, or that no term may use.
    coefficient_bounds : pair, mapping or None, default=None
        Interval (low, high) of every coefficient, in the user's units; None means no bound at that
        end.  Or a mapping from terms, written as in ``include_terms``, or inputs to intervals: the
        name or index of an input bounds all terms that use it, ``("x0",)`` only the term x0.  An
        entry for a term takes precedence over entries for its inputs; "*" stands for all other
        terms.  Intervals must contain 0; the intercept is free.  With ``center=True`` coefficients
        are those of products of x - mean, as printed.
    refit_gamma : float or None, default=None
        Coefficients of the chosen terms are estimated with the ridge 1 / refit_gamma.  None means
        gamma if that is a number, and a choice by cross-validation with ``gamma="auto"``.
    positive : bool, default=False
        No coefficient may be negative: short for ``coefficient_bounds=(0, None)``.
    clamp : bool or None, default=None
        Move inputs outside the range of the rows of the fit to the nearer end before predicting;
        ``polynomial_.ranges`` has the ranges.  None is False here; the search over budgets clamps
        if that predicts held-out rows no worse.
    functions : sequence, mapping or None, default=None
        Functions of the inputs that terms may multiply like inputs: names among "inverse",
        "square-root", "log", "exp", "sin" and "cos", callables with a name, or pairs of name and
        callable; for all inputs, or a mapping from inputs (names or indices) to these.  Functions
        take the inputs unshifted.  They count as their input in ``max_inputs`` and
        ``max_interaction``, and as one factor in ``degree``.  A function that is not defined at a
        row raises InputError.  Trivial products, x with 1/x and the square root with itself, are
        excluded.
    units : mapping or None, default=None
        Units of inputs by name, and of the response under the one name that is not an input, as
        pint reads them (the extra ``units``); inputs without a unit are pure numbers.  Reports then
        show the units of coefficients, and ``polynomial_.coefficient_units(units)`` returns them.
    constants : list of str or None, default=None
        Exclude terms whose coefficients would need other units than those of pure numbers times
        powers, from -2 to 2, of constants with these units, such as ``["m/s^2"]``; an empty list
        allows pure numbers only.  The free intercept is not checked.

    Attributes
    ----------
    polynomial_ : Polynomial
        The formula, in the user's names and units.
    solution_ : Solution
        The certificate: objective, bound, gap, status, scope, counters and times.
    coef_ : ndarray of shape (n_terms,)
        The coefficients of the terms, in the order of ``polynomial_.monomials``.
    intercept_ : float
        The free intercept, 0.0 without one.
    powers_ : ndarray of shape (n_terms, p)
        Exponents of the inputs in every term, then those of ``polynomial_.functions``.
    gamma_ : float
        The gamma that the terms were chosen with, which the certificate is about.
    refit_gamma_ : float
        The gamma that the coefficients were estimated with.
    gamma_choice_ : GammaChoice or None
        The errors behind ``gamma="auto"``.  None if gamma is given, or if there are too few
        different rows to hold any out, and gamma is 1 / sqrt(n).
    leverage_ : Leverage
        The unit of errors at x, for ``predict_interval``; it grows outside the rows.
    calibration_ : Calibration
        The errors that ``calibrate`` has measured; set by ``calibrate``.
    kept_inputs_ : ndarray
        Indices of the inputs that the search was given.
    ranking_ : Ranking or None
        Scores of the triage; excluded inputs score 0.  None if every input was kept.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of str
        Names of the inputs, if X has names.

    Notes
    -----
    If the engine ends without a proof, at the time limit or on Ctrl-C, the best model found is kept
    with its gap, and a ``ConvergenceWarning`` is raised; ``engine="local-search"`` never proves and
    does not warn.  Ctrl-C before the search begins ends the fit as usual.

    At least 2 rows are needed.  A constant y gives the constant polynomial, proved best.  If two
    columns are equal, either may be chosen.  Raises InputError if powers of X exceed 1e140 or are
    below 1e-140, if y exceeds 1e60 or is below 1e-60, and if the weights add up to more than 1e20
    or less than 1e-20.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import SparsePolynomialRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> y = 2.0 + 3.0 * X[:, 0] ** 2 - X[:, 1] * X[:, 2]
    >>> model = SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e4, engine="enumeration")
    >>> print(model.fit(X, y).polynomial_)
    y = 2 + 3 x0^2 - 1 x1 x2
    >>> model.solution_.status
    <Status.OPTIMAL: 'optimal'>
    """

    degree: int = 3
    max_terms: int = 10
    max_inputs: int | None = None
    gamma: Any = "auto"
    n_candidates: Any = "auto"
    fit_intercept: bool = True
    scale: bool = True
    center: bool = False
    device: Any = None
    engine: Any = "auto"
    time_limit: float | None = 60.0
    gap_tol: float = 1e-4
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = 0

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Find the best polynomial.

        Parameters
        ----------
        X : array, data frame or PyTorch tensor of shape (n, p)
            Inputs; a Dask array or DataFrame is read in blocks and never gathered.
        y : array of shape (n,)
            Response; with Dask, a Dask array or Series in the blocks of X.  Models of several
            responses take an array, data frame or Dask collection with a column for each.
        sample_weight : array of shape (n,) or None
            Weights of the rows; weight two is the same row twice, weight zero no row.

        Returns
        -------
        self
        """
        check_parameters(self.get_params(deep=False))
        with FitContext.of(self) as context:
            tables = self._open((X, y, sample_weight), context.progress)
            remark = self._fit_tables(tables, context).remark(self.time_limit)
        if remark is not None:
            warn(remark)
        if context.engine.proves and self.solution_.status is not Status.OPTIMAL:
            remedies = "a longer time_limit, a smaller gamma or a larger gap_tol"
            if not self.center and tables[0].ranges.offset > FAR:
                remedies = "center=True, since inputs lie far from zero for their spread,"
            warn(
                f"The model is not proved to be the best (gap {100 * self.solution_.gap:.3g} %, "
                f"{self.solution_.stop}): {remedies} may help."
            )
        return self

    def _fit_tables(
        self,
        tables: Sequence[Rows],
        context: FitContext,
        starts: StartTerms = (),
        sums: KnownSums | None = None,
        *,
        strengthen: bool = False,
    ) -> PreparedProblem:
        """Fit to checked rows; return the problem that was solved.

        The search may begin from sets of terms, and from sums over the rows that are known, and
        ``strengthen`` the ridge of the terms.
        """
        coded, choice = code_table(self, tables, context, sums=sums)
        starts = [*starts, *(() if choice is None else choice.terms)]
        prepared, solution = solve(
            coded, self.n_candidates, context, starts, strengthen=strengthen or choice is not None
        )
        if self._several:  # a row for each, even if there is one
            refit = solution.refit and _with_rows(solution.refit)
            solution = replace(_with_rows(solution), refit=refit)
        self.fitted_ = FittedModel(
            prepared.formulas(solution.support),
            solution,
            prepared.inputs,
            Leverage.of(prepared, solution),
            prepared.ranking,
            choice,
            tuple(table.y_unit for table in tables) if self._several else None,
        )
        return prepared


def _with_rows(found: Any) -> Any:
    return replace(found, coefficients=np.atleast_2d(found.coefficients))
