"""A lower bound over all f monomials from one vector that has been priced.

For any vector a and a part of the search space in which the monomials O are in and at most L
others may join them, with Z_j = (m_j'a)^2 / (2 lam), weak duality at the best multiple t a gives

    bound = 1/2 (y'a)^2 / W,     W = |a|^2 + 2 sum_O Z_j + 2 top_L(Z),     t = y'a / W,

where top_L runs over every monomial that may join: pricing lists the largest ones and bounds the
rest.  Where coefficients are bounded their prices are those of ``bounds``, of the monomials listed;
the others keep theirs without bounds, which is no less, and t is chosen once.

A support that contains a monomial j beyond the L largest costs at least

    bound + t^2 (Z_(L) - Z_j),

so that the monomials for which this is below the incumbent, the survivors, are all that matter.

Any vector will do, hence rounding in how a was made is harmless; that of y'a, |a|^2 and m_j'a is
bounded and always taken to the side that lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polysharp.monomials.coefficient_bounds import ANY
from polysharp.pricing.columns import RowVector
from polysharp.pricing.pricer import Priced
from polysharp.problem import bounds
from polysharp.problem.bounds import UNIT
from polysharp.typing import Array, Monomial

if TYPE_CHECKING:
    from polysharp.engines.columns.priced_run import PricedRun

Allows = Callable[[Monomial], bool]


class Bounded(NamedTuple):
    """What a dual point proves about a part of the search space."""

    bound: float
    t: float
    last: float  # Z_(L)


class Survivors(NamedTuple):
    """Monomials that may be in a support below a cost, and what supports with others cost."""

    monomials: list[Monomial]
    others: float
    along: list[Monomial] | None = None  # whose columns prove that, if it is not a dual point


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A multiple of a vector y - M w with its prices."""

    w: dict[Monomial, float]
    multiple: float
    ya: float
    aa: float
    prices: dict[Monomial, float]  # Z_j of the monomials listed, largest first
    known: dict[Monomial, float]  # Z_j of further monomials
    rest: float  # no monomial that is not listed has a larger price
    complete: bool  # whether every monomial that may be priced is listed
    yy: float
    scalable: bool  # whether another multiple of a may serve a part of the search space
    reach: float  # |y| + sum |w_j| |m_j|

    @classmethod
    def of(
        cls,
        search: PricedRun,
        w: dict[Monomial, float],
        a: RowVector,
        priced: Priced,
        extra: Iterable[Monomial] = (),
        reach: float = 0.0,
    ) -> DualPoint:
        """Combine a vector and its prices; ``extra`` monomials get theirs as well."""
        design, lam, terms = search.design, search.lam, search.rules.max_terms
        unit, error = 2.0 * (design.n + 16) * UNIT, priced.error + a.drift
        ya, aa = a.ya - unit * float(np.sqrt(a.raw * design.yy)), a.aa + unit * a.raw
        boxes, scalable = search.boxes(priced.monomials), not search.rules.coefficients.bind

        def at(t: float) -> tuple[float, Array, float]:
            """Return t, the prices listed and the largest of the rest."""
            rest = float(bounds.price(t * priced.threshold, t * error, lam, *ANY))
            listed = bounds.price(t * priced.correlations, t * error, lam, *boxes)
            return t, np.maximum(listed, rest), rest

        def value(tried: tuple[float, Array, float]) -> float:
            t, spent = tried[0], bounds.top_sum(tried[1], terms)
            return float(bounds.tangent_value(t * ya, t * t * aa, spent))

        tries = [at(1.0)]
        if not scalable:
            free = bounds.price(priced.correlations, error, lam, *ANY)
            spent = [bounds.top_sum(Z, terms) for Z in (free, tries[0][1])]
            tries += [at(bounds.scaled_value(ya, aa, whole)[1]) for whole in spent]
        t, listed, rest = max(tries, key=value)
        others = [m for m in extra if m not in w] + list(w)
        rho = t * design.correlations(others, a)
        known = bounds.price(rho, t * error, lam, *search.boxes(others))
        order = np.argsort(-listed, kind="stable")  # what pricing took for ties may be out of order
        return cls(
            w=w,
            multiple=t,
            ya=t * ya * (1.0 - 4.0 * UNIT),
            aa=t * t * aa * (1.0 + 4.0 * UNIT),
            prices={priced.monomials[j]: float(listed[j]) for j in order},
            known=dict(zip(others, known.tolist(), strict=True)),
            rest=rest,
            complete=priced.threshold == 0.0,
            yy=design.yy,
            scalable=scalable,
            reach=reach,
        )

    def bounded(self, inside: frozenset[Monomial], free: int, allows: Allows) -> Bounded:
        """Bound the supports with ``inside`` in and at most ``free`` others that are allowed."""
        candidates = (z for m, z in self.prices.items() if m not in inside and allows(m))
        top = list(islice(candidates, free))
        top += [self.rest] * (free - len(top))
        prices = [self.prices.get(m, self.known.get(m, self.rest)) for m in inside] + top
        spent = bounds.total(sum(prices), len(prices))
        if self.scalable:
            bound, t = bounds.scaled_value(self.ya, self.aa, spent)
        else:
            tangent = bounds.tangent_value(self.ya, self.aa, spent)
            bound, t = max(0.0, bounds.admitted(tangent, self.yy)), 1.0
        return Bounded(bound, t, top[-1] if top else 0.0)

    def survivors(
        self, proved: Bounded, threshold: float, inside: frozenset[Monomial], allows: Allows
    ) -> Survivors | None:
        """Return the monomials that may be in a support below the threshold.

        None where not all of them are listed.
        """
        level, square = -np.inf, proved.t**2
        if square > 0.0:  # t may be so small that its square is not
            level = proved.last - (threshold - proved.bound) / square
        if level <= self.rest and not self.complete:
            return None
        listed = [(m, z) for m, z in self.prices.items() if m not in inside and allows(m)]
        kept = [m for m, z in listed if z >= level]
        if self.complete and len(kept) == len(listed):
            return Survivors(kept, np.inf)
        highest = listed[len(kept)][1] if len(kept) < len(listed) else self.rest
        return Survivors(kept, proved.bound + square * max(0.0, proved.last - highest))
