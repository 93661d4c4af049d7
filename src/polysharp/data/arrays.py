"""The few array operations behind pricing, and NumPy's way to do them.

Tables are (inputs, rows): one input per contiguous row, so that any range of inputs is one
block of memory.  Libraries share the syntax of slices and entrywise products; what differs, or
deserves care for speed, stands here:

    correlate(parts, table) = stack(part * weight for each part) table'
    above(P, limits)        = where |P_sc| >= limits_s

NumPy takes the rows in chunks.  The weighted block stays in cache, partial sums of a chunk are
added in float64 (which keeps float32 errors at the level of one chunk), and buffers are kept:
fresh memory costs as much as the arithmetic on it.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from polysharp.typing import Array, Indices

Precision = Literal["float32", "float64"]

ROUNDOFF: dict[Precision, float] = {"float32": 2.0**-24, "float64": 2.0**-53}
CHUNK = 4096


class Arrays(Protocol):
    """What pricing asks of an array library."""

    @property
    def chunk(self) -> int:
        """Rows that are added up in the working precision before they meet float64."""
        ...

    @property
    def stack(self) -> int:
        """Weighted rows that make a product efficient."""
        ...

    @property
    def best_precision(self) -> Precision:
        """The working precision that is fastest here while errors stay bounded."""
        ...

    def table(self, X: Any, inputs: Indices, precision: Precision) -> Any:
        """Return the chosen columns of X (n, p) as a table."""
        ...

    def vector(self, a: Array, precision: Precision) -> Any:
        """Return a vector of the library."""
        ...

    def rows(self, table: Any, which: Indices) -> Any:
        """Return a copy of some rows of a table."""
        ...

    def pairs(self, table: Any, start: int, stop: int) -> Any:
        """Return the rows x_k x_l, start <= k < stop, l >= k, in lexicographic order."""
        ...

    def correlate(self, parts: list[tuple[Any, Any]], table: Any) -> Any:
        """Return sum_t part_st weight_t table_ct, the rows of all parts below each other."""
        ...

    def above(self, P: Any, limits: Array) -> tuple[Indices, Indices, Array]:
        """Return rows, columns and magnitudes of the entries with |P_sc| >= limits_s."""
        ...

    def numpy(self, values: Any) -> Array:
        """Return values as a float64 NumPy array."""
        ...


class NumpyArrays:
    """Pricing on NumPy arrays."""

    best_precision: Precision = "float32"
    stack = 256

    def __init__(self) -> None:
        self.chunk = CHUNK
        self._buffers: dict[str, Any] = {}

    def _buffer(self, name: str, shape: tuple[int, int], dtype: Any) -> Any:
        size = shape[0] * shape[1]
        held = self._buffers.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._buffers[name] = np.empty(size, dtype=dtype)
        return held[:size].reshape(shape)

    def table(self, X: Any, inputs: Indices, precision: Precision) -> Any:
        """Return the chosen columns of X as rows."""
        columns = np.asarray(X)[:, inputs]
        return np.ascontiguousarray(columns.T, dtype=precision)

    def vector(self, a: Array, precision: Precision) -> Any:
        """Return a in the working precision."""
        return np.asarray(a, dtype=precision)

    def rows(self, table: Any, which: Indices) -> Any:
        """Return a copy of some rows."""
        return table[which]

    def pairs(self, table: Any, start: int, stop: int) -> Any:
        """Return x_k x_l, one row each."""
        p, n = table.shape
        out = np.empty((sum(p - k for k in range(start, stop)), n), dtype=table.dtype)
        at = 0
        for k in range(start, stop):
            np.multiply(table[k:], table[k], out=out[at : at + p - k])
            at += p - k
        return out

    def correlate(self, parts: list[tuple[Any, Any]], table: Any) -> Any:
        """Return stack(part * weight) table'; the result is valid until the next call."""
        n, dtype = table.shape[1], table.dtype
        shape = (sum(len(part) for part, _ in parts), len(table))
        partial = self._buffer("partial", shape, dtype)
        total = partial if n <= self.chunk else self._buffer("total", shape, np.float64)
        for start in range(0, n, self.chunk):
            rows = slice(start, min(start + self.chunk, n))
            stacked = self._buffer("stacked", (shape[0], rows.stop - start), dtype)
            at = 0
            for part, weight in parts:
                np.multiply(part[:, rows], weight[rows], out=stacked[at : at + len(part)])
                at += len(part)
            np.matmul(stacked, table[:, rows].T, out=partial)
            if start == 0 and total is not partial:
                total[...] = partial
            elif start:
                total += partial
        return total

    def above(self, P: Any, limits: Array) -> tuple[Indices, Indices, Array]:
        """Return where |P_sc| >= limits_s; P is overwritten by its magnitudes."""
        np.abs(P, out=P)
        mask = limits[:, None].astype(P.dtype) <= P
        where = np.flatnonzero(mask)
        rows, columns = np.divmod(where, P.shape[1])
        return rows, columns, P.ravel()[where].astype(np.float64)

    def numpy(self, values: Any) -> Array:
        """Return values in float64."""
        return np.asarray(values, dtype=np.float64)
