"""Budgets to compare: one value or several, for the search over budgets and for ``path``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polysharp.errors import InputError
from polysharp.validation import _RULES


def values(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    if given is None or isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)):
        return (given,)
    return tuple(given)


def check_values(plural: str, single: str, given: Any) -> None:
    """Refuse what the estimator would not take as its parameter ``single``, value by value."""
    holds, rule = _RULES[single]
    several = values(given)
    if not several:
        raise InputError(f"{plural} must have at least one value, got {given!r}")
    for value in several:
        if not holds(value):
            raise InputError(f"{plural} must be {rule}, or a sequence of such, got {value!r}")
        if isinstance(value, str) and len(several) > 1:
            raise InputError(f"{plural} must not mix {value!r} with numbers, got {given!r}")


def sizes(max_terms: Any) -> tuple[int, ...]:
    """Return the numbers of terms to compare: all up to a number, or those of a sequence."""
    if isinstance(max_terms, (int, np.integer)):
        return tuple(range(1, int(max_terms) + 1))
    return tuple(sorted({int(size) for size in max_terms}))
