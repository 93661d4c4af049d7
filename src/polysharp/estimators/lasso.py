"""The polynomial Lasso: the paper's second benchmark, a close variant of SPORE.

    1. rank the inputs by kernel regression and keep p' of them (Algorithm 1);
    2. follow the Lasso path over their monomials;
    3. on the support chosen, ridge regression with a validated gamma.

It shares its first step, its hyper-parameters l, r and gamma, and its units with
``SparsePolynomialRegressor``, and differs in the second step alone.  Number of terms l and gamma
are those with the least mean square error over held-out rows: all three steps are repeated
without the rows of each fold, every l and gamma is scored on them, and the steps are then done
once more on all rows.

The path, from the moments alone,

    min_w  1/2 |y - M w|^2 + alpha sum_j d_j |w_j|,      alpha from alpha_max downwards,

has supports that grow as alpha falls.  d_j = |m_j| makes the path the one of standardised
monomials, d_j = 1 the paper's.  For every l it offers one support, the last with at most l
monomials; on it ridge regression with parameter gamma is

    w_S = Q (E + I / gamma)^-1 Q'q_S,      G_SS = Q E Q',

one eigendecomposition for all gammas.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from sklearn.utils.validation import check_is_fitted

from polysharp.data.rows import MemoryRows
from polysharp.errors import InputError, TooLargeError
from polysharp.estimators.kernel_regressor import TableModel
from polysharp.estimators.parameters import LASSO_RULES, check_seed
from polysharp.estimators.preparation import CodedTable, PreparedProblem
from polysharp.moments.gram import MAX_DENSE
from polysharp.monomials.term_rules import TermRules
from polysharp.problem.problem import Problem
from polysharp.ranking.work_plan import WorkPlan, triage_size
from polysharp.selection.splits import Split, read_splits
from polysharp.typing import Array, Indices, Monomial

MOST_TERMS = 100  # the paper's l in [100]


@dataclass(eq=False, repr=False)
class PolynomialLasso(TableModel):
    """A polynomial with few terms, chosen by the Lasso and refitted by ridge regression.

    Parameters
    ----------
    degree : int, default=3
        Largest degree of a monomial.
    max_terms : int or "auto", default="auto"
        The support is the last along the path with at most so many monomials, the paper's l;
        the free intercept is not counted.  "auto" chooses among 1 to 100 by ``cv``.
    n_candidates : int, "auto" or None, default="auto"
        Inputs kept by the ranking, the paper's p'; None keeps all, "auto" as many as have 8192
        monomials, which is also the most that a path is followed over.
    gammas : array of float or None, default=None
        The ridge of the refit is 1 / gamma, with gamma chosen among these by ``cv``; None for
        1 / n, 10 / n, ..., 1e8 / n, with n the sum of the weights.
    cv : int, splitter or iterable of (train, test) indices, default=5
        Held-out rows.  An integer is the number of shuffled folds, at most the number of rows.
        Nothing is held out where there is nothing to choose.
    fit_intercept, scale, center : bool
        As in ``SparsePolynomialRegressor``.
    standardize : bool, default=True
        Penalise the monomials as if they had equal norms.  False is the paper's form: the scaled
        monomials as they are.
    n_alphas : int, default=200
        Number of penalties along the path.
    eps : float, default=1e-4
        Smallest penalty, as a share of the largest.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the folds.

    Attributes
    ----------
    polynomial_ : Polynomial
        The formula, in the user's names and units.
    path_ : LassoPath
        Penalties and supports along the path; ``support_at`` has them as monomials.
    max_terms_ : int
        The l used.
    gamma_ : float
        The gamma used.
    gammas_ : ndarray
        The gammas to choose from.
    errors_ : ndarray of shape (n_sizes, n_gammas) or None
        Mean square errors over the held-out rows, by l from 1 (or for ``max_terms`` alone) and
        by gamma, predictions cut to the range of the responses; None where nothing was held out.
    kept_inputs_ : ndarray
        Indices of the inputs whose monomials the path is over.
    intercept_, powers_, ranking_, n_features_in_, feature_names_in_
        As in ``SparsePolynomialRegressor``.

    See Also
    --------
    SparsePolynomialRegressor : the best support instead of the Lasso's.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp import PolynomialLasso
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> y = 2.0 + 3.0 * X[:, 0] ** 2 - X[:, 1] * X[:, 2]
    >>> model = PolynomialLasso(degree=2, max_terms=2, gammas=[1e6]).fit(X, y)
    >>> print(model.polynomial_)
    y = 2 + 3 x0^2 - 1 x1 x2
    >>> model.support_at(1)
    ((0, 0),)
    """

    degree: int = 3
    max_terms: Any = "auto"
    n_candidates: Any = "auto"
    gammas: Any = None
    cv: Any = 5
    fit_intercept: bool = True
    scale: bool = True
    center: bool = False
    standardize: bool = True
    n_alphas: int = 200
    eps: float = 1e-4
    random_state: Any = None

    _rules: ClassVar = LASSO_RULES

    def _fit_rows(self, data: MemoryRows, given: tuple[Any, Any, Any]) -> None:
        """Rank, follow the path, choose a point on it and refit."""
        self.gammas_ = np.logspace(0, 8, 9) / data.total_weight
        if self.gammas is not None:
            self.gammas_ = np.array(self.gammas, dtype=np.float64).ravel()
        prepared, self.path_ = self._steps(data)
        sizes = np.arange(1, MOST_TERMS + 1) if self.max_terms == "auto" else [self.max_terms]
        f = prepared.problem.size
        sizes = np.minimum(sizes, f)[:f]
        self.errors_, best = None, (0, 0)
        if len(sizes) * len(self.gammas_) > 1:
            self.errors_ = self._errors(data, self._splits(data, *given), sizes)
            best = divmod(int(np.argmin(self.errors_)), len(self.gammas_))
        self.max_terms_, self.gamma_ = int(sizes[best[0]]), float(self.gammas_[best[1]])
        self.kept_inputs_, self.ranking_ = prepared.inputs, prepared.ranking
        self._monomials = prepared.basis.monomials
        support = self.path_.support(self.max_terms_)
        (w,) = ridge_coefficients(prepared.problem, support, np.array([self.gamma_])).T
        self.polynomial_ = prepared.formula(tuple(support), w)
        self.intercept_, self.powers_ = self.polynomial_.intercept, self.polynomial_.powers

    def support_at(self, max_terms: int) -> tuple[Monomial, ...]:
        """Return the monomials of the last support along the path with at most so many."""
        check_is_fitted(self)
        return tuple(self._monomials[j] for j in self.path_.support(max_terms))

    def _steps(self, data: MemoryRows) -> tuple[PreparedProblem, LassoPath]:
        """Rank the inputs and follow the path over the monomials of those kept."""
        limit = MOST_TERMS if self.max_terms == "auto" else int(self.max_terms)
        rules = TermRules(degree=int(self.degree), max_terms=limit, constant=not self.fit_intercept)
        coded = CodedTable.of(self, [data], rules, gamma=data.total_weight**-0.5)
        plan = WorkPlan(triage_size(self.n_candidates, rules, data.shape[1]), priced=False)
        kept, ranking = coded.choose_inputs(plan)
        if rules.count(len(kept)) > MAX_DENSE:
            raise TooLargeError(
                f"n_candidates must leave at most {MAX_DENSE} monomials for the path, and the "
                f"{len(kept)} inputs kept have {rules.count(len(kept)):,}; lower n_candidates "
                "or degree"
            )
        prepared = coded.over(kept, ranking, plan)
        alphas = np.geomspace(1.0, float(self.eps), int(self.n_alphas))
        return prepared, follow(prepared.problem, limit, alphas, standardize=self.standardize)

    def _splits(self, data: MemoryRows, X: Any, y: Any, sample_weight: Any) -> list[Split]:
        """Return rows to fit and rows to score, as indices of the rows of positive weight."""
        if isinstance(self.cv, Integral):
            seed, most = check_seed(self.random_state), len(data.y)
            return read_splits(min(int(self.cv), most), data.X, data.y, seed=seed)
        return read_splits(self.cv, X, y, sample_weight=sample_weight)

    def _errors(self, data: MemoryRows, splits: list[Split], sizes: Indices) -> Array:
        """Mean square errors of every l and gamma on the rows held out.

        Predictions are cut to the span of the responses.
        """
        total, weight = np.zeros((len(sizes), len(self.gammas_))), 0.0
        span = (float(data.y.min()), float(data.y.max()))
        for train, test in splits:
            if not len(train) or not len(test):
                raise InputError("cv must leave rows of positive weight to fit and to score")
            held_out, (prepared, path) = data.take(test), self._steps(data.take(train))
            assembled, U = prepared.assembled, prepared.coded.scaling.apply(held_out.X)
            last = None
            for row, size in enumerate(sizes):
                support = path.support(int(size))
                if support is not last:
                    w = ridge_coefficients(assembled.problem, support, self.gammas_)
                    M = prepared.basis.select(support).evaluate(U) - assembled.mean[support]
                    predicted = np.clip(assembled.y_means[0] + M @ w, *span)
                    losses = held_out.weights @ (held_out.y[:, None] - predicted) ** 2
                    last = support
                total[row] += losses
            weight += held_out.total_weight
        return total / weight


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Supports along falling alphas, as indices into the monomials of a problem."""

    alphas: Array
    supports: tuple[Indices, ...]

    @cached_property
    def sizes(self) -> Indices:
        """Number of monomials at each alpha."""
        return np.array([len(support) for support in self.supports], dtype=np.intp)

    def support(self, max_terms: int) -> Indices:
        """Return the last support along the path that has at most so many monomials."""
        return self.supports[int(np.flatnonzero(self.sizes <= max_terms)[-1])]


