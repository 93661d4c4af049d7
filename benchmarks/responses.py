"""Time of many responses with one support beside the time of one of them.

    python benchmarks/responses.py            # 100 responses, 10 of 3,000 monomials, n = 5,000
    python benchmarks/responses.py --rows 1000 --inputs 500 --responses 20

The monomials are the inputs (degree 1), so that their number is exact.  Both fits are those of the
estimators, moments included; the ratio of the two is the figure (target: at most 3).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import machine
import numpy as np

from polysharp import MultiTaskSparsePolynomialRegressor, SparsePolynomialRegressor


def main() -> None:
    """Fit one response and all of them in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--inputs", type=int, default=3_000)
    parser.add_argument("--responses", type=int, default=100)
    parser.add_argument("--terms", type=int, default=10)
    parser.add_argument("--noise", type=float, default=1 / 3, help="as a share of the signal")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.inputs))
    truth = np.sort(rng.choice(options.inputs, options.terms, replace=False))
    Y = X[:, truth] @ rng.standard_normal((options.terms, options.responses))
    Y += options.noise * Y.std(axis=0) * rng.standard_normal(Y.shape)

    settings: dict[str, Any] = {
        "degree": 1,
        "max_terms": options.terms,
        "gamma": options.rows**-0.5,
        "n_candidates": options.inputs,
    }
    models = SparsePolynomialRegressor(**settings), MultiTaskSparsePolynomialRegressor(**settings)
    for model, y in zip(models, (Y[:50, 0], Y[:50, :2]), strict=True):
        model.fit(X[:50, :20], y)  # kernels are compiled
    times: tuple[list[float], list[float]] = [], []
    for _ in range(options.repeats):
        for seconds, model, y in zip(times, models, (Y[:, 0], Y), strict=True):
            began = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - began)
    one, all_of_them = map(np.median, times)
    joint = models[1]
    found = np.array_equal(np.flatnonzero(joint.powers_.any(axis=0)), truth)
    print(machine.describe())
    print(f"one response   {one:7.2f} s, {models[0].solution_.status}")
    print(f"{options.responses} responses  {all_of_them:7.2f} s, {joint.solution_.status}")
    print(f"ratio          {all_of_them / one:7.2f}  (target: at most 3)")
    print("the terms planted were " + ("found" if found else "not found"))


if __name__ == "__main__":
    main()
