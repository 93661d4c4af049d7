"""Experiment 7: the big-M formulation against the pure integer one, time and gap by n.

    python -m experiments.formulations --quick
    python -m experiments.formulations --jobs 16

Small enough for big-M (dense rows): p = 10, r = 2, f = 65 and p = 8, r = 3, f = 164, both with
l = 8 planted terms, sqrt(SNR) = 20, gamma = 1/sqrt(n), the same for all.  The pure integer
formulation is solved by Algorithm 2 as it stands, with root cuts, and by our tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.data import planted
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.solvers import MEASURES, METHODS, NEEDS, solve, warm_up
from experiments.summary import (
    NOTHING,
    distinct,
    groups,
    markdown,
    percent,
    proved,
    share,
    typical,
    where,
)

TERMS = 8
PROBLEMS = ((10, 2), (8, 3))
ROWS = (50, 100, 200, 400, 800)
LABELS = {
    "big-m": "big-M",
    "pure": "integer, Algorithm 2",
    "root": "integer, with root cuts",
    "tree": "integer, tree",
}


def cells(plan: Plan) -> Iterator[Cell]:
    """List every formulation on every data set."""
    for p, degree in PROBLEMS:
        for n in (100, 400) if plan.quick else ROWS:
            for seed in plan.seeds:
                for method in METHODS:
                    limit = 4.0 if plan.quick else None
                    yield Cell(method, seed, {"p": p, "r": degree, "n": n}, limit)


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Solve one data set in one formulation."""
    p, degree, n = cell.data["p"], cell.data["r"], cell.data["n"]
    data = planted(n, cell.seed, p=p, degree=degree, terms=TERMS)
    return solve(cell.method, data, TERMS, 1.0, time_limit)


def formulations_table(rows: list[Row]) -> str:
    """Proofs, seconds and gaps by problem, n and formulation."""
    present = [method for method in METHODS if where(rows, method=method)]
    header = ["p, r", "n", *(f"{LABELS[m]}: proved, s, gap" for m in present)]
    lines = []
    for p, degree in groups(rows, "p", "r"):
        for n in distinct(rows, "n"):
            group = where(rows, p=p, r=degree, n=n)
            entries = [_entry(where(group, method=method)) for method in present]
            lines.append([f"{p}, {degree}", str(n), *entries])
    return markdown(header, lines)


def _entry(rows: list[Row]) -> str:
    if not rows:
        return NOTHING
    seconds, gap = typical(rows, "seconds"), typical(rows, "gap", percent)
    return f"{share(rows, proved)}, {seconds}, {gap}"


def opening(rows: list[Row]) -> str:
    """How many problems each formulation proves, over all sizes."""
    present = [method for method in METHODS if where(rows, method=method)]
    counts = (f"{LABELS[m]} {share(where(rows, method=m), proved)}" for m in present)
    return f"Problems proved within the limit, by formulation: {', '.join(counts)}."


EXPERIMENT = Experiment(
    name="formulations",
    parameters=("p", "r", "n"),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=10,
    time_limit=20.0,
    needs=NEEDS,
    tables={"formulations": formulations_table},
    opening=opening,
    warm_up=warm_up,
)

if __name__ == "__main__":
    main(EXPERIMENT)
