"""What every estimator here shares: predictions, names of terms, and how it shows itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from html import escape
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from polysharp.data.arrays import as_host
from polysharp.data.checks import check_data, check_finite, input_names, named_columns
from polysharp.data.cluster import is_dask
from polysharp.data.rows import MemoryRows
from polysharp.errors import InputError
from polysharp.estimators.parameters import RULES, check_parameters
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array
from polysharp.wording import plural


class PolynomialModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose fitted form is a polynomial, ``polynomial_``."""

    def predict(self, X: Any) -> Any:
        """Return the polynomial's value at the rows of X; of several responses a column each.

        A Dask array gives a Dask array, a Dask DataFrame a Dask Series (a DataFrame for several
        responses), and neither computes anything yet.
        """
        check_is_fitted(self)
        return self._values(getattr(self, "polynomials_", None) or self.polynomial_, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the terms; ``input_features`` is there for API compatibility."""
        del input_features
        check_is_fitted(self)
        names = self._laws[0].term_names if self._laws else ()
        return np.array(names, dtype=object)

    @property
    def _laws(self) -> tuple[Polynomial, ...]:
        """The polynomials, one for each response; none before the fit, or where none was formed."""
        several = getattr(self, "polynomials_", None) or (getattr(self, "polynomial_", None),)
        return tuple(law for law in several if law is not None)

    def _values(self, law: Polynomial | tuple[Polynomial, ...], X: Any) -> Any:
        """Return the values of one polynomial or several at rows with the columns of the fit."""
        if is_dask(X):
            from polysharp.estimators.lazy_prediction import predict_collection

            return predict_collection(self, law, X)
        rows = self._checked_rows(X)
        return law(rows) if isinstance(law, Polynomial) else np.column_stack([f(rows) for f in law])

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
        formulas = "".join(f"<p><code>{escape(str(law))}</code></p>" for law in self._laws)
        if not formulas:
            return diagram
        said = "<br>".join(map(escape, "\n".join(self._said_of_the_fit()).splitlines()))
        return f"{diagram}{formulas}{f'<p>{said}</p>' if said else ''}"

    def _said_of_the_fit(self) -> list[str]:
        """What is proved about the fit, for notebooks; nothing where nothing is."""
        return []

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


class TableModel(PolynomialModel):
    """A model that is fitted to rows in memory, all of them at once."""

    _rules: ClassVar = RULES

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the polynomial.

        Parameters
        ----------
        X, y, sample_weight : arrays or data frames
            As in ``SparsePolynomialRegressor.fit``, in memory.

        Returns
        -------
        self
        """
        check_parameters(self.get_params(deep=False), self._rules)
        self._fit_rows(check_data(self, X, y, sample_weight), (X, y, sample_weight))
        return self

    @abstractmethod
    def _fit_rows(self, data: MemoryRows, given: tuple[Any, Any, Any]) -> None:
        """Fit to checked rows; ``given`` are X, y and sample_weight as the user gave them."""


@dataclass(eq=False, repr=False, kw_only=True)
class CertifiedModel(PolynomialModel):
    """A model whose polynomial comes with a certificate, ``solution_``, and keeps to rules."""

    max_interaction: int | None = None
    interaction_degree: int | None = None
    heredity: Any = None
    include_terms: Any = None
    exclude_terms: Any = None
    include_inputs: Any = None
    exclude_inputs: Any = None
    coefficient_bounds: Any = None
    positive: bool = False
    clamp: bool = False
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
            Folds of the fit's own rows, shuffled where it is a number: each is predicted by a
            model of the same settings, gamma and budgets held fixed, that a short local search
            finds for the others.  "auto" is ten folds for at most 2,000 rows, otherwise five.
        groups : array of shape (n,) or None
            Handed to the splitter.

        Returns
        -------
        self
        """
        from polysharp.estimators.intervals import calibrated

        check_is_fitted(self)
        chosen: Any = getattr(self, "best_estimator_", self)
        chosen._set_calibrations(calibrated(self, X, y, sample_weight, cv=cv, groups=groups))
        return self

    def _set_calibrations(self, found: tuple[Any, ...]) -> None:
        """Keep what was measured, one calibration for each response."""
        (self.calibration_,) = found

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return lower and upper ends of prediction intervals, shape (n, 2).

        Whatever the distribution of the errors, a new row drawn like those of ``calibrate`` lies
        inside with probability ``coverage`` at least; where ``calibrate`` was given folds of the
        fit's own rows, with nearly that probability (``polysharp.estimators.intervals`` has the
        theorems).  The probability is an average over rows: the intervals may hold more often for
        some x and less often for others.  Outside the rows seen they grow, but nothing is promised
        there.  Of several responses each has such intervals by itself, which is no statement about
        all of them at once.

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
        from polysharp.estimators.intervals import calibrations

        self._check_calibrated("predict_interval", coverage)
        if is_dask(X):
            raise InputError("X must be in memory for predict_interval, got a Dask collection")
        rows = self._checked_rows(X)
        ends = [own.ends(rows, float(coverage)) for own in calibrations(self)]
        return np.stack(ends, axis=1) if hasattr(self, "calibrations_") else ends[0]

    def _check_calibrated(self, what: str, coverage: Any) -> None:
        check_is_fitted(self)
        if not hasattr(self, "calibration_") and not hasattr(self, "calibrations_"):
            raise InputError(f"{what} needs errors on unseen rows: call calibrate first")
        check_coverage(coverage)

    def _said_of_the_fit(self) -> list[str]:
        return [str(self.solution_), *filter(None, [fitted_to(self)])]


def check_single(model: Any, parameter: str) -> None:
    """Refuse what is no model of one response with a certificate, fitted or not."""
    certified = isinstance(model, CertifiedModel)
    if not certified or not get_tags(model).target_tags.single_output:
        raise InputError(
            f"{parameter} must be a SparsePolynomialRegressor or SparsePolynomialRegressorCV, "
            f"which have one response, got {type(model).__name__}"
        )


def check_coverage(coverage: Any) -> None:
    """Refuse what is no share of rows."""
    if not (isinstance(coverage, Real) and 0.0 < float(coverage) < 1.0):
        raise InputError(f"coverage must be a number between 0 and 1, got {coverage!r}")


def fitted_to(estimator: Any) -> str | None:
    """Say that a certificate covers several responses; None for one response."""
    if (laws := getattr(estimator, "polynomials_", None)) is not None:
        return (
            f"one set of terms for {plural(len(laws), 'response')}: the certificate is about the "
            "sum of their objectives, each response divided by its standard deviation, and not "
            "about any of them alone"
        )
    return None
