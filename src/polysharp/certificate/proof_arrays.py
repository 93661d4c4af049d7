"""Lists of numbers as the arrays of a file: end to end, their lengths beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from polysharp.typing import Array

MOST_BYTES = 2**30  # unpacked; a proof of five million numbers takes a tenth of that

Numbers = NDArray[Any]
Record = TypeVar("Record")


class Numbering(Generic[Record]):
    """Records in the order met, each listed once."""

    def __init__(self) -> None:
        self.listed: list[Record] = []
        self._number: dict[int, int] = {}

    def of(self, record: Record | None) -> int:
        """Return the number of a record, -1 of none."""
        if record is None:
            return -1
        if id(record) not in self._number:
            self._number[id(record)] = len(self.listed)
            self.listed.append(record)
        return self._number[id(record)]


def integers(values: Iterable[int]) -> Numbers:
    """Return whole numbers as an array."""
    return np.array(list(values), dtype=np.int64)


def joined(name: str, lists: Sequence[Any]) -> dict[str, Numbers]:
    """Return lists of whole numbers end to end, and their lengths."""
    parts = [np.asarray(part, dtype=np.int64) for part in lists]
    lengths = integers(len(part) for part in parts)
    return {name: np.concatenate([np.zeros(0, np.int64), *parts]), f"{name}_length": lengths}


def end_to_end(parts: Iterable[Array]) -> Array:
    """Return lists of numbers as one."""
    return np.concatenate([np.zeros(0), *parts])


def numbered(value: int, among: Sequence[Record]) -> Record:
    """Return the record of a number, which must be one."""
    if not 0 <= value < len(among):
        raise IndexError(f"there is no number {value}")
    return among[value]


def lists_of(stored: dict[str, Numbers], name: str) -> list[Numbers]:
    """Return the lists that ``joined`` wrote."""
    return cut(stored[name].astype(np.intp), stored[f"{name}_length"])


def cut(values: Numbers, lengths: Numbers) -> list[Numbers]:
    """Return parts of so many numbers each, which must be all there are."""
    if (lengths < 0).any() or sum(lengths.tolist()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
