"""NumPy or PyTorch: the device of the heavy arithmetic, and the array operations that differ.

Three computations are heavy: ranking the inputs, accumulating moments, pricing all monomials.
A ``Place`` says which device runs them: NumPy on the CPU, or PyTorch on a device that the user
names.  Results are NumPy records either way.  ``device=None`` means NumPy unless X is a tensor;
then PyTorch works on the tensor's device.  ``device="cpu"`` always means NumPy.

Tables have shape (inputs, rows): one input per contiguous row, so that any range of inputs is one
block of memory.  Slices and entrywise products look alike in both libraries.  The operations that
differ, or that need care for speed, are methods of ``NumpyArrays`` and ``TorchArrays``:

    correlate(parts, table) = stack(part * weight for each part) table'
    above(P, limits)        = the positions with |P_sc| >= limits_s

NumPy takes the rows in chunks.  The weighted block stays in cache; the sum of a chunk is added in
float64, which keeps float32 errors at the level of one chunk; and buffers are reused, because
fresh memory costs as much as the arithmetic on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from polysharp.errors import InputError, load_optional
from polysharp.typing import Array, Indices, Precision

TILE = 96  # columns corrected at a time: a tile stays in the cache
LARGE = 10**7  # numbers; larger tensors are copied to the host through pinned memory
ROUNDOFF: dict[Precision, float] = {"float32": 2.0**-24, "float64": 2.0**-53}


class NumpyArrays:
    """NumPy on the CPU."""

    best_precision: Precision = "float32"  # the fastest one while errors stay bounded

    def __init__(self, chunk: int = 4096, stack: int = 256, block_bytes: int = 8 * 2**20) -> None:
        self.chunk = chunk  # rows added up in the working precision before they meet float64
        self.stack = stack  # weighted rows that make a product efficient
        self.block_bytes = block_bytes  # of the monomials of a block of rows that fits the cache
        self._buffers: dict[str, Any] = {}

    def _buffer(self, name: str, shape: tuple[int, int], dtype: Any) -> Any:
        size = shape[0] * shape[1]
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self._buffers[name] = np.empty(size, dtype=dtype)
        return buffer[:size].reshape(shape)

    def array(self, values: Any, precision: Precision = "float64") -> Any:
        """Return values in the working precision."""
        return np.asarray(values, dtype=precision)

    def table(self, X: Any, inputs: Indices, precision: Precision) -> Any:
        """Return the chosen columns of X as rows."""
        columns = np.asarray(X)[:, inputs]
        return np.ascontiguousarray(columns.T, dtype=precision)

    def rows(self, table: Any, which: Indices) -> Any:
        """Return a copy of some rows."""
        return table[which]

    def join(self, tables: list[Any]) -> Any:
        """Return the rows of several tables below each other."""
        return np.concatenate(tables)

    def correlate(self, parts: list[tuple[Any, Any]], table: Any) -> Any:
        """Return sum_t part_st weight_t table_ct, the rows of all parts below each other.

        The result is valid until the next call.
        """
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

    def square(self, size: int) -> Any:
        """Return a matrix of zeros with contiguous columns."""
        return np.zeros((size, size), order="F")

    def finished(self, scatter: Any, first: Array | None, step: Array, scales: Array | None) -> Any:
        """Undo a shift, scale, and mirror the lower half, tile by tile while a tile is in cache."""
        for a in range(0, len(step), TILE):
            b = min(a + TILE, len(step))
            low = scatter[a:, a:b]
            if first is not None:
                low -= np.multiply.outer(first[a:], step[a:b])
            if scales is not None:
                low *= np.multiply.outer(scales[a:], scales[a:b])
            corner = scatter[a:b, a:b]
            corner[:] = np.tril(corner) + np.tril(corner, -1).T
            scatter[a:b, b:] = scatter[b:, a:b].T
        return scatter

    def add_square(self, total: Any, table: Any) -> Any:
        """Add the lower half of table table'; ``total`` has contiguous columns."""
        return dsyrk(1.0, table.T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1)

    def above(self, P: Any, limits: Array) -> tuple[Indices, Indices, Array]:
        """Return the positions and sizes of |P_sc| >= limits_s; overwrite P by its magnitudes."""
        np.abs(P, out=P)
        mask = limits[:, None].astype(P.dtype) <= P
        where = np.flatnonzero(mask)
        rows, columns = np.divmod(where, P.shape[1])
        return rows, columns, P.ravel()[where].astype(np.float64)

    def numpy(self, values: Any) -> Array:
        """Return values in float64."""
        return np.asarray(values, dtype=np.float64)


