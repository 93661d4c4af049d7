"""Moments: all that the data say about a basis, in a size that does not depend on n.

With W = sum of weights, M the monomials, mbar and ybar their weighted means,

    S  = sum_t v_t (m_t - mbar)(m_t - mbar)'        scatter
    s  = sum_t v_t (m_t - mbar)(y_t - ybar)         cross
    ss = sum_t v_t (y_t - ybar)^2                   spread

Centred moments lose no digits to large means and merge exactly (Chan, Golub & LeVeque):
moments of two row blocks add with a rank-one term.  The paper's G = M'M, q = M'y, y'y are the
uncentred ones, S + W mbar mbar' and so on; a free intercept uses S, s, ss as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.arrays import Arrays, NumpyArrays, products
from polysharp.data.rows import MemoryRows, Rows
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

    def with_responses(self, rows: MemoryRows, basis: Basis) -> Moments:
        """Return the moments of these rows with all of their several responses."""
        assert rows.several is not None
        y_mean = rows.several.values @ (rows.weights / rows.total_weight)
        cross, spread = response_sums(rows, basis, self.mean, y_mean)
        return replace(self, y_mean=y_mean, cross=cross, spread=spread)

    def response(self, t: int) -> Moments:
        """Return the moments of one of several responses; what is shared is not copied."""
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


class ResponseSums(NamedTuple):
    """Products of several responses with the monomials and with themselves, one row each."""

    cross: Array
    spread: Array

    def __add__(self, other: Any) -> ResponseSums:
        return ResponseSums(self.cross + other.cross, self.spread + other.spread)


def response_sums(rows: Rows, basis: Basis, mean: Array, y_means: Array) -> ResponseSums:
    """Add up the products of several responses about given means."""
    sums: ResponseSums = rows.sum_over_blocks("responses", _sums_of_block, basis, mean, y_means)
    return sums


def _sums_of_block(rows: MemoryRows, basis: Basis, mean: Array, y_means: Array) -> ResponseSums:
    assert rows.several is not None
    Y = rows.several.values - y_means[:, None]
    weighted, cross = rows.weights * Y, np.zeros((len(Y), len(basis)))
    for some in basis.blocks(len(rows)):
        cross += weighted[:, some] @ (basis.evaluate(rows.X[some]) - mean)
    return ResponseSums(cross, np.einsum("tn,tn->t", weighted, Y))


def moments_of(
    rows: Rows, basis: Basis, *, y_shift: float = 0.0, on_block: OnBlock | None = None
) -> Moments:
    """Return the moments of monomials of the rows, and of y - ``y_shift``."""
    moments: Moments = rows.sum_over_blocks("moments", _of_block, basis, y_shift, on_block=on_block)
    return moments


def _of_block(
    rows: MemoryRows, basis: Basis, y_shift: float, on_block: OnBlock | None = None
) -> Moments:
    y, v, arrays = rows.y - y_shift, rows.sample_weight, rows.place.arrays()
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
    """Accumulate the moments of ``basis`` over X, y, cut into blocks for the cache or the GPU.

    Memory beyond the result is one block of rows.  Every block is shifted by the means of the
    first one before its product is added, which keeps the digits that a large mean would cost;
    the rest of the shift is undone at the end.  The scales of the monomials come in where they
    cost less: into the rows while there are fewer rows than monomials, else into the scatter.
    ``on_block(rows_done, n)`` is called after each block.
    """
    n, f = X.shape[0], len(basis)
    arrays = NumpyArrays() if arrays is None else arrays
    evaluate = _evaluator(basis, arrays, scaled=n < f)
    X, y = arrays.array(X), arrays.array(y)
    weights = arrays.array(np.ones(n) if sample_weight is None else sample_weight)
    scatter = arrays.square(f)
    cross, first = arrays.array(np.zeros((2, f)))
    shift: Any = None
    y_shift, spread, y_first = 0.0, 0.0, 0.0
    for rows in basis.blocks(n, arrays.block_bytes):
        M, v = evaluate(X[rows]), weights[rows]
        if shift is None:
            total = float(v.sum()) or 1.0  # weights of a first block may all be zero
            shift, y_shift = (M @ v) / total, float(v @ y[rows]) / total
        M -= shift[:, None]
        t = y[rows] - y_shift
        cross += M @ (v * t)
        first += M @ v
        spread += float(v @ (t * t))
        y_first += float(v @ t)
        if sample_weight is not None:
            M *= v**0.5
        scatter = arrays.add_square(scatter, M)
        if on_block is not None:
            on_block(rows.stop, n)
    assert shift is not None, "validation admits no empty table"
    shift, first, cross = map(arrays.numpy, (shift, first, cross))
    weight = float(weights.sum())
    step, y_step = first / weight, y_first / weight
    # One block is shifted by its own means: what is left of them is rounding.
    shifted = bool(np.any(np.abs(step) > 1e-12 * np.abs(shift)))
    scales = np.ones(f) if n < f else basis.scales
    finished = arrays.finished(scatter, first if shifted else None, step, None if n < f else scales)
    return Moments(
        n_rows=n,
        weight=weight,
        mean=scales * (shift + step),
        y_mean=y_shift + y_step,
        scatter=arrays.numpy(finished),
        cross=scales * (cross - y_first * step),
        spread=max(0.0, spread - y_first * y_step),
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
