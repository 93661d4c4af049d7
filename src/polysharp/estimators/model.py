"""What every estimator here shares: predictions, names of terms, and how it shows itself."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from polysharp.data.arrays import as_host
from polysharp.data.checks import check_finite, input_names, named_columns
from polysharp.data.cluster import is_dask
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array


class PolynomialModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose fitted form is a polynomial, ``polynomial_``."""

    def predict(self, X: Any) -> Any:
        """Return the polynomial's value at the rows of X.

        A Dask array gives a Dask array, a Dask DataFrame a Dask Series, and neither computes
        anything yet.
        """
        check_is_fitted(self)
        return self._values(self.polynomial_, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the terms; ``input_features`` is there for API compatibility."""
        del input_features
        check_is_fitted(self)
        names = () if self.polynomial_ is None else self.polynomial_.term_names
        return np.array(names, dtype=object)

    def _values(self, polynomial: Polynomial, X: Any) -> Any:
        """Return the values of a polynomial at rows whose columns are those of the fit."""
        if is_dask(X):
            from polysharp.estimators.lazy_prediction import predict_collection

            return predict_collection(self, polynomial, X)
        return polynomial(self._checked_rows(X))

    def _checked_rows(self, X: Any) -> Array:
        """Return rows to predict at as floats, their columns those of the fit."""
        with named_columns(X):
            table: Array = validate_data(
                self, as_host(X), dtype=np.float64, ensure_all_finite=False, reset=False
            )
        check_finite(table, input_names(self))
        return table

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, followed by formula and certificate once fitted."""
        diagram: str = estimator_html_repr(self)
        polynomial = getattr(self, "polynomial_", None)
        if polynomial is None:
            return diagram
        said = [str(polynomial), "; ".join(self._said_of_the_fit())]
        formula, *certificate = (escape(text) for text in said if text)
        shown = "".join(f"<p>{text}</p>" for text in certificate)
        return f"{diagram}<p><code>{formula}</code></p>{shown}"

    def _said_of_the_fit(self) -> list[str]:
        """What is proved about the fit, for notebooks; nothing where nothing is."""
        return []

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


class CertifiedModel(PolynomialModel):
    """A model whose polynomial comes with a certificate, ``solution_``."""

    def _said_of_the_fit(self) -> list[str]:
        about = fitted_to(self)
        return [str(self.solution_), *([] if about is None else [about])]


def fitted_to(estimator: Any) -> str | None:
    """Say what a model was fitted to, where that is not the response."""
    if getattr(estimator, "reference_", None) is None:
        return None
    return (
        "fitted to the mean of models that do equally well (reference_), and the certificate is "
        f"about that mean, not about {estimator.polynomial_.response} itself"
    )
