"""Exhaustive ends on a CUDA device: supports tried a second, beside one core.

    python benchmarks/gpu_ends.py                   # needs a CUDA device, and PyTorch with Triton
    python benchmarks/gpu_ends.py --sizes 164:5 559:4 559:5

For m monomials of which L may join, every support is tried against a threshold just above the best
one known, as at the end of a proof.  Compilation is not timed.  The processor is run where that
takes less than ``--cpu-seconds``, and must end with the same support and the same gain that nothing
else exceeds (what either lists on the way depends on the order).
"""

from __future__ import annotations

import argparse
from math import comb
from time import perf_counter

import numpy as np
import torch

from polysharp.engines.tree.ends import Exhausted, exhaust, ways
from polysharp.engines.tree.ends_cuda import exhaust_on_device
from polysharp.engines.tree.ends_kernel import Demands, Quest

SIZES = "164:4 164:5 164:6 285:5 363:4 363:5 559:4 559:5 1000:4 2414:3 2414:4"


def problem(size: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return H, b and the cost before any gain of correlated columns with a law of eight terms."""
    rng = np.random.default_rng(size)
    n = 3 * size
    M = rng.standard_normal((n, size)) + 0.7 * rng.standard_normal((n, 1))
    y = M[:, :8].sum(axis=1) + 3.0 * rng.standard_normal(n)
    return M.T @ M + np.sqrt(n) * np.eye(size), M.T @ y, 0.5 * float(y @ y)


def gain(H: np.ndarray, b: np.ndarray, support: list[int]) -> float:
    """Return what a support gains."""
    return 0.5 * float(b[support] @ np.linalg.solve(H[np.ix_(support, support)], b[support]))


def greedy(H: np.ndarray, b: np.ndarray, terms: int) -> list[int]:
    """Return a support that was grown and then improved by swaps."""
    chosen: list[int] = []
    for turn in range(4 * terms):
        if turn >= terms:
            chosen.pop(0)
        left = [j for j in range(len(b)) if j not in chosen]
        chosen.append(max(left, key=lambda j: gain(H, b, [*chosen, j])))
    return chosen


def ended(H: np.ndarray, b: np.ndarray, found: Exhausted | None) -> tuple[object, ...]:
    """Return the best support listed, and the gain that no other exceeds, to ten digits."""
    if found is None or not len(found.hits):
        return ()
    best = max(found.hits.tolist(), key=lambda hit: gain(H, b, hit))
    return sorted(best), f"{found.need:.10g}"


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES.split(), metavar="m:L")
    parser.add_argument("--cpu-seconds", type=float, default=5.0)
    options = parser.parse_args()
    device = torch.device("cuda")
    print(torch.cuda.get_device_name(device), "PyTorch", torch.__version__)
    print(f"{'m':>6}{'L':>3}{'supports':>10}{'seconds':>9}{'a second':>10}{'core':>10}  same")
    no_rules = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0, False, True
    for text in options.sizes:
        size, terms = map(int, text.split(":"))
        H, b, cost = problem(size)
        best = gain(H, b, greedy(H, b, terms))
        task = Quest(best * (1.0 - 1e-9), cost, 1e-4)
        small = H[:16, :16], b[:16], terms, task, device
        exhaust_on_device(*small)  # compiled here
        torch.cuda.synchronize()
        began = perf_counter()
        there = exhaust_on_device(H, b, terms, task, device)
        torch.cuda.synchronize()
        seconds, supports = perf_counter() - began, comb(size, terms)
        core, same = "", ""
        if 5e-10 * ways(size, terms) < options.cpu_seconds:
            rules = Demands(np.zeros((size, 0), dtype=np.uint8), size, *no_rules)
            began = perf_counter()
            here = exhaust(H, b, terms, task, rules)
            core = f"{perf_counter() - began:.3g} s"
            same = str(ended(H, b, here) == ended(H, b, there))
        print(
            f"{size:>6}{terms:>3}{supports:>10.2g}{seconds:>9.3f}{supports / seconds:>10.2g}"
            f"{core:>10}  {same}",
            flush=True,
        )


if __name__ == "__main__":
    main()
