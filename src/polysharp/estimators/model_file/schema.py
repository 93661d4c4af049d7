"""Reading JSON that somebody else may have written: every field is checked before it is used.

A ``Reader`` stands at one place of the document and hands out what it finds there, or says
which place breaks which rule::

    terms[2].coefficient must be a finite number, got '1.5'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from polysharp.errors import InputError
from polysharp.typing import Array


@dataclass(frozen=True)
class Reader:
    """One place of a document, and what stands there."""

    place: str
    value: Any

    def __getitem__(self, name: str) -> Reader:
        """Enter a field of an object; a field that is not there is refused."""
        if not isinstance(self.value, dict):
            raise self.refusal("an object")
        inside = f"{self.place}.{name}" if self.place else name
        if name not in self.value:
            raise InputError(f"{inside} is missing")
        return Reader(inside, self.value[name])

    def fields(self) -> dict[str, Reader]:
        """Enter all fields of an object."""
        if not isinstance(self.value, dict):
            raise self.refusal("an object")
        return {name: self[name] for name in self.value}

    def get(self, name: str) -> Reader | None:
        """Enter a field of an object, None where it is not there or null."""
        found = self.fields().get(name)
        return None if found is None or found.value is None else found

    def items(self) -> Iterator[Reader]:
        """Enter the items of a list."""
        if not isinstance(self.value, list):
            raise self.refusal("a list")
        return (Reader(f"{self.place}[{i}]", item) for i, item in enumerate(self.value))

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            raise self.refusal("a text")
        return self.value

    def one_of(self, *words: str) -> str:
        """Return one of the words."""
        if self.value not in words:
            raise self.refusal(f"one of {', '.join(map(repr, words))}")
        return self.text()

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.refusal("true or false")
        return self.value

    def integer(self, least: int, most: int | None = None) -> int:
        """Return an integer within limits."""
        value = self.value
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not good or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise self.refusal(f"an integer {limits}")
        return int(value)

    def number(self, least: float = -float("inf")) -> float:
        """Return a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.refusal("a finite number")
        try:
            value = float(self.value)
        except OverflowError:
            value = float("inf")
        if not isfinite(value) or value < least:
            raise self.refusal(
                "a finite number" + (f" of at least {least:g}" if least == 0 else "")
            )
        return value

    def size(self) -> float:
        """Return a finite number of at least 0."""
        return self.number(least=0)

    def numbers(self, count: int | None = None, of: str = "", *, least: float = -inf) -> Array:
        """Return a list of finite numbers, one for each of so many things where they are told."""
        values = np.array([item.number(least=least) for item in self.items()], dtype=np.float64)
        if count not in (None, len(values)):
            raise InputError(f"{self.place} must have one number per {of}, got {len(values)}")
        return values

    def refusal(self, rule: str) -> InputError:
        """Return the error for a value that breaks a rule."""
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return InputError(f"{self.place or 'the document'} must be {rule}, got {shown}")
