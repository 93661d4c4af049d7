"""Lists of numbers as the arrays of a file: end to end, their lengths beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polysharp.typing import Array

MOST_BYTES = 2**30  # unpacked; a proof of five million numbers takes a tenth of that

Numbers = NDArray[Any]
Record = TypeVar("Record")


def listed_once(records: Iterable[Record]) -> tuple[list[Record], dict[int, int]]:
    """Return records in the order met, each once, and the number of each by its id."""
    found = {id(record): record for record in records}
    return list(found.values()), {key: number for number, key in enumerate(found)}


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


class Stored(dict[str, Numbers]):
    """The arrays of a file by name."""

    def lists(self, name: str) -> list[Numbers]:
        """Return the lists that ``joined`` wrote."""
        return cut(self[name].astype(np.intp), self[f"{name}_length"])

    def tuples(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the lists that ``joined`` wrote, as tuples."""
        return tuple(tuple(part.tolist()) for part in self.lists(name))

    def reals(self, name: str, beside: str) -> list[Numbers]:
        """Return the lists that ``end_to_end`` made one of, as long as those of another name."""
        return cut(self[name].astype(np.float64), self[f"{beside}_length"])

    def numbered(self, name: str, among: Sequence[Any], *, least: int = 0) -> list[Any]:
        """Return the records that an array has the numbers of; -1, if that may be, is none."""
        numbers = self[name].tolist()
        for number in numbers:
            if not least <= number < len(among):
                raise IndexError(f"there is no number {number}")
        return [None if number == -1 else among[number] for number in numbers]


def each(make: Callable[..., Record], *columns: Iterable[Any]) -> list[Record]:
    """Make a record of each row of some columns, which must be of one length."""
    return [make(*row) for row in zip(*columns, strict=True)]


def cut(values: Numbers, lengths: Numbers) -> list[Numbers]:
    """Return parts of so many numbers each, which must be all there are."""
    if (lengths < 0).any() or sum(lengths.tolist()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
