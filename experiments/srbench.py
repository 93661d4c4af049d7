"""SRBench's black-box tables by the public protocol, with nothing set but the time limit.

    python -m experiments.srbench --quick
    python -m experiments.srbench --seeds 10 --jobs 2

Tables and published medians of 21 methods (R2 on held-out rows, nodes of the expression) are read
from the folder named by POLYSHARP_SRBENCH, by default ``shared/data/srbench`` beside the project.
``train_test_split`` splits each table 75/25 with the ten public seeds.  X and y are standardised on
at most 10,000 training rows.

    default    SparsePolynomialRegressorCV(time_limit=60)
    raw        the same, X and y as they are
    ridge      scikit-learn's RidgeCV on standardised inputs

Settings of the search over budgets were chosen on half of the tables, which ``chosen_on`` draws by
the SHA-256 of their names; the other half is reported apart.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, markdown, numbers, where
from polysharp import SparsePolynomialRegressorCV

FOLDER = Path(
    os.environ.get(
        "POLYSHARP_SRBENCH", Path(__file__).parent.parent.parent / "shared" / "data" / "srbench"
    )
)
SEEDS = (23654, 15795, 860, 5390, 29802, 21575, 11964, 11284, 6265, 16850)
MOST_ROWS = 10_000
METHODS = ("default", "raw", "ridge")
PUBLISHED = ("GP-GOMEA", "Operon", "DSR", "Linear", "XGB", "KernelRidge")
MEASURES = (
    "R2", "train_R2", "nodes", "terms", "degree", "center", "clamp", "gamma", "refit_gamma",
    "validation", "gap", "proved", "seconds", "n", "p",
)  # fmt: skip
BEHIND = 0.05  # of R2 behind a tuned ridge on the same split counts as a failure
QUICK = ("485_analcatdata_vehicle", "192_vineyard", "210_cloud")


def chosen_on(name: str) -> bool:
    """Whether settings may be chosen on a table."""
    return sha256(f"settings {name}".encode()).digest()[0] % 2 == 0


@cache
def table(name: str) -> tuple[Any, Any]:
    """Read inputs and response of a table."""
    import pandas as pd

    frame = pd.read_csv(FOLDER / f"{name}.csv.gz")
    return frame.drop(columns="target").to_numpy(dtype=float), frame["target"].to_numpy(dtype=float)


def names() -> list[str]:
    """Return the names of the tables that are there, small ones first."""
    found = sorted(FOLDER.glob("*.csv.gz"), key=lambda path: path.stat().st_size)
    return [path.name.removesuffix(".csv.gz") for path in found]


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every split of every table."""
    for number in plan.seeds:
        for name in QUICK if plan.quick else names():
            for method in METHODS:
                yield Cell(method, number, {"data": name})


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Fit one split and score it; seeds are numbered in the order of the protocol."""
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = table(cell.data["data"])
    seed = SEEDS[cell.seed % len(SEEDS)]
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.75, random_state=seed)
    if len(y) > MOST_ROWS:
        some = np.random.default_rng(seed).choice(len(y), MOST_ROWS, replace=False)
        X, y = X[some], y[some]
    if cell.method != "raw":
        of_inputs, of_response = StandardScaler().fit(X), StandardScaler().fit(y[:, None])
        X, X_test = of_inputs.transform(X), of_inputs.transform(X_test)
        y, y_test = (of_response.transform(v[:, None])[:, 0] for v in (y, y_test))
    began = perf_counter()
    if cell.method == "ridge":
        model: Any = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 22))).fit(X, y)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SparsePolynomialRegressorCV(time_limit=time_limit).fit(X, y)
    seconds = perf_counter() - began
    measured = {
        "R2": r2_score(y_test, model.predict(X_test)),
        "train_R2": r2_score(y, model.predict(X)),
        "seconds": seconds,
        "n": len(y),
        "p": X.shape[1],
    }
    return measured if cell.method == "ridge" else measured | _described(model, float(np.std(y)))


def _described(model: SparsePolynomialRegressorCV, scale: float) -> dict[str, Any]:
    from sympy import preorder_traversal

    formula, solution = model.polynomial_, model.solution_
    return {
        "nodes": sum(1 for _ in preorder_traversal(formula.to_sympy())),
        "terms": len(formula),
        "degree": formula.degree,
        "center": int(formula.shifts is not None),
        "clamp": int(formula.ranges is not None),
        "gamma": model.gamma_,
        "refit_gamma": model.refit_gamma_,
        "validation": -model.best_score_ / scale,
        "gap": solution.gap,
        "proved": int(solution.status == "optimal"),
    }


def published() -> dict[str, dict[str, str]]:
    """Return the published medians by table."""
    import csv

    with (FOLDER / "published.csv").open() as file:
        return {row["table"]: row for row in csv.DictReader(file)}


def medians(rows: Sequence[Row], method: str, column: str) -> dict[str, float]:
    """Return the median over the splits by table."""
    mine = where(list(rows), method=method)
    by_table = {name: numbers(where(mine, data=name), column) for name in {r["data"] for r in mine}}
    return {name: median(values) for name, values in by_table.items() if values}


def standing(rows: Sequence[Row], chosen: list[str]) -> list[list[str]]:
    """Return a line for each method: medians over some tables of the medians over the splits."""
    lines = []
    for method in METHODS:
        mine = [row for row in where(list(rows), method=method) if row["data"] in chosen]
        if not mine:
            continue
        each = {column: medians(mine, method, column) for column in ("R2", "nodes", "seconds")}
        cells = [f"{median(v.values()):.3g}" if v else NOTHING for v in each.values()]
        proved, ridge = numbers(mine, "proved"), {}
        for row in where(list(rows), method="ridge"):
            ridge[row["data"], row["seed"]] = float(row["R2"])
        behind = [float(r["R2"]) < ridge.get((r["data"], r["seed"]), -9.0) - BEHIND for r in mine]
        worst = min(numbers(mine, "R2"))
        share = f"{100 * sum(proved) / len(proved):.0f} %" if proved else NOTHING
        failed = f"{100 * sum(behind) / len(behind):.1f} %"
        lines.append([method, str(len(mine)), *cells, share, failed, f"{worst:.2f}"])
    known = published()
    for method in PUBLISHED:
        values = [known[name] for name in chosen if known.get(name, {}).get(f"{method}_R2")]
        if values:
            r2 = median(float(row[f"{method}_R2"]) for row in values)
            size = [float(row[f"{method}_size"]) for row in values if row.get(f"{method}_size")]
            nodes = f"{median(size):.3g}" if size else NOTHING
            lines.append([f"{method} (published)", "10 each", f"{r2:.3g}", nodes, *[NOTHING] * 4])
    return lines


def summary(rows: list[Row], *, friedman: bool, seen: bool) -> str:
    """Return the table of one kind of tables: Friedman's or others, seen for settings or not."""
    there = sorted({row["data"] for row in rows})
    chosen = [n for n in there if ("fri_" in n) == friedman and chosen_on(n) == seen]
    header = ["method", "fits", "R2", "nodes", "seconds", "proved", "behind ridge", "worst R2"]
    return markdown(header, standing(rows, chosen)) if chosen else NOTHING


EXPERIMENT = Experiment(
    name="srbench",
    parameters=("data",),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=10,
    first_seed=0,
    time_limit=60.0,
    tables={
        "unseen": lambda rows: summary(rows, friedman=False, seen=False),
        "unseen-friedman": lambda rows: summary(rows, friedman=True, seen=False),
        "seen": lambda rows: summary(rows, friedman=False, seen=True),
        "seen-friedman": lambda rows: summary(rows, friedman=True, seen=True),
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
