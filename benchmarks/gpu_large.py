"""As many inputs as rows, thousands of each, proved on a GPU through the public estimator.

    python benchmarks/gpu_large.py                        # n = p = 16,000: 2 GB of rows
    python benchmarks/gpu_large.py --sizes 4000 8000 --device cuda --seeds 100 101
    python benchmarks/gpu_large.py --sizes 1000 --device cpu

X ~ N(0, rho^|i-j|), k ones at every (p/k)-th column, SNR 5, degree 1, lambda2 = 1 and |w_j| <= 2 as
part of the problem: the family on which GPU branch and bound has been reported.  Seconds are those
of ``fit``, from the table in memory on: checks, moments, search and certificate.  Kernels are
loaded by a small fit before.  Every run is a row of benchmarks/results/gpu-large.csv, from which
the table of the page is written (``--sizes`` without a number: only that).
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from time import perf_counter

import machine
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polysharp import SparsePolynomialRegressor

RESULTS = Path(__file__).parent / "results"
FIELDS = (
    *("n", "p", "terms", "rho", "seed", "device", "objective", "bound", "gap", "proved"),
    *("planted_found", "seconds", "search_seconds", "nodes", "proof"),
)


def drawn(size: int, terms: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n = p = size rows."""
    rng = np.random.default_rng([seed, size, size])
    X = rng.standard_normal((size, size))  # inputs in rows while they are made
    for j in range(1, size):
        X[j] = rho * X[j - 1] + np.sqrt(1.0 - rho * rho) * X[j]
    signal = X[:: size // terms][:terms].sum(axis=0)
    noise = float(np.sqrt(signal.var(ddof=1) / 5.0))
    return np.ascontiguousarray(X.T), signal + noise * rng.standard_normal(size)


def model(options: argparse.Namespace) -> SparsePolynomialRegressor:
    """Return the estimator that is measured."""
    return SparsePolynomialRegressor(
        degree=1, max_terms=options.terms, gamma=1.0, coefficient_bounds=(-2.0, 2.0),
        n_candidates=None, device=options.device, time_limit=options.time_limit,
    )  # fmt: skip


def measured(size: int, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """Fit one instance."""
    X, y = drawn(size, options.terms, options.rho, seed)
    began = perf_counter()
    s = model(options).fit(X, y).solution_
    seconds = perf_counter() - began
    planted = {j * (size // options.terms) for j in range(options.terms)}
    return {
        "n": size, "p": size, "terms": options.terms, "rho": options.rho, "seed": seed,
        "device": options.device, "objective": f"{s.objective:.8g}", "bound": f"{s.bound:.8g}",
        "gap": f"{s.gap:.6f}", "proved": int(s.status == "optimal"),
        "planted_found": int(set(s.support) == planted), "seconds": f"{seconds:.2f}",
        "search_seconds": f"{s.seconds:.2f}", "nodes": s.counters.nodes,
        "proof": int(s.proof is not None),
    }  # fmt: skip


def table_of(rows: list[dict[str, str]]) -> str:
    """Return a line for each row."""
    head = ["n = p", "rho", "seed", "device", "fit, s", "search, s", "nodes", "gap"]
    names = ["n", "rho", "seed", "device", "seconds", "search_seconds", "nodes"]
    lines = [head, ["---"] * len(head)]
    lines += [[*(row[name] for name in names), f"{float(row['gap']):.2%}"] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Run the sizes that are asked for, a row each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[16_000])
    parser.add_argument("--terms", type=int, default=10)
    parser.add_argument("--rho", type=float, default=0.9)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=RESULTS / "gpu-large.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.sizes:
        print(machine.describe())
        X, y = drawn(2000, 2, options.rho, 0)  # large enough for what runs on the device
        model(options).set_params(max_terms=2).fit(X, y)
    with options.output.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if stream.tell() == 0:
            writer.writeheader()
        for size in options.sizes:
            for seed in options.seeds:
                row = measured(size, seed, options)
                writer.writerow(row)
                stream.flush()
                print(*(row[name] for name in FIELDS), sep="  ", flush=True)
    with options.output.open(newline="") as stream:
        options.output.with_suffix(".md").write_text(table_of(list(csv.DictReader(stream))))


if __name__ == "__main__":
    main()
