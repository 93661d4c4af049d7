"""What every estimator here shares: predictions, names of terms, and how it shows itself.

Predictions on Dask collections are one task per block, computed when the user asks.  A block that
cannot be predicted says so with its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from polysharp.data.arrays import as_host
from polysharp.data.checks import check_finite, input_names, named_columns, open_rows
from polysharp.data.cluster import is_dask
from polysharp.data.rows import Rows
from polysharp.errors import InputError
from polysharp.estimators.fitted_model import FittedModel
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import Progress
from polysharp.typing import Array
from polysharp.wording import plural

R = TypeVar("R")


class PolynomialModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose fitted form is a polynomial, ``polynomial_``."""

    degree: Any
    _several: ClassVar[bool] = False  # whether there are several responses

    @property
    def _formulas(self) -> tuple[Polynomial, ...]:
        """The polynomials, one for each response; none before the fit, or if none was formed."""
        formula = getattr(self, "polynomial_", None)
        return () if formula is None else (formula,)

    @property
    def _largest_degree(self) -> int:
        """Largest degree of a monomial, which decides how large inputs may be."""
        return int(self.degree)

    def predict(self, X: Any) -> Any:
        """Return the polynomial's value at the rows of X; several responses have a column each.

        A Dask array gives a Dask array, a Dask DataFrame a Dask Series (a DataFrame for several
        responses), and neither computes anything yet.
        """
        check_is_fitted(self)
        if is_dask(X):
            return _lazily(self, X)
        rows = self._checked_rows(X)
        values = [formula(rows) for formula in self._formulas]
        return np.column_stack(values) if self._several else values[0]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the terms; ``input_features`` is there for API compatibility."""
        del input_features
        check_is_fitted(self)
        names = self._formulas[0].term_names if self._formulas else ()
        return np.array(names, dtype=object)

    def _checked_rows(self, X: Any) -> Array:
        """Return rows to predict at as floats, their columns those of the fit."""
        X = as_host(X)
        with named_columns(X):
            table: Array = validate_data(
                self, X, dtype=np.float64, ensure_all_finite=False, reset=False
            )
        check_finite(table, input_names(self))
        return table

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, followed by formula and certificate once fitted."""
        diagram: str = estimator_html_repr(self)
        formulas = "".join(f"<p><code>{escape(str(law))}</code></p>" for law in self._formulas)
        if not formulas:
            return diagram
        said = [str(self.solution_), covers(self)] if hasattr(self, "solution_") else []
        lines = [escape(line) for text in said if text for line in text.splitlines()]
        shown = "<br>".join(lines)
        return f"{diagram}{formulas}{f'<p>{shown}</p>' if shown else ''}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def of_record(what: str, read: Callable[[FittedModel], R]) -> R:
    """Return a property that reads ``fitted_``, and is missing as long as that is."""
    found = property(lambda model: read(model.fitted_), doc=f"Return {what}.")
    return found  # type: ignore[return-value]


