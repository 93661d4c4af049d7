"""Experiment 2: cutting planes by sample size, beside the paper's table (tab:cuts).

    python -m experiments.cutting_planes --quick
    python -m experiments.cutting_planes --jobs 16 --seeds 5

The data of experiment 1.  gamma = share / sqrt(n): the paper does not state its gamma, and it
decides how many cuts are needed.  Counts of searches that ran out of time are lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from experiments import paper
from experiments.data import planted
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.solvers import MEASURES, NEEDS, solve, warm_up
from experiments.summary import NOTHING, distinct, groups, markdown, numbers, proved, share, where

TERMS = 20
SHARES = (0.01, 0.03, 0.1)


def cells(plan: Plan) -> Iterator[Cell]:
    """List both forms at every gamma and n."""
    for n in (600, 1000) if plan.quick else paper.CUTS:
        for gamma_share in (0.01,) if plan.quick else SHARES:
            for seed in plan.seeds:
                for method in ("pure", "root"):
                    limit = 10.0 if plan.quick else None
                    yield Cell(method, seed, {"n": n, "share": gamma_share}, limit)


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Run one form of Algorithm 2."""
    data = planted(cell.data["n"], cell.seed, terms=TERMS)
    return solve(cell.method, data, TERMS, cell.data["share"], time_limit)


def cuts_table(rows: list[Row]) -> str:
    """Mean number of cuts by n, ``>`` where a search ended without a proof; proofs in brackets."""
    columns = list(groups(sorted(rows, key=lambda r: (r["method"], r["share"])), "method", "share"))
    header = ["n", "the paper", *(f"{method}, {s}/sqrt(n)" for method, s in columns)]
    lines = []
    for n in distinct(rows, "n"):
        cells_of_n = [where(rows, n=n, method=method, share=s) for method, s in columns]
        lines.append([str(n), paper.CUTS.get(n, NOTHING), *map(_entry, cells_of_n)])
    return markdown(header, lines)


def _entry(rows: list[Row]) -> str:
    if not rows:
        return NOTHING
    sign = "" if all(map(proved, rows)) else ">"
    return f"{sign}{mean(numbers(rows, 'cuts')):.0f} ({share(rows, proved)})"


EXPERIMENT = Experiment(
    name="cutting_planes",
    parameters=("n", "share"),
    measures=MEASURES,
    cells=cells,
    run=run,
    needs=NEEDS,
    tables={"cuts": cuts_table},
    warm_up=warm_up,
)

if __name__ == "__main__":
    main(EXPERIMENT)
