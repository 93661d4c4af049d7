"""The search over budgets as it comes: nothing set, nothing done to rows or predictions outside.

    python -m experiments.as_it_comes --quick
    python -m experiments.as_it_comes --jobs 2

The paper's eight rows of UCI data and five further tables, on none of which anything was tuned.  A
tenth of the rows is for the test; TE is the root mean square error there.

    shortest    SparsePolynomialRegressorCV(): a formula to read
    ridge, kernel, lasso    tuned on folds of the other rows (``methods_real``)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import mean, median
from typing import Any

from experiments import methods_real
from experiments.methods_real import GRID, QUICK, Split
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, markdown, numbers, where
from experiments.tables import FURTHER, load_table
from polysharp.datasets import UCI_NAMES, Dataset, load_uci

RIVALS = ("ridge", "kernel", "lasso")
METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "shortest": partial(methods_real.default, rule="shortest"),
    **{name: methods_real.METHODS[name] for name in RIVALS},
}
MEASURES = ("TE", "validation", "k", "l", "r", "gamma", "center", "gap", "seconds", "choosing")
OURS = {"shortest": "the default rule (`shortest`)"}
ALLOWED = {"shortest": 1.10}  # of the best rival's error


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every split of every table, split by split."""
    for seed in plan.seeds:
        for name in ("airfoil",) if plan.quick else (*UCI_NAMES, *FURTHER):
            for method in METHODS:
                yield Cell(method, seed, {"data": name, "grid": "quick" if plan.quick else "full"})


def load(name: str) -> Dataset:
    """Return a table of either kind."""
    return load_uci(name) if name in UCI_NAMES else load_table(name)


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Run one method on one split."""
    split = Split.of(load(cell.data["data"]), cell.seed, clip=False)
    grid = QUICK if cell.data["grid"] == "quick" else GRID
    return methods_real.timed(METHODS[cell.method], split, grid, time_limit)


def excess(rows: Sequence[Row], name: str, method: str) -> float | None:
    """Return mean TE of one of ours over that of the best rival, on the splits that all have."""
    mine = where(list(rows), data=name)
    seeds = [{row["seed"] for row in where(mine, method=m)} for m in (method, *RIVALS)]
    common = set.intersection(*seeds)
    means = {
        m: mean(numbers([r for r in where(mine, method=m) if r["seed"] in common], "TE"))
        for m in (method, *RIVALS)
        if common
    }
    return means[method] / min(means[m] for m in RIVALS) if means else None


def table(rows: list[Row], names: Sequence[str]) -> str:
    """Return errors and sizes by table; the best rival's error is 1 in the last two columns."""
    lines = []
    for name in names:
        mine = where(rows, data=name)
        if not mine:
            continue
        errors = {m: numbers(where(mine, method=m), "TE") for m in METHODS}
        terms = [median(numbers(where(mine, method=m), "l") or [0]) for m in ALLOWED]
        ratios = [excess(rows, name, m) for m in ALLOWED]
        lines.append(
            [
                name.split("/")[-1],
                str(len(errors["shortest"])),
                *(f"{mean(e):.4g}" if e else NOTHING for e in errors.values()),
                *(f"{count:g}" for count in terms),
                *(NOTHING if r is None else f"{r:.3f}" for r in ratios),
            ]
        )
    header = ["data", "splits", "shortest", *RIVALS, "terms: shortest", "shortest / best"]
    return markdown(header, lines)


def opening(rows: list[Row]) -> str:
    """Return what was aimed at and what came out, in sentences."""
    said = []
    for words, names in (("the eight UCI data sets", UCI_NAMES), ("five further tables", FURTHER)):
        parts = []
        for method, most in ALLOWED.items():
            found = {n: e for n in names if (e := excess(rows, n, method)) is not None}
            if not found:
                continue
            close = sum(e <= most for e in found.values())
            farthest = max(found, key=found.__getitem__)
            parts.append(
                f"{OURS[method]} is within {100 * (most - 1):.0f} % of the best of tuned ridge, "
                f"kernel and Lasso on {close} of {len(found)} (farthest: "
                f"{farthest.split('/')[-1]}, {100 * (found[farthest] - 1):+.1f} %)"
            )
        if parts:
            said.append(f"On {words}, with nothing set, {' and '.join(parts)}.")
    splits = {n: len(where(rows, data=n, method="shortest")) for n in (*UCI_NAMES, *FURTHER)}
    counts = sorted({count for count in splits.values() if count})
    if len(counts) > 1:
        most = [n.split("/")[-1] for n, count in splits.items() if count == counts[-1]]
        said.append(
            f"Splits: {counts[-1]} of {', '.join(most)}, at least {counts[0]} of the others."
        )
    return " ".join(said)


EXPERIMENT = Experiment(
    name="as_it_comes",
    parameters=("data", "grid"),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=10,
    time_limit=60.0,
    opening=opening,
    tables={
        "uci": lambda rows: table(rows, UCI_NAMES),
        "further": lambda rows: table(rows, list(FURTHER)),
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
