"""Time of one pricing pass over all monomials, in matrix products of the same size.

    python benchmarks/pricing.py                             # p = 300, n = 10,000, r = 3
    python benchmarks/pricing.py --inputs 1000               # 167,668,501 monomials
    python benchmarks/pricing.py --inputs 5000 --rows 5000 --degree 2
    python benchmarks/pricing.py --inputs 60 --rows 2000 --degree 4
    python benchmarks/pricing.py --inputs 1000 --device cuda

The reference is n f multiply-adds at the float64 matrix-product rate measured in the same run
(target: at most 2).  Both working precisions are timed; they must return the same monomials.
"""

from __future__ import annotations

import argparse
import resource
import time

import machine
import numpy as np

from polysharp.pricing.pricer import Priced, Pricer
from polysharp.synthetic import make_sparse_polynomial
from polysharp.typing import Precision


def on_cpu(X: np.ndarray, a: np.ndarray, degree: int, top: int) -> None:
    """Time both precisions against the measured product rate."""
    rate = machine.product_rate()
    found: list[Priced] = []
    precisions: tuple[Precision, ...] = ("float32", "float64")
    for precision in precisions:
        pricer = Pricer(X, degree, precision=precision)
        start = time.perf_counter()
        found.append(pricer.price(a, top))
        elapsed = time.perf_counter() - start
        reference = 2.0 * len(X) * pricer.n_monomials / rate
        print(
            f"{precision}: {elapsed:8.2f} s = {elapsed / reference:.2f} x reference "
            f"{reference:.2f} s  (target: at most 2)"
        )
    print(f"same {top} monomials: {found[0].monomials == found[1].monomials}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process {peak:.2f} GiB")


def on_device(X: np.ndarray, a: np.ndarray, degree: int, top: int, device: str) -> None:
    """Time a pass on tensors, data already on the device, after one pass to warm up."""
    import torch

    from polysharp.data.arrays import Place, TorchArrays

    where = Place.find(X, device).device
    pricer = Pricer(torch.as_tensor(X, device=where), degree, arrays=TorchArrays(where))
    for _ in range(2):
        start = time.perf_counter()
        pricer.price(a, top)
        elapsed = time.perf_counter() - start
    rate = 2.0 * len(X) * pricer.n_monomials / elapsed
    print(f"{device}, float64: {elapsed:.3f} s, {rate / 1e12:.2f} TFLOP/s")


def main() -> None:
    """Draw data, price the response, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--top", type=int, default=1000)
    parser.add_argument("--device", default=None, help="a PyTorch device, such as cuda")
    options = parser.parse_args()
    n, p, r = options.rows, options.inputs, options.degree
    data = make_sparse_polynomial(n, p, r, min(20, p), 40, 20.0, random_state=0)
    print(machine.describe())
    print(f"n = {n}, p = {p}, r = {r}, top {options.top}")
    if options.device is None:
        on_cpu(data.X, data.y, r, options.top)
    else:
        on_device(data.X, data.y, r, options.top, options.device)


if __name__ == "__main__":
    main()
