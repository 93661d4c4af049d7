"""Moments: all that the data say about a basis, in a size that does not depend on n.

With W = sum of weights, M the monomials, mbar and ybar their weighted means,

    S  = sum_t v_t (m_t - mbar)(m_t - mbar)'        scatter
    s  = sum_t v_t (m_t - mbar)(y_t - ybar)         cross
    ss = sum_t v_t (y_t - ybar)^2                   spread

Centred moments lose no digits to large means and merge exactly (Chan, Golub & LeVeque):
moments of two row blocks add with a rank-one term.  The paper's G = M'M, q = M'y, y'y are the
uncentred ones, S + W mbar mbar' and so on; a free intercept uses S, s, ss as they are.

Rows are cut into parts that every split treats alike (the folds of k-fold validation, the stretches
between the cuts of a time series); the moments of a training set are then the sum of its parts, and
those of a validation set likewise.  Nothing is ever subtracted, so no digits are lost, and no model
depends on the number of rows any more.  The mean squared error of y = b + m'w on a set of rows is a
quadratic form in its moments,

    E = (ss - 2 s'w + w'S w) / W + (ybar - b - mbar'w)^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polysharp.data.arrays import Arrays, NumpyArrays, products
from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices, OnBlock


@dataclass(frozen=True, eq=False)
class Moments:
    """Centred first and second moments of the monomials and the response; ``a + b`` merges.

    Of several responses ``y_mean`` and ``spread`` have a number each, and ``cross`` has a row.
    """

    n_rows: int
    weight: float
    mean: Array
    y_mean: Any
    scatter: Array
    cross: Array
    spread: Any

    def __add__(self, other: Moments) -> Moments:
        return Moments.merged([self, other])

    @classmethod
    def merged(cls, parts: Sequence[Moments]) -> Moments:
        """Return the moments of several sets of rows together.

        S = sum_a S_a + sum_a W_a (mbar_a - mbar)(mbar_a - mbar)', and so on.
        """
        if len({part.mean.shape for part in parts}) > 1:
            raise ValueError("moments of different bases cannot be added")
        weights = np.array([part.weight for part in parts])
        if len(parts) == 1 or not weights.any():
            return parts[0]
        shares = weights / weights.sum()
        means, y_means = (
            np.array([getattr(part, name) for part in parts]) for name in ("mean", "y_mean")
        )
        mean, y_mean = shares @ means, shares @ y_means
        steps, y_steps = means - mean, y_means - y_mean
        # In place and in the order of the parts: these matrices may be large.
        scatter = parts[0].scatter.copy(order="K")
        for part in parts[1:]:
            scatter += part.scatter
        root = np.sqrt(weights)[:, None] * steps
        scatter += (root.T @ root).T
        return cls(
            n_rows=sum(part.n_rows for part in parts),
            weight=float(weights.sum()),
            mean=mean,
            y_mean=y_mean,
            scatter=scatter,
            cross=np.sum([part.cross for part in parts], axis=0) + (weights * y_steps.T) @ steps,
            spread=sum(part.spread for part in parts) + weights @ y_steps**2,
        )

    def response(self, t: int) -> Moments:
        """Return the moments of one of several responses; shared arrays are not copied."""
        return replace(self, y_mean=self.y_mean[t], cross=self.cross[t], spread=self.spread[t])

    def uncentred(self) -> tuple[Array, Array, Any]:
        """Return G = M'M, q = M'y and y'y, the paper's form without a free intercept."""
        gram = self.scatter + np.multiply.outer(self.weight * self.mean, self.mean)
        q = self.cross + np.multiply.outer(self.weight * self.y_mean, self.mean)
        return gram, q, self.spread + self.weight * self.y_mean**2

    def normal_equations(self, *, centred: bool) -> tuple[Array, Array, Any]:
        """Return G, q and y'y, with a free intercept (centred) or without one."""
        return (self.scatter, self.cross, self.spread) if centred else self.uncentred()

    def select(self, J: Indices) -> Moments:
        """Return the moments of the monomials J only."""
        scatter, cross = self.scatter[J[:, None], J], np.ascontiguousarray(self.cross[..., J])
        return replace(self, mean=self.mean[J], scatter=scatter, cross=cross)


