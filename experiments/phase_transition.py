"""Experiment 1: how many rows are needed to find the law (the paper's figure phase-transition).

    python -m experiments.phase_transition --quick
    python -m experiments.phase_transition --methods exact local lasso lasso-raw omp abess
    python -m experiments.phase_transition --methods cuts cuts-multi --jobs 16

p = 25 inputs, degree 3 (3275 monomials beside the constant), l = 20 planted terms, sqrt(SNR) = 20,
k = p, l known, 20 data sets per n, 120 s for a search, as in the paper.  n0 of a method is the
smallest n of the grid from which on it finds the law, all of it and nothing else, in every data
set; the paper's n0 is read from mean accuracies, so the smallest n with mean A of 99 % from there
on is given, too.  Algorithm 2 is run on the paper's own grid, from 300 rows on.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments import paper
from experiments.methods import ENGINES, METHODS, NEEDS, warm_up
from experiments.metrics import MEASURES
from experiments.recovery import (
    accuracy_table,
    certificate_table,
    opening,
    run,
    transition_table,
)
from experiments.runner import Cell, Experiment, Plan, main

COMPARED = tuple(method for method in METHODS if method != "strong")
PAPER_ROWS = tuple(range(300, 1001, 100))
ROWS = (100, 110, 120, 130, 140, 150, 175, 200, 250, 300, 400, 500, 600, 700, 800, 900, 1000)


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every data set, the hard sizes first."""
    for n in (150, 300, 600) if plan.quick else ROWS:
        for seed in plan.seeds:
            for method in COMPARED:
                if not method.startswith("cuts") or n in PAPER_ROWS:
                    yield Cell(method, seed, {"n": n}, _limit(method, plan.quick))


def _limit(method: str, quick: bool) -> float | None:
    """Return the seconds that a search may take; None for methods that end by themselves."""
    return (3.0 if quick else paper.TIME_LIMIT) if method in ENGINES else None


EXPERIMENT = Experiment(
    name="phase_transition",
    parameters=("n",),
    measures=MEASURES,
    cells=cells,
    run=run,
    needs=NEEDS,
    tables={
        "n0": transition_table,
        "accuracy": accuracy_table,
        "proofs": certificate_table,
    },
    opening=opening,
    warm_up=warm_up,
)

if __name__ == "__main__":
    main(EXPERIMENT)
