"""Input ranking: Algorithm 1 of the paper, and the inputs that the search is given.

The score of an input is the sum of squares of the coefficients of its dependents in a ridge
regression on all f monomials:

    2 f <= n, in memory               from the moments, which need no n x n matrix
    at most 16,384 rows in memory     from one kernel matrix                (``kernel_system``)
    f <= 8192 monomials               from the moments of all rows
    else, or in a hurry               from kernels of 2048 rows at a time, scores averaged

The kernel of n rows has n^2 entries and its factorisation takes n^3/3 operations.  Divide and
conquer (Zhang, Duchi & Wainwright) ranks B rows at a time and averages,

    score_i = sum_b W_b |w_b,D(i)|^2 / W,      gamma_b = gamma W / W_b,

W_b the weight of block b: n B p operations instead of n^2 (n + p), one B x B kernel at a time, and
per row the same ridge as the whole has.  A block sees only B rows, so every score carries the noise
of a fit to B rows, about the same for all inputs; averaging lessens its scatter but not its level.
Of m blocks each has every m-th row, so that any of them is a sample of the whole table, and a
ranking that has to hurry does with some of them.

The two-step method keeps p' of the p inputs (``work_plan`` chooses p'): those that the user
requires, then the best of the ranking.  A model found after a triage is the best over the inputs
kept, and its certificate says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from polysharp.data.arrays import TorchArrays
from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InputError
from polysharp.moments.gram import MAX_DENSE, solve_spd
from polysharp.moments.moments import Moments, accumulate, moments_of
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.monomials.term_rules import TermRules
from polysharp.ranking.kernel_system import KernelSettings, KernelSystem, torch_scores
from polysharp.time_budget import OutOfTime
from polysharp.typing import Array, Indices, OnBlock


@dataclass(frozen=True, eq=False)
class Ranking:
    """The inputs in order of their scores, with the settings behind them."""

    scores: Array  # (p,): sum of squares of the coefficients of D(i)
    degree: int
    gamma: float
    n_rows: int | None = None  # that were ranked; None where that is not known

    @cached_property
    def order(self) -> Indices:
        """The inputs, best first; equal scores in order of index."""
        return np.argsort(-self.scores, kind="stable")


def rank_inputs(
    X: Array,
    y: Array,
    degree: int = 3,
    gamma: float = 1e-3,
    *,
    sample_weight: Array | None = None,
    fit_intercept: bool = False,
    on_block: OnBlock | None = None,
) -> Ranking:
    """Rank the inputs by polynomial kernel regression (Algorithm 1).

    Parameters
    ----------
    X : array (n, p)
        Inputs.  Scores compare coefficients, so bring the inputs to one scale first.
    y : array (n,)
        Response.
    degree : int, default=3
        Degree r of the polynomial kernel.
    gamma : float, default=1e-3
        Regularisation: the ridge on the coefficients is 1 / gamma.
    sample_weight : array (n,) or None, default=None
        Non-negative weights of the rows.
    fit_intercept : bool, default=False
        Fit a free, unpenalised intercept beside the kernel.  False is the paper's form.
    on_block : callable or None, default=None
        Called with (done, total) between blocks of work; an exception it raises ends the
        ranking, which is how time limits and interrupts come in.

    Returns
    -------
    Ranking
        ``scores`` and ``order``, best first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> ranking = rank_inputs(X, X[:, 2] ** 2 + X[:, 0] * X[:, 2], degree=2)
    >>> ranking.order[:2].tolist()
    [2, 0]
    """
    settings = KernelSettings(degree, gamma, fit_intercept)
    rows = MemoryRows(X, y, sample_weight)
    return Ranking(scores_of(rows, None, settings, on_block), degree, gamma, len(X))


def scores_of(
    rows: MemoryRows,
    inputs: Indices | None,
    settings: KernelSettings,
    on_block: OnBlock | None = None,
) -> Array:
    """Score some inputs (None for all) on rows in memory: through moments or one kernel."""
    X = rows.X if inputs is None else rows.columns(inputs)
    (degree, gamma, fit_intercept), arrays = settings, rows.place.arrays()
    X, y, v = checked(X, rows.y, degree, gamma, rows.sample_weight)
    n, p = X.shape
    if prefers_moments(n, p, degree):
        basis = Basis.full(p, degree)
        moments = accumulate(basis, X, y, v, arrays=arrays, on_block=on_block)
        return scores_from_moments(basis, moments, settings)
    if isinstance(arrays, TorchArrays):
        return torch_scores(arrays, (X, y, v), settings, on_block)
    system = KernelSystem(X, v, degree, gamma, on_block)
    return system.scores(system.solve(y, fit_intercept)[0])


def checked(
    X: Array, y: Array, degree: int, gamma: float, sample_weight: Array | None
) -> tuple[Array, Array, Array]:
    """Return X, y and the weights as float arrays, or say which rule they break."""
    if not isinstance(degree, int | np.integer) or degree < 1:
        raise InputError(f"degree must be an integer of at least 1, got {degree!r}")
    if not (np.isfinite(gamma) and gamma > 0):
        raise InputError(f"gamma must be positive and finite, got {gamma!r}")
    X, y = np.ascontiguousarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"X must be a table with at least one row and column, got {X.shape}")
    v = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for name, array in {"X": X, "y": y, "sample_weight": v}.items():
        if array is not X and array.shape != (len(X),):
            raise InputError(f"{name} has {array.size:,} values, X has {len(X):,} rows")
        if not np.isfinite(array).all():
            first = array[~np.isfinite(array)][0]
            raise InputError(f"{name} must have neither NaN nor inf, got {first}")
    if (v < 0).any() or not v.any():
        raise InputError(f"sample_weight must be >= 0 and not all 0, got minimum {v.min()}")
    with np.errstate(over="ignore"):
        largest = gamma * v.max() * (1.0 + np.einsum("ti,ti->t", X, X).max()) ** degree
    if not largest < 1e150:  # squares of kernel entries appear in the scores
        raise InputError(f"X must be small enough that its powers stay finite, got {abs(X).max()}")
    return X, y, v


def prefers_moments(n: int, p: int, degree: int) -> bool:
    """Whether G (f x f) is the smaller matrix by far: many rows and few monomials."""
    return 2 * count_monomials(p, degree) <= n


def scores_from_moments(basis: Basis, moments: Moments, settings: KernelSettings) -> Array:
    """Score from the coefficients w themselves."""
    w = coefficients_from_moments(moments, settings.gamma, settings.fit_intercept)
    return np.asarray((w * w) @ basis.uses)


def coefficients_from_moments(moments: Moments, gamma: float, fit_intercept: bool) -> Array:
    """Return w, the ridge regression on all monomials; the scatter's diagonal is overwritten."""
    G, q, _ = moments.normal_equations(centred=fit_intercept)
    G[np.diag_indices_from(G)] += 1.0 / gamma
    return solve_spd(G, q)