def moments_of(
    rows: Rows,
    basis: Basis,
    *,
    y_shift: Any = 0.0,
    several: bool = False,
    on_block: OnBlock | None = None,
) -> Moments:
    """Return the moments of monomials of the rows and of y - ``y_shift``; ``several`` y if so."""
    moments: Moments = rows.sum_over_blocks(
        "moments", _of_block, basis, y_shift, several, on_block=on_block
    )
    return moments


def _of_block(
    rows: MemoryRows, basis: Basis, y_shift: Any, several: bool, on_block: OnBlock | None = None
) -> Moments:
    y = rows.responses(several=several) - np.asarray(y_shift)[..., None]
    v, arrays = rows.sample_weight, rows.place.arrays()
    return accumulate(basis, rows.X, y, v, arrays=arrays, on_block=on_block)


def accumulate(
    basis: Basis,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    arrays: Arrays | None = None,
    on_block: OnBlock | None = None,
) -> Moments:
    """Accumulate the moments of ``basis`` over X and y, (n,) or (T, n).

    Rows are cut into blocks for the cache or the GPU; memory beyond the result is one block.  Every
    block is shifted by the means of the first one before its product is added, which keeps the
    digits that a large mean would cost; the rest of the shift is undone at the end.  The scales of
    the monomials come in where they cost less: into the rows while there are fewer rows than
    monomials, else into the scatter.
    ``on_block(rows_done, n)`` is called after each block.
    """
    n, f = X.shape[0], len(basis)
    arrays = NumpyArrays() if arrays is None else arrays
    evaluate = _evaluator(basis, arrays, scaled=n < f)
    X, y = arrays.array(X), arrays.array(y)
    weights = arrays.array(np.ones(n) if sample_weight is None else sample_weight)
    scatter = arrays.square(f)
    nothing: Any = 0.0
    first = cross = spread = y_first = nothing
    shift: Any = None
    for rows in basis.blocks(n, arrays.block_bytes):
        M, v, y_rows = evaluate(X[rows]), weights[rows], y[..., rows]
        if shift is None:
            total = float(v.sum()) or 1.0  # weights of a first block may all be zero
            shift, y_shift = (M @ v) / total, (y_rows @ v) / total
        M -= shift[:, None]
        t = y_rows - y_shift[..., None]
        cross = cross + (v * t) @ M.T
        first = first + M @ v
        spread = spread + (t * t) @ v
        y_first = y_first + t @ v
        if sample_weight is not None:
            M *= v**0.5
        scatter = arrays.add_square(scatter, M)
        if on_block is not None:
            on_block(rows.stop, n)
    assert shift is not None, "validation admits no empty table"
    shift, first, cross = map(arrays.numpy, (shift, first, cross))
    y_shift, spread, y_first = (arrays.numpy(own)[()] for own in (y_shift, spread, y_first))
    weight = float(weights.sum())
    step, y_step = first / weight, y_first / weight
    y_mean: Any = y_shift + y_step
    spread = np.maximum(0.0, spread - y_first * y_step)
    if y.ndim == 1:
        y_mean, spread = float(y_mean), float(spread)
    # One block is shifted by its own means: the rest of them is rounding.
    shifted = bool(np.any(np.abs(step) > 1e-12 * np.abs(shift)))
    scales = np.ones(f) if n < f else basis.scales
    finished = arrays.finished(scatter, first if shifted else None, step, None if n < f else scales)
    return Moments(
        n_rows=n,
        weight=weight,
        mean=scales * (shift + step),
        y_mean=y_mean,
        scatter=arrays.numpy(finished),
        cross=scales * (cross - y_first[..., None] * step),
        spread=spread,
    )


