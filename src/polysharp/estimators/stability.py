"""How firmly the data hold the chosen terms: the share of bootstrap resamples that pick each.

A resample draws n rows with replacement; row t is drawn v_t times, so the fit to it is the weighted
fit with weights v (times the user's own).  With the settings unchanged,

    share_j = (number of resamples whose model has term j) / (number of resamples).

A share near one says that the choice of the term does not hang on a few rows.  A low share often
means that another term does nearly the same work, not that the term is useless.  Shares are no
probabilities that a term is true, and no certificate: a proof says that no model fits *these* rows
better, a share what would happen with other rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from time import time
from typing import Any

import numpy as np
from sklearn.base import clone

from polysharp.data.arrays import as_host
from polysharp.data.cluster import is_dask
from polysharp.engines.local_search import LocalSearch
from polysharp.errors import InputError
from polysharp.estimators.model import CertifiedModel
from polysharp.estimators.parameters import check_seed
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Stability:
    """Shares of resamples, most frequent terms first.

    Parameters
    ----------
    monomials : tuple of tuples of int
        Every term that some resample picked, or that the model has.
    term_names : tuple of str
        Their names.
    shares : ndarray
        Share of resamples that picked each term.
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
    """

    monomials: tuple[Monomial, ...]
    term_names: tuple[str, ...]
    shares: Array
    in_model: Array
    input_shares: Array
    input_names: tuple[str, ...]
    same_model: float
    n_resamples: int

    def share_of(self, monomial: Monomial) -> float:
        """Return the share of one term, 0 for terms that nothing picked.

        Parameters
        ----------
        monomial : tuple of int
            Indices of the inputs with repetition.
        """
        key = tuple(sorted(monomial))
        return float(self.shares[self.monomials.index(key)]) if key in self.monomials else 0.0

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per term."""
        import pandas as pd

        return pd.DataFrame(
            {"term": self.term_names, "share": self.shares, "in_model": self.in_model}
        )

    def __str__(self) -> str:
        """Return the model's terms and the most frequent others, with their shares."""
        few = [a for a in range(len(self.shares)) if self.in_model[a] or self.shares[a] >= 0.1]
        width = max((len(self.term_names[a]) for a in few), default=4)
        lines = [
            f"{self.term_names[a]:<{width}}  {100 * self.shares[a]:>4.0f} %"
            + ("" if self.in_model[a] else "  (not in the model)")
            for a in few
        ]
        head = f"share of {self.n_resamples} bootstrap resamples that pick each term"
        foot = f"all terms of the model and no other: {100 * self.same_model:.0f} %"
        return "\n".join([head, *lines, foot])


def stability(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    n_resamples: int = 100,
    engine: Any = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Stability:
    """Fit bootstrap resamples with the settings of a model and count the terms they pick.

    Parameters
    ----------
    estimator : SparsePolynomialRegressor or SparsePolynomialRegressorCV
        The settings, and when fitted the model to compare with; an estimator that is not fitted is
        fitted to all rows first.  Budgets chosen by validation are held fixed.
    X, y, sample_weight : arrays
        The rows of the fit.
    n_resamples : int, default=100
        Number of resamples; 100 gives shares to within about 0.1.
    engine : str, Engine or None, default=None
        How resamples are fitted.  None is a short local search, without proof.
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
    >>> model = polysharp.SparsePolynomialRegressor(degree=2, max_terms=2).fit(X, y)
    >>> print(polysharp.stability(model, X, y, n_resamples=20, random_state=0))
    share of 20 bootstrap resamples that pick each term
    x2      100 %
    x0 x1   100 %
    all terms of the model and no other: 100 %
    """
    from joblib import Parallel, delayed

    if isinstance(n_resamples, bool) or not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise InputError(f"n_resamples must be an integer of at least 1, got {n_resamples!r}")
    if is_dask(X):
        raise InputError(
            "X must be in memory to be resampled, got a Dask collection; take a sample of its rows"
        )
    settings, model = _settings(estimator, X, y, sample_weight)
    X, y, sample_weight = as_host(X), as_host(y), as_host(sample_weight)
    rng = np.random.default_rng(check_seed(random_state))
    settings = settings.set_params(
        engine=LocalSearch(patience=2) if engine is None else engine, n_jobs=None, verbose=0
    )
    deadline = None if time_limit is None else time() + time_limit
    found = Parallel(n_jobs=n_jobs)(
        delayed(_terms_of_resample)(settings, X, y, weights, seed, deadline if number else None)
        for number, (weights, seed) in enumerate(
            _resamples(rng, len(y), sample_weight, int(n_resamples))
        )
    )
    return _counted([terms for terms in found if terms is not None], model)


def _settings(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[SparsePolynomialRegressor, Polynomial]:
    """Return the settings as an unfitted estimator, and the model on all rows."""
    if not isinstance(estimator, CertifiedModel):
        raise InputError(
            "estimator must be a SparsePolynomialRegressor or SparsePolynomialRegressorCV, "
            f"got {type(estimator).__name__}"
        )
    if not hasattr(estimator, "polynomial_"):
        estimator = clone(estimator)
        if "refit" in estimator.get_params():
            estimator.set_params(refit=True)
        estimator.fit(X, y, sample_weight)
    return clone(getattr(estimator, "best_estimator_", estimator)), estimator.polynomial_


def _resamples(
    rng: np.random.Generator, n: int, sample_weight: Any, count: int
) -> list[tuple[Array, int]]:
    """Return weights and a seed for each resample; a row of weight zero is not drawn."""
    given = 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    own = np.broadcast_to(given, n)
    used = np.flatnonzero(own > 0)
    resamples = []
    for _ in range(count):
        weights = np.zeros(n)
        while np.count_nonzero(weights) < min(2, len(used)):  # one row alone is no data
            weights[:] = 0.0
            np.add.at(weights, rng.choice(used, size=len(used)), 1.0)
        resamples.append((weights * own, int(rng.integers(2**31 - 1))))
    return resamples


def _terms_of_resample(
    settings: SparsePolynomialRegressor,
    X: Any,
    y: Any,
    weights: Array,
    seed: int,
    deadline: float | None,
) -> tuple[Monomial, ...] | None:
    """Return the terms that one resample picks; None when time is up."""
    if deadline is not None and time() > deadline:
        return None
    model = clone(settings).set_params(random_state=seed)
    return tuple(model.fit(X, y, weights).polynomial_.monomials)


def _counted(found: list[tuple[Monomial, ...]], model: Polynomial) -> Stability:
    """Count terms and inputs; the model's own terms come first among equals."""
    own = set(model.monomials)
    counts = Counter(m for terms in found for m in terms)
    every = sorted(own | counts.keys(), key=lambda m: (-counts[m], m not in own, len(m), m))
    used = np.zeros(len(model.names))
    for terms in found:
        used[sorted(model.library.inputs_of(chain.from_iterable(terms)))] += 1.0
    return Stability(
        monomials=tuple(every),
        term_names=model.names_of(every),
        shares=np.array([counts[m] for m in every]) / len(found),
        in_model=np.array([m in own for m in every]),
        input_shares=used / len(found),
        input_names=model.names,
        same_model=float(np.mean([set(terms) == own for terms in found])),
        n_resamples=len(found),
    )
