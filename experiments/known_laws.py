"""Known laws from a table alone: ``polysharp fit table.csv --target y``, nothing else set.

    python -m experiments.known_laws --quick
    python -m experiments.known_laws --jobs 2

n = 2000 rows, noise of 0, 1 and 10 % of the response's standard deviation.  A run counts as right
when the formula has exactly the terms of the law, in the user's inputs.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.laws import LAWS, draw
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from polysharp import load_model
from polysharp.cli import main as command

NOISE = (0.0, 0.01, 0.1)
QUICK = ("species 1", "Lorenz 2", "I.11.19", "II.37.1")


def cells(plan: Plan) -> Iterator[Cell]:
    """List every law at every noise."""
    for seed in plan.seeds:
        for noise in NOISE:
            for law in QUICK if plan.quick else LAWS:
                yield Cell("fit", seed, {"law": law, "noise": noise})


def run(cell: Cell, _: float | None) -> dict[str, Any]:
    """Write the table, call the command line, compare the terms."""
    law = LAWS[cell.data["law"]]
    X, y = draw(cell.data["law"], 2000, cell.data["noise"], cell.seed)
    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder, "table.csv"), Path(folder, "model.json")
        header = ",".join((*law.inputs, "response"))
        np.savetxt(table, np.column_stack([X, y]), "%.17g", ",", header=header, comments="")
        silent = io.StringIO()
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            arguments = ["fit", str(table), "--target", "response", "-o", str(model), "-q"]
            code = command(arguments)
        polynomial = load_model(model).polynomial_
    found = {tuple(sorted(law.inputs[i] for i in m)) for m in polynomial.monomials}
    right = found == {tuple(sorted(term)) for term in law.terms} and polynomial.shifts is None
    return {
        "right": int(right), "terms": len(polynomial), "degree": polynomial.degree,
        "centred": int(polynomial.shifts is not None), "exit_code": int(code),
        "formula": str(polynomial),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return the share of laws found by noise, and those that were not."""
    lines = ["| noise | right | of | not found |", "|---|---|---|---|"]
    for noise in NOISE:
        here = [row for row in rows if float(row["noise"]) == noise]
        missed = sorted({row["law"] for row in here if row["right"] == "0"})
        right = sum(row["right"] == "1" for row in here)
        lines.append(f"| {100 * noise:g} % | {right} | {len(here)} | {', '.join(missed) or '-'} |")
    return "\n".join(lines)


def opening(rows: Sequence[Row]) -> str:
    """How many runs end with exactly the law."""
    right = sum(row["right"] == "1" for row in rows)
    plain = [row for row in rows if float(row["noise"]) == 0.0]
    exact = sum(row["right"] == "1" for row in plain)
    return (
        f"`polysharp fit table.csv --target y`, with nothing else set, returns exactly the terms "
        f"of {len({row['law'] for row in rows})} known laws in {right} of {len(rows)} runs "
        f"({exact} of {len(plain)} without noise)."
    )


EXPERIMENT = Experiment(
    name="known_laws",
    parameters=("law", "noise"),
    measures=("right", "terms", "degree", "centred", "exit_code", "formula"),
    cells=cells,
    run=run,
    seeds=3,
    opening=opening,
    tables={"laws": table},
)

if __name__ == "__main__":
    main(EXPERIMENT)
