"""Experiment 6: the phase transition with correlated inputs.

    python -m experiments.correlated_inputs --quick
    python -m experiments.correlated_inputs --jobs 16

Experiment 1 with AR(1) inputs: neighbouring inputs have correlation rho = 0.5 or 0.7.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.methods import ENGINES, METHODS, NEEDS, warm_up
from experiments.metrics import MEASURES
from experiments.recovery import by_correlation, correlated_opening, run
from experiments.runner import Cell, Experiment, Plan, main

COMPARED = tuple(method for method in METHODS if method == "exact" or method not in ENGINES)
ROWS = (100, 120, 150, 200, 250, 300, 400, 500, 600, 800, 1000)


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every data set, the hard sizes first."""
    for n in (200, 400) if plan.quick else ROWS:
        for rho in (0.5, 0.7):
            for seed in plan.seeds:
                for method in COMPARED:
                    yield Cell(method, seed, {"rho": rho, "n": n}, 3.0 if plan.quick else None)


EXPERIMENT = Experiment(
    name="correlated_inputs",
    parameters=("rho", "n"),
    measures=MEASURES,
    cells=cells,
    run=run,
    needs=NEEDS,
    tables={"n0": by_correlation},
    opening=correlated_opening,
    warm_up=warm_up,
)

if __name__ == "__main__":
    main(EXPERIMENT)