def follow(problem: Problem, max_terms: int, alphas: Array, *, standardize: bool) -> LassoPath:
    """Follow the path from the empty support until it has more than ``max_terms`` monomials.

    ``alphas`` are shares of the largest, falling from 1.  If coordinate descent stops at its limit
    of iterations, as it does for nearly collinear monomials, the support it has reached counts.
    """
    G = problem.gram.block(np.arange(problem.size), np.arange(problem.size))
    norms = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    d = np.where(norms > 0.0, norms, 1.0) if standardize else np.ones(problem.size)
    G /= np.multiply.outer(d, d)
    q = problem.q[0] / d
    largest = float(np.abs(q).max(initial=0.0))
    supports = [np.zeros(0, dtype=np.intp)]
    w = np.zeros(problem.size)
    for alpha in (largest * alphas[1:]).tolist():
        if len(supports[-1]) > max_terms or alpha == 0.0:
            break
        w = _descend(G, q, problem.yy, alpha, w)
        supports.append(np.flatnonzero(w))
    return LassoPath(largest * alphas[: len(supports)], tuple(supports))


def _descend(G: Array, q: Array, yy: float, alpha: float, start: Array) -> Array:
    """Return the Lasso's coefficients at one alpha, from those at the last one."""
    # With G and q given, lasso_path takes from X only its shape and from y only y'y; one row
    # makes its alpha, which it multiplies by the number of rows, ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefficients, _ = lasso_path(
            np.zeros((1, len(q)), order="F"),
            np.array([np.sqrt(yy)]),
            alphas=np.array([alpha]),
            precompute=G,
            Xy=q,
            coef_init=start,
            check_input=False,
        )
    return np.asarray(coefficients[:, 0], dtype=np.float64)


def ridge_coefficients(problem: Problem, support: Indices, gammas: Array) -> Array:
    """Return the ridge regressions on one support, one column for each gamma."""
    values, Q = np.linalg.eigh(problem.gram.block(support, support))
    # Zero to rounding is zero: at huge gammas the inverse of rounding would be a coefficient.
    least = len(support) * np.finfo(float).eps * values.max(initial=0.0)
    values = np.where(values > least, values, np.inf)
    return np.asarray(
        Q @ ((Q.T @ problem.q[0, support])[:, None] / (values[:, None] + 1.0 / gammas))
    )
