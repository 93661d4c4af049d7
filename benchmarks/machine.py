"""What this machine can do: the yardsticks that the benchmarks state their times in.

Times in seconds mean little on a shared or unknown machine.  Each benchmark therefore measures,
in the same run, how fast plain BLAS and LAPACK calls go, and reports multiples of that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.lapack import dpotrf


def best_time(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest of a few timings of ``work``, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def product_rate(dtype: DTypeLike = np.float64, size: int = 3000, repeats: int = 3) -> float:
    """Return the rate of a square matrix product, in floating-point operations per second."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((size, size)).astype(dtype)
    B = rng.standard_normal((size, size)).astype(dtype)
    out = np.empty_like(A)
    np.matmul(A, B, out=out)
    return 2.0 * size**3 / best_time(lambda: np.matmul(A, B, out=out), repeats)


def product_time(m: int, k: int, n: int, repeats: int = 1) -> float:
    """Return the time of one float64 product (m x k)(k x n)."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    out = np.empty((m, n))
    return best_time(lambda: np.matmul(A, B, out=out), repeats)


def cholesky_time(n: int) -> float:
    """Return the time of one in-place LAPACK Cholesky factorisation of an n x n matrix."""
    A = np.full((n, n), 0.5, order="F")
    A[np.diag_indices(n)] = float(n)
    start = time.perf_counter()
    _, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    elapsed = time.perf_counter() - start
    assert info == 0
    return elapsed


def describe() -> str:
    """Return one line on the machine: cores, threads asked for, NumPy, product rates."""
    threads = os.environ.get("OMP_NUM_THREADS", "default")
    return (
        f"{os.cpu_count()} cores, OMP_NUM_THREADS {threads}, NumPy {np.__version__}, "
        f"products {product_rate() / 1e9:.0f} GFLOP/s in float64, "
        f"{product_rate(np.float32) / 1e9:.0f} in float32"
    )


if __name__ == "__main__":
    print(describe())
