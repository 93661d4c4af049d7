"""Feynman's laws that are sums of products of powers, positive or negative, found and proved.

    python -m experiments.feynman_laws --quick
    python -m experiments.feynman_laws --jobs 2

n = 2000 rows, noise of 1 % of the response's standard deviation, the default search over budgets
with ``functions=("inverse",)``: nothing else is set.  A run counts as found when the formula has
exactly the terms of the law, and as proved when the certificate of the refit says so.  The default
search compares models of any size up to degree 5, every factor x or 1/x counting one, and short
ones beyond: laws of higher degree are fitted once more with degree and number of terms given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from experiments.laws import FEYNMAN, draw
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.selection.budget_search import HIGHEST

QUICK = ("I.25.13", "II.3.24", "I.13.4")


def degree_of(name: str) -> int:
    """Return the largest number of factors of a term."""
    return max(map(len, FEYNMAN[name].terms))


def cells(plan: Plan) -> Iterator[Cell]:
    """List every law, and those of high degree once more."""
    for seed in plan.seeds:
        for law in QUICK if plan.quick else FEYNMAN:
            yield Cell("default", seed, {"law": law})
            if degree_of(law) > HIGHEST and not plan.quick:
                yield Cell("given", seed, {"law": law})


def run(cell: Cell, limit: float | None) -> dict[str, Any]:
    """Search, and compare the terms."""
    name = str(cell.data["law"])
    law = FEYNMAN[name]
    X, y = draw(name, 2000, 0.01, cell.seed)
    options: dict[str, Any] = {"functions": ("inverse",), "random_state": 0, "time_limit": limit}
    search = SparsePolynomialRegressorCV(**options)
    if cell.method == "given":
        search = SparsePolynomialRegressor(degree_of(name), len(law.terms), **options)
    began = perf_counter()
    search.fit(X, y)
    seconds, found = perf_counter() - began, search.polynomial_
    names = (*law.inputs, *(f"1/{law.inputs[a.input]}" for a in found.functions))
    terms = {tuple(sorted(names[c] for c in m)) for m in found.monomials}
    right = terms == {tuple(sorted(term)) for term in law.terms} and found.shifts is None
    solution = search.solution_
    return {
        "right": int(right), "proved": int(solution.status == "optimal"), "terms": len(found),
        "degree": degree_of(name), "gap": solution.gap, "seconds": round(seconds, 2),
        "formula": str(found),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return how many were found and proved, and those that were not."""
    lines = [
        "| search | runs | found | found and proved | median seconds | longest | not found |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, words in (
        ("default", "default"),
        ("given", "degree and number of terms given"),
    ):
        here = [row for row in rows if row["method"] == method]
        if not here:
            continue
        right = [row for row in here if row["right"] == "1"]
        proved = [row for row in right if row["proved"] == "1"]
        times = sorted(float(row["seconds"]) for row in here)
        missed = ", ".join(
            sorted(
                {f"{row['law']} (degree {row['degree']})" for row in here if row["right"] == "0"}
            )
        )
        lines.append(
            f"| {words} | {len(here)} | {len(right)} | {len(proved)} | "
            f"{times[len(times) // 2]:.1f} | {times[-1]:.1f} | {missed or '-'} |"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="feynman_laws",
    parameters=("law",),
    measures=("right", "proved", "terms", "degree", "gap", "seconds", "formula"),
    cells=cells,
    run=run,
    seeds=3,
    tables={"laws": table},
)

if __name__ == "__main__":
    main(EXPERIMENT)