class TorchArrays:
    """Tensors on one device, always in float64.

    On data-centre GPUs float64 is as fast as float32, and float32 products may silently be rounded
    to fewer digits (TF32), which would break the error bounds of pricing.
    """

    best_precision: Precision = "float64"
    chunk = 2**62  # one product over all rows
    stack = 4096  # weighted rows: few large products, since the device waits between them

    def __init__(self, device: Any, block_bytes: int = 512 * 2**20) -> None:
        self.torch, self.device = load_optional("torch", "device", "torch"), device
        self.block_bytes = block_bytes

    def array(self, values: Any, precision: Precision = "float64") -> Any:
        """Return values on the device."""
        if precision != "float64":
            raise InputError(f"precision must be 'float64' on tensors, got {precision!r}")
        return self.torch.as_tensor(values, dtype=self.torch.float64, device=self.device)

    def table(self, X: Any, inputs: Indices, precision: Precision) -> Any:
        """Return the chosen columns of X as rows."""
        return self.rows(self.array(X, precision).T, inputs).contiguous()

    def rows(self, table: Any, which: Indices) -> Any:
        """Return a copy of some rows."""
        return table[self.torch.as_tensor(which.astype(np.int64), device=self.device)]

    def join(self, tables: list[Any]) -> Any:
        """Return the rows of several tables below each other."""
        return tables[0] if len(tables) == 1 else self.torch.cat(tables)

    def correlate(self, parts: list[tuple[Any, Any]], table: Any) -> Any:
        """Return stack(part * weight) table'."""
        return self.join([part * weight for part, weight in parts]) @ table.T

    def square(self, size: int) -> Any:
        """Return a matrix of zeros."""
        return self.torch.zeros((size, size), dtype=self.torch.float64, device=self.device)

    def finished(self, scatter: Any, first: Array | None, step: Array, scales: Array | None) -> Any:
        """Undo a shift, scale, and mirror the lower half: the last steps of moments."""
        if first is not None:
            scatter -= self.array(first)[:, None] * self.array(step)
        if scales is not None:
            scatter *= self.array(scales)[:, None] * self.array(scales)
        low = scatter.tril()
        return low + low.tril(-1).T

    def add_square(self, total: Any, table: Any) -> Any:
        """Add table table'."""
        return total.addmm_(table, table.T)

    def above(self, P: Any, limits: Array) -> tuple[Indices, Indices, Array]:
        """Return the positions and sizes of |P_sc| >= limits_s."""
        P = P.abs_()
        rows, columns = self.torch.nonzero(self.array(limits)[:, None] <= P, as_tuple=True)
        return rows.cpu().numpy(), columns.cpu().numpy(), self.numpy(P[rows, columns])

    def numpy(self, values: Any) -> Array:
        """Return values on the host."""
        if self.device.type == "cuda" and values.nelement() > LARGE:
            # Copies into pinned memory are twice as fast.
            host = self.torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            values = host.copy_(values)
        return np.asarray(values.cpu().numpy(), dtype=np.float64)


Arrays = NumpyArrays | TorchArrays


def is_tensor(X: object) -> bool:
    """Whether X is a PyTorch tensor; does not import PyTorch."""
    return type(X).__module__.split(".")[0] == "torch"


@dataclass(frozen=True)
class Place:
    """The CPU with NumPy, or a PyTorch device."""

    device: Any = None  # a torch.device; None for NumPy

    @classmethod
    def find(cls, X: Any, device: str | None) -> Place:
        """Return the place for the user's data and the parameter ``device``."""
        if device == "cpu" or (device is None and not is_tensor(X)):
            return CPU
        if device is None:
            return cls(X.device)
        torch = load_optional("torch", "device", "torch")
        try:
            found = torch.device(device)
        except RuntimeError as unknown:
            raise InputError(f"device must be a PyTorch device, got {device!r}") from unknown
        if found.type == "cuda" and not torch.cuda.is_available():
            raise InputError(f"device={device!r} needs a CUDA GPU, and PyTorch sees none")
        return cls(found)

    @property
    def on_gpu(self) -> bool:
        """Whether matrix products are those of a GPU."""
        return self.device is not None and self.device.type == "cuda"

    def arrays(self) -> Arrays:
        """Return the array library."""
        return NumpyArrays() if self.device is None else TorchArrays(self.device)


CPU = Place()


def as_host(X: Any) -> Any:
    """Return data that scikit-learn can read.

    A tensor becomes a NumPy array.  An object with Arrow's stream protocol that is not an array,
    such as a DuckDB relation, becomes a PyArrow table.  Other tables stay as they are.
    """
    if is_tensor(X):
        return np.asarray(X.detach().cpu().numpy(), dtype=np.float64)
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):
        return load_optional("pyarrow", f"a {type(X).__name__}", "cli").table(X)
    return X


def products(arrays: Arrays, table: Any, keys: Any) -> Any:
    """Return the products of rows of a table, one for each row of ``keys`` (m, d)."""
    m, d = keys.shape
    found = arrays.rows(table, keys[:, 0] if d else np.zeros(m, dtype=np.intp))
    if d == 0:
        found[:] = 1.0
    for position in range(1, d):
        found *= arrays.rows(table, keys[:, position])
    return found
