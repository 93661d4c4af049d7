"""Which columns of a table are what, and whether they hold numbers.

Nothing is dropped in silence: a cell that is no number, a missing or an infinite one is named
with its column and its row.  Rows are counted from 1, the first one below the header.  Columns
that hold true and false count as 1 and 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from polysharp.cli.delimited import NAMELESS
from polysharp.cli.messages import say
from polysharp.errors import InputError

MOST_NAMES = 8  # of the columns a message lists
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a fit: data frame of inputs, target, weights where a column holds them."""

    X: Any
    y: Any
    sample_weight: Any

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: Any) -> Sample:
        """Return some of the rows."""
        weights = self.sample_weight
        return Sample(
            self.X.iloc[index],
            self.y.iloc[index],
            None if weights is None else weights.iloc[index],
        )


@dataclass(frozen=True)
class Complaint:
    """The first cell of a column that is no number; ``mixed`` where other cells are."""

    name: str
    value: Any
    row: int
    mixed: bool

    @property
    def has_decimal_comma(self) -> bool:
        """Whether the cell would be a number with a comma as decimal mark."""
        return isinstance(self.value, str) and bool(DECIMAL_COMMA.fullmatch(self.value))


def choose(
    frame: Any,
    source: str,
    target: str,
    *,
    inputs: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weights: str | None = None,
    drop_missing: bool = False,
) -> Sample:
    """Pick target and inputs by name and check that they are numbers to fit.

    Without ``inputs`` all columns but the target, the weights and the excluded ones are inputs.
    """
    names = list(frame.columns)
    weighing = [] if weights is None else [weights]
    find(frame, source, [target], "--target")
    find(frame, source, weighing, "--weights")
    find(frame, source, inputs or (), "--inputs")
    find(frame, source, exclude, "--exclude")
    chosen = _inputs(names, source, target, inputs, {*exclude, *weighing})
    table = numbers(
        frame, source, [*chosen, target, *weighing], spared=chosen, drop_missing=drop_missing
    )
    y = table[target]
    if len(table) < 2:
        raise InputError(f"{source!r} must have at least 2 rows to fit, got {len(table)}")
    if y.min() == y.max():
        raise InputError(
            f"the target {target!r} must vary, got {y.iloc[0]:g} in all {len(y)} rows of {source!r}"
        )
    return Sample(table[chosen], y, table[weights] if weights else None)


def _inputs(
    names: list[str],
    source: str,
    target: str,
    inputs: Sequence[str] | None,
    left_out: set[str],
) -> list[str]:
    if inputs is not None:
        if target in inputs:
            raise InputError(f"--inputs must not name the target {target!r}")
        named = [name for name in names if name in set(inputs) - left_out]
        if not named:
            raise InputError(
                "--inputs must name a column that --exclude and --weights do not, got "
                f"{listed(inputs) or 'none'}"
            )
        return named
    chosen = [name for name in names if name != target and name not in left_out]
    nameless = [name for i, name in enumerate(names) if name == NAMELESS.format(i)]
    found = [name for name in chosen if name in nameless]
    if found:
        raise InputError(
            f"{source!r} has a column without a name; leave it out with --exclude '{found[0]}', "
            "or name it in the header"
        )
    if not chosen:
        raise InputError(
            f"{source!r} must have a column beside the target {target!r} to be an input, got none"
        )
    return chosen


def numbers(
    frame: Any,
    source: str,
    names: Sequence[str],
    *,
    spared: Sequence[str] = (),
    drop_missing: bool = False,
) -> Any:
    """Return the named columns as float64, or say which cells are not finite numbers.

    ``spared`` are the columns that the user could do without.
    """
    import pandas as pd

    columns, complaints = {}, []
    for name in names:
        column = frame[name]
        values = _floats(pd, column)
        wrong = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
        if len(wrong):
            row, mixed = int(wrong[0]), bool(np.isfinite(values).any())
            complaints.append(Complaint(name, column.iloc[row], row + 1, mixed))
        columns[name] = values
    if complaints:
        raise InputError(_not_numbers(source, complaints, spared))
    table = pd.DataFrame(columns)
    for name in names:
        infinite = np.flatnonzero(np.isinf(columns[name]))
        if len(infinite):
            row = int(infinite[0])
            raise InputError(
                f"column {name!r} of {source!r} must hold finite numbers, "
                f"got {columns[name][row]} in row {row + 1}"
            )
    return _complete(table, source, spared, drop_missing)


def _floats(pd: Any, column: Any) -> Any:
    """Return the numbers of a column, NaN where a cell is none."""
    kind = pd.api.types
    if kind.is_bool_dtype(column) and column.notna().all():
        return column.to_numpy(dtype=np.float64)
    if kind.is_numeric_dtype(column) and not kind.is_complex_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind.is_object_dtype(column) or kind.is_string_dtype(column):
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.full(len(column), np.nan)  # dates, categories, lists