@dataclass(frozen=True)
class KernelRows:
    """How many rows one kernel matrix takes."""

    # Tables in memory up to here are ranked by one kernel, 2 GiB; 0 to rank by blocks in any case.
    whole: int = 16384
    block: int = 2048  # rows at a time beyond that: 32 MiB
    share: float = 1.0  # of the blocks that are ranked, at least one


def rank_rows(
    rows: Rows,
    inputs: Indices,
    settings: KernelSettings,
    *,
    sizes: KernelRows | None = None,
    on_block: OnBlock | None = None,
) -> Ranking:
    """Rank some inputs of rows wherever they are."""
    sizes, n_rows = KernelRows() if sizes is None else sizes, rows.shape[0]
    if rows.block is not None and len(rows.block) <= sizes.whole:
        scores = scores_of(rows.block, inputs, settings, on_block)
    elif sizes.whole and count_monomials(len(inputs), settings.degree) <= MAX_DENSE:
        basis = Basis.full(inputs.tolist(), settings.degree)
        shift = rows.y_mean if settings.fit_intercept else 0.0
        moments = moments_of(rows, basis, y_shift=shift, on_block=on_block)
        scores = scores_from_moments(basis, moments, settings)
    else:
        whole = settings._replace(gamma=settings.gamma * rows.total_weight)
        *weighted, weight, n = rows.sum_over_blocks(
            "ranking", summed_scores, inputs, whole, sizes, on_block=on_block
        )
        scores, n_rows = np.array(weighted) / weight, int(n)
    return Ranking(scores, settings.degree, settings.gamma, n_rows)


def summed_scores(
    rows: MemoryRows,
    inputs: Indices,
    settings: KernelSettings,
    sizes: KernelRows,
    on_block: OnBlock | None = None,
) -> Array:
    """Return weight times scores, then weight and number of rows, summed over blocks of rows.

    ``settings.gamma`` is gamma times the weight of all rows.  When ``on_block`` raises
    ``OutOfTime``, the sums are those of the blocks done by then.
    """
    total, count = np.zeros(len(inputs) + 2), ceil(len(rows) / sizes.block)
    ranked = max(1, round(sizes.share * count))
    for number in range(ranked):
        part = rows.take(slice(number, None, count))
        weight = part.total_weight
        own = settings._replace(gamma=settings.gamma / weight)
        total += np.append(weight * scores_of(part, inputs, own), [weight, len(part)])
        try:
            if on_block is not None:
                on_block(number + 1, ranked)
        except OutOfTime:
            break
    return total


def choose_inputs(
    size: int,
    rules: TermRules,
    rows: Rows,
    gamma: float,
    kernel: KernelRows | None = None,
    *,
    on_block: OnBlock | None = None,
) -> tuple[Indices, Ranking]:
    """Return the inputs kept, and their ranking; excluded inputs score 0."""
    p = rows.shape[1]
    allowed = rules.allowed(p)
    settings = KernelSettings(rules.degree, gamma, fit_intercept=not rules.constant)
    columns = np.array(rules.library.columns_of(allowed), dtype=np.intp)
    try:
        part = rank_rows(rows, columns, settings, sizes=kernel, on_block=on_block)
    except OutOfTime:  # one small block is better than no ranking
        part = rank_rows(rows, columns, settings, sizes=KernelRows(0, 512, 0.0))
    scores = np.zeros(p)
    # An input is worth as much as the best of its columns.
    np.maximum.at(scores, rules.library.owners[columns] if rules.library else columns, part.scores)
    ranking = Ranking(scores, part.degree, part.gamma, part.n_rows)
    return keep_best(ranking.order, rules, size), ranking


def keep_best(order: Indices, rules: TermRules, size: int) -> Indices:
    """Return the required inputs and then the best that are allowed until ``size``, sorted."""
    required = np.array(rules.required_inputs, dtype=np.intp)
    others = order[~np.isin(order, (*rules.required_inputs, *rules.exclude_inputs))]
    return np.sort(np.concatenate([required, others])[:size])
