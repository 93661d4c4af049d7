"""Remarks about the table that only a fitted formula allows: labels in powers, one row in error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polysharp.cli.table_rows import Sample
from polysharp.wording import plural

FEWEST_ROWS = 20  # below, one row always makes much of the error
ONE_ROW = 0.5  # share of the squared error that one row must make to be named
LABELS = range(3, 13)  # different whole numbers of a column that may be names of groups


def data_remarks(model: Any, sample: Sample) -> Iterator[str]:
    """Yield sentences about the rows of a fit of one response."""
    polynomial, X = model.polynomial_, sample.X
    names = list(map(str, X.columns))
    powers = {i for m in polynomial.monomials for i in m if m.count(i) > 1 and i < len(names)}
    for i in sorted(powers):
        values = np.unique(np.asarray(X.iloc[:, i], dtype=float))
        if len(values) in LABELS and len(X) >= FEWEST_ROWS and (values == values.round()).all():
            yield (
                f"{names[i]!r} has powers and holds {plural(len(values), 'whole number')}, "
                f"{values[0]:g} to {values[-1]:g}: if they name groups, write them as texts, which "
                "become 0/1 columns"
            )
    y = np.asarray(sample.y, dtype=float)
    squares = np.square(y - model.predict(X))
    if sample.sample_weight is not None:
        squares = squares * np.asarray(sample.sample_weight, dtype=float)
    worst = int(np.argmax(squares))
    exact = squares.sum() <= 1e-12 * np.square(y).sum()
    if len(squares) < FEWEST_ROWS or exact or squares[worst] < ONE_ROW * squares.sum():
        return
    row = np.asarray(X, dtype=float)[worst]
    middle, spread = np.median(X, axis=0), np.subtract(*np.percentile(X, [75, 25], axis=0))
    far = int(np.argmax(np.abs(row - middle) / np.maximum(spread, 1e-300)))
    share = squares[worst] / squares.sum()
    yield (
        f"row {X.index[worst] + 1} makes {share:.0%} of the squared error: look at "
        f"{names[far]!r} = {row[far]:g} (median {middle[far]:g}) and "
        f"{sample.targets[0]!r} = {y[worst]:g}"
    )
