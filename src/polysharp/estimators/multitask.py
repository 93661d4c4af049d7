"""Several responses, one set of terms: the estimator for laws that share their form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.data.checks import open_responses
from polysharp.data.cluster import is_dask
from polysharp.data.rows import Rows
from polysharp.errors import InputError
from polysharp.estimators.model import CertifiedModel, of_record
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.regressor_cv import SparsePolynomialRegressorCV
from polysharp.progress import Progress

if TYPE_CHECKING:
    from polysharp.estimators.intervals import Calibration


class SharedTerms(CertifiedModel):
    """What models of several responses with one set of terms have in common."""

    engine: Any
    fit_intercept: bool
    _several = True

    polynomials_ = of_record("the formula of each response", lambda found: found.polynomials)
    response_scales_ = of_record(
        "what the responses were divided by", lambda found: np.array(found.scales)
    )

    @property
    def calibrations_(self) -> tuple[Calibration, ...]:
        """What ``calibrate`` has measured for each response; missing before."""
        if not self.fitted_.calibrations:
            raise AttributeError("calibrations_ are there after calibrate")
        return self.fitted_.calibrations

    def _open(self, given: tuple[Any, Any, Any], progress: Progress) -> Sequence[Rows]:
        """Check the rows; return them once for each response, which is divided by its size."""
        if self.engine not in ("auto", "tree"):
            raise InputError(
                f"engine must be 'auto' or 'tree' for several responses, got {self.engine!r}"
            )
        if is_dask(given[0]) and isinstance(self, SparsePolynomialRegressorCV):
            raise InputError(
                "X must be in memory to compare sizes for several responses, got a Dask "
                "collection; MultiTaskSparsePolynomialRegressor takes those"
            )
        return open_responses(self, *given, progress)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


class MultiTaskSparsePolynomialRegressor(SharedTerms, SparsePolynomialRegressor):
    """The best small polynomials for several responses that share their terms, with a certificate.

    One set of at most ``max_terms`` monomials in at most ``max_inputs`` inputs serves all
    responses; each has coefficients and an intercept of its own.  Every response is divided by its
    standard deviation, and the sum of the responses' objectives is minimised: the certificate is
    about that sum.

    Parameters
    ----------
    degree, max_terms, max_inputs, gamma, n_candidates, fit_intercept, scale, center, device, \
engine, time_limit, gap_tol, n_jobs, verbose, random_state, max_interaction, interaction_degree, \
heredity, include_terms, exclude_terms, include_inputs, exclude_inputs, clamp, functions, units, \
constants, refit_gamma, coefficient_bounds, positive
        As in ``SparsePolynomialRegressor``; ``engine`` is "auto" or "tree".  Bounds on
        coefficients, in the user's units, hold in the formula of every response.  ``gamma="auto"``
        chooses gamma for the sum of the responses.

    Attributes
    ----------
    polynomials_ : tuple of Polynomial
        One formula per response, in the user's names and units, all with the same terms.
    solution_ : Solution
        The certificate; ``coefficients`` has a row per response, ``r2`` is their mean R2.
    intercept_ : ndarray
        The free intercepts.
    gamma_choice_ : GammaChoice or None
        The errors behind ``gamma="auto"``: root mean squared errors of the scaled responses.
    response_scales_ : ndarray
        Standard deviations that the responses were divided by.
    calibrations_ : tuple of Calibration
        The errors that ``calibrate`` has measured, for each response.
    ranking_ : Ranking or None
        Scores of the triage, added over the responses; None if every input was kept.
    powers_, gamma_, leverage_, kept_inputs_, n_features_in_, feature_names_in_
        As in ``SparsePolynomialRegressor``.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import MultiTaskSparsePolynomialRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> product = X[:, 0] * X[:, 1]
    >>> Y = np.column_stack([product + 2.0 * X[:, 2] + 5.0, X[:, 2] - 3.0 * product + 1.0])
    >>> model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=2, gamma=1e4).fit(X, Y)
    >>> for polynomial in model.polynomials_:
    ...     print(polynomial)
    y0 = 5 + 2 x2 + 1 x0 x1
    y1 = 1 + 1 x2 - 3 x0 x1
    >>> model.solution_.status
    <Status.OPTIMAL: 'optimal'>
    """


class MultiTaskSparsePolynomialRegressorCV(SharedTerms, SparsePolynomialRegressorCV):
    """Several responses, one set of terms, its budgets chosen by cross-validation.

    Budgets and gamma are those whose models, with one set of terms for all responses, have the
    smallest errors on held-out rows; each response is divided by its standard deviation before its
    errors are counted.  The choice is refitted by ``MultiTaskSparsePolynomialRegressor``.

    Parameters
    ----------
    degree, max_terms, max_inputs, gamma, center, cv, n_candidates, fit_intercept, scale, \
device, engine, time_limit, gap_tol, n_jobs, verbose, random_state, refit, max_interaction, \
interaction_degree, heredity, include_terms, exclude_terms, include_inputs, exclude_inputs, \
clamp, functions, units, constants, refit_gamma, coefficient_bounds, positive
        As in ``SparsePolynomialRegressorCV``; ``engine`` is "auto" or "tree".
    rule : {"shortest", "one-se", "best"}, default="shortest"
        As in ``SparsePolynomialRegressorCV``.

    Attributes
    ----------
    polynomials_, solution_, intercept_, powers_, gamma_, response_scales_, kept_inputs_, ranking_
        Of ``best_estimator_``, as in ``MultiTaskSparsePolynomialRegressor``.
    best_estimator_ : MultiTaskSparsePolynomialRegressor
        The refitted model.
    best_params_, best_index_, cv_results_, remarks_, interrupted_, n_splits_, search_time_, \
refit_time_
        As in ``SparsePolynomialRegressorCV``.
    best_score_ : float
        Minus the root mean squared error on held-out rows, mean over the splits, where squares are
        averaged over the scaled responses: 1 is the error of a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import MultiTaskSparsePolynomialRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> terms = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] ** 2])
    >>> Y = terms @ [[1.0, -2.0], [3.0, 0.5]] + 0.1 * rng.standard_normal((200, 2))
    >>> search = MultiTaskSparsePolynomialRegressorCV(max_terms=6, random_state=0).fit(X, Y)
    >>> search.best_params_["degree"], search.get_feature_names_out().tolist()
    (2, ['x0 x1', 'x2^2'])
    """

    _kind = MultiTaskSparsePolynomialRegressor
