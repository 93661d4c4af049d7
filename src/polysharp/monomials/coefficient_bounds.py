"""Bounds on coefficients: intervals that contain 0, in the user's units and scaled.

A coefficient c of a monomial of x - shift belongs to w = c prod_i unit_i / scale_j in the scaled
basis of coded variables (``scaling``).  The factor is positive, so that an interval of c is an
interval of w.  A monomial that is not chosen has w = 0; every interval therefore contains 0, and
adding a monomial never makes the best model worse.

The entry for a term takes precedence over the entries for its inputs, which apply together, and
these over the interval for all terms.  Only an entry of its own bounds the constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from polysharp.data.functions import PLAIN, Library
from polysharp.errors import InputError
from polysharp.monomials.basis import Basis
from polysharp.monomials.terms import read_inputs, read_terms
from polysharp.typing import Array, Indices, Monomial

Interval = tuple[float, float]
ANY: Interval = (-inf, inf)
OTHERS = "*"  # the user's key for all terms without an entry
LEAST = 1e-300  # smallest nonzero bound: scaling must not turn a bound into 0


class Boxes(NamedTuple):
    """low_j <= w_j <= high_j for the coefficients of some monomials; 0 is always between them.

    Several responses have a row each.
    """

    low: Array
    high: Array

    @classmethod
    def infinite(cls, shape: int | tuple[int, ...]) -> Boxes:
        """Return no bounds at all."""
        return cls(np.full(shape, -inf), np.full(shape, inf))

    def among(self, J: Indices) -> Boxes:
        """Return the boxes of some of the monomials."""
        return Boxes(*(np.ascontiguousarray(limits[..., J]) for limits in self))

    def divided(self, units: Sequence[float]) -> Boxes:
        """Return the boxes of coefficients that are divided by positive numbers, a row for each."""
        each = np.asarray(units)[:, None]
        return Boxes(*(_away_from_zero(limits / each, limits) for limits in self))

    def clip(self, w: Array) -> Array:
        """Return the nearest coefficients within the boxes."""
        return np.clip(w, self.low, self.high)


@dataclass(frozen=True)
class CoefficientBounds:
    """The user's intervals, in indices of the user's inputs."""

    everywhere: Interval = ANY
    inputs: tuple[tuple[int, Interval], ...] = ()
    terms: tuple[tuple[Monomial, Interval], ...] = ()
    unit: tuple[float, ...] = ()  # of the inputs; empty: 1 for each
    library: Library = PLAIN

    @property
    def bind(self) -> bool:
        """Whether any coefficient is bounded."""
        return self.everywhere != ANY or bool(self.inputs or self.terms)

    @cached_property
    def _own(self) -> dict[Monomial, Interval]:
        return dict(self.terms)

    def interval(self, m: Monomial) -> Interval:
        """Return the interval of a monomial's coefficient in the user's units."""
        own = self._own.get(m)
        if own is not None or not m:
            return own or ANY
        used = self.library.inputs_of(m)
        limits = [limits for i, limits in self.inputs if i in used] or [self.everywhere]
        return max(low for low, _ in limits), min(high for _, high in limits)

    def kept(self, monomials: Sequence[Monomial], coefficients: Array) -> Array:
        """Return coefficients in the user's units, clipped to their intervals."""
        if not self.bind:
            return coefficients
        low, high = np.array([self.interval(m) for m in monomials]).reshape(-1, 2).T
        return np.clip(coefficients, low, high)

    def boxes(self, basis: Basis) -> Boxes:
        """Return the intervals of the scaled coefficients of a basis."""
        if not self.bind:
            return Boxes.infinite(len(basis))
        limits = np.array([self.interval(m) for m in basis.monomials]).reshape(-1, 2)
        unit = np.array(self.unit)
        factors = np.array([np.prod(unit[list(m)]) if self.unit else 1.0 for m in basis.monomials])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled = np.where(limits == 0.0, 0.0, limits * (factors / basis.scales)[:, None])
        scaled = _away_from_zero(scaled, limits)
        return Boxes(scaled[:, 0].copy(), scaled[:, 1].copy())


UNBOUNDED = CoefficientBounds()


def read_bounds(
    given: Any, positive: Any, names: Sequence[str], library: Library = PLAIN
) -> CoefficientBounds:
    """Read ``coefficient_bounds`` and ``positive`` as users write them.

    Examples
    --------
    >>> read_bounds({"a": (0, None), "a b": (-1, 1)}, False, ["a", "b"]).terms
    (((0, 1), (-1.0, 1.0)),)
    """
    least = 0.0 if positive else -inf
    everywhere: Interval = (least, inf)
    inputs: dict[int, Interval] = {}
    terms: dict[Monomial, Interval] = {}
    if given is not None and not isinstance(given, Mapping):
        everywhere, given = _interval(given, "", least), None
    for key, pair in (given or {}).items():
        limits = _interval(pair, f" for {key!r}", least)
        if key == OTHERS and OTHERS not in names:
            everywhere = limits
        elif (isinstance(key, str) and key in names) or isinstance(key, Integral):
            inputs[read_inputs([key], names, "coefficient_bounds")[0]] = limits
        else:
            terms[read_terms([key], names, "coefficient_bounds", library)[0]] = limits
    entries = tuple(inputs.items()), tuple(terms.items())
    return CoefficientBounds(everywhere, *entries, library=library)


def _interval(pair: Any, of: str, least: float) -> Interval:
    """Read a pair; None stands for no bound."""
    if isinstance(pair, np.ndarray):
        pair = pair.tolist()
    fits = isinstance(pair, (tuple, list)) and len(pair) == 2
    if not fits or not all(v is None or _is_number(v) for v in pair):
        raise InputError(
            "coefficient_bounds must be a pair (low, high), None for no bound, or a mapping of "
            f"terms or inputs to such pairs, got {pair!r}{of}"
        )
    low = -inf if pair[0] is None else float(pair[0])
    high = inf if pair[1] is None else float(pair[1])
    if not low <= 0.0 <= high:
        raise InputError(
            "coefficient_bounds must hold 0, the coefficient of a term that is not chosen, "
            f"got {pair!r}{of}"
        )
    if not max(low, least) < high:
        rule = " with positive=True" if least == 0.0 else "; exclude_terms leaves a term out"
        raise InputError(
            f"coefficient_bounds must leave more than 0 between them{rule}, got {pair!r}{of}"
        )
    return max(low, least), high


def _away_from_zero(scaled: Array, limits: Array) -> Array:
    """Return scaled limits of intervals; keep nonzero limits away from zero."""
    gone = (limits != 0.0) & (np.abs(scaled) < LEAST)
    return np.where(gone, np.copysign(LEAST, limits), scaled)


def _is_number(v: Any) -> bool:
    return isinstance(v, Real) and not isinstance(v, bool) and not isnan(v)
