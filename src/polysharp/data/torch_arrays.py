"""PyTorch arrays for ``arrays``: tensors on a GPU, or on the CPU.

PyTorch is imported when one of these functions is first used.  Everything runs in float64.  On
data-centre GPUs float64 is as fast as float32, and float32 products may silently be rounded to
fewer digits (TF32), which would break the error bounds of pricing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polysharp.errors import InputError, load_optional
from polysharp.typing import Array, Indices, Precision

LARGE = 10**7  # numbers; larger arrays are copied to the host through pinned memory


def is_tensor(X: object) -> bool:
    """Whether X is a PyTorch tensor; does not import PyTorch."""
    return type(X).__module__.split(".")[0] == "torch"


def torch_module() -> Any:
    """Import PyTorch, or say that it is missing."""
    return load_optional("torch", "device", "torch")


def find_device(X: Any, device: str | None = None) -> Any:
    """Return the device that the user named, or that of the tensor X."""
    torch = torch_module()
    if device is None:
        return X.device if is_tensor(X) else torch.device("cpu")
    try:
        found = torch.device(device)
    except RuntimeError as unknown:
        raise InputError(f"device must be a PyTorch device, got {device!r}") from unknown
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r} needs a CUDA GPU, and PyTorch sees none")
    return found


class TorchArrays:
    """Tensors on one device."""

    best_precision: Precision = "float64"
    chunk = 2**62  # one product over all rows
    stack = 4096  # weighted rows: few large products, since the device waits between them

    def __init__(self, device: Any, block_bytes: int = 512 * 2**20) -> None:
        self.torch, self.device, self.block_bytes = torch_module(), device, block_bytes

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
