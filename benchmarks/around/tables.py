"""Dask and every table library against arrays: the same rows give the same formula.

Rows come as NumPy arrays of other orders and types, data frames of pandas and polars, tables of
PyArrow, and Dask arrays and data frames in random chunks, with and without weights; ``predict``
takes each of them too.
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from polysharp import SparsePolynomialRegressor
from polysharp.errors import InputError

NAMES = ["speed", "air gap", "größe", "x0"]


def chunked(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    """Cut n rows at random."""
    cuts = np.sort(rng.choice(np.arange(1, n), int(rng.integers(0, 4)), replace=False))
    return tuple(np.diff([0, *cuts, n]).tolist())


def forms(rng: np.random.Generator, X: np.ndarray, y: np.ndarray, v: Any) -> dict[str, Any]:
    """Return the same rows in every form: X, y and weights."""
    frame = pd.DataFrame(X, columns=NAMES)
    odd = pd.Index(rng.permutation(len(y)) * 7)  # an index that is not 0, 1, 2, ...
    chunks = chunked(rng, len(y))
    parts = int(rng.integers(1, 4))
    dask_v = None if v is None else da.from_array(v, chunks=(chunks,))
    series_v = None if v is None else dd.from_pandas(pd.Series(v), npartitions=parts)
    rows = dd.from_pandas(frame, npartitions=parts)
    target = dd.from_pandas(pd.Series(y), npartitions=parts)
    return {
        "columns first": (np.asfortranarray(X), y, v),
        "lists": (X.tolist(), y.tolist(), v),
        "pandas": (frame.set_axis(odd), pd.Series(y, index=odd), v),
        "pandas, nullable": (frame.astype("Float64"), pd.Series(y).astype("Float64"), v),
        "polars": (pl.DataFrame(frame.to_dict("list")), pl.Series(y), v),
        "pyarrow": (pa.table(frame.to_dict("list")).to_pandas(), y, v),
        "Dask array": (da.from_array(X, chunks=(chunks, -1)), da.from_array(y, (chunks,)), dask_v),
        "Dask frame": (rows, target, series_v),
    }


def check(seed: int, tally: Any) -> None:
    """Fit the same rows in every form."""
    rng = np.random.default_rng([56, seed])
    n = int(rng.integers(20, 120))
    X = rng.standard_normal((n, 4)) + 10.0 ** rng.uniform(-2, 2)
    y = X[:, 0] * X[:, 1] - 2.0 * X[:, 2] + 0.1 * rng.standard_normal(n)
    v = rng.uniform(0.0, 2.0, n) if rng.random() < 0.4 else None
    model = SparsePolynomialRegressor(
        degree=2, max_terms=int(rng.integers(1, 4)), gamma=1.0, center=bool(rng.random() < 0.5),
        clamp=bool(rng.random() < 0.3), random_state=0, gap_tol=1e-6,
    )  # fmt: skip
    plain = model.fit(X, y, sample_weight=v)
    terms, coefficients = plain.polynomial_.monomials, plain.polynomial_.coefficients
    values, objective = plain.predict(X), plain.solution_.objective
    size = np.abs(values).max()
    with dask.config.set(scheduler="synchronous"):
        for form, (rows, target, weights) in forms(rng, X, y, v).items():
            where = f"seed {seed} {form}"
            try:
                model.fit(rows, target, sample_weight=weights)
                found = np.asarray(model.predict(rows))
            except InputError as error:
                tally.find("refused", where, str(error)[:200])
                continue
            tally.count(form)
            law = model.polynomial_
            same = law.monomials == terms and np.allclose(law.coefficients, coefficients, rtol=1e-6)
            if not same or not np.isclose(model.solution_.objective, objective, rtol=1e-7):
                tally.find("another formula", where, f"{law} for {plain.polynomial_}")
            elif not np.allclose(found, values, rtol=1e-7, atol=1e-7 * size):
                tally.find("other predictions", where)
