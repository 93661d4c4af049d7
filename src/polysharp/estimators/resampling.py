"""The settings of a fitted model on the same rows, weighted anew, and how firmly these hold it.

A bootstrap resample draws n rows with replacement, and a row drawn v times is a row of weight v; a
fold is held out by weights of zero.  Both are the weighted fit, with the model's settings, of

    weights drawn * the user's own.

Budgets and ridge are those of the model; terms are chosen anew, by a short local search that begins
from the model's terms among others.  Of the resamples, ``stability`` reports

    share_j = (number of resamples whose model has term j) / (number of resamples),

and the coefficient of term j in a resample that does not pick it is zero.  With ``within``, the
formulas that cost at most this share more than the best one of a resample count as well
(``rivals``), each as an equal part of it: what the rows cannot tell apart, the interval does not
either.  The middle 90 % of these coefficients are an interval that takes the choice of terms into
account, which the textbook's intervals for given terms do not: those are too narrow whenever the
same rows chose the terms.

A share near one says that the choice of the term does not hang on a few rows.  A low share often
means that another term does nearly the same work, not that the term is useless.  Shares are no
probabilities that a term is true, and no certificate: a proof says that no model fits *these* rows
better, a share what would happen with other rows.  Nor are the intervals confidence intervals of a
true coefficient: the ridge shrinks coefficients in every resample alike, which resampling cannot
see, so the coefficients without ridge stand beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from polysharp.data.arrays import as_host
from polysharp.data.cluster import is_dask
from polysharp.data.rows import MemoryRows
from polysharp.engines.local_search import LocalSearch
from polysharp.errors import InputError, load_optional
from polysharp.estimators.fitted_model import Leverage
from polysharp.estimators.model import check_coverage, check_single, formulas_of
from polysharp.estimators.parameters import check_parameters, check_seed
from polysharp.estimators.preparation import FitContext
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.rivals import rivals_of
from polysharp.estimators.scored_rows import score_rows
from polysharp.polynomial.importance import without_ridge
from polysharp.polynomial.polynomial import Polynomial
from polysharp.progress import Progress
from polysharp.typing import Array, Monomial
from polysharp.wording import plural

Draw = tuple[Array, int]  # weights of the rows, and a seed
ANY_GAP = 0.999  # of a fit whose proof nobody asks for
MOST_RIVALS = 100  # of one resample, the best ones


class Refit(NamedTuple):
    """What one fit found, in the user's names and units, and the formulas that come close."""

    formulas: tuple[Polynomial, ...]  # one for each response
    leverage: Leverage
    rivals: tuple[Polynomial, ...]  # the formula itself, or the best one met, first


def refits(
    model: Any,
    given: tuple[Any, Any, Any],
    draws: Sequence[Draw],
    *,
    engine: Any = None,
    within: float = 0.0,
    n_jobs: int | None = None,
    time_limit: float | None = None,
) -> list[Refit]:
    """Fit with the settings of a model to every draw of the rows ``given`` of positive weight.

    ``engine`` is a short local search by default; several responses have no such engine, and the
    tree ends where it has begun.  When time is up, draws not begun are left out, but for the first.
    """
    settings = clone(getattr(model, "best_estimator_", model)).set_params(
        gamma=model.gamma_, refit_gamma=model.refit_gamma_, n_jobs=None, verbose=0
    )
    if model._several:
        settings.set_params(gap_tol=ANY_GAP)
    else:
        settings.set_params(engine=LocalSearch(patience=2) if engine is None else engine)
    tables = settings._open(tuple(map(as_host, given)), Progress())
    terms, deadline = formulas_of(model)[0].monomials, None
    if time_limit is not None:
        deadline = time() + time_limit
    found = Parallel(n_jobs=n_jobs)(
        delayed(_refit)(settings, tables, terms, draw, within, deadline if number else None)
        for number, draw in enumerate(draws)
    )
    return [refit for refit in found if refit is not None]


def _refit(
    settings: SparsePolynomialRegressor,
    tables: Sequence[MemoryRows],
    terms: Sequence[Monomial],
    draw: Draw,
    within: float,
    deadline: float | None,
) -> Refit | None:
    if deadline is not None and time() > deadline:
        return None
    drawn, seed = draw
    chosen = np.flatnonzero(drawn > 0.0)
    some = [
        replace(own.take(chosen), sample_weight=own.weights[chosen] * drawn[chosen])
        for own in tables
    ]
    one = clone(settings).set_params(random_state=seed)
    with FitContext.of(one) as context:
        one._fit_tables(some, context, [terms])
    formulas = one.fitted_.polynomials
    close = formulas[:1]
    if within:
        left = one.time_limit if deadline is None else max(deadline - time(), 1e-3)
        close = rivals_of(one, some[0], within, MOST_RIVALS, left).polynomials
    return Refit(formulas, one.fitted_.leverage, close)


