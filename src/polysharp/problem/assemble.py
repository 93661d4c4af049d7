"""From data to the problem: y, M -> q = M'y, y'y and a way to ask about G = M'M.

With a free intercept b the best b for given w is ybar - mbar'w, which leaves the same problem in
the centred y and M; weights v enter as rows multiplied by sqrt(v):

    sum_t v_t (y_t - b - m_t'w)^2  =  |sqrt(v) (y - ybar) - sqrt(v) (M - mbar) w|^2.

Three forms of G, by the memory and the time they take (f monomials, n rows):

    f > 500 and n <= f / 2   the centred, weighted design M, smaller than G      (DesignGram)
    f <= 8192                G itself, at most 512 MiB                           (DenseGram)
    8 n f <= 2 GiB           the design                                          (DesignGram)
    otherwise                X, monomials evaluated when they are asked for      (StreamedGram)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.data.rows import MemoryRows, Rows
from polysharp.errors import TooLargeError
from polysharp.moments.gram import (
    MAX_DENSE,
    MAX_DENSE_GPU,
    DenseGram,
    DesignGram,
    Gram,
    StreamedGram,
)
from polysharp.moments.moments import Moments, moments_of
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import Accuracy
from polysharp.problem.problem import Problem
from polysharp.typing import Array, Indices, OnBlock


@dataclass(frozen=True)
class MemoryLimits:
    """The sizes up to which G and the design are held in memory."""

    monomials: int = MAX_DENSE
    design_bytes: int = 2 * 2**30
    few: int = 500  # monomials whose G is formed however few rows there are
    rows_share: float = 0.5  # rows per monomial up to which a search needs M rather than G

    def forms_gram(self, rows: Rows, f: int) -> bool:
        """Whether G of f monomials is formed."""
        small = f > self.few and rows.shape[0] <= self.rows_share * f
        return f <= self.monomials and (rows.block is None or rows.place.on_gpu or not small)


@dataclass(frozen=True, eq=False)
class Assembled:
    """A problem with the means that centring took away (zero without a free intercept)."""

    problem: Problem
    mean: Array
    y_means: Array  # of each response

    def intercept(self, support: tuple[int, ...], w: Array, response: int = 0) -> float:
        """Return b = ybar - mbar_S'w, the intercept that belongs to a response's coefficients."""
        return float(self.y_means[response] - self.mean[list(support)] @ w)


def assemble(
    rows: Rows,
    basis: Basis,
    structure: Structure,
    *,
    lam: float,
    fit_intercept: bool,
    tables: Sequence[Rows] = (),
    limits: MemoryLimits | None = None,
    on_block: OnBlock | None = None,
    moments: Moments | None = None,
) -> Assembled:
    """Build the problem over a list of monomials.

    If there are several responses, ``tables`` has the rows of each, and ``rows`` have them all.
    ``on_block(done, total)`` follows the pass over the rows, which is left out if the ``moments``
    are known.
    """
    if limits is None:
        limits = MemoryLimits(MAX_DENSE_GPU if rows.place.on_gpu else MAX_DENSE)
    block, several, mean = rows.block, bool(tables), np.zeros(len(basis))
    y_means = np.array([own.y_mean if fit_intercept else 0.0 for own in tables or [rows]])
    y_shift = y_means if several else y_means[0]
    gram: Gram
    if limits.forms_gram(rows, len(basis)):
        if moments is None:
            moments = moments_of(rows, basis, y_shift=y_shift, several=several, on_block=on_block)
        G, q, yy = moments.normal_equations(centred=fit_intercept)
        gram, mean = DenseGram(G, moments.n_rows), moments.mean if fit_intercept else mean
    elif block is None:
        raise TooLargeError(
            f"n_candidates must leave at most {limits.monomials} monomials for Dask collections, "
            f"and the {basis.n_inputs} inputs kept have {len(basis):,}; "
            "lower n_candidates or degree"
        )
    else:
        Y = block.responses(several=several) - y_shift[..., None]
        yy = np.einsum("...n,...n->...", block.weights * Y, Y)
        if 8 * len(block) * len(basis) <= limits.design_bytes:
            gram, q, mean = _designed(basis, block, Y, fit_intercept)
        else:
            gram, q, mean = _streamed(basis, block, Y, fit_intercept, on_block)
    if several:
        structure = structure.in_units([own.y_unit for own in tables])
    known = Accuracy.of(
        gram.diagonal, yy, rows.shape[0], weight=rows.total_weight, mean=mean, y_mean=y_means
    )
    misfit = None
    if block is not None:
        given = np.atleast_2d(block.responses(several=several))
        misfit = RowMisfit(basis, block, given, mean, y_means)
    return Assembled(Problem(gram, q, yy, lam, structure, known, misfit), mean, y_means)


@dataclass(frozen=True, eq=False)
class RowMisfit:
    """The residuals of a model, from the rows themselves: see ``Problem.misfit``."""

    basis: Basis
    rows: MemoryRows
    responses: Array  # (T, n)
    mean: Array
    y_means: Array

    def __call__(self, support: Indices, W: Array) -> tuple[Array, Array]:
        """Return the sums of squares of the residuals, and the norms of their summands."""
        basis, mean, rows = self.basis.select(support), self.mean[support], self.rows
        squares, reach = np.zeros((2, len(W)))
        for some in basis.blocks(len(rows)):
            M, Y, v = basis.evaluate(rows.X[some]), self.responses[:, some], rows.weights[some]
            A = (Y - self.y_means[:, None]) - W @ (M - mean).T
            size = np.abs(Y) + np.abs(self.y_means)[:, None]
            size += np.abs(W) @ (np.abs(M) + np.abs(mean)).T
            squares += (A * A) @ v
            reach += (size * size) @ v
        return squares, np.sqrt(reach)


def _designed(
    basis: Basis, rows: MemoryRows, Y: Array, fit_intercept: bool
) -> tuple[Gram, Array, Array]:
    """Answer from the design, which is held; return q and the means with it."""
    M, root = basis.evaluate(rows.X), np.sqrt(rows.weights)
    mean = np.zeros(len(basis))
    if fit_intercept:
        mean = rows.weights @ M / rows.total_weight
        M -= mean
    if rows.sample_weight is not None:
        M *= root[:, None]
    return DesignGram.of(M), (root * Y) @ M, mean


def _streamed(
    basis: Basis, rows: MemoryRows, Y: Array, fit_intercept: bool, on_block: OnBlock | None
) -> tuple[Gram, Array, Array]:
    """Answer from X; return q and the means with it."""
    n, root, mean = len(rows), np.sqrt(rows.weights), np.zeros(len(basis))
    if fit_intercept:
        for some in basis.blocks(n):
            mean += rows.weights[some] @ basis.evaluate(rows.X[some])
        mean /= rows.total_weight
    streamed = StreamedGram(basis, rows.X, root, mean, np.zeros(len(basis)))
    q: Any = 0.0
    for some, M in zip(basis.blocks(n), streamed.design(), strict=True):
        q = q + (root[some] * Y[..., some]) @ M
        streamed.diagonal[:] += np.einsum("tj,tj->j", M, M)
        if on_block is not None:
            on_block(some.stop, n)
    return streamed, q, mean
