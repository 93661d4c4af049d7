"""Polynomial kernel regression: every monomial at once, none of them chosen.

The first of the paper's two benchmarks is ridge regression on all f monomials of degree at most
r.  In the dual it takes the n x n kernel alone, with rows u_t of coded inputs and weights v_t,

    g(x) = b + gamma sum_t a_t (1 + u_t'u)^r,      a_t = v_t (y_t - g(x_t)):

the dual coefficients are the weighted residuals.  ``ranking`` solves the same system for
Algorithm 1.  Where monomials are few beside rows (2 f <= n) their coefficients

    w = (G + I / gamma)^-1 q

come from the moments and no n x n matrix is formed.  Degree 1 is ridge regression.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from polysharp.data.checks import check_data
from polysharp.data.rows import MemoryRows
from polysharp.estimators.model import PolynomialModel
from polysharp.estimators.parameters import RULES, check_parameters
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis, Scaling
from polysharp.polynomial.polynomial import Polynomial
from polysharp.ranking.kernel_system import PANEL, KernelSystem, entrywise_power
from polysharp.ranking.ranking import coefficients_from_moments, prefers_moments


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
        """Fit to checked rows; splitters take X, y and sample_weight as they were ``given``."""


@dataclass(eq=False, repr=False)
class PolynomialKernelRegressor(TableModel):
    """Ridge regression on all monomials through the kernel (1 + x'z)^degree of rows x and z.

    Parameters
    ----------
    degree : int, default=3
        Degree r of the kernel; 1 is ridge regression.
    gamma : float or "auto", default="auto"
        The ridge on the coefficients of the scaled monomials is 1 / gamma.  "auto" is
        1 / sqrt(n), with n the sum of the weights.
    fit_intercept, scale, center : bool
        As in ``SparsePolynomialRegressor``.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n,)
        Weighted residuals of the rows with positive weight; gamma times their kernel sum is the
        regressor.
    X_fit_ : ndarray of shape (n, p)
        Those rows in coded variables.
    intercept_ : float
        The free intercept, 0.0 without one.
    polynomial_ : Polynomial or None
        The polynomial itself where its monomials are few enough to be formed (at most half as
        many as rows); None where it is known through the kernel only.
    gamma_, n_features_in_, feature_names_in_
        As in ``SparsePolynomialRegressor``.

    See Also
    --------
    SparsePolynomialRegressor : the best polynomial with few terms.
    PolynomialLasso : few terms found by a convex heuristic.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import PolynomialKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> y = 2.0 + 3.0 * X[:, 0] ** 2 - X[:, 1] * X[:, 2]
    >>> model = PolynomialKernelRegressor(degree=2, gamma=1e4).fit(X, y)
    >>> bool(model.score(X, y) > 0.999)
    True
    """

    degree: int = 3
    gamma: Any = "auto"
    fit_intercept: bool = True
    scale: bool = True
    center: bool = False

    def _fit_rows(self, data: MemoryRows, given: tuple[Any, Any, Any]) -> None:
        del given
        self.gamma_ = data.total_weight**-0.5 if self.gamma == "auto" else float(self.gamma)
        self._scaling = Scaling.of(data.ranges, scale=self.scale, center=self.center)
        self.X_fit_ = self._scaling.apply(data.X)
        self.polynomial_: Polynomial | None = None
        n, p = self.X_fit_.shape
        if not prefers_moments(n, p, int(self.degree)):
            system = KernelSystem(self.X_fit_, data.weights, int(self.degree), self.gamma_)
            self.dual_coef_, self.intercept_ = system.solve(data.y, self.fit_intercept)
            return
        basis = Basis.full(p, int(self.degree), constant=not self.fit_intercept)
        moments = accumulate(basis, self.X_fit_, data.y, data.sample_weight)
        w = coefficients_from_moments(moments, self.gamma_, self.fit_intercept)
        b = moments.y_mean - float(moments.mean @ w) if self.fit_intercept else 0.0
        polynomial = Polynomial.from_scaled(basis, w, b, self._scaling, data.names, data.response)
        self.polynomial_, self.intercept_ = polynomial, b
        self.dual_coef_ = data.weights * (data.y - polynomial(data.X))

    def predict(self, X: Any) -> Any:
        """Return the polynomial's value at the rows of X."""
        check_is_fitted(self)
        if self.polynomial_ is not None:
            return super().predict(X)
        U, a = self._scaling.apply(self._checked_rows(X)), self.gamma_ * self.dual_coef_
        y = np.full(len(U), self.intercept_)
        for start in range(0, len(U), PANEL):
            rows = slice(start, start + PANEL)
            y[rows] += entrywise_power(U[rows] @ self.X_fit_.T + 1.0, int(self.degree)) @ a
        return y