def _not_numbers(source: str, complaints: list[Complaint], spared: Sequence[str]) -> str:
    shown = [f"{c.value!r} in row {c.row} of column {c.name!r}" for c in complaints]
    more = f" and {len(shown) - MOST_NAMES} columns more" if len(shown) > MOST_NAMES else ""
    given = ", ".join(shown[:MOST_NAMES])
    others = [c for c in complaints if not c.has_decimal_comma]
    advice = []
    if len(others) < len(complaints):
        advice.append("if the comma is a decimal mark, say --decimal ','")
    if others:
        advice.append(_exclude("leave columns out with", [c.name for c in others], spared))
    if any(c.mixed for c in others):
        advice.append("where other rows hold numbers, correct the cell, or empty it")
    hint = "".join(f"; {words}" for words in advice if words)
    return f"the columns used of {source!r} must hold numbers, got {given}{more}{hint}"


def _exclude(words: str, names: Iterable[str], spared: Sequence[str]) -> str:
    """Return the advice to leave columns out, where it can be followed."""
    found = [name for name in names if name in spared]
    return f"{words} --exclude '{joined(found)}'" if 0 < len(found) < len(spared) else ""


def _complete(table: Any, source: str, spared: Sequence[str], drop_missing: bool) -> Any:
    missing = table.isna()
    incomplete = missing.any(axis=1).to_numpy()
    if not incomplete.any():
        return table
    counts = missing.sum()
    if drop_missing and incomplete.all():
        most = str(counts.idxmax())
        raise InputError(
            f"--drop-missing must leave rows in, got missing values in all {len(table)} rows of "
            f"{source!r}, most in {most!r} ({counts[most]})"
            f"{_exclude('; leave it out with', [most], spared)}"
        )
    if drop_missing:
        say(f"left out {int(incomplete.sum())} of {len(table)} rows, which have missing values")
        return table[~incomplete].reset_index(drop=True)
    names = [str(name) for name in table.columns if counts[name]]
    first = int(np.flatnonzero(missing[names[0]])[0]) + 1
    more = f" (and {len(names) - MOST_NAMES} more)" if len(names) > MOST_NAMES else ""
    listed = ", ".join(f"{name!r} ({counts[name]})" for name in names[:MOST_NAMES])
    advice = _exclude(", columns with", names, spared)
    if spared:
        advice = f"; leave such rows out with --drop-missing{advice}, or fill them in"
    raise InputError(
        f"{source!r} must have no missing values, got some in {listed}{more}, "
        f"the first in row {first}{advice}"
    )


def find(frame: Any, source: str, names: Iterable[str], option: str) -> None:
    """Refuse names that the table does not have, and show which it has."""
    known = [str(name) for name in frame.columns]
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    hint = ""
    if len(known) == 1 and any(mark in known[0] for mark in ",;\t|"):
        hint = "; is the delimiter right? say --delimiter"
    elif all(map(_is_number, known)):
        hint = "; its first line holds numbers and not names: add a line of names above it"
    raise InputError(
        f"{option} must name columns of {source!r}, got {listed(unknown)}; "
        f"it has {listed(_nearest_first(known, unknown))}{hint}"
    )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _nearest_first(known: list[str], wanted: list[str]) -> list[str]:
    """Return the names of a table, those that resemble what was asked for in front."""

    def likeness(name: str) -> float:
        pairs = [(name.casefold(), word.casefold()) for word in wanted]
        return max(1.0 if b in a else SequenceMatcher(None, a, b).ratio() for a, b in pairs)

    return sorted(known, key=lambda name: -likeness(name) if likeness(name) > 0.6 else 0.0)


def accuracy(observed: Any, predicted: Any, weights: Any = None) -> str:
    """Return root mean squared error and R2 in words."""
    from sklearn.metrics import mean_squared_error, r2_score

    rmse = mean_squared_error(observed, predicted, sample_weight=weights) ** 0.5
    if len(observed) < 2:
        return f"RMSE {rmse:.4g}"
    return f"RMSE {rmse:.4g}, R2 {r2_score(observed, predicted, sample_weight=weights):.6g}"


def listed(names: Sequence[str]) -> str:
    """Return some names for a message, the first few of many."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(repr, names[:MOST_NAMES])) + more


def split_names(given: Sequence[str] | None) -> list[str] | None:
    """Read ``a,b`` and repeated options; a name that holds a comma stands in double quotes.

    Examples
    --------
    >>> split_names(["a,b", '"c, d"'])
    ['a', 'b', 'c, d']
    """
    if given is None:
        return None
    rows = csv.reader(given, skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]


def joined(names: Iterable[str]) -> str:
    """Return names as ``split_names`` reads them."""
    return ",".join(f'"{name}"' if "," in name or '"' in name else name for name in names)
