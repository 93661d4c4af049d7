"""Rate of the accumulation of moments, and its memory on a long table.

    python benchmarks/moments.py                      # rate: n = 20,000, p = 25, r = 3
    python benchmarks/moments.py --long               # memory: n = 1,000,000, p = 10, r = 3

The rate counts the multiply-adds of the lower triangle of G, n f (f + 1) / 2, and is stated as
a multiple of the machine's own matrix-product rate (target on the first case: at least 0.5;
the long table has few monomials, and evaluating them costs as much as the product).  Memory is
the peak beyond the data (target: under 1 GiB).
"""

from __future__ import annotations

import argparse
import resource
import time

import machine
import numpy as np

from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis


def measure(n: int, p: int, r: int) -> None:
    """Accumulate once and print rate and memory."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, p)), rng.standard_normal(n)
    basis = Basis.full(p, r)
    basis.evaluate(X[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    accumulate(basis, X, y)
    elapsed = time.perf_counter() - start
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    f = len(basis)
    rate, best = n * f * (f + 1.0) / elapsed, machine.product_rate()
    print(f"n = {n}, p = {p}, r = {r}: f = {f}")
    print(f"time {elapsed:.2f} s, {rate / 1e9:.0f} GFLOP/s counting one triangle")
    print(f"ratio to the matrix-product rate {rate / best:.2f}  (target at p = 25: at least 0.5)")
    print(f"peak memory beyond the data {extra:.0f} MiB  (target: under 1024)")


def main() -> None:
    """Measure the rate, or with --long the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="a million rows of ten inputs")
    options = parser.parse_args()
    if options.long:
        measure(1_000_000, 10, 3)
    else:
        measure(20_000, 25, 3)
    print(machine.describe())  # last: its products would hide the peak of what is measured


if __name__ == "__main__":
    main()
