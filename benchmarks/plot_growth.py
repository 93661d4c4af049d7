"""Draw how the cost of a certificate grows with n, f and l, from the rows of the growth block.

    python benchmarks/plot_growth.py                      # reads benchmarks/results/tree-growth.csv

One figure each: growth-n, growth-f and growth-l (SVG), median seconds over the seeds with their
range, instances that were not proved marked by open circles, and the Lasso path where it was run.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "_static" / "benchmarks"
BASE = {"n": "1000", "p": "25", "l": "20"}  # held while the third one varies
AXES = {
    "n": ("n", "rows n"),
    "f": ("p", "monomials f"),
    "l": ("l", "terms l"),
}

Rows = list[dict[str, str]]


def main() -> None:
    """Draw the three figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", type=Path, default=RESULTS / "tree-growth.csv")
    parser.add_argument("--output", type=Path, default=FIGURES, help="folder of the figures")
    options = parser.parse_args()
    with options.input.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    options.output.mkdir(parents=True, exist_ok=True)
    for name, (varied, label) in AXES.items():
        chosen = [
            row
            for row in rows
            if all(row[other] == value for other, value in BASE.items() if other != varied)
        ]
        if chosen:
            path = options.output / f"growth-{name}.svg"
            _draw(chosen, name, label, path)
            print(path)


def _draw(rows: Rows, name: str, label: str, path: Path) -> None:
    groups: dict[int, Rows] = defaultdict(list)
    for row in rows:
        groups[int(row[name])].append(row)
    x = np.array(sorted(groups))
    seconds = [np.array([float(row["seconds"]) for row in groups[v]]) for v in x]
    lasso = np.array([_median(groups[v], "lasso_seconds") for v in x])
    middle = np.array([np.median(s) for s in seconds])
    below = middle - np.array([s.min() for s in seconds])
    above = np.array([s.max() for s in seconds]) - middle
    figure, axes = plt.subplots(figsize=(5.0, 3.4), layout="constrained")
    axes.errorbar(x, middle, yerr=[below, above], marker="o", capsize=3, label="polysharp, tree")
    unproved = [(v, float(r["seconds"])) for v in x for r in groups[v] if r["proved"] != "True"]
    if unproved:
        axes.plot(*zip(*unproved, strict=True), "o", mfc="none", mec="tab:red", label="not proved")
    axes.plot(x, lasso, "s--", color="0.5", label="Lasso path, 100 alphas")
    axes.set(xscale="linear" if name == "l" else "log", yscale="log", xlabel=label)
    axes.set_ylabel("seconds, from X to certificate")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _median(rows: Rows, name: str) -> float:
    values = [float(row[name]) for row in rows]
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else np.nan


if __name__ == "__main__":
    main()
