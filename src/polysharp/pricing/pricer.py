"""Pricing: the largest |m_j'a| over all f monomials of degree <= r, none of them formed.

All correlations come from matrix products (``panels``), n f multiply-adds in all.  They run in
float32 where asked, in chunks of C rows that are added in float64: with unit roundoff u,

    |error| <= (C + 2 r + 12) u sum_t |x_i x_j a x_k| <= (C + 2 r + 12) u |x_i|_4 |x_j a|_2 |x_k|_4,

at degree 3 (with products of inputs for x_i and x_k beyond), so candidates are kept with that
margin and confirmed in float64: no monomial is missed, and the returned threshold bounds every
monomial that is not returned.

Sample weights v and a free intercept only change the vector: with M centred,
M_c'V a = M'(V a - v (v'a) / sum v).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.data.arrays import Arrays, NumpyArrays
from polysharp.errors import InputError
from polysharp.monomials.basis import count_monomials
from polysharp.pricing.panels import Keep, Keys, Panel, PanelSizes, norm_powers, panels
from polysharp.pricing.sweep import SLACK, Sweep
from polysharp.typing import Array, Indices, Monomial, OnBlock, Precision


@dataclass(frozen=True, eq=False)
class Priced:
    """The monomials with the largest |m_j'a|, best first, and a bound on all others."""

    monomials: tuple[Monomial, ...]
    correlations: Array  # m_j'a on the scaled monomials, with sign
    threshold: float  # no monomial that is not listed exceeds this in magnitude
    error: float = 0.0  # rounding of a correlation that is listed

    @classmethod
    def of(
        cls, monomials: tuple[Monomial, ...], listed: Array, error: float, *, all_listed: bool
    ) -> Priced:
        """Bound what is not listed by the last one that is."""
        threshold = 0.0 if all_listed else float(np.abs(listed).min()) + error
        return cls(monomials, listed, threshold, error)

    @property
    def values(self) -> Array:
        """|m_j'a|."""
        return np.abs(self.correlations)


