"""Where the heavy arithmetic runs: NumPy on the CPU, or PyTorch on the device of one's choice.

Three kinds of work are heavy: ranking the inputs, accumulating moments, pricing all monomials.
A ``Place`` answers for all three; results are NumPy records either way.  ``device=None`` means
NumPy, unless X is a tensor: then the work is done by PyTorch where the tensor lives (a tensor on
the CPU runs the same code as one on a GPU).  ``device="cpu"`` always means NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polysharp.data.arrays import Arrays, NumpyArrays
from polysharp.moments import moments
from polysharp.moments.moments import Moments
from polysharp.monomials.basis import Basis
from polysharp.ranking import ranking
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array, OnBlock


@dataclass(frozen=True)
class Place:
    """The CPU, or a PyTorch device."""

    device: Any = None  # a torch.device; None for NumPy

    @classmethod
    def find(cls, X: Any, device: str | None) -> Place:
        """Return the place that the user's data and wish point at."""
        from polysharp.data import torch_backend as backend_torch

        if device == "cpu" or (device is None and not backend_torch.is_tensor(X)):
            return cls()
        return cls(backend_torch.find_device(X, device))

    @property
    def on_gpu(self) -> bool:
        """Whether matrix products are those of a GPU."""
        return self.device is not None and self.device.type == "cuda"

    def arrays(self) -> Arrays:
        """Return the array library for pricing."""
        if self.device is None:
            return NumpyArrays()
        from polysharp.data.torch_backend import TorchArrays

        return TorchArrays(self.device)

    def accumulate(
        self,
        basis: Basis,
        X: Array,
        y: Array,
        sample_weight: Array | None = None,
        *,
        on_block: OnBlock | None = None,
    ) -> Moments:
        """Accumulate moments (``polysharp.moments.moments``)."""
        if self.device is None:
            return moments.accumulate(basis, X, y, sample_weight, on_block=on_block)
        from polysharp.data import torch_backend as backend_torch

        where = str(self.device)
        return backend_torch.accumulate(basis, X, y, sample_weight, device=where, on_block=on_block)

    def rank_inputs(
        self,
        X: Array,
        y: Array,
        degree: int,
        gamma: float,
        *,
        sample_weight: Array | None,
        fit_intercept: bool,
        on_block: OnBlock | None,
    ) -> Ranking:
        """Rank inputs (Algorithm 1)."""
        if self.device is None:
            return ranking.rank_inputs(
                X,
                y,
                degree,
                gamma,
                sample_weight=sample_weight,
                fit_intercept=fit_intercept,
                on_block=on_block,
            )
        from polysharp.data import torch_backend as backend_torch

        return backend_torch.rank_inputs(
            X,
            y,
            degree,
            gamma,
            sample_weight=sample_weight,
            fit_intercept=fit_intercept,
            device=str(self.device),
            on_block=on_block,
        )


def as_host(X: Any) -> Any:
    """Return tensors as NumPy arrays and everything else as it is."""
    from polysharp.data.torch_backend import is_tensor, on_host

    return on_host(X) if is_tensor(X) else X
