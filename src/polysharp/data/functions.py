"""Functions of an input: further columns of the table, which count as the same input.

A table of p inputs has columns 0..p-1, the inputs themselves, and columns p, p+1, ..., one for each
function of an input that the user asks for.  A function takes the input as the user gave it,
without a shift.  Monomials multiply columns; budgets count inputs, so that x, 1/x and log(x) are
one input.

Monomials do not hold two columns whose product is another column or a constant:

    x (1/x) = 1,     sqrt(x) sqrt(x) = x.

All other products of powers of x are different powers of x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.errors import InputError
from polysharp.typing import Array, Indices


@dataclass(frozen=True)
class Function:
    """A function of one number."""

    name: str
    call: Callable[[Any], Any]
    label: str = ""  # the name in formulas, if it differs
    refuses: str = ""  # arguments that it is not defined for, in words
    exponent: float | None = None  # where it is a power

    def __call__(self, x: Array, input_name: str) -> Array:
        """Evaluate; raise InputError for a number that the function is not defined for."""
        with np.errstate(all="ignore"):
            values = np.asarray(self.call(x), dtype=np.float64)
        if values.shape != np.shape(x):
            raise InputError(
                f"functions must return one number for each, {np.shape(x)}, and {self.name!r} "
                f"returns shape {values.shape}"
            )
        bad = np.flatnonzero(~np.isfinite(values) & np.isfinite(x))
        if len(bad):
            rule = f"X must not be {self.refuses}" if self.refuses else "X must have finite values"
            raise InputError(
                f"{rule} for the function {self.name!r} of input {input_name!r}, got "
                f"{x[bad[0]]:g} in row {bad[0]}; functions can be asked for of some inputs only: "
                "functions={input: names}, --functions INPUT=NAME"
            )
        return values


FUNCTIONS = {
    function.name: function
    for function in (
        Function("inverse", np.reciprocal, "inverse", "0, or too near to it", -1.0),
        Function("square-root", np.sqrt, "sqrt", "negative", 0.5),
        Function("log", np.log, "log", "0 or negative"),
        Function("exp", np.exp, "exp", "so large that its exponential is infinite"),
        Function("sin", np.sin, "sin"),
        Function("cos", np.cos, "cos"),
    )
}
INVERSE = "inverse"
OTHER_NAMES = {"sqrt": "square-root", "1/x": "inverse"}


@dataclass(frozen=True)
class Applied:
    """A function of one of the inputs."""

    input: int
    function: Function

    def written(self, name: str) -> str:
        """Return the column as formulas show it, given the name of the input."""
        if self.function.name == INVERSE:
            return f"{name}^-1"
        return f"{self.function.label or self.function.name}({name})"


def power_of(column: str, exponent: int) -> str:
    """Return a power of a column as formulas show it; powers of ``x^-1`` have one exponent.

    Examples
    --------
    >>> power_of("a", 2), power_of("log(a)", 1), power_of("a^-1", 2)
    ('a^2', 'log(a)', 'a^-2')
    """
    if exponent == 1:
        return column
    return f"{column[:-1]}{exponent}" if column.endswith("^-1") else f"{column}^{exponent}"


@dataclass(frozen=True)
class Library:
    """The columns of a table: the inputs, numbered from 0, and after them functions of inputs."""

    n_inputs: int = 0
    applied: tuple[Applied, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.applied)

    @cached_property
    def owners(self) -> Indices:
        """The input of every column."""
        return np.array([*range(self.n_inputs), *(a.input for a in self.applied)], dtype=np.intp)

    def owner(self, column: int) -> int:
        """Return the input of one column."""
        return int(self.owners[column]) if self.applied else column

    def inputs_of(self, monomial: Iterable[int]) -> set[int]:
        """Return the inputs whose columns a monomial multiplies."""
        if not self.applied:
            return set(monomial)
        return {int(self.owners[c]) for c in monomial}

    def columns_of(self, inputs: Iterable[int]) -> list[int]:
        """Return the columns of some inputs, ascending."""
        given = {int(i) for i in inputs}
        return sorted(given) + [
            self.n_inputs + t for t, a in enumerate(self.applied) if a.input in given
        ]

    @cached_property
    def exponents(self) -> Array:
        """The exponent of each column as a power of its input, NaN for other functions."""
        own = [a.function.exponent for a in self.applied]
        return np.array([*[1.0] * self.n_inputs, *own], dtype=np.float64)

    def trivial_keys(self, keys: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which monomials of one degree, one per row, hold a trivial product of columns.

        The exponents of such a product add up to 0, a constant, or to 1, the input.
        """
        owners, exponents = self.owners[keys], self.exponents[keys]
        trivial = np.zeros(len(keys), dtype=bool)
        for a, b in combinations(range(keys.shape[1]), 2):
            same = owners[:, a] == owners[:, b]
            trivial |= same & np.isin(exponents[:, a] + exponents[:, b], (0.0, 1.0))
        return trivial

    def values(self, column: int, X: Array, names: Sequence[str]) -> Array:
        """Return a column, given the inputs in the user's units."""
        if not self.applied or column < self.n_inputs:
            return np.asarray(X[:, column])
        applied = self.applied[column - self.n_inputs]
        return applied.function(X[:, applied.input], names[applied.input])

    def grown(self, X: Array, names: Sequence[str]) -> Array:
        """Return the table of all columns, given the inputs."""
        if not self.applied:
            return X
        wide = np.empty((len(X), len(self.owners)), order="F")
        wide[:, : self.n_inputs] = X
        for c in range(self.n_inputs, len(self.owners)):
            wide[:, c] = self.values(c, X, names)
        return wide

    def column_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all columns, given those of the inputs."""
        return (*names, *(a.written(names[a.input]) for a in self.applied))


PLAIN = Library()  # every column is an input


def read_functions(given: Any, names: Sequence[str]) -> Library:
    """Return the columns that the parameter ``functions`` asks for.

    ``given`` is None, a sequence of functions for all inputs, or a mapping from inputs (names or
    indices) to such sequences.  A function is a name, a callable with a name, or a pair of both.
    """
    p = len(names)
    if isinstance(given, Mapping):
        wanted = [(_input(key, names), _functions(value)) for key, value in given.items()]
    else:
        wanted = [(i, _functions(given)) for i in range(p)]
    applied = {(i, f.name): Applied(i, f) for i, functions in wanted for f in functions}
    ordered = tuple(applied[key] for key in sorted(applied, key=lambda key: key[0]))
    return Library(p, ordered)


def _input(key: Any, names: Sequence[str]) -> int:
    found = [i for i, name in enumerate(names) if key in (name, i)]
    if len(found) != 1 or isinstance(key, bool):
        raise InputError(f"functions must name inputs of X by name or index, got {key!r}")
    return found[0]


def _functions(given: Any) -> tuple[Function, ...]:
    if given is None:
        return ()
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(_function(item) for item in given)


def _function(item: Any) -> Function:
    if isinstance(item, str):
        known = FUNCTIONS.get(OTHER_NAMES.get(item, item))
        if known is None:
            raise InputError(f"functions must be among {', '.join(FUNCTIONS)}, got {item!r}")
        return known
    if isinstance(item, Function):
        return item
    pair = tuple(item) if isinstance(item, (tuple, list)) else (getattr(item, "__name__", ""), item)
    if len(pair) != 2 or not isinstance(pair[0], str) or not callable(pair[1]):
        raise InputError(
            f"functions must hold names, callables with a name or pairs of both, got {item!r}"
        )
    name, call = pair
    if not name.isidentifier() or name in FUNCTIONS or name in OTHER_NAMES:
        raise InputError(
            f"functions must have names that are identifiers and not those known, got {name!r}"
        )
    return Function(name, call)
