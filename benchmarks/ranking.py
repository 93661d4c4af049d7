"""Time of the input ranking as a multiple of (one Cholesky + r products (n x n)(n x p)).

    python benchmarks/ranking.py                      # n = 10,000, p = 1,000, r = 3
    python benchmarks/ranking.py --rows 2000 --inputs 400

Prints the time, the reference measured in the same run, their ratio (target: at most 1.5), and
the memory taken beyond the data beside the size of one n x n matrix.
"""

from __future__ import annotations

import argparse
import resource
import time

import machine

from polysharp.ranking.ranking import rank_inputs
from polysharp.synthetic import make_sparse_polynomial


def main() -> None:
    """Run once and print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=1_000)
    parser.add_argument("--degree", type=int, default=3)
    options = parser.parse_args()
    n, p, r = options.rows, options.inputs, options.degree

    data = make_sparse_polynomial(n, p, r, 20, 40, 20.0, random_state=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    ranking = rank_inputs(data.X, data.y, degree=r, gamma=1.0 / n**0.5)
    elapsed = time.perf_counter() - start
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20

    factor, product = machine.cholesky_time(n), machine.product_time(n, n, p)
    reference = factor + r * product
    place = {int(i): rank for rank, i in enumerate(ranking.order, start=1)}
    print(machine.describe())
    print(f"n = {n}, p = {p}, r = {r}, gamma = 1/sqrt(n)")
    print(f"ranking            {elapsed:8.2f} s, {extra:.2f} GiB beyond the data")
    print(f"one n x n matrix            {8 * n * n / 2**30:.2f} GiB")
    print(f"Cholesky           {factor:8.2f} s;  one product {product:.2f} s")
    print(f"ratio              {elapsed / reference:8.2f}  (target: at most 1.5)")
    print(f"p' to keep the {len(data.inputs)} planted inputs: {max(place[i] for i in data.inputs)}")


if __name__ == "__main__":
    main()
