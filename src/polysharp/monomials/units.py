"""Units of inputs and response: the units of coefficients, and the terms that need no constant.

With [.] for "the unit of", the coefficient of a monomial m has the unit

    [w_m] = [y] / prod_{i in m} [x_i].

The inverse and the square root of an input have powers of its unit.  Other functions have no unit,
and their argument must be a pure number.  A term is consistent if its coefficient can be a pure
number times powers, from -2 to 2, of constants whose units the user names.

pint reads the units; only this file uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from polysharp.data.functions import Library
from polysharp.errors import InputError, load_optional
from polysharp.typing import Monomial

POWERS = range(-2, 3)  # of a constant


@dataclass(frozen=True, eq=False)
class Units:
    """The units of the inputs (None for a pure number) and of the response."""

    inputs: Sequence[Any]
    response: Any
    library: Library

    @classmethod
    def read(cls, given: Any, names: Sequence[str], library: Library) -> Units:
        """Read a mapping from names to units; the name that is not an input is the response."""
        if not isinstance(given, Mapping):
            raise InputError(f"units must be a mapping from names to units, got {given!r}")
        others = [name for name in given if name not in names]
        if len(others) != 1:
            raise InputError(
                "units must name inputs and, once, the response, got "
                f"{', '.join(map(repr, others)) or 'inputs only'}"
            )
        read = {name: _unit(text) for name, text in given.items()}
        return cls([read.get(name) for name in names], read[others[0]], library)

    def of_coefficient(self, m: Monomial) -> Any:
        """Return the unit of a coefficient, None if a function has an argument with a unit."""
        unit = self.response
        for c in m:
            own, power = self.inputs[self.library.owner(c)], self.library.exponents[c]
            if own is None or (np.isnan(power) and own.dimensionless):
                continue
            if np.isnan(power):
                return None
            unit = unit / own ** Fraction(power)
        return unit

    def written(self, monomials: Iterable[Monomial]) -> tuple[str, ...]:
        """Return the units of coefficients as text, "?" for terms that make no sense."""
        units = [self.of_coefficient(m) for m in monomials]
        return tuple("?" if unit is None else _text(unit) for unit in units)

    def inconsistent(
        self, monomials: Iterable[Monomial], constants: Iterable[str]
    ) -> tuple[Monomial, ...]:
        """Return the monomials whose coefficients need constants that are not there."""
        units, allowed = [_unit(text) for text in constants], set()
        for powers in product(POWERS, repeat=len(units)):
            found = _registry().dimensionless
            for unit, power in zip(units, powers, strict=True):
                found = found * unit**power
            allowed.add(_dimension(found))
        return tuple(m for m in monomials if _dimension(self.of_coefficient(m)) not in allowed)


def _dimension(unit: Any) -> Any:
    """Return a key that is equal for units of one dimension."""
    if unit is None:
        return None
    exponents = dict(unit.dimensionality).items()
    return frozenset((name, round(float(power), 9)) for name, power in exponents)


def _unit(text: Any) -> Any:
    registry = _registry()
    try:
        return registry.Unit(str(text))
    except Exception as error:  # whatever pint's parser says of it
        raise InputError(f"units must be units that pint knows, got {text!r}") from error


def _text(unit: Any) -> str:
    """Return a unit for people to read; versions of pint differ in the dot between two units."""
    return re.sub("⋅(?![⁰¹²³⁴-⁹])", "·", f"{unit:~P}") or "1"  # the other dot is a decimal point


@cache
def _registry() -> Any:
    """Return pint's table of units, read when first needed."""
    return load_optional("pint", "units", "units").UnitRegistry()
