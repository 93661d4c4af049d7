"""SRBench's black-box tables by the public protocol, with nothing set but the time limit.

    python -m experiments.srbench --quick
    python -m experiments.srbench --seeds 10 --jobs 2

Tables, ``NAME.csv.gz`` with the response in the column ``target``, are read from the folders named
by POLYSHARP_SRBENCH (several with the separator of PATH), by default ``shared/data/srbench`` beside
the project.  ``srbench_published.csv`` has the published medians of other methods (R2 on held-out
rows, nodes of the expression), from ``docs/csv/blackbox_results_datasets.csv`` of cavalab/srbench.
``train_test_split`` splits each table 75/25 with the ten public seeds.  X and y are standardised on
at most 10,000 training rows.

    default    SparsePolynomialRegressorCV(time_limit=60)
    raw        the same, X and y as they are
    ridge      scikit-learn's RidgeCV on standardised inputs

Settings of the search over budgets were chosen on ``SETTINGS``; other tables are reported apart.
Seconds, and the limit, are those of the processor: other work on a machine does not change them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, markdown, numbers, where
from polysharp import SparsePolynomialRegressorCV
from polysharp.time_budget import TimeBudget

BESIDE = str(Path(__file__).parent.parent.parent / "shared" / "data" / "srbench")
FOLDERS = [Path(f) for f in os.environ.get("POLYSHARP_SRBENCH", BESIDE).split(os.pathsep)]
# The numbers of PMLB that the names of the tables begin with.
SETTINGS = (
    1028, 1089, 1193, 1199, 1201, 192, 210, 228, 229, 230, 294, 4544, 485, 503, 505, 522, 527,
    537, 542, 547, 556, 557, 562, 564, 573, 574, 579, 581, 582, 583, 588, 589, 591, 598, 599,
    601, 603, 604, 606, 608, 612, 613, 616, 617, 624, 626, 633, 635, 641, 644, 645, 646, 647,
    648, 650, 654, 656, 657, 658, 659, 665, 687, 690, 706,
)  # fmt: skip
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
    number = name.partition("_")[0]
    return number.isdigit() and int(number) in SETTINGS


@cache
def table(name: str) -> tuple[Any, Any]:
    """Read inputs and response of a table."""
    import pandas as pd

    (path,) = (f / f"{name}.csv.gz" for f in FOLDERS if (f / f"{name}.csv.gz").exists())
    frame = pd.read_csv(path)
    return frame.drop(columns="target").to_numpy(dtype=float), frame["target"].to_numpy(dtype=float)


def names() -> list[str]:
    """Return the names of the tables that are there, small ones first."""
    every = (path for folder in FOLDERS for path in folder.glob("*.csv.gz"))
    found = sorted(every, key=lambda path: path.stat().st_size)
    return [path.name.removesuffix(".csv.gz") for path in found]


@contextmanager
def processor_time() -> Iterator[None]:
    """Let every time budget that begins inside count the seconds of the processor."""
    usual = TimeBudget.__init__.__defaults__
    TimeBudget.__init__.__defaults__ = (None, None, process_time)
    try:
        yield
    finally:
        TimeBudget.__init__.__defaults__ = usual


def warm_up() -> None:
    """Load and compile everything once."""
    X = np.random.default_rng(0).standard_normal((150, 11))
    SparsePolynomialRegressorCV(time_limit=10.0).fit(X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]))


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
    began = process_time()
    if cell.method == "ridge":
        model: Any = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 22))).fit(X, y)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with processor_time():
                model = SparsePolynomialRegressorCV(time_limit=time_limit).fit(X, y)
    seconds = process_time() - began
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

    with Path(__file__).with_name("srbench_published.csv").open() as file:
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


def opening(rows: list[Row]) -> str:
    """Say in two sentences how the default does on tables that no setting was chosen on."""
    blind = [row for row in rows if not chosen_on(row["data"])]
    said = []
    for friedman, kind in (
        (False, "tables that are not Friedman's"),
        (True, "of Friedman's tables"),
    ):
        chosen = sorted({row["data"] for row in blind if ("fri_" in row["data"]) == friedman})
        lines = [line for line in standing(blind, chosen) if line[0] == "default"] if chosen else []
        for _, fits, r2, nodes, seconds, proved, behind, worst in lines:
            said.append(
                f"In {fits} fits of {len(chosen)} {kind}, none of which had a part in its making, "
                f"the default has a median R2 of {r2} with {nodes} nodes in {seconds} s of one "
                f"core; {proved} of the formulas are proved, {behind} of the fits are behind ridge "
                f"by more than {BEHIND} and the least R2 is {worst}."
            )
    return " ".join(said)


EXPERIMENT = Experiment(
    name="srbench",
    parameters=("data",),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=10,
    first_seed=0,
    time_limit=60.0,
    warm_up=warm_up,
    opening=opening,
    tables={
        "unseen": lambda rows: summary(rows, friedman=False, seen=False),
        "unseen-friedman": lambda rows: summary(rows, friedman=True, seen=False),
        "seen": lambda rows: summary(rows, friedman=False, seen=True),
        "seen-friedman": lambda rows: summary(rows, friedman=True, seen=True),
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