def bootstrap(seed: int, n: int, count: int) -> list[Draw]:
    """Return how often each of n rows is drawn in each resample, and a seed for it."""
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(count):
        weights = np.zeros(n)
        while np.count_nonzero(weights) < min(2, n):  # one row alone is no data
            weights = np.bincount(rng.choice(n, size=n), minlength=n).astype(np.float64)
        draws.append((weights, int(rng.integers(2**31 - 1))))
    return draws


@dataclass(frozen=True, eq=False)
class Stability:
    """Shares of resamples, most frequent terms first.

    Parameters
    ----------
    monomials : tuple of tuples of int
        Every term that a resample picked or that the model has.
    term_names : tuple of str
        Their names.
    shares : ndarray
        Share of resamples that picked each term, formulas of one resample in equal parts.
    in_model : ndarray of bool
        Whether the model fitted to all rows has the term.
    input_shares : ndarray of shape (p,)
        Share of resamples whose model uses each input.
    input_names : tuple of str
        Names of the inputs.
    same_model : float
        Share of resamples that picked exactly the model's terms.
    n_resamples : int
        Resamples that were fitted.
    coefficients : ndarray of shape (n_terms,)
        Coefficients of the model, 0 for terms that it does not have.
    without_ridge : ndarray of shape (n_terms,)
        Least-squares coefficients of the model's terms on all rows, 0 for other terms.
    resampled : ndarray of shape (n_formulas, n_terms)
        Coefficients in every formula, one for each resample or, with ``within``, several; 0 for
        terms that it does not have.
    weights : ndarray of shape (n_formulas,)
        Weight of each formula; they add up to 1.
    within : float
        How much worse than the best formula of a resample others may be.
    """

    monomials: tuple[Monomial, ...]
    term_names: tuple[str, ...]
    shares: Array
    in_model: Array
    input_shares: Array
    input_names: tuple[str, ...]
    same_model: float
    n_resamples: int
    coefficients: Array
    without_ridge: Array
    resampled: Array
    weights: Array
    within: float

    def intervals(self, coverage: float = 0.9) -> Array:
        """Return the middle share ``coverage`` of each coefficient, shape (n_terms, 2).

        A resample that does not pick a term counts as zero, so an interval that contains zero means
        that the term may as well be absent.  All resamples share the effect of the ridge;
        ``without_ridge`` shows it.
        """
        check_coverage(coverage)
        tail = 0.5 * (1.0 - float(coverage))
        limits = np.array([tail, 1.0 - tail])
        found = [_quantiles(c, self.weights, limits) for c in self.resampled.T]
        return np.array(found).reshape(-1, 2)

    def share_of(self, monomial: Monomial) -> float:
        """Return the share of one term, its inputs with repetition; 0 where nothing picked it."""
        key = tuple(sorted(monomial))
        return float(self.shares[self.monomials.index(key)]) if key in self.monomials else 0.0

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per term; the interval is that of 90 %."""
        pd = load_optional("pandas", "to_frame", "cli")
        low, high = self.intervals().T
        return pd.DataFrame(
            {
                "term": self.term_names,
                "share": self.shares,
                "in_model": self.in_model,
                "coefficient": self.coefficients,
                "lower": low,
                "upper": high,
                "without_ridge": self.without_ridge,
            }
        )

    def __str__(self) -> str:
        """Return the model's terms and the most frequent others, with shares and intervals."""
        few = [a for a in range(len(self.shares)) if self.in_model[a] or self.shares[a] >= 0.1]
        width = max((len(self.term_names[a]) for a in few), default=4)
        limits = self.intervals()
        lines = [f"{'':<{width}}   share  coefficient   90 % of resamples    without ridge"]
        for a in few:
            line = f"{self.term_names[a]:<{width}}  {100 * self.shares[a]:>4.0f} %"
            between = f"{limits[a, 0]:.4g} to {limits[a, 1]:.4g}"
            fitted, plain = (f"{c[a]:.4g}" for c in (self.coefficients, self.without_ridge))
            if not self.in_model[a]:
                fitted, plain = "-", "(not in the model)"
            lines.append(f"{line}  {fitted:>11}  {between:^20}  {plain:>12}".rstrip())
        head = f"{self.n_resamples} bootstrap resamples, the terms of each chosen anew"
        if self.within:
            head += f", with {plural(len(self.resampled), 'formula')}"
            head += f" within {100 * self.within:.3g} % of the best of each"
        foot = f"all terms of the model and no other: {100 * self.same_model:.0f} %"
        return "\n".join([head, *lines, foot])


