"""Experiment 3: A% against F% along the path of l (the paper's figure path).

    python -m experiments.path --quick
    python -m experiments.path --jobs 16

The data of experiment 1 at n = 560, 20 planted terms; l, the number of terms asked for, runs
from 1 to 100, at gamma = 1/sqrt(n) and at 0.01/sqrt(n).  A method is better when it has more of the
law at the same share of false terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.methods import PROVING, warm_up
from experiments.metrics import MEASURES
from experiments.recovery import LABELS, methods_of, run
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import averaged, distinct, markdown, proved, share, where

ROWS = 560
TERMS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 19, 20, 21, 22, 24, 27, 30, 40, 60, 100)
METHODS = ("exact", "strong", "lasso", "lasso-raw")


def cells(plan: Plan) -> Iterator[Cell]:
    """List both methods at every l, the largest l first: they take longest."""
    for terms in reversed((4, 12, 20, 30) if plan.quick else TERMS):
        for seed in plan.seeds:
            for method in METHODS:
                limit = 3.0 if plan.quick else None
                yield Cell(method, seed, {"n": ROWS, "l": terms}, limit)


def path_table(rows: list[Row]) -> str:
    """A% and F% by l, and what was proved."""
    methods = methods_of(rows)
    proving = [method for method in methods if method in PROVING]
    lines = []
    for terms in distinct(rows, "l"):
        mine = [where(rows, l=terms, method=method) for method in methods]
        entries = [f"{averaged(each, 'A')}, {averaged(each, 'F')}" for each in mine]
        proofs = [share(where(rows, l=terms, method=method), proved) for method in proving]
        lines.append([str(terms), *entries, *proofs])
    columns = [f"{LABELS[m]}: A %, F %" for m in methods]
    return markdown(["l", *columns, *(f"proved, {LABELS[m]}" for m in proving)], lines)


EXPERIMENT = Experiment(
    name="path",
    parameters=("n", "l"),
    measures=MEASURES,
    cells=cells,
    run=run,
    time_limit=20.0,
    tables={"path": path_table},
    warm_up=warm_up,
)

if __name__ == "__main__":
    main(EXPERIMENT)