@dataclass(eq=False, repr=False, kw_only=True)
class CertifiedModel(PolynomialModel):
    """A model whose polynomial comes with a certificate, ``solution_``, and keeps to rules.

    Its fitted attributes are read from one record, ``fitted_``.
    """

    fitted_: FittedModel = field(init=False)

    polynomial_ = of_record("the formula", lambda found: found.polynomial)
    solution_ = of_record("the certificate", lambda found: found.solution)
    coef_ = of_record("the coefficients of the terms", lambda found: found.coef)
    intercept_ = of_record("the free intercept", lambda found: found.intercept)
    powers_ = of_record("exponents in every term", lambda found: found.polynomials[0].powers)
    gamma_ = of_record("the gamma of the certificate", lambda found: found.gamma)
    refit_gamma_ = of_record("the gamma of the coefficients", lambda found: found.refit_gamma)
    gamma_choice_ = of_record('the errors behind gamma="auto"', lambda found: found.gamma_choice)
    kept_inputs_ = of_record("the inputs searched", lambda found: found.kept_inputs)
    ranking_ = of_record("scores of the triage", lambda found: found.ranking)
    leverage_ = of_record("the unit of errors at x", lambda found: found.leverage)
    calibration_ = of_record("the errors on unseen rows", lambda found: found.calibration)

    @property
    def _formulas(self) -> tuple[Polynomial, ...]:
        return self.fitted_.polynomials if hasattr(self, "fitted_") else ()

    max_interaction: int | None = None
    interaction_degree: int | None = None
    heredity: Any = None
    include_terms: Any = None
    exclude_terms: Any = None
    include_inputs: Any = None
    exclude_inputs: Any = None
    refit_gamma: float | None = None
    coefficient_bounds: Any = None
    positive: bool = False
    clamp: bool | None = None
    functions: Any = None
    units: Any = None
    constants: Any = None

    def calibrate(
        self, X: Any, y: Any, sample_weight: Any = None, *, cv: Any = None, groups: Any = None
    ) -> Self:
        """Measure the errors that ``predict_interval`` needs.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
            Rows that the fit has not seen; or its own rows, with ``cv``.
        cv : None, int, "auto", splitter or iterable of (train, test), default=None
            Folds of the fit's own rows; a number means shuffled folds.  A model with the same
            settings, gamma and budgets, found by a short local search on the other folds, predicts
            each fold.  "auto" is ten folds for at most 2,000 rows, otherwise five.
        groups : array of shape (n,) or None
            Groups for the splitter.

        Returns
        -------
        self
        """
        from polysharp.estimators.intervals import calibrated

        check_is_fitted(self)
        found = calibrated(self, X, y, sample_weight, cv=cv, groups=groups)
        self.fitted_ = replace(self.fitted_, calibrations=found)
        if (refit := getattr(self, "best_estimator_", None)) is not None:
            refit.fitted_ = self.fitted_
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return lower and upper ends of prediction intervals, shape (n, 2).

        A new row drawn like those of ``calibrate`` lies inside with probability at least
        ``coverage``, whatever the distribution of the errors; if ``calibrate`` used folds of the
        fit's own rows, with nearly that probability (``polysharp.estimators.intervals`` has the
        theorems).  The probability is an average over rows: it may be higher for some x and lower
        for others.  Outside the observed rows the intervals grow, without a guarantee.  With
        several responses each has its own intervals; they are not simultaneous.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            Rows to predict at, in memory.
        coverage : float, default=0.9
            Between 0 and 1; few rows cannot give a coverage near 1.

        Returns
        -------
        ndarray of shape (n, 2), or (n, responses, 2) of several responses

        Examples
        --------
        >>> import numpy as np
        >>> from polysharp import SparsePolynomialRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1.0, 1.0, (200, 2))
        >>> y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(200)
        >>> model = SparsePolynomialRegressor(degree=2, max_terms=1, gamma=1.0)
        >>> model = model.fit(X[:100], y[:100]).calibrate(X[100:], y[100:])
        >>> model.predict_interval([[0.5, 0.5], [5.0, 5.0]], coverage=0.9).round(1).tolist()
        [[0.1, 0.4], [24.8, 26.9]]
        """
        check_is_fitted(self)
        if not self.fitted_.calibrations:
            raise InputError("predict_interval needs errors on unseen rows: call calibrate first")
        check_coverage(coverage)
        if is_dask(X):
            raise InputError("X must be in memory for predict_interval, got a Dask collection")
        rows = self._checked_rows(X)
        limits = [own.limits(rows, float(coverage)) for own in self.fitted_.calibrations]
        return np.stack(limits, axis=1) if self._several else limits[0]

    def _open(self, given: tuple[Any, Any, Any], progress: Progress) -> Sequence[Rows]:
        """Check X, y and sample_weight; return the rows once for each response."""
        return [open_rows(self, *given, progress)]


def check_single(model: Any, parameter: str) -> None:
    """Refuse what is no model of one response with a certificate, fitted or not."""
    if not isinstance(model, CertifiedModel) or model._several:
        raise InputError(
            f"{parameter} must be a SparsePolynomialRegressor or SparsePolynomialRegressorCV, "
            f"which have one response, got {type(model).__name__}"
        )


def check_coverage(coverage: Any) -> None:
    """Refuse what is no share of rows."""
    if not (isinstance(coverage, Real) and 0.0 < float(coverage) < 1.0):
        raise InputError(f"coverage must be a number between 0 and 1, got {coverage!r}")


def covers(model: Any) -> str | None:
    """Say that a certificate covers several responses; None for one response."""
    if not model._several:
        return None
    return (
        f"one set of terms for {plural(len(model._formulas), 'response')}: the certificate is "
        "about the sum of their objectives, each response divided by its standard deviation, and "
        "not about any of them alone"
    )


def formulas_of(estimator: Any) -> tuple[Polynomial, ...]:
    """Return the polynomials of a fitted estimator, one for each response."""
    check_is_fitted(estimator)
    formulas: tuple[Polynomial, ...] = getattr(estimator, "_formulas", ())
    if not formulas:
        kind = type(estimator).__name__
        raise InputError(f"estimator must be a fitted polysharp model, got {kind}")
    return formulas


def fitted_polynomial(estimator: Any) -> Polynomial:
    """Return the polynomial of a fitted estimator of one response, or say what is wrong with it."""
    first, *_ = formulas_of(estimator)
    if estimator._several:
        kind = type(estimator).__name__
        raise InputError(f"estimator must be a fitted polysharp model of one response, got {kind}")
    return first


def settings_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of the fit; of a search over budgets, those of the model chosen.

    Seed and time limit are the search's own: what was left of them for the last fit is nothing
    that a reader would write again.
    """
    given: dict[str, Any] = getattr(estimator, "best_estimator_", estimator).get_params(deep=False)
    return given | {name: getattr(estimator, name) for name in ("random_state", "time_limit")}


def _lazily(model: PolynomialModel, X: Any) -> Any:
    """Return predictions at the rows of a Dask collection.

    An array gives an array with the chunks of its rows, a data frame a series with its index, named
    as the response was; several responses give tables.
    """
    from polysharp.data.dask_rows import check_columns, is_frame, table_of

    formulas, several = model._formulas, model._several

    def values(x: Any, number: int | None) -> Array:
        try:
            rows = table_of(x, formulas[0].names)
        except InputError as refused:
            raise InputError(f"block {number}: {refused}") from None
        return np.column_stack([law(rows) for law in formulas])

    def of_block(x: Any, block_info: Any = None) -> Array:
        table = values(x, block_info[0]["chunk-location"][0] if block_info else None)
        return table if several else table[:, 0]

    def frame(table: Array, index: Any) -> Any:
        from pandas import DataFrame

        found = DataFrame(table, index=index, columns=[law.response for law in formulas])
        return found if several else found.iloc[:, 0]

    def of_partition(x: Any, partition_info: Any = None) -> Any:
        return frame(values(x, partition_info["number"] if partition_info else None), x.index)

    check_columns(model, X, reset=False)
    if is_frame(X):
        meta = frame(np.empty((0, len(formulas))), range(0))
        return X.map_partitions(of_partition, meta=meta)
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    shape: dict[str, Any] = {"drop_axis": 1, "meta": np.empty(0)}
    if several:
        shape = {"chunks": (whole.chunks[0], (len(formulas),)), "meta": np.empty((0, 0))}
    return whole.map_blocks(of_block, dtype=np.float64, **shape)
