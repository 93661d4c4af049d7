"""The user's rules about terms, read from an estimator's parameters, and the monomials they allow.

With at most m distinct inputs in a term and total degree at most d in terms of two inputs or
more, p inputs have

    f(p) = 1 + sum_{t=1..m} C(p, t) C(d_t, t),        d_1 = r,  d_t = min(d, r) for t >= 2

monomials (t inputs with exponents of at least one); without the two caps f(p) = C(p + r, r).  With
functions of inputs (``data.functions``) there are g_e ways to choose a factor of degree e in one
input, and C(d_t, t) becomes the sum of the first d_t coefficients of (g_1 z + g_2 z^2 + ...)^t.
An input with two values a and b has x^2 = (a + b) x - a b, so no monomial contains it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, combinations_with_replacement, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.data.functions import PLAIN, Library, read_functions
from polysharp.data.rows import Ranges
from polysharp.errors import InfeasibleError, InputError, TooLargeError
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.monomials.coefficient_bounds import UNBOUNDED, CoefficientBounds, read_bounds
from polysharp.monomials.structure import (
    Heredity,
    Structure,
    heredity_closed,
    inherits,
    parents_of,
)
from polysharp.monomials.terms import read_inputs, read_terms, write_term
from polysharp.monomials.units import Units
from polysharp.typing import Array, Indices, Monomial

MAX_MONOMIALS = 1_000_000  # that a basis may list
MAX_CHECKED = 8192  # monomials whose units are checked one by one, with pint: a few seconds


@dataclass(frozen=True, kw_only=True)
class TermRules:
    """The user's rules about terms, in indices of the user's inputs and of functions of them."""

    degree: int
    max_terms: int
    max_inputs: int | None = None
    constant: bool = False  # whether the constant is a monomial: without a free intercept
    max_interaction: int | None = None
    interaction_degree: int | None = None
    heredity: Heredity = None
    include_terms: tuple[Monomial, ...] = ()
    exclude_terms: tuple[Monomial, ...] = ()
    include_inputs: tuple[int, ...] = ()
    exclude_inputs: tuple[int, ...] = ()
    coefficients: CoefficientBounds = UNBOUNDED
    two_valued: tuple[int, ...] = ()  # inputs that occur at most once in a term
    library: Library = PLAIN

    @property
    def most_inputs(self) -> int:
        """Largest number of distinct inputs in a term."""
        return self.degree if self.max_interaction is None else self.max_interaction

    @property
    def mixed_degree(self) -> int:
        """Largest degree of a term of two inputs or more."""
        cap = self.interaction_degree
        return self.degree if cap is None else min(cap, self.degree)

    @cached_property
    def required_inputs(self) -> tuple[int, ...]:
        """Inputs that the polynomial must use."""
        used = self.library.inputs_of(chain.from_iterable(self.include_terms))
        return tuple(sorted({*self.include_inputs, *used}))

    def coded(self, unit: Array) -> TermRules:
        """Return the rules for inputs divided by their units; only bounds depend on these."""
        bounds = replace(self.coefficients, unit=tuple(unit.tolist()))
        return replace(self, coefficients=bounds)

    def allowed(self, p: int) -> Indices:
        """Return the inputs, of p, that are not excluded."""
        return np.setdiff1d(np.arange(p), self.exclude_inputs)

    def shape_allows(self, m: Monomial) -> bool:
        """Whether a monomial keeps to the caps on degree and interactions and is not trivial."""
        return len(m) <= self.degree and bool(self._in_shape(np.array([m], dtype=np.int32))[0])

    def _in_shape(self, keys: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return this for many monomials of one degree, and check inputs of two values."""
        m, d = keys.shape
        inputs = np.sort(self.library.owners[keys], axis=1) if self.library else keys
        ordered = np.diff(inputs, axis=1) > 0
        distinct = (ordered.sum(axis=1) + 1) if d else np.zeros(m, dtype=np.intp)
        keep: NDArray[np.bool_] = distinct <= self.most_inputs
        if d > self.mixed_degree:
            keep &= distinct < 2
        if self.two_valued and d > 1:
            keep &= ~(~ordered & np.isin(inputs[:, 1:], self.two_valued)).any(axis=1)
        if self.library:
            keep &= ~self.library.trivial_keys(keys)
        return keep

    @cached_property
    def _flat(self) -> frozenset[int]:
        return frozenset(self.two_valued)

    def may_price(self, keys: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which monomials of one degree (one per row, sorted) the rules allow."""
        keep, d = self._in_shape(keys), keys.shape[1]
        for term in self.exclude_terms:
            if len(term) == d:
                keep &= (keys != np.array(term, dtype=np.int32)).any(axis=1)
        if self.heredity is not None and d > self.max_terms:
            keep[:] = False  # a chain of parents down to degree one has d members
        elif self.heredity is not None and self.exclude_terms:
            for row in np.flatnonzero(keep):
                keep[row] = self.can_inherit(tuple(int(i) for i in keys[row]))
        return keep

    def can_inherit(self, m: Monomial) -> bool:
        """Whether monomials that are not excluded can satisfy heredity."""
        return m not in self.exclude_terms and inherits(m, self.heredity, self.can_inherit)

    def with_parents(self, monomials: Iterable[Monomial]) -> list[Monomial]:
        """Return the monomials and, under heredity, their ancestors that are not excluded."""
        if self.heredity is None:
            return list(dict.fromkeys(monomials))
        found: dict[Monomial, None] = {}
        waiting = list(monomials)
        while waiting:
            m = waiting.pop()
            if m not in found and self.can_inherit(m):
                found[m] = None
                waiting += parents_of(m)
        return list(found)

    def monomials_of(self, inputs: Iterable[int]) -> list[Monomial]:
        """Return all monomials of some inputs that the rules allow."""
        return [m for m in self._monomials(inputs) if self.can_inherit(m)]

    def count(self, p: int) -> int:
        """Return f(p), the number of monomials of p inputs within the caps.

        Each input counts as one with many values and with the most functions.
        """
        most = min(self.most_inputs, self.mixed_degree, p)
        mixed = (
            comb(p, t) * sum(self._powers[t][: self.mixed_degree + 1]) for t in range(2, most + 1)
        )
        return 1 + p * sum(self._powers[1]) + sum(mixed)

    def swept(self, p: int) -> int:
        """Return the number of products of the columns of p inputs, without any rules."""
        more = -(-p * len(self.library.applied) // max(1, self.library.n_inputs))
        return count_monomials(p + more, self.degree)

    @cached_property
    def _powers(self) -> list[list[int]]:
        """Coefficients of (g_1 z + g_2 z^2 + ...)^t for t = 0, 1, ..., r."""
        r, owners = self.degree, {a.input for a in self.library.applied}
        g = [0, *(max([1, *(len(self._factors(i, e)) for i in owners)]) for e in range(1, r + 1))]
        powers = [[1] + [0] * r]
        for _ in range(r):
            last = powers[-1]
            powers.append([sum(last[a] * g[e - a] for a in range(e)) for e in range(r + 1)])
        return powers

    def _factors(self, i: int, degree: int) -> list[Monomial]:
        """Return the monomials of one degree in the columns of one input."""
        if not self.library:
            return [(i,) * degree] if degree == 1 or i not in self._flat else []
        every = combinations_with_replacement(self.library.columns_of([i]), degree)
        return [m for m in every if self.shape_allows(m)]

    def check(self, names: Sequence[str]) -> None:
        """Raise InputError if two rules contradict each other, in the user's names."""
        both = set(self.include_inputs) & set(self.exclude_inputs)
        if both:
            raise InputError(
                "include_inputs and exclude_inputs must not share inputs, "
                f"got {[names[i] for i in sorted(both)]}"
            )
        for m in self.include_terms:
            self._check_included(m, repr(write_term(m, names, self.library)))
        for m, _ in self.coefficients.terms:
            if not self.shape_allows(m) or (m == () and not self.constant):
                raise InputError(
                    "coefficient_bounds must name terms that may be chosen, "
                    f"got {write_term(m, names, self.library)!r}"
                )
        if self.constant is False and () in self.exclude_terms:
            raise InputError(
                "exclude_terms must not hold the constant with fit_intercept=True, "
                "got (); use fit_intercept=False"
            )
        if len(self.include_terms) > self.max_terms:
            raise InfeasibleError(
                f"max_terms must be at least the number of include_terms "
                f"({len(self.include_terms)}), got {self.max_terms}"
            )
        if self.max_inputs is not None and len(self.required_inputs) > self.max_inputs:
            raise InfeasibleError(
                f"max_inputs must be at least the number of inputs in include_terms and "
                f"include_inputs ({len(self.required_inputs)}), got {self.max_inputs}"
            )

    def _check_included(self, m: Monomial, written: str) -> None:
        if m == () and not self.constant:
            raise InputError(
                "include_terms must not hold the constant with fit_intercept=True, which is "
                "always in, got ()"
            )
        if m in self.exclude_terms:
            raise InputError(f"include_terms and exclude_terms must not share terms, got {written}")
        if self.library.inputs_of(m) & set(self.exclude_inputs):
            raise InputError(f"include_terms must not use exclude_inputs, got {written}")
        if not self.shape_allows(m):
            raise InputError(
                "include_terms must not hold products that are trivial, such as x (1/x) and "
                f"sqrt(x) sqrt(x), got {written}"
                if self.library.trivial_keys(np.array([m], dtype=np.int32))[0]
                else f"include_terms must keep to degree={self.degree}, "
                f"max_interaction={self.max_interaction} and "
                f"interaction_degree={self.interaction_degree}, got {written}"
            )

    def basis(self, inputs: Indices) -> Basis:
        """Return the candidate monomials of some inputs."""
        f = self.count(len(inputs))
        if f > MAX_MONOMIALS:
            raise TooLargeError(
                f"n_candidates must leave at most {MAX_MONOMIALS:,} monomials, and the "
                f"{len(inputs)} inputs kept have {f:,}; lower n_candidates or degree"
            )
        excluded = set(self.exclude_terms)
        monomials = tuple(m for m in self._monomials(inputs) if m not in excluded)
        basis = heredity_closed(self.basis_of(monomials, inputs), self.heredity)
        if not len(basis):
            raise InfeasibleError("exclude_terms and exclude_inputs leave no monomial to choose")
        return basis

    def basis_of(self, monomials: tuple[Monomial, ...], inputs: Iterable[int] = ()) -> Basis:
        """Return the basis of some monomials over the given inputs and those that they use."""
        used = self.library.inputs_of(chain.from_iterable(monomials))
        every = sorted({*used, *(int(i) for i in inputs)})
        return Basis(every, self.degree, monomials, self.library)

    def _monomials(self, inputs: Iterable[int]) -> list[Monomial]:
        """All monomials of some inputs within the caps, in graded lexicographic order."""
        names = sorted(int(i) for i in inputs)
        factors = {(i, e): self._factors(i, e) for i in names for e in range(1, self.degree + 1)}
        listed: list[Monomial] = [()] if self.constant else []
        for t in range(1, min(self.most_inputs, self.degree, len(names)) + 1):
            top = self.degree if t == 1 else self.mixed_degree
            for exponents in _exponents(t, top):
                for chosen in combinations(names, t):
                    parts = product(
                        *(factors[pair] for pair in zip(chosen, exponents, strict=True))
                    )
                    listed += [tuple(sorted(chain.from_iterable(part))) for part in parts]
        return sorted(listed, key=lambda m: (len(m), m))

    def structure(self, basis: Basis) -> Structure:
        """Return the allowed supports over ``basis``."""
        for m in self.include_terms:
            if m not in basis.index:
                raise InfeasibleError(
                    f"include_terms must have their parents allowed under "
                    f"heredity={self.heredity!r}, got {m}"
                )
        return Structure.of_basis(
            basis,
            self.max_terms,
            self.max_inputs,
            required_terms=self.include_terms,
            required_inputs=self.include_inputs,
            heredity=self.heredity,
            boxes=self.coefficients.boxes(basis) if self.coefficients.bind else None,
        )


def _exponents(t: int, total: int) -> Iterator[tuple[int, ...]]:
    """All t exponents of at least one with sum at most ``total``: cut points of 1..total."""
    for cuts in combinations(range(1, total + 1), t):
        yield tuple(b - a for a, b in zip((0, *cuts), cuts, strict=False))


def read_rules(
    parameters: dict[str, Any], names: tuple[str, ...], ranges: Ranges | None = None
) -> TermRules:
    """Read the rules from an estimator's parameters; raise InputError if two contradict each other.

    With ``ranges``, inputs of two values occur at most once in a term: if x is a or b, then
    x^2 = (a + b) x - a b.  An input with a power in ``include_terms`` is exempt.
    """
    library = read_functions(parameters.get("functions"), names)
    own: dict[str, Any] = {}
    for name in ("include_terms", "exclude_terms"):
        own[name] = read_terms(parameters[name], names, name, library)
    for name in ("include_inputs", "exclude_inputs"):
        own[name] = read_inputs(parameters[name], names, name)
    for name in ("max_inputs", "max_interaction", "interaction_degree"):
        own[name] = None if parameters[name] is None else int(parameters[name])
    two_valued: set[int] = set()
    if ranges is not None:
        two_valued = set(np.flatnonzero(ranges.two_valued[: len(names)]).tolist())
    for m in own["include_terms"]:
        owners = [library.owner(c) for c in m]
        two_valued -= {i for i in owners if owners.count(i) > 1}
    rules = TermRules(
        degree=int(parameters["degree"]),
        max_terms=int(parameters["max_terms"]),
        constant=not parameters["fit_intercept"],
        heredity=parameters["heredity"],
        two_valued=tuple(sorted(two_valued)),
        library=library,
        coefficients=read_bounds(
            parameters.get("coefficient_bounds"), parameters.get("positive", False), names, library
        ),
        **own,
    )
    if len(rules.exclude_inputs) == len(names):
        raise InputError(f"exclude_inputs must leave at least one input, got all {len(names)}")
    rules.check(names)
    if parameters.get("constants") is not None:
        return _consistent(rules, parameters, names)
    return rules


def _consistent(rules: TermRules, parameters: dict[str, Any], names: tuple[str, ...]) -> TermRules:
    """Exclude the terms whose coefficients need a constant that the user does not name."""
    inputs, constants = rules.allowed(len(names)), parameters["constants"]
    if parameters["units"] is None or isinstance(constants, str):
        raise InputError(
            f"constants must be a list of units, beside units of the inputs, got {constants!r}"
        )
    if rules.count(len(inputs)) > MAX_CHECKED:
        raise TooLargeError(
            f"constants must be None with more than {MAX_CHECKED:,} monomials, got "
            f"{rules.count(len(inputs)):,}; exclude inputs or lower the degree"
        )
    units = Units.read(parameters["units"], names, rules.library)
    wrong = units.inconsistent(rules.monomials_of(inputs), constants)
    kept = set(wrong) & set(rules.include_terms)
    if kept:
        shown = write_term(min(kept), names, rules.library)
        raise InputError(
            f"include_terms must be consistent with units and constants, got {shown!r}"
        )
    return replace(rules, exclude_terms=tuple(dict.fromkeys((*rules.exclude_terms, *wrong))))
