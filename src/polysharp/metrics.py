"""The paper's three measures: A%, F% and TE."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from polysharp.typing import Monomial


def accuracy(found: Iterable[Monomial], truth: Iterable[Monomial]) -> float:
    """A%: the share of the true monomials that were found, in percent.

    Examples
    --------
    >>> accuracy([(0,), (1, 1)], [(0,), (2,)])
    50.0
    """
    true = set(truth)
    return 100.0 * len(true & set(found)) / len(true) if true else 100.0


def false_alarm(found: Iterable[Monomial], truth: Iterable[Monomial]) -> float:
    """F%: the share of the found monomials that are not true, in percent.

    Examples
    --------
    >>> false_alarm([(0,), (1, 1)], [(0,), (2,)])
    50.0
    """
    chosen = set(found)
    return 100.0 * len(chosen - set(truth)) / len(chosen) if chosen else 0.0


def test_error(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """TE: the root mean square error, as in the table of the paper.

    Examples
    --------
    >>> test_error([0.0, 0.0], [3.0, 3.0])
    3.0
    """
    residual = np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred, dtype=np.float64)
    return float(np.sqrt(np.mean(residual**2)))


test_error.__test__ = False  # type: ignore[attr-defined]  # not a test, whatever pytest thinks
