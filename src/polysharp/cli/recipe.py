"""What is done to columns before a fit, so that new rows can be treated alike.

    text of few values    one column of zeros and ones for each value but the most frequent one,
                          called ``city=Paris``; of two values, for the one that sorts last
    missing cells         filled with the median or the mean of the column, or with its most
                          frequent text

The recipe is learnt from the table of the fit and kept in the model file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from polysharp.cli.messages import say
from polysharp.errors import InputError

MOST_VALUES = 10  # of a text column that becomes indicators


@dataclass(frozen=True)
class Recipe:
    """Values that get an indicator, by column of text, and what fills missing cells, by column.

    ``bases`` are the values without an indicator; files of earlier versions do not name them.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    fills: dict[str, Any] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)

    @classmethod
    def learn(cls, table: Any, *, indicators: bool, impute: str | None) -> Recipe:
        """Look at the inputs of a fit; ``impute`` is "median", "mean" or None."""
        values: dict[str, list[str]] = {}
        fills: dict[str, Any] = {}
        bases: dict[str, str] = {}
        for name in table.columns:
            cells = table[name].dropna()
            texts = few_texts(cells)
            if texts and indicators:
                base = texts[0] if len(texts) == 2 else str(cells.astype(str).mode()[0])
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
        for name in [name for name in self.bases if {*self.names([name])} & {*used}]:
            cells = frame[name].dropna().astype(str)
            unseen = cells[~cells.isin([self.bases[name], *self.values[name]])]
            if len(unseen):
                say(
                    f"column {name!r} holds texts that the fit has not seen, such as "
                    f"{unseen.iloc[0]!r}, in {len(unseen)} of {len(frame)} rows; they are taken "
                    f"for {self.bases[name]!r}"
                )

    def say(self) -> None:
        """Tell the user what was done."""
        for name in self.values:
            say(
                f"column {name!r} became {', '.join(self.names([name]))} (1 where it is so, else 0)"
            )
        if self.fills:
            shown = ", ".join(
                f"{name!r} with {fill if isinstance(fill, str) else f'{fill:.6g}'}"
                for name, fill in self.fills.items()
            )
            say(f"missing cells were filled: {shown}")

    def as_document(self) -> dict[str, Any] | None:
        """Return what a model file keeps, None for nothing."""
        return asdict(self) if self.values or self.fills else None

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
            return cls(values, dict(document["fills"]), bases)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"columns must hold values and fills, got {document!r}") from error


def few_texts(cells: Any) -> list[str]:
    """Return the texts of a column in order, where they are at least two and at most ten."""
    import pandas as pd

    kind = pd.api.types
    text = kind.is_object_dtype(cells) or kind.is_string_dtype(cells)
    if (
        not (text or isinstance(cells.dtype, pd.CategoricalDtype))
        or to_numbers(cells).notna().any()
    ):
        return []
    texts = sorted({str(cell) for cell in cells.unique()})
    return texts if 2 <= len(texts) <= MOST_VALUES else []


def to_numbers(column: Any) -> Any:
    """Return the numbers of a column as floats, NaN where a cell is none."""
    import numpy as np
    import pandas as pd

    kind = pd.api.types
    if kind.is_bool_dtype(column) and column.notna().all():
        return column.astype(np.float64)
    if kind.is_object_dtype(column) or kind.is_string_dtype(column):
        column = pd.to_numeric(column, errors="coerce")
    elif not kind.is_numeric_dtype(column) or kind.is_complex_dtype(column):
        return pd.Series(np.nan, index=column.index)  # dates, categories, lists
    return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
