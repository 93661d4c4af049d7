"""The first pass over blocks of rows: checks, ranges, means and mean squares.

Per input, with weights v and W their sum, a block contributes

    min, max,    xbar = sum v x / W,    S = sum v (x - xbar)^2,

which merge exactly (Chan, Golub & LeVeque), as moments do; shift and unit of the coded variables
follow from them, and so does n, which nobody knows before.  A block that breaks a rule says so in
its summary, with its number; of several the first one is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.errors import InputError
from polysharp.typing import Array


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one block, those of weight zero left out."""

    X: Array
    y: Array
    weights: Array | None

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Summary:
    """What the first pass learns; ``a + b`` merges."""

    n_given: int  # rows, with those of weight zero
    n_rows: int
    weight: float
    low: Array
    high: Array
    mean: Array
    scatter: Array
    y_low: float
    y_high: float
    y_mean: float
    refusal: tuple[int, str] | None = None  # a block's number and what is wrong with it

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        step = other.mean - self.mean
        refusals = [part.refusal for part in (self, other) if part.refusal is not None]
        return Summary(
            n_given=self.n_given + other.n_given,
            n_rows=self.n_rows + other.n_rows,
            weight=weight,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            mean=self.mean + share * step,
            scatter=self.scatter + other.scatter + self.weight * share * step**2,
            y_low=min(self.y_low, other.y_low),
            y_high=max(self.y_high, other.y_high),
            y_mean=self.y_mean + share * (other.y_mean - self.y_mean),
            refusal=min(refusals, default=None),
        )

    @classmethod
    def nothing(cls, p: int, n_given: int = 0, refusal: tuple[int, str] | None = None) -> Summary:
        """Return the summary of no rows that count."""
        high, zeros = np.full(p, -np.inf), np.zeros(p)
        return cls(n_given, 0, 0.0, -high, high, zeros, zeros, np.inf, -np.inf, 0.0, refusal)

    @classmethod
    def of(cls, block: Block, n_given: int) -> Summary:
        """Summarise the rows of one block."""
        X, y = block.X, block.y
        v = np.ones(len(y)) if block.weights is None else block.weights
        weight = float(v.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # ``check_powers`` sees the range
            mean = v @ X / weight
            scatter = v @ (X - mean) ** 2
            y_mean = float(v @ y / weight)
        return cls(
            n_given=n_given,
            n_rows=len(y),
            weight=weight,
            low=X.min(axis=0),
            high=X.max(axis=0),
            mean=mean,
            scatter=scatter,
            y_low=float(y.min()),
            y_high=float(y.max()),
            y_mean=y_mean,
        )

    @property
    def y_center(self) -> float:
        """The mean of y; of equal numbers that number itself, so that they centre to zeros."""
        return self.y_low if self.y_low == self.y_high else self.y_mean


def summarise(number: int, x: Any, y: Any, weights: Any, names: tuple[str, ...]) -> Summary:
    """Check and summarise one block, or say what is wrong with it."""
    try:
        block, n_given = read_block(x, y, weights, names)
    except InputError as refused:
        return Summary.nothing(len(names), refusal=(number, str(refused)))
    if not len(block):
        return Summary.nothing(len(names), n_given)
    return Summary.of(block, n_given)


def read_block(x: Any, y: Any, weights: Any, names: tuple[str, ...]) -> tuple[Block, int]:
    """Return the rows of a block that count, as floats, and how many there were."""
    if isinstance(x, tuple):  # joined data frames
        x, y, weights = x
    X = table_of(x, names)
    n = len(X)
    response = _column(y, n, "y")
    if weights is None:
        return Block(X, response, None), n
    v = _column(weights, n, "sample_weight")
    if n and v.min() < 0:
        raise InputError(f"sample_weight must not be negative, got {v.min():g}")
    used = v > 0
    if used.all():
        return Block(X, response, v), n
    return Block(X[used], response[used], v[used]), n


def table_of(x: Any, names: tuple[str, ...]) -> Array:
    """Return the inputs of a block as finite floats, or say which one is not."""
    X = np.empty((len(x), len(names)), order="F")
    columns = [x.iloc[:, a] for a in range(len(names))] if hasattr(x, "iloc") else np.asarray(x).T
    for a, column in enumerate(columns):
        X[:, a] = _floats(column, f"X must hold numbers, got text in column {names[a]!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(X.sum()) or np.isfinite(X).all()
    if not finite:
        row, a = np.argwhere(~np.isfinite(X))[0]
        raise InputError(
            f"X must have neither NaN nor inf, got {X[row, a]} in row {row}, column {names[a]!r}"
        )
    return X


def _column(values: Any, n: int, name: str) -> Array:
    column = _floats(values, f"{name} must hold numbers, got text")
    if column.shape != (n,):
        raise InputError(f"{name} must have one value per row of X, {n}, got {len(column)}")
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise InputError(
            f"{name} must have neither NaN nor inf, got {column[bad[0]]} in row {bad[0]}"
        )
    return column


def _floats(values: Any, otherwise: str) -> Array:
    """Return numbers as float64, missing ones as NaN."""
    try:
        if hasattr(values, "iloc"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as refused:
        raise InputError(otherwise) from refused
