"""What the experiments on recovery share: one run, and the tables of A%, F%, time and proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from experiments import paper
from experiments.data import planted
from experiments.methods import METHODS, PROVING
from experiments.metrics import measure
from experiments.rows import Row
from experiments.runner import Cell
from experiments.summary import (
    NOTHING,
    averaged,
    distinct,
    every_law,
    exact_law,
    markdown,
    mean_accuracy,
    n0,
    numbers,
    percent,
    proved,
    share,
    typical,
    where,
)

TERMS = 20
OTHERS = ("lasso", "omp", "abess")
LABELS = {
    "exact": "exact (tree)",
    "strong": "exact (tree), strong ridge",
    "local": "local search alone",
    "cuts": "Algorithm 2, one tree",
    "cuts-multi": "Algorithm 2, many trees",
    "lasso": "Lasso",
    "lasso-raw": "Lasso, columns not standardised",
    "omp": "OMP",
    "abess": "abess",
}


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Draw the data of a cell, run its method, compare with the law."""
    terms = cell.data.get("l", TERMS)
    data = planted(cell.data["n"], cell.seed, terms=TERMS, rho=cell.data.get("rho", 0.0))
    return measure(data, METHODS[cell.method](data, terms, time_limit))


def methods_of(rows: Sequence[Row]) -> list[str]:
    """Return the methods that have rows, in the order of the tables."""
    present = {row["method"] for row in rows}
    return [method for method in METHODS if method in present]


def transition_table(rows: list[Row]) -> str:
    """n0 of every method, with its record at the ends of the grid."""
    paper_line = ["the paper's exact method (Gurobi, 2 minutes)", NOTHING, f"about {paper.N0}"]
    lines = [[*paper_line, NOTHING, NOTHING]]
    for method in methods_of(rows):
        mine = where(rows, method=method)
        sizes = distinct(mine, "n")
        tried = f"{sizes[0]} to {sizes[-1]}"
        both = [_n0(mine), _n0(mine, mean_accuracy)]
        lines.append([LABELS[method], *both, share(mine, exact_law), tried])
    header = ["method", "n0", "n0 by mean A >= 99 %", "law found exactly (data sets, all n)"]
    return markdown([*header, "n tried"], lines)


def accuracy_table(rows: list[Row]) -> str:
    """A% and F% by n, mean ± standard deviation over the data sets."""
    methods = methods_of(rows)
    header = ["n", *(f"{LABELS[m]}: A %, F %" for m in methods)]
    lines = []
    for n in distinct(rows, "n"):
        cells = [where(rows, n=n, method=m) for m in methods]
        entries = [f"{averaged(c, 'A')}, {averaged(c, 'F')}" if c else NOTHING for c in cells]
        lines.append([str(n), *entries])
    return markdown(header, lines)


def certificate_table(rows: list[Row]) -> str:
    """What the exact method proves by n, and the seconds of all methods."""
    methods = methods_of(rows)
    header = [
        "n",
        "gamma",
        "proved",
        "gap, median (largest)",
        *(f"{LABELS[m]}, s" for m in methods),
    ]
    lines = []
    for n in distinct(rows, "n"):
        exact = where(rows, n=n, method="exact")
        seconds = [typical(where(rows, n=n, method=m), "seconds") for m in methods]
        gammas = ", ".join(f"{gamma:.3g}" for gamma in sorted(set(numbers(exact, "gamma"))))
        gaps = typical(exact, "gap", percent)
        lines.append([str(n), gammas, share(exact, proved), gaps, *seconds])
    return markdown(header, lines)


def by_correlation(rows: list[Row]) -> str:
    """n0 by rho and method, and what the exact method proved."""
    lines = []
    for rho in sorted({row["rho"] for row in rows}, key=float):
        for method in methods_of(rows):
            mine = where(rows, rho=rho, method=method)
            certificate = share(mine, proved) if method in PROVING else NOTHING
            lines.append([rho, LABELS[method], _n0(mine), share(mine, exact_law), certificate])
    header = ["rho", "method", "n0", "law found exactly (data sets, all n)", "proved"]
    return markdown(header, lines)


def opening(rows: list[Row]) -> str:
    """From how many rows on each method finds the law, and from where on it is proved."""
    found = {m: n0(where(rows, method=m)) for m in methods_of(rows)}
    exact = where(rows, method="exact")
    others = ", ".join(f"{LABELS[m]} {_n0(where(rows, method=m))}" for m in found if m in OTHERS)
    proved_from = next((n for n in distinct(exact, "n") if all(map(proved, _from(exact, n)))), None)
    proofs = "does not prove it in all of them at any n"
    if proved_from is not None:
        seconds = numbers(where(exact, n=proved_from), "seconds")
        proofs = (
            f"proves it optimal in all of them from {proved_from} rows "
            f"(median {median(seconds):.2g} s, longest {max(seconds):.2g} s)"
        )
    sets = len({row["seed"] for row in exact})
    return (
        f"polysharp recovers the planted law in all {sets} data sets from {found.get('exact')} "
        f"rows, and {proofs}. The paper states about {paper.N0} rows for its exact method. Rows "
        f"needed by other methods: {others}."
    )


def correlated_opening(rows: list[Row]) -> str:
    """The same for every correlation, in fewer words."""
    parts = []
    for rho in sorted({row["rho"] for row in rows}, key=float):
        mine = where(rows, rho=rho)
        found = (
            f"{LABELS[m]} {_n0(where(mine, method=m))}"
            for m in methods_of(mine)
            if m == "exact" or m in OTHERS
        )
        parts.append(f"rho = {rho}: {', '.join(found)}")
    return f"Rows needed with correlated inputs: {'; '.join(parts)}."


def _from(rows: Sequence[Row], n: int) -> list[Row]:
    return [row for row in rows if int(row["n"]) >= n]


def _n0(rows: Sequence[Row], holds: Callable[[list[Row]], bool] = every_law) -> str:
    smallest = n0(rows, holds)
    return "not within the grid" if smallest is None else str(smallest)
