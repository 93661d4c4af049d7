"""How often planted formulas are found and proved, with degree and number of terms set alone.

    python -m benchmarks.default_planted                         # 40 fits, one thread
    python -m benchmarks.default_planted --rows 300 --seeds 2    # some of them
    python -m benchmarks.default_planted --first-seed 100        # seeds no setting was chosen on

p = 25 inputs, degree 3, 20 terms in 10 inputs, n rows with sqrt(SNR) of 20 and 3.  A row of the
results has the ridges chosen, the gap, the seconds of the whole fit, and whether the terms are
those planted.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from polysharp import SparsePolynomialRegressor
from polysharp.synthetic import make_sparse_polynomial

RESULTS = Path(__file__).parent / "results" / "default-planted.csv"
ROWS, NOISES, SEEDS = (300, 400, 500, 600, 1000), (20.0, 3.0), 4
P, DEGREE, INPUTS, TERMS = 25, 3, 10, 20
NEEDED, SECONDS = 38, 3.0  # of 40 fits found and proved; the median may take so many seconds


def fit(n: int, snr_sqrt: float, seed: int, time_limit: float) -> dict[str, Any]:
    """Fit one data set and measure."""
    data = make_sparse_polynomial(n, P, DEGREE, INPUTS, TERMS, snr_sqrt, random_state=seed)
    model = SparsePolynomialRegressor(degree=DEGREE, max_terms=TERMS, time_limit=time_limit)
    began = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    seconds = perf_counter() - began
    solution = model.solution_
    return {
        "n": n,
        "snr_sqrt": snr_sqrt,
        "seed": seed,
        "gamma": f"{model.gamma_:.6g}",
        "refit_gamma": f"{getattr(model, 'refit_gamma_', model.gamma_):.6g}",
        "planted": int(set(model.polynomial_.monomials) == set(data.monomials)),
        "proved": int(solution.status == "optimal"),
        "gap": f"{solution.gap:.3g}",
        "preparation": f"{solution.times['preparation']:.2f}",
        "search": f"{solution.times['search']:.2f}",
        "seconds": f"{seconds:.2f}",
        "nodes": solution.counters.nodes,
        "time_limit": time_limit,
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Return how many were found and proved, and the median time."""
    good = sum(int(row["planted"]) and int(row["proved"]) for row in rows)
    middle = median(float(row["seconds"]) for row in rows)
    return f"{good} of {len(rows)} planted and proved, median {middle:.1f} s"


def main() -> None:
    """Fit them all, print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--noises", type=float, nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    fit(60, 20.0, 0, 1.0)  # compiles
    rows = []
    for n in options.rows:
        for noise in options.noises:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                rows.append(fit(n, noise, seed, options.time_limit))
                print(rows[-1], flush=True)
    print(summary(rows))
    if options.output is not None:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