def stability(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    n_resamples: int = 100,
    within: float = 0.0,
    engine: Any = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Stability:
    """Fit bootstrap resamples with the settings of a model, and count the terms that they pick.

    Parameters
    ----------
    estimator : SparsePolynomialRegressor or SparsePolynomialRegressorCV
        The settings and the model to compare with; an estimator that is not fitted is fitted to all
        rows first.  Budgets and gamma stay fixed, even if cross-validation chose them.
    X, y, sample_weight : arrays
        The rows of the fit.
    n_resamples : int, default=100
        Number of resamples; 100 gives shares to within about 0.1.
    within : float, default=0.0
        Also count the rivals of each resample within this share of its best objective (at most a
        hundred), each as an equal part of the resample.  0.01 is a fair choice; it takes the time
        of ``rivals`` for each resample.
    engine : str, Engine or None, default=None
        Engine for the resamples.  None is a short local search from the model's terms, without
        proof.
    time_limit : float or None, default=None
        Seconds for all; resamples not begun by then are left out (the first is always fitted).
    n_jobs : int or None, default=None
        Jobs of joblib.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the resamples.

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np
    >>> import polysharp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 3))
    >>> y = X[:, 0] * X[:, 1] - X[:, 2] + 0.5 * rng.standard_normal(80)
    >>> model = polysharp.SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0).fit(X, y)
    >>> print(polysharp.stability(model, X, y, n_resamples=20, random_state=0))
    20 bootstrap resamples, the terms of each chosen anew
            share  coefficient   90 % of resamples    without ridge
    x2      100 %      -0.9695    -1.09 to -0.8734         -0.9748
    x0 x1   100 %       0.9589    0.8976 to 1.053            0.966
    all terms of the model and no other: 100 %
    """
    check_parameters({"n_resamples": n_resamples, "within": within})
    if is_dask(X):
        raise InputError(
            "X must be in memory to be resampled, got a Dask collection; take a sample of its rows"
        )
    check_single(estimator, "estimator")
    model = estimator
    if not hasattr(model, "polynomial_"):
        model = clone(estimator)
        if "refit" in model.get_params():
            model.set_params(refit=True)
        model.fit(X, y, sample_weight)
    rows = score_rows(model, X, y, sample_weight)
    draws = bootstrap(check_seed(random_state), rows.n, int(n_resamples))
    options = {"engine": engine, "n_jobs": n_jobs, "time_limit": time_limit}
    found = refits(model, (X, y, sample_weight), draws, within=float(within), **options)
    free = bool(getattr(model, "best_estimator_", model).fit_intercept)
    law = model.polynomial_
    plain = without_ridge(law, rows.X, rows.observed, rows.weights, free_intercept=free)
    return _counted([refit.rivals for refit in found], law, plain, float(within))


def _quantiles(values: Array, weights: Array, limits: Array) -> Array:
    """Return quantiles of weighted values; of equal weights, those of ``np.quantile``."""
    order = np.argsort(values, kind="stable")
    w = weights[order]
    middle = np.cumsum(w) - 0.5 * w
    middle -= middle[0]
    return np.asarray(np.interp(limits * middle[-1], middle, values[order]))


def _counted(
    resamples: Sequence[tuple[Polynomial, ...]], model: Polynomial, plain: Array, within: float
) -> Stability:
    """Count terms and inputs; the model's own terms come first among equals."""
    own = dict(zip(model.monomials, zip(model.coefficients, plain, strict=True), strict=True))
    found = [law for laws in resamples for law in laws]
    weights = np.repeat([1.0 / len(laws) for laws in resamples], [len(laws) for laws in resamples])
    counts: dict[Monomial, float] = defaultdict(float)
    for law, weight in zip(found, weights.tolist(), strict=True):
        for m in law.monomials:
            counts[m] += weight
    every = sorted(own | counts, key=lambda m: (-round(counts[m], 9), m not in own, len(m), m))
    place = {m: a for a, m in enumerate(every)}
    used, resampled = np.zeros(len(model.names)), np.zeros((len(found), len(every)))
    for row, law, weight in zip(resampled, found, weights.tolist(), strict=True):
        used[list(law.inputs)] += weight
        # In products of x less the model's means, not less the resample's own; likewise of ranges.
        moved = law.about(model.shifts)
        coefficients = dict(zip(moved.monomials, moved.coefficients, strict=True))
        row[[place[m] for m in law.monomials]] = [coefficients.get(m, 0.0) for m in law.monomials]
    fitted = np.array([own.get(m, (0.0, 0.0)) for m in every]).reshape(-1, 2)
    same = [set(law.monomials) == own.keys() for law in found]
    return Stability(
        monomials=tuple(every),
        term_names=model.names_of(every),
        shares=(np.array([counts[m] for m in every]) / len(resamples)).clip(max=1.0),
        in_model=np.array([m in own for m in every]),
        input_shares=(used / len(resamples)).clip(max=1.0),
        input_names=model.names,
        same_model=float(weights @ same) / len(resamples),
        n_resamples=len(resamples),
        coefficients=fitted[:, 0],
        without_ridge=fitted[:, 1],
        resampled=resampled,
        weights=weights / len(resamples),
        within=within,
    )
