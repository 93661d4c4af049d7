"""Experiment 5: real data (the paper's table datasets).

    python -m experiments.real_data --quick
    python -m experiments.real_data --jobs 2
    python -m experiments.real_data --data airfoil concrete --splits 100 101 --methods exact

Ten random splits of eight data sets, the same for all methods (``methods_real`` states the
protocol).  TE is the root mean square error on the test rows.  The files are found through
``polysharp.datasets.load_uci``: a folder named by POLYSHARP_DATA, the cache, or a download.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from statistics import mean, median
from typing import Any

from experiments.methods_real import GRID, MEASURES, METHODS, NEEDS, QUICK, run_method
from experiments.paper import TEST_ERRORS
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, averaged, markdown, numbers, percent, where
from polysharp.datasets import UCI_NAMES, Dataset, load_uci

FOUR = ("ridge", "kernel", "lasso", "exact")
LABELS = {
    "ridge": "Ridge",
    "kernel": "polynomial kernel",
    "lasso": "polynomial Lasso",
    "exact": "exact",
    "boosting": "gradient boosting",
    "ebm": "EBM",
}
OURS = {"exact": "with the model of the least validation error"}
PAPER = dict(zip(UCI_NAMES, TEST_ERRORS, strict=True))  # the paper's names of the rows
PAPER_METHODS = {"ridge": "RR", "kernel": "SVM", "lasso": "PL", "exact": "CIO"}


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every split of every data set, split by split."""
    for seed in plan.seeds:
        for name in ("airfoil", "energy_2") if plan.quick else UCI_NAMES:
            for method in METHODS:
                yield Cell(method, seed, {"data": name, "grid": "quick" if plan.quick else "full"})


@cache
def table(name: str) -> Dataset:
    """Read a data set once per process."""
    return load_uci(name)


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Run one method on one split."""
    quick = cell.data["grid"] == "quick"
    grid, limit = (QUICK, 2.0) if quick else (GRID, time_limit)
    return run_method(cell.method, table(cell.data["data"]), cell.seed, grid, limit)


def paper_best(name: str) -> float:
    """Return the least test error of the paper's four methods."""
    return min(TEST_ERRORS[PAPER[name]].values())


def mean_errors(rows: list[Row], name: str) -> dict[str, float]:
    """Return the mean TE of every method on a data set."""
    mine = {method: numbers(where(rows, data=name, method=method), "TE") for method in METHODS}
    return {method: mean(values) for method, values in mine.items() if values}


def names_of(rows: list[Row]) -> list[str]:
    """Return the data sets that have rows of all four methods."""
    return [name for name in UCI_NAMES if set(FOUR) <= set(mean_errors(rows, name))]


def error_table(rows: list[Row]) -> str:
    """TE by data set and method, the least of the four in bold, beside the paper's best."""
    lines = []
    for name in names_of(rows):
        means = mean_errors(rows, name)
        least = min(means[method] for method in FOUR if method in means)
        entries = []
        for method in METHODS:
            digits = 3 if means[FOUR[0]] < 10 else 2
            entry = averaged(where(rows, data=name, method=method), "TE", digits)
            entries.append(f"**{entry}**" if means.get(method) == least else entry)
        lines.append([PAPER[name], *entries, f"{paper_best(name):g}"])
    header = ["data", *(LABELS[method] for method in METHODS), "the paper's best"]
    return markdown(header, lines)


def size_table(rows: list[Row]) -> str:
    """What validation chose (medians over the splits), and what was proved, beside the paper."""
    lines = []
    for name in names_of(rows):
        mine = {method: where(rows, data=name, method=method) for method in FOUR}
        lines.append(
            [
                PAPER[name],
                _typical(mine["kernel"], "r"),
                _typical(mine["lasso"], "r", "l"),
                *_chosen(mine["exact"]),
                *(_seconds(mine[method]) for method in FOUR),
            ]
        )
    chosen = [f"{LABELS[m]}: {what}" for m in FOUR[3:] for what in ("r, k, l", "gamma", "gap")]
    seconds = [f"{LABELS[method]}, s" for method in FOUR]
    return markdown(["data", "kernel: r", "Lasso: r, l", *chosen, *seconds], lines)


def _chosen(rows: list[Row]) -> list[str]:
    if not rows:
        return [NOTHING] * 3
    gamma, gap = median(numbers(rows, "gamma")), median(numbers(rows, "gap"))
    return [_typical(rows, "r", "k", "l"), f"{gamma:.2g}", percent(gap)]


def _seconds(rows: list[Row]) -> str:
    return f"{median(numbers(rows, 'seconds')):.1f}" if rows else NOTHING


def verdict(rows: list[Row]) -> str:
    """In how many rows the exact method is the best of the four, and below the paper's best."""
    names = names_of(rows)
    if not names:
        return NOTHING
    means = {name: mean_errors(rows, name) for name in names}
    lines = []
    for ours, words in OURS.items():
        if any(ours not in each for each in means.values()):
            continue
        rivals = [method for method in FOUR if method != "exact"]
        lowest = sum(means[n][ours] < min(means[n][m] for m in rivals) for n in names)
        below = sum(means[name][ours] < paper_best(name) for name in names)
        lines.append([words, f"{lowest} of {len(names)} rows", f"{below} of {len(names)} rows"])
    header = [
        "the exact method",
        "lower mean TE than ridge, kernel and Lasso",
        "than the paper's best",
    ]
    return markdown(header, lines)


def _typical(rows: list[Row], *columns: str) -> str:
    return ", ".join(f"{median(numbers(rows, column)):g}" for column in columns)


def opening(rows: list[Row]) -> str:
    """In how many rows each form of the exact method is ahead, with inputs clipped for all."""
    names = names_of(rows)
    means = {name: mean_errors(rows, name) for name in names}
    rivals = [method for method in FOUR if method != "exact"]
    parts = []
    for ours, words in OURS.items():
        if all(ours in each for each in means.values()):
            ahead = sum(means[n][ours] < min(means[n][m] for m in rivals) for n in names)
            parts.append(f"{words}, in {ahead}")
    return (
        f"On the paper's {len(names)} real data sets, with inputs and predictions clipped alike "
        f"for all methods, the exact method has a lower mean error than ridge, kernel and Lasso: "
        f"{'; '.join(parts)} of {len(names)}."
    )


EXPERIMENT = Experiment(
    name="real_data",
    parameters=("data", "grid"),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=10,
    time_limit=10.0,
    needs=NEEDS,
    opening=opening,
    tables={
        "errors": error_table,
        "sizes": size_table,
        "verdict": verdict,
    },
)


def command(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, or the part of it that the options name."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", nargs="+", choices=UCI_NAMES, default=list(UCI_NAMES))
    parser.add_argument("--splits", nargs="+", type=int)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    part, rest = parser.parse_known_args(arguments)

    def chosen(plan: Plan) -> Iterator[Cell]:
        seeds = plan.seeds if part.splits is None else part.splits
        wanted = cells(replace(plan, seeds=seeds))
        return (
            cell
            for cell in wanted
            if cell.data["data"] in part.data and cell.method in part.methods
        )

    main(replace(EXPERIMENT, cells=chosen), rest)


if __name__ == "__main__":
    command(sys.argv[1:])
