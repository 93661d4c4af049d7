"""gamma="auto" beside the best gamma of a grid, on tables that it was not tuned on.

    python -m experiments.gamma_choice --quick
    python -m experiments.gamma_choice --jobs 2

``SparsePolynomialRegressor(degree, max_terms)`` with nothing else set, fitted to four fifths of the
rows, and the same with gamma = 1 / (s n), s = 1, 0.1, ..., 1e-9.  TE is the root mean square error
on the last fifth.  The best gamma of a table is the one of the least mean TE over its splits, which
nobody knows beforehand; that of a single split is the one of the least TE there, and is so partly
by luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import markdown, numbers, where
from experiments.tables import FRESH, load_table
from polysharp import SparsePolynomialRegressor
from polysharp.metrics import test_error

SHARES = tuple(10.0**-e for e in range(10))
SIZES = ((1, 4), (2, 6), (3, 5))  # degree and terms


def cells(plan: Plan) -> Iterator[Cell]:
    """List every table and size, with all gammas of a split in one cell."""
    for seed in plan.seeds:
        for table in list(FRESH)[:2] if plan.quick else FRESH:
            for degree, terms in SIZES[:2] if plan.quick else SIZES:
                yield Cell("auto", seed, {"table": table, "degree": degree, "terms": terms})


def run(cell: Cell, _: float | None) -> dict[str, Any]:
    """Return TE of gamma="auto" and of every gamma of the grid on one split."""
    data = load_table(cell.data["table"])
    n = len(data.y)
    order = np.random.default_rng(cell.seed).permutation(n)
    seen, tested = order[: 4 * n // 5], order[4 * n // 5 :]

    def fitted(gamma: Any) -> SparsePolynomialRegressor:
        # Engines differ in what they prove, hardly in what they find.
        return SparsePolynomialRegressor(
            cell.data["degree"], cell.data["terms"], gamma=gamma, engine="local-search"
        ).fit(data.X[seen], data.y[seen])

    def error(model: SparsePolynomialRegressor) -> float:
        return test_error(data.y[tested], model.predict(data.X[tested]))

    auto = fitted("auto")
    grid = {f"TE_{a}": error(fitted(1.0 / (s * len(seen)))) for a, s in enumerate(SHARES)}
    return {"TE": error(auto), "share": 1.0 / (auto.gamma_ * len(seen)), **grid}


def ratio(rows: Sequence[Row]) -> float:
    """Return mean TE of gamma="auto" over that of the best gamma of the grid."""
    grid = [mean(numbers(list(rows), f"TE_{a}")) for a in range(len(SHARES))]
    return mean(numbers(list(rows), "TE")) / min(grid)


def _by_table(rows: list[Row], size: tuple[int, int]) -> dict[str, list[Row]]:
    own = where(rows, degree=str(size[0]), terms=str(size[1]))
    return {table: mine for table in FRESH if (mine := where(own, table=table))}


def _ratios(rows: list[Row], size: tuple[int, int]) -> dict[str, float]:
    return {table: ratio(mine) for table, mine in _by_table(rows, size).items()}


def table(rows: list[Row]) -> str:
    """Return how far gamma="auto" is from the best, by size: of a table, and of a single split."""
    lines = []
    for size in SIZES:
        found = _ratios(rows, size)
        if not found:
            continue
        worst = max(found, key=found.__getitem__)
        single = [ratio([row]) for mine in _by_table(rows, size).values() for row in mine]
        lines.append(
            [
                str(size[0]),
                str(size[1]),
                str(len(found)),
                f"{median(found.values()):.3f}",
                f"{found[worst]:.3f} ({worst.split('/')[1]})",
                *(f"{sum(v <= most for v in found.values())}" for most in (1.05, 1.1)),
                f"{median(single):.3f}",
                f"{sum(v <= 1.1 for v in single)} of {len(single)}",
            ]
        )
    header = [
        "degree", "terms", "tables", "median", "largest", "within 5 %", "within 10 %",
        "median of single splits", "of these within 10 %",
    ]  # fmt: skip
    return markdown(header, lines)


def opening(rows: list[Row]) -> str:
    """Return the finding in one sentence."""
    found = [v for size in SIZES for v in _ratios(rows, size).values()]
    close = sum(v <= 1.1 for v in found)
    return (
        f"On {len(FRESH)} tables not used for tuning, at three sizes each, the test error of "
        f'`gamma="auto"` is {median(found):.3f} times that of the best gamma of a grid in the '
        f"median, and {max(found):.2f} times at most; it is within 10 % in {close} of {len(found)} "
        "cases."
    )


EXPERIMENT = Experiment(
    name="gamma_choice",
    parameters=("table", "degree", "terms"),
    measures=("TE", "share", *(f"TE_{a}" for a in range(len(SHARES)))),
    cells=cells,
    run=run,
    seeds=10,
    tables={"ratios": table},
    opening=opening,
)

if __name__ == "__main__":
    main(EXPERIMENT)
