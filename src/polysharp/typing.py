"""Names of types that every room uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Monomial = tuple[int, ...]  # inputs with repetition: (0, 0, 3) is x0^2 x3, () the constant
Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Precision = Literal["float32", "float64"]
OnBlock = Callable[[int, int], None]  # called with (done, total) between blocks of work