class Pricer:
    """Price vectors against all monomials of some inputs of X, scaled as the basis will see them.

    ``keep`` says which monomials count, given as an integer array (m, d) of monomials of one
    degree.  With weights v correlations are M'V a; with ``fit_intercept`` they are those with
    centred monomials, and the constant is left out.  ``precision`` is that of the matrix products,
    None for the library's fastest: what is returned is exact to float64 either way.
    """

    def __init__(
        self,
        X: Any,
        degree: int,
        *,
        lowest: int = 0,
        inputs: Sequence[int] | Indices | None = None,
        keep: Keep | None = None,
        sample_weight: Array | None = None,
        fit_intercept: bool = False,
        precision: Precision | None = None,
        arrays: Arrays | None = None,
        sizes: PanelSizes | None = None,  # how the work is cut; None for what suits the table
        slack: int = SLACK,
    ) -> None:
        self.arrays: Arrays = NumpyArrays() if arrays is None else arrays
        self.n, self.degree, self.lowest, self.keep = int(X.shape[0]), degree, lowest, keep
        self.inputs = np.unique(np.arange(X.shape[1]) if inputs is None else np.asarray(inputs))
        self.weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        self.fit_intercept, self.sizes, self.slack = fit_intercept, sizes, slack
        self.exact_table = self.arrays.table(X, self.inputs, "float64")
        self._measure()
        wanted = self.arrays.best_precision if precision is None else precision
        fits_single = self.n * self.reach**degree < 1e30
        self.precision: Precision = wanted if fits_single else "float64"
        self.table = self.exact_table
        if self.precision == "float32":
            self.table = self.arrays.table(X, self.inputs, "float32")

    def _measure(self) -> None:
        """Take the norms of the inputs that the error bounds are made of."""
        with np.errstate(over="ignore"):
            self.squares = self.exact_table * self.exact_table
            self.norms = {
                power: self.arrays.numpy((self.squares ** (power // 2)).sum(1)) ** (1.0 / power)
                for power in norm_powers(self.degree)
            }
        self.reach = max(1.0, float(self.norms[8].max(initial=0.0)))  # no |x_ti| is larger
        if not self.n * self.reach ** (2 * self.degree) < 1e300:
            raise InputError("X must be finite and so small that its powers stay finite")

    @property
    def n_monomials(self) -> int:
        """Number f of monomials that are priced, before ``keep``."""
        p, lowest = len(self.inputs), max(self.lowest, int(self.fit_intercept))
        below = count_monomials(p, lowest - 1) if lowest else 0
        return count_monomials(p, self.degree) - below

    def among(self, keep: Keep) -> Pricer:
        """Return a pricer of the same data for the monomials that pass ``keep`` as well."""
        narrower, mine = copy(self), self.keep
        narrower.keep = keep if mine is None else lambda keys: mine(keys) & keep(keys)
        return narrower

    def price(self, a: Array, top: int, *, on_block: OnBlock | None = None) -> Priced:
        """Return the ``top`` monomials of largest |m_j'a|.

        ``on_block(done, total)`` counts monomials; an exception it raises ends the pass.
        """
        if top < 1:
            raise InputError(f"top must be at least 1, got {top!r}")
        direction = self.direction(a)
        peak = float(np.abs(direction).max(initial=0.0))
        if peak == 0.0:
            return self._all_zero(top)
        sweep = Sweep(self, direction / peak, top)
        keys, correlations = sweep.run(on_block)
        correlations *= peak
        all_listed = len(correlations) < top or top >= self.n_monomials
        return Priced.of(
            self.monomials(keys), correlations, peak * sweep.exact_error, all_listed=all_listed
        )

    def panels(self, on_block: OnBlock | None) -> Iterator[Panel]:
        """Yield the panels of all monomials; count the monomials of those that are done."""
        p, constant, done = len(self.inputs), not self.fit_intercept, 0
        sizes = self.sizes or PanelSizes.of(self.n, p, self.arrays.stack)
        for panel in panels(p, self.degree, sizes, constant=constant, lowest=self.lowest):
            yield panel
            done += panel.count
            if on_block is not None:
                on_block(done, self.n_monomials)

    def direction(self, a: Array) -> Array:
        """Return the vector that plain monomials are multiplied with: weighted, centred."""
        a = np.asarray(a, dtype=np.float64)
        if a.shape != (self.n,) or not np.isfinite(a).all():
            raise InputError(f"a must be finite with one value per row, {self.n}: {a.shape}")
        v = np.ones(self.n) if self.weight is None else self.weight
        direction = v * a
        return direction - v * (direction.sum() / v.sum()) if self.fit_intercept else direction

    def monomials(self, keys: Keys) -> tuple[Monomial, ...]:
        """Return keys as tuples of the indices of X's columns."""
        names = self.inputs.tolist()
        return tuple(tuple(names[i] for i in key if i >= 0) for key in keys.tolist())

    def kept(self, keys: Keys) -> NDArray[np.bool_]:
        """Apply the caller's rule to monomials of one degree."""
        if self.keep is None:
            return np.ones(len(keys), dtype=bool)
        return self.keep(self.inputs[keys].astype(np.int32).reshape(keys.shape))

    def _all_zero(self, top: int) -> Priced:
        """Every correlation is zero: the first monomials of the basis win the tie."""
        first = max(self.lowest, int(self.fit_intercept))
        everything = (
            m
            for d in range(first, self.degree + 1)
            for m in combinations_with_replacement(self.inputs.tolist(), d)
            if self.keep is None or self.keep(np.array([m], dtype=np.int32).reshape(1, d))[0]
        )
        monomials = tuple(islice(everything, top))
        return Priced(monomials, np.zeros(len(monomials)), 0.0)