def _evaluator(basis: Basis, arrays: Arrays, *, scaled: bool) -> Callable[[Any], Any]:
    """Return a function from rows of X to the monomials (f, rows), one per contiguous row."""
    if isinstance(arrays, NumpyArrays):
        return lambda X: basis.evaluate(X, scaled=scaled).T
    degrees = np.array([len(m) for m in basis.monomials])
    graded = np.argsort(degrees, kind="stable")
    levels = []
    for d in np.unique(degrees):
        keys = [basis.monomials[j] for j in graded if degrees[j] == d]
        levels.append(np.searchsorted(basis.used, np.array(keys, dtype=np.intp)))
    scales = arrays.array(basis.scales)[:, None] if scaled else 1.0

    def evaluate(X: Any) -> Any:
        table = arrays.table(X, basis.used, "float64")
        M = arrays.join([products(arrays, table, keys) for keys in levels])
        return arrays.rows(M, np.argsort(graded)) * scales

    return evaluate


@dataclass(frozen=True)
class Plan:
    """Which parts train and which validate, split by split."""

    train: tuple[tuple[int, ...], ...]
    test: tuple[tuple[int, ...], ...]

    @classmethod
    def k_fold(cls, n_folds: int) -> Plan:
        """Every part validates once, the others train."""
        every = range(n_folds)
        train = tuple(tuple(a for a in every if a != v) for v in every)
        return cls(train, tuple((v,) for v in every))

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.train)

    @property
    def n_parts(self) -> int:
        """Number of parts in use."""
        return 1 + max(a for side in (self.train, self.test) for parts in side for a in parts)


@dataclass(frozen=True)
class RandomFolds:
    """Parts of random rows: those of block b in an order drawn from (seed, b).

    The parts of a block differ by at most one row, and depend on the seed and on how the rows are
    cut into blocks, not on who reads them.
    """

    n_parts: int
    seed: int

    def of(self, n: int, number: int) -> list[Indices]:
        """Return the rows of each part in a block of n rows."""
        rng = np.random.default_rng([self.seed, number])
        order, first = rng.permutation(n), int(rng.integers(self.n_parts))
        step = self.n_parts
        return [np.sort(order[(part - first) % step :: step]) for part in range(step)]


Parts = Sequence[Indices] | RandomFolds  # the rows of each part: listed, or random in each block


@dataclass(frozen=True, eq=False)
class PartMoments:
    """Moments of every part, None where it has no rows yet; ``a + b`` merges part by part."""

    of: tuple[Moments | None, ...]

    def __add__(self, other: PartMoments) -> PartMoments:
        pairs = zip(self.of, other.of, strict=True)
        return PartMoments(tuple(a if b is None else b if a is None else a + b for a, b in pairs))


def fold_moments(
    rows: Rows,
    basis: Basis,
    parts: Parts,
    *,
    several: bool = False,
    on_block: OnBlock | None = None,
) -> list[Moments]:
    """Return the moments of each part, of y or of ``several`` responses."""
    total: PartMoments = rows.sum_over_blocks(
        "folds", _parts_of_block, basis, parts, several, on_block=on_block
    )
    found = [moments for moments in total.of if moments is not None]
    if len(found) < len(total.of):
        raise InputError(
            f"cv must leave rows of positive weight in every fold, got {len(total.of)} folds for "
            f"{rows.shape[0]} rows"
        )
    return found


def _parts_of_block(
    rows: MemoryRows, basis: Basis, parts: Parts, several: bool, on_block: OnBlock | None = None
) -> PartMoments:
    chosen = parts.of(len(rows), rows.number) if isinstance(parts, RandomFolds) else parts
    found = []
    for done, own in enumerate(chosen, start=1):
        found.append(moments_of(rows.take(own), basis, several=several) if len(own) else None)
        if on_block is not None:
            on_block(done, len(chosen))
    return PartMoments(tuple(found))


def merge(parts: Sequence[Moments], which: Iterable[int]) -> Moments:
    """Return the moments of some parts together."""
    return Moments.merged([parts[a] for a in which])


def squared_error(rows: Moments, support: Indices, w: Array, intercept: float) -> float:
    """Return the mean squared error of a polynomial on the rows that the moments stand for."""
    S = rows.scatter[np.ix_(support, support)]
    around = rows.spread - 2.0 * float(rows.cross[support] @ w) + float(w @ (S @ w))
    offset = rows.y_mean - intercept - float(rows.mean[support] @ w)
    return float(max(0.0, around) / rows.weight + offset * offset)
