"""What is done to columns before a fit, so that new rows can be treated alike.

    text of few values    one column of zeros and ones for each value but the most frequent one,
                          called ``city=Paris``; of two values, for the one that sorts last
    missing cells         filled with the median or the mean of the column, or with its most
                          frequent text
    reading               options of the fit that say how to read and split its table
    ranges                the least and the largest value of every input

The recipe is learnt from the table of the fit and kept in the model file, and every later command
uses it where the user says nothing else.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np

from polysharp.cli.command import say
from polysharp.cli.table_cells import is_text
from polysharp.errors import InputError

MOST_VALUES = 10  # of a text column that becomes indicators
OTHERS = "(others)"  # texts of a column that are too rare for an indicator
NO_LIMITS = [float("-inf"), float("inf")]
READING = ("delimiter", "decimal", "encoding", "sheet", "no_header", "skip_lines", "missing")
FITTING = ("drop_missing", "weights")


@dataclass(frozen=True)
class Recipe:
    """Values that get an indicator, by column of text, and what fills missing cells, by column.

    ``bases`` are the values without an indicator; files of earlier versions do not name them.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    fills: dict[str, Any] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def learn(cls, table: Any, *, indicators: bool | None, impute: str | None) -> Recipe:
        """Look at the inputs of a fit; ``impute`` is "median", "mean" or None.

        With ``indicators`` True the most frequent texts of columns with more than ten count; False
        makes no indicators.
        """
        values: dict[str, list[str]] = {}
        fills: dict[str, Any] = {}
        bases: dict[str, str] = {}
        for name in table.columns:
            cells = table[name].dropna()
            texts = few_texts(cells, whole=not indicators)
            if texts and indicators is not False:
                base = texts[0] if len(texts) == 2 else str(cells.astype(str).mode()[0])
                base = OTHERS if cells.nunique() > len(texts) else base
                values[name], bases[name] = [text for text in texts if text != base], base
            if impute is None or len(cells) == len(table) or not len(cells):
                continue
            if texts:
                fills[name] = str(cells.astype(str).mode()[0])
            elif (numbers := to_numbers(cells)).notna().all():
                fills[name] = float(getattr(numbers, impute)())
        return cls(values, fills, bases)

    @classmethod
    def of_names(cls, names: Sequence[str], table: Any, impute: str | None) -> Recipe:
        """Return the indicators that names such as ``city=Paris`` ask for of a table."""
        values: dict[str, list[str]] = {}
        for name in names:
            column, mark, text = name.partition("=")
            if mark and column in table.columns and name not in table.columns:
                values.setdefault(column, []).append(text)
        used = [name for name in table.columns if name in {*names, *values}]
        return cls(values, cls.learn(table[used], indicators=False, impute=impute).fills)

    def apply(self, frame: Any) -> Any:
        """Return the table with the columns of the recipe in place of those they are made from."""
        frame = frame.copy(deep=False)
        for name, fill in self.fills.items():
            if name in frame.columns and frame[name].isna().any():
                frame[name] = frame[name].astype(object).where(frame[name].notna(), fill)
        for name, texts in self.values.items():
            if name in frame.columns:
                cells = frame.pop(name)
                for text in texts:
                    made = (cells.astype(str) == text).astype(float)
                    frame[f"{name}={text}"] = made.where(cells.notna())
        return frame

    def names(self, columns: Sequence[str]) -> list[str]:
        """Return what columns of the table are called afterwards."""
        made = {name: [f"{name}={text}" for text in texts] for name, texts in self.values.items()}
        return [new for name in columns for new in made.get(name, [name])]

    @property
    def made_of(self) -> dict[str, str]:
        """The column of the table that each indicator is made of."""
        return {made: name for name in self.values for made in self.names([name])}

    def say_unseen(self, frame: Any, used: Sequence[str]) -> None:
        """Say where texts behind the columns used are none of the fit: no indicator is 1 there."""
        for name, base in self.bases.items():
            if base == OTHERS or not {*self.names([name])} & {*used}:
                continue
            cells = frame[name].dropna().astype(str)
            unseen = cells[~cells.isin([base, *self.values[name]])]
            if len(unseen):
                say(
                    f"column {name!r} holds texts that the fit has not seen, such as "
                    f"{unseen.iloc[0]!r}, in {len(unseen)} of {len(frame)} rows; they are taken "
                    f"for {base!r}"
                )

    def say(self) -> None:
        """Tell the user what was done."""
        for name in self.values:
            say(f"column {name!r} became {', '.join(self.names([name]))} (1 or 0)")
        if self.fills:
            shown = ", ".join(
                f"{name!r} with {fill if isinstance(fill, str) else f'{fill:.6g}'}"
                for name, fill in self.fills.items()
            )
            say(f"missing cells were filled: {shown}")

    def as_document(self) -> dict[str, Any] | None:
        """Return what a model file keeps, None for nothing."""
        return asdict(self) if any(asdict(self).values()) else None

    def adopt(self, options: Namespace) -> None:
        """Set the options that the user has not given to those of the fit."""
        for name in (*READING, *FITTING):
            given = getattr(options, name, True)
            if name in self.reading and (given is None or given is False):
                setattr(options, name, self.reading[name])

    def kept(self, options: Namespace, left_out: Sequence[str], inputs: Any) -> Recipe:
        """Return the recipe with the options of a fit to a table of these inputs."""
        given = {name: getattr(options, name) for name in (*READING, *FITTING)}
        found = {name: value for name, value in given.items() if value not in (None, False)}
        if left_out:
            found["left_out"] = list(left_out)
        if getattr(options, "holdout", None) is not None:
            found |= {"holdout": options.holdout, "seed": options.seed, "rows": len(inputs)}
        limits = np.column_stack([inputs.min(), inputs.max()]).tolist()
        ranges = {str(name): own for name, own in zip(inputs.columns, limits, strict=True)}
        return replace(self, reading=found, ranges=ranges)

    def outside(self, X: Any, names: Sequence[str]) -> list[str]:
        """Return for every row the inputs in use that are beyond the range of the fit."""
        low, high = np.array([self.ranges.get(n, NO_LIMITS) for n in names]).reshape(-1, 2).T
        beyond = (low > X) | (high < X)
        return [", ".join(compress(names, row)) for row in beyond]

    @classmethod
    def read(cls, document: Any) -> Recipe:
        """Return the recipe of a model file, or refuse what is none."""
        if document is None:
            return cls()
        try:
            values = {
                str(name): list(map(str, texts)) for name, texts in document["values"].items()
            }
            bases = {str(name): str(text) for name, text in document.get("bases", {}).items()}
            reading = dict(document.get("reading", {}))
            if "holdout" in reading:
                kinds = {"holdout": float, "seed": int, "rows": int}
                reading |= {name: kind(reading[name]) for name, kind in kinds.items()}
            given = document.get("ranges", {}).items()
            ranges = {str(name): [float(low), float(high)] for name, (low, high) in given}
            return cls(values, dict(document["fills"]), bases, reading, ranges)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"columns must hold values and fills, got {document!r}") from error


def few_texts(cells: Any, *, whole: bool = True) -> list[str]:
    """Return the texts of a column in order, where they are at least two and at most ten.

    Unless the ``whole`` column must have no others, the most frequent ones of more, as far as they
    stand in two rows or more.
    """
    import pandas as pd

    text = is_text(cells) or isinstance(cells.dtype, pd.CategoricalDtype)
    if not text or to_numbers(cells).notna().any():
        return []
    counts = cells.astype(str).value_counts()
    if len(counts) > MOST_VALUES:
        counts = counts[:0] if whole else counts[counts > 1].head(MOST_VALUES)
    return sorted(counts.index) if len(counts) > 1 else []


def to_numbers(column: Any) -> Any:
    """Return the numbers of a column as floats, NaN where a cell is none."""
    import pandas as pd

    kind = pd.api.types
    if kind.is_bool_dtype(column) and column.notna().all():
        return column.astype(np.float64)
    if is_text(column):
        column = pd.to_numeric(column, errors="coerce")
    elif not kind.is_numeric_dtype(column) or kind.is_complex_dtype(column):
        return pd.Series(np.nan, index=column.index)  # dates, categories, lists
    return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
